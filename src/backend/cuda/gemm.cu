/* Matrix products by cuBLASLt. Row-major operands are handed over as their transposes: out' = W a'. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cells.cuh"

enum { WORKSPACE = 64 << 20 };

/* ---- The library ---- */

static void *open_library(void) {
    char same[64];
    snprintf(same, sizeof same, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
    const char *names[] = {getenv("ZEST_CUBLASLT"), same, "libcublasLt.so",
                           "/usr/local/cuda/lib64/libcublasLt.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = names[i] && *names[i] ? dlopen(names[i], RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library) return library;
    }
    return NULL;
}

template <class F> static int find(void *library, const char *name, F *function) {
    *(void **)function = dlsym(library, name);
    return *function != NULL;
}

static int find_all(zest_cublas *c) {
    return find(c->library, "cublasLtCreate", &c->create) &&
           find(c->library, "cublasLtDestroy", &c->destroy) &&
           find(c->library, "cublasLtMatmul", &c->matmul) &&
           find(c->library, "cublasLtMatmulAlgoGetHeuristic", &c->heuristic) &&
           find(c->library, "cublasLtMatmulDescInit_internal", &c->desc_init) &&
           find(c->library, "cublasLtMatmulDescSetAttribute", &c->desc_set) &&
           find(c->library, "cublasLtMatrixLayoutInit_internal", &c->layout_init) &&
           find(c->library, "cublasLtMatrixLayoutSetAttribute", &c->layout_set) &&
           find(c->library, "cublasLtMatmulPreferenceInit_internal", &c->preference_init) &&
           find(c->library, "cublasLtMatmulPreferenceSetAttribute", &c->preference_set) &&
           find(c->library, "cublasLtGetStatusString", &c->status);
}

static int wrong(zest_cuda *cuda, cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return 0;
    if (!cuda->base.problem[0])
        snprintf(cuda->base.problem, sizeof cuda->base.problem, "cuBLASLt failed at %s: %s", what,
                 cuda->cublas.status(status));
    return -1;
}

zest_status zest_cuda_cublas_open(zest_cuda *cuda, zest_error *error) {
    zest_cublas *c = &cuda->cublas;
    c->library = open_library();
    if (!c->library)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "libcublasLt.so.%d was not found: install cuBLAS, add its folder to "
                              "LD_LIBRARY_PATH, or name the file in ZEST_CUBLASLT",
                              CUBLAS_VER_MAJOR);
    if (!find_all(c))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "libcublasLt lacks a function that zest needs: use "
                              "cuBLAS %d",
                              CUBLAS_VER_MAJOR);
    cuda->plans = (zest_gemm_plan *)calloc(ZEST_GEMM_PLANS, sizeof *cuda->plans);
    if (!cuda->plans)
        return zest_error_memory(error, "plans of products", ZEST_GEMM_PLANS * sizeof *cuda->plans);
    if (wrong(cuda, c->create(&c->handle), "its start") ||
        zest_cuda_reserve(cuda, &cuda->workspace, WORKSPACE))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s", cuda->base.problem);
    return ZEST_OK;
}

void zest_cuda_cublas_close(zest_cuda *cuda) {
    zest_cublas *c = &cuda->cublas;
    if (c->handle) (void)c->destroy(c->handle);
    if (c->library) (void)dlclose(c->library);
}

/* ---- One product ---- */

struct product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t weight, a, c, out;
};

static cudaDataType_t type_of(zest_compute compute) {
    return compute == ZEST_COMPUTE_F32 ? CUDA_R_32F : compute == ZEST_COMPUTE_BF16 ? CUDA_R_16BF : CUDA_R_16F;
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
    cudaDataType_t type = type_of(cuda->base.compute), out = job->wide ? CUDA_R_32F : type;
    cublasOperation_t turned = CUBLAS_OP_T, straight = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(job);
    int bad = c->desc_init(&p->desc, sizeof p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
              c->desc_set(&p->desc, CUBLASLT_MATMUL_DESC_TRANSA, job->transposed ? &straight : &turned,
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
          lay_out(c, &p->a, type, job->inputs, job->rows, (int64_t)job->a_stride, job->batch, job->a_lane) ||
          lay_out(c, &p->c, out, job->outputs, job->rows, (int64_t)c_stride, job->batch,
                  job->residual ? job->residual_lane : job->out_lane) ||
          lay_out(c, &p->out, out, job->outputs, job->rows, (int64_t)job->out_stride, job->batch,
                  job->out_lane);
    if (bad) (void)wrong(cuda, CUBLAS_STATUS_INVALID_VALUE, "describing a product");
    return bad;
}

/* The largest power of two, 256 at most, that divides an address and the steps to the next row and lane. */
static uint32_t alignment(const void *data, size_t stride, int64_t lane, size_t size) {
    uintptr_t bits = (uintptr_t)data | (uintptr_t)(stride * size) | (uintptr_t)(lane * (int64_t)size) | 256;
    return (uint32_t)(bits & (~bits + 1));
}

static int search(zest_cuda *cuda, const zest_gemm *job, const uint32_t align[4], product *p,
                  zest_gemm_plan *plan) {
    static const cublasLtMatmulPreferenceAttributes_t names[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    zest_cublas *c = &cuda->cublas;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t result;
    size_t workspace = WORKSPACE;
    int found = 0;
    (void)job;
    int bad = c->preference_init(&preference, sizeof preference) ||
              c->preference_set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                sizeof workspace);
    for (int i = 0; i < 4 && !bad; i++)
        bad = c->preference_set(&preference, names[i], &align[i], sizeof align[i]);
    if (bad) return wrong(cuda, CUBLAS_STATUS_INVALID_VALUE, "stating preferences");
    cublasStatus_t status =
        c->heuristic(c->handle, &p->desc, &p->weight, &p->a, &p->c, &p->out, &preference, 1, &result, &found);
    plan->found = status == CUBLAS_STATUS_SUCCESS && found > 0;
    if (plan->found) plan->algorithm = result.algo;
    return 0;
}

/* The algorithm for products like this one: found once, then kept. */
static zest_gemm_plan *plan_for(zest_cuda *cuda, const zest_gemm *job, product *p) {
    size_t size = zest_cuda_size(cuda->base.compute), wide = job->wide ? 4 : size;
    const uint32_t align[4] = {
        alignment(job->weight, job->transposed ? job->outputs : job->inputs, job->weight_lane, size),
        alignment(job->a, job->a_stride, job->a_lane, size),
        alignment(job->residual ? job->residual : job->out,
                  job->residual ? job->residual_stride : job->out_stride,
                  job->residual ? job->residual_lane : job->out_lane, wide),
        alignment(job->out, job->out_stride, job->out_lane, wide)};
    const uint64_t key[8] = {
        job->rows + 1,
        job->inputs,
        job->outputs,
        job->a_stride << 32 | job->out_stride,
        (uint64_t)align[0] << 48 | (uint64_t)align[1] << 32 | (uint64_t)align[2] << 16 | align[3],
        (uint64_t)job->batch << 8 | (uint64_t)job->transposed << 4 | (uint64_t)job->wide << 3 |
            (uint64_t)(job->weight_lane == 0) << 2 | (uint64_t)(job->residual != NULL) << 1,
        (uint64_t)epilogue_of(job),
        job->residual_stride};
    for (size_t i = 0; i < ZEST_GEMM_PLANS; i++)
        if (!memcmp(cuda->plans[i].key, key, sizeof key)) return &cuda->plans[i];
    zest_gemm_plan *plan = &cuda->plans[cuda->plan_next++ % ZEST_GEMM_PLANS];
    memset(plan->key, 0, sizeof plan->key);
    if (search(cuda, job, align, p, plan)) return NULL;
    memcpy(plan->key, key, sizeof key);
    return plan;
}

/* 0 when done, 1 when cuBLASLt has no algorithm for it, -1 on error. */
static int multiply(zest_cuda *cuda, const zest_gemm *job) {
    const float one = 1, beta = job->residual ? 1.0f : 0.0f;
    product p;
    if (describe(cuda, job, &p)) return -1;
    zest_gemm_plan *plan = plan_for(cuda, job, &p);
    if (!plan) return -1;
    if (!plan->found) return 1;
    zest_cuda_watch_one watch(cuda, ZEST_TIME_GEMM);
    cublasStatus_t status =
        cuda->cublas.matmul(cuda->cublas.handle, &p.desc, &one, job->weight, &p.weight, job->a, &p.a, &beta,
                            job->residual ? job->residual : job->out, &p.c, job->out, &p.out,
                            &plan->algorithm, cuda->workspace.data, cuda->workspace.size, cuda->stream);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
        plan->found = 0;
        return 1;
    }
    return wrong(cuda, status, "a product");
}

/* ---- Where cuBLASLt has nothing: one thread an output ---- */

template <class T, class Out> static __global__ void plain_kernel(zest_gemm job) {
    size_t n = blockIdx.x * (size_t)blockDim.x + threadIdx.x, m = blockIdx.y;
    if (n >= job.outputs) return;
    for (; m < job.rows; m += gridDim.y)
        for (int b = 0; b < job.batch; b++) {
            const T *w = (const T *)job.weight + b * job.weight_lane, *a = (const T *)job.a + b * job.a_lane;
            float sum = 0;
            for (size_t k = 0; k < job.inputs; k++)
                sum = fmaf(to_float(a[m * job.a_stride + k]),
                           to_float(w[job.transposed ? k * job.outputs + n : n * job.inputs + k]), sum);
            if (job.bias) sum += to_float(((const Out *)job.bias)[b * job.bias_lane + n]);
            sum = activate(sum, job.activation);
            if (job.residual)
                sum += to_float(
                    ((const Out *)job.residual)[b * job.residual_lane + m * job.residual_stride + n]);
            ((Out *)job.out)[b * job.out_lane + m * job.out_stride + n] = to_cell<Out>(sum);
        }
}

static int multiply_plainly(zest_cuda *cuda, const zest_gemm *job) {
    dim3 grid(zest_cuda_blocks(job->outputs, 128), (unsigned)(job->rows < 65535 ? job->rows : 65535));
    zest_cuda_watch_one watch(cuda, ZEST_TIME_GEMM);
    ZEST_CUDA_TYPED(cuda->base.compute, T, {
        if (job->wide)
            plain_kernel<T, float><<<grid, 128, 0, cuda->stream>>>(*job);
        else
            plain_kernel<T, T><<<grid, 128, 0, cuda->stream>>>(*job);
    });
    return zest_cuda_launched(cuda, "a plain product");
}

/* Lane by lane. */
static int multiply_apart(zest_cuda *cuda, const zest_gemm *job) {
    size_t size = zest_cuda_size(cuda->base.compute), wide = job->wide ? 4 : size;
    for (int b = 0; b < job->batch; b++) {
        zest_gemm one = *job;
        one.batch = 1;
        one.weight = (const char *)job->weight + b * job->weight_lane * (int64_t)size;
        one.a = (const char *)job->a + b * job->a_lane * (int64_t)size;
        one.out = (char *)job->out + b * job->out_lane * (int64_t)wide;
        if (job->bias) one.bias = (const char *)job->bias + b * job->bias_lane * (int64_t)wide;
        if (job->residual)
            one.residual = (const char *)job->residual + b * job->residual_lane * (int64_t)wide;
        one.weight_lane = one.a_lane = one.out_lane = one.bias_lane = one.residual_lane = 0;
        int result = multiply(cuda, &one);
        if (result < 0) return -1;
        if (result && multiply_plainly(cuda, &one)) return -1;
    }
    return 0;
}

int zest_cuda_gemm(zest_cuda *cuda, const zest_gemm *job) {
    int together = job->batch > 1 && job->a_lane >= 0 && job->out_lane > 0 && job->residual_lane >= 0;
    int result = together ? multiply(cuda, job) : 1;
    return result == 1 ? multiply_apart(cuda, job) : result;
}
