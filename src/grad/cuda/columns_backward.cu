/* Sums of columns in two stages: blocks sum runs of rows, then the runs are added up in a fixed order. */
#include "grad/cuda/backward.cuh"

enum { THREADS = 256, ROWS = THREADS / 32, GROUPS = 32 };

/* ---- The runs ---- */

/* A thread has EACH columns of every eighth row of a run; a block 32·EACH columns. */
template <class T, int EACH>
static __global__ void __launch_bounds__(THREADS)
    columns_kernel(const T *x, size_t stride, size_t rows, size_t width, size_t run, float *partial) {
    __shared__ float part[ROWS][32 * EACH];
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    size_t column = ((size_t)blockIdx.x * 32 + (size_t)lane) * EACH, first = blockIdx.y * run;
    size_t end = first + run < rows ? first + run : rows;
    float sum[EACH] = {0};
    if (column < width)
#pragma unroll 4
        for (size_t row = first + (size_t)warp; row < end; row += ROWS) {
            float here[EACH];
            if (EACH == 8)
                load8(x + row * stride + column, here);
            else
                here[0] = to_float(x[row * stride + column]);
#pragma unroll
            for (int j = 0; j < EACH; j++) sum[j] += here[j];
        }
#pragma unroll
    for (int j = 0; j < EACH; j++) part[warp][lane * EACH + j] = sum[j];
    __syncthreads();
    for (int c = (int)threadIdx.x; c < 32 * EACH; c += THREADS) {
        size_t at = (size_t)blockIdx.x * (32 * EACH) + (size_t)c;
        float total = 0;
#pragma unroll
        for (int w = 0; w < ROWS; w++) total += part[w][c];
        if (at < width) partial[blockIdx.y * width + at] = total;
    }
}

/* ---- Adding them up ---- */

/* 32 columns a block; GROUPS threads share a column's runs. */
static __global__ void __launch_bounds__(32 * GROUPS)
    finish_kernel(const float *partial, size_t runs, float *first, size_t width, float *second,
                  size_t columns) {
    __shared__ float part[GROUPS][33];
    int lane = (int)threadIdx.x % 32, group = (int)threadIdx.x / 32;
    size_t column = (size_t)blockIdx.x * 32 + (size_t)lane;
    float sum = 0;
    if (column < columns)
#pragma unroll 4
        for (size_t run = (size_t)group; run < runs; run += GROUPS) sum += partial[run * columns + column];
    part[group][lane] = sum;
    __syncthreads();
    if (group || column >= columns) return;
    sum = 0;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) sum += part[g][lane];
    float *out = column < width ? first : second;
    size_t at = column < width ? column : column - width;
    if (out) out[at] += sum;
}

int zest_backward_cuda_finish_columns(zest_cuda *cuda, const float *partial, size_t runs, float *first,
                                      size_t width, float *second, size_t second_width) {
    size_t columns = width + second_width;
    finish_kernel<<<zest_cuda_blocks(columns, 32), 32 * GROUPS, 0, cuda->stream>>>(partial, runs, first,
                                                                                   width, second, columns);
    return zest_cuda_launched(cuda, "sums of columns");
}

/* ---- Both ---- */

template <class T>
static void launch(zest_cuda *cuda, const T *x, size_t stride, size_t rows, size_t width, size_t run,
                   dim3 grid, int wide, float *partial) {
    if (wide)
        columns_kernel<T, 8><<<grid, THREADS, 0, cuda->stream>>>(x, stride, rows, width, run, partial);
    else
        columns_kernel<T, 1><<<grid, THREADS, 0, cuda->stream>>>(x, stride, rows, width, run, partial);
}

int zest_backward_cuda_sum_columns(const float *x, size_t stride, size_t rows, size_t width, float *out,
                                   int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!rows || !width) return 0;
    int wide = (width | stride) % 8 == 0 && (uintptr_t)x % 16 == 0;
    size_t across = zest_cuda_blocks(width, wide ? 256 : 32), most = (rows + ROWS - 1) / ROWS;
    size_t runs = (size_t)cuda->processors * 4 / across;
    runs = runs < 1 ? 1 : runs > most ? most : runs;
    size_t run = (rows + runs - 1) / runs;
    runs = (rows + run - 1) / run;
    if (zest_cuda_reserve(cuda, &cuda->scratch, runs * width * sizeof(float))) return -1;
    float *partial = (float *)cuda->scratch.data;
    dim3 grid((unsigned)across, (unsigned)runs);
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_BACKWARD_TYPED(
        cuda->base.compute, T,
        launch<T>(cuda, (const T *)(const void *)x, stride, rows, width, run, grid, wide, partial));
    return zest_cuda_launched(cuda, "sums of columns") ||
           zest_backward_cuda_finish_columns(cuda, partial, runs, out, width, NULL, 0);
}
