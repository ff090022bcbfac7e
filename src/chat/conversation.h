/* Conversations of data files, in the layouts that they are published in, as the messages of chat templates. */
#ifndef ZEST_CHAT_CONVERSATION_H
#define ZEST_CHAT_CONVERSATION_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "base/memory.h"
#include "chat/chat_template.h"

/* The messages of a row, a new list of {"role": ..., "content": ...}:
 *
 *     {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}      as they are; tools may be missing
 *     {"conversations": [{"from": "human", "value": "..."}, ...], "system": "..."} ShareGPT: human or user, gpt, bot or
 *                                                assistant, system, tool or observation; or with role and content
 *     {"instruction": "...", "input": "...", "output": "...", "system": "..."}     Alpaca: the user says the instruction
 *                                                and, behind an empty line, the input, if there is one
 *
 * Messages behind the last one of the assistant are left out. NULL: problem says why the row is no conversation. */
json_t *zest_conversation_read(const json_t *row, char problem[200]);

/* One text of a conversation, and what the assistant says in it. */
typedef struct {
    zest_buffer text;
    zest_jinja_spans spans;
} zest_conversation_text;

typedef struct {
    zest_conversation_text *text;
    size_t count;
} zest_conversation_texts;

/* Renders a conversation for training. Each turn of the assistant lies in one text, behind the very prompt that
 * generation would give it, and its span reaches from there to the end of the turn.
 *
 * Mostly all turns are in one text. Some templates write an earlier turn otherwise than the last one (Qwen3 leaves its
 * thoughts out); such a turn gets a text of its own, which ends with it. Where the template has {% generation %}, there
 * is one text with these spans. tools may be NULL. Free the texts whatever this returns. */
zest_status zest_conversation_render(const zest_chat_template *chat, const json_t *messages,
                                     const json_t *tools, zest_conversation_texts *out, zest_error *error);
void zest_conversation_free(zest_conversation_texts *texts);

#endif
