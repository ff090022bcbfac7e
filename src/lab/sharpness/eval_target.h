/* A model and some examples as a function of the weights: its loss in lanes, its slope at a point. What the
 * analysis of sharpness measures. */
#ifndef ZEST_LAB_SHARPNESS_EVAL_TARGET_H
#define ZEST_LAB_SHARPNESS_EVAL_TARGET_H

#include <signal.h>

#include "lab/sharpness/hessian.h"
#include "lab/sharpness/perturbed_loss.h"
#include "lab/sharpness/vector.h"
#include "task/batch.h"
#include "train/load.h"

/* How far a measurement is, in passes over all examples (a gradient counts as 3); 0 from `all` on. */
typedef void zest_eval_target_progress(void *user, const char *what, double done, double all);

typedef struct zest_eval_target zest_eval_target;

typedef struct {
    const zest_loaded *loaded;     /* outlives it */
    const zest_examples *examples; /* likewise */
    size_t most;                   /* examples: a subset that follows from the seed when there are more */
    uint64_t seed;
    int slopes;           /* gradients will be asked for */
    zest_compute compute; /* of gradients, whatever loaded->runner, which gives the losses, computes in */
    int threads;
    volatile sig_atomic_t *stop;     /* set: measuring ends with ZEST_ERROR_STATE; or NULL */
    zest_eval_target_progress *tell; /* or NULL */
    void *user;
} zest_eval_target_options;

zest_status zest_eval_target_new(const zest_eval_target_options *options, zest_eval_target **measure,
                                 zest_error *error);
void zest_eval_target_free(zest_eval_target *measure);
size_t zest_eval_target_examples(const zest_eval_target *measure);
/* Where vectors of as many numbers as the model has parameters belong: with a model that runs on a device, in
 * its memory. The slopes below take and give such vectors. */
zest_vector_space zest_eval_target_space(const zest_eval_target *measure);
/* A stretch of work that is told about: its name, and how many passes it will take. */
void zest_eval_target_begin(zest_eval_target *measure, const char *what, double passes);

/* zest_lane_losses. The loss is that of training: the mean over examples (over tokens for texts). */
zest_status zest_eval_target_losses(void *measure, const zest_model_lane *lanes, size_t count, double *losses,
                                    zest_error *error);

/* Does this build have gradients? Without them the two below answer ZEST_ERROR_STATE. */
int zest_eval_target_has_gradients(void);
/* zest_hessian_gradient: fp32 gradients of batches, added up in fp64. */
zest_status zest_eval_target_gradient(void *measure, const float *v, double scale, double factor, double *sum,
                                      zest_error *error);
/* The loss at x + a p + b q; p and q (NULL: none) in the order of the numbers of the parameters. */
zest_status zest_eval_target_at(zest_eval_target *measure, const float *p, double a, const float *q, double b,
                                double *loss, zest_error *error);
/* |x|, over what is not frozen. */
zest_status zest_eval_target_norm(zest_eval_target *measure, double *norm, zest_error *error);

/* Bytes that are free for such vectors, as the system or the device sees it; 0: it does not say. */
double zest_eval_target_free_memory(const zest_eval_target *measure);

#endif
