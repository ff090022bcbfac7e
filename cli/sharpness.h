/* What the files of `zest sharpness` share. */
#ifndef ZEST_CLI_SHARPNESS_H
#define ZEST_CLI_SHARPNESS_H

#include <stdio.h>

#include "run/sharpness.h"

/* The table for people. */
void zest_sharpness_print(const zest_sharpness_found *found, size_t count, FILE *out);

#endif
