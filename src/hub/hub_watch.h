/* A pull as its caller sees it: progress is reported here, and here the caller may stop it. */
#ifndef ZEST_HUB_HUB_WATCH_H
#define ZEST_HUB_HUB_WATCH_H

#include "hub/hub.h"

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
