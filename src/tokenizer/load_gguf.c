/* Tokenizers from GGUF files: the keys tokenizer.ggml.*, read into arrays, and the construction from those
 * arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/load.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_internal.h"

static const zest_gguf_value *find(const zest_gguf *file, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    return zest_gguf_find(file, key);
}

/* An id, or -1. A value that cannot be an id is returned as a too large one, which is refused later. */
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

/* A NUL-terminated copy; NULL: no such string, or out of memory. */
static char *text_at(const zest_gguf *file, const char *name) {
    const char *bytes;
    size_t size;
    return zest_gguf_value_string(find(file, name), 0, &bytes, &size) ? strndup(bytes, size) : NULL;
}

static zest_status wrong_elements(const char *what, const char *wanted, const char *name, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: tokenizer.ggml.%s must be a list of %s", name, what,
                          wanted);
}

static zest_status read_texts(const zest_gguf_value *value, const char *what, const char *name,
                              zest_tokenizer_text **out, zest_error *error) {
    size_t count = value ? zest_gguf_value_count(value) : 0;
    *out = calloc(count + 1, sizeof **out);
    if (!*out) return zest_error_memory(error, name, count * sizeof **out);
    for (size_t i = 0; i < count; i++)
        if (!zest_gguf_value_string(value, i, &(*out)[i].data, &(*out)[i].size))
            return wrong_elements(what, "strings", name, error);
    return ZEST_OK;
}

/* Lists that accompany the tokens must have the same length. */
static zest_status check_length(const zest_gguf_value *value, size_t count, const char *what,
                                const char *name, zest_error *error) {
    if (!value || zest_gguf_value_count(value) == count) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %zu tokens, but %zu elements in tokenizer.ggml.%s",
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
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: has no tokenizer (tokenizer.ggml.model and .tokens); add a tokenizer.json",
                              name);
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
        if (scores && !zest_gguf_value_f64(scores, i, &score))
            status = wrong_elements("scores", "numbers", name, error);
        else if (types && !zest_gguf_value_i64(types, i, &type))
            status = wrong_elements("token_type", "whole numbers", name, error);
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
        .sep = id_at(file, "seperator_token_id"), /* sic: the spelling of the format */
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
    const char *chat;
    size_t size;
    if (tokenizer &&
        zest_gguf_value_string(zest_gguf_find(file, "tokenizer.chat_template"), 0, &chat, &size) &&
        zest_tokenizer_load_set_chat(tokenizer, chat, size, error)) {
        zest_tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    free(g.model);
    free(g.pre);
    free(g.tokens);
    free(g.merges);
    free(g.scores);
    free(g.types);
    return tokenizer;
}

/* ---- Construction from the arrays ---- */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

static int type_of(const zest_tokenizer_arrays *a, size_t id) { return a->types ? a->types[id] : NORMAL; }

static zest_status add_special(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t id = 0; id < a->count && !status; id++) {
        int type = type_of(a, id);
        if (type != CONTROL && type != USER_DEFINED && type != UNKNOWN) continue;
        zest_tokenizer_added added = {a->tokens[id].data, a->tokens[id].size, .id = (int64_t)id};
        added.special = type != USER_DEFINED;
        status = zest_tokenizer_add(tokenizer, &added, error);
    }
    return status;
}

static zest_status add_merges(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < a->merge_count && !status; i++)
        status = zest_tokenizer_add_merge_line(tokenizer, a->merges[i].size ? a->merges[i].data : "",
                                               a->merges[i].size, i, error);
    return status;
}

/* ---- Models ---- */

static zest_status build_llama(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a, zest_error *error) {
    tokenizer->bpe.byte_fallback = 1;
    tokenizer->bpe.fuse_unknown = 1;
    tokenizer->bpe.unknown = a->unk;
    zest_status status =
        a->merge_count ? add_merges(tokenizer, a, error) : zest_tokenizer_load_scores(tokenizer, a, error);
    return status ? status : zest_tokenizer_llama_steps(tokenizer, a->add_space_prefix != 0, error);
}

static const struct {
    const char *name;
    zest_pre_tokenizer_kind kind;
    int digits, apart, compose, ignore_merges;
} known[] = {{"gpt-2", ZEST_PRE_TOKENIZER_GPT2, 0, 0, 0, 0},
             {"default", ZEST_PRE_TOKENIZER_GPT2, 0, 0, 0, 0},
             {"smollm", ZEST_PRE_TOKENIZER_GPT2, 0, 1, 0, 0},
             {"qwen2", ZEST_PRE_TOKENIZER_CL100K, 1, 0, 1, 0},
             {"llama-bpe", ZEST_PRE_TOKENIZER_CL100K, 3, 0, 0, 1}};

static int is_composed(const zest_normalizer *normalize) {
    return normalize->count == 1 && normalize->step[0].kind == ZEST_NORMALIZER_COMPOSE;
}

/* Numbers split off digit by digit, in front of the other step. */
static int digits_apart(const zest_pre_tokenizer *split) {
    return split->count == 2 && split->step[0].kind == ZEST_PRE_TOKENIZER_DIGITS &&
           split->step[0].behaviour == ZEST_PRE_TOKENIZER_ISOLATED;
}

const char *zest_tokenizer_name_pre(const zest_tokenizer *t) {
    int apart = digits_apart(&t->split), composed = is_composed(&t->normalize);
    if (t->split.count != (apart ? 2u : 1u) || (t->normalize.count && !composed)) return NULL;
    const zest_pre_tokenizer_step *step = &t->split.step[t->split.count - 1];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (step->kind == known[i].kind && apart == known[i].apart &&
            (step->kind != ZEST_PRE_TOKENIZER_CL100K || step->count == known[i].digits) &&
            composed == known[i].compose && t->bpe.ignore_merges == known[i].ignore_merges)
            return known[i].name;
    return NULL;
}

static zest_status build_gpt2(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a, zest_error *error) {
    const char *pre = a->pre ? a->pre : "default";
    size_t i = 0, count = sizeof known / sizeof *known;
    while (i < count && strcmp(pre, known[i].name)) i++;
    if (i == count)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the pre-tokenizer \"%.60s\" is not supported; zest supports gpt-2, "
                              "smollm, qwen2 and llama-bpe. Use the model's tokenizer.json instead",
                              tokenizer->name, pre);
    zest_pre_tokenizer_step *step;
    tokenizer->bpe.byte_level = 1;
    tokenizer->bpe.ignore_merges = known[i].ignore_merges;
    if (known[i].compose && !zest_tokenizer_normalize_step(tokenizer, ZEST_NORMALIZER_COMPOSE, error))
        return error->status;
    if (known[i].apart && !zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_DIGITS, error))
        return error->status;
    if (!(step = zest_tokenizer_split_step(tokenizer, known[i].kind, error))) return error->status;
    step->count = known[i].digits;
    if (!zest_tokenizer_decode_step(tokenizer, ZEST_DECODER_BYTE_LEVEL, error)) return error->status;
    return add_merges(tokenizer, a, error);
}

static zest_status set_roles(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a, zest_error *error) {
    const struct {
        zest_token_role role;
        int32_t id;
        const char *name;
    } roles[] = {{ZEST_TOKEN_BOS, a->bos, "bos"},       {ZEST_TOKEN_EOS, a->eos, "eos"},
                 {ZEST_TOKEN_PAD, a->pad, "padding"},   {ZEST_TOKEN_UNK, a->unk, "unknown"},
                 {ZEST_TOKEN_SEP, a->sep, "separator"}, {ZEST_TOKEN_CLS, a->cls, "cls"},
                 {ZEST_TOKEN_MASK, a->mask, "mask"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (roles[i].id >= 0 && (size_t)roles[i].id >= a->count)
            return zest_error_set(error, ZEST_ERROR_FORMAT,
                                  "%s: the %s token is %d, but there are %zu tokens", tokenizer->name,
                                  roles[i].name, (int)roles[i].id, a->count);
        tokenizer->role[roles[i].role] = roles[i].id < 0 ? -1 : roles[i].id;
    }
    return ZEST_OK;
}

/* Defaults where the file has no flags: llama and llama-bpe add bos, the others do not. */
static zest_status set_template(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a, int llama,
                                zest_error *error) {
    int usual = llama || (a->pre && !strcmp(a->pre, "llama-bpe"));
    int bos = a->add_bos < 0 ? usual : a->add_bos, eos = a->add_eos > 0;
    if ((bos && a->add_bos > 0 && a->bos < 0) || (eos && a->eos < 0))
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: add_bos_token or add_eos_token is set, but the file names no such token",
                              tokenizer->name);
    if (bos && a->bos >= 0) zest_ids_add(&tokenizer->before, a->bos);
    if (eos) zest_ids_add(&tokenizer->after, a->eos);
    if (tokenizer->before.failed || tokenizer->after.failed)
        return zest_error_memory(error, tokenizer->name, 64);
    return ZEST_OK;
}

static zest_status build_all(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a, zest_error *error) {
    const char *model = a->model ? a->model : "";
    int llama = !strcmp(model, "llama");
    if (!llama && strcmp(model, "gpt2"))
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: the tokenizer model \"%.60s\" is not supported; zest supports gpt2 and llama",
            tokenizer->name, model);
    zest_status status = zest_tokenizer_load_pieces(tokenizer, a, error);
    if (!status) status = set_roles(tokenizer, a, error);
    if (!status) status = llama ? build_llama(tokenizer, a, error) : build_gpt2(tokenizer, a, error);
    if (!status) status = add_special(tokenizer, a, error);
    if (!status) status = set_template(tokenizer, a, llama, error);
    return status ? status : zest_tokenizer_finish(tokenizer, error);
}

zest_tokenizer *zest_tokenizer_from_arrays(const zest_tokenizer_arrays *arrays, const char *name,
                                           zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    zest_tokenizer *tokenizer = zest_tokenizer_new(name, err);
    if (tokenizer && build_all(tokenizer, arrays, err)) {
        zest_tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    return tokenizer;
}
