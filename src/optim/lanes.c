/* Directions and lanes: see lanes.h. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "optim/lanes.h"
#include "optim/context.h"
#include "rng/normal.h"

/* Noise is made in slices that stay in the first cache. A tensor of few slices is filled by one thread: a parallel
 * region would cost more. */
enum { NORM_BLOCK = ZEST_DIRECTION_BLOCK, SLICE = ZEST_DIRECTION_SLICE, FEW = 8 };

/* ---- Directions ---- */

int zest_direction_threads(int threads) { return threads > 0 ? threads : omp_get_max_threads(); }

void zest_direction_raw(const zest_vector_ops *ops, const zest_direction *direction, uint64_t first,
                        size_t count, float *out) {
    zest_noise_fill *fill =
        direction->distribution == ZEST_RADEMACHER ? ops->noise->sign : ops->noise->normal;
    fill(out, direction->seed, first, count);
}

void zest_direction_noise(const zest_vector_ops *ops, const zest_direction *direction,
                          const zest_tensor *tensor, uint64_t first, size_t count, float *out) {
    int signs = direction->distribution == ZEST_RADEMACHER;
    ops->noise->by_law(&tensor->law, signs, out, direction->seed, tensor->first + first, count);
}

static double block_square_sum(const zest_vector_ops *ops, uint64_t seed, uint64_t first, uint64_t end) {
    float slice[SLICE];
    double sum = 0;
    for (uint64_t i = first; i < end; i += SLICE) {
        size_t count = end - i < SLICE ? (size_t)(end - i) : SLICE;
        ops->noise->normal(slice, seed, i, count);
        sum += ops->square_sum(slice, count);
    }
    return sum;
}

/* |z|^2 over all elements: sums of fixed blocks, added in order, whatever the number of threads. */
static zest_status square_norm(const zest_vector_ops *ops, int threads, uint64_t seed, uint64_t dimension,
                               double *norm, zest_error *error) {
    int64_t blocks = (int64_t)((dimension + NORM_BLOCK - 1) / NORM_BLOCK);
    if (blocks == 1) { /* a parallel region would cost more */
        *norm = block_square_sum(ops, seed, 0, dimension);
        return ZEST_OK;
    }
    double *sums = malloc((size_t)blocks * sizeof *sums);
    if (!sums) return zest_error_memory(error, "the norm of a direction", (size_t)blocks * sizeof *sums);
#pragma omp parallel for schedule(static) num_threads(zest_direction_threads(threads))
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t first = (uint64_t)b * NORM_BLOCK, end = first + NORM_BLOCK;
        sums[b] = block_square_sum(ops, seed, first, end < dimension ? end : dimension);
    }
    *norm = 0;
    for (int64_t b = 0; b < blocks; b++) *norm += sums[b];
    free(sums);
    return ZEST_OK;
}

/* The uniform distribution in the ball of R^d is the projection of the uniform distribution on the sphere of R^(d+2):
 * two further normals lengthen the vector before it is normalised. No power of a uniform number, so no libm. */
static double two_more_squares(uint64_t seed) {
    float extra[4];
    zest_normal4(seed, ZEST_STREAM_RADIUS, 0, extra);
    return (double)extra[0] * (double)extra[0] + (double)extra[1] * (double)extra[1];
}

zest_status zest_direction_make(const zest_vector_ops *ops, int threads, zest_direction *direction,
                                zest_distribution distribution, uint64_t seed, uint64_t dimension,
                                zest_error *error) {
    if (dimension == 0 || dimension > (uint64_t)1 << 60)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "a direction needs a dimension from 1 to 2^60");
    *direction = (zest_direction){seed, dimension, 1.0, distribution};
    if (distribution == ZEST_GAUSSIAN || distribution == ZEST_RADEMACHER) return ZEST_OK;
    if (distribution != ZEST_SPHERE && distribution != ZEST_BALL)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "no distribution has the number %d",
                              (int)distribution);
    double norm = 0;
    zest_status status = square_norm(ops, threads, seed, dimension, &norm, error);
    if (status) return status;
    if (distribution == ZEST_BALL) norm += two_more_squares(seed);
    zest_direction_normalize(direction, norm);
    return ZEST_OK;
}

void zest_direction_normalize(zest_direction *direction, double square) {
    direction->gain = square > 0 ? sqrt((double)direction->dimension / square) : 0;
}

zest_status zest_direction_init(zest_ctx *ctx, zest_direction *direction, zest_distribution distribution,
                                uint64_t seed, uint64_t dimension) {
    return zest_direction_make(ctx->ops, 0, direction, distribution, seed, dimension, zest_ctx_sink(ctx));
}

zest_status zest_direction_read(zest_ctx *ctx, const zest_direction *direction, uint64_t first, size_t count,
                                float *out) {
    if (first > direction->dimension || count > direction->dimension - first)
        return zest_error_set(
            zest_ctx_sink(ctx), ZEST_ERROR_ARGUMENT,
            "elements %llu and %zu further ones do not lie within the %llu of this direction",
            (unsigned long long)first, count, (unsigned long long)direction->dimension);
    zest_direction_raw(ctx->ops, direction, first, count, out);
    if (direction->gain != 1.0) ctx->ops->scale_f32(out, (float)direction->gain, count);
    return ZEST_OK;
}

/* ---- Lanes ---- */

size_t zest_lanes_count(const zest_lanes *lanes) { return 2 * lanes->pairs + (size_t)lanes->has_center; }

size_t zest_lanes_dimension(const zest_lanes *lanes) { return (size_t)lanes->params->dimension; }

static double scale_of(const zest_lanes *lanes, size_t lane) {
    if (lane >= 2 * lanes->pairs) return 0;
    return lane % 2 ? -lanes->rho : lanes->rho;
}

/* out = x + c z, where c = scale·gain is rounded once, so that a lane and its mirror image are exact
 * opposites. */
static void perturb(const zest_vector_ops *ops, const zest_direction *direction, double c,
                    const zest_tensor *tensor, uint64_t first, size_t count, void *out) {
    float noise[SLICE];
    for (size_t done = 0; done < count; done += SLICE) {
        size_t here = count - done < SLICE ? count - done : SLICE;
        zest_direction_noise(ops, direction, tensor, first + done, here, noise);
        if (tensor->dtype == ZEST_DTYPE_F64)
            ops->fma_f64((double *)out + done, (const double *)tensor->data + first + done, c, noise, here);
        else
            ops->fma_f32((float *)out + done, (const float *)tensor->data + first + done, (float)c, noise,
                         here);
    }
}

/* Elements first .. first+count-1 of one tensor in a lane, into out of the tensor's type, which is F32 or
 * F64: lanes of 16-bit weights are made inside the operations of a forward pass (kernels/ops.h). */
static void read_tensor(const zest_lanes *lanes, size_t lane, const zest_tensor *tensor, uint64_t first,
                        size_t count, void *out) {
    double scale = scale_of(lanes, lane);
    if (scale == 0) {
        size_t size = zest_dtype_size(tensor->dtype);
        memcpy(out, (const char *)tensor->data + first * size, count * size);
        return;
    }
    const zest_direction *direction = &lanes->directions[lane / 2];
    perturb(lanes->ops, direction, scale * direction->gain, tensor, first, count, out);
}

static void fill_slice(const zest_lanes *lanes, size_t lane, const zest_tensor *tensor, int64_t slice,
                       void *out) {
    uint64_t first = (uint64_t)slice * SLICE, left = tensor->count - first;
    read_tensor(lanes, lane, tensor, first, left < SLICE ? (size_t)left : SLICE,
                (char *)out + first * zest_dtype_size(tensor->dtype));
}

void zest_lanes_fill_tensor(const zest_lanes *lanes, size_t lane, const zest_tensor *tensor, int threads,
                            void *out) {
    int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
    if (slices <= FEW) {
        for (int64_t s = 0; s < slices; s++) fill_slice(lanes, lane, tensor, s, out);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(zest_direction_threads(threads))
    for (int64_t s = 0; s < slices; s++) fill_slice(lanes, lane, tensor, s, out);
}

static zest_status read(const zest_lanes *lanes, size_t lane, zest_dtype dtype, size_t first, size_t count,
                        void *out) {
    const zest_tensor *tensor = lanes->params->tensors;
    if (lanes->params->count != 1 || tensor->dtype != dtype || lane >= zest_lanes_count(lanes) ||
        first > tensor->count || count > tensor->count - first)
        return ZEST_ERROR_ARGUMENT;
    read_tensor(lanes, lane, tensor, first, count, out);
    return ZEST_OK;
}

zest_status zest_lanes_read_f32(const zest_lanes *lanes, size_t i, size_t first, size_t count, float *out) {
    return read(lanes, i, ZEST_DTYPE_F32, first, count, out);
}

zest_status zest_lanes_read_f64(const zest_lanes *lanes, size_t i, size_t first, size_t count, double *out) {
    return read(lanes, i, ZEST_DTYPE_F64, first, count, out);
}

zest_status zest_lanes_describe(const zest_lanes *lanes, size_t i, zest_direction *direction, double *scale) {
    if (i >= zest_lanes_count(lanes)) return ZEST_ERROR_ARGUMENT;
    if (scale) *scale = scale_of(lanes, i);
    if (direction)
        *direction = i < 2 * lanes->pairs
                         ? lanes->directions[i / 2]
                         : (zest_direction){.dimension = lanes->params->dimension, .gain = 0};
    return ZEST_OK;
}
