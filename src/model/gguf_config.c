/* GGUF as Hugging Face would write it: metadata as config.json, tensors by their names there. gguf_export.c goes the
 * other way. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "model/model_files.h"

typedef struct {
    zest_model_source *source;
    const zest_gguf_architecture *architecture;
    zest_error *error;
    zest_status status; /* the first error sticks */
} gguf_ctx;

/* ---- Architectures ---- */

static const zest_gguf_key rotary_keys[] = {
    {"embedding_length", "hidden_size", ZEST_GGUF_KEY_SIZE},
    {"attention.head_count", "num_attention_heads", ZEST_GGUF_KEY_SIZE},
    {"attention.head_count_kv", "num_key_value_heads", ZEST_GGUF_KEY_OPTIONAL},
    {"attention.key_length", "head_dim", ZEST_GGUF_KEY_OPTIONAL},
    {"block_count", "num_hidden_layers", ZEST_GGUF_KEY_SIZE},
    {"feed_forward_length", "intermediate_size", ZEST_GGUF_KEY_SIZE},
    {"context_length", "max_position_embeddings", ZEST_GGUF_KEY_OPTIONAL},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", ZEST_GGUF_KEY_NUMBER},
    {"rope.freq_base", "rope_theta", ZEST_GGUF_KEY_NUMBER},
    {NULL, NULL, ZEST_GGUF_KEY_SIZE},
};

static const zest_gguf_key gemma_keys[] = {
    {"embedding_length", "hidden_size", ZEST_GGUF_KEY_SIZE},
    {"attention.head_count", "num_attention_heads", ZEST_GGUF_KEY_SIZE},
    {"attention.head_count_kv", "num_key_value_heads", ZEST_GGUF_KEY_SIZE},
    {"attention.key_length", "head_dim", ZEST_GGUF_KEY_SIZE},
    {"block_count", "num_hidden_layers", ZEST_GGUF_KEY_SIZE},
    {"feed_forward_length", "intermediate_size", ZEST_GGUF_KEY_SIZE},
    {"context_length", "max_position_embeddings", ZEST_GGUF_KEY_OPTIONAL},
    {"attention.sliding_window", "sliding_window", ZEST_GGUF_KEY_SIZE},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", ZEST_GGUF_KEY_NUMBER},
    {"attn_logit_softcapping", "attn_logit_softcapping", ZEST_GGUF_KEY_NUMBER},
    {"final_logit_softcapping", "final_logit_softcapping", ZEST_GGUF_KEY_NUMBER},
    {"rope.freq_base", "rope_theta", ZEST_GGUF_KEY_NUMBER},
    {"rope.freq_base_swa", "rope_local_base_freq", ZEST_GGUF_KEY_NUMBER},
    {NULL, NULL, ZEST_GGUF_KEY_SIZE},
};

static const zest_gguf_key gpt2_keys[] = {
    {"embedding_length", "n_embd", ZEST_GGUF_KEY_SIZE},
    {"attention.head_count", "n_head", ZEST_GGUF_KEY_SIZE},
    {"block_count", "n_layer", ZEST_GGUF_KEY_SIZE},
    {"feed_forward_length", "n_inner", ZEST_GGUF_KEY_OPTIONAL},
    {"context_length", "n_positions", ZEST_GGUF_KEY_SIZE},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", ZEST_GGUF_KEY_NUMBER},
    {NULL, NULL, ZEST_GGUF_KEY_SIZE},
};

static const zest_gguf_architecture architectures[] = {
    {"llama", {"llama", "mistral"}, "LlamaForCausalLM", "hidden_act", "silu", rotary_keys, 1, 0, 0},
    {"qwen2", {"qwen2"}, "Qwen2ForCausalLM", "hidden_act", "silu", rotary_keys, 0, 0, 0},
    {"qwen3", {"qwen3"}, "Qwen3ForCausalLM", "hidden_act", "silu", rotary_keys, 0, 0, 0},
    {"phi3", {"phi3"}, "Phi3ForCausalLM", "hidden_act", "silu", rotary_keys, 0, 0, 0},
    {"gpt2", {"gpt2"}, "GPT2LMHeadModel", "activation_function", "gelu_new", gpt2_keys, 0, 0, 0},
    {"gemma2",
     {"gemma2"},
     "Gemma2ForCausalLM",
     "hidden_activation",
     "gelu_pytorch_tanh",
     gemma_keys,
     0,
     1,
     46},
    {"gemma3",
     {"gemma3_text"},
     "Gemma3ForCausalLM",
     "hidden_activation",
     "gelu_pytorch_tanh",
     gemma_keys,
     0,
     1,
     62},
};

enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

const zest_gguf_architecture *zest_gguf_architecture_of(const char *family) {
    for (size_t i = 0; i < ARCHITECTURES; i++)
        for (size_t f = 0; f < 2 && architectures[i].families[f]; f++)
            if (!strcmp(family, architectures[i].families[f])) return &architectures[i];
    return NULL;
}

float zest_gguf_offset(const zest_gguf_architecture *architecture, const char *name) {
    static const char end[] = "norm.weight";
    size_t length = strlen(name), tail = sizeof end - 1;
    return architecture->gemma && length > tail && !strcmp(name + length - tail, end) ? 1 : 0;
}

size_t zest_gguf_query_scalar(const zest_gguf_architecture *architecture, size_t layers, size_t hidden_size,
                              size_t heads, size_t head_dim) {
    return layers == architecture->wide_layers ? hidden_size / heads : head_dim;
}

/* Parts of names: as Hugging Face spells them, and as GGUF does. The first few are Gemma's, where a name of Llama's
 * stands for another norm. */
int zest_gguf_name_of(const zest_gguf_architecture *architecture, const char *name, char *out, size_t size) {
    enum { GEMMA_NAMES = 3 };
    static const char *const names[][2] = {
        {"post_attention_layernorm.", "post_attention_norm."},
        {"pre_feedforward_layernorm.", "ffn_norm."},
        {"post_feedforward_layernorm.", "post_ffw_norm."},
        {"input_layernorm.", "attn_norm."},
        {"self_attn.q_proj.", "attn_q."},
        {"self_attn.k_proj.", "attn_k."},
        {"self_attn.v_proj.", "attn_v."},
        {"self_attn.o_proj.", "attn_output."},
        {"self_attn.q_norm.", "attn_q_norm."},
        {"self_attn.k_norm.", "attn_k_norm."},
        {"post_attention_layernorm.", "ffn_norm."},
        {"mlp.gate_proj.", "ffn_gate."},
        {"mlp.up_proj.", "ffn_up."},
        {"mlp.down_proj.", "ffn_down."},
        {"self_attn.qkv_proj.", "attn_qkv."},
        {"mlp.gate_up_proj.", "ffn_up."},
        {"model.embed_tokens.", "token_embd."},
        {"model.norm.", "output_norm."},
        {"lm_head.", "output."},
        {"ln_1.", "attn_norm."},
        {"attn.c_attn.", "attn_qkv."},
        {"attn.c_proj.", "attn_output."},
        {"ln_2.", "ffn_norm."},
        {"mlp.c_fc.", "ffn_up."},
        {"mlp.c_proj.", "ffn_down."},
        {"transformer.wte.", "token_embd."},
        {"transformer.wpe.", "position_embd."},
        {"transformer.ln_f.", "output_norm."},
    };
    unsigned layer = 0;
    int end = 0;
    int inside = (sscanf(name, "model.layers.%u.%n", &layer, &end) == 1 && end > 0) ||
                 (sscanf(name, "transformer.h.%u.%n", &layer, &end) == 1 && end > 0);
    const char *stem = inside ? name + end : name;
    for (size_t i = architecture->gemma ? 0 : GEMMA_NAMES; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i][0]);
        if (strncmp(stem, names[i][0], length) != 0) continue;
        if (inside)
            snprintf(out, size, "blk.%u.%s%s", layer, names[i][1], stem + length);
        else
            snprintf(out, size, "%s%s", names[i][1], stem + length);
        return 1;
    }
    return 0;
}

int zest_gguf_is_transposed(const char *name) {
    static const char *const stems[] = {"attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight",
                                        "mlp.c_proj.weight"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        size_t end = strlen(stems[i]);
        if (length > end && !strcmp(name + length - end, stems[i])) return 1;
    }
    return 0;
}

size_t zest_gguf_rotary_heads(const zest_gguf_architecture *architecture, const char *name, size_t heads,
                              size_t kv_heads) {
    if (!architecture->interleaved) return 0;
    return strstr(name, ".q_proj.") ? heads : strstr(name, ".k_proj.") ? kv_heads : 0;
}

/* ---- Keys ---- */

static zest_status refuse(gguf_ctx *r, const char *what) {
    if (!r->status)
        r->status = zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: %s, which zest does not support",
                                   r->source->path, what);
    return r->status;
}

static const zest_gguf_value *find(const gguf_ctx *r, const char *key) {
    char full_key[96];
    snprintf(full_key, sizeof full_key, "%s.%s", r->architecture->name, key);
    return zest_gguf_find(r->source->gguf, full_key);
}

/* An absent key that is not required is left out of the configuration, which then has its own default. */
static uint64_t put_whole(gguf_ctx *r, const zest_gguf_key *key) {
    uint64_t value = 0;
    const zest_gguf_value *stored = find(r, key->gguf); /* a list would be one number a layer */
    int found = stored && !zest_gguf_value_is_array(stored) && zest_gguf_value_u64(stored, 0, &value) &&
                value <= INT64_MAX;
    if (!found && (key->kind == ZEST_GGUF_KEY_SIZE || stored) && !r->status)
        r->status =
            zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: key '%s.%s' is missing or no whole number",
                           r->source->path, r->architecture->name, key->gguf);
    if (found) zest_json_set(&r->source->config_json, key->config, json_integer((json_int_t)value));
    return value;
}

/* A finite number; NAN: there is none. JSON has no NaN and no infinity: without the check such a value would be left
 * out, too. */
static double read_number(gguf_ctx *r, const char *key) {
    const zest_gguf_value *stored = find(r, key);
    double value;
    if (!stored) return NAN;
    if (!zest_gguf_value_is_array(stored) && zest_gguf_value_f64(stored, 0, &value) && isfinite(value))
        return value;
    if (!r->status)
        r->status = zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: key '%s.%s' must be a finite number",
                                   r->source->path, r->architecture->name, key);
    return NAN;
}

static void put_keys(gguf_ctx *r) {
    for (const zest_gguf_key *key = r->architecture->keys; key->gguf; key++) {
        if (key->kind != ZEST_GGUF_KEY_NUMBER) {
            put_whole(r, key);
            continue;
        }
        double value = read_number(r, key->gguf);
        if (!isnan(value)) zest_json_set(&r->source->config_json, key->config, json_real(value));
    }
}

static uint64_t stored_size(const gguf_ctx *r, const char *key) {
    uint64_t value = 0;
    zest_gguf_value_u64(find(r, key), 0, &value);
    return value;
}

/* Scales that zest does not have: each must be absent, 0 (which means absent) or 1. */
static void refuse_scales(gguf_ctx *r) {
    static const char *const keys[] = {"rope.scaling.attn_factor", "logit_scale", "residual_scale",
                                       "embedding_scale"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !r->status; i++) {
        double value = read_number(r, keys[i]);
        if (isnan(value) || value == 0 || value == 1) continue;
        r->status = zest_error_set(r->error, ZEST_ERROR_FORMAT,
                                   "%s: key '%s.%s' is not 1, which zest does not support", r->source->path,
                                   r->architecture->name, keys[i]);
    }
}

static void put_token(gguf_ctx *r, const char *key, const char *name) {
    uint64_t id;
    if (zest_gguf_value_u64(zest_gguf_find(r->source->gguf, key), 0, &id) && id <= INT32_MAX)
        zest_json_set(&r->source->config_json, name, json_integer((json_int_t)id));
}

/* ---- Rotary positions ---- */

static int is_text(const char *text, size_t size, const char *wanted) {
    return size == strlen(wanted) && !memcmp(text, wanted, size);
}

/* rope_scaling of config.json: linear (in older files a key of its own) or YaRN, with its factor. */
static void put_scaling(gguf_ctx *r) {
    const char *text = "none";
    size_t size = 4;
    char what[96];
    zest_gguf_value_string(find(r, "rope.scaling.type"), 0, &text, &size);
    double factor = read_number(r, "rope.scaling.factor"), old = read_number(r, "rope.scale_linear"),
           trained = read_number(r, "rope.scaling.original_context_length");
    int linear = is_text(text, size, "linear"), yarn = is_text(text, size, "yarn");
    if (!linear && !yarn && !is_text(text, size, "none")) {
        snprintf(what, sizeof what, "key 'rope.scaling.type' is %.*s", size < 40 ? (int)size : 40, text);
        refuse(r, zest_text_is_printable(what, strlen(what)) ? what : "key 'rope.scaling.type'");
        return;
    }
    if (isnan(factor)) factor = old;
    if (isnan(factor) || factor == 0 || factor == 1) return;
    json_t *scaling = json_pack("{s:s, s:f}", "rope_type", yarn ? "yarn" : "linear", "factor", factor);
    if (yarn && !isnan(trained))
        zest_json_set(&scaling, "original_max_position_embeddings", json_real(trained));
    zest_json_set(&r->source->config_json, "rope_scaling", scaling);
}

static int is_llama3(const zest_rope *rope, const float *factors, size_t count) {
    float plain[ZEST_GGUF_FREQUENCIES], scaled[ZEST_GGUF_FREQUENCIES];
    zest_rope_frequencies(&(zest_rope){.base = rope->base}, 2 * count, plain);
    zest_rope_frequencies(rope, 2 * count, scaled);
    for (size_t i = 0; i < count; i++) {
        double wanted = (double)plain[i] / (double)scaled[i];
        if (!(fabs((double)factors[i] - wanted) <= 1e-4 * wanted)) return 0;
    }
    return 1;
}

/* The file has the factor of every frequency, config.json what they come from. Llama 3's models differ in the factor,
 * which is that of the lowest frequency, and in the number of positions they were trained on. */
static zest_status recognise_llama3(gguf_ctx *r, const float *factors, size_t count) {
    double base = read_number(r, "rope.freq_base");
    zest_rope rope = {.kind = ZEST_ROPE_LLAMA3,
                      .base = isnan(base) ? 10000 : base,
                      .factor = (double)factors[count - 1],
                      .low_factor = 1,
                      .high_factor = 4};
    for (double positions = 8; positions <= 1 << 20; positions *= 2) {
        rope.trained_positions = positions;
        if (!is_llama3(&rope, factors, count)) continue;
        zest_json_set(&r->source->config_json, "rope_scaling",
                      json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", rope.factor,
                                "low_freq_factor", rope.low_factor, "high_freq_factor", rope.high_factor,
                                "original_max_position_embeddings", (json_int_t)positions));
        return ZEST_OK;
    }
    return refuse(r, "tensor 'rope_freqs.weight' is not Llama 3's scaling");
}

static void put_frequencies(gguf_ctx *r, size_t head_size) {
    const zest_gguf_tensor *tensor = zest_gguf_find_tensor(r->source->gguf, "rope_freqs.weight");
    float factors[ZEST_GGUF_FREQUENCIES];
    if (!tensor || r->status) return;
    if (tensor->rank != 1 || tensor->columns * 2 != head_size || !tensor->columns ||
        tensor->columns > ZEST_GGUF_FREQUENCIES) {
        refuse(r, "tensor 'rope_freqs.weight' does not have a number for each frequency");
        return;
    }
    r->status = zest_gguf_read(tensor, 0, 1, factors, r->error);
    if (!r->status) recognise_llama3(r, factors, tensor->columns);
}

static void read_rope(gguf_ctx *r, size_t head_size) {
    uint64_t rotated;
    put_scaling(r);
    put_frequencies(r, head_size);
    if (zest_gguf_value_u64(find(r, "rope.dimension_count"), 0, &rotated) && rotated != head_size)
        refuse(r, "key 'rope.dimension_count' is not the size of a head");
}

/* ---- The whole ---- */

static zest_status read_architecture(gguf_ctx *r) {
    const char *bytes;
    size_t size;
    r->status = zest_gguf_get_string(r->source->gguf, "general.architecture", &bytes, &size, r->error);
    if (r->status) return r->status;
    for (size_t i = 0; i < ARCHITECTURES && !r->architecture; i++)
        if (size == strlen(architectures[i].name) && !memcmp(bytes, architectures[i].name, size))
            r->architecture = &architectures[i];
    if (!r->architecture)
        return r->status = zest_error_set(r->error, ZEST_ERROR_FORMAT,
                                          "%s: zest reads the GGUF architectures llama, qwen2, qwen3, phi3, "
                                          "gpt2, gemma2 and gemma3, not '%.*s'",
                                          r->source->path, size < 64 ? (int)size : 64, bytes);
    const zest_gguf_architecture *a = r->architecture;
    r->source->architecture = a;
    zest_json_set(&r->source->config_json, "architectures", json_pack("[s]", a->class_name));
    zest_json_set(&r->source->config_json, "model_type", json_string(a->families[0]));
    zest_json_set(&r->source->config_json, a->activation_key, json_string(a->activation));
    return ZEST_OK;
}

static void refuse_options(gguf_ctx *r) {
    refuse_scales(r);
    if (find(r, "attention.scale")) refuse(r, "key 'attention.scale' is set");
    if (find(r, "attention.sliding_window") && !r->architecture->gemma)
        refuse(r, "key 'attention.sliding_window' is set");
    if (zest_gguf_find_tensor(r->source->gguf, "blk.0.ffn_gate_inp.weight"))
        refuse(r, "the model is a mixture of experts");
}

zest_status zest_gguf_configure(zest_model_source *source, zest_error *error) {
    gguf_ctx r = {.source = source, .error = error};
    source->config_json = json_object();
    if (!source->config_json) return zest_error_memory(error, source->path, 0);
    if (read_architecture(&r)) return r.status;
    put_keys(&r);
    put_token(&r, "tokenizer.ggml.bos_token_id", "bos_token_id");
    put_token(&r, "tokenizer.ggml.eos_token_id", "eos_token_id");
    if (r.status) return r.status;
    uint64_t width = stored_size(&r, "embedding_length"), heads = stored_size(&r, "attention.head_count"),
             kv_heads = stored_size(&r, "attention.head_count_kv"),
             head_size = stored_size(&r, "attention.key_length");
    if (!heads || width > (uint64_t)1 << 28 || heads > width)
        return refuse(&r, "the number of heads is out of range");
    refuse_options(&r);
    if (!head_size) head_size = width / heads;
    if (r.architecture->keys != gpt2_keys) read_rope(&r, (size_t)head_size);
    if (r.architecture->gemma)
        zest_json_set(&source->config_json, "query_pre_attn_scalar",
                      json_integer((json_int_t)zest_gguf_query_scalar(
                          r.architecture, (size_t)stored_size(&r, "block_count"), (size_t)width,
                          (size_t)heads, (size_t)head_size)));
    const zest_gguf_tensor *tokens = zest_gguf_find_tensor(source->gguf, "token_embd.weight");
    if (!tokens && !r.status)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: tensor 'token_embd.weight' is missing",
                              source->path);
    if (tokens) zest_json_set(&source->config_json, "vocab_size", json_integer((json_int_t)tokens->rows));
    zest_json_set(&source->config_json, "tie_word_embeddings",
                  json_boolean(!zest_gguf_find_tensor(source->gguf, "output.weight")));
    source->heads = (size_t)heads;
    source->kv_heads = (size_t)(kv_heads ? kv_heads : heads);
    if (!source->config_json && !r.status) return zest_error_memory(error, source->path, 0);
    return r.status;
}
