#include "cli/output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

int zest_output_fail(zest_status status, const char *message) {
    fprintf(stderr, "zest: %s\n", message);
    return status == ZEST_ERROR_ARGUMENT ? ZEST_EXIT_USAGE : ZEST_EXIT_FAILURE;
}

int zest_output_failf(zest_status status, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return zest_output_fail(status, message);
}

zest_ctx *zest_output_context(void) {
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx)
        zest_output_fail(
            ZEST_ERROR_MEMORY,
            "no context: ZEST_CPU may be amx, avx512bf16, avx512, avx2 or plain, or memory is short");
    return ctx;
}

json_t *zest_output_real(double number) { return isfinite(number) ? json_real(number) : json_null(); }

int zest_output_json(json_t *object) {
    char *text = object ? json_dumps(object, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    if (!text) return zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for the JSON result");
    int bad = printf("%s\n", text) < 0 || fflush(stdout);
    free(text);
    return bad ? zest_output_fail(ZEST_ERROR_FILE, "standard output cannot be written") : ZEST_EXIT_OK;
}

void zest_progress_begin(zest_progress *progress, int quiet) {
    *progress = (zest_progress){.active = !quiet && isatty(STDERR_FILENO), .began = zest_clock_now()};
}

int zest_progress_due(zest_progress *progress) {
    return progress->active && zest_clock_now() - progress->last > 1.0 / 6;
}

void zest_progress_show(zest_progress *progress, const char *format, ...) {
    if (!progress->active) return;
    va_list arguments;
    va_start(arguments, format);
    fputs("\r", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\033[K", stderr);
    va_end(arguments);
    progress->last = zest_clock_now();
    progress->shown = 1;
}

const char *zest_progress_left(const zest_progress *progress, double done, double all, char *room,
                               size_t size) {
    double left = done > 0 ? (zest_clock_now() - progress->began) * (all - done) / done : 0;
    long seconds = left > 0 && left < 1e8 ? lround(left) : 0;
    if (seconds >= 3600)
        snprintf(room, size, "%ldh%02ldm", seconds / 3600, seconds / 60 % 60);
    else if (seconds >= 60)
        snprintf(room, size, "%ldm%02lds", seconds / 60, seconds % 60);
    else
        snprintf(room, size, "%lds", seconds);
    return room;
}

void zest_progress_end(zest_progress *progress) {
    if (progress->shown) fputs("\r\033[K", stderr);
    progress->shown = 0;
}
