/* Directions and lanes inside the library: with kernels and a number of threads, without a context. */
#ifndef ZEST_OPTIM_LANES_H
#define ZEST_OPTIM_LANES_H

#include "kernels/ops.h"
#include "base/error.h"
#include "io/tensor.h"

/* ---- Directions: v = gain z, made from a seed ---- */

/* zest_direction_init with explicit kernels; threads 0: all cores. The norm of z has the same bits for any number of
 * threads. */
zest_status zest_direction_make(const zest_vector_ops *ops, int threads, zest_direction *direction,
                                zest_distribution distribution, uint64_t seed, uint64_t dimension,
                                zest_error *error);

/* Elements whose squares one thread sums without interruption, and those whose noise it makes at a time.
 * Fixed: they decide the rounding of the norm, on every device. */
enum { ZEST_DIRECTION_BLOCK = 65536, ZEST_DIRECTION_SLICE = 2048 };
/* Sets the gain that puts z, with this |z|^2, on the sphere of radius sqrt(d). */
void zest_direction_normalize(zest_direction *direction, double square);

/* Raw noise z (v without its gain) of a slice. */
void zest_direction_raw(const zest_vector_ops *ops, const zest_direction *direction, uint64_t first,
                        size_t count, float *out);
/* The same for elements first .. of one tensor, by the law of its noise (rng/noise_law.h). */
void zest_direction_noise(const zest_vector_ops *ops, const zest_direction *direction,
                          const zest_tensor *tensor, uint64_t first, size_t count, float *out);

/* The number of threads of a parallel region: `threads`, or all cores for 0. */
int zest_direction_threads(int threads);

/* ---- Lanes: perturbed copies of the parameters, described by (direction, scale) and made on the fly ---- */

/* Lanes 2i and 2i+1 are x + rho v_i and x - rho v_i; after the pairs, if has_center, x itself. */
struct zest_lanes {
    const zest_vector_ops *ops;
    const zest_params *params;
    const zest_direction *directions; /* one per pair */
    size_t pairs;
    double rho;
    int has_center;
};

/* The whole tensor, by several threads. */
void zest_lanes_fill_tensor(const zest_lanes *lanes, size_t lane, const zest_tensor *tensor, int threads,
                            void *out);

#endif
