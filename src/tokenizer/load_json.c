/* Tokenizers from a Hugging Face tokenizer.json: vocabulary, merges, added tokens, and the components that
 * normalize, split, decode and add special tokens. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/tokenizer_internal.h"

zest_status zest_tokenizer_load_read(const char *folder, const char *name, int optional, json_t **out,
                                     zest_error *error) {
    zest_buffer bytes = {0};
    zest_status status = ZEST_OK;
    *out = NULL;
    char *path = zest_file_join(folder, name);
    if (!path) return zest_error_memory(error, name, strlen(folder));
    if (!optional || access(path, F_OK) == 0 || errno != ENOENT) {
        status = zest_file_read(path, ZEST_TOKENIZER_LOAD_FILE_LIMIT, &bytes, error);
        if (!status) status = zest_json_parse(bytes.data, bytes.size, path, out, error);
    }
    zest_buffer_free(&bytes);
    free(path);
    return status;
}

json_t *zest_tokenizer_load_member(const json_t *object, const char *key) {
    json_t *member = json_object_get(object, key);
    return json_is_null(member) ? NULL : member;
}

zest_status zest_tokenizer_load_error(const zest_tokenizer *tokenizer, const char *where, const char *saying,
                                      zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: %s", tokenizer->name, where, saying);
}

zest_status zest_tokenizer_load_flag(const zest_tokenizer *tokenizer, const json_t *object, const char *where,
                                     const char *key, int fallback, int *flag, zest_error *error) {
    const json_t *member = zest_tokenizer_load_member(object, key);
    *flag = member ? json_is_true(member) : fallback;
    if (member ? json_is_boolean(member) : fallback >= 0) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: \"%s\" must be true or false", tokenizer->name,
                          where, key);
}

/* A copy of a string member, to be freed. */
static zest_status load_text(const zest_tokenizer *tokenizer, const json_t *object, const char *where,
                             const char *key, char **text, size_t *size, zest_error *error) {
    const json_t *member = zest_tokenizer_load_member(object, key);
    if (!json_is_string(member))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: \"%s\" must be a string", tokenizer->name,
                              where, key);
    *size = json_string_length(member);
    if (*size > ZEST_TOKENIZER_LOAD_TEXT_LIMIT)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: \"%s\" is longer than %d bytes",
                              tokenizer->name, where, key, ZEST_TOKENIZER_LOAD_TEXT_LIMIT);
    *text = malloc(*size + 1);
    if (!*text) return zest_error_memory(error, tokenizer->name, *size);
    memcpy(*text, json_string_value(member), *size + 1);
    return ZEST_OK;
}

/* The type of a component; NULL: see error. */
static const char *load_type(const zest_tokenizer *tokenizer, const json_t *component, const char *where,
                             zest_error *error) {
    const char *type = json_string_value(json_object_get(component, "type"));
    if (!type) zest_tokenizer_load_error(tokenizer, where, "must be an object with a \"type\"", error);
    return type;
}

typedef zest_status (*component_loader)(zest_tokenizer *tokenizer, const json_t *component,
                                        zest_error *error);

/* Calls `one` for every component of a Sequence. */
static zest_status load_sequence(zest_tokenizer *tokenizer, const json_t *component, const char *where,
                                 const char *key, component_loader one, zest_error *error) {
    const json_t *list = json_object_get(component, key);
    if (!json_is_array(list))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: a Sequence needs the list \"%s\"",
                              tokenizer->name, where, key);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < json_array_size(list) && !status; i++)
        status = one(tokenizer, json_array_get(list, i), error);
    return status;
}

zest_status zest_tokenizer_load_vocab(zest_tokenizer *tokenizer, const json_t *vocab, zest_error *error) {
    const char *key;
    json_t *id;
    if (!json_is_object(vocab))
        return zest_tokenizer_load_error(tokenizer, "the vocabulary",
                                         "must be an object of tokens and their ids", error);
    json_object_foreach((json_t *)vocab, key, id) {
        if (!json_is_integer(id))
            return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: token \"%.60s\" needs an integer id",
                                  tokenizer->name, key);
        zest_status status = zest_vocab_add(&tokenizer->bpe.vocab, key, strlen(key), json_integer_value(id),
                                            tokenizer->name, error);
        if (status) return status;
    }
    zest_bpe_seal(&tokenizer->bpe);
    return ZEST_OK;
}

zest_status zest_tokenizer_load_added(zest_tokenizer *tokenizer, const json_t *token, int64_t id,
                                      zest_error *error) {
    const json_t *content = json_object_get(token, "content");
    if (!json_is_string(content))
        return zest_tokenizer_load_error(tokenizer, "added_tokens", "each needs a \"content\", a string",
                                         error);
    zest_tokenizer_added added = {json_string_value(content), json_string_length(content), .id = id};
    const struct {
        const char *key;
        int *flag;
    } flags[] = {{"special", &added.special},
                 {"lstrip", &added.lstrip},
                 {"rstrip", &added.rstrip},
                 {"single_word", &added.single_word},
                 {"normalized", &added.normalized}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        zest_status status =
            zest_tokenizer_load_flag(tokenizer, token, "added_tokens", flags[i].key, 0, flags[i].flag, error);
        if (status) return status;
    }
    return zest_tokenizer_add(tokenizer, &added, error);
}

/* ---- Model ---- */

static zest_status build_merges(zest_tokenizer *tokenizer, const json_t *merges, zest_error *error) {
    if (!json_is_array(merges))
        return zest_tokenizer_load_error(tokenizer, "model", "needs the list \"merges\"", error);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < json_array_size(merges) && !status; i++) {
        const json_t *merge = json_array_get(merges, i), *left = json_array_get(merge, 0),
                     *right = json_array_get(merge, 1);
        if (json_is_string(merge)) {
            status = zest_tokenizer_add_merge_line(tokenizer, json_string_value(merge),
                                                   json_string_length(merge), i, error);
        } else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right)) {
            zest_tokenizer_text a = {json_string_value(left), json_string_length(left)};
            zest_tokenizer_text b = {json_string_value(right), json_string_length(right)};
            status = zest_tokenizer_add_merge(tokenizer, &a, &b, i, error);
        } else {
            status = zest_error_set(error, ZEST_ERROR_FORMAT,
                                    "%s: merge %zu must be \"left right\" or a pair of strings",
                                    tokenizer->name, i + 1);
        }
    }
    return status;
}

zest_status zest_tokenizer_load_wordpiece(zest_tokenizer *tokenizer, const char *prefix, size_t prefix_size,
                                          int64_t max_word_chars, zest_error *error) {
    if (max_word_chars < 0 || max_word_chars > ZEST_WORDPIECE_MAX_WORD_CHARS)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: model: \"max_input_chars_per_word\" must be from 0 to %d", tokenizer->name,
                              ZEST_WORDPIECE_MAX_WORD_CHARS);
    tokenizer->wordpiece.prefix = strndup(prefix, prefix_size);
    if (!tokenizer->wordpiece.prefix) return zest_error_memory(error, tokenizer->name, prefix_size);
    tokenizer->wordpiece.prefix_size = prefix_size;
    tokenizer->wordpiece.max_word_chars = (size_t)max_word_chars;
    return ZEST_OK;
}

static zest_status build_wordpiece(zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    const json_t *prefix = zest_tokenizer_load_member(model, "continuing_subword_prefix"),
                 *longest = zest_tokenizer_load_member(model, "max_input_chars_per_word");
    if (!json_is_string(prefix) || !json_is_string(json_object_get(model, "unk_token")))
        return zest_tokenizer_load_error(
            tokenizer, "model",
            "WordPiece needs \"continuing_subword_prefix\" and \"unk_token\", two strings", error);
    if (longest && !json_is_integer(longest))
        return zest_tokenizer_load_error(tokenizer, "model",
                                         "\"max_input_chars_per_word\" must be an integer", error);
    zest_status status = zest_tokenizer_load_wordpiece(
        tokenizer, json_string_value(prefix), json_string_length(prefix),
        longest ? json_integer_value(longest) : ZEST_TOKENIZER_LOAD_WORD_LENGTH, error);
    return status ? status : zest_tokenizer_load_vocab(tokenizer, json_object_get(model, "vocab"), error);
}

/* The type of the model; files of old versions have none, so it is inferred from the members. "": unknown. */
static const char *type_of(const json_t *model) {
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type)
        type = json_object_get(model, "merges") ? "BPE" : json_object_get(model, "unk_id") ? "Unigram" : "";
    if (!*type && json_object_get(model, "max_input_chars_per_word")) type = "WordPiece";
    return type;
}

/* Features of BPE that zest does not support; no known model uses them. */
static zest_status check_model(const zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    const char *type = type_of(model);
    if (!json_is_object(model))
        return zest_tokenizer_load_error(tokenizer, "model", "must be an object", error);
    if (strcmp(type, "BPE") != 0)
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: the model \"%.60s\" is not supported; zest supports BPE, WordPiece and Unigram",
            tokenizer->name, *type ? type : "without a type");
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const json_t *affix = zest_tokenizer_load_member(model, affixes[i]);
        if (affix && json_string_length(affix))
            return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: model: \"%s\" is not supported",
                                  tokenizer->name, affixes[i]);
    }
    const json_t *dropout = zest_tokenizer_load_member(model, "dropout");
    if (dropout && json_number_value(dropout) != 0.0)
        return zest_tokenizer_load_error(tokenizer, "model", "dropout makes tokens random; set it to null",
                                         error);
    return ZEST_OK;
}

static zest_status build_model(zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    zest_bpe *bpe = &tokenizer->bpe;
    if (!strcmp(type_of(model), "WordPiece")) return build_wordpiece(tokenizer, model, error);
    if (!strcmp(type_of(model), "Unigram")) return zest_tokenizer_load_unigram(tokenizer, model, error);
    zest_status status = check_model(tokenizer, model, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, model, "model", "byte_fallback", 0, &bpe->byte_fallback,
                                          error);
    if (!status)
        status =
            zest_tokenizer_load_flag(tokenizer, model, "model", "fuse_unk", 0, &bpe->fuse_unknown, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, model, "model", "ignore_merges", 0, &bpe->ignore_merges,
                                          error);
    if (!status) status = zest_tokenizer_load_vocab(tokenizer, json_object_get(model, "vocab"), error);
    if (!status) status = build_merges(tokenizer, json_object_get(model, "merges"), error);
    return status;
}

static zest_status build_unknown(zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    const json_t *unknown = zest_tokenizer_load_member(model, "unk_token");
    if (!unknown) return ZEST_OK;
    tokenizer->bpe.unknown = zest_tokenizer_id(
        tokenizer, json_is_string(unknown) ? json_string_value(unknown) : "", json_string_length(unknown));
    tokenizer->wordpiece.unknown = tokenizer->role[ZEST_TOKEN_UNK] = tokenizer->bpe.unknown;
    if (tokenizer->bpe.unknown >= 0) return ZEST_OK;
    return zest_tokenizer_load_error(tokenizer, "model", "its \"unk_token\" is not in the vocabulary", error);
}

static zest_status build_added(zest_tokenizer *tokenizer, const json_t *tokens, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < json_array_size(tokens) && !status; i++) {
        const json_t *token = json_array_get(tokens, i), *id = json_object_get(token, "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return zest_tokenizer_load_error(tokenizer, "added_tokens", "each needs an \"id\", 0 or more",
                                             error);
        status = zest_tokenizer_load_added(tokenizer, token, json_integer_value(id), error);
    }
    return status;
}

static zest_status unsupported(const zest_tokenizer *tokenizer, const char *where, const char *type,
                               const char *known, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the %s \"%.60s\" is not supported; zest supports %s",
                          tokenizer->name, where, type, known);
}

/* A pattern, {"String": ...} or {"Regex": ...}: one of text and regex is set. */
static zest_status load_pattern(const zest_tokenizer *tokenizer, const json_t *component, const char *where,
                                char **text, size_t *size, zest_regex **regex, zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    const json_t *pattern = json_object_get(component, "pattern"),
                 *expression = json_object_get(pattern, "Regex");
    if (json_is_string(expression)) {
        char source[600];
        snprintf(source, sizeof source, "%.500s: %s", tokenizer->name, where);
        *regex = zest_regex_new(json_string_value(expression), json_string_length(expression), source, err);
        return *regex ? ZEST_OK : err->status;
    }
    zest_status status = load_text(tokenizer, pattern, where, "String", text, size, error);
    return status || *size ? status
                           : zest_tokenizer_load_error(tokenizer, where, "the pattern is empty", error);
}

/* ---- Normalizers ---- */

zest_status zest_tokenizer_load_bert_steps(zest_tokenizer *tokenizer, int clean, int ideographs, int accents,
                                           int lowercase, zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    const struct {
        int enabled;
        zest_normalizer_kind kind;
    } steps[] = {{clean, ZEST_NORMALIZER_CLEAN},
                 {ideographs, ZEST_NORMALIZER_IDEOGRAPHS},
                 {accents, ZEST_NORMALIZER_STRIP_ACCENTS},
                 {lowercase, ZEST_NORMALIZER_LOWERCASE}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].enabled && !zest_tokenizer_normalize_step(tokenizer, steps[i].kind, err))
            return err->status;
    return ZEST_OK;
}

/* strip_accents null: same as lowercase. */
static zest_status build_bert(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    const char *where = "normalizer BertNormalizer";
    int clean, ideographs, lowercase, accents = 0;
    zest_status status =
        zest_tokenizer_load_flag(tokenizer, component, where, "clean_text", -1, &clean, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, component, where, "handle_chinese_chars", -1,
                                          &ideographs, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, component, where, "lowercase", -1, &lowercase, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, component, where, "strip_accents", lowercase, &accents,
                                          error);
    return status ? status
                  : zest_tokenizer_load_bert_steps(tokenizer, clean, ideographs, accents, lowercase, error);
}

static zest_status load_normalizer(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    if (!component || json_is_null(component)) return ZEST_OK;
    const char *type = load_type(tokenizer, component, "normalizer", err);
    if (!type) return err->status;
    if (!strcmp(type, "Sequence"))
        return load_sequence(tokenizer, component, "normalizer", "normalizers", load_normalizer, err);
    if (!strcmp(type, "BertNormalizer")) return build_bert(tokenizer, component, err);
    zest_normalizer_kind kind;
    if (!strcmp(type, "Prepend"))
        kind = ZEST_NORMALIZER_PREPEND;
    else if (!strcmp(type, "Replace"))
        kind = ZEST_NORMALIZER_REPLACE;
    else if (!strcmp(type, "NFC"))
        kind = ZEST_NORMALIZER_COMPOSE;
    else if (!strcmp(type, "Lowercase"))
        kind = ZEST_NORMALIZER_LOWERCASE;
    else if (!strcmp(type, "Precompiled"))
        kind = ZEST_NORMALIZER_PRECOMPILED;
    else
        return unsupported(tokenizer, "normalizer", type,
                           "Sequence, Prepend, Replace, NFC, Lowercase, Precompiled and BertNormalizer", err);
    zest_normalizer_step *step = zest_tokenizer_normalize_step(tokenizer, kind, err);
    if (!step) return err->status;
    if (kind == ZEST_NORMALIZER_PRECOMPILED) {
        const json_t *map = json_object_get(component, "precompiled_charsmap");
        return zest_charsmap_load(json_string_value(map), json_string_length(map), tokenizer->name, step,
                                  err);
    }
    if (kind != ZEST_NORMALIZER_PREPEND && kind != ZEST_NORMALIZER_REPLACE) return ZEST_OK;
    const char *key = kind == ZEST_NORMALIZER_PREPEND ? "prepend" : "content";
    zest_status status =
        load_text(tokenizer, component, "normalizer", key, &step->content, &step->content_size, err);
    if (status || kind == ZEST_NORMALIZER_PREPEND) return status;
    return load_pattern(tokenizer, component, "normalizer", &step->pattern, &step->pattern_size, &step->regex,
                        err);
}

/* ---- Pre-tokenizers ---- */

/* Uses a built-in splitter: only for patterns that are equal, character by character, to a known one, and
 * that match every character. */
static int known_pattern(const json_t *component, zest_pre_tokenizer_step *step) {
    static const struct {
        const char *pattern;
        zest_pre_tokenizer_kind kind;
        int digits;
    } known[] = {{ZEST_PRE_TOKENIZER_GPT2_PATTERN, ZEST_PRE_TOKENIZER_GPT2, 0},
                 {ZEST_PRE_TOKENIZER_CL100K_PATTERN(""), ZEST_PRE_TOKENIZER_CL100K, 1},
                 {ZEST_PRE_TOKENIZER_CL100K_PATTERN("{1,3}"), ZEST_PRE_TOKENIZER_CL100K, 3}};
    const char *pattern = json_string_value(json_object_get(json_object_get(component, "pattern"), "Regex"));
    int covers_all = (step->behaviour == ZEST_PRE_TOKENIZER_ISOLATED && !step->invert) ||
                     (step->behaviour == ZEST_PRE_TOKENIZER_REMOVED && step->invert);
    for (size_t i = 0; pattern && covers_all && i < sizeof known / sizeof *known; i++) {
        if (strcmp(pattern, known[i].pattern)) continue;
        step->kind = known[i].kind;
        step->count = known[i].digits;
        return 1;
    }
    return 0;
}

static zest_status build_split(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    zest_pre_tokenizer_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_REGEX, error);
    if (!step) return error->status;
    const char *behaviour = json_string_value(json_object_get(component, "behavior"));
    size_t i = 0;
    while (i < 5 && (!behaviour || strcmp(behaviour, names[i]))) i++;
    if (i == 5)
        return zest_tokenizer_load_error(
            tokenizer, "pre_tokenizer Split",
            "\"behavior\" must be Isolated, Removed, MergedWithPrevious, MergedWithNext or "
            "Contiguous",
            error);
    step->behaviour = (zest_pre_tokenizer_behaviour)i;
    zest_status status = zest_tokenizer_load_flag(tokenizer, component, "pre_tokenizer Split", "invert", 0,
                                                  &step->invert, error);
    if (status || known_pattern(component, step)) return status;
    status = load_pattern(tokenizer, component, "pre_tokenizer Split", &step->mark, &step->mark_size,
                          &step->regex, error);
    if (!status && !step->regex) step->kind = ZEST_PRE_TOKENIZER_LITERAL;
    return status;
}

static zest_status build_byte_level(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    int prefix, cut;
    zest_status status = zest_tokenizer_load_flag(tokenizer, component, "pre_tokenizer ByteLevel",
                                                  "add_prefix_space", -1, &prefix, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, component, "pre_tokenizer ByteLevel", "use_regex", 1,
                                          &cut, error);
    if (status) return status;
    if (prefix && !zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_PREFIX, error))
        return error->status;
    if (cut && !zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_GPT2, error)) return error->status;
    tokenizer->bpe.byte_level = 1;
    return ZEST_OK;
}

/* When a mark is prepended: add_prefix_space in old files, prepend_scheme in new ones. */
static zest_status read_prepend(const zest_tokenizer *tokenizer, const json_t *component, const char *where,
                                zest_pre_tokenizer_prepend *prepend, zest_error *error) {
    int prefix;
    zest_status status =
        zest_tokenizer_load_flag(tokenizer, component, where, "add_prefix_space", 1, &prefix, error);
    const json_t *scheme = zest_tokenizer_load_member(component, "prepend_scheme");
    const char *name = scheme ? json_string_value(scheme) : "always";
    if (status) return status;
    *prepend = ZEST_PRE_TOKENIZER_NEVER;
    if (name && !strcmp(name, "always"))
        *prepend = prefix ? ZEST_PRE_TOKENIZER_ALWAYS : ZEST_PRE_TOKENIZER_NEVER;
    else if (name && !strcmp(name, "first"))
        *prepend = prefix ? ZEST_PRE_TOKENIZER_FIRST : ZEST_PRE_TOKENIZER_NEVER;
    else if (!name || strcmp(name, "never"))
        return zest_tokenizer_load_error(tokenizer, where,
                                         "\"prepend_scheme\" must be always, first or never", error);
    return ZEST_OK;
}

static zest_status build_metaspace(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    const char *where = "pre_tokenizer Metaspace";
    zest_pre_tokenizer_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_METASPACE, error);
    if (!step) return error->status;
    int cut;
    step->behaviour = ZEST_PRE_TOKENIZER_NEXT;
    zest_status status =
        load_text(tokenizer, component, where, "replacement", &step->mark, &step->mark_size, error);
    if (!status) status = read_prepend(tokenizer, component, where, &step->prepend, error);
    if (!status) status = zest_tokenizer_load_flag(tokenizer, component, where, "split", 1, &cut, error);
    if (status) return status;
    step->whole = !cut;
    return step->mark_size ? ZEST_OK
                           : zest_tokenizer_load_error(tokenizer, where, "\"replacement\" is empty", error);
}

static zest_status build_digits(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    int single;
    zest_status status = zest_tokenizer_load_flag(tokenizer, component, "pre_tokenizer Digits",
                                                  "individual_digits", -1, &single, error);
    if (status) return status;
    zest_pre_tokenizer_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_DIGITS, error);
    if (!step) return error->status;
    step->behaviour = single ? ZEST_PRE_TOKENIZER_ISOLATED : ZEST_PRE_TOKENIZER_CONTIGUOUS;
    return ZEST_OK;
}

static zest_status load_pre_tokenizer(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    if (!component || json_is_null(component)) return ZEST_OK;
    const char *type = load_type(tokenizer, component, "pre_tokenizer", err);
    if (!type) return err->status;
    if (!strcmp(type, "Sequence"))
        return load_sequence(tokenizer, component, "pre_tokenizer", "pretokenizers", load_pre_tokenizer, err);
    if (tokenizer->bpe.byte_level)
        return zest_tokenizer_load_error(tokenizer, "pre_tokenizer",
                                         "ByteLevel must be the last of a Sequence", err);
    if (!strcmp(type, "ByteLevel")) return build_byte_level(tokenizer, component, err);
    if (!strcmp(type, "Split")) return build_split(tokenizer, component, err);
    if (!strcmp(type, "Digits")) return build_digits(tokenizer, component, err);
    if (!strcmp(type, "Metaspace")) return build_metaspace(tokenizer, component, err);
    if (!strcmp(type, "WhitespaceSplit")) return zest_tokenizer_load_space_split(tokenizer, err);
    if (!strcmp(type, "BertPreTokenizer"))
        return zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_BERT, err) ? ZEST_OK : err->status;
    return unsupported(tokenizer, "pre_tokenizer", type,
                       "Sequence, ByteLevel, Split, Digits, Metaspace, WhitespaceSplit and BertPreTokenizer",
                       err);
}

/* ---- Decoders ---- */

static zest_status build_strip(zest_tokenizer *tokenizer, const json_t *component, zest_decoder_step *step,
                               zest_error *error) {
    const json_t *start = json_object_get(component, "start"), *stop = json_object_get(component, "stop");
    zest_status status =
        load_text(tokenizer, component, "decoder Strip", "content", &step->mark, &step->mark_size, error);
    if (status) return status;
    if (!step->mark_size || !json_is_integer(start) || !json_is_integer(stop) ||
        json_integer_value(start) < 0 || json_integer_value(stop) < 0)
        return zest_tokenizer_load_error(tokenizer, "decoder Strip",
                                         "needs a content and the counts \"start\" and \"stop\"", error);
    step->start = (size_t)json_integer_value(start);
    step->stop = (size_t)json_integer_value(stop);
    return ZEST_OK;
}

static zest_status build_replace(zest_tokenizer *tokenizer, const json_t *component, zest_decoder_step *step,
                                 zest_error *error) {
    zest_regex *regex = NULL;
    zest_status status = load_text(tokenizer, component, "decoder Replace", "content", &step->content,
                                   &step->content_size, error);
    if (!status)
        status = load_pattern(tokenizer, component, "decoder Replace", &step->mark, &step->mark_size, &regex,
                              error);
    if (!status && regex)
        status = zest_tokenizer_load_error(tokenizer, "decoder Replace",
                                           "the pattern must be a String, not a Regex", error);
    zest_regex_free(regex);
    return status;
}

static zest_status build_joined_marks(zest_tokenizer *tokenizer, const json_t *component,
                                      zest_decoder_step *step, zest_error *error) {
    const char *where = "decoder Metaspace";
    zest_pre_tokenizer_prepend prepend;
    zest_status status =
        load_text(tokenizer, component, where, "replacement", &step->mark, &step->mark_size, error);
    if (!status) status = read_prepend(tokenizer, component, where, &prepend, error);
    if (status) return status;
    step->prepended = prepend != ZEST_PRE_TOKENIZER_NEVER;
    return step->mark_size ? ZEST_OK
                           : zest_tokenizer_load_error(tokenizer, where, "\"replacement\" is empty", error);
}

static zest_status build_joined_words(zest_tokenizer *tokenizer, const json_t *component,
                                      zest_decoder_step *step, zest_error *error) {
    const char *where = "decoder WordPiece";
    zest_status status =
        load_text(tokenizer, component, where, "prefix", &step->mark, &step->mark_size, error);
    return status
               ? status
               : zest_tokenizer_load_flag(tokenizer, component, where, "cleanup", -1, &step->cleanup, error);
}

static zest_status load_decoder(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    static const struct {
        const char *type;
        zest_decoder_kind kind;
        zest_status (*build)(zest_tokenizer *, const json_t *, zest_decoder_step *, zest_error *);
    } known[] = {{"ByteLevel", ZEST_DECODER_BYTE_LEVEL, NULL},
                 {"ByteFallback", ZEST_DECODER_BYTE_FALLBACK, NULL},
                 {"Fuse", ZEST_DECODER_FUSE, NULL},
                 {"Strip", ZEST_DECODER_STRIP, build_strip},
                 {"Replace", ZEST_DECODER_REPLACE, build_replace},
                 {"Metaspace", ZEST_DECODER_METASPACE, build_joined_marks},
                 {"WordPiece", ZEST_DECODER_WORDPIECE, build_joined_words}};
    zest_error local = {0}, *err = error ? error : &local;
    if (!component || json_is_null(component)) {
        tokenizer->decode.spaced = 1;
        return ZEST_OK;
    }
    const char *type = load_type(tokenizer, component, "decoder", err);
    if (!type) return err->status;
    if (!strcmp(type, "Sequence"))
        return load_sequence(tokenizer, component, "decoder", "decoders", load_decoder, err);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(type, known[i].type)) continue;
        zest_decoder_step *step = zest_tokenizer_decode_step(tokenizer, known[i].kind, err);
        if (!step) return err->status;
        return known[i].build ? known[i].build(tokenizer, component, step, err) : ZEST_OK;
    }
    return unsupported(tokenizer, "decoder", type,
                       "Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace and WordPiece",
                       err);
}

/* ---- Post-processors: the special tokens around the text ---- */

/* The id of this token; -1: no such token. */
static int32_t known_id(const zest_tokenizer *tokenizer, const json_t *id) {
    json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    if (value < 0 || value >= ZEST_VOCAB_LIMIT) return -1;
    return zest_tokenizer_token(tokenizer, (int32_t)value, NULL) ? (int32_t)value : -1;
}

/* RobertaProcessing and BertProcessing: [cls] text [sep], each given as ["<s>", 0]. */
static zest_status build_classic(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    static const char *const keys[] = {"cls", "sep"};
    zest_ids *lists[] = {&tokenizer->before, &tokenizer->after};
    for (int i = 0; i < 2; i++) {
        int32_t id = known_id(tokenizer, json_array_get(json_object_get(component, keys[i]), 1));
        if (id < 0)
            return zest_error_set(
                error, ZEST_ERROR_FORMAT,
                "%s: post_processor: \"%s\" must be [token, id] with an id of the vocabulary",
                tokenizer->name, keys[i]);
        zest_ids_add(lists[i], id);
        tokenizer->role[i ? ZEST_TOKEN_SEP : ZEST_TOKEN_CLS] = id;
    }
    return ZEST_OK;
}

/* The ids of a special token in a template. */
static zest_status add_named(zest_tokenizer *tokenizer, const json_t *component, const char *name,
                             zest_ids *to, zest_error *error) {
    const json_t *ids = NULL;
    if (name)
        ids = json_object_get(json_object_get(json_object_get(component, "special_tokens"), name), "ids");
    if (!json_array_size(ids))
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: post_processor: the template's token \"%.60s\" is not among its special_tokens",
            tokenizer->name, name ? name : "");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int32_t id = known_id(tokenizer, json_array_get(ids, i));
        if (id < 0)
            return zest_error_set(error, ZEST_ERROR_FORMAT,
                                  "%s: post_processor: \"%.60s\" has an id without a token", tokenizer->name,
                                  name);
        zest_ids_add(to, id);
    }
    return ZEST_OK;
}

static zest_status build_template(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    const json_t *single = json_object_get(component, "single");
    zest_ids before = {0}, after = {0}; /* added outside those of earlier processors */
    zest_status status = ZEST_OK;
    int texts = 0;
    for (size_t i = 0; i < json_array_size(single) && !status; i++) {
        const json_t *part = json_array_get(single, i), *special = json_object_get(part, "SpecialToken");
        const char *name = json_string_value(json_object_get(special, "id"));
        if (special)
            status = add_named(tokenizer, component, name, texts ? &after : &before, error);
        else
            texts += json_object_get(part, "Sequence") ? 1 : 2;
    }
    if (!status && texts != 1)
        status = zest_tokenizer_load_error(tokenizer, "post_processor",
                                           "the template must contain the text exactly once", error);
    zest_ids_add_all(&before, tokenizer->before.data, tokenizer->before.count);
    zest_ids_add_all(&tokenizer->after, after.data, after.count);
    zest_ids_free(&after);
    zest_ids_free(&tokenizer->before);
    tokenizer->before = before;
    return status;
}

static zest_status load_post_processor(zest_tokenizer *tokenizer, const json_t *component,
                                       zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    if (!component || json_is_null(component)) return ZEST_OK;
    const char *type = load_type(tokenizer, component, "post_processor", err);
    if (!type) return err->status;
    zest_status status;
    if (!strcmp(type, "Sequence"))
        status =
            load_sequence(tokenizer, component, "post_processor", "processors", load_post_processor, err);
    else if (!strcmp(type, "ByteLevel")) /* it only changes offsets */
        status = ZEST_OK;
    else if (!strcmp(type, "RobertaProcessing") || !strcmp(type, "BertProcessing"))
        status = build_classic(tokenizer, component, err);
    else if (!strcmp(type, "TemplateProcessing"))
        status = build_template(tokenizer, component, err);
    else
        status = zest_error_set(
            err, ZEST_ERROR_FORMAT,
            "%s: the post_processor \"%.60s\" is not supported; zest supports Sequence, ByteLevel, "
            "RobertaProcessing, BertProcessing and TemplateProcessing",
            tokenizer->name, type);
    if (!status && (tokenizer->before.failed || tokenizer->after.failed))
        status = zest_error_memory(err, tokenizer->name, 64);
    return status;
}

/* ---- Whole files ---- */

/* transformers takes the options of BERT's normalizer from tokenizer_config.json, whatever tokenizer.json
 * has. */
static void override_normalizer(json_t *normalizer, const json_t *config) {
    static const char *const keys[][2] = {{"do_lower_case", "lowercase"},
                                          {"strip_accents", "strip_accents"},
                                          {"tokenize_chinese_chars", "handle_chinese_chars"}};
    const char *type = json_string_value(json_object_get(normalizer, "type")),
               *class = json_string_value(json_object_get(config, "tokenizer_class"));
    if (!type || strcmp(type, "BertNormalizer") || (class && zest_tokenizer_load_generic_class(class)))
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(config, keys[i][0]);
        if (json_is_boolean(value)) json_object_set(normalizer, keys[i][1], value);
    }
}

static zest_status build_all(zest_tokenizer *tokenizer, json_t *json,
                             const zest_tokenizer_load_settings *settings, zest_error *error) {
    const json_t *model = json_object_get(json, "model");
    override_normalizer(json_object_get(json, "normalizer"), settings->config);
    zest_status status = build_model(tokenizer, model, error);
    if (!status) status = load_normalizer(tokenizer, json_object_get(json, "normalizer"), error);
    if (!status) status = load_pre_tokenizer(tokenizer, json_object_get(json, "pre_tokenizer"), error);
    if (!status) status = load_decoder(tokenizer, json_object_get(json, "decoder"), error);
    if (!status) status = build_added(tokenizer, json_object_get(json, "added_tokens"), error);
    if (!status) status = build_unknown(tokenizer, model, error);
    if (!status) status = load_post_processor(tokenizer, json_object_get(json, "post_processor"), error);
    if (!status) status = zest_tokenizer_finish(tokenizer, error);
    if (!status) zest_tokenizer_load_roles(tokenizer, settings);
    return status;
}

static zest_tokenizer *build(const char *bytes, size_t size, const char *name,
                             const zest_tokenizer_load_settings *settings, zest_error *error) {
    zest_error local = {0};
    json_t *json;
    if (zest_json_parse(bytes, size, name, &json, error)) return NULL;
    zest_tokenizer *tokenizer = zest_tokenizer_new(name, error);
    if (tokenizer && build_all(tokenizer, json, settings, error ? error : &local)) {
        zest_tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    json_decref(json);
    return tokenizer;
}

zest_tokenizer *zest_tokenizer_from_json(const char *bytes, size_t size, const char *name,
                                         zest_error *error) {
    return build(bytes, size, name, &(zest_tokenizer_load_settings){0}, error);
}

static zest_tokenizer *open_file(const char *path, const char *folder, zest_error *error) {
    zest_buffer bytes = {0};
    zest_tokenizer_load_settings settings = {0};
    zest_tokenizer *tokenizer = NULL;
    if (!zest_file_read(path, ZEST_TOKENIZER_LOAD_FILE_LIMIT, &bytes, error) &&
        !zest_tokenizer_load_read_settings(folder, &settings, error))
        tokenizer = build(bytes.data, bytes.size, path, &settings, error);
    if (tokenizer && zest_tokenizer_load_chat(tokenizer, folder, settings.config, error)) {
        zest_tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    zest_tokenizer_load_free_settings(&settings);
    zest_buffer_free(&bytes);
    return tokenizer;
}

static int ends_in(const char *path, const char *end) {
    size_t size = strlen(path), tail = strlen(end);
    return size >= tail && !strcmp(path + size - tail, end);
}

static zest_tokenizer *open_gguf(const char *path, zest_error *error) {
    zest_gguf *file;
    if (zest_gguf_open(path, &file, error)) return NULL;
    zest_tokenizer *tokenizer = zest_tokenizer_from_gguf(file, path, error);
    zest_gguf_close(file);
    return tokenizer;
}

zest_tokenizer *zest_tokenizer_open(const char *path, zest_error *error) {
    struct stat info;
    if (stat(path, &info)) {
        zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
        return NULL;
    }
    int is_folder = S_ISDIR(info.st_mode);
    if (!is_folder && ends_in(path, ".gguf")) return open_gguf(path, error);
    char *file = is_folder ? zest_file_join(path, "tokenizer.json") : strdup(path);
    char *folder = strdup(path);
    zest_tokenizer *tokenizer = NULL;
    if (!file || !folder) {
        zest_error_memory(error, path, strlen(path));
    } else if (is_folder && access(file, F_OK)) {
        tokenizer = zest_tokenizer_from_vocab(path, error);
    } else {
        char *slash = is_folder ? NULL : strrchr(folder, '/');
        if (slash) slash[slash == folder] = '\0';
        tokenizer = open_file(file, is_folder || slash ? folder : ".", error);
    }
    free(file);
    free(folder);
    return tokenizer;
}
