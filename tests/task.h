/* Shared by the tests of tasks. */
#ifndef ZEST_TESTS_TASK_H
#define ZEST_TESTS_TASK_H

#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/file.h"
#include "task/task.h"
#include "task/template.h"

/* The data sets, where they are; NULL: not here. */
static inline const char *shared_data(void) {
    static char buffer[512];
    return test_shared("data", buffer);
}

static inline zest_rows rows_of(const char *jsonl) {
    zest_rows rows;
    zest_rows_layout layout = {.format = ZEST_ROWS_JSONL};
    zest_error error = {0};
    if (zest_rows_parse(jsonl, strlen(jsonl), "rows.jsonl", &layout, &rows, &error))
        fail_msg("%s", error.message);
    return rows;
}

static inline zest_task open_task(const char *name) {
    zest_task task;
    zest_error error = {0};
    if (zest_task_open(name, &task, &error)) fail_msg("%s", error.message);
    return task;
}

static inline zest_rows read_part(const zest_task *task, const char *data, int causal, zest_task_part part) {
    zest_rows rows;
    zest_error error = {0};
    if (zest_task_read(task, data, causal, part, &rows, &error)) fail_msg("%s", error.message);
    return rows;
}

static inline void assert_message(const zest_error *error, const char *words) {
    if (!strstr(error->message, words)) fail_msg("'%s' does not say '%s'", error->message, words);
}

static inline void refuses_name(const char *name, const char *words) {
    zest_task task, empty;
    zest_error error = {0};
    memset(&empty, 0, sizeof empty);
    assert_int_not_equal(zest_task_open(name, &task, &error), ZEST_OK);
    assert_message(&error, words);
    assert_null(task.memory);
    assert_null(task.path);
}

#endif
