/* Batches of include/zest_lm.h: examples of the caller's, checked and packed. */
#include <stdlib.h>
#include <string.h>

#include "lm/lm.h"

zest_lm_batch *zest_lm_batch_new(zest_lm *lm) {
    if (zest_lm_check(lm)) return NULL;
    zest_lm_batch *batch = calloc(1, sizeof *batch);
    if (batch)
        batch->lm = lm;
    else
        zest_error_memory(zest_lm_sink(lm), "a batch", sizeof *batch);
    return batch;
}

void zest_lm_batch_free(zest_lm_batch *batch) {
    if (!batch) return;
    free(batch->examples.tokens);
    free(batch->examples.texts);
    free(batch->examples.text_starts);
    free(batch->examples.answers);
    free(batch->starts);
    free(batch->rows);
    free(batch->targets);
    free(batch->item_starts);
    zest_batch_free(&batch->packed);
    free(batch);
}

void zest_lm_batch_clear(zest_lm_batch *batch) {
    if (!batch) return;
    batch->kind = ZEST_LM_EMPTY;
    batch->count = batch->text_count = batch->sequences = batch->target_count = 0;
    batch->examples.token_count = batch->examples.count = 0;
    batch->is_packed = 0;
}

size_t zest_lm_batch_count(const zest_lm_batch *batch) { return batch ? batch->count : 0; }

/* ---- Memory ---- */

static zest_status reserve(const zest_lm_batch *batch, void **data, size_t *capacity, size_t count,
                           size_t more, size_t size) {
    if (more > UINT32_MAX / 2 || count + more > UINT32_MAX / 2)
        return zest_error_set(zest_lm_sink(batch->lm), ZEST_ERROR_ARGUMENT,
                              "%zu tokens are too many for a batch; make it smaller", more);
    size_t needed = count + more, wanted = *capacity;
    if (needed <= wanted) return ZEST_OK;
    while (wanted < needed) wanted = wanted ? 2 * wanted : 64;
    void *larger = realloc(*data, wanted * size);
    if (!larger) return zest_error_memory(zest_lm_sink(batch->lm), "a batch", wanted * size);
    *data = larger;
    *capacity = wanted;
    return ZEST_OK;
}

#define RESERVE(array, field, count, more) \
    reserve(batch, (void **)&(array), &batch->capacity.field, count, more, sizeof *(array))

static zest_status reserve_tokens(zest_lm_batch *batch, size_t more) {
    return RESERVE(batch->examples.tokens, tokens, batch->examples.token_count, more);
}

/* For an example of CHOICES or MASKED with so many texts. */
static zest_status reserve_example(zest_lm_batch *batch, size_t tokens, size_t texts) {
    zest_examples *e = &batch->examples;
    zest_status status = reserve_tokens(batch, tokens);
    if (!status) status = RESERVE(e->texts, texts, batch->text_count, texts);
    if (!status) status = RESERVE(e->text_starts, text_starts, batch->count, 2);
    if (!status) status = RESERVE(e->answers, answers, batch->count, 1);
    return status;
}

/* ---- Checks ---- */

static zest_status check(zest_lm_batch *batch, zest_lm_kind kind, const char *what) {
    if (!batch) return ZEST_ERROR_ARGUMENT;
    zest_error *error = zest_lm_sink(batch->lm);
    int causal = kind == ZEST_LM_TEXTS || kind == ZEST_LM_CHOICES;
    const zest_model_config *config = &batch->lm->loaded.model->config;
    if (batch->kind != ZEST_LM_EMPTY && batch->kind != kind)
        return zest_error_set(error, ZEST_ERROR_STATE,
                              "a batch has examples of one kind; clear it before you add %s", what);
    if (causal != config->causal)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s need a %s model, and this one (%s) is %s", what,
                              causal ? "causal" : "masked", config->family, causal ? "masked" : "causal");
    return ZEST_OK;
}

static void add_tokens(zest_lm_batch *batch, const int32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        batch->examples.tokens[batch->examples.token_count++] = (uint32_t)ids[i];
}

/* ---- Token by token ---- */

zest_status zest_lm_batch_add_sequence(zest_lm_batch *batch, const int32_t *ids, size_t count,
                                       const size_t *positions, const int32_t *targets, size_t target_count,
                                       int merged) {
    size_t items = merged ? 1 : target_count;
    uint32_t first = (uint32_t)batch->examples.token_count;
    zest_status status = reserve_tokens(batch, count);
    if (!status) status = RESERVE(batch->starts, starts, batch->sequences, 2);
    if (!status) status = RESERVE(batch->rows, rows, batch->target_count, target_count);
    if (!status) status = RESERVE(batch->targets, targets, batch->target_count, target_count);
    if (!status) status = RESERVE(batch->item_starts, item_starts, batch->count, items + 1);
    if (status) return status;
    batch->starts[0] = batch->item_starts[0] = 0;
    add_tokens(batch, ids, count);
    batch->starts[++batch->sequences] = (uint32_t)batch->examples.token_count;
    for (size_t i = 0; i < target_count; i++) {
        batch->rows[batch->target_count] = first + (uint32_t)positions[i];
        batch->targets[batch->target_count++] = (uint32_t)targets[i];
        if (!merged) batch->item_starts[++batch->count] = (uint32_t)batch->target_count;
    }
    if (merged) batch->item_starts[++batch->count] = (uint32_t)batch->target_count;
    return ZEST_OK;
}

zest_status zest_lm_batch_add_text(zest_lm_batch *batch, const int32_t *ids, size_t count, size_t first) {
    zest_status status = check(batch, ZEST_LM_TEXTS, "texts");
    if (!status) status = zest_lm_check_ids(batch->lm, ids, count, "the text");
    if (status) return status;
    if (!first || first >= count)
        return zest_error_set(zest_lm_sink(batch->lm), ZEST_ERROR_ARGUMENT,
                              "of %zu tokens the first to predict can be 1 to %zu, not %zu", count, count - 1,
                              first);
    size_t *positions = malloc((count - first) * sizeof *positions);
    if (!positions) return zest_error_memory(zest_lm_sink(batch->lm), "a text", count * sizeof *positions);
    for (size_t i = first; i < count; i++) positions[i - first] = i - 1;
    /* the last token is only a target */
    status = zest_lm_batch_add_sequence(batch, ids, count - 1, positions, ids + first, count - first, 1);
    if (!status) batch->kind = ZEST_LM_TEXTS;
    free(positions);
    return status;
}

zest_status zest_lm_batch_add_mlm(zest_lm_batch *batch, const int32_t *ids, size_t count,
                                  const size_t *positions, const int32_t *targets, size_t target_count) {
    zest_status status = check(batch, ZEST_LM_MLM, "masked texts");
    if (!status) status = zest_lm_check_ids(batch->lm, ids, count, "the text");
    if (!status && !positions)
        status = zest_error_set(zest_lm_sink(batch->lm), ZEST_ERROR_ARGUMENT, "there is no token to predict");
    if (!status) status = zest_lm_check_ids(batch->lm, targets, target_count, "the list of targets");
    for (size_t i = 0; i < target_count && !status; i++)
        if (positions[i] >= count)
            status = zest_error_set(zest_lm_sink(batch->lm), ZEST_ERROR_ARGUMENT,
                                    "position %zu is behind the %zu tokens of the text", positions[i], count);
    if (!status) status = zest_lm_batch_add_sequence(batch, ids, count, positions, targets, target_count, 1);
    if (!status) batch->kind = ZEST_LM_MLM;
    return status;
}

/* ---- Choices and label words ---- */

static void end_example(zest_lm_batch *batch, zest_lm_kind kind, size_t answer) {
    zest_examples *e = &batch->examples;
    e->kind = kind == ZEST_LM_MASKED ? ZEST_TASK_CLASSES : ZEST_TASK_CHOICE;
    e->masked = kind == ZEST_LM_MASKED;
    e->answers[batch->count++] = (uint32_t)answer;
    e->text_starts[0] = 0;
    e->text_starts[batch->count] = (uint32_t)batch->text_count;
    e->count = batch->count;
    batch->kind = kind;
    batch->is_packed = 0;
}

static zest_status check_options(const zest_lm_batch *batch, size_t prompt, const int32_t *ids,
                                 const size_t *starts, size_t count, size_t answer) {
    zest_status status = ZEST_OK;
    zest_error *error = zest_lm_sink(batch->lm);
    size_t most = batch->lm->loaded.model->config.max_positions;
    if (!starts || !count || answer >= count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "there is no option %zu among %zu", answer, count);
    for (size_t i = 0; i < count && !status; i++) {
        if (starts[i + 1] <= starts[i] || !ids)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT, "option %zu has no tokens", i);
        size_t length = starts[i + 1] - starts[i];
        status = zest_lm_check_ids(batch->lm, ids + starts[i], length, "an option");
        if (!status && length > most - prompt)
            status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                    "prompt and option %zu have %zu tokens, and the model reads at most %zu",
                                    i, prompt + length, most);
    }
    return status;
}

zest_status zest_lm_batch_add_choices(zest_lm_batch *batch, const int32_t *prompt, size_t count,
                                      const int32_t *option_ids, const size_t *option_starts,
                                      size_t option_count, size_t answer) {
    zest_status status = check(batch, ZEST_LM_CHOICES, "choices");
    if (!status) status = zest_lm_check_ids(batch->lm, prompt, count, "the prompt");
    if (!status) status = check_options(batch, count, option_ids, option_starts, option_count, answer);
    if (status) return status;
    size_t tokens = option_starts[option_count] - option_starts[0];
    status = reserve_example(batch, tokens + option_count * count, option_count);
    if (status) return status;
    for (size_t i = 0; i < option_count; i++) {
        size_t length = option_starts[i + 1] - option_starts[i];
        batch->examples.texts[batch->text_count++] =
            (zest_example_text){.first = (uint32_t)batch->examples.token_count,
                                .length = (uint32_t)(count + length),
                                .target = (uint32_t)count};
        add_tokens(batch, prompt, count);
        add_tokens(batch, option_ids + option_starts[i], length);
    }
    end_example(batch, ZEST_LM_CHOICES, answer);
    return ZEST_OK;
}

zest_status zest_lm_batch_set_label_words(zest_lm_batch *batch, const int32_t *words, size_t count) {
    zest_status status = check(batch, ZEST_LM_MASKED, "label words");
    if (status) return status;
    zest_error *error = zest_lm_sink(batch->lm);
    if (batch->count)
        return zest_error_set(error, ZEST_ERROR_STATE, "set the label words before the first example");
    if (!words || count < 2 || count > ZEST_TASK_MAX_CLASSES)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "there can be 2 to %d label words, not %zu",
                              ZEST_TASK_MAX_CLASSES, count);
    for (size_t i = 0; i < count && !status; i++)
        status = zest_lm_check_ids(batch->lm, &words[i], 1, "a label word");
    for (size_t i = 0; i < count && !status; i++) batch->examples.words[i] = (uint32_t)words[i];
    if (!status) batch->examples.word_count = count;
    return status;
}

zest_status zest_lm_batch_add_masked(zest_lm_batch *batch, const int32_t *ids, size_t count, size_t position,
                                     size_t answer) {
    zest_status status = check(batch, ZEST_LM_MASKED, "masked examples");
    if (!status) status = zest_lm_check_ids(batch->lm, ids, count, "the text");
    if (status) return status;
    zest_error *error = zest_lm_sink(batch->lm);
    if (!batch->examples.word_count)
        return zest_error_set(error, ZEST_ERROR_STATE,
                              "set the label words before the first example: zest_lm_batch_set_label_words");
    if (position >= count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "position %zu is behind the %zu tokens of the text",
                              position, count);
    if (answer >= batch->examples.word_count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "there is no label word %zu among %zu", answer,
                              batch->examples.word_count);
    status = reserve_example(batch, count, 1);
    if (status) return status;
    batch->examples.texts[batch->text_count++] =
        (zest_example_text){.first = (uint32_t)batch->examples.token_count,
                            .length = (uint32_t)count,
                            .target = (uint32_t)position};
    add_tokens(batch, ids, count);
    end_example(batch, ZEST_LM_MASKED, answer);
    return ZEST_OK;
}

zest_status zest_lm_batch_add_masked_text(zest_lm_batch *batch, const char *text, size_t answer) {
    zest_ids ids = {0};
    zest_status status = check(batch, ZEST_LM_MASKED, "masked examples");
    if (status) return status;
    zest_error *error = zest_lm_sink(batch->lm);
    const zest_tokenizer *tokenizer = batch->lm->loaded.tokenizer;
    int32_t mask = zest_tokenizer_special(tokenizer, ZEST_TOKEN_MASK);
    if (!text || mask < 0)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "there is no %s", text ? "mask token" : "text");
    status = zest_tokenizer_encode(tokenizer, text, strlen(text), ZEST_ENCODE_TEMPLATE, &ids, error);
    size_t masks = 0, position = 0;
    for (size_t i = 0; i < ids.count && !status; i++)
        if (ids.data[i] == mask && !masks++) position = i;
    if (!status && masks != 1)
        status =
            zest_error_set(error, ZEST_ERROR_ARGUMENT, "the text needs the mask token %s once, not %zu times",
                           zest_tokenizer_token(tokenizer, mask, NULL), masks);
    if (!status) status = zest_lm_batch_add_masked(batch, ids.data, ids.count, position, answer);
    zest_ids_free(&ids);
    return status;
}

/* ---- Packing ---- */

static zest_status pack(zest_lm_batch *batch) {
    zest_error *error = zest_lm_sink(batch->lm);
    uint32_t *which = malloc(batch->count * sizeof *which);
    if (!which) return zest_error_memory(error, "a batch", batch->count * sizeof *which);
    for (size_t i = 0; i < batch->count; i++) which[i] = (uint32_t)i;
    zest_status status =
        zest_batch_make(&batch->packed, &batch->examples, which, batch->count, ZEST_BATCH_TRAIN, error);
    free(which);
    batch->is_packed = !status;
    return status;
}

zest_status zest_lm_batch_objective(zest_lm_batch *batch, const zest_model_objective **objective) {
    if (!batch) return ZEST_ERROR_ARGUMENT;
    if (!batch->count)
        return zest_error_set(zest_lm_sink(batch->lm), ZEST_ERROR_ARGUMENT, "the batch has no examples");
    if (batch->kind == ZEST_LM_CHOICES || batch->kind == ZEST_LM_MASKED) {
        *objective = &batch->packed.objective;
        return batch->is_packed ? ZEST_OK : pack(batch);
    }
    batch->batch = (zest_model_batch){
        .tokens = batch->examples.tokens, .starts = batch->starts, .sequences = batch->sequences};
    batch->objective = (zest_model_objective){.kind = ZEST_LOSS_TOKENS,
                                              .batch = &batch->batch,
                                              .items = batch->count,
                                              .item_starts = batch->item_starts,
                                              .rows = batch->rows,
                                              .targets = batch->targets};
    *objective = &batch->objective;
    return ZEST_OK;
}
