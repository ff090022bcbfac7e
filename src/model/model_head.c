/* A checkpoint without the language-model head: what it is instead, and which one to take. */
#include <stdio.h>
#include <string.h>

#include "model/model_source.h"
#include "io/mapped_file.h"

static int begins_with(const char *text, const char *start) { return !strncmp(text, start, strlen(start)); }

/* Heads of transformers' other model classes, by the names of their tensors. */
static const struct {
    const char *start, *what;
} others[] = {
    {"classifier.", "a classification head"},
    {"score.", "a classification head"},
    {"qa_outputs.", "a question-answering head"},
};

static int is_language_head(const char *name) {
    return begins_with(name, "lm_head.") || begins_with(name, "cls.predictions.");
}

/* What the file has in place of the language-model head; NULL: it has that, or no head at all. */
static const char *other_head(const zest_safetensors *file, const char **tensor) {
    const char *found = NULL;
    for (size_t i = 0; i < zest_safetensors_count(file); i++) {
        const char *name = zest_safetensors_at(file, i)->name;
        if (is_language_head(name)) return NULL;
        for (size_t k = 0; k < sizeof others / sizeof *others && !found; k++)
            if (begins_with(name, others[k].start)) found = others[k].what, *tensor = name;
    }
    return found;
}

/* A text of config.json that may go into a message. */
static const char *printable(const json_t *text, const char *fallback) {
    const char *value = json_string_value(text);
    return value && *value && zest_map_printable(value, strlen(value)) ? value : fallback;
}

static const char *architecture(const zest_model_source *source) {
    return printable(json_array_get(json_object_get(source->config_json, "architectures"), 0),
                     "no architecture");
}

/* " (config.json names NAME)", where it says what the checkpoint was made from and that is no path; else "".
 */
static void name_base(const zest_model_source *source, char *out, size_t size) {
    const char *base = printable(json_object_get(source->config_json, "_name_or_path"), "");
    *out = '\0';
    if (*base && *base != '/' && *base != '.') snprintf(out, size, " (config.json names %.100s)", base);
}

zest_status zest_model_head_check(const zest_model_source *source, zest_error *error) {
    const char *tensor = "", *what = source->folder ? other_head(source->folder, &tensor) : NULL;
    char base[160];
    if (!what) return ZEST_OK;
    name_base(source, base, sizeof base);
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: config.json names %.80s, and the weights have %s (tensor '%.80s') but no "
                          "language-model head. zest classifies by the language-model head's scores of label "
                          "words: use the pretrained language model that this one was fine-tuned from%s",
                          source->path, architecture(source), what, tensor, base);
}

zest_status zest_model_head_missing(const zest_model_source *source, const char *name, zest_error *error) {
    char base[160];
    name_base(source, base, sizeof base);
    return zest_error_set(
        error, ZEST_ERROR_FORMAT,
        "%s: tensor '%s' is missing: these are the weights of a model without its "
        "language-model head (config.json names %.80s), as sentence-embedding models have them. "
        "zest needs that head: use the pretrained language model with it%s",
        source->path, name, architecture(source), base);
}
