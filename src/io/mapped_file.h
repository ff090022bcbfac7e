/* A file mapped into memory, read-only. Nothing is read before it is looked at, nothing is copied. A file
 * that another program cuts short while it is mapped ends the process with SIGBUS: replace model files by
 * renaming, as zest does itself, never in place. */
#ifndef ZEST_IO_MAPPED_FILE_H
#define ZEST_IO_MAPPED_FILE_H

#include <stddef.h>

#include "base/error.h"

typedef struct {
    const unsigned char *bytes; /* NULL for an empty file */
    size_t size;
} zest_mapped_file;

zest_status zest_mapped_file_open(const char *path, zest_mapped_file *map, zest_error *error);
void zest_mapped_file_close(zest_mapped_file *map); /* one that never opened ({0}) is fine */

/* Whether a name found in a file may appear in a message or on a terminal: no control characters. */
int zest_map_printable(const char *text, size_t size);

#endif
