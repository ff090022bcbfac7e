/* Download and storage of the files of a Hub repository: hash check, resumption of partial files, locks,
 * and the folder layout of the cache. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "io/hub_internal.h"

/* ---- Storage ---- */

/* A formatted string, to be freed; NULL: out of memory. */
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

/* Creates the folder and its parents. */
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

/* Creates the parent folders of a file. */
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

/* The path of the file in the model's folder, to be freed. */
static char *file_path(const zest_hub_store *store, const zest_hub_file *file) {
    return zest_file_join(store->folder, file->name);
}

zest_status zest_hub_store_paths(const zest_hub_store *store, const zest_hub_file *file, char **final_path,
                                 char **partial_path, zest_error *error) {
    *final_path = store->repo ? format("%s/blobs/%s", store->repo, file->hash) : file_path(store, file);
    *partial_path = store->repo ? format("%s/blobs/%s.incomplete", store->repo, file->hash)
                                : format("%s/%s.%.16s.incomplete", store->folder, file->name, file->hash);
    if (*final_path && *partial_path) return make_folders_of(*partial_path, error);
    free(*final_path);
    free(*partial_path);
    *final_path = *partial_path = NULL;
    return zest_error_memory(error, file->name, 0);
}

/* Tries to take the lock of this file. *lock is a descriptor to close, or -1 when no lock is needed or the
 * file system has none. Returns 0 when another process holds it. */
static int lock_file(const zest_hub_store *store, const zest_hub_file *file, int *lock) {
    *lock = -1;
    if (!store->repo) return flock(store->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    char *path = format("%s/%s.lock", store->locks, file->hash);
    int descriptor = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664) : -1;
    free(path);
    if (descriptor < 0) return 1; /* the hash is checked anyway: the lock only avoids a second download */
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return *lock = descriptor, 1;
    int locked = errno == EWOULDBLOCK;
    close(descriptor);
    return !locked;
}

/* Creates the link under a temporary name and renames it, so that it is replaced atomically. */
static zest_status replace_link(const char *target, const char *path, zest_error *error) {
    char *temporary = format("%s.%ld.tmp", path, (long)getpid());
    if (!temporary) return zest_error_memory(error, path, 0);
    unlink(temporary);
    int failed = symlink(target, temporary) || rename(temporary, path);
    zest_status status =
        failed ? zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: the link cannot be made", path) : ZEST_OK;
    if (failed) unlink(temporary);
    free(temporary);
    return status;
}

static zest_status link_blob(const zest_hub_store *store, const zest_hub_file *file, const char *path,
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
        /* without symbolic links the file itself is moved there, as huggingface_hub does */
        if (status && rename(blob, path) == 0) status = ZEST_OK;
    }
    free(blob);
    zest_buffer_free(&target);
    return status;
}

zest_status zest_hub_store_link(const zest_hub_store *store, const zest_hub_file *file, zest_error *error) {
    if (!store->repo) return ZEST_OK;
    char *path = file_path(store, file);
    struct stat info;
    if (!path) return zest_error_memory(error, file->name, 0);
    zest_status status = ZEST_OK;
    if (stat(path, &info) || (uint64_t)info.st_size != file->size) {
        status = make_folders_of(path, error);
        if (!status) status = link_blob(store, file, path, error);
        if (!status) zest_file_sync_folder_of(path);
    }
    free(path);
    return status;
}

zest_status zest_hub_store_write_ref(const zest_hub_store *store, const char *revision, const char *commit,
                                     zest_error *error) {
    if (!store->repo || !strcmp(revision, commit)) return ZEST_OK;
    char *path = format("%s/refs/%s", store->repo, revision);
    if (!path) return zest_error_memory(error, revision, 0);
    zest_status status = make_folders_of(path, error);
    if (!status) status = zest_file_write(path, commit, strlen(commit), error);
    free(path);
    return status;
}

uint64_t zest_hub_store_free_space(const zest_hub_store *store) {
    struct statvfs info;
    if (statvfs(store->repo ? store->repo : store->folder, &info)) return UINT64_MAX;
    return (uint64_t)info.f_bavail * info.f_frsize;
}

/* ---- Download of one file ---- */

/* A transfer in progress. */
typedef struct {
    const zest_hub_file *file;
    zest_hub_reporter *reporter;
    uint64_t done_before; /* progress.done when this file began */
    const char *path;
    int descriptor;
    uint64_t received; /* bytes on disk, all of them hashed */
    int resumed;       /* the file was, or will be, assembled from several responses */
    zest_sha sha;
} transfer;

/* ---- Hashes ---- */

/* Git hashes a header with the size in front of the content; an LFS object is hashed without one. */
static void begin_hash(zest_sha *sha, const zest_hub_file *file) {
    int git = strlen(file->hash) == ZEST_SHA_1_DIGITS;
    char header[32];
    zest_sha_begin(sha, git ? ZEST_SHA_1 : ZEST_SHA_256);
    if (!git) return;
    int length = snprintf(header, sizeof header, "blob %" PRIu64, file->size);
    zest_sha_add(sha, header, (size_t)length + 1); /* with its NUL */
}

static int hash_matches(const zest_sha *sha, const zest_hub_file *file) {
    zest_sha end = *sha;
    char hex[ZEST_SHA_HEX_SIZE];
    zest_sha_end(&end, hex);
    return !strcmp(hex, file->hash);
}

/* Hashes the rest of the file. *size: number of bytes read. */
static zest_status hash_rest(int descriptor, const char *path, zest_sha *sha, uint64_t *size,
                             zest_error *error) {
    static const size_t block_size = 1 << 20;
    char *block = malloc(block_size);
    zest_status status = block ? ZEST_OK : zest_error_memory(error, path, block_size);
    *size = 0;
    while (!status) {
        ssize_t got = read(descriptor, block, block_size);
        if (got == 0) break;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", path);
            break;
        }
        zest_sha_add(sha, block, (size_t)got);
        *size += (uint64_t)got;
    }
    free(block);
    return status;
}

/* ---- Files that are present already ---- */

static int has_size(const char *path, uint64_t size) {
    struct stat info;
    return path && stat(path, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size == size;
}

/* A blob is named after its hash and renamed only after the check. A file in a plain folder may have been
 * changed, so it is hashed again. */
static int is_present(const zest_hub_store *store, const zest_hub_file *file, const char *final_path) {
    if (store->repo) {
        char *name = file_path(store, file);
        int present = has_size(final_path, file->size) || has_size(name, file->size);
        free(name);
        return present;
    }
    if (!has_size(final_path, file->size)) return 0;
    zest_sha sha;
    uint64_t size;
    int descriptor = open(final_path, O_RDONLY | O_CLOEXEC);
    begin_hash(&sha, file);
    int matches =
        descriptor >= 0 && !hash_rest(descriptor, final_path, &sha, &size, NULL) && hash_matches(&sha, file);
    if (descriptor >= 0) close(descriptor);
    return matches;
}

uint64_t zest_hub_download_missing(const zest_hub_store *store, const zest_hub_file *file) {
    char *final_path, *partial_path, *name = file_path(store, file);
    struct stat info;
    uint64_t missing = file->size;
    if (!zest_hub_store_paths(store, file, &final_path, &partial_path, NULL)) {
        if (has_size(final_path, file->size) || has_size(name, file->size))
            missing = 0;
        else if (stat(partial_path, &info) == 0)
            missing = (uint64_t)info.st_size < file->size ? file->size - (uint64_t)info.st_size : 0;
        free(final_path);
        free(partial_path);
    }
    free(name);
    return missing;
}

/* ---- Sink of a transfer ---- */

static uint64_t transfer_offset(void *user) {
    transfer *t = user;
    t->resumed |= t->received > 0;
    return t->received;
}

static zest_status restart(transfer *t, zest_error *error) {
    if (ftruncate(t->descriptor, 0) || lseek(t->descriptor, 0, SEEK_SET))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", t->path);
    begin_hash(&t->sha, t->file);
    t->received = 0;
    t->resumed = 0;
    t->reporter->progress.done = t->done_before;
    return ZEST_OK;
}

static zest_status transfer_begin(void *user, uint64_t offset, zest_error *error) {
    transfer *t = user;
    return offset == t->received ? ZEST_OK : restart(t, error);
}

static zest_status transfer_write(void *user, const void *bytes, size_t size, zest_error *error) {
    transfer *t = user;
    if (size > t->file->size - t->received)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the server sends more than the %" PRIu64 " bytes that the file has",
                              t->file->name, t->file->size);
    zest_status status = zest_file_write_all(t->descriptor, bytes, size, t->path, error);
    if (status) return status;
    zest_sha_add(&t->sha, bytes, size);
    t->received += size;
    t->reporter->progress.done = t->done_before + t->received;
    return ZEST_OK;
}

/* ---- Transfer ---- */

static zest_status open_partial(transfer *t, zest_error *error) {
    t->descriptor = open(t->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (t->descriptor < 0)
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", t->path);
    begin_hash(&t->sha, t->file);
    zest_status status = hash_rest(t->descriptor, t->path, &t->sha, &t->received, error);
    if (!status && t->received > t->file->size) status = restart(t, error);
    t->resumed = t->received > 0;
    t->reporter->progress.done = t->done_before + t->received;
    return status;
}

static zest_status wrong_content(const transfer *t, zest_error *error) {
    if (t->received != t->file->size)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: received %" PRIu64 " bytes, but the file has %" PRIu64, t->file->name,
                              t->received, t->file->size);
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: the hash of the received data differs from the one on the Hub. The data was "
                          "deleted; try again, or use another network or mirror",
                          t->file->name);
}

/* Resumes a partial file. If the assembled file has the wrong hash, downloads it once more from the start. */
static zest_status download_content(const zest_hub_downloader *d, transfer *t, const char *url,
                                    zest_hub_http_error *http_error, zest_error *error) {
    zest_hub_sink sink = {transfer_offset, transfer_begin, transfer_write, t};
    for (int again = 0;; again = 1) {
        zest_status status = ZEST_OK;
        if (t->received < t->file->size)
            status = zest_hub_http_get(d->http, url, &sink, 0, http_error, error);
        if (status && status != ZEST_ERROR_FORMAT) return status;
        if (!status && t->received == t->file->size && hash_matches(&t->sha, t->file)) return ZEST_OK;
        if (!status) status = wrong_content(t, error);
        if (again || !t->resumed) {
            unlink(t->path);
            return status;
        }
        status = restart(t, error);
        if (status) return status;
    }
}

static zest_status publish(transfer *t, const char *final_path, zest_error *error) {
    if (fsync(t->descriptor))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", t->path);
    if (rename(t->path, final_path))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be renamed", final_path);
    zest_file_sync_folder_of(final_path);
    return ZEST_OK;
}

static zest_status transfer_file(const zest_hub_downloader *d, const char *url, const zest_hub_file *file,
                                 const char *final_path, const char *partial_path,
                                 zest_hub_http_error *http_error, zest_error *error) {
    transfer t = {.file = file,
                  .reporter = d->reporter,
                  .done_before = d->reporter->progress.done,
                  .path = partial_path,
                  .descriptor = -1};
    zest_status status = open_partial(&t, error);
    if (!status) status = download_content(d, &t, url, http_error, error);
    if (!status) status = publish(&t, final_path, error);
    if (t.descriptor >= 0) close(t.descriptor);
    d->reporter->progress.done = t.done_before;
    return status;
}

zest_status zest_hub_download(const zest_hub_downloader *d, const char *url, const zest_hub_file *file,
                              zest_hub_http_error *http_error, zest_error *error) {
    char *final_path, *partial_path;
    int lock = -1, stopped = 0;
    zest_status status = zest_hub_store_paths(d->store, file, &final_path, &partial_path, error);
    if (status) return status;
    int present = is_present(d->store, file, final_path);
    while (!present && !stopped && !lock_file(d->store, file, &lock))
        stopped = zest_hub_reporter_wait(d->reporter, 0.2, "waiting for another pull of the same file");
    if (stopped) status = zest_hub_reporter_stopped(error);
    /* another process finished the download */
    if (!status && !present) present = is_present(d->store, file, final_path);
    if (!status && !present)
        status = transfer_file(d, url, file, final_path, partial_path, http_error, error);
    if (lock >= 0) close(lock);
    if (!status) d->reporter->progress.done += file->size;
    free(final_path);
    free(partial_path);
    return status;
}
