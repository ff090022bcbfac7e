#include "tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"

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

zest_status zest_added_finish(zest_added *added, zest_error *error) {
    added->sorted = malloc((added->count + 1) * sizeof *added->sorted);
    if (!added->sorted)
        return zest_error_memory(error, "the added tokens of a tokenizer",
                                 added->count * sizeof *added->sorted);
    memset(added->first, 0, sizeof added->first);
    for (size_t i = 0; i < added->count; i++) {
        added->sorted[i] = (zest_spelling){added->token[i].content, added->token[i].size, (uint32_t)i};
        added->first[(unsigned char)added->token[i].content[0]] = 1;
    }
    zest_spellings_sort(added->sorted, added->count);
    return ZEST_OK;
}

void zest_added_free(zest_added *added) {
    for (size_t i = 0; i < added->count; i++) free(added->token[i].content);
    free(added->token);
    free(added->sorted);
    *added = (zest_added){0};
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
        const zest_spelling *found =
            zest_spellings_longest(added->sorted, added->count, 0, text + at, size - at);
        const zest_added_token *token = found ? &added->token[found->value] : NULL;
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
