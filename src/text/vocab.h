/* The vocabulary: spelling to id and id to spelling. */
#ifndef ZEST_TEXT_VOCAB_H
#define ZEST_TEXT_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum { ZEST_VOCAB_LIMIT = 1 << 22 }; /* ids stay below: tables are as long as the largest id */

typedef struct {
    zest_buffer text; /* all spellings, each followed by a NUL */
    uint32_t *start;  /* by id; UINT32_MAX: no such token */
    uint32_t *length;
    size_t size; /* the largest id and one */
    size_t own;  /* bytes of text when the model's own tokens were complete; added tokens lie behind */
    size_t capacity;
    size_t count;  /* tokens */
    int32_t *slot; /* open addressing by spelling: id, or -1 */
    size_t slots;  /* a power of two, or 0 */
    size_t reach;  /* how far behind its own slot a token may lie */
} zest_vocab;

/* Start with {0}. A spelling or an id that is there already is refused; so is a vocabulary whose spellings
 * were chosen to collide in the table. source is for messages. */
zest_status zest_vocab_add(zest_vocab *vocab, const char *token, size_t size, int64_t id, const char *source,
                           zest_error *error);
void zest_vocab_free(zest_vocab *vocab);

/* Says that the model's own tokens are complete: call before added tokens join. */
void zest_vocab_seal(zest_vocab *vocab);
int zest_vocab_is_own(const zest_vocab *vocab, int32_t id);
int32_t zest_vocab_find_own(const zest_vocab *vocab, const char *token, size_t size); /* -1: none */

int32_t zest_vocab_find(const zest_vocab *vocab, const char *token, size_t size); /* -1: none */
const char *zest_vocab_token(const zest_vocab *vocab, int32_t id, size_t *size);  /* NULL: none */

#endif
