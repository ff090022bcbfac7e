/* Progress of commands: a bar on a terminal, occasional lines elsewhere. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/progress.h"

enum { BAR = 20, MIN_WIDTH = 20, MAX_WIDTH = 400 };
static const double refresh_seconds = 1.0 / 6; /* on a terminal */
static const double first_seconds = 5;         /* elsewhere: a faster command prints nothing */
static const double line_seconds = 30;

static int is_terminal(void) {
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && !(kind && !strcmp(kind, "dumb"));
}

static size_t terminal_width(void) {
    struct winsize size = {0};
    size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
    return width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : width;
}

/* ---- One line ---- */

const char *zest_progress_duration(double seconds, char *text, size_t size) {
    long s = seconds > 0 && seconds < 1e9 ? lround(seconds) : 0;
    if (s >= 48 * 3600)
        snprintf(text, size, "%ldd%02ldh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(text, size, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(text, size, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(text, size, "%lds", s);
    return text;
}

typedef struct {
    char *text;
    size_t size, used;
} line;

static void add(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(line *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(l->text + l->used, l->size - l->used, format, arguments);
    va_end(arguments);
    if (more > 0) l->used += (size_t)more;
    if (l->used >= l->size) l->used = l->size - 1;
}

static void add_bar(line *l, double share) {
    char bar[BAR + 1];
    for (int i = 0; i < BAR; i++) bar[i] = i < (int)(share * BAR) ? '#' : '-';
    bar[BAR] = '\0';
    add(l, "%3.0f %% [%s] ", floor(100 * share), bar);
}

static void add_counts(line *l, const zest_progress *p, double done, double total) {
    double mebibyte = 1024.0 * 1024.0;
    int bytes = !strcmp(p->unit, "bytes");
    const char *of = p->terminal ? "/" : " of ";
    if (bytes && total > 0)
        add(l, "%.1f%s%.1f MiB", done / mebibyte, of, total / mebibyte);
    else if (bytes)
        add(l, "%.1f MiB", done / mebibyte);
    else if (total > 0)
        add(l, "%.0f%s%.0f %s", done, of, total, p->unit);
    else
        add(l, "%.0f %s", done, p->unit);
}

static void add_time(line *l, const zest_progress *p, double now, double done, double total) {
    double stats = now - p->stage, made = done - p->first;
    char left[32];
    if (!strcmp(p->unit, "bytes") && stats > 0) add(l, ", %.1f MiB/s", made / stats / 1048576.0);
    if (total > 0 && made > 0)
        add(l, ", %s left", zest_progress_duration(stats * (total - done) / made, left, sizeof left));
}

/* Labels and notes may contain names from files: control characters are removed. Truncation never splits a
 * UTF-8 sequence. */
static void clean_and_cut(char *text, size_t width) {
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    if (strlen(text) <= width) return;
    while (width && ((unsigned char)text[width] & 0xc0) == 0x80) width--;
    text[width] = '\0';
}

void zest_progress_line(const zest_progress *p, double now, double done, double total, const char *note,
                        size_t width, char *text, size_t size) {
    line l = {text, size, 0};
    double share = total > 0 ? fmin(fmax(done / total, 0), 1) : 0;
    *text = '\0';
    if (p->terminal) {
        add(&l, "%s ", p->label);
        if (total > 0) add_bar(&l, share);
    } else {
        add(&l, "zest: %s: ", p->label);
    }
    add_counts(&l, p, done, total);
    if (!p->terminal && total > 0) add(&l, " (%.0f %%)", floor(100 * share));
    add_time(&l, p, now, done, total);
    if (note && *note) add(&l, ", %s", note);
    clean_and_cut(text, width);
}

/* ---- Updates ---- */

void zest_progress_begin(zest_progress *p, const char *label, const char *unit, int quiet) {
    *p = (zest_progress){.active = !quiet, .terminal = is_terminal(), .command = zest_clock_now()};
    zest_progress_stage(p, label, unit, 0);
}

void zest_progress_stage(zest_progress *p, const char *label, const char *unit, double done) {
    p->label = label;
    p->unit = unit;
    p->first = done;
    p->stage = zest_clock_now();
}

int zest_progress_due(const zest_progress *p) {
    if (!p->active) return 0;
    double now = zest_clock_now();
    if (p->terminal) return now - p->last > refresh_seconds;
    return p->last > 0 ? now - p->last > line_seconds : now - p->command > first_seconds;
}

void zest_progress_update(zest_progress *p, double done, double total, const char *note) {
    char text[MAX_WIDTH + 112];
    if (!zest_progress_due(p)) return;
    double now = zest_clock_now();
    /* one column less than the width: a full line makes some terminals wrap */
    size_t width = p->terminal ? terminal_width() - 1 : MAX_WIDTH;
    zest_progress_line(p, now, done, total, note, width, text, sizeof text);
    fprintf(stderr, p->terminal ? "\r%s\033[K" : "%s\n", text);
    fflush(stderr);
    p->last = now;
    p->shown = p->terminal;
}

static void report(uint64_t done, uint64_t total, void *user) {
    zest_progress_update(user, (double)done, (double)total, NULL);
}

zest_progress_callback zest_progress_sink(zest_progress *p) { return (zest_progress_callback){report, p}; }

void zest_progress_clear(zest_progress *p) {
    if (p->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->shown = 0;
}

void zest_progress_end(zest_progress *p) {
    zest_progress_clear(p);
    p->active = 0;
}
