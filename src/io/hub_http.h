/* Requests to the Hub, by libcurl: redirects, waiting and trying again. */
#ifndef ZEST_IO_HUB_HTTP_H
#define ZEST_IO_HUB_HTTP_H

#include "io/hub.h"

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

#endif
