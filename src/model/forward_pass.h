/* What the files of the forward pass share: forward_pass.c (checks and indexes a batch), transformer.c (lanes,
 * embeddings, layers), attention.c, loss.c, loss.c, generate.c, forward_pass.c and device_memory.c. */
#ifndef ZEST_MODEL_FORWARD_PASS_H
#define ZEST_MODEL_FORWARD_PASS_H

#include "kernels/device.h"
#include "model/transformer.h"

typedef struct {
    void *data;
    size_t count, element_size; /* cells, and the bytes of one: on the CPU those of a void */
    size_t lane_stride;         /* cells from one lane to the next */
} zest_model_buffer;

struct zest_model_runner {
    const zest_model *model;      /* as the operations see it: `placed` on a device */
    const zest_model *host_model; /* the caller's */
    zest_model *device_model;     /* the model with its weights in the device's memory; NULL: the CPU */
    zest_device *device;          /* NULL: the CPU */
    int borrowed;                 /* the device is another runner's */
    int deterministic;            /* see zest_linear */
    const zest_ops *operations;
    zest_compute compute;
    int threads;
    size_t live;
    size_t group_budget; /* bytes on a device that a group of pairs may take; 0: not yet known */
    zest_workspace scratch;

    zest_model_buffer hidden;        /* hidden states of every live lane */
    zest_model_buffer norm_out;      /* one group: hidden states behind a norm */
    zest_model_buffer work;          /* one group: q, k, v and context; or the inside of the MLP */
    zest_model_buffer prefix_kv;     /* keys and values of parents and their children, written out */
    zest_model_buffer logits, words; /* logits and the tables of angles are floats everywhere */
    zest_model_buffer results;       /* on a device: what a pass leaves for the host, all lanes */
    zest_model_buffer cosines, sines;
    size_t angles; /* positions that the tables reach */

    uint32_t *rows; /* positions, rows of tables, types, offsets of keys; the same of asked rows */
    size_t rows_count;
};

/* Keys and values of sequences that grow (generation): in every layer, slot s has rows slot_start[s] .. of
 * which lengths[s] are filled; a row is a key and a value. */
typedef struct {
    void *data;
    size_t rows; /* of one layer */
    size_t *slot_start, *lengths;
    const uint32_t *slots; /* of each sequence of the batch */
} zest_model_cache;

/* What a pass with one lane saves of a layer. NULL where a model has no such thing. */
typedef struct {
    /* For the backward pass. Rows: tokens, but out_rows where the last layer has narrowed to them. */
    void *x;        /* (tokens, hidden): the input */
    void *qkv;      /* (tokens, q | k | v), rotated */
    void *context;  /* (rows, heads, head_dim) */
    void *residual; /* (rows, hidden): the rows of x that attention is added to; x itself but in the last */
    void *attended; /* (rows, hidden): residual + attention */
    void *gate;     /* (rows, ffn): before the activation; gated models only */
    void *up;       /* (rows, ffn): before the activation */
    void *mlp_sum;  /* (rows, hidden): norm1 of attended + MLP; post-norm models only */
    /* Not saved: overwritten by the next layer. */
    void *normed;      /* (tokens, hidden): output of a norm */
    void *context_all; /* (tokens, heads, head_dim): context itself but in the last layer */
    void *inner;       /* (rows, ffn): after the activation */
    void *out;         /* (rows, hidden): the next layer's x. NULL: the layer ends once all is saved */
} zest_saved_layer;

/* Set by grad/, NULL in a pass without a backward pass: saves activations, and applies dropout. Such a pass
 * has one lane. Functions that return an int return 0 on success. */
typedef struct {
    void *user;
    zest_saved_layer (*layer)(void *user, size_t layer);
    /* out = act(x), times up unless it is NULL: x stays */
    void (*activate)(void *user, void *out, const void *x, const void *up, size_t count,
                     zest_activation activation);
    int drops[ZEST_DROPOUT_SITES]; /* whether there is dropout at a site */
    int (*attention)(void *user, size_t layer, const zest_attention *job); /* with dropout on the weights */
    /* x = residual + dropout(x); residual may be NULL */
    void (*drop)(void *user, size_t layer, zest_dropout_site site, void *x, const void *residual,
                 size_t count);
    /* Behind the layers, each (out_rows, hidden or embedding_size). */
    void *final_normed, *projected;
    void *head_dense, *head_activated, *features; /* of the head's transform; features is the result */
} zest_forward_save;

/* A group of lanes at the end of the pass. */
typedef struct {
    size_t first; /* lane of h[0]; the others follow */
    zest_perturbation perturbation;
    size_t rows;
    const void *h[2];              /* (lanes, rows, embedding_size): behind the final norm and projection */
    const zest_forward_save *save; /* or NULL */
} zest_group_output;

typedef zest_status (*zest_on_group)(zest_model_runner *runner, const zest_group_output *unit, void *user,
                                     zest_error *error);

typedef struct {
    const zest_model_lane *lanes;
    size_t lane_count;
    const zest_model_batch *batch;
    const uint32_t *out_rows; /* rows of the batch that are asked for, in any order; NULL: all */
    size_t out_row_count;
    size_t depth;                  /* layers to pass; is.layers: all, and what follows them */
    zest_model_cache *cache;       /* or NULL */
    const zest_forward_save *save; /* or NULL */
    zest_on_group on_group;        /* called for every group, in the order of the lanes */
    void *user;
} zest_forward_request;

/* Checks the batch and runs it. */
zest_status zest_model_forward(zest_model_runner *runner, const zest_forward_request *request,
                               zest_error *error);

/* Lanes that go through an operation together, and their hidden states: a single lane (x[1] is then x[0]), a
 * pair, or on a device several pairs, whose lanes follow each other at equal distances. */
typedef struct {
    size_t first;
    zest_perturbation perturbation;
    void *x[2];
} zest_lane_group;

/* One pass through the model. */
typedef struct {
    zest_model_runner *runner;
    const zest_forward_request *request;
    const zest_model_config *config;
    zest_error *error;
    size_t rows;                          /* tokens of the batch */
    size_t out_rows;                      /* rows that the last layer ends with */
    size_t max_rows;                      /* the larger of the two */
    size_t q_width, kv_width, qkv_stride; /* a row of q, k and v is stride floats */
    size_t span;                          /* the larger of stride and width */
    uint32_t *positions, *table_rows, *types, *key_starts;
    size_t key_rows;                     /* keys with those of the parents written out */
    size_t longest;                      /* queries of the longest sequence */
    size_t first_position, end_position; /* of all tokens of the batch */
    /* Of the asked rows when the last layer takes them alone as its queries, else NULL: the first one of each
     * sequence, the end of the keys that its last one sees, the position of each; and the longest sequence of
     * them. */
    uint32_t *out_starts, *out_key_ends, *out_positions;
    size_t out_longest;
    zest_lane_group *pairs;
    size_t pair_count;
    size_t live;  /* pairs whose hidden states are in memory */
    size_t group; /* pairs that go through an operation together */
    /* The same and the batch's tables where the operations look for them. */
    struct {
        const uint32_t *tokens, *starts, *positions, *table_rows, *types, *key_starts, *rows;
        const uint32_t *out_starts, *out_key_ends, *out_positions;
        const uint32_t *key_ends;    /* with a cache on a device */
        const uint32_t *key_sources; /* on a device: the row of each key of key_rows */
        const uint32_t *key_targets; /* with a cache on a device: the row of the cache for each row */
    } at;
} zest_forward_pass;

/* ---- transformer.c ---- */

/* The sum of the embeddings of tokens, types and positions; the same behind their norm, in lanes->x. */
zest_status zest_model_embed_sum(zest_forward_pass *pass, const zest_lane_group *lanes, void *const out[2]);
zest_status zest_model_embed(zest_forward_pass *pass, const zest_lane_group *lanes);

/* Buffers of a layer for a group of lanes: names and shapes as in zest_saved_layer, lanes first. */
typedef struct {
    void *normed[2], *qkv[2], *context_all[2], *context[2], *residual[2], *attended[2];
    void *gate[2], *up[2], *inner[2], *mlp_sum[2], *out[2];
} zest_layer_buffers;

/* A linear map within a layer, between rows without gaps. */
zest_status zest_model_layer_linear(zest_forward_pass *pass, const zest_lane_group *lanes,
                                    const zest_model_affine *affine, const void *const a[2], size_t rows,
                                    size_t inputs, void *const out[2], size_t outputs,
                                    const void *const residual[2], zest_activation activation);

/* How a half of a layer ends: sum = residual + dropout(a W' + b), and where a norm follows normed = norm(sum).
 * sum may be normed; normed may be NULL. */
typedef struct {
    const zest_model_affine *affine, *norm; /* norm: NULL in pre-norm models */
    size_t layer;
    zest_dropout_site site;
    size_t rows, inputs;
} zest_residual_args;
zest_status zest_model_add_to_residual(zest_forward_pass *pass, const zest_lane_group *lanes,
                                       const zest_residual_args *args, const void *const a[2],
                                       const void *const residual[2], void *const sum[2],
                                       void *const normed[2]);

/* Layer i: lanes->x becomes its output. The rows that are left come back in *rows. */
zest_status zest_model_forward_layer(zest_forward_pass *pass, size_t i, zest_lane_group *lanes, size_t *rows);
/* Final norm and projection, then request->on_group. */
zest_status zest_model_finish(zest_forward_pass *pass, const zest_lane_group *lanes);

/* ---- attention.c ---- */

/* Attention of all rows of a batch to themselves, for one lane: q, and k and v side by side, in rows of the
 * given strides. */
zest_attention zest_model_attention_job(const zest_forward_pass *pass, const void *q, size_t q_stride,
                                        const void *kv, size_t kv_stride, void *out);
/* With shared prefixes: writes the keys and values of every sequence behind a copy of its prefix's, into
 * runner->prefix_kv, and lets the job (whose q is a row of qkv) read them there. Not 0: it failed. */
int zest_model_expand_prefix(const zest_forward_pass *pass, zest_attention *job);
/* The first half of layer i. In pre-norm models the result is b->attended, else b->normed. */
zest_status zest_model_attention_block(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                       const zest_layer_buffers *b, size_t *rows);

/* ---- device_memory.c ---- */

/* What an operation that failed is answered with. */
zest_status zest_model_device_error(zest_model_runner *runner, zest_error *error);
/* Moves the model's weights to the device that the options name. */
zest_status zest_model_to_device(zest_model_runner *runner, zest_error *error);
/* A table of numbers where the operations can read it, until the next pass. *out is the table itself on the
 * CPU. */
zest_status zest_model_stage(zest_model_runner *runner, const uint32_t *table, size_t count,
                             const uint32_t **out, zest_error *error);
/* With shared prefixes: the row of each key of key_rows, a prefix's rows before a sequence's own. */
void zest_model_list_key_sources(const zest_forward_pass *pass, uint32_t *sources);
/* The tables of a pass. */
zest_status zest_model_stage_pass(zest_forward_pass *pass);
/* Bytes of activations, to be released by the same. NULL: there are not enough. */
void *zest_model_alloc(zest_model_runner *runner, size_t bytes);
void zest_model_dealloc(zest_model_runner *runner, void *data);
/* count numbers of the device's, as floats. */
zest_status zest_model_read(zest_model_runner *runner, const void *from, size_t count, int wide, float *out,
                            zest_error *error);
/* On a device: how many pairs are live and how many go together, by the memory that is there. */
zest_status zest_model_plan_groups(zest_forward_pass *pass);

/* Makes room for `each` activations, or floats, in every lane; what was there may be lost. */
zest_status zest_model_buffer_reserve(zest_model_runner *runner, zest_model_buffer *room, size_t lanes,
                                      size_t each, zest_error *error);
zest_status zest_model_buffer_reserve_f32(zest_model_runner *runner, zest_model_buffer *room, size_t lanes,
                                          size_t each, zest_error *error);

static inline size_t zest_max_size(size_t a, size_t b) { return a > b ? a : b; }

static inline size_t zest_model_element_size(const zest_model_runner *runner) {
    return runner->device ? runner->device->element_size : sizeof(float);
}

/* `cells` activations further. */
static inline void *zest_model_offset(const zest_model_runner *runner, const void *x, size_t cells) {
    return (void *)(void *)((char *)(uintptr_t)x + cells * zest_model_element_size(runner));
}

/* ---- forward_pass.c ---- */

/* A runner for another view of the same model, with memory of its own on the other's device. */
zest_status zest_model_runner_borrow(const zest_model_runner *from, const zest_model *view,
                                     zest_model_runner **runner, zest_error *error);

/* ---- forward_pass.c ---- */

/* Checks a request and numbers its rows, for those who go through the layers themselves. zest_model_embed
 * needs room in runner->a beside. */
zest_status zest_forward_prepare(zest_model_runner *runner, const zest_forward_request *request,
                                 zest_forward_pass *pass, zest_error *error);
/* Finds out whether the asked rows can be the last layer's only queries: then pass->out_starts is set. */
void zest_model_index_out_rows(zest_forward_pass *pass);
/* For the way of a group of lanes through a layer. */
zest_status zest_model_alloc_activations(zest_forward_pass *pass);
/* Takes groups of lanes through the embeddings, all layers and what follows. */
zest_status zest_forward_groups(zest_forward_pass *pass, zest_lane_group *groups, size_t count);

/* ---- Lanes ---- */

/* void *[2] seen as read-only, which C does not do by itself. */
#define ZEST_CONST2(x) ((const void *const[2]){(x)[0], (x)[1]})

/* Where the first two lanes lie in a room: one behind the other. */
static inline void zest_model_first_lanes(const zest_model_buffer *room, size_t offset, void *out[2]) {
    char *data = (char *)room->data;
    out[0] = (void *)(void *)(data + offset * room->element_size);
    out[1] = (void *)(void *)(data + (room->lane_stride + offset) * room->element_size);
}

/* The same for what is fp32 everywhere. */
static inline void zest_model_first_lanes_f32(const zest_model_buffer *room, float *out[2]) {
    out[0] = room->data;
    out[1] = out[0] + room->lane_stride;
}

/* Lane l, and the cells between lanes, where the first two are known. */
static inline void *zest_model_lane_at(const void *const x[2], size_t l) {
    return (void *)(void *)((char *)(uintptr_t)x[0] +
                            (ptrdiff_t)l * ((const char *)x[1] - (const char *)x[0]));
}

static inline size_t zest_model_lane_stride(const zest_model_runner *runner, const void *const x[2]) {
    return (size_t)((const char *)x[1] - (const char *)x[0]) / zest_model_element_size(runner);
}

/* ---- forward.c ---- */

/* out = a W' + b + residual, for the lanes of p. residual may be NULL. */
zest_linear zest_model_linear_job(const zest_model_runner *runner, const zest_model_affine *affine,
                                  const zest_perturbation *p, int transposed, const void *const a[2],
                                  size_t rows, size_t a_stride, void *const out[2], size_t out_stride,
                                  const void *const residual[2]);
zest_status zest_model_linear_run(zest_model_runner *runner, const zest_linear *job, zest_error *error);
/* Both: act(a W' + b) + residual. */
zest_status zest_model_linear(zest_model_runner *runner, const zest_model_affine *affine,
                              const zest_perturbation *p, int transposed, const void *const a[2], size_t rows,
                              size_t a_stride, void *const out[2], size_t out_stride,
                              const void *const residual[2], zest_activation activation, zest_error *error);
zest_status zest_model_norm(zest_model_runner *runner, const zest_model_affine *affine,
                            const zest_perturbation *p, const void *const x[2], void *const out[2],
                            size_t rows, size_t width, zest_error *error);

/* ---- loss.c ---- */

/* The transform of masked language models, where there is one: h becomes what the head multiplies. */
zest_status zest_model_head_transform(zest_model_runner *runner, const zest_group_output *unit,
                                      const void *h[2], zest_error *error);

/* Logits of `count` words (rows × count floats) for both lanes; only those rows of the head are read. */
zest_status zest_model_head_label_words(zest_model_runner *runner, const zest_group_output *unit,
                                        const void *const h[2], const uint32_t *words, size_t count,
                                        float *const out[2], zest_error *error);

/* The head of words first .. first+count-1. */
zest_model_affine zest_model_head_block(const zest_model *model, size_t first, size_t count);

/* Called with the logits of words first .. first+count-1 for all rows of one lane (0 or 1), blocks in order.
 */
typedef zest_status (*zest_on_logits)(void *user, int lane, size_t first, size_t count, const float *logits,
                                      zest_error *error);

/* Goes through the vocabulary in blocks, so that no more logits exist than rows × one block. */
zest_status zest_model_head_blocks(zest_model_runner *runner, const zest_group_output *unit,
                                   const void *const h[2], zest_on_logits visit, void *user,
                                   zest_error *error);

#endif
