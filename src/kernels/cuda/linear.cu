/* linear: make the lanes' weights, multiply, and whatever the product could not take along. */
#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256 };

/* ---- What is not fused ---- */

struct finish_job {
    void *out;
    const void *bias, *residual;
    size_t rows, outputs, out_stride, residual_stride;
    int64_t out_lane, residual_lane, bias_lane;
    int activation;
};

/* Eight elements of a row a thread, where the addresses allow it. */
template <class T, int EACH> static __global__ void __launch_bounds__(THREADS) finish_kernel(finish_job job) {
    size_t groups = job.outputs / EACH, at = blockIdx.x * (size_t)THREADS + threadIdx.x;
    if (at >= groups * job.rows) return;
    size_t m = at / groups, n = at % groups * EACH;
    int64_t lane = blockIdx.y;
    T *out = (T *)job.out + lane * job.out_lane + m * job.out_stride + n;
    const T *residual = job.residual
                            ? (const T *)job.residual + lane * job.residual_lane + m * job.residual_stride + n
                            : NULL;
    const T *bias = job.bias ? (const T *)job.bias + lane * job.bias_lane + n : NULL;
    float x[EACH];
    if (EACH == 8)
        load8(out, x);
    else
        x[0] = to_float(*out);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        float y = bias ? x[j] + to_float(bias[j]) : x[j];
        y = activate(y, job.activation);
        x[j] = residual ? y + to_float(residual[j]) : y;
    }
    if (EACH == 8)
        store8(out, x);
    else
        *out = to_cell<T>(x[0]);
}

/* Rows without gaps, nothing but an activation: what RoBERTa's GELU is. Sixteen elements a thread. */
template <class T, int ACT>
static __global__ void __launch_bounds__(THREADS) flat_kernel(T *out, size_t count, int64_t lane) {
    enum { TURNS = 2 };
    T *at = out + blockIdx.y * lane + (size_t)blockIdx.x * (THREADS * 8 * TURNS) + threadIdx.x * 8;
    size_t first = (size_t)blockIdx.x * (THREADS * 8 * TURNS) + threadIdx.x * 8;
    float x[TURNS][8];
#pragma unroll
    for (int i = 0; i < TURNS; i++)
        if (first + (size_t)i * THREADS * 8 < count) load8(at + i * THREADS * 8, x[i]);
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) x[i][j] = activate(x[i][j], ACT);
        if (first + (size_t)i * THREADS * 8 < count) store8(at + i * THREADS * 8, x[i]);
    }
}

template <class T> static int finish_flat(zest_cuda *cuda, const finish_job *job, int batch) {
    size_t count = job->rows * job->outputs;
    if (job->bias || job->residual || job->out_stride != job->outputs || count % 8 || job->out_lane % 8 ||
        (uintptr_t)job->out % 16)
        return 0;
    dim3 grid(zest_cuda_blocks(count, THREADS * 16), (unsigned)batch);
    T *out = (T *)job->out;
    if (job->activation == ZEST_ACT_GELU)
        flat_kernel<T, ZEST_ACT_GELU><<<grid, THREADS, 0, cuda->stream>>>(out, count, job->out_lane);
    else if (job->activation == ZEST_ACT_SILU)
        flat_kernel<T, ZEST_ACT_SILU><<<grid, THREADS, 0, cuda->stream>>>(out, count, job->out_lane);
    else
        return 0;
    return 1;
}

template <class T> static void finish(zest_cuda *cuda, const finish_job *job, int batch) {
    if (finish_flat<T>(cuda, job, batch)) return;
    int wide = job->outputs % 8 == 0 && job->out_stride % 8 == 0 && job->out_lane % 8 == 0 &&
               (uintptr_t)job->out % 16 == 0;
    size_t threads = job->rows * job->outputs / (wide ? 8 : 1);
    dim3 grid(zest_cuda_blocks(threads, THREADS), (unsigned)batch);
    if (wide)
        finish_kernel<T, 8><<<grid, THREADS, 0, cuda->stream>>>(*job);
    else
        finish_kernel<T, 1><<<grid, THREADS, 0, cuda->stream>>>(*job);
}

int zest_cuda_finish(zest_cuda *cuda, const zest_gemm *done, const void *bias, zest_activation activation,
                     const void *residual) {
    finish_job job = {done->out,
                      bias,
                      residual,
                      done->rows,
                      done->outputs,
                      done->out_stride,
                      done->residual_stride,
                      done->out_lane,
                      done->residual_lane,
                      done->bias_lane,
                      activation};
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);
    if (done->fp32_output)
        finish<float>(cuda, &job, done->batch);
    else
        ZEST_CUDA_TYPED(cuda->base.compute, T, finish<T>(cuda, &job, done->batch));
    return zest_cuda_launched(cuda, "computing an activation");
}

/* ---- Weights ---- */

/* The weights and biases of all parts, one below the other, for all lanes. Those that can be used as they are
 * stay where they are. */
static zest_cuda_slot *prepare(zest_cuda *cuda, const zest_linear *job, zest_gemm *gemm) {
    const zest_perturbation *p = &job->perturbation;
    zest_compute type = cuda->base.compute, out = job->fp32_output ? ZEST_COMPUTE_F32 : type;
    zest_cuda_segment segments[ZEST_CUDA_SEGMENTS];
    size_t lanes = (size_t)gemm->batch, elements = gemm->inputs * gemm->outputs, count = 0, at = 0, row = 0;
    int direct = !job->more_count && job->weight.dtype == zest_cuda_stored_as(type) &&
                 !zest_cuda_moves(&job->weight, p);
    int direct_bias = direct && lanes == 1 && job->bias.data && job->bias.dtype == zest_cuda_stored_as(out) &&
                      !zest_cuda_moves(&job->bias, p);
    gemm->weight_lane = direct ? 0 : (int64_t)((elements + 127) / 128 * 128);
    gemm->bias_lane = (int64_t)((gemm->outputs + 63) / 64 * 64);
    zest_cuda_slot *slot =
        zest_cuda_slot_next(cuda, &cuda->linears, lanes * (size_t)gemm->weight_lane * zest_cuda_size(type),
                            lanes * (size_t)gemm->bias_lane * sizeof(float));
    if (!slot) return NULL;
    gemm->weight = direct ? job->weight.data : slot->weights.data;
    if (direct_bias) gemm->bias = job->bias.data;
    for (size_t i = 0; i <= job->more_count; i++) {
        const zest_weight *weight = i ? &job->more[i - 1].weight : &job->weight;
        const zest_weight *bias = i ? &job->more[i - 1].bias : &job->bias;
        if (!direct)
            segments[count++] = zest_cuda_segment_of(
                weight, p, slot->weights.data + at * zest_cuda_size(type), gemm->weight_lane, type);
        if (bias->data && !direct_bias) {
            segments[count++] = zest_cuda_segment_of(bias, p, slot->vectors.data + row * zest_cuda_size(out),
                                                     gemm->bias_lane, out);
            gemm->bias = slot->vectors.data;
        }
        at += weight->rows * weight->columns;
        row += job->transposed ? weight->columns : weight->rows;
    }
    return zest_cuda_make(cuda, slot, segments, count, p) ? NULL : slot;
}

static zest_gemm shape_of(zest_cuda *cuda, const zest_linear *job) {
    zest_gemm gemm = {};
    int64_t size = (int64_t)cuda->base.element_size, wide = job->fp32_output ? 4 : size;
    gemm.transposed = job->transposed;
    gemm.a_transposed = job->a_transposed;
    gemm.deterministic = job->deterministic;
    gemm.batch = (int)zest_perturbation_lanes(&job->perturbation);
    gemm.fp32_output = job->fp32_output || cuda->base.compute == ZEST_COMPUTE_F32;
    gemm.rows = job->rows;
    gemm.inputs = job->transposed ? job->weight.rows : job->weight.columns;
    gemm.outputs = job->transposed ? job->weight.columns : job->weight.rows;
    for (size_t i = 0; i < job->more_count; i++)
        (job->transposed ? gemm.inputs : gemm.outputs) += job->more[i].weight.rows;
    gemm.a = job->a[0];
    gemm.out = job->out[0];
    gemm.residual = job->residual[0];
    gemm.a_stride = job->a_stride;
    gemm.out_stride = job->out_stride;
    gemm.residual_stride = job->residual[0] ? job->residual_stride : job->out_stride;
    if (gemm.batch > 1) {
        gemm.a_lane = zest_cuda_apart(job->a[0], job->a[1], (size_t)size);
        gemm.out_lane = zest_cuda_apart(job->out[0], job->out[1], (size_t)wide);
        if (job->residual[0])
            gemm.residual_lane = zest_cuda_apart(job->residual[0], job->residual[1], (size_t)wide);
    }
    return gemm;
}

/* A residual in the place of the result, which the product is about to overwrite. */
static int save_residual(zest_cuda *cuda, zest_gemm *gemm) {
    size_t size = gemm->fp32_output ? 4 : cuda->base.element_size;
    size_t each = (gemm->rows - 1) * gemm->residual_stride + gemm->outputs, lane = (each + 127) / 128 * 128;
    if (zest_cuda_reserve(cuda, &cuda->aside, (size_t)gemm->batch * lane * size)) return -1;
    for (int b = 0; b < gemm->batch; b++)
        if (zest_cuda_failed(
                cuda,
                cudaMemcpyAsync(cuda->aside.data + (size_t)b * lane * size,
                                (const char *)gemm->residual + b * gemm->residual_lane * (int64_t)size,
                                each * size, cudaMemcpyDeviceToDevice, cuda->stream),
                "backing up a residual"))
            return -1;
    gemm->residual = cuda->aside.data;
    gemm->residual_lane = (int64_t)lane;
    return 0;
}

int zest_cuda_linear(const zest_linear *job, int threads, zest_workspace *scratch) {
    zest_cuda *cuda = zest_cuda_of(scratch);
    (void)threads;
    if (!job->rows) return 0;
    zest_gemm gemm = shape_of(cuda, job);
    zest_cuda_slot *slot = prepare(cuda, job, &gemm);
    if (!slot) return -1;
    const void *residual = NULL;
    if (gemm.residual && job->activation != ZEST_ACT_NONE) { /* else the product adds it */
        if (gemm.residual == gemm.out && save_residual(cuda, &gemm)) return -1;
        residual = gemm.residual;
        gemm.residual = NULL;
    }
    if (!residual) gemm.activation = job->activation;
    zest_cuda_slot *norm =
        job->norm ? zest_cuda_norm_vectors(cuda, job->norm, &job->perturbation, &gemm.norm) : NULL;
    if (job->norm && !norm) return -1;
    if (zest_cuda_gemm(cuda, &gemm) || zest_cuda_slot_used(cuda, slot)) return -1;
    if (norm) return zest_cuda_slot_used(cuda, norm);
    return residual ? zest_cuda_finish(cuda, &gemm, NULL, job->activation, residual) : 0;
}
