/* What safetensors.c and safetensors_folder.c share. */
#ifndef ZEST_PARAMS_SAFETENSORS_INTERNAL_H
#define ZEST_PARAMS_SAFETENSORS_INTERNAL_H

#include <jansson.h>

#include "params/map.h"
#include "params/safetensors.h"

typedef struct {
    const char *key, *value;
} zest_safetensors_pair;

/* Either one file (map, text, shapes are its own) or a model of many (parts are files; tensors point into
 * them). */
struct zest_safetensors {
    zest_map map;                            /* empty for open_memory */
    zest_safetensors_tensor *tensors;        /* in the order of their data */
    const zest_safetensors_tensor **by_name; /* sorted */
    size_t count;
    char *text; /* names and metadata, each with its NUL */
    size_t *shapes;
    zest_safetensors_pair *metadata;
    size_t metadata_count;
    zest_safetensors **parts;
    size_t part_count;
};

/* Fills by_name from tensors. */
zest_status zest_safetensors_sort(zest_safetensors *file, const char *path, zest_error *error);

#endif
