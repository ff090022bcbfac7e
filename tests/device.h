/* For tests that run a model on a GPU; without one, or in a build without CUDA, they are skipped. */
#ifndef ZEST_TESTS_DEVICE_H
#define ZEST_TESTS_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include "kernels/device.h"
#include "tests/support.h"

/* Before anything is loaded: a test that is skipped frees nothing. */
static inline void need_device(void) {
    zest_device *device;
    zest_error error = {0};
    if (zest_device_open(ZEST_DEVICE_CUDA, ZEST_COMPUTE_F32, &device, &error)) {
        if (getenv("ZEST_NEED_CUDA")) fail_msg("%s", error.message);
        skip();
    }
    zest_device_close(device);
}

/* Complaints are counted, so that one run shows all of them. */
static int complaints;
static inline void within(const char *name, const char *what, const char *compute, double error,
                          double allowed) {
    int bad = !(error <= allowed);
    if (bad || getenv("ZEST_VERBOSE"))
        printf("%-16s %-24s %-5s %.3g%s\n", name, what, compute, error, bad ? " is too much" : "");
    complaints += bad;
}

static inline void verdict(void) {
    int count = complaints;
    complaints = 0;
    assert_int_equal(count, 0);
}

#endif
