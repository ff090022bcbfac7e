/* Elementwise operations of the backward pass, and sums over rows and columns: activations and their
 * gradients, dropout, negation; rows that are added up by an index (embeddings); columns (biases). */
#include "grad/cuda/backward.cuh"

enum { THREADS = 256, WIDTH = 8 }; /* WIDTH: elements of a thread */

/* Eight elements from `at` on; beyond `count` zeros. */
template <class T>
static __device__ __forceinline__ void load_elements(const T *x, size_t at, size_t count, int vectorized,
                                                     float out[WIDTH]) {
    if (vectorized && at + WIDTH <= count) {
        load8(x + at, out);
        return;
    }
#pragma unroll
    for (int j = 0; j < WIDTH; j++) out[j] = at + j < count ? to_float(x[at + j]) : 0.0f;
}

template <class T>
static __device__ __forceinline__ void store_elements(T *x, size_t at, size_t count, int vectorized,
                                                      const float in[WIDTH]) {
    if (vectorized && at + WIDTH <= count) {
        store8(x + at, in);
        return;
    }
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        if (at + j < count) x[at + j] = from_float<T>(in[j]);
}

static int is_aligned(const void *a, const void *b, const void *c, const void *d) {
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % 16 == 0;
}

/* Launches kernel<T>, one thread for WIDTH elements; its arguments may name T. */
#define ZEST_LAUNCH_ELEMENTWISE(scratch, count, doing, kernel, ...)                             \
    do {                                                                                        \
        zest_cuda *cuda = zest_cuda_of(scratch);                                                \
        unsigned blocks = zest_cuda_blocks(count, THREADS * WIDTH);                             \
        if (!(count)) break;                                                                    \
        zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);                        \
        ZEST_BACKWARD_DISPATCH(cuda->base.compute, T,                                           \
                               (kernel<T><<<blocks, THREADS, 0, cuda->stream>>>(__VA_ARGS__))); \
        (void)zest_cuda_launched(cuda, doing);                                                  \
    } while (0)

/* ---- Activations ---- */

/* Derivative of x s(y) with s the sigmoid and slope = dy/dx: s + x s (1 - s) slope. */
static __device__ __forceinline__ float swish_grad(float x, float y, float slope) {
    float s = 1.0f / (1.0f + expf(-y));
    return fmaf(x * s * (1.0f - s), slope, s);
}

/* The derivatives of grad/activation_grad.h. */
static __device__ __forceinline__ float activation_grad(float x, int activation) {
    switch (activation) {
    case ZEST_ACT_RELU: return x > 0.0f ? 1.0f : 0.0f;
    case ZEST_ACT_GELU: {
        float a = fabsf(x), phi = 0.398942280f * exp2_fast(-0.721347520f * x * x);
        float below = normal_tail(a > 6.0f ? 6.0f : a);
        return fmaf(x, phi, x > 0.0f ? 1.0f - below : below);
    }
    case ZEST_ACT_GELU_TANH: {
        float square = x * x, slope = 1.59576912f * fmaf(square, 0.134145f, 1.0f);
        return swish_grad(x, 1.59576912f * fmaf(square * x, 0.044715f, x), slope);
    }
    case ZEST_ACT_SILU: return swish_grad(x, x, 1.0f);
    default: return 1.0f;
    }
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    activate_kernel(T *out, const T *x, const T *up, size_t count, int activation, int vectorized) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * WIDTH;
    if (at >= count) return;
    float y[WIDTH], u[WIDTH];
    load_elements(x, at, count, vectorized, y);
    if (up) load_elements(up, at, count, vectorized, u);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
        y[j] = activate(y[j], activation);
        if (up) y[j] *= u[j];
    }
    store_elements(out, at, count, vectorized, y);
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    activation_grad_kernel(T *d, T *d_up, const T *x, const T *up, size_t count, int activation,
                           int vectorized) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * WIDTH;
    if (at >= count) return;
    float y[WIDTH], u[WIDTH], dy[WIDTH];
    load_elements(x, at, count, vectorized, y);
    load_elements(d, at, count, vectorized, dy);
    if (up) {
        float v[WIDTH];
        load_elements(up, at, count, vectorized, u);
#pragma unroll
        for (int j = 0; j < WIDTH; j++) v[j] = activate(y[j], activation) * dy[j], dy[j] *= u[j];
        store_elements(d_up, at, count, vectorized, v);
    }
#pragma unroll
    for (int j = 0; j < WIDTH; j++) dy[j] *= activation_grad(y[j], activation);
    store_elements(d, at, count, vectorized, dy);
}

void zest_backward_cuda_activate(void *out, const void *x, const void *up, size_t count,
                                 zest_activation activation, int threads, zest_workspace *scratch) {
    (void)threads;
    ZEST_LAUNCH_ELEMENTWISE(scratch, count, "computing an activation", activate_kernel, (T *)out,
                            (const T *)x, (const T *)up, count, activation, is_aligned(out, x, up, NULL));
}

void zest_backward_cuda_activate_backward(void *d, void *d_up, const void *x, const void *up, size_t count,
                                          zest_activation activation, int threads, zest_workspace *scratch) {
    (void)threads;
    ZEST_LAUNCH_ELEMENTWISE(scratch, count, "computing the gradient of an activation", activation_grad_kernel,
                            (T *)d, (T *)d_up, (const T *)x, (const T *)up, count, activation,
                            is_aligned(d, x, up, up ? d_up : d));
}

/* ---- Dropout ---- */

template <class T>
static __global__ void __launch_bounds__(THREADS)
    dropout_kernel(T *out, const T *x, const T *residual, size_t count, const zest_mask mask,
                   int vectorized) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * WIDTH;
    if (at >= count) return;
    float m[WIDTH], y[WIDTH], r[WIDTH];
    mask8(mask, at / WIDTH, m);
    load_elements(x, at, count, vectorized, y);
    if (residual) load_elements(residual, at, count, vectorized, r);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) y[j] = residual ? fmaf(m[j], y[j], r[j]) : m[j] * y[j];
    store_elements(out, at, count, vectorized, y);
}

void zest_backward_cuda_drop(void *out, const void *x, const void *residual, size_t count,
                             const zest_mask *mask, int threads, zest_workspace *scratch) {
    (void)threads;
    ZEST_LAUNCH_ELEMENTWISE(scratch, count, "applying dropout", dropout_kernel, (T *)out, (const T *)x,
                            (const T *)residual, count, *mask, is_aligned(out, x, residual, NULL));
}

/* ---- Negation ---- */

static __global__ void __launch_bounds__(THREADS) negate_kernel(float *out, const float *x, size_t count) {
    size_t at = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (at < count) out[at] = -x[at];
}

void zest_backward_cuda_negate(float *out, const float *x, size_t count, int threads,
                               zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!count) return;
    negate_kernel<<<zest_cuda_blocks(count, THREADS), THREADS, 0, cuda->stream>>>(out, x, count);
    (void)zest_cuda_launched(cuda, "negating a vector");
}

/* ---- Rows: copies, and sums by an index. Many rows are summed in runs, then the sums of the runs ---- */

enum { ROW_THREADS = 128 };

int zest_backward_cuda_copy(const zest_copy_rows *args, int threads, zest_workspace *scratch) {
    (void)threads;
    return zest_cuda_copy_rows(scratch->device, args);
}

/* Sum i is over entries begins[i] .. begins[i + 1] - 1 of a list of source rows. */
struct row_sum_params {
    const void *x;
    void *out;
    size_t x_stride, out_stride, width;
    const uint32_t *begins;
    const uint32_t *indirect; /* the begins are indirect[begins[i]]; NULL: begins[i] */
    const uint32_t *sources;  /* NULL: the list is 0, 1, ... */
    const uint32_t *targets;  /* NULL: sum i goes to row i */
    int add;
};

/* A block for a sum, WIDTH columns for a thread. */
template <class T, class Out, int WIDTH>
static __global__ void __launch_bounds__(ROW_THREADS)
    sum_rows_kernel(const __grid_constant__ row_sum_params params) {
    size_t i = blockIdx.x, target = params.targets ? params.targets[i] : i;
    uint32_t begin = params.begins[i], end = params.begins[i + 1];
    if (params.indirect) begin = params.indirect[begin], end = params.indirect[end];
    Out *out = (Out *)params.out + target * params.out_stride;
    for (size_t c = (size_t)threadIdx.x * WIDTH; c < params.width; c += ROW_THREADS * WIDTH) {
        float sum[WIDTH] = {0}, x[WIDTH];
        if (params.add && WIDTH == 8) load8(out + c, sum);
        if (params.add && WIDTH == 1) sum[0] = to_float(out[c]);
#pragma unroll 4
        for (uint32_t s = begin; s < end; s++) {
            const T *row =
                (const T *)params.x + (params.sources ? params.sources[s] : s) * params.x_stride + c;
            if (WIDTH == 8)
                load8(row, x);
            else
                x[0] = to_float(*row);
#pragma unroll
            for (int j = 0; j < WIDTH; j++) sum[j] += x[j];
        }
        if (WIDTH == 8)
            store8(out + c, sum);
        else
            out[c] = from_float<Out>(sum[0]);
    }
}

template <class T, class Out> static int sum(zest_cuda *cuda, const row_sum_params *params, size_t count) {
    int vectorized = (params->width | params->x_stride | params->out_stride) % 8 == 0 &&
                     ((uintptr_t)params->x | (uintptr_t)params->out) % 16 == 0;
    if (!count) return 0;
    if (vectorized)
        sum_rows_kernel<T, Out, 8><<<(unsigned)count, ROW_THREADS, 0, cuda->stream>>>(*params);
    else
        sum_rows_kernel<T, Out, 1><<<(unsigned)count, ROW_THREADS, 0, cuda->stream>>>(*params);
    return zest_cuda_launched(cuda, "summing rows");
}

template <class T> static int scatter_add(zest_cuda *cuda, const zest_scatter_add *args) {
    const zest_scatter_index *index = &args->index;
    row_sum_params vectorized = {args->x,       args->out,   args->x_stride, args->out_stride, args->width,
                                 index->starts, index->runs, index->sources, index->targets,   args->add};
    if (index->divided) {
        size_t stride = (args->width + 7) / 8 * 8;
        if (zest_cuda_reserve(cuda, &cuda->scratch, index->run_count * stride * sizeof(float))) return -1;
        row_sum_params runs = {args->x, cuda->scratch.data, args->x_stride, stride, args->width, index->runs,
                               NULL,    index->sources,     NULL,           0};
        if (sum<T, float>(cuda, &runs, index->run_count)) return -1;
        vectorized.x = cuda->scratch.data;
        vectorized.x_stride = stride;
        vectorized.indirect = vectorized.sources = NULL;
        return args->add ? sum<float, float>(cuda, &vectorized, index->count)
                         : sum<float, T>(cuda, &vectorized, index->count);
    }
    return args->add ? sum<T, float>(cuda, &vectorized, index->count)
                     : sum<T, T>(cuda, &vectorized, index->count);
}

int zest_backward_cuda_scatter_add(const zest_scatter_add *args, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    int failed = 0;
    (void)threads;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_BACKWARD_DISPATCH(cuda->base.compute, T, failed = scatter_add<T>(cuda, args));
    return failed;
}

/* ---- Columns, in two kernels: blocks sum runs of rows, then the sums of the runs are added in a fixed order ---- */

enum { COLUMN_THREADS = 256, ROWS = COLUMN_THREADS / 32, GROUPS = 32 };

/* x (rows, width) to partial (runs, width). A block has 32 WIDTH columns of a run; a warp every eighth
 * row. */
template <class T, int WIDTH>
static __global__ void __launch_bounds__(COLUMN_THREADS)
    sum_columns_kernel(const T *x, size_t stride, size_t rows, size_t width, size_t run, float *partial) {
    __shared__ float shared_sums[ROWS][32 * WIDTH];
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    size_t column = ((size_t)blockIdx.x * 32 + (size_t)lane) * WIDTH, first = blockIdx.y * run;
    size_t end = first + run < rows ? first + run : rows;
    float sum[WIDTH] = {0};
    if (column < width)
#pragma unroll 4
        for (size_t row = first + (size_t)warp; row < end; row += ROWS) {
            float x8[WIDTH];
            if (WIDTH == 8)
                load8(x + row * stride + column, x8);
            else
                x8[0] = to_float(x[row * stride + column]);
#pragma unroll
            for (int j = 0; j < WIDTH; j++) sum[j] += x8[j];
        }
#pragma unroll
    for (int j = 0; j < WIDTH; j++) shared_sums[warp][lane * WIDTH + j] = sum[j];
    __syncthreads();
    for (int c = (int)threadIdx.x; c < 32 * WIDTH; c += COLUMN_THREADS) {
        size_t at = (size_t)blockIdx.x * (32 * WIDTH) + (size_t)c;
        float total = 0;
#pragma unroll
        for (int w = 0; w < ROWS; w++) total += shared_sums[w][c];
        if (at < width) partial[blockIdx.y * width + at] = total;
    }
}

/* A block has 32 columns; GROUPS threads share the runs of a column. */
static __global__ void __launch_bounds__(32 * GROUPS)
    reduce_columns_kernel(const float *partial, size_t runs, float *first, size_t width, float *second,
                          size_t columns) {
    __shared__ float shared_sums[GROUPS][33];
    int lane = (int)threadIdx.x % 32, group = (int)threadIdx.x / 32;
    size_t column = (size_t)blockIdx.x * 32 + (size_t)lane;
    float sum = 0;
    if (column < columns)
#pragma unroll 4
        for (size_t run = (size_t)group; run < runs; run += GROUPS) sum += partial[run * columns + column];
    shared_sums[group][lane] = sum;
    __syncthreads();
    if (group || column >= columns) return;
    sum = 0;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) sum += shared_sums[g][lane];
    float *out = column < width ? first : second;
    size_t at = column < width ? column : column - width;
    if (out) out[at] += sum;
}

int zest_backward_cuda_reduce_columns(zest_cuda *cuda, const float *partial, size_t runs, float *first,
                                      size_t width, float *second, size_t second_width) {
    size_t columns = width + second_width;
    reduce_columns_kernel<<<zest_cuda_blocks(columns, 32), 32 * GROUPS, 0, cuda->stream>>>(
        partial, runs, first, width, second, columns);
    return zest_cuda_launched(cuda, "summing columns");
}

template <class T>
static void launch(zest_cuda *cuda, const T *x, size_t stride, size_t rows, size_t width, size_t run,
                   dim3 grid, int vectorized, float *partial) {
    if (vectorized)
        sum_columns_kernel<T, 8>
            <<<grid, COLUMN_THREADS, 0, cuda->stream>>>(x, stride, rows, width, run, partial);
    else
        sum_columns_kernel<T, 1>
            <<<grid, COLUMN_THREADS, 0, cuda->stream>>>(x, stride, rows, width, run, partial);
}

int zest_backward_cuda_sum_columns(const void *x, size_t stride, size_t rows, size_t width, float *out,
                                   int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!rows || !width) return 0;
    int vectorized = (width | stride) % 8 == 0 && (uintptr_t)x % 16 == 0;
    size_t column_blocks = zest_cuda_blocks(width, vectorized ? 256 : 32),
           max_runs = (rows + ROWS - 1) / ROWS;
    size_t runs = (size_t)cuda->sm_count * 4 / column_blocks;
    runs = runs < 1 ? 1 : runs > max_runs ? max_runs : runs;
    size_t run = (rows + runs - 1) / runs;
    runs = (rows + run - 1) / run;
    if (zest_cuda_reserve(cuda, &cuda->scratch, runs * width * sizeof(float))) return -1;
    float *partial = (float *)cuda->scratch.data;
    dim3 grid((unsigned)column_blocks, (unsigned)runs);
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_BACKWARD_DISPATCH(
        cuda->base.compute, T,
        launch<T>(cuda, (const T *)x, stride, rows, width, run, grid, vectorized, partial));
    return zest_cuda_launched(cuda, "summing columns") ||
           zest_backward_cuda_reduce_columns(cuda, partial, runs, out, width, NULL, 0);
}

/* ---- The table ---- */

extern "C" const zest_backward zest_backward_cuda = {ZEST_CPU_PLAIN,
                                                     zest_backward_cuda_norm,
                                                     zest_backward_cuda_attention,
                                                     zest_backward_cuda_attention_masked,
                                                     zest_backward_cuda_activate,
                                                     zest_backward_cuda_activate_backward,
                                                     zest_backward_cuda_sum_columns,
                                                     zest_backward_cuda_drop,
                                                     zest_backward_cuda_copy,
                                                     zest_backward_cuda_scatter_add,
                                                     zest_backward_cuda_negate,
                                                     zest_backward_cuda_label_words,
                                                     zest_backward_cuda_logits};
