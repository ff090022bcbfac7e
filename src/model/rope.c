/* Frequencies of rotary positions. */
#include <math.h>

#include "model/rope.h"

static const double two_pi = 2 * 3.14159265358979323846;

/* Llama 3: by the number of turns that a pair makes within the trained context. */
static float llama3(const zest_rope *rope, float plain) {
    double periods = rope->trained_positions / (two_pi / (double)plain);
    if (periods > rope->high_factor) return plain;
    if (periods < rope->low_factor) return (float)((double)plain / rope->factor);
    double blend = (periods - rope->low_factor) / (rope->high_factor - rope->low_factor);
    return (float)((1 - blend) * (double)plain / rope->factor + blend * (double)plain);
}

/* YaRN (Peng et al., 2023): the pair that makes so many turns within the trained context, as a real number. */
static double pair_of_turns(const zest_rope *rope, size_t head_dim, double turns) {
    return (double)head_dim * log(rope->trained_positions / (turns * two_pi)) / (2 * log(rope->base));
}

/* Pairs below the ramp keep their frequency, those above it are divided by the factor. */
static float yarn(const zest_rope *rope, size_t head_dim, size_t i) {
    double low = pair_of_turns(rope, head_dim, rope->fast_turns),
           high = pair_of_turns(rope, head_dim, rope->slow_turns);
    if (rope->whole_bounds) low = floor(low), high = ceil(high);
    low = fmax(low, 0);
    high = fmin(high, (double)head_dim - 1);
    if (low == high) high += 0.001;
    float ramp = ((float)i - (float)low) / ((float)high - (float)low), keep = 1 - fminf(fmaxf(ramp, 0), 1);
    float power = powf((float)rope->base, (float)(2 * i) / (float)head_dim);
    return 1.0f / ((float)rope->factor * power) * (1 - keep) + 1.0f / power * keep;
}

void zest_rope_frequencies(const zest_rope *rope, size_t head_dim, float *out) {
    for (size_t i = 0; i < head_dim / 2; i++) {
        float plain = 1.0f / powf((float)rope->base, (float)(2 * i) / (float)head_dim);
        switch (rope->kind) {
        case ZEST_ROPE_PLAIN: out[i] = plain; break;
        case ZEST_ROPE_LINEAR: out[i] = plain / (float)rope->factor; break;
        case ZEST_ROPE_LLAMA3: out[i] = llama3(rope, plain); break;
        case ZEST_ROPE_YARN: out[i] = yarn(rope, head_dim, i); break;
        }
    }
}
