/* Shared by the tests of data files. */
#ifndef ZEST_TESTS_ROWS_H
#define ZEST_TESTS_ROWS_H

#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/file.h"
#include "task/rows.h"

#define TSV(names) \
    (zest_rows_layout) { .format = ZEST_ROWS_TSV, .header = 1, .fields = names }
#define CSV(names) \
    (zest_rows_layout) { .format = ZEST_ROWS_CSV, .fields = names }
#define JSONL(names) \
    (zest_rows_layout) { .format = ZEST_ROWS_JSONL, .fields = names }
#define SPECIAL(which) \
    (zest_rows_layout) { .format = which }

/* Parses a copy that ends where its allocation ends, so that the address sanitizer sees a step outside. */
static inline zest_status parse_bytes(const void *bytes, size_t size, zest_rows_layout layout,
                                      zest_rows *rows, zest_error *error) {
    void *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size) memcpy(copy, bytes, size);
    zest_status status = zest_rows_parse(copy, size, "f", &layout, rows, error);
    free(copy);
    return status;
}

static inline zest_rows parse(const char *text, zest_rows_layout layout) {
    zest_rows rows;
    zest_error error = {0};
    if (parse_bytes(text, strlen(text), layout, &rows, &error)) fail_msg("%s", error.message);
    return rows;
}

/* Refuses the bytes with a sentence that has these words. */
static inline void refuses_bytes(const void *bytes, size_t size, zest_rows_layout layout, const char *words) {
    zest_rows rows, empty = {0};
    zest_error error = {0};
    zest_status status = parse_bytes(bytes, size, layout, &rows, &error);
    if (!status) fail_msg("accepted, but should say '%s': %.60s", words, (const char *)bytes);
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
    assert_memory_equal(&rows, &empty, sizeof rows);
    assert_int_equal(error.status, status);
}

static inline void refuses(const char *text, zest_rows_layout layout, const char *words) {
    refuses_bytes(text, strlen(text), layout, words);
}

/* The texts of a field with bars between them. */
static inline const char *field(const zest_rows *rows, size_t row, const char *name) {
    static char buffer[4096];
    int number = zest_rows_field(rows, name);
    size_t count, used = 0;
    if (number < 0) fail_msg("no field '%s'", name);
    const char *const *texts = zest_rows_get(rows, row, number, &count);
    buffer[0] = '\0';
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(buffer + used, sizeof buffer - used, "%s%s", i ? "|" : "", texts[i]);
    return buffer;
}

#define assert_field(rows, row, name, text) assert_string_equal(field(&(rows), row, name), text)

#endif
