/* What the readers of JSON share. */
#include "text/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
