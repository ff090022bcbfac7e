/* Directions for every example: losses, coefficients and updates against the equations in optim/directions.h and
 * optim/tilt_scope.c, from the interface of zest.h and lanes of a model alone; batches that are not full; runs. */
#include <math.h>
#include <stdlib.h>

#include "optim/directions.h"
#include "optim/journal.h"
#include "optim/lanes.h"
#include "tests/training.h"
#include "tests/tuner.h"

enum { K = 3, BATCH = 4, PAIRS = K * BATCH };

static void read_all(const char *text, zest_step *step) {
    zest_ctx *ctx = test_context();
    zest_options options;
    zest_error error = {0};
    zest_options_init(&options);
    if (zest_options_set_all(&options, ZEST_FOR_TUNER, text, "test", &error) ||
        zest_step_init(step, ctx->ops, &options, ZEST_FORMAT, &error))
        fail_msg("%s", error.message);
    zest_options_free(&options);
    zest_ctx_free(ctx);
}

static void some_losses(double *losses) {
    for (int i = 0; i < 2 * PAIRS; i++) losses[i] = 1 + 0.3 * sin(3.7 * i) + 0.5 * cos(i / (2 * K));
}

static void tilt_by_hand(double t, zest_estimator estimator, const double *losses, size_t k, double *g) {
    zest_ctx *ctx = test_context();
    zest_tilt_options tilt = {.estimator = estimator, .t = t, .rho = 0.01, .k = k};
    assert_ok(ctx, zest_tilt(ctx, &tilt, losses, g, NULL));
    zest_ctx_free(ctx);
}

/* Of a whole batch, and of one with fewer examples, whose missing pairs count for nothing. */
static void coefficients_are_those_of_the_scope(void **state) {
    (void)state;
    double losses[2 * PAIRS], expected[PAIRS];
    for (int here = BATCH; here >= 1; here -= 3)
        for (int within = 0; within < 2; within++) {
            char text[200];
            zest_step step;
            zest_tilt_report report;
            size_t pairs = (size_t)here * K;
            snprintf(text, sizeof text,
                     "k=3 method=zest-bc t=2 rho=0.01 directions=example:1:4 tilt-scope=%s",
                     within ? "example" : "step");
            read_all(text, &step);
            assert_int_equal(step.tilt.k, PAIRS);
            some_losses(losses);
            for (size_t i = 2 * pairs; i < 2 * PAIRS; i++) losses[i] = ZEST_DIRECTIONS_PADDING;
            zest_step_tilt(&step, losses, 0.1, &report);
            if (!within) tilt_by_hand(2, ZEST_BIAS_CORRECTED, losses, pairs, expected);
            for (size_t e = 0; within && e < (size_t)here; e++) {
                tilt_by_hand(2, ZEST_BIAS_CORRECTED, losses + 2 * K * e, K, expected + K * e);
                for (size_t i = 0; i < K; i++) expected[K * e + i] /= here;
            }
            for (size_t i = 0; i < PAIRS; i++)
                assert_close(step.coefficients[i], i < pairs ? expected[i] : 0, 1e-12);
            assert_int_equal(report.dropped, 0);
            assert_int_equal(step.padding, PAIRS - pairs);
            zest_step_free(&step);
        }
}

/* A pair of a missing example is no failure; one whose loss is not finite is. */
static void padding_is_not_dropped(void **state) {
    (void)state;
    double losses[2 * PAIRS];
    zest_step step;
    zest_tilt_report report;
    zest_update update;
    for (int within = 0; within < 2; within++) {
        read_all(within ? "k=3 rho=0.01 t=1 directions=example:1:4 tilt-scope=example"
                        : "k=3 rho=0.01 t=1 directions=example:1:4",
                 &step);
        some_losses(losses);
        for (size_t i = 2 * K; i < 2 * PAIRS; i++) losses[i] = ZEST_DIRECTIONS_PADDING;
        losses[1] = NAN;
        zest_step_tilt(&step, losses, 0.1, &report);
        assert_int_equal(report.dropped, 1);
        assert_true(step.coefficients[0] == 0 && step.coefficients[1] != 0);
        assert_true(zest_step_update(&step, 0.1, &report, &update));
        losses[2] = losses[4] = INFINITY; /* all that there were */
        zest_step_tilt(&step, losses, 0.1, &report);
        assert_int_equal(report.dropped, K);
        assert_false(zest_step_update(&step, 0.1, &report, &update));
        zest_step_free(&step);
    }
}

/* ---- Runs ---- */

#define RUN                                                                                          \
    "task=examples/reviews/reviews.task shots=5 batch=4 seed=13 eval-every=6 test-size=2 threads=1 " \
    "weights=f32 "                                                                                   \
    "rho=0.01 lr=1e-3 "

/* One step of MeZO: x - lr (1/(kB)) sum_e sum_i (f_e+ - f_e-)/(2 rho) v_ei, with the losses of the batch in lanes of
 * directions that are drawn here, and v_ei from rng/noise_law.h. */
static void a_step_is_the_equation(void **state) {
    (void)state;
    static const char options[] = RUN "steps=1 k=3 method=mezo directions=example:1";
    zest_trainer_result result;
    zest_loaded start = {0}, end = {0};
    zest_options o;
    zest_ctx *ctx = zest_ctx_new();
    assert_fine(training_run(options, temp_path("run"), NULL, &result, error));
    zest_journal *journal = zest_journal_open(ctx, temp_path("run/journal"));
    zest_record record;
    assert_non_null(journal);
    assert_ok(ctx, zest_journal_read(journal, 1, &record));
    assert_int_equal(record.count, 2 * PAIRS);
    assert_string_equal(zest_journal_option(journal, "directions"), "example:1:4");
    zest_options_init(&o);
    assert_fine(zest_options_set_all(&o, ZEST_FOR_TRAINING, options, "test", error));
    assert_fine(zest_options_set_id(&o, ZEST_OPTION_MODEL, training_model, error));
    assert_fine(zest_load_start(&start, &o, error));
    assert_fine(zest_load_checkpoint(&end, temp_path("run/last"), &o, error));
    const zest_params *params = &start.model->params;
    size_t low = 0;
    for (size_t t = 0; t < params->count; t++) {
        const zest_tensor *tensor = &params->tensors[t];
        const float *before = tensor->data, *after = end.model->params.tensors[t].data;
        double *x = calloc(tensor->count, sizeof *x);
        float *z = malloc(tensor->count * sizeof *z);
        low += tensor->law.rank;
        for (size_t p = 0; p < PAIRS; p++) {
            double slope = (record.losses[2 * p] - record.losses[2 * p + 1]) / (2 * 0.01);
            zest_noise_plain.by_law(&tensor->law, 0, z, zest_seed(13, 0, p), tensor->first, tensor->count);
            for (size_t i = 0; i < tensor->count; i++) x[i] += slope * (double)z[i] / PAIRS;
        }
        for (size_t i = 0; i < tensor->count; i++)
            assert_close(after[i], (double)before[i] - 1e-3 * x[i], 1e-6);
        free(x), free(z);
    }
    assert_true(low > 10);
    zest_load_free(&start), zest_load_free(&end);
    zest_options_free(&o);
    zest_journal_close(journal);
    zest_ctx_free(ctx);
}

/* With a batch of one example the two laws are one. */
static void one_example_is_the_batch(void **state) {
    (void)state;
    static const char run[] =
        "task=examples/reviews/reviews.task shots=5 batch=1 seed=13 eval-every=6 test-size=2 "
        "threads=1 weights=bf16 rho=0.01 lr=1e-3 steps=9 k=2 method=zest-n t=3 ";
    char options[400];
    zest_trainer_result result;
    snprintf(options, sizeof options, "%sdirections=example:2", run);
    assert_fine(training_run(options, temp_path("own"), NULL, &result, error));
    snprintf(options, sizeof options, "%sdirections=lowrank:2", run);
    assert_fine(training_run(options, temp_path("all"), NULL, &result, error));
    same_file(temp_path("own/last/model.safetensors"), temp_path("all/last/model.safetensors"));
}

/* Options that are given and change nothing leave a run that can be read again. */
static void what_changes_nothing_is_kept(void **state) {
    (void)state;
    static const char *const given[] = {"directions=dense", "momentum-steps=7", "tilt-scope=step",
                                        "max-step=0.0"};
    zest_trainer_result result, plain;
    assert_fine(training_run(RUN "steps=2 k=2 method=mezo", temp_path("plain"), NULL, &plain, error));
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        char options[400];
        snprintf(options, sizeof options, RUN "steps=2 k=2 method=mezo %s", given[i]);
        assert_fine(training_run(options, temp_path("run"), NULL, &result, error));
        assert_fine(training_resume(temp_path("run"), "steps=3", &result, error));
        assert_true(result.start.loss == plain.start.loss);
        test_remove(temp_path("run"));
    }
}

/* 10 examples in batches of 4: the last one of an epoch has two. */
static void runs_resume_and_replay(void **state) {
    (void)state;
    static const char *const laws[] = {
        "k=2 directions=example:1 method=mezo",
        "k=3 directions=example:2 tilt-scope=example method=zest-bc t=2 distribution=rademacher momentum=0.8 "
        "momentum-steps=3 step-length=mezo max-step=3 scales=*bias=4",
        "k=2 directions=example:1 method=zest-n t=auto step-length=spread weights=bf16"};
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        zest_trainer_result whole, killed, rest, without;
        training_events w = {.copy_at = 7, .from = temp_path("killed"), .to = temp_path("rest")};
        char options[600];
        snprintf(options, sizeof options, RUN "steps=11 %s", laws[i]);
        assert_fine(training_run(options, temp_path("whole"), NULL, &whole, error));
        assert_fine(training_run(options, temp_path("killed"), &w, &killed, error));
        assert_fine(training_resume(temp_path("rest"), "", &rest, error));
        same_file(temp_path("whole/journal"), temp_path("rest/journal"));
        same_file(temp_path("whole/last/model.safetensors"), temp_path("rest/last/model.safetensors"));
        assert_fine(training_run(options, NULL, NULL, &without, error));
        assert_true(without.dev.loss == whole.dev.loss && without.best_step == whole.best_step);
        test_remove(temp_path("whole")), test_remove(temp_path("killed")), test_remove(temp_path("rest"));
    }
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *options, *says;
    } bad[] = {{"directions=example:1:8", "--batch is 4"},
               {"directions=example:1:4:2", "example:R"},
               {"directions=example:", "example:R"},
               {"directions=example k=1000000 batch=1000", "at most"},
               {"directions=example objective=accuracy", "--objective loss"},
               {"directions=example distribution=ball", "not uniform on a sphere"},
               {"directions=example tilt-scope=example t=auto", "tilt-scope=step"},
               {"directions=lowrank:1 tilt-scope=example", "no pairs of its own"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char options[500];
        zest_error error = {0};
        zest_trainer_result result;
        snprintf(options, sizeof options, RUN "steps=1 k=2 method=zest-n %s", bad[i].options);
        assert_int_equal(training_run(options, NULL, NULL, &result, &error), ZEST_ERROR_ARGUMENT);
        if (!strstr(error.message, bad[i].says)) fail_msg("%s: %s", bad[i].options, error.message);
    }
}

/* Files of scales: white space and remarks are dropped, a NUL is not, lest *\0bias=4 became a pattern nobody wrote. */
static void files_of_scales_are_read(void **state) {
    (void)state;
    static const char good[] = "  *bias* = 4 # why\r\n\n# nothing\n*norm*\t=\t0.5", bad[] = "*\0bias=4\n";
    zest_options options;
    zest_error failure = {0};
    zest_options_init(&options);
    assert_int_equal(zest_file_write(temp_path("scales"), good, sizeof good - 1, &failure), ZEST_OK);
    assert_int_equal(zest_options_set_id(&options, ZEST_OPTION_SCALES, temp_path("scales"), &failure),
                     ZEST_OK);
    assert_int_equal(zest_directions_read_scales(&options, &failure), ZEST_OK);
    assert_string_equal(zest_options_text(&options, ZEST_OPTION_SCALES), "*bias*=4,*norm*=0.5");
    assert_int_equal(zest_file_write(temp_path("scales"), bad, sizeof bad - 1, &failure), ZEST_OK);
    assert_int_equal(zest_options_set_id(&options, ZEST_OPTION_SCALES, temp_path("scales"), &failure),
                     ZEST_OK);
    assert_int_equal(zest_directions_read_scales(&options, &failure), ZEST_ERROR_FORMAT);
    assert_non_null(strstr(failure.message, "has no line PATTERN"));
    zest_options_free(&options);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coefficients_are_those_of_the_scope),
        cmocka_unit_test(padding_is_not_dropped),
        IN_TEMP_FOLDER(a_step_is_the_equation),
        IN_TEMP_FOLDER(one_example_is_the_batch),
        IN_TEMP_FOLDER(what_changes_nothing_is_kept),
        IN_TEMP_FOLDER(runs_resume_and_replay),
        IN_TEMP_FOLDER(what_cannot_be_is_refused),
        IN_TEMP_FOLDER(files_of_scales_are_read),
    };
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}
