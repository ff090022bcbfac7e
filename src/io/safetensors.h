/* Reading and writing of safetensors: one file, or a Hugging Face folder of one or several.
 *
 *     u64 n / n bytes of JSON: {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...} / data
 *
 * The file is mapped: the data of a tensor is a pointer into it, valid until close, and never copied.
 * Everything is checked at opening, so that a hostile file cannot cause reads outside it: header of at
 * most 100 MB, JSON of limited depth, known dtypes, sizes that match the shapes, no tensor outside the
 * data, no overlap, no gap, no duplicate name, no control character in a name. Data may be unaligned:
 * convert with zest_dtype_to_float, or memcpy.
 *
 * All functions on an open file may be called from several threads. */
#ifndef ZEST_IO_SAFETENSORS_H
#define ZEST_IO_SAFETENSORS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "io/tensor.h"

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

/* The same for bytes in memory, which must stay valid until close. name is for messages. */
zest_status zest_safetensors_open_memory(const void *bytes, size_t size, const char *name,
                                         zest_safetensors **file, zest_error *error);

/* The model of a folder: model.safetensors, else the shards that model.safetensors.index.json names (each a
 * plain file name inside the folder; together they must contain exactly the tensors of the index). For a folder
 * that has only PyTorch pickles the error shows the command that converts them; auto_class: the class of
 * transformers to load it with (AutoModelForMaskedLM, ...). The total_size of the index is ignored: in many
 * published models it is stale, and the shards are checked name by name. */
zest_status zest_safetensors_open_folder(const char *folder, const char *auto_class, zest_safetensors **file,
                                         zest_error *error);

/* The files that an index names, sorted, without duplicates: plain names of files in its folder. `folder` is for
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

/* ---- Writing ----
 *
 * Files are replaced atomically, and the model is not copied in memory. The bytes are those of Hugging Face's
 * own writer: header padded with spaces to eight bytes, metadata {"format": "pt"}, tensors sorted by dtype
 * (widest first, so that each is aligned) and then by name. from_pretrained loads the result. */

/* Writes elements first .. first+count-1 of a tensor, in its dtype, to out (aligned for any dtype). Called
 * with increasing `first`, about a megabyte at a time. A status other than ZEST_OK, with *error set, cancels
 * the writing. */
typedef zest_status (*zest_safetensors_fill)(void *user, size_t first, size_t count, void *out,
                                             zest_error *error);

typedef struct {
    const char *name;
    zest_dtype dtype;
    size_t rank;
    const size_t *shape;
    const void *data; /* the elements, or NULL: fill produces them */
    zest_safetensors_fill fill;
    void *user;
} zest_safetensors_source;

/* Writes one file. metadata: key, value, key, value, ..., NULL to add to "format"; or NULL. The data
 * is written to a temporary file in the same folder, which is renamed only when everything is on disk: after
 * an error (a full disk, say) the old file is unchanged, and the temporary one is deleted. */
zest_status zest_safetensors_write(const char *path, const zest_safetensors_source *tensors, size_t count,
                                   const char *const *metadata, zest_error *error);

/* Writes the model of a folder: model.safetensors when it fits into shard_size bytes of data (0: no limit),
 * else model-00001-of-0000N.safetensors, ... filled in the order of the list, with
 * model.safetensors.index.json. All shards are on disk before the first replaces an old one. Stale files of an
 * older model are deleted at the end. */
zest_status zest_safetensors_write_folder(const char *folder, const zest_safetensors_source *tensors,
                                          size_t count, uint64_t shard_size, zest_error *error);

/* ---- Internal ---- */

typedef struct {
    const char *key, *value;
} zest_safetensors_pair;

/* Either one file (with its own map, text and shapes) or a sharded model (shards are files; tensors point into
 * them). */
struct zest_safetensors {
    zest_mapped_file map;                    /* empty for open_memory */
    zest_safetensors_tensor *tensors;        /* in the order of their data */
    const zest_safetensors_tensor **by_name; /* sorted */
    size_t count;
    char *text; /* names and metadata, NUL-terminated */
    size_t *shapes;
    zest_safetensors_pair *metadata;
    size_t metadata_count;
    zest_safetensors **shards;
    size_t shard_count;
};

#endif
