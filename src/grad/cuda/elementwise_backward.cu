/* Element by element: activations and their slopes, dropout, signs. Eight elements a thread where the
 * addresses allow it. */
#include "grad/cuda/backward.cuh"

enum { THREADS = 256, EACH = 8 };

/* Eight elements from `at` on: whole, or as many as there are, the rest zero. */
template <class T>
static __device__ __forceinline__ void load_some(const T *x, size_t at, size_t count, int whole,
                                                 float out[EACH]) {
    if (whole && at + EACH <= count) {
        load8(x + at, out);
        return;
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) out[j] = at + j < count ? to_float(x[at + j]) : 0.0f;
}

template <class T>
static __device__ __forceinline__ void store_some(T *x, size_t at, size_t count, int whole,
                                                  const float in[EACH]) {
    if (whole && at + EACH <= count) {
        store8(x + at, in);
        return;
    }
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (at + j < count) x[at + j] = to_cell<T>(in[j]);
}

static int whole(const void *a, const void *b, const void *c, const void *d) {
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % 16 == 0;
}

/* Launches kernel<T>, one thread for every EACH of `count` elements; its arguments may name T. */
#define ZEST_OVER_ELEMENTS(scratch, count, what, kernel, ...)                                \
    do {                                                                                     \
        zest_cuda *cuda = zest_cuda_of(scratch);                                             \
        unsigned blocks = zest_cuda_blocks(count, THREADS * EACH);                           \
        if (!(count)) break;                                                                 \
        zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);                           \
        ZEST_BACKWARD_TYPED(cuda->base.compute, T,                                           \
                            (kernel<T><<<blocks, THREADS, 0, cuda->stream>>>(__VA_ARGS__))); \
        (void)zest_cuda_launched(cuda, what);                                                \
    } while (0)

/* ---- Activations ---- */

/* s + x s (1 - s) slope, s = 1/(1 + exp(-y)) */
static __device__ __forceinline__ float sigmoid_slope(float x, float y, float slope) {
    float s = 1.0f / (1.0f + expf(-y));
    return fmaf(x * s * (1.0f - s), slope, s);
}

/* As ../slopes.h has them. */
static __device__ __forceinline__ float slope_of(float x, int activation) {
    switch (activation) {
    case ZEST_ACT_RELU: return x > 0.0f ? 1.0f : 0.0f;
    case ZEST_ACT_GELU: {
        float a = fabsf(x), phi = 0.398942280f * exp2_fast(-0.721347520f * x * x);
        float below = normal_tail(a > 6.0f ? 6.0f : a);
        return fmaf(x, phi, x > 0.0f ? 1.0f - below : below);
    }
    case ZEST_ACT_GELU_TANH: {
        float square = x * x, slope = 1.59576912f * fmaf(square, 0.134145f, 1.0f);
        return sigmoid_slope(x, 1.59576912f * fmaf(square * x, 0.044715f, x), slope);
    }
    case ZEST_ACT_SILU: return sigmoid_slope(x, x, 1.0f);
    default: return 1.0f;
    }
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    activate_kernel(T *out, const T *x, const T *up, size_t count, int activation, int whole) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * EACH;
    if (at >= count) return;
    float y[EACH], u[EACH];
    load_some(x, at, count, whole, y);
    if (up) load_some(up, at, count, whole, u);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        y[j] = activate(y[j], activation);
        if (up) y[j] *= u[j];
    }
    store_some(out, at, count, whole, y);
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    slope_kernel(T *d, T *d_up, const T *x, const T *up, size_t count, int activation, int whole) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * EACH;
    if (at >= count) return;
    float y[EACH], u[EACH], dy[EACH];
    load_some(x, at, count, whole, y);
    load_some(d, at, count, whole, dy);
    if (up) {
        float v[EACH];
        load_some(up, at, count, whole, u);
#pragma unroll
        for (int j = 0; j < EACH; j++) v[j] = activate(y[j], activation) * dy[j], dy[j] *= u[j];
        store_some(d_up, at, count, whole, v);
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) dy[j] *= slope_of(y[j], activation);
    store_some(d, at, count, whole, dy);
}

void zest_backward_cuda_activate(void *out, const void *x, const void *up, size_t count,
                                 zest_activation activation, int threads, zest_workspace *scratch) {
    (void)threads;
    ZEST_OVER_ELEMENTS(scratch, count, "computing an activation", activate_kernel, (T *)out, (const T *)x,
                       (const T *)up, count, activation, whole(out, x, up, NULL));
}

void zest_backward_cuda_activate_back(void *d, void *d_up, const void *x, const void *up, size_t count,
                                      zest_activation activation, int threads, zest_workspace *scratch) {
    (void)threads;
    ZEST_OVER_ELEMENTS(scratch, count, "computing the gradient of an activation", slope_kernel, (T *)d,
                       (T *)d_up, (const T *)x, (const T *)up, count, activation,
                       whole(d, x, up, up ? d_up : d));
}

/* ---- Dropout ---- */

template <class T>
static __global__ void __launch_bounds__(THREADS)
    drop_kernel(T *out, const T *x, const T *residual, size_t count, const zest_mask mask, int whole) {
    size_t at = (blockIdx.x * (size_t)THREADS + threadIdx.x) * EACH;
    if (at >= count) return;
    float m[EACH], y[EACH], r[EACH];
    mask8(mask, at / EACH, m);
    load_some(x, at, count, whole, y);
    if (residual) load_some(residual, at, count, whole, r);
#pragma unroll
    for (int j = 0; j < EACH; j++) y[j] = residual ? fmaf(m[j], y[j], r[j]) : m[j] * y[j];
    store_some(out, at, count, whole, y);
}

void zest_backward_cuda_drop(void *out, const void *x, const void *residual, size_t count,
                             const zest_mask *mask, int threads, zest_workspace *scratch) {
    (void)threads;
    ZEST_OVER_ELEMENTS(scratch, count, "applying dropout", drop_kernel, (T *)out, (const T *)x,
                       (const T *)residual, count, *mask, whole(out, x, residual, NULL));
}

/* ---- Signs ---- */

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
    (void)zest_cuda_launched(cuda, "signs");
}

extern "C" const zest_backward zest_backward_cuda = {ZEST_CPU_PLAIN,
                                                     zest_backward_cuda_norm,
                                                     zest_backward_cuda_attention,
                                                     zest_backward_cuda_attention_masked,
                                                     zest_backward_cuda_activate,
                                                     zest_backward_cuda_activate_back,
                                                     zest_backward_cuda_sum_columns,
                                                     zest_backward_cuda_drop,
                                                     zest_backward_cuda_copy,
                                                     zest_backward_cuda_collect,
                                                     zest_backward_cuda_negate,
                                                     zest_backward_cuda_words,
                                                     zest_backward_cuda_logits};

/* Rows that are moved, and rows that are added up where an index says: sums of many rows by runs, then over
 * the runs. */

enum { ROW_THREADS = 128 };

int zest_backward_cuda_copy(const zest_copy_rows *job, int threads, zest_workspace *scratch) {
    (void)threads;
    return zest_cuda_copy_rows(scratch->device, job);
}

/* Sum i adds rows begin(i) .. begin(i+1)-1 of a list of sources. */
struct sum_job {
    const void *x;
    void *out;
    size_t x_stride, out_stride, width;
    const uint32_t *begins;
    const uint32_t *through; /* the begins are numbers of elements of this; NULL: they are the begins */
    const uint32_t *sources; /* NULL: the list is 0, 1, ... */
    const uint32_t *targets; /* NULL: sum i goes to row i */
    int add;
};

/* A block a sum; EACH elements a thread. */
template <class T, class Out, int EACH>
static __global__ void __launch_bounds__(ROW_THREADS) sum_kernel(const __grid_constant__ sum_job job) {
    size_t i = blockIdx.x, target = job.targets ? job.targets[i] : i;
    uint32_t begin = job.begins[i], end = job.begins[i + 1];
    if (job.through) begin = job.through[begin], end = job.through[end];
    Out *out = (Out *)job.out + target * job.out_stride;
    for (size_t c = (size_t)threadIdx.x * EACH; c < job.width; c += ROW_THREADS * EACH) {
        float sum[EACH] = {0}, x[EACH];
        if (job.add && EACH == 8) load8(out + c, sum);
        if (job.add && EACH == 1) sum[0] = to_float(out[c]);
#pragma unroll 4
        for (uint32_t s = begin; s < end; s++) {
            const T *row = (const T *)job.x + (job.sources ? job.sources[s] : s) * job.x_stride + c;
            if (EACH == 8)
                load8(row, x);
            else
                x[0] = to_float(*row);
#pragma unroll
            for (int j = 0; j < EACH; j++) sum[j] += x[j];
        }
        if (EACH == 8)
            store8(out + c, sum);
        else
            out[c] = to_cell<Out>(sum[0]);
    }
}

template <class T, class Out> static int sum(zest_cuda *cuda, const sum_job *job, size_t count) {
    int wide = (job->width | job->x_stride | job->out_stride) % 8 == 0 &&
               ((uintptr_t)job->x | (uintptr_t)job->out) % 16 == 0;
    if (!count) return 0;
    if (wide)
        sum_kernel<T, Out, 8><<<(unsigned)count, ROW_THREADS, 0, cuda->stream>>>(*job);
    else
        sum_kernel<T, Out, 1><<<(unsigned)count, ROW_THREADS, 0, cuda->stream>>>(*job);
    return zest_cuda_launched(cuda, "summing rows");
}

template <class T> static int collect(zest_cuda *cuda, const zest_collect *job) {
    const zest_index *index = &job->index;
    sum_job whole = {job->x,        job->out,    job->x_stride,  job->out_stride, job->width,
                     index->starts, index->runs, index->sources, index->targets,  job->add};
    if (index->divided) {
        size_t room = (job->width + 7) / 8 * 8;
        if (zest_cuda_reserve(cuda, &cuda->scratch, index->run_count * room * sizeof(float))) return -1;
        sum_job runs = {job->x, cuda->scratch.data, job->x_stride, room, job->width, index->runs,
                        NULL,   index->sources,     NULL,          0};
        if (sum<T, float>(cuda, &runs, index->run_count)) return -1;
        whole.x = cuda->scratch.data;
        whole.x_stride = room;
        whole.through = whole.sources = NULL;
        return job->add ? sum<float, float>(cuda, &whole, index->count)
                        : sum<float, T>(cuda, &whole, index->count);
    }
    return job->add ? sum<T, float>(cuda, &whole, index->count) : sum<T, T>(cuda, &whole, index->count);
}

int zest_backward_cuda_collect(const zest_collect *job, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    int failed = 0;
    (void)threads;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);
    ZEST_BACKWARD_TYPED(cuda->base.compute, T, failed = collect<T>(cuda, job));
    return failed;
}

/* Sums of columns in two stages: blocks sum runs of rows, then the runs are added up in a fixed order. */

enum { COLUMN_THREADS = 256, ROWS = COLUMN_THREADS / 32, GROUPS = 32 };

/* ---- The runs ---- */

/* A thread has EACH columns of every eighth row of a run; a block 32·EACH columns. */
template <class T, int EACH>
static __global__ void __launch_bounds__(COLUMN_THREADS)
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
    for (int c = (int)threadIdx.x; c < 32 * EACH; c += COLUMN_THREADS) {
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
    return zest_cuda_launched(cuda, "summing columns");
}

/* ---- Both ---- */

template <class T>
static void launch(zest_cuda *cuda, const T *x, size_t stride, size_t rows, size_t width, size_t run,
                   dim3 grid, int wide, float *partial) {
    if (wide)
        columns_kernel<T, 8><<<grid, COLUMN_THREADS, 0, cuda->stream>>>(x, stride, rows, width, run, partial);
    else
        columns_kernel<T, 1><<<grid, COLUMN_THREADS, 0, cuda->stream>>>(x, stride, rows, width, run, partial);
}

int zest_backward_cuda_sum_columns(const void *x, size_t stride, size_t rows, size_t width, float *out,
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
    ZEST_BACKWARD_TYPED(cuda->base.compute, T,
                        launch<T>(cuda, (const T *)x, stride, rows, width, run, grid, wide, partial));
    return zest_cuda_launched(cuda, "summing columns") ||
           zest_backward_cuda_finish_columns(cuda, partial, runs, out, width, NULL, 0);
}
