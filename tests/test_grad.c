/* Gradients against the reference implementation, and against differences of our own losses. */
#include "kernels/ops.h"
#include "optim/lanes.h"
#include "tests/grad.h"

/* ---- The reference implementation ---- */

static void check_goldens(const char *name, zest_cpu cpu, zest_compute compute, double tolerance) {
    fixture f;
    zest_safetensors *file = open_goldens(name);
    open_fixture(&f, name, ZEST_MODEL_AS_STORED);
    for (size_t o = 0; o < f.count; o++) {
        double mean;
        zest_grad_options options = {.compute = compute, .threads = 2};
        float *g = gradient_of(f.model, cpu, &options, (zest_grad_job){.objective = &f.all[o]}, NULL, &mean);
        assert_true(fabs(mean - golden_mean(file, o)) <= tolerance);
        double worst = golden_error(&f, file, o, g, tolerance);
        report(name, objective_names[o], worst);
        assert_true(worst <= tolerance);
        free(g);
    }
    zest_safetensors_close(file);
    close_fixture(&f);
}

static void test_goldens(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_MODELS; i++) {
        check_goldens(test_models[i], ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1e-4);
        check_goldens(test_models[i], best_cpu(), ZEST_COMPUTE_F32, 1e-4);
        check_goldens(test_models[i], best_cpu(), ZEST_COMPUTE_BF16, 0.1);
    }
}

/* ---- Our own losses ---- */

static double loss_at(const zest_model *model, zest_cpu cpu, zest_compute compute,
                      const zest_model_objective *objective, zest_model_lane lane, double *losses) {
    zest_model_runner *runner = test_runner(model, cpu, compute, 1, 0);
    double mean;
    assert_done(zest_model_losses(runner, &lane, 1, objective, losses, &mean, NULL, error));
    zest_model_runner_free(runner);
    return mean;
}

/* Losses and means are those of the forward pass, bit for bit, in lanes too. */
static void test_losses(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_MODELS; i++) {
        fixture f;
        open_fixture(&f, test_models[i], ZEST_MODEL_AS_STORED);
        for (size_t o = 0; o < 4 * f.count; o++) {
            zest_compute compute = o & 1 ? ZEST_COMPUTE_BF16 : ZEST_COMPUTE_F32;
            const zest_model_objective *objective = &f.all[o / 4];
            zest_model_lane lane = test_lane(f.model, 5, o & 2 ? 0.01 : 0);
            double losses[2][8] = {{0}}, mean;
            zest_grad_options options = {.compute = compute, .threads = 2};
            zest_grad_job job = {.objective = objective,
                                 .at = {.direction = &lane.direction, .scale = lane.scale}};
            free(gradient_of(f.model, best_cpu(), &options, job, losses[0], &mean));
            assert_true(mean == loss_at(f.model, best_cpu(), compute, objective, lane, losses[1]));
            assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        }
        close_fixture(&f);
    }
}

/* sum of g_i v_i and of g_i^2 */
static double along(const zest_model *model, const float *g, const zest_direction *direction, double *norm) {
    double sum = 0, square = 0;
    float *v = malloc(model->params.dimension * sizeof *v);
    assert_non_null(v);
    zest_direction_raw(zest_vector_ops_for(ZEST_CPU_PLAIN), direction, 0, model->params.dimension, v);
    for (size_t i = 0; i < model->params.dimension; i++) {
        sum += (double)g[i] * (double)v[i] * direction->gain;
        square += (double)g[i] * (double)g[i];
    }
    free(v);
    *norm = sqrt(square);
    return sum;
}

/* f(x + hv) - f(x - hv) = 2h g·v + O(h^3): two steps rule the cubic term out. ReLU has kinks, which h had
 * better not cross: there one small step has to do. */
static void check_differences(const char *name, zest_dropout *dropout) {
    fixture f;
    zest_grad_options options = {.threads = 1};
    open_fixture(&f, name, ZEST_MODEL_F32);
    int kinks = f.model->config.activation == ZEST_ACT_RELU;
    for (size_t o = 0; o < f.count; o++) {
        zest_grad_job job = {.objective = &f.all[o], .dropout = dropout};
        double mean, norm, difference[2], worst = 0;
        float *g = gradient_of(f.model, best_cpu(), &options, job, NULL, &mean);
        for (uint64_t seed = 1; seed <= 4; seed++) {
            zest_direction direction = test_lane(f.model, seed, 0).direction;
            double slope = along(f.model, g, &direction, &norm);
            for (int step = 0; step < 2; step++) {
                double h = kinks ? 3e-5 : step ? 1e-3 : 2e-3, side[2];
                for (int sign = 0; sign < 2; sign++) {
                    job.at = (zest_eval_point){.direction = &direction, .scale = sign ? -h : h};
                    free(gradient_of(f.model, best_cpu(), &options, job, NULL, &side[sign]));
                }
                difference[step] = (side[0] - side[1]) / (2 * h);
            }
            double extrapolated = (4 * difference[1] - difference[0]) / 3;
            worst = fmax(worst, fabs(extrapolated - slope) / norm);
        }
        report(name, dropout ? "differences, dropout" : "differences", worst);
        assert_true(worst <= (kinks ? 2e-2 : 1e-3));
        free(g);
    }
    close_fixture(&f);
}

static void test_differences(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_MODELS; i++) check_differences(test_models[i], NULL);
}

/* ---- Dropout ---- */

static void test_dropout(void **state) {
    (void)state;
    static const char *const names[] = {"roberta", "gpt2", "llama", "opt-350m"};
    zest_dropout dropout = {0.1, 0.2, 0.15, 4};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_differences(names[i], &dropout);
    fixture f;
    open_fixture(&f, "roberta", ZEST_MODEL_AS_STORED);
    double means[4];
    zest_grad_job job = {.objective = &f.all[0]};
    free(gradient_of(f.model, best_cpu(), NULL, job, NULL, &means[0]));
    job.dropout = &dropout;
    free(gradient_of(f.model, best_cpu(), NULL, job, NULL, &means[1]));
    free(gradient_of(f.model, ZEST_CPU_PLAIN, NULL, job, NULL, &means[2]));
    dropout.seed = 5;
    free(gradient_of(f.model, best_cpu(), NULL, job, NULL, &means[3]));
    assert_true(means[0] != means[1] && means[1] == means[2] && means[1] != means[3]);
    dropout = (zest_dropout){0, 0, 0, 4}; /* none after all */
    free(gradient_of(f.model, best_cpu(), NULL, job, NULL, &means[3]));
    assert_true(means[3] == means[0]);
    close_fixture(&f);
}

/* ---- Larger shapes ---- */

/* Several blocks of the vocabulary, of queries and of rows: instruction sets agree to the bit in fp32, and so do thread
 * counts; the slope is right. */
static void check_large(const char *config) {
    enum { SEQUENCES = 3, ROWS = 40 + 101 + 9 };
    static const uint32_t starts[SEQUENCES + 1] = {0, 40, 141, ROWS}, items[3] = {0, 70, 72};
    uint32_t tokens[ROWS], rows[72], targets[72];
    zest_model *model;
    zest_model_options storage = {.storage = ZEST_MODEL_F32};
    assert_done(zest_model_random(config, 4, &storage, &model, error));
    for (uint32_t i = 0; i < ROWS; i++) tokens[i] = 10 + i * 2654435761u % 4900;
    for (uint32_t i = 0; i < 72; i++) {
        rows[i] = i < 70 ? 50 + i : ROWS - 4 + (i - 70);
        targets[i] = tokens[rows[i] + 1];
    }
    zest_model_batch batch = {.tokens = tokens, .starts = starts, .sequences = SEQUENCES};
    zest_model_objective objective = {.kind = ZEST_LOSS_TOKENS,
                                      .batch = &batch,
                                      .items = 2,
                                      .item_starts = items,
                                      .rows = rows,
                                      .targets = targets};
    zest_grad_options options = {.threads = 1};
    zest_grad_job job = {.objective = &objective};
    double mean, norm, side[2], h = 1e-3;
    float *g = gradient_of(model, ZEST_CPU_PLAIN, &options, job, NULL, &mean);
    for (int threads = 1; threads < 4; threads++) {
        double other;
        options.threads = threads, options.recompute = threads == 2;
        float *same = gradient_of(model, best_cpu(), &options, job, NULL, &other);
        assert_true(mean == other);
        assert_memory_equal(same, g, model->params.dimension * sizeof *g);
        free(same);
    }
    zest_direction direction = test_lane(model, 2, 0).direction;
    double slope = along(model, g, &direction, &norm);
    for (int sign = 0; sign < 2; sign++) {
        job.at = (zest_eval_point){.direction = &direction, .scale = sign ? -h : h};
        free(gradient_of(model, best_cpu(), &options, job, NULL, &side[sign]));
    }
    report("large", "differences", fabs((side[0] - side[1]) / (2 * h) - slope) / norm);
    assert_true(fabs((side[0] - side[1]) / (2 * h) - slope) <= 1e-2 * norm);
    free(g);
    zest_model_free(model);
}

static void test_large(void **state) {
    (void)state;
    check_large(
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 5000, "
        "\"hidden_size\": 72, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"head_dim\": 40, \"intermediate_size\": 100, \"hidden_act\": "
        "\"silu\", \"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, "
        "\"tie_word_embeddings\": true}");
    check_large(
        "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"vocab_size\": 5000, "
        "\"n_embd\": 48, \"n_layer\": 2, \"n_head\": 3, \"n_positions\": 128, \"activation_function\": "
        "\"gelu_new\", \"layer_norm_epsilon\": 1e-5}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens), cmocka_unit_test(test_losses), cmocka_unit_test(test_differences),
        cmocka_unit_test(test_dropout), cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
