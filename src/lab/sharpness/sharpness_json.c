/* What was found, as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sharpness/sharpness.h"

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
        const zest_perturbed_loss *p = &f->points[r];
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

/* What was found, from JSON. The file may have been changed by hand: what is not there is left out, and
 * nothing is believed that arrays do not hold. */

enum { POINTS_MOST = 10000, TOP_MOST = 1000 };

double zest_sharpness_number(const json_t *object, const char *first, const char *second) {
    const json_t *value = json_object_get(object, first);
    if (second) value = json_object_get(value, second);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double number(const json_t *object, const char *name) {
    return zest_sharpness_number(object, name, NULL);
}

static uint64_t whole(const json_t *object, const char *name) {
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

static const char *text(const json_t *object, const char *name) {
    const char *value = json_string_value(json_object_get(object, name));
    return value ? value : "";
}

static zest_estimate sharpness_read_estimate(const json_t *object, const char *name) {
    const json_t *inner = json_object_get(object, name);
    return (zest_estimate){number(inner, "value"), number(inner, "low"), number(inner, "high")};
}

static int read_nearby(const json_t *points, zest_sharpness_found *f) {
    size_t count = json_array_size(points);
    if (!count || count > POINTS_MOST) return 1;
    f->radii = calloc(count, sizeof *f->radii);
    f->points = calloc(count, sizeof *f->points);
    if (!f->radii || !f->points) return 0;
    f->plan.radius_count = count;
    f->plan.radii = f->radii;
    for (size_t r = 0; r < count; r++) {
        const json_t *point = json_array_get(points, r);
        f->radii[r] = number(point, "radius");
        f->points[r] = (zest_perturbed_loss){.radius = f->radii[r],
                                             .rho = number(point, "rho"),
                                             .mean = sharpness_read_estimate(point, "mean"),
                                             .spread = sharpness_read_estimate(point, "spread"),
                                             .tilted = sharpness_read_estimate(point, "tilted"),
                                             .effective = number(point, "effective"),
                                             .lowest = number(point, "lowest"),
                                             .highest = number(point, "highest"),
                                             .bad = (size_t)whole(point, "not_finite")};
    }
    return 1;
}

static int read_hessian(const json_t *hessian, zest_sharpness_found *f) {
    const json_t *top = json_object_get(hessian, "top");
    size_t count = json_array_size(top);
    if (!count || count > TOP_MOST) return 1;
    double *values = malloc(count * sizeof *values);
    f->top.residuals = malloc(2 * count * sizeof *f->top.residuals);
    f->top.process.values = f->top.values = values; /* which owns them */
    if (!values || !f->top.residuals) return 0;
    f->top.again = f->top.residuals + count;
    f->top.count = count;
    for (size_t k = 0; k < count; k++) {
        const json_t *one = json_array_get(top, k);
        values[k] = number(one, "value");
        f->top.residuals[k] = number(one, "residual");
        f->top.again[k] = number(one, "half_step");
    }
    f->slope_examples = (size_t)whole(hessian, "examples");
    f->top.lowest = number(hessian, "lowest");
    f->top.lowest_bound = number(hessian, "lowest_bound");
    f->top.step = number(hessian, "step");
    f->top.disagreement = number(hessian, "disagreement");
    f->top.steps = (size_t)whole(hessian, "products");
    f->top.restarts = (size_t)whole(hessian, "restarts");
    f->top.converged = json_is_true(json_object_get(hessian, "settled"));
    f->top_bytes = number(hessian, "bytes");
    return 1;
}

static void read_trace(const json_t *trace, zest_sharpness_found *f) {
    f->trace.trace = sharpness_read_estimate(trace, "trace");
    f->trace.probes = (size_t)whole(trace, "probes");
    f->trace.step = number(trace, "step");
    f->trace.disagreement = number(trace, "disagreement");
    f->trace_by_losses = !strcmp(text(trace, "by"), "losses");
    if (!f->slope_examples) f->slope_examples = (size_t)whole(trace, "examples");
}

zest_status zest_sharpness_read(const json_t *object, const char *source, zest_sharpness_found *f,
                                zest_error *error) {
    const char *drawn = text(object, "distribution");
    *f = (zest_sharpness_found){.name = text(object, "name"),
                                .path = text(object, "path"),
                                .task = text(object, "task"),
                                .split = text(object, "split"),
                                .is_run = json_object_get(object, "step") != NULL,
                                .step = whole(object, "step"),
                                .dimension = whole(object, "dimension"),
                                .examples = (size_t)whole(object, "examples"),
                                .loss = number(object, "loss"),
                                .seconds = number(object, "seconds")};
    f->plan.samples = (size_t)whole(object, "samples");
    f->plan.antithetic = json_is_true(json_object_get(object, "antithetic"));
    f->plan.seed = whole(object, "sample_seed");
    f->plan.t = number(object, "t");
    for (int i = 0; i < 4; i++)
        if (!strcmp(drawn, zest_sharpness_distributions[i])) f->plan.distribution = (zest_distribution)i;
    if (!json_is_object(object) || !*f->task || !f->dimension)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: is nothing that zest sharpness has written",
                              source);
    read_trace(json_object_get(object, "trace"), f);
    if (!read_nearby(json_object_get(object, "neighbourhood"), f) ||
        !read_hessian(json_object_get(object, "hessian"), f))
        return zest_error_memory(error, source, 0);
    return ZEST_OK;
}
