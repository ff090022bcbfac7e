#include "cli/answers.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "cli/output.h"

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
