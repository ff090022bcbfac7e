/* The update of a matrix whose noise has low rank, with the bits of optim/update_lowrank.c: x = fma(c u_j(row),
 * a_j(column), x) over the directions and their factors in order, where c u_j is rounded once. The vectors of all
 * directions are drawn first; a thread then has eight elements of the matrix. */
#include "kernels/cuda/tensor_loop.cuh"

struct low_rank_terms {
    static const bool writes = true;
    const float *u, *a; /* (directions, rank, stride): c u_j, a_j */
    size_t u_stride, a_stride;
    uint64_t first, columns;
    unsigned factors; /* directions times rank */
    float keep;

    /* All eight in one row, whose a_j are aligned. */
    __device__ __forceinline__ void add8(uint64_t row, uint64_t column, float x[LOOP_WIDTH]) const {
        const float *scale = u + row, *side = a + column;
        for (unsigned f = 0; f < factors; f++, scale += u_stride, side += a_stride) {
            float z[LOOP_WIDTH];
            const float c = *scale;
            load8(side, z);
#pragma unroll
            for (int j = 0; j < LOOP_WIDTH; j++) x[j] = __fmaf_rn(c, z[j], x[j]);
        }
    }

    __device__ __forceinline__ float add1(uint64_t at, float x) const {
        const uint64_t row = at / columns, column = at - row * columns;
        const float *scale = u + row, *side = a + column;
        for (unsigned f = 0; f < factors; f++, scale += u_stride, side += a_stride)
            x = __fmaf_rn(*scale, *side, x);
        return x;
    }

    __device__ __forceinline__ void operator()(uint64_t element, int low, int high,
                                               float x[LOOP_WIDTH]) const {
        if (keep != 1.0f)
#pragma unroll
            for (int j = 0; j < LOOP_WIDTH; j++) x[j] = __fmul_rn(x[j], keep);
        const uint64_t at = element + (uint64_t)low - first, row = at / columns, column = at - row * columns;
        if (low == 0 && high == LOOP_WIDTH && column % 4 == 0 && column + LOOP_WIDTH <= columns) {
            add8(row, column, x);
            return;
        }
#pragma unroll
        for (int j = 0; j < LOOP_WIDTH; j++)
            if (j >= low && j < high) x[j] = add1(at + (uint64_t)(j - low), x[j]);
    }
};

int zest_cuda_update_low_rank(zest_cuda *cuda, const zest_tensor *tensor, const tensor_loop_params *loop,
                              unsigned blocks, const zest_update_term *terms, size_t count, float keep) {
    const zest_noise_law *law = &tensor->law;
    const size_t factors = count * law->rank, u_stride = ((size_t)law->rows + 63) / 64 * 64,
                 a_stride = ((size_t)law->columns + 63) / 64 * 64;
    if (zest_cuda_reserve(cuda, &cuda->low_rank, factors * (u_stride + a_stride) * sizeof(float))) return -1;
    float *u = (float *)(void *)cuda->low_rank.data, *a = u + factors * u_stride;
    zest_cuda_law_vectors vectors = {};
    vectors.law = *law;
    vectors.terms = terms;
    vectors.count = (unsigned)count;
    vectors.side[ZEST_NOISE_ROWS] = {u, 0, (size_t)law->rows, u_stride};
    vectors.side[ZEST_NOISE_COLUMNS] = {a, 0, (size_t)law->columns, a_stride};
    if (zest_cuda_fill_law_vectors(cuda, &vectors, cuda->stream)) return -1;
    const low_rank_terms op = {u,   a, u_stride, a_stride, tensor->first, law->columns, (unsigned)factors,
                               keep};
    tensor_loop_kernel<<<blocks, LOOP_THREADS, 0, cuda->stream>>>(*loop, op);
    return zest_cuda_launched(cuda, "updating a matrix");
}
