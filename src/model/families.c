/* The families of models: how config.json and tensor names of each map onto the one transformer. The table is at
 * the end; docs/extending.md says how to add a family. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/model_files.h"

/* ---- Reading config.json ---- */

enum { LARGEST_SIZE = 1 << 28 };

/* A configuration being read. The first error sticks; later reads then give their fallback, so that a family
 * checks once, at the end. */
struct zest_config_reader {
    const json_t *root;
    const char *path;   /* for messages */
    const char *inside; /* the object within the file that is read; NULL: the file itself */
    zest_error *error;
    zest_status status;
};

/* Sizes are 1 to 2^28. REQUIRED: the key must be there. A null counts as absent. */
#define REQUIRED ((size_t)-1)

static const json_t *find(const zest_config_reader *json, const char *key) {
    const json_t *value = json_object_get(json->root, key);
    return json_is_null(value) ? NULL : value;
}

static void refuse(zest_config_reader *json, const char *key, const char *why) {
    if (!json->status)
        json->status = zest_error_set(json->error, ZEST_ERROR_FORMAT, "%s: '%s%s%s' %s", json->path,
                                      json->inside ? json->inside : "", json->inside ? "." : "", key, why);
}

static size_t read_size(zest_config_reader *json, const char *key, size_t fallback) {
    const json_t *value = find(json, key);
    if (!value) {
        if (fallback == REQUIRED) refuse(json, key, "is missing");
        return fallback == REQUIRED ? 1 : fallback;
    }
    json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number >= 1 && number <= LARGEST_SIZE) return (size_t)number;
    refuse(json, key, "must be a whole number from 1 to 2^28");
    return 1;
}

/* Numbers outside of what models of the family have would train to nothing, or to NaN, without a word. */
typedef struct {
    double min, max;
} range;

static const range epsilons = {1e-20, 0.1}, rope_bases = {1, 1e15}, rope_factors = {1, 1e6},
                   frequency_factors = {1e-6, 1e6}, turn_counts = {1e-6, 1e6}, rope_lengths = {1e-3, 1e3},
                   position_counts = {1, LARGEST_SIZE}, soft_caps = {1e-3, 1e6}, rotary_parts = {1e-6, 1},
                   any_number = {-1e300, 1e300};

static double read_number(zest_config_reader *json, const char *key, double fallback, range allowed) {
    const json_t *value = find(json, key);
    char why[96];
    if (!value) return fallback;
    double number = json_number_value(value);
    if (json_is_number(value) && number >= allowed.min && number <= allowed.max) return number;
    zest_number_format(why, sizeof why, "must be a number from %g to %g", allowed.min, allowed.max);
    refuse(json, key, why);
    return fallback;
}

static int read_flag(zest_config_reader *json, const char *key, int fallback) {
    const json_t *value = find(json, key);
    if (!value) return fallback;
    if (json_is_boolean(value)) return json_is_true(value);
    refuse(json, key, "must be true or false");
    return fallback;
}

static const char *read_string(zest_config_reader *json, const char *key, const char *fallback) {
    const json_t *value = find(json, key);
    if (!value) return fallback;
    if (json_is_string(value)) return json_string_value(value);
    refuse(json, key, "must be a string");
    return fallback;
}

static zest_activation read_activation(zest_config_reader *json, const char *key, const char *fallback) {
    static const struct {
        const char *name;
        zest_activation activation;
    } known[] = {
        {"relu", ZEST_ACT_RELU},           {"gelu", ZEST_ACT_GELU},
        {"gelu_python", ZEST_ACT_GELU},    {"gelu_new", ZEST_ACT_GELU_TANH},
        {"gelu_fast", ZEST_ACT_GELU_TANH}, {"gelu_pytorch_tanh", ZEST_ACT_GELU_TANH},
        {"silu", ZEST_ACT_SILU},           {"swish", ZEST_ACT_SILU},
    };
    const char *name = read_string(json, key, fallback);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) return known[i].activation;
    refuse(json, key, "names an activation that zest does not support");
    return ZEST_ACT_NONE;
}

/* The key must be absent, null or have this value: zest supports nothing else. */
static void require_flag(zest_config_reader *json, const char *key, int value) {
    if (read_flag(json, key, value) != value)
        refuse(json, key,
               value ? "is false, which zest does not support" : "is true, which zest does not support");
}

static void require_string(zest_config_reader *json, const char *key, const char *value) {
    if (strcmp(read_string(json, key, value), value) != 0)
        refuse(json, key, "has a value that zest does not support");
}

/* ---- RoBERTa, XLM-RoBERTa, CamemBERT and BERT ----
 *
 * With the masked-language-model head. They differ in the names, in where positions start
 * and in the token types that BERT uses. */

static void describe_bert(zest_config_reader *json, zest_model_config *config) {
    config->vocab_size = read_size(json, "vocab_size", REQUIRED);
    config->hidden_size = config->embedding_size = read_size(json, "hidden_size", REQUIRED);
    config->layers = read_size(json, "num_hidden_layers", REQUIRED);
    config->heads = config->kv_heads = read_size(json, "num_attention_heads", REQUIRED);
    config->ffn_size = read_size(json, "intermediate_size", REQUIRED);
    config->position_rows = read_size(json, "max_position_embeddings", 512);
    config->token_types = read_size(json, "type_vocab_size", 2);
    config->epsilon = (float)read_number(json, "layer_norm_eps", 1e-12, epsilons);
    config->activation = config->head_activation = read_activation(json, "hidden_act", "gelu");
    config->tied_head = read_flag(json, "tie_word_embeddings", 1);
    config->post_norm = config->embedding_norm = config->head_transform = config->head_bias = 1;
    config->qkv_bias = config->out_bias = config->ffn_bias = 1;
    config->max_positions = config->position_rows;
    config->head_dim = config->hidden_size / config->heads;
    if (config->hidden_size % config->heads)
        refuse(json, "num_attention_heads", "does not divide hidden_size");
    require_flag(json, "is_decoder", 0);
    require_flag(json, "add_cross_attention", 0);
    require_string(json, "position_embedding_type", "absolute");
}

/* Positions start after the padding token's id, a row that the table reserves for padding. */
static void describe_roberta(zest_config_reader *json, zest_model_config *config) {
    describe_bert(json, config);
    config->head_activation = ZEST_ACT_GELU; /* whatever the layers use */
    double padding = read_number(json, "pad_token_id", 1, any_number);
    if (!(padding >= 0 && padding + 1 < (double)config->position_rows)) {
        refuse(json, "pad_token_id", "must be from 0 to max_position_embeddings - 2");
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

/* ---- DistilBERT ----
 *
 * BERT without token types, with names of its own in config.json and in the file. */

static void describe_distilbert(zest_config_reader *json, zest_model_config *config) {
    config->vocab_size = read_size(json, "vocab_size", 30522);
    config->hidden_size = config->embedding_size = read_size(json, "dim", 768);
    config->layers = read_size(json, "n_layers", 6);
    config->heads = config->kv_heads = read_size(json, "n_heads", 12);
    config->ffn_size = read_size(json, "hidden_dim", 4 * 768);
    config->position_rows = config->max_positions = read_size(json, "max_position_embeddings", 512);
    config->epsilon = 1e-12f;
    config->activation = config->head_activation = read_activation(json, "activation", "gelu");
    config->tied_head = read_flag(json, "tie_word_embeddings", 1);
    config->post_norm = config->embedding_norm = config->head_transform = config->head_bias = 1;
    config->qkv_bias = config->out_bias = config->ffn_bias = 1;
    config->head_dim = config->hidden_size / config->heads;
    if (config->hidden_size % config->heads) refuse(json, "n_heads", "does not divide dim");
}

static const zest_family_names distilbert_names = {
    .prefix = "distilbert.",
    .tokens = "distilbert.embeddings.word_embeddings",
    .positions = "distilbert.embeddings.position_embeddings",
    .embedding_norm = "distilbert.embeddings.LayerNorm",
    .layer = "distilbert.transformer.layer.",
    .q = "attention.q_lin",
    .k = "attention.k_lin",
    .v = "attention.v_lin",
    .out = "attention.out_lin",
    .norm1 = "sa_layer_norm",
    .up = "ffn.lin1",
    .down = "ffn.lin2",
    .norm2 = "output_layer_norm",
    .head_dense = "vocab_transform",
    .head_norm = "vocab_layer_norm",
    .head = "vocab_projector.weight",
    .head_bias = "vocab_projector.bias",
};

/* ---- OPT ----
 *
 * 125m to 66b. The 350m differs: norms after the blocks, none at the end, and embeddings of
 * another width with a projection in and out. */

/* The table of positions has two rows that nothing uses, left over from the training code. */
enum { POSITION_OFFSET = 2 };

static void describe_opt(zest_config_reader *json, zest_model_config *config) {
    config->vocab_size = read_size(json, "vocab_size", REQUIRED);
    config->hidden_size = read_size(json, "hidden_size", REQUIRED);
    config->embedding_size = read_size(json, "word_embed_proj_dim", config->hidden_size);
    config->layers = read_size(json, "num_hidden_layers", REQUIRED);
    config->heads = config->kv_heads = read_size(json, "num_attention_heads", REQUIRED);
    config->ffn_size = read_size(json, "ffn_dim", REQUIRED);
    config->max_positions = read_size(json, "max_position_embeddings", 2048);
    config->position_offset = POSITION_OFFSET;
    config->position_rows = config->max_positions + POSITION_OFFSET;
    config->epsilon = 1e-5f;
    config->activation = read_activation(json, "activation_function", "relu");
    config->tied_head = read_flag(json, "tie_word_embeddings", 1);
    config->post_norm = !read_flag(json, "do_layer_norm_before", 1);
    config->final_norm = !config->post_norm && !read_flag(json, "_remove_final_layer_norm", 0);
    config->qkv_bias = config->out_bias = config->ffn_bias = read_flag(json, "enable_bias", 1);
    config->causal = 1;
    config->head_dim = config->hidden_size / config->heads;
    if (config->hidden_size % config->heads)
        refuse(json, "num_attention_heads", "does not divide hidden_size");
    require_flag(json, "layer_norm_elementwise_affine", 1);
}

static const zest_family_names opt_names = {
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

/* ---- GPT-2 ----
 *
 * Matrices stored inputs × outputs, and query, key and value in one of them. */

static void describe_gpt2(zest_config_reader *json, zest_model_config *config) {
    config->vocab_size = read_size(json, "vocab_size", REQUIRED);
    config->hidden_size = config->embedding_size = read_size(json, "n_embd", REQUIRED);
    config->layers = read_size(json, "n_layer", REQUIRED);
    config->heads = config->kv_heads = read_size(json, "n_head", REQUIRED);
    config->ffn_size = read_size(json, "n_inner", 4 * config->hidden_size);
    config->max_positions = config->position_rows = read_size(json, "n_positions", 1024);
    config->epsilon = (float)read_number(json, "layer_norm_epsilon", 1e-5, epsilons);
    config->activation = read_activation(json, "activation_function", "gelu_new");
    config->tied_head = read_flag(json, "tie_word_embeddings", 1);
    config->transposed = config->fused_qkv = config->causal = config->final_norm = 1;
    config->qkv_bias = config->out_bias = config->ffn_bias = 1;
    config->head_dim = config->hidden_size / config->heads;
    if (config->hidden_size % config->heads) refuse(json, "n_head", "does not divide n_embd");
    require_flag(json, "scale_attn_weights", 1);
    require_flag(json, "scale_attn_by_inverse_layer_idx", 0);
    require_flag(json, "add_cross_attention", 0);
}

static const zest_family_names gpt2_names = {
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

/* ---- Llama, Qwen2, Qwen3, Mistral, Phi-3 ----
 *
 * Rotary positions, RMS norms, gated MLP, grouped heads. Qwen2 has biases on q, k and v, Qwen3 norms of q and k;
 * Mistral and Phi-3 have a sliding window; Phi-3 has q, k and v in one
 * tensor, and gate and up in another. */

/* YaRN's ramp, and how much longer rotated vectors are: as stated, or by the rule of the paper. */
static void describe_yarn(zest_config_reader *json, zest_rope *rope) {
    rope->kind = ZEST_ROPE_YARN;
    rope->fast_turns = read_number(json, "beta_fast", 32, turn_counts);
    rope->slow_turns = read_number(json, "beta_slow", 1, turn_counts);
    rope->whole_bounds = read_flag(json, "truncate", 1);
    double growth = rope->factor > 1 ? 0.1 * log(rope->factor) : 0,
           part = read_number(json, "mscale", 0, rope_lengths),
           whole = read_number(json, "mscale_all_dim", 0, rope_lengths);
    double usual = part != 0 && whole != 0 ? (1 + part * growth) / (1 + whole * growth) : 1 + growth;
    rope->length = read_number(json, "attention_factor", usual, rope_lengths);
}

/* part: of a head that is rotated; NULL: all of it. */
static void describe_rope_scaling(zest_config_reader *outer, const json_t *object, const char *where,
                                  size_t max_positions, zest_rope *rope, double *part) {
    zest_config_reader json = {.root = object, .path = outer->path, .inside = where, .error = outer->error};
    const char *kind = read_string(&json, "rope_type", read_string(&json, "type", "default"));
    int llama3 = !strcmp(kind, "llama3");
    rope->base = read_number(&json, "rope_theta", rope->base, rope_bases);
    rope->factor = read_number(&json, "factor", 1, rope_factors);
    rope->low_factor = read_number(&json, "low_freq_factor", 1, frequency_factors);
    rope->high_factor = read_number(&json, "high_freq_factor", 4, frequency_factors);
    rope->trained_positions = read_number(&json, "original_max_position_embeddings",
                                          llama3 ? 8192 : (double)max_positions, position_counts);
    if (!strcmp(kind, "linear"))
        rope->kind = ZEST_ROPE_LINEAR;
    else if (llama3)
        rope->kind = ZEST_ROPE_LLAMA3;
    else if (!strcmp(kind, "yarn"))
        describe_yarn(&json, rope);
    else if (strcmp(kind, "default") != 0)
        refuse(outer, where,
               "names a scaling that zest does not support (it supports linear, llama3 and yarn)");
    if (!(rope->high_factor > rope->low_factor))
        refuse(&json, "high_freq_factor", "must be greater than low_freq_factor");
    if (rope->kind == ZEST_ROPE_YARN && !(rope->fast_turns > rope->slow_turns))
        refuse(&json, "beta_fast", "must be greater than beta_slow");
    if (rope->kind == ZEST_ROPE_YARN && !(rope->base > 1))
        refuse(&json, "rope_theta", "must be greater than 1 with yarn");
    if (part)
        *part = read_number(&json, "partial_rotary_factor", *part, rotary_parts);
    else if (read_number(&json, "partial_rotary_factor", 1, any_number) != 1)
        refuse(&json, "partial_rotary_factor", "is not 1, which zest does not support");
    if (!outer->status) outer->status = json.status;
}

static void read_rope_objects(zest_config_reader *json, size_t max_positions, zest_rope *rope, double *part) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(json->root, keys[i]);
        if (!value || json_is_null(value)) continue;
        if (!json_is_object(value))
            refuse(json, keys[i], "must be an object");
        else
            describe_rope_scaling(json, value, keys[i], max_positions, rope, part);
    }
}

/* Older files: rope_theta and rope_scaling; newer ones: rope_parameters holds both. */
static void describe_rope(zest_config_reader *json, size_t max_positions, zest_rope *rope) {
    *rope = (zest_rope){.base = read_number(json, "rope_theta", 10000, rope_bases), .factor = 1, .length = 1};
    if (read_number(json, "partial_rotary_factor", 1, any_number) != 1)
        refuse(json, "partial_rotary_factor", "is not 1, which zest does not support");
    read_rope_objects(json, max_positions, rope, NULL);
}

/* ---- Local layers: those whose attention has a sliding window ---- */

/* A rule for files without a list of layers: layer i is local unless i + shift is a multiple of the period. */
typedef struct {
    size_t shift, period;
} local_rule;
static const local_rule no_layer = {0, 1}, every_layer = {1, ZEST_MODEL_LAYERS + 1};

static void set_local(zest_model_config *config, size_t layer) {
    config->local_layers[layer / 64] |= (uint64_t)1 << layer % 64;
}

/* The layers of layer_types, or those of the rule. */
static void read_local_layers(zest_config_reader *json, zest_model_config *config, local_rule rule) {
    size_t i;
    const json_t *kind, *kinds = find(json, "layer_types");
    if (config->layers > ZEST_MODEL_LAYERS) return; /* refused later */
    for (i = 0; !kinds && i < config->layers; i++)
        if ((i + rule.shift) % rule.period) set_local(config, i);
    if (kinds && json_array_size(kinds) != config->layers)
        refuse(json, "layer_types", "must have an entry for each layer");
    json_array_foreach(kinds, i, kind) {
        const char *text = json_string_value(kind);
        int slides = text && !strcmp(text, "sliding_attention");
        if (!slides && (!text || strcmp(text, "full_attention") != 0))
            refuse(json, "layer_types", "names an attention that zest does not support");
        if (slides && i < config->layers) set_local(config, i);
    }
}

/* Some files name a window that no layer uses, or that is longer than any sequence. */
static void read_window(zest_config_reader *json, zest_model_config *config, local_rule rule) {
    int gemma = !strncmp(config->family, "gemma", 5);
    int qwen = !strncmp(config->family, "qwen", 4), used = !qwen || read_flag(json, "use_sliding_window", 0);
    read_local_layers(json, config, used ? rule : no_layer);
    for (size_t i = 0; qwen && i < read_size(json, "max_window_layers", 28) && i < ZEST_MODEL_LAYERS; i++)
        if (!find(json, "layer_types")) config->local_layers[i / 64] &= ~((uint64_t)1 << i % 64);
    if (find(json, "sliding_window") || gemma) config->window = read_size(json, "sliding_window", 4096);
    uint64_t any = 0;
    for (size_t i = 0; i < ZEST_MODEL_LAYERS / 64; i++) any |= config->local_layers[i];
    if (any && config->window && config->window < config->max_positions) return;
    config->window = 0;
    if (config->local_rope.base != 0) return; /* local layers also have rotary positions of their own */
    memset(config->local_layers, 0, sizeof config->local_layers);
}

static void describe_llama(zest_config_reader *json, zest_model_config *config) {
    int qwen = !strcmp(config->family, "qwen2"), phi = !strcmp(config->family, "phi3");
    config->vocab_size = read_size(json, "vocab_size", REQUIRED);
    config->hidden_size = config->embedding_size = read_size(json, "hidden_size", REQUIRED);
    config->layers = read_size(json, "num_hidden_layers", REQUIRED);
    config->heads = read_size(json, "num_attention_heads", REQUIRED);
    config->kv_heads = read_size(json, "num_key_value_heads", config->heads);
    config->ffn_size = read_size(json, "intermediate_size", REQUIRED);
    config->max_positions = read_size(json, "max_position_embeddings", 2048);
    config->head_dim = read_size(
        json, "head_dim", config->hidden_size / config->heads ? config->hidden_size / config->heads : 1);
    config->epsilon = (float)read_number(json, "rms_norm_eps", phi ? 1e-5 : 1e-6, epsilons);
    config->activation = read_activation(json, "hidden_act", "silu");
    config->tied_head = read_flag(json, "tie_word_embeddings", 0);
    config->rms_norm = config->gated = config->causal = config->final_norm = 1;
    config->stacked = phi;
    config->qk_norm = !strcmp(config->family, "qwen3");
    config->out_bias = qwen ? 0 : read_flag(json, "attention_bias", 0);
    config->qkv_bias = qwen ? 1 : config->out_bias;
    if (phi) require_flag(json, "attention_bias", 0);
    config->ffn_bias = qwen ? 0 : read_flag(json, "mlp_bias", 0);
    describe_rope(json, config->max_positions, &config->rope);
    if (strcmp(config->family, "llama") != 0) read_window(json, config, every_layer);
}

static const zest_family_names llama_names = {
    .prefix = "model.",
    .tokens = "model.embed_tokens",
    .layer = "model.layers.",
    .norm1 = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .q_norm = "self_attn.q_norm", /* Qwen3 */
    .k_norm = "self_attn.k_norm",
    .out = "self_attn.o_proj",
    .norm2 = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .final_norm = "model.norm",
    .head = "lm_head.weight",
};

static const zest_family_names phi3_names = {
    .prefix = "model.",
    .tokens = "model.embed_tokens",
    .layer = "model.layers.",
    .norm1 = "input_layernorm",
    .qkv = "self_attn.qkv_proj",
    .out = "self_attn.o_proj",
    .norm2 = "post_attention_layernorm",
    .gate = "mlp.gate_up_proj",
    .down = "mlp.down_proj",
    .final_norm = "model.norm",
    .head = "lm_head.weight",
};

/* ---- Gemma 2 and 3 ----
 *
 * As Llama, with norms of what attention and MLP add, gains stored less one, scaled embeddings, and local layers. Gemma
 * 2 caps scores and logits; Gemma 3 has norms of q and k, and rotary positions of their own in local layers. */

/* A soft cap; a null says that there is none, other than an absent key. */
static float read_cap(zest_config_reader *json, const char *key, double fallback) {
    const json_t *value = json_object_get(json->root, key);
    return json_is_null(value) ? 0 : (float)read_number(json, key, fallback, soft_caps);
}

/* Two tables: of full and of local layers. Older files have a base for each, which the keys name, and rope_scaling; newer
 * ones an object for each kind of layer. */
static void describe_two_ropes(zest_config_reader *json, zest_model_config *config, const char *global_key,
                               double global_base, const char *local_key) {
    const json_t *both = find(json, "rope_parameters"), *global = json_object_get(both, "full_attention"),
                 *local = json_object_get(both, "sliding_attention"), *scaling = find(json, "rope_scaling");
    config->rope =
        (zest_rope){.base = read_number(json, global_key, global_base, rope_bases), .factor = 1, .length = 1};
    config->local_rope =
        (zest_rope){.base = read_number(json, local_key, 1e4, rope_bases), .factor = 1, .length = 1};
    if (both && (!json_is_object(global) || !json_is_object(local)))
        refuse(json, "rope_parameters",
               "must have an object for full_attention and one for sliding_attention");
    else if (both) {
        describe_rope_scaling(json, global, "rope_parameters.full_attention", config->max_positions,
                              &config->rope, NULL);
        describe_rope_scaling(json, local, "rope_parameters.sliding_attention", config->max_positions,
                              &config->local_rope, NULL);
    } else if (scaling && !json_is_object(scaling))
        refuse(json, "rope_scaling", "must be an object");
    else if (scaling)
        describe_rope_scaling(json, scaling, "rope_scaling", config->max_positions, &config->rope, NULL);
}

static void describe_gemma(zest_config_reader *json, zest_model_config *config) {
    int third = !strcmp(config->family, "gemma3_text");
    config->vocab_size = read_size(json, "vocab_size", REQUIRED);
    config->hidden_size = config->embedding_size = read_size(json, "hidden_size", REQUIRED);
    config->layers = read_size(json, "num_hidden_layers", REQUIRED);
    config->heads = read_size(json, "num_attention_heads", REQUIRED);
    config->kv_heads = read_size(json, "num_key_value_heads", 4);
    config->ffn_size = read_size(json, "intermediate_size", REQUIRED);
    config->max_positions = read_size(json, "max_position_embeddings", third ? 131072 : 8192);
    config->head_dim = read_size(json, "head_dim", 256);
    config->epsilon = (float)read_number(json, "rms_norm_eps", 1e-6, epsilons);
    config->activation = read_activation(json, "hidden_activation", "gelu_pytorch_tanh");
    config->tied_head = read_flag(json, "tie_word_embeddings", 1);
    config->rms_norm = config->gated = config->causal = config->final_norm = config->branch_norms = 1;
    config->qk_norm = third;
    config->qkv_bias = config->out_bias = read_flag(json, "attention_bias", 0);
    config->norm_offset = 1;
    config->embedding_scale = sqrtf((float)config->hidden_size);
    config->attention_scale =
        (float)(1 / sqrt(read_number(json, "query_pre_attn_scalar", 256, position_counts)));
    config->score_cap = read_cap(json, "attn_logit_softcapping", third ? 0 : 50);
    config->logit_cap = read_cap(json, "final_logit_softcapping", third ? 0 : 30);
    require_flag(json, "use_bidirectional_attention", 0);
    if (third)
        describe_two_ropes(json, config, "rope_theta", 1e6, "rope_local_base_freq");
    else
        describe_rope(json, config->max_positions, &config->rope);
    read_window(json, config, (local_rule){1, third ? read_size(json, "sliding_window_pattern", 6) : 2});
}

static const zest_family_names gemma_names = {
    .prefix = "model.",
    .tokens = "model.embed_tokens",
    .layer = "model.layers.",
    .norm1 = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .q_norm = "self_attn.q_norm", /* Gemma 3 */
    .k_norm = "self_attn.k_norm",
    .out = "self_attn.o_proj",
    .out_norm = "post_attention_layernorm",
    .norm2 = "pre_feedforward_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .down_norm = "post_feedforward_layernorm",
    .final_norm = "model.norm",
    .head = "lm_head.weight",
};

/* ---- GPT-NeoX, Pythia ----
 *
 * Layer norms, biases, a part of each head rotated; attention and MLP side by side, unless a file says otherwise; q, k and
 * v of a head next to each other in the file. */

static void describe_neox(zest_config_reader *json, zest_model_config *config) {
    config->vocab_size = read_size(json, "vocab_size", REQUIRED);
    config->hidden_size = config->embedding_size = read_size(json, "hidden_size", REQUIRED);
    config->layers = read_size(json, "num_hidden_layers", REQUIRED);
    config->heads = config->kv_heads = read_size(json, "num_attention_heads", REQUIRED);
    config->ffn_size = read_size(json, "intermediate_size", REQUIRED);
    config->max_positions = read_size(json, "max_position_embeddings", 2048);
    config->epsilon = (float)read_number(json, "layer_norm_eps", 1e-5, epsilons);
    config->activation = read_activation(json, "hidden_act", "gelu");
    config->tied_head = read_flag(json, "tie_word_embeddings", 0);
    config->parallel_residual = read_flag(json, "use_parallel_residual", 1);
    config->causal = config->final_norm = config->stacked = config->by_heads = config->ffn_bias = 1;
    config->qkv_bias = config->out_bias = read_flag(json, "attention_bias", 1);
    config->head_dim = config->hidden_size / config->heads;
    if (config->hidden_size % config->heads || !config->head_dim)
        refuse(json, "num_attention_heads", "does not divide hidden_size");
    double part = read_number(json, "rotary_pct", 0.25, rotary_parts);
    config->rope = (zest_rope){
        .base = read_number(json, "rotary_emb_base", 10000, rope_bases), .factor = 1, .length = 1};
    read_rope_objects(json, config->max_positions, &config->rope, &part);
    config->rotary_dim = (size_t)((double)config->head_dim * part);
    if (!config->rotary_dim) refuse(json, "rotary_pct", "rotates nothing of a head");
}

static const zest_family_names neox_names = {
    .prefix = "gpt_neox.",
    .tokens = "gpt_neox.embed_in",
    .layer = "gpt_neox.layers.",
    .norm1 = "input_layernorm",
    .qkv = "attention.query_key_value",
    .out = "attention.dense",
    .norm2 = "post_attention_layernorm",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .final_norm = "gpt_neox.final_layer_norm",
    .head = "embed_out.weight",
    .head_alias = "lm_head.weight", /* transformers 5 */
};

/* ---- ModernBERT ----
 *
 * An encoder with rotary positions, local layers whose window reaches to both sides, a gated MLP, norms before the blocks
 * but not before the first attention, and hardly a bias. */

static void describe_modernbert(zest_config_reader *json, zest_model_config *config) {
    config->vocab_size = read_size(json, "vocab_size", REQUIRED);
    config->hidden_size = config->embedding_size = read_size(json, "hidden_size", REQUIRED);
    config->layers = read_size(json, "num_hidden_layers", REQUIRED);
    config->heads = config->kv_heads = read_size(json, "num_attention_heads", REQUIRED);
    config->ffn_size = read_size(json, "intermediate_size", REQUIRED);
    config->max_positions = read_size(json, "max_position_embeddings", 8192);
    config->epsilon = (float)read_number(json, "norm_eps", 1e-5, epsilons);
    config->activation = read_activation(json, "hidden_activation", "gelu");
    config->head_activation = read_activation(json, "classifier_activation", "gelu");
    config->tied_head = read_flag(json, "tie_word_embeddings", 1);
    config->embedding_norm = config->final_norm = config->head_transform = config->gated = 1;
    config->stacked = config->plain_start = 1;
    config->norm_bias = read_flag(json, "norm_bias", 0);
    config->qkv_bias = config->out_bias = read_flag(json, "attention_bias", 0);
    config->ffn_bias = read_flag(json, "mlp_bias", 0);
    config->head_dense_bias = read_flag(json, "classifier_bias", 0);
    config->head_bias = read_flag(json, "decoder_bias", 1);
    config->head_dim = config->hidden_size / config->heads;
    if (config->hidden_size % config->heads)
        refuse(json, "num_attention_heads", "does not divide hidden_size");
    describe_two_ropes(json, config, "global_rope_theta", 160000, "local_rope_theta");
    config->window = read_size(json, "local_attention", 128) / 2 + 1; /* half of it to each side */
    read_local_layers(json, config, (local_rule){0, read_size(json, "global_attn_every_n_layers", 3)});
}

static const zest_family_names modernbert_names = {
    .prefix = "model.",
    .tokens = "model.embeddings.tok_embeddings",
    .embedding_norm = "model.embeddings.norm",
    .layer = "model.layers.",
    .norm1 = "attn_norm",
    .qkv = "attn.Wqkv",
    .out = "attn.Wo",
    .norm2 = "mlp_norm",
    .gate = "mlp.Wi",
    .down = "mlp.Wo",
    .final_norm = "model.final_norm",
    .head_dense = "head.dense",
    .head_norm = "head.norm",
    .head = "decoder.weight",
    .head_bias = "decoder.bias",
};

/* ---- The table ---- */

static const zest_family families[] = {
    {{"roberta", "xlm-roberta", "camembert"}, describe_roberta, &roberta_names, "AutoModelForMaskedLM"},
    {{"bert"}, describe_bert, &bert_names, "AutoModelForMaskedLM"},
    {{"distilbert"}, describe_distilbert, &distilbert_names, "AutoModelForMaskedLM"},
    {{"opt"}, describe_opt, &opt_names, "AutoModelForCausalLM"},
    {{"gpt2"}, describe_gpt2, &gpt2_names, "AutoModelForCausalLM"},
    {{"llama", "qwen2", "qwen3", "mistral"}, describe_llama, &llama_names, "AutoModelForCausalLM"},
    {{"phi3"}, describe_llama, &phi3_names, "AutoModelForCausalLM"},
    {{"gemma2", "gemma3_text"}, describe_gemma, &gemma_names, "AutoModelForCausalLM"},
    {{"gpt_neox"}, describe_neox, &neox_names, "AutoModelForCausalLM"},
    {{"modernbert"}, describe_modernbert, &modernbert_names, "AutoModelForMaskedLM"},
};

static const zest_family *find_type(const char *type) {
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t i = 0; i < 4 && families[f].types[i]; i++)
            if (!strcmp(type, families[f].types[i])) return &families[f];
    return NULL;
}

static void check(zest_config_reader *json, zest_model_config *config) {
    if (config->layers > ZEST_MODEL_LAYERS) refuse(json, "layers", "are too many (4096 at most)");
    if (config->heads % config->kv_heads) refuse(json, "num_key_value_heads", "does not divide the heads");
    if (config->head_dim * config->heads > LARGEST_SIZE) refuse(json, "heads", "are too large");
    size_t rotary = zest_model_rotary_dim(config);
    if (!config->position_rows && rotary % 2) refuse(json, "head_dim", "must be even for rotary positions");
    if (rotary > config->head_dim) refuse(json, "head_dim", "is smaller than its rotated part");
}

zest_status zest_family_of(const json_t *root, const char *path, const zest_family **family,
                           zest_error *error) {
    zest_config_reader json = {.root = root, .path = path, .error = error};
    if (!json_is_object(root))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: is not a JSON object", path);
    const char *type = read_string(&json, "model_type", NULL);
    if (!type) {
        refuse(&json, "model_type", "is missing");
        return json.status;
    }
    *family = find_type(type);
    if (*family) return ZEST_OK;
    char known[256] = "";
    size_t length = 0;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t i = 0; i < 4 && families[f].types[i] && length < sizeof known; i++)
            length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", length ? ", " : "",
                                       families[f].types[i]);
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: zest does not support model_type '%.100s' (it supports %s)", path, type,
                          known);
}

zest_status zest_family_describe(const json_t *root, const char *path, zest_model_config *out,
                                 const zest_family_names **names, zest_error *error) {
    zest_config_reader json = {.root = root, .path = path, .error = error};
    const zest_family *family;
    zest_status status = zest_family_of(root, path, &family, error);
    if (status) return status;
    const char *type = json_string_value(json_object_get(root, "model_type"));
    *out = (zest_model_config){.norm_bias = 1, .head_dense_bias = 1};
    for (size_t i = 0; i < 4 && family->types[i]; i++)
        if (!strcmp(type, family->types[i])) out->family = family->types[i];
    family->describe(&json, out);
    if (!json.status) check(&json, out);
    *names = family->names;
    return json.status;
}
