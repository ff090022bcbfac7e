/* For tests that write files: a temporary folder for one test, made before it and removed after it. */
#ifndef ZEST_TESTS_TEMP_FOLDER_H
#define ZEST_TESTS_TEMP_FOLDER_H

#include <stdio.h>

#include "tests/support.h"

static char test_temp_folder[64];

static inline int make_temp_folder(void **state) {
    (void)state;
    test_folder(test_temp_folder);
    return 0;
}

static inline int remove_temp_folder(void **state) {
    (void)state;
    test_remove(test_temp_folder);
    return 0;
}

#define IN_TEMP_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_temp_folder, remove_temp_folder)

/* A path inside, which lasts for some further calls. */
static inline const char *temp_path(const char *name) {
    static char paths[16][400];
    static int next;
    char *out = paths[next++ % 16];
    snprintf(out, 400, "%s/%s", test_temp_folder, name);
    return out;
}

#endif
