/* Files and weights from rank 0 to the others. Rank 0 sends one file after the other, each with a head; the last head
 * says that there are no more. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "io/gguf.h"
#include "model/model_files.h"
#include "train/broadcast.h"

/* What a file is, and the folder that it is kept in. */
typedef enum {
    RUN,
    MODEL,
    MODEL_FILE, /* the model is this file */
    HOME,
    HOME_FILE,
    TASK,
    TEXT,
    DATA, /* and the part */
    KINDS = DATA + 3,
    END = KINDS,
} file_kind;

static const char *const folders[KINDS] = {"run",  "model", "model", "home", "home",
                                           "task", "text",  "train", "dev",  "test"};

enum { NAME_SIZE = 256 };
static const size_t largest_file = (size_t)1 << 36;

typedef struct {
    uint64_t size, sent, hash; /* of the file; bytes of it that follow, and their hash */
    uint32_t kind, source;     /* source: of the task, for DATA */
    int32_t status;            /* of rank 0, which could not read it */
    int32_t unused;
    char name[NAME_SIZE];
} file_head;

typedef struct {
    zest_comm *comm;
    zest_broadcast *b;
    zest_error *error;
    zest_status kept; /* whether this rank could keep what has arrived */
} transfer;

/* ---- Keeping a file ---- */

static char *make_folder(transfer *x, file_kind kind) {
    zest_broadcast *b = x->b;
    if (!b->folder) {
        const char *where = getenv("TMPDIR");
        char *made = zest_file_join(where && *where ? where : "/tmp", "zest-XXXXXX");
        if (!made || !mkdtemp(made)) {
            zest_error_set_errno(x->error, ZEST_ERROR_FILE, "%s: a folder for the files of rank 0",
                                 made ? made : "/tmp");
            free(made);
            return NULL;
        }
        b->folder = made;
    }
    char *path = zest_file_join(b->folder, folders[kind]);
    if (path && !zest_file_make_folder(path, x->error)) return path;
    free(path);
    return NULL;
}

/* The path that later readers are given. */
static zest_status remember(zest_broadcast *b, const file_head *head, char *folder, char *path,
                            zest_error *error) {
    char **to[KINDS] = {&b->run,  &b->model, &b->model,          &b->home,           &b->home,
                        &b->task, &b->text,  &b->places[0].path, &b->places[1].path, &b->places[2].path};
    int whole = head->kind == RUN || head->kind == MODEL || head->kind == HOME; /* a folder of files */
    char **place = to[head->kind];
    if (!*place) *place = strdup(whole ? folder : path);
    if (head->kind >= DATA) b->places[head->kind - DATA].source = head->source;
    return *place ? ZEST_OK : zest_error_memory(error, head->name, NAME_SIZE);
}

/* The rest of a weight file is a hole, which nobody reads. */
static zest_status write_file(const char *path, const file_head *head, const char *bytes, zest_error *error) {
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s", path);
    zest_status status = zest_file_write_all(descriptor, bytes, (size_t)head->sent, path, error);
    if (!status && ftruncate(descriptor, (off_t)head->size))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s", path);
    if (close(descriptor) && !status) status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s", path);
    return status;
}

static zest_status keep(transfer *x, const file_head *head, const zest_buffer *bytes) {
    uint64_t hash = zest_fingerprint_of(bytes->data, (size_t)head->sent).hash;
    if (hash != head->hash)
        return zest_error_set(x->error, ZEST_ERROR_STATE,
                              "%s: did not arrive as rank 0 sent it (XXH3 %016" PRIx64
                              " instead of %016" PRIx64
                              "); the network or the memory of this machine is not reliable",
                              head->name, hash, head->hash);
    if (head->kind >= KINDS || !*head->name || strchr(head->name, '/') || *head->name == '.')
        return zest_error_set(x->error, ZEST_ERROR_STATE, "rank 0 sent a file with the name '%.80s'",
                              head->name);
    char *folder = make_folder(x, (file_kind)head->kind);
    char *path = folder ? zest_file_join(folder, head->name) : NULL;
    zest_status status = path     ? write_file(path, head, bytes->data, x->error)
                         : folder ? zest_error_memory(x->error, head->name, NAME_SIZE)
                                  : x->error->status;
    if (!status) status = remember(x->b, head, folder, path, x->error);
    free(folder);
    free(path);
    return status;
}

/* ---- Sending a file: all ranks, each once for every file ---- */

/* Room for what is to come; rank 0 has it already. */
static zest_status make_room(zest_buffer *bytes, const file_head *head, zest_error *error) {
    bytes->data = head->sent < SIZE_MAX ? malloc((size_t)head->sent + 1) : NULL;
    return bytes->data ? ZEST_OK : zest_error_memory(error, head->name, (size_t)head->sent);
}

/* A rank that could not keep the file before says so now. */
static zest_status exchange(transfer *x, file_head *head, zest_buffer *bytes) {
    zest_comm *comm = x->comm;
    zest_status status = comm->table->broadcast(comm, head, sizeof *head, 0, x->error);
    if (status) return status;
    head->name[NAME_SIZE - 1] = '\0';
    if (head->status) return zest_comm_share_error(comm, 0, 1, x->error);
    if (comm->rank && !x->kept && head->kind != END) x->kept = make_room(bytes, head, x->error);
    status = zest_comm_agree(comm, x->kept, x->error);
    if (status || head->kind == END) return status;
    if (head->sent) status = zest_comm_broadcast_block(comm, bytes->data, (size_t)head->sent, x->error);
    if (!status && comm->rank) x->kept = keep(x, head, bytes);
    return status;
}

static zest_status receive(transfer *x) {
    file_head head = {0};
    zest_status status = ZEST_OK;
    while (!status && head.kind != END) {
        zest_buffer bytes = {0};
        status = exchange(x, &head, &bytes);
        zest_buffer_free(&bytes);
    }
    return status;
}

/* ---- Rank 0 ---- */

/* Bytes of a weight file that come before its tensors; 0: it is sent whole. */
static zest_status header_size(const char *path, size_t *size, zest_error *error) {
    const char *dot = strrchr(path, '.');
    zest_mapped_file map = {0};
    zest_status status = ZEST_OK;
    *size = 0;
    if (dot && !strcmp(dot, ".safetensors")) {
        status = zest_mapped_file_open(path, &map, error);
        uint64_t length = 0;
        if (!status && map.size >= sizeof length)
            memcpy(&length, map.bytes, sizeof length); /* little-endian */
        if (length <= map.size - (map.size ? sizeof length : 0)) *size = sizeof length + (size_t)length;
        zest_mapped_file_close(&map);
    } else if (dot && !strcmp(dot, ".gguf")) {
        zest_gguf *file = NULL;
        status = zest_gguf_open(path, &file, error);
        if (!status) *size = zest_gguf_header_size(file);
        zest_gguf_close(file);
    }
    return status;
}

static zest_status read_start(const char *path, size_t size, zest_buffer *out, zest_error *error) {
    zest_mapped_file map = {0};
    zest_status status = zest_mapped_file_open(path, &map, error);
    if (!status) zest_buffer_add(out, map.bytes, size < map.size ? size : map.size);
    zest_mapped_file_close(&map);
    return out->failed ? zest_error_memory(error, path, size) : status;
}

static zest_status send_file(transfer *x, file_kind kind, size_t source, const char *path) {
    file_head head = {.kind = kind, .source = (uint32_t)source};
    const char *slash = strrchr(path, '/');
    zest_buffer bytes = {0};
    struct stat info = {0};
    size_t start = 0;
    if (snprintf(head.name, sizeof head.name, "%s", slash ? slash + 1 : path) >= NAME_SIZE)
        head.status = (int32_t)zest_error_set(x->error, ZEST_ERROR_FILE, "%s: has too long a name", path);
    else if (stat(path, &info))
        head.status = (int32_t)zest_error_set_errno(x->error, ZEST_ERROR_FILE, "%s", path);
    if (!head.status) head.status = (int32_t)header_size(path, &start, x->error);
    if (!head.status)
        head.status = (int32_t)(start ? read_start(path, start, &bytes, x->error)
                                      : zest_file_read(path, largest_file, &bytes, x->error));
    head.sent = bytes.size;
    head.size = start ? (uint64_t)info.st_size : bytes.size;
    head.hash = zest_fingerprint_of(bytes.data ? bytes.data : "", bytes.size).hash;
    zest_status status = exchange(x, &head, &bytes);
    zest_buffer_free(&bytes);
    return status;
}

/* The journal's name alone: that a folder is a run is seen from it. */
static zest_status send_name(transfer *x, file_kind kind, const char *name) {
    file_head head = {.kind = kind, .hash = zest_fingerprint_of("", 0).hash};
    zest_buffer none = {0};
    snprintf(head.name, sizeof head.name, "%s", name);
    return exchange(x, &head, &none);
}

static int ends_in(const char *name, const char *end) {
    size_t a = strlen(name), b = strlen(end);
    return a > b && !strcmp(name + a - b, end);
}

/* Settings, tokenizers and weights. */
static int is_of_model(const struct dirent *entry) {
    static const char *const ends[] = {".json", ".txt", ".model", ".jinja", ".safetensors"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (*entry->d_name != '.' && ends_in(entry->d_name, ends[i])) return 1;
    return 0;
}

/* A failure before a head is sent with one. */
static zest_status send_failure(transfer *x, zest_status status) {
    file_head head = {.kind = END, .status = (int32_t)status};
    return exchange(x, &head, NULL);
}

static zest_status send_model(transfer *x, file_kind kind, const char *path) {
    struct stat info;
    struct dirent **found = NULL;
    if (stat(path, &info) || !S_ISDIR(info.st_mode)) return send_file(x, kind + 1, 0, path);
    int count = scandir(path, &found, is_of_model, alphasort);
    zest_status status =
        count < 0 ? send_failure(x, zest_error_set_errno(x->error, ZEST_ERROR_FILE, "%s", path)) : ZEST_OK;
    for (int i = 0; i < count; i++) {
        char *file = status ? NULL : zest_file_join(path, found[i]->d_name);
        if (file) status = send_file(x, kind, 0, file);
        if (!file && !status) status = send_failure(x, zest_error_memory(x->error, path, strlen(path)));
        free(file);
        free(found[i]);
    }
    free(found);
    return status;
}

/* ---- What is sent ---- */

typedef struct {
    const char *path, *model;
    zest_run_folder folder;
    zest_options options; /* with those of the run */
    zest_inputs inputs;
    zest_task task;
    zest_task_place places[3];
    int is_run, has_task, sends_task; /* sends_task: its file */
} contents;

static void free_contents(contents *c) {
    for (int i = 0; i < 3; i++) free(c->places[i].path);
    zest_task_free(&c->task);
    zest_inputs_free(&c->inputs);
    zest_options_free(&c->options);
    zest_run_folder_free(&c->folder);
}

static zest_status is_causal(const char *model, int *causal, zest_error *error) {
    zest_model_source source = {0};
    zest_model_config config = {0};
    const zest_family_names *names;
    zest_status status = zest_model_source_open(model, &source, error);
    if (!status)
        status = zest_family_describe(source.config_json, source.config_path, &config, &names, error);
    *causal = config.causal;
    zest_model_source_close(&source);
    return status;
}

/* The files of a task's parts. One that is not found is not sent: who needs it says so. */
static zest_status find_data(contents *c, const zest_options *given, zest_error *error) {
    const char *name = zest_options_text(&c->options, ZEST_OPTION_TASK);
    int causal = 0, chosen = zest_options_given(given, ZEST_OPTION_TASK);
    const char *copy = chosen ? NULL : c->inputs.task_copy;
    c->sends_task = zest_task_is_file(name) && !copy;
    zest_status status = is_causal(c->model, &causal, error);
    if (!status)
        status =
            copy ? zest_task_open_copy(copy, name, &c->task, error) : zest_task_open(name, &c->task, error);
    for (int part = 0; part < 3 && !status; part++)
        if (zest_task_has_part(&c->task, (zest_task_part)part))
            status = zest_task_find(&c->task, zest_options_text(&c->options, ZEST_OPTION_DATA), causal,
                                    (zest_task_part)part, &c->places[part], error);
    return status;
}

static zest_status find_contents(contents *c, const zest_options *given, zest_error *error) {
    zest_status status = c->path ? zest_run_folder_of(c->path, &c->folder, error) : ZEST_OK;
    c->is_run = c->path && !status && zest_run_folder_is_training(&c->folder);
    if (!status)
        status = c->is_run ? zest_run_folder_merge_options(&c->folder, given, &c->options, error)
                           : zest_options_copy(&c->options, given, error);
    if (!status && c->is_run) status = zest_inputs_read(&c->inputs, &c->folder, error);
    if (status) return status;
    c->model = c->path && !c->is_run ? c->path : zest_options_text(&c->options, ZEST_OPTION_MODEL);
    c->has_task = *zest_options_text(&c->options, ZEST_OPTION_TASK) != '\0' &&
                  !*zest_options_text(&c->options, ZEST_OPTION_CORPUS);
    if (!*c->model)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--broadcast: say which model to send, with --model");
    return c->has_task ? find_data(c, given, error) : ZEST_OK;
}

static zest_status send_run(transfer *x, const contents *c) {
    zest_status status = send_file(x, RUN, 0, c->folder.options);
    if (!status) status = send_name(x, RUN, "journal");
    if (!status && !access(c->folder.inputs, F_OK)) status = send_file(x, RUN, 0, c->folder.inputs);
    return status || !c->inputs.task_copy ? status : send_file(x, RUN, 0, c->inputs.task_copy);
}

static zest_status send_contents(transfer *x, const contents *c) {
    const char *home = zest_options_text(&c->options, ZEST_OPTION_MODEL),
               *text = zest_options_text(&c->options, ZEST_OPTION_CORPUS);
    file_head end = {.kind = END};
    zest_status status = c->is_run ? send_run(x, c) : ZEST_OK;
    if (!status) status = send_model(x, MODEL, c->model);
    if (!status && c->model == c->path && *home) status = send_model(x, HOME, home);
    if (!status && c->sends_task)
        status = send_file(x, TASK, 0, zest_options_text(&c->options, ZEST_OPTION_TASK));
    if (!status && *text) status = send_file(x, TEXT, 0, text);
    for (int part = 0; part < 3 && !status; part++)
        if (c->places[part].path)
            status = send_file(x, (file_kind)(DATA + part), c->places[part].source, c->places[part].path);
    return status ? status : exchange(x, &end, NULL);
}

zest_status zest_broadcast_files(zest_comm *comm, const char *path, const zest_options *given,
                                 zest_broadcast *b, zest_error *error) {
    transfer x = {comm, b, error, ZEST_OK};
    *b = (zest_broadcast){0};
    if (comm->ranks == 1 || !zest_options_whole(given, ZEST_OPTION_BROADCAST)) return ZEST_OK;
    b->used = 1;
    if (comm->rank) return receive(&x);
    contents c = {.path = path};
    zest_options_init(&c.options);
    zest_status status = find_contents(&c, given, error);
    status = status ? send_failure(&x, status) : send_contents(&x, &c);
    free_contents(&c);
    return status;
}

void zest_broadcast_free(zest_broadcast *b) {
    char *all[] = {b->run, b->model, b->home, b->task, b->text};
    for (int kind = 0; kind < KINDS && b->folder; kind++) {
        char *path = zest_file_join(b->folder, folders[kind]);
        if (path) (void)zest_file_remove_folder(path, NULL);
        free(path);
    }
    if (b->folder) (void)rmdir(b->folder);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    for (int i = 0; i < 3; i++) free(b->places[i].path);
    free(b->folder);
    *b = (zest_broadcast){0};
}

zest_status zest_broadcast_redirect(const zest_broadcast *b, zest_options *options, zest_error *error) {
    const struct {
        zest_option_id id;
        const char *path;
    } all[] = {{ZEST_OPTION_MODEL, b->model}, {ZEST_OPTION_TASK, b->task}, {ZEST_OPTION_CORPUS, b->text}};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        if (all[i].path) status = zest_options_set_id(options, all[i].id, all[i].path, error);
    return status;
}

/* ---- Weights ---- */

/* Names, types and sizes. */
static uint64_t print_shapes(const zest_params *params) {
    zest_buffer text = {0};
    for (size_t i = 0; i < params->count; i++)
        zest_buffer_format(&text, "%s %d %llu\n", params->tensors[i].name, (int)params->tensors[i].dtype,
                           (unsigned long long)params->tensors[i].count);
    uint64_t print = text.failed ? 0 : zest_fingerprint_of(text.data, text.size).hash;
    zest_buffer_free(&text);
    return print;
}

zest_status zest_broadcast_weights(zest_comm *comm, const zest_loaded *loaded, int all, zest_error *error) {
    const zest_model *model = loaded->model;
    zest_params params =
        all ? (zest_params){model->tensors, model->tensor_count, model->params.dimension} : model->params;
    if (comm->ranks == 1) return ZEST_OK;
    zest_status status = zest_comm_compare(comm, print_shapes(&params), "the tensors", error);
    for (size_t i = 0; i < params.count && !status; i++)
        status = zest_comm_broadcast_block(
            comm, params.tensors[i].data,
            (size_t)params.tensors[i].count * zest_dtype_size(params.tensors[i].dtype), error);
    if (!status) status = zest_comm_compare(comm, zest_params_fingerprint(&params), "the weights", error);
    if (status) return status;
    return zest_comm_agree(comm, comm->rank ? zest_model_upload(loaded->runner, error) : ZEST_OK, error);
}
