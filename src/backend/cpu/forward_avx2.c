/* The forward pass with AVX2. Bit-identical to forward_plain.c. */
#if defined(__x86_64__)
#include "backend/forward.h"

#include "backend/cpu/vector_avx2.h"

#define PAIRS 0
enum { TILE_ROWS = 6, TILE_VECTORS = 2, LINEAR_OUTPUTS = 256, LINEAR_CHUNK = 256 };
#define LINEAR_BLOCK tile_block
#include "backend/cpu/pack.h"
#include "backend/cpu/tile.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/attention.h"
#include "backend/cpu/rows.h"

const zest_forward zest_forward_avx2 = {ZEST_CPU_AVX2, linear, norm, attention, rotary, gate, gather, NULL};
#endif
