/* Models from the Hugging Face Hub: downloaded once, found by name afterwards. The cache has the layout of
 * Python's huggingface_hub, so each finds what the other downloaded. */
#ifndef ZEST_IO_HUB_H
#define ZEST_IO_HUB_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

typedef struct {
    char *name; /* in the repository: "config.json", "sub/file.gguf" */
    uint64_t size;
    char hash[ZEST_SHA_HEX_SIZE]; /* SHA-256 of an LFS file, git's SHA-1 of another; "": not known */
} zest_hub_file;

/* Progress of a pull. */
typedef struct {
    const char *file;     /* being downloaded; "": the file list */
    size_t index, count;  /* index of this file, number of files */
    uint64_t done, total; /* bytes of all files; files already present count as done */
    uint64_t received;    /* bytes received over the network */
    const char *note;     /* why the download is waiting; NULL: it is not */
} zest_hub_progress;

typedef struct {
    const char *repo;     /* ORG/NAME */
    const char *revision; /* branch, tag or commit; "": main */
    const char *out;      /* output folder; "": the cache */
    const char *file;     /* only this file; "": all that zest needs of the repository */
    int (*progress)(const zest_hub_progress *progress, void *user); /* return non-zero to stop. May be NULL */
    void *user;
} zest_hub_request;

typedef struct {
    char *folder;
    char commit[ZEST_SHA_1_DIGITS + 1];
    zest_hub_file *files;
    size_t count;
    uint64_t received; /* bytes received over the network */
} zest_hub_result;

/* Downloads the files that are missing. A pull that was interrupted resumes where it stopped. Needs libcurl
 * (see zest_hub_available). Free *pulled in any case. */
zest_status zest_hub_pull(const zest_hub_request *request, zest_hub_result *pulled, zest_error *error);
void zest_hub_result_free(zest_hub_result *pulled);

/* Whether this build has libcurl. */
int zest_hub_available(void);

/* The path of a model: `name` itself when such a file or folder exists; else the snapshot folder, or the GGUF
 * file in it, that was pulled as ORG/NAME or ORG/NAME@REVISION. Never uses the network. *path is to be freed. */
zest_status zest_hub_find(const char *name, char **path, zest_error *error);

/* Sets the error for a path that does not exist; for a snapshot it says how to download it again. Uses errno. */
zest_status zest_hub_find_missing(const char *path, zest_error *error);

/* The inverse: the ORG/NAME that a path in the cache belongs to. 0: the path is not in the cache. */
enum { ZEST_HUB_REPO_SIZE = 97 };
int zest_hub_find_repo(const char *path, char repo[ZEST_HUB_REPO_SIZE]);

/* ---- Settings from the environment: names and defaults of Python's huggingface_hub ---- */

typedef struct {
    char *endpoint;     /* HF_ENDPOINT, else https://huggingface.co; without a trailing slash */
    char *cache;        /* HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub; absolute */
    char *token;        /* HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; NULL: none */
    int offline;        /* HF_HUB_OFFLINE */
    long stall_seconds; /* HF_HUB_DOWNLOAD_TIMEOUT: a request without data for so long has failed */
} zest_hub_settings;

/* Free it in any case. */
zest_status zest_hub_settings_read(zest_hub_settings *settings, zest_error *error);
void zest_hub_settings_free(zest_hub_settings *settings);

/* The cache folder only, to be freed. NULL: there is no home folder; no_home sets the error for that. */
char *zest_hub_settings_cache(void);
zest_status zest_hub_settings_no_home(zest_error *error);

#endif
