/* Momentum of the methods with forward passes only, without a vector of it.
 *
 *     m_n = sum over j < N of mu^j g_(n-j)          x -= lr m_n
 *
 * where g_n is the estimate of step n, a sum of k directions: its coefficients follow from the recorded losses, its
 * directions from their seeds. So nothing is kept but seeds and coefficients of N = momentum-steps steps, and an update
 * adds N k directions to x in place of k. It is SGD's m = mu m + g, cut off after N steps: what is left out is
 * mu^N of the sum. */
#include <stdlib.h>
#include <string.h>

#include "optim/step.h"

zest_status zest_momentum_init(zest_momentum *m, double mu, size_t steps, size_t k, zest_error *error) {
    *m = (zest_momentum){.mu = mu, .k = k, .steps = steps};
    if (mu == 0) return ZEST_OK;
    m->directions = calloc(steps * k, sizeof *m->directions);
    m->g = calloc(steps * k, sizeof *m->g);
    if (m->directions && m->g) return ZEST_OK;
    zest_momentum_free(m);
    return zest_error_memory(error, "the directions of --momentum", steps * k * sizeof *m->directions);
}

void zest_momentum_free(zest_momentum *m) {
    free(m->directions);
    free(m->g);
    m->directions = NULL;
    m->g = NULL;
}

void zest_momentum_add(zest_momentum *m, const zest_direction *directions, const double *g) {
    memcpy(m->directions, directions, m->k * sizeof *directions);
    memcpy(m->g, g, m->k * sizeof *g);
}

/* Slot 0 is the step in hand, slot j the one j steps before it, already times mu^j. */
void zest_momentum_keep(zest_momentum *m) {
    size_t held = m->past + 1 < m->steps ? m->past + 1 : m->steps - 1;
    memmove(m->directions + m->k, m->directions, held * m->k * sizeof *m->directions);
    memmove(m->g + m->k, m->g, held * m->k * sizeof *m->g);
    for (size_t i = m->k; i < (held + 1) * m->k; i++) m->g[i] *= m->mu;
    m->past = held;
}
