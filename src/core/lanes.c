#include "core/lanes.h"

#include <string.h>

#include "core/direction.h"

/* Noise is made in slices that stay in the first cache. */
enum { SLICE = 2048, FEW = 8 };

size_t zest_lanes_count(const zest_lanes *lanes) { return 2 * lanes->pairs + (size_t)lanes->has_center; }

size_t zest_lanes_dimension(const zest_lanes *lanes) { return (size_t)lanes->params->dimension; }

static double scale_of(const zest_lanes *lanes, size_t lane) {
    if (lane >= 2 * lanes->pairs) return 0;
    return lane % 2 ? -lanes->rho : lanes->rho;
}

/* out = x + c z, where c = scale·gain is rounded once, so that a lane and its mirror image are exact
 * opposites. */
static void perturb(const zest_ops *ops, const zest_direction *direction, double c, const zest_tensor *tensor,
                    uint64_t first, size_t count, void *out) {
    float noise[SLICE];
    for (size_t done = 0; done < count; done += SLICE) {
        size_t here = count - done < SLICE ? count - done : SLICE;
        zest_direction_raw(ops, direction, tensor->first + first + done, here, noise);
        if (tensor->dtype == ZEST_DTYPE_F64)
            ops->fma_f64((double *)out + done, (const double *)tensor->data + first + done, c, noise, here);
        else
            ops->fma_f32((float *)out + done, (const float *)tensor->data + first + done, (float)c, noise,
                         here);
    }
}

void zest_lanes_read_tensor(const zest_lanes *lanes, size_t lane, const zest_tensor *tensor, uint64_t first,
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
    zest_lanes_read_tensor(lanes, lane, tensor, first, left < SLICE ? (size_t)left : SLICE,
                           (char *)out + first * zest_dtype_size(tensor->dtype));
}

void zest_lanes_fill_tensor(const zest_lanes *lanes, size_t lane, const zest_tensor *tensor, int threads,
                            void *out) {
    int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
    if (slices <= FEW) { /* a parallel region costs more than so little work */
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
    zest_lanes_read_tensor(lanes, lane, tensor, first, count, out);
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
