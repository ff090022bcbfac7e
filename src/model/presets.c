/* Configurations of well-known models, for benchmarks and memory plans on random weights. */
#include <string.h>

#include "model/model.h"

#define ROBERTA(hidden, layers, heads, ffn)                                                         \
    "{\"model_type\": \"roberta\", \"vocab_size\": 50265, \"hidden_size\": " #hidden                \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads                        \
    ", \"intermediate_size\": " #ffn ", \"max_position_embeddings\": 514, \"type_vocab_size\": 1, " \
    "\"layer_norm_eps\": 1e-5, \"hidden_act\": \"gelu\", "                                          \
    "\"pad_token_id\": 1}"
#define OPT(hidden, layers, heads, ffn)                                                                     \
    "{\"model_type\": \"opt\", \"vocab_size\": 50272, \"hidden_size\": " #hidden                            \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads ", \"ffn_dim\": " #ffn         \
    ", \"word_embed_proj_dim\": " #hidden ", \"max_position_embeddings\": 2048, \"do_layer_norm_before\": " \
    "true, \"activation_function\": \"relu\"}"
#define LLAMA(type, vocabulary, hidden, layers, heads, kv_heads, ffn, base, tied)               \
    "{\"model_type\": \"" type "\", \"vocab_size\": " #vocabulary ", \"hidden_size\": " #hidden \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads                    \
    ", \"num_key_value_heads\": " #kv_heads ", \"intermediate_size\": " #ffn                    \
    ", \"max_position_embeddings\": 2048, \"rope_theta\": " #base                               \
    ", \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "                                      \
    "\"tie_word_embeddings\": " #tied "}"

static const struct {
    const char *name, *config_json;
} presets[] = {
    {"roberta-6x512", ROBERTA(512, 6, 8, 2048)},
    {"roberta-base", ROBERTA(768, 12, 12, 3072)},
    {"roberta-large", ROBERTA(1024, 24, 16, 4096)},
    {"opt-125m", OPT(768, 12, 12, 3072)},
    {"opt-1.3b", OPT(2048, 24, 32, 8192)},
    {"opt-2.7b", OPT(2560, 32, 32, 10240)},
    {"opt-6.7b", OPT(4096, 32, 32, 16384)},
    {"gpt2",
     "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024, \"n_embd\": 768, "
     "\"n_layer\": 12, \"n_head\": 12, \"layer_norm_epsilon\": 1e-5, \"activation_function\": \"gelu_new\"}"},
    {"smollm2-135m", LLAMA("llama", 49152, 576, 30, 9, 3, 1536, 100000, true)},
    {"qwen2-0.5b", LLAMA("qwen2", 151936, 896, 24, 14, 2, 4864, 1000000, true)},
    {"tinyllama-1.1b", LLAMA("llama", 32000, 2048, 22, 32, 4, 5632, 10000, false)},
};

enum { PRESETS = sizeof presets / sizeof presets[0] };

const char *zest_family_preset_config(const char *name) {
    for (int i = 0; i < PRESETS; i++)
        if (!strcmp(presets[i].name, name)) return presets[i].config_json;
    return NULL;
}

const char *zest_family_preset_name(int i) { return i >= 0 && i < PRESETS ? presets[i].name : NULL; }
