/* Layer norm and RMS norm: out = (x - mean) / sigma gain + bias over the rows of x (lanes, rows, width). Gain
 * and bias are perturbed for all lanes first; a row passes through registers once. */
#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256 };
enum { MAX_THREADS = 1024, ROWS = 4 }; /* of a block; ROWS: that it works on at the same time */

struct norm_params {
    const void *x;
    void *out;
    const float *gain, *bias;       /* (lanes, width); NULL: none */
    int64_t lane, x_lane, out_lane; /* lane strides: of gain and bias, of x, of out */
    size_t rows, width;
    float epsilon;
    int rms;
    size_t heads, x_stride, out_stride; /* see zest_norm */
};

/* Sums over the block, one for each of its rows. warp_sums is not used again before the next
 * __syncthreads. */
static __device__ __forceinline__ void block_sums(float x[ROWS], float4 warp_sums[MAX_THREADS / 32]) {
    unsigned warps = blockDim.x / 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++) x[r] = warp_sum(x[r]);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = make_float4(x[0], x[1], x[2], x[3]);
    __syncthreads();
    x[0] = x[1] = x[2] = x[3] = 0;
#pragma unroll 4
    for (unsigned w = 0; w < warps; w++) {
        float4 more = warp_sums[w];
        x[0] += more.x, x[1] += more.y, x[2] += more.z, x[3] += more.w;
    }
}

/* A thread has eight columns with their gain and bias, and a block loops over ROWS rows at a time, enough
 * loads in flight to saturate memory. Rows of up to 8 MAX_THREADS columns. */
template <class T>
static __global__ void __launch_bounds__(MAX_THREADS)
    norm_kernel(const __grid_constant__ norm_params params) {
    __shared__ float4 warp_sums[2][MAX_THREADS / 32];
    const unsigned l = blockIdx.y, at = threadIdx.x * 8, width = (unsigned)params.width;
    const float inv_width = 1.0f / (float)width;
    const bool in_row = at < width;
    float gain[8], bias[8], x[8];
#pragma unroll
    for (int j = 0; j < 8; j++) gain[j] = 1, bias[j] = 0;
    if (in_row && params.gain) load8(params.gain + l * params.lane + at, gain);
    if (in_row && params.bias) load8(params.bias + l * params.lane + at, bias);
    const T *from = (const T *)params.x + l * params.x_lane + at;
    T *to = (T *)params.out + l * params.out_lane + at;
    for (size_t m = blockIdx.x * (size_t)ROWS; m < params.rows; m += (size_t)gridDim.x * ROWS) {
        const int rows = in_row ? (int)min(params.rows - m, (size_t)ROWS) : 0; /* of this thread */
        const size_t first = m * width;
        vec8<T> vecs[ROWS];
        float mean[ROWS] = {0, 0, 0, 0}, square[ROWS] = {0, 0, 0, 0};
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (r < rows) vecs[r] = load_vec8(from + first + r * width);
        if (!params.rms) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (r < rows) {
                    vec8_to_float(vecs[r], x);
#pragma unroll
                    for (int j = 0; j < 8; j++) mean[r] += x[j];
                }
            block_sums(mean, warp_sums[0]);
#pragma unroll
            for (int r = 0; r < ROWS; r++) mean[r] *= inv_width;
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (r < rows) {
                vec8_to_float(vecs[r], x);
#pragma unroll
                for (int j = 0; j < 8; j++) square[r] = fmaf(x[j] - mean[r], x[j] - mean[r], square[r]);
            }
        block_sums(square, warp_sums[1]);
        if (params.rms) __syncthreads(); /* no other one came since warp_sums was read */
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (r < rows) {
                const float scale = rsqrtf(fmaf(square[r], inv_width, params.epsilon));
                vec8_to_float(vecs[r], x);
#pragma unroll
                for (int j = 0; j < 8; j++) x[j] = fmaf((x[j] - mean[r]) * scale, gain[j], bias[j]);
                store8(to + first + r * width, x);
            }
    }
}

/* Any width and alignment, and several vectors a row: a block for a vector, which it reads three times. */
template <class T> static __global__ void __launch_bounds__(THREADS) norm_any_kernel(norm_params params) {
    size_t m = blockIdx.x;
    int l = (int)blockIdx.y;
    const T *from = (const T *)params.x + l * params.x_lane +
                    vector_offset(m, params.heads, params.x_stride, params.width);
    T *to = (T *)params.out + l * params.out_lane +
            vector_offset(m, params.heads, params.out_stride, params.width);
    float sum = 0, mean = 0, square = 0, width = (float)params.width;
    if (!params.rms) {
        for (size_t i = threadIdx.x; i < params.width; i += THREADS) sum += to_float(from[i]);
        mean = block_sum<THREADS>(sum) / width;
    }
    for (size_t i = threadIdx.x; i < params.width; i += THREADS) {
        float x = to_float(from[i]) - mean;
        square = fmaf(x, x, square);
    }
    float scale = 1.0f / sqrtf(block_sum<THREADS>(square) / width + params.epsilon);
    for (size_t i = threadIdx.x; i < params.width; i += THREADS) {
        float y = (to_float(from[i]) - mean) * scale;
        if (params.gain) y *= params.gain[l * params.lane + i];
        if (params.bias) y += params.bias[l * params.lane + i];
        to[i] = from_float<T>(y);
    }
}

template <class T> static void launch(zest_cuda *cuda, const norm_params *params, int lanes) {
    size_t threads = (params->width + 255) / 256 * 32;
    int aligned = (params->width | (size_t)params->x_lane | (size_t)params->out_lane) % 8 == 0 &&
                  ((uintptr_t)params->x | (uintptr_t)params->out) % 16 == 0;
    if (!aligned || threads > MAX_THREADS || params->heads) {
        unsigned vectors = (unsigned)zest_norm_vectors(params->rows, params->heads);
        norm_any_kernel<T><<<dim3(vectors, (unsigned)lanes), THREADS, 0, cuda->stream>>>(*params);
        return;
    }
    size_t row_groups = (params->rows + ROWS - 1) / ROWS;
    size_t max_blocks =
        ((size_t)cuda->sm_count * (MAX_THREADS / threads) + (size_t)lanes - 1) / (size_t)lanes;
    dim3 grid((unsigned)(row_groups < max_blocks ? row_groups : max_blocks), (unsigned)lanes);
    norm_kernel<T><<<grid, (unsigned)threads, 0, cuda->stream>>>(*params);
}

static int run(zest_cuda *cuda, const norm_params *params, int lanes) {
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_NORM);
    ZEST_CUDA_DISPATCH(cuda->base.compute, T, launch<T>(cuda, params, lanes));
    return zest_cuda_launched(cuda, "computing a norm");
}

zest_cuda_slot *zest_cuda_norm_perturb(zest_cuda *cuda, const zest_norm *args, const zest_perturbation *p,
                                       zest_gemm_norm *norm) {
    size_t lanes = zest_perturbation_lanes(p), count = 0;
    int64_t lane = (int64_t)((args->width + 63) / 64 * 64);
    zest_cuda_slot *slot =
        zest_cuda_slot_next(cuda, &cuda->norm_slots, 0, 2 * lanes * (size_t)lane * sizeof(float));
    if (!slot) return NULL;
    float *gain = (float *)slot->vectors.data, *bias = gain + (int64_t)lanes * lane;
    zest_cuda_segment segments[2];
    if (args->gain.data)
        segments[count++] = zest_cuda_segment_of(&args->gain, p, gain, lane, ZEST_COMPUTE_F32);
    if (args->bias.data)
        segments[count++] = zest_cuda_segment_of(&args->bias, p, bias, lane, ZEST_COMPUTE_F32);
    norm->enabled = 1, norm->rms = args->rms;
    norm->gain = args->gain.data ? gain : NULL, norm->bias = args->bias.data ? bias : NULL;
    norm->lane = lane, norm->epsilon = args->epsilon;
    return zest_cuda_perturb(cuda, slot, segments, count, p) ? NULL : slot;
}

int zest_cuda_norm_after_gemm(zest_cuda *cuda, const zest_gemm *gemm) {
    const zest_gemm_norm *norm = &gemm->norm;
    const norm_params params = {gemm->out,     gemm->out,      norm->gain,     norm->bias,
                                norm->lane,    gemm->out_lane, gemm->out_lane, gemm->rows,
                                gemm->outputs, norm->epsilon,  norm->rms};
    return run(cuda, &params, gemm->batch);
}

int zest_cuda_norm(const zest_norm *args, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    const zest_perturbation *p = &args->perturbation;
    (void)threads;
    if (!args->rows) return 0;
    size_t lanes = zest_perturbation_lanes(p), size = cuda->base.element_size;
    zest_gemm_norm norm = {};
    zest_cuda_slot *slot = zest_cuda_norm_perturb(cuda, args, p, &norm);
    if (!slot ||
        (args->gain_offset != 0 && zest_cuda_offset_gain(cuda, (float *)slot->vectors.data, norm.lane,
                                                         args->width, lanes, args->gain_offset)))
        return -1;
    const norm_params params = {args->x[0],
                                args->out[0],
                                norm.gain,
                                norm.bias,
                                norm.lane,
                                lanes > 1 ? zest_cuda_lane_stride(args->x[0], args->x[1], size) : 0,
                                lanes > 1 ? zest_cuda_lane_stride(args->out[0], args->out[1], size) : 0,
                                args->rows,
                                args->width,
                                args->epsilon,
                                args->rms,
                                args->heads,
                                args->x_stride,
                                args->out_stride};
    return run(cuda, &params, (int)lanes) || zest_cuda_slot_release(cuda, slot);
}
