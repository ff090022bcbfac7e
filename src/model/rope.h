/* Rotary positions (RoPE): the angles of a head, and how they are scaled for contexts longer than those of pretraining.
 * Scaling changes the frequencies and the length of the rotated vectors, never the operation: backends get tables of
 * cosines and sines. */
#ifndef ZEST_MODEL_ROPE_H
#define ZEST_MODEL_ROPE_H

#include <stddef.h>

typedef enum {
    ZEST_ROPE_PLAIN,
    ZEST_ROPE_LINEAR, /* all frequencies divided by the factor */
    ZEST_ROPE_LLAMA3, /* by wavelength: low ones divided, high ones kept, interpolated in between */
    ZEST_ROPE_YARN    /* by turns within the trained context, with a ramp; longer vectors */
} zest_rope_kind;

typedef struct {
    zest_rope_kind kind;
    double base, factor;
    double trained_positions;       /* Llama 3, YaRN: the context of pretraining */
    double low_factor, high_factor; /* Llama 3 */
    double fast_turns,
        slow_turns;   /* YaRN: where the ramp begins and ends, in turns within the trained context */
    int whole_bounds; /* YaRN: the ramp begins and ends at whole pairs */
    double length;    /* factor of cosines and sines; 1 but for YaRN */
} zest_rope;

/* Angle of a pair (i, i + head_dim/2) from one position to the next: of i = 0 .. head_dim/2 - 1. In float, as the
 * models were trained. */
void zest_rope_frequencies(const zest_rope *rope, size_t head_dim, float *out);

#endif
