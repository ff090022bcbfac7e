/* The parameters of a run: named tensors that share one numbering of elements. Noise is a function of that
 * number, so an element's noise does not depend on which other tensors are looked at, or in what order. */
#ifndef ZEST_PARAMS_PARAMS_H
#define ZEST_PARAMS_PARAMS_H

#include <stddef.h>
#include <stdint.h>

#include "params/dtype.h"

typedef struct {
    const char *name;
    zest_dtype dtype;
    uint64_t first; /* number of its first element */
    uint64_t count;
    void *data;
} zest_tensor;

typedef struct {
    const zest_tensor *tensors;
    size_t count;
    uint64_t dimension; /* elements of all tensors together */
} zest_params;

/* A hash of names, types, sizes and every byte of the data: two sets of parameters with the same fingerprint
 * are the same. Also tells a wrong starting point from the right one. */
uint64_t zest_params_fingerprint(const zest_params *params);

#endif
