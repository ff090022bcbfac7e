/* Shared by the tests of sweeps. */
#ifndef ZEST_TESTS_SWEEP_H
#define ZEST_TESTS_SWEEP_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "lab/sweep/sweep.h"
#include "tests/support.h"

static inline zest_sweep_plan plan_of(const char *text) {
    zest_sweep_grid grid;
    zest_sweep_plan plan;
    zest_error error = {0};
    if (zest_sweep_grid_read(&grid, text, "test", &error)) fail_msg("%s", error.message);
    if (zest_sweep_plan_make(&grid, &plan, &error)) fail_msg("%s", error.message);
    zest_sweep_grid_free(&grid);
    return plan;
}

#endif
