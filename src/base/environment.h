/* Settings from environment variables. A value that is not allowed is an error that names the variable and what
 * is allowed: a typing error must not be taken for the default. */
#ifndef ZEST_BASE_ENVIRONMENT_H
#define ZEST_BASE_ENVIRONMENT_H

#include <stdint.h>

#include "base/error.h"

/* The position of the variable's value among the names; *choice stays as it is when the variable is unset or
 * empty. */
zest_status zest_environment_choice(const char *variable, const char *const *names, int count, int *choice,
                                    zest_error *error);

/* A whole number from low to high; *number stays as it is when the variable is unset or empty. */
zest_status zest_environment_number(const char *variable, uint64_t low, uint64_t high, uint64_t *number,
                                    zest_error *error);

#endif
