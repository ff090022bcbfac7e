/* Linear layer: perturbs weight and bias for all lanes, runs the GEMM, and adds what the GEMM's epilogue
 * could not do. a (lanes, rows, inputs) becomes out (lanes, rows, outputs). */
#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256 };

/* ---- Epilogue in a kernel of its own ---- */

struct epilogue_params {
    void *out;
    const void *bias, *residual;
    size_t rows, outputs, out_stride, residual_stride;
    int64_t out_lane, residual_lane, bias_lane;
    int activation;
};

/* WIDTH elements of a row for a thread: eight where the alignment allows it, else one. */
template <class T, int WIDTH>
static __global__ void __launch_bounds__(THREADS) epilogue_kernel(epilogue_params params) {
    size_t groups = params.outputs / WIDTH, at = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (at >= groups * params.rows) return;
    size_t m = at / groups, n = at % groups * WIDTH;
    int64_t lane = blockIdx.y;
    T *out = (T *)params.out + lane * params.out_lane + m * params.out_stride + n;
    const T *residual = params.residual ? (const T *)params.residual + lane * params.residual_lane +
                                              m * params.residual_stride + n
                                        : NULL;
    const T *bias = params.bias ? (const T *)params.bias + lane * params.bias_lane + n : NULL;
    float x[WIDTH];
    if (WIDTH == 8)
        load8(out, x);
    else
        x[0] = to_float(*out);
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
        float y = bias ? x[j] + to_float(bias[j]) : x[j];
        y = activate(y, params.activation);
        x[j] = residual ? y + to_float(residual[j]) : y;
    }
    if (WIDTH == 8)
        store8(out, x);
    else
        *out = from_float<T>(x[0]);
}

/* Contiguous rows and only an activation, as for RoBERTa's GELU: sixteen elements for a thread. */
template <class T, int ACT>
static __global__ void __launch_bounds__(THREADS) activation_kernel(T *out, size_t count, int64_t lane) {
    enum { VECTORS = 2 };
    T *at = out + blockIdx.y * lane + (size_t)blockIdx.x * (THREADS * 8 * VECTORS) + threadIdx.x * 8;
    size_t first = (size_t)blockIdx.x * (THREADS * 8 * VECTORS) + threadIdx.x * 8;
    float x[VECTORS][8];
#pragma unroll
    for (int i = 0; i < VECTORS; i++)
        if (first + (size_t)i * THREADS * 8 < count) load8(at + i * THREADS * 8, x[i]);
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) x[i][j] = activate(x[i][j], ACT);
        if (first + (size_t)i * THREADS * 8 < count) store8(at + i * THREADS * 8, x[i]);
    }
}

template <class T> static int launch_activation(zest_cuda *cuda, const epilogue_params *params, int batch) {
    size_t count = params->rows * params->outputs;
    if (params->bias || params->residual || params->out_stride != params->outputs || count % 8 ||
        params->out_lane % 8 || (uintptr_t)params->out % 16)
        return 0;
    dim3 grid(zest_cuda_blocks(count, THREADS * 16), (unsigned)batch);
    T *out = (T *)params->out;
    if (params->activation == ZEST_ACT_GELU)
        activation_kernel<T, ZEST_ACT_GELU><<<grid, THREADS, 0, cuda->stream>>>(out, count, params->out_lane);
    else if (params->activation == ZEST_ACT_SILU)
        activation_kernel<T, ZEST_ACT_SILU><<<grid, THREADS, 0, cuda->stream>>>(out, count, params->out_lane);
    else
        return 0;
    return 1;
}

template <class T> static void launch_epilogue(zest_cuda *cuda, const epilogue_params *params, int batch) {
    if (launch_activation<T>(cuda, params, batch)) return;
    int vectorized = params->outputs % 8 == 0 && params->out_stride % 8 == 0 && params->out_lane % 8 == 0 &&
                     (uintptr_t)params->out % 16 == 0;
    size_t threads = params->rows * params->outputs / (vectorized ? 8 : 1);
    dim3 grid(zest_cuda_blocks(threads, THREADS), (unsigned)batch);
    if (vectorized)
        epilogue_kernel<T, 8><<<grid, THREADS, 0, cuda->stream>>>(*params);
    else
        epilogue_kernel<T, 1><<<grid, THREADS, 0, cuda->stream>>>(*params);
}

int zest_cuda_epilogue(zest_cuda *cuda, const zest_gemm *gemm, const void *bias, zest_activation activation,
                       const void *residual) {
    epilogue_params params = {gemm->out,
                              bias,
                              residual,
                              gemm->rows,
                              gemm->outputs,
                              gemm->out_stride,
                              gemm->residual_stride,
                              gemm->out_lane,
                              gemm->residual_lane,
                              gemm->bias_lane,
                              activation};
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
    if (gemm->fp32_output)
        launch_epilogue<float>(cuda, &params, gemm->batch);
    else
        ZEST_CUDA_DISPATCH(cuda->base.compute, T, launch_epilogue<T>(cuda, &params, gemm->batch));
    return zest_cuda_launched(cuda, "computing an activation");
}

/* ---- Perturbed weights ---- */

/* Perturbs the weights and biases of all parts (q, k and v are three), one below the other, for all lanes.
 * Those that are neither perturbed nor converted are used where they are. */
static zest_cuda_slot *perturb_weights(zest_cuda *cuda, const zest_linear *args, zest_gemm *gemm) {
    const zest_perturbation *p = &args->perturbation;
    zest_compute type = cuda->base.compute, out = args->fp32_output ? ZEST_COMPUTE_F32 : type;
    zest_cuda_segment segments[ZEST_CUDA_SEGMENTS];
    size_t lanes = (size_t)gemm->batch, elements = gemm->inputs * gemm->outputs, count = 0, at = 0, row = 0;
    int direct = !args->more_count && args->weight.dtype == zest_cuda_dtype(type) &&
                 !zest_cuda_is_perturbed(&args->weight, p);
    int direct_bias = direct && lanes == 1 && args->bias.data && args->bias.dtype == zest_cuda_dtype(out) &&
                      !zest_cuda_is_perturbed(&args->bias, p);
    gemm->weight_lane = direct ? 0 : (int64_t)((elements + 127) / 128 * 128);
    gemm->bias_lane = (int64_t)((gemm->outputs + 63) / 64 * 64);
    zest_cuda_slot *slot = zest_cuda_slot_next(
        cuda, &cuda->linear_slots, lanes * (size_t)gemm->weight_lane * zest_cuda_element_size(type),
        lanes * (size_t)gemm->bias_lane * sizeof(float));
    if (!slot) return NULL;
    gemm->weight = direct ? args->weight.data : slot->weights.data;
    if (direct_bias) gemm->bias = args->bias.data;
    for (size_t i = 0; i <= args->more_count; i++) {
        const zest_weight *weight = i ? &args->more[i - 1].weight : &args->weight;
        const zest_weight *bias = i ? &args->more[i - 1].bias : &args->bias;
        if (!direct)
            segments[count++] = zest_cuda_segment_of(
                weight, p, slot->weights.data + at * zest_cuda_element_size(type), gemm->weight_lane, type);
        if (bias->data && !direct_bias) {
            segments[count++] = zest_cuda_segment_of(
                bias, p, slot->vectors.data + row * zest_cuda_element_size(out), gemm->bias_lane, out);
            gemm->bias = slot->vectors.data;
        }
        at += weight->rows * weight->columns;
        row += args->transposed ? weight->columns : weight->rows;
    }
    return zest_cuda_perturb(cuda, slot, segments, count, p) ? NULL : slot;
}

zest_gemm zest_cuda_linear_shape(const zest_cuda *cuda, const zest_linear *args) {
    zest_gemm gemm = {};
    int64_t size = (int64_t)cuda->base.element_size, out_size = args->fp32_output ? 4 : size;
    gemm.transposed = args->transposed;
    gemm.a_transposed = args->a_transposed;
    gemm.batch = (int)zest_perturbation_lanes(&args->perturbation);
    gemm.fp32_output = args->fp32_output || cuda->base.compute == ZEST_COMPUTE_F32;
    gemm.rows = args->rows;
    gemm.inputs = args->transposed ? args->weight.rows : args->weight.columns;
    gemm.outputs = args->transposed ? args->weight.columns : args->weight.rows;
    for (size_t i = 0; i < args->more_count; i++)
        (args->transposed ? gemm.inputs : gemm.outputs) += args->more[i].weight.rows;
    gemm.a = args->a[0];
    gemm.out = args->out[0];
    gemm.residual = args->residual[0];
    gemm.a_stride = args->a_stride;
    gemm.out_stride = args->out_stride;
    gemm.residual_stride = args->residual[0] ? args->residual_stride : args->out_stride;
    if (gemm.batch > 1) {
        gemm.a_lane = zest_cuda_lane_stride(args->a[0], args->a[1], (size_t)size);
        gemm.out_lane = zest_cuda_lane_stride(args->out[0], args->out[1], (size_t)out_size);
        if (args->residual[0])
            gemm.residual_lane =
                zest_cuda_lane_stride(args->residual[0], args->residual[1], (size_t)out_size);
    }
    return gemm;
}

/* Copies a residual that the GEMM is about to overwrite, since it is added after the activation. */
static int backup_residual(zest_cuda *cuda, zest_gemm *gemm) {
    size_t size = gemm->fp32_output ? 4 : cuda->base.element_size;
    size_t elements = (gemm->rows - 1) * gemm->residual_stride + gemm->outputs,
           lane = (elements + 127) / 128 * 128;
    if (zest_cuda_reserve(cuda, &cuda->residual_backup, (size_t)gemm->batch * lane * size)) return -1;
    for (int b = 0; b < gemm->batch; b++)
        if (zest_cuda_failed(
                cuda,
                cudaMemcpyAsync(cuda->residual_backup.data + (size_t)b * lane * size,
                                (const char *)gemm->residual + b * gemm->residual_lane * (int64_t)size,
                                elements * size, cudaMemcpyDeviceToDevice, cuda->stream),
                "backing up a residual"))
            return -1;
    gemm->residual = cuda->residual_backup.data;
    gemm->residual_lane = (int64_t)lane;
    return 0;
}

int zest_cuda_linear(const zest_linear *args, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!args->rows) return 0;
    if (zest_cuda_linear_is_low_rank(args)) return zest_cuda_linear_low_rank(cuda, args, scratch);
    zest_gemm gemm = zest_cuda_linear_shape(cuda, args);
    zest_cuda_slot *slot = perturb_weights(cuda, args, &gemm);
    if (!slot) return -1;
    const void *residual = NULL;
    if (gemm.residual && args->activation != ZEST_ACT_NONE) { /* else the GEMM adds it */
        if (gemm.residual == gemm.out && backup_residual(cuda, &gemm)) return -1;
        residual = gemm.residual;
        gemm.residual = NULL;
    }
    if (!residual) gemm.activation = args->activation;
    zest_cuda_slot *norm =
        args->norm ? zest_cuda_norm_perturb(cuda, args->norm, &args->perturbation, &gemm.norm) : NULL;
    if (args->norm && !norm) return -1;
    if (zest_cuda_gemm(cuda, &gemm) || zest_cuda_slot_release(cuda, slot)) return -1;
    if (norm) return zest_cuda_slot_release(cuda, norm);
    return residual ? zest_cuda_epilogue(cuda, &gemm, NULL, args->activation, residual) : 0;
}
