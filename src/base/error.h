/* Errors: a status to return, and a message for the reader. */
#ifndef ZEST_BASE_ERROR_H
#define ZEST_BASE_ERROR_H

#include "zest.h"

typedef struct {
    zest_status status;
    char message[1024];
} zest_error;

/* Sets the message (what was wrong, where, what to do) and returns status. error may be NULL. */
zest_status zest_error_set(zest_error *error, zest_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: appends the text of errno. */
zest_status zest_error_set_errno(zest_error *error, zest_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "not enough memory for WHAT (N bytes)". */
zest_status zest_error_memory(zest_error *error, const char *what, size_t bytes);

#endif
