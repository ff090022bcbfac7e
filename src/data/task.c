#include "data/task.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/task_internal.h"
#include "data/task_table.h"
#include "base/distance.h"

/* ---- By name ---- */

enum { TASKS = sizeof zest_task_table / sizeof zest_task_table[0] };

const zest_task *zest_task_at(size_t index) { return index < TASKS ? &zest_task_table[index] : NULL; }

/* Calls itself so, or has such an alias. */
static int is_called(const zest_task *task, const char *name) {
    size_t length = strlen(name);
    if (!strcasecmp(task->name, name)) return 1;
    for (const char *at = task->aliases; at && *at;) {
        size_t size = strcspn(at, " ");
        if (size == length && !strncasecmp(at, name, size)) return 1;
        at += size + strspn(at + size, " ");
    }
    return 0;
}

static zest_status refuse_name(const char *name, zest_error *error) {
    const char *nearest = NULL;
    size_t least = 3; /* further away is no typing mistake */
    char room[64], known[400];
    size_t used = 0;
    for (size_t i = 0; i < TASKS; i++) {
        size_t d = zest_distance(name, strlen(name), zest_task_table[i].name);
        if (d < least && d < strlen(zest_task_table[i].name)) least = d, nearest = zest_task_table[i].name;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 zest_task_table[i].name);
        if (used >= sizeof known) break;
    }
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "no task is called '%s'%s%s%s built in are %s; one of your own is a file that ends "
                          "in .task",
                          zest_rows_show(name, room), nearest ? "; did you mean '" : ";",
                          nearest ? nearest : "", nearest ? "'?" : "", known);
}

int zest_task_is_file(const char *name) {
    size_t size = strlen(name);
    return strchr(name, '/') || (size >= 5 && !strcmp(name + size - 5, ".task"));
}

zest_status zest_task_open(const char *name_or_file, zest_task *task, zest_error *error) {
    *task = (zest_task){0};
    if (zest_task_is_file(name_or_file)) return zest_task_read_file(name_or_file, name_or_file, task, error);
    for (size_t i = 0; i < TASKS; i++)
        if (is_called(&zest_task_table[i], name_or_file)) return *task = zest_task_table[i], ZEST_OK;
    return refuse_name(name_or_file, error);
}

zest_status zest_task_open_copy(const char *copy, const char *original, zest_task *task, zest_error *error) {
    *task = (zest_task){0};
    return zest_task_read_file(copy, original, task, error);
}

void zest_task_free(zest_task *task) {
    if (!task) return;
    free(task->memory);
    free(task->path);
    free(task->text);
    *task = (zest_task){0};
}

/* ---- Labels ---- */

static zest_status refuse_label(const zest_task *task, const zest_rows *rows, size_t row, const char *label,
                                zest_error *error) {
    char shown[64], known[400];
    size_t used = 0;
    known[0] = '\0';
    for (size_t i = 0; i < task->class_count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 task->classes[i].label);
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s, line %zu: the label is '%s', but the task %s has only %s; correct the row, or "
                          "give the label a word",
                          rows->path, rows->lines[row], zest_rows_show(label, shown), task->name, known);
}

zest_status zest_task_class_of(const zest_task *task, const zest_rows *rows, size_t row, uint32_t *answer,
                               zest_error *error) {
    int field = task->label ? zest_rows_field(rows, task->label) : -1;
    size_t count = 0;
    if (field < 0)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: has no field '%s' with the label", rows->path,
                              task->label ? task->label : "label");
    const char *const *texts = zest_rows_get(rows, row, field, &count);
    if (count != 1)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s, line %zu: has %zu labels instead of one",
                              rows->path, rows->lines[row], count);
    for (size_t i = 0; i < task->class_count; i++)
        if (!strcmp(task->classes[i].label, texts[0])) return *answer = (uint32_t)i, ZEST_OK;
    return refuse_label(task, rows, row, texts[0], error);
}
