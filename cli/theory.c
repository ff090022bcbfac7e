/* zest theory: which sharpness a tilt penalises, on a quadratic landscape. */
#include "cli/theory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 3, SHOWN = 8 }; /* sensitivities in the table and numbers in a list; JSON has them all */

/* ---- The table ---- */

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

static void print_rows(const zest_theory_sheet *sheet, int sampled) {
    size_t n = sheet->landscape.count, columns = n < COLUMNS ? n : COLUMNS;
    printf("%10s %12s %12s", "t", "Gauss R_t", "ball R_t");
    if (sampled) printf(" %12s %12s %12s", "sampled R_t", "std error", "effective");
    print_heads("Gauss", columns);
    print_heads("ball", columns);
    putchar('\n');
    for (size_t j = 0; j < sheet->count; j++) {
        const zest_theory_row *row = &sheet->rows[j];
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
    print_number(sheet->worst.value, 7);
    for (int i = 0; sampled && i < 3; i++) print_number(NAN, 7);
    for (size_t i = 0; i < columns; i++) print_number(NAN, 7);
    for (size_t i = 0; i < columns; i++) print_number(sheet->worst_phi[i], 6);
    putchar('\n');
}

/* Beyond the limit E exp(t f) is infinite: there is no objective F_t, and so no R_t, for a Gaussian. */
static void print_limit(const zest_theory_sheet *sheet) {
    if (isinf(sheet->limit)) {
        printf("\nGaussian F_t and R_t are finite for every t\n");
        return;
    }
    printf("\nGaussian F_t and R_t are finite for t < %.6g", sheet->limit);
    const char *before = "; they do not exist at t =";
    for (size_t j = 0; j < sheet->count; j++)
        if (!zest_theory_has_gaussian(sheet, &sheet->rows[j])) {
            printf("%s %.6g", before, sheet->rows[j].t);
            before = ",";
        }
    putchar('\n');
}

static void print_sheet(const zest_theory_sheet *sheet, size_t number, double epsilon, int sampled) {
    const zest_landscape *l = &sheet->landscape;
    printf("Landscape %zu: ", number);
    print_list("eigenvalues", l->eigenvalues, l->count);
    print_list("; gradient", l->gradient, l->count);
    printf("; d = %" PRIu64 ", rho = %g\n", l->dimension, l->rho);
    print_rows(sheet, sampled);
    printf("R_inf: %s case, omega = %.6g", zest_worst_case_name(sheet->worst.kind), sheet->worst.multiplier);
    print_list(", u =", sheet->maximiser, l->count);
    print_list("\n       d omega/d lambda_i =", sheet->multiplier_derivative, l->count);
    print_list(", d phi_i/d lambda_i =", sheet->worst_phi_derivative, l->count);
    print_limit(sheet);
    printf("Ball: R_t - R_0 <= %g for t <= %.6g; Hoeffding's lemma promises %.4g (%.4g from the norms "
           "alone)\n\n",
           epsilon, sheet->bounds.exact, sheet->bounds.hoeffding, sheet->bounds.closed);
}

/* ---- JSON ---- */

static json_t *json_list(const double *numbers, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) zest_output_append(&list, zest_output_real(numbers[i]));
    return list;
}

static json_t *json_row(const zest_theory_sheet *sheet, const zest_theory_row *row, int sampled) {
    size_t n = sheet->landscape.count;
    json_t *object = json_pack(
        "{so sb so so so so so so}", "t", zest_output_real(row->t), "gaussian_finite",
        zest_theory_has_gaussian(sheet, row), "gaussian", zest_output_real(row->gaussian),
        "gaussian_sensitivity", json_list(row->gaussian_phi, n), "ball", zest_output_real(row->ball.value),
        "ball_error", zest_output_real(row->ball.error), "ball_sensitivity", json_list(row->ball_phi, n),
        "ball_sensitivity_error", zest_output_real(row->ball.sensitivity_error));
    if (sampled) {
        zest_output_set(&object, "sampled", zest_output_real(row->sampled.value));
        zest_output_set(&object, "sampled_error", zest_output_real(row->sampled.error));
        zest_output_set(&object, "sampled_effective", zest_output_real(row->sampled.effective));
    }
    return object;
}

static json_t *json_sheet(const zest_theory_sheet *sheet, double epsilon, int sampled) {
    const zest_landscape *l = &sheet->landscape;
    const zest_tilt_bounds *b = &sheet->bounds;
    json_t *rows = json_array();
    for (size_t j = 0; j < sheet->count; j++)
        zest_output_append(&rows, json_row(sheet, &sheet->rows[j], sampled));
    json_t *worst = json_pack(
        "{ss so so so so so so}", "case", zest_worst_case_name(sheet->worst.kind), "value",
        zest_output_real(sheet->worst.value), "omega", zest_output_real(sheet->worst.multiplier), "maximiser",
        json_list(sheet->maximiser, l->count), "sensitivity", json_list(sheet->worst_phi, l->count),
        "omega_derivative", json_list(sheet->multiplier_derivative, l->count), "sensitivity_derivative",
        json_list(sheet->worst_phi_derivative, l->count));
    json_t *bounds = json_pack("{so so so so so so}", "epsilon", zest_output_real(epsilon), "lowest",
                               zest_output_real(b->lowest), "highest", zest_output_real(b->highest),
                               "hoeffding", zest_output_real(b->hoeffding), "closed",
                               zest_output_real(b->closed), "exact", zest_output_real(b->exact));
    return json_pack("{so so sI so so so so so}", "eigenvalues", json_list(l->eigenvalues, l->count),
                     "gradient", json_list(l->gradient, l->count), "dimension", (json_int_t)l->dimension,
                     "rho", zest_output_real(l->rho), "gaussian_limit", zest_output_real(sheet->limit),
                     "tilts", rows, "worst", worst, "bounds", bounds);
}

/* ---- Putting it together ---- */

/* The example's gradient and second landscape belong to the example's eigenvalues; with other ones they are
 * off. */
static zest_status read_list(const zest_options *options, zest_option_id id, double **values, size_t *count,
                             zest_error *error) {
    *values = NULL, *count = 0;
    int example = !zest_options_given(options, ZEST_OPTION_EIGENVALUES);
    if (!example && !zest_options_given(options, id)) return ZEST_OK;
    return zest_options_list(options, id, values, count, error);
}

static zest_status set_gradient(const zest_options *options, zest_theory_sheet *sheet, size_t n,
                                zest_error *error) {
    double *given;
    size_t count;
    zest_status status = read_list(options, ZEST_OPTION_GRADIENT, &given, &count, error);
    if (status) return status;
    if (count > 1 && count != n)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "option gradient: %zu numbers for %zu eigenvalues", count, n);
    sheet->gradient = calloc(n, sizeof *sheet->gradient);
    if (!sheet->gradient) status = zest_error_memory(error, "the gradient", n * sizeof *sheet->gradient);
    for (size_t i = 0; i < n && !status && count; i++) sheet->gradient[i] = given[count == 1 ? 0 : i];
    free(given);
    return status;
}

static zest_status compute(zest_ctx *ctx, const zest_options *options, zest_theory_sheet *sheet,
                           const double *tilts, size_t count) {
    size_t n = sheet->landscape.count;
    sheet->maximiser = calloc(4 * n, sizeof(double));
    if (!sheet->maximiser) return ZEST_ERROR_MEMORY;
    sheet->worst_phi = sheet->maximiser + n;
    sheet->multiplier_derivative = sheet->maximiser + 2 * n;
    sheet->worst_phi_derivative = sheet->maximiser + 3 * n;
    zest_status status =
        zest_theory_sheet_fill(ctx, sheet, tilts, count, zest_options_whole(options, ZEST_OPTION_SEED),
                               zest_options_whole(options, ZEST_OPTION_SAMPLES));
    if (!status)
        status = zest_theory_worst(ctx, &sheet->landscape, &sheet->worst, sheet->maximiser, sheet->worst_phi);
    if (!status)
        status = zest_theory_worst_derivatives(ctx, &sheet->landscape, sheet->multiplier_derivative,
                                               sheet->worst_phi_derivative);
    if (!status)
        status = zest_theory_bounds(ctx, &sheet->landscape, zest_options_number(options, ZEST_OPTION_EPSILON),
                                    &sheet->bounds);
    return status;
}

/* One landscape from its eigenvalues, which become the sheet's. */
static zest_status make_sheet(zest_ctx *ctx, const zest_options *options, zest_theory_sheet *sheet, size_t n,
                              zest_error *error) {
    double *tilts = NULL;
    size_t count;
    zest_status status = set_gradient(options, sheet, n, error);
    if (!status) status = zest_options_list(options, ZEST_OPTION_TILTS, &tilts, &count, error);
    if (status) return status;
    uint64_t dimension = zest_options_whole(options, ZEST_OPTION_DIM);
    sheet->landscape = (zest_landscape){.eigenvalues = sheet->eigenvalues,
                                        .gradient = sheet->gradient,
                                        .count = n,
                                        .dimension = dimension ? dimension : n,
                                        .rho = zest_options_number(options, ZEST_OPTION_RHO)};
    status = compute(ctx, options, sheet, tilts, count);
    if (status)
        zest_error_set(error, status, "%s", *zest_ctx_error(ctx) ? zest_ctx_error(ctx) : "not enough memory");
    free(tilts);
    return status;
}

static int print_all(const zest_options *options, const zest_theory_sheet *sheets, size_t count) {
    double mean, variance, epsilon = zest_options_number(options, ZEST_OPTION_EPSILON);
    int sampled = zest_options_whole(options, ZEST_OPTION_SAMPLES) > 0;
    zest_theory_norm(NULL, sheets->landscape.dimension, &mean, &variance);
    if (!zest_options_whole(options, ZEST_OPTION_JSON)) {
        for (size_t s = 0; s < count; s++) print_sheet(&sheets[s], s + 1, epsilon, sampled);
        printf("The norm in the ball of radius sqrt(d) = %.10g: mean %.10g, variance %.6g\n",
               sqrt((double)sheets->landscape.dimension), mean, variance);
        return ZEST_EXIT_OK;
    }
    json_t *list = json_array();
    for (size_t s = 0; s < count; s++) zest_output_append(&list, json_sheet(&sheets[s], epsilon, sampled));
    return zest_output_json(json_pack("{so so so}", "landscapes", list, "norm_mean", zest_output_real(mean),
                                      "norm_variance", zest_output_real(variance)));
}

static int theory(const zest_options *options, char **words, int word_count) {
    (void)words, (void)word_count;
    zest_theory_sheet sheets[2] = {0};
    size_t counts[2] = {0};
    zest_error error = {0};
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx) return zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for a context");
    zest_status status =
        zest_options_list(options, ZEST_OPTION_EIGENVALUES, &sheets[0].eigenvalues, &counts[0], &error);
    if (!status) status = read_list(options, ZEST_OPTION_VERSUS, &sheets[1].eigenvalues, &counts[1], &error);
    size_t count = counts[1] ? 2 : 1;
    if (!status && count == 2 && counts[1] != counts[0])
        status = zest_error_set(&error, ZEST_ERROR_ARGUMENT, "option versus: %zu eigenvalues against %zu",
                                counts[1], counts[0]);
    for (size_t s = 0; s < count && !status; s++)
        status = make_sheet(ctx, options, &sheets[s], counts[s], &error);
    const char *path = zest_options_text(options, ZEST_OPTION_OUT);
    if (!status && *path) status = zest_theory_draw(ctx, sheets, count, path, &error);
    int code = status ? zest_output_fail(status, error.message) : print_all(options, sheets, count);
    for (size_t s = 0; s < 2; s++) zest_theory_sheet_free(&sheets[s]);
    zest_ctx_free(ctx);
    return code;
}

const zest_command zest_command_theory = {
    .name = "theory",
    .words = "",
    .summary = "compute which curvature a tilt penalises",
    .description =
        "To second order, training with tilt t minimises f + R_t. R_t goes from the average curvature (t = "
        "0, MeZO) to "
        "the worst case nearby (t = infinity); phi_i = dR_t/dlambda_i says how much the i-th eigenvalue "
        "counts. The "
        "command prints both for Gaussian perturbations and for the ball of radius sqrt(d), with the worst "
        "case R_inf and its derivatives, "
        "the largest t for which R_t stays within epsilon of R_0, and the moments of the norm in the "
        "ball.\n\n"
        "Without options it compares the two minima of the toy problem, whose Hessians have the same trace: "
        "at t = 0 "
        "they are equally sharp, and with every larger t the one with the larger top eigenvalue is sharper. "
        "--dim 0 means as many dimensions as eigenvalues.",
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
