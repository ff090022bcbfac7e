/* Families of models: how config.json and the names of tensors map onto the one transformer. A family is a
 * function that reads config.json, and a table of names; families.c has them all. */
#ifndef ZEST_MODEL_FAMILIES_H
#define ZEST_MODEL_FAMILIES_H

#include <jansson.h>

#include "model/model.h"

/* Names without ".weight" and ".bias", except those of the head. Those of a layer follow `layer`, its number and a
 * dot. NULL: the family has no such tensor. */
typedef struct {
    const char *prefix; /* "roberta.": files saved from the bare model lack it */
    const char *tokens, *positions, *types, *embedding_norm, *project_in;
    const char *layer;
    const char *norm1, *q, *k, *v, *qkv, *out, *norm2, *gate, *up, *down;
    const char *final_norm, *project_out, *head_dense, *head_norm;
    const char *head, *head_bias, *head_bias_alias;
} zest_family_names;

typedef struct zest_config_reader zest_config_reader; /* config.json as a family reads it */

typedef struct {
    const char *types[4]; /* model_type in config.json */
    void (*describe)(zest_config_reader *json, zest_model_config *out);
    const zest_family_names *names;
    const char *auto_class; /* of transformers: what loads the model with its language-model head */
} zest_family;

/* The family of config.json's model_type. path: the file, for the message. */
zest_status zest_family_of(const json_t *json, const char *path, const zest_family **family,
                           zest_error *error);

/* The family of config.json's model_type, and its description, checked for consistency. */
zest_status zest_family_describe(const json_t *json, const char *path, zest_model_config *out,
                                 const zest_family_names **names, zest_error *error);

#endif
