/* Families: how config.json and the names of tensors map onto the one transformer. A family is a function
 * that reads the configuration and a table of names. */
#ifndef ZEST_MODEL_FAMILIES_H
#define ZEST_MODEL_FAMILIES_H

#include <jansson.h>

#include "model/model.h"

/* A configuration being read. The first error sticks; later reads then give their fallback, so that a family
 * checks once, at the end. */
typedef struct {
    const json_t *root;
    const char *path; /* for messages */
    zest_error *error;
    zest_status status;
} zest_family_json;

/* Sizes are 1 to 2^28. ZEST_FAMILY_REQUIRED: the key must be there. A null counts as absent. */
#define ZEST_FAMILY_REQUIRED ((size_t)-1)
size_t zest_family_size(zest_family_json *json, const char *key, size_t fallback);
double zest_family_number(zest_family_json *json, const char *key, double fallback);
int zest_family_flag(zest_family_json *json, const char *key, int fallback);
const char *zest_family_text(zest_family_json *json, const char *key, const char *fallback);
zest_activation zest_family_activation(zest_family_json *json, const char *key, const char *fallback);
/* The key must be absent, null or have this value: whatever else it says, zest cannot do. */
void zest_family_only_flag(zest_family_json *json, const char *key, int value);
void zest_family_only_text(zest_family_json *json, const char *key, const char *value);
/* The same sentence for conditions that span keys: "PATH: KEY WHY". */
void zest_family_refuse(zest_family_json *json, const char *key, const char *why);

/* Names without ".weight" and ".bias", except those of the head. Those of a layer stand behind layer, its
 * number and a dot. NULL: the family has no such tensor. */
typedef struct {
    const char *prefix; /* "roberta.": files saved from the bare model lack it */
    const char *tokens, *positions, *types, *embedding_norm, *project_in;
    const char *layer;
    const char *norm1, *q, *k, *v, *qkv, *out, *norm2, *gate, *up, *down;
    const char *final_norm, *project_out, *head_dense, *head_norm;
    const char *head, *head_bias, *head_bias_alias;
} zest_family_names;

typedef struct {
    const char *types[4]; /* model_type in config.json */
    void (*describe)(zest_family_json *json, zest_model_config *out);
    const zest_family_names *names;
    const char *auto_class; /* of transformers: what loads the model with its language-model head */
} zest_family;

extern const zest_family zest_family_roberta, zest_family_bert, zest_family_opt, zest_family_gpt2,
    zest_family_llama;

/* The family of config.json's model_type. path: the file, for the message. */
zest_status zest_family_of(const json_t *json, const char *path, const zest_family **family,
                           zest_error *error);

/* The family of config.json's model_type, and its description, checked for consistency. */
zest_status zest_family_describe(const json_t *json, const char *path, zest_model_config *out,
                                 const zest_family_names **names, zest_error *error);

#endif
