/* Shared by all tests: contexts, statistics, temporary files. */
#ifndef ZEST_TESTS_SUPPORT_H
#define ZEST_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "zest.h"

/* Sanitized builds are slow, and so is valgrind (ZEST_SLOW_TESTS): long statistical loops are cut by this factor. */
#if defined(__SANITIZE_ADDRESS__) || defined(ZEST_SLOW_TESTS)
enum { TEST_SLOW = 20 };
#else
enum { TEST_SLOW = 1 };
#endif

zest_ctx *test_context(void); /* fails the test when there is none */

/* Kolmogorov-Smirnov: sorts values and returns the probability of a distance at least as large when they come
 * from cdf. */
double test_ks(double *values, size_t n, double (*cdf)(double));
double test_normal_cdf(double x);
double test_uniform_cdf(double x);

/* A new folder under /tmp, removed by test_remove. */
char *test_folder(char buffer[64]);
void test_remove(const char *folder);

/* A file of real models and data, which are no part of the repository: in the folder ZEST_SHARED. NULL: not there. */
const char *test_shared(const char *name, char buffer[512]);

size_t test_file_size(const char *path);
void test_copy_file(const char *from, const char *to);

/* A text as a file in a folder; and the text of a file, which is not empty, to be freed. */
void test_put(const char *folder, const char *name, const char *text);
char *test_get(const char *path);

#define assert_ok(ctx, call)                                                                        \
    do {                                                                                            \
        zest_status status_ = (call);                                                               \
        if (status_) fail_msg("%s: %s: %s", #call, zest_status_name(status_), zest_ctx_error(ctx)); \
    } while (0)
#define assert_says(ctx, words)                                             \
    do {                                                                    \
        if (!strstr(zest_ctx_error(ctx), words))                            \
            fail_msg("'%s' does not say '%s'", zest_ctx_error(ctx), words); \
    } while (0)
#define assert_close(a, b, tolerance)                                                                 \
    do {                                                                                              \
        double a_ = (a), b_ = (b), t_ = (tolerance);                                                  \
        if (!(fabs(a_ - b_) <= t_))                                                                   \
            fail_msg("%s = %.17g, %s = %.17g: differ by %g > %g", #a, a_, #b, b_, fabs(a_ - b_), t_); \
    } while (0)

#endif
