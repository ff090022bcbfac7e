/* The files of a run's folder, and its options. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/run_folder.h"
#include "base/file.h"

enum { OPTIONS_LIMIT = 1 << 20 };

static int is_file(const char *path) {
    struct stat info;
    return !stat(path, &info) && !S_ISDIR(info.st_mode);
}

/* The folder that a path means: itself, or the one its file is in. */
static char *folder_path(const char *path) {
    if (!is_file(path)) return strdup(path);
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + (slash == path)) : strdup(".");
}

zest_status zest_run_folder_of(const char *path, zest_run_folder *folder, zest_error *error) {
    *folder = (zest_run_folder){.path = folder_path(path)};
    struct {
        char **to;
        const char *name;
    } parts[] = {{&folder->options, "options"}, {&folder->journal, "journal"},
                 {&folder->task, "task"},       {&folder->inputs, "inputs.json"},
                 {&folder->log, "log.jsonl"},   {&folder->best, "best"},
                 {&folder->last, "last"},       {&folder->result, "result.json"},
                 {&folder->start, "start"},     {&folder->covariance, "covariance.safetensors"}};
    int failed = !folder->path;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !failed; i++)
        failed = !(*parts[i].to = zest_file_join(folder->path, parts[i].name));
    if (!failed && is_file(path)) { /* a journal by another name */
        free(folder->journal);
        failed = !(folder->journal = strdup(path));
    }
    if (!failed) return ZEST_OK;
    zest_run_folder_free(folder);
    return zest_error_memory(error, path, strlen(path));
}

void zest_run_folder_free(zest_run_folder *folder) {
    char *all[] = {folder->path,    folder->options, folder->task,      folder->inputs,
                   folder->journal, folder->log,     folder->best,      folder->last,
                   folder->result,  folder->start,   folder->covariance};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    *folder = (zest_run_folder){0};
}

int zest_run_folder_is_training(const zest_run_folder *folder) {
    return access(folder->journal, F_OK) == 0 && access(folder->options, F_OK) == 0 &&
           access(folder->start, F_OK) != 0;
}

zest_status zest_run_folder_check_links(const zest_run_folder *folder, zest_error *error) {
    static const char *const names[] = {"best",     "best.new", "best.old",    "last",     "last.new",
                                        "last.old", "journal",  "journal.new", "log.jsonl"};
    zest_status status = zest_file_refuse_link(folder->journal, error); /* which may have another name */
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        char *path = zest_file_join(folder->path, names[i]);
        status = path ? zest_file_refuse_link(path, error) : zest_error_memory(error, names[i], 0);
        free(path);
    }
    return status;
}

static int has_journal(const char *folder) {
    char *journal = zest_file_join(folder, "journal");
    int found = journal && access(journal, F_OK) == 0;
    free(journal);
    return found;
}

zest_status zest_run_folder_refuse_target(const char *path, zest_error *error) {
    static const char *const names[] = {
        "best",     "best.new", "best.old",  "last",        "last.new",
        "last.old", "journal",  "options",   "task",        "inputs.json",
        "start",    "x",        "log.jsonl", "result.json", "covariance.safetensors"};
    char *whole = realpath(path, NULL); /* of a file that is not there: NULL */
    int taken = whole && has_journal(whole);
    char *slash = whole ? strrchr(whole, '/') : NULL;
    if (slash && !taken) {
        *slash = '\0';
        for (size_t i = 0; i < sizeof names / sizeof *names && !taken; i++)
            taken = !strcmp(slash + 1, names[i]) && has_journal(*whole ? whole : "/");
    }
    free(whole);
    if (!taken) return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "--out %s: belongs to a run, which would not be the same any more; choose another name", path);
}

void zest_run_folder_remove_temporaries(const zest_run_folder *folder) {
    zest_file_remove_temporaries(folder->path);
    zest_file_remove_temporaries(folder->best);
    zest_file_remove_temporaries(folder->last);
}

zest_status zest_run_folder_read_options(const zest_run_folder *folder, unsigned users, zest_options *options,
                                         zest_error *error) {
    zest_buffer text = {0};
    zest_options_init(options);
    zest_status status = zest_file_read(folder->options, OPTIONS_LIMIT, &text, error);
    if (!status)
        status = zest_options_set_all(options, users, text.data ? text.data : "", folder->options, error);
    zest_buffer_free(&text);
    if (status) zest_options_free(options);
    return status;
}

zest_status zest_run_folder_merge_options(const zest_run_folder *folder, const zest_options *given,
                                          zest_options *options, zest_error *error) {
    zest_status status = zest_run_folder_read_options(folder, ZEST_FOR_TRAINING, options, error);
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++)
        if (zest_options_given(given, (zest_option_id)id))
            status = zest_options_set_id(options, (zest_option_id)id,
                                         zest_options_text(given, (zest_option_id)id), error);
    return status;
}

zest_status zest_run_folder_write_options(const zest_run_folder *folder, unsigned users,
                                          const zest_options *options, zest_error *error) {
    zest_options kept;
    zest_buffer text = {0};
    zest_status status = zest_options_copy(&kept, options, error);
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (row->changes & ZEST_CHANGES_BY_SESSION)
            status = zest_options_set_id(&kept, (zest_option_id)id, row->fallback, error);
    }
    if (!status) zest_options_print(&kept, users, &text);
    zest_options_free(&kept);
    if (status) return status;
    status = text.failed ? zest_error_memory(error, folder->options, text.size)
                         : zest_file_write(folder->options, text.data, text.size, error);
    zest_buffer_free(&text);
    return status;
}
