/* Gradients on a GPU: against the reference implementation, against the CPU's, and against themselves.
 * Without a GPU these tests are skipped. */
#include "model/model.h"
#include "tests/device.h"
#include "tests/grad.h"
#include "tests/larger.h"

enum { COMPUTES = 2 };
static const char *const computes[COMPUTES] = {"f32", "bf16"};
/* Distance from the CPU's fp32 gradient at the same point, relative to its length: rounding errors of fp32;
 * those of activations, their gradients and weights in bf16, after a few layers of 32 units. */
static const double tolerance[COMPUTES] = {2e-5, 6e-2};
static const double loss_tolerance[COMPUTES] = {1e-4, 0.3};

/* ---- A gradient on the device ---- */

typedef struct {
    zest_model_runner *runner;
    zest_device *device;
    const zest_device_table *table;
    zest_grad *grad;
    size_t dimension;
    float *gradient, *point; /* in its memory */
} on_device;

static zest_model_runner *open_runner(const zest_model *model, int compute) {
    zest_model_runner *runner;
    zest_model_runner_options options = {.compute = (zest_compute)compute, .device = ZEST_DEVICE_CUDA};
    assert_done(zest_model_open_runner(model, &options, &runner, error));
    return runner;
}

static on_device open_on_device(const zest_model *model, zest_model_runner *runner, int recompute) {
    on_device t = {.runner = runner, .dimension = model->params.dimension};
    t.device = zest_model_runner_device(t.runner);
    t.table = t.device->operations->device;
    zest_grad_options how = {.recompute = recompute, .runner = t.runner};
    assert_done(zest_grad_new(model, zest_ops_for(best_cpu()), &how, &t.grad, error));
    t.gradient = t.table->allocate(t.device, t.dimension * sizeof(float));
    t.point = t.table->allocate(t.device, t.dimension * sizeof(float));
    assert_true(t.gradient && t.point);
    return t;
}

static void close_on_device(on_device *t) {
    zest_grad_free(t->grad);
    t->table->release(t->device, t->gradient);
    t->table->release(t->device, t->point);
}

/* The gradient of one job, added to `gradient`; job.at.point is on the host. */
static void add_on_device(on_device *t, zest_grad_job job, float *gradient, double *losses, double *mean) {
    size_t bytes = t->dimension * sizeof(float);
    assert_int_equal(t->table->upload(t->device, t->gradient, gradient, bytes), 0);
    if (job.at.point) {
        assert_int_equal(t->table->upload(t->device, t->point, job.at.point, bytes), 0);
        job.at.point = t->point;
    }
    job.gradient = t->gradient;
    if (job.factor == 0) job.factor = 1;
    assert_done(zest_grad_losses(t->grad, &job, losses, mean, error));
    assert_int_equal(t->table->download(t->device, gradient, t->gradient, bytes), 0);
    assert_true(zest_grad_memory(t->grad) > 0);
}

static float *gradient_there(const zest_model *model, zest_model_runner *runner, int recompute,
                             zest_grad_job job, double *losses, double *mean) {
    on_device t = open_on_device(model, runner, recompute);
    float *gradient = calloc(t.dimension, sizeof *gradient);
    assert_non_null(gradient);
    add_on_device(&t, job, gradient, losses, mean);
    close_on_device(&t);
    return gradient;
}

static double distance(const float *a, const float *b, size_t count) {
    double apart = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        length += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / length);
}

/* A model on the device in both computes. */
typedef struct {
    const char *name;
    const zest_model *model;
    zest_model_runner *runners[COMPUTES];
} both;

static both open_both(const char *name, const zest_model *model) {
    both b = {.name = name, .model = model};
    for (int c = 0; c < COMPUTES; c++) b.runners[c] = open_runner(model, c);
    return b;
}

static void close_both(both *b) {
    for (int c = 0; c < COMPUTES; c++) zest_model_runner_free(b->runners[c]);
}

/* One job on the CPU in fp32 and on the device, there once more and recomputing. */
static void compare(const both *b, const char *what, zest_grad_job job, double scale) {
    double losses[2][16] = {{0}}, means[2];
    size_t count = b->model->params.dimension, bytes = count * sizeof(float);
    float *expected = gradient_of(b->model, best_cpu(), NULL, job, losses[0], &means[0]);
    for (int c = 0; c < COMPUTES; c++) {
        int kinks = c && b->model->config.activation == ZEST_ACT_RELU; /* rounding moves units across them */
        float *got[3];
        for (int i = 0; i < 3; i++)
            got[i] = gradient_there(b->model, b->runners[c], i == 2, job, losses[1], &means[1]);
        within(b->name, what, computes[c], distance(got[0], expected, count),
               (kinks ? 4 : 1) * scale * tolerance[c]);
        within(b->name, "mean loss", computes[c], fabs(means[1] - means[0]), scale * loss_tolerance[c]);
        within(b->name, "twice", computes[c], memcmp(got[0], got[1], bytes) != 0, 0);
        within(b->name, "recomputed", computes[c], memcmp(got[0], got[2], bytes) != 0, 0);
        for (int i = 0; i < 3; i++) free(got[i]);
    }
    free(expected);
}

/* ---- Goldens ---- */

static void goldens(void **state) {
    (void)state;
    need_device();
    static const double allowed[COMPUTES] = {1e-4, 0.1};
    for (size_t i = 0; i < TEST_MODELS; i++) {
        fixture f;
        zest_safetensors *file = open_goldens(test_models[i]);
        open_fixture(&f, test_models[i], ZEST_MODEL_AS_STORED);
        both b = open_both(test_models[i], f.model);
        for (size_t o = 0; o < COMPUTES * f.count; o++) {
            int c = (int)(o % COMPUTES);
            zest_grad_job job = {.objective = &f.all[o / COMPUTES]};
            double mean;
            float *g = gradient_there(f.model, b.runners[c], 0, job, NULL, &mean);
            within(test_models[i], "golden mean", computes[c], fabs(mean - golden_mean(file, o / COMPUTES)),
                   c ? loss_tolerance[c] : allowed[c]);
            within(test_models[i], "golden gradient", computes[c],
                   golden_error(&f, file, o / COMPUTES, g, allowed[c]), allowed[c]);
            free(g);
        }
        close_both(&b);
        zest_safetensors_close(file);
        close_fixture(&f);
    }
    verdict();
}

/* ---- Places, dropout, types of weights ---- */

static void evaluation_points(void **state) {
    (void)state;
    need_device();
    static const zest_model_storage storages[] = {ZEST_MODEL_F32, ZEST_MODEL_BF16, ZEST_MODEL_F16};
    static const char *const names[] = {"roberta", "gpt2",  "llama", "opt-350m", "bert",
                                        "qwen2",   "qwen3", "phi3",  "mistral"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fixture f;
        open_fixture(&f, names[i], storages[i % 3]);
        both b = open_both(names[i], f.model);
        zest_direction direction = test_lane(f.model, 5, 0).direction;
        zest_dropout dropout = {0.1, 0.2, 0.15, 4};
        size_t count = f.model->params.dimension;
        float *point = malloc(count * sizeof *point);
        assert_non_null(point);
        for (size_t t = 0, at = 0; t < f.model->params.count; at += f.model->params.tensors[t++].count)
            zest_eval_point_read(&(zest_eval_point){.direction = &direction, .scale = 0.03},
                                 zest_vector_ops_for(best_cpu()), &f.model->params.tensors[t], 0,
                                 f.model->params.tensors[t].count, point + at);
        const zest_model_objective *last = &f.all[f.count - 1];
        compare(&b, "neighbour",
                (zest_grad_job){.objective = last, .at = {.direction = &direction, .scale = 0.02}}, 1);
        direction.distribution = ZEST_RADEMACHER;
        compare(&b, "signs",
                (zest_grad_job){.objective = &f.all[0], .at = {.direction = &direction, .scale = -0.02}}, 1);
        compare(&b, "point", (zest_grad_job){.objective = last, .at = {.point = point}}, 1);
        compare(&b, "dropout", (zest_grad_job){.objective = &f.all[0], .dropout = &dropout, .factor = 0.5},
                1);
        free(point);
        close_both(&b);
        close_fixture(&f);
    }
    verdict();
}

/* Some tensors frozen in one model. */
static void sharing(void **state) {
    (void)state;
    need_device();
    for (size_t i = 0; i < TEST_CAUSAL; i++) {
        zest_model *model = test_model(test_causal[i], ZEST_MODEL_AS_STORED);
        zest_dropout dropout = {0.1, 0.2, 0.15, 4};
        if (i == 3) assert_done(zest_model_select_trainable(model, "", "*q_proj*,*norm*,*embed*", error));
        both b = open_both(test_causal[i], model);
        compare(&b, "shared prefixes", (zest_grad_job){.objective = test_two_prompts()}, 1.5);
        compare(&b, "shared prefixes, dropout",
                (zest_grad_job){.objective = test_two_prompts(), .dropout = &dropout}, 1.5);
        close_both(&b);
        zest_model_free(model);
    }
    verdict();
}

static void frozen(void **state) {
    (void)state;
    need_device();
    static const char *const cases[][3] = {{"roberta", "*query*,*LayerNorm*", ""},
                                           {"opt", "", "*embed*,*fc1*"},
                                           {"bert", "*word_embeddings*", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        open_fixture(&f, cases[i][0], ZEST_MODEL_F32);
        assert_done(zest_model_select_trainable(f.model, cases[i][1], cases[i][2], error));
        both b = open_both(cases[i][0], f.model);
        compare(&b, "frozen", (zest_grad_job){.objective = &f.all[0]}, 1);
        close_both(&b);
        close_fixture(&f);
    }
    verdict();
}

/* ---- Sizes that the kernels for large models take ---- */

static const char larger_roberta[] =
    "{\"model_type\": \"roberta\", \"architectures\": [\"RobertaForMaskedLM\"], \"vocab_size\": 3000, "
    "\"hidden_size\": 192, \"num_hidden_layers\": 2, \"num_attention_heads\": 3, \"intermediate_size\": 768, "
    "\"hidden_act\": \"gelu\", \"max_position_embeddings\": 514, \"type_vocab_size\": 1, \"layer_norm_eps\": "
    "1e-5, \"pad_token_id\": 1}";

/* A runner that has seen other things gives the bits of a fresh one. */
static void same_again(const both *b, zest_grad_job job) {
    for (int c = 0; c < COMPUTES; c++) {
        zest_model_runner *fresh = open_runner(b->model, c);
        double means[2];
        float *first = gradient_there(b->model, b->runners[c], 0, job, NULL, &means[0]);
        float *second = gradient_there(b->model, fresh, 0, job, NULL, &means[1]);
        within(b->name, "fresh", computes[c],
               memcmp(first, second, b->model->params.dimension * sizeof *first) != 0 || means[0] != means[1],
               0);
        free(first), free(second);
        zest_model_runner_free(fresh);
    }
}

static void larger(void **state) {
    (void)state;
    need_device();
    static const char *const configs[] = {LARGER_OPT("17001"), LARGER_LLAMA, larger_roberta};
    static const char *const names[] = {"opt, larger", "llama, larger", "roberta, larger"};
    static const uint32_t words[] = {5, 700}, answers[] = {0, 1, 1};
    for (size_t i = 0; i < 3; i++) {
        zest_model *model = larger_model(configs[i], i % 2 ? ZEST_MODEL_BF16 : ZEST_MODEL_F32);
        zest_model_objective objective = larger_three(3, 2900);
        if (i == 2) objective.kind = ZEST_LOSS_LABEL_WORDS;
        objective.words = words, objective.word_count = 2, objective.answers = answers;
        zest_dropout dropout = {0.1, 0.1, 0.1, 3};
        both b = open_both(names[i], model);
        compare(&b, "larger", (zest_grad_job){.objective = &objective}, 2);
        compare(&b, "larger, dropout", (zest_grad_job){.objective = &objective, .dropout = &dropout}, 2);
        same_again(&b, (zest_grad_job){.objective = &objective});
        close_both(&b);
        zest_model_free(model);
    }
    verdict();
}

/* ---- One object, several jobs ---- */

static double weigh(void *user, double mean) {
    *(double *)user = mean;
    return mean > 0 ? 2 : 0;
}

/* Gradients accumulate; factors and weigh; losses alone; a batch that needs more memory than the one before; no
 * trace of the evaluation point is left. */
static void jobs(void **state) {
    (void)state;
    need_device();
    fixture f;
    open_fixture(&f, "llama", ZEST_MODEL_F32);
    for (int c = 0; c < COMPUTES; c++) {
        zest_model_runner *runner = open_runner(f.model, c);
        on_device t = open_on_device(f.model, runner, 0);
        size_t count = t.dimension, bytes = count * sizeof(float);
        zest_direction direction = test_lane(f.model, 5, 0).direction;
        float *once = calloc(count, sizeof *once), *sum = calloc(count, sizeof *sum);
        double mean, seen = 0, alone;
        assert_true(once && sum);
        zest_grad_job job = {.objective = &f.all[1]}, away = job;
        away.at = (zest_eval_point){.direction = &direction, .scale = 0.1};
        away.gradient = NULL;
        add_on_device(&t, job, once, NULL, &mean);
        assert_done(zest_grad_losses(t.grad, &away, NULL, &alone, error));
        assert_true(alone != mean);
        job.gradient = NULL;
        assert_done(zest_grad_losses(t.grad, &job, NULL, &alone, error));
        assert_true(alone == mean);
        job.weigh = weigh, job.user = &seen;
        add_on_device(&t, job, sum, NULL, &mean);
        assert_true(seen == mean && alone == mean);
        for (size_t i = 0; i < count; i++) sum[i] -= 2 * once[i];
        double off = 0, whole = 0;
        for (size_t i = 0; i < count; i++) {
            off += (double)sum[i] * (double)sum[i];
            whole += (double)once[i] * (double)once[i];
        }
        within("llama", "weighed", computes[c], sqrt(off / whole), c ? 1e-2 : 1e-5);
        memcpy(sum, once, bytes);
        job.weigh = NULL, job.factor = -1;
        add_on_device(&t, job, sum, NULL, &mean);
        for (size_t i = 0, bad = 0; i < count && !bad; i++) {
            bad = !(fabs((double)sum[i]) <= (c ? 1e-2 : 1e-5) * sqrt(whole));
            within("llama", "taken back", computes[c], bad ? fabs((double)sum[i]) : 0, 0);
        }
        free(once), free(sum);
        close_on_device(&t);
        zest_model_runner_free(runner);
    }
    close_fixture(&f);
    verdict();
}

/* A NaN reaches losses and gradient and nothing hangs; fp16 is refused by name. */
static void bad_numbers(void **state) {
    (void)state;
    need_device();
    for (int c = 0; c < COMPUTES; c++) {
        fixture f;
        double mean;
        open_fixture(&f, "opt", ZEST_MODEL_F32);
        *(float *)(uintptr_t)f.model->layers[0].norm1.bias.data = NAN;
        zest_model_runner *runner = open_runner(f.model, c);
        for (size_t o = 0; o < f.count; o++) {
            float *g =
                gradient_there(f.model, runner, 0, (zest_grad_job){.objective = &f.all[o]}, NULL, &mean);
            assert_true(isnan(mean) && isnan(g[f.model->layers[0].q.weight.first]));
            free(g);
        }
        zest_model_runner_free(runner);
        close_fixture(&f);
    }
    zest_model *model = test_model("opt", ZEST_MODEL_AS_STORED);
    zest_model_runner_options options = {.compute = ZEST_COMPUTE_F16, .device = ZEST_DEVICE_CUDA};
    zest_model_runner *runner;
    zest_grad *grad;
    assert_done(zest_model_open_runner(model, &options, &runner, error));
    zest_error error = {0};
    assert_int_equal(
        zest_grad_new(model, zest_ops_for(best_cpu()), &(zest_grad_options){.runner = runner}, &grad, &error),
        ZEST_ERROR_ARGUMENT);
    assert_null(grad);
    assert_non_null(strstr(error.message, "--compute bf16"));
    zest_model_runner_free(runner);
    zest_model_free(model);
}

/* A batch whose activations do not fit is answered with what would. */
static void little_memory(void **state) {
    (void)state;
    need_device();
    zest_model *model = larger_model(LARGER_LLAMA, ZEST_MODEL_F32);
    zest_model_objective objective = larger_one(500, 9000);
    zest_grad_job job = {.objective = &objective};
    assert_int_equal(setenv("ZEST_CUDA_MEMORY", "138", 1),
                     0); /* 128 of them for weights, gradient and cuBLASLt */
    zest_model_runner *runner = open_runner(model, 0);
    on_device t = open_on_device(model, runner, 0);
    assert_int_equal(unsetenv("ZEST_CUDA_MEMORY"), 0);
    zest_error error = {0};
    assert_int_equal(zest_grad_losses(t.grad, &job, NULL, NULL, &error), ZEST_ERROR_MEMORY);
    if (getenv("ZEST_VERBOSE")) printf("%s\n", error.message);
    assert_non_null(strstr(error.message, "--recompute"));
    close_on_device(&t);
    zest_model_runner_free(runner);
    zest_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens),     cmocka_unit_test(evaluation_points),
        cmocka_unit_test(sharing),     cmocka_unit_test(frozen),
        cmocka_unit_test(larger),      cmocka_unit_test(jobs),
        cmocka_unit_test(bad_numbers), cmocka_unit_test(little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
