/* Whether the files of a run belong together. A file of another run, or options that were edited, would otherwise give
 * weights that no run ever had.
 *
 * The options that cannot change in a run are in `options`, in inputs.json, in the first line of the log and, as far
 * as steps depend on them, in the journal's header. Where one differs, it is the foreign one. inputs.json also has the
 * fingerprint of the start and the hash of the task; a checkpoint has the checksum of the journal at its step. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "optim/journal.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"

enum { FILE_LIMIT = 1 << 20 };

typedef struct {
    const zest_run_folder *folder;
    const zest_journal *journal;
    zest_options options;
    json_t *inputs, *log; /* inputs.json and the first line of the log; NULL: not there, or damaged */
    zest_error *error;
} run_files;

int zest_run_check_is_fixed(int id, unsigned users) {
    const zest_option_row *row = zest_option_row_at((zest_option_id)id);
    return (row->users & users) && !(row->changes & (ZEST_CHANGES_ON_RESUME | ZEST_CHANGES_BY_SESSION));
}

/* ---- Reading ---- */

static json_t *read_inputs(const char *path) {
    json_t *object;
    return zest_json_read(path, FILE_LIMIT, &object, NULL) ? NULL : object;
}

static json_t *read_first_line(const char *path) {
    json_t *object = NULL;
    json_error_t problem;
    int descriptor;
    FILE *file = zest_file_open(path, &descriptor, NULL) ? NULL : fdopen(descriptor, "r");
    if (!file && descriptor >= 0) close(descriptor);
    char *line = file ? malloc(FILE_LIMIT) : NULL;
    size_t size = line ? fread(line, 1, FILE_LIMIT, file) : 0;
    const char *end = size ? memchr(line, '\n', size) : NULL;
    if (end) object = zest_json_load(line, (size_t)(end - line), ZEST_JSON_BIG_AS_REAL, &problem);
    if (file) fclose(file);
    free(line);
    return object;
}

/* ---- Options ---- */

static const char *option_in(const json_t *object, const char *name) {
    return json_string_value(json_object_get(json_object_get(object, "options"), name));
}

static zest_status foreign_option(const run_files *run, const char *path, const char *name, const char *here,
                                  const char *there, const char *where) {
    return zest_error_set(
        run->error, ZEST_ERROR_FORMAT,
        "%s: has %s=%.100s, but %s has %s=%.100s: the file was edited, or belongs to another "
        "run; put it back as it was",
        path, name, here, where, name, there);
}

static zest_status check_option(const run_files *run, zest_option_id id) {
    const zest_run_folder *folder = run->folder;
    const zest_option_row *row = zest_option_row_at(id);
    /* steps of first-order methods do not depend on the header, which leaves newer options out */
    int compared = (row->users & ZEST_FOR_TUNER) && (zest_journal_states(run->journal, id) ||
                                                     !zest_options_first_order(&run->journal->options));
    const char *name = row->name, *options = zest_options_text(&run->options, id),
               *journal = compared ? zest_options_text(&run->journal->options, id) : NULL,
               *inputs = option_in(run->inputs, name), *log = option_in(run->log, name);
    if (journal && strcmp(options, journal)) {
        if (inputs && !strcmp(options, inputs)) /* two against one */
            return foreign_option(run, folder->journal, name, journal, options, folder->options);
        return foreign_option(run, folder->options, name, options, journal, folder->journal);
    }
    if (inputs && strcmp(options, inputs)) {
        if (!journal && log && !strcmp(inputs, log))
            return foreign_option(run, folder->options, name, options, inputs, folder->inputs);
        return foreign_option(run, folder->inputs, name, inputs, options, folder->options);
    }
    if (log && strcmp(options, log))
        return foreign_option(run, folder->log, name, log, options, folder->options);
    return ZEST_OK;
}

/* ---- The other files ---- */

static int read_hash(const json_t *value, uint64_t *hash) {
    const char *text = json_string_value(value);
    if (text) *hash = strtoull(text, NULL, 16);
    return text != NULL;
}

static zest_status check_start(const run_files *run) {
    uint64_t start;
    if (!read_hash(json_object_get(run->inputs, "start"), &start) || start == run->journal->fingerprint)
        return ZEST_OK;
    return zest_error_set(
        run->error, ZEST_ERROR_FORMAT,
        "%s and %s: are of two runs, which started from different weights; put the right one "
        "back",
        run->folder->journal, run->folder->inputs);
}

static zest_status check_task(const run_files *run) {
    const json_t *task = json_object_get(run->inputs, "task");
    const char *name = json_string_value(json_object_get(task, "name")),
               *logged = json_string_value(json_object_get(json_object_get(run->log, "task"), "name"));
    uint64_t hash;
    zest_buffer text = {0};
    zest_status status = ZEST_OK;
    if (read_hash(json_object_get(task, "xxh3"), &hash)) {
        status = zest_file_read(run->folder->task, FILE_LIMIT, &text, run->error);
        if (!status && zest_fingerprint_of(text.data ? text.data : "", text.size).hash != hash)
            status =
                zest_error_set(run->error, ZEST_ERROR_FORMAT,
                               "%s: is not the task that %s records: it was edited, or belongs to another "
                               "run; put it back as it was",
                               run->folder->task, run->folder->inputs);
        zest_buffer_free(&text);
    }
    if (!status && name && logged && strcmp(name, logged))
        status =
            zest_error_set(run->error, ZEST_ERROR_FORMAT,
                           "%s: is of a run with another task (%.60s) than that of %s (%.60s); put the right "
                           "one back, or move it away",
                           run->folder->log, logged, run->folder->inputs, name);
    return status;
}

static zest_status check_checkpoints(const run_files *run) {
    const zest_run_folder *folder = run->folder;
    int recorded = !zest_options_first_order(&run->options);
    int last = zest_checkpoint_is_foreign(folder->last, run->journal, recorded),
        best = zest_checkpoint_is_foreign(folder->best, run->journal, recorded);
    if (last && best)
        return zest_error_set(run->error, ZEST_ERROR_FORMAT,
                              "%s: belongs to another run than %s and %s; put the right one back",
                              folder->journal, folder->last, folder->best);
    if (last || best)
        return zest_error_set(run->error, ZEST_ERROR_FORMAT,
                              "%s: belongs to another run than %s; put the right one back, or remove it: %s",
                              last ? folder->last : folder->best, folder->journal,
                              recorded ? "the journal has its weights" : "its weights are not this run's");
    return ZEST_OK;
}

zest_status zest_run_check(const zest_run_folder *folder, const zest_journal *journal, zest_error *error) {
    run_files run = {.folder = folder, .journal = journal, .error = error};
    zest_status status = zest_run_folder_read_options(folder, ZEST_FOR_TRAINING, &run.options, error);
    if (status) return status;
    run.inputs = read_inputs(folder->inputs);
    run.log = read_first_line(folder->log);
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++)
        if (zest_run_check_is_fixed(id, ZEST_FOR_TRAINING)) status = check_option(&run, (zest_option_id)id);
    if (!status) status = check_start(&run);
    if (!status) status = check_task(&run);
    if (!status) status = check_checkpoints(&run);
    json_decref(run.inputs);
    json_decref(run.log);
    zest_options_free(&run.options);
    return status;
}
