/* Tensor cores by mma.sync, compute capability 8.0 and newer: what the attention kernels share. Tiles lie in
 * shared memory with rows of SIZE + PAD elements; a block has four warps where nothing else is said.
 *
 * A warp has 16 rows of accumulators (m16n8k16). Of each 8 columns a thread has two, in two rows that are 8
 * apart: c[tile][0..1] in row thread / 4, c[tile][2..3] in row thread / 4 + 8. Four threads, a quad, share a
 * row. */
#ifndef ZEST_KERNELS_CUDA_MMA_CUH
#define ZEST_KERNELS_CUDA_MMA_CUH

#include "kernels/cuda/dtype.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS, PAD = 8 }; /* PAD: elements behind a row, against bank conflicts */

__device__ __forceinline__ void ldmatrix_at(uint32_t r[4], const void *at) {
    ldmatrix(r, shared_address(at));
}

__device__ __forceinline__ void ldmatrix_trans(uint32_t r[4], const void *at) {
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

/* ---- A warp's 16 rows ---- */

/* s (16, 8 TILES) += a (16, 16) b (8 TILES, 16)': one k-step of queries times keys. tile: b's first
 * element. */
template <class T, int ROW, int TILES>
__device__ __forceinline__ void mma_abt(float s[TILES][4], const uint32_t a[4], const T *tile,
                                        unsigned thread) {
#pragma unroll
    for (int j = 0; j < TILES; j += 2) {
        uint32_t b[4];
        ldmatrix_at(b, tile + (j * 8 + thread % 8 + thread / 16 * 8) * ROW + thread / 8 % 2 * 8);
        mma<T>(s[j], a, b[0], b[1]);
        mma<T>(s[j + 1], a, b[2], b[3]);
    }
}

/* Online softmax of row i (0 or 1) of a thread over keys first .. first + 8 TILES - 1, of which those from
 * `limit` on are masked: s becomes exp2(scale (s - row_max)). row_max, row_sum: so far; of the sum a thread
 * has its own columns. Returns the factor by which the accumulators of earlier keys are rescaled. */
template <int TILES>
__device__ __forceinline__ float online_softmax(float s[TILES][4], int i, unsigned first, unsigned limit,
                                                float scale, float &row_max, float &row_sum) {
    const unsigned column = threadIdx.x % 4 * 2;
    float new_max = row_max;
    if (first + TILES * 8 > limit) {
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int c = 0; c < 2; c++)
                if (first + j * 8 + column + c >= limit) s[j][2 * i + c] = -INFINITY;
    }
#pragma unroll
    for (int j = 0; j < TILES; j++) new_max = fmaxf(new_max, fmaxf(s[j][2 * i], s[j][2 * i + 1]));
    new_max = quad_max(new_max);
    float scaled_max = new_max == -INFINITY ? 0.0f : new_max * scale;
    float rescale = exp2_fast(fmaf(row_max, scale, -scaled_max)), tile_sum = 0;
    row_max = new_max;
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int c = 0; c < 2; c++)
            tile_sum += s[j][2 * i + c] = exp2_fast(fmaf(s[j][2 * i + c], scale, -scaled_max));
    row_sum = fmaf(row_sum, rescale, tile_sum);
    return rescale;
}

template <int COLUMNS>
__device__ __forceinline__ void rescale_row(float acc[COLUMNS][4], int i, float rescale) {
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) acc[j][2 * i] *= rescale, acc[j][2 * i + 1] *= rescale;
}

/* acc (16, 8 COLUMNS) += p (16, 8 TILES) v (8 TILES, 8 COLUMNS): probabilities times values. p is rounded to
 * T. */
template <class T, int ROW, int TILES, int COLUMNS>
__device__ __forceinline__ void mma_pv(float acc[COLUMNS][4], const float p[TILES][4], const T *tile,
                                       unsigned thread) {
#pragma unroll
    for (int i = 0; i < TILES / 2; i++) {
        uint32_t a[4] = {pack<T>(p[2 * i][0], p[2 * i][1]), pack<T>(p[2 * i][2], p[2 * i][3]),
                         pack<T>(p[2 * i + 1][0], p[2 * i + 1][1]),
                         pack<T>(p[2 * i + 1][2], p[2 * i + 1][3])};
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 2) {
            uint32_t b[4];
            ldmatrix_trans(b, tile + (i * 16 + thread % 16) * ROW + j * 8 + thread / 16 * 8);
            mma<T>(acc[j], a, b[0], b[1]);
            mma<T>(acc[j + 1], a, b[2], b[3]);
        }
    }
}

/* Stores the warp's rows from `first` on, times a factor each, as far as there are rows and columns. */
template <class T, int COLUMNS>
__device__ __forceinline__ void store_rows(T *to, size_t stride, const float acc[COLUMNS][4],
                                           const float factor[2], unsigned first, unsigned rows,
                                           unsigned columns, unsigned thread) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned row = first + thread / 4 + 8 * i, column = thread % 4 * 2;
        if (row >= rows) continue;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            if (j * 8 + column < columns)
                *(uint32_t *)(to + row * stride + j * 8 + column) =
                    pack<T>(acc[j][2 * i] * factor[i], acc[j][2 * i + 1] * factor[i]);
    }
}

/* ---- cp.async: tiles from global to shared memory ---- */

/* Copies eight elements, or writes zeros where `valid` is false; any: an address that may be read. */
template <class T>
__device__ __forceinline__ void cp_async_16(T *to, const T *from, bool valid, const T *any) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(valid ? from : any),
                 "r"(valid ? 16 : 0)
                 : "memory");
}

/* A tile (ROWS, SIZE) of a matrix (rows, head_dim); beyond it zeros. */
template <class T, int SIZE, int ROWS>
__device__ __forceinline__ void load_tile(T *to, const T *from, size_t stride, unsigned rows,
                                          unsigned head_dim) {
#pragma unroll
    for (int i = 0; i < ROWS * SIZE / 8; i += THREADS) {
        unsigned at = i + threadIdx.x, r = at / (SIZE / 8), d = at % (SIZE / 8) * 8;
        if (ROWS * SIZE / 8 % THREADS && at >= ROWS * SIZE / 8) break;
        cp_async_16(to + r * (SIZE + PAD) + d, from + r * stride + d, r < rows && d < head_dim, from);
    }
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Waits until at most PENDING of the newest groups are not complete, then synchronises the block. */
template <int PENDING> __device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
    __syncthreads();
}

#endif
