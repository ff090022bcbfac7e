/* UTF-8, character classes, lower case and normal forms of Unicode. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"

/* The last boundary at or below the code; entries of tables are code << shift + value. */
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

/* Length of the character at s, or 0; *bad is then the length of the invalid sequence to replace. */
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

/* ---- Normal forms D and C: decompose and order combining marks; for C, compose (Unicode Standard Annex 15) ---- */

enum {
    HANGUL = 0xAC00,
    HANGUL_COUNT = 11172,
    LEAD = 0x1100,
    VOWEL = 0x1161,
    TAIL = 0x11A7,
    LEADS = 19,
    VOWELS = 21,
    TAILS = 28,
};

/* Characters between two boundaries of normalization, with their combining classes. */
typedef struct {
    uint32_t *code;
    unsigned char *order;
    size_t count, capacity;
    int failed;
} run;

static unsigned order_of(uint32_t code) {
    if (code < 0x300) return 0;
    size_t low = 0, high = zest_unicode_orders_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (zest_unicode_orders[middle] >> 8 <= code)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? zest_unicode_orders[low - 1] & 0xFF : 0;
}

/* The canonical decomposition of one step, or 0. */
static uint64_t decomposition_of(uint32_t code) {
    size_t low = 0, high = zest_unicode_decompositions_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (zest_unicode_decompositions[middle] >> 36 < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zest_unicode_decompositions_count || zest_unicode_decompositions[low] >> 36 != code) return 0;
    return zest_unicode_decompositions[low];
}

static void append(run *r, uint32_t code) {
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 64;
        uint32_t *codes = realloc(r->code, capacity * sizeof *codes);
        if (codes) r->code = codes;
        unsigned char *orders = realloc(r->order, capacity);
        if (orders) r->order = orders;
        if (!codes || !orders) {
            r->failed = 1;
            return;
        }
        r->capacity = capacity;
    }
    r->code[r->count] = code;
    r->order[r->count++] = (unsigned char)order_of(code);
}

static void decompose(run *r, uint32_t code) {
    if (code - HANGUL < HANGUL_COUNT) {
        uint32_t i = code - HANGUL;
        append(r, LEAD + i / (VOWELS * TAILS));
        append(r, VOWEL + i % (VOWELS * TAILS) / TAILS);
        if (i % TAILS) append(r, TAIL + i % TAILS);
        return;
    }
    uint64_t parts = decomposition_of(code);
    if (!parts) {
        append(r, code);
        return;
    }
    decompose(r, (uint32_t)(parts >> 18) & 0x3FFFF); /* recursion depth is at most 3 */
    if (parts & 0x3FFFF) decompose(r, (uint32_t)parts & 0x3FFFF);
}

/* Stable sort of the marks in [from, to) by combining class; counting sort, since a hostile text may be
 * one long sequence. */
static void sort_marks(run *r, size_t from, size_t to) {
    size_t count = to - from, at[257] = {0};
    uint32_t *codes = malloc(count * sizeof *codes);
    unsigned char *orders = malloc(count);
    if (codes && orders) {
        for (size_t i = from; i < to; i++) at[r->order[i] + 1]++;
        for (int k = 1; k < 257; k++) at[k] += at[k - 1];
        for (size_t i = from; i < to; i++) {
            size_t position = at[r->order[i]]++;
            codes[position] = r->code[i];
            orders[position] = r->order[i];
        }
        memcpy(r->code + from, codes, count * sizeof *codes);
        memcpy(r->order + from, orders, count);
    } else {
        r->failed = 1;
    }
    free(codes);
    free(orders);
}

static void reorder(run *r) {
    for (size_t i = 0; i < r->count && !r->failed; i++) {
        size_t from = i;
        int sorted = 1;
        while (i < r->count && r->order[i]) {
            if (i > from && r->order[i] < r->order[i - 1]) sorted = 0;
            i++;
        }
        if (!sorted) sort_marks(r, from, i);
    }
}

/* The composition of two characters, or 0. */
static uint32_t pair_of(uint32_t first, uint32_t second) {
    if (first - LEAD < LEADS && second - VOWEL < VOWELS)
        return HANGUL + ((first - LEAD) * VOWELS + (second - VOWEL)) * TAILS;
    if (first - HANGUL < HANGUL_COUNT && (first - HANGUL) % TAILS == 0 && second - TAIL - 1 < TAILS - 1)
        return first + (second - TAIL);
    uint64_t target = (uint64_t)first << 18 | second;
    size_t low = 0, high = zest_unicode_compositions_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        uint64_t entry = zest_unicode_decompositions[zest_unicode_compositions[middle]];
        if ((entry & 0xFFFFFFFFF) < target)
            low = middle + 1;
        else if ((entry & 0xFFFFFFFFF) > target)
            high = middle;
        else
            return (uint32_t)(entry >> 36);
    }
    return 0;
}

static void compose(run *r) {
    size_t starter = SIZE_MAX, out = 0;
    unsigned last = 0; /* combining class of the previous character; a mark in between blocks a composition */
    for (size_t i = 0; i < r->count; i++) {
        unsigned order = r->order[i];
        int blocked = starter == SIZE_MAX || (out > starter + 1 && (last == 0 || last >= order));
        uint32_t both = blocked ? 0 : pair_of(r->code[starter], r->code[i]);
        if (both) {
            r->code[starter] = both;
            continue;
        }
        if (order == 0) starter = out;
        last = order;
        r->code[out] = r->code[i];
        r->order[out++] = (unsigned char)order;
    }
    r->count = out;
}

static void flush(run *r, int composed, zest_buffer *out) {
    reorder(r);
    if (!r->failed && composed) compose(r);
    char bytes[4];
    for (size_t i = 0; i < r->count; i++) zest_buffer_add(out, bytes, zest_unicode_write(r->code[i], bytes));
    r->count = 0;
}

/* Nothing below U+0300 composes with the character before it or is reordered, so the text is split before
 * such characters. Nothing below U+00C0 has a decomposition. */
static void normal_form(const char *text, size_t size, int composed, zest_buffer *out) {
    run r = {0};
    size_t i = 0, plain = 0; /* text[plain, i) needs no change */
    uint32_t unchanged = composed ? 0x300 : 0xC0;
    while (i < size && !r.failed) {
        uint32_t code, next = 0;
        size_t length = zest_unicode_read(text + i, &code);
        if (i + length < size) zest_unicode_read(text + i + length, &next);
        if (code < unchanged && next < 0x300) {
            i += length;
            continue;
        }
        zest_buffer_add(out, text + plain, i - plain);
        do {
            decompose(&r, code);
            i += length;
            if (i < size) length = zest_unicode_read(text + i, &code);
        } while (i < size && code >= 0x300 && !r.failed);
        flush(&r, composed, out);
        plain = i;
    }
    zest_buffer_add(out, text + plain, size - plain);
    if (r.failed) out->failed = 1;
    free(r.code);
    free(r.order);
}

void zest_unicode_compose(const char *text, size_t size, zest_buffer *out) {
    normal_form(text, size, 1, out);
}

void zest_unicode_decompose(const char *text, size_t size, zest_buffer *out) {
    normal_form(text, size, 0, out);
}
