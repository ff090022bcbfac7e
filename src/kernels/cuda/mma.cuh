/* What the attentions on tensor cores share: tiles of cells in shared memory, and the instructions on them. A
 * block is four warps where nothing else is said. */
#ifndef ZEST_KERNELS_CUDA_MMA_CUH
#define ZEST_KERNELS_CUDA_MMA_CUH

#include "kernels/cuda/dtype.cuh"

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

/* ---- A warp's 16 rows of scores, sums or results: a thread has two of them, eight apart, and two columns of
 * every eight ---- */

/* Another 16 columns of the product of rows, whose fragment is a, and the 8·TILES rows of a tile. */
template <class T, int ROW, int TILES>
__device__ __forceinline__ void add_scores(float s[TILES][4], const uint32_t a[4], const T *tile,
                                           unsigned thread) {
#pragma unroll
    for (int j = 0; j < TILES; j += 2) {
        uint32_t b[4];
        load4(b, tile + (j * 8 + thread % 8 + thread / 16 * 8) * ROW + thread / 8 % 2 * 8);
        mma<T>(s[j], a, b[0], b[1]);
        mma<T>(s[j + 1], a, b[2], b[3]);
    }
}

/* Scores of row i (0 or 1) and keys from `first` on become exponentials, 0 from `limit` on. most, sum: the
 * largest score of the row so far, and the exponentials in the thread's columns. Returns what earlier ones,
 * and what was made of them, are multiplied by. */
template <int TILES>
__device__ __forceinline__ float exponentials(float s[TILES][4], int i, unsigned first, unsigned limit,
                                              float scale, float &most, float &sum) {
    const unsigned across = threadIdx.x % 4 * 2;
    float top = most;
    if (first + TILES * 8 > limit) {
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int c = 0; c < 2; c++)
                if (first + j * 8 + across + c >= limit) s[j][2 * i + c] = -INFINITY;
    }
#pragma unroll
    for (int j = 0; j < TILES; j++) top = fmaxf(top, fmaxf(s[j][2 * i], s[j][2 * i + 1]));
    top = most_of_four(top);
    float safe = top == -INFINITY ? 0.0f : top * scale;
    float shrink = exp2_fast(fmaf(most, scale, -safe)), add = 0;
    most = top;
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int c = 0; c < 2; c++) add += s[j][2 * i + c] = exp2_fast(fmaf(s[j][2 * i + c], scale, -safe));
    sum = fmaf(sum, shrink, add);
    return shrink;
}

template <int COLUMNS>
__device__ __forceinline__ void shrink_row(float result[COLUMNS][4], int i, float shrink) {
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) result[j][2 * i] *= shrink, result[j][2 * i + 1] *= shrink;
}

/* result += weights, as add_scores leaves them, times 8·COLUMNS columns of a tile's rows. */
template <class T, int ROW, int TILES, int COLUMNS>
__device__ __forceinline__ void gather(float result[COLUMNS][4], const float w[TILES][4], const T *tile,
                                       unsigned thread) {
#pragma unroll
    for (int i = 0; i < TILES / 2; i++) {
        uint32_t a[4] = {pack<T>(w[2 * i][0], w[2 * i][1]), pack<T>(w[2 * i][2], w[2 * i][3]),
                         pack<T>(w[2 * i + 1][0], w[2 * i + 1][1]),
                         pack<T>(w[2 * i + 1][2], w[2 * i + 1][3])};
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 2) {
            uint32_t b[4];
            load4_turned(b, tile + (i * 16 + thread % 16) * ROW + j * 8 + thread / 16 * 8);
            mma<T>(result[j], a, b[0], b[1]);
            mma<T>(result[j + 1], a, b[2], b[3]);
        }
    }
}

/* Rows first .. of the result, times a factor each, as far as there are rows and columns. */
template <class T, int COLUMNS>
__device__ __forceinline__ void store_rows(T *to, size_t stride, const float result[COLUMNS][4],
                                           const float factor[2], unsigned first, unsigned rows,
                                           unsigned columns, unsigned thread) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned row = first + thread / 4 + 8 * i, across = thread % 4 * 2;
        if (row >= rows) continue;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            if (j * 8 + across < columns)
                *(uint32_t *)(to + row * stride + j * 8 + across) =
                    pack<T>(result[j][2 * i] * factor[i], result[j][2 * i + 1] * factor[i]);
    }
}

/* ---- Tiles ---- */

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
