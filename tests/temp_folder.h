/* For tests that write files: a folder for one test, made before it and removed behind it. */
#ifndef ZEST_TESTS_TEMP_FOLDER_H
#define ZEST_TESTS_TEMP_FOLDER_H

#include <stdio.h>

#include "tests/support.h"

static char test_place[64];

static inline int make_place(void **state) {
    (void)state;
    test_folder(test_place);
    return 0;
}

static inline int remove_place(void **state) {
    (void)state;
    test_remove(test_place);
    return 0;
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

/* A path inside, which lasts for some further calls. */
static inline const char *in_place(const char *name) {
    static char room[16][400];
    static int next;
    char *out = room[next++ % 16];
    snprintf(out, 400, "%s/%s", test_place, name);
    return out;
}

#endif
