/* Shared by the files of the Hub client: names, file lists, HTTP requests, the cache, downloads. */
#ifndef ZEST_IO_HUB_INTERNAL_H
#define ZEST_IO_HUB_INTERNAL_H

#include "io/hub.h"

enum { ZEST_HUB_REVISION_SIZE = 201, ZEST_HUB_FILE_SIZE = 256 };

/* ORG/NAME, or a NAME alone (repositories of the Hub's first years), by the Hub's rules. */
int zest_hub_name_is_repo(const char *name);
int zest_hub_name_has_org(const char *name);
/* A branch, tag or commit; may have slashes, never leads out of a folder. */
int zest_hub_name_is_revision(const char *name);
/* A file in a repository: relative, no empty component, no "." or "..", no backslash, no control character. */
int zest_hub_name_is_file(const char *name);
/* `digits` lower-case hexadecimal digits. */
int zest_hub_name_is_hex(const char *text, size_t digits);

/* Splits "ORG/NAME@REVISION" or "ORG/NAME" (revision "main"). 0: it is neither. */
int zest_hub_name_split(const char *name, char repo[ZEST_HUB_REPO_SIZE],
                        char revision[ZEST_HUB_REVISION_SIZE]);

/* The repository of a well-known short name: "roberta-base" is FacebookAI/roberta-base. NULL: unknown. */
const char *zest_hub_name_known(const char *name);

/* Replaces control characters in text from a server, before a message shows it. */
void zest_hub_name_sanitize(char *text);

/* ---- The file list of a repository ---- */

typedef struct {
    char commit[ZEST_SHA_1_DIGITS + 1];
    zest_hub_file *files; /* in the Hub's order, without those whose names are not accepted */
    size_t count;
    const char *auto_class; /* of Python's transformers: AutoModelForMaskedLM or AutoModelForCausalLM */
} zest_hub_list;

/* Parses the response of GET /api/models/ORG/NAME/revision/REVISION?blobs=true. Free it in any case. */
zest_status zest_hub_list_parse(const char *text, size_t size, const char *source, zest_hub_list *list,
                                zest_error *error);
void zest_hub_list_free(zest_hub_list *list);
/* NULL: no file has this name. */
const zest_hub_file *zest_hub_list_find(const zest_hub_list *list, const char *name);

/* The files to download, as pointers into a list, in the order in which they are downloaded and linked. The
 * config.json comes last: until it is present, the folder is not a model. */
typedef struct {
    const zest_hub_file **files;
    size_t count;
    const zest_hub_file *index; /* index of the shards, which are still to be added; NULL: none */
} zest_hub_selection;

/* `only`: this file; "": the files of a model. repo is for messages. Free it in any case. */
zest_status zest_hub_selection_make(zest_hub_selection *selection, const zest_hub_list *list,
                                    const char *only, const char *repo, zest_error *error);
/* Adds the shards that the downloaded index names. */
zest_status zest_hub_selection_add_shards(zest_hub_selection *selection, const zest_hub_list *list,
                                          const char *index_path, const char *repo, zest_error *error);
void zest_hub_selection_free(zest_hub_selection *selection);

/* ---- Progress callback and cancellation of a pull ---- */

typedef struct {
    const zest_hub_request *request;
    zest_hub_progress progress;
} zest_hub_reporter;

/* Calls the callback; non-zero: stop. */
int zest_hub_reporter_update(zest_hub_reporter *reporter);
/* Sleeps, with a note for the callback; non-zero: stop. */
int zest_hub_reporter_wait(zest_hub_reporter *reporter, double seconds, const char *note);
/* Sets the error of a pull that the callback stopped. */
zest_status zest_hub_reporter_stopped(zest_error *error);

/* ---- HTTP requests by libcurl, with redirects, retries and backoff ---- */

typedef struct zest_hub_http zest_hub_http;

/* Receiver of a response. An interrupted request is repeated from offset() on. */
typedef struct {
    uint64_t (*offset)(void *user);
    /* Position of the bytes that follow: the offset, or 0 when the server sends everything again. */
    zest_status (*begin)(void *user, uint64_t offset, zest_error *error);
    zest_status (*write)(void *user, const void *bytes, size_t size, zest_error *error);
    void *user;
} zest_hub_sink;

/* The error response of a server; status 0: none. Texts are truncated and control characters replaced. */
typedef struct {
    long status;
    char code[64];  /* X-Error-Code: GatedRepo, RepoNotFound, RevisionNotFound, EntryNotFound */
    char text[256]; /* X-Error-Message */
} zest_hub_http_error;

/* NULL with an error set, also when the build has no libcurl. */
zest_hub_http *zest_hub_http_open(const zest_hub_settings *settings, zest_hub_reporter *reporter,
                                  zest_error *error);
void zest_hub_http_close(zest_hub_http *http);

/* GET of a URL of the endpoint. The token is sent to the endpoint only, never to a redirect target. Retries
 * after network errors, 429 and 5xx. `seconds` limits one attempt; 0: no limit while data arrive. */
zest_status zest_hub_http_get(zest_hub_http *http, const char *url, const zest_hub_sink *sink, long seconds,
                              zest_hub_http_error *http_error, zest_error *error);

/* ---- Storage: the cache that zest shares with Python's huggingface_hub, or a plain folder ----
 *
 *   CACHE/models--ORG--NAME/blobs/HASH                 the content; HASH.incomplete during the download
 *   CACHE/models--ORG--NAME/snapshots/COMMIT/FILE      symbolic link to the blob
 *   CACHE/models--ORG--NAME/refs/REVISION              the commit of a branch or tag
 *   CACHE/.locks/models--ORG--NAME/HASH.lock           locked while a blob is downloaded
 *
 * In a plain folder the partial file is FILE.HASH.incomplete, with 16 digits of the hash, and the folder
 * itself is locked. In both the name of a partial file has the hash of the complete one, so a
 * download is never continued with bytes of another version. */

typedef struct {
    char *folder; /* the snapshot, or the plain folder */
    char *repo;   /* CACHE/models--ORG--NAME; NULL: a plain folder */
    char *locks;
    int lock; /* of the plain folder; -1: none */
} zest_hub_store;

/* CACHE/models--ORG--NAME, to be freed; NULL: out of memory. */
char *zest_hub_store_repo(const char *cache, const char *repo);

/* Creates the folders. Close it in any case. */
zest_status zest_hub_store_open(zest_hub_store *store, const zest_hub_settings *settings, const char *repo,
                                const char *commit, const char *out, zest_error *error);
void zest_hub_store_close(zest_hub_store *store);

/* The path of the complete file and that of the partial one during the download. To be freed. */
zest_status zest_hub_store_paths(const zest_hub_store *store, const zest_hub_file *file, char **final_path,
                                 char **partial_path, zest_error *error);

/* Links the blob into the snapshot under the name of the file. */
zest_status zest_hub_store_link(const zest_hub_store *store, const zest_hub_file *file, zest_error *error);

/* Last step of a pull: writes the commit of the branch or tag, by which the model is found from then on. */
zest_status zest_hub_store_write_ref(const zest_hub_store *store, const char *revision, const char *commit,
                                     zest_error *error);

/* Free bytes of the file system, as far as known. */
uint64_t zest_hub_store_free_space(const zest_hub_store *store);

/* ---- Download of one file: resumed, checked against its hash, then renamed ---- */

typedef struct {
    zest_hub_http *http;
    const zest_hub_store *store;
    zest_hub_reporter *reporter;
} zest_hub_downloader;

/* Downloads the file from this URL unless it is present. Resumes an earlier attempt; waits for another process
 * that downloads the same file. Adds the size of the file to reporter->progress.done. */
zest_status zest_hub_download(const zest_hub_downloader *d, const char *url, const zest_hub_file *file,
                              zest_hub_http_error *http_error, zest_error *error);

/* Number of bytes that remain to be downloaded, judged by file sizes. */
uint64_t zest_hub_download_missing(const zest_hub_store *store, const zest_hub_file *file);

/* CURL=dlopen: is libcurl on this machine? See io/curl_dlopen.c. */
int zest_curl_dlopen_found(void);

#endif
