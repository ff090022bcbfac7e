/* The product of gemm_sm90.cuh for jobs that suit it: which they are, and how it is launched. A name that
 * ends in _sm90a is compiled for compute capability 9.0 alone (ZEST_SM90A); elsewhere it refuses everything.
 */
#include "kernels/cuda/cuda.h"

#if defined ZEST_SM90A && CUDART_VERSION >= 12050
#include "kernels/cuda/gemm_sm90.cuh"

enum { BAND = 2048 };    /* rows */
enum { PATIENCE = 256 }; /* looks, of about half a microsecond each: some tiles' time */
enum { PARTS_AT = 256 }; /* counts stand before both rooms for them */
enum { PARTS_MOST_EACH = (ZEST_CUDA_PARTS - PARTS_AT) / 2 / (int)sizeof(uint64_t) };

/* ---- The job as the kernel sees it ---- */

static int describe_all(const zest_cuda *cuda, const zest_gemm *job, hopper_job *work) {
    int lanes = job->batch;
    return describe_tiles(cuda, &work->a, job->a, job->rows, job->inputs, job->a_stride, lanes, job->a_lane,
                          ROWS) ||
           describe_tiles(cuda, &work->weight, job->weight, job->outputs, job->inputs, job->inputs, lanes,
                          job->weight_lane, COLUMNS / CLUSTER) ||
           describe_tiles(cuda, &work->out, job->out, job->rows, job->outputs, job->out_stride, lanes,
                          job->out_lane, 64) ||
           (job->residual && describe_tiles(cuda, &work->residual, job->residual, job->rows, job->outputs,
                                            job->residual_stride, lanes, job->residual_lane, 64));
}

static hopper_job job_of(const zest_gemm *job) {
    const int silu = job->activation == ZEST_ACT_SILU;
    hopper_job work = {};
    work.bias = job->bias;
    work.bias_lane = job->bias_lane;
    work.outputs = (unsigned)job->outputs;
    work.pieces = (unsigned)((job->inputs + 63) / 64);
    work.heights = (unsigned)((job->rows + ROWS * CLUSTER - 1) / (ROWS * CLUSTER));
    work.widths = (unsigned)((job->outputs + COLUMNS - 1) / COLUMNS);
    work.band = BAND / (ROWS * CLUSTER);
    work.work = work.heights * work.widths * (unsigned)job->batch;
    work.a_moves = job->a_lane != 0;
    work.weight_moves = job->weight_lane != 0;
    work.residual_there = job->residual != NULL;
    work.bend[0] = silu ? -1.44269504f : -2.30220819f; /* -log2(e), and times sqrt(8/pi) */
    work.bend[1] = silu ? 0.0f : -0.102943243f;        /* that times 0.044715 */
    return work;
}

static size_t parts_of(const hopper_job *work) { return (size_t)work->work * CLUSTER * ROWS; }

static int norm_suits(const zest_cuda *cuda, const zest_gemm *job, const hopper_job *work) {
    return cuda->settings.norm != ZEST_CUDA_NORM_SEPARATE && job->residual && !job->norm.rms &&
           work->widths <= PARTS_MOST && work->widths <= (unsigned)cuda->processors / CLUSTER &&
           parts_of(work) <= PARTS_MOST_EACH &&
           parts_of(work) / 16 * sizeof(unsigned) <= cuda->workspace.size;
}

static uint64_t *parts_room(const zest_cuda *cuda) {
    return (uint64_t *)(cuda->parts.data + PARTS_AT) + cuda->parts_turn * PARTS_MOST_EACH;
}

static void add_norm(zest_cuda *cuda, const zest_gemm *job, hopper_job *work) {
    const zest_gemm_norm *is = &job->norm;
    hopper_norm *norm = &work->norm;
    work->band = 1; /* the tiles of a row at the same time */
    norm->gain = is->gain, norm->shift = is->bias, norm->lane = is->lane, norm->epsilon = is->epsilon;
    norm->each = 1.0f / (float)job->outputs;
    norm->late = (unsigned *)cuda->parts.data;
    norm->before = parts_room(cuda), norm->before_count = cuda->parts_used;
    cuda->parts_turn ^= 1;
    norm->parts = parts_room(cuda), cuda->parts_used = (unsigned)parts_of(work);
    norm->list = (unsigned *)cuda->workspace.data; /* which nobody else uses meanwhile */
    norm->patience = cuda->settings.norm == ZEST_CUDA_NORM_FALLBACK ? 0 : PATIENCE;
    norm->out = job->out, norm->rows = job->rows;
    norm->out_stride = job->out_stride, norm->out_lane = job->out_lane;
}

/* ---- Launching ---- */

typedef void (*hopper_product)(hopper_job);

template <class T> static hopper_product kernel_for(const zest_gemm *job) {
    if (job->norm.there) return hopper_kernel<T, HOPPER_NORM>;
    if (job->residual) return hopper_kernel<T, HOPPER_RESIDUAL>;
    if (job->activation == ZEST_ACT_GELU) return hopper_kernel<T, HOPPER_GELU>;
    if (job->activation == ZEST_ACT_GELU_TANH || job->activation == ZEST_ACT_SILU)
        return hopper_kernel<T, HOPPER_BENT>;
    return job->activation == ZEST_ACT_RELU ? hopper_kernel<T, HOPPER_RELU> : hopper_kernel<T, HOPPER_PLAIN>;
}

static int launch_late(zest_cuda *cuda, const hopper_job *work) {
    const unsigned blocks = (unsigned)cuda->processors;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_NORM);
    if (cuda->base.compute == ZEST_COMPUTE_BF16)
        late_kernel<__nv_bfloat16><<<blocks, 128, 0, cuda->stream>>>(*work);
    else
        late_kernel<__half><<<blocks, 128, 0, cuda->stream>>>(*work);
    return zest_cuda_launched(cuda, "computing the fallback layer norm");
}

static int launch(zest_cuda *cuda, const zest_gemm *job, const hopper_job *work) {
    const hopper_product kernel =
        cuda->base.compute == ZEST_COMPUTE_BF16 ? kernel_for<__nv_bfloat16>(job) : kernel_for<__half>(job);
    unsigned most = (unsigned)cuda->processors / CLUSTER;
    if (job->norm.there) most -= most % work->widths; /* none of a row's tiles comes a turn later */
    const unsigned clusters = work->work < most ? work->work : most;
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
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_GEMM);
    return zest_cuda_failed(
               cuda, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES),
               "computing a GEMM") ||
           zest_cuda_failed(cuda, cudaLaunchKernelEx(&config, kernel, *work), "computing a GEMM");
}

/* ---- What suits it ---- */

/* Copies of tiles write 16 bytes at a time: of a last part of a row that is less, the rest would be
 * overwritten, so eight has to divide the outputs. */
static int suits(const zest_cuda *cuda, const zest_gemm *job) {
    const size_t most = (size_t)1 << 30;
    return cuda->describe_tiles && cuda->base.compute != ZEST_COMPUTE_F32 && !job->transposed &&
           !job->a_transposed && !job->fp32_output && !job->split && job->outputs % 8 == 0 && job->rows &&
           job->inputs && job->outputs && job->rows < most && job->inputs < most && job->outputs < most &&
           tiles_aligned(job->a, job->a_stride, job->a_lane) &&
           tiles_aligned(job->weight, job->inputs, job->weight_lane) &&
           tiles_aligned(job->out, job->out_stride, job->out_lane) && (job->out_lane || job->batch == 1) &&
           (!job->residual || (job->activation == ZEST_ACT_NONE && (job->residual_lane || job->batch == 1) &&
                               tiles_aligned(job->residual, job->residual_stride, job->residual_lane)));
}

int zest_cuda_hopper_norms(const zest_cuda *cuda, const zest_gemm *job) {
    if (!suits(cuda, job)) return 0;
    const hopper_job work = job_of(job);
    return norm_suits(cuda, job, &work);
}

int zest_cuda_multiply_hopper(zest_cuda *cuda, const zest_gemm *job) {
    if (!suits(cuda, job)) return 1;
    hopper_job work = job_of(job);
    if (job->norm.there && !norm_suits(cuda, job, &work)) return 1;
    if (describe_all(cuda, job, &work)) return 1;
    if (job->norm.there) add_norm(cuda, job, &work);
    if (launch(cuda, job, &work)) return -1;
    return job->norm.there && launch_late(cuda, &work) ? -1 : 0;
}

int zest_cuda_hopper_open(zest_cuda *cuda) {
    cudaDriverEntryPointQueryResult found;
    void *entry = NULL;
    if (zest_cuda_failed(cuda,
                         cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                          cudaEnableDefault, &found),
                         "looking up cuTensorMapEncodeTiled"))
        return -1;
    if (found != cudaDriverEntryPointSuccess) return 0;
    cuda->describe_tiles = entry;
    return zest_cuda_reserve(cuda, &cuda->parts, ZEST_CUDA_PARTS) ||
           zest_cuda_failed(cuda, cudaMemsetAsync(cuda->parts.data, 0, PARTS_AT, cuda->stream),
                            "clearing partial row statistics") ||
           zest_cuda_failed(
               cuda,
               cudaMemsetAsync(cuda->parts.data + PARTS_AT, 0xff, ZEST_CUDA_PARTS - PARTS_AT, cuda->stream),
               "clearing partial row statistics");
}

#else

int zest_cuda_hopper_norms(const zest_cuda *, const zest_gemm *) { return 0; }
int zest_cuda_multiply_hopper(zest_cuda *, const zest_gemm *) { return 1; }
int zest_cuda_hopper_open(zest_cuda *) { return 0; }

#endif
