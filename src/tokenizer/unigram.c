/* Unigram (Kudo, 2018): of all ways to spell a text with tokens, the one with the highest sum of scores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

/* A node of the trie of all tokens: its children are neighbours, in the order of their bytes. */
struct zest_unigram_node {
    uint32_t child, children; /* first one, and their number */
    int32_t token;            /* that ends here; -1: none */
    unsigned char byte;
};

/* What the end of a prefix of the text is reached by. */
typedef struct {
    double score;
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
    unigram->node[node].child = (uint32_t)unigram->nodes;
    while (r.first < r.end && list[r.first].size == r.depth) /* of equal spellings the last counts */
        unigram->node[node].token = (int32_t)list[r.first++].value;
    while (r.first < r.end) {
        unsigned char byte = (unsigned char)list[r.first].text[r.depth];
        size_t end = r.first;
        while (end < r.end && (unsigned char)list[end].text[r.depth] == byte) end++;
        ranges[unigram->nodes] = (range){r.first, end, r.depth + 1};
        unigram->node[unigram->nodes++] = (zest_unigram_node){.token = -1, .byte = byte};
        unigram->node[node].children++;
        r.first = end;
    }
}

zest_status zest_unigram_finish(zest_unigram *unigram, const zest_vocab *vocab, const char *source,
                                zest_error *error) {
    size_t bytes, count = 0;
    zest_status status = check(unigram, vocab, source, &bytes, error);
    if (status) return status;
    zest_spelling *list = malloc((unigram->count + 1) * sizeof *list);
    range *ranges = malloc((bytes + 2) * sizeof *ranges);
    unigram->node = malloc((bytes + 2) * sizeof *unigram->node);
    if (list && ranges && unigram->node) {
        for (size_t id = 0; id < unigram->count; id++) {
            size_t size;
            const char *token = zest_vocab_token(vocab, (int32_t)id, &size);
            if (token && size) list[count++] = (zest_spelling){token, size, (uint32_t)id};
            if (unigram->score[id] < unigram->lowest) unigram->lowest = unigram->score[id];
        }
        zest_spellings_sort(list, count);
        ranges[0] = (range){0, count, 0};
        unigram->node[0] = (zest_unigram_node){.token = -1};
        unigram->nodes = 1;
        for (size_t node = 0; node < unigram->nodes; node++) add_children(unigram, list, ranges, node);
    } else {
        status = zest_error_memory(error, source, bytes * sizeof *unigram->node);
    }
    free(list);
    free(ranges);
    return status;
}

void zest_unigram_free(zest_unigram *unigram) {
    free(unigram->score);
    free(unigram->node);
    *unigram = (zest_unigram){0};
}

static const zest_unigram_node *child_of(const zest_unigram *unigram, const zest_unigram_node *node,
                                         unsigned char byte) {
    size_t low = node->child, high = low + node->children;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (unigram->node[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < node->child + node->children && unigram->node[low].byte == byte ? &unigram->node[low] : NULL;
}

static void reach(reached *end, double score, size_t start, int32_t token) {
    if (end->start != UINT32_MAX && score <= end->score) return;
    *end = (reached){score, (uint32_t)start, token};
}

/* All tokens that begin at `at`; a character that is no token is the unknown one. */
static void extend(const zest_unigram *unigram, const char *text, size_t size, size_t at, reached *best) {
    uint32_t code;
    size_t length = zest_unicode_read(text + at, &code);
    const zest_unigram_node *node = unigram->node;
    int single = 0;
    for (size_t end = at; end < size && (node = child_of(unigram, node, (unsigned char)text[end]));) {
        end++;
        if (node->token < 0) continue;
        reach(&best[end], unigram->score[node->token] + best[at].score, at, node->token);
        single |= end - at == length;
    }
    if (!single)
        reach(&best[at + length], unigram->lowest - unknown_penalty + best[at].score, at, unigram->unknown);
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
    size_t first = 0;
    int32_t *ends = malloc((size + 1) * sizeof *ends);
    if (!ends) {
        out->failed = 1;
        return;
    }
    for (size_t end = size; end; end = best[end].start) ends[best[end].start] = (int32_t)end;
    while (first < size) {
        size_t end = (size_t)ends[first];
        if (best[end].token != unigram->unknown) {
            zest_ids_add(out, best[end].token);
            first = end;
            continue;
        }
        while (end < size && best[ends[end]].token == unigram->unknown)
            end = (size_t)ends[end]; /* one for all */
        add_unknown(unigram, bpe, text + first, end - first, out);
        first = end;
    }
    free(ends);
}
