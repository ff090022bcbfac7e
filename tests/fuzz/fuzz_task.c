/* Any bytes as a task file: an error with a sentence, or a task that has what a task needs. */
#include <string.h>

#include "task/task.h"
#include "task/template.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    zest_task task;
    zest_error error = {0};
    fuzz_put("x.task", data, size);
    if (zest_task_open(fuzz_path("x.task"), &task, &error)) {
        if (task.memory || task.path || !error.message[0]) __builtin_trap();
    } else {
        if (!task.label || !task.sources[0].train || !(task.masked || task.causal)) __builtin_trap();
        for (int causal = 0; causal < 2; causal++) {
            zest_task_columns columns = {0};
            zest_task_columns_find(&task, causal, &columns, &error);
            zest_task_columns_free(&columns);
        }
    }
    zest_task_free(&task);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_TEXT, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const paths[] = {"tests/data/tasks/pairs.task", "tests/data/tasks/reviews.task",
                                        "examples/reviews/reviews.task"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        zest_buffer file = {0};
        fuzz_read(paths[i], &file);
        add(file.data, file.size, user);
        zest_buffer_free(&file);
    }
}
