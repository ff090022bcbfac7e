/* GPT-2: matrices stored inputs × outputs, and query, key and value in one of them. */
#include "models/family.h"

static void describe(zest_family_config *config, zest_model_description *is) {
    is->vocabulary = zest_family_size(config, "vocab_size", ZEST_FAMILY_REQUIRED);
    is->width = is->embedding_width = zest_family_size(config, "n_embd", ZEST_FAMILY_REQUIRED);
    is->layers = zest_family_size(config, "n_layer", ZEST_FAMILY_REQUIRED);
    is->heads = is->kv_heads = zest_family_size(config, "n_head", ZEST_FAMILY_REQUIRED);
    is->inner = zest_family_size(config, "n_inner", 4 * is->width);
    is->positions = is->position_rows = zest_family_size(config, "n_positions", 1024);
    is->epsilon = (float)zest_family_number(config, "layer_norm_epsilon", 1e-5);
    is->activation = zest_family_activation(config, "activation_function", "gelu_new");
    is->tied = zest_family_flag(config, "tie_word_embeddings", 1);
    is->transposed = is->fused_qkv = is->causal = is->final_norm = 1;
    is->qkv_bias = is->out_bias = is->inner_bias = 1;
    is->head_size = is->width / is->heads;
    if (is->width % is->heads) zest_family_refuse(config, "n_head", "does not divide n_embd");
    zest_family_only_flag(config, "scale_attn_weights", 1);
    zest_family_only_flag(config, "scale_attn_by_inverse_layer_idx", 0);
    zest_family_only_flag(config, "add_cross_attention", 0);
}

static const zest_family_names names = {
    .prefix = "transformer.",
    .tokens = "transformer.wte",
    .positions = "transformer.wpe",
    .layer = "transformer.h.",
    .norm1 = "ln_1",
    .qkv = "attn.c_attn",
    .out = "attn.c_proj",
    .norm2 = "ln_2",
    .up = "mlp.c_fc",
    .down = "mlp.c_proj",
    .final_norm = "transformer.ln_f",
    .head = "lm_head.weight",
};

const zest_family zest_family_gpt2 = {{"gpt2"}, describe, &names, "AutoModelForCausalLM"};
