/* SentencePiece's own normalizer: the map of characters, then what happens to spaces. Tokens that users defined stay as
 * they are. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

static const char mark[] = "\xE2\x96\x81";
enum { MARK = sizeof mark - 1 };

/* What the start of a text becomes: *size bytes of it are replaced by *length bytes. */
static const char *replaced(const zest_sentencepiece *rules, const char *text, size_t *size, size_t *length) {
    const zest_spelling *kept =
        rules->kept_count ? zest_spellings_longest_prefix(rules->kept, rules->kept_count, 0, text, *size)
                          : NULL;
    if (kept) return *size = *length = kept->size, text;
    const char *found = rules->map ? zest_charsmap_find(rules->map, text, *size, 1, size) : NULL;
    if (found) return *length = strlen(found), found;
    uint32_t code;
    return *size = *length = zest_unicode_read(text, &code), text;
}

/* The number of bytes at the start of the text that stay as they are, none of them a space. */
static size_t unchanged(const zest_sentencepiece *rules, const char *text, size_t size) {
    const zest_charsmap *map = rules->map;
    size_t at = 0;
    for (; at < size; at++) {
        unsigned char c = (unsigned char)text[at], plain = c < 128 && map ? map->plain[c] : !map;
        if (rules->first[c] || !plain) break;
        if (plain == ZEST_CHARSMAP_PLAIN_BEFORE_ASCII && at + 1 < size && text[at + 1] & 0x80) break;
    }
    return at;
}

static void add_escaped(const zest_sentencepiece *rules, const char *text, size_t size, zest_buffer *out) {
    if (rules->escape && size == 1 && *text == ' ')
        zest_buffer_add(out, mark, MARK);
    else if (rules->escape)
        zest_normalizer_replace(text, size, " ", 1, mark, MARK, SIZE_MAX, out);
    else
        zest_buffer_add(out, text, size);
}

/* Bytes at the start of the text that become single spaces. */
static size_t leading_spaces(const zest_sentencepiece *rules, const char *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        size_t used = size - at, length;
        const char *found = replaced(rules, text + at, &used, &length);
        if (length != 1 || found[0] != ' ') break;
        at += used;
    }
    return at;
}

static void drop_last_spaces(const zest_sentencepiece *rules, size_t from, zest_buffer *out) {
    const char *space = rules->escape ? mark : " ";
    size_t length = strlen(space);
    while (out->size >= from + length && !memcmp(out->data + out->size - length, space, length))
        out->size -= length;
    if (out->data) out->data[out->size] = '\0';
}

void zest_sentencepiece_run(const zest_sentencepiece *rules, const char *text, size_t size, int later,
                            size_t limit, zest_buffer *out) {
    size_t from = out->size, at = rules->trim ? leading_spaces(rules, text, size) : 0;
    int after_space = rules->trim;
    zest_buffer_add(out, "", 0);
    if (at == size) return;
    if (rules->prefix && !(later && rules->first_only)) add_escaped(rules, " ", 1, out);
    while (at < size && out->size <= limit) {
        size_t used = unchanged(rules, text + at, size - at), length = used;
        const char *found = text + at;
        if (used) {
            zest_buffer_add(out, found, length);
            after_space = 0;
        } else {
            used = size - at, found = replaced(rules, text + at, &used, &length);
            for (; after_space && length && *found == ' '; length--) found++;
            if (length) {
                add_escaped(rules, found, length, out);
                after_space = rules->trim && found[length - 1] == ' ';
            }
        }
        at += used;
    }
    if (rules->trim && !out->failed) drop_last_spaces(rules, from, out);
}

void zest_sentencepiece_finish(zest_sentencepiece *rules) {
    rules->first[' '] = 1;
    zest_spellings_sort(rules->kept, rules->kept_count);
    for (size_t i = 0; i < rules->kept_count; i++) rules->first[(unsigned char)rules->kept[i].text[0]] = 1;
}

void zest_sentencepiece_free(zest_sentencepiece *rules) {
    if (!rules) return;
    zest_charsmap_free(rules->map);
    free(rules->kept);
    free(rules->kept_text);
    free(rules);
}
