/* SentencePiece's compiled map of characters: a trie of texts and what each becomes. SentencePiece replaces the longest
 * entry at each place (sentencepiece.c). Hugging Face tokenizers applies the map otherwise: a grapheme cluster below 6
 * bytes becomes the text of the shortest entry that it begins with; of any other, each character does.
 *
 *     u32 size / the trie, a double array of u32 units / texts, each followed by a NUL */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

enum { MAP_LIMIT = 16 << 20, CLUSTER = 6 };
/* Bytes of an entry and of what it becomes; longer ones, and tries that go round in a circle, would take the time of the
 * whole text or map at every character. */
enum { KEY_LIMIT = 256, TEXT_LIMIT = 1024 };

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Base 64 without line breaks. 0: it is none. */
static int decode(const char *text, size_t size, char *out, size_t *out_size) {
    uint32_t bits = 0;
    int held = 0;
    *out_size = 0;
    while (size && text[size - 1] == '=') size--;
    for (size_t i = 0; i < size; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0) return 0;
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out[(*out_size)++] = (char)(bits >> held & 0xFF);
    }
    return 1;
}

static uint32_t unit_at(const zest_charsmap *map, size_t i) {
    const unsigned char *at = (const unsigned char *)map->bytes + 4 + 4 * i;
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static size_t children_of(uint32_t unit) { return unit >> 10 << ((unit & 512) >> 6); }

/* Follows one byte from *at; 0: no entry goes on like that. *ends: an entry ends here. */
static int step(const zest_charsmap *map, size_t *at, unsigned char byte, int *ends) {
    size_t next = *at ^ byte;
    uint32_t unit = next < map->units ? unit_at(map, next) : 0;
    if (next >= map->units || (unit & ((1u << 31) | 0xFF)) != byte) return 0;
    *at = next ^ children_of(unit);
    *ends = unit >> 8 & 1;
    return 1;
}

/* Characters that stay as they are, wherever they stand or at least before another character of ASCII. */
static void find_plain(zest_charsmap *map) {
    size_t root = children_of(unit_at(map, 0));
    for (int c = 1; c < 128; c++) {
        size_t at = root, second;
        int ends = 0, ignored;
        map->plain[c] =
            step(map, &at, (unsigned char)c, &ends) ? ZEST_CHARSMAP_PLAIN_BEFORE_ASCII : ZEST_CHARSMAP_PLAIN;
        for (int d = 1; d < 128 && map->plain[c] == ZEST_CHARSMAP_PLAIN_BEFORE_ASCII && !ends; d++)
            if (second = at, step(map, &second, (unsigned char)d, &ignored)) ends = 1;
        if (ends) map->plain[c] = 0;
    }
}

zest_charsmap *zest_charsmap_new(const char *bytes, size_t size, const char *source, zest_error *error) {
    const unsigned char *head = (const unsigned char *)bytes;
    size_t trie =
        size >= 8 ? head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24 : 0;
    if (trie % 4 || !trie || trie > size - 4 || size > MAP_LIMIT) {
        zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the normalizer's map of characters: the map is damaged",
                       source);
        return NULL;
    }
    zest_charsmap *map = calloc(1, sizeof *map);
    if (map) map->bytes = malloc(size + 1);
    if (!map || !map->bytes) {
        zest_charsmap_free(map);
        zest_error_memory(error, source, size);
        return NULL;
    }
    memcpy(map->bytes, bytes, size);
    map->bytes[size] = '\0';
    map->size = size;
    map->units = trie / 4;
    find_plain(map);
    return map;
}

void zest_charsmap_free(zest_charsmap *map) {
    if (!map) return;
    free(map->bytes);
    free(map);
}

zest_charsmap *zest_charsmap_load(const char *text, size_t size, const char *source, zest_error *error) {
    zest_charsmap *map = NULL;
    if (!text || size > MAP_LIMIT) {
        zest_error_set(error, ZEST_ERROR_FORMAT,
                       "%s: normalizer Precompiled: needs \"precompiled_charsmap\", a text below %d bytes",
                       source, MAP_LIMIT);
        return NULL;
    }
    char *bytes = malloc(size + 4);
    size_t count;
    if (!bytes)
        zest_error_memory(error, source, size);
    else if (decode(text, size, bytes, &count))
        map = zest_charsmap_new(bytes, count, source, error);
    else
        zest_error_set(error, ZEST_ERROR_FORMAT, "%s: normalizer Precompiled: the map is damaged", source);
    free(bytes);
    return map;
}

const char *zest_charsmap_find(const zest_charsmap *map, const char *text, size_t size, int longest,
                               size_t *length) {
    size_t at = children_of(unit_at(map, 0)), base = 4 + 4 * map->units, best = SIZE_MAX;
    int ends = 0;
    if (size > KEY_LIMIT) size = KEY_LIMIT;
    for (size_t i = 0; i < size && text[i] && step(map, &at, (unsigned char)text[i], &ends); i++) {
        if (!ends) continue;
        if (at >= map->units) break;
        best = base + (unit_at(map, at) & 0x7FFFFFFF);
        *length = i + 1;
        if (!longest) break;
    }
    if (best >= map->size) return NULL;
    const char *found = map->bytes + best;
    size_t bytes = strnlen(found, TEXT_LIMIT + 1);
    return bytes <= TEXT_LIMIT && zest_unicode_valid(found, bytes) == bytes ? found : NULL;
}

static void map_characters(const zest_charsmap *map, const char *text, size_t size, zest_buffer *out) {
    for (size_t at = 0, length, ignored; at < size; at += length) {
        uint32_t code;
        length = zest_unicode_read(text + at, &code);
        const char *found = zest_charsmap_find(map, text + at, length, 0, &ignored);
        if (found)
            zest_buffer_text(out, found);
        else
            zest_buffer_add(out, text + at, length);
    }
}

static void map_cluster(const zest_charsmap *map, const char *text, size_t size, zest_buffer *out) {
    size_t ignored;
    const char *found = size < CLUSTER ? zest_charsmap_find(map, text, size, 0, &ignored) : NULL;
    if (found)
        zest_buffer_text(out, found);
    else
        map_characters(map, text, size, out);
}

size_t zest_charsmap_plain(const zest_charsmap *map, const char *text, size_t size) {
    size_t at = 0;
    for (unsigned char c; at < size && (c = (unsigned char)text[at]) < 128 && map->plain[c]; at++)
        if (map->plain[c] != ZEST_CHARSMAP_PLAIN && at + 1 < size && text[at + 1] & 0x80) break;
    return at;
}

/* The end of characters of ASCII that are clusters of their own: the last one may be joined by what follows. */
static size_t ascii_end(const char *text, size_t size) {
    size_t at = 0;
    while (at < size && !(text[at] & 0x80) && text[at] != '\r') at++;
    return at && at < size ? at - 1 : at;
}

static void map_ascii(const zest_charsmap *map, const char *text, size_t size, zest_buffer *out) {
    for (size_t at = 0, length; at < size; at += length) {
        length = zest_charsmap_plain(map, text + at, size - at);
        if (length)
            zest_buffer_add(out, text + at, length);
        else
            map_characters(map, text + at, length = 1, out);
    }
}

void zest_charsmap_run(const zest_charsmap *map, const char *text, size_t size, size_t limit,
                       zest_buffer *out) {
    zest_buffer_add(out, "", 0);
    for (size_t at = 0, length; at < size && out->size <= limit; at += length) {
        length = ascii_end(text + at, size - at);
        if (length)
            map_ascii(map, text + at, length, out);
        else
            map_cluster(map, text + at, length = zest_unicode_cluster(text + at, size - at), out);
    }
}
