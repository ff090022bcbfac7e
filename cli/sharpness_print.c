#include <math.h>

#include "analysis/ladder.h"
#include "cli/sharpness.h"

static const char *const distributions[] = {"Gaussian", "sphere", "ball", "signs"};

static void print_interval(zest_estimate e) {
    if (isfinite(e.low))
        zest_output_print("%9.5g [%.5g, %.5g]", e.value, e.low, e.high);
    else
        zest_output_print("%9.5g", e.value);
}

static void print_nearby(const zest_sharpness_found *f) {
    zest_output_print("  %10s %9s  %-30s %-30s %9s  %-22s %9s\n", "radius", "rho", "mean loss",
                      "standard deviation", "maximum", "tilted loss F_t", "effective");
    for (size_t r = 0; r < f->plan.radius_count; r++) {
        const zest_neighbourhood *p = &f->points[r];
        char mean[64], spread[64], tilted[64];
        snprintf(mean, sizeof mean, "%.5g [%.5g, %.5g]", p->mean.value, p->mean.low, p->mean.high);
        if (isfinite(p->spread.low))
            snprintf(spread, sizeof spread, "%.3g [%.3g, %.3g]", p->spread.value, p->spread.low,
                     p->spread.high);
        else
            snprintf(spread, sizeof spread, "%.3g", p->spread.value);
        snprintf(tilted, sizeof tilted, "%.5g ± %.2g", p->tilted.value, p->tilted.high - p->tilted.value);
        zest_output_print("  %10.4g %9.4g  %-30s %-30s %9.5g  %-22s %9.1f\n", p->radius, p->rho, mean, spread,
                          p->highest, tilted, p->effective);
        if (p->bad) zest_output_print("  %zu of them are not finite and are left out\n", p->bad);
    }
}

static void print_step(double step, double disagreement) {
    zest_output_print("h = %.3g", step);
    if (isfinite(disagreement)) zest_output_print(", neighbouring steps agree to %.1g", disagreement);
    zest_output_print("\n");
    if (disagreement > ZEST_LADDER_AGREED)
        zest_output_print("  NOT TO BE TRUSTED: no step h was found at which two neighbours agree\n");
}

static void print_hessian(const zest_sharpness_found *f) {
    const zest_hessian_top *top = &f->top;
    if (f->slope_examples && f->slope_examples != f->examples)
        zest_output_print("  the Hessian on %zu of the examples\n", f->slope_examples);
    zest_output_print("  %10s %12s %12s %14s\n", "eigenvalue", "", "residual", "with half h");
    for (size_t k = 0; k < top->count; k++)
        zest_output_print("  %10zu %12.6g %12.2g %14.6g\n", k + 1, top->values[k], top->residuals[k],
                          top->again[k]);
    zest_output_print("  lowest seen %.4g (residual %.2g); %s after %zu products, %zu restarts, %.1f MiB; ",
                      top->lowest, top->lowest_bound, top->converged ? "settled" : "not settled", top->steps,
                      top->restarts, f->top_bytes / 0x1p20);
    print_step(top->step, top->disagreement);
}

static void print_trace(const zest_sharpness_found *f) {
    zest_output_print("  trace ");
    print_interval(f->trace.trace);
    zest_output_print(", mean eigenvalue %.3g; %zu probes by %s; ",
                      f->trace.trace.value / (double)f->dimension, f->trace.probes,
                      f->trace_by_losses ? "second differences of losses" : "gradients");
    print_step(f->trace.step, f->trace.disagreement);
}

static void print_slice(const zest_sharpness_found *f) {
    const zest_slice *s = &f->slice;
    size_t rows = s->dimensions == 2 ? s->points : 1;
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (size_t i = 0; i < s->points * rows; i++)
        low = fmin(low, s->values[i]), high = fmax(high, s->values[i]);
    zest_output_print("  slice along %s from %.4g to %.4g: loss %.5g to %.5g\n",
                      f->plan.seeded ? "random directions" : "eigenvectors", -s->span, s->span, low, high);
    for (size_t i = 0; i < s->points && rows == 1; i++)
        zest_output_print("  %12.5g %12.6g\n", s->places[i], s->values[i]);
}

/* How a model's mean losses compare with the first one's, perturbation by perturbation. */
static void print_difference(const zest_sharpness_found *f, const zest_sharpness_found *first) {
    zest_estimate any = zest_sharpness_difference(f, first, 0);
    if (!isfinite(any.value)) return;
    zest_output_print("  mean loss above that of %s, by the same perturbations:", first->name);
    for (size_t r = 0; r < f->plan.radius_count; r++) {
        zest_estimate e = zest_sharpness_difference(f, first, r);
        zest_output_print("%s %.4g ± %.2g", r ? "," : "", e.value, e.high - e.value);
    }
    zest_output_print("\n");
}

void zest_sharpness_print(const zest_sharpness_view *views, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const zest_sharpness_found *f = &views[i].found;
        zest_output_print("%s%s", i ? "\n" : "", f->name);
        if (f->is_run) zest_output_print(", step %llu", (unsigned long long)f->step);
        zest_output_print(": loss %.6g on %zu %s examples of %s; d = %llu\n", f->loss, f->examples, f->split,
                          f->task, (unsigned long long)f->dimension);
        if (f->plan.radius_count) {
            zest_output_print(
                "  %zu perturbations at each radius%s, %s; F_t with t = %g; intervals are 95 %%\n",
                f->plan.samples, f->plan.antithetic ? " (pairs)" : "", distributions[f->plan.distribution],
                f->plan.t);
            print_nearby(f);
        }
        if (i) print_difference(f, &views[0].found);
        if (f->top.count) print_hessian(f);
        if (f->trace.probes) print_trace(f);
        if (f->slice.values) print_slice(f);
    }
}
