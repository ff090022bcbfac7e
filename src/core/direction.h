/* Directions for the rest of the core: with a backend and a number of threads, without a context. */
#ifndef ZEST_CORE_DIRECTION_H
#define ZEST_CORE_DIRECTION_H

#include "backend/ops.h"
#include "base/error.h"

/* zest_direction_init with explicit kernels; threads 0 means all cores. The sweep for the norm gives the same
 * bits for any number of threads. */
zest_status zest_direction_make(const zest_ops *ops, int threads, zest_direction *direction,
                                zest_distribution distribution, uint64_t seed, uint64_t dimension,
                                zest_error *error);

/* Elements whose squares one thread sums without interruption, and those whose noise it makes at a time.
 * Fixed: they decide the rounding of the norm, on every device. */
enum { ZEST_DIRECTION_BLOCK = 65536, ZEST_DIRECTION_SLICE = 2048 };
/* The gain of a direction on the sphere whose noise has this |z|^2. */
void zest_direction_stretch(zest_direction *direction, double square);

/* Raw noise z (v without its gain) of a slice. */
void zest_direction_raw(const zest_ops *ops, const zest_direction *direction, uint64_t first, size_t count,
                        float *out);

/* How many threads a parallel region should ask for. */
int zest_direction_threads(int threads);

#endif
