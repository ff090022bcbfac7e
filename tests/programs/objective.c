/* An objective for the tests of `zest minimize`: sum (x_i - 1)^2, with bad habits on request.
 *   objective [text|f64|f32 N] [crash-at M | hang-at M | nonsense-at M | nan-at M | two-answers | quit-at M] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_point(const char *format, size_t n, double *x) {
    float narrow;
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(format, "f64") && fread(&x[i], 8, 1, stdin) != 1) return 0;
        if (!strcmp(format, "f32")) {
            if (fread(&narrow, 4, 1, stdin) != 1) return 0;
            x[i] = narrow;
        }
        if (!strcmp(format, "text") && scanf("%lf", &x[i]) != 1) return 0;
    }
    return 1;
}

int main(int argc, char **argv) {
    const char *format = argc > 1 ? argv[1] : "text", *habit = argc > 3 ? argv[3] : "";
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 2;
    unsigned long when = argc > 4 ? strtoul(argv[4], NULL, 10) : 0, count = 0;
    double *x = malloc(n * sizeof *x);
    while (x && read_point(format, n, x)) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += (x[i] - 1) * (x[i] - 1);
        int now = ++count == when;
        if (now && !strcmp(habit, "crash-at")) abort();
        if (now && !strcmp(habit, "quit-at")) return free(x), 5;
        if (now && !strcmp(habit, "hang-at")) pause();
        if (now && !strcmp(habit, "nonsense-at"))
            printf("seven and a half\n");
        else if (now && !strcmp(habit, "nan-at"))
            printf("nan\n");
        else
            printf("%.17g\n", sum);
        if (!strcmp(habit, "two-answers")) printf("1\n");
        fflush(stdout);
    }
    free(x);
    return 0;
}
