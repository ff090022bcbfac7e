/* The GEMM backend: which of cuBLASLt's algorithms, or the kernel of gemm_sm90.cuh. A plan is kept for each
 * set of sizes: a function of the sizes, the types, the GPU and cuBLASLt's version, so that the same command has
 * the same bits. It does not depend on time, free memory or the GEMMs before. With ZEST_CUDA_TUNE=on, GEMMs that
 * come a second time are timed, and the bits of a run depend on what was faster.
 *
 * The two backends do not add in the same order, nor do cuBLASLt's algorithms as far as anyone says. So a timing
 * cannot choose among them and leave the bits alone. Each of them gives the same bits every time:
 *
 *   gemm_sm90_kernel  an element is one chain of wgmma over the inputs in order, in one warp group; which block
 *                     has its tile, and when, changes nothing. Its fused norm: see gemm_sm90.cuh.
 *   cuBLASLt          NVIDIA promises the same bits for the same version, architecture and number of
 *                     multiprocessors; it has one stream and a workspace of its own here. Split-K adds in a fixed
 *                     order: in the workspace, or in place by counters.
 *
 * cuBLASLt is column-major, so row-major operands are passed as their transposes: out' = weight a'. */
#include <string.h>

#include "kernels/cuda/cuda.h"

struct matmul_desc {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t weight, a, c, out;
};

static cudaDataType_t data_type(zest_compute compute) {
    return compute == ZEST_COMPUTE_F32 ? CUDA_R_32F : compute == ZEST_COMPUTE_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static zest_compute operand_type(const zest_cuda *cuda, const zest_gemm *gemm) {
    return gemm->split ? ZEST_COMPUTE_BF16 : cuda->base.compute;
}

static cublasLtEpilogue_t epilogue_of(const zest_gemm *gemm) {
    if (gemm->activation == ZEST_ACT_RELU)
        return gemm->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    if (gemm->activation == ZEST_ACT_GELU_TANH)
        return gemm->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return gemm->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static int set_layout(zest_cublas *c, cublasLtMatrixLayoutOpaque_t *layout, cudaDataType_t type,
                      uint64_t rows, uint64_t columns, int64_t stride, int batch, int64_t lane) {
    return c->layout_init(layout, sizeof *layout, type, rows, columns, stride) ||
           (batch > 1 &&
            (c->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch) ||
             c->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &lane, sizeof lane)));
}

static int describe(zest_cuda *cuda, const zest_gemm *gemm, matmul_desc *p) {
    zest_cublas *c = &cuda->cublas;
    cudaDataType_t type = data_type(operand_type(cuda, gemm)), out = gemm->fp32_output ? CUDA_R_32F : type;
    cublasOperation_t transpose = CUBLAS_OP_T, no_transpose = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(gemm);
    int bad = c->desc_init(&p->desc, sizeof p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
              c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_TRANSA,
                          gemm->transposed ? &no_transpose : &transpose, sizeof transpose) ||
              c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_TRANSB,
                          gemm->a_transposed ? &transpose : &no_transpose, sizeof transpose) ||
              c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!bad && gemm->bias)
        bad = c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &gemm->bias, sizeof gemm->bias) ||
              c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &out, sizeof out) ||
              (gemm->batch > 1 && c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE,
                                              &gemm->bias_lane, sizeof gemm->bias_lane));
    uint64_t first = gemm->transposed ? gemm->outputs : gemm->inputs,
             second = gemm->transposed ? gemm->inputs : gemm->outputs;
    size_t c_stride = gemm->residual ? gemm->residual_stride : gemm->out_stride;
    bad = bad ||
          set_layout(c, &p->weight, type, first, second, (int64_t)first, gemm->batch, gemm->weight_lane) ||
          set_layout(c, &p->a, type, gemm->a_transposed ? gemm->rows : gemm->inputs,
                     gemm->a_transposed ? gemm->inputs : gemm->rows, (int64_t)gemm->a_stride, gemm->batch,
                     gemm->a_lane) ||
          set_layout(c, &p->c, out, gemm->outputs, gemm->rows, (int64_t)c_stride, gemm->batch,
                     gemm->residual ? gemm->residual_lane : gemm->out_lane) ||
          set_layout(c, &p->out, out, gemm->outputs, gemm->rows, (int64_t)gemm->out_stride, gemm->batch,
                     gemm->out_lane);
    if (bad)
        (void)zest_cuda_cublas_failed(cuda, CUBLAS_STATUS_INVALID_VALUE, "describing a GEMM to cuBLASLt");
    return bad;
}

/* The largest power of two, 256 at most, that divides an address and the steps to the next row and lane. */
static uint32_t alignment(const void *data, size_t stride, int64_t lane, size_t size) {
    uintptr_t bits = (uintptr_t)data | (uintptr_t)(stride * size) | (uintptr_t)(lane * (int64_t)size) | 256;
    return (uint32_t)(bits & (~bits + 1));
}

/* ---- Algorithms ---- */

struct operand_alignment {
    uint32_t bytes[4]; /* weight, a, residual, out */
};

static operand_alignment alignment_of(const zest_cuda *cuda, const zest_gemm *gemm) {
    size_t size = zest_cuda_element_size(operand_type(cuda, gemm)), wide = gemm->fp32_output ? 4 : size;
    return {
        {alignment(gemm->weight, gemm->transposed ? gemm->outputs : gemm->inputs, gemm->weight_lane, size),
         alignment(gemm->a, gemm->a_stride, gemm->a_lane, size),
         alignment(gemm->residual ? gemm->residual : gemm->out,
                   gemm->residual ? gemm->residual_stride : gemm->out_stride,
                   gemm->residual ? gemm->residual_lane : gemm->out_lane, wide),
         alignment(gemm->out, gemm->out_stride, gemm->out_lane, wide)}};
}

/* The number of algorithms found, -1 on error. */
static int get_heuristics(zest_cuda *cuda, const operand_alignment *align, matmul_desc *p,
                          cublasLtMatmulHeuristicResult_t *results, int most) {
    static const cublasLtMatmulPreferenceAttributes_t names[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    zest_cublas *c = &cuda->cublas;
    cublasLtMatmulPreferenceOpaque_t preference;
    size_t workspace = ZEST_CUDA_CUBLAS_WORKSPACE;
    int found = 0;
    int bad = c->preference_init(&preference, sizeof preference) ||
              c->preference_set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                sizeof workspace);
    for (int i = 0; i < 4 && !bad; i++)
        bad = c->preference_set(&preference, names[i], &align->bytes[i], sizeof align->bytes[i]);
    if (bad) return zest_cuda_cublas_failed(cuda, CUBLAS_STATUS_INVALID_VALUE, "setting GEMM preferences");
    cublasStatus_t status = c->heuristic(c->handle, &p->desc, &p->weight, &p->a, &p->c, &p->out, &preference,
                                         most, results, &found);
    return status == CUBLAS_STATUS_SUCCESS ? found : 0;
}

static int find_algorithm(zest_cuda *cuda, const zest_gemm *gemm, matmul_desc *p, zest_gemm_plan *plan) {
    cublasLtMatmulHeuristicResult_t result;
    const operand_alignment align = alignment_of(cuda, gemm);
    int found = get_heuristics(cuda, &align, p, &result, 1);
    plan->found = found > 0;
    if (plan->found) plan->algorithm = result.algo;
    plan->rows = gemm->rows, plan->inputs = gemm->inputs;
    return found < 0;
}

/* Whether an algorithm that was found for similar sizes works for these. Asked once per batch: the layers of
 * a model have the same sizes. */
static int is_still_valid(zest_cuda *cuda, const zest_gemm *gemm, matmul_desc *p, zest_gemm_plan *plan) {
    const zest_cublas *c = &cuda->cublas;
    cublasLtMatmulHeuristicResult_t result = {};
    if (plan->rows == gemm->rows && plan->inputs == gemm->inputs) return 1;
    if (c->check(c->handle, &p->desc, &p->weight, &p->a, &p->c, &p->out, &plan->algorithm, &result) ||
        result.state || result.workspaceSize > cuda->workspace.size)
        return 0;
    plan->rows = gemm->rows, plan->inputs = gemm->inputs;
    return 1;
}

static cublasStatus_t run_matmul(zest_cuda *cuda, const zest_gemm *gemm, matmul_desc *p,
                                 const cublasLtMatmulAlgo_t *algorithm) {
    const float one = 1, beta = gemm->residual ? 1.0f : 0.0f;
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_GEMM);
    return cuda->cublas.matmul(cuda->cublas.handle, &p->desc, &one, gemm->weight, &p->weight, gemm->a, &p->a,
                               &beta, gemm->residual ? gemm->residual : gemm->out, &p->c, gemm->out, &p->out,
                               algorithm, cuda->workspace.data, cuda->workspace.size, cuda->stream);
}

/* Whether a kernel must follow cuBLASLt: for a norm, or for an activation that it does not have (its GELU is
 * the tanh form). */
static int needs_epilogue(const zest_gemm *gemm) {
    const zest_activation act = gemm->activation;
    return gemm->norm.enabled || (act != ZEST_ACT_NONE && act != ZEST_ACT_RELU && act != ZEST_ACT_GELU_TANH);
}

static int run_epilogue(zest_cuda *cuda, const zest_gemm *gemm) {
    if (!needs_epilogue(gemm)) return 0;
    return gemm->norm.enabled ? zest_cuda_norm_after_gemm(cuda, gemm)
                              : zest_cuda_epilogue(cuda, gemm, NULL, gemm->activation, NULL);
}

/* ---- The rule ---- */

/* Which backend, by the sizes of a lane's GEMM. On an H200 our kernel won where cuBLASLt needs a further kernel
 * (RoBERTa-base 128 x 128: 0.0488 s a step, 0.0549 with cuBLASLt alone), and by 3 to 9 % where the inputs are few
 * and the epilogue is much of the work (768 inputs). OPT-1.3B with 2048 and 8192 inputs was faster with cuBLASLt.
 * A tile has 128 rows; of fewer, most of it would be padding. */
enum { SM90_MIN_ROWS = 128, SM90_MAX_INPUTS = 1024 };

static int prefers_sm90(const zest_cuda *cuda, const zest_gemm *gemm) {
    if (cuda->settings.gemm != ZEST_CUDA_GEMM_AUTO) return cuda->settings.gemm == ZEST_CUDA_GEMM_SM90;
    return gemm->rows >= SM90_MIN_ROWS && (needs_epilogue(gemm) || gemm->inputs <= SM90_MAX_INPUTS);
}

/* ---- Autotuning (ZEST_CUDA_TUNE=on) ---- */

enum { CANDIDATES = 10, TIMED_RUNS = 2, ROUNDS = 4 };
static const double FAILED = 1e9;  /* seconds of what does not run */
static const double MARGIN = 0.98; /* a faster one must gain that much, so that chance does not decide */

/* Mean seconds of an attempt, after one to warm up. */
template <class F> static double seconds_of(zest_cuda *cuda, const cudaEvent_t events[2], F attempt) {
    float milliseconds = 0;
    if (attempt() || cudaEventRecord(events[0], cuda->stream)) return FAILED;
    for (int i = 0; i < TIMED_RUNS; i++)
        if (attempt()) return FAILED;
    if (cudaEventRecord(events[1], cuda->stream) || cudaEventSynchronize(events[1]) ||
        cudaEventElapsedTime(&milliseconds, events[0], events[1]))
        return FAILED;
    return 1e-3 * (double)milliseconds / TIMED_RUNS;
}

/* A kernel that cannot be launched is no candidate, and no error. */
static int try_sm90(zest_cuda *cuda, const zest_gemm *gemm) {
    const zest_error before = cuda->base.error;
    int result = zest_cuda_gemm_sm90(cuda, gemm);
    if (result < 0) {
        cuda->base.error = before;
        (void)cudaGetLastError();
    }
    return result;
}

/* The best of cuBLASLt, then our kernel against it in alternation: under load the GPU lowers its clock until
 * it stays within its power, so the one that is timed first would win. Where cuBLASLt needs no further
 * kernel, ours must be faster by MARGIN: within a step it loses some of its lead, probably because it
 * occupies every multiprocessor to its end, and the prefetch stream finds none. */
static void choose_fastest(zest_cuda *cuda, const zest_gemm *gemm, matmul_desc *p,
                           const cudaEvent_t events[2], zest_gemm_plan *plan) {
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    const operand_alignment align = alignment_of(cuda, gemm);
    const int count = get_heuristics(cuda, &align, p, results, CANDIDATES);
    auto time_cublas = [&](const cublasLtMatmulAlgo_t *algorithm) {
        return seconds_of(cuda, events,
                          [&] { return run_matmul(cuda, gemm, p, algorithm) || run_epilogue(cuda, gemm); });
    };
    double best = FAILED;
    for (int i = 0; i < count; i++) {
        const double seconds = time_cublas(&results[i].algo);
        if (seconds > MARGIN * best) continue;
        best = seconds;
        plan->algorithm = results[i].algo;
    }
    if (cuda->settings.gemm != ZEST_CUDA_GEMM_AUTO) return;
    double sm90_seconds = 0, cublas_seconds = 0;
    for (int i = 0; i < ROUNDS && sm90_seconds < FAILED; i++) {
        sm90_seconds += seconds_of(cuda, events, [&] { return try_sm90(cuda, gemm); });
        cublas_seconds += best < FAILED ? time_cublas(&plan->algorithm) : FAILED;
    }
    plan->use_sm90 = sm90_seconds < (needs_epilogue(gemm) ? 1 : MARGIN) * cublas_seconds;
}

/* Runs the GEMM some times more. That changes nothing, unless the residual is overwritten by the result: then
 * the trials write to another buffer. */
static void autotune(zest_cuda *cuda, const zest_gemm *gemm, zest_gemm_plan *plan) {
    const zest_device_table *table = cuda->base.operations->device;
    size_t size = gemm->fp32_output ? 4 : cuda->base.element_size;
    size_t bytes =
        ((size_t)(gemm->batch - 1) * (size_t)gemm->out_lane + gemm->rows * gemm->out_stride) * size;
    int in_place = gemm->residual == gemm->out;
    zest_gemm trial = *gemm;
    matmul_desc p;
    cudaEvent_t events[2] = {};
    if (in_place && bytes > table->available(&cuda->base)) return;
    const zest_error before = cuda->base.error;
    if (in_place && !(trial.out = table->allocate(&cuda->base, bytes)))
        cuda->base.error = before; /* then it is not tuned, which is no error */
    if (trial.out && !describe(cuda, &trial, &p) && cudaEventCreate(&events[0]) == cudaSuccess &&
        cudaEventCreate(&events[1]) == cudaSuccess)
        choose_fastest(cuda, &trial, &p, events, plan);
    for (int i = 0; i < 2; i++)
        if (events[i]) (void)cudaEventDestroy(events[i]);
    if (in_place) table->release(&cuda->base, trial.out);
}

static int should_autotune(const zest_cuda *cuda, const zest_gemm *gemm) {
    return cuda->settings.autotune && !cuda->profiling &&
           2.0 * (double)gemm->rows * (double)gemm->inputs * (double)gemm->outputs * gemm->batch > 1e7;
}

/* ---- Plans ---- */

/* Batches of similar size share a plan: the number of rows is rounded up to five significant bits. */
static uint64_t bucket(uint64_t rows) {
    int shift = 0;
    while (rows >> shift > 31) shift++;
    return (rows + ((uint64_t)1 << shift) - 1) >> shift << shift;
}

/* The algorithm is looked for with the sizes of the bucket, whichever GEMM of the bucket comes first: it may be
 * another one in a run that is resumed. The tokens of a batch are the rows, or, in gradients of weights, the
 * inputs. */
static int plan_bucket(zest_cuda *cuda, const zest_gemm *gemm, zest_gemm_plan *plan) {
    zest_gemm representative = *gemm;
    matmul_desc p;
    representative.rows = (size_t)bucket(gemm->rows);
    if (gemm->a_transposed) representative.inputs = (size_t)bucket(gemm->inputs);
    plan->use_sm90 = prefers_sm90(cuda, &representative);
    return describe(cuda, &representative, &p) || find_algorithm(cuda, &representative, &p, plan);
}

static zest_gemm_plan *plan_for(zest_cuda *cuda, const zest_gemm *gemm) {
    const operand_alignment aligned = alignment_of(cuda, gemm);
    const uint32_t *align = aligned.bytes;
    const uint64_t key[8] = {bucket(gemm->rows) + 1,
                             gemm->a_transposed ? bucket(gemm->inputs) : gemm->inputs,
                             gemm->outputs,
                             gemm->a_stride << 32 | gemm->out_stride,
                             (uint64_t)align[0] << 48 | (uint64_t)align[1] << 32 | (uint64_t)align[2] << 16 |
                                 align[3],
                             (uint64_t)gemm->batch << 8 | (uint64_t)gemm->norm.enabled << 7 |
                                 (uint64_t)(gemm->a_transposed != 0) << 5 | (uint64_t)gemm->transposed << 4 |
                                 (uint64_t)gemm->fp32_output << 3 | (uint64_t)(gemm->weight_lane == 0) << 2 |
                                 (uint64_t)(gemm->residual != NULL) << 1 | (uint64_t)(gemm->split != 0),
                             (uint64_t)gemm->activation << 1 | (uint64_t)(gemm->bias != NULL),
                             gemm->residual_stride};
    for (size_t i = 0; i < ZEST_GEMM_PLANS; i++)
        if (!memcmp(cuda->plans[i].key, key, sizeof key)) return &cuda->plans[i];
    zest_gemm_plan *plan = &cuda->plans[cuda->plan_next++ % ZEST_GEMM_PLANS];
    memset(plan, 0, sizeof *plan);
    if (plan_bucket(cuda, gemm, plan)) return NULL;
    memcpy(plan->key, key, sizeof key);
    return plan;
}

static int is_refused(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

static int gemm_cublas(zest_cuda *cuda, const zest_gemm *gemm, zest_gemm_plan *plan) {
    matmul_desc p;
    if (!plan->found) return 1;
    if (describe(cuda, gemm, &p)) return -1;
    cublasStatus_t status = is_still_valid(cuda, gemm, &p, plan)
                                ? run_matmul(cuda, gemm, &p, &plan->algorithm)
                                : CUBLAS_STATUS_NOT_SUPPORTED;
    if (is_refused(status)) { /* not for this number of rows: by its own sizes, and the plan stays as it is */
        zest_gemm_plan fresh = *plan;
        if (find_algorithm(cuda, gemm, &p, &fresh)) return -1;
        if (fresh.found) status = run_matmul(cuda, gemm, &p, &fresh.algorithm);
        fresh.found = fresh.found && !is_refused(status);
        if (!fresh.found) return 1;
    }
    return zest_cuda_cublas_failed(cuda, status, "computing a GEMM") || run_epilogue(cuda, gemm) ? -1 : 0;
}

int zest_cuda_gemm_select(zest_cuda *cuda, const zest_gemm *gemm) {
    zest_gemm_plan *plan = plan_for(cuda, gemm);
    if (!plan) return -1;
    if (++plan->uses == 2 && should_autotune(cuda, gemm)) autotune(cuda, gemm, plan);
    int result = plan->use_sm90 ? zest_cuda_gemm_sm90(cuda, gemm) : 1;
    return result == 1 ? gemm_cublas(cuda, gemm, plan) : result;
}
