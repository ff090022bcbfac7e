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

#include "io/hub_internal.h"
#include "base/file.h"

/* A file that is on its way. */
typedef struct {
    const zest_hub_file *file;
    zest_hub_watch *watch;
    uint64_t before; /* progress when this file began */
    const char *path;
    int descriptor;
    uint64_t have; /* bytes on disk, all of them in the hash */
    int pieced;    /* they came, or are to come, in more than one answer */
    zest_sha sha;
} transfer;

/* ---- Hashes ---- */

/* Git hashes a header with a file's size in front of it; an LFS object is hashed as it is. */
static void begin_hash(zest_sha *sha, const zest_hub_file *file) {
    int git = strlen(file->hash) == ZEST_SHA_1_DIGITS;
    char header[32];
    zest_sha_begin(sha, git ? ZEST_SHA_1 : ZEST_SHA_256);
    if (!git) return;
    int length = snprintf(header, sizeof header, "blob %" PRIu64, file->size);
    zest_sha_add(sha, header, (size_t)length + 1); /* with its NUL */
}

static int hash_fits(const zest_sha *sha, const zest_hub_file *file) {
    zest_sha end = *sha;
    char hex[ZEST_SHA_HEX_SIZE];
    zest_sha_end(&end, hex);
    return !strcmp(hex, file->hash);
}

/* Hashes what is left to read. *size: how much that was. */
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

/* ---- What is there already ---- */

static int has_size(const char *path, uint64_t size) {
    struct stat info;
    return path && stat(path, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size == size;
}

/* A blob carries its hash as its name and gets it only when it was checked; a file of a plain folder may have
 * been changed by anyone. */
static int is_there(const zest_hub_store *store, const zest_hub_file *file, const char *whole) {
    if (store->repo) {
        char *name = zest_hub_store_name(store, file);
        int there = has_size(whole, file->size) || has_size(name, file->size);
        free(name);
        return there;
    }
    if (!has_size(whole, file->size)) return 0;
    zest_sha sha;
    uint64_t size;
    int descriptor = open(whole, O_RDONLY | O_CLOEXEC);
    begin_hash(&sha, file);
    int good = descriptor >= 0 && !hash_rest(descriptor, whole, &sha, &size, NULL) && hash_fits(&sha, file);
    if (descriptor >= 0) close(descriptor);
    return good;
}

uint64_t zest_hub_download_missing(const zest_hub_store *store, const zest_hub_file *file) {
    char *whole, *partial, *name = zest_hub_store_name(store, file);
    struct stat info;
    uint64_t missing = file->size;
    if (!zest_hub_store_paths(store, file, &whole, &partial, NULL)) {
        if (has_size(whole, file->size) || has_size(name, file->size))
            missing = 0;
        else if (stat(partial, &info) == 0)
            missing = (uint64_t)info.st_size < file->size ? file->size - (uint64_t)info.st_size : 0;
        free(whole);
        free(partial);
    }
    free(name);
    return missing;
}

/* ---- The sink of a transfer ---- */

static uint64_t transfer_offset(void *user) {
    transfer *t = user;
    t->pieced |= t->have > 0;
    return t->have;
}

static zest_status start_over(transfer *t, zest_error *error) {
    if (ftruncate(t->descriptor, 0) || lseek(t->descriptor, 0, SEEK_SET))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", t->path);
    begin_hash(&t->sha, t->file);
    t->have = 0;
    t->pieced = 0;
    t->watch->progress.done = t->before;
    return ZEST_OK;
}

static zest_status transfer_begin(void *user, uint64_t offset, zest_error *error) {
    transfer *t = user;
    return offset == t->have ? ZEST_OK : start_over(t, error);
}

static zest_status transfer_write(void *user, const void *bytes, size_t size, zest_error *error) {
    transfer *t = user;
    if (size > t->file->size - t->have)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the server sends more than the %" PRIu64 " bytes that the file has",
                              t->file->name, t->file->size);
    zest_status status = zest_file_write_all(t->descriptor, bytes, size, t->path, error);
    if (status) return status;
    zest_sha_add(&t->sha, bytes, size);
    t->have += size;
    t->watch->progress.done = t->before + t->have;
    return ZEST_OK;
}

/* ---- A transfer ---- */

static zest_status open_partial(transfer *t, zest_error *error) {
    t->descriptor = open(t->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (t->descriptor < 0)
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", t->path);
    begin_hash(&t->sha, t->file);
    zest_status status = hash_rest(t->descriptor, t->path, &t->sha, &t->have, error);
    if (!status && t->have > t->file->size) status = start_over(t, error);
    t->pieced = t->have > 0;
    t->watch->progress.done = t->before + t->have;
    return status;
}

static zest_status complain(const transfer *t, zest_error *error) {
    if (t->have != t->file->size)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the server sent %" PRIu64 " bytes, but the file has %" PRIu64,
                              t->file->name, t->have, t->file->size);
    return zest_error_set(
        error, ZEST_ERROR_FORMAT,
        "%s: what the server sent is not the file that the Hub names (its hash differs). Nothing "
        "of it is kept; try again, and if that does not help, another network or mirror",
        t->file->name);
}

/* Continues what is there. If the pieces then do not make the file, they are to blame: once more from the
 * start. */
static zest_status fetch(const zest_hub_downloader *d, transfer *t, const char *url,
                         zest_hub_refusal *refusal, zest_error *error) {
    zest_hub_sink sink = {transfer_offset, transfer_begin, transfer_write, t};
    for (int again = 0;; again = 1) {
        zest_status status = ZEST_OK;
        if (t->have < t->file->size) status = zest_hub_http_get(d->http, url, &sink, 0, refusal, error);
        if (status && status != ZEST_ERROR_FORMAT) return status;
        if (!status && t->have == t->file->size && hash_fits(&t->sha, t->file)) return ZEST_OK;
        if (!status) status = complain(t, error);
        if (again || !t->pieced) {
            unlink(t->path);
            return status;
        }
        status = start_over(t, error);
        if (status) return status;
    }
}

static zest_status finish(transfer *t, const char *whole, zest_error *error) {
    if (fsync(t->descriptor))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", t->path);
    if (rename(t->path, whole))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be moved to its place", whole);
    zest_file_sync_folder_of(whole);
    return ZEST_OK;
}

static zest_status transfer_file(const zest_hub_downloader *d, const char *url, const zest_hub_file *file,
                                 const char *whole, const char *partial, zest_hub_refusal *refusal,
                                 zest_error *error) {
    transfer t = {.file = file,
                  .watch = d->watch,
                  .before = d->watch->progress.done,
                  .path = partial,
                  .descriptor = -1};
    zest_status status = open_partial(&t, error);
    if (!status) status = fetch(d, &t, url, refusal, error);
    if (!status) status = finish(&t, whole, error);
    if (t.descriptor >= 0) close(t.descriptor);
    d->watch->progress.done = t.before;
    return status;
}

zest_status zest_hub_download(const zest_hub_downloader *d, const char *url, const zest_hub_file *file,
                              zest_hub_refusal *refusal, zest_error *error) {
    char *whole, *partial;
    int lock = -1, stopped = 0;
    zest_status status = zest_hub_store_paths(d->store, file, &whole, &partial, error);
    if (status) return status;
    int there = is_there(d->store, file, whole);
    while (!there && !stopped && !zest_hub_store_lock(d->store, file, &lock))
        stopped = zest_hub_watch_wait(d->watch, 0.2, "waiting for another pull of the same file");
    if (stopped) status = zest_hub_watch_stopped(error);
    if (!status && !there) there = is_there(d->store, file, whole); /* the other one was quicker */
    if (!status && !there) status = transfer_file(d, url, file, whole, partial, refusal, error);
    if (lock >= 0) close(lock);
    if (!status) d->watch->progress.done += file->size;
    free(whole);
    free(partial);
    return status;
}

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
