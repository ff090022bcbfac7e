/* The options directions, covariance and scales, as far as they concern a step: how the directions of a run are drawn.
 *
 *     batch      k directions v_i for the whole batch       g = (1/k) sum_i (v_i'gbar) v_i
 *     example    k directions v_ei for each of B examples   g = (1/(kB)) sum_e sum_i (v_ei'g_e) v_ei
 *
 * gbar is the mean of the examples' gradients g_e. Both have the mean gbar. Their errors are |gbar|^2 d/k and
 * mean |g_e|^2 d/(kB), for the same forward passes: B |gbar|^2 / mean |g_e|^2 is the gain, from 1 to B. Pair i of example
 * e is pair e k + i of the step. A last batch of fewer examples leaves pairs without losses: they are recorded as
 * minus infinity, and count for nothing. */
#ifndef ZEST_OPTIM_DIRECTIONS_H
#define ZEST_OPTIM_DIRECTIONS_H

#include <math.h>

#include "base/option.h"

typedef struct {
    size_t rank;     /* 0: dense */
    size_t examples; /* of a batch, each with k directions of its own; 0: those of the batch */
    size_t
        inputs; /* rows of each matrix's inputs, of which its directions are made (model/input_rows.h); 0: none */
    int has_print;
    uint64_t print; /* of those rows */
} zest_directions;

/* What stands for the losses of a pair without an example. */
#define ZEST_DIRECTIONS_PADDING (-INFINITY)

/* Reads the option; refuses distributions that low-rank directions cannot have. */
zest_status zest_directions_read(const zest_options *options, zest_directions *directions, zest_error *error);
/* The same of options that were checked. */
zest_directions zest_directions_of(const zest_options *options);
/* Adds the batch to a law that depends on it: from then on the option says it all. "dense" and "identity" become
 * the empty text. */
zest_status zest_directions_set_batch(zest_options *options, uint64_t batch, zest_error *error);
/* Adds the fingerprint of the rows to the covariance. */
zest_status zest_directions_set_print(zest_options *options, uint64_t print, zest_error *error);
/* Scales that name a file become its lines, so that the run does not depend on it. */
zest_status zest_directions_read_scales(zest_options *options, zest_error *error);
/* Refuses what a vector without matrices and examples cannot have. */
zest_status zest_directions_check_vector(const zest_options *options, zest_error *error);
/* Whether the options make directions other than dense ones of scale 1. */
int zest_directions_are_special(const zest_options *options);

#endif
