/* PTX of compute capability 9.0: mbarriers, the tensor memory accelerator (TMA), thread block clusters, and
 * matrix products of a warp group (wgmma). Addresses of shared memory are 32-bit, as the instructions take
 * them. */
#ifndef ZEST_KERNELS_CUDA_SM90_CUH
#define ZEST_KERNELS_CUDA_SM90_CUH

#include <cuda.h>
#include <cudaTypedefs.h>

#include "kernels/cuda/dtype.cuh"

/* ---- mbarrier: a phase completes when all threads have arrived and all expected bytes were written ---- */

__device__ __forceinline__ void mbarrier_init(uint32_t mbarrier, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(count) : "memory");
}

/* Makes initialised mbarriers visible to TMA and to the other blocks of the cluster. */
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t mbarrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}

/* Arrives at the mbarrier with the same address in another block of the cluster. */
__device__ __forceinline__ void mbarrier_arrive_cluster(uint32_t mbarrier, uint32_t block_rank) {
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                 "}" ::"r"(mbarrier),
                 "r"(block_rank)
                 : "memory");
}

__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t mbarrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes)
                 : "memory");
}

/* Waits until the phase of that parity is complete. */
__device__ __forceinline__ void mbarrier_wait(uint32_t mbarrier, uint32_t parity) {
    uint32_t done;
    do {
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, done;\n"
                     "}"
                     : "=r"(done)
                     : "r"(mbarrier), "r"(parity)
                     : "memory");
    } while (!done);
}

/* ---- The cluster ---- */

__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Called by whole warps. */
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* ---- Named barriers, for some of the warps of a block; 0 is __syncthreads ---- */

__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* ---- TMA: tiles (1 lane, rows, 64 columns) between global and shared memory ---- */

__device__ __forceinline__ void prefetch_tensormap(const CUtensorMap *tensormap) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(tensormap) : "memory");
}

__device__ __forceinline__ void tma_load(uint32_t to, const CUtensorMap *tensormap, uint32_t mbarrier,
                                         int column, int row, int lane) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(tensormap), "r"(mbarrier), "r"(column), "r"(row), "r"(lane)
                 : "memory");
}

/* Multicast: to the same address, signalling the same mbarrier, in all blocks of the cluster whose bit is
 * set. */
__device__ __forceinline__ void tma_load_multicast(uint32_t to, const CUtensorMap *tensormap,
                                                   uint32_t mbarrier, int column, int row, int lane,
                                                   uint16_t block_mask) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
        "l"(tensormap), "r"(mbarrier), "r"(column), "r"(row), "r"(lane), "h"(block_mask)
        : "memory");
}

__device__ __forceinline__ void tma_store(const CUtensorMap *tensormap, uint32_t from, int column, int row,
                                          int lane) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(tensormap),
        "r"(from), "r"(column), "r"(row), "r"(lane)
        : "memory");
}

__device__ __forceinline__ void tma_store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Waits until the source in shared memory may be overwritten, or until the stores are complete. */
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/* Makes this thread's writes to shared memory visible to TMA and wgmma. */
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- wgmma ---- */

/* Matrix descriptor of an operand in shared memory: rows of 64 elements (128 bytes), 128-byte swizzle, stride
 * of 1024 bytes between groups of eight rows. Serves K-major operands and, for wgmma_rs, an MN-major B. */
__device__ __forceinline__ uint64_t smem_descriptor(uint32_t address) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most PENDING of the newest groups are not complete. */
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

template <int REGISTERS> __device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* Keeps the compiler from moving computations on registers of a wgmma across this point. */
template <int COUNT> __device__ __forceinline__ void fence_operand(float *values) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(values[i]));
}
template <int COUNT> __device__ __forceinline__ void fence_operand(uint32_t *values) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+r"(values[i]));
}

/* Waits for all groups; the accumulators may be read. */
template <int COUNT> __device__ __forceinline__ void wgmma_wait_all(float *accumulators) {
    wgmma_wait<0>();
    fence_operand<COUNT>(accumulators);
}

/* The accumulators of m64nNk16: N/2 registers a thread, as numbers in the PTX text and as operands of the
 * asm. */
#define ZEST_TEN(tens)                                                                                       \
    "%" tens "0, %" tens "1, %" tens "2, %" tens "3, %" tens "4, %" tens "5, %" tens "6, %" tens "7, %" tens \
    "8, %" tens "9, "
#define ZEST_SIXTY ZEST_TEN("") ZEST_TEN("1") ZEST_TEN("2") ZEST_TEN("3") ZEST_TEN("4") ZEST_TEN("5")
#define ZEST_REGISTERS_64 ZEST_TEN("") ZEST_TEN("1") ZEST_TEN("2") "%30, %31"
#define ZEST_REGISTERS_128 ZEST_SIXTY "%60, %61, %62, %63"
#define ZEST_REGISTERS_256                                                            \
    ZEST_SIXTY ZEST_TEN("6") ZEST_TEN("7") ZEST_TEN("8") ZEST_TEN("9") ZEST_TEN("10") \
        ZEST_TEN("11") "%120, %121, %122, %123, %124, %125, %126, %127"
#define ZEST_EIGHT(i)                                                                           \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define ZEST_ACCUMULATORS_64 ZEST_EIGHT(0), ZEST_EIGHT(8), ZEST_EIGHT(16), ZEST_EIGHT(24)
#define ZEST_ACCUMULATORS_128 \
    ZEST_ACCUMULATORS_64, ZEST_EIGHT(32), ZEST_EIGHT(40), ZEST_EIGHT(48), ZEST_EIGHT(56)
#define ZEST_ACCUMULATORS_256                                                                              \
    ZEST_ACCUMULATORS_128, ZEST_EIGHT(64), ZEST_EIGHT(72), ZEST_EIGHT(80), ZEST_EIGHT(88), ZEST_EIGHT(96), \
        ZEST_EIGHT(104), ZEST_EIGHT(112), ZEST_EIGHT(120)

/* d (64, N) = a (64, 16) b (N, 16)' + (accumulate ? d : 0); a and b in shared memory. */
template <class T, int N>
__device__ __forceinline__ void wgmma(float d[N / 2], uint64_t a, uint64_t b, int accumulate);
#define ZEST_WGMMA(Element, name, n, a_at, b_at, accumulate_at)                                              \
    template <>                                                                                              \
    __device__ __forceinline__ void wgmma<Element, n>(float d[n / 2], uint64_t a, uint64_t b,                \
                                                      int accumulate) {                                      \
        asm volatile("{\n"                                                                                   \
                     ".reg .pred accumulate;\n"                                                              \
                     "setp.ne.b32 accumulate, " accumulate_at ", 0;\n"                                       \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." name "." name " {" ZEST_REGISTERS_##n \
                     "}, " a_at ", " b_at ", accumulate, 1, 1, 0, 0;\n"                                      \
                     "}\n"                                                                                   \
                     : ZEST_ACCUMULATORS_##n                                                                 \
                     : "l"(a), "l"(b), "r"(accumulate));                                                     \
    }
ZEST_WGMMA(__nv_bfloat16, "bf16", 64, "%32", "%33", "%34")
ZEST_WGMMA(__half, "f16", 64, "%32", "%33", "%34")
ZEST_WGMMA(__nv_bfloat16, "bf16", 128, "%64", "%65", "%66")
ZEST_WGMMA(__half, "f16", 128, "%64", "%65", "%66")
ZEST_WGMMA(__nv_bfloat16, "bf16", 256, "%128", "%129", "%130")
ZEST_WGMMA(__half, "f16", 256, "%128", "%129", "%130")

/* d (64, 64) += a (64, 16) b (16, 64); a in registers, b in shared memory. */
template <class T> __device__ __forceinline__ void wgmma_rs(float d[32], const uint32_t a[4], uint64_t b);
#define ZEST_WGMMA_RS(Element, name)                                                                    \
    template <>                                                                                         \
    __device__ __forceinline__ void wgmma_rs<Element>(float d[32], const uint32_t a[4], uint64_t b) {   \
        asm volatile("{\n"                                                                              \
                     ".reg .pred accumulate;\n"                                                         \
                     "setp.ne.b32 accumulate, %37, 0;\n"                                                \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name " {" ZEST_REGISTERS_64 \
                     "}, {%32, %33, %34, %35}, %36, accumulate, 1, 1, 1;\n"                             \
                     "}\n"                                                                              \
                     : ZEST_ACCUMULATORS_64                                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));                     \
    }
ZEST_WGMMA_RS(__nv_bfloat16, "bf16")
ZEST_WGMMA_RS(__half, "f16")

__device__ __forceinline__ void stmatrix(uint32_t at, const uint32_t r[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

/* ---- On the host: TMA descriptors ---- */

/* Whether TMA can address a matrix: 16-byte alignment of base, rows and lanes. */
static inline int tma_aligned(const void *data, size_t stride, int64_t lane) {
    return (uintptr_t)data % 16 == 0 && stride % 8 == 0 && lane % 8 == 0 && lane >= 0;
}

/* TMA descriptor of data (lanes, rows, columns) with tiles (1, tile_rows, 64) and a 128-byte swizzle; lane 0:
 * one matrix for all lanes. Non-zero: the driver refused. */
static inline int make_tensormap(const zest_cuda *cuda, CUtensorMap *tensormap, const void *data, size_t rows,
                                 size_t columns, size_t stride, int lanes, int64_t lane, unsigned tile_rows) {
    const PFN_cuTensorMapEncodeTiled_v12000 encode =
        (PFN_cuTensorMapEncodeTiled_v12000)cuda->encode_tensormap;
    const cuuint64_t sizes[3] = {columns, rows, (cuuint64_t)(lane ? lanes : 1)};
    const cuuint64_t steps[2] = {2 * stride, 2 * (lane ? (cuuint64_t)lane : rows * stride)};
    const cuuint32_t box[3] = {64, tile_rows, 1}, ones[3] = {1, 1, 1};
    return encode(tensormap,
                  cuda->base.compute == ZEST_COMPUTE_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                          : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                  3, (void *)(uintptr_t)data, sizes, steps, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS;
}

#endif
