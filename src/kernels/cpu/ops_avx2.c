/* The forward pass with AVX2. Bit-identical to ops_plain.c. */
#if defined(__x86_64__)
#include "kernels/ops.h"

#include "kernels/cpu/simd_avx2.h"

#define PAIRS 0
enum { TILE_ROWS = 6, TILE_VECTORS = 2, LINEAR_OUTPUTS = 256, LINEAR_CHUNK = 256 };
#define LINEAR_BLOCK tile_block
#include "kernels/cpu/pack.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/rows.h"

const zest_ops zest_ops_avx2 = {ZEST_CPU_AVX2, linear, norm, attention, rotary, gate, gather, NULL};
#endif
