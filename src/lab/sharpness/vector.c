/* Vectors as long as the parameters: stored as floats, summed as doubles, in host memory; dispatch to the
 * device's operations. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/sharpness/sharpness_internal.h"
#include "optim/lanes.h"

const zest_vector_table *zest_vector_operations(const zest_vector_space *s) {
#ifdef ZEST_CUDA
    if (s->device) return &zest_vector_cuda;
#endif
    (void)s;
    return &zest_vector_host;
}

static void *make(const zest_vector_space *s, size_t bytes) {
    return s->device ? s->device->operations->device->allocate(s->device, bytes) : zest_memory_new(bytes);
}

float *zest_vector_floats(const zest_vector_space *s, size_t vectors) {
    return make(s, vectors * s->count * sizeof(float));
}

double *zest_vector_doubles(const zest_vector_space *s, size_t vectors) {
    return make(s, vectors * s->count * sizeof(double));
}

void zest_vector_free(const zest_vector_space *s, void *data) {
    if (!data) return; /* do not call a device that may be closed by now */
    if (s->device)
        s->device->operations->device->release(s->device, data);
    else
        free(data);
}

zest_status zest_vector_check(const zest_vector_space *s, zest_error *error) {
    return s->device && s->device->error.status ? zest_device_take_error(s->device, error) : ZEST_OK;
}

zest_status zest_vector_no_memory(const zest_vector_space *s, const char *what, double bytes,
                                  zest_error *error) {
    zest_status status = zest_vector_check(s, error);
    return status ? status : zest_error_memory(error, what, bytes < 9e18 ? (size_t)bytes : (size_t)-1);
}

/* ---- Host implementation ---- */

enum { MIN_BLOCK = 65536, MAX_BLOCKS = 1024 };
enum { CHUNK = 128 };  /* elements of all vectors that are rotated at a time */
enum { SLICE = 4096 }; /* elements of noise or parameters at a time */

static int threads_of(const zest_vector_space *s) { return zest_direction_threads(s->threads); }

/* ---- Sums ---- */

typedef double block_sum(const void *a, const void *b, size_t first, size_t end);

static double dot_block(const void *a, const void *b, size_t first, size_t end) {
    const float *v = a;
    const double *w = b;
    double sum[4] = {0};
    size_t i = first;
    for (; i + 4 <= end; i += 4)
        for (size_t j = 0; j < 4; j++) sum[j] += (double)v[i + j] * w[i + j];
    for (; i < end; i++) sum[0] += (double)v[i] * w[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static double square_block(const void *a, const void *b, size_t first, size_t end) {
    const double *w = a;
    double sum = 0;
    (void)b;
    for (size_t i = first; i < end; i++) sum += w[i] * w[i];
    return sum;
}

static double distance_block(const void *a, const void *b, size_t first, size_t end) {
    const double *x = a, *y = b;
    double sum = 0;
    for (size_t i = first; i < end; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sum;
}

static double sum_blocks(const zest_vector_space *s, block_sum *block, const void *a, const void *b) {
    double sums[MAX_BLOCKS], sum = 0;
    size_t count = s->count, size = (count + MAX_BLOCKS - 1) / MAX_BLOCKS;
    if (size < MIN_BLOCK) size = MIN_BLOCK;
    int64_t blocks = (int64_t)((count + size - 1) / size);
    if (blocks == 1) return block(a, b, 0, count);
#pragma omp parallel for schedule(static) num_threads(threads_of(s))
    for (int64_t i = 0; i < blocks; i++) {
        size_t first = (size_t)i * size;
        sums[i] = block(a, b, first, count - first < size ? count : first + size);
    }
    for (int64_t i = 0; i < blocks; i++) sum += sums[i];
    return sum;
}

static double dot(const zest_vector_space *s, const float *v, const double *w) {
    return sum_blocks(s, dot_block, v, w);
}

static double norm(const zest_vector_space *s, const double *w) {
    return sqrt(sum_blocks(s, square_block, w, NULL));
}

static double distance(const zest_vector_space *s, const double *a, const double *b) {
    return sqrt(sum_blocks(s, distance_block, a, b));
}

static double square(const zest_vector_space *s, const float *v) { return s->ops->square_sum(v, s->count); }

/* ---- Element-wise operations ---- */

static void clear(const zest_vector_space *s, void *x, size_t size) { memset(x, 0, s->count * size); }

static void add(const zest_vector_space *s, double *w, double c, const float *v) {
#pragma omp parallel for schedule(static) num_threads(threads_of(s)) if (s->count > MIN_BLOCK)
    for (size_t i = 0; i < s->count; i++) w[i] += c * (double)v[i];
}

static void store(const zest_vector_space *s, float *v, double c, const double *w) {
#pragma omp parallel for schedule(static) num_threads(threads_of(s)) if (s->count > MIN_BLOCK)
    for (size_t i = 0; i < s->count; i++) v[i] = (float)(c * w[i]);
}

static void scale(const zest_vector_space *s, float *v, float c) { s->ops->scale_f32(v, c, s->count); }

static void shift(const zest_vector_space *s, float *v, double c, const float *u) {
#pragma omp parallel for schedule(static) num_threads(threads_of(s)) if (s->count > SLICE)
    for (size_t i = 0; i < s->count; i++) v[i] = (float)((double)v[i] + c * (double)u[i]);
}

static void copy(const zest_vector_space *s, float *to, const float *from) {
    memmove(to, from, s->count * sizeof *to);
}

/* ---- Noise and parameters ---- */

static void fill(const zest_vector_space *s, zest_noise_fill *noise, float *v, uint64_t seed) {
    int64_t slices = (int64_t)((s->count + SLICE - 1) / SLICE);
#pragma omp parallel for schedule(static) num_threads(threads_of(s)) if (s->count > MIN_BLOCK)
    for (int64_t i = 0; i < slices; i++) {
        size_t first = (size_t)i * SLICE, left = s->count - first;
        noise(v + first, seed, first, left < SLICE ? left : SLICE);
    }
}

static void normal(const zest_vector_space *s, float *v, uint64_t seed) {
    fill(s, s->ops->noise->normal, v, seed);
}

static void sign(const zest_vector_space *s, float *v, uint64_t seed) {
    fill(s, s->ops->noise->sign, v, seed);
}

static void read_all(const zest_vector_space *s, const zest_params *params, float *v) {
    for (size_t t = 0; t < params->count; t++) {
        const zest_tensor *tensor = &params->tensors[t];
        size_t size = zest_dtype_size(tensor->dtype);
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for schedule(static) num_threads(threads_of(s)) if (tensor->count > MIN_BLOCK)
        for (int64_t i = 0; i < slices; i++) {
            uint64_t first = (uint64_t)i * SLICE, left = tensor->count - first;
            (void)zest_dtype_to_float(tensor->dtype, (const char *)tensor->data + first * size,
                                      left < SLICE ? (size_t)left : SLICE, v + tensor->first + first);
        }
    }
}

/* ---- Rotation ---- */

/* One chunk of all vectors; out: `count` chunks. */
static void rotate_chunk(const zest_vector_space *s, const zest_vector_rotation *job, size_t first,
                         double *out) {
    size_t d = s->count, length = d - first < CHUNK ? d - first : CHUNK;
    memset(out, 0, job->count * CHUNK * sizeof *out);
    for (size_t i = 0; i < job->vectors; i++)
        for (size_t k = 0; k < job->count; k++) {
            const float *from = job->basis + i * d + first;
            double y = job->rotation[i * job->count + k];
            for (size_t e = 0; e < length; e++) out[k * CHUNK + e] += y * (double)from[e];
        }
    for (size_t k = 0; k < job->count; k++)
        for (size_t e = 0; e < length; e++) job->basis[k * d + first + e] = (float)out[k * CHUNK + e];
}

static int rotate(const zest_vector_space *s, const zest_vector_rotation *job) {
    int threads = threads_of(s);
    double *buffers = malloc((size_t)threads * job->count * CHUNK * sizeof *buffers);
    if (!buffers) return -1;
    int64_t chunks = (int64_t)((s->count + CHUNK - 1) / CHUNK);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < chunks; c++)
        rotate_chunk(s, job, (size_t)c * CHUNK, buffers + (size_t)omp_get_thread_num() * job->count * CHUNK);
    free(buffers);
    return 0;
}

const zest_vector_table zest_vector_host = {dot,   norm,  distance, square, clear, add,      store,
                                            scale, shift, copy,     normal, sign,  read_all, rotate};
