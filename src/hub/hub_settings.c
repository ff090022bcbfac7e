#include "hub/hub_settings.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"

enum { STALL_SECONDS = 30, STALL_LIMIT = 3600, TOKEN_LIMIT = 4096 };

/* The first of the variables that is set and not empty; NULL: none is. */
static const char *variable(const char *first, const char *second) {
    const char *value = getenv(first);
    if (value && *value) return value;
    value = second ? getenv(second) : NULL;
    return value && *value ? value : NULL;
}

/* "~/x" in full; a relative path from the folder we are in. */
static char *absolute(const char *path) {
    const char *home = getenv("HOME");
    char here[PATH_MAX];
    if (path[0] == '~' && (path[1] == '/' || !path[1]))
        return home && *home ? zest_file_join(home, path + 1 + (path[1] == '/')) : NULL;
    if (path[0] == '/') return strdup(path);
    return getcwd(here, sizeof here) ? zest_file_join(here, path) : NULL;
}

static char *find_home(void) {
    const char *hub = variable("HF_HOME", NULL), *cache = variable("XDG_CACHE_HOME", NULL);
    if (hub) return absolute(hub);
    char *parent = absolute(cache ? cache : "~/.cache"),
         *home = parent ? zest_file_join(parent, "huggingface") : NULL;
    free(parent);
    return home;
}

static zest_status take_token(zest_hub_settings *settings, const char *text, size_t size, const char *source,
                              zest_error *error) {
    while (size && isspace((unsigned char)text[size - 1])) size--;
    while (size && isspace((unsigned char)*text)) text++, size--;
    if (!size) return ZEST_OK;
    for (size_t i = 0; i < size; i++) /* it becomes a line of a request */
        if (!isgraph((unsigned char)text[i]))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "%s: holds characters that a token of the Hub does not have", source);
    settings->token = strndup(text, size);
    return settings->token ? ZEST_OK : zest_error_memory(error, source, size);
}

static zest_status find_token(zest_hub_settings *settings, zest_error *error) {
    const char *token = variable("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
               *given = variable("HF_TOKEN_PATH", NULL);
    if (token) return take_token(settings, token, strlen(token), "HF_TOKEN", error);
    char *home = find_home(), *path = given ? absolute(given) : home ? zest_file_join(home, "token") : NULL;
    free(home);
    zest_buffer text = {0};
    zest_status status = ZEST_OK;
    if (path && access(path, F_OK) == 0) {
        status = zest_file_read(path, TOKEN_LIMIT, &text, error);
        if (!status && text.size) status = take_token(settings, text.data, text.size, path, error);
    }
    zest_buffer_free(&text);
    free(path);
    return status;
}

static int is_true(const char *value) {
    static const char *const words[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; value && i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(value, words[i])) return 1;
    return 0;
}

static zest_status find_endpoint(zest_hub_settings *settings, zest_error *error) {
    const char *given = variable("HF_ENDPOINT", NULL);
    settings->endpoint = strdup(given ? given : "https://huggingface.co");
    if (!settings->endpoint) return zest_error_memory(error, "HF_ENDPOINT", 0);
    size_t length = strlen(settings->endpoint);
    while (length && settings->endpoint[length - 1] == '/') settings->endpoint[--length] = '\0';
    if (strncasecmp(settings->endpoint, "https://", 8) && strncasecmp(settings->endpoint, "http://", 7))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "HF_ENDPOINT is '%.200s': it should begin with https:// (or http://)", given);
    return ZEST_OK;
}

char *zest_hub_settings_cache(void) {
    const char *given = variable("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE");
    if (given) return absolute(given);
    char *home = find_home(), *cache = home ? zest_file_join(home, "hub") : NULL;
    free(home);
    return cache;
}

zest_status zest_hub_settings_no_home(zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FILE,
                          "no folder for models: set HOME, or HF_HOME to the folder to use");
}

zest_status zest_hub_settings_read(zest_hub_settings *settings, zest_error *error) {
    const char *stall = variable("HF_HUB_DOWNLOAD_TIMEOUT", NULL);
    *settings = (zest_hub_settings){.stall_seconds = stall ? strtol(stall, NULL, 10) : 0};
    if (settings->stall_seconds <= 0 || settings->stall_seconds > STALL_LIMIT)
        settings->stall_seconds = STALL_SECONDS;
    settings->offline = is_true(variable("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"));
    settings->cache = zest_hub_settings_cache();
    zest_status status = settings->cache ? find_endpoint(settings, error) : zest_hub_settings_no_home(error);
    return status ? status : find_token(settings, error);
}

void zest_hub_settings_free(zest_hub_settings *settings) {
    free(settings->endpoint);
    free(settings->cache);
    free(settings->token);
    *settings = (zest_hub_settings){0};
}
