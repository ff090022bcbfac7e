/* What must not change a bit of a gradient, or not more than rounding: where the weights are, threads,
 * recomputing, batches before, shared prompts, frozen tensors. And what is refused. */
#include "kernels/ops.h"
#include "model/model.h"
#include "tests/grad.h"

/* ---- Places ---- */

/* A model that was moved by hand, a lane and a point give the same bits. */
static void test_places(void **state) {
    (void)state;
    const zest_vector_ops *ops = zest_vector_ops_for(best_cpu());
    for (size_t i = 0; i < TEST_MODELS; i++) {
        fixture f;
        open_fixture(&f, test_models[i], ZEST_MODEL_AS_STORED);
        zest_model *moved = test_model(test_models[i], ZEST_MODEL_F32);
        zest_direction direction = test_lane(f.model, 3, 0).direction;
        direction.gain = 1.25;
        zest_eval_point lane = {.direction = &direction, .scale = 0.02}, point = {0};
        size_t count = f.model->params.dimension;
        float *values = malloc(count * sizeof *values);
        for (size_t t = 0; t < f.model->params.count; t++) {
            const zest_tensor *tensor = &f.model->params.tensors[t], *other = &moved->params.tensors[t];
            zest_eval_point_read(&lane, ops, tensor, 0, tensor->count, values + tensor->first);
            memcpy(other->data, values + tensor->first, tensor->count * sizeof *values);
        }
        point.point = values;
        for (size_t o = 0; o < f.count; o++) {
            double means[3];
            zest_grad_job job = {.objective = &f.all[o]};
            float *g[3] = {gradient_of(moved, best_cpu(), NULL, job, NULL, &means[0])};
            job.at = lane;
            g[1] = gradient_of(f.model, best_cpu(), NULL, job, NULL, &means[1]);
            job.at = point;
            g[2] = gradient_of(f.model, best_cpu(), NULL, job, NULL, &means[2]);
            for (int k = 1; k < 3; k++) {
                assert_true(means[k] == means[0]);
                assert_memory_equal(g[k], g[0], count * sizeof **g);
                free(g[k]);
            }
            free(g[0]);
        }
        free(values);
        zest_model_free(moved);
        close_fixture(&f);
    }
}

/* ---- What changes no bit ---- */

static void test_threads_and_recomputing(void **state) {
    (void)state;
    static const zest_dropout some = {0.2, 0.3, 0.25, 11};
    for (size_t i = 0; i < TEST_MODELS; i++) {
        fixture f;
        open_fixture(&f, test_models[i], ZEST_MODEL_AS_STORED);
        for (size_t o = 0; o < 2 * f.count; o++)
            for (int compute = 0; compute < 2; compute++) {
                zest_grad_job job = {.objective = &f.all[o / 2], .dropout = o % 2 ? &some : NULL};
                double mean, other;
                zest_grad_options options = {.compute = (zest_compute)compute, .threads = 1};
                float *one = gradient_of(f.model, best_cpu(), &options, job, NULL, &mean);
                for (int c = 0; c < 3; c++) {
                    options.threads = c + 1;
                    options.recompute = c != 1;
                    float *g = gradient_of(f.model, best_cpu(), &options, job, NULL, &other);
                    assert_true(mean == other);
                    assert_memory_equal(g, one, f.model->params.dimension * sizeof *g);
                    free(g);
                }
                free(one);
            }
        close_fixture(&f);
    }
}

/* Earlier batches of other sizes have no effect. */
static void test_one_after_another(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, "llama", ZEST_MODEL_AS_STORED);
    zest_grad *grad;
    assert_done(zest_grad_new(f.model, zest_ops_for(best_cpu()), NULL, &grad, error));
    size_t bytes = f.model->params.dimension * sizeof(float);
    float *g = malloc(bytes);
    for (size_t round = 0; round < 6; round++) {
        zest_grad_job job = {.objective = &f.all[round % 3], .gradient = g, .factor = 1};
        memset(g, 0, bytes);
        assert_done(zest_grad_losses(grad, &job, NULL, NULL, error));
        float *alone = gradient_of(f.model, best_cpu(), NULL, job, NULL, NULL);
        assert_memory_equal(g, alone, bytes);
        free(alone);
    }
    free(g);
    zest_grad_free(grad);
    close_fixture(&f);
}

/* ---- Factors ---- */

typedef struct {
    double seen, factor;
} weighing;

static double weigh(void *user, double mean) {
    weighing *w = user;
    w->seen = mean;
    return w->factor;
}

static void test_factors(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, "qwen2", ZEST_MODEL_AS_STORED);
    size_t count = f.model->params.dimension;
    for (size_t o = 0; o < f.count; o++) {
        zest_grad *grad;
        double mean;
        zest_grad_job job = {.objective = &f.all[o]};
        float *one = gradient_of(f.model, best_cpu(), NULL, job, NULL, NULL), *g = malloc(count * sizeof *g);
        assert_done(zest_grad_new(f.model, zest_ops_for(best_cpu()), NULL, &grad, error));
        for (size_t i = 0; i < count; i++) g[i] = 1;
        job.gradient = g, job.factor = -0.5;
        assert_done(zest_grad_losses(grad, &job, NULL, NULL, error));
        for (size_t i = 0; i < count; i++) assert_true(fabsf(g[i] - (1 - 0.5f * one[i])) <= 1e-5f);
        weighing w = {0, 0};
        memcpy(g, one, count * sizeof *g);
        job.weigh = weigh, job.user = &w; /* 0 leaves the gradient alone */
        assert_done(zest_grad_losses(grad, &job, NULL, &mean, error));
        assert_true(w.seen == mean);
        assert_memory_equal(g, one, count * sizeof *g);
        w.factor = 1;
        memset(g, 0, count * sizeof *g);
        assert_done(zest_grad_losses(grad, &job, NULL, &mean, error));
        assert_memory_equal(g, one, count * sizeof *g);
        free(one);
        free(g);
        zest_grad_free(grad);
    }
    close_fixture(&f);
}

/* ---- Parents, frozen tensors ---- */

/* Two choices after one prompt, shared and written out. */
static void test_parents(void **state) {
    (void)state;
    static const char *const names[] = {"opt", "gpt2", "llama", "llama3"};
    static const uint32_t shared[] = {9, 12, 40, 7, 33, 8, 21, 50}, shared_starts[] = {0, 4, 6, 8};
    static const uint32_t prefix_of[] = {ZEST_MODEL_NO_PREFIX, 0, 0};
    static const uint32_t shared_rows[] = {3, 4, 3, 6}, targets[] = {33, 8, 21, 50}, items[] = {0, 2, 4};
    static const uint32_t apart[] = {9, 12, 40, 7, 33, 8, 9, 12, 40, 7, 21, 50}, apart_starts[] = {0, 6, 12};
    static const uint32_t apart_rows[] = {3, 4, 9, 10};
    zest_model_batch a = {shared, shared_starts, 3, NULL, prefix_of},
                     b = {apart, apart_starts, 2, NULL, NULL};
    zest_model_objective x = {.kind = ZEST_LOSS_CHOICES,
                              .batch = &a,
                              .items = 2,
                              .item_starts = items,
                              .rows = shared_rows,
                              .targets = targets,
                              .examples = 1,
                              .example_starts = option_examples,
                              .answers = option_answers};
    zest_model_objective y = x;
    y.batch = &b, y.rows = apart_rows;
    for (size_t i = 0; i < 4; i++) {
        zest_model *model = test_model(names[i], ZEST_MODEL_AS_STORED);
        for (int cpu_index = 0; cpu_index < 2; cpu_index++) {
            double means[2], norm = 0, difference = 0;
            zest_cpu cpu = cpu_index ? best_cpu() : ZEST_CPU_PLAIN;
            float *g = gradient_of(model, cpu, NULL, (zest_grad_job){.objective = &x}, NULL, &means[0]);
            float *h = gradient_of(model, cpu, NULL, (zest_grad_job){.objective = &y}, NULL, &means[1]);
            assert_true(means[0] == means[1]);
            for (size_t j = 0; j < model->params.dimension; j++) {
                norm += (double)h[j] * (double)h[j];
                difference += ((double)g[j] - (double)h[j]) * ((double)g[j] - (double)h[j]);
            }
            report(names[i], "shared prefixes", sqrt(difference / norm));
            assert_true(sqrt(difference / norm) <= 1e-6);
            free(g);
            free(h);
        }
        zest_model_free(model);
    }
}

static void test_frozen(void **state) {
    (void)state;
    static const char *const patterns[][2] = {
        {"roberta", "*word_embeddings*,*query*"}, {"gpt2", "*wte*,*ln_*"}, {"llama", "*mlp*"}};
    for (size_t i = 0; i < 3; i++) {
        fixture f;
        open_fixture(&f, patterns[i][0], ZEST_MODEL_AS_STORED);
        zest_model *part = test_model(patterns[i][0], ZEST_MODEL_AS_STORED);
        assert_done(zest_model_select_trainable(part, "", patterns[i][1], error));
        assert_true(part->params.dimension < f.model->params.dimension);
        zest_grad_job job = {.objective = &f.all[0]};
        float *all = gradient_of(f.model, best_cpu(), NULL, job, NULL, NULL);
        float *some = gradient_of(part, best_cpu(), NULL, job, NULL, NULL);
        for (size_t t = 0; t < part->params.count; t++)
            for (size_t u = 0; u < f.model->params.count; u++) {
                const zest_tensor *a = &part->params.tensors[t], *b = &f.model->params.tensors[u];
                if (!strcmp(a->name, b->name))
                    assert_memory_equal(some + a->first, all + b->first, a->count * sizeof *all);
            }
        free(all);
        free(some);
        zest_model_free(part);
        close_fixture(&f);
    }
}

/* ---- Refusals ---- */

static void test_refusals(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, "opt", ZEST_MODEL_AS_STORED);
    zest_grad *grad;
    zest_error why = {0};
    assert_done(zest_grad_new(f.model, zest_ops_for(best_cpu()), NULL, &grad, error));
    zest_model_objective bad = f.all[1];
    bad.items = 0;
    zest_grad_job job = {.objective = &bad, .factor = 1};
    assert_int_equal(zest_grad_losses(grad, &job, NULL, NULL, &why), ZEST_ERROR_ARGUMENT);
    bad = f.all[0];
    uint32_t far[8] = {1000, 1000, 1000};
    bad.rows = far;
    assert_int_equal(zest_grad_losses(grad, &job, NULL, NULL, &why), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(why.message, "row 1000"));
    job.objective = &f.all[0]; /* losses alone */
    double mean = 0;
    assert_done(zest_grad_losses(grad, &job, NULL, &mean, error));
    assert_true(mean > 0);
    zest_grad_free(grad);
    zest_grad_free(NULL);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_threads_and_recomputing),
        cmocka_unit_test(test_one_after_another),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_parents),
        cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
