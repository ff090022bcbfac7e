/* Gradients of layer norm and RMS norm: dx (rows, width), and the sums for gain and bias, per block and then
 * over the blocks. A row is kept in registers. The formulas are those of backward_plain.c. */
#include "grad/cuda/backward.cuh"
#include "kernels/cuda/noise_law.cuh"

enum { THREADS = 256 };

struct norm_grad_params {
    const void *x, *dy;
    void *dx;
    zest_weight gain; /* data NULL: ones */
    zest_perturbation at;
    int perturbed, add, rms;
    float epsilon;
    size_t rows, width;                           /* rows: vectors with a norm */
    float *partial;                               /* (blocks, 2, width): of gain, of bias; NULL: not wanted */
    size_t heads, x_stride, dy_stride, dx_stride; /* see zest_norm */
    float gain_offset;
};

static __device__ __forceinline__ float gain_at(const norm_grad_params &params, size_t i) {
    if (!params.gain.data) return 1.0f;
    float w = load_weight(params.gain.data, params.gain.dtype, i);
    if (params.perturbed)
        w = __fmaf_rn(params.at.scale[0],
                      law_noise1(params.gain.law, params.at.seed, params.at.signs, params.gain.first + i), w);
    return w + params.gain_offset;
}

/* Sum over the threads of a row. */
template <int ROW> static __device__ __forceinline__ float row_sum(float x) {
    return ROW == 32 ? warp_sum(x) : block_sum<THREADS>(x);
}

/* ROW threads for a row, a warp or the block, VECTORS vectors of eight elements each: width at most 8 ROW
 * VECTORS. */
template <class T, int ROW, int VECTORS>
static __global__ void __launch_bounds__(THREADS)
    norm_grad_kernel(const __grid_constant__ norm_grad_params params) {
    extern __shared__ uint4 norm_shared[];
    const int ROWS = THREADS / ROW;
    float *gains = (float *)norm_shared,
          *sums = gains + params.width; /* sums: where a block has several rows at a time */
    int lane = (int)threadIdx.x % ROW, row_in_block = (int)threadIdx.x / ROW;
    float d_gain[VECTORS][8], d_bias[VECTORS][8], width = (float)params.width;
#pragma unroll
    for (int i = 0; i < VECTORS * 8; i++) (&d_gain[0][0])[i] = (&d_bias[0][0])[i] = 0;
    for (size_t i = threadIdx.x; i < params.width; i += THREADS) gains[i] = gain_at(params, i);
    __syncthreads();
    for (size_t row = (size_t)blockIdx.x * ROWS + (size_t)row_in_block; row < params.rows;
         row += (size_t)gridDim.x * ROWS) {
        const T *x = (const T *)params.x + row * params.width,
                *dy = (const T *)params.dy + row * params.width;
        T *dx = (T *)params.dx + row * params.width;
        float h[VECTORS][8], d[VECTORS][8], sum = 0, mean = 0, square = 0, sum_d = 0, dot = 0;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            size_t at = (size_t)(v * ROW + lane) * 8;
#pragma unroll
            for (int j = 0; j < 8; j++) h[v][j] = d[v][j] = 0;
            if (at < params.width) {
                load8(x + at, h[v]);
                load8(dy + at, d[v]);
            }
#pragma unroll
            for (int j = 0; j < 8; j++) sum += h[v][j];
        }
        if (!params.rms) mean = row_sum<ROW>(sum) / width;
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                h[v][j] = (size_t)(v * ROW + lane) * 8 < params.width ? h[v][j] - mean : 0.0f;
                square = fmaf(h[v][j], h[v][j], square);
            }
        float scale = 1.0f / sqrtf(row_sum<ROW>(square) / width + params.epsilon);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            size_t at = (size_t)(v * ROW + lane) * 8;
            if (at >= params.width) continue;
            float gain[8];
            load8(gains + at, gain);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                h[v][j] *= scale;
                d_gain[v][j] = fmaf(d[v][j], h[v][j], d_gain[v][j]);
                d_bias[v][j] += d[v][j];
                d[v][j] *= gain[j];
                sum_d += d[v][j];
                dot = fmaf(d[v][j], h[v][j], dot);
            }
        }
        float first = params.rms ? 0.0f : row_sum<ROW>(sum_d) / width, second = row_sum<ROW>(dot) / width;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            size_t at = (size_t)(v * ROW + lane) * 8;
            if (at >= params.width) continue;
            float old[8];
            if (params.add) load8(dx + at, old);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                float y = fmaf(-second, h[v][j], d[v][j] - first) * scale;
                h[v][j] = params.add ? old[j] + y : y;
            }
            store8(dx + at, h[v]);
        }
    }
    if (!params.partial) return;
    float *to = params.partial + blockIdx.x * 2 * params.width;
    for (int s = 0; s < ROWS; s++) { /* one row of the block after the other */
        if (ROWS > 1) __syncthreads();
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            size_t at = (size_t)(v * ROW + lane) * 8;
            if (row_in_block != s || at >= params.width) continue;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                float *g = (ROWS > 1 && s + 1 < ROWS ? sums : to) + at + j, *b = g + params.width;
                *g = s ? sums[at + j] + d_gain[v][j] : d_gain[v][j];
                *b = s ? sums[params.width + at + j] + d_bias[v][j] : d_bias[v][j];
            }
        }
    }
}

/* Any width and alignment, and several vectors a row: a block for a vector, which it reads four times; its sums are kept in `partial`. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    norm_grad_any_kernel(const __grid_constant__ norm_grad_params params) {
    float *g = params.partial ? params.partial + blockIdx.x * 2 * params.width : NULL,
          width = (float)params.width;
    for (size_t i = threadIdx.x; g && i < params.width; i += THREADS) g[i] = g[params.width + i] = 0;
    for (size_t row = blockIdx.x; row < params.rows; row += gridDim.x) {
        const T *x = (const T *)params.x + vector_offset(row, params.heads, params.x_stride, params.width),
                *dy = (const T *)params.dy + vector_offset(row, params.heads, params.dy_stride, params.width);
        T *dx = (T *)params.dx + vector_offset(row, params.heads, params.dx_stride, params.width);
        float mean = 0, sum = 0, square = 0, sum_d = 0, dot = 0;
        for (size_t i = threadIdx.x; i < params.width; i += THREADS) sum += to_float(x[i]);
        if (!params.rms) mean = block_sum<THREADS>(sum) / width;
        for (size_t i = threadIdx.x; i < params.width; i += THREADS)
            square = fmaf(to_float(x[i]) - mean, to_float(x[i]) - mean, square);
        float scale = 1.0f / sqrtf(block_sum<THREADS>(square) / width + params.epsilon);
        for (size_t i = threadIdx.x; i < params.width; i += THREADS) {
            float h = (to_float(x[i]) - mean) * scale, d = to_float(dy[i]), e = d * gain_at(params, i);
            sum_d += e;
            dot = fmaf(e, h, dot);
            if (g) g[i] = fmaf(d, h, g[i]), g[params.width + i] += d;
        }
        float first = params.rms ? 0.0f : block_sum<THREADS>(sum_d) / width,
              second = block_sum<THREADS>(dot) / width;
        for (size_t i = threadIdx.x; i < params.width; i += THREADS) {
            float h = (to_float(x[i]) - mean) * scale, e = to_float(dy[i]) * gain_at(params, i);
            float y = fmaf(-second, h, e - first) * scale;
            dx[i] = from_float<T>(params.add ? to_float(dx[i]) + y : y);
        }
    }
}

/* ---- Launch ---- */

static int aligned(const norm_grad_params *params) {
    return params->width % 8 == 0 && !params->heads &&
           ((uintptr_t)params->x | (uintptr_t)params->dy | (uintptr_t)params->dx) % 16 == 0 &&
           params->width <= 8192;
}

template <class T> static void launch(zest_cuda *cuda, const norm_grad_params *params, unsigned blocks) {
    size_t gains = params->width * sizeof(float);
#define ZEST_ROWS_OF(row, n) \
    norm_grad_kernel<T, row, n><<<blocks, THREADS, (row == 32 ? 3 : 1) * gains, cuda->stream>>>(*params)
    if (!aligned(params))
        norm_grad_any_kernel<T><<<blocks, THREADS, 0, cuda->stream>>>(*params);
    else if (params->width <= 256)
        ZEST_ROWS_OF(32, 1);
    else if (params->width <= 512)
        ZEST_ROWS_OF(32, 2);
    else if (params->width <= 768)
        ZEST_ROWS_OF(32, 3);
    else if (params->width <= 1024)
        ZEST_ROWS_OF(32, 4);
    else if (params->width <= 2048)
        ZEST_ROWS_OF(256, 1);
    else if (params->width <= 4096)
        ZEST_ROWS_OF(256, 2);
    else
        ZEST_ROWS_OF(256, 4);
#undef ZEST_ROWS_OF
}

int zest_backward_cuda_norm(const zest_norm_backward *args, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!args->rows) return 0;
    norm_grad_params params = {args->x,
                               args->dy,
                               args->dx,
                               args->stored,
                               args->perturbation,
                               zest_cuda_is_perturbed(&args->stored, &args->perturbation),
                               args->add,
                               args->rms,
                               args->epsilon,
                               zest_norm_vectors(args->rows, args->heads),
                               args->width,
                               NULL,
                               args->heads,
                               args->x_stride,
                               args->dy_stride,
                               args->dx_stride,
                               args->gain_offset};
    size_t rows_per_block = aligned(&params) && args->width <= 1024 ? THREADS / 32 : 1;
    size_t max_blocks = (size_t)cuda->sm_count * 2,
           blocks = (params.rows + rows_per_block - 1) / rows_per_block;
    if (blocks > max_blocks) blocks = max_blocks;
    if (args->d_gain || args->d_bias) {
        if (zest_cuda_reserve(cuda, &cuda->scratch, blocks * 2 * args->width * sizeof(float))) return -1;
        params.partial = (float *)cuda->scratch.data;
    }
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_NORM);
    ZEST_BACKWARD_DISPATCH(cuda->base.compute, T, launch<T>(cuda, &params, (unsigned)blocks));
    if (zest_cuda_launched(cuda, "computing the gradient of a norm")) return -1;
    return params.partial ? zest_backward_cuda_reduce_columns(cuda, params.partial, blocks, args->d_gain,
                                                              args->width, args->d_bias, args->width)
                          : 0;
}
