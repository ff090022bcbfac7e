/* One transformer. A config (sizes, where the norms are, how positions enter, ...) and a table of weights cover
 * all families; forward_pass.h runs it. A model comes from a Hugging Face folder (config.json and safetensors) or
 * from a GGUF file (architectures llama and qwen2).
 *
 * Weights are in one arena. Every tensor that the forward pass uses is trainable, and its parameters are
 * numbered in the order in which the forward pass reads the tensors, whatever their order in the file:
 *
 *     token embeddings, positions, token types, norm of the embeddings, projection in;
 *     every layer: (norm,) q, k, v or the fused qkv, (norms of q and k,) attention output (and its norm), norm, (gate,)
 *     up, down (, norm);
 *     final norm, projection out, dense and norm of the head, head, bias of the head
 *
 * with each weight before its bias. A tied head is the token embeddings: one tensor, numbered and perturbed
 * once. What the forward pass does not use (pooler, buffers of positions and masks) is neither loaded,
 * numbered nor saved. */
#ifndef ZEST_MODEL_MODEL_H
#define ZEST_MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"
#include "base/error.h"
#include "io/tensor.h"
#include "model/rope.h"

enum { ZEST_MODEL_LAYERS = 4096 }; /* at most */

typedef struct {
    const char *family; /* model_type of config.json: a row of the table in families.c */
    size_t vocab_size, hidden_size, embedding_size, layers, ffn_size;
    size_t heads, kv_heads, head_dim;
    size_t max_positions;       /* tokens of the longest sequence */
    size_t position_rows;       /* of the table of learned positions; 0: rotary */
    size_t position_offset;     /* row of a sequence's first token */
    size_t token_types;         /* 0: none */
    size_t rotary_dim;          /* elements of a head that are rotated, the first ones; 0: all */
    zest_rope rope, local_rope; /* local_rope: of local layers; base 0: the same */
    size_t window;              /* of attention in local layers (zest_attention); 0: no layer is local */
    uint64_t local_layers[ZEST_MODEL_LAYERS / 64]; /* a bit a layer */
    int causal;
    int post_norm; /* h = norm(x + f(x)) instead of x + f(norm(x)) */
    int rms_norm;
    float epsilon;
    int gated;      /* down(act(gate x) up x) instead of down(act(up x)) */
    int transposed; /* the layers' matrices are stored inputs × outputs */
    int fused_qkv;  /* q, k and v are one matrix in memory, too */
    int stacked; /* in the file q, k and v are rows of one matrix, and so are gate and up; q and gate name it */
    int by_heads;          /* stacked in the file head by head: a head's q, k and v, then the next head's */
    int parallel_residual; /* attention and MLP both take x: x + f(norm1(x)) + g(norm2(x)) */
    int plain_start;       /* the first layer has no norm before its attention */
    int norm_bias;         /* norms have a bias, unless they are RMS norms */
    int qk_norm;           /* every head of q and k has a norm, before the rotation */
    int branch_norms;  /* what attention and MLP add to the residual stream has a norm (pre-norm models) */
    float norm_offset; /* a norm's gain is this more than what is stored */
    float embedding_scale;      /* of the embeddings; 0: none */
    float attention_scale;      /* of scores; 0: 1/sqrt(head_dim) */
    float score_cap, logit_cap; /* soft caps of attention's scores and of logits; 0: none */
    int qkv_bias, out_bias, ffn_bias;
    int embedding_norm, final_norm;
    int head_transform; /* dense, activation and norm before the head */
    int head_dense_bias, head_bias;
    int tied_head;
    zest_activation activation, head_activation;
} zest_model_config;

static inline size_t zest_model_rotary_dim(const zest_model_config *config) {
    return config->rotary_dim ? config->rotary_dim : config->head_dim;
}
static inline int zest_model_is_local(const zest_model_config *config, size_t layer) {
    return (int)(config->local_layers[layer / 64] >> layer % 64 & 1);
}
/* Which of the model's tables of rotary positions a layer takes. */
static inline size_t zest_model_rope_of(const zest_model_config *config, size_t layer) {
    return config->local_rope.base != 0 && zest_model_is_local(config, layer);
}

typedef struct {
    zest_weight weight, bias; /* data NULL: absent */
} zest_model_affine;

typedef struct {
    zest_model_affine norm1, q, k, v, qkv, q_norm, k_norm, out, out_norm, norm2, gate, up, down, down_norm;
} zest_model_layer;

typedef struct {
    size_t rank, shape[2];
    int by_heads; /* in files the rows are in the order of the heads (see the config) */
} zest_model_tensor_shape;

typedef struct {
    zest_model_config config;
    zest_weight tokens, positions, types;
    zest_model_affine embedding_norm, project_in, final_norm, project_out, head_dense, head_norm, head;
    zest_model_layer *layers;
    /* rotary_dim/2 angles per position, also of local layers where theirs differ; NULL for learned positions */
    float *rotary[2];

    zest_tensor *tensors; /* every one once, named as the family spells it, in the order above */
    zest_model_tensor_shape *shapes;
    size_t tensor_count;
    zest_params params;   /* those that are trained: all, until zest_model_select_trainable */
    zest_tensor *trained; /* what params lists when some are frozen; else NULL */
    void *arena;
    size_t arena_size;
    float *inputs; /* rows of the matrices' inputs, of which directions are made (input_rows.h) */
    size_t input_most, input_count; /* of each at most; floats */
    uint64_t law_changes;           /* of the laws of the tensors' noise (scales.h) */
    int quantized; /* some matrices are blocks of a GGUF file: nothing is trained, saved or taken to a device */

    const char *head_bias_alias; /* a second name to save the head's bias under, or NULL */
    char *config_json;           /* config.json, to be saved with the weights */
    char *folder; /* where the tokenizer's files are; NULL when the model came from a GGUF file */
} zest_model;

typedef enum {
    ZEST_MODEL_AS_STORED, /* 16-bit tensors as they are, all others as F32 */
    ZEST_MODEL_F32,
    ZEST_MODEL_BF16,
    ZEST_MODEL_F16,
    ZEST_MODEL_QUANTIZED /* as stored, but matrices that a GGUF file has in blocks stay so: to be read alone */
} zest_model_storage;

typedef struct {
    zest_model_storage storage;
    int untie_head; /* give a tied head a tensor of its own, which starts as a copy of the embeddings */
    int threads;    /* that convert; 0: all cores */
    int blank;      /* leave the weights as memory happens to be: for who writes them all */
} zest_model_options;

/* path: a folder, or a GGUF file. options may be NULL. *model is NULL on error. The file's pages are dropped as they
 * are copied, so that the peak is one model, not two. */
zest_status zest_model_load(const char *path, const zest_model_options *options, zest_model **model,
                            zest_error *error);
/* A model of the shape that a config.json describes, with random weights: for benchmarks and tests. */
zest_status zest_model_random(const char *config_json, uint64_t seed, const zest_model_options *options,
                              zest_model **model, zest_error *error);
void zest_model_free(zest_model *model);
/* Refuses a model with quantised matrices. what: what was asked of it, as in "a model is saved". */
zest_status zest_model_refuse_quantized(const zest_model *model, const char *what, zest_error *error);
/* Every weight of the model, absent ones too; a tied head reads the tensor of the embeddings once more. */
void zest_model_each_weight(zest_model *model, void (*visit)(zest_weight *weight, void *user), void *user);
/* What a config.json describes, without any weights. */
zest_status zest_model_read_config(const char *config_json, zest_model_config *config, zest_error *error);

/* Writes config.json, model.safetensors (dtypes as in memory) and the tokenizer's files into folder, which is
 * created if needed. Each file replaces an older one only when it is complete, the weights last.
 * from_pretrained of Hugging Face's transformers loads the result. */
zest_status zest_model_save(const zest_model *model, const char *folder, zest_error *error);

/* Freezes tensors. Patterns of names as in a shell (* ? [a-z]), separated by commas; each is matched against the
 * whole name. Trained is what matches `train_only` (empty: everything) and does not match `freeze`. The parameters
 * of the trained tensors are numbered anew, without gaps. To be called once, before a runner is made. A pattern
 * that matches nothing is refused, and so is a model with nothing left to train. */
zest_status zest_model_select_trainable(zest_model *model, const char *train_only, const char *freeze,
                                        zest_error *error);

/* The config.json of a well-known model, for benchmarks and memory plans on random weights; NULL: unknown. */
const char *zest_family_preset_config(const char *name);
/* The i-th name; NULL after the last. */
const char *zest_family_preset_name(int i);

#endif
