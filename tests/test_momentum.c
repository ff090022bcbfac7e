/* Momentum without a vector: against SGD's recursion with a vector, cut off after N steps; replay, resuming and
 * checkpoints bit for bit. */
#include <math.h>
#include <stdlib.h>

#include "optim/journal.h"
#include "tests/training.h"
#include "tests/tuner.h"

enum { D = 50, STEPS = 30, K = 3 };

static double bumpy(const double *x, size_t n, void *user) {
    double sum = 0;
    (void)user;
    for (size_t i = 0; i < n; i++) sum += 0.5 * (x[i] - 0.5) * (x[i] - 0.5) + 0.1 * sin(5 * x[i]);
    return sum;
}

static void start_at(double *x) {
    for (int i = 0; i < D; i++) x[i] = 0.1 * i - 2;
}

/* x after every step. */
static void run(zest_ctx *ctx, const char *options, const char *journal, double history[STEPS + 1][D]) {
    double x[D];
    start_at(x);
    memcpy(history[0], x, sizeof x);
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, D);
    set_all(ctx, tuner, options);
    assert_ok(ctx, zest_tuner_objective_f64(tuner, bumpy, NULL));
    unlink(journal);
    assert_ok(ctx, zest_tuner_start_journal(tuner, journal));
    for (int s = 1; s <= STEPS; s++) {
        assert_ok(ctx, zest_tuner_step(tuner, NULL));
        memcpy(history[s], x, sizeof x);
    }
    zest_tuner_free(tuner);
}

/* g of one recorded step, from the interface of zest.h alone. */
static void gradient(zest_ctx *ctx, zest_journal *journal, uint64_t step, zest_distribution from, double *g) {
    zest_record record;
    zest_tilt_options tilt = {.t = 2, .rho = 0.05, .k = K};
    double c[K];
    float v[D];
    assert_ok(ctx, zest_journal_read(journal, step, &record));
    assert_ok(ctx, zest_tilt(ctx, &tilt, record.losses, c, NULL));
    memset(g, 0, D * sizeof *g);
    for (size_t i = 0; i < K; i++) {
        zest_direction direction;
        assert_ok(ctx, zest_direction_init(ctx, &direction, from, zest_seed(1, step - 1, i), D));
        assert_ok(ctx, zest_direction_read(ctx, &direction, 0, D, v));
        for (size_t j = 0; j < D; j++) g[j] += c[i] * (double)v[j];
    }
}

static void it_is_sgd_s_cut_off(void **state) {
    (void)state;
    static const struct {
        const char *text;
        zest_distribution from;
        double mu;
        int reach;
    } all[] = {{"momentum=0.9 momentum-steps=7", ZEST_GAUSSIAN, 0.9, 7},
               {"momentum=0.5 momentum-steps=1000", ZEST_GAUSSIAN, 0.5, 1000}, /* the whole recursion */
               {"momentum=0.99 momentum-steps=1", ZEST_GAUSSIAN, 0.99, 1},     /* none */
               {"momentum=0.8 momentum-steps=4 distribution=sphere", ZEST_SPHERE, 0.8, 4}};
    zest_ctx *ctx = test_context();
    for (size_t a = 0; a < sizeof all / sizeof *all; a++) {
        static double history[STEPS + 1][D], g[STEPS + 1][D];
        char options[200];
        snprintf(options, sizeof options, "k=3 t=2 rho=0.05 lr=0.003 %s", all[a].text);
        run(ctx, options, temp_path("journal"), history);
        zest_journal *journal = zest_journal_open(ctx, temp_path("journal"));
        assert_non_null(journal);
        double whole[D] = {0};
        for (int s = 1; s <= STEPS; s++) {
            gradient(ctx, journal, (uint64_t)s, all[a].from, g[s]);
            for (size_t i = 0; i < D; i++) {
                double m = 0;
                for (int j = 0; j < all[a].reach && j < s; j++) m += pow(all[a].mu, j) * g[s - j][i];
                assert_close(history[s][i], history[s - 1][i] - 0.003 * m, 1e-6); /* v is read in fp32 */
                whole[i] = all[a].mu * whole[i] + g[s][i];
                if (all[a].reach > STEPS) assert_close(m, whole[i], 1e-9);
            }
        }
        zest_journal_close(journal);
    }
    /* one step to sum is the run without momentum, to the bit */
    static double one[STEPS + 1][D], none[STEPS + 1][D];
    run(ctx, "k=3 t=2 rho=0.05 lr=0.003 momentum=0.99 momentum-steps=1", temp_path("journal"), one);
    run(ctx, "k=3 t=2 rho=0.05 lr=0.003", temp_path("journal"), none);
    assert_memory_equal(one, none, sizeof one);
    zest_ctx_free(ctx);
}

static void replay_and_resume_repeat_the_bits(void **state) {
    (void)state;
    static const char *const runs[] = {
        "k=3 lr=0.003 rho=0.05 steps=30 momentum=0.9 momentum-steps=6",
        "k=3 lr=0.003 rho=0.05 steps=30 momentum=0.9 t=auto distribution=sphere denominator=ball "
        "schedule=cosine",
        "k=3 lr=0.003 rho=0.05 steps=30 momentum=0.7 method=zest-bc t=3 step-length=mezo max-step=0.5 "
        "distribution=rademacher weight-decay=0.1"};
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        static double history[STEPS + 1][D];
        double x[D];
        zest_ctx *ctx = test_context();
        run(ctx, runs[r], temp_path("journal"), history);
        assert_int_equal(setenv("ZEST_CPU", "plain", 1), 0);
        zest_ctx *plain = test_context();
        zest_journal *journal = zest_journal_open(plain, temp_path("journal"));
        assert_non_null(journal);
        assert_int_equal(journal->format, 3);
        for (uint64_t s = 0; s <= STEPS; s += 5) {
            start_at(x);
            assert_ok(plain, zest_journal_replay_f64(journal, s, x, D));
            assert_memory_equal(x, history[s], sizeof x);
        }
        for (uint64_t from = 1; from < STEPS; from += 9) { /* from a checkpoint in the middle */
            zest_step step;
            zest_error error = {0};
            zest_tensor tensor = {"x", ZEST_DTYPE_F64, 0, D, x, {0}};
            zest_params params = {&tensor, 1, D};
            memcpy(x, history[from], sizeof x);
            assert_int_equal(zest_step_init(&step, plain->ops, &journal->options, 3, &error), 0);
            assert_int_equal(zest_journal_recall(journal, from, &step, &error), 0);
            for (uint64_t s = from + 1; s <= STEPS; s++) {
                zest_record record;
                zest_tilt_report report;
                assert_int_equal(zest_journal_read(journal, s, &record), 0);
                assert_int_equal(zest_step_replay(&step, &record, &(zest_step_storage){.params = &params},
                                                  &report, &error),
                                 0);
                assert_memory_equal(x, history[s], sizeof x);
            }
            zest_step_free(&step);
        }
        /* a run that lost its last steps takes them again */
        uint64_t size = test_file_size(temp_path("journal"));
        assert_int_equal(truncate(temp_path("journal"), (off_t)(size - size / 3)), 0);
        start_at(x);
        zest_tuner *tuner = zest_tuner_new_f64(plain, x, D);
        assert_ok(plain, zest_tuner_objective_f64(tuner, bumpy, NULL));
        assert_ok(plain, zest_tuner_resume_journal(tuner, temp_path("journal")));
        assert_ok(plain, zest_tuner_run(tuner, NULL));
        assert_memory_equal(x, history[STEPS], sizeof x);
        zest_tuner_free(tuner);
        zest_journal_close(journal);
        zest_ctx_free(plain);
        assert_int_equal(unsetenv("ZEST_CPU"), 0);
        zest_ctx_free(ctx);
    }
}

/* A model that was killed goes on from a checkpoint; without a folder the best weights are found again. */
static void models_resume_and_replay(void **state) {
    (void)state;
    static const char options[] =
        "task=examples/reviews/reviews.task shots=8 batch=4 seed=13 steps=24 eval-every=8 test-size=2 "
        "lr=1e-3 "
        "rho=0.01 weights=bf16 threads=1 k=2 method=mezo momentum=0.9 momentum-steps=5";
    zest_trainer_result whole, killed, rest, without;
    training_events w = {.copy_at = 21, .from = temp_path("killed"), .to = temp_path("rest")};
    assert_fine(training_run(options, temp_path("whole"), NULL, &whole, error));
    assert_fine(training_run(options, temp_path("killed"), &w, &killed, error));
    assert_fine(training_resume(temp_path("rest"), "", &rest, error));
    same_file(temp_path("whole/journal"), temp_path("rest/journal"));
    same_file(temp_path("whole/last/model.safetensors"), temp_path("rest/last/model.safetensors"));
    assert_fine(training_run(options, NULL, NULL, &without, error));
    assert_true(without.dev.loss == whole.dev.loss && without.best_step == whole.best_step);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(it_is_sgd_s_cut_off),
        IN_TEMP_FOLDER(replay_and_resume_repeat_the_bits),
        IN_TEMP_FOLDER(models_resume_and_replay),
    };
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}
