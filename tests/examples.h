/* Shared by the tests of examples: a small tokenizer, two models, and rows encoded as examples. */
#ifndef ZEST_TESTS_EXAMPLES_H
#define ZEST_TESTS_EXAMPLES_H

#include "task/examples.h"
#include "tests/task.h"

static zest_error error;

static inline zest_tokenizer *opened(const char *path) {
    zest_tokenizer *t = zest_tokenizer_open(path, &error);
    if (!t) fail_msg("%s", error.message);
    return t;
}

static inline zest_tokenizer *small(void) { return opened("tests/data/tokenizers/gpt2.json"); }

static const zest_model_config masked_model = {
    .family = "roberta", .vocab_size = 50265, .max_positions = 512, .causal = 0};
static const zest_model_config causal_model = {
    .family = "opt", .vocab_size = 50272, .max_positions = 2048, .causal = 1};

/* All rows in their order, as class 0. */
static inline zest_status make(const zest_task *task, const zest_rows *rows, const zest_tokenizer *tokenizer,
                               const zest_model_config *model, const zest_examples_options *options,
                               zest_examples *out) {
    zest_split split = {.rows = calloc(rows->count + 1, sizeof(uint32_t)),
                        .answers = calloc(rows->count + 1, sizeof(uint32_t)),
                        .count = rows->count};
    for (size_t i = 0; i < rows->count; i++) split.rows[i] = (uint32_t)i;
    zest_status status = zest_examples_make_with(task, rows, &split, tokenizer, model, options, out, &error);
    free(split.rows);
    free(split.answers);
    return status;
}

static inline void must_make(const zest_task *task, const zest_rows *rows, const zest_tokenizer *tokenizer,
                             const zest_model_config *model, const zest_examples_options *options,
                             zest_examples *out) {
    if (make(task, rows, tokenizer, model, options, out)) fail_msg("%s", error.message);
}

static inline zest_task masked_task(const char *template, size_t length) {
    return (zest_task){.name = "T",
                       .kind = ZEST_TASK_CLASSES,
                       .masked = template,
                       .classes = {{"0", "rain"}, {"1", "better"}},
                       .class_count = 2,
                       .max_length = length};
}

#endif
