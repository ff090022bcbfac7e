#include "rng/seed.h"

#include "zest.h"

/* For a given run this is a chain of bijections of (step, index), so no two directions of a run can collide.
 */
uint64_t zest_seed(uint64_t run, uint64_t step, uint64_t index) {
    uint64_t place = (step << ZEST_SEED_INDEX_BITS) | (index & ((1u << ZEST_SEED_INDEX_BITS) - 1));
    return zest_seed_mix(place ^ zest_seed_mix(run + 0x9E3779B97F4A7C15u));
}
