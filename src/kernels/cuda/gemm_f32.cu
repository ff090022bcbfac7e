/* An fp32 product by the tensor cores. A float is the sum of three bf16 numbers, x = x1 + x2 + x3 (24 bits),
 * and x w = x1 w1 + (x1 w2 + x2 w1) + (x1 w3 + x2 w2 + x3 w1) + what is under 2^-24 of it: six bf16 products,
 * as one of six times the inputs, small ones first, summed in fp32. */
#include <stdio.h>

#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256, EACH = 4, TERMS = 6, LEAST_ROWS = 64, A_BYTES = 256 << 20 };

/* Rows of floats to rows of six times as many bf16; or, where the inputs are the rows, to six times as many
 * rows. */
struct split_job {
    const float *from;
    __nv_bfloat16 *to;
    size_t rows, columns, stride; /* columns: a multiple of EACH */
    int64_t from_lane, to_lane;
    unsigned char part[TERMS]; /* 1, 2 or 3: which of the three stands where */
    int below;                 /* the terms stand below each other */
};

static __global__ void __launch_bounds__(THREADS) split_kernel(const __grid_constant__ split_job job) {
    unsigned groups = (unsigned)(job.columns / EACH);
    size_t at = blockIdx.x * (size_t)THREADS + threadIdx.x, row = at / groups;
    if (row >= job.rows) return;
    size_t column = (at - row * groups) * EACH;
    float4 raw = *(const float4 *)(job.from + blockIdx.y * job.from_lane + row * job.stride + column);
    const float x[EACH] = {raw.x, raw.y, raw.z, raw.w};
    __nv_bfloat16 parts[3][EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        parts[0][j] = __float2bfloat16_rn(x[j]);
        float rest = __fsub_rn(x[j], __bfloat162float(parts[0][j]));
        parts[1][j] = __float2bfloat16_rn(rest);
        parts[2][j] = __float2bfloat16_rn(__fsub_rn(rest, __bfloat162float(parts[1][j])));
    }
    uint2 packed[3];
#pragma unroll
    for (int i = 0; i < 3; i++)
        packed[i] = make_uint2(
            (uint32_t)__bfloat16_as_ushort(parts[i][0]) | (uint32_t)__bfloat16_as_ushort(parts[i][1]) << 16,
            (uint32_t)__bfloat16_as_ushort(parts[i][2]) | (uint32_t)__bfloat16_as_ushort(parts[i][3]) << 16);
    size_t step = job.below ? job.rows * job.columns : job.columns;
    __nv_bfloat16 *to =
        job.to + blockIdx.y * job.to_lane + row * (job.below ? 1 : TERMS) * job.columns + column;
#pragma unroll
    for (int i = 0; i < TERMS; i++)
        *(uint2 *)(to + i * step) = job.part[i] == 1 ? packed[0] : job.part[i] == 2 ? packed[1] : packed[2];
}

static int split(zest_cuda *cuda, const split_job *job, int lanes) {
    dim3 grid(zest_cuda_blocks(job->rows * (job->columns / EACH), THREADS), (unsigned)lanes);
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_ELEMENTWISE);
    split_kernel<<<grid, THREADS, 0, cuda->stream>>>(*job);
    return zest_cuda_launched(cuda, "splitting fp32 operands");
}

/* Whether memory is plentiful enough for both, half of what is free at most. */
static int room_for(zest_cuda *cuda, size_t weight_bytes, size_t a_bytes) {
    size_t more = (weight_bytes > cuda->split_weight.size ? weight_bytes : 0) +
                  (a_bytes > cuda->split_a.size ? a_bytes : 0);
    return !more || more <= cuda->base.operations->device->available(&cuda->base) / 2;
}

/* Matrices whose rows are whole groups, at addresses that suit them. */
static int suits(const zest_gemm *job) {
    size_t a_columns = job->a_transposed ? job->rows : job->inputs;
    size_t columns = job->transposed ? job->outputs : job->inputs;
    return job->rows >= LEAST_ROWS && a_columns % 8 == 0 && columns % 8 == 0 && job->a_stride % 4 == 0 &&
           job->a_lane % 4 == 0 && job->weight_lane % 4 == 0 && (uintptr_t)job->a % 16 == 0 &&
           (uintptr_t)job->weight % 16 == 0;
}

/* Rows of one turn: as many as the room for the activations' terms holds. */
static size_t turn_of(const zest_gemm *job) {
    size_t row = TERMS * job->inputs * sizeof(__nv_bfloat16) * (size_t)job->batch;
    size_t most = (size_t)A_BYTES / row / 128 * 128;
    if (!most) most = 128;
    if (most > job->rows) most = job->rows;
    size_t turns = (job->rows + most - 1) / most, turn = (job->rows + turns - 1) / turns;
    turn = (turn + 127) / 128 * 128;
    return turn < job->rows ? turn : job->rows;
}

static int split_weight(zest_cuda *cuda, const zest_gemm *job, int lanes, size_t lane) {
    split_job weights = {(const float *)job->weight,
                         (__nv_bfloat16 *)cuda->split_weight.data,
                         job->transposed ? job->inputs : job->outputs,
                         job->transposed ? job->outputs : job->inputs,
                         job->transposed ? job->outputs : job->inputs,
                         job->weight_lane,
                         (int64_t)lane,
                         {1, 3, 2, 1, 2, 1},
                         job->transposed};
    return split(cuda, &weights, lanes);
}

/* Rows of a, from `first` on. */
static int split_rows(zest_cuda *cuda, const zest_gemm *job, size_t first, size_t rows, size_t lane) {
    const float *a = (const float *)job->a;
    split_job some = {job->a_transposed ? a + first : a + first * job->a_stride,
                      (__nv_bfloat16 *)cuda->split_a.data,
                      job->a_transposed ? job->inputs : rows,
                      job->a_transposed ? rows : job->inputs,
                      job->a_stride,
                      job->a_lane,
                      (int64_t)lane,
                      {3, 1, 2, 2, 1, 1},
                      job->a_transposed};
    return split(cuda, &some, job->batch);
}

int zest_cuda_multiply_split(zest_cuda *cuda, const zest_gemm *job) {
    const size_t size = sizeof(__nv_bfloat16), batch = (size_t)job->batch, inputs = TERMS * job->inputs;
    if (!suits(job)) return 1;
    size_t lanes = job->weight_lane ? batch : 1, weight_lane = job->outputs * inputs, turn = turn_of(job);
    size_t a_lane = turn * inputs, weight_bytes = lanes * weight_lane * size, a_bytes = batch * a_lane * size;
    if (!room_for(cuda, weight_bytes, a_bytes)) return 1;
    if (zest_cuda_reserve(cuda, &cuda->split_weight, weight_bytes) ||
        zest_cuda_reserve(cuda, &cuda->split_a, a_bytes) || split_weight(cuda, job, (int)lanes, weight_lane))
        return -1;
    for (size_t first = 0; first < job->rows; first += turn) {
        zest_gemm part = *job;
        part.rows = job->rows - first < turn ? job->rows - first : turn;
        if (split_rows(cuda, job, first, part.rows, a_lane)) return -1;
        part.split = 1;
        part.inputs = inputs;
        part.a_stride = job->a_transposed ? part.rows : inputs;
        part.weight = cuda->split_weight.data;
        part.weight_lane = job->weight_lane ? (int64_t)weight_lane : 0;
        part.a = cuda->split_a.data;
        part.a_lane = (int64_t)a_lane;
        part.out = (float *)job->out + first * job->out_stride;
        if (job->residual) part.residual = (const float *)job->residual + first * job->residual_stride;
        int result = zest_cuda_multiply(cuda, &part);
        if (result == 1 && first)
            return zest_cuda_unsupported(cuda, "cuBLASLt has no algorithm for an fp32 GEMM of this size");
        if (result) return result;
    }
    return 0;
}
