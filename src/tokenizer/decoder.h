/* From tokens back to text ("decoders"): a chain of steps over the list of tokens, joined at the end. */
#ifndef ZEST_TOKENIZER_DECODER_H
#define ZEST_TOKENIZER_DECODER_H

#include <stddef.h>

#include "base/memory.h"
#include "base/error.h"

typedef enum {
    ZEST_DECODE_BYTE_LEVEL,    /* GPT-2's characters to the bytes that they spell; then repaired to UTF-8 */
    ZEST_DECODE_BYTE_FALLBACK, /* rows of <0xNN> to what they spell */
    ZEST_DECODE_REPLACE,       /* mark by content in every token */
    ZEST_DECODE_FUSE,          /* all tokens to one */
    ZEST_DECODE_STRIP,         /* up to start marks off the front of every token, up to stop off its end */
    ZEST_DECODE_METASPACE,     /* mark by a space; by nothing in the first token when prepended */
    ZEST_DECODE_WORDPIECE, /* mark off the front of every token but the first, or else a space before it */
} zest_decode_kind;

typedef struct {
    zest_decode_kind kind;
    char *mark, *content; /* owned */
    size_t mark_size, content_size;
    size_t start, stop;
    int prepended;
    int cleanup; /* WORDPIECE: no space before punctuation and in contractions */
} zest_decode_step;

enum { ZEST_DECODE_STEPS = 16 };

typedef struct {
    zest_decode_step step[ZEST_DECODE_STEPS];
    size_t count;
    int spaced; /* no steps: tokens are joined by spaces */
} zest_decode;

void zest_decode_free(zest_decode *decode);

/* Strings, end to end. Start with {0}. */
typedef struct {
    zest_buffer text;
    size_t *end; /* where string i ends; it begins where the one before ends */
    size_t count, capacity;
} zest_decode_list;

void zest_decode_add(zest_decode_list *list, const char *text, size_t size); /* memory: list->text.failed */
void zest_decode_list_free(zest_decode_list *list);

/* Appends the text; the list is used up. A chain that makes the text longer and longer is refused, see
 * zest_normalize_limit. */
zest_status zest_decode_run(const zest_decode *decode, zest_decode_list *list, zest_buffer *out,
                            zest_error *error);

/* Appends the bytes of a byte-level token; one with a character that spells no byte stands for itself. */
void zest_decode_byte_level(const char *token, size_t size, zest_buffer *out);
/* The byte of a token <0xNN>; -1: it is none. */
int zest_decode_byte(const char *token, size_t size);

#endif
