/* Output of commands: messages on stderr, results on stdout, JSON, interruption. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "tokenizer/unicode.h"

/* ---- Escaping for a terminal ----
 *
 * A model, task or data file may contain bytes that move the cursor, change the title of the window or hide text.
 * Messages are always escaped; results are escaped on a terminal and unchanged in a file or pipe. */

/* C1 controls, line and paragraph separators, and bidirectional formatting characters. */
static int is_hidden(uint32_t code) {
    return (code >= 0x7F && code < 0xA0) || code == 0x200E || code == 0x200F ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

static void clean_valid(const char *text, size_t size, zest_buffer *out) {
    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t length = zest_unicode_read(text + at, &code);
        if (code < 0x20 && code != '\t' && code != '\n')
            zest_buffer_format(out, "\\x%02x", (unsigned)code);
        else if (is_hidden(code))
            zest_buffer_format(out, "\\u%04x", (unsigned)code);
        else
            zest_buffer_add(out, text + at, length);
        at += length;
    }
}

/* Appends the text with every control character but tab and newline escaped: ESC as \x1b, those beyond
 * ASCII and bidirectional formatting characters as \u009b, bytes that are not UTF-8 as \xff. */
static void clean_text(const char *text, size_t size, zest_buffer *out) {
    while (size) {
        size_t valid = zest_unicode_valid(text, size);
        clean_valid(text, valid, out);
        text += valid, size -= valid;
        if (!size) break;
        zest_buffer_format(out, "\\x%02x", (unsigned char)*text);
        text++, size--;
    }
}

/* ---- Messages ---- */

static void print_message(const char *before, const char *message) {
    zest_buffer clean = {0};
    clean_text(message, strlen(message), &clean);
    fprintf(stderr, "zest: %s%s\n", before,
            clean.failed ? "(not enough memory for the message)"
            : clean.data ? clean.data
                         : "");
    zest_buffer_free(&clean);
}

int zest_output_fail(zest_status status, const char *message) {
    const char *before;
    if (zest_cli_ranks_report(&before)) print_message(before, message);
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

void zest_output_note(const char *format, ...) {
    char message[1024];
    if (zest_cli_ranks_is_silent()) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    print_message("", message);
}

void zest_output_notes(const char *lines) {
    while (*lines) {
        size_t size = strcspn(lines, "\n");
        zest_output_note("%.*s", (int)size, lines);
        lines += size + (lines[size] == '\n');
    }
}

/* ---- Results ---- */

static int write_errno;  /* errno of a failed write, if known */
static int print_failed; /* out of memory in zest_output_print, whose result callers ignore */

int zest_output_buffer(zest_buffer *text) {
    zest_buffer clean = {0};
    int terminal = isatty(STDOUT_FILENO);
    if (terminal && text->data) clean_text(text->data, text->size, &clean);
    const zest_buffer *shown = terminal ? &clean : text;
    int failed = text->failed || clean.failed;
    if (!failed && shown->size && fwrite(shown->data, 1, shown->size, stdout) < shown->size)
        write_errno = errno;
    zest_buffer_free(&clean);
    zest_buffer_free(text);
    return failed ? zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for the output") : ZEST_EXIT_OK;
}

void zest_output_print(const char *format, ...) {
    zest_buffer text = {0};
    va_list arguments;
    va_start(arguments, format);
    zest_buffer_vformat(&text, format, arguments);
    va_end(arguments);
    if (zest_output_buffer(&text)) print_failed = 1;
}

/* The reader of a pipe has closed it: an end, but not an error to report. */
static int reader_left(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && out.revents & POLLERR;
}

int zest_output_broken(void) {
    if (fflush(stdout)) write_errno = errno;
    return ferror(stdout);
}

int zest_output_finish(int code) {
    int unsafe = ferror(stdout), left = reader_left();
    if (fflush(stdout)) unsafe = 1, write_errno = errno;
    if (!left) left = reader_left();
    if (!unsafe && fclose(stdout)) unsafe = 1, write_errno = errno;
    if (code || (!unsafe && !print_failed)) return code;
    if (unsafe && !left)
        zest_output_failf(ZEST_ERROR_FILE, "standard output cannot be written%s%s", write_errno ? ": " : "",
                          write_errno ? strerror(write_errno) : "");
    return ZEST_EXIT_FAILURE;
}

/* ---- JSON ---- */

void zest_output_set(json_t **to, const char *key, json_t *value) { zest_json_set(to, key, value); }

void zest_output_append(json_t **to, json_t *value) { zest_json_append(to, value); }

json_t *zest_output_real(double number) { return isfinite(number) ? json_real(number) : json_null(); }

json_t *zest_output_string(const char *text) {
    zest_buffer valid = {0};
    zest_unicode_repair(text, strlen(text), &valid);
    json_t *string = valid.failed ? NULL : json_stringn(valid.data ? valid.data : "", valid.size);
    zest_buffer_free(&valid);
    return string;
}

void zest_output_dump(json_t *object, int digits, zest_buffer *out) {
    zest_json_print(object, JSON_REAL_PRECISION((size_t)digits), out);
    zest_buffer_text(out, "\n");
    json_decref(object);
}

int zest_output_json(json_t *object) {
    zest_buffer text = {0};
    zest_output_dump(object, 17, &text);
    return zest_output_buffer(&text);
}

zest_ctx *zest_output_context(void) {
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx) zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for a context");
    if (ctx) zest_cli_ranks_join(ctx);
    return ctx;
}

static volatile sig_atomic_t interrupted; /* a signal handler can only write to a global */

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

volatile sig_atomic_t *zest_output_catch_interrupt(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &interrupted;
}

/* microseconds: longer than the skew between threads of one operation */
static const char *const short_spin = "1000";

void zest_limit_omp_spin(char **argv) {
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    if (setenv("GOMP_SPINCOUNT", short_spin, 1)) return;
    execv("/proc/self/exe", argv); /* returns only on failure */
}
