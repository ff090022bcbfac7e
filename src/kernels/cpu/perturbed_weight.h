/* Runs of weights as the lanes see them, perturbed. Include a simd_*.h first. */
#ifndef ZEST_KERNELS_CPU_PERTURBED_WEIGHT_H
#define ZEST_KERNELS_CPU_PERTURBED_WEIGHT_H

#include "io/gguf.h"
#include "kernels/cpu/simd_rows.h"
#include "kernels/cpu/ops_cpu.h"

enum { NOISE_RUN = 256 }; /* elements whose noise is drawn in one go */

static inline vec widen_part(zest_dtype dtype, const void *p, size_t count) {
    float padded[WIDTH] = {0};
    if (count >= WIDTH) return v_widen(dtype, p);
    if (count) memcpy(padded, p, count * zest_dtype_size(dtype));
    return v_widen(dtype, padded);
}

/* `count` elements from `element` on, for every lane. */
static void weight_values(const zest_weight *weight, const zest_perturbation *p, size_t element, size_t count,
                          float *const out[2]) {
    if (weight->block_type) {
        zest_gguf_read_blocks(weight->block_type, zest_weight_at(weight, element), count, out[0]);
        if (p->lanes > 1) memcpy(out[1], out[0], count * sizeof *out[0]);
        return;
    }
    float z[NOISE_RUN];
    int noisy = zest_weight_needs_noise(weight, p);
    for (size_t i = 0; i < count; i += NOISE_RUN) {
        size_t here = count - i < NOISE_RUN ? count - i : NOISE_RUN;
        if (noisy) zest_weight_noise(weight, p, &VECTOR_NOISE, element + i, here, z);
        for (size_t j = 0; j < here; j += WIDTH) {
            size_t part = part_of(here, j);
            vec w = widen_part(weight->dtype, zest_weight_at(weight, element + i + j), part);
            for (int l = 0; l < p->lanes; l++) {
                int perturbed = zest_weight_is_perturbed(weight, p, l);
                vec x = perturbed ? v_fma(v_set(p->scale[l]), load_some(z + j, part), w) : w;
                store_some(out[l] + i + j, part, x);
            }
        }
    }
}

#endif
