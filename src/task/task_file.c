/* Task files: tasks defined by the user.
 *
 *     # Are these reviews good?
 *     train = train.jsonl
 *     label = stars
 *     words = 1:terrible, 5:great
 *     template = {review} It was{mask}.
 *
 * Lines `key = value`; empty lines and those that start with # are ignored. Double quotes around a value
 * preserve spaces at its ends. The keys:
 *
 *     train, dev, test   files, relative to the folder of the task file; train is required. Without dev, rows
 *                        of train are used; without test there is no test score
 *     format             jsonl, parquet, csv or tsv; default: by file extension
 *     header             yes (default) or no: whether the first line of a csv or tsv has the column names
 *     fields             name=column or name=path for every field: `text=0 label=-1`, `text=passage.text
 *                        label`; default: all fields, named as in the file
 *     kind               classes (default): one of a few labels; choice: one of the row's options; text: free;
 *                        chat: conversations (chat/conversation.h), without label and template
 *     label              field of the label; choice: the index of the right option from 0 or its text;
 *                        text: the accepted texts. Required
 *     words              classes: the label word of each label, in the order of the classes:
 *                        `0:terrible, 1:great`. Required
 *     options            choice: the field or fields of the options. Required
 *     option-form        choice: a template for {option}
 *     template           with {mask} for masked models or with {answer} for causal ones; masked-template and
 *                        causal-template set both. One is required. template.h describes templates
 *     metric, select     accuracy, f1, em or loss: the reported metric, and the one that chooses checkpoints
 *     max-length         maximum tokens of a text; first-limit, other-limit: of the first field and of each
 *                        other field (masked models)
 *     max-tokens         text: maximum number of generated tokens (50)
 *     dev-size           number of rows of train used for dev if there is no dev file (a fifth)
 *     name, about        for messages and lists */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "task/task.h"
#include "tokenizer/unicode.h"

enum { FILE_LIMIT = 1 << 20 };

typedef enum {
    KEY_NAME,
    KEY_ABOUT,
    KEY_TRAIN,
    KEY_DEV,
    KEY_TEST,
    KEY_FORMAT,
    KEY_HEADER,
    KEY_FIELDS,
    KEY_KIND,
    KEY_LABEL,
    KEY_WORDS,
    KEY_OPTIONS,
    KEY_FORM,
    KEY_MASKED,
    KEY_CAUSAL,
    KEY_TEMPLATE,
    KEY_METRIC,
    KEY_SELECT,
    KEY_LENGTH,
    KEY_FIRST,
    KEY_OTHER,
    KEY_TOKENS,
    KEY_DEV_SIZE,
    KEY_COUNT
} key;

static const char *const key_names[KEY_COUNT] = {
    [KEY_NAME] = "name",
    [KEY_ABOUT] = "about",
    [KEY_TRAIN] = "train",
    [KEY_DEV] = "dev",
    [KEY_TEST] = "test",
    [KEY_FORMAT] = "format",
    [KEY_HEADER] = "header",
    [KEY_FIELDS] = "fields",
    [KEY_KIND] = "kind",
    [KEY_LABEL] = "label",
    [KEY_WORDS] = "words",
    [KEY_OPTIONS] = "options",
    [KEY_FORM] = "option-form",
    [KEY_MASKED] = "masked-template",
    [KEY_CAUSAL] = "causal-template",
    [KEY_TEMPLATE] = "template",
    [KEY_METRIC] = "metric",
    [KEY_SELECT] = "select",
    [KEY_LENGTH] = "max-length",
    [KEY_FIRST] = "first-limit",
    [KEY_OTHER] = "other-limit",
    [KEY_TOKENS] = "max-tokens",
    [KEY_DEV_SIZE] = "dev-size",
};

/* The values of the file before they are interpreted. */
typedef struct {
    const char *path;
    zest_task *task;
    zest_error *error;
    char *value[KEY_COUNT]; /* pointers into the task's memory; NULL: not set */
    size_t line[KEY_COUNT];
} parser;

static zest_status refuse(const parser *p, size_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static zest_status refuse(const parser *p, size_t line, const char *format, ...) {
    char sentence[800];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (!line) return zest_error_set(p->error, ZEST_ERROR_ARGUMENT, "%s: %s", p->path, sentence);
    return zest_error_set(p->error, ZEST_ERROR_ARGUMENT, "%s, line %zu: %s", p->path, line, sentence);
}

/* ---- Lines ---- */

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    size_t size = strlen(text);
    while (size && isspace((unsigned char)text[size - 1])) text[--size] = '\0';
    return text;
}

static zest_status refuse_key(const parser *p, size_t line, const char *name) {
    const char *nearest = NULL;
    size_t min_distance = 3; /* a larger distance is not a typing mistake */
    char buffer[64];
    for (int id = 0; id < KEY_COUNT; id++) {
        size_t d = zest_edit_distance(name, strlen(name), key_names[id]);
        if (d < min_distance && d < strlen(key_names[id])) min_distance = d, nearest = key_names[id];
    }
    return refuse(p, line, "unknown key '%s'%s%s%s", zest_rows_show(name, buffer),
                  nearest ? "; did you mean '" : "; see the guide to task files", nearest ? nearest : "",
                  nearest ? "'?" : "");
}

static zest_status read_line(parser *p, char *text, size_t line) {
    char buffer[64], *equals = strchr(text, '=');
    if (!equals) return refuse(p, line, "expected key = value, got '%s'", zest_rows_show(text, buffer));
    *equals = '\0';
    char *name = trim(text), *value = trim(equals + 1);
    size_t size = strlen(value);
    if (size >= 2 && value[0] == '"' && value[size - 1] == '"') value[size - 1] = '\0', value++;
    int id = 0;
    while (id < KEY_COUNT && strcmp(key_names[id], name) != 0) id++;
    if (id == KEY_COUNT) return refuse_key(p, line, name);
    if (p->value[id])
        return refuse(p, line, "'%s' was already set in line %zu; remove one", name, p->line[id]);
    if (!*value) return refuse(p, line, "'%s' has no value; add one, or remove the line", name);
    p->value[id] = value;
    p->line[id] = line;
    return ZEST_OK;
}

static zest_status read_lines(parser *p, char *text) {
    zest_status status = ZEST_OK;
    for (size_t line = 1; text && !status; line++) {
        char *here = trim(strsep(&text, "\n"));
        if (*here && *here != '#') status = read_line(p, here, line);
    }
    return status;
}

/* ---- Values ---- */

/* The index of a value in "one/two/three"; fallback if it is not set. */
static zest_status choose(const parser *p, key id, const char *choices, int fallback, int *out) {
    const char *value = p->value[id];
    char buffer[64];
    size_t size = value ? strlen(value) : 0;
    *out = fallback;
    if (!value) return ZEST_OK;
    *out = 0;
    for (const char *at = choices; at; ++*out) {
        const char *bar = strchr(at, '|');
        size_t here = bar ? (size_t)(bar - at) : strlen(at);
        if (here == size && !strncmp(at, value, size)) return ZEST_OK;
        at = bar ? bar + 1 : NULL;
    }
    return refuse(p, p->line[id], "%s = %s: must be one of %s", key_names[id], zest_rows_show(value, buffer),
                  choices);
}

static zest_status count_of(const parser *p, key id, size_t *out) {
    const char *value = p->value[id];
    char buffer[64];
    int64_t number;
    if (!value) return ZEST_OK;
    if (!zest_integer_parse(value, 1, 1000000000, &number))
        return refuse(p, p->line[id], "%s = %s: must be an integer from 1 to 1000000000", key_names[id],
                      zest_rows_show(value, buffer));
    *out = (size_t)number;
    return ZEST_OK;
}

static zest_status need(const parser *p, key id, const char *example) {
    if (p->value[id]) return ZEST_OK;
    return refuse(p, 0, "the key '%s' is missing; add a line like   %s", key_names[id], example);
}

/* ---- Label words ---- */

static zest_status add_class(const parser *p, char *item) {
    zest_task *task = p->task;
    size_t line = p->line[KEY_WORDS];
    char buffer[64], *colon = strchr(item, ':');
    if (!colon)
        return refuse(p, line, "words: expected label:word, as in 0:terrible, 1:great, got '%s'",
                      zest_rows_show(trim(item), buffer));
    *colon = '\0';
    zest_task_class one = {trim(item), trim(colon + 1)};
    if (!*one.label || !*one.word)
        return refuse(p, line, "words: a label or its word is empty; write label:word, label:word");
    for (size_t i = 0; i < task->class_count; i++)
        if (!strcmp(task->classes[i].label, one.label) || !strcmp(task->classes[i].word, one.word))
            return refuse(p, line, "words: '%s:%.60s' repeats a label or a word; each must be unique",
                          zest_rows_show(one.label, buffer), one.word);
    if (task->class_count == ZEST_TASK_MAX_CLASSES)
        return refuse(p, line, "words: more than %d classes", ZEST_TASK_MAX_CLASSES);
    task->classes[task->class_count++] = one;
    return ZEST_OK;
}

static zest_status set_words(const parser *p) {
    zest_status status = need(p, KEY_WORDS, "words = 0:terrible, 1:great");
    for (char *at = p->value[KEY_WORDS]; at && !status;) status = add_class(p, strsep(&at, ","));
    if (!status && p->task->class_count < 2)
        status = refuse(p, p->line[KEY_WORDS], "words: a task needs at least two classes");
    return status;
}

/* ---- Templates ---- */

/* Whether the template contains {name} or {name|...}. */
static int has_placeholder(const char *text, const char *name) {
    size_t size = strlen(name);
    for (const char *at = text; (at = strchr(at, '{')); at++)
        if (!strncmp(at + 1, name, size) && (at[1 + size] == '}' || at[1 + size] == '|')) return 1;
    return 0;
}

static zest_status check_template(const parser *p, key id, const char *item, const char *where) {
    if (!p->value[id] || has_placeholder(p->value[id], item)) return ZEST_OK;
    return refuse(p, p->line[id], "%s: needs {%s} where %s", key_names[id], item, where);
}

static zest_status set_templates(parser *p) {
    zest_task *task = p->task;
    char *either = p->value[KEY_TEMPLATE];
    if (either) {
        key id = has_placeholder(either, "mask") ? KEY_MASKED : KEY_CAUSAL;
        if (id == KEY_CAUSAL && !has_placeholder(either, "answer"))
            return refuse(p, p->line[KEY_TEMPLATE],
                          "template: needs {mask} (masked models) or {answer} (causal ones) where the model "
                          "answers");
        if (p->value[id])
            return refuse(p, p->line[KEY_TEMPLATE], "template: a second %s; the first is in line %zu",
                          key_names[id], p->line[id]);
        p->value[id] = either;
        p->line[id] = p->line[KEY_TEMPLATE];
    }
    if (!p->value[KEY_MASKED] && !p->value[KEY_CAUSAL])
        return refuse(p, 0,
                      "the key 'template' is missing; add a line like   template = {text} It was{mask}.");
    if (p->value[KEY_MASKED] && task->kind != ZEST_TASK_CLASSES)
        return refuse(p, p->line[KEY_MASKED],
                      "a masked model answers with one word for each class; this kind of task needs a "
                      "template with {answer}");
    zest_status status = check_template(p, KEY_MASKED, "mask", "the model answers");
    if (!status) status = check_template(p, KEY_CAUSAL, "answer", "the model answers");
    if (!status) status = check_template(p, KEY_FORM, "option", "the option is to stand");
    task->masked = p->value[KEY_MASKED];
    task->causal = p->value[KEY_CAUSAL];
    task->option_form = p->value[KEY_FORM];
    return status;
}

/* ---- The task ---- */

/* Conversations bring their own prompts and answers, and the model its template. */
static zest_status set_chat(parser *p) {
    static const key others[] = {KEY_LABEL,  KEY_WORDS,    KEY_OPTIONS, KEY_FORM,   KEY_MASKED,
                                 KEY_CAUSAL, KEY_TEMPLATE, KEY_FIELDS,  KEY_FORMAT, KEY_TOKENS};
    zest_task *task = p->task;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (p->value[others[i]])
            return refuse(p, p->line[others[i]],
                          "%s: a task of kind = chat has none; it reads \"messages\" and takes the "
                          "model's chat template",
                          key_names[others[i]]);
    task->kind = ZEST_TASK_CHAT;
    task->causal = "{conversation}";
    task->sources[0].layout.format = ZEST_ROWS_CHAT;
    return ZEST_OK;
}

static zest_status set_kind(parser *p) {
    zest_task *task = p->task;
    int kind;
    zest_status status = choose(p, KEY_KIND, "classes|choice|text|chat", 0, &kind);
    if (!status && kind == ZEST_TASK_CHAT) return set_chat(p);
    if (!status) status = need(p, KEY_LABEL, "label = label");
    if (status) return status;
    task->kind = (zest_task_kind)kind;
    task->label = p->value[KEY_LABEL];
    task->options = p->value[KEY_OPTIONS];
    if (task->kind == ZEST_TASK_CLASSES) return set_words(p);
    if (p->value[KEY_WORDS])
        return refuse(p, p->line[KEY_WORDS], "words: only a task of kind = classes has them");
    return task->kind == ZEST_TASK_CHOICE ? need(p, KEY_OPTIONS, "options = choice1 choice2") : ZEST_OK;
}

static zest_status set_source(parser *p) {
    static const zest_rows_format formats[] = {ZEST_ROWS_JSONL, ZEST_ROWS_JSONL, ZEST_ROWS_CSV, ZEST_ROWS_TSV,
                                               ZEST_ROWS_BY_EXTENSION};
    zest_task_source *source = &p->task->sources[0];
    int format, no_header;
    zest_status status = need(p, KEY_TRAIN, "train = train.jsonl");
    if (!status) status = choose(p, KEY_FORMAT, "jsonl|parquet|csv|tsv", 4, &format);
    if (!status) status = choose(p, KEY_HEADER, "yes|no", 0, &no_header);
    if (status) return status;
    p->task->source_count = 1;
    source->layout =
        (zest_rows_layout){.format = formats[format], .header = !no_header, .fields = p->value[KEY_FIELDS]};
    source->train = p->value[KEY_TRAIN];
    source->dev = p->value[KEY_DEV];
    source->test = p->value[KEY_TEST];
    return ZEST_OK;
}

/* Whether the metric applies to this kind of task. */
static zest_status check_metric(const parser *p, key id, zest_metric metric) {
    const zest_task *task = p->task;
    if (task->kind == ZEST_TASK_TEXT && metric == ZEST_METRIC_ACCURACY)
        return refuse(p, p->line[id], "%s: free text has no accuracy; use f1, em or loss", key_names[id]);
    if (task->kind == ZEST_TASK_CHAT && metric != ZEST_METRIC_LOSS)
        return refuse(p, p->line[id], "%s: a chat has only its loss", key_names[id]);
    if (task->kind != ZEST_TASK_TEXT && metric == ZEST_METRIC_EM)
        return refuse(p, p->line[id], "%s: em is for kind = text; use accuracy", key_names[id]);
    if (metric == ZEST_METRIC_F1 &&
        (task->kind == ZEST_TASK_CHOICE || (task->kind == ZEST_TASK_CLASSES && task->class_count != 2)))
        return refuse(p, p->line[id], "%s: f1 is for two classes or for kind = text; use accuracy",
                      key_names[id]);
    return ZEST_OK;
}

static zest_status set_metrics(parser *p) {
    static const char names[] = "accuracy|f1|em|loss";
    zest_task *task = p->task;
    int text = task->kind == ZEST_TASK_TEXT, metric, select;
    zest_metric usual = text                           ? ZEST_METRIC_F1
                        : task->kind == ZEST_TASK_CHAT ? ZEST_METRIC_LOSS
                                                       : ZEST_METRIC_ACCURACY;
    zest_status status = choose(p, KEY_METRIC, names, usual, &metric);
    if (!status) status = choose(p, KEY_SELECT, names, text ? ZEST_METRIC_LOSS : metric, &select);
    if (!status) status = check_metric(p, KEY_METRIC, (zest_metric)metric);
    if (!status) status = check_metric(p, KEY_SELECT, (zest_metric)select);
    if (status) return status;
    task->metric = (zest_metric)metric;
    task->select = (zest_metric)select;
    return ZEST_OK;
}

static zest_status set_numbers(parser *p) {
    zest_task *task = p->task;
    zest_status status = count_of(p, KEY_LENGTH, &task->max_length);
    task->causal_length = task->max_length;
    if (!status) status = count_of(p, KEY_FIRST, &task->first_limit);
    if (!status) status = count_of(p, KEY_OTHER, &task->other_limit);
    if (!status) status = count_of(p, KEY_TOKENS, &task->max_tokens);
    if (!status) status = count_of(p, KEY_DEV_SIZE, &task->dev_size);
    return status;
}

static zest_status understand(parser *p) {
    const char *slash = strrchr(p->task->path, '/');
    p->task->name = p->value[KEY_NAME] ? p->value[KEY_NAME] : slash ? slash + 1 : p->task->path;
    p->task->about = p->value[KEY_ABOUT] ? p->value[KEY_ABOUT] : "";
    zest_status status = set_source(p);
    if (!status) status = set_kind(p);
    if (!status && p->task->kind != ZEST_TASK_CHAT) status = set_templates(p);
    if (!status) status = set_metrics(p);
    if (!status) status = set_numbers(p);
    return status;
}

zest_status zest_task_read_file(const char *path, const char *original, zest_task *task, zest_error *error) {
    parser p = {.path = path, .task = task, .error = error};
    zest_buffer text = {0};
    zest_status status = zest_file_read(path, FILE_LIMIT, &text, error);
    if (!status && (!text.size || memchr(text.data, 0, text.size) ||
                    zest_unicode_valid(text.data, text.size) < text.size))
        status = refuse(&p, 0, "is %s", text.size ? "not UTF-8 text" : "empty; see the guide to task files");
    if (!status && (!(task->path = strdup(original)) || !(task->text = strndup(text.data, text.size))))
        status = zest_error_memory(error, path, text.size);
    if (!status) {
        task->memory = text.data; /* the values point into it */
        text = (zest_buffer){0};
        int marked = !strncmp(task->memory, "\xEF\xBB\xBF", 3);
        status = read_lines(&p, task->memory + (marked ? 3 : 0));
    }
    if (!status) status = understand(&p);
    if (status) zest_task_free(task);
    zest_buffer_free(&text);
    return status;
}
