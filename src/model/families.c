#include <math.h>
#include <string.h>

#include "model/families.h"

enum { LARGEST_SIZE = 1 << 28, LARGEST_LAYERS = 4096 };

static const zest_family *const families[] = {&zest_family_roberta, &zest_family_bert, &zest_family_opt,
                                              &zest_family_gpt2, &zest_family_llama};

static const json_t *find(const zest_family_json *json, const char *key) {
    const json_t *value = json_object_get(json->root, key);
    return json_is_null(value) ? NULL : value;
}

void zest_family_refuse(zest_family_json *json, const char *key, const char *why) {
    if (!json->status)
        json->status = zest_error_set(json->error, ZEST_ERROR_FORMAT, "%s: '%s' %s", json->path, key, why);
}

size_t zest_family_size(zest_family_json *json, const char *key, size_t fallback) {
    const json_t *value = find(json, key);
    if (!value) {
        if (fallback == ZEST_FAMILY_REQUIRED) zest_family_refuse(json, key, "is missing");
        return fallback == ZEST_FAMILY_REQUIRED ? 1 : fallback;
    }
    json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number >= 1 && number <= LARGEST_SIZE) return (size_t)number;
    zest_family_refuse(json, key, "must be a whole number from 1 to 2^28");
    return 1;
}

double zest_family_number(zest_family_json *json, const char *key, double fallback) {
    const json_t *value = find(json, key);
    if (!value) return fallback;
    if (json_is_number(value) && isfinite(json_number_value(value))) return json_number_value(value);
    zest_family_refuse(json, key, "must be a number");
    return fallback;
}

int zest_family_flag(zest_family_json *json, const char *key, int fallback) {
    const json_t *value = find(json, key);
    if (!value) return fallback;
    if (json_is_boolean(value)) return json_is_true(value);
    zest_family_refuse(json, key, "must be true or false");
    return fallback;
}

const char *zest_family_text(zest_family_json *json, const char *key, const char *fallback) {
    const json_t *value = find(json, key);
    if (!value) return fallback;
    if (json_is_string(value)) return json_string_value(value);
    zest_family_refuse(json, key, "must be a text");
    return fallback;
}

zest_activation zest_family_activation(zest_family_json *json, const char *key, const char *fallback) {
    static const struct {
        const char *name;
        zest_activation activation;
    } known[] = {
        {"relu", ZEST_ACT_RELU},           {"gelu", ZEST_ACT_GELU},
        {"gelu_python", ZEST_ACT_GELU},    {"gelu_new", ZEST_ACT_GELU_TANH},
        {"gelu_fast", ZEST_ACT_GELU_TANH}, {"gelu_pytorch_tanh", ZEST_ACT_GELU_TANH},
        {"silu", ZEST_ACT_SILU},           {"swish", ZEST_ACT_SILU},
    };
    const char *name = zest_family_text(json, key, fallback);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) return known[i].activation;
    zest_family_refuse(json, key, "names an activation that zest does not have");
    return ZEST_ACT_NONE;
}

void zest_family_only_flag(zest_family_json *json, const char *key, int value) {
    if (zest_family_flag(json, key, value) != value)
        zest_family_refuse(json, key,
                           value ? "is false, which zest does not support"
                                 : "is true, which zest does not support");
}

void zest_family_only_text(zest_family_json *json, const char *key, const char *value) {
    if (strcmp(zest_family_text(json, key, value), value) != 0)
        zest_family_refuse(json, key, "has a value that zest does not support");
}

static const zest_family *find_type(const char *type) {
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t i = 0; i < 4 && families[f]->types[i]; i++)
            if (!strcmp(type, families[f]->types[i])) return families[f];
    return NULL;
}

static void check(zest_family_json *json, zest_model_config *config) {
    if (config->layers > LARGEST_LAYERS) zest_family_refuse(json, "layers", "are too many (4096 at most)");
    if (config->heads % config->kv_heads)
        zest_family_refuse(json, "num_key_value_heads", "does not divide the heads");
    if (config->head_dim * config->heads > LARGEST_SIZE) zest_family_refuse(json, "heads", "are too large");
    if (!config->position_rows && config->head_dim % 2)
        zest_family_refuse(json, "head_dim", "must be even for rotary positions");
    if (!(config->epsilon >= 0)) zest_family_refuse(json, "epsilon of the norms", "must not be negative");
}

zest_status zest_family_of(const json_t *root, const char *path, const zest_family **family,
                           zest_error *error) {
    zest_family_json json = {.root = root, .path = path, .error = error};
    if (!json_is_object(root))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: is not a JSON object", path);
    const char *type = zest_family_text(&json, "model_type", NULL);
    if (!type) {
        zest_family_refuse(&json, "model_type", "is missing");
        return json.status;
    }
    *family = find_type(type);
    if (*family) return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_FORMAT,
        "%s: zest has no model_type '%.100s' (it has roberta, bert, opt, gpt2, llama, qwen2 "
        "and mistral)",
        path, type);
}

zest_status zest_family_describe(const json_t *root, const char *path, zest_model_config *out,
                                 const zest_family_names **names, zest_error *error) {
    zest_family_json json = {.root = root, .path = path, .error = error};
    const zest_family *family;
    zest_status status = zest_family_of(root, path, &family, error);
    if (status) return status;
    const char *type = json_string_value(json_object_get(root, "model_type"));
    *out = (zest_model_config){0};
    for (size_t i = 0; i < 4 && family->types[i]; i++)
        if (!strcmp(type, family->types[i])) out->family = family->types[i];
    family->describe(&json, out);
    if (!json.status) check(&json, out);
    *names = family->names;
    return json.status;
}

/* RoBERTa and BERT with the masked-language-model head. They differ in the names, in where positions start
 * and in the token types that BERT uses. */

static void describe(zest_family_json *json, zest_model_config *config) {
    config->vocab_size = zest_family_size(json, "vocab_size", ZEST_FAMILY_REQUIRED);
    config->hidden_size = config->embedding_size =
        zest_family_size(json, "hidden_size", ZEST_FAMILY_REQUIRED);
    config->layers = zest_family_size(json, "num_hidden_layers", ZEST_FAMILY_REQUIRED);
    config->heads = config->kv_heads = zest_family_size(json, "num_attention_heads", ZEST_FAMILY_REQUIRED);
    config->ffn_size = zest_family_size(json, "intermediate_size", ZEST_FAMILY_REQUIRED);
    config->position_rows = zest_family_size(json, "max_position_embeddings", 512);
    config->token_types = zest_family_size(json, "type_vocab_size", 2);
    config->epsilon = (float)zest_family_number(json, "layer_norm_eps", 1e-12);
    config->activation = config->head_activation = zest_family_activation(json, "hidden_act", "gelu");
    config->tied_head = zest_family_flag(json, "tie_word_embeddings", 1);
    config->post_norm = config->embedding_norm = config->head_transform = config->head_bias = 1;
    config->qkv_bias = config->out_bias = config->ffn_bias = 1;
    config->max_positions = config->position_rows;
    config->head_dim = config->hidden_size / config->heads;
    if (config->hidden_size % config->heads)
        zest_family_refuse(json, "num_attention_heads", "does not divide hidden_size");
    zest_family_only_flag(json, "is_decoder", 0);
    zest_family_only_flag(json, "add_cross_attention", 0);
    zest_family_only_text(json, "position_embedding_type", "absolute");
}

/* Positions count from behind the padding token's number, which the table reserves for padding. */
static void describe_roberta(zest_family_json *json, zest_model_config *config) {
    describe(json, config);
    config->head_activation = ZEST_ACT_GELU; /* whatever the layers use */
    double padding = zest_family_number(json, "pad_token_id", 1);
    if (!(padding >= 0 && padding + 1 < (double)config->position_rows)) {
        zest_family_refuse(json, "pad_token_id", "must be from 0 to max_position_embeddings - 2");
        return;
    }
    config->position_offset = (size_t)padding + 1;
    config->max_positions = config->position_rows - config->position_offset;
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

/* OPT, 125m to 66b. The 350m is the odd one: norms behind the blocks, none at the end, and embeddings of
 * another width with a projection in and out. */

/* The table of positions has two rows that nothing uses, left over from the training code. */
enum { POSITION_OFFSET = 2 };

static void family_opt_describe(zest_family_json *json, zest_model_config *config) {
    config->vocab_size = zest_family_size(json, "vocab_size", ZEST_FAMILY_REQUIRED);
    config->hidden_size = zest_family_size(json, "hidden_size", ZEST_FAMILY_REQUIRED);
    config->embedding_size = zest_family_size(json, "word_embed_proj_dim", config->hidden_size);
    config->layers = zest_family_size(json, "num_hidden_layers", ZEST_FAMILY_REQUIRED);
    config->heads = config->kv_heads = zest_family_size(json, "num_attention_heads", ZEST_FAMILY_REQUIRED);
    config->ffn_size = zest_family_size(json, "ffn_dim", ZEST_FAMILY_REQUIRED);
    config->max_positions = zest_family_size(json, "max_position_embeddings", 2048);
    config->position_offset = POSITION_OFFSET;
    config->position_rows = config->max_positions + POSITION_OFFSET;
    config->epsilon = 1e-5f;
    config->activation = zest_family_activation(json, "activation_function", "relu");
    config->tied_head = zest_family_flag(json, "tie_word_embeddings", 1);
    config->post_norm = !zest_family_flag(json, "do_layer_norm_before", 1);
    config->final_norm = !config->post_norm && !zest_family_flag(json, "_remove_final_layer_norm", 0);
    config->qkv_bias = config->out_bias = config->ffn_bias = zest_family_flag(json, "enable_bias", 1);
    config->causal = 1;
    config->head_dim = config->hidden_size / config->heads;
    if (config->hidden_size % config->heads)
        zest_family_refuse(json, "num_attention_heads", "does not divide hidden_size");
    zest_family_only_flag(json, "layer_norm_elementwise_affine", 1);
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

const zest_family zest_family_opt = {{"opt"}, family_opt_describe, &names, "AutoModelForCausalLM"};

/* GPT-2: matrices stored inputs × outputs, and query, key and value in one of them. */

static void family_gpt2_describe(zest_family_json *json, zest_model_config *config) {
    config->vocab_size = zest_family_size(json, "vocab_size", ZEST_FAMILY_REQUIRED);
    config->hidden_size = config->embedding_size = zest_family_size(json, "n_embd", ZEST_FAMILY_REQUIRED);
    config->layers = zest_family_size(json, "n_layer", ZEST_FAMILY_REQUIRED);
    config->heads = config->kv_heads = zest_family_size(json, "n_head", ZEST_FAMILY_REQUIRED);
    config->ffn_size = zest_family_size(json, "n_inner", 4 * config->hidden_size);
    config->max_positions = config->position_rows = zest_family_size(json, "n_positions", 1024);
    config->epsilon = (float)zest_family_number(json, "layer_norm_epsilon", 1e-5);
    config->activation = zest_family_activation(json, "activation_function", "gelu_new");
    config->tied_head = zest_family_flag(json, "tie_word_embeddings", 1);
    config->transposed = config->fused_qkv = config->causal = config->final_norm = 1;
    config->qkv_bias = config->out_bias = config->ffn_bias = 1;
    config->head_dim = config->hidden_size / config->heads;
    if (config->hidden_size % config->heads) zest_family_refuse(json, "n_head", "does not divide n_embd");
    zest_family_only_flag(json, "scale_attn_weights", 1);
    zest_family_only_flag(json, "scale_attn_by_inverse_layer_idx", 0);
    zest_family_only_flag(json, "add_cross_attention", 0);
}

static const zest_family_names family_gpt2_names = {
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

const zest_family zest_family_gpt2 = {
    {"gpt2"}, family_gpt2_describe, &family_gpt2_names, "AutoModelForCausalLM"};

/* The Llama family: rotary positions, RMS norms, gated MLP, grouped heads. Qwen2 has biases on q, k and v;
 * Mistral is taken where its window does not slide. */

static void describe_stretch(zest_family_json *outer, const json_t *object, const char *where,
                             zest_model_rope *rope) {
    zest_family_json json = {.root = object, .path = outer->path, .error = outer->error};
    const char *kind = zest_family_text(&json, "rope_type", zest_family_text(&json, "type", "default"));
    rope->base = zest_family_number(&json, "rope_theta", rope->base);
    rope->factor = zest_family_number(&json, "factor", 1);
    rope->low_factor = zest_family_number(&json, "low_freq_factor", 1);
    rope->high_factor = zest_family_number(&json, "high_freq_factor", 4);
    rope->trained_positions = zest_family_number(&json, "original_max_position_embeddings", 8192);
    if (!strcmp(kind, "linear"))
        rope->kind = ZEST_MODEL_ROPE_LINEAR;
    else if (!strcmp(kind, "llama3"))
        rope->kind = ZEST_MODEL_ROPE_LLAMA3;
    else if (strcmp(kind, "default") != 0)
        zest_family_refuse(&json, where,
                           "asks for a scaling that zest does not have (it has linear and llama3)");
    if (!(rope->base > 0 && rope->factor > 0 && rope->trained_positions > 0 &&
          rope->high_factor > rope->low_factor))
        zest_family_refuse(&json, where, "has values out of range");
    if (zest_family_number(&json, "partial_rotary_factor", 1) != 1)
        zest_family_refuse(&json, where, "rotates a part of a head only, which zest does not support");
    if (!outer->status) outer->status = json.status;
}

/* Older files: rope_theta and rope_scaling; newer ones: rope_parameters holds both. */
static void describe_rope(zest_family_json *json, zest_model_rope *rope) {
    *rope = (zest_model_rope){.base = zest_family_number(json, "rope_theta", 10000), .factor = 1};
    if (!(rope->base > 0)) zest_family_refuse(json, "rope_theta", "must be positive");
    if (zest_family_number(json, "partial_rotary_factor", 1) != 1)
        zest_family_refuse(json, "partial_rotary_factor", "is not 1, which zest does not support");
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(json->root, keys[i]);
        if (!value || json_is_null(value)) continue;
        if (!json_is_object(value))
            zest_family_refuse(json, keys[i], "must be an object");
        else
            describe_stretch(json, value, keys[i], rope);
    }
}

/* Some files name a window that is never used; only one in use changes the arithmetic. */
static void refuse_window(zest_family_json *json, const zest_model_config *config) {
    if (!strcmp(config->family, "qwen2")) zest_family_only_flag(json, "use_sliding_window", 0);
    const json_t *window = json_object_get(json->root, "sliding_window");
    if (!strcmp(config->family, "mistral") && json_is_integer(window) &&
        json_integer_value(window) < (json_int_t)config->max_positions)
        zest_family_refuse(json, "sliding_window", "is set, which zest does not support");
    size_t i;
    const json_t *kind;
    json_array_foreach(json_object_get(json->root, "layer_types"), i, kind) {
        const char *text = json_string_value(kind);
        if (text && strcmp(text, "full_attention") != 0)
            zest_family_refuse(json, "layer_types", "names an attention that zest does not support");
    }
}

static void family_llama_describe(zest_family_json *json, zest_model_config *config) {
    int qwen = !strcmp(config->family, "qwen2");
    config->vocab_size = zest_family_size(json, "vocab_size", ZEST_FAMILY_REQUIRED);
    config->hidden_size = config->embedding_size =
        zest_family_size(json, "hidden_size", ZEST_FAMILY_REQUIRED);
    config->layers = zest_family_size(json, "num_hidden_layers", ZEST_FAMILY_REQUIRED);
    config->heads = zest_family_size(json, "num_attention_heads", ZEST_FAMILY_REQUIRED);
    config->kv_heads = zest_family_size(json, "num_key_value_heads", config->heads);
    config->ffn_size = zest_family_size(json, "intermediate_size", ZEST_FAMILY_REQUIRED);
    config->max_positions = zest_family_size(json, "max_position_embeddings", 2048);
    config->head_dim = zest_family_size(
        json, "head_dim", config->hidden_size / config->heads ? config->hidden_size / config->heads : 1);
    config->epsilon = (float)zest_family_number(json, "rms_norm_eps", 1e-6);
    config->activation = zest_family_activation(json, "hidden_act", "silu");
    config->tied_head = zest_family_flag(json, "tie_word_embeddings", 0);
    config->rms_norm = config->gated = config->causal = config->final_norm = 1;
    config->out_bias = qwen ? 0 : zest_family_flag(json, "attention_bias", 0);
    config->qkv_bias = qwen ? 1 : config->out_bias;
    config->ffn_bias = qwen ? 0 : zest_family_flag(json, "mlp_bias", 0);
    describe_rope(json, &config->rope);
    refuse_window(json, config);
}

static const zest_family_names family_llama_names = {
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
    {"llama", "qwen2", "mistral"}, family_llama_describe, &family_llama_names, "AutoModelForCausalLM"};
