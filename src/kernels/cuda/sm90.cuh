/* What compute capability 9.0 has and CUDA C++ has no words for: barriers that count bytes, copies of whole
 * tiles by the tensor memory accelerator (TMA), and products of a group of four warps (wgmma). Addresses of
 * shared memory are 32-bit numbers here, as the instructions want them. */
#ifndef ZEST_KERNELS_CUDA_SM90_CUH
#define ZEST_KERNELS_CUDA_SM90_CUH

#include <cuda.h>
#include <cudaTypedefs.h>

#include "kernels/cuda/dtype.cuh"

/* ---- Barriers in shared memory: a phase ends when all have arrived and all announced bytes are there ---- */

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/* Makes new barriers known to the copies and to the other blocks of the cluster. */
__device__ __forceinline__ void barrier_init_done() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* At the same barrier of a block of the cluster. */
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, uint32_t block) {
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(barrier),
                 "r"(block)
                 : "memory");
}

__device__ __forceinline__ void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/* Until the phase of that parity is over. */
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
    uint32_t over;
    do {
        asm volatile("{\n"
                     ".reg .pred over;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, over;\n"
                     "}"
                     : "=r"(over)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!over);
}

/* ---- The cluster ---- */

__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* By whole warps. */
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* ---- Some warps of a block: named barriers; 0 is __syncthreads ---- */

__device__ __forceinline__ void some_sync(int name, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/* ---- Tiles between memory and shared memory ---- */

__device__ __forceinline__ void tile_prefetch_map(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void tile_load(uint32_t to, const CUtensorMap *map, uint32_t barrier, int column,
                                          int row, int lane) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(lane)
                 : "memory");
}

/* To the same place, with the same barrier, in all blocks of the cluster whose bit is set. */
__device__ __forceinline__ void tile_load_shared(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                                 int column, int row, int lane, uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
        "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(lane), "h"(blocks)
        : "memory");
}

__device__ __forceinline__ void tile_store(const CUtensorMap *map, uint32_t from, int column, int row,
                                           int lane) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(column), "r"(row), "r"(lane)
                 : "memory");
}

__device__ __forceinline__ void tile_stores_close() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Until shared memory that was stored from may be written; until the stores are done. */
__device__ __forceinline__ void tile_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void tile_stores_done() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Before copies or products read what this thread has written to shared memory. */
__device__ __forceinline__ void writes_for_copies() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- Products of four warps ---- */

/* Rows of 128 bytes, swizzled in groups of eight: the groups are 1024 bytes apart. The same for products
 * along the rows and, with rows of 64 columns, down the columns (product_down). */
__device__ __forceinline__ uint64_t operand_at(uint32_t address) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_close() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int NEWEST> __device__ __forceinline__ void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWEST) : "memory");
}

template <int REGISTERS> __device__ __forceinline__ void registers_more() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ __forceinline__ void registers_less() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* Values that a product reads or has written: not computed behind, not read before this place. */
template <int COUNT> __device__ __forceinline__ void hold(float *values) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(values[i]));
}
template <int COUNT> __device__ __forceinline__ void hold(uint32_t *values) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+r"(values[i]));
}

/* All products are done, and their sums may be read. */
template <int COUNT> __device__ __forceinline__ void products_finish(float *sums) {
    products_wait<0>();
    hold<COUNT>(sums);
}

/* Registers of sums, by their numbers and as operands, and what follows them. */
#define ZEST_TEN(tens)                                                                                       \
    "%" tens "0, %" tens "1, %" tens "2, %" tens "3, %" tens "4, %" tens "5, %" tens "6, %" tens "7, %" tens \
    "8, %" tens "9, "
#define ZEST_SIXTY ZEST_TEN("") ZEST_TEN("1") ZEST_TEN("2") ZEST_TEN("3") ZEST_TEN("4") ZEST_TEN("5")
#define ZEST_NUMBERS_64 ZEST_TEN("") ZEST_TEN("1") ZEST_TEN("2") "%30, %31"
#define ZEST_NUMBERS_128 ZEST_SIXTY "%60, %61, %62, %63"
#define ZEST_NUMBERS_256                                                              \
    ZEST_SIXTY ZEST_TEN("6") ZEST_TEN("7") ZEST_TEN("8") ZEST_TEN("9") ZEST_TEN("10") \
        ZEST_TEN("11") "%120, %121, %122, %123, %124, %125, %126, %127"
#define ZEST_D8(i)                                                                              \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define ZEST_SUMS_64 ZEST_D8(0), ZEST_D8(8), ZEST_D8(16), ZEST_D8(24)
#define ZEST_SUMS_128 ZEST_SUMS_64, ZEST_D8(32), ZEST_D8(40), ZEST_D8(48), ZEST_D8(56)
#define ZEST_SUMS_256                                                                             \
    ZEST_SUMS_128, ZEST_D8(64), ZEST_D8(72), ZEST_D8(80), ZEST_D8(88), ZEST_D8(96), ZEST_D8(104), \
        ZEST_D8(112), ZEST_D8(120)

/* d (+)= 64 rows of a times COLUMNS rows of b, 16 columns of both; keep 0: d is overwritten. */
template <class T, int COLUMNS>
__device__ __forceinline__ void product(float d[COLUMNS / 2], uint64_t a, uint64_t b, int keep);
#define ZEST_PRODUCT(Cell, name, columns, a_at, b_at, keep_at)                                           \
    template <>                                                                                          \
    __device__ __forceinline__ void product<Cell, columns>(float d[columns / 2], uint64_t a, uint64_t b, \
                                                           int keep) {                                   \
        asm volatile("{\n"                                                                               \
                     ".reg .pred keep;\n"                                                                \
                     "setp.ne.b32 keep, " keep_at ", 0;\n"                                               \
                     "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name               \
                     " {" ZEST_NUMBERS_##columns "}, " a_at ", " b_at ", keep, 1, 1, 0, 0;\n"            \
                                                 "}\n"                                                   \
                     : ZEST_SUMS_##columns                                                               \
                     : "l"(a), "l"(b), "r"(keep));                                                       \
    }
ZEST_PRODUCT(__nv_bfloat16, "bf16", 64, "%32", "%33", "%34")
ZEST_PRODUCT(__half, "f16", 64, "%32", "%33", "%34")
ZEST_PRODUCT(__nv_bfloat16, "bf16", 128, "%64", "%65", "%66")
ZEST_PRODUCT(__half, "f16", 128, "%64", "%65", "%66")
ZEST_PRODUCT(__nv_bfloat16, "bf16", 256, "%128", "%129", "%130")
ZEST_PRODUCT(__half, "f16", 256, "%128", "%129", "%130")

/* d += 64 rows of a, which lie in registers, times 16 rows of 64 columns of b. */
template <class T> __device__ __forceinline__ void product_down(float d[32], const uint32_t a[4], uint64_t b);
#define ZEST_PRODUCT_DOWN(Cell, name)                                                                  \
    template <>                                                                                        \
    __device__ __forceinline__ void product_down<Cell>(float d[32], const uint32_t a[4], uint64_t b) { \
        asm volatile("{\n"                                                                             \
                     ".reg .pred keep;\n"                                                              \
                     "setp.ne.b32 keep, %37, 0;\n"                                                     \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name " {" ZEST_NUMBERS_64  \
                     "}, {%32, %33, %34, %35}, %36, keep, 1, 1, 1;\n"                                  \
                     "}\n"                                                                             \
                     : ZEST_SUMS_64                                                                    \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));                    \
    }
ZEST_PRODUCT_DOWN(__nv_bfloat16, "bf16")
ZEST_PRODUCT_DOWN(__half, "f16")

__device__ __forceinline__ void fragment_store(uint32_t at, const uint32_t r[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

/* ---- On the host: matrices that tiles are copied from or to ---- */

static inline int tiles_aligned(const void *data, size_t stride, int64_t lane) {
    return (uintptr_t)data % 16 == 0 && stride % 8 == 0 && lane % 8 == 0 && lane >= 0;
}

/* Rows of one lane below each other, `stride` elements apart; a tile is 64 columns of some rows. */
static inline int describe_tiles(const zest_cuda *cuda, CUtensorMap *map, const void *data, size_t rows,
                                 size_t columns, size_t stride, int lanes, int64_t lane, unsigned tile_rows) {
    const PFN_cuTensorMapEncodeTiled_v12000 encode = (PFN_cuTensorMapEncodeTiled_v12000)cuda->describe_tiles;
    const cuuint64_t sizes[3] = {columns, rows, (cuuint64_t)(lane ? lanes : 1)};
    const cuuint64_t steps[2] = {2 * stride, 2 * (lane ? (cuuint64_t)lane : rows * stride)};
    const cuuint32_t box[3] = {64, tile_rows, 1}, ones[3] = {1, 1, 1};
    return encode(map,
                  cuda->base.compute == ZEST_COMPUTE_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                          : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                  3, (void *)(uintptr_t)data, sizes, steps, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS;
}

#endif
