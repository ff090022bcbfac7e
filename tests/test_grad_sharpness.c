/* The Hessian of models: Lanczos's process against the whole matrix, where few enough numbers are not frozen. */
#include "lab/sharpness/sharpness_internal.h"
#include "optim/lanes.h"
#include "model/model.h"
#include "tests/grad.h"

/* ---- Slopes of an objective ---- */

typedef struct {
    zest_grad *grad;
    const zest_model *model;
    const zest_model_objective *objective;
} gradients;

static zest_status slope_of(void *user, const float *v, double scale, double factor, double *sum,
                            zest_error *error) {
    gradients *s = user;
    size_t d = s->model->params.dimension;
    float *point = calloc(2 * d, sizeof *point), *part = point + d;
    zest_eval_point here = {0};
    assert_non_null(point);
    for (size_t i = 0; i < s->model->params.count; i++) {
        const zest_tensor *t = &s->model->params.tensors[i];
        zest_eval_point_read(&here, zest_vector_ops_for(ZEST_CPU_PLAIN), t, 0, t->count, point + t->first);
    }
    for (size_t i = 0; i < d; i++) point[i] = (float)((double)point[i] + scale * (double)v[i]);
    zest_grad_job job = {.objective = s->objective, .at = {.point = point}, .gradient = part, .factor = 1};
    zest_status status = zest_grad_losses(s->grad, &job, NULL, NULL, error);
    for (size_t i = 0; i < d; i++) sum[i] += factor * (double)part[i];
    free(point);
    return status;
}

/* ---- The whole matrix, column by column ---- */

static void dense(const zest_hessian *h, double step, double *values) {
    size_t d = h->dimension;
    double *a = calloc(2 * d * d + d, sizeof *a), *vectors = a + d * d, *column = vectors + d * d;
    float *unit = calloc(d, sizeof *unit);
    assert_true(a && unit);
    for (size_t j = 0; j < d; j++) {
        unit[j] = 1;
        assert_done(zest_hessian_multiply(h, step, unit, column, error));
        unit[j] = 0;
        for (size_t i = 0; i < d; i++) a[i * d + j] += column[i] / 2, a[j * d + i] += column[i] / 2;
    }
    assert_true(zest_lanczos_solve_small(a, d, values, vectors));
    free(a);
    free(unit);
}

/* top of the process, trace and lowest: all against the matrix */
static void compare(const zest_hessian *h, const char *name) {
    enum { TOP = 4 };
    size_t d = h->dimension;
    double *values = calloc(d, sizeof *values), trace = 0;
    zest_hessian_top top;
    zest_hessian_trace sum;
    zest_hessian_plan plan = {.requested = TOP, .steps = d, .vectors = 30};
    assert_non_null(values);
    assert_done(zest_hessian_find(h, &plan, &top, error));
    dense(h, top.step, values);
    double unit = fmax(fabs(values[0]), fabs(values[d - 1]));
    for (size_t k = 0; k < TOP; k++) {
        report(name, "eigenvalue", values[k]);
        report(name, "off by", fabs(top.values[k] - values[k]) / unit);
        assert_close(top.values[k], values[k], 5e-3 * unit);
        assert_close(top.rechecked[k], values[k], 1e-2 * unit);
        assert_true(top.residuals[k] < 2e-2 * unit);
    }
    assert_close(top.lowest, values[d - 1], 1e-2 * unit);
    assert_true(top.disagreement < 0.02);
    for (size_t i = 0; i < d; i++) trace += values[i];
    assert_done(zest_hessian_sum(h, 60, 0, &sum, error));
    assert_close(sum.trace.value, trace, 5 / 1.96 * (sum.trace.high - sum.trace.value) + 5e-3 * unit);
    zest_hessian_free(&top);
    free(values);
}

static void test_families(void **state) {
    (void)state;
    static const char *const names[][2] = {{"roberta", "*layer.0.output.LayerNorm*"},
                                           {"opt", "*layers.0.final_layer_norm*"},
                                           {"gpt2", "*h.0.ln_1*"},
                                           {"llama", "*layers.*layernorm*"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fixture f;
        gradients s = {0};
        zest_grad_options options = {.threads = 2};
        open_fixture(&f, names[i][0], ZEST_MODEL_F32);
        assert_done(zest_model_select_trainable(f.model, names[i][1], "", error));
        size_t d = f.model->params.dimension;
        assert_true(d >= 20 && d <= 200);
        s.model = f.model;
        s.objective = &f.all[f.count > 1];
        assert_done(zest_grad_new(f.model, zest_ops_for(best_cpu()), &options, &s.grad, error));
        zest_hessian h = {.gradient = slope_of,
                          .user = &s,
                          .dimension = d,
                          .start = 0.5,
                          .ops = zest_vector_ops_for(best_cpu()),
                          .threads = 2,
                          .seed = 1};
        compare(&h, names[i][0]);
        zest_grad_free(s.grad);
        close_fixture(&f);
    }
}

/* ---- The same through what the command uses: examples in several batches, with shares ---- */

typedef struct {
    zest_options options;
    zest_loaded loaded;
    zest_loaded_data data;
    zest_eval_target *target;
} review_target;

static void open_reviews(review_target *s, const char *patterns, int threads, size_t most) {
    char text[16];
    memset(s, 0, sizeof *s);
    zest_options_init(&s->options);
    snprintf(text, sizeof text, "%d", threads);
    assert_done(zest_options_set_id(&s->options, ZEST_OPTION_TASK, "examples/reviews/reviews.task", error));
    assert_done(zest_options_set_id(&s->options, ZEST_OPTION_TRAIN_ONLY, patterns, error));
    assert_done(zest_options_set_id(&s->options, ZEST_OPTION_THREADS, text, error));
    assert_done(zest_load_model(&s->loaded, "examples/roberta-tiny", NULL, &s->options, error));
    assert_done(zest_load_resolve_defaults(&s->options, 0, error));
    assert_done(zest_load_data(&s->data, &s->options, &s->loaded, ZEST_LOAD_TRAIN, error));
    zest_eval_target_options options = {.loaded = &s->loaded,
                                        .examples = &s->data.parts[ZEST_PART_TRAIN],
                                        .max_examples = most,
                                        .seed = 3,
                                        .threads = threads};
    assert_done(zest_eval_target_new(&options, &s->target, error));
}

static void close_reviews(review_target *s) {
    zest_eval_target_free(s->target);
    zest_load_free_data(&s->data);
    zest_load_free(&s->loaded);
    zest_options_free(&s->options);
}

static zest_hessian hessian_of(review_target *s, int threads) {
    double norm;
    assert_done(zest_eval_target_norm(s->target, &norm, error));
    return (zest_hessian){.gradient = zest_eval_target_gradient,
                          .user = s->target,
                          .dimension = s->loaded.model->params.dimension,
                          .start = 0.02 * norm,
                          .ops = zest_vector_ops_for(best_cpu()),
                          .threads = threads,
                          .seed = 1};
}

static void test_measured(void **state) {
    (void)state;
    if (TEST_SLOW > 1) skip(); /* minutes under the sanitizers, which see the same code in the others */
    review_target s;
    open_reviews(&s, "*layer.5.output.LayerNorm.bias", 1, 10);
    assert_int_equal(zest_eval_target_examples(s.target), 10);
    zest_hessian h = hessian_of(&s, 1);
    compare(&h, "reviews");
    close_reviews(&s);
}

/* The loss at a point is the loss in a lane, and the gradient is that of this loss. */
static void test_consistent(void **state) {
    (void)state;
    if (TEST_SLOW > 1) skip(); /* minutes under the sanitizers, which see the same code in the others */
    review_target s;
    open_reviews(&s, "*layer.5*", 2, 150); /* two batches */
    size_t d = s.loaded.model->params.dimension;
    double center, point, lane, up, down, along = 0, *sum = calloc(d, sizeof *sum);
    float *v = calloc(d, sizeof *v);
    zest_direction signs = {5, d, 1, ZEST_RADEMACHER};
    zest_model_lane one = {signs, 0.004}, itself = {.direction = {.dimension = d, .gain = 1}};
    assert_true(sum && v);
    zest_direction_raw(zest_vector_ops_for(ZEST_CPU_PLAIN), &signs, 0, d, v);
    assert_done(zest_eval_target_losses(s.target, &itself, 1, &center, error));
    assert_done(zest_eval_target_losses(s.target, &one, 1, &lane, error));
    assert_done(zest_eval_target_at(s.target, v, 0.004, NULL, 0, &point, error));
    assert_close(lane, point, 1e-6);
    assert_true(fabs(lane - center) > 1e-4);
    assert_done(zest_eval_target_at(s.target, v, 0.002, v, 0.002, &point, error));
    assert_close(lane, point, 1e-6);
    assert_done(zest_eval_target_at(s.target, v, 1e-3, NULL, 0, &up, error));
    assert_done(zest_eval_target_at(s.target, v, -1e-3, NULL, 0, &down, error));
    assert_done(zest_eval_target_gradient(s.target, v, 0, 2, sum, error));
    for (size_t i = 0; i < d; i++) along += (double)v[i] * sum[i] / 2;
    assert_close((up - down) / 2e-3, along, 0.02 * fabs(along) + 1e-3);
    free(sum);
    free(v);
    close_reviews(&s);
}

/* Eigenvalues, bit for bit, whatever the number of threads. */
static void test_threads(void **state) {
    (void)state;
    if (TEST_SLOW > 1) skip(); /* minutes under the sanitizers, which see the same code in the others */
    double values[2][3];
    for (int i = 0; i < 2; i++) {
        review_target s;
        zest_hessian_top top;
        zest_hessian_plan plan = {.requested = 3, .steps = 6, .vectors = 6, .step = 0.01};
        open_reviews(&s, "*layer.[45]*", 1 + 2 * i, 16);
        zest_hessian h = hessian_of(&s, 1 + 2 * i);
        assert_done(zest_hessian_find(&h, &plan, &top, error));
        memcpy(values[i], top.values, sizeof values[i]);
        assert_true(top.values[0] > 0);
        zest_hessian_free(&top);
        close_reviews(&s);
    }
    assert_memory_equal(values[0], values[1], sizeof values[0]);
}

static void test_stops(void **state) {
    (void)state;
    review_target s;
    volatile sig_atomic_t stop = 1;
    zest_eval_target *m;
    double loss;
    open_reviews(&s, "*layer.5*", 1, 8);
    zest_eval_target_options options = {.loaded = &s.loaded,
                                        .examples = &s.data.parts[ZEST_PART_TRAIN],
                                        .max_examples = 8,
                                        .seed = 3,
                                        .threads = 1,
                                        .stop = &stop};
    zest_model_lane itself = {.direction = {.gain = 1}};
    assert_done(zest_eval_target_new(&options, &m, error));
    assert_int_equal(zest_eval_target_losses(m, &itself, 1, &loss, NULL), ZEST_ERROR_STATE);
    stop = 0;
    assert_done(zest_eval_target_losses(m, &itself, 1, &loss, error));
    zest_eval_target_free(m);
    close_reviews(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families), cmocka_unit_test(test_measured), cmocka_unit_test(test_consistent),
        cmocka_unit_test(test_threads),  cmocka_unit_test(test_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
