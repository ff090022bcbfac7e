/* The chat template that comes with a tokenizer: found, not interpreted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

zest_status zest_tokenizer_load_set_chat(zest_tokenizer *tokenizer, const char *text, size_t size,
                                         zest_error *error) {
    if (size > ZEST_TOKENIZER_CHAT_LIMIT)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the chat template has %zu bytes, more than %d",
                              tokenizer->name, size, ZEST_TOKENIZER_CHAT_LIMIT);
    if (zest_unicode_valid(text, size) < size)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the chat template is not UTF-8 text",
                              tokenizer->name);
    char *copy = malloc(size + 1);
    if (!copy) return zest_error_memory(error, tokenizer->name, size);
    if (size) memcpy(copy, text, size);
    copy[size] = '\0';
    free(tokenizer->chat);
    tokenizer->chat = copy;
    tokenizer->chat_size = size;
    return ZEST_OK;
}

/* "chat_template" of tokenizer_config.json: the text, or a list of named ones, of which "default" is for chat. */
static const json_t *in_config(const json_t *config) {
    const json_t *given = zest_tokenizer_load_member(config, "chat_template");
    for (size_t i = 0; i < json_array_size(given); i++) {
        const json_t *one = json_array_get(given, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && !strcmp(name, "default")) return json_object_get(one, "template");
    }
    return given;
}

zest_status zest_tokenizer_load_chat(zest_tokenizer *tokenizer, const char *folder, const json_t *config,
                                     zest_error *error) {
    zest_buffer bytes = {0};
    char *path = zest_file_join(folder, "chat_template.jinja");
    zest_status status = ZEST_OK;
    if (!path) return zest_error_memory(error, folder, strlen(folder));
    if (access(path, F_OK) == 0 || errno != ENOENT) {
        status = zest_file_read(path, ZEST_TOKENIZER_CHAT_LIMIT, &bytes, error);
        if (!status) status = zest_tokenizer_load_set_chat(tokenizer, bytes.data, bytes.size, error);
    } else {
        const json_t *text = in_config(config);
        if (json_is_string(text))
            status = zest_tokenizer_load_set_chat(tokenizer, json_string_value(text),
                                                  json_string_length(text), error);
    }
    zest_buffer_free(&bytes);
    free(path);
    return status;
}

const char *zest_tokenizer_chat_template(const zest_tokenizer *tokenizer, size_t *size) {
    if (size) *size = tokenizer->chat_size;
    return tokenizer->chat;
}
