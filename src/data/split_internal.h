/* What split*.c share. */
#ifndef ZEST_DATA_SPLIT_INTERNAL_H
#define ZEST_DATA_SPLIT_INTERNAL_H

#include "data/split.h"

/* Parts with one noise seed are drawn apart. */
typedef enum { ZEST_SPLIT_NOISE_TRAIN, ZEST_SPLIT_NOISE_DEV } zest_split_noise_part;

zest_status zest_split_noise(zest_split *split, size_t classes, double fraction, uint32_t seed,
                             zest_split_noise_part part, zest_error *error);

#endif
