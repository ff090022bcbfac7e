/* What loading a model needs: its family (families.c), which maps config.json and tensor names onto the one
 * transformer, and the source of its tensors (model_files.c): the safetensors of a folder, a GGUF file, or random
 * weights. All sources use the names of Hugging Face. */
#ifndef ZEST_MODEL_MODEL_FILES_H
#define ZEST_MODEL_MODEL_FILES_H

#include <jansson.h>

#include "model/model.h"
#include "io/tensor.h"
#include "io/gguf.h"
#include "io/safetensors.h"

/* ---- Families: a function that reads config.json, and a table of names ---- */

/* Names without ".weight" and ".bias", except those of the head. Those of a layer follow `layer`, its number and a
 * dot. NULL: the family has no such tensor. */
typedef struct {
    const char *prefix; /* "roberta.": files saved from the bare model lack it */
    const char *tokens, *positions, *types, *embedding_norm, *project_in;
    const char *layer;
    const char *norm1, *q, *k, *v, *qkv, *q_norm, *k_norm, *out, *out_norm, *norm2, *gate, *up, *down,
        *down_norm;
    const char *final_norm, *project_out, *head_dense, *head_norm;
    const char *head, *head_alias, *head_bias, *head_bias_alias;
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

/* ---- GGUF architectures (gguf_config.c) ---- */

/* A key of the metadata, without the architecture, and its name in config.json. */
typedef struct {
    const char *gguf, *config;
    enum { ZEST_GGUF_KEY_SIZE, ZEST_GGUF_KEY_OPTIONAL, ZEST_GGUF_KEY_NUMBER } kind; /* OPTIONAL: a size */
} zest_gguf_key;

typedef struct {
    const char *name;        /* general.architecture */
    const char *families[2]; /* that it covers; read files become the first */
    const char *class_name, *activation_key, *activation;
    const zest_gguf_key *keys; /* the last is NULL */
    int interleaved;           /* rows of q and k are in the order of the rotary pairs (2i, 2i + 1) */
    int gemma;                 /* gains of norms are stored whole, not less one; and norms have other names */
    size_t wide_layers;        /* Gemma models of so many layers scale scores by the hidden size of a head */
} zest_gguf_architecture;

/* NULL: GGUF has no architecture for this family. */
const zest_gguf_architecture *zest_gguf_architecture_of(const char *family);
/* The name in a GGUF file of a tensor as Hugging Face calls it; 0: there is none. */
int zest_gguf_name_of(const zest_gguf_architecture *architecture, const char *name, char *out, size_t size);
/* What a GGUF file adds to the elements of a tensor, for Hugging Face to be without it. */
float zest_gguf_offset(const zest_gguf_architecture *architecture, const char *name);
/* Gemma's query_pre_attn_scalar, which llama.cpp knows by the number of layers. */
size_t zest_gguf_query_scalar(const zest_gguf_architecture *architecture, size_t layers, size_t hidden_size,
                              size_t heads, size_t head_dim);
/* Does Hugging Face store this matrix inputs × outputs, as GPT-2 does in its layers? GGUF never does. */
int zest_gguf_is_transposed(const char *name);
/* The heads by which the rows of a tensor are reordered; 0: they are not. */
size_t zest_gguf_rotary_heads(const zest_gguf_architecture *architecture, const char *name, size_t heads,
                              size_t kv_heads);

enum { ZEST_GGUF_FREQUENCIES = 512 }; /* of a head, at most, in the tensor rope_freqs */

/* ---- Sources ---- */

typedef struct {
    const char *path; /* as the caller gave it, for messages */
    char *config_path;
    json_t *config_json; /* of a GGUF file: what config.json would say */
    char *config_text;   /* the same as text; of a folder: the file's own bytes */
    zest_safetensors *folder;
    zest_gguf *gguf;
    const zest_gguf_architecture *architecture; /* GGUF */
    size_t heads, kv_heads;
    int random; /* every tensor exists, of any shape */
    uint64_t seed;
} zest_model_source;

/* A tensor of a source. */
typedef struct {
    const zest_safetensors_tensor *safetensors;
    const zest_gguf_tensor *gguf;
    size_t rotary_heads; /* rows have to be permuted to Hugging Face's order; 0: they have it */
    int transposed;      /* GGUF has outputs × inputs, Hugging Face the reverse */
    float offset;        /* to be subtracted from what GGUF has */
    size_t rank, shape[2];
    zest_dtype dtype; /* to store it as, by default */
} zest_model_found;

/* The metadata of an opened GGUF file as config_json. */
zest_status zest_gguf_configure(zest_model_source *source, zest_error *error);

/* Zero the source first; close it whatever open says. */
zest_status zest_model_source_open(const char *path, zest_model_source *source, zest_error *error);
void zest_model_source_close(zest_model_source *source);

/* 0: there is no such tensor. */
int zest_model_source_find(const zest_model_source *source, const char *name, zest_model_found *found);

/* All elements as dtype. The file's pages are dropped after the copy. */
zest_status zest_model_source_copy(const zest_model_found *found, zest_dtype dtype, int threads, void *out,
                                   zest_error *error);

/* The blocks of a quantised GGUF matrix as they are, its rows in Hugging Face's order. */
zest_status zest_model_source_copy_blocks(const zest_model_found *found, void *out, zest_error *error);

/* Tensor i, which a file has head by head, becomes q, k and v of all heads. zest_model_save goes the other way. */
zest_status zest_model_group_heads(const zest_model *model, size_t i, zest_error *error);

/* Random weights: N(0, 0.02^2); what norms store as their gains is `gain`. */
zest_status zest_model_source_randomize(const zest_model_source *source, const zest_tensor *tensor,
                                        const zest_model_tensor_shape *shape, float gain, int threads);

/* Refuses weights with the head of another task in place of the language-model head; and says why tensor `name`
 * of that head is missing. */
zest_status zest_model_source_check_head(const zest_model_source *source, zest_error *error);
zest_status zest_model_source_head_missing(const zest_model_source *source, const char *name,
                                           zest_error *error);

/* Refuses weights that the configuration does not describe, which loading would silently leave aside: tensors of
 * layers beyond the last, tensors within a layer that are none of `used`, and in a GGUF file any other. */
zest_status zest_model_source_check_unused(const zest_model_source *source, const zest_family_names *names,
                                           size_t layers, const zest_model_found *used, size_t count,
                                           zest_error *error);

#endif
