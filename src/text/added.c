#include "text/added.h"

#include <stdlib.h>
#include <string.h>

#include "text/unicode.h"

zest_status zest_added_add(zest_added *added, zest_added_token token, zest_error *error) {
    if (!token.size) {
        free(token.content);
        return ZEST_OK;
    }
    if (added->count == added->capacity) {
        size_t capacity = added->capacity ? 2 * added->capacity : 16;
        zest_added_token *tokens = realloc(added->token, capacity * sizeof *tokens);
        if (!tokens) {
            free(token.content);
            return zest_error_memory(error, "the added tokens of a tokenizer", capacity * sizeof *tokens);
        }
        added->token = tokens;
        added->capacity = capacity;
    }
    added->token[added->count++] = token;
    return ZEST_OK;
}

static int by_content(const void *left, const void *right) {
    const zest_added_token *a = left, *b = right;
    int order = memcmp(a->content, b->content, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

void zest_added_finish(zest_added *added) {
    if (added->count) qsort(added->token, added->count, sizeof *added->token, by_content);
    memset(added->first, 0, sizeof added->first);
    for (size_t i = 0; i < added->count; i++) added->first[(unsigned char)added->token[i].content[0]] = 1;
}

void zest_added_free(zest_added *added) {
    for (size_t i = 0; i < added->count; i++) free(added->token[i].content);
    free(added->token);
    *added = (zest_added){0};
}

/* First in [low, high) whose byte at depth is >= wanted. Those in the range agree before depth and are
 * longer. */
static size_t lower_bound(const zest_added *added, size_t low, size_t high, size_t depth, unsigned wanted) {
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((unsigned char)added->token[middle].content[depth] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest content that the text begins with. */
static const zest_added_token *longest(const zest_added *added, const char *text, size_t size) {
    const zest_added_token *best = NULL;
    size_t low = 0, high = added->count;
    for (size_t depth = 0; depth < size && low < high; depth++) {
        unsigned byte = (unsigned char)text[depth];
        low = lower_bound(added, low, high, depth, byte);
        high = lower_bound(added, low, high, depth, byte + 1);
        while (low < high && added->token[low].size == depth + 1) best = &added->token[low++];
    }
    return best;
}

static unsigned class_at(const char *text, size_t at) {
    uint32_t code;
    zest_unicode_read(text + at, &code);
    return zest_unicode_class(code);
}

static size_t character_before(const char *text, size_t at) {
    do at--;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

static int stands_alone(const char *text, size_t size, size_t start, size_t stop) {
    if (start > 0 && class_at(text, character_before(text, start)) & ZEST_UNICODE_WORD) return 0;
    return stop == size || !(class_at(text, stop) & ZEST_UNICODE_WORD);
}

const zest_added_token *zest_added_next(const zest_added *added, const char *text, size_t size, int literal,
                                        size_t done, size_t *from, size_t *start, size_t *stop) {
    while (*from < size) {
        size_t at = *from;
        while (at < size && !added->first[(unsigned char)text[at]]) at++;
        if (at == size) break;
        const zest_added_token *token = longest(added, text + at, size - at);
        *from = at + (token ? token->size : 1);
        if (!token || (literal && token->special)) continue;
        *start = at;
        *stop = at + token->size;
        if (token->single_word && !stands_alone(text, size, *start, *stop)) continue;
        while (token->eats_left && *start > done) {
            size_t before = character_before(text, *start);
            if (!(class_at(text, before) & ZEST_UNICODE_SPACE)) break;
            *start = before;
        }
        uint32_t code;
        while (token->eats_right && *stop < size && class_at(text, *stop) & ZEST_UNICODE_SPACE)
            *stop += zest_unicode_read(text + *stop, &code);
        return token;
    }
    *from = size;
    return NULL;
}
