#include "text/unicode.h"

#include "text/unicode_tables.h"

/* The last boundary at or below the code; tables hold code << shift | value. */
static uint32_t value_at(const uint32_t *table, size_t count, unsigned shift, uint32_t code) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle] >> shift <= code)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? table[low - 1] & ((1u << shift) - 1) : 0;
}

static unsigned ascii_class(uint32_t code) {
    if ((code | 32) - 'a' < 26) return ZEST_UNICODE_LETTER | ZEST_UNICODE_WORD;
    if (code - '0' < 10) return ZEST_UNICODE_NUMBER | ZEST_UNICODE_WORD;
    if (code == ' ' || code - 9 < 5) return ZEST_UNICODE_SPACE;
    return code == '_' ? ZEST_UNICODE_WORD : 0;
}

unsigned zest_unicode_class(uint32_t code) {
    if (code < 0x80) return ascii_class(code);
    return value_at(zest_unicode_classes, zest_unicode_classes_count, 4, code);
}

unsigned zest_unicode_bert_class(uint32_t code) {
    if (code < 0x80) {
        if (code < ' ' || code == 0x7F)
            return code == '\t' || code == '\n' || code == '\r' ? 0 : ZEST_UNICODE_CONTROL;
        int word = (ascii_class(code) & (ZEST_UNICODE_LETTER | ZEST_UNICODE_NUMBER)) != 0;
        return word || code == ' ' ? 0 : ZEST_UNICODE_PUNCTUATION;
    }
    return value_at(zest_unicode_bert_classes, zest_unicode_bert_classes_count, 4, code);
}

uint32_t zest_unicode_lowercase(uint32_t code, uint32_t *more) {
    *more = code == 0x130 ? 0x307 : 0;
    if (code < 0x80) return code - 'A' < 26 ? code | 32 : code;
    size_t low = 0, high = zest_unicode_lowercases_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (zest_unicode_lowercases[middle] >> 32 < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zest_unicode_lowercases_count || zest_unicode_lowercases[low] >> 32 != code) return code;
    return (uint32_t)zest_unicode_lowercases[low];
}

/* Length of the character at s, or 0; *bad is then the length of the maximal part to replace. */
static size_t check(const unsigned char *s, size_t size, size_t *bad) {
    *bad = 1;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    size_t length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    unsigned low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < length; i++) {
        if (i >= size || s[i] < low || s[i] > high) return 0;
        *bad = i + 1;
        low = 0x80, high = 0xBF;
    }
    return length;
}

size_t zest_unicode_valid(const char *text, size_t size) {
    const unsigned char *s = (const unsigned char *)text;
    size_t i = 0, bad;
    while (i < size) {
        size_t length = s[i] < 0x80 ? 1 : check(s + i, size - i, &bad);
        if (!length) return i;
        i += length;
    }
    return size;
}

void zest_unicode_repair(const char *text, size_t size, zest_buffer *out) {
    while (size) {
        size_t good = zest_unicode_valid(text, size), bad = 0;
        zest_buffer_add(out, text, good);
        text += good, size -= good;
        if (!size) return;
        check((const unsigned char *)text, size, &bad);
        zest_buffer_text(out, "\xEF\xBF\xBD");
        text += bad, size -= bad;
    }
}

size_t zest_unicode_write(uint32_t code, char *out) {
    if (code < 0x80) return out[0] = (char)code, 1;
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)((0xF00u >> length & 0xFF) | code);
    return length;
}
