/* Lanes: perturbed copies of the parameters, described by (direction, scale) and made on the fly. */
#ifndef ZEST_CORE_LANES_H
#define ZEST_CORE_LANES_H

#include "backend/ops.h"
#include "base/error.h"
#include "params/params.h"

/* Lanes 2i and 2i+1 are x + rho v_i and x - rho v_i; behind the pairs, if has_center, x itself. */
struct zest_lanes {
    const zest_ops *ops;
    const zest_params *params;
    const zest_direction *directions; /* one per pair */
    size_t pairs;
    double rho;
    int has_center;
};

/* Elements first .. first+count-1 of one tensor in a lane, into out of the tensor's type, which is F32 or
 * F64: lanes of 16-bit weights are made inside the operations of a forward pass (backend/forward.h). */
void zest_lanes_read_tensor(const zest_lanes *lanes, size_t lane, const zest_tensor *tensor, uint64_t first,
                            size_t count, void *out);
/* The whole of it, by several threads. */
void zest_lanes_fill_tensor(const zest_lanes *lanes, size_t lane, const zest_tensor *tensor, int threads,
                            void *out);

#endif
