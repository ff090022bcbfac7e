/* safetensors, read: one file, or a Hugging Face folder of one or many.
 *
 *     u64 n | n bytes of JSON: {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...} | data
 *
 * The file is mapped: a tensor's data is a pointer into it, valid until close, and never copied. Everything
 * is checked at opening, so that no bytes, however hostile, can lead a reader outside the file: header of at
 * most 100 MB, JSON of sane depth, known dtypes, sizes that fit shapes, no tensor outside the data, no
 * overlap, no hole, no name twice, no control character in a name. Data may lie at odd addresses: convert
 * with zest_dtype_to_float, or memcpy.
 *
 * All functions on an open file may be called from many threads. */
#ifndef ZEST_PARAMS_SAFETENSORS_H
#define ZEST_PARAMS_SAFETENSORS_H

#include <stddef.h>

#include "base/error.h"
#include "params/dtype.h"

typedef struct {
    const char *name;
    zest_dtype dtype;
    size_t rank;
    const size_t *shape; /* rank of them, slowest first */
    size_t count;        /* elements; 1 for rank 0 */
    size_t size;         /* bytes */
    const void *data;
} zest_safetensors_tensor;

typedef struct zest_safetensors zest_safetensors;

/* *file is NULL on error. */
zest_status zest_safetensors_open(const char *path, zest_safetensors **file, zest_error *error);

/* The same for bytes in memory, which must stay there until close. name is for messages. */
zest_status zest_safetensors_open_memory(const void *bytes, size_t size, const char *name,
                                         zest_safetensors **file, zest_error *error);

/* The model of a folder: model.safetensors, else the shards that model.safetensors.index.json names (each a
 * plain file name inside the folder; together they must hold exactly the tensors of the index). A folder with
 * PyTorch's pickles alone is refused with the command that converts it; auto_class: the class of transformers
 * to load it with (AutoModelForMaskedLM, ...). The index's total_size is not held
 * against a model: many published ones are stale, and the shards are checked name by name. */
zest_status zest_safetensors_open_folder(const char *folder, const char *auto_class, zest_safetensors **file,
                                         zest_error *error);

/* The files that an index names, each once, sorted: plain names of files in its folder. `folder` is for
 * messages. The names and their array are to be freed, also after an error. */
zest_status zest_safetensors_shards(const char *path, const char *folder, char ***names, size_t *count,
                                    zest_error *error);

void zest_safetensors_close(zest_safetensors *file);

/* Tensors in the order of their data, shard by shard. */
size_t zest_safetensors_count(const zest_safetensors *file);
const zest_safetensors_tensor *zest_safetensors_at(const zest_safetensors *file,
                                                   size_t i); /* NULL: past end */
const zest_safetensors_tensor *zest_safetensors_find(const zest_safetensors *file,
                                                     const char *name); /* NULL: none */

/* __metadata__ of the file (of the first shard). */
const char *zest_safetensors_metadata(const zest_safetensors *file, const char *key); /* NULL: none */
int zest_safetensors_metadata_at(const zest_safetensors *file, size_t i, const char **key,
                                 const char **value);

#endif
