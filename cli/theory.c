/* zest theory: which curvature a tilt penalises, on a quadratic landscape. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/progress.h"
#include "lab/plot/plot.h"
#include "lab/theory/theory.h"
#include "zest_theory.h"

/* R_t and phi_i at one t. Values that do not exist are NaN. */
typedef struct {
    double t, gaussian;
    zest_sharpness ball, sampled;
    double *gaussian_phi, *ball_phi;
} theory_row;

typedef struct {
    zest_landscape landscape;
    double *eigenvalues, *gradient;
    double limit; /* largest t with a finite Gaussian F_t */
    zest_worst worst;
    double *maximiser, *worst_phi, *multiplier_derivative, *worst_phi_derivative; /* one allocation */
    zest_tilt_bounds bounds;
    theory_row *rows;
    size_t count;
} theory_table;

/* The samples of all rows of all landscapes. */
typedef struct {
    zest_progress progress;
    size_t landscapes;
    uint64_t before, all; /* samples of the rows before this one; of all rows */
} sampling;

/* Whether F_t exists for Gaussian perturbations at the row's t. */
static int has_gaussian(const theory_table *table, const theory_row *row) { return row->t < table->limit; }

/* ---- Values ---- */

static void on_samples(uint64_t done, uint64_t total, void *user) {
    sampling *s = user;
    zest_progress_update(&s->progress, (double)(s->before + done), (double)s->all, NULL);
    if (done == total) s->before += total;
}

static zest_status fill_row(zest_ctx *ctx, const theory_table *table, theory_row *row, uint64_t seed,
                            uint64_t samples, sampling *progress) {
    size_t n = table->landscape.count;
    row->gaussian_phi = malloc(2 * n * sizeof(double));
    if (!row->gaussian_phi) return ZEST_ERROR_MEMORY;
    row->ball_phi = row->gaussian_phi + n;
    row->gaussian = NAN;
    row->sampled.value = NAN;
    for (size_t i = 0; i < n; i++) row->gaussian_phi[i] = NAN;
    zest_status status = ZEST_OK;
    if (has_gaussian(table, row))
        status = zest_theory_gaussian(ctx, &table->landscape, row->t, &row->gaussian, row->gaussian_phi);
    if (!status) status = zest_theory_ball(ctx, &table->landscape, row->t, &row->ball, row->ball_phi);
    if (!status && samples)
        status =
            zest_theory_sampled_report(ctx, &table->landscape, row->t, seed, samples,
                                       &(zest_progress_callback){on_samples, progress}, &row->sampled, NULL);
    return status;
}

static zest_status fill_table(zest_ctx *ctx, theory_table *table, const double *tilts, size_t count,
                              uint64_t seed, uint64_t samples, sampling *progress) {
    table->rows = calloc(count + 1, sizeof *table->rows);
    if (!table->rows) return ZEST_ERROR_MEMORY;
    table->count = count;
    zest_status status = zest_theory_gaussian_limit(ctx, &table->landscape, &table->limit);
    for (size_t j = 0; j < count && !status; j++) {
        table->rows[j].t = tilts[j];
        status = fill_row(ctx, table, &table->rows[j], seed, samples, progress);
    }
    return status;
}

static void free_table(theory_table *table) {
    for (size_t j = 0; j < table->count; j++) free(table->rows[j].gaussian_phi);
    free(table->rows);
    free(table->eigenvalues);
    free(table->gradient);
    free(table->maximiser);
}

/* ---- Figure: R_t and phi_i against t, over the range of the positive tilts ---- */

enum { POINTS = 161, SHOWN_PHI = 4 }; /* of each curve; curves of phi_i in each landscape */

/* The range of the positive tilts, widened to at least one decade. */
static void range_of(const theory_table *table, double *low, double *high) {
    *low = HUGE_VAL, *high = 0;
    for (size_t j = 0; j < table->count; j++) {
        double t = table->rows[j].t;
        if (t > 0) *low = fmin(*low, t), *high = fmax(*high, t);
    }
    if (!(*high > 0)) *low = 0.1, *high = 10;
    if (*high < 10 * *low) *low /= 3.2, *high *= 3.2;
}

/* The Gaussian diverges: it is clipped where it would flatten everything else. R_inf is omitted where no
 * curve comes near it. */
static void draw_values(zest_plot_panel *panel, const theory_table *dense, const theory_table *table,
                        const double *t, int which) {
    static const char *const ball[] = {"ball, landscape 1", "ball, landscape 2"};
    static const char *const gaussian[] = {"Gaussian, landscape 1", "Gaussian, landscape 2"};
    int colour = which ? ZEST_PLOT_ORANGE : ZEST_PLOT_BLUE;
    double value[POINTS], last = dense->rows[POINTS - 1].ball.value, top = table->worst.value;
    int in_sight = last > 0.2 * top;
    for (int j = 0; j < POINTS; j++) value[j] = dense->rows[j].ball.value;
    zest_plot_line(panel, POINTS, t, value, (zest_plot_style){.colour = colour}, ball[which]);
    double cut = fmax(1.15 * (in_sight ? top : last), 1.5 * dense->rows[0].gaussian);
    for (int j = 0; j < POINTS; j++) value[j] = dense->rows[j].gaussian > cut ? NAN : dense->rows[j].gaussian;
    zest_plot_line(panel, POINTS, t, value, (zest_plot_style){.colour = colour, .dash = ZEST_PLOT_DASHED},
                   gaussian[which]);
    zest_plot_style thin = {.colour = colour, .dash = ZEST_PLOT_DOTTED, .width = 1};
    if (in_sight) zest_plot_guide_y(panel, top, thin, which ? NULL : "R_inf in the ball");
}

static void draw_sensitivities(zest_plot_panel *panel, const theory_table *dense, const double *t,
                               int which) {
    static const zest_plot_dash dashes[SHOWN_PHI] = {ZEST_PLOT_SOLID, ZEST_PLOT_DASHED, ZEST_PLOT_DOTTED,
                                                     ZEST_PLOT_DASH_DOT};
    double value[POINTS];
    for (size_t i = 0; i < dense->landscape.count && i < SHOWN_PHI; i++) {
        char label[64];
        for (int j = 0; j < POINTS; j++) value[j] = dense->rows[j].ball_phi[i];
        snprintf(label, sizeof label, "landscape %d, λ = %g", which + 1, dense->landscape.eigenvalues[i]);
        zest_plot_style style = {.colour = which ? ZEST_PLOT_ORANGE : ZEST_PLOT_BLUE, .dash = dashes[i]};
        zest_plot_line(panel, POINTS, t, value, style, label);
    }
}

static zest_plot *layout(const theory_table *table) {
    char text[160];
    zest_plot *plot = zest_plot_new(1, 2, 960, 440);
    zest_plot_title(plot, "The tilt goes from the average to the worst case",
                    "Left: the regulariser R_t against the tilt t, in the ball from R_0 up to R_inf, for a "
                    "Gaussian up to infinity. Right: how much each eigenvalue counts in the ball.");
    snprintf(text, sizeof text, "d = %.15g, rho = %g", (double)table->landscape.dimension,
             table->landscape.rho);
    zest_plot_subtitle(plot, text);
    for (int c = 0; c < 2; c++) zest_plot_axis_x(zest_plot_at(plot, 0, c), "tilt t", ZEST_PLOT_LOG);
    zest_plot_legend(zest_plot_at(plot, 0, 1), ZEST_PLOT_LEGEND_TOP_LEFT);
    zest_plot_axis_y(zest_plot_at(plot, 0, 0), "regulariser R_t", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(zest_plot_at(plot, 0, 1), "sensitivity φ_i (ball)", ZEST_PLOT_LINEAR);
    return plot;
}

static zest_status draw_tables(zest_ctx *ctx, const theory_table *tables, size_t count, const char *path,
                               zest_error *error) {
    double low, high, t[POINTS];
    range_of(tables, &low, &high);
    for (int j = 0; j < POINTS; j++) t[j] = low * pow(high / low, (double)j / (POINTS - 1));
    zest_plot *plot = layout(tables);
    zest_status status = plot ? ZEST_OK : zest_error_memory(error, "the figure", 0);
    for (size_t s = 0; s < count && !status; s++) {
        theory_table dense = {.landscape = tables[s].landscape};
        status = fill_table(ctx, &dense, t, POINTS, 0, 0, NULL);
        if (status) {
            zest_error_set(error, status, "%s", zest_ctx_error(ctx));
        } else {
            draw_values(zest_plot_at(plot, 0, 0), &dense, &tables[s], t, (int)s);
            draw_sensitivities(zest_plot_at(plot, 0, 1), &dense, t, (int)s);
        }
        free_table(&dense);
    }
    if (!status) status = zest_plot_write(plot, path, error);
    zest_plot_free(plot);
    return status;
}

enum { COLUMNS = 3, SHOWN = 8 }; /* sensitivities in the table and numbers in a list; JSON has them all */

/* ---- Text ---- */

static void print_number(double number, int precision) {
    if (isnan(number))
        printf(" %12s", "-");
    else
        printf(" %12.*g", precision, number);
}

static void print_list(const char *before, const double *numbers, size_t count) {
    printf("%s", before);
    for (size_t i = 0; i < count && i < SHOWN; i++) printf(" %.6g", numbers[i]);
    if (count > SHOWN) printf(" ... (%zu)", count);
}

static void print_heads(const char *what, size_t columns) {
    for (size_t i = 0; i < columns; i++) {
        char head[32];
        snprintf(head, sizeof head, "%s phi_%zu", what, i + 1);
        printf(" %12s", head);
    }
}

static void print_rows(const theory_table *table, int sampled) {
    size_t n = table->landscape.count, columns = n < COLUMNS ? n : COLUMNS;
    printf("%10s %12s %12s", "t", "Gauss R_t", "ball R_t");
    if (sampled) printf(" %12s %12s %12s", "sampled R_t", "std error", "effective");
    print_heads("Gauss", columns);
    print_heads("ball", columns);
    putchar('\n');
    for (size_t j = 0; j < table->count; j++) {
        const theory_row *row = &table->rows[j];
        printf("%10.6g", row->t);
        print_number(row->gaussian, 7);
        print_number(row->ball.value, 7);
        if (sampled) {
            print_number(row->sampled.value, 7);
            print_number(row->sampled.error, 2);
            print_number(row->sampled.effective, 4);
        }
        for (size_t i = 0; i < columns; i++) print_number(row->gaussian_phi[i], 6);
        for (size_t i = 0; i < columns; i++) print_number(row->ball_phi[i], 6);
        putchar('\n');
    }
    printf("%10s", "inf");
    print_number(NAN, 7);
    print_number(table->worst.value, 7);
    for (int i = 0; sampled && i < 3; i++) print_number(NAN, 7);
    for (size_t i = 0; i < columns; i++) print_number(NAN, 7);
    for (size_t i = 0; i < columns; i++) print_number(table->worst_phi[i], 6);
    putchar('\n');
}

/* Beyond the limit E exp(t f) is infinite: a Gaussian has no F_t, and so no R_t. */
static void print_limit(const theory_table *table) {
    if (isinf(table->limit)) {
        printf("\nGaussian F_t and R_t are finite for every t\n");
        return;
    }
    printf("\nGaussian F_t and R_t are finite for t < %.6g", table->limit);
    const char *before = "; they do not exist at t =";
    for (size_t j = 0; j < table->count; j++)
        if (!has_gaussian(table, &table->rows[j])) {
            printf("%s %.6g", before, table->rows[j].t);
            before = ",";
        }
    putchar('\n');
}

static void print_table(const theory_table *table, size_t number, double epsilon, int sampled) {
    const zest_landscape *l = &table->landscape;
    printf("Landscape %zu: ", number);
    print_list("eigenvalues", l->eigenvalues, l->count);
    print_list("; gradient", l->gradient, l->count);
    printf("; d = %" PRIu64 ", rho = %g\n", l->dimension, l->rho);
    print_rows(table, sampled);
    printf("R_inf: %s case, omega = %.6g", zest_worst_case_name(table->worst.kind), table->worst.multiplier);
    print_list(", u =", table->maximiser, l->count);
    print_list("\n       d omega/d lambda_i =", table->multiplier_derivative, l->count);
    print_list(", d phi_i/d lambda_i =", table->worst_phi_derivative, l->count);
    print_limit(table);
    printf("Ball: R_t - R_0 <= %g for t <= %.6g; Hoeffding's lemma guarantees %.4g (%.4g from the norms "
           "alone)\n\n",
           epsilon, table->bounds.exact, table->bounds.hoeffding, table->bounds.closed);
}

/* ---- JSON ---- */

static json_t *json_list(const double *numbers, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) zest_output_append(&list, zest_output_real(numbers[i]));
    return list;
}

static json_t *json_row(const theory_table *table, const theory_row *row, int sampled) {
    size_t n = table->landscape.count;
    json_t *object = json_pack(
        "{so sb so so so so so so}", "t", zest_output_real(row->t), "gaussian_finite",
        has_gaussian(table, row), "gaussian", zest_output_real(row->gaussian), "gaussian_sensitivity",
        json_list(row->gaussian_phi, n), "ball", zest_output_real(row->ball.value), "ball_error",
        zest_output_real(row->ball.error), "ball_sensitivity", json_list(row->ball_phi, n),
        "ball_sensitivity_error", zest_output_real(row->ball.sensitivity_error));
    if (sampled) {
        zest_output_set(&object, "sampled", zest_output_real(row->sampled.value));
        zest_output_set(&object, "sampled_error", zest_output_real(row->sampled.error));
        zest_output_set(&object, "sampled_effective", zest_output_real(row->sampled.effective));
    }
    return object;
}

static json_t *table_json(const theory_table *table, double epsilon, int sampled) {
    const zest_landscape *l = &table->landscape;
    const zest_tilt_bounds *b = &table->bounds;
    json_t *rows = json_array();
    for (size_t j = 0; j < table->count; j++)
        zest_output_append(&rows, json_row(table, &table->rows[j], sampled));
    json_t *worst = json_pack(
        "{ss so so so so so so}", "case", zest_worst_case_name(table->worst.kind), "value",
        zest_output_real(table->worst.value), "omega", zest_output_real(table->worst.multiplier), "maximiser",
        json_list(table->maximiser, l->count), "sensitivity", json_list(table->worst_phi, l->count),
        "omega_derivative", json_list(table->multiplier_derivative, l->count), "sensitivity_derivative",
        json_list(table->worst_phi_derivative, l->count));
    json_t *bounds = json_pack("{so so so so so so}", "epsilon", zest_output_real(epsilon), "lowest",
                               zest_output_real(b->lowest), "highest", zest_output_real(b->highest),
                               "hoeffding", zest_output_real(b->hoeffding), "closed",
                               zest_output_real(b->closed), "exact", zest_output_real(b->exact));
    return json_pack("{so so sI so so so so so}", "eigenvalues", json_list(l->eigenvalues, l->count),
                     "gradient", json_list(l->gradient, l->count), "dimension", (json_int_t)l->dimension,
                     "rho", zest_output_real(l->rho), "gaussian_limit", zest_output_real(table->limit),
                     "tilts", rows, "worst", worst, "bounds", bounds);
}

/* ---- Computation ---- */

/* The example's gradient and second landscape belong to the example's eigenvalues; with others they are
 * unset. */
static zest_status read_list(const zest_options *options, zest_option_id id, double **values, size_t *count,
                             zest_error *error) {
    *values = NULL, *count = 0;
    int example = !zest_options_given(options, ZEST_OPTION_EIGENVALUES);
    if (!example && !zest_options_given(options, id)) return ZEST_OK;
    return zest_options_list(options, id, values, count, error);
}

static zest_status set_gradient(const zest_options *options, theory_table *table, size_t n,
                                zest_error *error) {
    double *given;
    size_t count;
    zest_status status = read_list(options, ZEST_OPTION_GRADIENT, &given, &count, error);
    if (status) return status;
    if (count > 1 && count != n)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "option gradient: %zu numbers for %zu eigenvalues", count, n);
    table->gradient = calloc(n, sizeof *table->gradient);
    if (!table->gradient) status = zest_error_memory(error, "the gradient", n * sizeof *table->gradient);
    for (size_t i = 0; i < n && !status && count; i++) table->gradient[i] = given[count == 1 ? 0 : i];
    free(given);
    return status;
}

static zest_status compute(zest_ctx *ctx, const zest_options *options, theory_table *table,
                           const double *tilts, size_t count, sampling *progress) {
    size_t n = table->landscape.count;
    table->maximiser = calloc(4 * n, sizeof(double));
    if (!table->maximiser) return ZEST_ERROR_MEMORY;
    table->worst_phi = table->maximiser + n;
    table->multiplier_derivative = table->maximiser + 2 * n;
    table->worst_phi_derivative = table->maximiser + 3 * n;
    zest_status status = fill_table(ctx, table, tilts, count, zest_options_whole(options, ZEST_OPTION_SEED),
                                    zest_options_whole(options, ZEST_OPTION_SAMPLES), progress);
    if (!status)
        status = zest_theory_worst(ctx, &table->landscape, &table->worst, table->maximiser, table->worst_phi);
    if (!status)
        status = zest_theory_worst_derivatives(ctx, &table->landscape, table->multiplier_derivative,
                                               table->worst_phi_derivative);
    if (!status)
        status = zest_theory_bounds(ctx, &table->landscape, zest_options_number(options, ZEST_OPTION_EPSILON),
                                    &table->bounds);
    return status;
}

/* One landscape; takes ownership of the eigenvalues. */
static zest_status make_table(zest_ctx *ctx, const zest_options *options, theory_table *table, size_t n,
                              sampling *progress, zest_error *error) {
    double *tilts = NULL;
    size_t count;
    zest_status status = set_gradient(options, table, n, error);
    if (!status) status = zest_options_list(options, ZEST_OPTION_TILTS, &tilts, &count, error);
    if (status) return status;
    uint64_t dimension = zest_options_whole(options, ZEST_OPTION_DIM);
    table->landscape = (zest_landscape){.eigenvalues = table->eigenvalues,
                                        .gradient = table->gradient,
                                        .count = n,
                                        .dimension = dimension ? dimension : n,
                                        .rho = zest_options_number(options, ZEST_OPTION_RHO)};
    progress->all = progress->landscapes * count * zest_options_whole(options, ZEST_OPTION_SAMPLES);
    status = compute(ctx, options, table, tilts, count, progress);
    if (status)
        zest_error_set(error, status, "%s", *zest_ctx_error(ctx) ? zest_ctx_error(ctx) : "not enough memory");
    free(tilts);
    return status;
}

static int print_all(const zest_options *options, const theory_table *tables, size_t count) {
    double mean, variance, epsilon = zest_options_number(options, ZEST_OPTION_EPSILON);
    int sampled = zest_options_whole(options, ZEST_OPTION_SAMPLES) > 0;
    zest_theory_norm(NULL, tables->landscape.dimension, &mean, &variance);
    if (!zest_options_whole(options, ZEST_OPTION_JSON)) {
        for (size_t s = 0; s < count; s++) print_table(&tables[s], s + 1, epsilon, sampled);
        printf("The norm in the ball of radius sqrt(d) = %.10g: mean %.10g, variance %.6g\n",
               sqrt((double)tables->landscape.dimension), mean, variance);
        return ZEST_EXIT_OK;
    }
    json_t *list = json_array();
    for (size_t s = 0; s < count; s++) zest_output_append(&list, table_json(&tables[s], epsilon, sampled));
    return zest_output_json(json_pack("{so so so}", "landscapes", list, "norm_mean", zest_output_real(mean),
                                      "norm_variance", zest_output_real(variance)));
}

static int theory(const zest_options *options, char **words, int word_count) {
    (void)words, (void)word_count;
    theory_table tables[2] = {0};
    size_t counts[2] = {0};
    zest_error error = {0};
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx) return zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for a context");
    zest_status status =
        zest_options_list(options, ZEST_OPTION_EIGENVALUES, &tables[0].eigenvalues, &counts[0], &error);
    if (!status) status = read_list(options, ZEST_OPTION_VERSUS, &tables[1].eigenvalues, &counts[1], &error);
    size_t count = counts[1] ? 2 : 1;
    if (!status && count == 2 && counts[1] != counts[0])
        status = zest_error_set(&error, ZEST_ERROR_ARGUMENT, "option versus: %zu eigenvalues against %zu",
                                counts[1], counts[0]);
    sampling progress = {.landscapes = count};
    zest_progress_begin(&progress.progress, "theory", "samples",
                        (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    for (size_t s = 0; s < count && !status; s++)
        status = make_table(ctx, options, &tables[s], counts[s], &progress, &error);
    zest_progress_end(&progress.progress);
    const char *path = zest_options_text(options, ZEST_OPTION_OUT);
    if (!status && *path) status = draw_tables(ctx, tables, count, path, &error);
    int code = status ? zest_output_fail(status, error.message) : print_all(options, tables, count);
    for (size_t s = 0; s < 2; s++) free_table(&tables[s]);
    zest_ctx_free(ctx);
    return code;
}

const zest_command zest_command_theory = {
    .name = "theory",
    .words = "",
    .summary = "compute which curvature a tilt penalises",
    .description =
        "To second order, training with tilt t minimises f + R_t. R_t ranges from the average curvature (t "
        "= 0, MeZO) to the worst case nearby (t = infinity); phi_i = dR_t/dlambda_i is the weight of the "
        "i-th eigenvalue. The command prints both for Gaussian perturbations and for the ball of radius "
        "sqrt(d), with the worst case R_inf and its derivatives, the largest t for which R_t stays within "
        "epsilon of R_0, and the moments of the norm in the ball.\n\n"
        "Without options it compares the two minima of the toy problem, whose Hessians have the same "
        "trace: at t = 0 they are equally sharp, and with every larger t the one with the larger top "
        "eigenvalue is sharper. --dim 0 means as many dimensions as eigenvalues.",
    .examples = "zest theory\tthe two minima of the toy problem\n"
                "zest theory --out theory.svg\tthe same with a figure\n"
                "zest theory --eigenvalues 80,12,-3 --gradient 0.1 --dim 1e8 --rho 1e-4 --tilts 0,1,5,20\ta "
                "large model\n"
                "zest theory --samples 100000\tcheck the integrals with random directions",
    .options = "out\tfigure to write (SVG)\n"
               "samples\trandom directions that check R_t; 0: none\n"
               "dim\tnumber of dimensions; 0: as many as eigenvalues\n"
               "seed\trandom seed of --samples\n"
               "rho\tscale of the perturbations",
    .defaults = "eigenvalues=2.4,0.4 versus=2,0.8 gradient=0,0.3 rho=0.8",
    .users = ZEST_FOR_THEORY,
    .run = theory,
};
