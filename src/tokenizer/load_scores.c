/* Vocabularies whose tokens have scores and types: those of GGUF files and of SentencePiece. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

enum { NORMAL = 1, USER_DEFINED = 4 };

static int type_of(const zest_tokenizer_arrays *a, size_t id) { return a->types ? a->types[id] : NORMAL; }

zest_status zest_tokenizer_load_pieces(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a,
                                       zest_error *error) {
    for (size_t id = 0; id < a->count; id++) {
        const zest_tokenizer_text *token = &a->tokens[id];
        /* Copied, since messages need a NUL-terminated name. */
        char *text = strndup(token->size ? token->data : "", token->size);
        if (!text) return zest_error_memory(error, tokenizer->name, token->size);
        zest_status status = ZEST_OK;
        if (strlen(text) != token->size || zest_unicode_valid(text, token->size) != token->size)
            status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: token %zu is not UTF-8 text",
                                    tokenizer->name, id);
        else
            status =
                zest_vocab_add(&tokenizer->bpe.vocab, text, token->size, (int64_t)id, tokenizer->name, error);
        free(text);
        if (status) return status;
    }
    zest_bpe_seal(&tokenizer->bpe);
    return ZEST_OK;
}

/* ---- SentencePiece BPE: of all adjacent pairs whose concatenation is a token, the one with the highest score merges ---- */

typedef struct {
    float score;
    uint32_t id;
} ranked;

static int by_score(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int mergeable(const zest_tokenizer_arrays *a, size_t id) {
    int type = type_of(a, id);
    return type == NORMAL || type == USER_DEFINED;
}

/* bytes. Splitting a token at every position takes quadratic time; the longest tokens of published
 * vocabularies are runs of a few dozen spaces. */
enum { MAX_TOKEN_SIZE = 1024 };

/* Every split of a token into two tokens is a merge, ranked by the score of the token. Other pairs can
 * never be adjacent: SentencePiece starts from single characters. */
static zest_status add_splits(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a, size_t id,
                              uint32_t rank, zest_error *error) {
    const zest_tokenizer_text *token = &a->tokens[id];
    if (token->size > MAX_TOKEN_SIZE)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: token %zu has %zu bytes, more than the %d allowed", tokenizer->name, id,
                              token->size, MAX_TOKEN_SIZE);
    for (size_t cut = 1; cut < token->size; cut++) {
        if (((unsigned char)token->data[cut] & 0xC0) == 0x80) continue;
        int32_t left = zest_vocab_find(&tokenizer->bpe.vocab, token->data, cut);
        if (left < 0 || !mergeable(a, (size_t)left)) continue;
        int32_t right = zest_vocab_find(&tokenizer->bpe.vocab, token->data + cut, token->size - cut);
        if (right < 0 || !mergeable(a, (size_t)right)) continue;
        zest_status status = zest_bpe_add(&tokenizer->bpe, left, right, rank, (int32_t)id, error);
        if (status) return status;
    }
    return ZEST_OK;
}

zest_status zest_tokenizer_load_scores(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *a,
                                       zest_error *error) {
    if (!a->scores)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the tokenizer has neither scores nor merges",
                              tokenizer->name);
    ranked *order = malloc(a->count * sizeof *order);
    if (!order) return zest_error_memory(error, tokenizer->name, a->count * sizeof *order);
    zest_status status = ZEST_OK;
    size_t count = 0;
    for (size_t id = 0; id < a->count && !status; id++) {
        if (isnan(a->scores[id]))
            status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: token %zu: its score is not a number",
                                    tokenizer->name, id);
        if (mergeable(a, id)) order[count++] = (ranked){a->scores[id], (uint32_t)id};
    }
    if (!status) qsort(order, count, sizeof *order, by_score);
    uint32_t rank = 0; /* equal scores share a rank: of those, the leftmost pair merges */
    for (size_t i = 0; i < count && !status; i++) {
        if (i && order[i].score != order[i - 1].score) rank++;
        status = add_splits(tokenizer, a, order[i].id, rank, error);
    }
    free(order);
    return status;
}
