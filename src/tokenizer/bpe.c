/* Byte-pair encoding: the table of merges, and the encoding of one pre-token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"
#include "tokenizer/vocab.h"

/* ---- GPT-2's byte-to-character table: printable Latin-1 maps to itself, the other 68 bytes to U+0100 and up ---- */

static int printable(unsigned byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

uint32_t zest_bpe_spelling(unsigned char byte) {
    if (printable(byte)) return byte;
    if (byte < 33) return 256u + byte;
    return byte <= 160 ? 256u + 33 + (byte - 127u) : 256u + 67;
}

int zest_bpe_spelt(uint32_t code) {
    if (code < 256) return printable(code) ? (int)code : -1;
    if (code < 256 + 33) return (int)code - 256;
    if (code < 256 + 67) return (int)code - 256 - 33 + 127;
    return code == 256 + 67 ? 173 : -1;
}

/* ---- Hash table of merges ---- */

static inline uint64_t key_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static inline const zest_bpe_pair *find_pair(const zest_bpe *bpe, int32_t left, int32_t right) {
    if (!bpe->slots) return NULL;
    uint64_t key = key_of(left, right);
    size_t mask = bpe->slots - 1, i = zest_hash_mix(key) & mask;
    for (size_t n = 0; n <= bpe->reach; n++, i = (i + 1) & mask) {
        if (bpe->pairs[i].key == key) return &bpe->pairs[i];
        if (bpe->pairs[i].key == UINT64_MAX) return NULL;
    }
    return NULL;
}

static void insert(zest_bpe *bpe, zest_bpe_pair pair) {
    size_t mask = bpe->slots - 1, i = zest_hash_mix(pair.key) & mask, distance = 0;
    for (; bpe->pairs[i].key != UINT64_MAX && bpe->pairs[i].key != pair.key; distance++) i = (i + 1) & mask;
    if (bpe->pairs[i].key == UINT64_MAX) bpe->count++;
    bpe->pairs[i] = pair;
    if (bpe->reach < distance) bpe->reach = distance;
}

zest_status zest_bpe_add(zest_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t merged,
                         zest_error *error) {
    if (2 * (bpe->count + 1) > bpe->slots) {
        size_t slots = bpe->slots ? 2 * bpe->slots : 1024, old = bpe->slots;
        zest_bpe_pair *pairs = malloc(slots * sizeof *pairs), *before = bpe->pairs;
        if (!pairs) return zest_error_memory(error, "the merges of a tokenizer", slots * sizeof *pairs);
        memset(pairs, 0xFF, slots * sizeof *pairs);
        bpe->pairs = pairs;
        bpe->slots = slots;
        bpe->count = bpe->reach = 0;
        for (size_t i = 0; i < old; i++)
            if (before[i].key != UINT64_MAX) insert(bpe, before[i]);
        free(before);
    }
    insert(bpe, (zest_bpe_pair){key_of(left, right), rank, merged});
    if (bpe->reach > ZEST_HASH_REACH)
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "too many merges collide in the hash table; the tokenizer's file is damaged or hostile");
    return ZEST_OK;
}

void zest_bpe_seal(zest_bpe *bpe) {
    char text[8];
    zest_vocab_seal(&bpe->vocab);
    for (int byte = 0; byte < 256; byte++) {
        size_t size = zest_unicode_write(zest_bpe_spelling((unsigned char)byte), text);
        bpe->byte_symbol[byte] = zest_vocab_find_model_token(&bpe->vocab, text, size);
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        bpe->byte_token[byte] = zest_vocab_find_model_token(&bpe->vocab, text, 6);
    }
    for (int code = 0; code < 128; code++) {
        text[0] = (char)code;
        bpe->ascii[code] = zest_vocab_find_model_token(&bpe->vocab, text, 1);
    }
}

static const char mark[] = "▁";
enum { MARK = sizeof mark - 1 };

size_t zest_bpe_word(const char *piece, size_t size) {
    for (size_t at = 1; at < size; at++) {
        const char *hit = memchr(piece + at, mark[0], size - at);
        if (!hit) break;
        at = (size_t)(hit - piece);
        if (size - at < MARK || memcmp(hit, mark, MARK)) continue;
        if (at < MARK || memcmp(hit - MARK, mark, MARK)) return at;
    }
    return size;
}

void zest_bpe_optimize(zest_bpe *bpe) {
    bpe->words_apart =
        !bpe->byte_level && !bpe->ignore_merges && zest_vocab_find_model_token(&bpe->vocab, mark, MARK) >= 0;
    for (size_t i = 0; i < bpe->slots && bpe->words_apart; i++) {
        size_t size;
        if (bpe->pairs[i].key == UINT64_MAX) continue;
        const char *token = zest_vocab_token(&bpe->vocab, bpe->pairs[i].merged, &size);
        bpe->words_apart = zest_bpe_word(token, size) == size;
    }
}

void zest_bpe_free(zest_bpe *bpe) {
    zest_vocab_free(&bpe->vocab);
    free(bpe->pairs);
    bpe->pairs = NULL;
    bpe->slots = 0;
}

/* ---- Initial symbols ---- */

/* A character without a token: its bytes if the vocabulary has all of them, else the unknown token, which
 * is held back in *pending so that consecutive unknown characters share one. */
static void add_unknown(const zest_bpe *bpe, const char *at, size_t size, int32_t *pending, zest_ids *out) {
    if (bpe->byte_fallback) {
        size_t known = 0;
        while (known < size && bpe->byte_token[(unsigned char)at[known]] >= 0) known++;
        if (known == size) {
            for (size_t i = 0; i < size; i++) zest_ids_add(out, bpe->byte_token[(unsigned char)at[i]]);
            return;
        }
    }
    if (bpe->unknown < 0) return;
    if (*pending >= 0 && !bpe->fuse_unknown) zest_ids_add(out, *pending);
    *pending = bpe->unknown;
}

static void add_known(int32_t id, int32_t *pending, zest_ids *out) {
    if (*pending >= 0) zest_ids_add(out, *pending);
    *pending = -1;
    zest_ids_add(out, id);
}

static void spell_bytes(const zest_bpe *bpe, const char *piece, size_t size, zest_ids *out) {
    int32_t pending = -1;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)piece[i];
        if (bpe->byte_symbol[byte] >= 0) {
            add_known(bpe->byte_symbol[byte], &pending, out);
        } else {
            char text[4];
            add_unknown(bpe, text, zest_unicode_write(zest_bpe_spelling(byte), text), &pending, out);
        }
    }
    if (pending >= 0) zest_ids_add(out, pending);
}

static void spell_characters(const zest_bpe *bpe, const char *piece, size_t size, zest_ids *out) {
    int32_t pending = -1;
    for (size_t i = 0; i < size;) {
        uint32_t code;
        size_t length = zest_unicode_read(piece + i, &code);
        int32_t id =
            code < 128 ? bpe->ascii[code] : zest_vocab_find_model_token(&bpe->vocab, piece + i, length);
        if (id >= 0)
            add_known(id, &pending, out);
        else
            add_unknown(bpe, piece + i, length, &pending, out);
        i += length;
    }
    if (pending >= 0) zest_ids_add(out, pending);
}

static int32_t find_whole(const zest_bpe *bpe, zest_bpe_scratch *scratch, const char *piece, size_t size) {
    if (!bpe->byte_level) return zest_vocab_find_model_token(&bpe->vocab, piece, size);
    scratch->spelling.size = 0;
    for (size_t i = 0; i < size; i++) {
        char text[4];
        zest_buffer_add(&scratch->spelling, text,
                        zest_unicode_write(zest_bpe_spelling((unsigned char)piece[i]), text));
    }
    return zest_vocab_find_model_token(&bpe->vocab, scratch->spelling.data, scratch->spelling.size);
}

/* ---- Merging ---- */

size_t zest_bpe_merge_short(const zest_bpe *bpe, int32_t *symbols, size_t count) {
    const zest_bpe_pair *pair[ZEST_BPE_SHORT]; /* pair[i] joins symbols i and i+1; NULL: they do not merge */
    for (size_t i = 0; i + 1 < count; i++) pair[i] = find_pair(bpe, symbols[i], symbols[i + 1]);
    while (count > 1) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i + 1 < count; i++)
            if (pair[i] && (best == SIZE_MAX || pair[i]->rank < pair[best]->rank)) best = i;
        if (best == SIZE_MAX) break;
        symbols[best] = pair[best]->merged;
        count--;
        for (size_t i = best + 1; i < count; i++) symbols[i] = symbols[i + 1];
        for (size_t i = best + 1; i + 1 < count; i++) pair[i] = pair[i + 1];
        if (best > 0) pair[best - 1] = find_pair(bpe, symbols[best - 1], symbols[best]);
        if (best + 1 < count) pair[best] = find_pair(bpe, symbols[best], symbols[best + 1]);
    }
    return count;
}

typedef struct {
    uint32_t rank, position; /* position of the left symbol */
    int32_t left, right;     /* symbols when the pair was found; it is stale once they differ */
    int32_t merged;
} candidate;

typedef struct {
    candidate *heap;
    size_t count;
    int32_t *symbols; /* -1: merged into a symbol further left */
    uint32_t *before, *after;
    uint32_t end;
} chain;

static int sooner(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->position < b->position;
}

static void sift_down(chain *c, size_t i) {
    candidate moved = c->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= c->count) break;
        if (child + 1 < c->count && sooner(&c->heap[child + 1], &c->heap[child])) child++;
        if (!sooner(&c->heap[child], &moved)) break;
        c->heap[i] = c->heap[child];
        i = child;
    }
    c->heap[i] = moved;
}

static void sift_up(chain *c, size_t i) {
    candidate moved = c->heap[i];
    while (i > 0 && sooner(&moved, &c->heap[(i - 1) / 2])) {
        c->heap[i] = c->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    c->heap[i] = moved;
}

/* Pushes the pair that starts at this position if it has a merge; 0: it has none. */
static int propose(const zest_bpe *bpe, chain *c, uint32_t position) {
    uint32_t next = c->after[position];
    if (next == c->end) return 0;
    const zest_bpe_pair *pair = find_pair(bpe, c->symbols[position], c->symbols[next]);
    if (!pair) return 0;
    c->heap[c->count++] =
        (candidate){pair->rank, position, c->symbols[position], c->symbols[next], pair->merged};
    return 1;
}

static void merge_chain(const zest_bpe *bpe, chain *c) {
    for (size_t i = c->count / 2; i-- > 0;) sift_down(c, i);
    while (c->count) {
        candidate top = c->heap[0];
        c->heap[0] = c->heap[--c->count];
        if (c->count) sift_down(c, 0);
        uint32_t left = top.position, right = c->symbols[left] == top.left ? c->after[left] : c->end;
        if (right == c->end || c->symbols[right] != top.right) continue;
        c->symbols[left] = top.merged;
        c->symbols[right] = -1;
        c->after[left] = c->after[right];
        if (c->after[left] != c->end) c->before[c->after[left]] = left;
        if (left > 0 && propose(bpe, c, c->before[left])) sift_up(c, c->count - 1);
        if (propose(bpe, c, left)) sift_up(c, c->count - 1);
    }
}

size_t zest_bpe_merge_long(const zest_bpe *bpe, zest_bpe_scratch *scratch, int32_t *symbols, size_t count) {
    /* Every merge removes one candidate and adds at most two, so there are never more than 2 * count of
     * them. */
    size_t each = 2 * sizeof(candidate) + 2 * sizeof(uint32_t);
    if (count >= UINT32_MAX / 2 || count > SIZE_MAX / each) return SIZE_MAX;
    if (scratch->size < count * each) {
        free(scratch->memory);
        scratch->memory = malloc(count * each);
        scratch->size = scratch->memory ? count * each : 0;
        if (!scratch->memory) return SIZE_MAX;
    }
    chain c = {(candidate *)(void *)scratch->memory, 0, symbols, NULL, NULL, (uint32_t)count};
    c.before = (uint32_t *)(void *)(c.heap + 2 * count);
    c.after = c.before + count;
    for (uint32_t i = 0; i < count; i++) c.before[i] = i - 1, c.after[i] = i + 1;
    for (uint32_t i = 0; i + 1 < count; i++) propose(bpe, &c, i);
    merge_chain(bpe, &c);
    size_t written = 0;
    for (size_t i = 0; i < count; i++)
        if (symbols[i] >= 0) symbols[written++] = symbols[i];
    return written;
}

void zest_bpe_encode(const zest_bpe *bpe, zest_bpe_scratch *scratch, const char *piece, size_t size,
                     zest_ids *out) {
    if (bpe->ignore_merges) {
        int32_t whole = find_whole(bpe, scratch, piece, size);
        if (scratch->spelling.failed) out->failed = 1;
        if (whole >= 0) {
            zest_ids_add(out, whole);
            return;
        }
    }
    size_t first = out->count;
    if (bpe->byte_level)
        spell_bytes(bpe, piece, size, out);
    else
        spell_characters(bpe, piece, size, out);
    if (out->failed || out->count == first) return;
    int32_t *symbols = out->data + first;
    size_t count = out->count - first;
    count = count <= ZEST_BPE_SHORT ? zest_bpe_merge_short(bpe, symbols, count)
                                    : zest_bpe_merge_long(bpe, scratch, symbols, count);
    if (count == SIZE_MAX)
        out->failed = 1;
    else
        out->count = first + count;
}

void zest_bpe_scratch_free(zest_bpe_scratch *scratch) {
    zest_buffer_free(&scratch->spelling);
    free(scratch->memory);
    *scratch = (zest_bpe_scratch){0};
}
