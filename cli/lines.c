#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lines.h"
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

static zest_status read_standard_input(zest_lines *lines, zest_error *error) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size = 0;
    zest_status status = ZEST_OK;
    if (isatty(STDIN_FILENO)) zest_output_note("reading lines from the terminal; Ctrl-D ends them");
    errno = 0;
    for (size_t number = 1; !status && (size = getline(&line, &capacity, stdin)) >= 0; number++) {
        if (size && line[size - 1] == '\n') line[--size] = '\0';
        if (size && line[size - 1] == '\r') line[--size] = '\0';
        if (size) status = add(lines, line, number, error);
        if (!status && strlen(line) < (size_t)size)
            zest_output_note("standard input, line %zu: has a zero byte, and is cut there", number);
    }
    if (!status && size < 0 && (ferror(stdin) || !feof(stdin)))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "standard input cannot be read");
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
