/* Files: read into memory, replaced atomically, mapped. */
#ifndef ZEST_BASE_FILE_H
#define ZEST_BASE_FILE_H

#include <stddef.h>

#include "base/error.h"
#include "base/memory.h"

/* Appends the content of the file to *out; a file of more than limit bytes is an error, and so is what is no file: a
 * folder of a stranger may have a pipe in it, which would be waited for without end, or a link to a device. */
zest_status zest_file_read(const char *path, size_t limit, zest_buffer *out, zest_error *error);
/* The same for input that the user names, which may be a pipe. */
zest_status zest_file_read_stream(const char *path, size_t limit, zest_buffer *out, zest_error *error);

/* Opens a file for reading piece by piece; what is no file is an error. *descriptor is -1 on error. */
zest_status zest_file_open(const char *path, int *descriptor, zest_error *error);

/* Replaces path by these bytes atomically: a temporary file in the same folder, fsync, rename, fsync of the
 * folder. After a kill or on a full disk the old file is unchanged. */
zest_status zest_file_write(const char *path, const void *bytes, size_t size, zest_error *error);

/* The first half of that, for who writes piece by piece: *name, to be freed, is the temporary file beside path, new
 * and locked while *descriptor is open. Then: fsync, and zest_file_close_temporary. A link with that name is not
 * followed. */
zest_status zest_file_open_temporary(const char *path, char **name, int *descriptor, zest_error *error);
/* The last part: closes the temporary file, gives it the name path if the status so far is ZEST_OK and removes it
 * otherwise, and frees its name. Returns the status of the whole. */
zest_status zest_file_close_temporary(const char *path, char *temporary, int descriptor, zest_status status,
                                      zest_error *error);

/* Removes what killed processes left in the folder: temporary files of the functions above, by their names, unless a
 * living process has them locked. Failures are ignored: such a file only takes space. */
void zest_file_remove_temporaries(const char *folder);
/* The same for temporary files of this one file, in a folder that may have others' files. */
void zest_file_remove_temporaries_of(const char *path);

/* Repeats write() until everything is written. path is for the message. */
zest_status zest_file_write_all(int descriptor, const void *bytes, size_t size, const char *path,
                                zest_error *error);

/* Creates the folder unless it exists. */
zest_status zest_file_make_folder(const char *path, zest_error *error);

/* Fails if path is a symbolic link. A path that does not exist is no error. */
zest_status zest_file_refuse_link(const char *path, zest_error *error);

/* Deletes a folder and the files in it; of a symbolic link in it the link, never what it points to. A folder that
 * does not exist is no error; one with subfolders is, and so is a link instead of a folder. */
zest_status zest_file_remove_folder(const char *path, zest_error *error);

/* After a rename: fsync of the parent folder of path. Failures are ignored. */
void zest_file_sync_folder_of(const char *path);

/* folder/name, to be freed; NULL: out of memory. */
char *zest_file_join(const char *folder, const char *name);

/* A list of numbers in a text file, exact to the last bit. Reading accepts numbers separated by white space or
 * commas; # starts a comment; *values is to be freed. Writing puts one number on a line. */
zest_status zest_file_read_numbers(const char *path, double **values, size_t *count, zest_error *error);
zest_status zest_file_write_numbers(const char *path, const double *values, size_t count, zest_error *error);

/* ---- Mapped files ----
 *
 * A file mapped into memory, read-only. If another program truncates the file while it is mapped, the process
 * ends with SIGBUS: replace model files by renaming, as zest does itself, never in place. */

typedef struct {
    const unsigned char *bytes; /* NULL for an empty file */
    size_t size;
} zest_mapped_file;

zest_status zest_mapped_file_open(const char *path, zest_mapped_file *map, zest_error *error);
void zest_mapped_file_close(zest_mapped_file *map); /* {0} is accepted */

#endif
