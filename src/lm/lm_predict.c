/* Answers to rows of the caller's, as include/zest_lm.h declares them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lm/lm_options.h"
#include "lm/target.h"
#include "task/metric.h"

enum { PREDICT_TOKENS = 16384 }; /* in a batch */

struct zest_lm_predictor {
    zest_ctx *ctx;
    zest_target target;
    zest_loaded_data data; /* the task */
    zest_task_columns columns;
    char *fields; /* the columns, with blanks between them */
};

/* ---- Opening ---- */

static void note(const char *sentences, void *user) {
    const zest_lm_callbacks *callbacks = user;
    if (callbacks && callbacks->on_note) callbacks->on_note(sentences, callbacks->user);
}

static zest_status make_fields(zest_lm_predictor *p) {
    zest_buffer fields = {0};
    for (size_t i = 0; i < p->columns.count; i++)
        zest_buffer_format(&fields, "%s%s", i ? " " : "", p->columns.names[i]);
    p->fields = fields.data;
    if (!fields.failed && fields.data) return ZEST_OK;
    return zest_error_memory(&p->ctx->error, "the columns of a task", fields.size);
}

static zest_status open_predictor(zest_lm_predictor *p, const char *path, const zest_lm_options *given,
                                  const zest_lm_callbacks *callbacks) {
    zest_options options;
    zest_error *error = &p->ctx->error;
    zest_target_callbacks hooks = {.note = note, .user = (void *)(uintptr_t)callbacks};
    if (callbacks && callbacks->on_rebuild)
        hooks.rebuild = (zest_progress_callback){callbacks->on_rebuild, callbacks->user};
    zest_status status = zest_lm_options_copy(given, &options, error);
    if (!status) status = zest_target_open(p->ctx, &p->target, path, &options, &hooks, error);
    zest_options_free(&options);
    if (status) return status;
    p->data.recorded = &p->target.inputs;
    status = zest_load_task(&p->data, &p->target.options, &p->target.loaded, error);
    if (!status)
        status =
            zest_task_columns_find(&p->data.task, p->target.loaded.model->config.causal, &p->columns, error);
    return status ? status : make_fields(p);
}

zest_lm_predictor *zest_lm_predictor_new(zest_ctx *ctx, const char *path, const zest_lm_options *options,
                                         const zest_lm_callbacks *callbacks) {
    if (!ctx || !path) return NULL;
    zest_lm_predictor *p = calloc(1, sizeof *p);
    if (!p) {
        zest_error_memory(&ctx->error, "a predictor", sizeof *p);
        return NULL;
    }
    p->ctx = ctx;
    zest_options_init(&p->target.options);
    if (!open_predictor(p, path, options, callbacks)) return p;
    zest_lm_predictor_free(p);
    return NULL;
}

void zest_lm_predictor_free(zest_lm_predictor *p) {
    if (!p) return;
    zest_task_columns_free(&p->columns);
    zest_load_free_data(&p->data);
    zest_target_close(&p->target);
    free(p->fields);
    free(p);
}

const char *zest_lm_predictor_column(const zest_lm_predictor *p, size_t i) {
    return p && i < p->columns.count ? p->columns.names[i] : NULL;
}

const char *zest_lm_predictor_class(const zest_lm_predictor *p, size_t i) {
    if (!p || p->data.task.kind != ZEST_TASK_CLASSES || i >= p->data.task.class_count) return NULL;
    return p->data.task.classes[i].label;
}

/* ---- Answers ---- */

/* Scores are logits: out gets their softmax. */
static void softmax(const double *scores, size_t count, double *out) {
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, scores[i]);
    for (size_t i = 0; i < count; i++) sum += exp(scores[i] - most);
    for (size_t i = 0; i < count; i++) out[i] = exp(scores[i] - most) / sum;
}

static void report(const zest_lm_predictor *p, const zest_examples *examples, const zest_predictions *answers,
                   double *probabilities, size_t i, void (*on_prediction)(const zest_lm_prediction *, void *),
                   void *user) {
    int text = p->data.task.kind == ZEST_TASK_TEXT;
    zest_lm_prediction prediction = {
        .row = examples->row[i], .choice = -1, .truncated = examples->truncated[i]};
    if (text) {
        prediction.text = answers->texts[i];
    } else {
        const double *scores = answers->scores + answers->starts[i];
        prediction.probability_count = answers->starts[i + 1] - answers->starts[i];
        prediction.probabilities = probabilities;
        softmax(scores, prediction.probability_count, probabilities);
        if (answers->choice[i] != ZEST_METRIC_NO_CHOICE) prediction.choice = (int32_t)answers->choice[i];
        if (prediction.choice >= 0) prediction.text = zest_lm_predictor_class(p, (size_t)prediction.choice);
    }
    on_prediction(&prediction, user);
}

static zest_status answer(zest_lm_predictor *p, const zest_rows *rows,
                          void (*on_prediction)(const zest_lm_prediction *, void *), void *user) {
    zest_error *error = &p->ctx->error;
    const zest_loaded *loaded = &p->target.loaded;
    zest_examples examples = {0};
    zest_predictions answers = {0};
    size_t most = 1;
    zest_status status = zest_load_examples(&p->data, &p->target.options, loaded, rows, &examples, error);
    if (!status)
        status = zest_metric_predict(loaded->runner, NULL, &examples, loaded->tokenizer, PREDICT_TOKENS,
                                     &answers, error);
    for (size_t i = 0; i < examples.count && !status; i++)
        if (answers.starts[i + 1] - answers.starts[i] > most)
            most = answers.starts[i + 1] - answers.starts[i];
    double *probabilities = malloc(most * sizeof *probabilities);
    if (!status && !probabilities) status = zest_error_memory(error, "probabilities", most * sizeof(double));
    for (size_t i = 0; i < examples.count && !status; i++)
        report(p, &examples, &answers, probabilities, i, on_prediction, user);
    free(probabilities);
    zest_predictions_free(&answers);
    zest_examples_free(&examples);
    return status;
}

zest_status zest_lm_predict(zest_lm_predictor *p, const char *rows, size_t size,
                            void (*on_prediction)(const zest_lm_prediction *prediction, void *user),
                            void *user) {
    if (!p) return ZEST_ERROR_ARGUMENT;
    if (!rows || !on_prediction)
        return zest_error_set(&p->ctx->error, ZEST_ERROR_ARGUMENT, "predictions need rows and a callback");
    if (size == ZEST_LM_WHOLE) size = strlen(rows);
    zest_rows parsed = {0};
    zest_rows_layout layout = {.format = ZEST_ROWS_JSONL, .fields = p->fields};
    zest_status status = zest_rows_parse(rows, size, "rows", &layout, &parsed, &p->ctx->error);
    if (!status) status = answer(p, &parsed, on_prediction, user);
    zest_rows_free(&parsed);
    return status;
}
