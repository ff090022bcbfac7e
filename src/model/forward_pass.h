/* The forward pass of a model over lanes.
 *
 * Layer-major: all live lanes pass a layer before the next layer is touched, and the two lanes of a pair
 * share each draw of noise. Weights are never written. Memory: the activations of the live lanes, and the
 * workspace of one operation on one group of lanes.
 *
 * On the CPU a row of a result depends on the lane and on the tokens of its own sequence alone: not on the
 * other sequences, the number of threads, the other lanes or how many of them are live, bit for bit.
 *
 * The first part is what callers use. The second part, from "Inside" on, is what the files of the pass share
 * with each other and with grad/: forward_pass.c prepares a pass and runs its lanes, transformer.c has
 * embeddings and layers, attention.c attention, loss.c the head, device_memory.c buffers and devices. */
#ifndef ZEST_MODEL_FORWARD_PASS_H
#define ZEST_MODEL_FORWARD_PASS_H

#include "kernels/device.h"
#include "model/model.h"
#include "optim/step.h"

/* x + scale·v(direction); scale 0 is the model itself. zest_lanes_describe fills both. Lanes i and i+1 with
 * the same direction and opposite scales are evaluated as a pair. */
typedef struct {
    zest_direction direction;
    double scale;
} zest_model_lane;

#define ZEST_MODEL_NO_PREFIX UINT32_MAX

/* Sequences one after the other, without padding. A sequence of a causal model may continue an earlier one,
 * its prefix (which has no prefix itself): it then holds only the tokens after the prefix, attends to the
 * prefix too, and gives the same bits as the two written out as one sequence. So choices that share a prompt
 * share its computation. */
typedef struct {
    const uint32_t *tokens;
    const uint32_t *starts; /* sequences + 1 of them; the first is 0 */
    size_t sequences;
    const uint32_t *types; /* a token type for each token, or NULL: all 0 */
    /* For each sequence, the one that it continues, or ZEST_MODEL_NO_PREFIX. NULL: none does. */
    const uint32_t *prefix_of;
} zest_model_batch;

/* Where dropout is applied, in passes that a backward pass follows. */
typedef enum {
    ZEST_DROPOUT_EMBEDDINGS, /* on the embeddings, after their norm */
    ZEST_DROPOUT_ATTENTION,  /* on the weights of attention */
    ZEST_DROPOUT_ATTENDED,   /* on what attention adds to the residual stream */
    ZEST_DROPOUT_MLP,        /* on what the MLP adds to it */
    ZEST_DROPOUT_SITES
} zest_dropout_site;

/* ---- Runners ---- */

typedef struct {
    zest_compute compute;
    int threads; /* 0: all cores */
    /* Pairs (or single lanes) in memory at once; 0: all on the CPU, on a device zest_model_choose_live. */
    size_t live_pairs;
    zest_device_kind device;
} zest_model_runner_options;

typedef struct zest_input_capture zest_input_capture; /* input_rows.h */

/* Owns the memory of forward passes over one model, which it only reads. One thread at a time.
 *
 * On a device it also owns a copy of the weights, made when the runner is. zest_model_apply_update changes
 * that copy, zest_model_download brings it back. Results on a device agree with the CPU's within rounding. A
 * pass waits for the device once, at its end. */
typedef struct zest_model_runner zest_model_runner;

/* A runner for the best instructions of this CPU, or for the device that the options name. */
zest_status zest_model_open_runner(const zest_model *model, const zest_model_runner_options *options,
                                   zest_model_runner **runner, zest_error *error);
/* The same with a choice of the CPU's operations; a device has its own. */
zest_status zest_model_runner_new(const zest_model *model, const zest_ops *operations,
                                  const zest_model_runner_options *options, zest_model_runner **runner,
                                  zest_error *error);
void zest_model_runner_free(zest_model_runner *runner);
/* Bytes allocated, on a device with the weights. */
size_t zest_model_runner_memory(const zest_model_runner *runner);
zest_device *zest_model_runner_device(const zest_model_runner *runner); /* NULL: the CPU */
/* The trained tensors where the forward passes read them: on a device, in its memory. */
const zest_params *zest_model_runner_params(const zest_model_runner *runner);

/* Applies an update where the forward passes read the weights: the same bits on every device. */
zest_status zest_model_apply_update(zest_model_runner *runner, const zest_update *update, zest_error *error);
/* Copies the weights from the device to the model's arena, to be saved or hashed. Nothing to do on the CPU. */
zest_status zest_model_download(zest_model_runner *runner, zest_error *error);
/* The other way, after the arena has changed. */
zest_status zest_model_upload(zest_model_runner *runner, zest_error *error);

/* ---- Memory ---- */

/* Bytes that a step's forward passes take besides the weights: hidden states of the live lanes, one pair's
 * activations inside a layer, and, on the CPU, the packed operands of an operation. */
typedef struct {
    size_t hidden, work, operands;
} zest_model_plan;

zest_model_plan zest_model_plan_memory(const zest_model_config *config, size_t tokens, size_t live_pairs);

/* How many of `pairs` a device evaluates at once when the caller leaves it open: the fewest that keep it busy
 * for a batch of `tokens`. More pairs take memory for their activations and save little time. The result
 * depends on sizes alone. */
size_t zest_model_choose_live(const zest_model_config *config, zest_compute compute, size_t multiprocessors,
                              size_t tokens, size_t pairs);

/* The memory of a step of `pairs` pairs over a batch of `tokens`, as this runner will take it. */
typedef struct {
    size_t live;      /* pairs at once */
    size_t bytes;     /* of the device's memory, or of the host's: weights, activations, perturbed weights */
    size_t all_bytes; /* the same if all pairs were live */
} zest_model_budget;

zest_model_budget zest_model_runner_budget(zest_model_runner *runner, size_t tokens, size_t pairs);

/* Whether the last layer of a pass on a device computes neither keys nor values (attention.c). max_head_dim
 * is the device's; rows are the tokens of the batch; out_rows those whose logits are wanted, in the order of
 * their sequences. */
int zest_model_absorbs(const zest_model_config *config, size_t max_head_dim, size_t rows, size_t out_rows);

/* ---- Passes ---- */

/* Hidden states after `depth` layers (0: the embeddings), one row a token, in one lane (NULL: the model
 * itself): (tokens, hidden_size). At the full depth the final norm and projection are included: (tokens,
 * embedding_size). */
zest_status zest_model_hidden(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, size_t depth, float *out, zest_error *error);

/* Logits over the whole vocabulary at the given rows of the packed batch: (count, vocab_size). */
zest_status zest_model_logits(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, const uint32_t *rows, size_t count, float *out,
                              zest_error *error);

/* ======== Inside ======== */

/* Memory for activations of several lanes, whose dtype is the device's, or for what is fp32 everywhere. */
typedef struct {
    void *data;
    size_t count, element_size; /* elements, and the bytes of one */
    size_t lane_stride;         /* elements from one lane to the next */
} zest_model_buffer;

struct zest_model_runner {
    const zest_model *model;      /* as the operations see it: device_model on a device */
    const zest_model *host_model; /* the caller's */
    zest_model *device_model;     /* the model with its weights in the device's memory; NULL: the CPU */
    zest_device *device;          /* NULL: the CPU */
    int borrowed;                 /* the device is another runner's */
    const zest_ops *operations;
    zest_compute compute;
    int threads;
    uint64_t changes; /* of the weights, by updates and uploads */
    uint64_t laws;    /* on a device: the host model's law_changes when its laws were taken over */
    void *inputs;     /* and its rows of inputs there (input_rows.h); NULL: none */
    size_t live;
    size_t
        device_base; /* bytes allocated on a device when the runner was made: the weights, and the device's own */
    zest_workspace scratch;
    zest_workspace low_rank;     /* of linear maps with noise of low rank */
    zest_input_capture *capture; /* input_rows.h; NULL: none */

    /* Activations. Groups are groups of lanes that go through an operation together. */
    zest_model_buffer hidden;   /* (live lanes, tokens, hidden) */
    zest_model_buffer norm_out; /* (lanes of a group, tokens, hidden): output of a norm */
    zest_model_buffer work;     /* (lanes of a group, tokens, q | k | v | context, or up | gate) */
    /* (lanes of a group, keys, k | v): a copy of the prefix before each sequence */
    zest_model_buffer prefix_kv;
    zest_model_buffer words; /* (lanes, label words, embedding_size): rows of the head */
    /* fp32 everywhere. */
    zest_model_buffer logits;               /* (lanes, rows, words of a block) */
    zest_model_buffer results;              /* on a device: what a pass leaves for the host, all lanes */
    zest_model_buffer cosines[2], sines[2]; /* (positions, head_dim/2), of the model's rotary positions */
    size_t angles;                          /* positions that these tables reach */

    uint32_t *rows; /* tables of zest_forward_pass: positions, types, offsets of keys, ... */
    size_t rows_count;
};

/* A KV cache for generation: in every layer, slot s has rows slot_start[s] .. of which lengths[s] are filled. */
typedef struct {
    void *data;  /* (layers, rows, k | v) */
    size_t rows; /* of one layer */
    size_t *slot_start, *lengths;
    const uint32_t *slots; /* for each sequence of the batch */
} zest_model_cache;

/* What a pass with one lane saves of a layer. NULL where a model has no such thing. */
typedef struct {
    /* For the backward pass. Rows: tokens, but out_rows where the last layer has narrowed to them. */
    void *x;              /* (tokens, hidden): the input */
    void *qkv;            /* (tokens, q | k | v), rotated */
    void *qk_before_norm; /* (tokens, q | k): models with norms of q and k */
    void *context;        /* (rows, heads, head_dim) */
    void *residual; /* (rows, hidden): the rows of x that attention is added to; x itself but in the last */
    void *attended; /* (rows, hidden): residual + attention */
    void *gate;     /* (rows, ffn): before the activation; gated models only */
    void *up;       /* (rows, ffn): before the activation */
    void *mlp_sum;  /* (rows, hidden): norm1 of attended + MLP; post-norm models only */
    /* (rows, hidden): what attention and MLP add, before its norm; models with branch_norms only */
    void *out_branch, *down_branch;
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
    /* After the layers, each (out_rows, hidden or embedding_size). */
    void *final_normed, *projected;
    void *head_dense, *head_activated, *features; /* of the head's transform; features is the result */
} zest_forward_save;

/* A group of lanes at the end of the pass. */
typedef struct {
    size_t first; /* lane of h[0]; the others follow */
    zest_perturbation perturbation;
    size_t rows;
    const void *h[2];              /* (lanes, rows, embedding_size): after the final norm and projection */
    const zest_forward_save *save; /* or NULL */
} zest_group_output;

typedef zest_status (*zest_on_group)(zest_model_runner *runner, const zest_group_output *group, void *user,
                                     zest_error *error);

typedef struct {
    const zest_model_lane *lanes;
    size_t lane_count;
    const zest_model_batch *batch;
    const uint32_t *out_rows; /* rows of the batch whose output is wanted, in any order; NULL: all */
    size_t out_row_count;
    size_t depth;                  /* layers to pass; config.layers: all, and what follows them */
    zest_model_cache *cache;       /* or NULL */
    const zest_forward_save *save; /* or NULL */
    zest_on_group on_group;        /* called for every group, in the order of the lanes */
    void *user;
} zest_forward_request;

/* Lanes that go through an operation together, and their hidden states: a single lane (x[1] is then x[0]), a
 * pair, or on a device several pairs, whose lanes follow each other at equal distances. */
typedef struct {
    size_t first;
    zest_perturbation perturbation;
    void *x[2]; /* (lanes, tokens, hidden) */
} zest_lane_group;

/* One pass through the model. */
typedef struct {
    zest_model_runner *runner;
    const zest_forward_request *request;
    const zest_model_config *config;
    zest_error *error;
    size_t rows;              /* tokens of the batch */
    size_t out_rows;          /* rows that the last layer ends with */
    size_t max_rows;          /* the larger of the two */
    size_t q_width, kv_width; /* elements of q, and of k or v, in a row */
    size_t qkv_stride;        /* elements of a row of q, k and v */
    size_t span;              /* the larger of qkv_stride and hidden_size */
    uint32_t *positions, *table_rows, *types, *key_starts;
    size_t key_rows;                     /* keys, with a copy of the prefix for every sequence */
    size_t longest;                      /* queries of the longest sequence */
    size_t first_position, end_position; /* of all tokens of the batch */
    /* Of the output rows when the last layer takes them alone as its queries, else NULL: the first one of
     * each sequence, the end of the keys that its last one sees, the position of each; and the longest
     * sequence of them. */
    uint32_t *out_starts, *out_key_ends, *out_positions;
    size_t out_longest;
    zest_lane_group *pairs;
    size_t pair_count;
    size_t live;  /* pairs whose hidden states are in memory */
    size_t group; /* pairs that go through an operation together */
    /* The same and the batch's tables, in memory that the operations read. */
    struct {
        const uint32_t *tokens, *starts, *positions, *table_rows, *types, *key_starts, *rows;
        const uint32_t *out_starts, *out_key_ends, *out_positions;
        const uint32_t *key_ends;    /* with a cache on a device */
        const uint32_t *key_sources; /* on a device: the row of each key of key_rows */
        const uint32_t *key_targets; /* with a cache on a device: the row of the cache for each row */
    } at;
} zest_forward_pass;

/* ---- forward_pass.c ---- */

/* Checks the batch and runs it. */
zest_status zest_model_forward(zest_model_runner *runner, const zest_forward_request *request,
                               zest_error *error);
/* The same step by step, for a backward pass that reads the pass later. Checks a request and fills its
 * tables; zest_model_embed also needs memory in runner->norm_out. */
zest_status zest_forward_prepare(zest_model_runner *runner, const zest_forward_request *request,
                                 zest_forward_pass *pass, zest_error *error);
/* Whether the output rows can be the last layer's only queries; then pass->out_starts is set. */
void zest_forward_index_out_rows(zest_forward_pass *pass);
/* The window of attention in layer i; 0: none that is shorter than the sequences. */
static inline size_t zest_forward_window(const zest_forward_pass *pass, size_t i) {
    const zest_model_config *config = pass->config;
    return zest_model_is_local(config, i) && config->window < pass->end_position ? config->window : 0;
}
/* Takes groups of lanes through the embeddings, all layers and what follows. */
zest_status zest_forward_groups(zest_forward_pass *pass, zest_lane_group *groups, size_t count);
/* A runner for another view of the same model, with memory of its own on the other's device. */
zest_status zest_model_runner_borrow(const zest_model_runner *from, const zest_model *view,
                                     zest_model_runner **runner, zest_error *error);

/* ---- transformer.c ---- */

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

/* The sum of the embeddings of tokens, types and positions; the same after their norm, in lanes->x. */
zest_status zest_model_embed_sum(zest_forward_pass *pass, const zest_lane_group *lanes, void *const out[2]);
zest_status zest_model_embed(zest_forward_pass *pass, const zest_lane_group *lanes);

/* Buffers of a layer for a group of lanes: names and shapes as in zest_saved_layer, lanes first. */
typedef struct {
    void *normed[2], *qkv[2], *qk_before_norm[2], *context_all[2], *context[2], *residual[2], *attended[2];
    void *gate[2], *up[2], *inner[2], *mlp_sum[2], *out_branch[2], *down_branch[2], *out[2];
} zest_layer_buffers;

/* A linear map within a layer, between rows without gaps. */
zest_status zest_model_layer_linear(zest_forward_pass *pass, const zest_lane_group *lanes,
                                    const zest_model_affine *affine, const void *const a[2], size_t rows,
                                    size_t inputs, void *const out[2], size_t outputs,
                                    const void *const residual[2], zest_activation activation);

/* How a half of a layer ends: sum = residual + dropout(a W' + b), and where a norm follows normed = norm(sum).
 * sum may be normed; normed may be NULL. With a branch norm: branch = a W' + b, normed = branch_norm(branch), sum =
 * residual + dropout(normed). */
typedef struct {
    const zest_model_affine *affine, *norm; /* norm: NULL in pre-norm models */
    const zest_model_affine *branch_norm;   /* or NULL */
    void *const *branch;
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

/* Attention of all rows of a batch to themselves in layer i, for one lane: q, and k and v side by side, in rows of the
 * given strides. */
zest_attention zest_model_attention_job(const zest_forward_pass *pass, size_t i, const void *q,
                                        size_t q_stride, const void *kv, size_t kv_stride, void *out);
/* With shared prefixes: writes the keys and values of every sequence after a copy of its prefix's, into
 * runner->prefix_kv, and lets the job (whose q is a row of qkv) read them there. Not 0: it failed. */
int zest_model_expand_prefix(const zest_forward_pass *pass, zest_attention *job);
/* The first half of layer i. In pre-norm models the result is b->attended, else b->normed. */
zest_status zest_model_attention_block(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                       const zest_layer_buffers *b, size_t *rows);

/* ---- loss.c ---- */

/* The transform of masked language models, where there is one: h becomes what the head multiplies. */
zest_status zest_model_head_transform(zest_model_runner *runner, const zest_group_output *group,
                                      const void *h[2], zest_error *error);

/* Logits of `count` words, (lanes, rows, count), for a pair; only those rows of the head are read. */
zest_status zest_model_head_label_words(zest_model_runner *runner, const zest_group_output *group,
                                        const void *const h[2], const uint32_t *words, size_t count,
                                        float *const out[2], zest_error *error);

/* The head of words first .. first+count-1. */
zest_model_affine zest_model_head_block(const zest_model *model, size_t first, size_t count);

/* Called with the logits of words first .. first+count-1, (rows, count), of one lane (0 or 1), blocks in
 * order. */
typedef zest_status (*zest_on_logits)(void *user, int lane, size_t first, size_t count, const float *logits,
                                      zest_error *error);

/* Goes through the vocabulary in blocks, so that no more logits exist than rows × one block. block: words of one, for
 * callers whose result does not depend on it; 0: as many as losses take. */
zest_status zest_model_head_blocks(zest_model_runner *runner, const zest_group_output *group,
                                   const void *const h[2], size_t block, zest_on_logits on_logits, void *user,
                                   zest_error *error);
/* All logits of a group of one lane, on the host: (rows, vocab_size). */
zest_status zest_model_copy_logits(zest_model_runner *runner, const zest_group_output *group, float *out,
                                   zest_error *error);

/* ---- device_memory.c ---- */

/* The error of an operation that failed. */
zest_status zest_model_device_error(zest_model_runner *runner, zest_error *error);
/* Copies the model's weights to the device that the options name. */
zest_status zest_model_to_device(zest_model_runner *runner, zest_error *error);
/* Takes over the laws of the host model's noise, if they have changed since. */
zest_status zest_model_take_laws(zest_model_runner *runner, zest_error *error);
/* A table in memory that the operations read, until the next pass. *out is the table itself on the CPU. */
zest_status zest_model_stage(zest_model_runner *runner, const uint32_t *table, size_t count,
                             const uint32_t **out, zest_error *error);
/* With shared prefixes: the row of each key of key_rows, a prefix's rows before a sequence's own. */
void zest_model_list_key_sources(const zest_forward_pass *pass, uint32_t *sources);
/* All tables of a pass. */
zest_status zest_model_stage_pass(zest_forward_pass *pass);
/* Memory for activations. NULL: there is not enough. */
void *zest_model_alloc(zest_model_runner *runner, size_t bytes);
void zest_model_dealloc(zest_model_runner *runner, void *data);
/* Copies `count` elements from the device and widens them to floats. fp32: they are floats there too. */
zest_status zest_model_read(zest_model_runner *runner, const void *from, size_t count, int fp32, float *out,
                            zest_error *error);
/* On a device: how many pairs are live and how many go together, by the memory that is there. */
zest_status zest_model_plan_groups(zest_forward_pass *pass);
/* Memory for one group of lanes inside a layer. */
zest_status zest_model_alloc_activations(zest_forward_pass *pass);

/* Grows a buffer to `lane_size` elements in every lane; its contents may be lost. Activations, or floats. */
zest_status zest_model_buffer_reserve(zest_model_runner *runner, zest_model_buffer *buffer, size_t lanes,
                                      size_t lane_size, zest_error *error);
zest_status zest_model_buffer_reserve_f32(zest_model_runner *runner, zest_model_buffer *buffer, size_t lanes,
                                          size_t lane_size, zest_error *error);

static inline size_t zest_max_size(size_t a, size_t b) { return a > b ? a : b; }

static inline size_t zest_model_element_size(const zest_model_runner *runner) {
    return runner->device ? runner->device->element_size : sizeof(float);
}

/* x + count, in activations. */
static inline void *zest_model_offset(const zest_model_runner *runner, const void *x, size_t count) {
    return (char *)(uintptr_t)x + count * zest_model_element_size(runner);
}

/* void *[2] seen as read-only, which C does not do by itself. */
#define ZEST_CONST2(x) ((const void *const[2]){(x)[0], (x)[1]})

/* The first two lanes of a buffer, from element `offset` of each on. */
static inline void zest_model_first_lanes(const zest_model_buffer *buffer, size_t offset, void *out[2]) {
    char *data = (char *)buffer->data;
    out[0] = data + offset * buffer->element_size;
    out[1] = data + (buffer->lane_stride + offset) * buffer->element_size;
}

/* The same for what is fp32 everywhere. */
static inline void zest_model_first_lanes_f32(const zest_model_buffer *buffer, float *out[2]) {
    out[0] = (float *)buffer->data;
    out[1] = out[0] + buffer->lane_stride;
}

/* Lane l, and the elements between lanes, where the first two are known. */
static inline void *zest_model_lane_at(const void *const x[2], size_t l) {
    return (char *)(uintptr_t)x[0] + (ptrdiff_t)l * ((const char *)x[1] - (const char *)x[0]);
}

static inline size_t zest_model_lane_stride(const zest_model_runner *runner, const void *const x[2]) {
    return (size_t)((const char *)x[1] - (const char *)x[0]) / zest_model_element_size(runner);
}

#endif
