#include "hub/hub_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/hub_name.h"

/* To be freed; NULL when memory is short. */
__attribute__((format(printf, 1, 2))) static char *format(const char *text, ...) {
    zest_buffer out = {0};
    va_list arguments;
    va_start(arguments, text);
    zest_buffer_vformat(&out, text, arguments);
    va_end(arguments);
    if (out.failed) zest_buffer_free(&out);
    return out.data;
}

char *zest_hub_store_repo(const char *cache, const char *repo) {
    const char *slash = strchr(repo, '/');
    int org = slash ? (int)(slash - repo) : 0;
    return slash ? format("%s/models--%.*s--%s", cache, org, repo, slash + 1)
                 : format("%s/models--%s", cache, repo);
}

/* The folder and those around it. */
static zest_status make_folders(const char *path, zest_error *error) {
    char *part = strdup(path);
    if (!part) return zest_error_memory(error, path, strlen(path));
    zest_status status = ZEST_OK;
    for (char *slash = strchr(part + 1, '/'); slash && !status; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        status = zest_file_make_folder(part, error);
        *slash = '/';
    }
    if (!status) status = zest_file_make_folder(part, error);
    free(part);
    return status;
}

/* The folders around a file. */
static zest_status make_folders_of(const char *path, zest_error *error) {
    char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (!folder) return zest_error_memory(error, path, strlen(path));
    zest_status status = ZEST_OK;
    if (slash && slash != folder) {
        *slash = '\0';
        status = make_folders(folder, error);
    }
    free(folder);
    return status;
}

static zest_status open_cache(zest_hub_store *store, const char *cache, const char *repo, const char *commit,
                              zest_error *error) {
    store->repo = zest_hub_store_repo(cache, repo);
    const char *folder = store->repo ? strrchr(store->repo, '/') + 1 : "";
    store->locks = format("%s/.locks/%s", cache, folder);
    store->folder = store->repo ? format("%s/snapshots/%s", store->repo, commit) : NULL;
    char *blobs = store->repo ? zest_file_join(store->repo, "blobs") : NULL;
    zest_status status = store->locks && store->folder && blobs ? make_folders(blobs, error)
                                                                : zest_error_memory(error, cache, 0);
    if (!status) status = make_folders(store->folder, error);
    if (!status) status = make_folders(store->locks, error);
    free(blobs);
    return status;
}

static zest_status open_plain(zest_hub_store *store, const char *out, zest_error *error) {
    size_t length = strlen(out);
    while (length > 1 && out[length - 1] == '/') length--;
    store->folder = strndup(out, length);
    if (!store->folder) return zest_error_memory(error, out, length);
    zest_status status = make_folders(store->folder, error);
    if (!status) store->lock = open(store->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!status && store->lock < 0)
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", out);
    return status;
}

zest_status zest_hub_store_open(zest_hub_store *store, const zest_hub_settings *settings, const char *repo,
                                const char *commit, const char *out, zest_error *error) {
    *store = (zest_hub_store){.lock = -1};
    return *out ? open_plain(store, out, error) : open_cache(store, settings->cache, repo, commit, error);
}

void zest_hub_store_close(zest_hub_store *store) {
    if (store->lock >= 0) close(store->lock);
    free(store->folder);
    free(store->repo);
    free(store->locks);
    *store = (zest_hub_store){.lock = -1};
}

char *zest_hub_store_name(const zest_hub_store *store, const zest_hub_file *file) {
    return zest_file_join(store->folder, file->name);
}

zest_status zest_hub_store_paths(const zest_hub_store *store, const zest_hub_file *file, char **whole,
                                 char **partial, zest_error *error) {
    *whole = store->repo ? format("%s/blobs/%s", store->repo, file->hash) : zest_hub_store_name(store, file);
    *partial = store->repo ? format("%s/blobs/%s.incomplete", store->repo, file->hash)
                           : format("%s/%s.%.16s.incomplete", store->folder, file->name, file->hash);
    if (*whole && *partial) return make_folders_of(*partial, error);
    free(*whole);
    free(*partial);
    *whole = *partial = NULL;
    return zest_error_memory(error, file->name, 0);
}

int zest_hub_store_lock(const zest_hub_store *store, const zest_hub_file *file, int *lock) {
    *lock = -1;
    if (!store->repo) return flock(store->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    char *path = format("%s/%s.lock", store->locks, file->hash);
    int descriptor = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664) : -1;
    free(path);
    if (descriptor < 0) return 1; /* the hash is checked anyway: a lock only saves a second download */
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return *lock = descriptor, 1;
    int held = errno == EWOULDBLOCK;
    close(descriptor);
    return !held;
}

/* A link is made beside its place and renamed: it is there or not, never in between. */
static zest_status replace_link(const char *target, const char *path, zest_error *error) {
    char *fresh = format("%s.%ld.tmp", path, (long)getpid());
    if (!fresh) return zest_error_memory(error, path, 0);
    unlink(fresh);
    int failed = symlink(target, fresh) || rename(fresh, path);
    zest_status status =
        failed ? zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: the link cannot be made", path) : ZEST_OK;
    if (failed) unlink(fresh);
    free(fresh);
    return status;
}

static zest_status place_link(const zest_hub_store *store, const zest_hub_file *file, const char *path,
                              zest_error *error) {
    zest_buffer target = {0};
    struct stat info;
    zest_buffer_text(&target, "../../");
    for (const char *c = file->name; *c; c++)
        if (*c == '/') zest_buffer_text(&target, "../");
    zest_buffer_format(&target, "blobs/%s", file->hash);
    char *blob = format("%s/blobs/%s", store->repo, file->hash);
    zest_status status = target.failed || !blob ? zest_error_memory(error, path, 0) : ZEST_OK;
    if (!status && stat(blob, &info) == 0) {
        status = replace_link(target.data, path, error);
        /* a file system without links has the file itself there, as huggingface_hub does it */
        if (status && rename(blob, path) == 0) status = ZEST_OK;
    }
    free(blob);
    zest_buffer_free(&target);
    return status;
}

zest_status zest_hub_store_place(const zest_hub_store *store, const zest_hub_file *file, zest_error *error) {
    if (!store->repo) return ZEST_OK;
    char *path = zest_hub_store_name(store, file);
    struct stat info;
    if (!path) return zest_error_memory(error, file->name, 0);
    zest_status status = ZEST_OK;
    if (stat(path, &info) || (uint64_t)info.st_size != file->size) {
        status = make_folders_of(path, error);
        if (!status) status = place_link(store, file, path, error);
        if (!status) zest_file_sync_folder_of(path);
    }
    free(path);
    return status;
}

zest_status zest_hub_store_note(const zest_hub_store *store, const char *revision, const char *commit,
                                zest_error *error) {
    if (!store->repo || !strcmp(revision, commit)) return ZEST_OK;
    char *path = format("%s/refs/%s", store->repo, revision);
    if (!path) return zest_error_memory(error, revision, 0);
    zest_status status = make_folders_of(path, error);
    if (!status) status = zest_file_write(path, commit, strlen(commit), error);
    free(path);
    return status;
}

uint64_t zest_hub_store_space(const zest_hub_store *store) {
    struct statvfs info;
    if (statvfs(store->repo ? store->repo : store->folder, &info)) return UINT64_MAX;
    return (uint64_t)info.f_bavail * info.f_frsize;
}
