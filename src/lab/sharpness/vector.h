/* Long vectors: kept as floats, worked on as doubles, in the host's memory or in a device's. Sums run over
 * blocks that depend on the length alone and are added in order, so a result has the same bits for any number
 * of threads; a device has blocks of its own.
 *
 * On a device work is queued, and what fails there shows in zest_vector_check; sums are then NaN. */
#ifndef ZEST_LAB_SHARPNESS_VECTOR_H
#define ZEST_LAB_SHARPNESS_VECTOR_H

#include "kernels/device.h"
#include "kernels/ops.h"

typedef struct {
    size_t count; /* numbers of a vector */
    const zest_vector_ops *ops;
    int threads;         /* 0: all cores */
    zest_device *device; /* whose memory the vectors are in; NULL: the host's */
} zest_vector_space;

/* basis[k] = sum over i of turn[i·count + k] basis[i], for k < count <= vectors: in place, the vectors one
 * behind the other. */
typedef struct {
    float *basis;
    const double *turn; /* in the host's memory */
    size_t vectors, count;
} zest_vector_rotation;

typedef struct {
    double (*dot)(const zest_vector_space *s, const float *v, const double *w);
    double (*norm)(const zest_vector_space *s, const double *w);
    double (*distance)(const zest_vector_space *s, const double *a, const double *b);
    double (*square)(const zest_vector_space *s, const float *v);
    void (*clear)(const zest_vector_space *s, void *x, size_t size);
    void (*add)(const zest_vector_space *s, double *w, double c, const float *v);
    void (*store)(const zest_vector_space *s, float *v, double c, const double *w);
    void (*scale)(const zest_vector_space *s, float *v, float c);
    void (*shift)(const zest_vector_space *s, float *v, double c, const float *u);
    void (*copy)(const zest_vector_space *s, float *to, const float *from);
    void (*normal)(const zest_vector_space *s, float *v, uint64_t seed);
    void (*sign)(const zest_vector_space *s, float *v, uint64_t seed);
    void (*read)(const zest_vector_space *s, const zest_params *params, float *v);
    int (*turn)(const zest_vector_space *s, const zest_vector_rotation *job);
} zest_vector_table;

/* The operations of a space:
 *     dot v·w, norm |w|, distance |a - b|, square |v|^2
 *     clear x = 0 (size: of a number), add w += c v, store v = c w, scale v = c v, shift v += c u, copy
 *     normal, sign: noise, in the order of the numbers
 *     read: parameters as floats, in the order of their numbers
 *     turn: see above; -1: memory is short */
const zest_vector_table *zest_vector_operations(const zest_vector_space *s);

/* Memory for that many vectors there; NULL: there is none. */
float *zest_vector_floats(const zest_vector_space *s, size_t vectors);
double *zest_vector_doubles(const zest_vector_space *s, size_t vectors);
void zest_vector_free(const zest_vector_space *s, void *data); /* NULL: nothing happens */
/* What went wrong on the device so far; ZEST_OK: nothing. */
zest_status zest_vector_check(const zest_vector_space *s, zest_error *error);
/* The status of memory that was not to be had. */
zest_status zest_vector_no_room(const zest_vector_space *s, const char *what, double bytes,
                                zest_error *error);

/* vector.c, lab/sharpness/cuda/vector.cu */
extern const zest_vector_table zest_vector_host, zest_vector_cuda;

#endif
