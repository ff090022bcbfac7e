/* What is right in a row. */
#include <stdlib.h>
#include <string.h>

#include "data/examples_internal.h"

/* ---- Fields ---- */

static zest_status find_field(const zest_examples_maker *maker, const char *name, const char *what,
                              int *field, zest_error *error) {
    const zest_task *task = maker->task;
    *field = zest_rows_field(maker->rows, name);
    if (*field >= 0) return ZEST_OK;
    zest_buffer has = {0};
    for (size_t f = 0; f < maker->rows->name_count; f++)
        zest_buffer_format(&has, "%s%s", f ? ", " : "", maker->rows->names[f]);
    zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: %s has no field '%s' for the %s; it has %s",
                   task->path ? task->path : task->name, maker->rows->path ? maker->rows->path : "the data",
                   name, what, has.data && !has.failed ? has.data : "none");
    zest_buffer_free(&has);
    return ZEST_ERROR_ARGUMENT;
}

zest_status zest_examples_find_fields(zest_examples_maker *maker, zest_error *error) {
    const zest_task *task = maker->task;
    maker->label = -1;
    if (task->kind == ZEST_TASK_CLASSES) return ZEST_OK;
    zest_status status =
        find_field(maker, task->label ? task->label : "label", "label", &maker->label, error);
    if (status && maker->unlabelled) status = ZEST_OK;
    if (status || task->kind != ZEST_TASK_CHOICE) return status;
    const char *at = task->options ? task->options : "options";
    while (!status) {
        at += strspn(at, " ");
        size_t size = strcspn(at, " ");
        char name[256];
        if (!size) break;
        if (size >= sizeof name || maker->option_field_count == ZEST_EXAMPLES_OPTION_FIELDS)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "%s: at most %d fields of options, with names below 256 bytes; put them "
                                  "into one field with several texts",
                                  task->name, ZEST_EXAMPLES_OPTION_FIELDS);
        memcpy(name, at, size);
        name[size] = 0;
        at += size;
        status =
            find_field(maker, name, "options", &maker->option_fields[maker->option_field_count++], error);
    }
    return status;
}

/* ---- Options ---- */

static zest_status collect_options(const zest_examples_maker *maker, size_t row, zest_examples_scratch *s,
                                   zest_error *error) {
    s->option_count = 0;
    for (size_t f = 0; f < maker->option_field_count; f++) {
        size_t count;
        const char *const *texts = zest_rows_get(maker->rows, row, maker->option_fields[f], &count);
        if (s->option_count + count > s->option_room) {
            size_t room = 2 * (s->option_count + count);
            const char **more = realloc(s->options, room * sizeof *more);
            if (!more) return zest_error_memory(error, "options", room * sizeof *more);
            s->options = more;
            s->option_room = room;
        }
        for (size_t i = 0; i < count; i++) s->options[s->option_count++] = texts[i];
    }
    if (s->option_count < 1)
        return zest_examples_refuse(maker, row, error,
                                    "the row has no options; look at its field '%s', or take the row out",
                                    maker->task->options ? maker->task->options : "options");
    return ZEST_OK;
}

/* A whole number below `count`, or count. */
static size_t as_number(const char *text, size_t count) {
    size_t value = 0, digits = strspn(text, "0123456789");
    if (!digits || digits > 9 || text[digits]) return count;
    for (size_t i = 0; i < digits; i++) value = 10 * value + (size_t)(text[i] - '0');
    return value < count ? value : count;
}

/* The option that a label means. */
static zest_status option_of(const zest_examples_maker *maker, size_t row, const char *label,
                             const zest_examples_scratch *s, uint32_t *out, zest_error *error) {
    size_t number = as_number(label, s->option_count), text = 0;
    while (text < s->option_count && strcmp(s->options[text], label) != 0) text++;
    if (text == s->option_count && number == s->option_count)
        return zest_examples_refuse(maker, row, error,
                                    "the label '%.80s' is neither the text of one of the row's %zu options "
                                    "nor a number from 0 to %zu; correct it or take the row out",
                                    label, s->option_count, s->option_count - 1);
    if (text < s->option_count && number < s->option_count && text != number)
        return zest_examples_refuse(maker, row, error,
                                    "the label '%s' is the text of option %zu and the number of option %zu; "
                                    "write the options differently, for example in words",
                                    label, text, number);
    *out = (uint32_t)(text < s->option_count ? text : number);
    return ZEST_OK;
}

static zest_status find_right(const zest_examples_maker *maker, size_t row, zest_examples_scratch *s,
                              zest_examples_made *made, zest_error *error) {
    size_t count = 0;
    const char *const *labels =
        maker->label >= 0 ? zest_rows_get(maker->rows, row, maker->label, &count) : NULL;
    if (!count && !maker->unlabelled)
        return zest_examples_refuse(maker, row, error, "the row has no label; give it one or take it out");
    made->right = calloc(count + 1, sizeof *made->right);
    if (!made->right) return zest_error_memory(error, "labels", count * sizeof *made->right);
    made->right[0] = (uint32_t)count;
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = option_of(maker, row, labels[i], s, &made->right[i + 1], error);
    if (status && status != ZEST_ERROR_MEMORY && maker->unlabelled) {
        made->right[0] = 0; /* none is known to be right */
        status = ZEST_OK;
    }
    made->answer = made->right[0] ? made->right[1] : 0;
    return status;
}

/* ---- Texts ---- */

/* The right texts in one block of memory: pointers, then characters. */
static zest_status copy_gold(const zest_examples_maker *maker, size_t row, zest_examples_made *made,
                             zest_error *error) {
    static const char *const nothing[] = {""};
    size_t count = 0, bytes = 0;
    const char *const *texts =
        maker->label >= 0 ? zest_rows_get(maker->rows, row, maker->label, &count) : NULL;
    if (!count && !maker->unlabelled)
        return zest_examples_refuse(maker, row, error, "the row has no answer; give it one or take it out");
    if (!count) texts = nothing, count = 1;
    for (size_t i = 0; i < count; i++) bytes += strlen(texts[i]) + 1;
    made->gold = malloc((count + 1) * sizeof *made->gold + bytes);
    if (!made->gold) return zest_error_memory(error, "answers", bytes);
    char *at = (char *)(made->gold + count + 1);
    for (size_t i = 0; i < count; i++) {
        made->gold[i] = at;
        at = stpcpy(at, texts[i]) + 1;
    }
    made->gold[count] = NULL;
    return ZEST_OK;
}

zest_status zest_examples_find_answer(const zest_examples_maker *maker, size_t index,
                                      zest_examples_scratch *s, zest_examples_made *made, zest_error *error) {
    size_t row = maker->split->rows[index];
    if (row >= maker->rows->count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "the split asks for row %zu of %zu", row,
                              maker->rows->count);
    if (maker->task->kind == ZEST_TASK_TEXT) return copy_gold(maker, row, made, error);
    if (maker->task->kind == ZEST_TASK_CHOICE) {
        zest_status status = collect_options(maker, row, s, error);
        return status ? status : find_right(maker, row, s, made, error);
    }
    if (!maker->split->answers)
        return zest_task_class_of(maker->task, maker->rows, row, &made->answer, error);
    made->answer = maker->split->answers[index];
    if (made->answer >= maker->task->class_count)
        return zest_examples_refuse(maker, row, error, "class %u is beyond the task's %zu", made->answer,
                                    maker->task->class_count);
    return ZEST_OK;
}
