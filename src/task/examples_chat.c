/* Conversations as tokens, with those that the assistant says marked for the loss. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "chat/conversation.h"
#include "task/examples.h"

static size_t common(const zest_ids *a, const zest_ids *b) {
    size_t i = 0;
    while (i < a->count && i < b->count && a->data[i] == b->data[i]) i++;
    return i;
}

/* The number of the text's tokens that its first `size` bytes decide. */
static zest_status tokens_of(const zest_tokenizer *tokenizer, const zest_ids *all, const char *text,
                             size_t size, size_t *count, zest_error *error) {
    zest_ids ids = {0};
    zest_status status = zest_tokenizer_encode(tokenizer, text, size, 0, &ids, error);
    *count = common(all, &ids);
    zest_ids_free(&ids);
    return status;
}

/* Bytes that are encoded to find the tokens of the spans: quadratic in the number of turns. */
static const size_t work_limit = (size_t)1 << 28;

static zest_status count_work(const zest_conversation_text *text, zest_error *error) {
    size_t work = 0;
    for (size_t i = 0; i < text->spans.count && work <= work_limit; i++)
        work += text->spans.data[i].start + text->spans.data[i].end;
    if (work <= work_limit) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "a conversation of %zu turns of the assistant in %zu bytes is too long; split it",
                          text->spans.count, text->text.size);
}

/* Marks the tokens of the spans; the very first token is predicted by nothing. */
static zest_status mark(const zest_tokenizer *tokenizer, const zest_conversation_text *text,
                        const zest_ids *ids, unsigned char *learned, zest_error *error) {
    zest_status status = count_work(text, error);
    for (size_t i = 0; i < text->spans.count && !status; i++) {
        zest_jinja_span span = text->spans.data[i];
        size_t from, to;
        status = tokens_of(tokenizer, ids, text->text.data, span.start, &from, error);
        if (!status) status = tokens_of(tokenizer, ids, text->text.data, span.end, &to, error);
        for (size_t t = from ? from : 1; t < to && !status; t++) learned[t] = 1;
    }
    return status;
}

static int any(const unsigned char *learned, size_t count) {
    return count && memchr(learned, 1, count) != NULL;
}

/* Adds a text of at most `limit` tokens: its first ones, or, if the assistant says none of these, its last ones up to
 * the last that the assistant says. Returns the number that was cut off. */
static size_t add_text(zest_encoded_chat *out, const zest_ids *ids, const unsigned char *learned,
                       size_t limit) {
    size_t from = 0, count = ids->count < limit ? ids->count : limit, last = ids->count;
    if (!any(learned + 1, count ? count - 1 : 0)) {
        while (last && !learned[last - 1]) last--;
        from = last > count ? last - count : 0;
    }
    zest_example_text *text = &out->texts[out->count++];
    *text = (zest_example_text){(uint32_t)out->tokens.count, (uint32_t)count, 1};
    while (text->target + 1 < count && !learned[from + text->target]) text->target++;
    zest_ids_add_all(&out->tokens, ids->data + from, count);
    zest_buffer_add(&out->learned, learned + from, count);
    return ids->count - count;
}

static zest_status encode_text(const zest_tokenizer *tokenizer, const zest_conversation_text *text,
                               size_t limit, zest_encoded_chat *out, zest_error *error) {
    zest_ids ids = {0};
    zest_status status = zest_tokenizer_encode(tokenizer, text->text.data, text->text.size, 0, &ids, error);
    unsigned char *learned = calloc(ids.count + 1, 1);
    if (!learned) status = zest_error_memory(error, "a conversation", ids.count);
    if (!status) status = mark(tokenizer, text, &ids, learned, error);
    if (!status && any(learned, ids.count)) out->cut += add_text(out, &ids, learned, limit) > 0;
    if (!status && (out->tokens.failed || out->learned.failed))
        status = zest_error_memory(error, "a conversation", ids.count);
    free(learned);
    zest_ids_free(&ids);
    return status;
}

zest_status zest_examples_encode_chat(const zest_chat_template *chat, const zest_tokenizer *tokenizer,
                                      const char *row, size_t limit, zest_encoded_chat *out,
                                      zest_error *error) {
    json_t *json = NULL;
    zest_conversation_texts texts = {0};
    zest_status status = zest_json_parse(row, strlen(row), "a conversation", &json, error);
    if (!status)
        status = zest_conversation_render(chat, json_object_get(json, "messages"),
                                          json_object_get(json, "tools"), &texts, error);
    if (!status && !(out->texts = calloc(texts.count + 1, sizeof *out->texts)))
        status = zest_error_memory(error, "a conversation", texts.count);
    for (size_t i = 0; i < texts.count && !status; i++)
        status = encode_text(tokenizer, &texts.text[i], limit, out, error);
    if (!status && !out->count)
        status =
            zest_error_set(error, ZEST_ERROR_FORMAT,
                           "the assistant says nothing in this conversation, as the chat template writes it");
    zest_conversation_free(&texts);
    json_decref(json);
    return status;
}
