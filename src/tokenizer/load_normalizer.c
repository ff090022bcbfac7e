/* The normalizer of a tokenizer.json. */
#include <string.h>

#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"

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
    int clean = 0, ideographs = 0, lowercase = 0, accents = 0;
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

zest_status zest_tokenizer_load_normalizer(zest_tokenizer *tokenizer, const json_t *component,
                                           zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    if (!component || json_is_null(component)) return ZEST_OK;
    const char *type = zest_tokenizer_load_type(tokenizer, component, "normalizer", err);
    if (!type) return err->status;
    if (!strcmp(type, "Sequence"))
        return zest_tokenizer_load_sequence(tokenizer, component, "normalizer", "normalizers",
                                            zest_tokenizer_load_normalizer, err);
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
        return zest_tokenizer_load_unsupported(
            tokenizer, "normalizer", type,
            "Sequence, Prepend, Replace, NFC, Lowercase, Precompiled and BertNormalizer", err);
    zest_normalizer_step *step = zest_tokenizer_normalize_step(tokenizer, kind, err);
    if (!step) return err->status;
    if (kind == ZEST_NORMALIZER_PRECOMPILED) {
        const json_t *map = json_object_get(component, "precompiled_charsmap");
        step->map = zest_charsmap_load(json_string_value(map), json_string_length(map), tokenizer->name, err);
        return step->map ? ZEST_OK : err->status;
    }
    if (kind != ZEST_NORMALIZER_PREPEND && kind != ZEST_NORMALIZER_REPLACE) return ZEST_OK;
    const char *key = kind == ZEST_NORMALIZER_PREPEND ? "prepend" : "content";
    zest_status status = zest_tokenizer_load_text(tokenizer, component, "normalizer", key, &step->content,
                                                  &step->content_size, err);
    if (status || kind == ZEST_NORMALIZER_PREPEND) return status;
    return zest_tokenizer_load_pattern(tokenizer, component, "normalizer", &step->pattern,
                                       &step->pattern_size, &step->regex, err);
}

/* transformers takes the options of BERT's normalizer from tokenizer_config.json, whatever tokenizer.json
 * has. */
void zest_tokenizer_load_override_normalizer(json_t *normalizer, const json_t *config) {
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
