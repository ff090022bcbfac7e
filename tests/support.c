/* Shared by all tests: contexts, statistics, temporary files. */
#include "tests/support.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

zest_ctx *test_context(void) {
    zest_ctx *ctx = zest_ctx_new();
    assert_non_null(ctx);
    return ctx;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double test_ks(double *values, size_t n, double (*cdf)(double)) {
    double distance = 0, root = sqrt((double)n), p = 0;
    qsort(values, n, sizeof *values, ascending);
    for (size_t i = 0; i < n; i++) {
        double at = cdf(values[i]);
        distance = fmax(distance, fmax(at - (double)i / (double)n, (double)(i + 1) / (double)n - at));
    }
    double lambda = (root + 0.12 + 0.11 / root) * distance; /* Stephens' correction for finite n */
    if (lambda < 0.2) return 1;
    for (int j = 1; j <= 100; j++) p += (j % 2 ? 2 : -2) * exp(-2.0 * j * j * lambda * lambda);
    return p;
}

double test_normal_cdf(double x) { return 0.5 * erfc(-x / sqrt(2.0)); }
double test_uniform_cdf(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

char *test_folder(char buffer[64]) {
    const char *folder = getenv("TMPDIR");
    snprintf(buffer, 64, "%s/zest-test-XXXXXX", folder && strlen(folder) < 40 ? folder : "/tmp");
    assert_non_null(mkdtemp(buffer));
    return buffer;
}

void test_remove(const char *folder) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

const char *test_shared(const char *name, char buffer[512]) {
    const char *folder = getenv("ZEST_SHARED");
    if (!folder) return NULL;
    snprintf(buffer, 512, "%s/%s", folder, name);
    return access(buffer, R_OK) ? NULL : buffer;
}

size_t test_file_size(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (size_t)info.st_size;
}

void test_copy_file(const char *from, const char *to) {
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    char block[4096];
    size_t n;
    assert_true(in && out);
    while ((n = fread(block, 1, sizeof block, in))) assert_int_equal(fwrite(block, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

void test_put(const char *folder, const char *name, const char *text) {
    zest_error error = {0};
    char *path = zest_file_join(folder, name);
    assert_non_null(path);
    if (zest_file_write(path, text, strlen(text), &error)) fail_msg("%s", error.message);
    free(path);
}

char *test_get(const char *path) {
    zest_buffer file = {0};
    zest_error error = {0};
    if (zest_file_read(path, 1 << 26, &file, &error)) fail_msg("%s", error.message);
    assert_non_null(file.data);
    return file.data;
}
