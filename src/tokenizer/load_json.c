/* What the readers of JSON share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tokenizer/tokenizer_internal.h"
#include "base/file.h"
#include "base/json.h"

zest_status zest_build_read(const char *folder, const char *name, int optional, json_t **out,
                            zest_error *error) {
    zest_buffer bytes = {0};
    zest_status status = ZEST_OK;
    *out = NULL;
    char *path = zest_file_join(folder, name);
    if (!path) return zest_error_memory(error, name, strlen(folder));
    if (!optional || access(path, F_OK) == 0 || errno != ENOENT) {
        status = zest_file_read(path, ZEST_BUILD_FILE_LIMIT, &bytes, error);
        if (!status) status = zest_json_parse(bytes.data, bytes.size, path, out, error);
    }
    zest_buffer_free(&bytes);
    free(path);
    return status;
}

json_t *zest_build_member(const json_t *object, const char *key) {
    json_t *member = json_object_get(object, key);
    return json_is_null(member) ? NULL : member;
}

zest_status zest_build_refuse(const zest_tokenizer *tokenizer, const char *where, const char *saying,
                              zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: %s", tokenizer->name, where, saying);
}

zest_status zest_build_flag(const zest_tokenizer *tokenizer, const json_t *object, const char *where,
                            const char *key, int fallback, int *flag, zest_error *error) {
    const json_t *member = zest_build_member(object, key);
    *flag = member ? json_is_true(member) : fallback;
    if (member ? json_is_boolean(member) : fallback >= 0) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: \"%s\" must be true or false", tokenizer->name,
                          where, key);
}

zest_status zest_build_text(const zest_tokenizer *tokenizer, const json_t *object, const char *where,
                            const char *key, char **text, size_t *size, zest_error *error) {
    const json_t *member = zest_build_member(object, key);
    if (!json_is_string(member))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: \"%s\" must be a string", tokenizer->name,
                              where, key);
    *size = json_string_length(member);
    if (*size > ZEST_BUILD_TEXT_LIMIT)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: \"%s\" is longer than %d bytes",
                              tokenizer->name, where, key, ZEST_BUILD_TEXT_LIMIT);
    *text = malloc(*size + 1);
    if (!*text) return zest_error_memory(error, tokenizer->name, *size);
    memcpy(*text, json_string_value(member), *size + 1);
    return ZEST_OK;
}

const char *zest_build_type(const zest_tokenizer *tokenizer, const json_t *component, const char *where,
                            zest_error *error) {
    const char *type = json_string_value(json_object_get(component, "type"));
    if (!type) zest_build_refuse(tokenizer, where, "must be an object with a \"type\"", error);
    return type;
}

zest_status zest_build_sequence(zest_tokenizer *tokenizer, const json_t *component, const char *where,
                                const char *key, zest_build_component one, zest_error *error) {
    const json_t *list = json_object_get(component, key);
    if (!json_is_array(list))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: a Sequence needs the list \"%s\"",
                              tokenizer->name, where, key);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < json_array_size(list) && !status; i++)
        status = one(tokenizer, json_array_get(list, i), error);
    return status;
}

zest_status zest_build_vocab(zest_tokenizer *tokenizer, const json_t *vocab, zest_error *error) {
    const char *key;
    json_t *id;
    if (!json_is_object(vocab))
        return zest_build_refuse(tokenizer, "the vocabulary", "must be an object of tokens and their ids",
                                 error);
    json_object_foreach((json_t *)vocab, key, id) {
        if (!json_is_integer(id))
            return zest_error_set(error, ZEST_ERROR_FORMAT,
                                  "%s: token \"%.60s\" needs a whole number as its id", tokenizer->name, key);
        zest_status status = zest_vocab_add(&tokenizer->bpe.vocab, key, strlen(key), json_integer_value(id),
                                            tokenizer->name, error);
        if (status) return status;
    }
    zest_bpe_seal(&tokenizer->bpe);
    return ZEST_OK;
}

zest_status zest_build_added(zest_tokenizer *tokenizer, const json_t *token, int64_t id, zest_error *error) {
    const json_t *content = json_object_get(token, "content");
    if (!json_is_string(content))
        return zest_build_refuse(tokenizer, "added_tokens", "each needs a \"content\", a string", error);
    zest_tokenizer_added added = {json_string_value(content), json_string_length(content), .id = id};
    const struct {
        const char *key;
        int *flag;
    } flags[] = {{"special", &added.special},
                 {"lstrip", &added.eats_left},
                 {"rstrip", &added.eats_right},
                 {"single_word", &added.single_word},
                 {"normalized", &added.normalized}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        zest_status status =
            zest_build_flag(tokenizer, token, "added_tokens", flags[i].key, 0, flags[i].flag, error);
        if (status) return status;
    }
    return zest_tokenizer_add(tokenizer, &added, error);
}

/* Tokenizers from a tokenizer.json. */

/* ---- The model ---------------------------------------------------------------------------------------- */

static zest_status build_merges(zest_tokenizer *tokenizer, const json_t *merges, zest_error *error) {
    if (!json_is_array(merges))
        return zest_build_refuse(tokenizer, "model", "needs the list \"merges\"", error);
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

zest_status zest_build_wordpiece(zest_tokenizer *tokenizer, const char *prefix, size_t prefix_size,
                                 int64_t longest_word, zest_error *error) {
    if (longest_word < 0 || longest_word > ZEST_WORDPIECE_LONGEST_WORD)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: model: \"max_input_chars_per_word\" must be from 0 to %d", tokenizer->name,
                              ZEST_WORDPIECE_LONGEST_WORD);
    tokenizer->wordpiece.prefix = strndup(prefix, prefix_size);
    if (!tokenizer->wordpiece.prefix) return zest_error_memory(error, tokenizer->name, prefix_size);
    tokenizer->wordpiece.prefix_size = prefix_size;
    tokenizer->wordpiece.longest_word = (size_t)longest_word;
    return ZEST_OK;
}

static zest_status build_wordpiece(zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    const json_t *prefix = zest_build_member(model, "continuing_subword_prefix"),
                 *longest = zest_build_member(model, "max_input_chars_per_word");
    if (!json_is_string(prefix) || !json_is_string(json_object_get(model, "unk_token")))
        return zest_build_refuse(
            tokenizer, "model",
            "WordPiece needs \"continuing_subword_prefix\" and \"unk_token\", two strings", error);
    if (longest && !json_is_integer(longest))
        return zest_build_refuse(tokenizer, "model", "\"max_input_chars_per_word\" must be a whole number",
                                 error);
    zest_status status =
        zest_build_wordpiece(tokenizer, json_string_value(prefix), json_string_length(prefix),
                             longest ? json_integer_value(longest) : ZEST_BUILD_WORD_LENGTH, error);
    return status ? status : zest_build_vocab(tokenizer, json_object_get(model, "vocab"), error);
}

/* The model's type; files of old versions tell it by what it has alone. "": unknown. */
static const char *type_of(const json_t *model) {
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type) type = json_object_get(model, "merges") ? "BPE" : "";
    if (!*type && json_object_get(model, "max_input_chars_per_word")) type = "WordPiece";
    return type;
}

/* Features of BPE that change every token and that no model known to zest has. */
static zest_status check_model(const zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    const char *type = type_of(model);
    if (!json_is_object(model)) return zest_build_refuse(tokenizer, "model", "must be an object", error);
    if (strcmp(type, "BPE") != 0)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the model \"%.60s\" is not known to zest, which has BPE and WordPiece",
                              tokenizer->name, *type ? type : "without a type");
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const json_t *affix = zest_build_member(model, affixes[i]);
        if (affix && json_string_length(affix))
            return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: model: zest knows no \"%s\"",
                                  tokenizer->name, affixes[i]);
    }
    const json_t *dropout = zest_build_member(model, "dropout");
    if (dropout && json_number_value(dropout) != 0.0)
        return zest_build_refuse(tokenizer, "model", "dropout makes tokens random; set it to null", error);
    return ZEST_OK;
}

static zest_status build_model(zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    zest_bpe *bpe = &tokenizer->bpe;
    if (!strcmp(type_of(model), "WordPiece")) return build_wordpiece(tokenizer, model, error);
    zest_status status = check_model(tokenizer, model, error);
    if (!status)
        status = zest_build_flag(tokenizer, model, "model", "byte_fallback", 0, &bpe->byte_fallback, error);
    if (!status)
        status = zest_build_flag(tokenizer, model, "model", "fuse_unk", 0, &bpe->fuse_unknown, error);
    if (!status)
        status = zest_build_flag(tokenizer, model, "model", "ignore_merges", 0, &bpe->whole_first, error);
    if (!status) status = zest_build_vocab(tokenizer, json_object_get(model, "vocab"), error);
    if (!status) status = build_merges(tokenizer, json_object_get(model, "merges"), error);
    return status;
}

static zest_status build_unknown(zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    const json_t *unknown = zest_build_member(model, "unk_token");
    if (!unknown) return ZEST_OK;
    tokenizer->bpe.unknown = zest_tokenizer_id(
        tokenizer, json_is_string(unknown) ? json_string_value(unknown) : "", json_string_length(unknown));
    tokenizer->wordpiece.unknown = tokenizer->role[ZEST_TOKEN_UNK] = tokenizer->bpe.unknown;
    if (tokenizer->bpe.unknown >= 0) return ZEST_OK;
    return zest_build_refuse(tokenizer, "model", "its \"unk_token\" is not in the vocabulary", error);
}

static zest_status build_added(zest_tokenizer *tokenizer, const json_t *tokens, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < json_array_size(tokens) && !status; i++) {
        const json_t *token = json_array_get(tokens, i), *id = json_object_get(token, "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return zest_build_refuse(tokenizer, "added_tokens", "each needs an \"id\", 0 or more", error);
        status = zest_build_added(tokenizer, token, json_integer_value(id), error);
    }
    return status;
}

/* ---- Post-processors: what stands around the text ----------------------------------------------------- */

/* The id that this is, if there is such a token; else -1. */
static int32_t known_id(const zest_tokenizer *tokenizer, const json_t *id) {
    json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    if (value < 0 || value >= ZEST_VOCAB_LIMIT) return -1;
    return zest_tokenizer_token(tokenizer, (int32_t)value, NULL) ? (int32_t)value : -1;
}

/* RoBERTa's and BERT's: [cls] text [sep], each given as ["<s>", 0]. */
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

/* The ids behind a special token's name in a template. */
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
    zest_ids before = {0}, after = {0}; /* they go around what the processors before put there */
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
        status =
            zest_build_refuse(tokenizer, "post_processor", "the template must hold the text once", error);
    zest_ids_add_all(&before, tokenizer->before.data, tokenizer->before.count);
    zest_ids_add_all(&tokenizer->after, after.data, after.count);
    zest_ids_free(&after);
    zest_ids_free(&tokenizer->before);
    tokenizer->before = before;
    return status;
}

zest_status zest_build_post_processor(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    zest_error local = {0}, *say = error ? error : &local;
    if (!component || json_is_null(component)) return ZEST_OK;
    const char *type = zest_build_type(tokenizer, component, "post_processor", say);
    if (!type) return say->status;
    zest_status status;
    if (!strcmp(type, "Sequence"))
        status = zest_build_sequence(tokenizer, component, "post_processor", "processors",
                                     zest_build_post_processor, say);
    else if (!strcmp(type, "ByteLevel")) /* it moves offsets alone */
        status = ZEST_OK;
    else if (!strcmp(type, "RobertaProcessing") || !strcmp(type, "BertProcessing"))
        status = build_classic(tokenizer, component, say);
    else if (!strcmp(type, "TemplateProcessing"))
        status = build_template(tokenizer, component, say);
    else
        status = zest_error_set(
            say, ZEST_ERROR_FORMAT,
            "%s: the post_processor \"%.60s\" is not known to zest, which has Sequence, ByteLevel, "
            "RobertaProcessing, BertProcessing and TemplateProcessing",
            tokenizer->name, type);
    if (!status && (tokenizer->before.failed || tokenizer->after.failed))
        status = zest_error_memory(say, tokenizer->name, 64);
    return status;
}

/* ---- The whole ---------------------------------------------------------------------------------------- */

/* transformers makes BERT's normalizer from tokenizer_config.json, whatever tokenizer.json says. */
static void override_normalizer(json_t *normalizer, const json_t *config) {
    static const char *const keys[][2] = {{"do_lower_case", "lowercase"},
                                          {"strip_accents", "strip_accents"},
                                          {"tokenize_chinese_chars", "handle_chinese_chars"}};
    const char *type = json_string_value(json_object_get(normalizer, "type")),
               *class = json_string_value(json_object_get(config, "tokenizer_class"));
    if (!type || strcmp(type, "BertNormalizer") || (class && zest_build_generic_class(class))) return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(config, keys[i][0]);
        if (json_is_boolean(value)) json_object_set(normalizer, keys[i][1], value);
    }
}

static zest_status build_all(zest_tokenizer *tokenizer, json_t *json, const zest_build_settings *settings,
                             zest_error *error) {
    const json_t *model = json_object_get(json, "model");
    override_normalizer(json_object_get(json, "normalizer"), settings->config);
    zest_status status = build_model(tokenizer, model, error);
    if (!status) status = zest_build_normalizer(tokenizer, json_object_get(json, "normalizer"), error);
    if (!status) status = zest_build_pre_tokenizer(tokenizer, json_object_get(json, "pre_tokenizer"), error);
    if (!status) status = zest_build_decoder(tokenizer, json_object_get(json, "decoder"), error);
    if (!status) status = build_added(tokenizer, json_object_get(json, "added_tokens"), error);
    if (!status) status = build_unknown(tokenizer, model, error);
    if (!status)
        status = zest_build_post_processor(tokenizer, json_object_get(json, "post_processor"), error);
    if (!status) status = zest_tokenizer_finish(tokenizer, error);
    if (!status) zest_build_roles(tokenizer, settings);
    return status;
}

static zest_tokenizer *build(const char *bytes, size_t size, const char *name,
                             const zest_build_settings *settings, zest_error *error) {
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
    return build(bytes, size, name, &(zest_build_settings){0}, error);
}

static zest_tokenizer *open_file(const char *path, const char *folder, zest_error *error) {
    zest_buffer bytes = {0};
    zest_build_settings settings = {0};
    zest_tokenizer *tokenizer = NULL;
    if (!zest_file_read(path, ZEST_BUILD_FILE_LIMIT, &bytes, error) &&
        !zest_build_read_settings(folder, &settings, error))
        tokenizer = build(bytes.data, bytes.size, path, &settings, error);
    zest_build_free_settings(&settings);
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
