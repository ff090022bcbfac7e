/* The options directions and scales, as far as they concern a step: how the directions of a run are drawn. */
#ifndef ZEST_OPTIM_DIRECTIONS_H
#define ZEST_OPTIM_DIRECTIONS_H

#include "base/option.h"

typedef struct {
    size_t rank;     /* 0: dense */
    int per_example; /* every example of the batch has k directions of its own */
} zest_directions;

/* Reads the option; refuses distributions that low-rank directions cannot have. */
zest_status zest_directions_read(const zest_options *options, zest_directions *directions, zest_error *error);
/* Refuses what a vector without matrices and examples cannot have. */
zest_status zest_directions_check_vector(const zest_options *options, zest_error *error);
/* Whether the options make directions other than dense ones of scale 1. */
int zest_directions_are_special(const zest_options *options);

#endif
