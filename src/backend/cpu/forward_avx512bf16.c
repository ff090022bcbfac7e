/* bf16 arithmetic with AVX512_BF16: vdpbf16ps multiplies pairs. It adds the second product of a pair, then
 * the first, each with one rounding, so the result equals forward_plain.c but for subnormal numbers, which it
 * takes for zeros. */
#if defined(__x86_64__)
#include "backend/cpu/levels.h"

#include "backend/cpu/vector_avx512.h"

#define PAIRS 1
enum { TILE_ROWS = 14, TILE_VECTORS = 2, LINEAR_OUTPUTS = 128, LINEAR_CHUNK = 2048 };
#define LINEAR_BLOCK tile_block
#include "backend/cpu/pack.h"
#include "backend/cpu/tile.h"
#include "backend/cpu/linear.h"

static int linear_either(const zest_linear *job, int threads, zest_scratch *scratch) {
    return (job->compute == ZEST_COMPUTE_BF16 ? linear : zest_levels_linear)(job, threads, scratch);
}

const zest_forward zest_forward_avx512bf16 = ZEST_LEVELS_TABLE(ZEST_CPU_AVX512BF16, linear_either);
#endif
