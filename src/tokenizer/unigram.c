/* Unigram (Kudo, 2018): of all ways to spell a text with tokens, the one with the highest sum of scores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

/* A node of the trie of all tokens: its children are neighbours, in the order of their bytes. */
struct zest_unigram_node {
    double score;
    uint32_t child; /* the first one; of a node with more than MANY, the index of its table */
    int32_t token;  /* that ends here; -1: none */
    uint16_t children;
    unsigned char byte;
};

/* Many children: by byte, the place among them, from 1; 0: no child. A node has at most 255, since 0xFF is no byte of
 * UTF-8. */
struct zest_unigram_table {
    uint32_t child;
    unsigned char place[256];
};

enum { MANY = 6 };

/* What the end of a prefix of the text is reached by. */
typedef struct {
    double score;   /* once the path is known: the end of the token that begins here */
    uint32_t start; /* of the last token; UINT32_MAX: not reached */
    int32_t token;
} reached;

/* A node's range of the sorted tokens, which all have its `depth` first bytes. */
typedef struct {
    size_t first, end, depth;
} range;

static const double unknown_penalty = 10.0;

static zest_status check(const zest_unigram *unigram, const zest_vocab *vocab, const char *source,
                         size_t *bytes, zest_error *error) {
    *bytes = 0;
    for (size_t id = 0; id < unigram->count; id++) {
        size_t size = 0;
        zest_vocab_token(vocab, (int32_t)id, &size);
        *bytes += size;
        if (!isfinite(unigram->score[id]))
            return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: token %zu: its score is not a number",
                                  source, id);
        if (size > ZEST_UNIGRAM_MAX_TOKEN)
            return zest_error_set(error, ZEST_ERROR_FORMAT,
                                  "%s: token %zu has %zu bytes, more than the %d allowed", source, id, size,
                                  ZEST_UNIGRAM_MAX_TOKEN);
    }
    return ZEST_OK;
}

/* Appends the children of a node: one for each byte that follows in its range. */
static void add_children(zest_unigram *unigram, const zest_spelling *list, range *ranges, size_t node) {
    range r = ranges[node];
    zest_unigram_node *parent = &unigram->node[node];
    parent->child = (uint32_t)unigram->nodes;
    for (; r.first < r.end && list[r.first].size == r.depth; r.first++) { /* of equal ones the last counts */
        parent->token = (int32_t)list[r.first].value;
        parent->score = unigram->score[parent->token];
    }
    while (r.first < r.end) {
        unsigned char byte = (unsigned char)list[r.first].text[r.depth];
        size_t end = r.first;
        while (end < r.end && (unsigned char)list[end].text[r.depth] == byte) end++;
        ranges[unigram->nodes] = (range){r.first, end, r.depth + 1};
        unigram->node[unigram->nodes++] = (zest_unigram_node){.token = -1, .byte = byte};
        parent->children++;
        r.first = end;
    }
}

/* Tables for the nodes with many children. */
static int add_tables(zest_unigram *unigram) {
    size_t count = 0, at = 0;
    for (size_t i = 0; i < unigram->nodes; i++) count += unigram->node[i].children > MANY;
    unigram->table = calloc(count + 1, sizeof *unigram->table);
    if (!unigram->table) return 0;
    for (size_t i = 0; i < unigram->nodes; i++) {
        zest_unigram_node *node = &unigram->node[i];
        if (node->children <= MANY) continue;
        zest_unigram_table *table = &unigram->table[at];
        table->child = node->child;
        for (size_t k = 0; k < node->children; k++)
            table->place[unigram->node[node->child + k].byte] = (unsigned char)(k + 1);
        node->child = (uint32_t)at++;
    }
    return 1;
}

zest_status zest_unigram_finish(zest_unigram *unigram, const zest_vocab *vocab, const char *source,
                                zest_error *error) {
    size_t bytes, count = 0;
    zest_status status = check(unigram, vocab, source, &bytes, error);
    if (status) return status;
    zest_spelling *list = malloc((unigram->count + 1) * sizeof *list);
    range *ranges = malloc((bytes + 2) * sizeof *ranges);
    unigram->node = malloc((bytes + 2) * sizeof *unigram->node);
    int ok = list && ranges && unigram->node;
    if (ok) {
        for (size_t id = 0; id < unigram->count; id++) {
            size_t size;
            const char *token = zest_vocab_token(vocab, (int32_t)id, &size);
            if (unigram->unlisted && unigram->unlisted[id]) continue;
            if (token && size) list[count++] = (zest_spelling){token, size, (uint32_t)id};
            if (!unigram->single && unigram->score[id] < unigram->lowest)
                unigram->lowest = unigram->score[id];
        }
        zest_spellings_sort(list, count);
        ranges[0] = (range){0, count, 0};
        unigram->node[0] = (zest_unigram_node){.token = -1};
        unigram->nodes = 1;
        for (size_t node = 0; node < unigram->nodes; node++) add_children(unigram, list, ranges, node);
        zest_unigram_node *smaller = realloc(unigram->node, unigram->nodes * sizeof *smaller);
        if (smaller) unigram->node = smaller;
        unigram->unknown_score = unigram->lowest - unknown_penalty;
        if (unigram->single) unigram->unknown_score = (double)(float)unigram->unknown_score;
        ok = add_tables(unigram);
    }
    free(list);
    free(ranges);
    return ok ? ZEST_OK : zest_error_memory(error, source, bytes * sizeof *unigram->node);
}

void zest_unigram_free(zest_unigram *unigram) {
    free(unigram->score);
    free(unigram->unlisted);
    free(unigram->node);
    free(unigram->table);
    *unigram = (zest_unigram){0};
}

static inline const zest_unigram_node *child_of(const zest_unigram *unigram, const zest_unigram_node *node,
                                                unsigned char byte) {
    if (node->children > MANY) {
        const zest_unigram_table *table = &unigram->table[node->child];
        unsigned char place = table->place[byte];
        return place ? &unigram->node[table->child + place - 1] : NULL;
    }
    const zest_unigram_node *child = unigram->node + node->child;
    for (size_t i = 0; i < node->children; i++)
        if (child[i].byte == byte) return &child[i];
    return NULL;
}

static inline void reach(const zest_unigram *unigram, reached *end, double score, size_t start,
                         int32_t token) {
    if (unigram->single) score = (double)(float)score;
    if (end->start != UINT32_MAX && score <= end->score) return;
    *end = (reached){score, (uint32_t)start, token};
}

/* All tokens that begin at `at`; a character that is no token is the unknown one. */
static void extend(const zest_unigram *unigram, const char *text, size_t size, size_t at, reached *best) {
    uint32_t code;
    size_t length = zest_unicode_read(text + at, &code);
    const zest_unigram_node *node = unigram->node;
    int alone = 0; /* the character is a token */
    for (size_t end = at; end < size && (node = child_of(unigram, node, (unsigned char)text[end]));) {
        end++;
        if (node->token < 0) continue;
        reach(unigram, &best[end], node->score + best[at].score, at, node->token);
        alone |= end - at == length;
    }
    if (!alone)
        reach(unigram, &best[at + length], unigram->unknown_score + best[at].score, at, unigram->unknown);
}

/* A text that is no token: its bytes, if there is a token for each, else the unknown token. */
static void add_unknown(const zest_unigram *unigram, const zest_bpe *bpe, const char *text, size_t size,
                        zest_ids *out) {
    int32_t id = zest_vocab_find_model_token(&bpe->vocab, text, size);
    size_t known = 0;
    if (id >= 0) {
        zest_ids_add(out, id);
        return;
    }
    while (unigram->byte_fallback && known < size && bpe->byte_token[(unsigned char)text[known]] >= 0)
        known++;
    if (known < size || !size)
        zest_ids_add(out, unigram->unknown);
    else
        for (size_t i = 0; i < size; i++) zest_ids_add(out, bpe->byte_token[(unsigned char)text[i]]);
}

void zest_unigram_encode(const zest_unigram *unigram, const zest_bpe *bpe, zest_bpe_scratch *scratch,
                         const char *text, size_t size, zest_ids *out) {
    size_t bytes = (size + 1) * sizeof(reached);
    if (scratch->size < bytes) {
        free(scratch->memory);
        scratch->memory = malloc(bytes);
        scratch->size = scratch->memory ? bytes : 0;
    }
    reached *best = (reached *)(void *)scratch->memory;
    if (!best) {
        out->failed = 1;
        return;
    }
    for (size_t i = 0; i <= size; i++) best[i] = (reached){0, UINT32_MAX, -1};
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t code;
        length = zest_unicode_read(text + at, &code);
        extend(unigram, text, size, at, best);
    }
    for (size_t end = size; end; end = best[end].start) best[best[end].start].score = (double)end;
    for (size_t first = 0, end; first < size; first = end) {
        end = (size_t)best[first].score;
        if (best[end].token != unigram->unknown) {
            zest_ids_add(out, best[end].token);
            continue;
        }
        while (end < size && best[(size_t)best[end].score].token == unigram->unknown)
            end = (size_t)best[end].score; /* one for all */
        add_unknown(unigram, bpe, text + first, end - first, out);
    }
}
