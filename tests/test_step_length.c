/* The length of a step: step-length and max-step against their equations, and replay of every mixture bit for bit. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "optim/journal.h"
#include "tests/temp_folder.h"
#include "tests/tuner.h"

enum { K = 5, D = 3000 };

static double norm(const double *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* Losses with slopes and curvature, on any scale. */
static void some_losses(double *losses, double scale) {
    for (int i = 0; i < K; i++) {
        losses[2 * i] = scale * (0.7 + 0.2 * sin(3 * i) + 0.1 * cos(5 * i + 1));
        losses[2 * i + 1] = scale * (0.7 + 0.2 * sin(3 * i) - 0.1 * cos(5 * i + 1));
    }
}

/* Coefficients of losses under some options. */
static zest_tilt_report coefficients(const char *text, const double *losses, double lr, double *g) {
    zest_ctx *ctx = test_context();
    zest_options options;
    zest_step step;
    zest_error error = {0};
    zest_tilt_report report;
    zest_options_init(&options);
    if (zest_options_set_all(&options, ZEST_FOR_TUNER, text, "test", &error) ||
        zest_step_init(&step, ctx->ops, &options, ZEST_FORMAT, &error))
        fail_msg("%s", error.message);
    zest_step_tilt(&step, losses, lr, &report);
    memcpy(g, step.coefficients, K * sizeof *g);
    zest_step_free(&step);
    zest_options_free(&options);
    zest_ctx_free(ctx);
    return report;
}

/* The tilted coefficients with the norm of MeZO's; MeZO itself to the bit. */
static void matched_steps_have_the_length_of_mezo_s(void **state) {
    (void)state;
    static const char *const tilts[] = {"method=zest-n t=0.5", "method=zest-n t=20", "method=zest-bc t=5",
                                        "method=zest-n t=1e6"};
    double losses[2 * K], mezo[K], plain[K], matched[K];
    some_losses(losses, 1);
    for (int bad = 0; bad < 2; bad++) {
        if (bad) losses[3] = NAN;
        coefficients("method=mezo rho=0.01", losses, 0.1, mezo);
        for (size_t t = 0; t < sizeof tilts / sizeof *tilts; t++) {
            char text[120];
            snprintf(text, sizeof text, "%s rho=0.01", tilts[t]);
            coefficients(text, losses, 0.1, plain);
            snprintf(text, sizeof text, "%s rho=0.01 step-length=mezo", tilts[t]);
            zest_tilt_report report = coefficients(text, losses, 0.1, matched);
            assert_close(norm(matched, K) / norm(mezo, K), 1, 1e-14);
            for (int i = 0; i < K; i++)
                assert_close(matched[i], report.scale * plain[i], 1e-12 * norm(mezo, K));
            assert_true(report.scale > 0);
        }
        coefficients("method=mezo rho=0.01 step-length=mezo", losses, 0.1, plain);
        assert_memory_equal(plain, mezo, sizeof mezo);
    }
}

/* FZOO's: rho over the standard deviation of the losses, so that their scale does not count. */
static void normalised_steps_have_no_scale(void **state) {
    (void)state;
    double losses[2 * K], large[2 * K], plain[K], spread[K], scaled[K];
    some_losses(losses, 1);
    some_losses(large, 1000);
    zest_tilt_report report = coefficients("method=mezo rho=0.01", losses, 0.1, plain);
    coefficients("method=mezo rho=0.01 step-length=spread", losses, 0.1, spread);
    coefficients("method=mezo rho=0.01 step-length=spread", large, 0.1, scaled);
    for (int i = 0; i < K; i++) {
        assert_close(spread[i], plain[i] * 0.01 / report.spread, 1e-14);
        assert_close(scaled[i], spread[i], 1e-12);
    }
    coefficients("method=zest-n t=5 rho=0.01 step-length=spread", losses, 0.1, spread);
    report = coefficients("method=zest-n t=5 rho=0.01", losses, 0.1, plain);
    for (int i = 0; i < K; i++) assert_close(spread[i], plain[i] * 0.01 / report.spread, 1e-14);
}

static void long_steps_are_cut(void **state) {
    (void)state;
    double losses[2 * K], plain[K], cut[K];
    some_losses(losses, 1);
    coefficients("method=zest-n t=2 rho=0.01", losses, 0.1, plain);
    zest_tilt_report report = coefficients("method=zest-n t=2 rho=0.01 max-step=0.5", losses, 0.1, cut);
    assert_close(0.1 * norm(cut, K) / (0.5 * 0.01), 1, 1e-14);
    assert_close(report.scale, norm(cut, K) / norm(plain, K), 1e-14);
    for (int i = 0; i < K; i++) assert_close(cut[i], report.scale * plain[i], 1e-14);
    /* shorter ones stay as they are, to the bit */
    report = coefficients("method=zest-n t=2 rho=0.01 max-step=0.5", losses, 1e-4, cut);
    assert_memory_equal(cut, plain, sizeof cut);
    assert_true(report.scale == 1);
    report = coefficients("method=zest-n t=2 rho=0.01 max-step=0.5", losses, 0, cut);
    assert_memory_equal(cut, plain, sizeof cut);
    /* after the normalisation */
    coefficients("method=zest-n t=2 rho=0.01 step-length=spread max-step=0.1", losses, 1, cut);
    assert_close(norm(cut, K) / (0.1 * 0.01), 1, 1e-14);
}

static void odd_losses_stay_finite(void **state) {
    (void)state;
    static const char *const rules[] = {"step-length=mezo", "step-length=spread", "max-step=1",
                                        "step-length=spread max-step=2"};
    double g[K], equal[2 * K], none[2 * K], huge[2 * K], tiny[2 * K];
    for (int i = 0; i < 2 * K; i++) {
        equal[i] = 3, none[i] = NAN;
        huge[i] = i % 3 ? 1e300 : -1e300, tiny[i] = 1 + (i % 3 ? 0 : 1e-16);
    }
    const double *all[] = {equal, none, huge, tiny};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (size_t l = 0; l < 4; l++)
            for (int tilted = 0; tilted < 2; tilted++) {
                char text[120];
                snprintf(text, sizeof text, "method=%s %s", tilted ? "zest-n t=3" : "mezo", rules[r]);
                coefficients(text, all[l], 0.1, g);
                for (int i = 0; i < K; i++) assert_true(isfinite(g[i]));
            }
}

/* ---- Runs ---- */

static double hilly(const double *x, size_t n, void *user) {
    double sum = 0;
    (void)user;
    for (size_t i = 0; i < n; i++) sum += (1 + (double)(i % 7)) * x[i] * x[i] / (double)n;
    return sum + 0.1 * sin(40 * sum);
}

/* A step is no longer than max-step perturbations: on the sphere these have the length rho sqrt(d). */
static void steps_in_x_keep_the_bound(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    double *x = calloc(D, sizeof *x), *before = calloc(D, sizeof *before), move[D];
    for (size_t i = 0; i < D; i++) x[i] = 1;
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, D);
    set_all(ctx, tuner, "method=zest-n t=1 rho=0.01 lr=100 distribution=sphere max-step=2");
    assert_ok(ctx, zest_tuner_objective_f64(tuner, hilly, NULL));
    for (int s = 0; s < 20; s++) {
        memcpy(before, x, D * sizeof *x);
        assert_ok(ctx, zest_tuner_step(tuner, NULL));
        for (size_t i = 0; i < D; i++) move[i] = x[i] - before[i];
        assert_close(norm(move, D) / (2 * 0.01 * sqrt(D)), 1, 0.1); /* directions are nearly orthogonal */
    }
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
    free(x);
    free(before);
}

static int format_of(const char *path) {
    char *bytes = test_get(path);
    int format = (int)zest_journal_get32((unsigned char *)bytes + 8);
    free(bytes);
    return format;
}

/* Every rule with every distribution and tilt: replay to each step, resume in the middle, plain C and vector code. */
static void replay_repeats_the_bits(void **state) {
    (void)state;
    static const char *const runs[] = {
        "method=zest-n t=3 step-length=mezo", "method=zest-bc t=2 step-length=mezo distribution=rademacher",
        "method=mezo step-length=spread distribution=ball",
        "method=zest-n t=2 step-length=spread max-step=0.3",
        "method=zest-n t=2 distribution=sphere denominator=ball max-step=0.1 schedule=cosine warmup=3"};
    enum { N = 70, STEPS = 12 };
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        double history[STEPS + 1][N];
        char options[200];
        snprintf(options, sizeof options, "%s rho=0.05 lr=0.5 k=3 steps=12", runs[r]);
        unlink(temp_path("journal"));
        for (int resumed = 0; resumed < 2; resumed++) { /* seven steps, then the others */
            double x[N];
            assert_int_equal(setenv("ZEST_CPU", resumed ? "plain" : "avx512", 1), 0);
            zest_ctx *ctx = test_context();
            for (int i = 0; i < N; i++) x[i] = 0.1 * i - 2;
            zest_tuner *tuner = zest_tuner_new_f64(ctx, x, N);
            if (!resumed) set_all(ctx, tuner, options);
            assert_ok(ctx, zest_tuner_objective_f64(tuner, hilly, NULL));
            assert_ok(ctx, resumed ? zest_tuner_resume_journal(tuner, temp_path("journal"))
                                   : zest_tuner_start_journal(tuner, temp_path("journal")));
            if (resumed) assert_memory_equal(x, history[7], sizeof x);
            if (!resumed) memcpy(history[0], x, sizeof x);
            for (int s = resumed ? 8 : 1; s <= (resumed ? STEPS : 7); s++) {
                assert_ok(ctx, zest_tuner_step(tuner, NULL));
                memcpy(history[s], x, sizeof x);
            }
            zest_tuner_free(tuner);
            zest_ctx_free(ctx);
        }
        assert_int_equal(unsetenv("ZEST_CPU"), 0);
        zest_ctx *ctx = test_context();
        zest_journal *journal = zest_journal_open(ctx, temp_path("journal"));
        assert_non_null(journal);
        for (int s = 0; s <= STEPS; s++) {
            double x[N];
            memcpy(x, history[0], sizeof x);
            assert_ok(ctx, zest_journal_replay_f64(journal, (uint64_t)s, x, N));
            assert_memory_equal(x, history[s], sizeof x);
        }
        zest_journal_close(journal);
        zest_ctx_free(ctx);
        assert_int_equal(format_of(temp_path("journal")), 3);
    }
}

/* Runs without the new options write the journals of before, which older programs read. */
static void journals_are_no_newer_than_they_must_be(void **state) {
    (void)state;
    static const struct {
        const char *options;
        int format;
    } all[] = {{"method=zest-n t=1", 2},
               {"method=mezo t=auto", 2}, /* MeZO has no t */
               {"method=zest-n step-length=estimate max-step=0", 2},
               {"method=zest-n t=auto", 3},
               {"method=mezo max-step=0.1", 3},
               {"method=mezo step-length=spread", 3}};
    zest_ctx *ctx = test_context();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double x[2] = {1, 2};
        unlink(temp_path("journal"));
        zest_tuner *tuner = zest_tuner_new_f64(ctx, x, 2);
        set_all(ctx, tuner, all[i].options);
        assert_ok(ctx, zest_tuner_start_journal(tuner, temp_path("journal")));
        zest_tuner_free(tuner);
        assert_int_equal(format_of(temp_path("journal")), all[i].format);
        char *bytes = test_get(temp_path("journal"));
        const char *text = bytes + ZEST_JOURNAL_PREFIX;
        assert_int_equal(strstr(text, "step-length=") != NULL, all[i].format > 2);
        assert_int_equal(strstr(text, "max-step=") != NULL, all[i].format > 2);
        assert_non_null(strstr(text, "\nweight-decay=0\n"));
        free(bytes);
    }
    zest_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matched_steps_have_the_length_of_mezo_s),
        cmocka_unit_test(normalised_steps_have_no_scale),
        cmocka_unit_test(long_steps_are_cut),
        cmocka_unit_test(odd_losses_stay_finite),
        cmocka_unit_test(steps_in_x_keep_the_bound),
        IN_TEMP_FOLDER(replay_repeats_the_bits),
        IN_TEMP_FOLDER(journals_are_no_newer_than_they_must_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
