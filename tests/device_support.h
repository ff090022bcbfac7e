/* What the tests on a GPU share. Without one, or in a build without CUDA, they are skipped. */
#ifndef ZEST_TESTS_DEVICE_SUPPORT_H
#define ZEST_TESTS_DEVICE_SUPPORT_H

#include "tests/ops_support.h"

#include "kernels/device.h"

static const zest_compute device_computes[] = {ZEST_COMPUTE_F32, ZEST_COMPUTE_BF16, ZEST_COMPUTE_F16};
static const char *const device_names[] = {"cuda f32", "cuda bf16", "cuda f16"};

/* Relative rounding steps of the activations' dtype: results are rounded to it, and so are operands. */
static const double device_step[] = {6e-8, 4e-3, 5e-4};

static inline zest_device *device_open(zest_compute compute) {
    zest_device *device;
    zest_error error = {0};
    if (zest_device_open(ZEST_DEVICE_CUDA, compute, &device, &error)) {
        if (getenv("ZEST_VERBOSE")) printf("%s\n", error.message);
        if (getenv("ZEST_NEED_CUDA")) fail_msg("%s", error.message);
        skip();
    }
    return device;
}

static inline void device_check(zest_device *device, int failed) {
    if (failed)
        fail_msg("%s", device->error.status ? device->error.message : "the device failed without an error");
}

static inline zest_dtype device_dtype(const zest_device *device) {
    return device->compute == ZEST_COMPUTE_F32    ? ZEST_DTYPE_F32
           : device->compute == ZEST_COMPUTE_BF16 ? ZEST_DTYPE_BF16
                                                  : ZEST_DTYPE_F16;
}

/* Bytes on the device. */
static inline void *device_upload(zest_device *device, const void *from, size_t bytes) {
    const zest_device_table *table = device->operations->device;
    void *data = table->allocate(device, bytes);
    device_check(device, !data || table->upload(device, data, from, bytes));
    return data;
}

/* Floats as activations; the host's copy is rounded too, so that both sides see the same numbers. */
static inline void *device_upload_activations(zest_device *device, float *values, size_t count) {
    void *activations = malloc(count * device->element_size + 1);
    assert_non_null(activations);
    assert_int_equal(zest_dtype_from_float(device_dtype(device), values, count, activations), 0);
    assert_int_equal(zest_dtype_to_float(device_dtype(device), activations, count, values), 0);
    void *data = device_upload(device, activations, count * device->element_size);
    free(activations);
    return data;
}

static inline void device_download_activations(zest_device *device, const void *data, size_t count,
                                               float *values) {
    void *activations = malloc(count * device->element_size + 1);
    assert_non_null(activations);
    device_check(device, device->operations->device->download(device, activations, data,
                                                              count * device->element_size));
    assert_int_equal(zest_dtype_to_float(device_dtype(device), activations, count, values), 0);
    free(activations);
}

static inline void *device_download(zest_device *device, const void *from, size_t bytes) {
    void *out = malloc(bytes + 1);
    assert_non_null(out);
    device_check(device, device->operations->device->download(device, out, from, bytes));
    return out;
}

/* The largest magnitude, at least 1, of rows of `width` elements, `stride` apart. */
static inline double device_largest(const float *x, size_t count, size_t width, size_t stride) {
    double largest = 1;
    for (size_t i = 0; i < count; i++)
        if (i % stride < width) largest = fmax(largest, fabs((double)x[i]));
    return largest;
}

static inline zest_weight device_upload_weight(zest_device *device, const zest_weight *weight) {
    zest_weight out = *weight;
    if (weight->data)
        out.data = device_upload(device, weight->data,
                                 weight->rows * weight->columns * zest_dtype_size(weight->dtype));
    return out;
}

/* Mismatches are counted, so that one run shows all of them. */
static int device_mismatches;
static inline void device_assert_matches(void) {
    int mismatches = device_mismatches;
    device_mismatches = 0;
    assert_int_equal(mismatches, 0);
}

/* What no operation may overwrite is compared exactly, the rest within tolerance·max(1, |expected|). */
static inline void device_compare(const float *got, const float *expected, size_t rows, size_t width,
                                  size_t stride, double tolerance, const char *what) {
    for (size_t i = 0; i < rows * stride; i++) {
        double d = fabs((double)got[i] - (double)expected[i]),
               allowed = tolerance * fmax(1, fabs((double)expected[i]));
        if (i % stride >= width) allowed = 0;
        if (d <= allowed) continue;
        printf("%s: element %zu of row %zu is %.9g, should be %.9g (allowed %.3g)\n", what, i % stride,
               i / stride, (double)got[i], (double)expected[i], allowed);
        device_mismatches++;
        return;
    }
}

#endif
