/* The environment variables that zest reads, in one table: the source of reading and checking, of `zest
 * help environment`, the manual page and docs/command-line.md. An invalid value is an error that names the
 * variable and the allowed values, so that a typing error is not taken for the default. */
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
    ZEST_ENVIRONMENT_OWN, /* number of them */
} zest_environment_id;

typedef struct {
    const char *name;
    const char *values;   /* "a|b|c": one of these words; "MIB", "FILE": a placeholder */
    const char *initial;  /* value when it is unset or empty */
    const char *meaning;  /* one or two sentences */
    const char *audience; /* who needs it: "users", "tests" */
} zest_environment_variable;

/* Row i of the table, NULL after the last one. zest's own variables come first, then those shared with other
 * programs. */
const zest_environment_variable *zest_environment_at(int i);

/* The variable's text; NULL: unset or empty. */
const char *zest_environment_text(zest_environment_id id);

/* The index of the value among the table's words; *choice is unchanged when the variable is unset or empty. */
zest_status zest_environment_choice(zest_environment_id id, int *choice, zest_error *error);

/* An integer from low to high; *number is unchanged when the variable is unset or empty. */
zest_status zest_environment_number(zest_environment_id id, uint64_t low, uint64_t high, uint64_t *number,
                                    zest_error *error);

#endif
