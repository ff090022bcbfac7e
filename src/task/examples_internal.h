/* How examples are made; seen by examples*.c. */
#ifndef ZEST_TASK_EXAMPLES_INTERNAL_H
#define ZEST_TASK_EXAMPLES_INTERNAL_H

#include "task/examples.h"
#include "task/template.h"

enum { ZEST_EXAMPLES_OPTION_FIELDS = 16 };

/* What all rows share. */
typedef struct {
    const zest_task *task;
    const zest_rows *rows;
    const zest_split *split;
    const zest_tokenizer *tokenizer;
    const zest_model_config *model;
    int masked;
    zest_template *prompt, *form; /* form: NULL when the options stand for themselves */
    const char *words[ZEST_TASK_CLASSES_MOST];
    zest_ids before;          /* causal: the start token */
    int32_t start, end, mask; /* masked; start and end -1: none */
    size_t limit;             /* tokens of the longest text */
    size_t max_tokens;        /* TEXT */
    int label;                /* field, or -1 */
    int unlabelled;           /* zest_examples_options */
    int option_fields[ZEST_EXAMPLES_OPTION_FIELDS];
    size_t option_field_count;
} zest_examples_maker;

/* One row, encoded. */
typedef struct {
    zest_ids tokens;
    zest_example_text *texts;
    size_t count;
    zest_example_text prompt; /* TEXT */
    uint32_t answer, *right;
    char **gold;
    size_t cut;
} zest_examples_made;

/* Room that is kept from row to row. */
typedef struct {
    zest_template_parts parts;
    size_t *lengths, *places; /* of each part's tokens; one block of memory, lengths first */
    size_t length_room;
    zest_ids ids, prompt_ids;
    zest_buffer text;
    const char **options;
    size_t option_count, option_room;
} zest_examples_scratch;

/* "FILE:LINE: ..." */
zest_status zest_examples_refuse(const zest_examples_maker *maker, size_t row, zest_error *error,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));

zest_status zest_examples_encode_masked(const zest_examples_maker *maker, size_t row,
                                        zest_examples_scratch *scratch, zest_examples_made *made,
                                        zest_error *error);
/* The class, the options or the right texts must be known already (scratch->options, made->gold). */
zest_status zest_examples_encode_causal(const zest_examples_maker *maker, size_t row,
                                        zest_examples_scratch *scratch, zest_examples_made *made,
                                        zest_error *error);

/* What is right: made->answer, right and gold; and scratch->options. index: of the split. */
zest_status zest_examples_find_answer(const zest_examples_maker *maker, size_t index,
                                      zest_examples_scratch *scratch, zest_examples_made *made,
                                      zest_error *error);
/* The fields that answers come from. */
zest_status zest_examples_find_fields(zest_examples_maker *maker, zest_error *error);

#endif
