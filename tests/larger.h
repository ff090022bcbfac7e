/* Shapes and batches that the kernels for large models take: heads and widths of tensor cores' tiles,
 * sequences longer than those, vocabularies of several blocks. */
#ifndef ZEST_TESTS_LARGER_H
#define ZEST_TESTS_LARGER_H

#include "tests/model.h"

#define LARGER_OPT(words)                                                                                   \
    "{\"model_type\": \"opt\", \"vocab_size\": " words ", \"hidden_size\": 128, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 2, \"ffn_dim\": 512, \"word_embed_proj_dim\": 128, "                          \
    "\"max_position_embeddings\": 512, \"do_layer_norm_before\": true, \"activation_function\": \"relu\"}"

#define LARGER_LLAMA                                                                                     \
    "{\"model_type\": \"llama\", \"vocab_size\": 9000, \"hidden_size\": 256, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 384, "               \
    "\"max_position_embeddings\": 512, \"rope_theta\": 10000, \"rms_norm_eps\": 1e-5, \"hidden_act\": "  \
    "\"silu\", \"tie_word_embeddings\": false}"

#define LARGER_ROBERTA                                                                                     \
    "{\"model_type\": \"roberta\", \"vocab_size\": 9000, \"hidden_size\": 320, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 5, \"intermediate_size\": 640, \"hidden_act\": \"gelu\", "                   \
    "\"max_position_embeddings\": 514, \"type_vocab_size\": 1, \"layer_norm_eps\": 1e-5, "                 \
    "\"pad_token_id\": 1, \"tie_word_embeddings\": true, \"architectures\": [\"RobertaForMaskedLM\"]}"

static inline zest_model *larger_model(const char *config, zest_model_storage storage) {
    zest_model *model;
    zest_model_options options = {.storage = storage};
    assert_done(zest_model_random(config, 5, &options, &model, error));
    return model;
}

/* Tokens first .. first+words-1 in disorder. */
static inline void larger_tokens(uint32_t *tokens, size_t count, uint32_t first, uint32_t words) {
    for (size_t i = 0; i < count; i++) tokens[i] = first + (uint32_t)(i * 2654435761u % words);
}

/* Three sequences, the second of one token. */
static inline zest_model_objective larger_three(uint32_t first, uint32_t words) {
    static uint32_t tokens[400];
    static const uint32_t starts[] = {0, 150, 151, 400}, rows[] = {10, 148, 150, 200, 398, 399},
                          targets[] = {5, 8191, 8192, 8999, 0, 77}, item_starts[] = {0, 2, 3, 6};
    static const zest_model_batch batch = {tokens, starts, 3, NULL, NULL};
    larger_tokens(tokens, 400, first, words);
    return (zest_model_objective){.kind = ZEST_LOSS_TOKENS,
                                  .batch = &batch,
                                  .items = 3,
                                  .item_starts = item_starts,
                                  .rows = rows,
                                  .targets = targets};
}

/* One sequence of up to 4096 tokens and the token behind it. */
static inline zest_model_objective larger_one(size_t count, uint32_t words) {
    static uint32_t tokens[4096], starts[2], row;
    static const uint32_t target = 5, item_starts[] = {0, 1};
    static const zest_model_batch batch = {tokens, starts, 1, NULL, NULL};
    larger_tokens(tokens, count, 0, words);
    starts[1] = (uint32_t)count, row = starts[1] - 1;
    return (zest_model_objective){.kind = ZEST_LOSS_TOKENS,
                                  .batch = &batch,
                                  .items = 1,
                                  .item_starts = item_starts,
                                  .rows = &row,
                                  .targets = &target};
}

#endif
