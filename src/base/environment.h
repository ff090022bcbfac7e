/* The environment variables that zest reads, in one table: reading and checking, `zest help environment`, the
 * manual page and docs/command-line.md all come from it. A value that is not allowed is an error that names
 * the variable and what is allowed: a typing error must not be taken for the default. */
#ifndef ZEST_BASE_ENVIRONMENT_H
#define ZEST_BASE_ENVIRONMENT_H

#include <stdint.h>

#include "base/error.h"

/* zest's own variables; the table's first rows, in this order. */
typedef enum {
    ZEST_ENVIRONMENT_CPU,
    ZEST_ENVIRONMENT_CUDA_MEMORY,
    ZEST_ENVIRONMENT_CUDA_TUNE,
    ZEST_ENVIRONMENT_CUBLASLT,
    ZEST_ENVIRONMENT_CUDA_GEMM,
    ZEST_ENVIRONMENT_CUDA_NORM,
    ZEST_ENVIRONMENT_CUDA_F32,
    ZEST_ENVIRONMENT_OWN, /* how many */
} zest_environment_id;

typedef struct {
    const char *name;
    const char *values;   /* "a|b|c": one of these words; "MIB", "FILE": what stands there */
    const char *initial;  /* what counts when it is unset or empty */
    const char *meaning;  /* one or two sentences */
    const char *audience; /* who needs it: "users", "tests" */
} zest_environment_variable;

/* Row i of the table, NULL behind the last one. Behind zest's own come those that it shares with other
 * programs. */
const zest_environment_variable *zest_environment_at(int i);

/* The variable's text; NULL: unset or empty. */
const char *zest_environment_text(zest_environment_id id);

/* The position of the value among the table's words; *choice stays as it is when the variable is unset or
 * empty. */
zest_status zest_environment_choice(zest_environment_id id, int *choice, zest_error *error);

/* A whole number from low to high; *number stays as it is when the variable is unset or empty. */
zest_status zest_environment_number(zest_environment_id id, uint64_t low, uint64_t high, uint64_t *number,
                                    zest_error *error);

#endif
