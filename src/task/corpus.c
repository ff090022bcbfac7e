/* Plain text for pretraining: packing of documents into sequences, and masking for masked language models. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "task/batch.h"
#include "task/corpus.h"

static const size_t text_limit = (size_t)1 << 36;

/* ---- Packing ---- */

/* Fills the sequences of a part one after the other. */
typedef struct {
    zest_corpus_part *part;
    size_t capacity, starts_capacity; /* capacities of the part's arrays */
    size_t body, full;  /* tokens of the open sequence and of a full one, without start and end token */
    int32_t first, end; /* start and end token; -1: none */
    zest_error *error;
} packer;

static zest_status grow(uint32_t **array, size_t *capacity, size_t needed, zest_error *error) {
    if (needed <= *capacity) return ZEST_OK;
    size_t more = 2 * *capacity > needed ? 2 * *capacity : needed + 1024;
    uint32_t *grown = realloc(*array, more * sizeof **array);
    if (!grown) return zest_error_memory(error, "the tokens of the text", more * sizeof **array);
    *array = grown;
    *capacity = more;
    return ZEST_OK;
}

static void put(packer *p, int32_t token) { p->part->tokens[p->part->token_count++] = (uint32_t)token; }

static void close_sequence(packer *p) {
    zest_corpus_part *part = p->part;
    if (p->end >= 0) put(p, p->end);
    part->starts[++part->sequences] = (uint32_t)part->token_count;
    p->body = 0;
}

static zest_status add(packer *p, int32_t token) {
    zest_corpus_part *part = p->part;
    zest_status status = grow(&part->tokens, &p->capacity, part->token_count + 3, p->error);
    if (!status) status = grow(&part->starts, &p->starts_capacity, part->sequences + 2, p->error);
    if (!status && part->token_count > UINT32_MAX - 3)
        status = zest_error_set(p->error, ZEST_ERROR_ARGUMENT,
                                "the text has more than 4 billion tokens: train on a smaller file");
    if (status) return status;
    if (!part->token_count) part->starts[0] = 0;
    if (!p->body && p->first >= 0) put(p, p->first);
    put(p, token);
    if (++p->body == p->full) close_sequence(p);
    return ZEST_OK;
}

/* The end token separates documents, but never starts a sequence. */
static zest_status pack(packer *p, const zest_ids *ids) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < ids->count && !status; i++) status = add(p, ids->data[i]);
    if (!status && p->end >= 0 && p->body) status = add(p, p->end);
    return status;
}

/* The remaining tokens are a sequence of their own if there is something to learn from it. */
static void finish(packer *p) {
    if (p->body >= 2)
        close_sequence(p);
    else if (p->body)
        p->part->token_count = p->part->starts[p->part->sequences];
}

/* ---- Documents ---- */

static int is_blank(const char *line, const char *end) {
    while (line < end && (*line == ' ' || *line == '\t' || *line == '\r')) line++;
    return line == end;
}

/* The next document from *at on: lines up to a blank one. 0: none. */
static int next_document(const char **at, const char *end, const char **text, size_t *size) {
    const char *begin = NULL;
    *size = 0;
    while (*at < end) {
        const char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        *at = stop < end ? stop + 1 : end;
        int blank = is_blank(line, stop);
        if (!blank && !begin) begin = line;
        if (!blank) *size = (size_t)(stop - begin);
        if (blank && begin) break;
    }
    *text = begin;
    return begin != NULL;
}

static int is_held_out(const zest_corpus_options *options, uint64_t document) {
    zest_permutation draw = {.key = options->seed, .number = document, .stream = ZEST_CORPUS_HELD_OUT};
    return zest_permutation_below(&draw, 1u << 24) < (uint32_t)(options->held_out * (1u << 24));
}

static zest_status pack_documents(const zest_buffer *bytes, const zest_tokenizer *tokenizer,
                                  const zest_corpus_options *options, zest_corpus *corpus, packer packers[2],
                                  zest_error *error) {
    const char *at = bytes->data, *end = bytes->data + bytes->size, *text;
    size_t size = 0;
    zest_ids ids = {0};
    zest_status status = ZEST_OK;
    while (!status && next_document(&at, end, &text, &size)) {
        int held_out_count = is_held_out(options, corpus->documents++);
        corpus->held_out_documents += (size_t)held_out_count;
        ids.count = 0;
        status = zest_tokenizer_encode(tokenizer, text, size, ZEST_ENCODE_LITERAL, &ids, error);
        if (!status) status = pack(&packers[held_out_count], &ids);
    }
    for (int i = 0; i < 2 && !status; i++) finish(&packers[i]);
    zest_ids_free(&ids);
    return status;
}

/* ---- Reading a corpus ---- */

static zest_status know_tokens(zest_corpus *corpus, const zest_tokenizer *tokenizer,
                               const zest_model_config *model, zest_error *error) {
    int32_t mask = zest_tokenizer_special(tokenizer, ZEST_TOKEN_MASK), size = zest_tokenizer_size(tokenizer);
    corpus->causal = model->causal;
    corpus->vocabulary = (uint32_t)((size_t)size < model->vocab_size ? (size_t)size : model->vocab_size);
    if (!model->causal && (mask < 0 || (size_t)mask >= model->vocab_size))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "a masked model needs a tokenizer with a mask token");
    corpus->mask = model->causal ? 0 : (uint32_t)mask;
    corpus->special = calloc(corpus->vocabulary / 8 + 1, 1);
    if (!corpus->special) return zest_error_memory(error, "the tokens", corpus->vocabulary);
    uint32_t plain = 0;
    for (uint32_t i = 0; i < corpus->vocabulary; i++) {
        int special = zest_tokenizer_is_special(tokenizer, (int32_t)i) ||
                      !zest_tokenizer_token(tokenizer, (int32_t)i, NULL);
        corpus->special[i / 8] |= (unsigned char)(special << i % 8);
        plain += !special;
    }
    return plain ? ZEST_OK
                 : zest_error_set(error, ZEST_ERROR_FORMAT, "the tokenizer has only special tokens");
}

static zest_status check(const zest_corpus *corpus, const char *path, const zest_corpus_options *options,
                         zest_error *error) {
    if (!corpus->documents) return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: contains no text", path);
    if (!corpus->train.sequences)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "%s: nothing is left to train on (%zu documents, %zu of them held out); documents "
            "are separated by blank lines; choose a smaller --held-out",
            path, corpus->documents, corpus->held_out_documents);
    if (options->held_out > 0 && !corpus->held_out.sequences)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "%s: none of its %zu documents is held out; separate documents by blank lines, or "
            "choose another --held-out (0: no held-out loss) or --seed",
            path, corpus->documents);
    return ZEST_OK;
}

zest_status zest_corpus_read(const char *path, const zest_tokenizer *tokenizer,
                             const zest_model_config *model, const zest_corpus_options *options,
                             zest_corpus *corpus, zest_error *error) {
    *corpus = (zest_corpus){0};
    if (options->length > model->max_positions)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--length %zu: the model has only %zu positions",
                              options->length, model->max_positions);
    int32_t first = zest_tokenizer_special(tokenizer, model->causal ? ZEST_TOKEN_BOS : ZEST_TOKEN_CLS),
            end = zest_tokenizer_special(tokenizer, model->causal ? ZEST_TOKEN_EOS : ZEST_TOKEN_SEP);
    if (first < 0) first = zest_tokenizer_special(tokenizer, ZEST_TOKEN_BOS);
    if (end < 0) end = zest_tokenizer_special(tokenizer, ZEST_TOKEN_EOS);
    size_t full = options->length - (first >= 0) - (end >= 0);
    packer packers[2] = {
        {.part = &corpus->train, .full = full, .first = first, .end = end, .error = error},
        {.part = &corpus->held_out, .full = full, .first = first, .end = end, .error = error}};
    zest_buffer bytes = {0};
    zest_status status = know_tokens(corpus, tokenizer, model, error);
    if (!status) status = zest_file_read_stream(path, text_limit, &bytes, error);
    corpus->print = zest_fingerprint_of(bytes.data, bytes.size);
    if (!status && bytes.size) status = pack_documents(&bytes, tokenizer, options, corpus, packers, error);
    zest_buffer_free(&bytes);
    return status ? status : check(corpus, path, options, error);
}

void zest_corpus_free(zest_corpus *corpus) {
    free(corpus->train.tokens);
    free(corpus->train.starts);
    free(corpus->held_out.tokens);
    free(corpus->held_out.starts);
    free(corpus->special);
    *corpus = (zest_corpus){0};
}

/* ---- Batches ---- */

enum { INDEX_BITS = 20 }; /* a batch has at most 2^20 sequences */

/* The memory of a batch is one block: for every token at most the token, a row and a target. */
typedef struct {
    uint32_t *tokens, *starts, *items, *rows, *targets;
    uint32_t targets_count;
} arrays;

static zest_status allocate(zest_corpus_batch *batch, size_t tokens, size_t count, arrays *p,
                            zest_error *error) {
    size_t needed = 3 * tokens + 2 * (count + 1);
    if (needed > batch->buffer_count) {
        free(batch->buffer);
        batch->buffer_count = 0;
        batch->buffer = malloc(needed * sizeof *batch->buffer);
        if (!batch->buffer)
            return zest_error_memory(error, "a batch of text", needed * sizeof *batch->buffer);
        batch->buffer_count = needed;
    }
    uint32_t *at = batch->buffer;
    *p = (arrays){.tokens = at,
                  .rows = at + tokens,
                  .targets = at + 2 * tokens,
                  .starts = at + 3 * tokens,
                  .items = at + 3 * tokens + count + 1};
    return ZEST_OK;
}

static int is_special(const zest_corpus *corpus, uint32_t token) {
    return token >= corpus->vocabulary || corpus->special[token / 8] >> token % 8 & 1;
}

static void add_target(arrays *p, uint32_t row, uint32_t target) {
    p->rows[p->targets_count] = row;
    p->targets[p->targets_count++] = target;
}

/* 80 % become the mask token, 10 % a random token, 10 % stay unchanged. */
static void corrupt(const zest_corpus *corpus, zest_permutation *draw, uint32_t *token) {
    uint32_t draw_of_ten = zest_permutation_below(draw, 10);
    if (draw_of_ten < 8) *token = corpus->mask;
    if (draw_of_ten != 8) return;
    do *token = zest_permutation_below(draw, corpus->vocabulary);
    while (is_special(corpus, *token));
}

static void mask_sequence(const zest_corpus *corpus, const zest_corpus_masks *masks, uint64_t number,
                          uint32_t from, uint32_t to, arrays *p) {
    zest_permutation draw = {
        .key = masks->seed, .number = number, .stream = masks->fixed ? ZEST_CORPUS_FIXED : ZEST_CORPUS_MASKS};
    uint32_t before = p->targets_count, plain = 0,
             threshold = (uint32_t)(masks->probability * (1u << 24) + 0.5);
    for (uint32_t i = from; i < to; i++) {
        uint32_t token = p->tokens[i];
        if (is_special(corpus, token)) continue;
        plain++;
        if (zest_permutation_below(&draw, 1u << 24) >= threshold) continue;
        add_target(p, i, token);
        corrupt(corpus, &draw, &p->tokens[i]);
    }
    if (p->targets_count > before || !plain) return;
    uint32_t skip = zest_permutation_below(&draw, plain); /* none was drawn: choose one */
    for (uint32_t i = from; i < to; i++) {
        if (is_special(corpus, p->tokens[i]) || skip--) continue;
        add_target(p, i, p->tokens[i]);
        corrupt(corpus, &draw, &p->tokens[i]);
        return;
    }
}

zest_status zest_corpus_make_batch(const zest_corpus *corpus, const zest_corpus_part *part,
                                   const uint32_t *which, size_t count, const zest_corpus_masks *masks,
                                   zest_corpus_batch *batch, zest_error *error) {
    arrays p = {0};
    size_t tokens = 0;
    uint32_t at = 0;
    for (size_t s = 0; s < count; s++) tokens += part->starts[which[s] + 1] - part->starts[which[s]];
    zest_status status = allocate(batch, tokens, count, &p, error);
    if (status) return status;
    p.starts[0] = p.items[0] = 0;
    for (size_t s = 0; s < count; s++) {
        uint32_t first = part->starts[which[s]], length = part->starts[which[s] + 1] - first;
        memcpy(p.tokens + at, part->tokens + first, length * sizeof *p.tokens);
        if (corpus->causal)
            for (uint32_t i = 0; i + 1 < length; i++) add_target(&p, at + i, p.tokens[at + i + 1]);
        else
            mask_sequence(corpus, masks,
                          masks->fixed ? which[s] : masks->number << INDEX_BITS | (masks->first + s), at,
                          at + length, &p);
        at += length;
        p.starts[s + 1] = at;
        p.items[s + 1] = p.targets_count;
    }
    batch->batch = (zest_model_batch){.tokens = p.tokens, .starts = p.starts, .sequences = count};
    batch->objective = (zest_model_objective){.kind = ZEST_LOSS_TOKENS,
                                              .batch = &batch->batch,
                                              .items = count,
                                              .item_starts = p.items,
                                              .rows = p.rows,
                                              .targets = p.targets};
    return ZEST_OK;
}

void zest_corpus_batch_free(zest_corpus_batch *batch) {
    free(batch->buffer);
    *batch = (zest_corpus_batch){0};
}
