/* A device with memory of its own: what a table of operations (ops.h) needs besides the operations to run a
 * model there. Work is queued and runs in order; only download waits.
 *
 * A function that fails returns non-zero (or NULL), and the device keeps the first error until
 * zest_device_take_error hands it over. */
#ifndef ZEST_KERNELS_DEVICE_H
#define ZEST_KERNELS_DEVICE_H

#include "kernels/ops.h"
#include "base/error.h"
#include "io/tensor.h"

typedef enum { ZEST_DEVICE_CPU, ZEST_DEVICE_CUDA } zest_device_kind;

/* The common part; a backend's own device begins with it. */
struct zest_device {
    const zest_ops *operations;
    zest_compute compute;
    size_t element_size; /* bytes of an activation */
    size_t max_head_dim; /* of attention where the values are the keys */
    size_t multiprocessors;
    zest_error error; /* the first since the last zest_device_take_error; status ZEST_OK: none */
};

/* to[target[i]] = from[source[i]]: rows of `width` elements, in every lane. source, target: NULL for i. */
typedef struct {
    const void *from;
    void *to;
    size_t from_stride, to_stride, width, count;
    const uint32_t *source, *target;
    size_t lanes, from_lane, to_lane;
} zest_copy_rows;

/* (rows, heads, head_dim) to (rows, heads, kv_heads, head_dim): head h of a row goes to the position of its
 * key head, h / (heads / kv_heads), and the other positions are 0. back: the other way; the other positions
 * are not read. */
typedef struct {
    const void *from;
    void *to;
    size_t rows, heads, kv_heads, head_dim;
    int back;
    size_t lanes, from_lane, to_lane;
} zest_head_rows;

/* Logits of label words, all lanes: out[l] is (rows, count) in fp32. Only those rows of the head are read. */
typedef struct {
    zest_weight weight, bias;
    zest_perturbation perturbation;
    const void *h[2]; /* (rows, width) */
    size_t rows, width;
    const uint32_t *words;
    size_t count;
    float *out[2]; /* (rows, count) */
} zest_label_logits;

/* log-sum-exp of a row of logits, block by block. */
typedef struct {
    double max, sum; /* sum: of exp(logit - max) */
    double target;   /* logit of the token that should follow */
} zest_logit_sum;

typedef struct {
    float logit;
    uint32_t token;
} zest_logit_best;

/* A block of logits, (rows, count) in fp32: of words first, first + 1, ... A row begins with the block first
 * = 0. */
typedef struct {
    const float *logits;
    size_t rows, first, count;
    const uint32_t *targets; /* of each row, for sums */
} zest_logit_block;

/* One direction of an update: x = fma(c, z, x). exact: c before it was rounded, for noise of low rank. */
typedef struct {
    uint64_t seed;
    float c;
    int signs;
    double exact;
} zest_update_term;

/* Where a step's time goes. */
typedef enum {
    ZEST_PROFILE_PERTURB,   /* perturbed weights */
    ZEST_PROFILE_GEMM,      /* matrix products */
    ZEST_PROFILE_ATTENTION, /* with rotary positions */
    ZEST_PROFILE_NORM,
    ZEST_PROFILE_ELEMENTWISE, /* activations, gathers, copies */
    ZEST_PROFILE_LOSS,
    ZEST_PROFILE_UPDATE,
    ZEST_PROFILE_PARTS
} zest_profile_part;

typedef struct {
    double gemm_flops; /* a second, of a large product in the device's compute */
    double copy_bytes; /* a second, read and written */
    double normals;    /* a second */
} zest_device_peak;

typedef struct zest_device_table {
    void (*close)(zest_device *device);
    /* Bytes allocated now and, in *peak, at most; available: what can still be allocated, which depends on what other
     * programs do (0 with the device's error set when it cannot be found out); capacity: what this device or its limit allows when nobody else is there. How a model is computed
     * follows from the capacity alone: else a run's bits would depend on its neighbours. */
    size_t (*bytes_allocated)(const zest_device *device, size_t *peak);
    size_t (*available)(zest_device *device);
    size_t (*capacity)(const zest_device *device);
    const char *(*name)(const zest_device *device);

    void *(*allocate)(zest_device *device, size_t bytes);
    void (*release)(zest_device *device, void *data);
    /* `from` may be reused when it returns. */
    int (*upload)(zest_device *device, void *to, const void *from, size_t bytes);
    int (*download)(zest_device *device, void *to, const void *from, size_t bytes);
    /* A copy of a small table, valid until the next unstage. */
    const void *(*stage)(zest_device *device, const void *from, size_t bytes);
    int (*unstage)(zest_device *device);

    int (*copy_rows)(zest_device *device, const zest_copy_rows *args);
    int (*head_rows)(zest_device *device, const zest_head_rows *args);
    int (*label_logits)(zest_device *device, const zest_label_logits *args);
    int (*sum_logits)(zest_device *device, const zest_logit_block *block, zest_logit_sum *sums);
    int (*best_logits)(zest_device *device, const zest_logit_block *block, zest_logit_best *best);
    /* x = keep x, then the terms in order, then rounding: the bits of optim/step.c. */
    int (*update)(zest_device *device, const zest_params *params, const zest_update_term *terms, size_t count,
                  float keep, uint64_t rounding, int nearest);

    /* Profiler: on or off; seconds of each part since it was turned on; peak rates of the device. */
    int (*profile)(zest_device *device, int on);
    int (*profile_read)(zest_device *device, double seconds[ZEST_PROFILE_PARTS]);
    int (*peak)(zest_device *device, zest_device_peak *peak);
} zest_device_table;

/* *device is NULL on error: when this build or this machine has no such device. */
zest_status zest_device_open(zest_device_kind kind, zest_compute compute, zest_device **device,
                             zest_error *error);
void zest_device_close(zest_device *device);

/* After a call that failed: hands the device's error over, and the device has none. */
zest_status zest_device_take_error(zest_device *device, zest_error *error);

/* kernels/cuda/device.cu */
zest_status zest_cuda_open(zest_compute compute, zest_device **device, zest_error *error);

#endif
