/* Models on a GPU against the same models on the CPU: every family, every loss, generation, and steps that
 * end in the same bits. Without a GPU only what is refused is tested. */
#include "optim/step.h"
#include "model/model.h"
#include "model/forward_pass.h"
#include "tests/device.h"
#include "tests/larger.h"

static const char *const names[] = {"f32", "bf16", "f16"};
/* Of logits of about 5 after a few layers of 32 units. */
static const double logit_tolerance[] = {1e-4, 0.2, 0.03};
/* Of a sequence's loss: minus the logarithm of a probability, summed over a few tokens. */
static const double loss_tolerance[] = {1e-4, 0.3, 0.04};
/* With other live pairs other products go together, which may be summed in another order. */
static const double live_tolerance[] = {2e-5, 0.1, 0.02};
enum { COMPUTES = 3, LANES = 11, ITEMS = 8 };

static zest_model_runner *open_device(const zest_model *model, zest_compute compute, size_t live) {
    zest_model_runner *runner;
    zest_error error = {0};
    zest_model_runner_options options = {.compute = compute, .live_pairs = live, .device = ZEST_DEVICE_CUDA};
    if (zest_model_open_runner(model, &options, &runner, &error)) {
        if (getenv("ZEST_NEED_CUDA")) fail_msg("%s", error.message);
        assert_non_null(strstr(error.message, "--device cpu"));
        skip();
    }
    return runner;
}

/* What rounding to bf16 may cost: models differ in how much they amplify it, and the GPU also keeps its activations in
 * 16 bits. So three times what it costs on the CPU, if that is more. */
static double logits_within(zest_compute compute, const zest_model *model, const test_golden *golden,
                            const uint32_t *rows, float *logits, size_t count) {
    if (compute != ZEST_COMPUTE_BF16) return logit_tolerance[compute];
    zest_model_runner *cpu = test_runner(model, ZEST_CPU_PLAIN, compute, 2, 0);
    assert_done(zest_model_logits(cpu, NULL, &golden->batch, rows, golden->rows, logits, error));
    zest_model_runner_free(cpu);
    return fmax(logit_tolerance[compute], 3 * test_largest(logits, golden_data(golden, "logits"), count));
}

static void families(void **state) {
    (void)state;
    need_device();
    for (size_t i = 0; i < TEST_MODELS; i++) {
        zest_model *model = test_model(test_models[i], ZEST_MODEL_AS_STORED);
        test_golden golden = test_golden_open(test_models[i]);
        size_t count = golden.rows * model->config.vocab_size;
        float *logits = malloc(count * sizeof *logits);
        uint32_t rows[64];
        for (uint32_t r = 0; r < golden.rows; r++) rows[r] = r;
        for (int c = 0; c < COMPUTES; c++) {
            zest_model_runner *runner = open_device(model, (zest_compute)c, 0);
            double allowed = logits_within((zest_compute)c, model, &golden, rows, logits, count);
            assert_done(zest_model_logits(runner, NULL, &golden.batch, rows, golden.rows, logits, error));
            double worst = test_largest(logits, golden_data(&golden, "logits"), count);
            within(test_models[i], "logits", names[c], worst, allowed);
            size_t width = model->config.embedding_size;
            char key[32];
            snprintf(key, sizeof key, "hidden_%zu", model->config.layers);
            assert_done(zest_model_hidden(runner, NULL, &golden.batch, model->config.layers, logits, error));
            worst = test_largest(logits, golden_data(&golden, key), golden.rows * width);
            within(test_models[i], "hidden", names[c], worst, logit_tolerance[c]);
            zest_model_runner_free(runner);
        }
        free(logits);
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
    verdict();
}

/* Pairs that go together, a pair of signs, a single lane, the model itself. */
static void make_lanes(const zest_model *model, zest_model_lane lanes[LANES]) {
    static const double scales[LANES] = {0.01, -0.01, 0.015, -0.015, 0.02, -0.02,
                                         0,    0.005, 0.03,  0.01,   -0.01};
    static const uint64_t seeds[LANES] = {7, 7, 11, 11, 8, 8, 0, 9, 10, 12, 12};
    for (size_t i = 0; i < LANES; i++) lanes[i] = test_lane(model, seeds[i], scales[i]);
    lanes[4].direction.distribution = lanes[5].direction.distribution = ZEST_RADEMACHER;
    lanes[8].direction.gain = 1.25;
}

/* The same objective on the CPU in fp32 and on the GPU; live pairs change nothing but the memory. */
static void compare(const char *name, const zest_model *model, const zest_model_objective *objective,
                    double scale) {
    size_t examples = objective->kind == ZEST_LOSS_CHOICES ? objective->examples : objective->items;
    double expected[LANES * ITEMS], got[LANES * ITEMS], again[LANES * ITEMS], means[2][LANES];
    zest_model_lane lanes[LANES];
    make_lanes(model, lanes);
    zest_model_runner *plain = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
    assert_done(zest_model_losses(plain, lanes, LANES, objective, expected, means[0], NULL, error));
    for (int c = 0; c < COMPUTES; c++) {
        zest_model_runner *runner = open_device(model, (zest_compute)c, 0),
                          *one = open_device(model, (zest_compute)c, 1);
        double worst = 0;
        for (int round = 0; round < 2; round++) { /* the second reuses the memory of the first */
            assert_done(zest_model_losses(runner, lanes, LANES, objective, got, means[1], NULL, error));
            for (size_t i = 0; i < LANES * examples; i++) worst = fmax(worst, fabs(got[i] - expected[i]));
        }
        within(name, "losses", names[c], worst, scale * loss_tolerance[c]);
        assert_done(zest_model_losses(one, lanes, LANES, objective, again, means[1], NULL, error));
        worst = 0;
        for (size_t i = 0; i < LANES * examples; i++) worst = fmax(worst, fabs(again[i] - got[i]));
        within(name, "live pairs", names[c], worst, scale * live_tolerance[c]);
        zest_model_runner_free(one);
        zest_model_runner_free(runner);
    }
    zest_model_runner_free(plain);
}

static void losses(void **state) {
    (void)state;
    need_device();
    for (size_t i = 0; i < TEST_MODELS; i++) {
        zest_model *model = test_model(test_models[i], i % 2 ? ZEST_MODEL_AS_STORED : ZEST_MODEL_BF16);
        test_golden golden = test_golden_open(test_models[i]);
        test_objectives objectives;
        test_objectives_make(&golden, &objectives);
        compare(test_models[i], model, &objectives.words, 1);
        if (golden.causal) compare(test_models[i], model, &objectives.tokens, 4);
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
    verdict();
}

/* Some tensors stay as they are, in every lane. */
static void frozen(void **state) {
    (void)state;
    need_device();
    static const char *const cases[][3] = {{"roberta", "*query*,*LayerNorm*", ""},
                                           {"opt", "", "*embed*,*fc1*"},
                                           {"llama", "", "*q_proj*,*norm*"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_model *model = test_model(cases[i][0], i ? ZEST_MODEL_BF16 : ZEST_MODEL_F32);
        test_golden golden = test_golden_open(cases[i][0]);
        test_objectives objectives;
        test_objectives_make(&golden, &objectives);
        assert_done(zest_model_select_trainable(model, cases[i][1], cases[i][2], error));
        compare(i ? "frozen" : "frozen, roberta", model, &objectives.words, 1);
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
    verdict();
}

/* Less memory: fewer pairs go together, then fewer are live, then the batch is refused. Never more than the
 * limit is held. */
static void little_memory(void **state) {
    (void)state;
    need_device();
    static const char config[] =
        "{\"model_type\": \"opt\", \"vocab_size\": 1000, \"hidden_size\": 256, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 4, \"ffn_dim\": 1024, \"word_embed_proj_dim\": 256, "
        "\"max_position_embeddings\": 4096, \"do_layer_norm_before\": true, \"activation_function\": "
        "\"relu\"}";
    enum { PAIRS = 4, REFUSED = 4 };
    zest_model *model = larger_model(config, ZEST_MODEL_F32);
    zest_model_objective objective = larger_one(4000, 1000);
    zest_model_lane lanes[2 * PAIRS];
    double expected[2 * PAIRS], got[2 * PAIRS];
    for (size_t i = 0; i < 2 * PAIRS; i++) lanes[i] = test_lane(model, 3 + i / 2, i % 2 ? -0.01 : 0.01);
    /* 8 MiB a live pair, 43 MiB a pair on its way through a layer, 73 MiB before the first. */
    static const char *const limits[] = {"4096", "250", "180", "135", "90"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        assert_int_equal(setenv("ZEST_CUDA_MEMORY", limits[i], 1), 0);
        zest_model_runner *runner = open_device(model, ZEST_COMPUTE_F32, 0);
        zest_error error = {0};
        zest_status status = zest_model_losses(runner, lanes, 2 * PAIRS, &objective, got, NULL, NULL, &error);
        zest_device *device = zest_model_runner_device(runner);
        size_t peak;
        (void)device->operations->device->bytes_allocated(device, &peak);
        if (getenv("ZEST_VERBOSE"))
            printf("limit %s MiB: %.1f held, %s\n", limits[i], (double)peak / 1048576,
                   status ? error.message : "done");
        assert_true(peak <= strtoull(limits[i], NULL, 10) << 20);
        if (i == REFUSED) {
            assert_int_equal(status, ZEST_ERROR_MEMORY);
            assert_non_null(strstr(error.message, "tokens would fit"));
        } else if (status) {
            fail_msg("%s MiB: %s", limits[i], error.message);
        }
        for (size_t j = 0; j < 2 * PAIRS && i != REFUSED; j++) {
            if (!i) expected[j] = got[j];
            within(limits[i], "memory", "f32", fabs(got[j] - expected[j]), 1e-4);
        }
        zest_model_runner_free(runner);
    }
    assert_int_equal(unsetenv("ZEST_CUDA_MEMORY"), 0);
    zest_model_free(model);
    verdict();
}

static void sharing(void **state) {
    (void)state;
    need_device();
    for (size_t i = 0; i < TEST_CAUSAL; i++) {
        zest_model *model = test_model(test_causal[i], ZEST_MODEL_AS_STORED);
        compare(test_causal[i], model, test_two_prompts(), 1);
        zest_model_free(model);
    }
    verdict();
}

static size_t widest(const zest_model *model, zest_compute compute) {
    zest_model_runner *runner = open_device(model, compute, 0);
    size_t out = zest_model_runner_device(runner)->max_head_dim;
    zest_model_runner_free(runner);
    return out;
}

static void larger(void **state) {
    (void)state;
    need_device();
    static const char *const configs[] = {LARGER_OPT("17000"), LARGER_LLAMA};
    for (size_t i = 0; i < 2; i++) {
        zest_model *model = larger_model(configs[i], ZEST_MODEL_BF16);
        zest_model_objective objective = larger_three(0, 9000);
        compare(i ? "llama, larger" : "opt, larger", model, &objective, 3);
        /* Consecutive rows: the last layer's only queries; of the second sequence none. */
        objective.rows = (const uint32_t[]){98, 99, 100, 397, 398, 399};
        assert_int_equal(zest_model_absorbs(&model->config, widest(model, ZEST_COMPUTE_F32), 400, 6), !i);
        compare(i ? "llama, in a row" : "opt, in a row", model, &objective, 3);
        zest_model_free(model);
    }
    verdict();
}

/* When the last layer does without keys and values; needs no GPU. */
static void absorbing_pays(void **state) {
    (void)state;
    const zest_model_config base = {
        .hidden_size = 768, .heads = 12, .kv_heads = 12, .head_dim = 64, .position_rows = 514};
    zest_model_config other = base;
    assert_true(zest_model_absorbs(&base, 2048, 16384, 128));
    assert_true(zest_model_absorbs(&base, 768, 6144, 128));
    assert_false(zest_model_absorbs(&base, 768, 6143, 128)); /* too many rows for what it spares */
    assert_false(zest_model_absorbs(&base, 256, 16384, 128));
    other.position_rows = 0; /* rotary: a key depends on its position */
    assert_false(zest_model_absorbs(&other, 2048, 16384, 128));
    other = base, other.fused_qkv = 1;
    assert_false(zest_model_absorbs(&other, 2048, 16384, 128));
    other = base, other.hidden_size = 770;
    assert_false(zest_model_absorbs(&other, 2048, 16384, 128));
}

/* How many pairs are live when the caller leaves it open; needs no GPU. The sizes are those of
 * bench/RESULTS.md, where the times of each choice are. */
static void few_live_pairs_keep_a_gpu_busy(void **state) {
    (void)state;
    const zest_model_config base = {.hidden_size = 768}, opt = {.hidden_size = 2048};
    const size_t h200 = 132;
    assert_int_equal(zest_model_choose_live(&base, ZEST_COMPUTE_BF16, h200, 128 * 128, 5), 2);
    assert_int_equal(zest_model_choose_live(&base, ZEST_COMPUTE_F32, h200, 128 * 128, 5), 1);
    assert_int_equal(zest_model_choose_live(&base, ZEST_COMPUTE_BF16, h200, 64 * 64, 5), 5);
    assert_int_equal(zest_model_choose_live(&opt, ZEST_COMPUTE_BF16, h200, 16 * 256, 5), 1);
    /* 4 would do: rounds of 3 and 2 rather than of 4 and 1 */
    assert_int_equal(zest_model_choose_live(&opt, ZEST_COMPUTE_BF16, h200, 16 * 64, 5), 3);
    assert_int_equal(zest_model_choose_live(&base, ZEST_COMPUTE_BF16, h200 / 2, 128 * 128, 5), 1);
    assert_int_equal(zest_model_choose_live(&base, ZEST_COMPUTE_BF16, h200, 1, 5), 5);
    assert_int_equal(zest_model_choose_live(&base, ZEST_COMPUTE_BF16, h200, 128 * 128, 1), 1);
    for (size_t pairs = 1; pairs <= 40; pairs++) /* never more than there are, never none */
        for (size_t tokens = 1; tokens <= 1 << 20; tokens *= 4) {
            size_t live = zest_model_choose_live(&base, ZEST_COMPUTE_BF16, h200, tokens, pairs);
            assert_in_range(live, 1, pairs);
        }
}

/* The estimate of a step's memory, made before the first pass, is what the passes then take. */
static void budget_is_what_a_step_takes(void **state) {
    (void)state;
    need_device();
    for (size_t live = 0; live < 3; live++) {
        zest_model *model = larger_model(LARGER_ROBERTA, ZEST_MODEL_BF16);
        zest_model_runner *runner = open_device(model, ZEST_COMPUTE_BF16, live);
        zest_model_objective objective = larger_three(0, 9000);
        zest_model_lane lanes[10];
        double losses[10 * 3];
        size_t peak;
        for (size_t i = 0; i < 10; i++) lanes[i] = test_lane(model, 1 + i / 2, i % 2 ? -0.01 : 0.01);
        zest_model_budget budget = zest_model_runner_budget(runner, 400, 5);
        assert_int_equal(budget.live, live ? live : 5);
        assert_true(budget.bytes <= budget.all_bytes);
        assert_done(zest_model_losses(runner, lanes, 10, &objective, losses, NULL, NULL, error));
        zest_device *device = zest_model_runner_device(runner);
        device->operations->device->bytes_allocated(device, &peak);
        within("roberta, larger", "memory", "bf16", fabs((double)budget.bytes / (double)peak - 1), 0.15);
        zest_model_runner_free(runner);
        zest_model_free(model);
    }
    verdict();
}

/* Few rows of long sequences: the last layer has neither keys nor values of its own (model/attention.c). In
 * fp32 it does on widths of up to 256, as those of the test above. */
static void absorbing(void **state) {
    (void)state;
    need_device();
    static const uint32_t rows[] = {10, 150, 399}, words[] = {17, 4000, 8999}, answers[] = {2, 0, 1};
    zest_model *model = larger_model(LARGER_ROBERTA, ZEST_MODEL_BF16);
    zest_model_objective objective = larger_three(5, 8000);
    objective.kind = ZEST_LOSS_LABEL_WORDS;
    objective.item_starts = objective.targets = NULL;
    objective.rows = rows, objective.answers = answers;
    objective.words = words, objective.word_count = 3;
    assert_true(zest_model_absorbs(&model->config, widest(model, ZEST_COMPUTE_BF16), 400, 3));
    compare("roberta, few rows", model, &objective, 1);
    objective.rows = (const uint32_t[]){0, 149, 151}; /* of the second sequence none */
    compare("roberta, two in one", model, &objective, 1);
    zest_model_free(model);
    verdict();
}

static void generation(void **state) {
    (void)state;
    need_device();
    enum { MOST = 12 };
    for (size_t i = 0; i < TEST_CAUSAL; i++) {
        zest_model *model = test_model(test_causal[i], ZEST_MODEL_AS_STORED);
        test_golden golden = test_golden_open(test_causal[i]);
        zest_model_runner *plain = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
        zest_model_runner *runner = open_device(model, ZEST_COMPUTE_F32, 0);
        zest_model_lane lane = test_lane(model, 3, 0.02);
        zest_generate_options options = {.max_new_tokens = MOST};
        for (int perturbed = 0; perturbed < 2; perturbed++) {
            uint32_t expected[3 * MOST] = {0}, got[3 * MOST] = {0};
            size_t counts[3], got_counts[3];
            const zest_model_lane *which = perturbed ? &lane : NULL;
            assert_done(zest_generate(plain, which, &golden.batch, &options, expected, counts, error));
            assert_done(zest_generate(runner, which, &golden.batch, &options, got, got_counts, error));
            assert_memory_equal(counts, got_counts, sizeof counts);
            assert_memory_equal(expected, got, sizeof expected);
        }
        zest_model_runner_free(runner);
        zest_model_runner_free(plain);
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
}

/* ---- Steps ---- */

static void step_options(zest_options *options, const char *distribution, const char *rounding) {
    zest_error error = {0};
    zest_options_init(options);
    assert_int_equal(zest_options_set(options, ZEST_FOR_RUNS, "k", "3", &error), 0);
    assert_int_equal(zest_options_set(options, ZEST_FOR_RUNS, "weight-decay", "0.1", &error), 0);
    assert_int_equal(zest_options_set(options, ZEST_FOR_RUNS, "distribution", distribution, &error), 0);
    assert_int_equal(zest_options_set(options, ZEST_FOR_RUNS, "rounding", rounding, &error), 0);
}

/* Steps with losses from `from`, put into record; a runner's weights move as the losses say. */
enum { STEPS = 4 };
static void take_steps(zest_model_runner *runner, const zest_model *model,
                       const zest_model_objective *objective, const char *distribution, const char *rounding,
                       double record[STEPS][6], int known) {
    zest_options options;
    zest_step step = {0};
    step_options(&options, distribution, rounding);
    assert_done(zest_step_init(&step, zest_vector_ops_for(ZEST_CPU_PLAIN), &options, ZEST_FORMAT, error));
    for (uint64_t s = 0; s < STEPS; s++) {
        zest_model_lane lanes[6];
        zest_tilt_report tilt;
        zest_update update;
        double each[6 * ITEMS];
        assert_done(zest_step_draw_directions(&step, s, model->params.dimension, 0, error));
        for (size_t i = 0; i < 6; i++)
            lanes[i] = (zest_model_lane){step.directions[i / 2], i % 2 ? -0.01 : 0.01};
        if (!known) assert_done(zest_model_losses(runner, lanes, 6, objective, each, record[s], NULL, error));
        zest_step_tilt(&step, record[s], 0.01, &tilt);
        assert_true(zest_step_update(&step, 0.01, &tilt, &update));
        assert_done(zest_model_apply_update(runner, &update, error));
    }
    zest_step_free(&step);
    zest_options_free(&options);
}

/* The bytes between tensors belong to none. */
static void assert_same_tensors(const zest_params *a, const zest_params *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++)
        assert_memory_equal(a->tensors[i].data, b->tensors[i].data,
                            a->tensors[i].count * zest_dtype_size(a->tensors[i].dtype));
}

/* Losses of the GPU, replayed on the CPU, end in the GPU's bits; and the other way round. */
static void steps_replay(void **state) {
    (void)state;
    need_device();
    enum { CASES = 6 };
    static const zest_model_storage storages[CASES] = {ZEST_MODEL_F32,  ZEST_MODEL_BF16, ZEST_MODEL_F16,
                                                       ZEST_MODEL_BF16, ZEST_MODEL_F16,  ZEST_MODEL_BF16};
    static const char *const models[CASES] = {"roberta", "gpt2", "opt-350m", "roberta", "llama", "opt"};
    static const char *const distributions[CASES] = {"gaussian", "rademacher", "sphere",
                                                     "gaussian", "gaussian",   "gaussian"};
    static const char *const freezes[CASES] = {"", "", "", "", "", "*fc1*,*embed*"};
    for (size_t i = 0; i < CASES; i++)
        for (int back = 0; back < 2; back++) {
            zest_model *model = test_model(models[i], storages[i]),
                       *twin = test_model(models[i], storages[i]);
            test_golden golden = test_golden_open(models[i]);
            test_objectives objectives;
            test_objectives_make(&golden, &objectives);
            if (*freezes[i]) {
                assert_done(zest_model_select_trainable(model, "", freezes[i], error));
                assert_done(zest_model_select_trainable(twin, "", freezes[i], error));
            }
            zest_model_runner *gpu = open_device(model, ZEST_COMPUTE_F32, 0);
            zest_model_runner *cpu = test_runner(twin, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
            double record[STEPS][6];
            uint64_t before = zest_params_fingerprint(&model->params);
            const char *rounding = i == 3 || i == 4 ? "nearest" : "stochastic";
            take_steps(back ? cpu : gpu, model, &objectives.words, distributions[i], rounding, record, 0);
            take_steps(back ? gpu : cpu, model, &objectives.words, distributions[i], rounding, record, 1);
            assert_int_equal(zest_params_fingerprint(&model->params), before); /* not yet fetched */
            assert_done(zest_model_download(gpu, error));
            assert_same_tensors(&model->params, &twin->params);
            assert_true(zest_params_fingerprint(&model->params) != before);
            zest_model_runner_free(gpu);
            zest_model_runner_free(cpu);
            zest_model_free(model);
            zest_model_free(twin);
            zest_safetensors_close(golden.file);
        }
}

/* What the host changed arrives with send. */
static void sending(void **state) {
    (void)state;
    need_device();
    zest_model *model = test_model("opt", ZEST_MODEL_F32);
    test_golden golden = test_golden_open("opt");
    zest_model_runner *gpu = open_device(model, ZEST_COMPUTE_F32, 0);
    zest_model_runner *cpu = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
    float *x = model->tensors[0].data, got[96], expected[96];
    uint32_t row = 1;
    for (size_t i = 0; i < model->tensors[0].count; i++) x[i] *= 1.5f;
    assert_done(zest_model_upload(gpu, error));
    assert_done(zest_model_logits(gpu, NULL, &golden.batch, &row, 1, got, error));
    assert_done(zest_model_logits(cpu, NULL, &golden.batch, &row, 1, expected, error));
    assert_true(test_largest(got, expected, 96) <= 1e-4);
    zest_model_runner_free(gpu);
    zest_model_runner_free(cpu);
    zest_model_free(model);
    zest_safetensors_close(golden.file);
}

/* A NaN reaches the losses; a batch that cannot fit is answered with a number that can. */
static void bad_numbers_and_sizes(void **state) {
    (void)state;
    need_device();
    zest_model *model = test_model("opt", ZEST_MODEL_F32);
    test_golden golden = test_golden_open("opt");
    test_objectives objectives;
    test_objectives_make(&golden, &objectives);
    for (size_t i = 0; i < 2; i++) {
        *(float *)(uintptr_t)model->final_norm.bias.data = i ? INFINITY : NAN;
        zest_model_runner *runner = open_device(model, ZEST_COMPUTE_F32, 0);
        zest_model_lane itself = test_lane(model, 0, 0);
        double losses_[ITEMS];
        assert_done(zest_model_losses(runner, &itself, 1, &objectives.tokens, losses_, NULL, NULL, error));
        for (size_t j = 0; j < objectives.tokens.items; j++) assert_false(isfinite(losses_[j]));
        assert_done(zest_model_losses(runner, &itself, 1, &objectives.words, losses_, NULL, NULL, error));
        for (size_t j = 0; j < objectives.words.items; j++) assert_false(isfinite(losses_[j]));
        zest_model_runner_free(runner);
    }
    zest_model_free(model);
    zest_safetensors_close(golden.file);
}

static void refused(void **state) {
    (void)state;
    zest_model *model = test_model("opt", ZEST_MODEL_AS_STORED);
    zest_model_runner *runner;
    zest_error error = {0};
    zest_model_runner_options options = {.compute = ZEST_COMPUTE_F16};
    assert_int_equal(zest_model_open_runner(model, &options, &runner, &error), ZEST_ERROR_ARGUMENT);
    assert_null(runner);
    assert_non_null(strstr(error.message, "--device cuda"));
    zest_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(absorbing_pays),
        cmocka_unit_test(few_live_pairs_keep_a_gpu_busy),
        cmocka_unit_test(budget_is_what_a_step_takes),
        cmocka_unit_test(families),
        cmocka_unit_test(losses),
        cmocka_unit_test(sharing),
        cmocka_unit_test(frozen),
        cmocka_unit_test(larger),
        cmocka_unit_test(little_memory),
        cmocka_unit_test(absorbing),
        cmocka_unit_test(generation),
        cmocka_unit_test(steps_replay),
        cmocka_unit_test(sending),
        cmocka_unit_test(bad_numbers_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
