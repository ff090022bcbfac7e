#include "hub/hub_watch.h"

#include <time.h>

#include "base/clock.h"

int zest_hub_watch_report(zest_hub_watch *watch) {
    const zest_hub_request *request = watch->request;
    return request->progress ? request->progress(&watch->progress, request->user) : 0;
}

int zest_hub_watch_wait(zest_hub_watch *watch, double seconds, const char *note) {
    double end = zest_clock_now() + seconds;
    int stop;
    watch->progress.note = note;
    while (!(stop = zest_hub_watch_report(watch)) && zest_clock_now() < end) {
        struct timespec slice = {.tv_nsec = 50000000};
        nanosleep(&slice, NULL);
    }
    watch->progress.note = NULL;
    return stop;
}

zest_status zest_hub_watch_stopped(zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_STATE,
                          "stopped; what has arrived is kept, and the same command goes on from there");
}
