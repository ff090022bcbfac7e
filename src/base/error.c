/* Errors: a status and a message. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

const char *zest_status_name(zest_status status) {
    static const char *const names[] = {
        [ZEST_OK] = "ok",
        [ZEST_ERROR_ARGUMENT] = "bad argument",
        [ZEST_ERROR_MEMORY] = "out of memory",
        [ZEST_ERROR_FILE] = "file error",
        [ZEST_ERROR_FORMAT] = "bad file",
        [ZEST_ERROR_STATE] = "wrong order of calls",
        [ZEST_ERROR_OBJECTIVE] = "the objective failed",
        [ZEST_ERROR_DEVICE] = "the device failed",
    };
    size_t count = sizeof names / sizeof names[0];
    return (size_t)status < count ? names[status] : "unknown status";
}

/* Formats beside the message, which may be one of the arguments: a cause that is told again with more words. */
static int set(zest_error *error, zest_status status, const char *format, va_list arguments) {
    char text[sizeof error->message] = "";
    int used = zest_number_vformat(text, sizeof text, format, arguments);
    error->status = status;
    memcpy(error->message, text, sizeof text);
    return used;
}

zest_status zest_error_set(zest_error *error, zest_status status, const char *format, ...) {
    if (!error) return status;
    va_list arguments;
    va_start(arguments, format);
    set(error, status, format, arguments);
    va_end(arguments);
    return status;
}

zest_status zest_error_set_errno(zest_error *error, zest_status status, const char *format, ...) {
    int number = errno;
    if (!error) return status;
    va_list arguments;
    va_start(arguments, format);
    int used = set(error, status, format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof error->message)
        snprintf(error->message + used, sizeof error->message - (size_t)used, ": %s", strerror(number));
    return status;
}

zest_status zest_error_memory(zest_error *error, const char *what, size_t bytes) {
    return zest_error_set(error, ZEST_ERROR_MEMORY, "not enough memory for %s (%zu bytes)", what, bytes);
}
