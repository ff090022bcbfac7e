/* Conversations of include/zest_lm.h: the model's chat template, and the tokens that end a turn. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "chat/chat_template.h"
#include "lm/lm.h"

/* ---- The template ---- */

static zest_status parse_messages(const zest_lm *lm, const char *messages, json_t **list) {
    json_error_t problem;
    *list = zest_json_load(messages, strlen(messages), ZEST_JSON_BIG_AS_REAL, &problem);
    if (*list && json_is_array(*list) && json_array_size(*list)) return ZEST_OK;
    return zest_error_set(
        zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
        "the messages must be a JSON list, [{\"role\": \"user\", \"content\": \"...\"}, ...]");
}

static zest_status render(const zest_lm *lm, const json_t *messages, zest_buffer *out) {
    zest_error *error = zest_lm_sink(lm);
    zest_chat_template *chat = zest_chat_template_new(lm->loaded.tokenizer, error);
    if (!chat) return error->status;
    zest_chat_input input = {.messages = messages, .add_generation_prompt = 1};
    zest_status status = zest_chat_template_render(chat, &input, out, NULL, error);
    zest_chat_template_free(chat);
    return !status && out->failed ? zest_error_memory(error, "a conversation", out->size) : status;
}

zest_status zest_lm_chat_prompt(zest_lm *lm, const char *messages, char *text, size_t capacity,
                                size_t *size) {
    zest_buffer out = {0};
    json_t *list = NULL;
    if (!lm || zest_lm_need(lm->ctx, messages, "messages") || zest_lm_need(lm->ctx, size, "size"))
        return ZEST_ERROR_ARGUMENT;
    *size = 0;
    zest_status status = parse_messages(lm, messages, &list);
    if (!status) status = render(lm, list, &out);
    if (!status) {
        *size = out.size;
        status =
            zest_lm_give(lm, out.data ? out.data : "", out.size + 1, 1, text, capacity, "bytes with the NUL");
    }
    json_decref(list);
    zest_buffer_free(&out);
    return status;
}

/* ---- Tokens that end a turn ---- */

enum { CONFIG_LIMIT = 1 << 20, MOST_ENDS = 64 };

/* As published models spell them. */
static const char *const spellings[] = {"<|im_end|>",    "<|eot_id|>", "<|eom_id|>",   "<|end_of_turn|>",
                                        "<end_of_turn>", "<|end|>",    "<|endoftext|>"};

static void add(zest_ids *ids, int64_t id) {
    for (size_t i = 0; i < ids->count; i++)
        if (ids->data[i] == id) return;
    if (id >= 0 && id < INT32_MAX && ids->count < MOST_ENDS) zest_ids_add(ids, (int32_t)id);
}

/* "eos_token_id" of generation_config.json: a number or a list. A file that is not there, or says something else, adds
 * nothing. */
static void add_configured(const zest_lm *lm, zest_ids *ids) {
    zest_error ignored = {0};
    json_t *config = NULL;
    const char *folder = lm->loaded.model ? lm->loaded.model->folder : NULL;
    char *path = folder ? zest_file_join(folder, "generation_config.json") : NULL;
    if (path && !zest_json_read(path, CONFIG_LIMIT, &config, &ignored)) {
        const json_t *end = json_object_get(config, "eos_token_id");
        if (json_is_integer(end)) add(ids, json_integer_value(end));
        for (size_t i = 0; i < json_array_size(end); i++)
            if (json_is_integer(json_array_get(end, i))) add(ids, json_integer_value(json_array_get(end, i)));
    }
    json_decref(config);
    free(path);
}

zest_status zest_lm_list_ends(const zest_lm *lm, zest_ids *ids) {
    add(ids, zest_lm_special_token(lm, ZEST_LM_EOS));
    add_configured(lm, ids);
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        int32_t id = zest_lm_token_id(lm, spellings[i]);
        if (id >= 0 && zest_lm_token_is_special(lm, id)) add(ids, id);
    }
    return ids->failed ? zest_error_memory(zest_lm_sink(lm), "stop tokens", ids->count * sizeof *ids->data)
                       : ZEST_OK;
}
