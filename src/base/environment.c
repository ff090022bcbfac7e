#include "base/environment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(const char *variable) {
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

zest_status zest_environment_choice(const char *variable, const char *const *names, int count, int *choice,
                                    zest_error *error) {
    const char *value = value_of(variable);
    if (!value) return ZEST_OK;
    for (int i = 0; i < count; i++)
        if (!strcmp(value, names[i])) {
            *choice = i;
            return ZEST_OK;
        }
    char allowed[256] = "";
    for (int i = 0; i < count; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s",
                 !i              ? ""
                 : i + 1 < count ? ", "
                                 : " or ",
                 names[i]);
    }
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "the environment variable %s is '%.64s', but may only be %s", variable, value,
                          allowed);
}

zest_status zest_environment_number(const char *variable, uint64_t low, uint64_t high, uint64_t *number,
                                    zest_error *error) {
    const char *value = value_of(variable);
    if (!value) return ZEST_OK;
    char *end = NULL;
    errno = 0;
    uint64_t found = strtoull(value, &end, 10);
    /* strtoull takes signs and blanks */
    if (*value < '0' || *value > '9' || *end || errno || found < low || found > high)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "the environment variable %s is '%.64s', but must be a whole number from %" PRIu64 " to %" PRIu64,
            variable, value, low, high);
    *number = found;
    return ZEST_OK;
}
