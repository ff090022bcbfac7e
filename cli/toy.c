/* zest toy: the paper's low-dimensional examples (section 4.3). */
#include "cli/toy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/progress.h"

/* ---- Settings ---- */

static zest_status read_pair(const zest_options *options, zest_option_id id, double pair[2],
                             zest_error *error) {
    double *values = NULL;
    size_t count = 0;
    zest_status status = zest_options_list(options, id, &values, &count, error);
    if (!status && (count != 2 || !isfinite(values[0]) || !isfinite(values[1])))
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "option %s: two numbers, separated by a comma, are wanted",
                                zest_option_row_at(id)->name);
    if (!status) pair[0] = values[0], pair[1] = values[1];
    free(values);
    return status;
}

/* The preset, and on top of it what was given. */
static zest_status read_settings(const zest_options *o, zest_toy_kind kind, zest_toy_study *study,
                                 zest_error *error) {
    zest_toy_settings *s = &study->settings;
    const char *preset = zest_options_text(o, ZEST_OPTION_PRESET);
    study->clean = strcmp(preset, "clean") == 0;
    if (!study->clean && strcmp(preset, "paper"))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "option preset: a toy takes paper or clean, not '%s'", preset);
    study->seed = zest_options_whole(o, ZEST_OPTION_SEED);
    study->seeds = zest_options_whole(o, ZEST_OPTION_SEEDS);
    study->route_floor = 0.5;
    study->box =
        kind == ZEST_TOY_LINEAR ? (zest_toy_box){-1.9, 0.5, -0.4, 2.0} : (zest_toy_box){-1.9, 1.7, -1.1, 1.4};
    zest_toy_preset(kind, study->clean, s);
    if (zest_options_given(o, ZEST_OPTION_T)) s->t = zest_options_number(o, ZEST_OPTION_T);
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
    if (zest_options_given(o, ZEST_OPTION_START_AT)) {
        zest_status status = read_pair(o, ZEST_OPTION_START_AT, s->start, error);
        if (status) return status;
    }
    double mesh[2] = {s->mesh.width, s->mesh.height};
    zest_status status =
        zest_options_given(o, ZEST_OPTION_MESH) ? read_pair(o, ZEST_OPTION_MESH, mesh, error) : ZEST_OK;
    s->mesh = (zest_toy_mesh){.width = mesh[0], .height = mesh[1]};
    if (!status && !zest_toy_mesh_is_convex(&s->mesh))
        status = zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "option mesh: %g,%g: both must be positive and the width below %.4g times the height, "
            "else the surface is not convex",
            mesh[0], mesh[1], sqrt(5));
    return status;
}

/* ---- Runs ---- */

static zest_status run_all(zest_toy_study *study, int quiet, zest_error *error) {
    size_t const seeds = (size_t)study->seeds, jobs = ZEST_TOY_METHODS * seeds;
    zest_status status = ZEST_OK;
    size_t done = 0;
    zest_progress progress;
    for (int m = 0; m < ZEST_TOY_METHODS; m++) {
        zest_toy_result *r = &study->results[m];
        r->runs = m == ZEST_TOY_GD ? 1 : seeds; /* gradient descent draws no random number */
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
        zest_toy_result *r = &study->results[method];
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

/* ---- What came out ---- */

static zest_toy_basin basin_of(const zest_toy_study *study, const double end[2]) {
    if (!isfinite(end[0] + end[1])) return ZEST_TOY_LOST;
    if (study->settings.kind == ZEST_TOY_STATIONARY) return zest_toy_stationary_basin(end);
    return hypot(end[0], end[1]) < 100 ? ZEST_TOY_FLAT
                                       : ZEST_TOY_LOST; /* the one minimum, or thrown far out */
}

static void mean_and_sd(const double *values, size_t count, double *mean, double *sd) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    *mean = count ? sum / (double)count : NAN;
    for (size_t i = 0; i < count; i++) squares += (values[i] - *mean) * (values[i] - *mean);
    *sd = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
}

static void summarise_ends(zest_toy_study *study, zest_toy_result *r, double *room) {
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    size_t count = 0;
    for (size_t run = 0; run < r->runs; run++) {
        const double *end = zest_toy_end(r, run);
        zest_toy_basin const basin = basin_of(study, end);
        r->basins[basin]++;
        if (basin == ZEST_TOY_LOST) continue;
        r->loss += f(end, 2, user);
        r->flat += zest_toy_tilted(&study->disc, f, user, 0, end);
        r->tilted += zest_toy_tilted(&study->disc, f, user, study->settings.t, end);
        room[count] = end[0];
        room[r->runs + count++] = end[1];
    }
    mean_and_sd(room, count, &r->mean[0], &r->sd[0]);
    mean_and_sd(room + r->runs, count, &r->mean[1], &r->sd[1]);
    r->loss /= (double)count, r->flat /= (double)count, r->tilted /= (double)count;
}

static double slope_of(const zest_toy_study *study, const zest_toy_result *r, size_t run) {
    return zest_toy_route_slope(&study->settings.mesh, r->paths + 2 * run * r->points, r->points,
                                study->route_floor, NULL);
}

/* Seed by seed against MeZO: the same seed draws the same directions for every method. Gradient descent,
 * which has one run only, comes last and is compared with MeZO's mean. */
static void summarise_route(zest_toy_study *study, zest_toy_result *r, double *room) {
    const zest_toy_result *mezo = &study->results[ZEST_TOY_MEZO];
    double sd;
    for (size_t run = 0; run < r->runs; run++) {
        double const base = r->runs == mezo->runs ? slope_of(study, mezo, run) : mezo->slope;
        room[run] = slope_of(study, r, run);
        room[r->runs + run] = (base - room[run]) / base;
    }
    mean_and_sd(room, r->runs, &r->slope, &sd);
    r->slope_error = sd / sqrt((double)r->runs);
    mean_and_sd(room + r->runs, r->runs, &r->gain, &sd);
    r->gain_error = sd / sqrt((double)r->runs);
    for (size_t run = 0; run < r->runs; run++)
        room[run] = zest_toy_route_bend(r->paths + 2 * run * r->points, r->points);
    mean_and_sd(room, r->runs, &r->bend, &sd);
    r->bend_error = sd / sqrt((double)r->runs);
}

/* The rule's own error: F_t where the runs ended, once more with half as many circles and spokes. */
static zest_status check_disc(zest_toy_study *study) {
    zest_toy_disc half;
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    zest_status status = zest_toy_disc_new(&half, study->settings.rho, 12, 48);
    for (int m = 0; m < ZEST_TOY_METHODS && !status; m++) {
        const double *end = zest_toy_end(&study->results[m], 0);
        if (basin_of(study, end) == ZEST_TOY_LOST) continue;
        double const change = zest_toy_tilted(&half, f, user, study->settings.t, end) -
                              zest_toy_tilted(&study->disc, f, user, study->settings.t, end);
        if (fabs(change) > study->disc_error) study->disc_error = fabs(change);
    }
    zest_toy_disc_free(&half);
    return status;
}

static zest_status summarise(zest_toy_study *study, zest_error *error) {
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    double *room = malloc(2 * (size_t)study->seeds * sizeof *room);
    zest_status status = zest_toy_disc_new(&study->disc, study->settings.rho, 24, 96);
    if (!room || status) {
        free(room);
        return zest_error_set(error, ZEST_ERROR_MEMORY, "not enough memory for the summary");
    }
    for (int m = ZEST_TOY_METHODS - 1; m >= 0; m--) {
        summarise_ends(study, &study->results[m], room);
        if (study->settings.kind == ZEST_TOY_LINEAR) summarise_route(study, &study->results[m], room);
    }
    free(room);
    for (int i = 0; i < 2; i++) {
        size_t const found = zest_toy_minima(&study->disc, f, user, i ? study->settings.t : 0, &study->box,
                                             study->minima[i], ZEST_TOY_MINIMA);
        study->minima_count[i] = found < ZEST_TOY_MINIMA ? found : ZEST_TOY_MINIMA;
    }
    status = check_disc(study);
    return status ? zest_error_set(error, status, "not enough memory for the summary") : ZEST_OK;
}

/* ---- Words ---- */

const char *zest_toy_title(zest_toy_method method) {
    static const char *const titles[] = {"GD", "MeZO", "ZEST-N", "ZEST-BC"};
    return titles[method];
}

/* A number, or a dash where there is none. */
static void print_number(const char *before, int width, int decimals, double number) {
    if (isnan(number))
        printf("%s%*s", before, width, "-");
    else if (fabs(number) < 0.5 * pow(10, -decimals)) /* no -0.000 */
        printf("%s%*.*f", before, width, decimals, 0.0);
    else
        printf("%s%*.*f", before, width, decimals, number);
}

static void print_head(const zest_toy_study *study) {
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
        if (!study->minima_count[i]) printf(" no place shown");
        for (size_t j = 0; j < study->minima_count[i]; j++) {
            const double *m = study->minima[i][j];
            print_number(j ? ", (" : " (", 1, 3, m[0]);
            print_number(", ", 1, 3, m[1]);
            print_number("): ", 1, 4, m[2]);
        }
        putchar('\n');
    }
    printf("quadrature of F_t: good to %.1g\n\n", study->disc_error);
}

static void print_route(const zest_toy_result *r) {
    print_number("  ", 7, 4, r->slope);
    print_number(" +-", 7, 4, r->slope_error);
    print_number(" ", 8, 2, 100 * r->gain);
    print_number(" % +-", 5, 2, 100 * r->gain_error);
    print_number("    ", 6, 3, r->bend);
    print_number(" +-", 6, 3, r->bend_error);
    putchar('\n');
}

static void print_table(const zest_toy_study *study) {
    int const linear = study->settings.kind == ZEST_TOY_LINEAR;
    char tilted[32];
    snprintf(tilted, sizeof tilted, "F_%g", study->settings.t);
    printf("%-8s %7s %6s %7s %6s %8s %8s %8s", "method", "x", "sd", "y", "sd", "f", "F_0", tilted);
    puts(linear ? "   route slope        flatter than MeZO   y left halfway" : "   sharp  flat  lost");
    for (int m = 0; m < ZEST_TOY_METHODS; m++) {
        const zest_toy_result *r = &study->results[m];
        printf("%-8s", zest_toy_title((zest_toy_method)m));
        for (int i = 0; i < 2; i++) print_number(" ", 7, 3, r->mean[i]), print_number(" ", 6, 3, r->sd[i]);
        print_number(" ", 8, 4, r->loss);
        print_number(" ", 8, 4, r->flat);
        print_number(" ", 8, 4, r->tilted);
        if (linear)
            print_route(r);
        else
            printf("   %5zu %5zu %5zu\n", r->basins[ZEST_TOY_SHARP], r->basins[ZEST_TOY_FLAT],
                   r->basins[ZEST_TOY_LOST]);
    }
    for (int m = 0; m < ZEST_TOY_METHODS && linear; m++)
        if (study->results[m].basins[ZEST_TOY_LOST])
            printf("%s: %zu runs were thrown far out and do not count in the ends\n",
                   zest_toy_title((zest_toy_method)m), study->results[m].basins[ZEST_TOY_LOST]);
    puts(linear ? "\nroute slope: mean of |grad f| along the way until f < 0.5; y left halfway: y / y_0 "
                  "where x = x_0 / 2;"
                  "\n+- is the standard error over the seeds"
                : "\nsharp, flat: runs from whose end downhill leads to (1, 0), (-1, 0); lost: to neither");
}

/* ---- JSON ---- */

static json_t *json_pair(const double pair[2]) {
    return json_pack("[oo]", zest_output_real(pair[0]), zest_output_real(pair[1]));
}

static json_t *json_result(const zest_toy_study *study, int m) {
    const zest_toy_result *r = &study->results[m];
    json_t *ends = json_array();
    for (size_t run = 0; run < r->runs; run++) zest_output_append(&ends, json_pair(zest_toy_end(r, run)));
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

static json_t *json_minima(const zest_toy_study *study, int which) {
    json_t *list = json_array();
    for (size_t j = 0; j < study->minima_count[which]; j++) {
        const double *m = study->minima[which][j];
        zest_output_append(&list, json_pack("{so so so}", "x", zest_output_real(m[0]), "y",
                                            zest_output_real(m[1]), "value", zest_output_real(m[2])));
    }
    return list;
}

static json_t *json_study(const zest_toy_study *study) {
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

/* ---- The command ---- */

static int run_toy(const zest_options *options, char **words, int count) {
    (void)count;
    zest_toy_study study = {0};
    zest_error error = {0};
    int const linear = strcmp(words[0], "linear") == 0;
    if (!linear && strcmp(words[0], "stationary") != 0)
        return zest_output_failf(ZEST_ERROR_ARGUMENT, "toy: '%s' is neither linear nor stationary", words[0]);
    const char *out = zest_options_text(options, ZEST_OPTION_OUT);
    zest_status status =
        read_settings(options, linear ? ZEST_TOY_LINEAR : ZEST_TOY_STATIONARY, &study, &error);
    if (!status) status = run_all(&study, (int)zest_options_whole(options, ZEST_OPTION_QUIET), &error);
    if (!status) status = summarise(&study, &error);
    if (!status && *out) status = zest_toy_draw(&study, out, &error);
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
    .words = "linear|stationary",
    .least = 1,
    .most = 1,
    .summary = "run the paper's two examples in the plane",
    .description =
        "Runs gradient descent, MeZO, ZEST-N and ZEST-BC on one of the paper's two landscapes in the plane, "
        "over several seeds, and prints where they end. With --out it draws the ways they took (SVG).\n\n"
        "stationary: two minima with the same loss and the same mean eigenvalue; (1, 0) has the larger "
        "largest one. linear: a convex surface of triangles; the question is how steep the way down is.\n\n"
        "Options that are not given come from the preset. paper: stationary starts at (0, 1), rho 0.8, 100 "
        "steps; linear starts at (-1.5, 1.8), rho 0.5, 40 steps; both k 500, t 1, lr 0.1, Gaussian. clean: "
        "stationary with rho 0.4 and 1000 steps; linear with sphere and ball, rho 2, lr 0.05 and 80 steps. "
        "docs/toys.md tells what comes out, and what does not.",
    .examples = "zest toy stationary\tthe settings of the paper\n"
                "zest toy stationary --preset clean --out toy.svg\tsettings in which the claim holds, drawn\n"
                "zest toy linear --seeds 50\tthe other landscape\n",
    .options = "out\tfigure to write (SVG)\n"
               "preset\tvalues of options that are not given: paper (the paper's settings) or clean "
               "(settings in which its claim shows clearly)\n"
               "seed\trandom seed of the first run",
    .defaults = "rho=0.8 k=500 lr=0.1 steps=100",
    .users = ZEST_FOR_TOY,
    .run = run_toy,
};
