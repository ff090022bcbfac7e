/* Chat templates: Jinja with the variables that transformers gives it. */
#include <stdlib.h>
#include <string.h>

#include "chat/chat_template.h"

struct zest_chat_template {
    zest_jinja *jinja;
    json_t *tokens; /* bos_token and so on: their spellings */
};

static json_t *special_tokens(const zest_tokenizer *tokenizer) {
    static const struct {
        zest_token_role role;
        const char *name;
    } roles[] = {{ZEST_TOKEN_BOS, "bos_token"},  {ZEST_TOKEN_EOS, "eos_token"}, {ZEST_TOKEN_UNK, "unk_token"},
                 {ZEST_TOKEN_SEP, "sep_token"},  {ZEST_TOKEN_PAD, "pad_token"}, {ZEST_TOKEN_CLS, "cls_token"},
                 {ZEST_TOKEN_MASK, "mask_token"}};
    json_t *tokens = json_object();
    for (size_t i = 0; tokens && i < sizeof roles / sizeof *roles; i++) {
        size_t size;
        int32_t id = zest_tokenizer_special(tokenizer, roles[i].role);
        const char *token = zest_tokenizer_token(tokenizer, id, &size);
        if (!token || !json_object_set_new(tokens, roles[i].name, json_stringn(token, size))) continue;
        json_decref(tokens);
        return NULL;
    }
    return tokens;
}

zest_chat_template *zest_chat_template_parse(const char *text, size_t size, const char *name,
                                             const zest_tokenizer *tokenizer, zest_error *error) {
    zest_chat_template *chat = calloc(1, sizeof *chat);
    if (chat) chat->tokens = special_tokens(tokenizer);
    if (!chat || !chat->tokens) {
        zest_chat_template_free(chat);
        zest_error_memory(error, name, size);
        return NULL;
    }
    chat->jinja = zest_jinja_parse(text, size, name, error);
    if (chat->jinja) return chat;
    zest_chat_template_free(chat);
    return NULL;
}

zest_chat_template *zest_chat_template_new(const zest_tokenizer *tokenizer, zest_error *error) {
    size_t size;
    const char *text = zest_tokenizer_chat_template(tokenizer, &size), *name = zest_tokenizer_name(tokenizer);
    if (text) return zest_chat_template_parse(text, size, name, tokenizer, error);
    zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "%s: the model has no chat template; use a model that was tuned for chat, or put the template that "
        "it should learn into its folder, as chat_template.jinja",
        name);
    return NULL;
}

void zest_chat_template_free(zest_chat_template *chat) {
    if (!chat) return;
    zest_jinja_free(chat->jinja);
    json_decref(chat->tokens);
    free(chat);
}

const char *zest_chat_template_eos(const zest_chat_template *chat) {
    return json_string_value(json_object_get(chat->tokens, "eos_token"));
}

/* What transformers gives a template. Variables of the caller may replace all but the messages. */
static json_t *variables(const zest_chat_template *chat, const zest_chat_input *input) {
    json_t *all = json_copy(chat->tokens);
    int bad = !all || json_object_set_new(all, "tools", json_null()) ||
              json_object_set_new(all, "documents", json_null()) ||
              json_object_set_new(all, "add_generation_prompt", json_boolean(input->add_generation_prompt));
    if (!bad && input->tools) bad = json_object_set(all, "tools", (json_t *)input->tools);
    if (!bad && input->variables) bad = json_object_update(all, (json_t *)input->variables);
    if (!bad) bad = json_object_set(all, "messages", (json_t *)input->messages);
    if (!bad) return all;
    json_decref(all);
    return NULL;
}

zest_status zest_chat_template_render(const zest_chat_template *chat, const zest_chat_input *input,
                                      zest_buffer *out, zest_jinja_spans *spans, zest_error *error) {
    json_t *all = variables(chat, input);
    if (!all) return zest_error_memory(error, "a conversation", 0);
    zest_jinja_input given = {.variables = all, .now = input->now, .spans = spans};
    zest_status status = zest_jinja_render(chat->jinja, &given, out, error);
    json_decref(all);
    return status;
}
