/* What a run trains on: the examples of a task, or plain text. Both give the batch of a step, a function of the
 * seed and the step's number, and evaluate a part of the data. */
#include <math.h>
#include <stdlib.h>

#include "task/batch.h"
#include "train/trainer_internal.h"

/* ---- The examples of a task ---- */

static zest_status load_task(zest_trainer *t) {
    zest_status status = zest_load_data(&t->data, t->options, &t->loaded,
                                        ZEST_LOAD_TRAIN | ZEST_LOAD_DEV | ZEST_LOAD_TEST, t->error);
    t->task = t->data.task.name;
    t->classes = t->data.task.class_count;
    t->metric = t->data.task.metric;
    t->select = t->data.task.select;
    t->cut = 0;
    for (int i = 0; i < 3; i++) {
        t->counts[i] = t->data.parts[i].count;
        t->cut += t->data.parts[i].cut;
    }
    return status;
}

/* The examples of step t->step: a slice of the epoch's permutation. */
static const uint32_t *examples_of_step(zest_trainer *t, size_t *count) {
    size_t all = t->counts[ZEST_PART_TRAIN], size = (size_t)zest_options_whole(t->options, ZEST_OPTION_BATCH);
    size_t steps = (all + size - 1) / size;
    uint64_t epoch = t->step / steps;
    size_t first = (size_t)(t->step % steps) * size;
    *count = all - first < size ? all - first : size;
    if (epoch != t->epoch)
        zest_permutation_fill(zest_options_whole(t->options, ZEST_OPTION_SEED), epoch, t->order, all);
    t->epoch = epoch;
    return t->order + first;
}

static zest_status make_task_batch(zest_trainer *t) {
    size_t count;
    const uint32_t *which = examples_of_step(t, &count);
    int scored = zest_options_whole(t->options, ZEST_OPTION_OBJECTIVE) != ZEST_CHOICE_LOSS;
    t->objective = &t->batch.objective;
    return zest_batch_make(&t->batch, &t->data.parts[ZEST_PART_TRAIN], which, count,
                           scored ? ZEST_BATCH_SCORE : ZEST_BATCH_TRAIN, t->error);
}

static zest_status make_task_part(zest_trainer *t, size_t first, size_t count,
                                  const zest_model_objective **objective) {
    *objective = &t->part_batch.objective;
    return zest_batch_make(&t->part_batch, t->batch.examples, t->batch.which + first, count, ZEST_BATCH_TRAIN,
                           t->error);
}

static zest_status evaluate_task(zest_trainer *t, const zest_loaded *loaded, zest_task_part part,
                                 int generate, zest_metrics *metrics) {
    const zest_examples *examples = &t->data.parts[part];
    zest_predictions predictions = {0};
    zest_progress_callback progress = {t->hooks->on_evaluate, t->hooks->user};
    *metrics = (zest_metrics){0};
    if (!examples->count) return ZEST_OK;
    zest_status status =
        zest_metric_predict_with(loaded->runner, NULL, examples, generate ? loaded->tokenizer : NULL,
                                 ZEST_TRAINER_EVAL_TOKENS, t->comm, &progress, &predictions, t->error);
    if (!status) zest_metric_sum(&t->data.task, examples, &predictions, metrics);
    zest_predictions_free(&predictions);
    return status;
}

static void free_task(zest_trainer *t) {
    zest_batch_free(&t->batch);
    zest_batch_free(&t->part_batch);
    zest_load_free_data(&t->data);
}

const zest_trainer_source zest_trainer_task = {load_task, make_task_batch, make_task_part, evaluate_task,
                                               free_task};

/* ---- Plain text: zest pretrain. The held-out text is its dev set, and the loss its metric. ---- */

static zest_status load_text(zest_trainer *t) {
    const zest_options *o = t->options;
    zest_corpus_options how = {.length = (size_t)zest_options_whole(o, ZEST_OPTION_LENGTH),
                               .held_out = zest_options_number(o, ZEST_OPTION_HELD_OUT),
                               .seed = zest_options_whole(o, ZEST_OPTION_SEED)};
    zest_status status = zest_corpus_read(zest_options_text(o, ZEST_OPTION_CORPUS), t->loaded.tokenizer,
                                          &t->loaded.model->config, &how, &t->corpus, t->error);
    if (!status)
        status = zest_inputs_check_data(&t->inputs, "text", zest_options_text(o, ZEST_OPTION_CORPUS),
                                        t->corpus.print, t->error);
    t->task = "text";
    t->metric = t->select = ZEST_METRIC_LOSS;
    t->counts[ZEST_PART_TRAIN] = t->corpus.train.sequences;
    t->counts[ZEST_PART_DEV] = t->corpus.held_out.sequences;
    return status;
}

static zest_corpus_masks masks_of(const zest_trainer *t, int fixed) {
    return (zest_corpus_masks){.probability = zest_options_number(t->options, ZEST_OPTION_MASK),
                               .seed = zest_options_whole(t->options, ZEST_OPTION_SEED),
                               .number = t->step,
                               .fixed = fixed};
}

static zest_status make_text_batch(zest_trainer *t) {
    size_t count;
    const uint32_t *which = examples_of_step(t, &count);
    zest_corpus_masks masks = masks_of(t, 0);
    t->objective = &t->text.objective;
    return zest_corpus_make_batch(&t->corpus, &t->corpus.train, which, count, &masks, &t->text, t->error);
}

static zest_status make_text_part(zest_trainer *t, size_t first, size_t count,
                                  const zest_model_objective **objective) {
    size_t all;
    const uint32_t *which = examples_of_step(t, &all) + first;
    zest_corpus_masks masks = masks_of(t, 0);
    masks.first = first;
    *objective = &t->part_text.objective;
    return zest_corpus_make_batch(&t->corpus, &t->corpus.train, which, count, &masks, &t->part_text,
                                  t->error);
}

/* Adds the losses of some held-out sequences, and counts their predicted tokens. */
static zest_status add_losses(zest_trainer *t, const zest_loaded *loaded, const uint32_t *which, size_t count,
                              zest_corpus_batch *batch, double *sum, size_t *tokens) {
    static const zest_model_lane itself;
    zest_corpus_masks masks = masks_of(t, 1);
    double *losses = malloc(count * sizeof *losses);
    if (!losses) return zest_error_memory(t->error, "losses", count * sizeof *losses);
    zest_status status =
        zest_corpus_make_batch(&t->corpus, &t->corpus.held_out, which, count, &masks, batch, t->error);
    if (!status)
        status =
            zest_model_losses(loaded->runner, &itself, 1, &batch->objective, losses, NULL, NULL, t->error);
    for (size_t i = 0; i < count && !status; i++) *sum += losses[i];
    if (!status) *tokens += batch->objective.item_starts[count];
    free(losses);
    return status;
}

static zest_status evaluate_text(zest_trainer *t, const zest_loaded *loaded, zest_task_part part,
                                 int generate, zest_metrics *metrics) {
    size_t all = t->counts[part], tokens = 0;
    size_t most = ZEST_TRAINER_EVAL_TOKENS / (size_t)zest_options_whole(t->options, ZEST_OPTION_LENGTH);
    double sum = 0;
    zest_progress_callback progress = {t->hooks->on_evaluate, t->hooks->user};
    (void)generate;
    *metrics = (zest_metrics){0};
    if (!all) return ZEST_OK;
    zest_corpus_batch batch = {0};
    uint32_t *which = malloc(all * sizeof *which);
    zest_status status = which ? ZEST_OK : zest_error_memory(t->error, "sequences", all * sizeof *which);
    for (size_t i = 0; i < all && which; i++) which[i] = (uint32_t)i;
    if (!most) most = 1;
    for (size_t i = 0; i < all && !status; i += most) {
        size_t count = all - i < most ? all - i : most;
        status = add_losses(t, loaded, which + i, count, &batch, &sum, &tokens);
        zest_progress_call(&progress, i + count, all);
    }
    zest_corpus_batch_free(&batch);
    free(which);
    *metrics = (zest_metrics){.n = tokens, .accuracy = NAN, .f1 = NAN, .em = NAN, .low = NAN, .high = NAN};
    metrics->loss = metrics->value = sum / (double)tokens;
    return status;
}

static void free_text(zest_trainer *t) {
    zest_corpus_free(&t->corpus);
    zest_corpus_batch_free(&t->text);
    zest_corpus_batch_free(&t->part_text);
}

const zest_trainer_source zest_trainer_text = {load_text, make_text_batch, make_text_part, evaluate_text,
                                               free_text};
