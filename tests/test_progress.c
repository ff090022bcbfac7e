/* Progress lines: the bar, the counts and the time that is left, from a clock that the test sets; and what
 * reaches stderr when it is a file and when it is a terminal. */
#include <math.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/progress.h"
#include "tests/support.h"

static const char *line(const zest_progress *p, double now, double done, double total, const char *note,
                        size_t width) {
    static char text[512];
    zest_progress_line(p, now, done, total, note, width, text, sizeof text);
    return text;
}

static void test_durations(void **state) {
    (void)state;
    char text[32];
    const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0s"},          {-3, "0s"},        {59.4, "59s"},           {59.6, "1m00s"},
                 {130, "2m10s"},     {3599, "59m59s"},  {3600, "1h00m"},         {11100, "3h05m"},
                 {172799, "47h59m"}, {187200, "2d04h"}, {(double)INFINITY, "0s"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(zest_progress_duration(cases[i].seconds, text, sizeof text), cases[i].text);
}

static void test_lines(void **state) {
    (void)state;
    zest_progress p = {.label = "train", .unit = "steps", .active = 1, .terminal = 1, .stage = 100};
    /* 31 of 100 steps in 62 seconds: 69 more take 138 */
    assert_string_equal(line(&p, 162, 31, 100, "loss 0.5", 200),
                        "train  31 % [######--------------] 31/100 steps, 2m18s left, loss 0.5");
    assert_string_equal(line(&p, 162, 100, 100, NULL, 200),
                        "train 100 % [####################] 100/100 steps, 0s left");
    assert_string_equal(line(&p, 162, 7, 0, NULL, 200),
                        "train 7 steps"); /* no total: neither share nor time */
    /* a resumed run: 90 were there when the clock started, so 5 took the 10 seconds */
    p.first = 90;
    assert_string_equal(line(&p, 110, 95, 100, NULL, 200),
                        "train  95 % [###################-] 95/100 steps, 10s left");
    assert_string_equal(line(&p, 110, 90, 100, NULL, 200),
                        "train  90 % [##################--] 90/100 steps"); /* none yet: no guess */
    p.terminal = 0;
    assert_string_equal(line(&p, 110, 95, 100, "loss 2", 200),
                        "zest: train: 95 of 100 steps (95 %), 10s left, loss 2");
    zest_progress bytes = {.label = "model", .unit = "bytes", .stage = 0};
    assert_string_equal(line(&bytes, 2, 3 << 20, 12 << 20, NULL, 200),
                        "zest: model: 3.0 of 12.0 MiB (25 %), 1.5 MiB/s, 6s left");
}

static void test_strange_text(void **state) {
    (void)state;
    zest_progress p = {.label = "a\033[2Jb", .unit = "x"};
    assert_string_equal(line(&p, 0, 1, 0, "c\nd", 200), "zest: a?[2Jb: 1 x, c?d");
    /* a cut does not split a character: the last of these bytes is inside the second e with an accent */
    p.label = "\303\251\303\251";
    assert_string_equal(line(&p, 0, 1, 0, NULL, 9), "zest: \303\251");
    assert_string_equal(line(&p, 0, 1, 0, NULL, 10), "zest: \303\251\303\251");
}

/* What two updates write: p with its command begun `ago` seconds before. */
static void written(int descriptor, double ago, char *out, size_t size, int from) {
    int kept = dup(STDERR_FILENO);
    fflush(stderr);
    assert_true(dup2(descriptor, STDERR_FILENO) >= 0);
    zest_progress p;
    zest_progress_begin(&p, "eval", "examples", 0);
    p.command -= ago;
    zest_progress_update(&p, 1, 4, NULL);
    zest_progress_update(&p, 2, 4, NULL); /* too soon for another line */
    zest_progress_end(&p);
    zest_progress_update(&p, 3, 4, NULL); /* it is over */
    fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    assert_int_equal(write(descriptor, "|", 1), 1); /* the end: a terminal delivers in chunks */
    if (from == descriptor) lseek(from, 0, SEEK_SET);
    size_t got = 0;
    while (!got || out[got - 1] != '|') {
        ssize_t more = read(from, out + got, size - 1 - got);
        assert_true(more > 0);
        got += (size_t)more;
    }
    out[got - 1] = '\0';
}

static void test_where_it_goes(void **state) {
    (void)state;
    char out[512], name[] = "/tmp/zest-progress-XXXXXX";
    int file = mkstemp(name), master, slave;
    assert_true(file >= 0);
    written(file, 0, out, sizeof out, file);
    assert_string_equal(out, ""); /* quick, and no terminal: nothing */
    assert_int_equal(ftruncate(file, 0), 0);
    lseek(file, 0, SEEK_SET);
    written(file, 6, out, sizeof out, file);
    assert_string_equal(out, "zest: eval: 1 of 4 examples (25 %), 0s left\n");
    close(file);
    unlink(name);
    setenv("TERM", "xterm", 1);
    struct winsize narrow = {.ws_row = 24, .ws_col = 30};
    master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && !grantpt(master) && !unlockpt(master));
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0 && !ioctl(slave, TIOCSWINSZ, &narrow));
    written(slave, 0, out, sizeof out, master);
    assert_string_equal(out, "\reval  25 % [#####------------\033[K\r\033[K"); /* 29 columns, then erased */
    setenv("TERM", "dumb", 1);
    written(slave, 6, out, sizeof out, master);
    assert_string_equal(out, "zest: eval: 1 of 4 examples (25 %), 0s left\r\n");
    close(master);
    close(slave);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_strange_text),
        cmocka_unit_test(test_where_it_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
