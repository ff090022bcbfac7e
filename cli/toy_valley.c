/* zest toy valley: where MeZO is indifferent and the tilt is not (docs/toys.md). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/toy.h"
#include "lab/toys/valley.h"

enum { FIRST = ZEST_TOY_MEZO }; /* gradient descent does not move on the floor */

/* Runs of one method over the seeds. */
typedef struct {
    zest_valley_trace *traces;
    double curvature, curvature_sd; /* at the end; like all below, over the seeds */
    double s, s_sd;
    double loss, effective, t;
} valley_result;

typedef struct {
    zest_toy_settings settings;
    uint64_t seed, seeds;
    size_t points;
    zest_valley_trace exact; /* downhill on F_t */
    valley_result results[ZEST_TOY_METHODS];
} valley_study;

/* ---- Settings ---- */

/* What is not given: an estimate's noise, squared, grows like the trace of the Hessian over k, so lr is chosen such that
 * lr (largest eigenvalue + trace / k) is that of one valley with k = 5; and the steps such that lr steps is. */
static void fit_lr(const zest_options *o, zest_toy_settings *s) {
    zest_toy_settings one;
    zest_toy_preset(ZEST_TOY_VALLEY, 0, &one);
    if (!zest_options_given(o, ZEST_OPTION_LR))
        s->lr = one.lr * (20 + 20 / (double)one.k) / (20 + 20 * (double)s->valleys / (double)s->k);
    if (!zest_options_given(o, ZEST_OPTION_STEPS))
        s->steps = (uint64_t)fmin(1e6, round(one.lr * (double)one.steps / s->lr));
}

static zest_status read_settings(const zest_options *o, valley_study *study, zest_error *error) {
    zest_toy_settings *s = &study->settings;
    if (zest_options_given(o, ZEST_OPTION_PRESET))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "option preset: the valley is not in the paper and has one setting");
    study->seed = zest_options_whole(o, ZEST_OPTION_SEED);
    study->seeds = zest_options_whole(o, ZEST_OPTION_SEEDS);
    zest_status status = zest_toy_settings_of(o, ZEST_TOY_VALLEY, 0, s, error);
    if (status) return status;
    s->valleys = (size_t)zest_options_whole(o, ZEST_OPTION_VALLEYS);
    fit_lr(o, s);
    study->points = zest_valley_points(s->steps);
    return ZEST_OK;
}

/* ---- Runs ---- */

static zest_status make_trace(const valley_study *study, zest_valley_trace *trace, zest_error *error) {
    size_t const bytes = study->points * sizeof *trace->points;
    *trace = (zest_valley_trace){.points = malloc(bytes), .count = study->points};
    return trace->points ? ZEST_OK : zest_error_memory(error, "the paths", bytes);
}

static zest_status make_traces(valley_study *study, zest_error *error) {
    zest_status status = make_trace(study, &study->exact, error);
    for (int m = FIRST; m < ZEST_TOY_METHODS && !status; m++) {
        valley_result *r = &study->results[m];
        r->traces = calloc((size_t)study->seeds, sizeof *r->traces);
        if (!r->traces)
            return zest_error_memory(error, "the paths", (size_t)study->seeds * sizeof *r->traces);
        for (size_t run = 0; run < study->seeds && !status; run++)
            status = make_trace(study, &r->traces[run], error);
    }
    return status;
}

static zest_status run_all(valley_study *study, int quiet, zest_error *error) {
    size_t const methods = ZEST_TOY_METHODS - FIRST, jobs = methods * (size_t)study->seeds;
    zest_status status = make_traces(study, error);
    size_t done = 0;
    zest_progress progress;
    if (status) return status;
    zest_progress_begin(&progress, "toy", "runs", quiet);
#pragma omp parallel for schedule(dynamic)
    for (size_t job = 0; job < jobs; job++) { /* each has a context of its own */
        zest_toy_method const method = (zest_toy_method)(FIRST + job % methods);
        zest_error trouble = {0};
        zest_status own = zest_valley_run(&study->settings, method, study->seed + job / methods,
                                          &study->results[method].traces[job / methods], &trouble);
#pragma omp critical
        {
            done++;
            if (own && !status) status = own, *error = trouble;
            zest_progress_update(&progress, (double)done, (double)jobs, NULL);
        }
    }
    zest_progress_end(&progress);
    zest_valley_descend(&study->settings, &study->exact);
    return status;
}

static const zest_valley_point *last_point(const valley_study *study, const zest_valley_trace *trace) {
    return &trace->points[study->points - 1];
}

static zest_status summarise(valley_study *study, zest_error *error) {
    size_t const n = (size_t)study->seeds;
    double *capacity = malloc(2 * n * sizeof *capacity);
    if (!capacity) return zest_error_memory(error, "the summary", 2 * n * sizeof *capacity);
    for (int m = FIRST; m < ZEST_TOY_METHODS; m++) {
        valley_result *r = &study->results[m];
        for (size_t run = 0; run < n; run++) {
            const zest_valley_point *end = last_point(study, &r->traces[run]);
            capacity[run] = end->curvature;
            capacity[n + run] = end->s;
            r->loss += end->loss / (double)n;
            r->effective += r->traces[run].effective / (double)n;
            r->t += r->traces[run].t / (double)n;
        }
        zest_toy_mean_and_sd(capacity, n, &r->curvature, &r->curvature_sd);
        zest_toy_mean_and_sd(capacity + n, n, &r->s, &r->s_sd);
    }
    free(capacity);
    return ZEST_OK;
}

/* ---- Text and JSON ---- */

static const char *tilt_text(const zest_toy_settings *s, char text[32]) {
    if (s->auto_t)
        strcpy(text, "auto");
    else
        snprintf(text, 32, "%g", s->t);
    return text;
}

static void print_head(const valley_study *study) {
    const zest_toy_settings *s = &study->settings;
    double const limit = zest_valley_limit(s->rho), floor[3] = {0, 0, 0};
    char tilt[32];
    printf("%zu valley%s: start (%g, %g, %g); %" PRIu64 " steps, lr %.3g, k %" PRIu64
           ", rho %g, t %s,\n%s directions, %s denominator, seeds %" PRIu64 " to %" PRIu64 "\n",
           s->valleys, s->valleys == 1 ? "" : "s", s->start[0], s->start[1], s->start[2], s->steps, s->lr,
           s->k, s->rho, tilt_text(s, tilt), s->distribution, s->denominator, study->seed,
           study->seed + study->seeds - 1);
    printf("largest eigenvalue: %.2f at the start, 10 at best (s = 0)\n", zest_valley_curvature(s->start[2]));
    printf("Gaussian F_t, of a valley: finite up to t = %.4g; F_0 = %.4g for every s", limit,
           zest_valley_tilted(0, s->rho, floor));
    if (!s->auto_t && s->t > 0 && s->t <= limit)
        printf("; F_%g = %.4f at the start, %.4f at s = 0\ndownhill on F_%g itself: largest eigenvalue %.2f "
               "at the end\n\n",
               s->t, zest_valley_tilted(s->t, s->rho, s->start), zest_valley_tilted(s->t, s->rho, floor),
               s->t, last_point(study, &study->exact)->curvature);
    else
        printf("\n\n");
}

static void print_table(const valley_study *study) {
    printf("%-8s %11s %6s %8s %6s %10s %15s %8s\n", "method", "largest ev", "sd", "s", "sd", "f",
           "effective pairs", "t");
    for (int m = FIRST; m < ZEST_TOY_METHODS; m++) {
        const valley_result *r = &study->results[m];
        printf("%-8s", zest_toy_title((zest_toy_method)m));
        zest_toy_print_number(" ", 11, 2, r->curvature);
        zest_toy_print_number(" ", 6, 2, r->curvature_sd);
        zest_toy_print_number(" ", 8, 3, r->s);
        zest_toy_print_number(" ", 6, 3, r->s_sd);
        zest_toy_print_number(" ", 10, 4, r->loss);
        zest_toy_print_number(" ", 15, 2, r->effective);
        zest_toy_print_number(" ", 8, 3, r->t);
        putchar('\n');
    }
    printf(
        "\nlargest ev: largest eigenvalue of the Hessian across the valley at the end%s; sd over the seeds;\n"
        "effective pairs: of the %" PRIu64 " of a step, mean over the steps; t: in the last step\n",
        study->settings.valleys > 1 ? ", mean over the valleys, as s" : "", study->settings.k);
}

static json_t *json_result(const valley_study *study, int m) {
    const valley_result *r = &study->results[m];
    json_t *ends = json_array();
    for (size_t run = 0; run < study->seeds; run++)
        zest_output_append(&ends, zest_output_real(last_point(study, &r->traces[run])->curvature));
    return json_pack("{ss sI so so so so so so so so}", "method", zest_toy_method_name((zest_toy_method)m),
                     "runs", (json_int_t)study->seeds, "eigenvalue", zest_output_real(r->curvature),
                     "eigenvalue_sd", zest_output_real(r->curvature_sd), "s", zest_output_real(r->s), "s_sd",
                     zest_output_real(r->s_sd), "loss", zest_output_real(r->loss), "effective",
                     zest_output_real(r->effective), "t", zest_output_real(r->t), "ends", ends);
}

static json_t *json_study(const valley_study *study) {
    const zest_toy_settings *s = &study->settings;
    json_t *methods = json_array(), *start = json_array();
    for (int i = 0; i < 3; i++) zest_output_append(&start, zest_output_real(s->start[i]));
    for (int m = FIRST; m < ZEST_TOY_METHODS; m++) zest_output_append(&methods, json_result(study, m));
    return json_pack("{ss sI so so so so sI sI ss ss sI sI so so so}", "toy", "valley", "valleys",
                     (json_int_t)s->valleys, "start", start, "t",
                     s->auto_t ? zest_output_string("auto") : zest_output_real(s->t), "rho",
                     zest_output_real(s->rho), "lr", zest_output_real(s->lr), "k", (json_int_t)s->k, "steps",
                     (json_int_t)s->steps, "distribution", s->distribution, "denominator", s->denominator,
                     "seed", (json_int_t)study->seed, "seeds", (json_int_t)study->seeds, "finite_up_to",
                     zest_output_real(zest_valley_limit(s->rho)), "exact_eigenvalue",
                     zest_output_real(last_point(study, &study->exact)->curvature), "methods", methods);
}

/* ---- Figure ---- */

/* The largest eigenvalue against the step: mean and standard deviation over the seeds. */
static void draw_method(zest_plot_panel *panel, const valley_study *study, zest_toy_method method) {
    const valley_result *r = &study->results[method];
    size_t const count = study->points, n = (size_t)study->seeds;
    double *capacity = malloc((4 * count + n) * sizeof *capacity);
    if (!capacity) return; /* the figure omits it */
    double *step = capacity, *mean = step + count, *low = mean + count, *high = low + count,
           *one = high + count;
    for (size_t i = 0; i < count; i++) {
        double sd;
        for (size_t run = 0; run < n; run++) one[run] = r->traces[run].points[i].curvature;
        zest_toy_mean_and_sd(one, n, &mean[i], &sd);
        step[i] = r->traces[0].points[i].step, low[i] = mean[i] - sd, high[i] = mean[i] + sd;
    }
    zest_plot_style const style = zest_toy_style(method);
    if (n > 1) zest_plot_band(panel, count, step, low, high, (zest_plot_style){.colour = style.colour}, NULL);
    zest_plot_line(panel, count, step, mean, (zest_plot_style){.colour = style.colour, .dash = style.dash},
                   zest_toy_title(method));
    free(capacity);
}

static void draw_progress(zest_plot_panel *panel, const valley_study *study) {
    double x[ZEST_VALLEY_SHOWN + 1], y[ZEST_VALLEY_SHOWN + 1];
    zest_plot_panel_title(panel, "Largest eigenvalue: mean and sd over the seeds");
    zest_plot_axis_x(panel, "step", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, "10 (1 + |tanh s|)", ZEST_PLOT_LINEAR);
    zest_plot_range_y(panel, 9, 21);
    zest_plot_guide_y(panel, 10, (zest_plot_style){.dash = ZEST_PLOT_DOTTED, .width = 1}, NULL);
    for (int m = FIRST; m < ZEST_TOY_METHODS; m++) draw_method(panel, study, (zest_toy_method)m);
    for (size_t i = 0; i < study->points; i++)
        x[i] = study->exact.points[i].step, y[i] = study->exact.points[i].curvature;
    if (study->settings.t > 0 && !study->settings.auto_t)
        zest_plot_line(panel, study->points, x, y,
                       (zest_plot_style){.colour = ZEST_PLOT_ORANGE, .dash = ZEST_PLOT_DASHED},
                       "gradient descent on F at t");
}

/* F_t on the floor, relative to s = 0, for tilts up to the limit. */
static void draw_objective(zest_plot_panel *panel, const valley_study *study) {
    static const double parts[] = {0, 0.5, 0.8, 1};
    static const int colours[] = {ZEST_PLOT_BLUE, ZEST_PLOT_GREEN, ZEST_PLOT_RED, ZEST_PLOT_INK};
    enum { COUNT = 101 };
    double const rho = study->settings.rho, limit = zest_valley_limit(rho), reach = 2.5;
    zest_plot_panel_title(panel, "F on the floor of the valley, less its value at s = 0");
    zest_plot_axis_x(panel, "s", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, "F(s) − F(0)", ZEST_PLOT_LINEAR);
    zest_plot_range_x(panel, -reach, reach + 1.6); /* room for the labels */
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        double const t = parts[p] * limit, bottom = zest_valley_tilted(t, rho, (double[3]){0});
        double s[COUNT], f[COUNT];
        char text[32];
        for (int i = 0; i < COUNT; i++) {
            s[i] = reach * (2.0 * i / (COUNT - 1) - 1);
            f[i] = zest_valley_tilted(t, rho, (double[3]){0, 0, s[i]}) - bottom;
        }
        zest_plot_line(panel, COUNT, s, f, (zest_plot_style){.colour = colours[p]}, NULL);
        snprintf(text, sizeof text, parts[p] > 0 ? "t = %.3g" : "t = 0: MeZO", t);
        zest_plot_text(panel, reach, f[COUNT - 1] - (parts[p] > 0 ? 0 : 0.03), ZEST_PLOT_RIGHT, text,
                       (zest_plot_style){.size = 11.5});
    }
}

/* How many pairs carry a step, against k: of one valley and of many, and with the tilt that many can bear. */
static zest_status draw_effective(zest_plot_panel *panel, const valley_study *study, zest_error *error) {
    enum { POINTS = 11, PAIRS = 20 << (POINTS - 1) };
    const zest_toy_settings *s = &study->settings;
    double const t = s->t > 0 ? s->t : 1;
    const struct {
        size_t valleys;
        double t;
        int colour;
        zest_plot_dash dash;
    } lines[] = {{1, t, ZEST_PLOT_BLUE, ZEST_PLOT_SOLID},
                 {10, t, ZEST_PLOT_GREEN, ZEST_PLOT_SOLID},
                 {100, t, ZEST_PLOT_RED, ZEST_PLOT_SOLID},
                 {100, t / 10, ZEST_PLOT_RED, ZEST_PLOT_DASHED}};
    size_t k[POINTS];
    double x[POINTS], y[POINTS];
    for (size_t i = 0; i < POINTS; i++) k[i] = (size_t)1 << i, x[i] = (double)k[i];
    zest_plot_panel_title(panel, "Pairs that carry a step, at the start");
    zest_plot_axis_x(panel, "k", ZEST_PLOT_LOG);
    zest_plot_axis_y(panel, "effective pairs", ZEST_PLOT_LOG);
    zest_plot_range_x(panel, 1, 60000); /* room for the labels */
    zest_plot_line(panel, POINTS, x, x, (zest_plot_style){.dash = ZEST_PLOT_DOTTED, .width = 1}, NULL);
    for (size_t l = 0; l < sizeof lines / sizeof *lines; l++) {
        zest_toy_settings with = *s;
        char text[48];
        with.valleys = lines[l].valleys, with.t = lines[l].t;
        zest_status status = zest_valley_effective(&with, study->seed, PAIRS, POINTS, k, y, error);
        if (status) return status;
        zest_plot_line(panel, POINTS, x, y,
                       (zest_plot_style){.colour = lines[l].colour, .dash = lines[l].dash}, NULL);
        snprintf(text, sizeof text, "%zu valley%s, t = %g", lines[l].valleys,
                 lines[l].valleys == 1 ? "" : "s", lines[l].t);
        zest_plot_text(panel, x[POINTS - 1], y[POINTS - 1], ZEST_PLOT_RIGHT, text,
                       (zest_plot_style){.size = 11.5});
    }
    return ZEST_OK;
}

static zest_status draw_study(const valley_study *study, const char *path, zest_error *error) {
    const zest_toy_settings *s = &study->settings;
    char text[240], tilt[32];
    zest_plot *plot = zest_plot_new(1, 3, 1380, 500);
    zest_plot_title(
        plot, "A valley that is flat for MeZO",
        "The largest eigenvalue of the Hessian against the step for MeZO and ZEST; the tilted loss "
        "along the floor of the valley, which is the same everywhere at t = 0; how many pairs "
        "of losses carry a step, against k, for 1, 10 and 100 valleys.");
    snprintf(text, sizeof text,
             "%zu valley%s, %s directions%s, k = %" PRIu64 ", ρ = %g, t = %s, lr = %.3g, %" PRIu64
             " steps, %" PRIu64 " seeds",
             s->valleys, s->valleys == 1 ? "" : "s", s->distribution,
             strcmp(s->denominator, "ball") ? "" : ", ball denominator", s->k, s->rho, tilt_text(s, tilt),
             s->lr, s->steps, study->seeds);
    zest_plot_subtitle(plot, text);
    draw_progress(zest_plot_at(plot, 0, 0), study);
    draw_objective(zest_plot_at(plot, 0, 1), study);
    zest_status status = draw_effective(zest_plot_at(plot, 0, 2), study, error);
    if (!status) status = zest_plot_write(plot, path, error);
    zest_plot_free(plot);
    return status;
}

/* ---- Command ---- */

static void free_study(valley_study *study) {
    for (int m = FIRST; m < ZEST_TOY_METHODS; m++) {
        valley_result *r = &study->results[m];
        for (size_t run = 0; r->traces && run < study->seeds; run++) free(r->traces[run].points);
        free(r->traces);
    }
    free(study->exact.points);
}

int zest_toy_valley(const zest_options *options) {
    valley_study study = {0};
    zest_error error = {0};
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    zest_status status = read_settings(options, &study, &error);
    if (!status) status = run_all(&study, (int)zest_options_whole(options, ZEST_OPTION_QUIET), &error);
    if (!status) status = summarise(&study, &error);
    if (!status && *out) status = draw_study(&study, out, &error);
    int code = ZEST_EXIT_OK;
    if (status) {
        code = zest_output_fail(status, error.message);
    } else if (zest_options_whole(options, ZEST_OPTION_JSON)) {
        code = zest_output_json(json_study(&study));
    } else {
        print_head(&study);
        print_table(&study);
    }
    free_study(&study);
    return code;
}
