/* zest generate --chat: turns of a conversation, in the text that the model's chat template makes of them. */
#include "cli/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/stream.h"

typedef struct {
    zest_cli_lm *m;
    size_t max_tokens;
    int shows; /* replies are shown as they come */
    json_t *messages;
    zest_cli_stream stream;
    zest_buffer reply;
    size_t tokens; /* of the latest reply */
    zest_error *error;
} chat;

static zest_status add_message(chat *c, const char *role, const char *content) {
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", zest_output_string(content));
    return message && !json_array_append_new(c->messages, message)
               ? ZEST_OK
               : zest_error_memory(c->error, "a conversation", strlen(content));
}

/* The conversation so far as tokens. */
static zest_status encode(chat *c, zest_cli_tokens *tokens) {
    size_t size = 0;
    char *messages = json_dumps(c->messages, 0), *text = NULL;
    if (!messages) return zest_error_memory(c->error, "a conversation", 0);
    zest_status status =
        zest_cli_lm_error(c->m, zest_lm_chat_prompt(c->m->lm, messages, NULL, 0, &size), c->error);
    if (!status && !(text = malloc(size + 1))) status = zest_error_memory(c->error, "a conversation", size);
    if (!status)
        status =
            zest_cli_lm_error(c->m, zest_lm_chat_prompt(c->m->lm, messages, text, size + 1, &size), c->error);
    if (!status) status = zest_cli_lm_encode(c->m, text, 0, tokens, c->error);
    free(messages);
    free(text);
    if (!status && tokens->count >= c->m->info.max_positions)
        status =
            zest_error_set(c->error, ZEST_ERROR_ARGUMENT,
                           "the conversation has %zu tokens, and the model reads at most %zu; start another",
                           tokens->count, c->m->info.max_positions);
    return status;
}

static int on_token(size_t prompt, int32_t token, void *user) {
    chat *c = user;
    (void)prompt;
    zest_cli_stream_token(&c->stream, token);
    return zest_output_broken();
}

/* The reply to the conversation so far, which it becomes a part of. */
static zest_status reply(chat *c) {
    zest_cli_tokens prompt = {0};
    zest_lm_generate_options how = {.max_tokens = c->max_tokens, .on_token = on_token, .user = c, .keep = 1};
    int32_t *ids = malloc(c->max_tokens * sizeof *ids);
    zest_status status = ids ? encode(c, &prompt) : zest_error_memory(c->error, "a reply", c->max_tokens);
    zest_buffer_free(&c->reply);
    c->stream = (zest_cli_stream){.lm = c->m->lm, .skip_space = 1, .copy = &c->reply, .silent = !c->shows};
    if (!status)
        status = zest_cli_lm_error(
            c->m, zest_lm_generate(c->m->lm, prompt.data, prompt.count, &how, ids, c->max_tokens, &c->tokens),
            c->error);
    zest_cli_stream_end(&c->stream);
    if (!status && c->stream.failed) status = zest_error_memory(c->error, "a reply", c->reply.size);
    free(ids);
    free(prompt.data);
    return status ? status : add_message(c, "assistant", c->reply.data ? c->reply.data : "");
}

static zest_status turn(chat *c, const char *text, json_t **results) {
    zest_status status = add_message(c, "user", text);
    if (!status) status = reply(c);
    if (status) return status;
    if (results)
        zest_output_append(results, json_pack("{s:o, s:o, s:I}", "prompt", zest_output_string(text), "text",
                                              zest_output_string(c->reply.data ? c->reply.data : ""),
                                              "tokens", (json_int_t)c->tokens));
    else
        zest_output_print("\n");
    return ZEST_OK;
}

zest_status zest_cli_chat(zest_cli_lm *m, const zest_options *options, zest_lines *lines, json_t **results,
                          zest_error *error) {
    const char *system = zest_options_text(options, ZEST_OPTION_SYSTEM);
    chat c = {.m = m,
              .max_tokens = (size_t)zest_options_whole(options, ZEST_OPTION_MAX_TOKENS),
              .shows = !results,
              .messages = json_array(),
              .error = error};
    zest_status status = c.messages ? ZEST_OK : zest_error_memory(error, "a conversation", 0);
    if (!status && *system) status = add_message(&c, "system", system);
    size_t given = lines->count;
    for (size_t i = 0; i < given && !status && !zest_output_broken(); i++)
        status = turn(&c, lines->text[i], results);
    while (!given && !status && !zest_output_broken()) {
        int more = 0;
        fputs("> ", stderr);
        status = zest_lines_next(lines, &more, error);
        if (status || !more) break;
        status = turn(&c, lines->text[lines->count - 1], results);
    }
    json_decref(c.messages);
    zest_buffer_free(&c.reply);
    return status;
}
