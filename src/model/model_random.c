/* Shapes without files: random weights, and descriptions alone. */
#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "model/families.h"
#include "model/model_source.h"
#include "rng/noise.h"
#include "model/model.h"

enum { SLICE = 4096 };

static int is_gain(const zest_tensor *tensor, const zest_model_tensor_shape *shape) {
    size_t length = strlen(tensor->name);
    return shape->rank == 1 && length > 7 && !strcmp(tensor->name + length - 7, ".weight");
}

static void invent_slice(const zest_noise *noise, const zest_model_source *source, const zest_tensor *tensor,
                         int gain, int64_t slice) {
    float values[SLICE];
    uint64_t first = (uint64_t)slice * SLICE, left = tensor->count - first;
    size_t count = left < SLICE ? (size_t)left : SLICE;
    noise->normal(values, source->seed, tensor->first + first, count);
    for (size_t i = 0; i < count; i++) values[i] = gain ? 1.0f : 0.02f * values[i];
    zest_dtype_from_float(tensor->dtype, values, count,
                          (char *)tensor->data + first * zest_dtype_size(tensor->dtype));
}

zest_status zest_model_source_invent(const zest_model_source *source, const zest_tensor *tensor,
                                     const zest_model_tensor_shape *shape, int threads) {
    zest_cpu cpu = ZEST_CPU_PLAIN;
    (void)zest_cpu_detect(&cpu, NULL); /* an unknown ZEST_CPU is reported by what runs the model */
    const zest_noise *noise = zest_noise_for(cpu);
    int gain = is_gain(tensor, shape);
    int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t s = 0; s < slices; s++) invent_slice(noise, source, tensor, gain, s);
    return ZEST_OK;
}

zest_status zest_model_read_config(const char *config_json, zest_model_config *config, zest_error *error) {
    const zest_family_names *names;
    json_t *root;
    zest_status status = zest_json_parse(config_json, strlen(config_json), "the configuration", &root, error);
    if (!status) status = zest_family_describe(root, "the configuration", config, &names, error);
    json_decref(root);
    return status;
}

#define ROBERTA(width, layers, heads, inner)                                                          \
    "{\"model_type\": \"roberta\", \"vocab_size\": 50265, \"hidden_size\": " #width                   \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads                          \
    ", \"intermediate_size\": " #inner ", \"max_position_embeddings\": 514, \"type_vocab_size\": 1, " \
    "\"layer_norm_eps\": 1e-5, \"hidden_act\": \"gelu\", "                                            \
    "\"pad_token_id\": 1}"
#define OPT(width, layers, heads, inner)                                                                   \
    "{\"model_type\": \"opt\", \"vocab_size\": 50272, \"hidden_size\": " #width                            \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads ", \"ffn_dim\": " #inner      \
    ", \"word_embed_proj_dim\": " #width ", \"max_position_embeddings\": 2048, \"do_layer_norm_before\": " \
    "true, \"activation_function\": \"relu\"}"
#define LLAMA(type, vocabulary, width, layers, heads, kv_heads, inner, base, tied)             \
    "{\"model_type\": \"" type "\", \"vocab_size\": " #vocabulary ", \"hidden_size\": " #width \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads                   \
    ", \"num_key_value_heads\": " #kv_heads ", \"intermediate_size\": " #inner                 \
    ", \"max_position_embeddings\": 2048, \"rope_theta\": " #base                              \
    ", \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "                                     \
    "\"tie_word_embeddings\": " #tied "}"

static const struct {
    const char *name, *config_json;
} shapes[] = {
    {"roberta-6x512", ROBERTA(512, 6, 8, 2048)},
    {"roberta-base", ROBERTA(768, 12, 12, 3072)},
    {"roberta-large", ROBERTA(1024, 24, 16, 4096)},
    {"opt-125m", OPT(768, 12, 12, 3072)},
    {"opt-1.3b", OPT(2048, 24, 32, 8192)},
    {"opt-2.7b", OPT(2560, 32, 32, 10240)},
    {"opt-6.7b", OPT(4096, 32, 32, 16384)},
    {"gpt2", "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024, \"n_embd\": 768, "
             "\"n_layer\": 12, "
             "\"n_head\": 12, \"layer_norm_epsilon\": 1e-5, \"activation_function\": \"gelu_new\"}"},
    {"smollm2-135m", LLAMA("llama", 49152, 576, 30, 9, 3, 1536, 100000, true)},
    {"qwen2-0.5b", LLAMA("qwen2", 151936, 896, 24, 14, 2, 4864, 1000000, true)},
    {"tinyllama-1.1b", LLAMA("llama", 32000, 2048, 22, 32, 4, 5632, 10000, false)},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

const char *zest_shapes_config(const char *name) {
    for (int i = 0; i < SHAPES; i++)
        if (!strcmp(shapes[i].name, name)) return shapes[i].config_json;
    return NULL;
}

const char *zest_shapes_name(int i) { return i >= 0 && i < SHAPES ? shapes[i].name : NULL; }
