/* Tokenizers from vocab.json and merges.txt: GPT-2, RoBERTa, OPT and Qwen2, all byte-level BPE. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "text/build.h"

typedef enum { GPT2, ROBERTA, QWEN2 } family;

/* ---- Files
 * ------------------------------------------------------------------------------------------------------ */

static zest_status add_lines(zest_tokenizer *tokenizer, const zest_buffer *text, zest_error *error) {
    const char *at = text->data, *end = at + text->size;
    zest_status status = ZEST_OK;
    for (size_t line = 0, place = 0; at < end && !status; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end, *next = newline ? newline + 1 : end;
        if (stop > at && stop[-1] == '\r') stop--;
        int comment = stop - at >= 8 && !memcmp(at, "#version", 8);
        if (!comment && !(stop == at && next == end)) /* the file may end in an empty line */
            status = zest_tokenizer_add_merge_line(tokenizer, at, (size_t)(stop - at), place++, error);
        at = next;
    }
    return status;
}

static zest_status read_merges(zest_tokenizer *tokenizer, const char *folder, zest_error *error) {
    char *path = zest_file_join(folder, "merges.txt");
    if (!path) return zest_error_memory(error, folder, strlen(folder));
    zest_buffer text = {0};
    zest_status status = zest_file_read(path, ZEST_BUILD_FILE_LIMIT, &text, error);
    free(path);
    if (!status && text.size) status = add_lines(tokenizer, &text, error);
    zest_buffer_free(&text);
    return status;
}

static zest_status read_vocab(zest_tokenizer *tokenizer, const char *folder, zest_error *error) {
    json_t *vocab;
    zest_status status = zest_build_read(folder, "vocab.json", 0, &vocab, error);
    if (!status) status = zest_build_vocab(tokenizer, vocab, error);
    json_decref(vocab);
    return status;
}

/* ---- What the class of the tokenizer implies
 * ------------------------------------------------------------------ */

static zest_status find_family(const zest_tokenizer *tokenizer, const zest_build_settings *settings,
                               family *out, zest_error *error) {
    static const struct {
        const char *name;
        family kind;
    } classes[] = {
        {"GPT2", GPT2}, {"Roberta", ROBERTA}, {"Longformer", ROBERTA}, {"Bart", ROBERTA}, {"Qwen2", QWEN2}};
    const char *name = json_string_value(zest_build_member(settings->config, "tokenizer_class"));
    for (size_t i = 0; name && i < sizeof classes / sizeof *classes; i++) {
        size_t size = strlen(classes[i].name);
        if (strncmp(name, classes[i].name, size) || strncmp(name + size, "Tokenizer", 9)) continue;
        *out = classes[i].kind;
        return ZEST_OK;
    }
    if (name && strcmp(name, "PreTrainedTokenizerFast") != 0)
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: the tokenizer_class \"%.60s\" with vocab.json and merges.txt is not known to zest; "
            "save it as a tokenizer.json",
            tokenizer->name, name);
    *out = zest_tokenizer_id(tokenizer, "<mask>", 6) >= 0 && zest_tokenizer_id(tokenizer, "<s>", 3) >= 0
               ? ROBERTA
               : GPT2;
    return ZEST_OK;
}

static zest_status add_steps(zest_tokenizer *tokenizer, family kind, int prefix, zest_error *error) {
    zest_presplit_step *step;
    tokenizer->bpe.byte_level = 1;
    if (kind == QWEN2 && !zest_tokenizer_normalize_step(tokenizer, ZEST_NORMALIZE_COMPOSE, error))
        return error->status;
    if (prefix && !zest_tokenizer_split_step(tokenizer, ZEST_PRESPLIT_PREFIX, error)) return error->status;
    step = zest_tokenizer_split_step(tokenizer, kind == QWEN2 ? ZEST_PRESPLIT_CL100K : ZEST_PRESPLIT_GPT2,
                                     error);
    if (!step || !zest_tokenizer_decode_step(tokenizer, ZEST_DECODE_BYTE_LEVEL, error)) return error->status;
    step->count = 1;
    return ZEST_OK;
}

/* ---- Special tokens
 * ------------------------------------------------------------------------------------------- */

/* What transformers assumes where the settings say nothing. */
static const char *usual(family kind, zest_token_role role) {
    static const char *const roberta[ZEST_TOKEN_ROLES] = {
        [ZEST_TOKEN_BOS] = "<s>",   [ZEST_TOKEN_EOS] = "</s>",    [ZEST_TOKEN_PAD] = "<pad>",
        [ZEST_TOKEN_UNK] = "<unk>", [ZEST_TOKEN_MASK] = "<mask>", [ZEST_TOKEN_CLS] = "<s>",
        [ZEST_TOKEN_SEP] = "</s>",
    };
    if (kind == ROBERTA) return roberta[role];
    if (kind == QWEN2) return role == ZEST_TOKEN_EOS || role == ZEST_TOKEN_PAD ? "<|endoftext|>" : NULL;
    return role == ZEST_TOKEN_BOS || role == ZEST_TOKEN_EOS || role == ZEST_TOKEN_UNK ? "<|endoftext|>"
                                                                                      : NULL;
}

static zest_status add_role(zest_tokenizer *tokenizer, const zest_build_settings *settings, family kind,
                            zest_token_role role, zest_error *error) {
    const json_t *given = zest_build_role(settings, role);
    const json_t *content = json_is_object(given) ? json_object_get(given, "content") : given;
    const char *text = json_is_string(content) ? json_string_value(content)
                       : given                 ? NULL
                                               : usual(kind, role);
    if (!text) return ZEST_OK;
    zest_build_set_role(tokenizer, role, text, strlen(text));
    zest_tokenizer_added added = {text, strlen(text), .id = -1, .special = 1};
    /* RoBERTa's mask takes the space in front of it along, unless the settings say otherwise. */
    added.eats_left = json_is_object(given) ? json_is_true(json_object_get(given, "lstrip"))
                                            : kind == ROBERTA && role == ZEST_TOKEN_MASK;
    added.eats_right = json_is_true(json_object_get(given, "rstrip"));
    return zest_tokenizer_add(tokenizer, &added, error);
}

/* {"id": {"content": ...}} in tokenizer_config.json, or {"content": id} in added_tokens.json of older models.
 */
static zest_status add_listed(zest_tokenizer *tokenizer, const zest_build_settings *settings,
                              const char *folder, zest_error *error) {
    const char *key;
    json_t *value, *old;
    zest_status status = ZEST_OK;
    json_t *listed = json_object_get(settings->config, "added_tokens_decoder");
    json_object_foreach(listed, key, value) {
        char *end;
        long long id = strtoll(key, &end, 10);
        if (*end || end == key || id < 0)
            return zest_build_refuse(tokenizer, "added_tokens_decoder", "every key must be an id", error);
        if (!status) status = zest_build_added(tokenizer, value, id, error);
    }
    if (status || listed) return status;
    status = zest_build_read(folder, "added_tokens.json", 1, &old, error);
    json_object_foreach(old, key, value) {
        zest_tokenizer_added added = {key, strlen(key), .normalized = 1};
        added.id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (!status) status = zest_tokenizer_add(tokenizer, &added, error);
    }
    json_decref(old);
    return status;
}

static zest_status add_template(zest_tokenizer *tokenizer, const zest_build_settings *settings, family kind,
                                zest_error *error) {
    int add_bos;
    zest_status status = zest_build_flag(tokenizer, settings->config, "tokenizer_config.json",
                                         "add_bos_token", 0, &add_bos, error);
    if (status) return status;
    int32_t bos = tokenizer->role[ZEST_TOKEN_BOS];
    int32_t first = kind == ROBERTA ? tokenizer->role[ZEST_TOKEN_CLS] : add_bos ? bos : -1;
    int32_t last = kind == ROBERTA ? tokenizer->role[ZEST_TOKEN_SEP] : -1;
    if (kind == ROBERTA && (first < 0 || last < 0))
        return zest_build_refuse(tokenizer, "vocab.json",
                                 "it lacks the tokens that begin and end a RoBERTa text", error);
    if (first >= 0) zest_ids_add(&tokenizer->before, first);
    if (last >= 0) zest_ids_add(&tokenizer->after, last);
    if (tokenizer->before.failed || tokenizer->after.failed)
        return zest_error_memory(error, tokenizer->name, 64);
    return ZEST_OK;
}

/* ---- The whole
 * ---------------------------------------------------------------------------------------------------- */

static zest_status build_all(zest_tokenizer *tokenizer, const char *folder,
                             const zest_build_settings *settings, zest_error *error) {
    family kind = GPT2;
    int prefix = 0;
    zest_status status = read_vocab(tokenizer, folder, error);
    if (!status) status = read_merges(tokenizer, folder, error);
    if (!status) status = find_family(tokenizer, settings, &kind, error);
    if (!status)
        status = zest_build_flag(tokenizer, settings->config, "tokenizer_config.json", "add_prefix_space", 0,
                                 &prefix, error);
    if (!status) status = add_steps(tokenizer, kind, prefix, error);
    if (!status) status = add_listed(tokenizer, settings, folder, error);
    for (int role = 0; role < ZEST_TOKEN_ROLES && !status; role++)
        status = add_role(tokenizer, settings, kind, (zest_token_role)role, error);
    if (!status) status = add_template(tokenizer, settings, kind, error);
    return status ? status : zest_tokenizer_finish(tokenizer, error);
}

/* A folder with neither kind of file: says what would do. */
static int is_there(const char *folder, zest_error *error) {
    char *path = zest_file_join(folder, "vocab.json");
    int there = path && access(path, F_OK) == 0;
    if (!there)
        zest_error_set(
            error, ZEST_ERROR_FILE,
            "%s: holds no tokenizer; zest needs tokenizer.json, or vocab.json and merges.txt, there", folder);
    free(path);
    return there;
}

zest_tokenizer *zest_tokenizer_from_vocab(const char *folder, zest_error *error) {
    zest_error local = {0}, *say = error ? error : &local;
    zest_build_settings settings = {0};
    if (!is_there(folder, say)) return NULL;
    zest_tokenizer *tokenizer = zest_tokenizer_new(folder, say);
    if (tokenizer &&
        (zest_build_read_settings(folder, &settings, say) || build_all(tokenizer, folder, &settings, say))) {
        zest_tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    zest_build_free_settings(&settings);
    return tokenizer;
}
