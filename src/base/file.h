/* Files: read whole, written whole or not at all. */
#ifndef ZEST_BASE_FILE_H
#define ZEST_BASE_FILE_H

#include <stddef.h>

#include "base/memory.h"
#include "base/error.h"

/* Appends the file's bytes to *out; a file of more than limit bytes is refused. */
zest_status zest_file_read(const char *path, size_t limit, zest_buffer *out, zest_error *error);

/* Replaces path by these bytes atomically: a temporary file in the same folder, fsync, rename, fsync of the
 * folder. After a kill or on a full disk the old file is still there, whole. */
zest_status zest_file_write(const char *path, const void *bytes, size_t size, zest_error *error);

/* Writes everything or fails, whatever the kernel's appetite. path is for the message. */
zest_status zest_file_write_all(int descriptor, const void *bytes, size_t size, const char *path,
                                zest_error *error);

/* Makes the folder; one that exists is fine. */
zest_status zest_file_make_folder(const char *path, zest_error *error);

/* Removes a folder and the files in it; one that is not there is fine, one with folders in it is refused. */
zest_status zest_file_remove_folder(const char *path, zest_error *error);

/* After a rename: puts the folder around path on disk, as far as the system can. */
void zest_file_sync_folder_of(const char *path);

/* folder/name, to be freed; NULL when memory is short. */
char *zest_file_join(const char *folder, const char *name);

/* A file mapped into memory, read-only. Nothing is read before it is looked at, nothing is copied. A file
 * that another program cuts short while it is mapped ends the process with SIGBUS: replace model files by
 * renaming, as zest does itself, never in place. */

typedef struct {
    const unsigned char *bytes; /* NULL for an empty file */
    size_t size;
} zest_mapped_file;

zest_status zest_mapped_file_open(const char *path, zest_mapped_file *map, zest_error *error);
void zest_mapped_file_close(zest_mapped_file *map); /* one that never opened ({0}) is fine */

/* Whether a name found in a file may appear in a message or on a terminal: no control characters. */
int zest_map_printable(const char *text, size_t size);

#endif
