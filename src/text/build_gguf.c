/* Tokenizers from a GGUF file: its keys tokenizer.ggml.*, gathered into arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

static const zest_gguf_value *find(const zest_gguf *file, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    return zest_gguf_find(file, key);
}

/* An id, or -1. One that is no id at all is passed on as too large, to be refused with the others. */
static int32_t id_at(const zest_gguf *file, const char *name) {
    uint64_t id;
    if (!zest_gguf_value_u64(find(file, name), 0, &id)) return -1;
    return id < INT32_MAX ? (int32_t)id : INT32_MAX;
}

static int flag_at(const zest_gguf *file, const char *name) {
    int flag = -1;
    zest_gguf_value_bool(find(file, name), 0, &flag);
    return flag;
}

/* A copy with a NUL behind it; NULL when there is none, or no memory. */
static char *text_at(const zest_gguf *file, const char *name) {
    const char *bytes;
    size_t size;
    return zest_gguf_value_string(find(file, name), 0, &bytes, &size) ? strndup(bytes, size) : NULL;
}

static zest_status read_texts(const zest_gguf_value *value, const char *what, const char *name,
                              zest_tokenizer_text **out, zest_error *error) {
    size_t count = value ? zest_gguf_value_count(value) : 0;
    *out = calloc(count + 1, sizeof **out);
    if (!*out) return zest_error_memory(error, name, count * sizeof **out);
    for (size_t i = 0; i < count; i++)
        if (!zest_gguf_value_string(value, i, &(*out)[i].data, &(*out)[i].size))
            return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: tokenizer.ggml.%s must be a list of strings",
                                  name, what);
    return ZEST_OK;
}

/* Lists that go with the tokens must be as long as theirs. */
static zest_status check_length(const zest_gguf_value *value, size_t count, const char *what,
                                const char *name, zest_error *error) {
    if (!value || zest_gguf_value_count(value) == count) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: there are %zu tokens but %zu in tokenizer.ggml.%s",
                          name, count, zest_gguf_value_count(value), what);
}

typedef struct {
    char *model, *pre;
    zest_tokenizer_text *tokens, *merges;
    float *scores;
    int32_t *types;
} gathered;

static zest_status gather(const zest_gguf *file, const char *name, gathered *g, zest_tokenizer_arrays *a,
                          zest_error *error) {
    const zest_gguf_value *tokens = find(file, "tokens"), *merges = find(file, "merges"),
                          *scores = find(file, "scores"), *types = find(file, "token_type");
    if (!tokens || !find(file, "model"))
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: holds no tokenizer (tokenizer.ggml.model and .tokens); give a tokenizer.json as well", name);
    g->model = text_at(file, "model");
    g->pre = text_at(file, "pre");
    if (!g->model || (find(file, "pre") && !g->pre))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: tokenizer.ggml.model and .pre must be strings",
                              name);
    a->count = zest_gguf_value_count(tokens);
    a->merge_count = merges ? zest_gguf_value_count(merges) : 0;
    g->scores = calloc(a->count + 1, sizeof *g->scores);
    g->types = calloc(a->count + 1, sizeof *g->types);
    if (!g->scores || !g->types) return zest_error_memory(error, name, a->count * 8);
    zest_status status = read_texts(tokens, "tokens", name, &g->tokens, error);
    if (!status) status = read_texts(merges, "merges", name, &g->merges, error);
    if (!status) status = check_length(scores, a->count, "scores", name, error);
    if (!status) status = check_length(types, a->count, "token_type", name, error);
    for (size_t i = 0; i < a->count && !status; i++) {
        double score = 0;
        int64_t type = 1;
        zest_gguf_value_f64(scores, i, &score);
        zest_gguf_value_i64(types, i, &type);
        g->scores[i] = (float)score;
        g->types[i] = type >= 1 && type <= 6 ? (int32_t)type : 1;
    }
    a->scores = scores ? g->scores : NULL;
    a->types = g->types;
    return status;
}

zest_tokenizer *zest_tokenizer_from_gguf(const zest_gguf *file, const char *name, zest_error *error) {
    zest_tokenizer_arrays a = {
        .bos = id_at(file, "bos_token_id"),
        .eos = id_at(file, "eos_token_id"),
        .pad = id_at(file, "padding_token_id"),
        .unk = id_at(file, "unknown_token_id"),
        .sep = id_at(file, "seperator_token_id"), /* so it is spelt in the format */
        .cls = id_at(file, "cls_token_id"),
        .mask = id_at(file, "mask_token_id"),
        .add_bos = flag_at(file, "add_bos_token"),
        .add_eos = flag_at(file, "add_eos_token"),
        .add_space_prefix = flag_at(file, "add_space_prefix"),
    };
    gathered g = {0};
    zest_tokenizer *tokenizer = NULL;
    if (!gather(file, name, &g, &a, error)) {
        a.model = g.model, a.pre = g.pre, a.tokens = g.tokens, a.merges = g.merges;
        tokenizer = zest_tokenizer_from_arrays(&a, name, error);
    }
    free(g.model);
    free(g.pre);
    free(g.tokens);
    free(g.merges);
    free(g.scores);
    free(g.types);
    return tokenizer;
}
