/* OPT, 125m to 66b. The 350m is the odd one: norms behind the blocks, none at the end, and embeddings of
 * another width with a projection in and out. */
#include "models/family.h"

/* The table of positions has two rows that nothing uses, left over from the training code. */
enum { POSITION_OFFSET = 2 };

static void describe(zest_family_config *config, zest_model_description *is) {
    is->vocabulary = zest_family_size(config, "vocab_size", ZEST_FAMILY_REQUIRED);
    is->width = zest_family_size(config, "hidden_size", ZEST_FAMILY_REQUIRED);
    is->embedding_width = zest_family_size(config, "word_embed_proj_dim", is->width);
    is->layers = zest_family_size(config, "num_hidden_layers", ZEST_FAMILY_REQUIRED);
    is->heads = is->kv_heads = zest_family_size(config, "num_attention_heads", ZEST_FAMILY_REQUIRED);
    is->inner = zest_family_size(config, "ffn_dim", ZEST_FAMILY_REQUIRED);
    is->positions = zest_family_size(config, "max_position_embeddings", 2048);
    is->position_offset = POSITION_OFFSET;
    is->position_rows = is->positions + POSITION_OFFSET;
    is->epsilon = 1e-5f;
    is->activation = zest_family_activation(config, "activation_function", "relu");
    is->tied = zest_family_flag(config, "tie_word_embeddings", 1);
    is->norm_after = !zest_family_flag(config, "do_layer_norm_before", 1);
    is->final_norm = !is->norm_after && !zest_family_flag(config, "_remove_final_layer_norm", 0);
    is->qkv_bias = is->out_bias = is->inner_bias = zest_family_flag(config, "enable_bias", 1);
    is->causal = 1;
    is->head_size = is->width / is->heads;
    if (is->width % is->heads)
        zest_family_refuse(config, "num_attention_heads", "does not divide hidden_size");
    zest_family_only_flag(config, "layer_norm_elementwise_affine", 1);
}

static const zest_family_names names = {
    .prefix = "model.",
    .tokens = "model.decoder.embed_tokens",
    .positions = "model.decoder.embed_positions",
    .project_in = "model.decoder.project_in",
    .layer = "model.decoder.layers.",
    .norm1 = "self_attn_layer_norm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .out = "self_attn.out_proj",
    .norm2 = "final_layer_norm",
    .up = "fc1",
    .down = "fc2",
    .final_norm = "model.decoder.final_layer_norm",
    .project_out = "model.decoder.project_out",
    .head = "lm_head.weight",
};

const zest_family zest_family_opt = {{"opt"}, describe, &names, "AutoModelForCausalLM"};
