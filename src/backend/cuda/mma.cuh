/* What the attentions on tensor cores share: tiles of cells in shared memory, and the instructions on them. A
 * block is four warps where nothing else is said. */
#ifndef ZEST_BACKEND_CUDA_MMA_CUH
#define ZEST_BACKEND_CUDA_MMA_CUH

#include "backend/cuda/cells.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS, PAD = 8 }; /* PAD: cells behind a row, against conflicts of banks */

__device__ __forceinline__ void load4(uint32_t r[4], const void *at) { fragment_load(r, shared_address(at)); }

__device__ __forceinline__ void load4_turned(uint32_t r[4], const void *at) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(at);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

template <class T>
__device__ __forceinline__ void mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void mma<__nv_bfloat16>(float c[4], const uint32_t a[4], uint32_t b0,
                                                   uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void mma<__half>(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Eight cells into shared memory, or zeros; any: an address that may be read. */
template <class T>
__device__ __forceinline__ void copy_cells(T *to, const T *from, bool there, const T *any) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(there ? from : any),
                 "r"(there ? 16 : 0)
                 : "memory");
}

/* Rows of a tile; what is beyond the rows or the head is 0. */
template <class T, int SIZE, int ROWS>
__device__ __forceinline__ void fetch(T *to, const T *from, size_t stride, unsigned rows,
                                      unsigned head_size) {
#pragma unroll
    for (int i = 0; i < ROWS * SIZE / 8; i += THREADS) {
        unsigned at = i + threadIdx.x, r = at / (SIZE / 8), d = at % (SIZE / 8) * 8;
        if (ROWS * SIZE / 8 % THREADS && at >= ROWS * SIZE / 8) break;
        copy_cells(to + r * (SIZE + PAD) + d, from + r * stride + d, r < rows && d < head_size, from);
    }
}

/* Copies are counted in groups; this many of the newest may still be on their way. */
__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int NEWEST> __device__ __forceinline__ void arrived() {
    asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
    __syncthreads();
}

#endif
