/* The tuner: against hand-written steps, and itself under other threads and instruction sets. Its gradients
 * are in test_tuner_gradients.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "optim/tuner.h"
#include "tests/tuner.h"

enum { N = 5000 };

/* A bowl with different curvatures and its minimum at 1; counts its calls. */
static double bowl_f32(const float *x, size_t n, void *user) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (1 + (double)(i % 5)) * (x[i] - 1.0) * (x[i] - 1.0);
    if (user) ++*(size_t *)user;
    return sum / (double)n;
}

static double bowl_f64(const double *x, size_t n, void *user) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (1 + (double)(i % 5)) * (x[i] - 1.0) * (x[i] - 1.0);
    if (user) ++*(size_t *)user;
    return sum / (double)n;
}

/* The same bowl from lanes, read in odd slices. */
static int bowl_lanes(const zest_lanes *lanes, double *losses, void *user) {
    (void)user;
    size_t n = zest_lanes_dimension(lanes);
    for (size_t lane = 0; lane < zest_lanes_count(lanes); lane++) {
        float slice[701];
        double sum = 0;
        for (size_t first = 0; first < n; first += 701) {
            size_t count = n - first < 701 ? n - first : 701;
            if (zest_lanes_read_f32(lanes, lane, first, count, slice)) return 1;
            for (size_t i = 0; i < count; i++)
                sum += (1 + (double)((first + i) % 5)) * (slice[i] - 1.0) * (slice[i] - 1.0);
        }
        losses[lane] = sum / (double)n;
    }
    return 0;
}

static float *run_f32(const char *options, size_t n, int lanes) {
    zest_ctx *ctx = test_context();
    float *x = calloc(n, sizeof *x);
    zest_tuner *tuner = zest_tuner_new_f32(ctx, x, n);
    set_all(ctx, tuner, options);
    assert_ok(ctx, lanes ? zest_tuner_objective_lanes(tuner, bowl_lanes, NULL)
                         : zest_tuner_objective_f32(tuner, bowl_f32, NULL));
    assert_ok(ctx, zest_tuner_run(tuner, NULL));
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
    return x;
}

/* MeZO as its paper writes it, with v from the public functions. */
static void mezo_equals_a_loop_by_hand(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    enum { D = 300, K = 3, STEPS = 20 };
    const double rho = 0.01, lr = 0.05;
    double x[D] = {0}, y[D] = {0}, point[D];
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, D);
    set_all(ctx, tuner, "method=mezo rho=0.01 lr=0.05 k=3 seed=9");
    assert_ok(ctx, zest_tuner_objective_f64(tuner, bowl_f64, NULL));
    for (uint64_t step = 0; step < STEPS; step++) {
        double g[K];
        float v[K][D];
        for (uint64_t i = 0; i < K; i++) {
            zest_direction direction;
            assert_ok(ctx, zest_direction_init(ctx, &direction, ZEST_GAUSSIAN, zest_seed(9, step, i), D));
            assert_ok(ctx, zest_direction_read(ctx, &direction, 0, D, v[i]));
            for (int j = 0; j < D; j++) point[j] = fma(rho, v[i][j], y[j]);
            double high = bowl_f64(point, D, NULL);
            for (int j = 0; j < D; j++) point[j] = fma(-rho, v[i][j], y[j]);
            g[i] = (high - bowl_f64(point, D, NULL)) / (2 * rho) / K;
        }
        for (int i = 0; i < K; i++)
            for (int j = 0; j < D; j++) y[j] = fma(-lr * g[i], v[i][j], y[j]);
        assert_ok(ctx, zest_tuner_step(tuner, NULL));
        assert_memory_equal(x, y, sizeof x);
    }
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
}

/* t = 0 is MeZO for every method name. */
static void zero_tilt_equals_mezo(void **state) {
    (void)state;
    float *mezo = run_f32("method=mezo t=5 steps=15 k=4 lr=0.1", N, 0);
    float *naive = run_f32("method=zest-n t=0 steps=15 k=4 lr=0.1", N, 0);
    float *corrected = run_f32("method=zest-bc t=0 steps=15 k=4 lr=0.1", N, 0);
    float *tilted = run_f32("method=zest-n t=5 steps=15 k=4 lr=0.1", N, 0);
    assert_memory_equal(mezo, naive, N * sizeof *mezo);
    assert_memory_equal(mezo, corrected, N * sizeof *mezo);
    assert_memory_not_equal(mezo, tilted, N * sizeof *mezo);
    free(mezo), free(naive), free(corrected), free(tilted);
}

static void threads_lanes_and_instructions_change_nothing(void **state) {
    (void)state;
    static const char *const kinds[] = {"gaussian", "sphere", "ball", "rademacher"};
    static const char *const levels[] = {"plain", "avx2", "avx512"};
    enum { LARGE = 150000 };
    const char *before = getenv("ZEST_CPU");
    char *kept = before ? strdup(before) : NULL;
    for (int kind = 0; kind < 4; kind++) {
        char options[200];
        snprintf(options, sizeof options, "steps=3 k=2 lr=0.1 weight-decay=0.1 distribution=%s threads=1",
                 kinds[kind]);
        setenv("ZEST_CPU", "plain", 1);
        float *expected = run_f32(options, LARGE, 0);
        for (int level = 0; level < 3; level++)
            for (int threads = 1; threads <= 5; threads += 2) {
                setenv("ZEST_CPU", levels[level], 1);
                snprintf(options, sizeof options,
                         "steps=3 k=2 lr=0.1 weight-decay=0.1 distribution=%s threads=%d", kinds[kind],
                         threads);
                float *got = run_f32(options, LARGE, threads == 3);
                assert_memory_equal(expected, got, LARGE * sizeof *got);
                free(got);
            }
        free(expected);
    }
    if (kept)
        setenv("ZEST_CPU", kept, 1);
    else
        unsetenv("ZEST_CPU");
    free(kept);
}

static void ask_and_tell_equal_step(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    float *expected = run_f32("steps=10 k=3 lr=0.1 eval-every=3", N, 0), x[N] = {0};
    zest_tuner *tuner = zest_tuner_new_f32(ctx, x, N);
    set_all(ctx, tuner, "steps=10 k=3 lr=0.1 eval-every=3");
    assert_int_equal(zest_tuner_tell(tuner, NULL, NULL), ZEST_ERROR_STATE);
    for (int step = 0; step < 10; step++) {
        const zest_lanes *lanes, *again;
        double losses[7], scale;
        zest_direction direction;
        assert_ok(ctx, zest_tuner_ask(tuner, &lanes));
        assert_ok(ctx, zest_tuner_ask(tuner, &again)); /* asking twice is asking once */
        assert_ptr_equal(lanes, again);
        assert_int_equal(zest_lanes_count(lanes), step % 3 ? 6 : 7);
        assert_ok(ctx, zest_lanes_describe(lanes, 3, &direction, &scale));
        assert_true(scale == -0.001 && direction.seed == zest_seed(1, (uint64_t)step, 1));
        assert_int_equal(zest_lanes_describe(lanes, 7, NULL, NULL), ZEST_ERROR_ARGUMENT);
        assert_int_equal(bowl_lanes(lanes, losses, NULL), 0);
        assert_ok(ctx, zest_tuner_tell(tuner, losses, NULL));
    }
    assert_memory_equal(expected, x, sizeof x);
    free(expected);
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
}

/* Promise 1, trap T12: evaluating never writes x. A thousand steps with lr 0 leave every bit where it was. */
static void evaluation_never_moves_x(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    float x[64], before[64];
    for (int i = 0; i < 64; i++) x[i] = before[i] = 0.02f * (float)sin(i * 1.7);
    zest_tuner *tuner = zest_tuner_new_f32(ctx, x, 64);
    set_all(ctx, tuner, "lr=0 steps=1000 rho=0.01");
    assert_ok(ctx, zest_tuner_objective_f32(tuner, bowl_f32, NULL));
    assert_ok(ctx, zest_tuner_run(tuner, NULL));
    assert_memory_equal(x, before, sizeof x);
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
}

static void schedules_follow_their_formulae(void **state) {
    (void)state;
    zest_options options;
    zest_options_init(&options);
    assert_int_equal(zest_options_set_all(&options, ZEST_FOR_TUNER, "lr=0.5 steps=110 warmup=10 final-lr=0.1",
                                          "test", NULL),
                     0);
    static const struct {
        const char *kind;
        double first, middle, end;
    } cases[] = {{"constant", 0.5, 0.5, 0.5}, {"linear", 0.5, 0.275, 0.05}, {"cosine", 0.5, 0.275, 0.05}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(zest_options_set(&options, ZEST_FOR_TUNER, "schedule", cases[i].kind, NULL), 0);
        assert_close(zest_step_lr(&options, 0), 0.05, 1e-15); /* the warm-up is the same for all */
        assert_close(zest_step_lr(&options, 4), 0.25, 1e-15);
        assert_close(zest_step_lr(&options, 9), 0.5, 1e-15);
        assert_close(zest_step_lr(&options, 10), cases[i].first, 1e-15);
        assert_close(zest_step_lr(&options, 60), cases[i].middle, 1e-15);
        assert_close(zest_step_lr(&options, 110), cases[i].end, 1e-15);
        assert_close(zest_step_lr(&options, 1000), cases[i].end, 1e-15);
    }
    assert_close(zest_step_lr(&options, 35), 0.5 * (0.1 + 0.9 * 0.5 * (1 + cos(M_PI / 4))), 1e-15);
    zest_options_free(&options);
}

static double flat(const double *x, size_t n, void *user) {
    (void)x, (void)n, (void)user;
    return 3;
}

/* With a constant loss nothing but the decay is left. */
static void weight_decay_is_a_power(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    double x[3] = {1, -2, 3}, expected[3] = {1, -2, 3};
    assert_ok(ctx, zest_minimize_f64(ctx, flat, NULL, x, 3, "steps=7 lr=0.1 weight-decay=0.5", NULL));
    for (int s = 0; s < 7; s++)
        for (int i = 0; i < 3; i++) expected[i] *= 1 - 0.1 * 0.5;
    assert_memory_equal(x, expected, sizeof x);
    zest_ctx_free(ctx);
}

static zest_result result_of(const char *options) {
    zest_ctx *ctx = test_context();
    double x[5] = {0};
    zest_result result;
    assert_ok(ctx, zest_minimize_f64(ctx, bowl_f64, NULL, x, 5, options, &result));
    assert_close(result.loss, bowl_f64(x, 5, NULL), 0);
    zest_ctx_free(ctx);
    return result;
}

static int stop_at_seven(const zest_step_report *report, void *user) {
    (void)user;
    return report->step == 7;
}

static void every_stop_criterion_stops(void **state) {
    (void)state;
    zest_result r = result_of("steps=12");
    assert_true(r.stop == ZEST_STOP_STEPS && r.steps == 12 && r.evaluations == 12 * 10 + 1);
    r = result_of("steps=100 evals=55");
    assert_true(r.stop == ZEST_STOP_EVALUATIONS && r.steps == 5);
    r = result_of("steps=100000000 seconds=0.05");
    assert_true(r.stop == ZEST_STOP_TIME && r.seconds < 5);
    r = result_of("steps=100000 lr=0.05 target=0.01");
    assert_true(r.stop == ZEST_STOP_TARGET && r.best <= 0.01 && r.best_step == r.steps);
    r = result_of("steps=100000 lr=0 patience=30");
    assert_true(r.stop == ZEST_STOP_STAGNATION && r.steps < 1000);
    r = result_of("steps=100000 lr=0.05 eval-every=10 target=0.01");
    assert_true(r.stop == ZEST_STOP_TARGET && r.steps % 10 == 1); /* seen in the step that evaluated x */
    zest_ctx *ctx = test_context();
    double x[5] = {0};
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, 5);
    assert_ok(ctx, zest_tuner_objective_f64(tuner, bowl_f64, NULL));
    zest_tuner_on_step(tuner, stop_at_seven, NULL);
    assert_ok(ctx, zest_tuner_run(tuner, &r));
    assert_true(r.stop == ZEST_STOP_CALLBACK && r.steps == 7);
    zest_tuner_stop(tuner);
    assert_ok(ctx, zest_tuner_run(tuner, &r));
    assert_true(r.stop == ZEST_STOP_CALLBACK && r.steps == 7);
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
}

static void it_minimises(void **state) {
    (void)state;
    static const char *const methods[] = {"zest-n", "zest-bc", "mezo"};
    static const char *const kinds[] = {"gaussian", "sphere", "ball", "rademacher"};
    for (int m = 0; m < 3; m++)
        for (int d = 0; d < 4; d++) {
            char options[128];
            snprintf(options, sizeof options, "method=%s distribution=%s steps=1500 lr=0.05 rho=0.01",
                     methods[m], kinds[d]);
            zest_result r = result_of(options);
            if (!(r.loss < 1e-4)) fail_msg("%s ends at %g", options, r.loss);
        }
}

static double sometimes_nan(const double *x, size_t n, void *user) {
    size_t call = ++*(size_t *)user;
    return call % 7 == 0 ? NAN : call % 11 == 0 ? INFINITY : bowl_f64(x, n, NULL);
}

static double always_nan(const double *x, size_t n, void *user) {
    (void)x, (void)n, (void)user;
    return NAN;
}

/* Promise 5. */
static void bad_numbers_never_reach_x(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    double x[5] = {0}, y[5] = {3, 1, 4, 1, 5}, before[5];
    size_t calls = 0;
    zest_result r;
    assert_ok(ctx, zest_minimize_f64(ctx, sometimes_nan, &calls, x, 5, "steps=600 lr=0.05", &r));
    for (int i = 0; i < 5; i++) assert_true(isfinite(x[i]));
    assert_true(r.dropped_pairs > 100 && bowl_f64(x, 5, NULL) < 0.01);
    memcpy(before, y, sizeof y);
    assert_int_equal(zest_minimize_f64(ctx, always_nan, NULL, y, 5, "weight-decay=1 max-bad-steps=5", &r),
                     ZEST_ERROR_OBJECTIVE);
    assert_says(ctx, "5 steps in a row");
    assert_int_equal(r.steps, 5);
    assert_memory_equal(y, before, sizeof y);
    zest_ctx_free(ctx);
}

static int give_up(const zest_lanes *lanes, double *losses, void *user) {
    (void)lanes, (void)losses, (void)user;
    return 1;
}

static void mistakes_are_explained(void **state) {
    (void)state;
    zest_ctx *ctx = test_context();
    double x[2] = {1, 2};
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, 2);
    assert_int_equal(zest_tuner_step(tuner, NULL), ZEST_ERROR_STATE);
    assert_says(ctx, "objective");
    assert_int_equal(zest_tuner_objective_f32(tuner, bowl_f32, NULL), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_tuner_set(tuner, "rhoo", "1"), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "did you mean 'rho'");
    assert_int_equal(zest_tuner_set(tuner, "t", "-1"), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "sharp minima");
    assert_int_equal(zest_tuner_set(tuner, "k", "0"), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_tuner_set(tuner, "k", "2.5"), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_tuner_set(tuner, "k", "-3"), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_tuner_set(tuner, "rho", "nan"), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_tuner_set(tuner, "rho", "inf"), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_tuner_set(tuner, "method", "adam"), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "zest-n, zest-bc, mezo");
    assert_int_equal(zest_tuner_set(tuner, "method", "sgd"), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "needs gradients: only zest train has them");
    assert_string_equal(zest_tuner_get(tuner, "method"), "zest-n");
    assert_int_equal(zest_tuner_set(tuner, "exec", "ls"),
                     ZEST_ERROR_ARGUMENT); /* the program's option, not the library's */
    assert_int_equal(zest_tuner_set(tuner, "seed", "18446744073709551616"), ZEST_ERROR_ARGUMENT);
    assert_ok(ctx, zest_tuner_set(tuner, "seed", "18446744073709551615"));
    assert_string_equal(zest_tuner_get(tuner, "seed"), "18446744073709551615");
    assert_null(zest_tuner_get(tuner, "nothing"));
    assert_ok(ctx, zest_tuner_set(tuner, "denominator", "ball"));
    assert_ok(ctx, zest_tuner_objective_lanes(tuner, give_up, NULL));
    assert_int_equal(zest_tuner_step(tuner, NULL), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "distribution=sphere");
    assert_ok(ctx, zest_tuner_set(tuner, "denominator", "shared"));
    assert_int_equal(zest_tuner_step(tuner, NULL), ZEST_ERROR_OBJECTIVE);
    assert_true(x[0] == 1 && x[1] == 2);
    assert_ok(ctx, zest_tuner_objective_f64(tuner, bowl_f64, NULL));
    assert_ok(ctx, zest_tuner_step(tuner, NULL));
    assert_int_equal(zest_tuner_set(tuner, "rho", "0.5"), ZEST_ERROR_STATE); /* begun: the method stands */
    assert_ok(ctx, zest_tuner_set(tuner, "rho", "0.001"));
    assert_ok(ctx, zest_tuner_set_number(tuner, "lr", 0.125));
    assert_string_equal(zest_tuner_get(tuner, "lr"), "0.125");
    assert_ok(ctx, zest_tuner_set_all(tuner, "lr=0.25  steps=9"));
    assert_string_equal(zest_tuner_get(tuner, "lr"), "0.25");
    assert_string_equal(zest_tuner_get(tuner, "steps"), "9");
    assert_int_equal(zest_tuner_set_all(tuner, "lr=0.5 rho=0.5 steps=10"), ZEST_ERROR_STATE);
    assert_says(ctx, "option rho is 0.001");
    assert_string_equal(zest_tuner_get(tuner, "lr"), "0.5");
    assert_string_equal(zest_tuner_get(tuner, "steps"), "9");
    zest_tuner_free(tuner);
    assert_null(zest_tuner_new_f64(ctx, x, 0));
    assert_int_equal(zest_minimize_f64(ctx, bowl_f64, NULL, x, 2, "steps", NULL), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_minimize_f64(ctx, bowl_f64, NULL, x, 2, "method=sgd", NULL), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "method sgd needs gradients");
    zest_tuner_free(NULL);
    zest_ctx_free(NULL);
    zest_ctx_free(ctx);
}

static size_t peak_kilobytes(void) {
    char line[256];
    size_t peak = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %zu", &peak);
    fclose(file);
    return peak;
}

static int first_element(const zest_lanes *lanes, double *losses, void *user) {
    (void)user;
    for (size_t i = 0; i < zest_lanes_count(lanes); i++) {
        float x;
        if (zest_lanes_read_f32(lanes, i, 5, 1, &x)) return 1;
        losses[i] = (double)x * (double)x;
    }
    return 0;
}

/* Promise 8: beside x nothing that grows with it. */
static void memory_is_x_and_little_else(void **state) {
    (void)state;
    if (TEST_SLOW > 1) skip();
    zest_ctx *ctx = test_context();
    size_t n = (size_t)1 << 25;
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = 1;
    size_t before = peak_kilobytes();
    zest_tuner *tuner = zest_tuner_new_f32(ctx, x, n);
    set_all(ctx, tuner, "steps=2 distribution=sphere");
    assert_ok(ctx, zest_tuner_objective_lanes(tuner, first_element, NULL));
    assert_ok(ctx, zest_tuner_run(tuner, NULL));
    size_t more = peak_kilobytes() - before;
    if (more > 4096) fail_msg("%zu kB beside the 131072 kB of x", more);
    zest_tuner_free(tuner);
    free(x);
    zest_ctx_free(ctx);
}

/* Parameters that the tuner cannot write itself: two tensors elsewhere, updated by a callback. */
typedef struct {
    const zest_vector_ops *ops;
    zest_params there;
    uint64_t recorded; /* steps */
    size_t applied;
    int fail; /* 1: recording, 2: applying */
} elsewhere;

static zest_status apply_elsewhere(void *user, const zest_update *update, zest_error *error) {
    elsewhere *e = user;
    assert_int_equal(e->recorded, e->applied + 1); /* on record before it is applied */
    if (e->fail == 2) return zest_error_set(error, ZEST_ERROR_FILE, "no device");
    e->applied++;
    zest_update_apply(e->ops, 1, &e->there, update);
    return ZEST_OK;
}

static zest_status record_elsewhere(void *user, const zest_record *record, zest_error *error) {
    elsewhere *e = user;
    if (e->fail == 1) return zest_error_set(error, ZEST_ERROR_FILE, "no disk");
    assert_int_equal(record->step, e->recorded + 1);
    assert_int_equal(record->count, 6);
    assert_false(record->has_center);
    e->recorded++;
    return ZEST_OK;
}

/* Loss of a lane made by hand from (direction, scale), as a model makes it inside its forward pass. */
static void losses_by_hand(zest_ctx *ctx, const zest_lanes *lanes, const float *y, double *losses) {
    static float v[N], point[N];
    for (size_t i = 0; i < zest_lanes_count(lanes); i++) {
        zest_direction direction;
        double scale;
        assert_ok(ctx, zest_lanes_describe(lanes, i, &direction, &scale));
        assert_ok(ctx, zest_direction_read(ctx, &direction, 0, N, v));
        for (int j = 0; j < N; j++) point[j] = fmaf((float)scale, v[j], y[j]);
        losses[i] = bowl_f32(point, N, NULL);
    }
}

static void storage_elsewhere_takes_the_same_steps(void **state) {
    (void)state;
    enum { FIRST = 1234, STEPS = 12 };
    zest_ctx *ctx = test_context();
    zest_error error = {0};
    static float x[N], y[N], before[N]; /* y is never shown to the tuner as memory */
    zest_tensor tensors[] = {{"a", ZEST_DTYPE_F32, 0, FIRST, y, {0}},
                             {"b", ZEST_DTYPE_F32, FIRST, N - FIRST, y + FIRST, {0}}};
    zest_tensor shapes[] = {{"a", ZEST_DTYPE_F32, 0, FIRST, NULL, {0}},
                            {"b", ZEST_DTYPE_F32, FIRST, N - FIRST, NULL, {0}}};
    zest_params known = {shapes, 2, N};
    elsewhere e = {.ops = ctx->ops, .there = {tensors, 2, N}};
    zest_step_storage storage = {&known, apply_elsewhere, &e};
    const char *text = "method=zest-bc k=3 t=2 lr=0.1 schedule=linear steps=12 weight-decay=0.01 seed=5";
    zest_tuner *vector = zest_tuner_new_f32(ctx, x, N);
    set_all(ctx, vector, text);
    assert_ok(ctx, zest_tuner_objective_f32(vector, bowl_f32, NULL));
    zest_tuner *tuner = zest_tuner_new_storage(ctx, &storage, "y is as before", &error);
    zest_options options;
    zest_options_init(&options);
    /* every second step would have a center, did the option mean the tuner's */
    assert_int_equal(zest_options_set_all(&options, ZEST_FOR_TUNER, text, "test", &error), 0);
    assert_int_equal(zest_options_set_id(&options, ZEST_OPTION_EVAL_EVERY, "2", &error), 0);
    assert_int_equal(zest_tuner_configure(tuner, &options, ZEST_FORMAT, 0), 0);
    zest_tuner_on_record(tuner, record_elsewhere, &e);
    for (int s = 0; s < STEPS; s++) {
        const zest_lanes *lanes;
        double losses[7];
        zest_step_report a, b;
        assert_int_equal(zest_tuner_ask(tuner, &lanes), 0);
        losses_by_hand(ctx, lanes, y, losses);
        memcpy(before, y, sizeof y);
        /* a step that cannot be recorded or applied is not taken, and can be told again */
        e.fail = s == 3 ? 1 : s == 5 ? 2 : 0;
        if (e.fail) {
            assert_int_equal(zest_tuner_tell(tuner, losses, &b), ZEST_ERROR_FILE);
            assert_string_equal(error.message, e.fail == 1 ? "no disk" : "no device");
            assert_int_equal(tuner->state.steps, s);
            assert_memory_equal(y, before, sizeof y);
            if (e.fail == 2) e.recorded--;
            e.fail = 0;
        }
        assert_int_equal(zest_tuner_tell(tuner, losses, &b), 0);
        assert_ok(ctx, zest_tuner_step(vector, &a));
        assert_memory_equal(x, y, sizeof x);
        assert_memory_equal(&a.tilt, &b.tilt, sizeof a.tilt);
        assert_true(a.lr == b.lr && a.step == b.step && a.loss == b.loss);
        if (s ==
            7) /* a run that is resumed at step 8: options, format and position are all there is to know */
            assert_int_equal(zest_tuner_configure(tuner, &options, ZEST_FORMAT, 8), 0);
    }
    assert_int_equal(e.applied, STEPS);
    assert_int_equal(zest_tuner_objective_f32(tuner, bowl_f32, NULL), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "lanes"));
    zest_options_free(&options);
    zest_tuner_free(tuner);
    zest_tuner_free(vector);
    zest_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mezo_equals_a_loop_by_hand),
        cmocka_unit_test(zero_tilt_equals_mezo),
        cmocka_unit_test(threads_lanes_and_instructions_change_nothing),
        cmocka_unit_test(ask_and_tell_equal_step),
        cmocka_unit_test(storage_elsewhere_takes_the_same_steps),
        cmocka_unit_test(evaluation_never_moves_x),
        cmocka_unit_test(schedules_follow_their_formulae),
        cmocka_unit_test(weight_decay_is_a_power),
        cmocka_unit_test(every_stop_criterion_stops),
        cmocka_unit_test(it_minimises),
        cmocka_unit_test(bad_numbers_never_reach_x),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(memory_is_x_and_little_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
