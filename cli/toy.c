/* zest toy: the paper's two-dimensional examples (section 4.3), with figures. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/toy.h"

enum { ZEST_TOY_MINIMA = 4 };

/* Runs of one method over the seeds. */
typedef struct {
    size_t runs, points;       /* points of a path: steps + 1 */
    double *paths;             /* (runs, points, 2) */
    size_t basins[3];          /* number of runs that ended in each */
    double mean[2], sd[2];     /* of the end points; like all below, over the runs that are not lost */
    double loss, flat, tilted; /* f, F_0 and F_t at the end, means */
    double slope, slope_error; /* linear: of the path; standard error over the seeds */
    double bend, bend_error;   /* linear: y/y_0 where x is halfway */
    double gain, gain_error; /* linear: MeZO's slope minus this one, seed by seed, as a fraction of MeZO's */
} toy_result;

typedef struct {
    zest_toy_settings settings;
    int clean;
    uint64_t seed, seeds;
    zest_toy_box box;   /* range of the figure and of the search for minima */
    double route_floor; /* linear: loss at which a path ends */
    zest_toy_disc disc;
    double disc_error; /* largest change of F_t at the ends with half as many points in each direction */
    toy_result results[ZEST_TOY_METHODS];
    double minima[2][ZEST_TOY_MINIMA][3]; /* of F_0 and of F_t */
    size_t minima_count[2];
} toy_study;

static const double *end_point(const toy_result *result, size_t run) {
    return result->paths + 2 * (run * result->points + result->points - 1);
}

/* ---- Settings ---- */

/* X,Y in the plane; X,Y,S in the valley. */
static zest_status read_start(const zest_options *options, zest_toy_kind kind, double *start,
                              zest_error *error) {
    double *values = NULL;
    size_t count = 0, wanted = kind == ZEST_TOY_VALLEY ? 3 : 2;
    zest_status status = zest_options_list(options, ZEST_OPTION_START_AT, &values, &count, error);
    if (!status && count != wanted)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "option start-at: expected %s numbers, separated by commas",
                                wanted == 3 ? "three" : "two");
    for (size_t i = 0; i < wanted && !status; i++) start[i] = values[i];
    free(values);
    return status;
}

zest_status zest_toy_settings_of(const zest_options *o, zest_toy_kind kind, int clean, zest_toy_settings *s,
                                 zest_error *error) {
    zest_toy_preset(kind, clean, s);
    if (zest_options_given(o, ZEST_OPTION_T)) s->t = zest_options_number(o, ZEST_OPTION_T);
    s->auto_t = zest_options_whole(o, ZEST_OPTION_T) != 0;
    if (zest_options_given(o, ZEST_OPTION_RHO)) s->rho = zest_options_number(o, ZEST_OPTION_RHO);
    if (zest_options_given(o, ZEST_OPTION_LR)) s->lr = zest_options_number(o, ZEST_OPTION_LR);
    if (zest_options_given(o, ZEST_OPTION_GD_LR)) s->gd_lr = zest_options_number(o, ZEST_OPTION_GD_LR);
    if (zest_options_given(o, ZEST_OPTION_K)) s->k = zest_options_whole(o, ZEST_OPTION_K);
    if (zest_options_given(o, ZEST_OPTION_STEPS)) s->steps = zest_options_whole(o, ZEST_OPTION_STEPS);
    if (zest_options_given(o, ZEST_OPTION_GD_STEPS))
        s->gd_steps = zest_options_whole(o, ZEST_OPTION_GD_STEPS);
    if (zest_options_given(o, ZEST_OPTION_DISTRIBUTION))
        s->distribution = zest_options_text(o, ZEST_OPTION_DISTRIBUTION);
    if (zest_options_given(o, ZEST_OPTION_DENOMINATOR))
        s->denominator = zest_options_text(o, ZEST_OPTION_DENOMINATOR);
    if (s->steps > 1000000)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "option steps: at most 1000000 for a toy");
    return zest_options_given(o, ZEST_OPTION_START_AT) ? read_start(o, kind, s->start, error) : ZEST_OK;
}

static zest_status read_mesh(const zest_options *o, zest_toy_mesh *mesh, zest_error *error) {
    double *values = NULL;
    size_t count = 0;
    zest_status status = zest_options_list(o, ZEST_OPTION_MESH, &values, &count, error);
    if (!status && count != 2)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "option mesh: expected two numbers, separated by a comma");
    if (!status) *mesh = (zest_toy_mesh){.width = values[0], .height = values[1]};
    free(values);
    return status;
}

/* The preset, overridden by given options. */
static zest_status read_settings(const zest_options *o, zest_toy_kind kind, toy_study *study,
                                 zest_error *error) {
    zest_toy_settings *s = &study->settings;
    const char *preset = zest_options_text(o, ZEST_OPTION_PRESET);
    study->clean = strcmp(preset, "clean") == 0;
    if (!study->clean && strcmp(preset, "paper"))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "option preset: must be paper or clean for a toy, not '%s'", preset);
    if (zest_options_given(o, ZEST_OPTION_VALLEYS))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "option valleys: belongs to zest toy valley");
    study->seed = zest_options_whole(o, ZEST_OPTION_SEED);
    study->seeds = zest_options_whole(o, ZEST_OPTION_SEEDS);
    study->route_floor = 0.5;
    study->box =
        kind == ZEST_TOY_LINEAR ? (zest_toy_box){-1.9, 0.5, -0.4, 2.0} : (zest_toy_box){-1.9, 1.7, -1.1, 1.4};
    zest_status status = zest_options_check_t(o, error);
    if (!status) status = zest_toy_settings_of(o, kind, study->clean, s, error);
    if (!status && zest_options_given(o, ZEST_OPTION_MESH)) status = read_mesh(o, &s->mesh, error);
    if (!status && !zest_toy_mesh_is_convex(&s->mesh))
        status = zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "option mesh: %g,%g: both must be positive and the width below %.4g times the height, "
            "else the surface is not convex",
            s->mesh.width, s->mesh.height, sqrt(5));
    return status;
}

/* ---- Runs ---- */

static zest_status run_all(toy_study *study, int quiet, zest_error *error) {
    size_t const seeds = (size_t)study->seeds, jobs = ZEST_TOY_METHODS * seeds;
    zest_status status = ZEST_OK;
    size_t done = 0;
    zest_progress progress;
    for (int m = 0; m < ZEST_TOY_METHODS; m++) {
        toy_result *r = &study->results[m];
        r->runs = m == ZEST_TOY_GD ? 1 : seeds; /* gradient descent is deterministic */
        r->points = (size_t)zest_toy_steps(&study->settings, (zest_toy_method)m) + 1;
        r->paths = malloc(r->runs * r->points * 2 * sizeof *r->paths);
        if (!r->paths)
            return zest_error_memory(error, "the paths", r->runs * r->points * 2 * sizeof *r->paths);
    }
    zest_progress_begin(&progress, "toy", "runs", quiet);
#pragma omp parallel for schedule(dynamic)
    for (size_t job = 0; job < jobs; job++) { /* each has a context of its own */
        zest_toy_method const method = (zest_toy_method)(job % ZEST_TOY_METHODS);
        size_t const run = job / ZEST_TOY_METHODS;
        toy_result *r = &study->results[method];
        zest_error trouble = {0};
        zest_status own = ZEST_OK;
        if (run < r->runs)
            own = zest_toy_run(&study->settings, method, study->seed + run, r->paths + 2 * run * r->points,
                               &trouble);
#pragma omp critical
        {
            done++;
            if (own && !status) status = own, *error = trouble;
            zest_progress_update(&progress, (double)done, (double)jobs, NULL);
        }
    }
    zest_progress_end(&progress);
    return status;
}

/* ---- Results ---- */

void zest_toy_mean_and_sd(const double *values, size_t count, double *mean, double *sd) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    *mean = count ? sum / (double)count : NAN;
    for (size_t i = 0; i < count; i++) squares += (values[i] - *mean) * (values[i] - *mean);
    *sd = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
}

static zest_toy_basin basin_of(const toy_study *study, const double end[2]) {
    if (!isfinite(end[0] + end[1])) return ZEST_TOY_LOST;
    if (study->settings.kind == ZEST_TOY_STATIONARY) return zest_toy_stationary_basin(end);
    return hypot(end[0], end[1]) < 100 ? ZEST_TOY_FLAT : ZEST_TOY_LOST; /* the one minimum, or far away */
}

static void summarise_ends(toy_study *study, toy_result *r, double *capacity) {
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    size_t count = 0;
    for (size_t run = 0; run < r->runs; run++) {
        const double *end = end_point(r, run);
        zest_toy_basin const basin = basin_of(study, end);
        r->basins[basin]++;
        if (basin == ZEST_TOY_LOST) continue;
        r->loss += f(end, 2, user);
        r->flat += zest_toy_tilted(&study->disc, f, user, 0, end);
        r->tilted += zest_toy_tilted(&study->disc, f, user, study->settings.t, end);
        capacity[count] = end[0];
        capacity[r->runs + count++] = end[1];
    }
    zest_toy_mean_and_sd(capacity, count, &r->mean[0], &r->sd[0]);
    zest_toy_mean_and_sd(capacity + r->runs, count, &r->mean[1], &r->sd[1]);
    r->loss /= (double)count, r->flat /= (double)count, r->tilted /= (double)count;
}

static double slope_of(const toy_study *study, const toy_result *r, size_t run) {
    return zest_toy_route_slope(&study->settings.mesh, r->paths + 2 * run * r->points, r->points,
                                study->route_floor, NULL);
}

/* Seed by seed against MeZO: the same seed draws the same directions for every method. Gradient descent,
 * which has one run only, comes last and is compared with MeZO's mean. */
static void summarise_route(toy_study *study, toy_result *r, double *capacity) {
    const toy_result *mezo = &study->results[ZEST_TOY_MEZO];
    double sd;
    for (size_t run = 0; run < r->runs; run++) {
        double const base = r->runs == mezo->runs ? slope_of(study, mezo, run) : mezo->slope;
        capacity[run] = slope_of(study, r, run);
        capacity[r->runs + run] = (base - capacity[run]) / base;
    }
    zest_toy_mean_and_sd(capacity, r->runs, &r->slope, &sd);
    r->slope_error = sd / sqrt((double)r->runs);
    zest_toy_mean_and_sd(capacity + r->runs, r->runs, &r->gain, &sd);
    r->gain_error = sd / sqrt((double)r->runs);
    for (size_t run = 0; run < r->runs; run++)
        capacity[run] = zest_toy_route_bend(r->paths + 2 * run * r->points, r->points);
    zest_toy_mean_and_sd(capacity, r->runs, &r->bend, &sd);
    r->bend_error = sd / sqrt((double)r->runs);
}

/* Quadrature error: F_t at the end points, computed again with half as many circles and spokes. */
static zest_status check_disc(toy_study *study) {
    zest_toy_disc half;
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    zest_status status = zest_toy_disc_new(&half, study->settings.rho, 12, 48);
    for (int m = 0; m < ZEST_TOY_METHODS && !status; m++) {
        const double *end = end_point(&study->results[m], 0);
        if (basin_of(study, end) == ZEST_TOY_LOST) continue;
        double const change = zest_toy_tilted(&half, f, user, study->settings.t, end) -
                              zest_toy_tilted(&study->disc, f, user, study->settings.t, end);
        if (fabs(change) > study->disc_error) study->disc_error = fabs(change);
    }
    zest_toy_disc_free(&half);
    return status;
}

static zest_status summarise(toy_study *study, zest_error *error) {
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    double *capacity = malloc(2 * (size_t)study->seeds * sizeof *capacity);
    zest_status status = zest_toy_disc_new(&study->disc, study->settings.rho, 24, 96);
    if (!capacity || status) {
        free(capacity);
        return zest_error_set(error, ZEST_ERROR_MEMORY, "not enough memory for the summary");
    }
    for (int m = ZEST_TOY_METHODS - 1; m >= 0; m--) {
        summarise_ends(study, &study->results[m], capacity);
        if (study->settings.kind == ZEST_TOY_LINEAR) summarise_route(study, &study->results[m], capacity);
    }
    free(capacity);
    for (int i = 0; i < 2; i++) {
        size_t const found = zest_toy_minima(&study->disc, f, user, i ? study->settings.t : 0, &study->box,
                                             study->minima[i], ZEST_TOY_MINIMA);
        study->minima_count[i] = found < ZEST_TOY_MINIMA ? found : ZEST_TOY_MINIMA;
    }
    status = check_disc(study);
    return status ? zest_error_set(error, status, "not enough memory for the summary") : ZEST_OK;
}

/* ---- Text ---- */

const char *zest_toy_title(zest_toy_method method) {
    static const char *const titles[] = {"GD", "MeZO", "ZEST-N", "ZEST-BC"};
    return titles[method];
}

void zest_toy_print_number(const char *before, int width, int decimals, double number) {
    if (isnan(number))
        printf("%s%*s", before, width, "-");
    else if (fabs(number) < 0.5 * pow(10, -decimals)) /* no -0.000 */
        printf("%s%*.*f", before, width, decimals, 0.0);
    else
        printf("%s%*.*f", before, width, decimals, number);
}

static void print_head(const toy_study *study) {
    const zest_toy_settings *s = &study->settings;
    printf("%s toy, preset %s: start (%g, %g); GD %" PRIu64 " steps, lr %g; the others %" PRIu64
           " steps, lr %g, k %" PRIu64 ", rho %g, t %g,\n%s directions, %s denominator, seeds %" PRIu64
           " to %" PRIu64 "\n",
           s->kind == ZEST_TOY_LINEAR ? "linear" : "stationary", study->clean ? "clean" : "paper",
           s->start[0], s->start[1], s->gd_steps, s->gd_lr, s->steps, s->lr, s->k, s->rho, s->t,
           s->distribution, s->denominator, study->seed, study->seed + study->seeds - 1);
    for (int i = 0; i < 2; i++) {
        printf("F_%g in the ball of radius %.4g has its minim%s at", i ? s->t : 0, sqrt(2) * s->rho,
               study->minima_count[i] == 1 ? "um" : "a");
        if (!study->minima_count[i]) printf(" no point in the range");
        for (size_t j = 0; j < study->minima_count[i]; j++) {
            const double *m = study->minima[i][j];
            zest_toy_print_number(j ? ", (" : " (", 1, 3, m[0]);
            zest_toy_print_number(", ", 1, 3, m[1]);
            zest_toy_print_number("): ", 1, 4, m[2]);
        }
        putchar('\n');
    }
    printf("quadrature of F_t: error %.1g\n\n", study->disc_error);
}

static void print_route(const toy_result *r) {
    zest_toy_print_number("  ", 7, 4, r->slope);
    zest_toy_print_number(" +-", 7, 4, r->slope_error);
    zest_toy_print_number(" ", 8, 2, 100 * r->gain);
    zest_toy_print_number(" % +-", 5, 2, 100 * r->gain_error);
    zest_toy_print_number("    ", 6, 3, r->bend);
    zest_toy_print_number(" +-", 6, 3, r->bend_error);
    putchar('\n');
}

static void print_table(const toy_study *study) {
    int const linear = study->settings.kind == ZEST_TOY_LINEAR;
    char tilted[32];
    snprintf(tilted, sizeof tilted, "F_%g", study->settings.t);
    printf("%-8s %7s %6s %7s %6s %8s %8s %8s", "method", "x", "sd", "y", "sd", "f", "F_0", tilted);
    puts(linear ? "   path slope         flatter than MeZO   y left halfway" : "   sharp  flat  lost");
    for (int m = 0; m < ZEST_TOY_METHODS; m++) {
        const toy_result *r = &study->results[m];
        printf("%-8s", zest_toy_title((zest_toy_method)m));
        for (int i = 0; i < 2; i++)
            zest_toy_print_number(" ", 7, 3, r->mean[i]), zest_toy_print_number(" ", 6, 3, r->sd[i]);
        zest_toy_print_number(" ", 8, 4, r->loss);
        zest_toy_print_number(" ", 8, 4, r->flat);
        zest_toy_print_number(" ", 8, 4, r->tilted);
        if (linear)
            print_route(r);
        else
            printf("   %5zu %5zu %5zu\n", r->basins[ZEST_TOY_SHARP], r->basins[ZEST_TOY_FLAT],
                   r->basins[ZEST_TOY_LOST]);
    }
    for (int m = 0; m < ZEST_TOY_METHODS && linear; m++)
        if (study->results[m].basins[ZEST_TOY_LOST])
            printf("%s: %zu runs diverged and are excluded from the ends\n",
                   zest_toy_title((zest_toy_method)m), study->results[m].basins[ZEST_TOY_LOST]);
    puts(linear ? "\npath slope: mean of |grad f| along the path until f < 0.5; y left halfway: y / y_0 "
                  "where x = x_0 / 2;"
                  "\n+- is the standard error over the seeds"
                : "\nsharp, flat: runs from whose end downhill leads to (1, 0), (-1, 0); lost: to neither");
}

/* ---- JSON ---- */

static json_t *json_pair(const double pair[2]) {
    return json_pack("[oo]", zest_output_real(pair[0]), zest_output_real(pair[1]));
}

static json_t *json_result(const toy_study *study, int m) {
    const toy_result *r = &study->results[m];
    json_t *ends = json_array();
    for (size_t run = 0; run < r->runs; run++) zest_output_append(&ends, json_pair(end_point(r, run)));
    json_t *object =
        json_pack("{ss sI so so so so so so}", "method", zest_toy_method_name((zest_toy_method)m), "runs",
                  (json_int_t)r->runs, "mean", json_pair(r->mean), "sd", json_pair(r->sd), "loss",
                  zest_output_real(r->loss), "F_0", zest_output_real(r->flat), "F_t",
                  zest_output_real(r->tilted), "ends", ends);
    if (study->settings.kind == ZEST_TOY_LINEAR) {
        zest_output_set(&object, "route_slope", zest_output_real(r->slope));
        zest_output_set(&object, "route_slope_error", zest_output_real(r->slope_error));
        zest_output_set(&object, "flatter", zest_output_real(r->gain));
        zest_output_set(&object, "bend", zest_output_real(r->bend));
        zest_output_set(&object, "bend_error", zest_output_real(r->bend_error));
        zest_output_set(&object, "flatter_error", zest_output_real(r->gain_error));
    } else {
        zest_output_set(&object, "sharp", json_integer((json_int_t)r->basins[ZEST_TOY_SHARP]));
        zest_output_set(&object, "flat", json_integer((json_int_t)r->basins[ZEST_TOY_FLAT]));
        zest_output_set(&object, "lost", json_integer((json_int_t)r->basins[ZEST_TOY_LOST]));
    }
    return object;
}

static json_t *json_minima(const toy_study *study, int which) {
    json_t *list = json_array();
    for (size_t j = 0; j < study->minima_count[which]; j++) {
        const double *m = study->minima[which][j];
        zest_output_append(&list, json_pack("{so so so}", "x", zest_output_real(m[0]), "y",
                                            zest_output_real(m[1]), "value", zest_output_real(m[2])));
    }
    return list;
}

static json_t *json_study(const toy_study *study) {
    const zest_toy_settings *s = &study->settings;
    json_t *methods = json_array();
    for (int m = 0; m < ZEST_TOY_METHODS; m++) zest_output_append(&methods, json_result(study, m));
    return json_pack(
        "{ss ss so so so so so sI sI sI ss ss sI sI so so so so}", "toy",
        s->kind == ZEST_TOY_LINEAR ? "linear" : "stationary", "preset", study->clean ? "clean" : "paper",
        "start", json_pair(s->start), "t", zest_output_real(s->t), "rho", zest_output_real(s->rho), "lr",
        zest_output_real(s->lr), "gd_lr", zest_output_real(s->gd_lr), "k", (json_int_t)s->k, "steps",
        (json_int_t)s->steps, "gd_steps", (json_int_t)s->gd_steps, "distribution", s->distribution,
        "denominator", s->denominator, "seed", (json_int_t)study->seed, "seeds", (json_int_t)study->seeds,
        "quadrature_error", zest_output_real(study->disc_error), "minima_F_0", json_minima(study, 0),
        "minima_F_t", json_minima(study, 1), "methods", methods);
}

/* ---- Figures ---- */

enum { ACROSS = 91, UP = 64, SHOWN_STEPS = 200 };

static const int colours[ZEST_TOY_METHODS] = {ZEST_PLOT_GREY, ZEST_PLOT_BLUE, ZEST_PLOT_RED,
                                              ZEST_PLOT_PURPLE};
static const zest_plot_dash dashes[ZEST_TOY_METHODS] = {ZEST_PLOT_DASHED, ZEST_PLOT_SOLID, ZEST_PLOT_SOLID,
                                                        ZEST_PLOT_DASH_DOT};
static const zest_plot_mark marks[ZEST_TOY_METHODS] = {ZEST_PLOT_SQUARE, ZEST_PLOT_CIRCLE, ZEST_PLOT_DIAMOND,
                                                       ZEST_PLOT_TRIANGLE};

zest_plot_style zest_toy_style(zest_toy_method method) {
    return (zest_plot_style){.colour = colours[method], .dash = dashes[method], .mark = marks[method]};
}

static void draw_path(zest_plot_panel *panel, const toy_result *r, size_t run, zest_plot_style style,
                      const char *label) {
    double *x = malloc(2 * r->points * sizeof *x);
    if (!x) return; /* the figure omits it */
    const double *path = r->paths + 2 * run * r->points;
    for (size_t i = 0; i < r->points; i++) x[i] = path[2 * i], x[r->points + i] = path[2 * i + 1];
    zest_plot_line(panel, r->points, x, x + r->points, style, label);
    free(x);
}

/* The end points of all runs. */
static void draw_ends(zest_plot_panel *panel, const toy_study *study, int method) {
    const toy_result *r = &study->results[method];
    zest_plot_style const faint = {.colour = colours[method],
                                   .mark = marks[method],
                                   .size = 6,
                                   .dash = ZEST_PLOT_NO_LINE,
                                   .opacity = 0.55};
    for (size_t run = 0; run < r->runs; run++) {
        const double *end = end_point(r, run);
        zest_plot_line(panel, 1, end, end + 1, faint, NULL);
    }
}

/* The paths of the first seed, the end points of the others. */
static void draw_paths(zest_plot_panel *panel, const toy_study *study) {
    for (int m = 0; m < ZEST_TOY_METHODS; m++) draw_ends(panel, study, m);
    for (int m = 0; m < ZEST_TOY_METHODS; m++) {
        const toy_result *r = &study->results[m];
        zest_plot_style style = {.colour = colours[m], .dash = dashes[m], .width = 1.5};
        draw_path(panel, r, 0, style, NULL);
        style.mark = marks[m], style.size = 10, style.width = 2;
        const double *end = end_point(r, 0);
        zest_plot_line(panel, 1, end, end + 1, style, zest_toy_title((zest_toy_method)m));
    }
    const double *start = study->settings.start;
    zest_plot_style const ring = {.mark = ZEST_PLOT_RING, .size = 10, .dash = ZEST_PLOT_NO_LINE};
    zest_plot_line(panel, 1, start, start + 1, ring, "start");
}

static void axes(zest_plot_panel *panel, const toy_study *study, const char *title) {
    zest_plot_panel_title(panel, title);
    zest_plot_axis_x(panel, "x", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, "y", ZEST_PLOT_LINEAR);
    zest_plot_range_x(panel, study->box.x0, study->box.x1);
    zest_plot_range_y(panel, study->box.y0, study->box.y1);
    zest_plot_equal(panel);
}

/* Contours of f (t < 0) or of F_t. */
static void draw_surface(zest_plot_panel *panel, const toy_study *study, double t, const char *label) {
    static const double levels[] = {0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1, 1.35, 1.8, 2.4, 3.2};
    enum { LEVELS = sizeof levels / sizeof levels[0] };
    const zest_toy_box *box = &study->box;
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    double *values = malloc(ACROSS * UP * sizeof *values);
    if (!values) return;
    for (int j = 0; j < UP; j++)
        for (int i = 0; i < ACROSS; i++) {
            double const at[2] = {box->x0 + (box->x1 - box->x0) * i / (ACROSS - 1),
                                  box->y0 + (box->y1 - box->y0) * j / (UP - 1)};
            values[j * ACROSS + i] = t < 0 ? f(at, 2, user) : zest_toy_tilted(&study->disc, f, user, t, at);
        }
    zest_plot_grid const grid = {ACROSS, UP, box->x0, box->x1, box->y0, box->y1, values};
    zest_plot_colours(panel, ZEST_PLOT_MAP_DEPTH, ZEST_PLOT_LOG, 0.02, 4, label);
    zest_plot_filled(panel, &grid, LEVELS, levels);
    zest_plot_contours(panel, &grid, LEVELS, levels,
                       (zest_plot_style){.colour = ZEST_PLOT_GREY, .opacity = 0.45}, NULL);
    free(values);
}

static void draw_tilted(zest_plot_panel *panel, const toy_study *study, int which) {
    char title[80], label[32];
    double const t = which ? study->settings.t : 0;
    snprintf(title, sizeof title, "F at t = %g, in the ball of radius %.3g", t,
             sqrt(2) * study->settings.rho);
    snprintf(label, sizeof label, "F at t = %g", t);
    axes(panel, study, title);
    draw_surface(panel, study, t, label);
    for (int m = which ? ZEST_TOY_ZEST_N : ZEST_TOY_MEZO; m < (which ? ZEST_TOY_METHODS : ZEST_TOY_ZEST_N);
         m++)
        draw_ends(panel, study, m);
    for (size_t j = 0; j < study->minima_count[which]; j++) {
        const double *m = study->minima[which][j];
        char text[32];
        zest_plot_style const star = {
            .colour = ZEST_PLOT_ORANGE, .mark = ZEST_PLOT_STAR, .size = 11, .dash = ZEST_PLOT_NO_LINE};
        zest_plot_line(panel, 1, m, m + 1, star, "minimum of F");
        snprintf(text, sizeof text, "%.4f", m[2]);
        zest_plot_text(panel, m[0], m[1], ZEST_PLOT_BELOW, text, (zest_plot_style){.size = 11.5});
    }
}

/* x against the step: mean and standard deviation over the seeds. */
static void draw_progress(zest_plot_panel *panel, const toy_study *study, zest_toy_method method) {
    const toy_result *r = &study->results[method];
    size_t const stride = 1 + (r->points - 1) / SHOWN_STEPS, count = (r->points - 1) / stride + 1;
    double *capacity = malloc(4 * count * sizeof *capacity);
    if (!capacity) return;
    double *step = capacity, *mean = capacity + count, *low = mean + count, *high = low + count;
    for (size_t i = 0; i < count; i++) {
        double sum = 0, squares = 0;
        for (size_t run = 0; run < r->runs; run++) sum += r->paths[2 * (run * r->points + i * stride)];
        mean[i] = sum / (double)r->runs;
        for (size_t run = 0; run < r->runs; run++)
            squares += pow(r->paths[2 * (run * r->points + i * stride)] - mean[i], 2);
        double const sd = r->runs > 1 ? sqrt(squares / (double)(r->runs - 1)) : 0;
        step[i] = (double)(i * stride), low[i] = mean[i] - sd, high[i] = mean[i] + sd;
    }
    if (r->runs > 1)
        zest_plot_band(panel, count, step, low, high, (zest_plot_style){.colour = colours[method]}, NULL);
    zest_plot_line(panel, count, step, mean,
                   (zest_plot_style){.colour = colours[method], .dash = dashes[method]}, NULL);
    free(capacity);
}

static zest_plot *stationary_figure(const toy_study *study) {
    zest_plot *plot = zest_plot_new(2, 2, 1120, 880);
    zest_plot_title(
        plot, "Two minima of equal loss and equal trace",
        "Contours of the loss with the paths of gradient descent, MeZO and ZEST; contours of the loss "
        "averaged and tilted over a ball, with their minima; the coordinate x against the step.");
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    axes(panel, study, "f and the paths of the first seed");
    draw_surface(panel, study, -1, "f");
    draw_paths(panel, study);
    zest_plot_text(panel, 1.02, -0.12, ZEST_PLOT_BELOW, "sharp", (zest_plot_style){.size = 12.5});
    zest_plot_text(panel, -1.02, -0.12, ZEST_PLOT_BELOW, "flat", (zest_plot_style){.size = 12.5});
    panel = zest_plot_at(plot, 0, 1);
    zest_plot_panel_title(panel, "x against the step: mean and sd over the seeds");
    zest_plot_axis_x(panel, "step", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, "x", ZEST_PLOT_LINEAR);
    zest_plot_range_y(panel, -1.5, 1.5);
    zest_plot_guide_y(panel, 1, (zest_plot_style){.dash = ZEST_PLOT_DOTTED, .width = 1}, NULL);
    zest_plot_guide_y(panel, -1, (zest_plot_style){.dash = ZEST_PLOT_DOTTED, .width = 1}, NULL);
    for (int m = 0; m < ZEST_TOY_METHODS; m++) draw_progress(panel, study, (zest_toy_method)m);
    for (int which = 0; which < 2; which++) draw_tilted(zest_plot_at(plot, 1, which), study, which);
    return plot;
}

/* All triangles that touch the box: the centres of all lower and upper halves of the cells. */
static void draw_triangles(zest_plot_panel *panel, const toy_study *study) {
    const zest_toy_mesh *mesh = &study->settings.mesh;
    const zest_toy_box *box = &study->box;
    int const rows = (int)ceil(3 / mesh->height) + 2, columns = (int)ceil(4.5 / mesh->width) + 2;
    if (rows > 60 || columns > 60) return; /* too fine to be visible */
    for (int j = -rows; j <= rows; j++)
        for (int i = -2 * columns; i <= 2 * columns; i++)
            for (int upper = 0; upper < 2; upper++) {
                double const u = i + (1 + upper) / 3.0, v = j + (1 + upper) / 3.0;
                double const middle[2] = {(u + 0.5 * v) * mesh->width, v * mesh->height};
                zest_toy_triangle t;
                char text[16];
                if (middle[0] < box->x0 - mesh->width || middle[0] > box->x1 + mesh->width ||
                    middle[1] < box->y0 - mesh->height || middle[1] > box->y1 + mesh->height)
                    continue;
                zest_toy_mesh_triangle(mesh, middle, &t);
                double const slope = hypot(t.slope[0], t.slope[1]);
                zest_plot_polygon(panel, 3, t.x, t.y, slope);
                snprintf(text, sizeof text, "%.1f", slope);
                if (mesh->width >= 0.28 && middle[0] > box->x0 + 0.08 && middle[0] < box->x1 - 0.08 &&
                    middle[1] > box->y0 + 0.05 && middle[1] < box->y1 - 0.05)
                    zest_plot_text(panel, middle[0], middle[1], ZEST_PLOT_CENTRE, text,
                                   (zest_plot_style){.size = 9});
            }
}

/* Gradient descent on F_t itself with small steps: the path of an exact gradient. */
static void exact_route(const toy_study *study, double t, double *slope, double *bend) {
    enum { STEPS = 400 };
    double const h = 1e-3, rate = study->settings.lr * (double)study->settings.steps / STEPS;
    double path[2 * (STEPS + 1)] = {study->settings.start[0], study->settings.start[1]};
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    for (int i = 0; i < STEPS; i++) {
        const double *x = path + 2 * i;
        for (int c = 0; c < 2; c++) {
            double up[2] = {x[0], x[1]}, down[2] = {x[0], x[1]};
            up[c] += h, down[c] -= h;
            path[2 * i + 2 + c] = x[c] - rate / (2 * h) *
                                             (zest_toy_tilted(&study->disc, f, user, t, up) -
                                              zest_toy_tilted(&study->disc, f, user, t, down));
        }
    }
    *slope = zest_toy_route_slope(&study->settings.mesh, path, STEPS + 1, study->route_floor, NULL);
    *bend = zest_toy_route_bend(path, STEPS + 1);
}

/* Slope and bend of the paths, with standard errors. */
static void draw_routes(zest_plot_panel *panel, const toy_study *study) {
    zest_plot_style const star = {
        .colour = ZEST_PLOT_ORANGE, .mark = ZEST_PLOT_STAR, .size = 11, .dash = ZEST_PLOT_NO_LINE};
    zest_plot_panel_title(panel, "Paths: flat is left and low");
    zest_plot_axis_x(panel, "mean |∇f| along the path, until f < 0.5", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, "y / y₀ where x = x₀ / 2", ZEST_PLOT_LINEAR);
    for (int i = 0; i < 2; i++) {
        double const t = i ? study->settings.t : 0;
        double slope, bend;
        char text[32];
        exact_route(study, t, &slope, &bend);
        snprintf(text, sizeof text, "t = %g", t);
        zest_plot_line(panel, 1, &slope, &bend, star, "gradient descent on F of the ball");
        zest_plot_text(panel, slope, bend, i ? ZEST_PLOT_RIGHT : ZEST_PLOT_LEFT, text,
                       (zest_plot_style){.size = 12});
    }
    for (int m = 0; m < ZEST_TOY_METHODS; m++) {
        const toy_result *r = &study->results[m];
        double const low = r->bend - r->bend_error, high = r->bend + r->bend_error;
        double const across[2] = {r->slope - r->slope_error, r->slope + r->slope_error},
                     level[2] = {r->bend, r->bend};
        zest_plot_style const thin = {.colour = colours[m], .width = 1.5};
        zest_plot_whiskers(panel, 1, &r->slope, &low, &high, thin);
        zest_plot_line(panel, 2, across, level, thin, NULL);
        zest_plot_line(
            panel, 1, &r->slope, &r->bend,
            (zest_plot_style){.colour = colours[m], .mark = marks[m], .size = 10, .dash = ZEST_PLOT_NO_LINE},
            NULL);
    }
}

static zest_plot *linear_figure(const toy_study *study) {
    zest_plot *plot = zest_plot_new(1, 2, 1120, 620);
    zest_plot_title(
        plot, "Descent on a surface of triangles",
        "Triangles shaded by their slope, dark is flat, with the paths of gradient descent, MeZO and ZEST; "
        "next to it the steepness of each method's path and how soon it turns to the flat axis, with "
        "standard errors.");
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    axes(panel, study, "Slope of each triangle, and the paths of the first seed");
    zest_plot_colours(panel, ZEST_PLOT_MAP_LIGHT, ZEST_PLOT_LINEAR, 0, 3.6, "|∇f| of the triangle");
    draw_triangles(panel, study);
    draw_paths(panel, study);
    draw_routes(zest_plot_at(plot, 0, 1), study);
    return plot;
}

static zest_status draw_study(const toy_study *study, const char *path, zest_error *error) {
    const zest_toy_settings *s = &study->settings;
    char text[200];
    zest_plot *plot = s->kind == ZEST_TOY_LINEAR ? linear_figure(study) : stationary_figure(study);
    snprintf(text, sizeof text,
             "preset %s: %s directions%s, k = %" PRIu64 ", ρ = %g, t = %g, lr = %g, %" PRIu64
             " steps, %" PRIu64 " seeds; GD %" PRIu64 " steps",
             study->clean ? "clean" : "paper", s->distribution,
             strcmp(s->denominator, "ball") ? "" : ", ball denominator", s->k, s->rho, s->t, s->lr, s->steps,
             study->seeds, s->gd_steps);
    zest_plot_subtitle(plot, text);
    zest_status const status = zest_plot_write(plot, path, error);
    zest_plot_free(plot);
    return status;
}

/* ---- Command ---- */

static int run_toy(const zest_options *options, char **words, int count) {
    (void)count;
    toy_study study = {0};
    zest_error error = {0};
    int const linear = strcmp(words[0], "linear") == 0;
    if (!strcmp(words[0], "valley")) return zest_toy_valley(options);
    if (!linear && strcmp(words[0], "stationary") != 0)
        return zest_output_failf(ZEST_ERROR_ARGUMENT, "toy: '%s' is not linear, stationary or valley",
                                 words[0]);
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    zest_status status =
        read_settings(options, linear ? ZEST_TOY_LINEAR : ZEST_TOY_STATIONARY, &study, &error);
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
    for (int m = 0; m < ZEST_TOY_METHODS; m++) free(study.results[m].paths);
    zest_toy_disc_free(&study.disc);
    return code;
}

const zest_command zest_command_toy = {
    .name = "toy",
    .words = "linear|stationary|valley",
    .min_words = 1,
    .max_words = 1,
    .summary = "run small problems on which the tilt can be seen at work",
    .description =
        "Runs gradient descent, MeZO, ZEST-N and ZEST-BC on one of the paper's two landscapes in the plane, "
        "or "
        "on the valley, over several seeds, and prints where they end. With --out it draws their paths "
        "(SVG).\n\n"
        "stationary: two minima with the same loss and the same mean eigenvalue; (1, 0) has the larger "
        "largest one. linear: a convex surface of triangles; the question is how steep the path down is. "
        "valley: "
        "f = 5 [(1 + tanh s) x^2 + (1 - tanh s) y^2] has the same Gaussian average for every s on the floor "
        "x = "
        "y = 0, so that MeZO is indifferent to s; ZEST goes to the flattest place. --valleys adds copies.\n\n"
        "Options that are not given come from the preset. paper: stationary starts at (0, 1), rho 0.8, 100 "
        "steps; linear starts at (-1.5, 1.8), rho 0.5, 40 steps; both k 500, t 1, lr 0.1, Gaussian. clean: "
        "stationary with rho 0.4 and 1000 steps; linear with sphere and ball, rho 2, lr 0.05 and 80 steps. "
        "The valley has one: start (0, 0, 1.5), rho 0.2, t 1, k 5, lr 0.02, 3000 steps, Gaussian; with more "
        "valleys or another k, lr and steps are fitted. docs/toys.md describes the results.",
    .examples = "zest toy stationary\tthe settings of the paper\n"
                "zest toy stationary --preset clean --out toy.svg\tsettings in which the claim holds, drawn\n"
                "zest toy linear --seeds 50\tthe other landscape\n"
                "zest toy valley --seeds 6 --out valley.svg\ta problem that MeZO cannot solve\n",
    .options = "out\tfigure to write (SVG)\n"
               "preset\tvalues of options that are not given: paper (the paper's settings) or clean "
               "(settings in which its claim shows clearly)\n"
               "seed\trandom seed of the first run\n"
               "start-at\tstarting point: X,Y; X,Y,S for the valley",
    .defaults = "rho=0.8 k=500 lr=0.1 steps=100",
    .users = ZEST_FOR_TOY,
    .run = run_toy,
};
