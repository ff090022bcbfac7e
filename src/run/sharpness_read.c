/* What was found, from JSON. The file may have been changed by hand: what is not there is left out, and
 * nothing is believed that arrays do not hold. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/sharpness.h"

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

static zest_estimate estimate(const json_t *object, const char *name) {
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
        f->points[r] = (zest_neighbourhood){.radius = f->radii[r],
                                            .rho = number(point, "rho"),
                                            .mean = estimate(point, "mean"),
                                            .spread = estimate(point, "spread"),
                                            .tilted = estimate(point, "tilted"),
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
    f->trace.trace = estimate(trace, "trace");
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
