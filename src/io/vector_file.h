/* Vectors in files: text with one number a line, exact to the last bit. */
#ifndef ZEST_IO_VECTOR_FILE_H
#define ZEST_IO_VECTOR_FILE_H

#include "base/error.h"

/* Reads numbers separated by white space or commas; # starts a comment. *values is to be freed. */
zest_status zest_vector_file_read(const char *path, double **values, size_t *count, zest_error *error);
zest_status zest_vector_file_write(const char *path, const double *values, size_t count, zest_error *error);

#endif
