/* The post-processor of a tokenizer.json: the special tokens around the text. */
#include <string.h>

#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"

/* The id of this token; -1: no such token. */
static int32_t known_id(const zest_tokenizer *tokenizer, const json_t *id) {
    json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    if (value < 0 || value >= ZEST_VOCAB_LIMIT) return -1;
    return zest_tokenizer_token(tokenizer, (int32_t)value, NULL) ? (int32_t)value : -1;
}

/* RobertaProcessing and BertProcessing: [cls] text [sep], each given as ["<s>", 0]. */
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

/* The ids of a special token in a template. */
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
    zest_ids before = {0}, after = {0}; /* added outside those of earlier processors */
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
        status = zest_tokenizer_load_error(tokenizer, "post_processor",
                                           "the template must contain the text exactly once", error);
    zest_ids_add_all(&before, tokenizer->before.data, tokenizer->before.count);
    zest_ids_add_all(&tokenizer->after, after.data, after.count);
    zest_ids_free(&after);
    zest_ids_free(&tokenizer->before);
    tokenizer->before = before;
    return status;
}

zest_status zest_tokenizer_load_post_processor(zest_tokenizer *tokenizer, const json_t *component,
                                               zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    if (!component || json_is_null(component)) return ZEST_OK;
    const char *type = zest_tokenizer_load_type(tokenizer, component, "post_processor", err);
    if (!type) return err->status;
    zest_status status;
    if (!strcmp(type, "Sequence"))
        status = zest_tokenizer_load_sequence(tokenizer, component, "post_processor", "processors",
                                              zest_tokenizer_load_post_processor, err);
    else if (!strcmp(type, "ByteLevel")) /* it only changes offsets */
        status = ZEST_OK;
    else if (!strcmp(type, "RobertaProcessing") || !strcmp(type, "BertProcessing"))
        status = build_classic(tokenizer, component, err);
    else if (!strcmp(type, "TemplateProcessing"))
        status = build_template(tokenizer, component, err);
    else
        status = zest_error_set(
            err, ZEST_ERROR_FORMAT,
            "%s: the post_processor \"%.60s\" is not supported; zest supports Sequence, ByteLevel, "
            "RobertaProcessing, BertProcessing and TemplateProcessing",
            tokenizer->name, type);
    if (!status && (tokenizer->before.failed || tokenizer->after.failed))
        status = zest_error_memory(err, tokenizer->name, 64);
    return status;
}
