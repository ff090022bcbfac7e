/* Checkpoints: a model in Hugging Face's format with zest.json, and the state of an optimizer. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/checkpoint.h"
#include "base/file.h"
#include "base/json.h"
#include "io/safetensors.h"

/* ---- Checkpoints with state ---- */

enum { VERSIONS = 3, MAX_ARRAYS = 8 };
static const char *const endings[VERSIONS] = {"", ".new", ".old"};
static const char *const state_file = "state.safetensors";

static char *with_ending(const char *name, int version) {
    size_t size = strlen(name) + 8;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s%s", name, endings[version]);
    return path;
}

void zest_checkpoint_free(zest_checkpoint *checkpoint) {
    free(checkpoint->path);
    *checkpoint = (zest_checkpoint){0};
}

/* ---- zest.json ---- */

typedef struct {
    uint64_t step, weights, state, journal;
    int has_state, has_journal;
} checkpoint_note;

enum { NOTE_LIMIT = 1 << 16 };

static int read_print(const json_t *note, const char *name, uint64_t *print) {
    const char *text = json_string_value(json_object_get(note, name));
    if (text) *print = strtoull(text, NULL, 16);
    return text != NULL;
}

/* *found: there is one, and it is whole. One that is not there or damaged is no error. */
static zest_status read_note(const char *folder, checkpoint_note *out, int *found, zest_error *error) {
    char *path = folder ? zest_file_join(folder, "zest.json") : NULL;
    json_t *note = NULL;
    *out = (checkpoint_note){0};
    *found = 0;
    if (!path) return zest_error_memory(error, "zest.json", 0);
    int missing = access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR);
    zest_status status = missing ? ZEST_OK : zest_json_read(path, NOTE_LIMIT, &note, error);
    const json_t *step = json_object_get(note, "step");
    if (json_is_integer(step) && json_integer_value(step) >= 0 &&
        read_print(note, "fingerprint", &out->weights)) {
        *found = 1;
        out->step = (uint64_t)json_integer_value(step);
        out->has_state = read_print(note, "state", &out->state);
        out->has_journal = read_print(note, "journal", &out->journal);
    }
    json_decref(note);
    free(path);
    return status == ZEST_ERROR_FORMAT ? ZEST_OK : status;
}

int zest_checkpoint_read(const char *folder, uint64_t *step, uint64_t *fingerprint) {
    checkpoint_note note;
    zest_error ignored = {0};
    int found;
    if (read_note(folder, &note, &found, &ignored) || !found) return 0;
    *step = note.step;
    *fingerprint = note.weights;
    return 1;
}

static zest_status write_note(const char *folder, const zest_model *model, const zest_params *state,
                              uint64_t step, const uint32_t *journal, zest_error *error) {
    char text[256], more[64] = "", run[64] = "";
    if (state) snprintf(more, sizeof more, ", \"state\": \"%016" PRIx64 "\"", zest_params_fingerprint(state));
    if (journal) snprintf(run, sizeof run, ", \"journal\": \"%08" PRIx32 "\"", *journal);
    snprintf(text, sizeof text, "{\"step\": %" PRIu64 ", \"fingerprint\": \"%016" PRIx64 "\"%s%s}\n", step,
             zest_params_fingerprint(&model->params), more, run);
    char *path = zest_file_join(folder, "zest.json");
    if (!path) return zest_error_memory(error, folder, strlen(folder));
    zest_status status = zest_file_write(path, text, strlen(text), error);
    free(path);
    return status;
}

int zest_checkpoint_is_foreign(const char *name, const zest_journal *journal, int recorded) {
    for (int i = 0; i < VERSIONS; i++) {
        char *path = with_ending(name, i);
        checkpoint_note note;
        zest_error ignored = {0};
        int found, unread = read_note(path, &note, &found, &ignored) != ZEST_OK;
        free(path);
        if (unread || !found || !note.has_journal) continue;
        if (recorded && note.step > zest_journal_steps(journal)) continue; /* it is not used, then */
        if (note.journal != zest_journal_checksum_at(journal, recorded ? note.step : 0)) return 1;
    }
    return 0;
}

/* ---- Writing ---- */

zest_status zest_checkpoint_write(const char *folder, const zest_loaded *loaded, uint64_t step,
                                  const uint32_t *journal, zest_error *error) {
    zest_status status = zest_load_save(loaded, folder, error);
    return status ? status : write_note(folder, loaded->model, NULL, step, journal, error);
}

static zest_status write_state(const char *folder, const zest_params *state, zest_error *error) {
    zest_safetensors_source sources[MAX_ARRAYS];
    size_t shapes[MAX_ARRAYS];
    if (state->count > MAX_ARRAYS)
        return zest_error_set(error, ZEST_ERROR_STATE, "a state of more than %d arrays", MAX_ARRAYS);
    for (size_t i = 0; i < state->count; i++) {
        shapes[i] = (size_t)state->tensors[i].count;
        sources[i] = (zest_safetensors_source){.name = state->tensors[i].name,
                                               .dtype = state->tensors[i].dtype,
                                               .rank = 1,
                                               .shape = &shapes[i],
                                               .data = state->tensors[i].data};
    }
    char *path = zest_file_join(folder, state_file);
    if (!path) return zest_error_memory(error, folder, strlen(folder));
    zest_status status = zest_safetensors_write(path, sources, state->count, NULL, error);
    free(path);
    return status;
}

static zest_status rename_to(const char *from, const char *to, int may_be_missing, zest_error *error) {
    if (!rename(from, to) || (may_be_missing && errno == ENOENT)) return ZEST_OK;
    return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be renamed to %s", from, to);
}

zest_status zest_checkpoint_write_state(const char *name, const zest_loaded *loaded, const zest_params *state,
                                        uint64_t step, uint32_t journal, zest_error *error) {
    char *fresh = with_ending(name, 1), *old = with_ending(name, 2);
    if (state && !state->count) state = NULL;
    zest_status status =
        fresh && old ? zest_file_remove_folder(fresh, error) : zest_error_memory(error, name, strlen(name));
    if (!status) status = zest_load_save(loaded, fresh, error);
    if (!status && state) status = write_state(fresh, state, error);
    if (!status) status = write_note(fresh, loaded->model, state, step, &journal, error);
    if (!status) status = zest_file_remove_folder(old, error);
    if (!status) status = rename_to(name, old, 1, error);
    if (!status) status = rename_to(fresh, name, 0, error);
    if (!status) zest_file_sync_folder_of(name);
    if (!status) status = zest_file_remove_folder(old, error);
    free(fresh);
    free(old);
    return status;
}

/* ---- Reading ---- */

/* The state's arrays in a file, as parameters; the file stays open. */
static zest_status open_state(const char *folder, zest_safetensors **file, zest_tensor tensors[MAX_ARRAYS],
                              zest_params *state, zest_error *error) {
    char *path = zest_file_join(folder, state_file);
    *file = NULL;
    *state = (zest_params){tensors, 0, 0};
    zest_status status =
        path ? zest_safetensors_open(path, file, error) : zest_error_memory(error, folder, strlen(folder));
    if (!status && zest_safetensors_count(*file) > MAX_ARRAYS)
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: has more than %d arrays", path, MAX_ARRAYS);
    for (size_t i = 0; !status && i < zest_safetensors_count(*file); i++) {
        const zest_safetensors_tensor *t = zest_safetensors_at(*file, i);
        tensors[i] =
            (zest_tensor){t->name, t->dtype, state->dimension, t->count, (void *)(uintptr_t)t->data, {0}};
        state->dimension += t->count;
        state->count++;
    }
    free(path);
    return status;
}

static zest_status damaged(const char *path, const char *what, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: is damaged: its %s have not the fingerprint that its zest.json has", path,
                          what);
}

static zest_status check_state(const char *folder, const checkpoint_note *note, zest_error *error) {
    zest_safetensors *file;
    zest_tensor tensors[MAX_ARRAYS];
    zest_params state;
    if (!note->has_state) return ZEST_OK;
    zest_status status = open_state(folder, &file, tensors, &state, error);
    if (!status && zest_params_fingerprint(&state) != note->state)
        status = damaged(folder, "optimizer's arrays", error);
    zest_safetensors_close(file);
    return status;
}

/* NAME, NAME.new and NAME.old: those with a zest.json, *count of them, newest first. */
static zest_status find_versions(const char *name, char *paths[VERSIONS], checkpoint_note notes[VERSIONS],
                                 int *count, zest_error *error) {
    zest_status status = ZEST_OK;
    *count = 0;
    for (int i = 0; i < VERSIONS && !status; i++) {
        char *path = with_ending(name, i);
        checkpoint_note note;
        int at = *count, found = 0;
        status = read_note(path, &note, &found, error);
        if (!found) {
            free(path);
            continue;
        }
        for (; at > 0 && notes[at - 1].step < note.step; at--) {
            notes[at] = notes[at - 1];
            paths[at] = paths[at - 1];
        }
        notes[at] = note;
        paths[at] = path;
        ++*count;
    }
    return status;
}

static zest_status load_version(const char *path, const checkpoint_note *note, const zest_options *options,
                                zest_loaded *loaded, zest_error *error) {
    zest_status status = check_state(path, note, error);
    if (!status) status = zest_load_checkpoint(loaded, path, options, error);
    if (!status && zest_params_fingerprint(&loaded->model->params) != note->weights)
        status = damaged(path, "weights", error);
    if (status) zest_load_free(loaded);
    return status;
}

/* Damaged, or being removed when a kill came, which an older version is: not a matter of trying again. */
static int is_lost(zest_status status, const char *path) {
    struct stat info;
    char *weights = zest_file_join(path, "model.safetensors");
    int missing = weights && stat(weights, &info) && errno == ENOENT;
    free(weights);
    return status == ZEST_ERROR_FORMAT || missing;
}

zest_status zest_checkpoint_load(const char *name, const zest_options *options, zest_loaded *loaded,
                                 zest_checkpoint *checkpoint, zest_error *error) {
    char *paths[VERSIONS];
    checkpoint_note notes[VERSIONS];
    int count;
    *checkpoint = (zest_checkpoint){0};
    *loaded = (zest_loaded){0};
    zest_status status = find_versions(name, paths, notes, &count, error);
    for (int i = 0; i < count && !status && !checkpoint->path; i++) {
        status = load_version(paths[i], &notes[i], options, loaded, error);
        if (status) {
            if (is_lost(status, paths[i])) status = ZEST_OK;
            continue;
        }
        *checkpoint = (zest_checkpoint){paths[i], notes[i].step};
        paths[i] = NULL;
    }
    for (int i = 0; i < count; i++) free(paths[i]);
    return status;
}

int zest_checkpoint_step(const char *name, uint64_t *step) {
    char *paths[VERSIONS];
    checkpoint_note notes[VERSIONS];
    zest_error ignored = {0};
    int count;
    zest_status status = find_versions(name, paths, notes, &count, &ignored);
    for (int i = 0; i < count; i++) free(paths[i]);
    if (!status && count) *step = notes[0].step;
    return !status && count > 0;
}

zest_status zest_checkpoint_read_state(const zest_checkpoint *checkpoint, const zest_params *state,
                                       zest_error *error) {
    zest_safetensors *file;
    zest_tensor tensors[MAX_ARRAYS];
    zest_params stored;
    if (!state->count) return ZEST_OK;
    zest_status status = open_state(checkpoint->path, &file, tensors, &stored, error);
    int good = stored.count == state->count;
    for (size_t i = 0; i < state->count && good && !status; i++) {
        const zest_tensor *from = &stored.tensors[i], *to = &state->tensors[i];
        good = !strcmp(from->name, to->name) && from->dtype == to->dtype && from->count == to->count;
        if (good) memcpy(to->data, from->data, (size_t)to->count * zest_dtype_size(to->dtype));
    }
    zest_safetensors_close(file);
    return good || status
               ? status
               : zest_error_set(error, ZEST_ERROR_FORMAT, "%s/%s: does not hold the state of this method",
                                checkpoint->path, state_file);
}

zest_status zest_checkpoint_recover(const char *name, zest_checkpoint *checkpoint, zest_error *error) {
    zest_status status = ZEST_OK;
    if (strcmp(name, checkpoint->path)) {
        status = zest_file_remove_folder(name, error); /* older, or incomplete */
        if (!status) status = rename_to(checkpoint->path, name, 0, error);
        char *path = status ? NULL : strdup(name);
        if (!status && !path) status = zest_error_memory(error, name, strlen(name));
        if (path) {
            free(checkpoint->path);
            checkpoint->path = path;
        }
    }
    for (int i = 1; i < VERSIONS && !status; i++) {
        char *path = with_ending(name, i);
        status = path ? zest_file_remove_folder(path, error) : zest_error_memory(error, name, strlen(name));
        free(path);
    }
    return status;
}
