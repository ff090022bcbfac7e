/* What is asked of the sequences of a text. */
#include <stdlib.h>
#include <string.h>

#include "data/corpus.h"
#include "data/examples_draw.h"

enum { PLACE_BITS = 20 }; /* a batch has at most 2^20 sequences */

/* Everything a batch points to lies in one piece: for every token at most the token, a row and a target. */
typedef struct {
    uint32_t *tokens, *starts, *items, *rows, *targets;
    uint32_t asked;
} places;

static zest_status make_room(zest_corpus_batch *batch, size_t tokens, size_t count, places *p,
                             zest_error *error) {
    size_t wanted = 3 * tokens + 2 * (count + 1);
    if (wanted > batch->room_count) {
        free(batch->room);
        batch->room_count = 0;
        batch->room = malloc(wanted * sizeof *batch->room);
        if (!batch->room) return zest_error_memory(error, "a batch of text", wanted * sizeof *batch->room);
        batch->room_count = wanted;
    }
    uint32_t *at = batch->room;
    *p = (places){.tokens = at,
                  .rows = at + tokens,
                  .targets = at + 2 * tokens,
                  .starts = at + 3 * tokens,
                  .items = at + 3 * tokens + count + 1};
    return ZEST_OK;
}

static int is_special(const zest_corpus *corpus, uint32_t token) {
    return token >= corpus->vocabulary || corpus->special[token / 8] >> token % 8 & 1;
}

static void ask_for(places *p, uint32_t row, uint32_t target) {
    p->rows[p->asked] = row;
    p->targets[p->asked++] = target;
}

/* Eight of ten are masked, one is random, one stays. */
static void hide(const zest_corpus *corpus, zest_examples_draw *draw, uint32_t *token) {
    uint32_t fate = zest_examples_draw_below(draw, 10);
    if (fate < 8) *token = corpus->mask;
    if (fate != 8) return;
    do *token = zest_examples_draw_below(draw, corpus->vocabulary);
    while (is_special(corpus, *token));
}

static void mask_sequence(const zest_corpus *corpus, const zest_corpus_masks *masks, uint64_t number,
                          uint32_t from, uint32_t to, places *p) {
    zest_examples_draw draw = {
        .key = masks->seed, .number = number, .stream = masks->fixed ? ZEST_CORPUS_FIXED : ZEST_CORPUS_MASKS};
    uint32_t before = p->asked, plain = 0, threshold = (uint32_t)(masks->share * (1u << 24) + 0.5);
    for (uint32_t i = from; i < to; i++) {
        uint32_t token = p->tokens[i];
        if (is_special(corpus, token)) continue;
        plain++;
        if (zest_examples_draw_below(&draw, 1u << 24) >= threshold) continue;
        ask_for(p, i, token);
        hide(corpus, &draw, &p->tokens[i]);
    }
    if (p->asked > before || !plain) return;
    uint32_t skip = zest_examples_draw_below(&draw, plain); /* none was drawn: one is */
    for (uint32_t i = from; i < to; i++) {
        if (is_special(corpus, p->tokens[i]) || skip--) continue;
        ask_for(p, i, p->tokens[i]);
        hide(corpus, &draw, &p->tokens[i]);
        return;
    }
}

zest_status zest_corpus_ask(const zest_corpus *corpus, const zest_corpus_part *part, const uint32_t *which,
                            size_t count, const zest_corpus_masks *masks, zest_corpus_batch *batch,
                            zest_error *error) {
    places p = {0};
    size_t tokens = 0;
    uint32_t at = 0;
    for (size_t s = 0; s < count; s++) tokens += part->starts[which[s] + 1] - part->starts[which[s]];
    zest_status status = make_room(batch, tokens, count, &p, error);
    if (status) return status;
    p.starts[0] = p.items[0] = 0;
    for (size_t s = 0; s < count; s++) {
        uint32_t first = part->starts[which[s]], length = part->starts[which[s] + 1] - first;
        memcpy(p.tokens + at, part->tokens + first, length * sizeof *p.tokens);
        if (corpus->causal)
            for (uint32_t i = 0; i + 1 < length; i++) ask_for(&p, at + i, p.tokens[at + i + 1]);
        else
            mask_sequence(corpus, masks, masks->fixed ? which[s] : masks->number << PLACE_BITS | s, at,
                          at + length, &p);
        at += length;
        p.starts[s + 1] = at;
        p.items[s + 1] = p.asked;
    }
    batch->batch = (zest_model_batch){.tokens = p.tokens, .starts = p.starts, .sequences = count};
    batch->objective = (zest_model_objective){.kind = ZEST_MODEL_TOKENS,
                                              .batch = &batch->batch,
                                              .items = count,
                                              .item_starts = p.items,
                                              .rows = p.rows,
                                              .targets = p.targets};
    return ZEST_OK;
}

void zest_corpus_batch_free(zest_corpus_batch *batch) {
    free(batch->room);
    *batch = (zest_corpus_batch){0};
}
