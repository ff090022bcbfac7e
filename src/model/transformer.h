/* The forward pass of a model over lanes.
 *
 * Layer-major: all live lanes pass a layer before the next layer is touched, and the two lanes of a pair
 * share each draw of noise. Weights are never written. Memory: the activations of the live lanes, and the
 * scratch of one operation on one pair.
 *
 * On the CPU a row of a result depends on the lane and on the tokens of its own sequence alone: not on the
 * batch-mates, the number of threads, the other lanes or how many of them are live, bit for bit. */
#ifndef ZEST_MODEL_TRANSFORMER_H
#define ZEST_MODEL_TRANSFORMER_H

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

/* Sequences behind each other, without padding. A sequence of a causal model may continue an earlier one, its
 * parent (which has no parent itself): it then holds only the tokens behind the parent's, attends to the
 * parent's too, and gives the same bits as the two written out as one sequence. So options that share a
 * prompt share its computation. */
typedef struct {
    const uint32_t *tokens;
    const uint32_t *starts; /* sequences + 1 of them; the first is 0 */
    size_t sequences;
    const uint32_t *types;     /* a token type for each token, or NULL: all 0 */
    const uint32_t *prefix_of; /* of each sequence, or NULL: none */
} zest_model_batch;

/* Where dropout is applied, in passes that a backward pass follows. */
typedef enum {
    ZEST_DROPOUT_EMBEDDINGS, /* on the embeddings, after their norm */
    ZEST_DROPOUT_ATTENTION,  /* on the weights of attention */
    ZEST_DROPOUT_ATTENDED,   /* on what attention adds to the residual stream */
    ZEST_DROPOUT_MLP,        /* on what the MLP adds to it */
    ZEST_DROPOUT_SITES
} zest_dropout_site;

typedef struct {
    zest_compute compute;
    int threads; /* 0: all cores */
    /* Pairs (or single lanes) in memory at once; 0: all on the CPU, on a device zest_model_choose_live. */
    size_t live_pairs;
    zest_device_kind device;
} zest_model_runner_options;

/* Owns the memory of forward passes over one model, which it only reads. One thread at a time.
 *
 * On a device it owns a copy of the weights too, made when the runner is; transformer.h changes that copy and brings
 * it back. There results agree with the CPU's within rounding, and a pass waits for the device once, at its
 * end. */
typedef struct zest_model_runner zest_model_runner;

/* The runner that the options ask for, on the best instructions of this CPU or on the device. */
zest_status zest_model_open_runner(const zest_model *model, const zest_model_runner_options *options,
                                   zest_model_runner **runner, zest_error *error);
/* The same with a choice of the CPU's operations; a device has its own. */
zest_status zest_model_runner_new(const zest_model *model, const zest_ops *operations,
                                  const zest_model_runner_options *options, zest_model_runner **runner,
                                  zest_error *error);
void zest_model_runner_free(zest_model_runner *runner);
size_t
zest_model_runner_memory(const zest_model_runner *runner); /* bytes held, on a device with the weights */
zest_device *zest_model_runner_device(const zest_model_runner *runner); /* NULL: the CPU */
/* The trained tensors where the forward passes read them: on a device, in its memory. */
const zest_params *zest_model_runner_params(const zest_model_runner *runner);

/* Bytes that a step's forward passes take beside the weights: hidden states of the live lanes, one pair's way
 * through a layer, and, on the CPU, about as much for the operands of an operation. */
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

/* Whether the last layer of a pass on a device makes neither keys nor values (attention.c): widest is the
 * device's, rows are the tokens of the batch, asked those whose logits are wanted, in the order of their
 * sequences. */
int zest_model_absorbs(const zest_model_config *config, size_t widest, size_t rows, size_t asked);

/* Hidden states behind `depth` layers (0: the embeddings), one row a token, in one lane (NULL: the model
 * itself). At the full depth the final norm and projection are included and rows have is.embedding_width
 * elements, else is.width. */
zest_status zest_model_hidden(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, size_t depth, float *out, zest_error *error);

/* Logits over the whole vocabulary at the given rows of the packed batch: count × is.vocabulary. */
zest_status zest_model_logits(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, const uint32_t *rows, size_t count, float *out,
                              zest_error *error);

/* The weights of a runner's model, wherever they live: in the model's arena, or in a copy on a device. */

/* Applies an update where the forward passes read the weights: the same bits on every device. */
zest_status zest_model_apply_update(zest_model_runner *runner, const zest_update *update, zest_error *error);

/* Brings the arena up to date, to be saved, or told by its fingerprint; nothing to do on the CPU. */
zest_status zest_model_download(zest_model_runner *runner, zest_error *error);
/* The other way, behind a change of the arena. */
zest_status zest_model_upload(zest_model_runner *runner, zest_error *error);

#endif
