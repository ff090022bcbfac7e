/* The writing half of the log. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "run/log.h"
#include "text/unicode.h"

enum { PENDING_MOST = 1 << 16 };
static const double PENDING_SECONDS = 1;

struct zest_log_writer {
    int descriptor;
    char *path;
    zest_buffer pending;
    double flushed; /* when, by zest_clock_now */
};

/* ---- JSON as text. Every member is written with the comma before it; the first is "kind". ---- */

static void add_number(zest_buffer *out, double value) {
    if (isfinite(value))
        zest_buffer_format(out, "%.17g", value);
    else
        zest_buffer_text(out, "null");
}

static void add_real(zest_buffer *out, const char *name, double value) {
    zest_buffer_format(out, ",\"%s\":", name);
    add_number(out, value);
}

static void add_known(zest_buffer *out, const char *name, double value) {
    if (!isnan(value)) add_real(out, name, value);
}

static void add_whole(zest_buffer *out, const char *name, uint64_t value) {
    zest_buffer_format(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

/* A path may hold any bytes; JSON may not. */
static void add_string(zest_buffer *out, const char *text) {
    zest_buffer valid = {0};
    zest_unicode_repair(text, strlen(text), &valid);
    out->failed |= valid.failed;
    zest_buffer_text(out, "\"");
    for (const char *c = valid.data ? valid.data : ""; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            zest_buffer_format(out, "\\u%04x", (unsigned)*c);
        else if (*c == '"' || *c == '\\')
            zest_buffer_format(out, "\\%c", *c);
        else
            zest_buffer_add(out, c, 1);
    }
    zest_buffer_text(out, "\"");
    zest_buffer_free(&valid);
}

static void add_text(zest_buffer *out, const char *name, const char *text) {
    if (!text) return;
    zest_buffer_format(out, ",\"%s\":", name);
    add_string(out, text);
}

static void add_start(zest_buffer *out, const zest_log_start *s) {
    zest_buffer_text(out, "{\"kind\":\"start\"");
    add_real(out, "time", s->time);
    add_text(out, "zest", s->version);
    zest_buffer_text(out, ",\"options\":{");
    for (size_t i = 0; i < s->option_count; i++) {
        if (i) zest_buffer_text(out, ",");
        add_string(out, s->options[i].name);
        zest_buffer_text(out, ":");
        add_string(out, s->options[i].value ? s->options[i].value : "");
    }
    zest_buffer_text(out, "},\"model\":{\"family\":");
    add_string(out, s->model.family ? s->model.family : "");
    add_whole(out, "parameters", s->model.parameters);
    add_whole(out, "trained", s->model.trained);
    add_text(out, "weights", s->model.weights);
    add_text(out, "compute", s->model.compute);
    add_text(out, "device", s->model.device);
    zest_buffer_text(out, "},\"task\":{\"name\":");
    add_string(out, s->task.name ? s->task.name : "");
    add_text(out, "metric", s->task.metric);
    add_whole(out, "classes", s->task.classes);
    zest_buffer_text(out, "}");
    add_whole(out, "train", s->train);
    add_whole(out, "dev", s->dev);
    add_whole(out, "test", s->test);
    if (s->resumed) add_whole(out, "resumed_at", s->resumed_at);
    zest_buffer_text(out, "}\n");
}

static void add_step(zest_buffer *out, const zest_log_step *s) {
    zest_buffer_text(out, "{\"kind\":\"step\"");
    add_whole(out, "step", s->step);
    add_real(out, "loss", s->loss);
    add_real(out, "lr", s->lr);
    add_known(out, "ess", s->ess);
    add_known(out, "spread", s->spread);
    add_known(out, "norm", s->norm);
    add_whole(out, "dropped", s->dropped);
    add_real(out, "seconds", s->seconds);
    add_whole(out, "tokens", s->tokens);
    if (s->passes) add_whole(out, "passes", s->passes);
    zest_buffer_text(out, "}\n");
}

static void add_eval(zest_buffer *out, const zest_log_eval *e) {
    zest_buffer_text(out, "{\"kind\":\"eval\"");
    add_whole(out, "step", e->step);
    add_text(out, "part", e->part);
    add_known(out, "loss", e->loss);
    add_known(out, "accuracy", e->accuracy);
    add_known(out, "f1", e->f1);
    add_known(out, "em", e->em);
    add_known(out, "perplexity", e->perplexity);
    add_known(out, "value", e->value);
    add_known(out, "low", e->low);
    add_known(out, "high", e->high);
    add_whole(out, "n", e->n);
    if (e->best) zest_buffer_text(out, ",\"best\":true");
    add_known(out, "seconds", e->seconds);
    zest_buffer_text(out, "}");
}

static void add_end(zest_buffer *out, const zest_log_end *e) {
    zest_buffer_text(out, "{\"kind\":\"end\"");
    add_text(out, "reason", e->reason);
    add_whole(out, "step", e->step);
    add_whole(out, "best_step", e->best_step);
    if (*e->dev.part) zest_buffer_text(out, ",\"dev\":"), add_eval(out, &e->dev);
    if (*e->test.part) zest_buffer_text(out, ",\"test\":"), add_eval(out, &e->test);
    add_real(out, "seconds", e->seconds);
    if (e->peak_bytes) add_whole(out, "peak_bytes", e->peak_bytes);
    if (e->device_peak_bytes) add_whole(out, "device_peak_bytes", e->device_peak_bytes);
    zest_buffer_text(out, "}\n");
}

/* ---- The writer ---- */

/* Behind a torn line a new one starts: the torn one is then a bad line, not the ruin of two. */
static int ends_in_line(int descriptor) {
    char last = '\n';
    off_t const size = lseek(descriptor, 0, SEEK_END);
    if (size > 0 && pread(descriptor, &last, 1, size - 1) != 1) return -1;
    return last == '\n';
}

zest_status zest_log_open(const char *path, zest_log_writer **writer, zest_error *error) {
    zest_log_writer *w = calloc(1, sizeof *w);
    *writer = NULL;
    if (w) w->path = strdup(path);
    if (!w || !w->path) return free(w), zest_error_memory(error, path, sizeof *w);
    w->descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int const whole = w->descriptor >= 0 ? ends_in_line(w->descriptor) : -1;
    if (whole < 0) {
        zest_status const status =
            zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened for writing", path);
        if (w->descriptor >= 0) close(w->descriptor);
        free(w->path);
        free(w);
        return status;
    }
    if (!whole) zest_buffer_text(&w->pending, "\n");
    w->flushed = zest_clock_now();
    *writer = w;
    return ZEST_OK;
}

zest_status zest_log_flush(zest_log_writer *w, zest_error *error) {
    zest_status status = ZEST_OK;
    if (w->pending.failed)
        status = zest_error_memory(error, w->path, w->pending.size);
    else if (w->pending.size)
        status = zest_file_write_all(w->descriptor, w->pending.data, w->pending.size, w->path, error);
    w->pending.size = 0;
    w->pending.failed = 0;
    w->flushed = zest_clock_now();
    return status;
}

zest_status zest_log_sync(zest_log_writer *w, zest_error *error) {
    zest_status status = zest_log_flush(w, error);
    if (!status && fdatasync(w->descriptor) && errno != EINVAL && errno != EROFS)
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written to disk", w->path);
    return status;
}

zest_status zest_log_write_start(zest_log_writer *w, const zest_log_start *start, zest_error *error) {
    add_start(&w->pending, start);
    return zest_log_flush(w, error);
}

zest_status zest_log_write_step(zest_log_writer *w, const zest_log_step *step, zest_error *error) {
    add_step(&w->pending, step);
    if (!w->pending.failed && w->pending.size < PENDING_MOST &&
        zest_clock_now() - w->flushed < PENDING_SECONDS)
        return ZEST_OK;
    return zest_log_flush(w, error);
}

zest_status zest_log_write_eval(zest_log_writer *w, const zest_log_eval *eval, zest_error *error) {
    add_eval(&w->pending, eval);
    zest_buffer_text(&w->pending, "\n");
    return zest_log_flush(w, error);
}

zest_status zest_log_write_end(zest_log_writer *w, const zest_log_end *end, zest_error *error) {
    add_end(&w->pending, end);
    return zest_log_flush(w, error);
}

zest_status zest_log_close(zest_log_writer *w, zest_error *error) {
    if (!w) return ZEST_OK;
    zest_status status = zest_log_flush(w, error);
    if (close(w->descriptor) && !status)
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", w->path);
    zest_buffer_free(&w->pending);
    free(w->path);
    free(w);
    return status;
}
