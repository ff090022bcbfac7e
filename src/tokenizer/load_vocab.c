/* Tokenizers from vocab.json and merges.txt (GPT-2, RoBERTa, OPT and Qwen2: byte-level BPE) and from
 * vocab.txt (BERT: WordPiece); the roles of special tokens. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

typedef enum { GPT2, ROBERTA, QWEN2, BERT } family;

/* ---- Files ---- */

static zest_status add_lines(zest_tokenizer *tokenizer, const zest_buffer *text, zest_error *error) {
    const char *at = text->data, *end = at + text->size;
    zest_status status = ZEST_OK;
    for (size_t line = 0, rank = 0; at < end && !status; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end, *next = newline ? newline + 1 : end;
        if (stop > at && stop[-1] == '\r') stop--;
        int comment = stop - at >= 8 && !memcmp(at, "#version", 8);
        if (!comment && !(stop == at && next == end)) /* the file may end with an empty line */
            status = zest_tokenizer_add_merge_line(tokenizer, at, (size_t)(stop - at), rank++, error);
        at = next;
    }
    return status;
}

static zest_status read_merges(zest_tokenizer *tokenizer, const char *folder, zest_error *error) {
    char *path = zest_file_join(folder, "merges.txt");
    if (!path) return zest_error_memory(error, folder, strlen(folder));
    zest_buffer text = {0};
    zest_status status = zest_file_read(path, ZEST_TOKENIZER_LOAD_FILE_LIMIT, &text, error);
    free(path);
    if (!status && text.size) status = add_lines(tokenizer, &text, error);
    zest_buffer_free(&text);
    return status;
}

static zest_status read_vocab(zest_tokenizer *tokenizer, const char *folder, zest_error *error) {
    json_t *vocab;
    zest_status status = zest_tokenizer_load_read(folder, "vocab.json", 0, &vocab, error);
    if (!status) status = zest_tokenizer_load_vocab(tokenizer, vocab, error);
    json_decref(vocab);
    return status;
}

/* The end of the line at `at`, and the start of the next one. A newline is \n, \r\n or \r,
 * as in Python. */
static const char *line_end(const char *at, const char *end, const char **next) {
    const char *stop = at;
    while (stop < end && *stop != '\n' && *stop != '\r') stop++;
    *next = stop + (stop < end) + (stop + 1 < end && stop[0] == '\r' && stop[1] == '\n');
    return stop;
}

/* One token per line; the id is the line number. Of duplicates the last counts, as in transformers, so
 * lines are added in reverse order. */
static zest_status add_token_lines(zest_tokenizer *tokenizer, const zest_buffer *text, zest_error *error) {
    zest_vocab *vocab = &tokenizer->bpe.vocab;
    const char *end = text->data + text->size, *next;
    size_t count = 0;
    for (const char *at = text->data; at < end; at = next, count++) line_end(at, end, &next);
    zest_tokenizer_text *lines = malloc((count + 1) * sizeof *lines);
    if (!lines) return zest_error_memory(error, tokenizer->name, count * sizeof *lines);
    const char *at = text->data;
    for (size_t i = 0; i < count; i++, at = next)
        lines[i] = (zest_tokenizer_text){at, (size_t)(line_end(at, end, &next) - at)};
    zest_status status = ZEST_OK;
    for (size_t i = count; i-- > 0 && !status;)
        if (lines[i].size && zest_vocab_find(vocab, lines[i].data, lines[i].size) < 0)
            status = zest_vocab_add(vocab, lines[i].data, lines[i].size, (int64_t)i, tokenizer->name, error);
    free(lines);
    return status;
}

static zest_status read_token_lines(zest_tokenizer *tokenizer, const char *folder, zest_error *error) {
    char *path = zest_file_join(folder, "vocab.txt");
    if (!path) return zest_error_memory(error, folder, strlen(folder));
    zest_buffer text = {0};
    zest_status status = zest_file_read(path, ZEST_TOKENIZER_LOAD_FILE_LIMIT, &text, error);
    int valid = !text.size ||
                (zest_unicode_valid(text.data, text.size) == text.size && !memchr(text.data, 0, text.size));
    if (!status && !valid) status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: is not UTF-8 text", path);
    if (!status && text.size) status = add_token_lines(tokenizer, &text, error);
    zest_bpe_seal(&tokenizer->bpe);
    zest_buffer_free(&text);
    free(path);
    return status;
}

/* ---- Settings implied by tokenizer_class ---- */

/* is_wordpiece: the folder has vocab.txt. */
static zest_status find_family(const zest_tokenizer *tokenizer, const zest_tokenizer_load_settings *settings,
                               int is_wordpiece, family *out, zest_error *error) {
    static const struct {
        const char *name;
        family kind;
    } classes[] = {{"GPT2", GPT2},       {"Roberta", ROBERTA}, {"Longformer", ROBERTA},
                   {"Bart", ROBERTA},    {"Qwen2", QWEN2},     {"Bert", BERT},
                   {"DistilBert", BERT}, {"Electra", BERT},    {"MobileBert", BERT}};
    const char *name = json_string_value(zest_tokenizer_load_member(settings->config, "tokenizer_class"));
    for (size_t i = 0; name && i < sizeof classes / sizeof *classes; i++) {
        size_t size = strlen(classes[i].name);
        if (strncmp(name, classes[i].name, size) || strncmp(name + size, "Tokenizer", 9)) continue;
        if ((classes[i].kind == BERT) != is_wordpiece) break;
        *out = classes[i].kind;
        return ZEST_OK;
    }
    if (name && !zest_tokenizer_load_generic_class(name))
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: the tokenizer_class \"%.60s\" with %s is not supported; save it as a tokenizer.json",
            tokenizer->name, name, is_wordpiece ? "vocab.txt" : "vocab.json and merges.txt");
    *out = is_wordpiece ? BERT
           : zest_tokenizer_id(tokenizer, "<mask>", 6) >= 0 && zest_tokenizer_id(tokenizer, "<s>", 3) >= 0
               ? ROBERTA
               : GPT2;
    return ZEST_OK;
}

/* The steps that transformers derives from vocab.txt and the settings. */
static zest_status add_bert_steps(zest_tokenizer *tokenizer, const json_t *config, zest_error *error) {
    const char *where = "tokenizer_config.json";
    int lowercase, accents = 0, ideographs, basic;
    zest_status status =
        zest_tokenizer_load_flag(tokenizer, config, where, "do_lower_case", 1, &lowercase, error);
    if (!status)
        status =
            zest_tokenizer_load_flag(tokenizer, config, where, "strip_accents", lowercase, &accents, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, config, where, "tokenize_chinese_chars", 1, &ideographs,
                                          error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, config, where, "do_basic_tokenize", 1, &basic, error);
    if (!status && !basic)
        status = zest_tokenizer_load_error(
            tokenizer, where, "\"do_basic_tokenize\" is false, which zest does not support", error);
    if (!status) status = zest_tokenizer_load_bert_steps(tokenizer, 1, ideographs, accents, lowercase, error);
    if (!status)
        status = zest_tokenizer_load_wordpiece(tokenizer, "##", 2, ZEST_TOKENIZER_LOAD_WORD_LENGTH, error);
    if (!status && !zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_BERT, error))
        status = error->status;
    zest_decoder_step *step =
        status ? NULL : zest_tokenizer_decode_step(tokenizer, ZEST_DECODER_WORDPIECE, error);
    if (!step) return status ? status : error->status;
    step->mark = strdup("##");
    step->mark_size = 2;
    step->cleanup = 1;
    return step->mark ? ZEST_OK : zest_error_memory(error, tokenizer->name, 2);
}

static zest_status add_steps(zest_tokenizer *tokenizer, family kind, int prefix, zest_error *error) {
    zest_pre_tokenizer_step *step;
    tokenizer->bpe.byte_level = 1;
    if (kind == QWEN2 && !zest_tokenizer_normalize_step(tokenizer, ZEST_NORMALIZER_COMPOSE, error))
        return error->status;
    if (prefix && !zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_PREFIX, error))
        return error->status;
    step = zest_tokenizer_split_step(
        tokenizer, kind == QWEN2 ? ZEST_PRE_TOKENIZER_CL100K : ZEST_PRE_TOKENIZER_GPT2, error);
    if (!step || !zest_tokenizer_decode_step(tokenizer, ZEST_DECODER_BYTE_LEVEL, error)) return error->status;
    step->count = 1;
    return ZEST_OK;
}

/* ---- Roles of special tokens ---- */

zest_status zest_tokenizer_load_read_settings(const char *folder, zest_tokenizer_load_settings *settings,
                                              zest_error *error) {
    *settings = (zest_tokenizer_load_settings){0};
    zest_status status =
        zest_tokenizer_load_read(folder, "tokenizer_config.json", 1, &settings->config, error);
    return status ? status
                  : zest_tokenizer_load_read(folder, "special_tokens_map.json", 1, &settings->map, error);
}

void zest_tokenizer_load_free_settings(zest_tokenizer_load_settings *settings) {
    json_decref(settings->config);
    json_decref(settings->map);
    *settings = (zest_tokenizer_load_settings){0};
}

int zest_tokenizer_load_generic_class(const char *name) {
    return !strcmp(name, "PreTrainedTokenizerFast") || !strcmp(name, "TokenizersBackend");
}

/* The setting of a role: a string, an object with "content", JSON null, or NULL if there is none. */
static const json_t *find_role_setting(const zest_tokenizer_load_settings *settings, zest_token_role role) {
    static const char *const keys[ZEST_TOKEN_ROLES] = {
        [ZEST_TOKEN_BOS] = "bos_token", [ZEST_TOKEN_EOS] = "eos_token",   [ZEST_TOKEN_PAD] = "pad_token",
        [ZEST_TOKEN_UNK] = "unk_token", [ZEST_TOKEN_MASK] = "mask_token", [ZEST_TOKEN_CLS] = "cls_token",
        [ZEST_TOKEN_SEP] = "sep_token",
    };
    const json_t *given = json_object_get(settings->config, keys[role]);
    return given ? given : json_object_get(settings->map, keys[role]);
}

/* Sets a role by spelling, if there is such a token. */
static void set_role(zest_tokenizer *tokenizer, zest_token_role role, const char *content, size_t size) {
    int32_t id = zest_tokenizer_id(tokenizer, content, size);
    if (id >= 0) tokenizer->role[role] = id;
}

/* The role of these spellings wherever they are special tokens. */
static void infer_role(zest_tokenizer *tokenizer, zest_token_role role) {
    static const struct {
        zest_token_role role;
        const char *content;
    } usual[] = {
        {ZEST_TOKEN_BOS, "<s>"},           {ZEST_TOKEN_BOS, "<bos>"}, {ZEST_TOKEN_BOS, "<|begin_of_text|>"},
        {ZEST_TOKEN_EOS, "</s>"},          {ZEST_TOKEN_EOS, "<eos>"}, {ZEST_TOKEN_EOS, "<|end_of_text|>"},
        {ZEST_TOKEN_EOS, "<|endoftext|>"}, {ZEST_TOKEN_PAD, "<pad>"}, {ZEST_TOKEN_PAD, "[PAD]"},
        {ZEST_TOKEN_UNK, "<unk>"},         {ZEST_TOKEN_UNK, "[UNK]"}, {ZEST_TOKEN_MASK, "<mask>"},
        {ZEST_TOKEN_MASK, "[MASK]"},       {ZEST_TOKEN_CLS, "[CLS]"}, {ZEST_TOKEN_SEP, "[SEP]"},
    };
    for (size_t i = 0; i < sizeof usual / sizeof *usual && tokenizer->role[role] < 0; i++) {
        int32_t id = zest_tokenizer_id(tokenizer, usual[i].content, strlen(usual[i].content));
        if (usual[i].role == role && zest_tokenizer_is_special(tokenizer, id)) tokenizer->role[role] = id;
    }
}

/* Published folders often rely on the defaults of a class in transformers: tokenizer_config.json of GPT-2
 * and of BERT has no roles. A null means that there is no such token. */
void zest_tokenizer_load_roles(zest_tokenizer *tokenizer, const zest_tokenizer_load_settings *settings) {
    for (int i = 0; i < ZEST_TOKEN_ROLES; i++) {
        const json_t *given = find_role_setting(settings, (zest_token_role)i);
        const json_t *content = json_is_object(given) ? json_object_get(given, "content") : given;
        if (json_is_string(content))
            set_role(tokenizer, (zest_token_role)i, json_string_value(content), json_string_length(content));
        else if (!given)
            infer_role(tokenizer, (zest_token_role)i);
    }
}

/* ---- Special tokens ---- */

/* Defaults of transformers. */
static const char *usual(family kind, zest_token_role role) {
    static const char *const roberta[ZEST_TOKEN_ROLES] = {
        [ZEST_TOKEN_BOS] = "<s>",   [ZEST_TOKEN_EOS] = "</s>",    [ZEST_TOKEN_PAD] = "<pad>",
        [ZEST_TOKEN_UNK] = "<unk>", [ZEST_TOKEN_MASK] = "<mask>", [ZEST_TOKEN_CLS] = "<s>",
        [ZEST_TOKEN_SEP] = "</s>",
    };
    static const char *const bert[ZEST_TOKEN_ROLES] = {
        [ZEST_TOKEN_PAD] = "[PAD]", [ZEST_TOKEN_UNK] = "[UNK]", [ZEST_TOKEN_MASK] = "[MASK]",
        [ZEST_TOKEN_CLS] = "[CLS]", [ZEST_TOKEN_SEP] = "[SEP]",
    };
    if (kind == ROBERTA) return roberta[role];
    if (kind == BERT) return bert[role];
    if (kind == QWEN2) return role == ZEST_TOKEN_EOS || role == ZEST_TOKEN_PAD ? "<|endoftext|>" : NULL;
    return role == ZEST_TOKEN_BOS || role == ZEST_TOKEN_EOS || role == ZEST_TOKEN_UNK ? "<|endoftext|>"
                                                                                      : NULL;
}

static zest_status add_role(zest_tokenizer *tokenizer, const zest_tokenizer_load_settings *settings,
                            family kind, zest_token_role role, zest_error *error) {
    const json_t *given = find_role_setting(settings, role);
    const json_t *content = json_is_object(given) ? json_object_get(given, "content") : given;
    const char *text = json_is_string(content) ? json_string_value(content)
                       : given                 ? NULL
                                               : usual(kind, role);
    if (!text) return ZEST_OK;
    set_role(tokenizer, role, text, strlen(text));
    zest_tokenizer_added added = {text, strlen(text), .id = -1, .special = 1};
    /* RoBERTa's mask token strips the space before it, unless the settings say otherwise. */
    added.lstrip = json_is_object(given) ? json_is_true(json_object_get(given, "lstrip"))
                                         : kind == ROBERTA && role == ZEST_TOKEN_MASK;
    added.rstrip = json_is_true(json_object_get(given, "rstrip"));
    return zest_tokenizer_add(tokenizer, &added, error);
}

/* {"id": {"content": ...}} in tokenizer_config.json, or {"content": id} in added_tokens.json of older models. */
zest_status zest_tokenizer_load_listed(zest_tokenizer *tokenizer,
                                       const zest_tokenizer_load_settings *settings, const char *folder,
                                       zest_error *error) {
    const char *key;
    json_t *value, *old;
    zest_status status = ZEST_OK;
    json_t *listed = json_object_get(settings->config, "added_tokens_decoder");
    json_object_foreach(listed, key, value) {
        int64_t id;
        if (!zest_integer_parse(key, 0, INT32_MAX, &id))
            return zest_tokenizer_load_error(tokenizer, "added_tokens_decoder", "every key must be an id",
                                             error);
        if (!status) status = zest_tokenizer_load_added(tokenizer, value, id, error);
    }
    if (status || listed) return status;
    status = zest_tokenizer_load_read(folder, "added_tokens.json", 1, &old, error);
    json_object_foreach(old, key, value) {
        zest_tokenizer_added added = {key, strlen(key), .normalized = 1};
        added.id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (!status) status = zest_tokenizer_add(tokenizer, &added, error);
    }
    json_decref(old);
    return status;
}

static zest_status add_template(zest_tokenizer *tokenizer, const zest_tokenizer_load_settings *settings,
                                family kind, zest_error *error) {
    int add_bos;
    zest_status status = zest_tokenizer_load_flag(tokenizer, settings->config, "tokenizer_config.json",
                                                  "add_bos_token", 0, &add_bos, error);
    if (status) return status;
    int32_t bos = tokenizer->role[ZEST_TOKEN_BOS];
    int masked = kind == ROBERTA || kind == BERT;
    int32_t first = masked ? tokenizer->role[ZEST_TOKEN_CLS] : add_bos ? bos : -1;
    int32_t last = masked ? tokenizer->role[ZEST_TOKEN_SEP] : -1;
    if (masked && (first < 0 || last < 0))
        return zest_tokenizer_load_error(tokenizer, kind == BERT ? "vocab.txt" : "vocab.json",
                                         kind == BERT ? "the tokens [CLS] and [SEP] are missing"
                                                      : "the tokens <s> and </s> are missing",
                                         error);
    if (first >= 0) zest_ids_add(&tokenizer->before, first);
    if (last >= 0) zest_ids_add(&tokenizer->after, last);
    if (tokenizer->before.failed || tokenizer->after.failed)
        return zest_error_memory(error, tokenizer->name, 64);
    return ZEST_OK;
}

/* ---- Construction ---- */

static zest_status build_byte_level(zest_tokenizer *tokenizer, const char *folder,
                                    const zest_tokenizer_load_settings *settings, family *kind,
                                    zest_error *error) {
    int prefix = 0;
    zest_status status = read_vocab(tokenizer, folder, error);
    if (!status) status = read_merges(tokenizer, folder, error);
    if (!status) status = find_family(tokenizer, settings, 0, kind, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, settings->config, "tokenizer_config.json",
                                          "add_prefix_space", 0, &prefix, error);
    return status ? status : add_steps(tokenizer, *kind, prefix, error);
}

static zest_status build_wordpiece(zest_tokenizer *tokenizer, const char *folder,
                                   const zest_tokenizer_load_settings *settings, family *kind,
                                   zest_error *error) {
    zest_status status = read_token_lines(tokenizer, folder, error);
    if (!status) status = find_family(tokenizer, settings, 1, kind, error);
    return status ? status : add_bert_steps(tokenizer, settings->config, error);
}

static zest_status build_all(zest_tokenizer *tokenizer, const char *folder, int is_wordpiece,
                             const zest_tokenizer_load_settings *settings, zest_error *error) {
    family kind = GPT2;
    zest_status status = is_wordpiece ? build_wordpiece(tokenizer, folder, settings, &kind, error)
                                      : build_byte_level(tokenizer, folder, settings, &kind, error);
    if (!status) status = zest_tokenizer_load_listed(tokenizer, settings, folder, error);
    for (int role = 0; role < ZEST_TOKEN_ROLES && !status; role++)
        status = add_role(tokenizer, settings, kind, (zest_token_role)role, error);
    if (!status) status = add_template(tokenizer, settings, kind, error);
    tokenizer->wordpiece.unknown = tokenizer->role[ZEST_TOKEN_UNK];
    if (!status && is_wordpiece && tokenizer->wordpiece.unknown < 0)
        status = zest_tokenizer_load_error(tokenizer, "vocab.txt", "the unknown token is missing", error);
    if (!status) status = zest_tokenizer_load_chat(tokenizer, folder, settings->config, error);
    return status ? status : zest_tokenizer_finish(tokenizer, error);
}

static int file_exists(const char *folder, const char *name) {
    char *path = zest_file_join(folder, name);
    int exists = path && access(path, F_OK) == 0;
    free(path);
    return exists;
}

zest_tokenizer *zest_tokenizer_from_vocab(const char *folder, zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    zest_tokenizer_load_settings settings = {0};
    int is_wordpiece = !file_exists(folder, "vocab.json") && file_exists(folder, "vocab.txt");
    if (!is_wordpiece && !file_exists(folder, "vocab.json")) {
        zest_error_set(err, ZEST_ERROR_FILE,
                       "%s: has no tokenizer; zest needs tokenizer.json, or vocab.json and merges.txt, or "
                       "vocab.txt, or tokenizer.model",
                       folder);
        return NULL;
    }
    zest_tokenizer *tokenizer = zest_tokenizer_new(folder, err);
    if (tokenizer && (zest_tokenizer_load_read_settings(folder, &settings, err) ||
                      build_all(tokenizer, folder, is_wordpiece, &settings, err))) {
        zest_tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    zest_tokenizer_load_free_settings(&settings);
    return tokenizer;
}
