/* What `zest predict` prints of a row: its columns, the label where there is one, the prediction. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "task/metric.h"
#include "base/json.h"
#include "cli/output.h"
#include "base/file.h"
#include "cli/progress.h"
#include "cli/records.h"
#include "cli/target.h"

typedef struct {
    const zest_task *task;
    const zest_rows *rows; /* which the examples' row counts */
    const zest_examples *examples;
    const zest_predictions *predictions;
    json_t *const *objects; /* the rows as JSON, with all that they hold; NULL: their fields */
    size_t before;          /* rows of the input before these */
    int trusted;            /* every label is known: the examples are those of a split */
} zest_answers;

/* {"row": 7, COLUMNS, "label": .., "prediction": .., "probabilities": {..}, "truncated": true}. The label and
 * "truncated" are there when they apply; a column that has one of these names is called "input.NAME". NULL:
 * memory is short. */
json_t *zest_answers_object(const zest_answers *answers, size_t i);

/* The same as a line of a table. Its columns are those of the first object, which zest_answers_header names;
 * probabilities become one column, that of the prediction. Tabs and line breaks become blanks. */
void zest_answers_header(const json_t *first, zest_buffer *out);
void zest_answers_line(const json_t *first, const json_t *object, zest_buffer *out);

/* ---- JSON ---- */

static int is_ours(const char *key) {
    static const char *const keys[] = {"row",           "label",       "prediction",
                                       "probabilities", "probability", "truncated"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i])) return 1;
    return 0;
}

static void set_column(const zest_answers *a, json_t **line, const char *name, json_t *value) {
    int label = a->task->label && !strcmp(name, a->task->label);
    zest_buffer other = {0};
    if (is_ours(name) && !(label && !strcmp(name, "label"))) {
        zest_buffer_format(&other, "input.%s", name);
        zest_output_set(line, other.failed ? "input" : other.data, value);
        zest_buffer_free(&other);
    } else {
        zest_output_set(line, name, value);
    }
}

/* A field of a row: a text, or a list where it holds several or none. */
static json_t *field(const zest_rows *rows, size_t row, size_t f) {
    size_t count;
    const char *const *texts = zest_rows_get(rows, row, (int)f, &count);
    if (count == 1) return zest_output_string(texts[0]);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) zest_output_append(&list, zest_output_string(texts[i]));
    return list;
}

static void set_columns(const zest_answers *a, size_t row, json_t **line) {
    const char *key;
    json_t *value;
    if (a->objects) {
        json_object_foreach(a->objects[row], key, value) set_column(a, line, key, json_incref(value));
        return;
    }
    for (size_t f = 0; f < a->rows->name_count; f++)
        set_column(a, line, a->rows->names[f], field(a->rows, row, f));
}

/* Of the classes or options: their scores are logits. */
static json_t *probabilities(const zest_answers *a, size_t i) {
    const double *scores = a->predictions->scores + a->predictions->starts[i];
    size_t count = a->predictions->starts[i + 1] - a->predictions->starts[i];
    int classes = a->task->kind == ZEST_TASK_CLASSES;
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < count; j++) most = fmax(most, scores[j]);
    for (size_t j = 0; j < count; j++) sum += exp(scores[j] - most);
    json_t *out = classes ? json_object() : json_array();
    for (size_t j = 0; j < count; j++) {
        json_t *value = zest_output_real(exp(scores[j] - most) / sum);
        if (classes)
            zest_output_set(&out, a->task->classes[j].label, value);
        else
            zest_output_append(&out, value);
    }
    return out;
}

/* The right class or option, where it is known; else NULL. */
static json_t *label(const zest_answers *a, size_t i, size_t row) {
    uint32_t class;
    if (a->task->kind == ZEST_TASK_CLASSES) {
        if (!a->trusted && (!a->task->label || zest_task_class_of(a->task, a->rows, row, &class, NULL)))
            return NULL;
        return zest_output_string(a->task->classes[a->examples->answers[i]].label);
    }
    if (a->task->kind == ZEST_TASK_CHOICE && a->examples->right[i][0])
        return json_integer(a->examples->answers[i]);
    return NULL;
}

static json_t *prediction(const zest_answers *a, size_t i) {
    const zest_predictions *p = a->predictions;
    if (a->task->kind == ZEST_TASK_TEXT) return zest_output_string(p->texts[i]);
    if (p->choice[i] == ZEST_METRIC_NO_CHOICE) return json_null();
    return a->task->kind == ZEST_TASK_CLASSES ? zest_output_string(a->task->classes[p->choice[i]].label)
                                              : json_integer(p->choice[i]);
}

json_t *zest_answers_object(const zest_answers *a, size_t i) {
    size_t row = a->examples->row[i];
    json_t *line = json_pack("{s:I}", "row", (json_int_t)(a->before + row + 1)), *known = label(a, i, row);
    set_columns(a, row, &line);
    if (known) zest_output_set(&line, "label", known);
    zest_output_set(&line, "prediction", prediction(a, i));
    if (a->task->kind != ZEST_TASK_TEXT) zest_output_set(&line, "probabilities", probabilities(a, i));
    if (a->examples->truncated[i]) zest_output_set(&line, "truncated", json_true());
    return line;
}

/* ---- TSV ---- */

static int is_column(const char *key) { return strcmp(key, "probabilities") && strcmp(key, "truncated"); }

static void add_clean(const char *text, zest_buffer *out) {
    for (; *text; text++) zest_buffer_add(out, strchr("\t\n\r", *text) ? " " : text, 1);
}

static void add_cell(const json_t *value, zest_buffer *out) {
    if (json_is_string(value)) {
        add_clean(json_string_value(value), out);
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (i) zest_buffer_text(out, "; ");
            add_cell(json_array_get(value, i), out);
        }
    } else if (value && !json_is_null(value)) {
        zest_json_print(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6), out);
    }
}

void zest_answers_header(const json_t *first, zest_buffer *out) {
    const char *key;
    json_t *value;
    size_t count = 0;
    json_object_foreach((json_t *)(uintptr_t)first, key, value) {
        if (!is_column(key)) continue;
        if (count++) zest_buffer_text(out, "\t");
        add_clean(key, out);
    }
    zest_buffer_text(out, json_object_get(first, "probabilities") ? "\tprobability\n" : "\n");
}

/* The probability of what was predicted. */
static void add_probability(const json_t *object, zest_buffer *out) {
    const json_t *all = json_object_get(object, "probabilities"),
                 *predicted = json_object_get(object, "prediction");
    const json_t *value = json_is_string(predicted) ? json_object_get(all, json_string_value(predicted))
                          : json_is_integer(predicted)
                              ? json_array_get(all, (size_t)json_integer_value(predicted))
                              : NULL;
    zest_buffer_text(out, "\t");
    add_cell(value, out);
}

void zest_answers_line(const json_t *first, const json_t *object, zest_buffer *out) {
    const char *key;
    json_t *value;
    size_t count = 0;
    json_object_foreach((json_t *)(uintptr_t)first, key, value) {
        if (!is_column(key)) continue;
        if (count++) zest_buffer_text(out, "\t");
        add_cell(json_object_get(object, key), out);
    }
    if (json_object_get(first, "probabilities")) add_probability(object, out);
    zest_buffer_text(out, "\n");
}

/* zest predict: the answers of a run or a model, a line each. */

enum { BATCH_TOKENS = 16384, CHUNK = 512, CHUNK_OF_TEXTS = 32, NAMED = 20 };

typedef struct {
    const zest_options *options;
    const zest_target *target;
    zest_loaded_data data;
    zest_records records;
    zest_progress progress;
    zest_buffer out; /* what is to be printed, or to be written to --out */
    json_t *first;   /* the first answer, whose columns a table has */
    size_t rows;     /* of the input, so far */
    size_t done;     /* records, so far */
    size_t refused, truncated;
    zest_error *error;
} job;

/* ---- Writing ---- */

static int as_table(const job *j) {
    return zest_options_whole(j->options, ZEST_OPTION_ANSWER_FORMAT) == 1 &&
           !zest_options_whole(j->options, ZEST_OPTION_JSON);
}

static void add_answer(job *j, json_t *object) {
    if (as_table(j) && object) {
        if (!j->first) {
            j->first = json_incref(object);
            zest_answers_header(j->first, &j->out);
        }
        zest_answers_line(j->first, object, &j->out);
        json_decref(object);
    } else {
        zest_output_dump(object, 6, &j->out);
    }
}

static zest_status no_memory(const job *j) { return zest_error_memory(j->error, "the answers", j->out.size); }

/* Prints what there is, unless it goes to a file in the end. */
static zest_status print(job *j) {
    if (j->out.failed) return no_memory(j);
    if (*zest_options_text(j->options, ZEST_OPTION_OUT)) return ZEST_OK;
    zest_progress_clear(&j->progress);
    if (zest_output_buffer(&j->out)) return no_memory(j);
    return ZEST_OK;
}

static zest_status write_all(job *j) {
    const char *path = zest_options_text(j->options, ZEST_OPTION_OUT);
    if (!*path) return ZEST_OK;
    return zest_file_write(path, j->out.data ? j->out.data : "", j->out.size, j->error);
}

static void refuse(job *j, const char *where, size_t number, const char *message) {
    zest_progress_clear(&j->progress);
    if (j->refused < NAMED) zest_output_note("%s %zu: %s", where, number, message);
    if (j->refused == NAMED) zest_output_note("further rows with problems are not named");
    j->refused++;
}

static zest_status add_answers(job *j, const zest_answers *a) {
    for (size_t i = 0; i < a->examples->count && !j->out.failed; i++) {
        add_answer(j, zest_answers_object(a, i));
        j->truncated += a->examples->truncated[i];
        if (a->task->kind != ZEST_TASK_TEXT && a->predictions->choice[i] == ZEST_METRIC_NO_CHOICE)
            refuse(j, "row", a->before + a->examples->row[i] + 1, "the model gives it no finite score");
    }
    return print(j);
}

/* ---- Rows of the user's own ---- */

static void on_progress(uint64_t done, uint64_t total, void *user) {
    job *j = user;
    (void)total;
    zest_progress_update(&j->progress, (double)j->done + (double)done, (double)j->records.count, NULL);
}

/* The records as JSON, with all that they hold; *objects stays NULL where their fields are all there is. */
static zest_status read_objects(job *j, size_t first, size_t count, json_t ***objects) {
    const zest_records *r = &j->records;
    *objects = NULL;
    if (!zest_records_are_objects(r)) return ZEST_OK;
    *objects = calloc(count + 1, sizeof **objects);
    if (!*objects) return no_memory(j);
    for (size_t i = 0; i < count; i++) {
        const zest_records_item *record = &r->list[first + i];
        json_error_t problem;
        (*objects)[i] =
            zest_json_load(r->bytes.data + record->start, record->size, ZEST_JSON_BIG_AS_TEXT, &problem);
        if (!(*objects)[i]) return no_memory(j); /* it was sound when its row was read */
    }
    return ZEST_OK;
}

static zest_status answer(job *j, size_t first, size_t end, const zest_rows *rows,
                          const zest_examples *examples) {
    zest_predictions predictions = {0};
    zest_progress_callback callback = {on_progress, j};
    json_t **objects = NULL;
    zest_status status = read_objects(j, first, end - first, &objects);
    if (!status)
        status =
            zest_metric_predict_with(j->target->loaded.runner, NULL, examples, j->target->loaded.tokenizer,
                                     BATCH_TOKENS, &callback, &predictions, j->error);
    zest_answers a = {.task = &j->data.task,
                      .rows = rows,
                      .examples = examples,
                      .predictions = &predictions,
                      .objects = objects,
                      .before = j->rows};
    if (!status) status = add_answers(j, &a);
    for (size_t i = 0; objects && i < end - first; i++) json_decref(objects[i]);
    free(objects);
    zest_predictions_free(&predictions);
    return status;
}

/* What is wrong with a record, without the line of the piece that was parsed: "FILE, line 2: " or "FILE:2: ".
 */
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
    zest_status status = zest_records_parse(&j->records, first, end, &rows, j->error);
    if (!status)
        status =
            zest_load_examples(&j->data, &j->target->options, &j->target->loaded, &rows, &examples, j->error);
    /* the columns of a table are the same for all its rows */
    int fatal = status == ZEST_ERROR_MEMORY || (status == ZEST_ERROR_ARGUMENT && j->records.header.size);
    if (!status) {
        status = answer(j, first, end, &rows, &examples);
        j->rows += rows.count;
        j->done += end - first;
    } else if (!fatal && end - first == 1) {
        char where[600];
        snprintf(where, sizeof where, "%.500s, line", j->records.name);
        refuse(j, where, j->records.list[first].line, reason(j, j->error->message));
        j->rows++;
        j->done++;
        status = ZEST_OK;
    } else if (!fatal) {
        size_t middle = first + (end - first) / 2;
        status = answer_records(j, first, middle);
        if (!status) status = answer_records(j, middle, end);
    }
    zest_examples_free(&examples);
    zest_rows_free(&rows);
    return status;
}

static zest_status answer_input(job *j) {
    zest_task_columns columns = {0};
    zest_status status = zest_load_task(&j->data, &j->target->options, &j->target->loaded, j->error);
    if (!status)
        status =
            zest_task_columns_find(&j->data.task, j->target->loaded.model->config.causal, &columns, j->error);
    if (!status) status = zest_records_read(&j->records, &j->data.task, &columns, j->options, j->error);
    size_t chunk = j->data.task.kind == ZEST_TASK_TEXT ? CHUNK_OF_TEXTS : CHUNK;
    for (size_t first = 0; first < j->records.count && !status && !ferror(stdout); first += chunk) {
        size_t end = first + chunk < j->records.count ? first + chunk : j->records.count;
        status = answer_records(j, first, end);
    }
    zest_records_free(&j->records);
    zest_task_columns_free(&columns);
    return status;
}

/* ---- The examples of a split ---- */

static zest_status answer_split(job *j) {
    zest_task_part part = (zest_task_part)zest_options_whole(j->options, ZEST_OPTION_SPLIT);
    zest_progress_callback callback = zest_progress_sink(&j->progress);
    zest_predictions predictions = {0};
    zest_rows rows = {0};
    const zest_examples *examples = &j->data.parts[part];
    zest_status status =
        zest_load_data(&j->data, &j->target->options, &j->target->loaded, 1u << part, j->error);
    if (!status && !examples->count)
        status = zest_error_set(j->error, ZEST_ERROR_ARGUMENT,
                                "task %s has no such examples; choose another --split", j->data.task.name);
    if (!status)
        status =
            zest_load_part_rows(&j->data, &j->target->options, &j->target->loaded, part, &rows, j->error);
    if (!status)
        status =
            zest_metric_predict_with(j->target->loaded.runner, NULL, examples, j->target->loaded.tokenizer,
                                     BATCH_TOKENS, &callback, &predictions, j->error);
    zest_answers a = {.task = &j->data.task,
                      .rows = &rows,
                      .examples = examples,
                      .predictions = &predictions,
                      .trusted = 1};
    if (!status) status = add_answers(j, &a);
    zest_predictions_free(&predictions);
    zest_rows_free(&rows);
    return status;
}

/* ---- The command ---- */

/* Without --split, --input and --text: what is piped into the command, or else the test examples. */
static int reads_input(const zest_options *options) {
    if (zest_options_given(options, ZEST_OPTION_INPUT) || zest_options_given(options, ZEST_OPTION_TEXT))
        return 1;
    return !zest_options_given(options, ZEST_OPTION_SPLIT) && !isatty(STDIN_FILENO);
}

static int conclude(job *j, zest_status status) {
    if (status) return zest_output_fail(status, j->error->message);
    if (j->truncated)
        zest_output_note("%zu %s longer than the model reads and shortened", j->truncated,
                         j->truncated == 1 ? "row was" : "rows were");
    if (!j->refused) return ZEST_EXIT_OK;
    zest_output_note("%zu of %zu rows could not be answered", j->refused,
                     j->rows > j->refused ? j->rows : j->refused);
    return ZEST_EXIT_FAILURE;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    zest_target target;
    int input = reads_input(options);
    if (input && zest_options_given(options, ZEST_OPTION_SPLIT))
        return zest_output_fail(ZEST_ERROR_ARGUMENT,
                                "--split answers the task's own examples: give it, or an input");
    zest_status status = zest_cli_target_open(&target, words[0], options, &error);
    job j = {.options = options, .target = &target, .data = {.recorded = &target.inputs}, .error = &error};
    zest_progress_begin(&j.progress, "predict", "rows", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    if (!status) status = input ? answer_input(&j) : answer_split(&j);
    zest_progress_end(&j.progress);
    if (!status) status = write_all(&j);
    int code = conclude(&j, status);
    json_decref(j.first);
    zest_buffer_free(&j.out);
    zest_load_free_data(&j.data);
    zest_target_close(&target);
    return code;
}

const zest_command zest_command_predict = {
    .name = "predict",
    .words = "RUN|MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "label new rows with a run or a model",
    .description =
        "Answers rows of your own, from --text, --input FILE or standard input; or, with --split, the "
        "task's examples. Rows need no label. They are JSON lines, or a CSV or TSV table whose first line "
        "names the columns, or files as the task has them; where the task reads one column, plain lines "
        "will do.\n\n"
        "Every row gives one line of JSON: its number, its columns under their names, the label where it "
        "has one, the prediction, and the probability of every class or option. \"truncated\" marks rows "
        "that were longer than the model reads. --format tsv prints a table instead.\n\n"
        "A row that cannot be answered (a column is missing, a line is no JSON) is named on stderr with its "
        "line. The others are answered, and the exit status is 1.\n\n"
        "Runs and models are found as by `zest eval`.",
    .examples =
        "zest predict run1 --text 'A lovely day.'\tone text\n"
        "zest predict run1 --text '{\"premise\": \"It rains.\", \"hypothesis\": \"It is wet.\"}'\tseveral "
        "columns\n"
        "zest predict run1 < reviews.txt\ta text a line\n"
        "zest predict run1 --input new.csv --format tsv --out labelled.tsv\ta table with predictions\n"
        "zest predict run1 --split dev --out answers.jsonl\twhat it got wrong",
    .options = "model\tof a run: where its model is now, if it was moved; of weights without a tokenizer: "
               "the model that has it\n"
               "out\twrite the answers to this file instead of stdout\n"
               "text\tone text to answer; for a task with several columns a JSON object of them\n"
               "split\tanswer the examples of the task instead of rows of your own\n"
               "json\tJSON lines, which is the default",
    .defaults = ZEST_EVAL_DEFAULTS,
    .users = ZEST_FOR_PREDICT,
    .run = run,
};
