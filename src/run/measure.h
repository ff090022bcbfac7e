/* A model and some examples as a function of the weights: its loss in lanes, its slope at a point. What the
 * analysis of sharpness measures. */
#ifndef ZEST_RUN_MEASURE_H
#define ZEST_RUN_MEASURE_H

#include <signal.h>

#include "analysis/hessian.h"
#include "analysis/neighbourhood.h"
#include "analysis/slice.h"
#include "analysis/vector.h"
#include "data/batch.h"
#include "run/load.h"

/* How far a measurement is, in passes over all examples (a gradient counts as 3); 0 from `all` on. */
typedef void zest_measure_tell(void *user, const char *what, double done, double all);

typedef struct zest_measure zest_measure;

typedef struct {
    const zest_loaded *loaded;     /* outlives it */
    const zest_examples *examples; /* likewise */
    size_t most;                   /* examples: a subset that follows from the seed when there are more */
    uint64_t seed;
    int slopes;           /* gradients will be asked for */
    zest_compute compute; /* of gradients, whatever loaded->runner, which gives the losses, computes in */
    int threads;
    volatile sig_atomic_t *stop; /* set: measuring ends with ZEST_ERROR_STATE; or NULL */
    zest_measure_tell *tell;     /* or NULL */
    void *user;
} zest_measure_options;

zest_status zest_measure_new(const zest_measure_options *options, zest_measure **measure, zest_error *error);
void zest_measure_free(zest_measure *measure);
size_t zest_measure_examples(const zest_measure *measure);
/* Where vectors of as many numbers as the model has parameters belong: with a model that runs on a device, in
 * its memory. The slopes below take and give such vectors. */
zest_vector_space zest_measure_space(const zest_measure *measure);
/* A stretch of work that is told about: its name, and how many passes it will take. */
void zest_measure_begin(zest_measure *measure, const char *what, double passes);

/* zest_lane_losses. The loss is that of training: the mean over examples (over tokens for texts). */
zest_status zest_measure_losses(void *measure, const zest_model_lane *lanes, size_t count, double *losses,
                                zest_error *error);

/* Does this build have gradients? Without them the two below answer ZEST_ERROR_STATE. */
int zest_measure_has_slopes(void);
/* zest_hessian_slope: fp32 gradients of batches, added up in fp64. */
zest_status zest_measure_slope(void *measure, const float *v, double scale, double factor, double *sum,
                               zest_error *error);
/* The loss at x + a p + b q; p and q (NULL: none) in the order of the numbers of the parameters. */
zest_status zest_measure_at(zest_measure *measure, const float *p, double a, const float *q, double b,
                            double *loss, zest_error *error);
/* |x|, over what is not frozen. */
zest_status zest_measure_norm(zest_measure *measure, double *norm, zest_error *error);

/* Bytes that are free for such vectors, as the system or the device sees it; 0: it does not say. */
double zest_measure_free_memory(const zest_measure *measure);

#endif
