/* What the tests of zest_lm.h share: a masked model, a small causal one with its tokenizer, and batches. */
#ifndef ZEST_TESTS_LM_H
#define ZEST_TESTS_LM_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lm/lm.h"
#include "tests/temp_folder.h"

#define MASKED "examples/roberta-tiny"
#define CAUSAL_CONFIG                                                                                     \
    "{\"model_type\": \"llama\", \"vocab_size\": 4096, \"hidden_size\": 32, \"num_hidden_layers\": 2, "   \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 48, \"hidden_act\": " \
    "\"silu\", \"max_position_embeddings\": 48, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000, "          \
    "\"tie_word_embeddings\": false, \"architectures\": [\"LlamaForCausalLM\"]}"

#define REFUSED(call, words)                 \
    do {                                     \
        assert_int_not_equal(call, ZEST_OK); \
        assert_says(ctx, words);             \
    } while (0)

static zest_ctx *ctx;
static char causal[64]; /* a small causal model with the tokenizer of the masked one */

static inline int begin(void **state) {
    static const char *const files[] = {"vocab.json", "merges.txt", "tokenizer_config.json"};
    (void)state;
    zest_model *model;
    zest_error error;
    char from[200], to[200];
    ctx = test_context();
    if (!test_folder(causal) || zest_model_random(CAUSAL_CONFIG, 7, NULL, &model, &error)) return -1;
    int failed = zest_model_save(model, causal, &error) != ZEST_OK;
    zest_model_free(model);
    for (size_t i = 0; i < 3; i++) {
        snprintf(from, sizeof from, MASKED "/%s", files[i]);
        snprintf(to, sizeof to, "%s/%s", causal, files[i]);
        test_copy_file(from, to);
    }
    return failed;
}

static inline int end(void **state) {
    (void)state;
    test_remove(causal);
    zest_ctx_free(ctx);
    return 0;
}

static inline zest_lm *load(const char *path, const char *options) {
    zest_lm *lm = zest_lm_load(ctx, path, options);
    if (!lm) fail_msg("%s", zest_ctx_error(ctx));
    return lm;
}

enum { MOST = 24 };

static inline size_t encode(zest_lm *lm, const char *text, unsigned flags, int32_t ids[MOST]) {
    size_t count;
    assert_ok(ctx, zest_lm_encode(lm, text, ZEST_LM_WHOLE, flags, ids, MOST, &count));
    return count;
}

static inline int32_t one_token(zest_lm *lm, const char *text) {
    int32_t ids[MOST];
    encode(lm, text, 0, ids);
    return ids[0];
}

static inline zest_lm_batch *masked_batch(zest_lm *lm) {
    static const char *const texts[] = {"A fine film. It was<mask>.", "dull and slow. It was<mask> indeed."};
    int32_t ids[MOST], words[2];
    words[0] = one_token(lm, " great");
    words[1] = one_token(lm, " bad");
    zest_lm_batch *batch = zest_lm_batch_new(lm);
    assert_ok(ctx, zest_lm_batch_set_label_words(batch, words, 2));
    for (size_t i = 0; i < 2; i++) {
        size_t count = encode(lm, texts[i], ZEST_LM_ADD_SPECIAL, ids), at = 0;
        while (ids[at] != zest_lm_special_token(lm, ZEST_LM_MASK)) at++;
        assert_ok(ctx, zest_lm_batch_add_masked(batch, ids, count, at, i));
    }
    return batch;
}

#endif
