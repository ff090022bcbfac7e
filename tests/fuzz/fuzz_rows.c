/* Any bytes as a data file, the first of which choose its layout: an error with a sentence, or rows all of
 * which can be read. The same bytes are a task file, too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "task/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Where what was read goes, so that no compiler drops the reading. */
static volatile size_t sink;

static void look(const zest_rows *rows) {
    size_t sum = 0, count;
    if (!rows->count || !rows->name_count) __builtin_trap();
    for (size_t f = 0; f < rows->name_count; f++)
        if (zest_rows_field(rows, rows->names[f]) != (int)f) __builtin_trap();
    for (size_t r = 0; r < rows->count; r++)
        for (size_t f = 0; f < rows->name_count; f++) {
            const char *const *texts = zest_rows_get(rows, r, (int)f, &count);
            char buffer[64];
            for (size_t i = 0; i < count; i++)
                sum += strlen(texts[i]) + strlen(zest_rows_show(texts[i], buffer));
        }
    sink = sum;
}

static void read_task(const uint8_t *bytes, size_t size) {
    char path[] = "/tmp/zest-fuzz-XXXXXX.task";
    int file = mkstemps(path, 5);
    zest_task task;
    zest_error error = {0};
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    close(file);
    if (zest_task_open(path, &task, &error)) {
        if (task.memory || task.path || !error.message[0]) __builtin_trap();
    } else if (!task.label || !task.sources[0].train || !(task.masked || task.causal)) {
        __builtin_trap();
    }
    zest_task_free(&task);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const fields[] = {NULL, "a", "a=0 b=-1", "a=b.c"};
    zest_rows rows;
    zest_error error = {0};
    if (size < 1) return 0;
    int format = bytes[0] & 15;
    if (format == 15) {
        read_task(bytes + 1, size - 1);
        return 0;
    }
    zest_rows_layout layout = {.format = (zest_rows_format)(format % 8),
                               .header = format >= 8,
                               .skip_short = format >= 8,
                               .all_answers = format >= 8,
                               .fields = fields[bytes[0] >> 6]};
    if (zest_rows_parse(bytes + 1, size - 1, "fuzz", &layout, &rows, &error)) {
        if (rows.texts || !error.message[0]) __builtin_trap();
        return 0;
    }
    look(&rows);
    zest_rows_free(&rows);
    return 0;
}
