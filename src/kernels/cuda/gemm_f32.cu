/* fp32 GEMM on bf16 tensor cores (bf16x6). A float is the sum of three bf16 numbers, x = x1 + x2 + x3 (24
 * bits), and x w = x1 w1 + (x1 w2 + x2 w1) + (x1 w3 + x2 w2 + x3 w1) + terms under 2^-24 of it: six bf16
 * products. They are one bf16 GEMM with six times the inputs, small terms first, accumulated in fp32. */
#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256, WIDTH = 4, TERMS = 6, MIN_ROWS = 64, A_BYTES = 256 << 20 };

/* (lanes, rows, columns) in fp32 to (lanes, rows, TERMS, columns) in bf16; vertical: to (lanes, TERMS, rows,
 * columns), where the inputs are the rows. */
struct split_params {
    const float *from;
    __nv_bfloat16 *to;
    size_t rows, columns, stride; /* columns: a multiple of WIDTH */
    int64_t from_lane, to_lane;
    unsigned char term[TERMS]; /* 1, 2 or 3: which of x1, x2, x3 a term holds */
    int vertical;
};

static __global__ void __launch_bounds__(THREADS) split_kernel(const __grid_constant__ split_params params) {
    unsigned groups = (unsigned)(params.columns / WIDTH);
    size_t at = blockIdx.x * (size_t)THREADS + threadIdx.x, row = at / groups;
    if (row >= params.rows) return;
    size_t column = (at - row * groups) * WIDTH;
    float4 raw =
        *(const float4 *)(params.from + blockIdx.y * params.from_lane + row * params.stride + column);
    const float x[WIDTH] = {raw.x, raw.y, raw.z, raw.w};
    __nv_bfloat16 parts[3][WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
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
    size_t step = params.vertical ? params.rows * params.columns : params.columns;
    __nv_bfloat16 *to = params.to + blockIdx.y * params.to_lane +
                        row * (params.vertical ? 1 : TERMS) * params.columns + column;
#pragma unroll
    for (int i = 0; i < TERMS; i++)
        *(uint2 *)(to + i * step) = params.term[i] == 1   ? packed[0]
                                    : params.term[i] == 2 ? packed[1]
                                                          : packed[2];
}

static int split(zest_cuda *cuda, const split_params *params, int lanes) {
    dim3 grid(zest_cuda_blocks(params->rows * (params->columns / WIDTH), THREADS), (unsigned)lanes);
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
    split_kernel<<<grid, THREADS, 0, cuda->stream>>>(*params);
    return zest_cuda_launched(cuda, "splitting fp32 operands");
}

/* Whether both buffers take at most a quarter of the device's capacity. Free memory does not count: a GEMM that is split
 * has other bits than one that is not. */
static int fits_in_memory(const zest_cuda *cuda, size_t weight_bytes, size_t a_bytes) {
    return weight_bytes + a_bytes <= cuda->base.operations->device->capacity(&cuda->base) / 4;
}

/* Rows of whole vectors, 16-byte alignment. */
static int is_supported(const zest_gemm *gemm) {
    size_t a_columns = gemm->a_transposed ? gemm->rows : gemm->inputs;
    size_t columns = gemm->transposed ? gemm->outputs : gemm->inputs;
    return gemm->rows >= MIN_ROWS && a_columns % 8 == 0 && columns % 8 == 0 && gemm->a_stride % 4 == 0 &&
           gemm->a_lane % 4 == 0 && gemm->weight_lane % 4 == 0 && (uintptr_t)gemm->a % 16 == 0 &&
           (uintptr_t)gemm->weight % 16 == 0;
}

/* Rows of one pass: as many as A_BYTES holds of the split activations, in passes of about the same size. */
static size_t rows_per_pass(const zest_gemm *gemm) {
    size_t row = TERMS * gemm->inputs * sizeof(__nv_bfloat16) * (size_t)gemm->batch;
    size_t most = (size_t)A_BYTES / row / 128 * 128;
    if (!most) most = 128;
    if (most > gemm->rows) most = gemm->rows;
    size_t passes = (gemm->rows + most - 1) / most, pass_rows = (gemm->rows + passes - 1) / passes;
    pass_rows = (pass_rows + 127) / 128 * 128;
    return pass_rows < gemm->rows ? pass_rows : gemm->rows;
}

static int split_weight(zest_cuda *cuda, const zest_gemm *gemm, int lanes, size_t lane) {
    split_params weights = {(const float *)gemm->weight,
                            (__nv_bfloat16 *)cuda->split_weight.data,
                            gemm->transposed ? gemm->inputs : gemm->outputs,
                            gemm->transposed ? gemm->outputs : gemm->inputs,
                            gemm->transposed ? gemm->outputs : gemm->inputs,
                            gemm->weight_lane,
                            (int64_t)lane,
                            {1, 3, 2, 1, 2, 1},
                            gemm->transposed};
    return split(cuda, &weights, lanes);
}

/* Rows of a from `first` on. */
static int split_rows(zest_cuda *cuda, const zest_gemm *gemm, size_t first, size_t rows, size_t lane) {
    const float *a = (const float *)gemm->a;
    split_params params = {gemm->a_transposed ? a + first : a + first * gemm->a_stride,
                           (__nv_bfloat16 *)cuda->split_a.data,
                           gemm->a_transposed ? gemm->inputs : rows,
                           gemm->a_transposed ? rows : gemm->inputs,
                           gemm->a_stride,
                           gemm->a_lane,
                           (int64_t)lane,
                           {3, 1, 2, 2, 1, 1},
                           gemm->a_transposed};
    return split(cuda, &params, gemm->batch);
}

int zest_cuda_gemm_f32(zest_cuda *cuda, const zest_gemm *gemm) {
    const size_t size = sizeof(__nv_bfloat16), batch = (size_t)gemm->batch, inputs = TERMS * gemm->inputs;
    if (!is_supported(gemm)) return 1;
    size_t lanes = gemm->weight_lane ? batch : 1, weight_lane = gemm->outputs * inputs,
           pass_rows = rows_per_pass(gemm);
    size_t a_lane = pass_rows * inputs, weight_bytes = lanes * weight_lane * size,
           a_bytes = batch * a_lane * size;
    if (!fits_in_memory(cuda, weight_bytes, a_bytes)) return 1;
    if (zest_cuda_reserve(cuda, &cuda->split_weight, weight_bytes) ||
        zest_cuda_reserve(cuda, &cuda->split_a, a_bytes) || split_weight(cuda, gemm, (int)lanes, weight_lane))
        return -1;
    for (size_t first = 0; first < gemm->rows; first += pass_rows) {
        zest_gemm pass = *gemm;
        pass.rows = gemm->rows - first < pass_rows ? gemm->rows - first : pass_rows;
        if (split_rows(cuda, gemm, first, pass.rows, a_lane)) return -1;
        pass.split = 1;
        pass.inputs = inputs;
        pass.a_stride = gemm->a_transposed ? pass.rows : inputs;
        pass.weight = cuda->split_weight.data;
        pass.weight_lane = gemm->weight_lane ? (int64_t)weight_lane : 0;
        pass.a = cuda->split_a.data;
        pass.a_lane = (int64_t)a_lane;
        pass.out = (float *)gemm->out + first * gemm->out_stride;
        if (gemm->residual) pass.residual = (const float *)gemm->residual + first * gemm->residual_stride;
        int result = zest_cuda_gemm_select(cuda, &pass);
        if (result == 1 && first)
            return zest_cuda_unsupported(cuda, "cuBLASLt has no algorithm for an fp32 GEMM of this size");
        if (result) return result;
    }
    return 0;
}
