/* Packing of examples into batches without padding, and unbiased random permutations. */
#include <stdlib.h>

#include "task/batch.h"
#include "task/examples.h"

/* ---- One example ---- */

/* The texts of an example in a batch. */
typedef struct {
    const uint32_t *tokens;
    const zest_example_text *texts;
    /* shared: length of the common prefix of all texts, excluding the last token of each */
    size_t count, shared;
} group;

/* Number of input tokens: the last token of a text is only a target. */
static size_t input_length(const zest_example_text *text) { return text->length - 1; }

static size_t common(const uint32_t *a, const uint32_t *b, size_t most) {
    size_t i = 0;
    while (i < most && a[i] == b[i]) i++;
    return i;
}

static group group_of(const zest_examples *e, uint32_t which, zest_batch_purpose purpose) {
    group g = {.tokens = e->tokens, .texts = e->texts + e->text_starts[which]};
    g.count = e->text_starts[which + 1] - e->text_starts[which];
    if (e->learned) return g; /* every text is a sequence of its own */
    if (e->as_text && purpose == ZEST_BATCH_TRAIN) {
        g.texts += e->answers[which];
        g.count = 1;
    }
    if (e->masked) return g;
    g.shared = input_length(&g.texts[0]);
    for (size_t i = 1; i < g.count; i++) {
        size_t most = input_length(&g.texts[i]) < g.shared ? input_length(&g.texts[i]) : g.shared;
        g.shared = common(g.tokens + g.texts[0].first, g.tokens + g.texts[i].first, most);
    }
    return g;
}

size_t zest_batch_tokens(const zest_examples *examples, uint32_t which, zest_batch_purpose purpose) {
    group g = group_of(examples, which, purpose);
    size_t count = g.shared;
    if (examples->masked) return g.texts[0].length;
    for (size_t i = 0; i < g.count; i++) count += input_length(&g.texts[i]) - g.shared;
    return count;
}

/* ---- Allocation ---- */

typedef struct {
    uint32_t *tokens, *starts, *prefix_of, *item_starts, *rows, *targets, *example_starts, *answers, *which;
    uint32_t sequences, token_count, items, row_count;
} packing;

static uint32_t *take(uint32_t **at, size_t count) {
    uint32_t *block = *at;
    *at += count;
    return block;
}

static zest_status allocate(zest_batch *b, const zest_examples *e, const uint32_t *which, size_t count,
                            zest_batch_purpose purpose, packing *f, zest_error *error) {
    size_t tokens = 0, texts = 0, target = 0;
    for (size_t i = 0; i < count; i++) {
        if (which[i] >= e->count)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT, "example index %u out of range (%zu examples)",
                                  which[i], e->count);
        group g = group_of(e, which[i], purpose);
        tokens += zest_batch_tokens(e, which[i], purpose);
        texts += g.count;
        for (size_t t = 0; t < g.count; t++) target += g.texts[t].length - g.texts[t].target;
    }
    size_t sequences = texts + count, needed = tokens + 2 * sequences + 2 * target + texts + 4 * count + 4;
    if (tokens > UINT32_MAX / 2 || target > UINT32_MAX / 2)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a batch of %zu tokens is too large; use a smaller batch", tokens);
    if (needed > b->buffer_count) {
        uint32_t *more = realloc(b->buffer, needed * sizeof *more);
        if (!more) return zest_error_memory(error, "a batch", needed * sizeof *more);
        b->buffer = more;
        b->buffer_count = needed;
    }
    uint32_t *at = b->buffer;
    f->tokens = take(&at, tokens);
    f->starts = take(&at, sequences + 1);
    f->prefix_of = take(&at, sequences);
    f->item_starts = take(&at, texts + 1);
    f->rows = take(&at, target);
    f->targets = take(&at, target);
    f->example_starts = take(&at, count + 1);
    f->answers = take(&at, count);
    f->which = take(&at, count);
    f->starts[0] = f->item_starts[0] = f->example_starts[0] = 0;
    return ZEST_OK;
}

/* ---- Packing ---- */

/* Appends a sequence and returns its first row. */
static uint32_t add_sequence(packing *f, const uint32_t *tokens, size_t count, uint32_t parent) {
    uint32_t first = f->token_count;
    for (size_t i = 0; i < count; i++) f->tokens[f->token_count++] = tokens[i];
    f->prefix_of[f->sequences++] = parent;
    f->starts[f->sequences] = f->token_count;
    return first;
}

static void add_masked(packing *f, const group *g) {
    const zest_example_text *text = &g->texts[0];
    uint32_t first = add_sequence(f, g->tokens + text->first, text->length, ZEST_MODEL_NO_PREFIX);
    f->rows[f->items++] = first + text->target;
}

/* The targets of an answer: each token is predicted by the row before it, in the shared sequence or in its
 * own. */
static void add_item(packing *f, const group *g, const zest_example_text *text, uint32_t shared_row,
                     uint32_t first_row) {
    for (uint32_t i = text->target; i < text->length; i++) {
        uint32_t position = i - 1;
        f->rows[f->row_count] =
            position < g->shared ? shared_row + position : first_row + (position - (uint32_t)g->shared);
        f->targets[f->row_count++] = g->tokens[text->first + i];
    }
    f->item_starts[++f->items] = f->row_count;
}

static void add_options(packing *f, const group *g) {
    uint32_t parent = ZEST_MODEL_NO_PREFIX, shared_row = 0;
    if (g->shared) {
        parent = f->sequences;
        shared_row = add_sequence(f, g->tokens + g->texts[0].first, g->shared, ZEST_MODEL_NO_PREFIX);
    }
    for (size_t i = 0; i < g->count; i++) {
        const zest_example_text *text = &g->texts[i];
        size_t suffix = input_length(text) - g->shared;
        uint32_t first_row =
            suffix ? add_sequence(f, g->tokens + text->first + g->shared, suffix, parent) : f->token_count;
        add_item(f, g, text, shared_row, first_row);
    }
}

/* A conversation: all of its texts are one item, with the tokens that the assistant says as targets. */
static void add_chat(packing *f, const zest_examples *e, const group *g) {
    for (size_t t = 0; t < g->count; t++) {
        const zest_example_text *text = &g->texts[t];
        uint32_t first = add_sequence(f, g->tokens + text->first, input_length(text), ZEST_MODEL_NO_PREFIX);
        for (uint32_t i = text->target; i < text->length; i++) {
            if (!e->learned[text->first + i]) continue;
            f->rows[f->row_count] = first + i - 1;
            f->targets[f->row_count++] = g->tokens[text->first + i];
        }
    }
    f->item_starts[++f->items] = f->row_count;
}

static zest_model_objective_kind kind_of(const zest_examples *e, zest_batch_purpose purpose) {
    if (e->masked) return ZEST_LOSS_LABEL_WORDS;
    if (e->kind == ZEST_TASK_TEXT || e->kind == ZEST_TASK_CHAT || (e->as_text && purpose == ZEST_BATCH_TRAIN))
        return ZEST_LOSS_TOKENS;
    return ZEST_LOSS_CHOICES;
}

static int any_parent(const packing *f) {
    for (uint32_t i = 0; i < f->sequences; i++)
        if (f->prefix_of[i] != ZEST_MODEL_NO_PREFIX) return 1;
    return 0;
}

zest_status zest_batch_make(zest_batch *b, const zest_examples *e, const uint32_t *which, size_t count,
                            zest_batch_purpose purpose, zest_error *error) {
    packing f = {0};
    if (!count) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "a batch needs at least one example");
    zest_status status = allocate(b, e, which, count, purpose, &f, error);
    if (status) return status;
    for (size_t i = 0; i < count; i++) {
        group g = group_of(e, which[i], purpose);
        if (e->masked)
            add_masked(&f, &g);
        else if (e->learned)
            add_chat(&f, e, &g);
        else
            add_options(&f, &g);
        f.example_starts[i + 1] = f.items;
        f.answers[i] = e->answers[which[i]];
        f.which[i] = which[i];
    }
    b->examples = e;
    b->which = f.which;
    b->count = count;
    b->batch = (zest_model_batch){.tokens = f.tokens,
                                  .starts = f.starts,
                                  .sequences = f.sequences,
                                  .prefix_of = any_parent(&f) ? f.prefix_of : NULL};
    b->objective = (zest_model_objective){.kind = kind_of(e, purpose),
                                          .batch = &b->batch,
                                          .items = f.items,
                                          .item_starts = e->masked ? NULL : f.item_starts,
                                          .rows = f.rows,
                                          .targets = e->masked ? NULL : f.targets,
                                          .words = e->masked ? e->words : NULL,
                                          .word_count = e->masked ? e->word_count : 0,
                                          .examples = count,
                                          .example_starts = f.example_starts,
                                          .answers = f.answers};
    return ZEST_OK;
}

void zest_batch_free(zest_batch *batch) {
    free(batch->buffer);
    *batch = (zest_batch){0};
}

static uint32_t next_word(zest_permutation *d) {
    if (!d->left) {
        zest_philox_block at = {{d->counter++, (uint32_t)d->number, d->stream, (uint32_t)(d->number >> 32)}};
        d->block = zest_philox(at, d->key);
        d->left = 4;
    }
    return d->block.word[4 - d->left--];
}

/* The high half of word * bound. Some values would get one word more than others; their low half
 * identifies such words, which are drawn again (Lemire, "Fast random integer generation in an interval",
 * 2019). */
uint32_t zest_permutation_below(zest_permutation *draw, uint32_t bound) {
    uint64_t product = (uint64_t)next_word(draw) * bound;
    if ((uint32_t)product < bound) {
        uint32_t surplus = (0u - bound) % bound;
        while ((uint32_t)product < surplus) product = (uint64_t)next_word(draw) * bound;
    }
    return (uint32_t)(product >> 32);
}

void zest_permutation_fill(uint64_t seed, uint64_t epoch, uint32_t *order, size_t count) {
    zest_permutation draw = {.key = seed, .number = epoch, .stream = ZEST_EXAMPLES_ORDER};
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (size_t i = count; i-- > 1;) {
        uint32_t j = zest_permutation_below(&draw, (uint32_t)i + 1), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}
