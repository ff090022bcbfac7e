/* Training on the examples of a task. */
#include "data/examples_draw.h"
#include "run/trainer_internal.h"

enum { OBJECTIVE_LOSS }; /* as the option table lists them */

static zest_status load(zest_trainer *t) {
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

const uint32_t *zest_trainer_examples(zest_trainer *t, size_t *count) {
    size_t all = t->counts[ZEST_PART_TRAIN], size = (size_t)zest_options_whole(t->options, ZEST_OPTION_BATCH);
    size_t steps = (all + size - 1) / size;
    uint64_t epoch = t->step / steps;
    size_t first = (size_t)(t->step % steps) * size;
    *count = all - first < size ? all - first : size;
    if (epoch != t->epoch)
        zest_examples_draw_order(zest_options_whole(t->options, ZEST_OPTION_SEED), epoch, t->order, all);
    t->epoch = epoch;
    return t->order + first;
}

static zest_status make_batch(zest_trainer *t) {
    size_t count;
    const uint32_t *which = zest_trainer_examples(t, &count);
    int scored = zest_options_whole(t->options, ZEST_OPTION_OBJECTIVE) != OBJECTIVE_LOSS;
    t->objective = &t->batch.objective;
    return zest_batch_make(&t->batch, &t->data.parts[ZEST_PART_TRAIN], which, count,
                           scored ? ZEST_BATCH_SCORE : ZEST_BATCH_TRAIN, t->error);
}

static zest_status evaluate(zest_trainer *t, const zest_loaded *loaded, zest_task_part part, int generate,
                            zest_metrics *metrics) {
    const zest_examples *examples = &t->data.parts[part];
    zest_predictions predictions = {0};
    zest_progress_callback watch = {t->hooks->evaluate, t->hooks->user};
    *metrics = (zest_metrics){0};
    if (!examples->count) return ZEST_OK;
    zest_status status =
        zest_metric_predict_watched(loaded->runner, NULL, examples, generate ? loaded->tokenizer : NULL,
                                    ZEST_TRAINER_EVAL_TOKENS, &watch, &predictions, t->error);
    if (!status) zest_metric_sum(&t->data.task, examples, &predictions, metrics);
    zest_predictions_free(&predictions);
    return status;
}

static void free_all(zest_trainer *t) {
    zest_batch_free(&t->batch);
    zest_load_free_data(&t->data);
}

const zest_trainer_source zest_trainer_task = {load, make_batch, evaluate, free_all};
