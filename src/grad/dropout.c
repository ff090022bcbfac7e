/* Dropout (Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, JMLR 2014), the kept elements scaled up:
 * y = m x, dx = m dy. The mask is a function of a key and the element's number, so the backward pass makes
 * the same one again. */
#include "grad/dropout.h"

#include <math.h>

#include "grad/plain.h"
#include "rng/seed.h"

enum { RUN = 512 };

zest_mask zest_dropout_mask(const zest_dropout *dropout, double rate, size_t layer, zest_dropout_site site) {
    zest_mask mask = {0, 0, 1.0f};
    if (!dropout || !(rate > 0)) return mask;
    double threshold = rate * 65536 + 0.5;
    mask.threshold = threshold < 65535 ? (uint32_t)threshold : 65535;
    mask.scale = (float)(65536.0 / (65536.0 - mask.threshold));
    mask.key = zest_seed(dropout->seed, layer, site);
    return mask;
}

void zest_plain_mask(const zest_noise *noise, const zest_mask *mask, uint64_t first, size_t count,
                     float *out) {
    uint16_t bits[RUN];
    for (size_t i = 0; i < count; i += RUN) {
        size_t here = count - i < RUN ? count - i : RUN;
        noise->round(bits, mask->key, first + i, here);
        for (size_t j = 0; j < here; j++) out[i + j] = bits[j] >= mask->threshold ? mask->scale : 0.0f;
    }
}

void zest_plain_drop(float *out, const float *x, const float *residual, size_t count, const zest_mask *mask,
                     int threads, zest_scratch *scratch) {
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += RUN) {
        float m[RUN];
        size_t here = count - i < RUN ? count - i : RUN;
        zest_plain_mask(&zest_noise_plain, mask, i, here, m);
        for (size_t j = i; j < i + here; j++)
            out[j] = residual ? fmaf(m[j - i], x[j], residual[j]) : m[j - i] * x[j];
    }
}
