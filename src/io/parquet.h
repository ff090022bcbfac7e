/* Parquet files, as the Hugging Face Hub stores data sets: their rows as JSON, one after the other.
 *
 * Read are: pages of version 1 and 2; the encodings PLAIN, RLE, dictionaries, DELTA_* and BYTE_STREAM_SPLIT; the codecs
 * SNAPPY and LZ4_RAW, and GZIP and ZSTD where zlib and libzstd were found at the build; columns that are optional; lists
 * and structs in any depth. Texts, integers, floating-point numbers and booleans are read. Maps, timestamps, decimals
 * and other types are not: such a column is left out, or refused if nothing else was asked for by its name.
 *
 * A file is a stranger's. Memory and time are bounded by its size: no count of the file is believed before as many bytes
 * were there, and what unpacks beyond all measure is refused. */
#ifndef ZEST_IO_PARQUET_H
#define ZEST_IO_PARQUET_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

typedef struct zest_parquet zest_parquet;

/* Whether the bytes begin as such a file does. */
int zest_parquet_is(const void *bytes, size_t size);

/* The bytes stay the caller's and must outlive the reader. name is for messages. paths: which columns to read, as the
 * paths of values in a row of JSON ("label", "answers.text"; lists have no part in them); a path stands for all below
 * it, and one that the file does not have for nothing. paths NULL: all columns. */
zest_status zest_parquet_open(const void *bytes, size_t size, const char *name, const char *const *paths,
                              size_t path_count, zest_parquet **file, zest_error *error);

/* The next row, a new object with its columns; NULL behind the last one. A missing value is null, and so is a number
 * that JSON does not have (NaN, infinities). An unsigned integer beyond 63 bits is a text of its digits. */
zest_status zest_parquet_next(zest_parquet *file, json_t **row, zest_error *error);

void zest_parquet_close(zest_parquet *file); /* NULL is accepted */

#endif
