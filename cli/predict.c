/* zest predict: the answers of a run or a model, a line each, through zest_lm.h. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/lm.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/ranks.h"

#define INPUT_LIMIT ((size_t)16 << 30)

enum { NAMED = 20, BUFFERED = 65536 };

typedef struct {
    const zest_options *options;
    zest_lm_predictor *predictor;
    const char *name; /* of the input, for messages */
    zest_progress progress;
    zest_buffer out; /* what is to be printed, or to be written to --out */
    json_t *first;   /* the first answer, whose columns a table has */
    size_t rows;     /* answered, or not to be read */
    size_t refused, truncated;
    zest_status status; /* of what was done with the answers */
    zest_error *error;
} job;

/* ---- An answer as JSON ----
 *
 * {"row": 7, COLUMNS, "label": .., "prediction": .., "probabilities": {..}, "truncated": true}. The label and
 * "truncated" are there when they apply; a column that has one of these names is called "input.NAME". */

static int is_ours(const char *key) {
    static const char *const keys[] = {"row",           "label",       "prediction",
                                       "probabilities", "probability", "truncated"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i])) return 1;
    return 0;
}

static void set_column(const job *j, json_t **line, const char *name, json_t *value) {
    const char *label = zest_lm_predictor_label(j->predictor);
    zest_buffer other = {0};
    if (is_ours(name) && !(label && !strcmp(name, label) && !strcmp(name, "label"))) {
        zest_buffer_format(&other, "input.%s", name);
        zest_output_set(line, other.failed ? "input" : other.data, value);
        zest_buffer_free(&other);
    } else {
        zest_output_set(line, name, value);
    }
}

/* A field of a row: a text, or a list where it holds several or none. */
static json_t *field_json(const zest_lm_field *field) {
    if (field->count == 1) return zest_output_string(field->texts[0]);
    json_t *list = json_array();
    for (size_t i = 0; i < field->count; i++) zest_output_append(&list, zest_output_string(field->texts[i]));
    return list;
}

/* All that an object holds, or the fields that were read. */
static void set_columns(const job *j, const zest_lm_prediction *p, json_t **line) {
    const char *key;
    json_t *value;
    if (!p->record) {
        for (size_t f = 0; f < p->field_count; f++)
            set_column(j, line, p->fields[f].name, field_json(&p->fields[f]));
        return;
    }
    json_error_t problem;
    json_t *object = zest_json_load(p->record, p->record_size, ZEST_JSON_BIG_AS_TEXT, &problem);
    if (!object) { /* it was sound when its row was read: memory is short */
        json_decref(*line);
        *line = NULL;
        return;
    }
    json_object_foreach(object, key, value) set_column(j, line, key, json_incref(value));
    json_decref(object);
}

static json_t *probabilities(const job *j, const zest_lm_prediction *p) {
    int classes = zest_lm_predictor_class(j->predictor, 0) != NULL;
    json_t *out = classes ? json_object() : json_array();
    for (size_t i = 0; i < p->probability_count; i++) {
        json_t *value = zest_output_real(p->probabilities[i]);
        if (classes)
            zest_output_set(&out, zest_lm_predictor_class(j->predictor, i), value);
        else
            zest_output_append(&out, value);
    }
    return out;
}

/* A class by its label, an option by its number. */
static json_t *choice_json(const job *j, int32_t choice) {
    const char *class = zest_lm_predictor_class(j->predictor, (size_t)choice);
    return class ? zest_output_string(class) : json_integer(choice);
}

/* NULL: memory is short. */
static json_t *answer_json(const job *j, const zest_lm_prediction *p) {
    json_t *line = json_pack("{s:I}", "row", (json_int_t)(p->row + 1));
    set_columns(j, p, &line);
    if (p->label >= 0) zest_output_set(&line, "label", choice_json(j, p->label));
    zest_output_set(&line, "prediction",
                    !p->probabilities ? zest_output_string(p->text)
                    : p->choice < 0   ? json_null()
                                      : choice_json(j, p->choice));
    if (p->probabilities) zest_output_set(&line, "probabilities", probabilities(j, p));
    if (p->truncated) zest_output_set(&line, "truncated", json_true());
    return line;
}

/* ---- An answer as a line of a table ----
 *
 * The columns are those of the first answer; probabilities become one column, that of the prediction. Tabs and
 * line breaks become blanks. */

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

static void add_header(const json_t *first, zest_buffer *out) {
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

static void add_line(const json_t *first, const json_t *object, zest_buffer *out) {
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

/* ---- Writing ---- */

static int as_table(const job *j) {
    return zest_options_whole(j->options, ZEST_OPTION_ANSWER_FORMAT) == 1 &&
           !zest_options_whole(j->options, ZEST_OPTION_JSON);
}

static void add_answer(job *j, json_t *object) {
    if (as_table(j) && object) {
        if (!j->first) {
            j->first = json_incref(object);
            add_header(j->first, &j->out);
        }
        add_line(j->first, object, &j->out);
        json_decref(object);
    } else {
        zest_output_dump(object, 6, &j->out);
    }
}

/* Prints what there is, unless it goes to a file in the end. */
static zest_status print(job *j) {
    if (!j->out.failed && *zest_options_text(j->options, ZEST_OPTION_OUT)) return ZEST_OK;
    zest_progress_clear(&j->progress);
    int failed = j->out.failed || zest_output_buffer(&j->out);
    return failed ? zest_error_memory(j->error, "the answers", j->out.size) : ZEST_OK;
}

static zest_status write_all(job *j) {
    const char *path = zest_options_text(j->options, ZEST_OPTION_OUT);
    if (!*path || zest_cli_ranks_is_silent()) return ZEST_OK;
    return zest_file_write(path, j->out.data ? j->out.data : "", j->out.size, j->error);
}

static void refuse(job *j, const char *where, size_t number, const char *message) {
    zest_progress_clear(&j->progress);
    if (j->refused < NAMED) zest_output_note("%s %zu: %s", where, number, message);
    if (j->refused == NAMED) zest_output_note("further rows with problems are not named");
    j->refused++;
}

static int on_prediction(const zest_lm_prediction *p, void *user) {
    job *j = user;
    add_answer(j, answer_json(j, p));
    j->rows++;
    j->truncated += (size_t)p->truncated;
    if (p->probabilities && p->choice < 0) refuse(j, "row", p->row + 1, "the model gives it no finite score");
    if (j->out.failed || j->out.size >= BUFFERED) j->status = print(j);
    return j->status || ferror(stdout);
}

static void on_refused(size_t line, const char *message, void *user) {
    job *j = user;
    char where[600];
    snprintf(where, sizeof where, "%.500s, line", j->name);
    refuse(j, where, line, message);
    j->rows++;
}

static void on_progress(uint64_t done, uint64_t total, void *user) {
    job *j = user;
    zest_progress_update(&j->progress, (double)done, (double)total, NULL);
}

/* ---- The input ---- */

static zest_status read_standard_input(zest_buffer *out, zest_error *error) {
    char block[65536];
    size_t got;
    errno = 0;
    if (zest_cli_ranks_is_silent()) return ZEST_OK; /* rank 0 reads it */
    if (isatty(STDIN_FILENO)) zest_output_note("reading rows from the terminal; Ctrl-D ends them");
    while ((got = fread(block, 1, sizeof block, stdin)) > 0) {
        zest_buffer_add(out, block, got);
        if (out->failed || out->size > INPUT_LIMIT)
            return zest_error_memory(error, "standard input", out->size);
    }
    return ferror(stdin) ? zest_error_set_errno(error, ZEST_ERROR_FILE, "standard input cannot be read")
                         : ZEST_OK;
}

static zest_status read_input(job *j, zest_lm_rows_format *format, zest_buffer *bytes) {
    const char *input = zest_options_text(j->options, ZEST_OPTION_INPUT);
    int text = zest_options_given(j->options, ZEST_OPTION_TEXT), file = *input && strcmp(input, "-");
    j->name = text ? "--text" : file ? input : "standard input";
    *format = (zest_lm_rows_format){
        .name = j->name, .format = zest_options_text(j->options, ZEST_OPTION_INPUT_FORMAT), .single = text};
    if (text && *input)
        return zest_error_set(j->error, ZEST_ERROR_ARGUMENT, "--text and --input exclude each other");
    if (text) {
        zest_buffer_text(bytes, zest_options_text(j->options, ZEST_OPTION_TEXT));
        return bytes->failed ? zest_error_memory(j->error, "the text", 0) : ZEST_OK;
    }
    int shared = !file || zest_options_whole(j->options, ZEST_OPTION_BROADCAST);
    zest_status status = !file ? read_standard_input(bytes, j->error)
                         : zest_cli_ranks_sent(j->options)
                             ? ZEST_OK
                             : zest_file_read_stream(input, INPUT_LIMIT, bytes, j->error);
    return status || !shared ? status : zest_cli_ranks_share(bytes, j->error);
}

/* Without --split, --input and --text: what is piped into the command, or else the test examples. */
static int reads_input(const zest_options *options) {
    if (zest_options_given(options, ZEST_OPTION_INPUT) || zest_options_given(options, ZEST_OPTION_TEXT))
        return 1;
    return !zest_options_given(options, ZEST_OPTION_SPLIT) && !isatty(STDIN_FILENO);
}

/* ---- The command ---- */

static zest_status answer(zest_ctx *ctx, job *j) {
    zest_buffer bytes = {0};
    zest_lm_rows_format format;
    zest_lm_predict_callbacks callbacks = {
        .on_prediction = on_prediction, .on_refused = on_refused, .on_progress = on_progress, .user = j};
    zest_status status = ZEST_OK;
    if (reads_input(j->options)) {
        status = read_input(j, &format, &bytes);
        if (!status)
            status =
                zest_lm_predict(j->predictor, bytes.data ? bytes.data : "", bytes.size, &format, &callbacks);
        else
            j->status = status;
    } else {
        status =
            zest_lm_predict_split(j->predictor, zest_options_text(j->options, ZEST_OPTION_SPLIT), &callbacks);
    }
    if (status && !j->status) zest_error_set(j->error, status, "%s", zest_ctx_error(ctx));
    if (j->status) status = j->status;
    if (!status || j->out.size) { /* also what was answered before an error */
        zest_status printed = print(j);
        if (!status) status = printed;
    }
    zest_buffer_free(&bytes);
    return status;
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

static void on_rebuild(uint64_t done, uint64_t total, void *user) {
    zest_progress_update(user, (double)done, (double)total, NULL);
}

static void on_note(const char *sentences, void *user) {
    const zest_progress *progress = user;
    if (progress->active) zest_output_notes(sentences);
}

static zest_status open_predictor(zest_ctx *ctx, job *j, const char *path) {
    zest_lm_callbacks callbacks = {.on_rebuild = on_rebuild, .on_note = on_note, .user = &j->progress};
    zest_lm_options *options = zest_cli_lm_options(ctx, &zest_command_predict, j->options);
    zest_progress_begin(&j->progress, "rebuild", "steps",
                        (int)zest_options_whole(j->options, ZEST_OPTION_QUIET));
    if (options) j->predictor = zest_lm_predictor_new(ctx, path, options, &callbacks);
    zest_progress_end(&j->progress);
    zest_lm_options_free(options);
    if (j->predictor) return ZEST_OK;
    return zest_error_set(j->error, zest_ctx_status(ctx), "%s", zest_ctx_error(ctx));
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    if (reads_input(options) && zest_options_given(options, ZEST_OPTION_SPLIT))
        return zest_output_fail(ZEST_ERROR_ARGUMENT,
                                "--split answers the task's own examples: give it, or an input");
    zest_ctx *ctx = zest_output_context();
    if (!ctx) return ZEST_EXIT_FAILURE;
    job j = {.options = options, .error = &error};
    zest_status status = open_predictor(ctx, &j, words[0]);
    zest_progress_begin(&j.progress, "predict", "rows", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    if (!status) status = answer(ctx, &j);
    zest_progress_end(&j.progress);
    if (!status) status = write_all(&j);
    int code = conclude(&j, status);
    json_decref(j.first);
    zest_buffer_free(&j.out);
    zest_lm_predictor_free(j.predictor);
    zest_ctx_free(ctx);
    return code;
}

const zest_command zest_command_predict = {
    .name = "predict",
    .words = "RUN|MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "label new rows with a run or a model",
    .description =
        "Answers rows of your own, from --text, --input FILE or standard input; or the task's examples: "
        "those "
        "of --split, or the test examples where standard input is a terminal. Rows need no label. They are "
        "JSON lines, a Parquet file, or a CSV or TSV table whose first line "
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
    .ranks = 1,
    .run = run,
};
