/* The GEMM of gemm_sm90.cuh: which GEMMs it supports, and its launch. Files whose name ends in _sm90a are
 * compiled for compute capability 9.0 alone (ZEST_SM90A); in other builds the functions say that nothing is
 * supported. */
#include "kernels/cuda/cuda.h"

#if defined ZEST_SM90A && CUDART_VERSION >= 12050
#include "kernels/cuda/gemm_sm90.cuh"

enum { RASTER_ROWS = 2048 }; /* of a raster group */
enum { SPIN_LIMIT = 256 };   /* looks of about half a microsecond each: the time of a few tiles */
enum { STATS_AT = 256 };     /* the two counters of the fallback list stand before both halves */
enum { STATS_MAX = (ZEST_CUDA_ROW_STATS_BYTES - STATS_AT) / 2 / (int)sizeof(uint64_t) };

/* ---- Kernel parameters ---- */

static int make_tensormaps(const zest_cuda *cuda, const zest_gemm *gemm, sm90_gemm_params *params) {
    int lanes = gemm->batch;
    return make_tensormap(cuda, &params->a, gemm->a, gemm->rows, gemm->inputs, gemm->a_stride, lanes,
                          gemm->a_lane, TILE_M) ||
           make_tensormap(cuda, &params->weight, gemm->weight, gemm->outputs, gemm->inputs, gemm->inputs,
                          lanes, gemm->weight_lane, TILE_N / CLUSTER) ||
           make_tensormap(cuda, &params->out, gemm->out, gemm->rows, gemm->outputs, gemm->out_stride, lanes,
                          gemm->out_lane, 64) ||
           (gemm->residual &&
            make_tensormap(cuda, &params->residual, gemm->residual, gemm->rows, gemm->outputs,
                           gemm->residual_stride, lanes, gemm->residual_lane, 64));
}

static sm90_gemm_params params_of(const zest_gemm *gemm) {
    const int silu = gemm->activation == ZEST_ACT_SILU;
    sm90_gemm_params params = {};
    params.bias = gemm->bias;
    params.bias_lane = gemm->bias_lane;
    params.outputs = (unsigned)gemm->outputs;
    params.k_tiles = (unsigned)((gemm->inputs + 63) / 64);
    params.m_tiles = (unsigned)((gemm->rows + TILE_M * CLUSTER - 1) / (TILE_M * CLUSTER));
    params.n_tiles = (unsigned)((gemm->outputs + TILE_N - 1) / TILE_N);
    params.raster_group = RASTER_ROWS / (TILE_M * CLUSTER);
    params.tiles = params.m_tiles * params.n_tiles * (unsigned)gemm->batch;
    params.a_per_lane = gemm->a_lane != 0;
    params.weight_per_lane = gemm->weight_lane != 0;
    params.has_residual = gemm->residual != NULL;
    params.activation_coefficients[0] =
        silu ? -1.44269504f : -2.30220819f;                          /* -log2(e); -log2(e) sqrt(8/pi) */
    params.activation_coefficients[1] = silu ? 0.0f : -0.102943243f; /* the latter times 0.044715 */
    return params;
}

static size_t stats_count(const sm90_gemm_params *params) { return (size_t)params->tiles * CLUSTER * TILE_M; }

static int can_fuse_norm(const zest_cuda *cuda, const zest_gemm *gemm, const sm90_gemm_params *params) {
    return cuda->settings.norm != ZEST_CUDA_NORM_SEPARATE && gemm->residual && !gemm->norm.rms &&
           params->n_tiles <= NORM_MAX_N_TILES && params->n_tiles <= (unsigned)cuda->sm_count / CLUSTER &&
           stats_count(params) <= STATS_MAX &&
           stats_count(params) / 16 * sizeof(unsigned) <= cuda->workspace.size;
}

static uint64_t *current_stats(const zest_cuda *cuda) {
    return (uint64_t *)(cuda->row_stats.data + STATS_AT) + cuda->row_stats_index * STATS_MAX;
}

static void set_norm(zest_cuda *cuda, const zest_gemm *gemm, sm90_gemm_params *params) {
    const zest_gemm_norm *from = &gemm->norm;
    sm90_norm_params *norm = &params->norm;
    params->raster_group = 1; /* the tiles of a row run at the same time */
    norm->gain = from->gain, norm->shift = from->bias, norm->lane = from->lane, norm->epsilon = from->epsilon;
    norm->inv_outputs = 1.0f / (float)gemm->outputs;
    norm->fallback_count = (unsigned *)cuda->row_stats.data;
    norm->previous_stats = current_stats(cuda), norm->previous_count = cuda->row_stats_used;
    cuda->row_stats_index ^= 1;
    norm->stats = current_stats(cuda), cuda->row_stats_used = (unsigned)stats_count(params);
    norm->fallback_list = (unsigned *)cuda->workspace.data; /* cuBLASLt does not use it meanwhile */
    norm->spin_limit = cuda->settings.norm == ZEST_CUDA_NORM_FALLBACK ? 0 : SPIN_LIMIT;
    norm->out = gemm->out, norm->rows = gemm->rows;
    norm->out_stride = gemm->out_stride, norm->out_lane = gemm->out_lane;
}

/* ---- Launching ---- */

typedef void (*sm90_kernel)(sm90_gemm_params);

/* -1: the kernel has no epilogue for this activation. */
static int epilogue_of(const zest_gemm *gemm) {
    if (gemm->norm.enabled) return EPILOGUE_NORM;
    if (gemm->residual) return EPILOGUE_RESIDUAL;
    switch (gemm->activation) {
    case ZEST_ACT_NONE: return EPILOGUE_BIAS;
    case ZEST_ACT_RELU: return EPILOGUE_RELU;
    case ZEST_ACT_GELU: return EPILOGUE_GELU;
    case ZEST_ACT_GELU_TANH:
    case ZEST_ACT_SILU: return EPILOGUE_SWISH;
    default: return -1;
    }
}

template <class T> static sm90_kernel kernel_for(const zest_gemm *gemm) {
    switch (epilogue_of(gemm)) {
    case EPILOGUE_NORM: return gemm_sm90_kernel<T, EPILOGUE_NORM>;
    case EPILOGUE_RESIDUAL: return gemm_sm90_kernel<T, EPILOGUE_RESIDUAL>;
    case EPILOGUE_RELU: return gemm_sm90_kernel<T, EPILOGUE_RELU>;
    case EPILOGUE_GELU: return gemm_sm90_kernel<T, EPILOGUE_GELU>;
    case EPILOGUE_SWISH: return gemm_sm90_kernel<T, EPILOGUE_SWISH>;
    default: return gemm_sm90_kernel<T, EPILOGUE_BIAS>;
    }
}

static int launch_fallback(zest_cuda *cuda, const sm90_gemm_params *params) {
    const unsigned blocks = (unsigned)cuda->sm_count;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_NORM);
    if (cuda->base.compute == ZEST_COMPUTE_BF16)
        norm_fallback_kernel<__nv_bfloat16><<<blocks, 128, 0, cuda->stream>>>(*params);
    else
        norm_fallback_kernel<__half><<<blocks, 128, 0, cuda->stream>>>(*params);
    return zest_cuda_launched(cuda, "computing the fallback layer norm");
}

static int launch(zest_cuda *cuda, const zest_gemm *gemm, const sm90_gemm_params *params) {
    const sm90_kernel kernel =
        cuda->base.compute == ZEST_COMPUTE_BF16 ? kernel_for<__nv_bfloat16>(gemm) : kernel_for<__half>(gemm);
    unsigned most = (unsigned)cuda->sm_count / CLUSTER;
    if (gemm->norm.enabled) most -= most % params->n_tiles; /* no tile of a row comes an iteration later */
    const unsigned clusters = params->tiles < most ? params->tiles : most;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = CLUSTER, cluster.val.clusterDim.y = 1, cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(clusters * CLUSTER);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = SHARED_BYTES;
    config.stream = cuda->stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_GEMM);
    return zest_cuda_failed(
               cuda, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES),
               "computing a GEMM") ||
           zest_cuda_failed(cuda, cudaLaunchKernelEx(&config, kernel, *params), "computing a GEMM");
}

/* ---- Support ---- */

/* TMA stores 16 bytes at a time, so the number of outputs must be a multiple of eight: else it would
 * overwrite what lies behind a row. */
static int is_supported(const zest_cuda *cuda, const zest_gemm *gemm) {
    const size_t most = (size_t)1 << 30;
    return cuda->encode_tensormap && cuda->base.compute != ZEST_COMPUTE_F32 && epilogue_of(gemm) >= 0 &&
           !gemm->transposed && !gemm->a_transposed && !gemm->fp32_output && !gemm->split &&
           gemm->outputs % 8 == 0 && gemm->rows && gemm->inputs && gemm->outputs && gemm->rows < most &&
           gemm->inputs < most && gemm->outputs < most &&
           tma_aligned(gemm->a, gemm->a_stride, gemm->a_lane) &&
           tma_aligned(gemm->weight, gemm->inputs, gemm->weight_lane) &&
           tma_aligned(gemm->out, gemm->out_stride, gemm->out_lane) && (gemm->out_lane || gemm->batch == 1) &&
           (!gemm->residual ||
            (gemm->activation == ZEST_ACT_NONE && (gemm->residual_lane || gemm->batch == 1) &&
             tma_aligned(gemm->residual, gemm->residual_stride, gemm->residual_lane)));
}

int zest_cuda_gemm_sm90_fuses_norm(const zest_cuda *cuda, const zest_gemm *gemm) {
    if (!is_supported(cuda, gemm)) return 0;
    const sm90_gemm_params params = params_of(gemm);
    return can_fuse_norm(cuda, gemm, &params);
}

int zest_cuda_gemm_sm90(zest_cuda *cuda, const zest_gemm *gemm) {
    if (!is_supported(cuda, gemm)) return 1;
    sm90_gemm_params params = params_of(gemm);
    if (gemm->norm.enabled && !can_fuse_norm(cuda, gemm, &params)) return 1;
    if (make_tensormaps(cuda, gemm, &params)) return 1;
    if (gemm->norm.enabled) set_norm(cuda, gemm, &params);
    if (launch(cuda, gemm, &params)) return -1;
    return gemm->norm.enabled && launch_fallback(cuda, &params) ? -1 : 0;
}

int zest_cuda_gemm_sm90_open(zest_cuda *cuda) {
    cudaDriverEntryPointQueryResult found;
    void *entry = NULL;
    if (zest_cuda_failed(cuda,
                         cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                          cudaEnableDefault, &found),
                         "looking up cuTensorMapEncodeTiled"))
        return -1;
    if (found != cudaDriverEntryPointSuccess) return 0;
    cuda->encode_tensormap = entry;
    return zest_cuda_reserve(cuda, &cuda->row_stats, ZEST_CUDA_ROW_STATS_BYTES) ||
           zest_cuda_failed(cuda, cudaMemsetAsync(cuda->row_stats.data, 0, STATS_AT, cuda->stream),
                            "clearing partial row statistics") ||
           zest_cuda_failed(cuda,
                            cudaMemsetAsync(cuda->row_stats.data + STATS_AT, 0xff,
                                            ZEST_CUDA_ROW_STATS_BYTES - STATS_AT, cuda->stream),
                            "clearing partial row statistics");
}

#else

int zest_cuda_gemm_sm90_fuses_norm(const zest_cuda *, const zest_gemm *) { return 0; }
int zest_cuda_gemm_sm90(zest_cuda *, const zest_gemm *) { return 1; }
int zest_cuda_gemm_sm90_open(zest_cuda *) { return 0; }

#endif
