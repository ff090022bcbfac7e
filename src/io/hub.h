/* Models from the Hugging Face Hub: downloaded once, found by name afterwards. The files lie where Python's
 * huggingface_hub puts them, so each finds what the other pulled. */
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

/* How far a pull is. */
typedef struct {
    const char *file;     /* being downloaded; "": the list of files */
    size_t index, count;  /* which of how many */
    uint64_t done, total; /* bytes of all files; those that were there already count as done */
    uint64_t received;    /* bytes that came over the network */
    const char *note;     /* why nothing moves at the moment; NULL: it does */
} zest_hub_progress;

typedef struct {
    const char *repo;     /* ORG/NAME */
    const char *revision; /* branch, tag or commit; "": main */
    const char *out;      /* a folder for the files; "": the cache */
    const char *file;     /* this file alone; "": what zest needs of the repository */
    int (*progress)(const zest_hub_progress *progress, void *user); /* not 0: stop. May be NULL */
    void *user;
} zest_hub_request;

typedef struct {
    char *folder;
    char commit[ZEST_SHA_1_DIGITS + 1];
    zest_hub_file *files;
    size_t count;
    uint64_t received; /* bytes that came over the network */
} zest_hub_pulled;

/* Downloads what is not there yet. A pull that was stopped, killed or cut off goes on where it was when it is
 * called again. Needs libcurl (see zest_hub_available). Free *pulled whatever this says. */
zest_status zest_hub_pull(const zest_hub_request *request, zest_hub_pulled *pulled, zest_error *error);
void zest_hub_pulled_free(zest_hub_pulled *pulled);

/* Whether this build has libcurl. */
int zest_hub_available(void);

/* Where a model is: `name` itself when there is such a file or folder; else what was pulled as ORG/NAME or
 * ORG/NAME@REVISION, the folder of its snapshot or the GGUF file in it. Never goes to the network. *path is
 * to be freed. */
zest_status zest_hub_find(const char *name, char **path, zest_error *error);

/* The message for a path that is not there: of a snapshot, how to get it again. errno says why. */
zest_status zest_hub_find_missing(const char *path, zest_error *error);

/* The other way round: the ORG/NAME that a path in the cache belongs to. 0: it is not of the cache. */
enum { ZEST_HUB_REPO_SIZE = 97 };
int zest_hub_find_repo(const char *path, char repo[ZEST_HUB_REPO_SIZE]);

/* What the environment says about the Hub, by the names and defaults of Python's huggingface_hub. */

typedef struct {
    char *endpoint;     /* HF_ENDPOINT, else https://huggingface.co; without a slash at the end */
    char *cache;        /* HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub; absolute */
    char *token;        /* HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; NULL: none */
    int offline;        /* HF_HUB_OFFLINE */
    long stall_seconds; /* HF_HUB_DOWNLOAD_TIMEOUT: without data for so long, a request has failed */
} zest_hub_settings;

/* Free it whatever this says. */
zest_status zest_hub_settings_read(zest_hub_settings *settings, zest_error *error);
void zest_hub_settings_free(zest_hub_settings *settings);

/* The cache alone, which needs no token and no endpoint. To be freed; NULL: there is no home folder, which
 * no_home says. */
char *zest_hub_settings_cache(void);
zest_status zest_hub_settings_no_home(zest_error *error);

/* A pull as its caller sees it: progress is reported here, and here the caller may stop it. */

typedef struct {
    const zest_hub_request *request;
    zest_hub_progress progress;
} zest_hub_watch;

/* Reports; not 0: the caller wants to stop. */
int zest_hub_watch_report(zest_hub_watch *watch);
/* Waits with a note for the caller; not 0: it wants to stop. */
int zest_hub_watch_wait(zest_hub_watch *watch, double seconds, const char *note);
/* The error of a pull that the caller stopped. */
zest_status zest_hub_watch_stopped(zest_error *error);

#endif
