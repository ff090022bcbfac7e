/* GGUF seen through Hugging Face's eyes: the metadata as a config.json, the tensors under their names there.
 */
#include <stdio.h>
#include <string.h>

#include "models/model_source.h"

typedef struct {
    zest_model_source *source;
    char architecture[16];
    zest_error *error;
    zest_status status;
} reading;

static const zest_gguf_value *find(const reading *r, const char *key) {
    char room[96];
    snprintf(room, sizeof room, "%s.%s", r->architecture, key);
    return zest_gguf_find(r->source->gguf, room);
}

/* required: an absent key is an error; else it is left out of the configuration, which then has its own
 * default. */
static uint64_t put_whole(reading *r, const char *key, const char *name, int required) {
    uint64_t value = 0;
    const zest_gguf_value *stored = find(r, key); /* a list would be one number a layer */
    int found = stored && !zest_gguf_value_is_array(stored) && zest_gguf_value_u64(stored, 0, &value) &&
                value <= INT64_MAX;
    if (!found && (required || stored) && !r->status)
        r->status =
            zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: key '%s.%s' is missing or no whole number",
                           r->source->path, r->architecture, key);
    if (found) json_object_set_new(r->source->config, name, json_integer((json_int_t)value));
    return value;
}

static void put_number(reading *r, const char *key, const char *name) {
    double value;
    if (zest_gguf_value_f64(find(r, key), 0, &value))
        json_object_set_new(r->source->config, name, json_real(value));
}

static void put_token(reading *r, const char *key, const char *name) {
    uint64_t id;
    if (zest_gguf_value_u64(zest_gguf_find(r->source->gguf, key), 0, &id) && id <= INT32_MAX)
        json_object_set_new(r->source->config, name, json_integer((json_int_t)id));
}

static zest_status refuse(reading *r, const char *what) {
    if (!r->status)
        r->status = zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: %s, which zest does not support",
                                   r->source->path, what);
    return r->status;
}

static zest_status read_architecture(reading *r) {
    const char *bytes;
    size_t size;
    r->status = zest_gguf_get_string(r->source->gguf, "general.architecture", &bytes, &size, r->error);
    if (r->status) return r->status;
    int known = (size == 5 && !memcmp(bytes, "llama", 5)) || (size == 5 && !memcmp(bytes, "qwen2", 5));
    if (!known)
        return r->status = zest_error_set(r->error, ZEST_ERROR_FORMAT,
                                          "%s: zest reads the GGUF architectures llama and qwen2, not '%.*s'",
                                          r->source->path, size < 64 ? (int)size : 64, bytes);
    memcpy(r->architecture, bytes, size);
    r->source->interleaved = !strcmp(r->architecture, "llama");
    json_object_set_new(r->source->config, "architectures",
                        json_pack("[s]", r->source->interleaved ? "LlamaForCausalLM" : "Qwen2ForCausalLM"));
    json_object_set_new(r->source->config, "model_type", json_string(r->architecture));
    return ZEST_OK;
}

static void refuse_options(reading *r, size_t head_size) {
    const char *text;
    size_t size;
    if (zest_gguf_value_string(find(r, "rope.scaling.type"), 0, &text, &size) &&
        !(size == 4 && !memcmp(text, "none", 4)))
        refuse(r, "key 'rope.scaling.type' is set");
    if (find(r, "attention.sliding_window")) refuse(r, "key 'attention.sliding_window' is set");
    if (zest_gguf_find_tensor(r->source->gguf, "rope_freqs.weight"))
        refuse(r, "tensor 'rope_freqs.weight' is there");
    if (zest_gguf_find_tensor(r->source->gguf, "blk.0.ffn_gate_inp.weight"))
        refuse(r, "the model is a mixture of experts");
    uint64_t rotated;
    if (zest_gguf_value_u64(find(r, "rope.dimension_count"), 0, &rotated) && rotated != head_size)
        refuse(r, "key 'rope.dimension_count' is not the size of a head");
}

zest_status zest_model_gguf_configure(zest_model_source *source, zest_error *error) {
    reading r = {.source = source, .error = error};
    source->config = json_object();
    if (!source->config) return zest_error_memory(error, source->path, 0);
    if (read_architecture(&r)) return r.status;
    uint64_t width = put_whole(&r, "embedding_length", "hidden_size", 1);
    uint64_t heads = put_whole(&r, "attention.head_count", "num_attention_heads", 1);
    uint64_t kv_heads = put_whole(&r, "attention.head_count_kv", "num_key_value_heads", 0);
    uint64_t head_size = put_whole(&r, "attention.key_length", "head_dim", 0);
    put_whole(&r, "block_count", "num_hidden_layers", 1);
    put_whole(&r, "feed_forward_length", "intermediate_size", 1);
    put_whole(&r, "context_length", "max_position_embeddings", 0);
    put_number(&r, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
    put_number(&r, "rope.freq_base", "rope_theta");
    put_token(&r, "tokenizer.ggml.bos_token_id", "bos_token_id");
    put_token(&r, "tokenizer.ggml.eos_token_id", "eos_token_id");
    if (r.status) return r.status;
    if (!heads || width > (uint64_t)1 << 28 || heads > width)
        return refuse(&r, "the number of heads is out of range");
    refuse_options(&r, (size_t)(head_size ? head_size : width / heads));
    const zest_gguf_tensor *tokens = zest_gguf_find_tensor(source->gguf, "token_embd.weight");
    if (!tokens && !r.status)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: tensor 'token_embd.weight' is missing",
                              source->path);
    if (tokens) json_object_set_new(source->config, "vocab_size", json_integer((json_int_t)tokens->rows));
    json_object_set_new(source->config, "hidden_act", json_string("silu"));
    json_object_set_new(source->config, "tie_word_embeddings",
                        json_boolean(!zest_gguf_find_tensor(source->gguf, "output.weight")));
    source->heads = (size_t)heads;
    source->kv_heads = (size_t)(kv_heads ? kv_heads : heads);
    return r.status;
}

int zest_model_gguf_name(const char *name, char *out, size_t size) {
    static const char *const names[][2] = {
        {"input_layernorm.", "attn_norm."},    {"self_attn.q_proj.", "attn_q."},
        {"self_attn.k_proj.", "attn_k."},      {"self_attn.v_proj.", "attn_v."},
        {"self_attn.o_proj.", "attn_output."}, {"post_attention_layernorm.", "ffn_norm."},
        {"mlp.gate_proj.", "ffn_gate."},       {"mlp.up_proj.", "ffn_up."},
        {"mlp.down_proj.", "ffn_down."},       {"model.embed_tokens.", "token_embd."},
        {"model.norm.", "output_norm."},       {"lm_head.", "output."},
    };
    unsigned layer = 0;
    int end = 0;
    int inside = sscanf(name, "model.layers.%u.%n", &layer, &end) == 1 && end > 0;
    const char *stem = inside ? name + end : name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
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
