/* safetensors, written: whole or not at all, and never through a second copy of the model.
 *
 * The bytes are those of Hugging Face's own writer: header padded with spaces to eight bytes, metadata
 * {"format": "pt"}, tensors sorted by dtype (widest first, so that each is aligned) and then by name. What is
 * written, from_pretrained loads. */
#ifndef ZEST_PARAMS_SAFETENSORS_WRITE_H
#define ZEST_PARAMS_SAFETENSORS_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "params/dtype.h"

/* Makes elements first .. first+count-1 of a tensor, in its dtype, at out (aligned for any dtype). Called
 * with rising `first`, about a megabyte at a time. Not ZEST_OK (with the reason in *error) gives the writing
 * up. */
typedef zest_status (*zest_safetensors_fill)(void *user, size_t first, size_t count, void *out,
                                             zest_error *error);

typedef struct {
    const char *name;
    zest_dtype dtype;
    size_t rank;
    const size_t *shape;
    const void *data; /* the elements, or NULL: then fill makes them */
    zest_safetensors_fill fill;
    void *user;
} zest_safetensors_source;

/* Writes one file. metadata: key, value, key, value, ..., NULL to add to "format"; or NULL. The data goes to
 * a temporary file beside path, which takes its place only when everything is on disk: on any error (a full
 * disk, say) the old file is still there, whole, and the temporary one is gone. */
zest_status zest_safetensors_write(const char *path, const zest_safetensors_source *tensors, size_t count,
                                   const char *const *metadata, zest_error *error);

/* Writes the model of a folder: model.safetensors when it fits into shard_size bytes of data (0: no limit),
 * else model-00001-of-0000N.safetensors, ... filled in the order of the list, with
 * model.safetensors.index.json. All shards are on disk before the first takes the place of an old one. The
 * files of an older model that would be left over are removed at the end. */
zest_status zest_safetensors_write_folder(const char *folder, const zest_safetensors_source *tensors,
                                          size_t count, uint64_t shard_size, zest_error *error);

#endif
