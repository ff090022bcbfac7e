/* Files that a run was made from: recorded in RUN/inputs.json when it starts, checked when it is read or resumed. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "io/hub.h"
#include "task/task.h"
#include "tokenizer/unicode.h"
#include "train/run_folder.h"
#include "zest.h"

enum { INPUTS_LIMIT = 1 << 20, TASK_LIMIT = 1 << 20, MAX_FILES = 4096 };
static const size_t model_bytes = (size_t)16 << 20; /* that are hashed of each of a model's files */

/* Files of a model that decide how it reads and answers text, besides its weights. */
static const char *const model_files[] = {
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "model.safetensors.index.json",
};

static int is_folder(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- Lists ---- */

static zest_status add(zest_input_list *list, const char *name, const char *path, zest_fingerprint print,
                       zest_error *error) {
    zest_input_file *grown = realloc(list->files, (list->count + 1) * sizeof *grown);
    if (!grown) return zest_error_memory(error, path, (list->count + 1) * sizeof *grown);
    list->files = grown;
    zest_input_file *file = &grown[list->count];
    *file = (zest_input_file){.name = strdup(name), .path = strdup(path), .print = print};
    list->count++;
    return file->name && file->path ? ZEST_OK : zest_error_memory(error, path, strlen(path));
}

static const zest_input_file *find(const zest_input_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->files[i].name, name)) return &list->files[i];
    return NULL;
}

static void free_list(zest_input_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->files[i].name);
        free(list->files[i].path);
    }
    free(list->files);
    *list = (zest_input_list){0};
}

void zest_inputs_free(zest_inputs *in) {
    free_list(&in->data);
    free_list(&in->model);
    free(in->task_name);
    free(in->task_file);
    free(in->task_copy);
    *in = (zest_inputs){0};
}

/* ---- A new run ---- */

static char *absolute(const char *path) {
    char *whole = realpath(path, NULL);
    return whole ? whole : strdup(path);
}

zest_status zest_inputs_add_data(zest_inputs *in, const char *part, const char *path, zest_fingerprint print,
                                 zest_error *error) {
    char *whole = absolute(path);
    zest_status status =
        whole ? add(&in->data, part, whole, print, error) : zest_error_memory(error, path, strlen(path));
    free(whole);
    return status;
}

static zest_status add_model_file(zest_inputs *in, const char *path, zest_error *error) {
    zest_fingerprint print;
    zest_status status = zest_fingerprint_file(path, model_bytes, &print, error);
    return status ? status : add(&in->model, file_name(path), path, print, error);
}

static zest_status add_if_there(zest_inputs *in, const char *folder, const char *name, zest_error *error) {
    char *path = zest_file_join(folder, name);
    if (!path) return zest_error_memory(error, folder, strlen(folder));
    zest_status status = access(path, F_OK) ? ZEST_OK : add_model_file(in, path, error);
    free(path);
    return status;
}

/* model.safetensors, or model-00001-of-00003.safetensors and so on. */
static int is_weights(const struct dirent *entry) { return !fnmatch("model*.safetensors", entry->d_name, 0); }

static zest_status add_model_folder(zest_inputs *in, const char *folder, zest_error *error) {
    zest_status status = ZEST_OK;
    struct dirent **found = NULL;
    for (size_t i = 0; i < sizeof model_files / sizeof *model_files && !status; i++)
        status = add_if_there(in, folder, model_files[i], error);
    int count = scandir(folder, &found, is_weights, alphasort);
    if (!status && count < 0)
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", folder);
    for (int i = 0; i < count; i++) {
        if (!status && i < MAX_FILES / 2) status = add_if_there(in, folder, found[i]->d_name, error);
        free(found[i]);
    }
    free(found);
    return status;
}

/* Fingerprint of the frozen tensors. */
static zest_status frozen_print(const zest_model *model, uint64_t *print, int *any, zest_error *error) {
    zest_tensor *list = malloc((model->tensor_count + 1) * sizeof *list);
    zest_params frozen = {list, 0, 0};
    if (!list) return zest_error_memory(error, "tensors", model->tensor_count * sizeof *list);
    for (size_t i = 0; i < model->tensor_count; i++) {
        int trained = 0;
        for (size_t j = 0; j < model->params.count && !trained; j++)
            trained = model->params.tensors[j].data == model->tensors[i].data;
        if (trained) continue;
        list[frozen.count++] = model->tensors[i];
        frozen.dimension += model->tensors[i].count;
    }
    *print = frozen.count ? zest_params_fingerprint(&frozen) : 0;
    *any = frozen.count > 0;
    free(list);
    return ZEST_OK;
}

zest_status zest_inputs_add_model(zest_inputs *in, const char *path, const zest_model *model,
                                  zest_error *error) {
    char *whole = absolute(path);
    if (!whole) return zest_error_memory(error, path, strlen(path));
    zest_status status =
        is_folder(whole) ? add_model_folder(in, whole, error) : add_model_file(in, whole, error);
    free(whole);
    return status ? status : frozen_print(model, &in->frozen, &in->has_frozen, error);
}

static json_t *hash_json(uint64_t hash) {
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

/* A path may hold any bytes; JSON may not. It is for people: nothing is opened by it. */
static json_t *path_json(const char *path) {
    zest_buffer valid = {0};
    zest_unicode_repair(path, strlen(path), &valid);
    json_t *text = valid.failed ? NULL : json_string(valid.data ? valid.data : "");
    zest_buffer_free(&valid);
    return text;
}

/* NULL: out of memory, here and below. */
static json_t *list_json(const zest_input_list *list) {
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const zest_input_file *f = &list->files[i];
        zest_json_append(&array,
                         json_pack("{s:s, s:o, s:I, s:o}", "name", f->name, "file", path_json(f->path),
                                   "bytes", (json_int_t)f->print.bytes, "xxh3", hash_json(f->print.hash)));
    }
    return array;
}

/* The options that cannot change: zest_run_check compares them. */
static json_t *options_json(const zest_options *options, unsigned users) {
    json_t *object = json_object();
    for (int id = 0; id < ZEST_OPTION_COUNT && object; id++) {
        const char *text = zest_options_text(options, (zest_option_id)id);
        if (!zest_run_check_is_fixed(id, users) || zest_unicode_valid(text, strlen(text)) < strlen(text))
            continue;
        zest_json_set(&object, zest_option_row_at((zest_option_id)id)->name, json_string(text));
    }
    return object;
}

static zest_status write_json(const zest_inputs *in, const char *path, const char *task_text, json_t *options,
                              uint64_t start, zest_error *error) {
    json_t *task = json_pack("{s:s}", "name", in->task_name ? in->task_name : "");
    if (in->task_file) zest_json_set(&task, "file", path_json(in->task_file));
    if (task_text)
        zest_json_set(&task, "xxh3", hash_json(zest_fingerprint_of(task_text, strlen(task_text)).hash));
    json_t *object = json_pack("{s:s, s:o, s:o, s:o}", "zest", ZEST_VERSION, "task", task, "data",
                               list_json(&in->data), "model", list_json(&in->model));
    zest_json_set(&object, "start", hash_json(start));
    zest_json_set(&object, "options", options);
    if (in->has_frozen) zest_json_set(&object, "frozen", hash_json(in->frozen));
    char *text = object ? zest_json_dump(object, JSON_INDENT(2)) : NULL;
    json_decref(object);
    if (!text) return zest_error_memory(error, path, 0);
    zest_status status = zest_file_write(path, text, strlen(text), error);
    free(text);
    return status;
}

zest_status zest_inputs_write(const zest_inputs *in, const zest_run_folder *folder, const char *task_text,
                              const zest_options *options, unsigned users, const zest_params *start,
                              zest_error *error) {
    zest_status status =
        task_text ? zest_file_write(folder->task, task_text, strlen(task_text), error) : ZEST_OK;
    if (status) return status;
    return write_json(in, folder->inputs, task_text, options_json(options, users),
                      zest_params_fingerprint(start), error);
}

/* ---- Reading ---- */

static zest_status damaged(const char *path, const char *what, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: is damaged (%s); without the file the run can still be read, but not checked",
                          path, what);
}

static int read_hash(const json_t *value, uint64_t *hash) {
    const char *text = json_string_value(value);
    char *end = NULL;
    if (!text || strlen(text) != 16) return 0;
    *hash = strtoull(text, &end, 16);
    return !*end;
}

static zest_status read_list(const json_t *array, zest_input_list *list, const char *path,
                             zest_error *error) {
    zest_status status = ZEST_OK;
    if (!json_is_array(array) || json_array_size(array) > MAX_FILES)
        return damaged(path, "a list of files", error);
    for (size_t i = 0; i < json_array_size(array) && !status; i++) {
        const json_t *file = json_array_get(array, i), *bytes = json_object_get(file, "bytes");
        const char *name = json_string_value(json_object_get(file, "name")),
                   *at = json_string_value(json_object_get(file, "file"));
        zest_fingerprint print;
        if (!name || !at || strchr(name, '/') || !json_is_integer(bytes) || json_integer_value(bytes) < 0 ||
            !read_hash(json_object_get(file, "xxh3"), &print.hash))
            return damaged(path, "a file needs name, file, bytes and xxh3", error);
        print.bytes = (uint64_t)json_integer_value(bytes);
        status = add(list, name, at, print, error);
    }
    return status;
}

static zest_status read_task(zest_inputs *in, const json_t *task, const zest_run_folder *folder,
                             zest_error *error) {
    const char *name = json_string_value(json_object_get(task, "name")),
               *file = json_string_value(json_object_get(task, "file"));
    if (!name) return damaged(folder->inputs, "no task", error);
    in->task_name = strdup(name);
    in->task_file = file ? strdup(file) : NULL;
    in->task_copy = file ? strdup(folder->task) : NULL;
    if (!in->task_name || (file && (!in->task_file || !in->task_copy)))
        return zest_error_memory(error, folder->inputs, strlen(name));
    if (file && access(folder->task, R_OK))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: the run's copy of its task cannot be read",
                                    folder->task);
    return ZEST_OK;
}

zest_status zest_inputs_read(zest_inputs *in, const zest_run_folder *folder, zest_error *error) {
    zest_buffer text = {0};
    *in = (zest_inputs){0};
    if (access(folder->inputs, F_OK) && errno == ENOENT) return ZEST_OK;
    zest_status status = zest_file_read(folder->inputs, INPUTS_LIMIT, &text, error);
    json_error_t problem;
    json_t *object = status ? NULL : zest_json_load(text.data, text.size, ZEST_JSON_BIG_AS_REAL, &problem);
    if (!status && !object && json_error_code(&problem) == json_error_out_of_memory)
        status = zest_error_memory(error, folder->inputs, text.size);
    if (!status && !json_is_object(object)) status = damaged(folder->inputs, "no JSON object", error);
    if (!status) status = read_task(in, json_object_get(object, "task"), folder, error);
    if (!status) status = read_list(json_object_get(object, "data"), &in->data, folder->inputs, error);
    if (!status) status = read_list(json_object_get(object, "model"), &in->model, folder->inputs, error);
    const json_t *frozen = json_object_get(object, "frozen");
    in->has_frozen = frozen != NULL;
    if (!status && frozen && !read_hash(frozen, &in->frozen))
        status = damaged(folder->inputs, "frozen", error);
    in->recorded = !status;
    json_decref(object);
    zest_buffer_free(&text);
    return status;
}

/* ---- Checking ---- */

static zest_status refuse(const char *path, zest_fingerprint was, zest_fingerprint now,
                          const char *what_to_do, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FILE,
                          "%s: changed since the run began: it had %" PRIu64 " bytes (XXH3 %016" PRIx64
                          "), now it has %" PRIu64 " (%016" PRIx64 "); %s",
                          path, was.bytes, was.hash, now.bytes, now.hash, what_to_do);
}

zest_status zest_inputs_check_data(const zest_inputs *in, const char *part, const char *path,
                                   zest_fingerprint print, zest_error *error) {
    if (!in || !in->recorded || in->allow_changed || in->other_task) return ZEST_OK;
    const zest_input_file *file = find(&in->data, part);
    if (!file || zest_fingerprint_same(file->print, print)) return ZEST_OK;
    return refuse(path, file->print, print,
                  "put the old file back, say where it is now with --data DIR, or use the new one with "
                  "--allow-changed-files (the figures then no longer belong together)",
                  error);
}

zest_status zest_inputs_check_model(const zest_inputs *in, const char *path, zest_error *error) {
    static const char what_to_do[] = "put the old file back, or say where the model that the run started "
                                     "from is now with --model; --allow-changed-files tries it as it is";
    zest_status status = ZEST_OK;
    char repo[ZEST_HUB_REPO_SIZE];
    if (!in || !in->recorded || in->allow_changed) return ZEST_OK;
    if (access(path, F_OK) && zest_hub_find_repo(path, repo)) return zest_hub_find_missing(path, error);
    int folder = is_folder(path);
    for (size_t i = 0; i < in->model.count && !status; i++) {
        const zest_input_file *file = &in->model.files[i];
        zest_fingerprint print;
        char *now = folder ? zest_file_join(path, file->name) : strdup(path);
        if (!now) return zest_error_memory(error, path, strlen(path));
        if (access(now, F_OK))
            status =
                zest_error_set_errno(error, ZEST_ERROR_FILE,
                                     "%s: is missing; it was there when the run began: %s", now, what_to_do);
        if (!status) status = zest_fingerprint_file(now, model_bytes, &print, error);
        if (!status && !zest_fingerprint_same(file->print, print))
            status = refuse(now, file->print, print, what_to_do, error);
        free(now);
    }
    return status;
}

zest_status zest_inputs_check_frozen(const zest_inputs *in, const char *path, const zest_model *model,
                                     zest_error *error) {
    uint64_t print;
    int any;
    if (!in || !in->recorded || !in->has_frozen) return ZEST_OK;
    zest_status status = frozen_print(model, &print, &any, error);
    if (status || print == in->frozen) return status;
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: tensors that the run does not train have other values than when it began; say "
                          "where the model that it started from is with --model",
                          path);
}

/* Has the file the bytes of the copy? -1: one of them cannot be read. */
static int same_bytes(const char *a, const char *b) {
    zest_buffer one = {0}, two = {0};
    int same = -1;
    if (!zest_file_read(a, TASK_LIMIT, &one, NULL) && !zest_file_read(b, TASK_LIMIT, &two, NULL))
        same = one.size == two.size && (!one.size || !memcmp(one.data, two.data, one.size));
    zest_buffer_free(&one);
    zest_buffer_free(&two);
    return same;
}

/* Is it a built-in task of this name, in whatever spelling? */
static int is_named(const char *given, const char *name) {
    zest_task task;
    if (zest_task_is_file(given) || zest_task_open(given, &task, NULL)) return 0;
    int same = !strcmp(task.name, name);
    zest_task_free(&task);
    return same;
}

zest_status zest_inputs_check_task(const zest_inputs *in, const char *path, zest_error *error) {
    if (!in->recorded) return ZEST_OK;
    if (in->task_copy ? same_bytes(in->task_copy, path) == 1 : is_named(path, in->task_name)) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "--task %s: is not the task of this run (%s), and the task of a run cannot change; "
                          "start a new run",
                          path, in->task_copy ? in->task_copy : in->task_name);
}

void zest_inputs_notes(const zest_inputs *in, const zest_run_folder *folder, const char *task,
                       zest_buffer *out) {
    if (!in->recorded)
        zest_buffer_format(out,
                           "%s: made by zest 0.1, which kept no record of its task and data: whether these "
                           "have changed since cannot be checked\n",
                           folder->path);
    else if (in->task_copy && !in->other_task && !access(task, F_OK) && same_bytes(in->task_copy, task) == 0)
        zest_buffer_format(out,
                           "%s: changed since the run began; the run has its own copy, %s, and uses that\n",
                           task, in->task_copy);
}
