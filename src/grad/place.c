#include "grad/place.h"

#include <string.h>

#include "core/direction.h"

enum { SLICE = 2048 };

void zest_place_read(const zest_place *place, const zest_ops *ops, const zest_tensor *tensor, uint64_t first,
                     size_t count, float *out) {
    if (place->point) {
        memcpy(out, place->point + tensor->first + first, count * sizeof *out);
        return;
    }
    size_t size = zest_dtype_size(tensor->dtype);
    (void)zest_dtype_to_float(tensor->dtype, (const char *)tensor->data + first * size, count, out);
    if (!place->direction || place->scale == 0) return;
    float c = (float)(place->scale * place->direction->gain), noise[SLICE];
    for (size_t i = 0; i < count; i += SLICE) {
        size_t here = count - i < SLICE ? count - i : SLICE;
        zest_direction_raw(ops, place->direction, tensor->first + first + i, here, noise);
        ops->fma_f32(out + i, out + i, c, noise, here);
    }
}
