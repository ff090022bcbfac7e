/* Loading a language model and reading texts for a command; results as text and JSON. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/lm.h"
#include "cli/output.h"

static zest_status add(zest_lines *lines, const char *text, size_t number, zest_error *error) {
    if (!(lines->count & (lines->count - 1))) { /* full at powers of two */
        size_t capacity = lines->count ? 2 * lines->count : 1;
        char **texts = realloc(lines->text, capacity * sizeof *texts);
        if (texts) lines->text = texts;
        size_t *numbers = texts ? realloc(lines->number, capacity * sizeof *numbers) : NULL;
        if (numbers) lines->number = numbers;
        if (!texts || !numbers) return zest_error_memory(error, "the texts", capacity * sizeof *texts);
    }
    char *copy = strdup(text);
    if (!copy) return zest_error_memory(error, "a text", strlen(text));
    lines->text[lines->count] = copy;
    lines->number[lines->count++] = number;
    return ZEST_OK;
}

static zest_status check_input(zest_error *error) {
    return ferror(stdin) || !feof(stdin)
               ? zest_error_set_errno(error, ZEST_ERROR_FILE, "standard input cannot be read")
               : ZEST_OK;
}

/* Appends a line unless it is empty. */
static zest_status add_line(zest_lines *lines, char *line, ssize_t size, size_t number, zest_error *error) {
    if (size && line[size - 1] == '\n') line[--size] = '\0';
    if (size && line[size - 1] == '\r') line[--size] = '\0';
    zest_status status = size ? add(lines, line, number, error) : ZEST_OK;
    if (!status && strlen(line) < (size_t)size)
        zest_output_note("standard input, line %zu: has a zero byte, and is cut there", number);
    return status;
}

static zest_status read_standard_input(zest_lines *lines, zest_error *error) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size = 0;
    zest_status status = ZEST_OK;
    if (isatty(STDIN_FILENO)) zest_output_note("reading lines from the terminal; Ctrl-D ends them");
    errno = 0;
    for (size_t number = 1; !status && (size = getline(&line, &capacity, stdin)) >= 0; number++)
        status = add_line(lines, line, size, number, error);
    if (!status && size < 0) status = check_input(error);
    free(line);
    return status;
}

zest_status zest_lines_next(zest_lines *lines, int *found, zest_error *error) {
    char *line = NULL;
    size_t capacity = 0, count = lines->count;
    ssize_t size = 0;
    zest_status status = ZEST_OK;
    errno = 0;
    while (!status && lines->count == count && (size = getline(&line, &capacity, stdin)) >= 0)
        status = add_line(lines, line, size, count + 1, error);
    if (!status && size < 0) status = check_input(error);
    *found = lines->count > count;
    free(line);
    return status;
}

zest_status zest_lines_read(zest_lines *lines, const zest_options *options, zest_option_id option,
                            zest_error *error) {
    *lines = (zest_lines){.given = zest_options_given(options, option)};
    if (lines->given) return add(lines, zest_options_text(options, option), 1, error);
    zest_status status = read_standard_input(lines, error);
    if (!status && !lines->count)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "there is no text: give --%s TEXT, or lines on standard input",
                                zest_option_row_at(option)->name);
    return status;
}

void zest_lines_free(zest_lines *lines) {
    for (size_t i = 0; i < lines->count; i++) free(lines->text[i]);
    free(lines->text);
    free(lines->number);
    *lines = (zest_lines){0};
}

void zest_lines_refuse(zest_lines *lines, size_t i, const char *message, json_t **results) {
    lines->failed++;
    if (lines->given)
        zest_output_note("%s", message);
    else
        zest_output_note("standard input, line %zu: %s", lines->number[i], message);
    if (results)
        zest_output_append(results, json_pack("{s:I, s:o, s:o}", "line", (json_int_t)lines->number[i], "text",
                                              zest_output_string(lines->text[i]), "error",
                                              zest_output_string(message)));
}

zest_status zest_cli_lm_error(const zest_cli_lm *m, zest_status status, zest_error *error) {
    return status ? zest_error_set(error, status, "%s", zest_ctx_error(m->ctx)) : ZEST_OK;
}

/* ---- Loading ---- */

/* Those of the options that `users` take, as lines, which were given or have another default in the command. */
static zest_status add_options(const zest_options *options, unsigned users, zest_buffer *text,
                               zest_error *error) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        const char *value = zest_options_text(options, (zest_option_id)id);
        if (row->users & users &&
            (zest_options_given(options, (zest_option_id)id) || strcmp(value, row->fallback)))
            zest_buffer_format(text, "%s=%s\n", row->name, value);
    }
    return text->failed ? zest_error_memory(error, "the options", text->size) : ZEST_OK;
}

/* What loading gave, or the context's message. */
static zest_status opened(zest_cli_lm *m, zest_error *error) {
    if (!m->lm) return zest_cli_lm_error(m, zest_ctx_status(m->ctx), error);
    return zest_lm_get_info(m->lm, &m->info);
}

zest_status zest_cli_lm_open(zest_cli_lm *m, const char *path, int tokenizer_only,
                             const zest_options *options, zest_error *error) {
    zest_buffer text = {0};
    *m = (zest_cli_lm){.ctx = zest_ctx_new()};
    if (!m->ctx) return zest_error_memory(error, "a context", 0);
    zest_status status = add_options(options, ZEST_FOR_LM, &text, error);
    if (!status) {
        m->lm = tokenizer_only ? zest_lm_load_tokenizer(m->ctx, path) : zest_lm_load(m->ctx, path, text.data);
        status = opened(m, error);
    }
    zest_buffer_free(&text);
    return status;
}

zest_status zest_cli_lm_open_run(zest_cli_lm *m, const char *path, const char *step,
                                 const zest_options *options, zest_lm_progress progress, void *user,
                                 zest_error *error) {
    zest_buffer text = {0};
    *m = (zest_cli_lm){.ctx = zest_ctx_new()};
    if (!m->ctx) return zest_error_memory(error, "a context", 0);
    zest_status status = add_options(options, ZEST_FOR_LM, &text, error);
    if (!status) {
        m->lm = zest_lm_open_run(m->ctx, path, step, text.data, progress, user);
        status = opened(m, error);
    }
    zest_buffer_free(&text);
    return status;
}

zest_status zest_cli_lm_sampling(const zest_options *options, zest_buffer *text, zest_error *error) {
    return add_options(options, ZEST_FOR_SAMPLING, text, error);
}

void zest_cli_lm_close(zest_cli_lm *m) {
    zest_lm_free(m->lm);
    zest_ctx_free(m->ctx);
    *m = (zest_cli_lm){0};
}

int zest_cli_lm_run(const zest_options *options, const char *path, zest_option_id given,
                    zest_cli_work *work) {
    zest_error error = {0};
    zest_lines lines = {0};
    zest_cli_lm m = {0};
    int json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    json_t *results = json ? json_array() : NULL;
    int turns = zest_options_whole(options, ZEST_OPTION_CHAT) && !zest_options_given(options, given) &&
                isatty(STDIN_FILENO); /* each is read when the reply before it is there */
    zest_status status = turns ? ZEST_OK : zest_lines_read(&lines, options, given, &error);
    if (!status) status = zest_cli_lm_open(&m, path, 0, options, &error);
    if (!status) status = work(&m, options, &lines, json ? &results : NULL, &error);
    int code = lines.failed ? ZEST_EXIT_FAILURE : ZEST_EXIT_OK, printed = ZEST_EXIT_OK;
    zest_cli_lm_close(&m);
    zest_lines_free(&lines);
    if (!status && json) printed = zest_output_json(json_pack("{s:o}", "results", results));
    if (status) json_decref(results);
    return status ? zest_output_fail(status, error.message) : printed ? printed : code;
}

zest_lm_options *zest_cli_lm_options(zest_ctx *ctx, const zest_command *command, const zest_options *given) {
    zest_lm_options *options = zest_lm_options_new(ctx, command->name);
    zest_status status = options ? ZEST_OK : zest_ctx_status(ctx);
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (row->users & command->users && zest_options_given(given, (zest_option_id)id))
            status = zest_lm_options_set(options, row->name, zest_options_text(given, (zest_option_id)id));
    }
    if (!status) return options;
    zest_lm_options_free(options);
    return NULL;
}

/* ---- Tokens ---- */

enum { SPARE = 16 }; /* special tokens around a text */

static zest_status reserve(zest_cli_tokens *tokens, size_t count, zest_error *error) {
    free(tokens->data);
    *tokens = (zest_cli_tokens){.data = malloc((count + 1) * sizeof *tokens->data)};
    return tokens->data ? ZEST_OK : zest_error_memory(error, "the tokens", count * sizeof *tokens->data);
}

zest_status zest_cli_lm_encode(zest_cli_lm *m, const char *text, unsigned flags, zest_cli_tokens *tokens,
                               zest_error *error) {
    size_t size = strlen(text), capacity = size + SPARE; /* a token has a byte at least, as a rule */
    zest_status status = reserve(tokens, capacity, error), encoded = ZEST_OK;
    if (status) return status;
    encoded = zest_lm_encode(m->lm, text, size, flags, tokens->data, capacity, &tokens->count);
    if (encoded && tokens->count > capacity) {
        capacity = tokens->count;
        status = reserve(tokens, capacity, error);
        if (status) return status;
        encoded = zest_lm_encode(m->lm, text, size, flags, tokens->data, capacity, &tokens->count);
    }
    return zest_cli_lm_error(m, encoded, error);
}

zest_status zest_cli_lm_decode(zest_cli_lm *m, const int32_t *ids, size_t first, size_t count, unsigned flags,
                               zest_buffer *text, zest_error *error) {
    size_t size;
    zest_status status = zest_lm_decode(m->lm, ids, first, count, flags, NULL, 0, &size);
    if (status) return zest_cli_lm_error(m, status, error);
    char *bytes = malloc(size + 1);
    if (!bytes) return zest_error_memory(error, "a text", size);
    status =
        zest_cli_lm_error(m, zest_lm_decode(m->lm, ids, first, count, flags, bytes, size + 1, &size), error);
    if (!status) zest_buffer_add(text, bytes, size);
    free(bytes);
    return status ? status : text->failed ? zest_error_memory(error, "a text", size) : ZEST_OK;
}

/* ---- Metrics ---- */

typedef struct {
    const char *name;
    double value;
} named;

enum { NAMED = 5 };

static void name_all(const zest_lm_metrics *m, named out[NAMED]) {
    out[0] = (named){"accuracy", m->accuracy};
    out[1] = (named){"f1", m->f1};
    out[2] = (named){"em", m->em};
    out[3] = (named){"loss", m->loss};
    out[4] = (named){"perplexity", m->perplexity};
}

void zest_metrics_print(const char *part, const char *metric, const zest_lm_metrics *m, FILE *out) {
    named all[NAMED];
    if (!m->n) return;
    name_all(m, all);
    fprintf(out, "%-5s %s %.4f", part, metric, m->value);
    if (isfinite(m->low)) fprintf(out, " (%.4f to %.4f)", m->low, m->high);
    for (size_t i = 0; i < NAMED; i++)
        if (isfinite(all[i].value) && strcmp(all[i].name, metric))
            fprintf(out, "  %s %.4f", all[i].name, all[i].value);
    fprintf(out, "  n = %zu\n", m->n);
}

void zest_metrics_print_short(const zest_lm_metrics *m, FILE *out) {
    named all[NAMED];
    name_all(m, all);
    fprintf(out, "dev");
    for (size_t i = 0; i < NAMED; i++)
        if (isfinite(all[i].value)) fprintf(out, "  %s %.4f", all[i].name, all[i].value);
}

json_t *zest_metrics_json(const zest_lm_metrics *m) {
    named all[NAMED];
    if (!m->n) return json_null();
    json_t *object = json_pack("{s:I}", "n", (json_int_t)m->n);
    name_all(m, all);
    for (size_t i = 0; i < NAMED; i++)
        if (!isnan(all[i].value)) zest_output_set(&object, all[i].name, zest_output_real(all[i].value));
    zest_output_set(&object, "low", zest_output_real(m->low));
    zest_output_set(&object, "high", zest_output_real(m->high));
    return object;
}
