/* Answers to rows of the caller's, as include/zest_lm.h declares them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lm/lm.h"
#include "lm/records.h"
#include "lm/target.h"
#include "task/metric.h"

enum { PREDICT_TOKENS = 16384, CHUNK = 512, CHUNK_OF_TEXTS = 32 }; /* tokens in a batch; rows read at once */

struct zest_lm_predictor {
    zest_ctx *ctx;
    zest_target target;
    zest_loaded_data data; /* the task */
    zest_task_columns columns;
};

/* ---- Opening ---- */

static void note(const char *sentences, void *user) {
    const zest_lm_callbacks *callbacks = user;
    if (callbacks && callbacks->on_note) callbacks->on_note(sentences, callbacks->user);
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
    p->data.places = p->target.sent.places;
    status = zest_load_task(&p->data, &p->target.options, &p->target.loaded, error);
    if (!status && p->data.task.kind == ZEST_TASK_CHAT)
        status = zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "%s: a chat has no label to predict; zest eval gives its loss, zest generate its answers",
            p->data.task.name);
    return status;
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
    free(p);
}

/* The columns that the task reads. */
static zest_status find_columns(zest_lm_predictor *p) {
    if (p->columns.count) return ZEST_OK;
    return zest_task_columns_find(&p->data.task, p->target.loaded.model->config.causal, &p->columns,
                                  &p->ctx->error);
}

const char *zest_lm_predictor_column(zest_lm_predictor *p, size_t i) {
    return p && !find_columns(p) && i < p->columns.count ? p->columns.names[i] : NULL;
}

const char *zest_lm_predictor_class(const zest_lm_predictor *p, size_t i) {
    if (!p || p->data.task.kind != ZEST_TASK_CLASSES || i >= p->data.task.class_count) return NULL;
    return p->data.task.classes[i].label;
}

const char *zest_lm_predictor_label(const zest_lm_predictor *p) { return p ? p->data.task.label : NULL; }

/* ---- Answers ---- */

typedef struct {
    zest_lm_predictor *p;
    const zest_lm_predict_callbacks *callbacks;
    zest_records records;
    size_t rows; /* of the input, so far */
    size_t done; /* records, so far */
    int trusted; /* every label is known: the examples are those of a split */
    int stopped; /* by the caller */
    double *probabilities;
    zest_lm_field *fields; /* of a row */
} job;

/* Rows that were parsed, their examples and the answers to these. */
typedef struct {
    const zest_rows *rows;
    const zest_examples *examples;
    zest_predictions predictions;
    size_t first; /* record of row 0 */
} answers;

/* Scores are logits: out gets their softmax. */
static void softmax(const double *scores, size_t count, double *out) {
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, scores[i]);
    for (size_t i = 0; i < count; i++) sum += exp(scores[i] - most);
    for (size_t i = 0; i < count; i++) out[i] = exp(scores[i] - most) / sum;
}

/* The right class or option, where it is known; else -1. */
static int32_t label_of(const job *j, const answers *a, size_t i) {
    const zest_task *task = &j->p->data.task;
    const zest_examples *e = a->examples;
    uint32_t class;
    if (task->kind == ZEST_TASK_CLASSES)
        return j->trusted || (task->label && !zest_task_class_of(task, a->rows, e->row[i], &class, NULL))
                   ? (int32_t)e->answers[i]
                   : -1;
    return task->kind == ZEST_TASK_CHOICE && e->right[i][0] ? (int32_t)e->answers[i] : -1;
}

static void add_answer(const job *j, const answers *a, size_t i, zest_lm_prediction *out) {
    const zest_predictions *p = &a->predictions;
    if (j->p->data.task.kind == ZEST_TASK_TEXT) {
        out->text = p->texts[i];
        return;
    }
    out->probability_count = p->starts[i + 1] - p->starts[i];
    out->probabilities = j->probabilities;
    softmax(p->scores + p->starts[i], out->probability_count, j->probabilities);
    if (p->choice[i] == ZEST_METRIC_NO_CHOICE) return;
    out->choice = (int32_t)p->choice[i];
    out->text = zest_lm_predictor_class(j->p, p->choice[i]);
}

static void add_row(const job *j, const answers *a, size_t row, zest_lm_prediction *out) {
    if (j->records.count && zest_records_are_objects(&j->records)) {
        const zest_records_item *record = &j->records.list[a->first + row];
        out->record = j->records.data + record->start;
        out->record_size = record->size;
    }
    for (size_t f = 0; f < a->rows->name_count; f++) {
        zest_lm_field *field = &j->fields[f];
        field->name = a->rows->names[f];
        field->texts = zest_rows_get(a->rows, row, (int)f, &field->count);
    }
    out->fields = j->fields;
    out->field_count = a->rows->name_count;
}

static zest_status report(job *j, const answers *a) {
    const zest_examples *e = a->examples;
    size_t most = 1;
    for (size_t i = 0; i < e->count && a->predictions.starts; i++)
        if (a->predictions.starts[i + 1] - a->predictions.starts[i] > most)
            most = a->predictions.starts[i + 1] - a->predictions.starts[i];
    j->probabilities = malloc(most * sizeof *j->probabilities);
    j->fields = calloc(a->rows->name_count + 1, sizeof *j->fields);
    int ready = j->probabilities && j->fields;
    for (size_t i = 0; i < e->count && ready && !j->stopped; i++) {
        zest_lm_prediction prediction = {.row = j->rows + e->row[i],
                                         .choice = -1,
                                         .label = label_of(j, a, i),
                                         .truncated = e->truncated[i]};
        add_answer(j, a, i, &prediction);
        add_row(j, a, e->row[i], &prediction);
        j->stopped = j->callbacks->on_prediction(&prediction, j->callbacks->user) != 0;
    }
    free(j->probabilities);
    free(j->fields);
    return ready ? ZEST_OK : zest_error_memory(&j->p->ctx->error, "the answers", most * sizeof(double));
}

static void on_progress(uint64_t done, uint64_t total, void *user) {
    const job *j = user;
    uint64_t all = j->records.count ? j->records.count : total;
    if (j->callbacks->on_progress) j->callbacks->on_progress(j->done + done, all, j->callbacks->user);
}

static zest_status answer(job *j, const zest_rows *rows, const zest_examples *examples, size_t first) {
    const zest_loaded *loaded = &j->p->target.loaded;
    zest_comm *comm = j->p->ctx->comm;
    zest_progress_callback callback = {on_progress, j};
    answers a = {.rows = rows, .examples = examples, .first = first};
    zest_status status =
        zest_metric_predict_with(loaded->runner, NULL, examples, loaded->tokenizer, PREDICT_TOKENS, comm,
                                 &callback, &a.predictions, &j->p->ctx->error);
    if (!status) status = report(j, &a);
    zest_predictions_free(&a.predictions);
    if (!status) /* rank 0 knows whether somebody still reads the answers */
        status = comm->table->broadcast(comm, &j->stopped, sizeof j->stopped, 0, &j->p->ctx->error);
    return status;
}

/* ---- Rows of the caller's ---- */

/* What is wrong with a record, without the line of the piece that was parsed: "NAME, line 2: " or "NAME:2: ". */
static const char *reason(const job *j, const char *message) {
    size_t size = strlen(j->records.name);
    if (strncmp(message, j->records.name, size)) return message;
    const char *at = message + size;
    if (!strncmp(at, ", line ", 7)) at += 7;
    at += *at == ':' && at[1] != ' ';
    at += strspn(at, "0123456789");
    return !strncmp(at, ": ", 2) ? at + 2 : message;
}

/* Answers records first .. end-1. When they cannot be read together, each half is tried by itself, down to
 * the record that is at fault. */
static zest_status answer_records(job *j, size_t first, size_t end) {
    zest_rows rows = {0};
    zest_examples examples = {0};
    zest_error *error = &j->p->ctx->error;
    zest_status status = zest_records_parse(&j->records, first, end, &rows, error);
    if (!status)
        status = zest_load_examples(&j->p->data, &j->p->target.options, &j->p->target.loaded, &rows,
                                    &examples, error);
    /* the columns of a table are the same for all its rows */
    int fatal = !j->callbacks->on_refused || status == ZEST_ERROR_MEMORY ||
                (status == ZEST_ERROR_ARGUMENT && j->records.header.size);
    if (!status) {
        status = answer(j, &rows, &examples, first);
        j->rows += rows.count;
        j->done += end - first;
    } else if (!fatal && end - first == 1) {
        j->callbacks->on_refused(j->records.list[first].line, reason(j, error->message), j->callbacks->user);
        j->rows++;
        j->done++;
        status = ZEST_OK;
    } else if (!fatal) {
        size_t middle = first + (end - first) / 2;
        status = answer_records(j, first, middle);
        if (!status && !j->stopped) status = answer_records(j, middle, end);
    }
    zest_examples_free(&examples);
    zest_rows_free(&rows);
    return status;
}

static zest_status check(const zest_lm_predictor *p, const zest_lm_predict_callbacks *callbacks) {
    if (!p) return ZEST_ERROR_ARGUMENT;
    if (callbacks && callbacks->on_prediction) return ZEST_OK;
    return zest_error_set(&p->ctx->error, ZEST_ERROR_ARGUMENT, "predictions need a callback that takes them");
}

zest_status zest_lm_predict(zest_lm_predictor *p, const char *rows, size_t size,
                            const zest_lm_rows_format *format, const zest_lm_predict_callbacks *callbacks) {
    static const zest_lm_rows_format as_they_look = {0};
    zest_status status = check(p, callbacks);
    if (status) return status;
    if (!rows) return zest_error_set(&p->ctx->error, ZEST_ERROR_ARGUMENT, "there are no rows to answer");
    if (size == ZEST_LM_WHOLE) size = strlen(rows);
    job j = {.p = p, .callbacks = callbacks};
    status = find_columns(p);
    if (!status)
        status = zest_records_read(&j.records, &p->data.task, &p->columns, rows, size,
                                   format ? format : &as_they_look, &p->ctx->error);
    size_t chunk = p->data.task.kind == ZEST_TASK_TEXT ? CHUNK_OF_TEXTS : CHUNK;
    for (size_t first = 0; first < j.records.count && !status && !j.stopped; first += chunk) {
        size_t end = first + chunk < j.records.count ? first + chunk : j.records.count;
        status = answer_records(&j, first, end);
    }
    zest_records_free(&j.records);
    return status;
}

/* ---- The task's own examples ---- */

static int find_split(const char *split, zest_task_part *part) {
    for (int i = 0; i < 3; i++)
        if (split && !strcmp(split, zest_load_part_names[i])) return *part = (zest_task_part)i, 1;
    return 0;
}

zest_status zest_lm_predict_split(zest_lm_predictor *p, const char *split,
                                  const zest_lm_predict_callbacks *callbacks) {
    zest_status status = check(p, callbacks);
    zest_task_part part;
    if (status) return status;
    zest_error *error = &p->ctx->error;
    if (!find_split(split, &part))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "there are the splits train, dev and test, not '%.40s'", split ? split : "");
    const zest_loaded *loaded = &p->target.loaded;
    zest_loaded_data data = {.recorded = &p->target.inputs, .places = p->target.sent.places};
    zest_rows rows = {0};
    job j = {.p = p, .callbacks = callbacks, .trusted = 1};
    status = zest_load_data(&data, &p->target.options, loaded, 1u << part, error);
    if (!status && !data.parts[part].count)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "task %s has no such examples; choose another --split", data.task.name);
    if (!status) status = zest_load_part_rows(&data, &p->target.options, loaded, part, &rows, error);
    if (!status) status = answer(&j, &rows, &data.parts[part], 0);
    zest_rows_free(&rows);
    zest_load_free_data(&data);
    return status;
}
