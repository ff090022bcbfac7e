/* What was found, as JSON. */
#include <math.h>

#include "run/sharpness.h"

const char *const zest_sharpness_distributions[4] = {"gaussian", "sphere", "ball", "rademacher"};

/* JSON knows neither NaN nor infinity. */
static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *estimate(zest_estimate e) {
    return json_pack("{s:o, s:o, s:o}", "value", real(e.value), "low", real(e.low), "high", real(e.high));
}

static json_t *reals(const double *values, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(array, real(values[i]));
    return array;
}

/* ---- The parts ---- */

static json_t *nearby(const zest_sharpness_found *f, const zest_sharpness_found *first) {
    json_t *array = json_array();
    for (size_t r = 0; r < f->plan.radius_count; r++) {
        const zest_neighbourhood *p = &f->points[r];
        json_t *point =
            json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "radius", real(p->radius), "rho",
                      real(p->rho), "mean", estimate(p->mean), "spread", estimate(p->spread), "lowest",
                      real(p->lowest), "highest", real(p->highest), "tilted", estimate(p->tilted),
                      "effective", real(p->effective), "not_finite", (json_int_t)p->bad);
        zest_estimate apart =
            first && first != f ? zest_sharpness_difference(f, first, r) : (zest_estimate){NAN, NAN, NAN};
        if (isfinite(apart.value)) json_object_set_new(point, "above_first", estimate(apart));
        json_array_append_new(array, point);
    }
    return array;
}

static json_t *hessian(const zest_sharpness_found *f) {
    const zest_hessian_top *top = &f->top;
    json_t *array = json_array();
    for (size_t k = 0; k < top->count; k++)
        json_array_append_new(array, json_pack("{s:o, s:o, s:o}", "value", real(top->values[k]), "residual",
                                               real(top->residuals[k]), "half_step", real(top->again[k])));
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:b, s:o}", "examples",
                     (json_int_t)f->slope_examples, "top", array, "lowest", real(top->lowest), "lowest_bound",
                     real(top->lowest_bound), "step", real(top->step), "disagreement",
                     real(top->disagreement), "products", (json_int_t)top->steps, "restarts",
                     (json_int_t)top->restarts, "settled", top->converged, "bytes", real(f->top_bytes));
}

static json_t *trace(const zest_sharpness_found *f) {
    size_t examples = f->trace_by_losses ? f->examples : f->slope_examples;
    return json_pack("{s:o, s:o, s:I, s:s, s:o, s:o, s:I}", "trace", estimate(f->trace.trace),
                     "mean_eigenvalue", real(f->trace.trace.value / (double)f->dimension), "probes",
                     (json_int_t)f->trace.probes, "by", f->trace_by_losses ? "losses" : "gradients", "step",
                     real(f->trace.step), "disagreement", real(f->trace.disagreement), "examples",
                     (json_int_t)examples);
}

static json_t *slice(const zest_sharpness_found *f) {
    const zest_slice *s = &f->slice;
    size_t rows = s->dimensions == 2 ? s->points : 1;
    return json_pack("{s:i, s:s, s:o, s:o}", "dimensions", s->dimensions, "along",
                     f->plan.seeded ? "seeded" : "eigen", "places", reals(s->places, s->points), "losses",
                     reals(s->values, s->points * rows));
}

json_t *zest_sharpness_json(const zest_sharpness_found *f, const zest_sharpness_found *first) {
    const zest_sharpness_plan *p = &f->plan;
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:I, s:b, s:I, s:o, s:o, s:o, s:o}", "name", f->name, "path",
        f->path, "task", f->task, "split", f->split, "examples", (json_int_t)f->examples, "dimension",
        (json_int_t)f->dimension, "distribution", zest_sharpness_distributions[p->distribution], "samples",
        (json_int_t)p->samples, "antithetic", p->antithetic, "sample_seed", (json_int_t)p->seed, "t",
        real(p->t), "loss", real(f->loss), "neighbourhood", nearby(f, first), "seconds", real(f->seconds));
    if (!object) return NULL;
    if (!f->plan.radius_count) json_object_del(object, "neighbourhood");
    if (f->is_run) json_object_set_new(object, "step", json_integer((json_int_t)f->step));
    if (f->top.count) json_object_set_new(object, "hessian", hessian(f));
    if (f->trace.probes) json_object_set_new(object, "trace", trace(f));
    if (f->slice.values) json_object_set_new(object, "slice", slice(f));
    return object;
}
