#include "methods/sweeps.h"

#include <stdlib.h>

#include "base/memory.h"
#include "core/direction.h"

zest_status zest_sweeps_open(zest_sweeps *s, const zest_params *params, const zest_ops *ops, int threads,
                             zest_device *device, zest_error *error) {
    *s = (zest_sweeps){.table = &zest_sweeps_host,
                       .params = *params,
                       .ops = ops,
                       .threads = zest_direction_threads(threads),
                       .device = device};
    if (!device) return ZEST_OK;
#ifdef ZEST_CUDA
    s->table = &zest_sweeps_cuda;
    return zest_sweeps_done(s, zest_sweeps_cuda_open(s), error);
#else
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "this zest was built without CUDA");
#endif
}

void zest_sweeps_close(zest_sweeps *s) {
    if (s->device) {
        s->device->operations->device->release(s->device, s->tensors);
        s->device->operations->device->release(s->device, s->sums);
    }
    s->tensors = s->sums = NULL;
}

float *zest_sweeps_new(const zest_sweeps *s, size_t count) {
    size_t bytes = count * sizeof(float);
    return s->device ? s->device->operations->device->allocate(s->device, bytes) : zest_memory_new(bytes);
}

void zest_sweeps_free(const zest_sweeps *s, float *x) {
    if (s->device)
        s->device->operations->device->release(s->device, x);
    else
        free(x);
}

zest_status zest_sweeps_done(const zest_sweeps *s, int failed, zest_error *error) {
    if (!failed) return ZEST_OK;
    if (!s->device) return zest_error_memory(error, "a method's step", 0);
    char *problem = s->device->problem;
    zest_status status = zest_error_set(error, ZEST_ERROR_MEMORY, "%s",
                                        *problem ? problem : "out of memory for a method on the device");
    *problem = 0;
    return status;
}
