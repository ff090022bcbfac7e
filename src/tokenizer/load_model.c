/* The model of a tokenizer.json: vocabulary, merges and settings of BPE and WordPiece; added tokens. */
#include <string.h>

#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"

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

zest_status zest_tokenizer_load_model(zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
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

zest_status zest_tokenizer_load_unknown(zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    const json_t *unknown = zest_tokenizer_load_member(model, "unk_token");
    if (!unknown) return ZEST_OK;
    tokenizer->bpe.unknown = zest_tokenizer_id(
        tokenizer, json_is_string(unknown) ? json_string_value(unknown) : "", json_string_length(unknown));
    tokenizer->wordpiece.unknown = tokenizer->role[ZEST_TOKEN_UNK] = tokenizer->bpe.unknown;
    if (tokenizer->bpe.unknown >= 0) return ZEST_OK;
    return zest_tokenizer_load_error(tokenizer, "model", "its \"unk_token\" is not in the vocabulary", error);
}

zest_status zest_tokenizer_load_added_list(zest_tokenizer *tokenizer, const json_t *tokens,
                                           zest_error *error) {
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
