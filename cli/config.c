#include "cli/config.h"

#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "base/option_suggest.h"

enum { CONFIG_LIMIT = 1 << 20 };

typedef struct {
    const zest_command *command;
    const char *path;
    zest_options *options;
    unsigned char on_command_line[ZEST_OPTION_COUNT];
    zest_error *error;
} config;

/* Cuts blanks off both ends, in place. */
static char *trim(char *text) {
    size_t size = strlen(text);
    while (size && isspace((unsigned char)text[size - 1])) text[--size] = '\0';
    while (isspace((unsigned char)*text)) text++;
    return text;
}

static zest_status refuse_name(const config *c, const char *name, size_t line) {
    char suggestion[ZEST_OPTION_SUGGESTION_SIZE];
    return zest_error_set(c->error, ZEST_ERROR_ARGUMENT, "%s, line %zu: no option is called '%.100s'%s",
                          c->path, line, name,
                          zest_option_suggest(name, zest_command_users(c->command), 1, suggestion));
}

static zest_status read_line(const config *c, char *text, size_t line) {
    char *equals = strchr(text, '=');
    if (!equals)
        return zest_error_set(c->error, ZEST_ERROR_ARGUMENT,
                              "%s, line %zu: '%.100s' should read name = value", c->path, line, text);
    *equals = '\0';
    const char *name = trim(text), *value = trim(equals + 1);
    zest_option_id id = zest_option_find(name, zest_command_users(c->command));
    if (id == ZEST_OPTION_CONFIG)
        return zest_error_set(c->error, ZEST_ERROR_ARGUMENT,
                              "%s, line %zu: a config file cannot name another one", c->path, line);
    if (id == ZEST_OPTION_COUNT)
        return zest_option_find(name, ~0u) == ZEST_OPTION_COUNT ? refuse_name(c, name, line) : ZEST_OK;
    if (!*value || c->on_command_line[id]) return ZEST_OK;
    zest_error inner;
    if (!zest_command_set(c->command, c->options, id, value, &inner)) return ZEST_OK;
    return zest_error_set(c->error, inner.status, "%s, line %zu: %.800s%s", c->path, line, inner.message,
                          strstr(value, " #") ? "; a comment needs a line of its own" : "");
}

static zest_status read_lines(const config *c, char *text) {
    zest_status status = ZEST_OK;
    for (size_t line = 1; text && !status; line++) {
        char *one = trim(strsep(&text, "\n"));
        if (*one && *one != '#') status = read_line(c, one, line);
    }
    return status;
}

zest_status zest_config_read(const zest_command *command, const char *path, zest_options *options,
                             zest_error *error) {
    config c = {.command = command, .path = path, .options = options, .error = error};
    zest_buffer text = {0};
    memcpy(c.on_command_line, options->given, sizeof c.on_command_line);
    zest_status status = zest_file_read(path, CONFIG_LIMIT, &text, error);
    if (!status && text.data && strlen(text.data) < text.size)
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: has a zero byte; a config file is text", path);
    if (!status && text.data) status = read_lines(&c, text.data);
    zest_buffer_free(&text);
    return status;
}
