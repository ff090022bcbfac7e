#include "analysis/vector.h"

#include <stdlib.h>

#include "base/memory.h"

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
    if (!data) return; /* and a device that is closed by now is not asked */
    if (s->device)
        s->device->operations->device->release(s->device, data);
    else
        free(data);
}

zest_status zest_vector_check(const zest_vector_space *s, zest_error *error) {
    if (!s->device || !s->device->problem[0]) return ZEST_OK;
    zest_status status = zest_error_set(error, ZEST_ERROR_MEMORY, "%s", s->device->problem);
    s->device->problem[0] = 0;
    return status;
}

zest_status zest_vector_no_room(const zest_vector_space *s, const char *what, double bytes,
                                zest_error *error) {
    zest_status status = zest_vector_check(s, error);
    return status ? status : zest_error_memory(error, what, bytes < 9e18 ? (size_t)bytes : (size_t)-1);
}
