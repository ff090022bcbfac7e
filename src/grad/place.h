/* Where a loss and its gradient are taken. The weights themselves are never written for it: a random
 * neighbour is x + scale·v of a direction, whose noise is made on the way into the arithmetic as for lanes;
 * any other point is given by its values. */
#ifndef ZEST_GRAD_PLACE_H
#define ZEST_GRAD_PLACE_H

#include "backend/ops.h"
#include "params/params.h"
#include "zest.h"

/* All zero: x itself. */
typedef struct {
    const zest_direction *direction; /* or NULL */
    double scale;
    const float *point; /* values in the order of the numbers, instead; or NULL */
} zest_place;

/* Values at a place, of elements first .. first+count-1 of one tensor, as floats. */
void zest_place_read(const zest_place *place, const zest_ops *ops, const zest_tensor *tensor, uint64_t first,
                     size_t count, float *out);

#endif
