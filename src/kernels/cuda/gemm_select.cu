/* How a product is done: by which of cuBLASLt's algorithms, or by the kernel of gemm_sm90.cuh. cuBLASLt's
 * heuristic proposes some; a product that comes again is timed with each of them and with ours. */
#include <string.h>

#include "kernels/cuda/cuda.h"

struct product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t weight, a, c, out;
};

static cudaDataType_t type_of(zest_compute compute) {
    return compute == ZEST_COMPUTE_F32 ? CUDA_R_32F : compute == ZEST_COMPUTE_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static zest_compute operands_of(const zest_cuda *cuda, const zest_gemm *job) {
    return job->split ? ZEST_COMPUTE_BF16 : cuda->base.compute;
}

static cublasLtEpilogue_t epilogue_of(const zest_gemm *job) {
    if (job->activation == ZEST_ACT_RELU)
        return job->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    if (job->activation == ZEST_ACT_GELU_TANH)
        return job->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return job->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static int lay_out(zest_cublas *c, cublasLtMatrixLayoutOpaque_t *layout, cudaDataType_t type, uint64_t rows,
                   uint64_t columns, int64_t stride, int batch, int64_t lane) {
    return c->layout_init(layout, sizeof *layout, type, rows, columns, stride) ||
           (batch > 1 &&
            (c->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch) ||
             c->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &lane, sizeof lane)));
}

static int describe(zest_cuda *cuda, const zest_gemm *job, product *p) {
    zest_cublas *c = &cuda->cublas;
    cudaDataType_t type = type_of(operands_of(cuda, job)), out = job->fp32_output ? CUDA_R_32F : type;
    cublasOperation_t turned = CUBLAS_OP_T, straight = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(job);
    int bad = c->desc_init(&p->desc, sizeof p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
              c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_TRANSA, job->transposed ? &straight : &turned,
                          sizeof turned) ||
              c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_TRANSB, job->a_transposed ? &turned : &straight,
                          sizeof turned) ||
              c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!bad && job->bias)
        bad = c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &job->bias, sizeof job->bias) ||
              c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &out, sizeof out) ||
              (job->batch > 1 && c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE,
                                             &job->bias_lane, sizeof job->bias_lane));
    uint64_t first = job->transposed ? job->outputs : job->inputs,
             second = job->transposed ? job->inputs : job->outputs;
    size_t c_stride = job->residual ? job->residual_stride : job->out_stride;
    bad = bad || lay_out(c, &p->weight, type, first, second, (int64_t)first, job->batch, job->weight_lane) ||
          lay_out(c, &p->a, type, job->a_transposed ? job->rows : job->inputs,
                  job->a_transposed ? job->inputs : job->rows, (int64_t)job->a_stride, job->batch,
                  job->a_lane) ||
          lay_out(c, &p->c, out, job->outputs, job->rows, (int64_t)c_stride, job->batch,
                  job->residual ? job->residual_lane : job->out_lane) ||
          lay_out(c, &p->out, out, job->outputs, job->rows, (int64_t)job->out_stride, job->batch,
                  job->out_lane);
    if (bad)
        (void)zest_cuda_cublas_failed(cuda, CUBLAS_STATUS_INVALID_VALUE, "describing a GEMM to cuBLASLt");
    return bad;
}

/* The largest power of two, 256 at most, that divides an address and the steps to the next row and lane. */
static uint32_t alignment(const void *data, size_t stride, int64_t lane, size_t size) {
    uintptr_t bits = (uintptr_t)data | (uintptr_t)(stride * size) | (uintptr_t)(lane * (int64_t)size) | 256;
    return (uint32_t)(bits & (~bits + 1));
}

/* ---- Proposals ---- */

struct operand_alignment {
    uint32_t bytes[4]; /* weight, a, residual, out */
};

static operand_alignment alignment_of(const zest_cuda *cuda, const zest_gemm *job) {
    size_t size = zest_cuda_size(operands_of(cuda, job)), wide = job->fp32_output ? 4 : size;
    return {{alignment(job->weight, job->transposed ? job->outputs : job->inputs, job->weight_lane, size),
             alignment(job->a, job->a_stride, job->a_lane, size),
             alignment(job->residual ? job->residual : job->out,
                       job->residual ? job->residual_stride : job->out_stride,
                       job->residual ? job->residual_lane : job->out_lane, wide),
             alignment(job->out, job->out_stride, job->out_lane, wide)}};
}

/* How many were found, -1 on error. */
static int propose(zest_cuda *cuda, const operand_alignment *align, product *p,
                   cublasLtMatmulHeuristicResult_t *results, int most) {
    static const cublasLtMatmulPreferenceAttributes_t names[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    zest_cublas *c = &cuda->cublas;
    cublasLtMatmulPreferenceOpaque_t preference;
    size_t workspace = ZEST_CUDA_WORKSPACE;
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

static int search(zest_cuda *cuda, const zest_gemm *job, product *p, zest_gemm_plan *plan) {
    cublasLtMatmulHeuristicResult_t result;
    const operand_alignment align = alignment_of(cuda, job);
    int found = propose(cuda, &align, p, &result, 1);
    plan->found = found > 0;
    if (plan->found) plan->algorithm = result.algo;
    plan->rows = job->rows, plan->inputs = job->inputs;
    return found < 0;
}

/* An algorithm that was found for about the same sizes is asked whether it does these, once for all products
 * of a batch: a layer's products follow on those of the layer before. */
static int is_good(zest_cuda *cuda, const zest_gemm *job, product *p, zest_gemm_plan *plan) {
    const zest_cublas *c = &cuda->cublas;
    cublasLtMatmulHeuristicResult_t result = {};
    if (plan->rows == job->rows && plan->inputs == job->inputs) return 1;
    if (c->check(c->handle, &p->desc, &p->weight, &p->a, &p->c, &p->out, &plan->algorithm, &result) ||
        result.state || result.workspaceSize > cuda->workspace.size)
        return 0;
    plan->rows = job->rows, plan->inputs = job->inputs;
    return 1;
}

static cublasStatus_t run(zest_cuda *cuda, const zest_gemm *job, product *p,
                          const cublasLtMatmulAlgo_t *algorithm) {
    const float one = 1, beta = job->residual ? 1.0f : 0.0f;
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_GEMM);
    return cuda->cublas.matmul(cuda->cublas.handle, &p->desc, &one, job->weight, &p->weight, job->a, &p->a,
                               &beta, job->residual ? job->residual : job->out, &p->c, job->out, &p->out,
                               algorithm, cuda->workspace.data, cuda->workspace.size, cuda->stream);
}

/* Whether something is left to do: a norm, or an activation that cuBLASLt does not have (its GELU is the tanh
 * form). */
static int finishes(const zest_gemm *job) {
    return job->norm.there || job->activation == ZEST_ACT_GELU || job->activation == ZEST_ACT_SILU;
}

static int finish(zest_cuda *cuda, const zest_gemm *job) {
    if (!finishes(job)) return 0;
    return job->norm.there ? zest_cuda_norm_result(cuda, job)
                           : zest_cuda_finish(cuda, job, NULL, job->activation, NULL);
}

/* ---- The fastest ---- */

enum { CANDIDATES = 10, RUNS = 2, TURNS = 4 };
static const double NEVER = 1e9;   /* seconds: it does not work */
static const double ENOUGH = 0.98; /* of the best time before: not by chance */

/* Seconds of one attempt. */
template <class F> static double time_one(zest_cuda *cuda, const cudaEvent_t clock[2], F attempt) {
    float milliseconds = 0;
    if (attempt() || cudaEventRecord(clock[0], cuda->stream)) return NEVER;
    for (int i = 0; i < RUNS; i++)
        if (attempt()) return NEVER;
    if (cudaEventRecord(clock[1], cuda->stream) || cudaEventSynchronize(clock[1]) ||
        cudaEventElapsedTime(&milliseconds, clock[0], clock[1]))
        return NEVER;
    return 1e-3 * (double)milliseconds / RUNS;
}

/* A kernel that cannot be launched here is no candidate, and no problem. */
static int try_own(zest_cuda *cuda, const zest_gemm *job) {
    const zest_error before = cuda->base.error;
    int result = zest_cuda_multiply_hopper(cuda, job);
    if (result < 0) {
        cuda->base.error = before;
        (void)cudaGetLastError();
    }
    return result;
}

/* The best of theirs, then ours against it in turns: the GPU becomes slower the longer it multiplies, until
 * it needs no more than its power, so what is timed first would win. Where theirs leave nothing to be
 * finished ours has to gain enough: in a step it loses some of that again, probably because it holds every
 * processor to its end, while the next weights are to be made beside it. */
static void choose(zest_cuda *cuda, const zest_gemm *job, product *p, const cudaEvent_t clock[2],
                   zest_gemm_plan *plan) {
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    const operand_alignment align = alignment_of(cuda, job);
    const int count = propose(cuda, &align, p, results, CANDIDATES);
    auto time_theirs = [&](const cublasLtMatmulAlgo_t *algorithm) {
        return time_one(cuda, clock, [&] { return run(cuda, job, p, algorithm) || finish(cuda, job); });
    };
    double best = NEVER;
    for (int i = 0; i < count; i++) {
        const double seconds = time_theirs(&results[i].algo);
        if (seconds > ENOUGH * best) continue;
        best = seconds;
        plan->algorithm = results[i].algo;
    }
    if (cuda->settings.gemm != ZEST_CUDA_GEMM_AUTO) return;
    double own = 0, theirs = 0;
    for (int i = 0; i < TURNS && own < NEVER; i++) {
        own += time_one(cuda, clock, [&] { return try_own(cuda, job); });
        theirs += best < NEVER ? time_theirs(&plan->algorithm) : NEVER;
    }
    plan->own = own < (finishes(job) ? 1 : ENOUGH) * theirs;
}

/* Runs the product some times more than asked for, which changes nothing unless the residual is where the
 * result goes: then the result goes elsewhere. */
static void tune(zest_cuda *cuda, const zest_gemm *job, zest_gemm_plan *plan) {
    const zest_device_table *table = cuda->base.operations->device;
    size_t size = job->fp32_output ? 4 : cuda->base.element_size;
    size_t bytes = ((size_t)(job->batch - 1) * (size_t)job->out_lane + job->rows * job->out_stride) * size;
    int in_place = job->residual == job->out;
    zest_gemm trial = *job;
    product p;
    cudaEvent_t clock[2] = {};
    if (in_place && bytes > table->available(&cuda->base)) return;
    if (in_place) trial.out = table->allocate(&cuda->base, bytes);
    if (trial.out && !describe(cuda, &trial, &p) && cudaEventCreate(&clock[0]) == cudaSuccess &&
        cudaEventCreate(&clock[1]) == cudaSuccess)
        choose(cuda, &trial, &p, clock, plan);
    for (int i = 0; i < 2; i++)
        if (clock[i]) (void)cudaEventDestroy(clock[i]);
    if (in_place) table->release(&cuda->base, trial.out);
}

static int worth_it(const zest_cuda *cuda, const zest_gemm *job) {
    return cuda->settings.autotune && !cuda->watching && !job->deterministic &&
           2.0 * (double)job->rows * (double)job->inputs * (double)job->outputs * job->batch > 1e7;
}

/* ---- Plans ---- */

/* Batches of about the same size share a plan: five bits of the number of rows. */
static uint64_t about(uint64_t rows) {
    int shift = 0;
    while (rows >> shift > 31) shift++;
    return (rows + ((uint64_t)1 << shift) - 1) >> shift << shift;
}

/* A product whose algorithm follows from its sizes: it is looked for with the sizes that share it, whichever
 * comes first. The tokens of the batch are the rows, or what gradients of weights sum over. */
static int search_deterministic(zest_cuda *cuda, const zest_gemm *job, zest_gemm_plan *plan) {
    zest_gemm like = *job;
    product p;
    like.rows = (size_t)about(job->rows);
    if (job->a_transposed) like.inputs = (size_t)about(job->inputs);
    return describe(cuda, &like, &p) || search(cuda, &like, &p, plan);
}

static zest_gemm_plan *plan_for(zest_cuda *cuda, const zest_gemm *job) {
    const operand_alignment aligned = alignment_of(cuda, job);
    const uint32_t *align = aligned.bytes;
    const uint64_t key[8] = {about(job->rows) + 1,
                             job->a_transposed ? about(job->inputs) : job->inputs,
                             job->outputs,
                             job->a_stride << 32 | job->out_stride,
                             (uint64_t)align[0] << 48 | (uint64_t)align[1] << 32 | (uint64_t)align[2] << 16 |
                                 align[3],
                             (uint64_t)job->batch << 8 | (uint64_t)job->norm.there << 7 |
                                 (uint64_t)(job->deterministic != 0) << 6 |
                                 (uint64_t)(job->a_transposed != 0) << 5 | (uint64_t)job->transposed << 4 |
                                 (uint64_t)job->fp32_output << 3 | (uint64_t)(job->weight_lane == 0) << 2 |
                                 (uint64_t)(job->residual != NULL) << 1 | (uint64_t)(job->split != 0),
                             (uint64_t)job->activation << 1 | (uint64_t)(job->bias != NULL),
                             job->residual_stride};
    for (size_t i = 0; i < ZEST_GEMM_PLANS; i++)
        if (!memcmp(cuda->plans[i].key, key, sizeof key)) return &cuda->plans[i];
    zest_gemm_plan *plan = &cuda->plans[cuda->plan_next++ % ZEST_GEMM_PLANS];
    product p;
    memset(plan, 0, sizeof *plan);
    if (job->deterministic ? search_deterministic(cuda, job, plan)
                           : describe(cuda, job, &p) || search(cuda, job, &p, plan))
        return NULL;
    plan->own = cuda->settings.gemm == ZEST_CUDA_GEMM_SM90;
    memcpy(plan->key, key, sizeof key);
    return plan;
}

static int refused(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

static int multiply_cublas(zest_cuda *cuda, const zest_gemm *job, zest_gemm_plan *plan) {
    product p;
    if (!plan->found) return 1;
    if (describe(cuda, job, &p)) return -1;
    cublasStatus_t status =
        is_good(cuda, job, &p, plan) ? run(cuda, job, &p, &plan->algorithm) : CUBLAS_STATUS_NOT_SUPPORTED;
    if (refused(status)) { /* the plan was for another number of rows */
        zest_gemm_plan own = *plan;
        if (search(cuda, job, &p, &own)) return -1;
        if (own.found) status = run(cuda, job, &p, &own.algorithm);
        own.found = own.found && !refused(status);
        if (!job->deterministic) *plan = own;
        if (!own.found) return 1;
    }
    return zest_cuda_cublas_failed(cuda, status, "computing a GEMM") || finish(cuda, job) ? -1 : 0;
}

int zest_cuda_multiply(zest_cuda *cuda, const zest_gemm *job) {
    zest_gemm_plan *plan = plan_for(cuda, job);
    if (!plan) return -1;
    if (++plan->uses == 2 && worth_it(cuda, job)) tune(cuda, job, plan);
    int result = plan->own ? zest_cuda_multiply_hopper(cuda, job) : 1;
    return result == 1 ? multiply_cublas(cuda, job, plan) : result;
}
