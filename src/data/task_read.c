/* Where a task's data lies. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "data/task_internal.h"

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

/* ---- Looking ---- */

typedef struct {
    zest_buffer path;   /* what is tried, and in the end what was found */
    zest_buffer looked; /* everything that was tried, for the message */
} search;

static int is_file(search *s) {
    struct stat info;
    if (s->path.failed) return 0;
    if (!stat(s->path.data, &info) && S_ISREG(info.st_mode)) return 1;
    /* a folder without letters is its own lower and upper case: not worth saying twice */
    if (!s->looked.data || !strstr(s->looked.data, s->path.data))
        zest_buffer_format(&s->looked, "%s%s", s->looked.size ? ", " : "", s->path.data);
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

/* A built-in task's file: the folder as it is called, in SuperGLUE's, in another spelling, or given itself.
 */
static int find_built_in(search *s, const zest_task_source *source, const char *data, const char *name) {
    return try_folder(s, data, "/", source->folder, NULL, name) ||
           try_folder(s, data, "/superglue/", source->folder, NULL, name) ||
           try_folder(s, data, "/", source->folder, tolower, name) ||
           try_folder(s, data, "/", source->folder, toupper, name) ||
           try_folder(s, data, "/", "", NULL, name);
}

/* A file of a task file: under --data if that was given, or beside the task file. */
static int find_own(search *s, const zest_task *task, const char *data, const char *name) {
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
            int found = task->path ? find_own(s, task, data, name) : find_built_in(s, source, data, name);
            if (found) return source;
        }
    return NULL;
}

static zest_status refuse_search(const search *s, const zest_task *task, zest_task_part part,
                                 zest_error *error) {
    if (s->path.failed || s->looked.failed) return zest_error_memory(error, task->name, s->looked.size);
    return zest_error_set(error, ZEST_ERROR_FILE, "%s: its %s data was not found; %s. Looked for %.600s",
                          task->name, part_names[part],
                          task->path
                              ? "paths in a task file start from its own folder"
                              : "give the folder that holds it with --data (docs/train.md says where it "
                                "is published; tools/get_data.py downloads it)",
                          s->looked.data ? s->looked.data : "nothing");
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

/* The label and the options must be there. (The template's fields are checked with the template.) */
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

zest_status zest_task_read(const zest_task *task, const char *data, int causal, zest_task_part part,
                           zest_rows *rows, zest_error *error) {
    search s = {0};
    *rows = (zest_rows){0};
    if (!zest_task_has_part(task, part)) return ZEST_OK;
    if (!task->path && (!data || !*data)) data = ".";
    const zest_task_source *source = find(&s, task, data, causal, part);
    zest_status status;
    if (source) {
        zest_rows_layout layout = source->layout;
        /* DROP trains on the first answer and accepts every annotator's in tests */
        layout.all_answers = part != ZEST_PART_TRAIN;
        status = zest_rows_read(s.path.data, &layout, rows, error);
        if (!status) status = check_fields(task, rows, error);
        if (status) zest_rows_free(rows);
    } else {
        status = refuse_search(&s, task, part, error);
    }
    zest_buffer_free(&s.path);
    zest_buffer_free(&s.looked);
    return status;
}
