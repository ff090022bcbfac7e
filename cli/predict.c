/* zest predict: the answers of a run or a model, one line each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/subject.h"
#include "data/metric.h"

enum { BATCH_TOKENS = 16384 };

typedef struct {
    const zest_task *task;
    const zest_examples *examples;
    const zest_predictions *predictions;
    int labelled;
} answers;

/* Probabilities of the options: their scores are logits. */
static json_t *probabilities(const answers *a, size_t i) {
    const double *scores = a->predictions->scores + a->predictions->starts[i];
    size_t count = a->predictions->starts[i + 1] - a->predictions->starts[i];
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < count; j++) most = fmax(most, scores[j]);
    for (size_t j = 0; j < count; j++) sum += exp(scores[j] - most);
    json_t *out = a->task->kind == ZEST_TASK_CLASSES ? json_object() : json_array();
    for (size_t j = 0; j < count; j++) {
        json_t *value = zest_output_real(exp(scores[j] - most) / sum);
        if (a->task->kind == ZEST_TASK_CLASSES)
            zest_output_set(&out, a->task->classes[j].label, value);
        else
            zest_output_append(&out, value);
    }
    return out;
}

static json_t *line_of(const answers *a, size_t i) {
    const zest_predictions *p = a->predictions;
    json_t *line = json_pack("{s:I}", "row", (json_int_t)a->examples->row[i] + 1);
    if (a->task->kind == ZEST_TASK_TEXT) {
        zest_output_set(&line, "answer", zest_output_string(p->texts[i]));
    } else if (a->task->kind == ZEST_TASK_CLASSES) {
        zest_output_set(&line, "answer", zest_output_string(a->task->classes[p->choice[i]].label));
        if (a->labelled)
            zest_output_set(&line, "label",
                            zest_output_string(a->task->classes[a->examples->answers[i]].label));
    } else {
        zest_output_set(&line, "answer", json_integer(p->choice[i]));
        if (a->labelled) zest_output_set(&line, "label", json_integer(a->examples->answers[i]));
    }
    if (a->task->kind != ZEST_TASK_TEXT) zest_output_set(&line, "probabilities", probabilities(a, i));
    return line;
}

static zest_status write_lines(const answers *a, const char *path, zest_error *error) {
    zest_buffer out = {0};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < a->examples->count; i++) zest_output_dump(line_of(a, i), 6, &out);
    if (out.failed) status = zest_error_memory(error, "the answers", out.size);
    if (!status && *path)
        status = zest_file_write(path, out.data, out.size, error);
    else if (!status && zest_output_buffer(&out))
        status = ZEST_ERROR_MEMORY;
    zest_buffer_free(&out);
    return status;
}

static zest_status predict(const zest_options *options, const zest_subject *subject, zest_error *error) {
    const char *input = zest_options_text(options, ZEST_OPTION_INPUT);
    zest_task_part part = (zest_task_part)zest_options_whole(options, ZEST_OPTION_SPLIT);
    zest_loaded_data data = {.recorded = &subject->inputs};
    zest_rows rows = {0};
    zest_examples own = {0};
    zest_predictions predictions = {0};
    zest_progress progress;
    zest_progress_begin(&progress, "predict", "rows", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    zest_progress_callback watch = zest_progress_sink(&progress);
    answers a = {.task = &data.task, .predictions = &predictions, .labelled = 1};
    a.examples = *input ? &own : &data.parts[part];
    zest_status status = *input
                             ? zest_load_rows(&data, input, &subject->options, &subject->loaded, &rows, &own,
                                              &a.labelled, error)
                             : zest_load_data(&data, &subject->options, &subject->loaded, 1u << part, error);
    if (!status)
        status =
            zest_metric_predict_watched(subject->loaded.runner, NULL, a.examples, subject->loaded.tokenizer,
                                        BATCH_TOKENS, &watch, &predictions, error);
    zest_progress_end(&progress);
    if (!status) status = write_lines(&a, zest_options_text(options, ZEST_OPTION_OUT), error);
    zest_predictions_free(&predictions);
    zest_examples_free(&own);
    zest_rows_free(&rows);
    zest_load_free_data(&data);
    return status;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    zest_subject subject;
    zest_status status = zest_subject_open(&subject, words[0], options, &error);
    if (!status) status = predict(options, &subject, &error);
    zest_subject_close(&subject);
    return status ? zest_output_fail(status, error.message) : ZEST_EXIT_OK;
}

const zest_command zest_command_predict = {
    .name = "predict",
    .words = "RUN|MODEL",
    .least = 1,
    .most = 1,
    .summary = "the answers of a run or a model, one JSON object a line",
    .description =
        "Answers the rows of --input (a file in the format of the task's own, which needs no label) "
        "or the examples of --split. Every line has the row's number in its file, the answer, the "
        "label where there is one, and the probability of every class or option; free text has only "
        "the answer. Runs and models are found as by `zest eval`.",
    .examples = "zest predict run1 --input new.tsv\tlabels for new rows\n"
                "zest predict run1 --split dev --out answers.jsonl\twhat it got wrong",
    .defaults = "seed=42 step=best",
    .users = ZEST_FOR_PREDICT,
    .run = run,
};
