/* Losses of a step in which every example has k directions of its own (optim/directions.h): the 2k lanes of example e
 * are evaluated on that example alone. The forward passes of a batch are so many as with k directions for all. */
#include <stdlib.h>

#include "optim/directions.h"
#include "train/trainer_internal.h"

/* What makes the mean over examples that of the objective: of a text's tokens, not of texts. */
static double share_of_example(const zest_model_objective *objective) {
    return (double)zest_loss_examples(objective) / zest_loss_mean_divisor(objective);
}

zest_status zest_trainer_example_piece(zest_trainer *t, size_t first, size_t end, double *plus,
                                       double *minus) {
    size_t k = t->tuner->step.each;
    double share = share_of_example(&t->batch.objective), *own = malloc(2 * k * sizeof *own);
    zest_status status =
        own ? ZEST_OK : zest_error_memory(t->error, "the losses of an example", 2 * k * sizeof *own);
    for (size_t e = first; e < end && !status; e++) {
        status =
            zest_batch_make(&t->one, t->batch.examples, t->batch.which + e, 1, ZEST_BATCH_TRAIN, t->error);
        if (!status)
            status = zest_model_losses(t->loaded.runner, t->lanes + 2 * k * e, 2 * k, &t->one.objective, own,
                                       NULL, NULL, t->error);
        for (size_t i = 0; i < k && !status; i++) {
            *plus++ = own[2 * i] * share;
            *minus++ = own[2 * i + 1] * share;
        }
    }
    free(own);
    return status;
}

zest_status zest_trainer_example_losses(zest_trainer *t, double *losses) {
    size_t all = t->tuner->step.tilt.k, pairs = t->batch.count * t->tuner->step.each;
    double *signs = malloc(2 * pairs * sizeof *signs); /* (2, pairs) */
    if (!signs) return zest_error_memory(t->error, "the losses of a step", 2 * pairs * sizeof *signs);
    zest_status status = t->comm->ranks > 1
                             ? zest_trainer_gather_losses(t, 2, 0, signs)
                             : zest_trainer_example_piece(t, 0, t->batch.count, signs, signs + pairs);
    for (size_t p = 0; p < all; p++)
        for (size_t s = 0; s < 2; s++)
            losses[2 * p + s] = p < pairs ? signs[s * pairs + p] : ZEST_DIRECTIONS_PADDING;
    free(signs);
    return status;
}
