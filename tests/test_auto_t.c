/* --t auto: the rule against its equation and against quadratics whose spectrum is known; what it promises; replay and
 * resuming, of vectors and of models. */
#include <math.h>
#include <stdlib.h>

#include "optim/auto_t.h"
#include "optim/journal.h"
#include "tests/training.h"
#include "tests/tuner.h"

enum { N = 40 };

/* f = g'x + (1/2) sum lambda_i x_i^2 */
typedef struct {
    double lambda[N], g[N];
} quadratic;

static double value(const double *x, size_t n, void *user) {
    const quadratic *q = user;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += q->g[i] * x[i] + 0.5 * q->lambda[i] * x[i] * x[i];
    return sum;
}

/* The tilt after `steps` steps at one place (lr = 0): the mean of the last ten, from 65 steps on. */
static double tilt_at(quadratic *q, const char *options, int steps, zest_step_report *last) {
    zest_ctx *ctx = test_context();
    double x[N] = {0}, sum = 0;
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, N);
    set_all(ctx, tuner, options);
    assert_ok(ctx, zest_tuner_objective_f64(tuner, value, q));
    for (int s = 0; s < steps; s++) {
        zest_step_report report;
        assert_ok(ctx, zest_tuner_step(tuner, &report));
        if (s >= steps - 10) sum += report.tilt.t / 10;
        if (last) *last = report;
    }
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
    return sum;
}

/* t = 1 / (2 rho^2 |H|) with |H| the root of the sum of the squared eigenvalues, where there is no slope. So
 * t rho^2 lambda_max is at most 1/2, and close to it where one eigenvalue stands out. */
static void curvature_sets_the_tilt(void **state) {
    (void)state;
    double const rho = 0.1;
    static const int counts[] = {1, 2, 10, N};
    for (size_t c = 0; c < 4; c++) {
        quadratic q = {.lambda = {0}};
        for (int i = 0; i < counts[c]; i++) q.lambda[i] = (i % 3 ? 8.0 : -8.0) * (i ? 1 : -1);
        double norm = 8 * sqrt(counts[c]);
        double t = tilt_at(&q, "t=auto lr=0 rho=0.1 k=32", 120, NULL);
        assert_close(t * 2 * rho * rho * norm, 1, 0.1); /* the spread of 2000 sampled pairs */
        assert_true(t * rho * rho * 8 < 0.55);
    }
}

/* t = 1 / (rho |g|) on a plane, where the tilt has nothing to weigh. */
static void the_slope_bounds_the_tilt(void **state) {
    (void)state;
    quadratic q = {.lambda = {0}};
    double squares = 0;
    zest_step_report last;
    for (int i = 0; i < N; i++) q.g[i] = 0.5 + 0.1 * i, squares += q.g[i] * q.g[i];
    double t = tilt_at(&q, "t=auto lr=0 rho=0.01 k=32 method=zest-bc", 120, &last);
    assert_close(t * 0.01 * sqrt(squares), 1, 0.05);
    /* 0.65 of the pairs count: k / cosh(1) */
    assert_close(last.tilt.effective / 32, 0.65, 0.15);
    q.lambda[0] = 1e6; /* and the smaller of both wins */
    double steep = tilt_at(&q, "t=auto lr=0 rho=0.01 k=32", 120, NULL);
    assert_close(steep * 2 * 1e-4 * 1e6, 1, 0.2);
}

/* Losses that are all equal, or not finite, have no tilt; a later spread has one again. */
static void no_spread_is_mezo(void **state) {
    (void)state;
    zest_auto_t seen = {0};
    double equal[8] = {2, 2, 2, 2, 2, 2, 2, 2}, bad[8], some[8] = {1, 2, 3, 5, 2, 2, 4, 1};
    for (int i = 0; i < 8; i++) bad[i] = NAN;
    zest_loss_parts a = zest_tilt_split(equal, 4), b = zest_tilt_split(bad, 4), c = zest_tilt_split(some, 4);
    for (int i = 0; i < 20; i++) zest_auto_t_add(&seen, &a);
    assert_true(zest_auto_t_next(&seen) == 0);
    for (int i = 0; i < 70; i++) zest_auto_t_add(&seen, &b);
    assert_true(zest_auto_t_next(&seen) == 0);
    for (int i = 0; i < 10; i++) zest_auto_t_add(&seen, &c);
    assert_true(zest_auto_t_next(&seen) == 0); /* 30 differences */
    zest_auto_t_add(&seen, &c);
    assert_true(zest_auto_t_next(&seen) > 0);
    for (int i = 0; i < 70; i++) zest_auto_t_add(&seen, &a); /* what was long ago does not count */
    assert_true(zest_auto_t_next(&seen) == 0);
}

/* The rule in long double, from the journal. */
static double by_hand(zest_journal *journal, uint64_t step, size_t k) {
    long double slope = 0, curvature = 0, pairs = 0, differences = 0;
    for (uint64_t s = step > 65 ? step - 64 : 1; s < step; s++) {
        zest_record record;
        long double mean = 0;
        assert_int_equal(zest_journal_read(journal, s, &record), 0);
        for (size_t i = 0; i < k; i++)
            mean += ((long double)record.losses[2 * i] + record.losses[2 * i + 1]) / 2 / k;
        for (size_t i = 0; i < k; i++) {
            long double a = ((long double)record.losses[2 * i] - record.losses[2 * i + 1]) / 2;
            long double b = ((long double)record.losses[2 * i] + record.losses[2 * i + 1]) / 2 - mean;
            slope += a * a, curvature += b * b;
        }
        pairs += k, differences += k - 1;
    }
    if (differences < 32) return 0;
    return (double)fminl(0.5L / sqrtl(2 * curvature / differences), 1 / sqrtl(slope / pairs));
}

static double bumpy(const double *x, size_t n, void *user) {
    double sum = 0;
    (void)user;
    for (size_t i = 0; i < n; i++) sum += 0.5 * (x[i] - 0.5) * (x[i] - 0.5) + 0.1 * sin(5 * x[i]);
    return sum;
}

/* t of every step is the rule's; replay and resuming at any step give the same bits; the tilt anneals: it rises as the
 * losses come together. */
static void a_run_is_a_function_of_its_journal(void **state) {
    (void)state;
    enum { STEPS = 150, K = 4 };
    static const char *const runs[] = {
        "t=auto k=4 lr=0.01 rho=0.05",
        "t=auto method=zest-bc k=4 lr=0.01 rho=0.05 distribution=sphere denominator=ball",
        "t=auto k=4 lr=0.01 rho=0.05 distribution=rademacher step-length=mezo max-step=1 schedule=linear "
        "steps=150"};
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        static double history[STEPS + 1][N];
        double x[N], tilts[STEPS + 1];
        zest_ctx *ctx = test_context();
        unlink(temp_path("journal"));
        for (int i = 0; i < N; i++) history[0][i] = x[i] = 0.1 * i - 1;
        zest_tuner *tuner = zest_tuner_new_f64(ctx, x, N);
        set_all(ctx, tuner, runs[r]);
        assert_ok(ctx, zest_tuner_objective_f64(tuner, bumpy, NULL));
        assert_ok(ctx, zest_tuner_start_journal(tuner, temp_path("journal")));
        for (int s = 1; s <= STEPS; s++) {
            zest_step_report report;
            assert_ok(ctx, zest_tuner_step(tuner, &report));
            memcpy(history[s], x, sizeof x);
            tilts[s] = report.tilt.t;
        }
        zest_tuner_free(tuner);
        zest_journal *journal = zest_journal_open(ctx, temp_path("journal"));
        assert_non_null(journal);
        for (uint64_t s = 1; s <= STEPS; s++) {
            double expected = by_hand(journal, s, K);
            assert_close(tilts[s], expected, 1e-12 * expected);
            assert_int_equal(tilts[s] == 0, s <= 11); /* 11 steps of three differences */
        }
        assert_true(tilts[STEPS] > 1.2 * tilts[20]);
        assert_int_equal(setenv("ZEST_CPU", "plain", 1), 0);
        zest_ctx *plain = test_context();
        zest_journal *again = zest_journal_open(plain, temp_path("journal"));
        for (uint64_t s = 0; s <= STEPS; s += 10) {
            memcpy(x, history[0], sizeof x);
            assert_ok(plain, zest_journal_replay_f64(again, s, x, N));
            assert_memory_equal(x, history[s], sizeof x);
        }
        zest_journal_close(again);
        /* from a state in the middle, as a checkpoint has it, to the end */
        for (uint64_t from = 5; from < STEPS; from += 36) {
            zest_step step;
            zest_error error = {0};
            zest_tensor tensor = {"x", ZEST_DTYPE_F64, 0, N, x, {0}};
            zest_params params = {&tensor, 1, N};
            memcpy(x, history[from], sizeof x);
            assert_int_equal(zest_step_init(&step, plain->ops, &journal->options, journal->format, &error),
                             0);
            assert_int_equal(zest_journal_recall(journal, from, &step, &error), 0);
            for (uint64_t s = from + 1; s <= STEPS; s++) {
                zest_record record;
                zest_tilt_report report;
                assert_int_equal(zest_journal_read(journal, s, &record), 0);
                assert_int_equal(zest_step_replay(&step, &record, &(zest_step_storage){.params = &params},
                                                  &report, &error),
                                 0);
                assert_true(report.t == tilts[s]);
            }
            assert_memory_equal(x, history[STEPS], sizeof x);
            zest_step_free(&step);
        }
        zest_journal_close(journal);
        zest_ctx_free(plain);
        assert_int_equal(unsetenv("ZEST_CPU"), 0);
        zest_ctx_free(ctx);
    }
}

/* The same of a model: a run that was killed goes on from a checkpoint, to the same journal and weights; without a
 * folder the best weights are found again from the start. */
static void models_resume_and_replay(void **state) {
    (void)state;
    static const char options[] = "task=examples/reviews/reviews.task shots=8 batch=4 seed=13 steps=40 "
                                  "eval-every=10 test-size=2 lr=1e-3 "
                                  "rho=0.01 weights=f32 threads=1 k=3 method=zest-n t=auto step-length=mezo";
    zest_trainer_result whole, killed, rest, without;
    training_events w = {.copy_at = 37, .from = temp_path("killed"), .to = temp_path("rest")};
    assert_fine(training_run(options, temp_path("whole"), NULL, &whole, error));
    assert_fine(training_run(options, temp_path("killed"), &w, &killed, error));
    assert_fine(training_resume(temp_path("rest"), "", &rest, error));
    same_file(temp_path("whole/journal"), temp_path("rest/journal"));
    same_file(temp_path("whole/last/model.safetensors"), temp_path("rest/last/model.safetensors"));
    same_file(temp_path("whole/best/model.safetensors"), temp_path("rest/best/model.safetensors"));
    assert_fine(training_run(options, NULL, NULL, &without, error));
    assert_true(without.dev.loss == whole.dev.loss && without.best_step == whole.best_step);
    static const char *const tags[] = {"train/loss_slope", "train/loss_curvature", "train/t",
                                       "train/step_scale"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        char command[500];
        snprintf(command, sizeof command, "grep -q %s '%s'/events.out.tfevents.*", tags[i],
                 temp_path("whole"));
        training_shell(command);
    }
    zest_log log;
    assert_fine(zest_log_read(temp_path("whole/log.jsonl"), &log, error));
    assert_true(log.steps[0].t == 0 && log.steps[39].t > 0 && log.steps[39].scale > 0);
    assert_true(log.steps[39].slope > 0 && log.steps[39].curvature > 0);
    zest_log_free(&log);
}

static void what_has_no_auto_says_so(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    double x[N] = {0};
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, N);
    assert_ok(ctx, zest_tuner_objective_f64(tuner, bumpy, NULL));
    assert_int_equal(zest_tuner_set(tuner, "t", "automatic"), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "a number >= 0 or auto (default 1)");
    assert_ok(ctx, zest_tuner_set(tuner, "t", "auto"));
    assert_string_equal(zest_tuner_get(tuner, "t"), "auto");
    assert_ok(ctx, zest_tuner_set(tuner, "k", "1"));
    assert_int_equal(zest_tuner_step(tuner, NULL), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "t=auto needs k >= 2");
    assert_ok(ctx, zest_tuner_set(tuner, "k", "3"));
    assert_ok(ctx, zest_tuner_step(tuner, NULL));
    assert_int_equal(zest_tuner_set(tuner, "t", "1"), ZEST_ERROR_STATE);
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
    zest_options options;
    zest_error error = {0};
    zest_options_init(&options);
    assert_int_equal(zest_options_set_id(&options, ZEST_OPTION_T, "auto", &error), 0);
    assert_int_equal(zest_options_check_method(&options, ZEST_CHOICE_TSAM, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "--t auto"));
    assert_int_equal(zest_options_check_method(&options, ZEST_CHOICE_ZEST_BC, &error), 0);
    assert_int_equal(zest_options_check_method(&options, ZEST_CHOICE_MEZO, &error), 0);
    zest_options_free(&options);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curvature_sets_the_tilt), cmocka_unit_test(the_slope_bounds_the_tilt),
        cmocka_unit_test(no_spread_is_mezo),       IN_TEMP_FOLDER(a_run_is_a_function_of_its_journal),
        IN_TEMP_FOLDER(models_resume_and_replay),  cmocka_unit_test(what_has_no_auto_says_so),
    };
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}
