/* What the environment says about the Hub, by the names and defaults of Python's huggingface_hub. */
#ifndef ZEST_HUB_HUB_SETTINGS_H
#define ZEST_HUB_HUB_SETTINGS_H

#include "base/error.h"

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

#endif
