/* What the files of the Hub client share: names and cache files, HTTP requests, downloads. */
#ifndef ZEST_IO_HUB_INTERNAL_H
#define ZEST_IO_HUB_INTERNAL_H

#include "io/hub.h"

enum { ZEST_HUB_REVISION_SIZE = 201, ZEST_HUB_FILE_SIZE = 256 };

/* ORG/NAME, or a NAME alone (repositories of the Hub's first years), by the Hub's rules. */
int zest_hub_name_repo(const char *name);
int zest_hub_name_has_org(const char *name);
/* A branch, tag or commit; may have slashes, never leads out of a folder. */
int zest_hub_name_revision(const char *name);
/* A file in a repository: relative, no empty part, no "." or "..", no backslash, no control character. */
int zest_hub_name_file(const char *name);
/* `digits` lower-case hexadecimal digits. */
int zest_hub_name_hex(const char *text, size_t digits);

/* Takes "ORG/NAME@REVISION" or "ORG/NAME" apart (revision: "main" then). 0: it is neither. */
int zest_hub_name_split(const char *name, char repo[ZEST_HUB_REPO_SIZE],
                        char revision[ZEST_HUB_REVISION_SIZE]);

/* The repository that a well-known short name means: "roberta-base" is FacebookAI/roberta-base. NULL: none.
 */
const char *zest_hub_name_known(const char *name);

/* Replaces control characters, for text of a server that a message shows. */
void zest_hub_name_clean(char *text);

/* The list of a repository's files as the Hub sends it, and which of them zest needs. */

typedef struct {
    char commit[ZEST_SHA_1_DIGITS + 1];
    zest_hub_file *files; /* in the order of the Hub; those whose names are not accepted are left out */
    size_t count;
    const char *auto_class; /* of Python's transformers: AutoModelForMaskedLM or AutoModelForCausalLM */
} zest_hub_list;

/* The answer to GET /api/models/ORG/NAME/revision/REVISION?blobs=true. Free it whatever this says. */
zest_status zest_hub_list_parse(const char *text, size_t size, const char *source, zest_hub_list *list,
                                zest_error *error);
void zest_hub_list_free(zest_hub_list *list);
/* NULL: there is none of this name. */
const zest_hub_file *zest_hub_list_find(const zest_hub_list *list, const char *name);

/* Those to download, as pointers into a list, in the order in which they are downloaded and placed: a model's
 * config.json comes last, since a folder without one is no model yet. */
typedef struct {
    const zest_hub_file **files;
    size_t count;
    const zest_hub_file *index; /* of the shards, which are still to be added; NULL: there is none */
} zest_hub_choice;

/* `only`: this file; "": what a model is made of. repo is for messages. Free it whatever this says. */
zest_status zest_hub_choice_make(zest_hub_choice *choice, const zest_hub_list *list, const char *only,
                                 const char *repo, zest_error *error);
/* Adds the shards that the downloaded index names. */
zest_status zest_hub_choice_shards(zest_hub_choice *choice, const zest_hub_list *list, const char *index_path,
                                   const char *repo, zest_error *error);
void zest_hub_choice_free(zest_hub_choice *choice);

/* Requests to the Hub, by libcurl: redirects, waiting and trying again. */

typedef struct zest_hub_http zest_hub_http;

/* Where an answer goes. A request that was cut off is sent again from offset() on. */
typedef struct {
    uint64_t (*offset)(void *user);
    /* The bytes that follow start here: at the offset, or at 0 when the server sends all of it again. */
    zest_status (*begin)(void *user, uint64_t offset, zest_error *error);
    zest_status (*write)(void *user, const void *bytes, size_t size, zest_error *error);
    void *user;
} zest_hub_sink;

/* How a server refused; status 0: it did not. Texts are cut and cleaned. */
typedef struct {
    long status;
    char code[64];  /* X-Error-Code: GatedRepo, RepoNotFound, RevisionNotFound, EntryNotFound */
    char text[256]; /* X-Error-Message */
} zest_hub_refusal;

/* NULL with an error set: also when the build has no libcurl. */
zest_hub_http *zest_hub_http_open(const zest_hub_settings *settings, zest_hub_watch *watch,
                                  zest_error *error);
void zest_hub_http_close(zest_hub_http *http);

/* GET. url belongs to the endpoint; the token goes there alone, whatever redirects say. Tries again after
 * network errors, 429 and 5xx. `seconds` limits one try; 0: there is no limit as long as data come. */
zest_status zest_hub_http_get(zest_hub_http *http, const char *url, const zest_hub_sink *sink, long seconds,
                              zest_hub_refusal *refusal, zest_error *error);

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

/* CURL=dlopen: is libcurl on this machine? See io/curl_dlopen.c. */
int zest_curl_dlopen_found(void);

#endif
