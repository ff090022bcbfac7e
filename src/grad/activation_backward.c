/* Activations. y = act(x): dx = act'(x) dy. Gated, y = act(x) up: dx = act'(x) up dy, d_up = act(x) dy. */
#include "grad/plain.h"

#include "backend/cpu/vector_plain.h"

static inline vec v_step(vec x) { return x > 0 ? 1.0f : 0.0f; }
#include "grad/slopes.h"

void zest_plain_activate(float *out, const float *x, const float *up, size_t count,
                         zest_activation activation, int threads, zest_scratch *scratch) {
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i++) {
        float y = f_activate(x[i], activation);
        out[i] = up ? y * up[i] : y;
    }
}

void zest_plain_activate_backward(float *d, float *d_up, const float *x, const float *up, size_t count,
                                  zest_activation activation, int threads, zest_scratch *scratch) {
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i++) {
        float dy = d[i];
        if (up) d_up[i] = f_activate(x[i], activation) * dy;
        d[i] = f_slope(x[i], activation) * (up ? up[i] * dy : dy);
    }
}
