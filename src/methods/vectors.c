/* What the methods ask for: losses at places, and sweeps over all numbers. */
#include <math.h>
#include <stdlib.h>

#include "methods/method_internal.h"
#include "rng/seed.h"
#include "zest.h"

enum { ROUNDING_INDEX = (1 << ZEST_SEED_INDEX_BITS) - 1 };

zest_status zest_vectors_evaluate(zest_method_pass *pass, const zest_place *at, float *gradient,
                                  zest_grad_weigh *weigh, void *weigher, double *loss) {
    return pass->oracle->evaluate(pass->oracle->user, at, pass->report->evaluations++, gradient, weigh,
                                  weigher, loss, pass->error);
}

/* v of a direction on the sphere has norm sqrt(d). */
zest_status zest_vectors_neighbour(zest_method_pass *pass, size_t i, zest_direction *direction,
                                   zest_place *place) {
    const zest_sweeps *s = &pass->method->sweeps;
    *place = (zest_place){.direction = direction,
                          .scale = pass->method->is.radius / sqrt((double)s->params.dimension)};
    int failed = s->table->sphere(s, zest_seed(pass->method->is.seed, pass->step, i), direction);
    return zest_sweeps_done(s, failed, pass->error);
}

zest_status zest_vectors_clear(const zest_method *method, float *x, zest_error *error) {
    const zest_sweeps *s = &method->sweeps;
    return zest_sweeps_done(s, s->table->clear(s, x), error);
}

zest_status zest_vectors_scale(const zest_method *method, float *x, double c, zest_error *error) {
    const zest_sweeps *s = &method->sweeps;
    return zest_sweeps_done(s, s->table->scale(s, x, (float)c), error);
}

zest_status zest_vectors_norm(const zest_method *method, const float *x, double *norm, zest_error *error) {
    const zest_sweeps *s = &method->sweeps;
    size_t blocks = (size_t)((s->params.dimension + ZEST_SWEEPS_BLOCK - 1) / ZEST_SWEEPS_BLOCK);
    double *sums = malloc(blocks * sizeof *sums), sum = 0;
    if (!sums) return zest_error_memory(error, "the norm of a gradient", blocks * sizeof *sums);
    zest_status status = zest_sweeps_done(s, s->table->squares(s, x, sums), error);
    for (size_t b = 0; b < blocks && !status; b++) sum += sums[b];
    *norm = sqrt(sum);
    free(sums);
    return status;
}

zest_status zest_vectors_uphill(zest_method_pass *pass, const zest_place *from, double length, int *finite) {
    const zest_method *method = pass->method;
    const zest_sweeps *s = &method->sweeps;
    double norm = 0;
    zest_status status = zest_vectors_norm(method, method->point, &norm, pass->error);
    *finite = isfinite(norm);
    if (status || !*finite) return status;
    int failed = s->table->uphill(s, from, (float)(length / (norm + 1e-12)), method->point);
    return zest_sweeps_done(s, failed, pass->error);
}

zest_sweeps_move zest_vectors_moving(const zest_method_pass *pass) {
    const zest_method *method = pass->method;
    return (zest_sweeps_move){.gradient = method->gradient,
                              .first = method->arrays[0],
                              .second = method->arrays[1],
                              .rounding = zest_seed(method->is.seed, pass->step, ROUNDING_INDEX),
                              .nearest = method->is.nearest};
}
