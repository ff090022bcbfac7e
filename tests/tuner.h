/* What the tests of the tuner share. */
#ifndef ZEST_TESTS_TUNER_H
#define ZEST_TESTS_TUNER_H

#include <string.h>

#include "optim/tuner.h"
#include "tests/support.h"

/* Options as "name=value name=value". */
static inline void set_all(zest_ctx *ctx, zest_tuner *tuner, const char *text) {
    char copy[512], *next = copy, *piece;
    strcpy(copy, text);
    while ((piece = strsep(&next, " "))) {
        char *value = strchr(piece, '=');
        *value++ = '\0';
        assert_ok(ctx, zest_tuner_set(tuner, piece, value));
    }
}

#endif
