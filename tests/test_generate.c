/* Generation with kept keys and values equals full recomputation at every step. */
#include "tests/model.h"

enum { MOST = 12 };

/* The slow way: all logits of the text so far, again for every token. */
static size_t slowly(zest_model_runner *runner, const zest_model *model, const zest_model_lane *lane,
                     const uint32_t *prompt, size_t length, size_t most, uint32_t *out) {
    uint32_t text[128], starts[2] = {0, (uint32_t)length};
    float logits[96];
    memcpy(text, prompt, length * sizeof *text);
    size_t count = 0;
    for (; count < most && length + count < model->config.max_positions; count++) {
        uint32_t row = starts[1] - 1, best = 0;
        zest_model_batch batch = {.tokens = text, .starts = starts, .sequences = 1};
        assert_done(zest_model_logits(runner, lane, &batch, &row, 1, logits, error));
        for (uint32_t w = 1; w < model->config.vocab_size; w++)
            if (logits[w] > logits[best]) best = w;
        out[count] = text[starts[1]++] = best;
    }
    return count;
}

static void test_golden_text(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_CAUSAL; i++) {
        zest_model *model = test_model(test_causal[i], ZEST_MODEL_AS_STORED);
        test_golden golden = test_golden_open(test_causal[i]);
        zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
        zest_model_batch prompt = {
            .tokens = golden.batch.tokens, .starts = golden.batch.starts, .sequences = 1};
        uint32_t tokens[10];
        size_t count;
        zest_generate_options options = {.max_new_tokens = 10};
        assert_done(zest_generate(runner, NULL, &prompt, &options, tokens, &count, error));
        assert_int_equal(count, 10);
        assert_memory_equal(tokens, golden.generated, sizeof tokens);
        zest_model_runner_free(runner);
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
}

/* Sequences of different lengths together, in a perturbed lane too. */
static void test_batch(void **state) {
    (void)state;
    zest_cpu best;
    assert_int_equal(zest_cpu_detect(&best, NULL), ZEST_OK);
    for (size_t i = 0; i < TEST_CAUSAL; i++) {
        zest_model *model = test_model(test_causal[i], ZEST_MODEL_AS_STORED);
        test_golden golden = test_golden_open(test_causal[i]);
        zest_model_runner *runner = test_runner(model, best, ZEST_COMPUTE_F32, 2, 0);
        zest_model_lane lane = test_lane(model, 3, 0.02);
        for (int perturbed = 0; perturbed < 2; perturbed++) {
            uint32_t tokens[3 * MOST], slow[MOST];
            size_t counts[3];
            zest_generate_options options = {.max_new_tokens = MOST};
            assert_done(zest_generate(runner, perturbed ? &lane : NULL, &golden.batch, &options, tokens,
                                      counts, error));
            for (size_t s = 0; s < 3; s++) {
                uint32_t first = golden.batch.starts[s];
                size_t count = slowly(runner, model, perturbed ? &lane : NULL, golden.batch.tokens + first,
                                      golden.batch.starts[s + 1] - first, MOST, slow);
                assert_int_equal(counts[s], count);
                assert_memory_equal(tokens + s * MOST, slow, count * sizeof *slow);
            }
        }
        zest_model_runner_free(runner);
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
}

static void test_stops(void **state) {
    (void)state;
    zest_model *model = test_model("opt", ZEST_MODEL_AS_STORED);
    test_golden golden = test_golden_open("opt");
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    uint32_t whole[3 * 64], cut[3 * 64];
    size_t counts[3], cut_counts[3];
    zest_generate_options options = {.max_new_tokens = 64};
    assert_done(zest_generate(runner, NULL, &golden.batch, &options, whole, counts, error));
    for (size_t s = 0; s < 3; s++) /* as far as the positions reach */
        assert_int_equal(counts[s], 32 - (golden.batch.starts[s + 1] - golden.batch.starts[s]));
    options.stops = &whole[3];
    options.stop_count = 1;
    assert_done(zest_generate(runner, NULL, &golden.batch, &options, cut, cut_counts, error));
    for (size_t s = 0; s < 3; s++) {
        size_t expected = 0;
        while (expected < counts[s] && whole[s * 64 + expected++] != whole[3]) {
        }
        assert_int_equal(cut_counts[s], expected);
        assert_memory_equal(cut + s * 64, whole + s * 64, expected * sizeof *cut);
    }
    options.max_new_tokens = 0;
    assert_done(zest_generate(runner, NULL, &golden.batch, &options, cut, cut_counts, error));
    for (size_t s = 0; s < 3; s++) assert_int_equal(cut_counts[s], 0);
    zest_model_runner_free(runner);
    zest_model_free(model);
    zest_safetensors_close(golden.file);
}

/* Turns with kept keys and values give the tokens that each gives from scratch: a text that goes on, one that differs
 * early, the same one again, and one after the weights have changed. The logits are compared through sampling with a
 * high temperature, which a difference of a bit somewhere would change. */
static void test_kept(void **state) {
    (void)state;
    zest_cpu best;
    assert_int_equal(zest_cpu_detect(&best, NULL), ZEST_OK);
    for (size_t i = 0; i < TEST_CAUSAL; i++) {
        zest_model *model = test_model(test_causal[i], ZEST_MODEL_F32);
        zest_model_runner *runner = test_runner(model, best, ZEST_COMPUTE_F32, 2, 0);
        zest_generate_kept kept = {0};
        uint32_t text[64] = {5, 17, 40, 3, 44, 9, 8}, out[6], again[6], starts[2] = {0, 4};
        size_t count, again_count, reused = 0;
        const zest_sampling hot = {.temperature = 3, .top_p = 1, .repetition_penalty = 1, .seed = 4};
        zest_generate_options how = {.max_new_tokens = 6, .sampling = &hot};
        for (int turn = 0; turn < 5; turn++) {
            zest_model_batch prompt = {.tokens = text, .starts = starts, .sequences = 1};
            if (turn == 2) text[3]++;
            if (turn == 4) {
                zest_direction direction = {.seed = 7, .gain = 1};
                double g = 1;
                zest_update update = {.directions = &direction, .g = &g, .k = 1, .lr = 0.01};
                assert_done(zest_model_apply_update(runner, &update, error));
            }
            how.kept = NULL;
            assert_done(zest_generate(runner, NULL, &prompt, &how, out, &count, error));
            how.kept = &kept;
            assert_done(zest_generate(runner, NULL, &prompt, &how, again, &again_count, error));
            assert_int_equal(count, again_count);
            assert_memory_equal(out, again, count * sizeof *out);
            assert_int_equal(kept.count, starts[1] + count - 1); /* all but the last new token */
            assert_memory_equal(kept.tokens, text, starts[1] * sizeof *text);
            reused += kept.rows > 0;
            if (turn % 2 == 0) { /* the next turn goes on */
                memcpy(text + starts[1], out, count * sizeof *out);
                starts[1] += (uint32_t)count;
                text[starts[1]++] = 11;
            }
        }
        assert_int_equal(reused, 5);
        uint32_t two[3] = {0, 1, 2};
        zest_model_batch several = {.tokens = text, .starts = two, .sequences = 2};
        zest_error refusal;
        assert_int_equal(zest_generate(runner, NULL, &several, &how, out, &count, &refusal),
                         ZEST_ERROR_ARGUMENT);
        zest_generate_kept_free(&kept, runner);
        zest_model_runner_free(runner);
        zest_model_free(model);
    }
}

static void test_refused(void **state) {
    (void)state;
    zest_model *bert = test_model("bert", ZEST_MODEL_AS_STORED),
               *opt = test_model("opt", ZEST_MODEL_AS_STORED);
    zest_model_runner *masked = test_runner(bert, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    zest_model_runner *runner = test_runner(opt, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    uint32_t tokens[40] = {5, 96}, out[8];
    size_t counts[2];
    zest_generate_options options = {.max_new_tokens = 4};
    zest_error error;
    zest_model_batch one = {tokens, (uint32_t[]){0, 1}, 1, NULL, NULL},
                     empty = {tokens, (uint32_t[]){0, 0}, 1, NULL, NULL};
    zest_model_batch wrong = {tokens, (uint32_t[]){0, 2}, 1, NULL, NULL},
                     large = {tokens, (uint32_t[]){0, 33}, 1, NULL, NULL};
    assert_int_equal(zest_generate(masked, NULL, &one, &options, out, counts, &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_generate(runner, NULL, &empty, &options, out, counts, &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_generate(runner, NULL, &wrong, &options, out, counts, &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_generate(runner, NULL, &large, &options, out, counts, &error), ZEST_ERROR_ARGUMENT);
    zest_model_runner_free(masked);
    zest_model_runner_free(runner);
    zest_model_free(bert);
    zest_model_free(opt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_text), cmocka_unit_test(test_batch),   cmocka_unit_test(test_kept),
        cmocka_unit_test(test_stops),       cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
