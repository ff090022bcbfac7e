#include "io/vector_file.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/file.h"

static const size_t largest_file = (size_t)1 << 36;

/* Past blanks, commas and comments; counts the lines. */
static char *skip(char *at, size_t *line) {
    for (;; at++) {
        if (*at == '#')
            while (at[1] && at[1] != '\n') at++;
        else if (*at == '\n')
            ++*line;
        else if (!isspace((unsigned char)*at) && *at != ',')
            return at;
    }
}

zest_status zest_vector_file_read(const char *path, double **values, size_t *count, zest_error *error) {
    zest_buffer text = {0};
    size_t room = 0, line = 1;
    *values = NULL;
    *count = 0;
    zest_status status = zest_file_read(path, largest_file, &text, error);
    char *at = !status && text.data ? skip(text.data, &line) : NULL;
    while (at && *at && !status) {
        char *end;
        if (*count == room) {
            room = room ? 2 * room : 64;
            double *grown = realloc(*values, room * sizeof *grown);
            if (!grown) {
                status = zest_error_memory(error, path, room * sizeof *grown);
                break;
            }
            *values = grown;
        }
        (*values)[*count] = zest_number_parse(at, &end);
        if (end == at || (*end && !isspace((unsigned char)*end) && *end != ',' && *end != '#'))
            status = zest_error_set(error, ZEST_ERROR_FORMAT,
                                    "%s, line %zu: '%.20s' does not start with a number", path, line, at);
        else if (!isfinite((*values)[(*count)++]))
            status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s, line %zu: a starting point must be finite",
                                    path, line);
        at = skip(end, &line);
    }
    if (!status && *count == 0)
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: there is no number in it", path);
    if (status) {
        free(*values);
        *values = NULL;
    }
    zest_buffer_free(&text);
    return status;
}

zest_status zest_vector_file_write(const char *path, const double *values, size_t count, zest_error *error) {
    zest_buffer text = {0};
    for (size_t i = 0; i < count; i++) zest_buffer_format(&text, "%.17g\n", values[i]);
    zest_status status = text.failed ? zest_error_memory(error, path, text.size)
                                     : zest_file_write(path, text.data, text.size, error);
    zest_buffer_free(&text);
    return status;
}
