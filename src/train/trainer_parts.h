/* Gradients of a batch in parts, over the ranks: with --accumulate P the batch is cut into P parts of nearly as many
 * examples, whatever the number of ranks, and
 *
 *     G = g_1 + g_2 + .. + g_P      in this order, in fp32, each g_p the part's share of the gradient of the mean
 *
 * so that G has the same bits for any number of ranks. Rank r of R computes parts r, r + R, r + 2R and so on, in rounds.
 * After a round each rank adds a slice of the round's gradients to its sum, and after the last one all gather the slices:
 * a rank sends and receives d floats a round, and d at the end, for d trained parameters. The losses are gathered as
 * those of lanes are (trainer_ranks.c), and have the bits of an undivided batch. */
#ifndef ZEST_TRAIN_TRAINER_PARTS_H
#define ZEST_TRAIN_TRAINER_PARTS_H

#include "baselines/optimizer.h"
#include "train/trainer_internal.h"

typedef struct {
    zest_trainer *trainer; /* NULL: the batch has one part */
    const zest_optimizer_batch *batch;
    size_t parts, dimension, chunk; /* chunk: floats that are exchanged at once */
    float *own;                     /* (dimension): the gradient of a part; in the end the sum */
    float *sum;                     /* this rank's slices of all chunks, one after the other */
    float *received;                /* slices of a chunk, of all ranks */
    size_t sum_count, received_count;
    size_t *counts;               /* (ranks): losses of a round */
    double *losses, *part_losses; /* (examples) */
    size_t capacity;
} zest_trainer_parts;

/* *parts is zero before. Free it whatever this returns. */
zest_status zest_trainer_parts_new(zest_trainer *t, const zest_optimizer_batch *batch,
                                   zest_trainer_parts *parts);
void zest_trainer_parts_free(zest_trainer_parts *parts);
uint64_t zest_trainer_parts_memory(const zest_trainer_parts *parts); /* bytes */

/* Evaluates the trainer's batch at a point: for zest_optimizer_closure. user: the parts. */
zest_status zest_trainer_parts_evaluate(void *user, const zest_eval_point *at, size_t number, float *gradient,
                                        zest_grad_weigh *weigh, void *weigher, double *loss,
                                        zest_error *error);

#endif
