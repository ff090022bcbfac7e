/* Lanes of a model: the same bits as a model that was perturbed by hand; and the promise that an example's
 * loss depends on the example and the lane alone. */
#include "kernels/ops.h"
#include "optim/lanes.h"
#include "tests/model.h"

enum { LANES = 10, ITEMS = 8 };

/* Pairs, single lanes and the model itself, of three distributions. */
static void make_lanes(const zest_model *model, zest_model_lane lanes[LANES]) {
    static const double scales[LANES] = {0.01, -0.01, 0.02, -0.02, 0, 0.005, 0.03, -0.03, 0.01, 0.02};
    static const uint64_t seeds[LANES] = {7, 7, 8, 8, 0, 9, 10, 10, 11, 11};
    for (size_t i = 0; i < LANES; i++) lanes[i] = test_lane(model, seeds[i], scales[i]);
    lanes[2].direction.distribution = lanes[3].direction.distribution = ZEST_RADEMACHER;
    lanes[6].direction.gain = lanes[7].direction.gain = 1.25;
}

/* x = fma(c, z, x), as the lane sees it. The model must be F32. */
static void perturb(zest_model *model, const zest_model_lane *lane) {
    const zest_vector_ops *ops = zest_vector_ops_for(ZEST_CPU_PLAIN);
    float c = (float)(lane->scale * lane->direction.gain);
    if (c == 0) return;
    for (size_t t = 0; t < model->params.count; t++) {
        const zest_tensor *tensor = &model->tensors[t];
        float *x = tensor->data, *z = malloc(tensor->count * sizeof *z);
        zest_direction_raw(ops, &lane->direction, tensor->first, tensor->count, z);
        for (size_t i = 0; i < tensor->count; i++) x[i] = fmaf(c, z[i], x[i]);
        free(z);
    }
}

/* Losses of the lanes on a golden's objective. */
static void lose(const zest_model *model, zest_cpu cpu, zest_compute compute, int threads, size_t live,
                 const zest_model_lane *lanes, size_t count, const zest_model_objective *objective,
                 double *losses) {
    zest_model_runner *runner = test_runner(model, cpu, compute, threads, live);
    double means[LANES];
    assert_done(zest_model_losses(runner, lanes, count, objective, losses, means, NULL, error));
    zest_model_runner_free(runner);
}

static void check_by_hand(const char *name, zest_model_storage storage) {
    zest_model *model = test_model(name, storage);
    test_golden golden = test_golden_open(name);
    test_objectives objectives;
    test_objectives_make(&golden, &objectives);
    const zest_model_objective *both[2] = {&objectives.words, &objectives.tokens};
    zest_model_lane lanes[LANES];
    make_lanes(model, lanes);
    for (size_t o = 0; o < (golden.causal ? 2u : 1u); o++) {
        double losses[LANES * ITEMS], alone[ITEMS];
        lose(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 2, lanes, LANES, both[o], losses);
        for (size_t l = 0; l < LANES; l++) {
            zest_model *moved = test_model(name, ZEST_MODEL_F32);
            zest_model_lane itself = test_lane(moved, 0, 0);
            perturb(moved, &lanes[l]);
            lose(moved, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0, &itself, 1, both[o], alone);
            assert_memory_equal(alone, losses + l * both[o]->items, both[o]->items * sizeof *alone);
            zest_model_free(moved);
        }
        assert_true(losses[0] != losses[both[o]->items]);
    }
    zest_model_free(model);
    zest_safetensors_close(golden.file);
}

/* Whatever the storage: 16-bit weights are widened before they are moved. A tied head that were perturbed
 * twice, or by other noise than the embeddings, would show here. */
static void test_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_MODELS; i++) {
        check_by_hand(test_models[i], ZEST_MODEL_F32);
        check_by_hand(test_models[i], ZEST_MODEL_AS_STORED);
    }
}

static void test_tied_once(void **state) {
    (void)state;
    static const char *const tied[] = {"roberta", "bert",  "opt",        "opt-350m", "gpt2",
                                       "llama3",  "qwen2", "distilbert", "yarn",     "qwen3"};
    for (size_t i = 0; i < sizeof tied / sizeof *tied; i++) {
        zest_model *model = test_model(tied[i], ZEST_MODEL_AS_STORED);
        assert_true(model->config.tied_head && model->head.weight.data == model->tokens.data);
        assert_true(model->head.weight.first == model->tokens.first);
        for (size_t t = 0; t < model->params.count; t++)
            assert_null(strstr(model->tensors[t].name, "decoder.weight") ? model : NULL);
        zest_model_free(model);
    }
}

/* Every number once, in order, without a gap. */
static void test_numbering(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_MODELS; i++) {
        zest_model *model = test_model(test_models[i], ZEST_MODEL_AS_STORED);
        uint64_t next = 0;
        for (size_t t = 0; t < model->params.count; t++) {
            const zest_tensor *tensor = &model->tensors[t];
            assert_int_equal(tensor->first, next);
            assert_true((uintptr_t)tensor->data % 64 == 0);
            for (size_t other = 0; other < t; other++)
                assert_string_not_equal(tensor->name, model->tensors[other].name);
            next += tensor->count;
        }
        assert_int_equal(model->params.dimension, next);
        assert_int_equal(model->params.tensors[0].count,
                         model->config.vocab_size * model->config.embedding_size);
        zest_model_free(model);
    }
}

/* One sequence of the golden alone: the same bits as among its mates, with any threads, lanes and live pairs. */
static void check_alone(const zest_model *model, zest_cpu cpu, zest_compute compute,
                        const test_golden *golden, const zest_model_objective *objective,
                        const size_t *sequences) {
    zest_model_lane lanes[LANES];
    make_lanes(model, lanes);
    double all[LANES * ITEMS], one[LANES * ITEMS];
    size_t items = objective->items;
    lose(model, cpu, compute, 2, 0, lanes, LANES, objective, all);
    for (size_t i = 0; i < items; i++) {
        size_t s = sequences ? sequences[i] : i;
        uint32_t first = golden->batch.starts[s], starts[2] = {0, golden->batch.starts[s + 1] - first},
                 rows[64];
        uint32_t item_starts[2] = {0, 1};
        zest_model_batch batch = {.tokens = golden->batch.tokens + first, .starts = starts, .sequences = 1};
        if (golden->batch.types) batch.types = golden->batch.types + first;
        zest_model_objective mine = *objective;
        size_t from = i, count = 1;
        if (objective->item_starts) {
            from = objective->item_starts[i];
            count = objective->item_starts[i + 1] - from;
            item_starts[1] = (uint32_t)count;
            mine.item_starts = item_starts;
            mine.targets = objective->targets + from;
        } else {
            mine.answers = objective->answers + i;
        }
        for (size_t r = 0; r < count; r++) rows[r] = objective->rows[from + r] - first;
        mine.batch = &batch;
        mine.items = 1;
        mine.rows = rows;
        for (size_t live = 1; live <= 3; live += 2) {
            lose(model, cpu, compute, (int)live, live, lanes, LANES, &mine, one);
            for (size_t l = 0; l < LANES; l++) assert_memory_equal(&one[l], &all[l * items + i], sizeof *one);
        }
        for (size_t l = 0; l < LANES; l++) { /* one lane at a time: no pairs */
            lose(model, cpu, compute, 1, 0, &lanes[l], 1, &mine, one);
            assert_memory_equal(one, &all[l * items + i], sizeof *one);
        }
    }
}

static void test_independence(void **state) {
    (void)state;
    zest_cpu best;
    assert_int_equal(zest_cpu_detect(&best, NULL), ZEST_OK);
    for (size_t i = 0; i < TEST_MODELS; i++) {
        zest_model *model = test_model(test_models[i], ZEST_MODEL_AS_STORED);
        test_golden golden = test_golden_open(test_models[i]);
        test_objectives objectives;
        test_objectives_make(&golden, &objectives);
        for (zest_compute compute = ZEST_COMPUTE_F32; compute <= ZEST_COMPUTE_BF16; compute++) {
            check_alone(model, best, compute, &golden, &objectives.words, NULL);
            if (golden.causal)
                check_alone(model, best, compute, &golden, &objectives.tokens, objectives.token_items);
        }
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
}

/* Fewer live pairs: less memory, the same bits. */
static void test_live_pairs(void **state) {
    (void)state;
    zest_model *model = test_model("opt", ZEST_MODEL_AS_STORED);
    test_golden golden = test_golden_open("opt");
    test_objectives objectives;
    test_objectives_make(&golden, &objectives);
    zest_model_lane lanes[LANES];
    make_lanes(model, lanes);
    double all[LANES * ITEMS], few[LANES * ITEMS], means[2][LANES];
    size_t memory[2];
    for (size_t i = 0; i < 2; i++) {
        zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, i);
        assert_done(zest_model_losses(runner, lanes, LANES, &objectives.tokens, i ? few : all, means[i], NULL,
                                      error));
        memory[i] = zest_model_runner_memory(runner);
        zest_model_runner_free(runner);
    }
    assert_memory_equal(all, few, LANES * objectives.tokens.items * sizeof *all);
    assert_memory_equal(means[0], means[1], sizeof means[0]);
    assert_true(memory[0] - memory[1] ==
                (LANES - 2) * golden.rows * model->config.hidden_size * sizeof(float));
    zest_model_free(model);
    zest_safetensors_close(golden.file);
}

/* ---- Many words ---- */

/* A vocabulary of several blocks, the last one short: losses from blocks equal losses from all logits, label
 * words equal the logits at their numbers, and a perturbed lane equals the model perturbed by hand. */
static void test_many_words(void **state) {
    (void)state;
    enum { WORDS = 5003, ROWS = 3 };
    char folder[64];
    test_large_vocabulary(WORDS, test_folder(folder));
    zest_model *model = test_model_load(folder, ZEST_MODEL_F32),
               *moved = test_model_load(folder, ZEST_MODEL_F32);
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
    zest_model_runner *by_hand = test_runner(moved, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    zest_model_lane lane = test_lane(model, 5, 0.01), itself = test_lane(model, 0, 0);
    perturb(moved, &lane);
    const uint32_t text[] = {17, 5002, 2047, 2048}, starts[] = {0, 4}, rows[] = {0, 1, 2}, zero[] = {0, 0, 0};
    const uint32_t items[] = {0, 1, 2, 3}, words[] = {2048, 0, 5002, 2047};
    zest_model_batch batch = {text, starts, 1, NULL, NULL};
    zest_model_objective tokens = {
        ZEST_LOSS_TOKENS, &batch, ROWS, items, rows, text + 1, NULL, 0, 0, NULL, NULL};
    zest_model_objective labels = {
        ZEST_LOSS_LABEL_WORDS, &batch, ROWS, NULL, rows, NULL, words, 4, 0, NULL, zero};
    float *logits = malloc(ROWS * WORDS * sizeof *logits);
    double losses[2][ROWS], scores[2][ROWS * 4];
    assert_done(zest_model_losses(runner, &lane, 1, &tokens, losses[0], NULL, NULL, error));
    assert_done(zest_model_losses(by_hand, &itself, 1, &tokens, losses[1], NULL, NULL, error));
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    assert_done(zest_model_logits(runner, &lane, &batch, rows, ROWS, logits, error));
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0;
        for (size_t w = 0; w < WORDS; w++) sum += exp((double)logits[r * WORDS + w]);
        assert_close(losses[0][r], log(sum) - (double)logits[r * WORDS + text[r + 1]], 1e-12);
    }
    assert_done(zest_model_losses(runner, &lane, 1, &labels, losses[0], NULL, scores[0], error));
    assert_done(zest_model_losses(by_hand, &itself, 1, &labels, losses[1], NULL, scores[1], error));
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    for (size_t i = 0; i < ROWS * 4; i++)
        assert_true(scores[0][i] == (double)logits[i / 4 * WORDS + words[i % 4]]);
    free(logits);
    zest_model_runner_free(runner);
    zest_model_runner_free(by_hand);
    zest_model_free(model);
    zest_model_free(moved);
    test_remove(folder);
}

/* A NaN in a lane gives a NaN, never a number. */
static void test_bad_numbers(void **state) {
    (void)state;
    zest_model *model = test_model("opt", ZEST_MODEL_F32);
    test_golden golden = test_golden_open("opt");
    test_objectives objectives;
    test_objectives_make(&golden, &objectives);
    zest_model_lane itself = test_lane(model, 0, 0);
    double losses[ITEMS];
    for (int i = 0; i < 2; i++) {
        *(float *)(uintptr_t)model->final_norm.bias.data = i ? INFINITY : NAN;
        lose(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0, &itself, 1, &objectives.tokens, losses);
        for (size_t j = 0; j < objectives.tokens.items; j++) assert_false(isfinite(losses[j]));
        lose(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0, &itself, 1, &objectives.words, losses);
        for (size_t j = 0; j < objectives.words.items; j++) assert_false(isfinite(losses[j]));
    }
    zest_model_free(model);
    zest_safetensors_close(golden.file);
}

/* ---- Options that share a prompt ---- */

/* Two prompts with three and two options, written out. The first token of an option is predicted by the
 * prompt's last. */
static const uint32_t written[] = {4,  9,  33, 12, 7,  61, 4, 9,  33, 12, 8,  4, 9,
                                   33, 12, 70, 71, 72, 5,  6, 90, 5,  6,  91, 3};
static const uint32_t written_starts[] = {0, 6, 11, 18, 21, 25}, written_prompts[] = {4, 4, 4, 2, 2};
static const uint32_t shared[] = {4, 9, 33, 12, 7, 61, 8, 70, 71, 72, 5, 6, 90, 91, 3};
static const uint32_t shared_starts[] = {0, 4, 6, 7, 10, 12, 13, 15};
static const uint32_t shared_prefixes[] = {ZEST_MODEL_NO_PREFIX, 0, 0, 0, ZEST_MODEL_NO_PREFIX, 4, 4};
static const uint32_t shared_options[] = {1, 2, 3, 5, 6}, shared_prompts[] = {0, 0, 0, 4, 4};
static const uint32_t example_starts[] = {0, 3, 5}, answers[] = {2, 0};

static void check_sharing(const zest_model *model, zest_cpu cpu) {
    uint32_t rows[2][32], targets[2][32], item_starts[6] = {0}, count[2] = {0};
    for (size_t i = 0; i < 5; i++) {
        uint32_t s = shared_options[i], p = shared_prompts[i];
        for (uint32_t r = written_starts[i] + written_prompts[i]; r < written_starts[i + 1]; r++) {
            rows[0][count[0]] = r - 1;
            targets[0][count[0]++] = written[r];
        }
        for (uint32_t r = shared_starts[s]; r < shared_starts[s + 1]; r++) {
            rows[1][count[1]] = r == shared_starts[s] ? shared_starts[p + 1] - 1 : r - 1;
            targets[1][count[1]++] = shared[r];
        }
        item_starts[i + 1] = count[0];
        assert_int_equal(count[0], count[1]);
    }
    zest_model_batch batches[2] = {{written, written_starts, 5, NULL, NULL},
                                   {shared, shared_starts, 7, NULL, shared_prefixes}};
    zest_model_lane lanes[LANES];
    make_lanes(model, lanes);
    double losses[2][LANES * 2], scores[2][LANES * 5], means[2][LANES];
    for (size_t i = 0; i < 2; i++) {
        zest_model_objective objective = {.kind = ZEST_LOSS_CHOICES,
                                          .batch = &batches[i],
                                          .items = 5,
                                          .item_starts = item_starts,
                                          .rows = rows[i],
                                          .targets = targets[i],
                                          .examples = 2,
                                          .example_starts = example_starts,
                                          .answers = answers};
        zest_model_runner *runner = test_runner(model, cpu, ZEST_COMPUTE_F32, 2, 2);
        assert_done(
            zest_model_losses(runner, lanes, LANES, &objective, losses[i], means[i], scores[i], error));
        zest_model_runner_free(runner);
    }
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    const double *s = scores[0];
    assert_close(losses[0][0], log(exp(s[0]) + exp(s[1]) + exp(s[2])) - s[2], 1e-12);
    assert_close(losses[0][1], log(exp(s[3]) + exp(s[4])) - s[3], 1e-12);
    assert_close(means[0][0], (losses[0][0] + losses[0][1]) / 2, 1e-15);
}

static void test_sharing(void **state) {
    (void)state;
    zest_cpu best;
    assert_int_equal(zest_cpu_detect(&best, NULL), ZEST_OK);
    for (size_t i = 0; i < TEST_CAUSAL; i++) {
        zest_model *model = test_model(test_causal[i], ZEST_MODEL_AS_STORED);
        check_sharing(model, ZEST_CPU_PLAIN);
        check_sharing(model, best);
        zest_model_free(model);
    }
}

/* ---- What is refused ---- */

static void refused(const zest_model *model, const zest_model_batch *batch, const char *words) {
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    float buffer[64 * 96];
    zest_error error = {0};
    assert_int_equal(zest_model_hidden(runner, NULL, batch, 1, buffer, &error), ZEST_ERROR_ARGUMENT);
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
    zest_model_runner_free(runner);
}

static void test_refused(void **state) {
    (void)state;
    zest_model *bert = test_model("bert", ZEST_MODEL_AS_STORED),
               *opt = test_model("opt", ZEST_MODEL_AS_STORED);
    uint32_t tokens[64] = {5, 6, 95, 96}, types[64] = {0, 1, 2}, none = ZEST_MODEL_NO_PREFIX;
    refused(bert, &(zest_model_batch){tokens, (uint32_t[]){0, 4}, 1, NULL, NULL}, "token 96 is outside");
    refused(bert, &(zest_model_batch){tokens, (uint32_t[]){0, 3}, 1, types, NULL}, "token type");
    refused(bert, &(zest_model_batch){tokens, (uint32_t[]){0, 2, 2}, 2, NULL, NULL},
            "sequence 1 of the batch is empty");
    refused(bert, &(zest_model_batch){tokens, (uint32_t[]){0, 1, 2}, 2, NULL, (uint32_t[]){none, 0}},
            "only a causal");
    refused(opt, &(zest_model_batch){tokens, (uint32_t[]){0, 1, 2}, 2, NULL, (uint32_t[]){none, 1}},
            "prefix");
    refused(opt, &(zest_model_batch){tokens, (uint32_t[]){0, 1, 2, 3}, 3, NULL, (uint32_t[]){none, 0, 1}},
            "prefix");
    tokens[3] = 0;
    refused(opt, &(zest_model_batch){tokens, (uint32_t[]){0, 33}, 1, NULL, NULL}, "at most 32");
    refused(opt, &(zest_model_batch){tokens, (uint32_t[]){0, 30, 33}, 2, NULL, (uint32_t[]){none, 0}},
            "at most 32");
    refused(opt, &(zest_model_batch){tokens, (uint32_t[]){0}, 0, NULL, NULL}, "needs a lane and a batch");
    zest_model_free(bert);
    zest_model_free(opt);
}

static void test_refused_objectives(void **state) {
    (void)state;
    zest_model *model = test_model("opt", ZEST_MODEL_AS_STORED);
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    zest_model_batch batch = {(uint32_t[]){5, 6, 7}, (uint32_t[]){0, 3}, 1, NULL, NULL};
    zest_model_lane lane = test_lane(model, 0, 0);
    const uint32_t rows[] = {0, 3}, zero[] = {0, 0}, two[] = {0, 2}, large[] = {96, 1};
    const zest_model_objective bad[] = {
        {ZEST_LOSS_LABEL_WORDS, &batch, 1, NULL, rows, NULL, large, 2, 0, NULL, zero},
        {ZEST_LOSS_LABEL_WORDS, &batch, 1, NULL, rows, NULL, zero, 2, 0, NULL, two + 1},
        {ZEST_LOSS_LABEL_WORDS, &batch, 1, NULL, rows + 1, NULL, zero, 2, 0, NULL, zero},
        {ZEST_LOSS_LABEL_WORDS, &batch, 0, NULL, rows, NULL, zero, 2, 0, NULL, zero},
        {ZEST_LOSS_TOKENS, &batch, 1, zero, rows, zero, NULL, 0, 0, NULL, NULL},
        {ZEST_LOSS_TOKENS, &batch, 1, two, zero, large, NULL, 0, 0, NULL, NULL},
        {ZEST_LOSS_CHOICES, &batch, 1, two, zero, zero, NULL, 0, 1, two, zero},
        {ZEST_LOSS_CHOICES, &batch, 1, two, zero, zero, NULL, 0, 1, (const uint32_t[]){0, 1}, two + 1},
    };
    double losses[8];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zest_error error = {0};
        assert_int_equal(zest_model_losses(runner, &lane, 1, &bad[i], losses, NULL, NULL, &error),
                         ZEST_ERROR_ARGUMENT);
        assert_true(error.message[0] != 0);
    }
    zest_model_runner_free(runner);
    zest_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),    cmocka_unit_test(test_tied_once),
        cmocka_unit_test(test_numbering),  cmocka_unit_test(test_independence),
        cmocka_unit_test(test_live_pairs), cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_many_words), cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_refused_objectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
