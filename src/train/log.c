/* log.jsonl: reading, continuing after a resume, writing. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/log.h"
#include "base/file.h"
#include "base/json.h"
#include "base/clock.h"
#include "tokenizer/unicode.h"

enum { MAX_LINE = 1 << 20, BLOCK = 1 << 16 };

zest_log_eval zest_log_eval_none(void) {
    zest_log_eval e = {0};
    e.loss = e.accuracy = e.f1 = e.em = e.perplexity = e.value = e.low = e.high = e.seconds = NAN;
    return e;
}

/* ---- Reading: lines ---- */

typedef struct {
    const char *text; /* NULL: too long to be ours */
    size_t size;
    int whole;    /* a line break ends it */
    uint64_t end; /* where the next one starts in the file */
} log_line;

/* Non-zero ends the reading. */
typedef int (*line_callback)(const log_line *line, void *user);

typedef struct {
    zest_buffer text;
    int too_long;
    uint64_t end;
    line_callback callback;
    void *user;
} line_reader;

static int finish_line(line_reader *r, int whole) {
    log_line const line = {r->too_long ? NULL : r->text.data, r->text.size, whole, r->end};
    int const stop = r->callback(&line, r->user);
    r->text.size = 0;
    r->too_long = 0;
    return stop;
}

static int read_block(line_reader *r, const char *block, size_t size) {
    while (size) {
        const char *end = memchr(block, '\n', size);
        size_t const length = end ? (size_t)(end - block) : size;
        if (r->text.size + length > MAX_LINE)
            r->too_long = 1;
        else
            zest_buffer_add(&r->text, block, length);
        r->end += length + (end != NULL);
        if (end && (r->text.size || r->too_long) && finish_line(r, 1)) return 1;
        if (r->text.failed) return 1;
        block += length + (end != NULL);
        size -= length + (end != NULL);
    }
    return 0;
}

static zest_status each_line(const char *path, line_callback callback, void *user, zest_error *error) {
    line_reader r = {.callback = callback, .user = user};
    int descriptor;
    zest_status status = zest_file_open(path, &descriptor, error);
    if (status) return status;
    FILE *file = fdopen(descriptor, "r");
    if (!file) {
        close(descriptor);
        return zest_error_memory(error, path, BLOCK);
    }
    char *block = malloc(BLOCK);
    size_t got = 0;
    int stop = !block;
    while (!stop && (got = fread(block, 1, BLOCK, file))) stop = read_block(&r, block, got);
    if (!stop && (r.text.size || r.too_long)) stop = finish_line(&r, 0);
    if (ferror(file))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", path);
    else if (stop) /* nothing but memory stops the reading */
        status = zest_error_memory(error, path, r.text.size);
    zest_buffer_free(&r.text);
    free(block);
    fclose(file);
    return status;
}

/* ---- Reading: records ---- */

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static double real_of(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* 0 unless it is a whole number that fits. */
static int whole_of(const json_t *object, const char *name, uint64_t *out) {
    const json_t *value = json_object_get(object, name);
    *out = 0;
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        return *out = (uint64_t)json_integer_value(value), 1;
    double const real = json_is_real(value) ? json_real_value(value) : -1;
    if (!(real >= 0 && real < 9007199254740992.0 && real == floor(real))) return 0;
    return *out = (uint64_t)real, 1;
}

/* NULL: the line is no record, or *short_of_memory. */
static json_t *parse(const log_line *line, int *short_of_memory) {
    json_error_t problem;
    json_t *root =
        line->text ? zest_json_load(line->text, line->size, ZEST_JSON_BIG_AS_REAL, &problem) : NULL;
    *short_of_memory = line->text && !root && json_error_code(&problem) == json_error_out_of_memory;
    if (root && json_is_object(root) && text_of(root, "kind")) return root;
    json_decref(root);
    return NULL;
}

/* Whether this is a whole line of a step as add_step writes it, without reading all of it: most lines are. */
static int is_step(const log_line *line, uint64_t *step) {
    static const char start[] = "{\"kind\":\"step\",\"step\":";
    enum { DIGITS = 18 };
    size_t at = sizeof start - 1, digits = 0;
    if (!line->text || !line->whole || line->size <= at || memcmp(line->text, start, at)) return 0;
    for (*step = 0; at < line->size && line->text[at] >= '0' && line->text[at] <= '9'; at++, digits++)
        *step = 10 * *step + (uint64_t)(line->text[at] - '0');
    return digits && digits <= DIGITS && at < line->size && line->text[at] == ',' &&
           line->text[line->size - 1] == '}';
}

/* Grows an array, whose capacity is the next power of two, by one element; NULL when memory is short. */
static void *grow(void *array, size_t count, size_t size) {
    if (count & (count - 1)) return array; /* below a power of two */
    if (count > SIZE_MAX / 2 / size) return NULL;
    return realloc(array, (count ? 2 * count : 1) * size);
}

static int read_options(zest_log_start *start, json_t *options) {
    const char *name;
    json_t *value;
    zest_log_option *list = calloc(json_object_size(options) + 1, sizeof *list);
    if (!list) return 0;
    start->options = list;
    json_object_foreach(options, name, value) if (json_is_string(value)) {
        list[start->option_count++] = (zest_log_option){name, json_string_value(value)};
    }
    return 1;
}

static int read_start(zest_log *log, json_t *root) {
    const json_t *model = json_object_get(root, "model"), *task = json_object_get(root, "task");
    zest_log_start s = {.time = real_of(root, "time"), .version = text_of(root, "zest")};
    s.model.family = text_of(model, "family");
    s.model.weights = text_of(model, "weights");
    s.model.compute = text_of(model, "compute");
    s.model.device = text_of(model, "device");
    whole_of(model, "parameters", &s.model.parameters);
    whole_of(model, "trained", &s.model.trained);
    s.task.name = text_of(task, "name");
    s.task.metric = text_of(task, "metric");
    whole_of(task, "classes", &s.task.classes);
    whole_of(root, "train", &s.train);
    whole_of(root, "dev", &s.dev);
    whole_of(root, "test", &s.test);
    s.resumed = whole_of(root, "resumed_at", &s.resumed_at);
    zest_log_start *starts = grow(log->starts, log->start_count, sizeof s);
    if (!starts) return 0;
    log->starts = starts;
    if (json_array_append(log->owned, root) || !read_options(&s, json_object_get(root, "options"))) return 0;
    starts[log->start_count++] = s;
    free(log->end); /* of the session before */
    log->end = NULL;
    while (s.resumed && log->step_count && log->steps[log->step_count - 1].step > s.resumed_at)
        log->step_count--;
    while (s.resumed && log->eval_count && log->evals[log->eval_count - 1].step > s.resumed_at)
        log->eval_count--;
    return 1;
}

static int read_step(zest_log *log, const json_t *root) {
    zest_log_step s = {.loss = real_of(root, "loss"),
                       .lr = real_of(root, "lr"),
                       .ess = real_of(root, "ess"),
                       .spread = real_of(root, "spread"),
                       .slope = real_of(root, "slope"),
                       .curvature = real_of(root, "curvature"),
                       .t = real_of(root, "t"),
                       .scale = real_of(root, "scale"),
                       .norm = real_of(root, "norm"),
                       .seconds = real_of(root, "seconds")};
    if (!whole_of(root, "step", &s.step)) return log->bad++, 1;
    whole_of(root, "dropped", &s.dropped);
    whole_of(root, "tokens", &s.tokens);
    whole_of(root, "passes", &s.passes);
    while (log->step_count && log->steps[log->step_count - 1].step >= s.step) log->step_count--;
    zest_log_step *steps = grow(log->steps, log->step_count, sizeof s);
    if (!steps) return 0;
    log->steps = steps;
    steps[log->step_count++] = s;
    return 1;
}

static int read_numbers(const json_t *root, zest_log_eval *e) {
    const char *part = text_of(root, "part");
    *e = zest_log_eval_none();
    if (!part || !whole_of(root, "step", &e->step)) return 0;
    snprintf(e->part, sizeof e->part, "%s", part);
    e->loss = real_of(root, "loss");
    e->accuracy = real_of(root, "accuracy");
    e->f1 = real_of(root, "f1");
    e->em = real_of(root, "em");
    e->perplexity = real_of(root, "perplexity");
    e->value = real_of(root, "value");
    e->low = real_of(root, "low");
    e->high = real_of(root, "high");
    e->seconds = real_of(root, "seconds");
    whole_of(root, "n", &e->n);
    e->best = json_is_true(json_object_get(root, "best"));
    return 1;
}

static int read_eval(zest_log *log, const json_t *root) {
    zest_log_eval e;
    if (!read_numbers(root, &e)) return log->bad++, 1;
    while (log->eval_count && log->evals[log->eval_count - 1].step > e.step) log->eval_count--;
    zest_log_eval *evals = grow(log->evals, log->eval_count, sizeof e);
    if (!evals) return 0;
    log->evals = evals;
    evals[log->eval_count++] = e;
    return 1;
}

static int read_end(zest_log *log, json_t *root) {
    zest_log_end e = {.reason = text_of(root, "reason"), .seconds = real_of(root, "seconds")};
    if (!whole_of(root, "step", &e.step)) return log->bad++, 1;
    whole_of(root, "best_step", &e.best_step);
    whole_of(root, "peak_bytes", &e.peak_bytes);
    whole_of(root, "device_peak_bytes", &e.device_peak_bytes);
    read_numbers(json_object_get(root, "dev"), &e.dev);
    read_numbers(json_object_get(root, "test"), &e.test);
    if (!log->end) log->end = malloc(sizeof e);
    if (!log->end || json_array_append(log->owned, root)) return 0;
    *log->end = e;
    return 1;
}

static int read_line(const log_line *line, void *user) {
    zest_log *log = user;
    int done = 1, short_of_memory;
    json_t *root = parse(line, &short_of_memory);
    if (short_of_memory) return 1;
    if (!root) {
        if (line->whole)
            log->bad++;
        else
            log->torn = 1;
        return 0;
    }
    const char *kind = text_of(root, "kind");
    if (!strcmp(kind, "start"))
        done = read_start(log, root);
    else if (!strcmp(kind, "step"))
        done = read_step(log, root);
    else if (!strcmp(kind, "eval"))
        done = read_eval(log, root);
    else if (!strcmp(kind, "end"))
        done = read_end(log, root);
    else
        log->other++;
    json_decref(root);
    return !done;
}

static int read_other_line(const log_line *line, void *user) {
    uint64_t step;
    return is_step(line, &step) ? 0 : read_line(line, user);
}

zest_status zest_log_read_parts(const char *path, zest_log_parts parts, zest_log *log, zest_error *error) {
    *log = (zest_log){.owned = json_array()};
    if (!log->owned) return zest_error_memory(error, path, sizeof *log);
    zest_status status = each_line(path, parts == ZEST_LOG_ALL ? read_line : read_other_line, log, error);
    if (!status && !log->start_count)
        status = zest_error_set(error, ZEST_ERROR_FORMAT,
                                "%s: not a log of zest train: no line says how a run started%s", path,
                                log->torn ? " (the only start of a line is torn)" : "");
    if (status) zest_log_free(log);
    return status;
}

zest_status zest_log_read(const char *path, zest_log *log, zest_error *error) {
    return zest_log_read_parts(path, ZEST_LOG_ALL, log, error);
}

void zest_log_free(zest_log *log) {
    for (size_t i = 0; i < log->start_count; i++) free((void *)log->starts[i].options);
    free(log->starts);
    free(log->steps);
    free(log->evals);
    free(log->end);
    json_decref(log->owned);
    *log = (zest_log){0};
}

const char *zest_log_find_option(const zest_log *log, const char *name) {
    if (!log->start_count) return NULL;
    const zest_log_start *start = &log->starts[log->start_count - 1];
    for (size_t i = 0; i < start->option_count; i++)
        if (!strcmp(start->options[i].name, name)) return start->options[i].value;
    return NULL;
}

/* ---- Continuing after a resume ---- */

typedef struct {
    uint64_t step;
    double seconds;
    zest_buffer last;  /* the last line of a step that is kept: the clock is read from it at the end */
    uint64_t good;     /* bytes before the first line that is not kept as it is */
    zest_buffer after; /* the lines behind those that are kept */
    int dropped;
} continuation;

static int keep(continuation *c, const log_line *line) {
    if (!c->dropped && line->whole) return c->good = line->end, 0;
    c->dropped = 1;
    zest_buffer_add(&c->after, line->text, line->size);
    zest_buffer_text(&c->after, "\n");
    return c->after.failed;
}

static int keep_line(const log_line *line, void *user) {
    continuation *c = user;
    int short_of_memory;
    uint64_t step;
    if (is_step(line, &step)) {
        if (step > c->step) return c->dropped = 1, 0;
        c->last.size = 0;
        zest_buffer_add(&c->last, line->text, line->size);
        return c->last.failed || keep(c, line);
    }
    json_t *root = parse(line, &short_of_memory);
    if (short_of_memory) return 1;
    int const beyond = root && ((whole_of(root, "step", &step) && step > c->step) ||
                                (whole_of(root, "resumed_at", &step) && step > c->step));
    double const seconds = real_of(root, "seconds");
    if (!root || beyond) {
        json_decref(root);
        return c->dropped = 1, 0;
    }
    if (isfinite(seconds)) c->seconds = seconds, c->last.size = 0;
    json_decref(root);
    return keep(c, line);
}

/* The clock of the last step, if no other line came after it. */
static zest_status read_clock(continuation *c, const char *path, zest_error *error) {
    int short_of_memory;
    if (!c->last.size) return ZEST_OK;
    json_t *root = parse(&(log_line){c->last.data, c->last.size, 1, 0}, &short_of_memory);
    double const seconds = real_of(root, "seconds");
    if (isfinite(seconds)) c->seconds = seconds;
    json_decref(root);
    return short_of_memory ? zest_error_memory(error, path, c->last.size) : ZEST_OK;
}

static zest_status cut(const char *path, uint64_t size, zest_error *error) {
    zest_status status = zest_file_refuse_link(path, error);
    if (status) return status;
    int const descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0 || ftruncate(descriptor, (off_t)size))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be cut", path);
    if (descriptor >= 0) close(descriptor);
    return status;
}

/* Lines in the middle go: the file is written anew. */
static zest_status rewrite(const char *path, const continuation *c, zest_error *error) {
    zest_buffer text = {0};
    zest_status status = zest_file_read(path, SIZE_MAX, &text, error);
    if (!status && text.size < c->good)
        status = zest_error_set(error, ZEST_ERROR_FILE, "%s: it changed while it was being read", path);
    if (!status) {
        text.size = (size_t)c->good;
        zest_buffer_add(&text, c->after.data, c->after.size);
        status = text.failed ? zest_error_memory(error, path, text.size)
                             : zest_file_write(path, text.data, text.size, error);
    }
    zest_buffer_free(&text);
    return status;
}

zest_status zest_log_continue(const char *path, uint64_t step, double *seconds, zest_error *error) {
    continuation c = {.step = step};
    if (seconds) *seconds = 0;
    if (access(path, F_OK) && errno == ENOENT) return ZEST_OK;
    zest_status status = each_line(path, keep_line, &c, error);
    if (!status) status = read_clock(&c, path, error);
    if (!status && c.dropped) status = c.after.size ? rewrite(path, &c, error) : cut(path, c.good, error);
    if (!status && seconds) *seconds = c.seconds;
    zest_buffer_free(&c.last);
    zest_buffer_free(&c.after);
    return status;
}

/* ---- Writing: JSON as text. Every member has its comma before it; the first is "kind". ---- */

enum { MAX_PENDING = 1 << 16 };
static const double MAX_PENDING_SECONDS = 1;

struct zest_log_writer {
    int descriptor;
    char *path;
    zest_buffer pending;
    double flushed; /* when, by zest_clock_now */
};

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
    add_known(out, "slope", s->slope);
    add_known(out, "curvature", s->curvature);
    add_known(out, "t", s->t);
    add_known(out, "scale", s->scale);
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

/* ---- Writing: the file ---- */

/* A torn last line is ended first: it is then one bad line, and the next is good. */
static int ends_in_line(int descriptor) {
    char last = '\n';
    off_t const size = lseek(descriptor, 0, SEEK_END);
    if (size > 0 && pread(descriptor, &last, 1, size - 1) != 1) return -1;
    return last == '\n';
}

zest_status zest_log_open(const char *path, zest_log_writer **writer, zest_error *error) {
    *writer = NULL;
    zest_status linked = zest_file_refuse_link(path, error);
    if (linked) return linked;
    zest_log_writer *w = calloc(1, sizeof *w);
    if (w) w->path = strdup(path);
    if (!w || !w->path) return free(w), zest_error_memory(error, path, sizeof *w);
    w->descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
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

static zest_status flush(zest_log_writer *w, zest_error *error) {
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
    zest_status status = flush(w, error);
    if (!status && fdatasync(w->descriptor) && errno != EINVAL && errno != EROFS)
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written to disk", w->path);
    return status;
}

zest_status zest_log_write_start(zest_log_writer *w, const zest_log_start *start, zest_error *error) {
    add_start(&w->pending, start);
    return flush(w, error);
}

zest_status zest_log_write_step(zest_log_writer *w, const zest_log_step *step, zest_error *error) {
    add_step(&w->pending, step);
    if (!w->pending.failed && w->pending.size < MAX_PENDING &&
        zest_clock_now() - w->flushed < MAX_PENDING_SECONDS)
        return ZEST_OK;
    return flush(w, error);
}

zest_status zest_log_write_eval(zest_log_writer *w, const zest_log_eval *eval, zest_error *error) {
    add_eval(&w->pending, eval);
    zest_buffer_text(&w->pending, "\n");
    return flush(w, error);
}

zest_status zest_log_write_end(zest_log_writer *w, const zest_log_end *end, zest_error *error) {
    add_end(&w->pending, end);
    return flush(w, error);
}

zest_status zest_log_close(zest_log_writer *w, zest_error *error) {
    if (!w) return ZEST_OK;
    zest_status status = flush(w, error);
    if (close(w->descriptor) && !status)
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", w->path);
    zest_buffer_free(&w->pending);
    free(w->path);
    free(w);
    return status;
}
