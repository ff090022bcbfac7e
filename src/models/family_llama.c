/* The Llama family: rotary positions, RMS norms, gated MLP, grouped heads. Qwen2 has biases on q, k and v;
 * Mistral is taken where its window does not slide. */
#include <string.h>

#include "models/family.h"

static void describe_stretch(zest_family_config *outer, const json_t *object, const char *where,
                             zest_model_rope *rope) {
    zest_family_config config = {.root = object, .path = outer->path, .error = outer->error};
    const char *kind = zest_family_text(&config, "rope_type", zest_family_text(&config, "type", "default"));
    rope->base = zest_family_number(&config, "rope_theta", rope->base);
    rope->factor = zest_family_number(&config, "factor", 1);
    rope->low_factor = zest_family_number(&config, "low_freq_factor", 1);
    rope->high_factor = zest_family_number(&config, "high_freq_factor", 4);
    rope->trained_positions = zest_family_number(&config, "original_max_position_embeddings", 8192);
    if (!strcmp(kind, "linear"))
        rope->kind = ZEST_MODEL_ROPE_LINEAR;
    else if (!strcmp(kind, "llama3"))
        rope->kind = ZEST_MODEL_ROPE_LLAMA3;
    else if (strcmp(kind, "default") != 0)
        zest_family_refuse(&config, where,
                           "asks for a scaling that zest does not have (it has linear and llama3)");
    if (!(rope->base > 0 && rope->factor > 0 && rope->trained_positions > 0 &&
          rope->high_factor > rope->low_factor))
        zest_family_refuse(&config, where, "has values out of range");
    if (zest_family_number(&config, "partial_rotary_factor", 1) != 1)
        zest_family_refuse(&config, where, "rotates a part of a head only, which zest does not support");
    if (!outer->status) outer->status = config.status;
}

/* Older files: rope_theta and rope_scaling; newer ones: rope_parameters holds both. */
static void describe_rope(zest_family_config *config, zest_model_rope *rope) {
    *rope = (zest_model_rope){.base = zest_family_number(config, "rope_theta", 10000), .factor = 1};
    if (!(rope->base > 0)) zest_family_refuse(config, "rope_theta", "must be positive");
    if (zest_family_number(config, "partial_rotary_factor", 1) != 1)
        zest_family_refuse(config, "partial_rotary_factor", "is not 1, which zest does not support");
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(config->root, keys[i]);
        if (!value || json_is_null(value)) continue;
        if (!json_is_object(value))
            zest_family_refuse(config, keys[i], "must be an object");
        else
            describe_stretch(config, value, keys[i], rope);
    }
}

/* Some files name a window that is never used; only one in use changes the arithmetic. */
static void refuse_window(zest_family_config *config, const zest_model_description *is) {
    if (!strcmp(is->family, "qwen2")) zest_family_only_flag(config, "use_sliding_window", 0);
    const json_t *window = json_object_get(config->root, "sliding_window");
    if (!strcmp(is->family, "mistral") && json_is_integer(window) &&
        json_integer_value(window) < (json_int_t)is->positions)
        zest_family_refuse(config, "sliding_window", "is set, which zest does not support");
    size_t i;
    const json_t *kind;
    json_array_foreach(json_object_get(config->root, "layer_types"), i, kind) {
        const char *text = json_string_value(kind);
        if (text && strcmp(text, "full_attention") != 0)
            zest_family_refuse(config, "layer_types", "names an attention that zest does not support");
    }
}

static void describe(zest_family_config *config, zest_model_description *is) {
    int qwen = !strcmp(is->family, "qwen2");
    is->vocabulary = zest_family_size(config, "vocab_size", ZEST_FAMILY_REQUIRED);
    is->width = is->embedding_width = zest_family_size(config, "hidden_size", ZEST_FAMILY_REQUIRED);
    is->layers = zest_family_size(config, "num_hidden_layers", ZEST_FAMILY_REQUIRED);
    is->heads = zest_family_size(config, "num_attention_heads", ZEST_FAMILY_REQUIRED);
    is->kv_heads = zest_family_size(config, "num_key_value_heads", is->heads);
    is->inner = zest_family_size(config, "intermediate_size", ZEST_FAMILY_REQUIRED);
    is->positions = zest_family_size(config, "max_position_embeddings", 2048);
    is->head_size = zest_family_size(config, "head_dim", is->width / is->heads ? is->width / is->heads : 1);
    is->epsilon = (float)zest_family_number(config, "rms_norm_eps", 1e-6);
    is->activation = zest_family_activation(config, "hidden_act", "silu");
    is->tied = zest_family_flag(config, "tie_word_embeddings", 0);
    is->rms = is->gated = is->causal = is->final_norm = 1;
    is->out_bias = qwen ? 0 : zest_family_flag(config, "attention_bias", 0);
    is->qkv_bias = qwen ? 1 : is->out_bias;
    is->inner_bias = qwen ? 0 : zest_family_flag(config, "mlp_bias", 0);
    describe_rope(config, &is->rope);
    refuse_window(config, is);
}

static const zest_family_names names = {
    .prefix = "model.",
    .tokens = "model.embed_tokens",
    .layer = "model.layers.",
    .norm1 = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .out = "self_attn.o_proj",
    .norm2 = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .final_norm = "model.norm",
    .head = "lm_head.weight",
};

const zest_family zest_family_llama = {
    {"llama", "qwen2", "mistral"}, describe, &names, "AutoModelForCausalLM"};
