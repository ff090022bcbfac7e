/* Conversations: their layouts in data files, and the spans of the assistant in the rendered text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/conversation.h"

/* ---- Layouts ---- */

static int add_message(json_t *messages, const char *role, const json_t *content) {
    json_t *message = json_pack("{s:s, s:O}", "role", role, "content", (json_t *)content);
    return message && !json_array_append_new(messages, message);
}

static const char *role_of(const char *from) {
    static const char *const known[][2] = {
        {"human", "user"},          {"user", "user"},     {"gpt", "assistant"},
        {"assistant", "assistant"}, {"bot", "assistant"}, {"model", "assistant"},
        {"system", "system"},       {"tool", "tool"},     {"observation", "tool"}};
    for (size_t i = 0; from && i < sizeof known / sizeof *known; i++)
        if (!strcmp(from, known[i][0])) return known[i][1];
    return NULL;
}

static int read_turns(const json_t *turns, json_t *messages, char problem[200]) {
    for (size_t i = 0; i < json_array_size(turns); i++) {
        const json_t *turn = json_array_get(turns, i), *value = json_object_get(turn, "value");
        const char *from = json_string_value(json_object_get(turn, "from")), *role = role_of(from);
        if (json_is_string(json_object_get(turn, "role"))) {
            if (json_array_append(messages, (json_t *)turn)) return 0;
        } else if (!role || !json_is_string(value)) {
            snprintf(problem, 200,
                     "turn %zu of \"conversations\" needs \"value\", a text, and \"from\": human, gpt, "
                     "system or tool",
                     i + 1);
            return 0;
        } else if (!add_message(messages, role, value)) {
            return 0;
        }
    }
    return 1;
}

static int read_instruction(const json_t *row, json_t *messages, char problem[200]) {
    const json_t *instruction = json_object_get(row, "instruction"), *input = json_object_get(row, "input"),
                 *output = json_object_get(row, "output");
    zest_buffer text = {0};
    if (!json_is_string(instruction) || !json_is_string(output) ||
        (input && !json_is_string(input) && !json_is_null(input))) {
        snprintf(problem, 200, "\"instruction\", \"output\" and \"input\" (if there is one) must be texts");
        return 0;
    }
    zest_buffer_add(&text, json_string_value(instruction), json_string_length(instruction));
    if (json_string_length(input)) {
        zest_buffer_text(&text, "\n\n");
        zest_buffer_add(&text, json_string_value(input), json_string_length(input));
    }
    json_t *said = text.failed ? NULL : json_stringn(text.data, text.size);
    int ok = said && add_message(messages, "user", said) && add_message(messages, "assistant", output);
    json_decref(said);
    zest_buffer_free(&text);
    return ok;
}

static int is_assistant(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && !strcmp(role, "assistant");
}

static int check_messages(json_t *messages, char problem[200]) {
    size_t count = json_array_size(messages), last = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *message = json_array_get(messages, i);
        if (!json_is_string(json_object_get(message, "role"))) {
            snprintf(problem, 200, "message %zu needs a \"role\", a text such as user or assistant", i + 1);
            return 0;
        }
        if (is_assistant(message)) last = i + 1;
    }
    if (!last) {
        snprintf(problem, 200,
                 "the conversation has no message of the assistant, so there is nothing to learn from it");
        return 0;
    }
    while (json_array_size(messages) > last) json_array_remove(messages, json_array_size(messages) - 1);
    return 1;
}

json_t *zest_conversation_read(const json_t *row, char problem[200]) {
    const json_t *given = json_object_get(row, "messages"), *turns = json_object_get(row, "conversations"),
                 *system = json_object_get(row, "system");
    json_t *messages = json_array();
    int ok = messages != NULL;
    snprintf(problem, 200, "not enough memory");
    if (ok && !given && json_string_length(system)) ok = add_message(messages, "system", system);
    if (ok && json_is_array(given)) {
        ok = !json_array_extend(messages, (json_t *)given);
    } else if (ok && json_is_array(turns)) {
        ok = read_turns(turns, messages, problem);
    } else if (ok && json_object_get(row, "instruction")) {
        ok = read_instruction(row, messages, problem);
    } else if (ok) {
        snprintf(problem, 200,
                 "is no conversation: it needs the list \"messages\", the list \"conversations\", or "
                 "\"instruction\" and \"output\"");
        ok = 0;
    }
    if (ok && check_messages(messages, problem)) return messages;
    json_decref(messages);
    return NULL;
}

/* ---- Spans of the assistant ---- */

/* The time for the spans is quadratic in the number of turns: the conversation is rendered up to each of them. A message
 * counts as many bytes as it takes time beside its text. */
enum { MESSAGE_WORK = 256 };
static const size_t work_limit = (size_t)1 << 30;

/* Texts of the first messages of a conversation. */
typedef struct {
    const zest_chat_template *chat;
    const json_t *messages, *tools;
    size_t work; /* bytes rendered to find spans */
    zest_error *error;
} renderer;

static zest_status render(const renderer *r, size_t count, int prompt, zest_buffer *out,
                          zest_jinja_spans *spans) {
    json_t *first = json_array();
    zest_status status = first ? ZEST_OK : zest_error_memory(r->error, "a conversation", count);
    for (size_t i = 0; i < count && !status; i++)
        if (json_array_append(first, json_array_get(r->messages, i)))
            status = zest_error_memory(r->error, "a conversation", count);
    zest_chat_input input = {.messages = first, .tools = r->tools, .add_generation_prompt = prompt};
    out->size = 0;
    if (!status) status = zest_chat_template_render(r->chat, &input, out, spans, r->error);
    json_decref(first);
    return status;
}

static size_t common(const zest_buffer *a, const zest_buffer *b) {
    size_t i = 0;
    while (i < a->size && i < b->size && a->data[i] == b->data[i]) i++;
    return i;
}

/* The span of message `turn` in the text; start == end: the text does not have the turn as it would be generated. */
static zest_status find_span(const renderer *r, const zest_buffer *text, size_t turn, zest_jinja_span *span) {
    zest_buffer before = {0}, behind = {0};
    *span = (zest_jinja_span){0};
    zest_status status = render(r, turn, 1, &before, NULL);
    if (!status) status = render(r, turn + 1, 0, &behind, NULL);
    if (!status && common(text, &before) == before.size) {
        const char *eos = zest_chat_template_eos(r->chat);
        size_t shared = common(text, &behind), end = behind.size, tail = eos ? strlen(eos) : 0;
        /* some templates put an end token behind the last turn, whichever that is */
        if (shared < end && tail && tail < end && !memcmp(behind.data + end - tail, eos, tail)) end -= tail;
        if (shared >= end && end > before.size) *span = (zest_jinja_span){before.size, end};
    }
    zest_buffer_free(&before);
    zest_buffer_free(&behind);
    return status;
}

static zest_status differs(const renderer *r, size_t turn) {
    return zest_error_set(
        r->error, ZEST_ERROR_FORMAT,
        "message %zu: the chat template writes this turn of the assistant otherwise than it writes the "
        "prompt for it, so there is no telling where the turn begins; mark it with {%% generation %%} in a "
        "chat_template.jinja of your own",
        turn + 1);
}

/* Refuses what would take hours. */
static zest_status count_work(renderer *r, size_t last, const unsigned char *done, size_t size) {
    size_t turns = 0;
    for (size_t i = 0; i <= last; i++) turns += !done[i] && is_assistant(json_array_get(r->messages, i));
    if (__builtin_mul_overflow(turns, size + MESSAGE_WORK * (last + 1), &turns) ||
        __builtin_add_overflow(r->work, turns, &r->work) || r->work > work_limit)
        return zest_error_set(
            r->error, ZEST_ERROR_FORMAT,
            "a conversation of %zu messages, which become %zu bytes, is too long for a chat "
            "template without {%% generation %%}; split it",
            last + 1, size);
    return ZEST_OK;
}

/* The text up to message `last`, with the spans of the turns that it has and that no text has so far. */
static zest_status render_text(renderer *r, size_t last, unsigned char *done, zest_conversation_text *out) {
    zest_status status = render(r, last + 1, 0, &out->text, NULL);
    if (!status) status = count_work(r, last, done, out->text.size);
    for (size_t i = 0; i <= last && !status; i++) {
        zest_jinja_span span;
        if (done[i] || !is_assistant(json_array_get(r->messages, i))) continue;
        status = find_span(r, &out->text, i, &span);
        if (!status && span.start < span.end) {
            zest_jinja_spans_add(&out->spans, span.start, span.end);
            done[i] = 1;
        }
    }
    if (!status && !done[last]) status = differs(r, last);
    if (!status && out->spans.failed) status = zest_error_memory(r->error, "a conversation", last);
    return status;
}

static zest_conversation_text *add_text(zest_conversation_texts *out, zest_error *error) {
    zest_conversation_text *more = realloc(out->text, (out->count + 1) * sizeof *more);
    if (!more) {
        zest_error_memory(error, "a conversation", out->count * sizeof *more);
        return NULL;
    }
    out->text = more;
    out->text[out->count] = (zest_conversation_text){0};
    return &out->text[out->count++];
}

zest_status zest_conversation_render(const zest_chat_template *chat, const json_t *messages,
                                     const json_t *tools, zest_conversation_texts *out, zest_error *error) {
    renderer r = {chat, messages, tools, 0, error};
    size_t count = json_array_size(messages);
    unsigned char *done = calloc(count + 1, 1);
    zest_conversation_text *text = add_text(out, error);
    zest_status status = done && text ? ZEST_OK : zest_error_memory(error, "a conversation", count);
    if (!status) status = render(&r, count, 0, &text->text, &text->spans);
    if (!status && text->spans.count) { /* {% generation %} */
        free(done);
        return ZEST_OK;
    }
    for (size_t i = 0, texts = 0; i < count && !status; i++) { /* from the last turn to the first */
        size_t turn = count - 1 - i;
        if (done[turn] || !is_assistant(json_array_get(messages, turn))) continue;
        if (texts++) text = add_text(out, error);
        status = text ? render_text(&r, turn, done, text) : ZEST_ERROR_MEMORY;
    }
    free(done);
    return status;
}

void zest_conversation_free(zest_conversation_texts *texts) {
    for (size_t i = 0; i < texts->count; i++) {
        zest_buffer_free(&texts->text[i].text);
        zest_jinja_spans_free(&texts->text[i].spans);
    }
    free(texts->text);
    *texts = (zest_conversation_texts){0};
}
