#include "hub/hub_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PART_SIZE = 200 }; /* with endings such as .incomplete it still fits the 255 bytes of a file name */

static int is_control(char c) { return (unsigned char)c < 32 || c == 127; }

int zest_hub_name_repo(const char *name) {
    size_t length = strlen(name), slashes = 0;
    if (!length || length >= ZEST_HUB_REPO_SIZE || strstr(name, "--") || strstr(name, "..")) return 0;
    for (size_t i = 0; i < length; i++) {
        char c = name[i], next = name[i + 1];
        int edge = i == 0 || name[i - 1] == '/' || next == '\0' || next == '/';
        if (c == '/')
            slashes++;
        else if (!isalnum((unsigned char)c) && c != '_' && (edge || (c != '-' && c != '.')))
            return 0;
        if (c == '/' && (i == 0 || next == '\0' || next == '/')) return 0;
    }
    return slashes <= 1 && !(length > 4 && !strcmp(name + length - 4, ".git"));
}

int zest_hub_name_has_org(const char *name) { return strchr(name, '/') != NULL; }

/* Parts between slashes, none of which goes up or hides the next. */
static int is_inside(const char *name, size_t size) {
    size_t length = strlen(name);
    if (!length || length >= size) return 0;
    for (size_t i = 0; i < length; i++)
        if (is_control(name[i]) || name[i] == '\\') return 0;
    for (const char *part = name;; part++) {
        size_t n = strcspn(part, "/");
        if (n == 0 || n > PART_SIZE || (n == 1 && part[0] == '.') || (n == 2 && !strncmp(part, "..", 2)))
            return 0;
        part += n;
        if (!*part) return 1;
    }
}

int zest_hub_name_revision(const char *name) {
    return is_inside(name, ZEST_HUB_REVISION_SIZE) && !strstr(name, "..") && !strpbrk(name, " ~^:?*[@");
}

int zest_hub_name_file(const char *name) { return is_inside(name, ZEST_HUB_FILE_SIZE); }

int zest_hub_name_hex(const char *text, size_t digits) {
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

int zest_hub_name_split(const char *name, char repo[ZEST_HUB_REPO_SIZE],
                        char revision[ZEST_HUB_REVISION_SIZE]) {
    const char *at = strchr(name, '@');
    size_t length = at ? (size_t)(at - name) : strlen(name);
    if (length >= ZEST_HUB_REPO_SIZE) return 0;
    memcpy(repo, name, length);
    repo[length] = '\0';
    if (snprintf(revision, ZEST_HUB_REVISION_SIZE, "%s", at ? at + 1 : "main") >= ZEST_HUB_REVISION_SIZE)
        return 0;
    return zest_hub_name_repo(repo) && zest_hub_name_revision(revision);
}

const char *zest_hub_name_known(const char *name) {
    static const char *const repos[] = {
        "FacebookAI/roberta-base",
        "FacebookAI/roberta-large",
        "distilbert/distilroberta-base",
        "google-bert/bert-base-uncased",
        "google-bert/bert-base-cased",
        "google-bert/bert-large-uncased",
        "google-bert/bert-large-cased",
        "openai-community/gpt2",
        "openai-community/gpt2-medium",
        "openai-community/gpt2-large",
        "openai-community/gpt2-xl",
        "distilbert/distilgpt2",
        "facebook/opt-125m",
        "facebook/opt-350m",
        "facebook/opt-1.3b",
        "facebook/opt-2.7b",
        "facebook/opt-6.7b",
        "facebook/opt-13b",
        "HuggingFaceTB/SmolLM2-135M",
        "HuggingFaceTB/SmolLM2-360M",
        "HuggingFaceTB/SmolLM2-1.7B",
        "Qwen/Qwen2-0.5B",
        "Qwen/Qwen2-1.5B",
        "Qwen/Qwen2.5-0.5B",
        "Qwen/Qwen2.5-1.5B",
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        "meta-llama/Llama-3.2-1B",
        "mistralai/Mistral-7B-v0.1",
    };
    for (size_t i = 0; i < sizeof repos / sizeof *repos; i++)
        if (!strcasecmp(strchr(repos[i], '/') + 1, name)) return repos[i];
    return NULL;
}

void zest_hub_name_clean(char *text) {
    for (; *text; text++)
        if (is_control(*text)) *text = '.';
}
