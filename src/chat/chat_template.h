/* Chat templates: a list of messages becomes the text that a model was trained to read.
 *
 * A model's template is a Jinja program: chat_template.jinja or the key "chat_template" of tokenizer_config.json in
 * a folder, the key tokenizer.chat_template in a GGUF file. The text is that of transformers' apply_chat_template.
 * jinja.h lists what is supported. Anything else is an error that names it. A template of a stranger takes bounded
 * time and memory.
 *
 * A template is immutable: any number of threads may render with one at a time. */
#ifndef ZEST_CHAT_CHAT_TEMPLATE_H
#define ZEST_CHAT_CHAT_TEMPLATE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "chat/jinja.h"
#include "tokenizer/tokenizer.h"

typedef struct zest_chat_template zest_chat_template;

/* The template of the model that the tokenizer belongs to (zest_tokenizer_chat_template). The spellings of its special
 * tokens become the template's variables bos_token, eos_token and so on. A tokenizer without a template is an error that
 * says how to add one. The tokenizer may be freed afterwards. NULL: see error. */
zest_chat_template *zest_chat_template_new(const zest_tokenizer *tokenizer, zest_error *error);

/* The same for another template than the model's own. name is for messages. */
zest_chat_template *zest_chat_template_parse(const char *text, size_t size, const char *name,
                                             const zest_tokenizer *tokenizer, zest_error *error);

void zest_chat_template_free(zest_chat_template *chat);

/* The spelling of the end token; NULL: there is none. */
const char *zest_chat_template_eos(const zest_chat_template *chat);

/* What a template is rendered with. Start with {0}. */
typedef struct {
    const json_t *messages; /* a list of {"role": "user", "content": "..."}; templates may read more keys */
    const json_t *tools;    /* a list of function schemas, or NULL */
    int add_generation_prompt; /* end with the start of the assistant's turn */
    const json_t *variables;   /* an object of more variables, such as {"enable_thinking": false}; or NULL */
    int64_t
        now; /* what strftime_now shows, in seconds since 1970, UTC; 0: the template has no strftime_now */
} zest_chat_input;

/* Appends the text to out. spans, unless NULL: where the template says {% generation %}, in bytes from the first that
 * this call appended. Encode the text with zest_tokenizer_encode and flags 0: templates write their own special tokens.
 * An error of the template's own (raise_exception) has its words. */
zest_status zest_chat_template_render(const zest_chat_template *chat, const zest_chat_input *input,
                                      zest_buffer *out, zest_jinja_spans *spans, zest_error *error);

#endif
