/* One file of a repository: downloaded, checked, and moved to its place as a whole. */
#ifndef ZEST_HUB_HUB_DOWNLOAD_H
#define ZEST_HUB_HUB_DOWNLOAD_H

#include "hub/hub_http.h"
#include "hub/hub_store.h"

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
