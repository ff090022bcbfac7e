/* Members of JSON files of tokenizers: texts, flags, types, lists and patterns, and what is said about wrong ones. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/load.h"
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
zest_status zest_tokenizer_load_text(const zest_tokenizer *tokenizer, const json_t *object, const char *where,
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
const char *zest_tokenizer_load_type(const zest_tokenizer *tokenizer, const json_t *component,
                                     const char *where, zest_error *error) {
    const char *type = json_string_value(json_object_get(component, "type"));
    if (!type) zest_tokenizer_load_error(tokenizer, where, "must be an object with a \"type\"", error);
    return type;
}

/* Calls `one` for every component of a Sequence. */
zest_status zest_tokenizer_load_sequence(zest_tokenizer *tokenizer, const json_t *component,
                                         const char *where, const char *key, zest_tokenizer_loader one,
                                         zest_error *error) {
    const json_t *list = json_object_get(component, key);
    if (!json_is_array(list))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s: a Sequence needs the list \"%s\"",
                              tokenizer->name, where, key);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < json_array_size(list) && !status; i++)
        status = one(tokenizer, json_array_get(list, i), error);
    return status;
}

zest_status zest_tokenizer_load_unsupported(const zest_tokenizer *tokenizer, const char *where,
                                            const char *type, const char *known, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the %s \"%.60s\" is not supported; zest supports %s",
                          tokenizer->name, where, type, known);
}

/* A pattern, {"String": ...} or {"Regex": ...}: one of text and regex is set. */
zest_status zest_tokenizer_load_pattern(const zest_tokenizer *tokenizer, const json_t *component,
                                        const char *where, char **text, size_t *size, zest_regex **regex,
                                        zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    const json_t *pattern = json_object_get(component, "pattern"),
                 *expression = json_object_get(pattern, "Regex");
    if (json_is_string(expression)) {
        char source[600];
        snprintf(source, sizeof source, "%.500s: %s", tokenizer->name, where);
        *regex = zest_regex_new(json_string_value(expression), json_string_length(expression), source, err);
        return *regex ? ZEST_OK : err->status;
    }
    zest_status status = zest_tokenizer_load_text(tokenizer, pattern, where, "String", text, size, error);
    return status || *size ? status
                           : zest_tokenizer_load_error(tokenizer, where, "the pattern is empty", error);
}
