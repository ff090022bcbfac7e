/* RoBERTa and BERT with the masked-language-model head. They differ in the names, in where positions start
 * and in the token types that BERT uses. */
#include "models/family.h"

static void describe(zest_family_config *config, zest_model_description *is) {
    is->vocabulary = zest_family_size(config, "vocab_size", ZEST_FAMILY_REQUIRED);
    is->width = is->embedding_width = zest_family_size(config, "hidden_size", ZEST_FAMILY_REQUIRED);
    is->layers = zest_family_size(config, "num_hidden_layers", ZEST_FAMILY_REQUIRED);
    is->heads = is->kv_heads = zest_family_size(config, "num_attention_heads", ZEST_FAMILY_REQUIRED);
    is->inner = zest_family_size(config, "intermediate_size", ZEST_FAMILY_REQUIRED);
    is->position_rows = zest_family_size(config, "max_position_embeddings", 512);
    is->token_types = zest_family_size(config, "type_vocab_size", 2);
    is->epsilon = (float)zest_family_number(config, "layer_norm_eps", 1e-12);
    is->activation = is->head_activation = zest_family_activation(config, "hidden_act", "gelu");
    is->tied = zest_family_flag(config, "tie_word_embeddings", 1);
    is->norm_after = is->embedding_norm = is->head_transform = is->head_bias = 1;
    is->qkv_bias = is->out_bias = is->inner_bias = 1;
    is->positions = is->position_rows;
    is->head_size = is->width / is->heads;
    if (is->width % is->heads)
        zest_family_refuse(config, "num_attention_heads", "does not divide hidden_size");
    zest_family_only_flag(config, "is_decoder", 0);
    zest_family_only_flag(config, "add_cross_attention", 0);
    zest_family_only_text(config, "position_embedding_type", "absolute");
}

/* Positions count from behind the padding token's number, which the table reserves for padding. */
static void describe_roberta(zest_family_config *config, zest_model_description *is) {
    describe(config, is);
    is->head_activation = ZEST_ACT_GELU; /* whatever the layers use */
    double padding = zest_family_number(config, "pad_token_id", 1);
    if (!(padding >= 0 && padding + 1 < (double)is->position_rows)) {
        zest_family_refuse(config, "pad_token_id", "must be from 0 to max_position_embeddings - 2");
        return;
    }
    is->position_offset = (size_t)padding + 1;
    is->positions = is->position_rows - is->position_offset;
}

static const zest_family_names roberta_names = {
    .prefix = "roberta.",
    .tokens = "roberta.embeddings.word_embeddings",
    .positions = "roberta.embeddings.position_embeddings",
    .types = "roberta.embeddings.token_type_embeddings",
    .embedding_norm = "roberta.embeddings.LayerNorm",
    .layer = "roberta.encoder.layer.",
    .q = "attention.self.query",
    .k = "attention.self.key",
    .v = "attention.self.value",
    .out = "attention.output.dense",
    .norm1 = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .norm2 = "output.LayerNorm",
    .head_dense = "lm_head.dense",
    .head_norm = "lm_head.layer_norm",
    .head = "lm_head.decoder.weight",
    .head_bias = "lm_head.bias",
    .head_bias_alias = "lm_head.decoder.bias",
};

static const zest_family_names bert_names = {
    .prefix = "bert.",
    .tokens = "bert.embeddings.word_embeddings",
    .positions = "bert.embeddings.position_embeddings",
    .types = "bert.embeddings.token_type_embeddings",
    .embedding_norm = "bert.embeddings.LayerNorm",
    .layer = "bert.encoder.layer.",
    .q = "attention.self.query",
    .k = "attention.self.key",
    .v = "attention.self.value",
    .out = "attention.output.dense",
    .norm1 = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .norm2 = "output.LayerNorm",
    .head_dense = "cls.predictions.transform.dense",
    .head_norm = "cls.predictions.transform.LayerNorm",
    .head = "cls.predictions.decoder.weight",
    .head_bias = "cls.predictions.bias",
    .head_bias_alias = "cls.predictions.decoder.bias",
};

const zest_family zest_family_roberta = {
    {"roberta"}, describe_roberta, &roberta_names, "AutoModelForMaskedLM"};
const zest_family zest_family_bert = {{"bert"}, describe, &bert_names, "AutoModelForMaskedLM"};
