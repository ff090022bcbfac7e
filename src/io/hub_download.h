/* Where the files of a pull lie: the cache that zest shares with Python's huggingface_hub, or a plain folder.
 *
 *   CACHE/models--ORG--NAME/blobs/HASH                 the bytes; HASH.incomplete while they come
 *   CACHE/models--ORG--NAME/snapshots/COMMIT/FILE      a link to the blob
 *   CACHE/models--ORG--NAME/refs/REVISION              the commit that a branch or tag meant
 *   CACHE/.locks/models--ORG--NAME/HASH.lock           held while a blob is downloaded
 *
 * In a plain folder the partial file is FILE.HASH.incomplete, with 16 digits of the hash, and the folder
 * itself is locked. In both the name of a partial file tells what it is a part of, so a file that changed on
 * the Hub is never continued with bytes of the new one. */
#ifndef ZEST_IO_HUB_DOWNLOAD_H
#define ZEST_IO_HUB_DOWNLOAD_H

#include "io/hub.h"
#include "io/hub_http.h"

typedef struct {
    char *folder; /* the snapshot, or the plain folder */
    char *repo;   /* CACHE/models--ORG--NAME; NULL: a plain folder */
    char *locks;
    int lock; /* of the plain folder; -1: none */
} zest_hub_store;

/* CACHE/models--ORG--NAME, to be freed; NULL when memory is short. */
char *zest_hub_store_repo(const char *cache, const char *repo);

/* Makes the folders. Close it whatever this says. */
zest_status zest_hub_store_open(zest_hub_store *store, const zest_hub_settings *settings, const char *repo,
                                const char *commit, const char *out, zest_error *error);
void zest_hub_store_close(zest_hub_store *store);

/* Where the file's bytes go when they are whole, and until then. To be freed. */
zest_status zest_hub_store_paths(const zest_hub_store *store, const zest_hub_file *file, char **whole,
                                 char **partial, zest_error *error);

/* Tries to lock what this file needs. *lock is a descriptor to close, or -1 when no lock is needed or the
 * file system has none. Returns 0 when another process holds it. */
int zest_hub_store_lock(const zest_hub_store *store, const zest_hub_file *file, int *lock);

/* The path under which the model has the file, to be freed. */
char *zest_hub_store_name(const zest_hub_store *store, const zest_hub_file *file);

/* Puts the file into the snapshot under its name. */
zest_status zest_hub_store_place(const zest_hub_store *store, const zest_hub_file *file, zest_error *error);

/* The last act of a pull: notes what the branch or tag means. Until then the pull is not found by it. */
zest_status zest_hub_store_note(const zest_hub_store *store, const char *revision, const char *commit,
                                zest_error *error);

/* Bytes that the file system has left, as far as it says. */
uint64_t zest_hub_store_space(const zest_hub_store *store);

/* One file of a repository: downloaded, checked, and moved to its place as a whole. */

typedef struct {
    zest_hub_http *http;
    const zest_hub_store *store;
    zest_hub_watch *watch;
} zest_hub_downloader;

/* Gets the file from this URL unless it is there. Bytes of an earlier try are kept and continued; another
 * process that downloads the same file is waited for. Moves watch->progress.done on by the file's size. */
zest_status zest_hub_download(const zest_hub_downloader *d, const char *url, const zest_hub_file *file,
                              zest_hub_refusal *refusal, zest_error *error);

/* How many bytes of it are still to come, as far as sizes tell. */
uint64_t zest_hub_download_missing(const zest_hub_store *store, const zest_hub_file *file);

#endif
