/* Which columns of a row a task reads. */
#include <stdlib.h>
#include <string.h>

#include "task/task.h"
#include "task/template.h"

static zest_status add(zest_task_columns *columns, const char *name, size_t size, zest_error *error) {
    for (size_t i = 0; i < columns->count; i++)
        if (strlen(columns->names[i]) == size && !strncmp(columns->names[i], name, size)) return ZEST_OK;
    char **names = realloc(columns->names, (columns->count + 1) * sizeof *names);
    if (names) columns->names = names;
    char *copy = names ? strndup(name, size) : NULL;
    if (!copy) return zest_error_memory(error, "the columns of a task", size);
    columns->names[columns->count++] = copy;
    return ZEST_OK;
}

static zest_status add_fields(zest_task_columns *columns, const zest_template *t, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; t && i < t->count && !status; i++) {
        const zest_template_piece *piece = &t->pieces[i];
        if (piece->kind == ZEST_TEMPLATE_PIECE_FIELD)
            status = add(columns, piece->text, strlen(piece->text), error);
        for (size_t c = 0; c < piece->change_count && !status; c++)
            status = add_fields(columns, piece->changes[c].to, error);
    }
    return status;
}

static zest_status add_template(zest_task_columns *columns, const zest_task *task, const char *text,
                                zest_error *error) {
    zest_template *t = NULL;
    if (!text) return ZEST_OK;
    zest_status status = zest_template_parse(text, task->path ? task->path : task->name, &t, error);
    if (!status) status = add_fields(columns, t, error);
    zest_template_free(t);
    return status;
}

zest_status zest_task_columns_find(const zest_task *task, int causal, zest_task_columns *columns,
                                   zest_error *error) {
    *columns = (zest_task_columns){0};
    zest_status status = add_template(columns, task, causal ? task->causal : task->masked, error);
    if (task->kind != ZEST_TASK_CHOICE) return status;
    if (!status) status = add_template(columns, task, task->option_form, error);
    for (const char *at = task->options ? task->options : "options"; !status;) {
        at += strspn(at, " ");
        size_t size = strcspn(at, " ");
        if (!size) break;
        status = add(columns, at, size, error);
        at += size;
    }
    return status;
}

void zest_task_columns_free(zest_task_columns *columns) {
    for (size_t i = 0; i < columns->count; i++) free(columns->names[i]);
    free(columns->names);
    *columns = (zest_task_columns){0};
}
