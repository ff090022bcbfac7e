/* SentencePiece's compiled map of characters: a trie of texts and what each becomes, as Hugging Face tokenizers applies
 * it: a grapheme cluster below 6 bytes becomes the text of the shortest entry that it begins with; of any other, each
 * character does.
 *
 *     u32 size / the trie, a double array of u32 units / texts, each followed by a NUL */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

enum { MAP_LIMIT = 16 << 20, CLUSTER = 6 };

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

static uint32_t unit_at(const zest_normalizer_step *step, size_t i) {
    const unsigned char *at = (const unsigned char *)step->content + 4 + 4 * i;
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

zest_status zest_charsmap_load(const char *text, size_t size, const char *source, zest_normalizer_step *step,
                               zest_error *error) {
    if (!text || size > MAP_LIMIT)
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: normalizer Precompiled: needs \"precompiled_charsmap\", a text below %d bytes", source,
            MAP_LIMIT);
    step->content = malloc(size + 4);
    if (!step->content) return zest_error_memory(error, source, size);
    int ok = decode(text, size, step->content, &step->content_size) && step->content_size >= 8;
    const unsigned char *head = (const unsigned char *)step->content;
    size_t trie = ok ? head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24 : 0;
    /* the number of units, in place of a pattern's size */
    step->pattern_size = trie / 4;
    if (!ok || trie % 4 || !trie || trie > step->content_size - 4)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: normalizer Precompiled: the map is damaged",
                              source);
    step->content[step->content_size] = '\0';
    step->regex = zest_regex_new("\\X", 2, source, error);
    return step->regex ? ZEST_OK : ZEST_ERROR_FORMAT;
}

/* What the shortest entry at the start of the text becomes; NULL: there is no entry. */
static const char *find(const zest_normalizer_step *step, const char *text, size_t size) {
    size_t units = step->pattern_size, base = 4 + 4 * units, at = 0;
    uint32_t unit = unit_at(step, 0);
    at ^= unit >> 10 << ((unit & 512) >> 6);
    for (size_t i = 0; i < size && text[i]; i++) {
        at ^= (unsigned char)text[i];
        if (at >= units) return NULL;
        unit = unit_at(step, at);
        if ((unit & ((1u << 31) | 0xFF)) != (unsigned char)text[i]) return NULL;
        at ^= unit >> 10 << ((unit & 512) >> 6);
        if (!(unit >> 8 & 1)) continue;
        if (at >= units) return NULL;
        size_t offset = base + (unit_at(step, at) & 0x7FFFFFFF);
        if (offset >= step->content_size) return NULL;
        const char *found = step->content + offset;
        return zest_unicode_valid(found, strlen(found)) == strlen(found) ? found : NULL;
    }
    return NULL;
}

static void map_characters(const zest_normalizer_step *step, const char *text, size_t size,
                           zest_buffer *out) {
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t code;
        length = zest_unicode_read(text + at, &code);
        const char *found = find(step, text + at, length);
        if (found)
            zest_buffer_text(out, found);
        else
            zest_buffer_add(out, text + at, length);
    }
}

static void map_cluster(const zest_normalizer_step *step, const char *text, size_t size, zest_buffer *out) {
    const char *found = size < CLUSTER ? find(step, text, size) : NULL;
    if (found)
        zest_buffer_text(out, found);
    else
        map_characters(step, text, size, out);
}

/* The end of a run of ASCII characters that are clusters of their own. */
static size_t ascii_run(const char *text, size_t size, size_t at) {
    while (at < size && !(text[at] & 0x80) && text[at] != '\r') at++;
    return at < size && at && (text[at] & 0x80) ? at - 1
                                                : at; /* the last one may be joined by what follows */
}

zest_status zest_charsmap_run(const zest_normalizer_step *step, zest_regex_iterator *iterator,
                              const char *text, size_t size, size_t limit, zest_buffer *out,
                              zest_error *error) {
    size_t start, end, plain = ascii_run(text, size, 0);
    int found = 1;
    zest_buffer_add(out, "", 0);
    map_characters(step, text, plain, out);
    if (plain == size) return ZEST_OK;
    zest_status status = zest_regex_begin(iterator, step->regex, text + plain, size - plain, error);
    while (!status && out->size <= limit &&
           (status = zest_regex_next(iterator, &found, &start, &end, error)) == ZEST_OK && found)
        map_cluster(step, text + plain + start, end - start, out);
    return status;
}
