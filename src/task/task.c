/* Tasks: lookup by name, labels, data files, the columns that a task reads, and task files. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "task/task.h"
#include "task/task_table.h"
#include "task/template.h"

/* ---- Lookup by name ---- */

enum { TASKS = sizeof zest_task_table / sizeof zest_task_table[0] };

const zest_task *zest_task_at(size_t index) { return index < TASKS ? &zest_task_table[index] : NULL; }

/* Matches the name or an alias, ignoring case. */
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
    size_t min_distance = 3; /* a larger distance is not a typing mistake */
    char buffer[64], known[400];
    size_t used = 0;
    for (size_t i = 0; i < TASKS; i++) {
        size_t d = zest_edit_distance(name, strlen(name), zest_task_table[i].name);
        if (d < min_distance && d < strlen(zest_task_table[i].name))
            min_distance = d, nearest = zest_task_table[i].name;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 zest_task_table[i].name);
        if (used >= sizeof known) break;
    }
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "no task is called '%s'%s%s%s built in are %s; one of your own is a file that ends "
                          "in .task",
                          zest_rows_show(name, buffer), nearest ? "; did you mean '" : ";",
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
                          "add a word for the label",
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

/* ---- Data files ---- */

static const char *const part_names[] = {"train", "dev", "test"};

static const char *file_of(const zest_task_source *source, zest_task_part part) {
    const char *files[] = {source->train, source->dev, source->test};
    return files[part];
}

int zest_task_has_part(const zest_task *task, zest_task_part part) {
    for (size_t i = 0; i < task->source_count; i++)
        if (file_of(&task->sources[i], part)) return 1;
    return 0;
}

typedef struct {
    zest_buffer path;     /* the candidate, and in the end the file that was found */
    zest_buffer searched; /* all candidates, for the message */
} search;

static int is_file(search *s) {
    struct stat info;
    if (s->path.failed) return 0;
    if (!stat(s->path.data, &info) && S_ISREG(info.st_mode)) return 1;
    /* a folder without letters equals its lower and upper case: list it once */
    if (!s->searched.data || !strstr(s->searched.data, s->path.data))
        zest_buffer_format(&s->searched, "%s%s", s->searched.size ? ", " : "", s->path.data);
    return 0;
}

static int try_folder(search *s, const char *data, const char *between, const char *folder,
                      int (*letter)(int), const char *name) {
    s->path.size = 0;
    zest_buffer_format(&s->path, "%s%s", data, between);
    for (const char *c = folder; *c; c++) {
        char one = (char)(letter ? letter((unsigned char)*c) : *c);
        zest_buffer_add(&s->path, &one, 1);
    }
    zest_buffer_format(&s->path, "%s%s", *folder ? "/" : "", name);
    return is_file(s);
}

/* A file of a built-in task: in the folder of that name, in SuperGLUE's folder, in another spelling, or in
 * --data itself. */
static int find_built_in(search *s, const zest_task_source *source, const char *data, const char *name) {
    return try_folder(s, data, "/", source->folder, NULL, name) ||
           try_folder(s, data, "/superglue/", source->folder, NULL, name) ||
           try_folder(s, data, "/", source->folder, tolower, name) ||
           try_folder(s, data, "/", source->folder, toupper, name) ||
           try_folder(s, data, "/", "", NULL, name);
}

/* A file of a task file: under --data if that is set, or in the folder of the task file. */
static int find_task_file(search *s, const zest_task *task, const char *data, const char *name) {
    const char *slash = strrchr(task->path, '/');
    if (name[0] == '/') return try_folder(s, "", "", "", NULL, name);
    if (data && *data && try_folder(s, data, "/", "", NULL, name)) return 1;
    s->path.size = 0;
    if (slash) zest_buffer_add(&s->path, task->path, (size_t)(slash - task->path) + 1);
    zest_buffer_text(&s->path, name);
    return is_file(s);
}

static int is_json(const zest_task_source *source) {
    return source->layout.format != ZEST_ROWS_TSV && source->layout.format != ZEST_ROWS_CSV;
}

static const zest_task_source *find(search *s, const zest_task *task, const char *data, int causal,
                                    zest_task_part part) {
    for (int second = 0; second < 2; second++)
        for (size_t i = 0; i < task->source_count; i++) {
            const zest_task_source *source = &task->sources[i];
            const char *name = file_of(source, part);
            if (!name || (is_json(source) == !!causal) == second) continue;
            int found =
                task->path ? find_task_file(s, task, data, name) : find_built_in(s, source, data, name);
            if (found) return source;
        }
    return NULL;
}

static zest_status refuse_search(const search *s, const zest_task *task, zest_task_part part,
                                 zest_error *error) {
    if (s->path.failed || s->searched.failed) return zest_error_memory(error, task->name, s->searched.size);
    return zest_error_set(error, ZEST_ERROR_FILE, "%s: its %s data was not found; %s. Searched: %.600s",
                          task->name, part_names[part],
                          task->path ? "paths in a task file are relative to its folder"
                                     : "set its folder with --data (docs/train.md says where it "
                                       "is published; tools/get_data.py downloads it)",
                          s->searched.data ? s->searched.data : "nothing");
}

/* ---- Reading ---- */

static zest_status need_field(const zest_task *task, const zest_rows *rows, const char *name, size_t size,
                              const char *what, zest_error *error) {
    zest_buffer known = {0};
    for (size_t i = 0; i < rows->name_count; i++) {
        if (strlen(rows->names[i]) == size && !strncmp(rows->names[i], name, size)) {
            zest_buffer_free(&known);
            return ZEST_OK;
        }
        zest_buffer_format(&known, "%s%s", i ? ", " : "", rows->names[i]);
    }
    zest_status status = zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "%s: has no field '%.*s', which the task %s names as its %s; the fields are %.400s", rows->path,
        (int)(size < 60 ? size : 60), name, task->name, what, known.data ? known.data : "none");
    zest_buffer_free(&known);
    return status;
}

/* The label and the options must exist. (The template checks its own fields.) */
static zest_status check_fields(const zest_task *task, const zest_rows *rows, zest_error *error) {
    zest_status status = ZEST_OK;
    if (task->label) status = need_field(task, rows, task->label, strlen(task->label), "label", error);
    for (const char *at = task->options; at && *at && !status;) {
        size_t size = strcspn(at, " ");
        if (size) status = need_field(task, rows, at, size, "options", error);
        at += size + strspn(at + size, " ");
    }
    return status;
}

/* The source of a part, whose path is in s->path then; NULL: none was found. */
static const zest_task_source *locate(search *s, const zest_task *task, const char *data, int causal,
                                      zest_task_part part) {
    const zest_task_place *place = &task->places[part];
    if (place->path) zest_buffer_text(&s->path, place->path);
    if (place->path) return s->path.failed ? NULL : &task->sources[place->source];
    return find(s, task, !task->path && (!data || !*data) ? "." : data, causal, part);
}

static void free_search(search *s) {
    zest_buffer_free(&s->path);
    zest_buffer_free(&s->searched);
}

zest_status zest_task_read(const zest_task *task, const char *data, int causal, zest_task_part part,
                           zest_rows *rows, zest_error *error) {
    search s = {0};
    *rows = (zest_rows){0};
    if (!zest_task_has_part(task, part)) return ZEST_OK;
    const zest_task_source *source = locate(&s, task, data, causal, part);
    zest_status status;
    if (source) {
        zest_rows_layout layout = source->layout;
        /* DROP trains on the first answer and accepts those of all annotators in tests */
        layout.all_answers = part != ZEST_PART_TRAIN;
        status = zest_rows_read(s.path.data, &layout, rows, error);
        if (!status) status = check_fields(task, rows, error);
        if (status) zest_rows_free(rows);
    } else {
        status = refuse_search(&s, task, part, error);
    }
    free_search(&s);
    return status;
}

zest_status zest_task_find(const zest_task *task, const char *data, int causal, zest_task_part part,
                           zest_task_place *place, zest_error *error) {
    search s = {0};
    *place = (zest_task_place){0};
    const zest_task_source *source = locate(&s, task, data, causal, part);
    if (source && (place->path = strdup(s.path.data))) place->source = (size_t)(source - task->sources);
    zest_status status = (source && !place->path) || s.path.failed
                             ? zest_error_memory(error, task->name, s.path.size)
                             : ZEST_OK;
    free_search(&s);
    return status;
}

/* ---- Columns that a task reads ---- */

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
        const zest_template_node *node = &t->nodes[i];
        if (node->kind == ZEST_TEMPLATE_NODE_FIELD)
            status = add(columns, node->text, strlen(node->text), error);
        for (size_t c = 0; c < node->filter_count && !status; c++)
            status = add_fields(columns, node->filters[c].to, error);
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
