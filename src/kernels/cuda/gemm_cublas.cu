/* Matrix products by cuBLASLt. Row-major operands are handed over as their transposes: out' = W a'. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/dtype.cuh"

extern "C" {
#include "base/environment.h"
}

/* ---- The library ---- */

/* The file that ZEST_CUBLASLT names and no other, or the first one that the loader finds. */
static zest_status open_library(void **library, zest_error *error) {
    const char *named = zest_environment_text(ZEST_ENVIRONMENT_CUBLASLT);
    if (named) {
        *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        return *library
                   ? ZEST_OK
                   : zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                    "the environment variable ZEST_CUBLASLT names a library that cannot be "
                                    "opened: %s",
                                    dlerror());
    }
    char same[64];
    snprintf(same, sizeof same, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
    const char *names[] = {same, "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((*library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL))) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "libcublasLt.so.%d was not found: install cuBLAS, add its folder to "
                          "LD_LIBRARY_PATH, or name the file in ZEST_CUBLASLT",
                          CUBLAS_VER_MAJOR);
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
           find(c->library, "cublasLtMatmulAlgoCheck", &c->check) &&
           find(c->library, "cublasLtMatmulDescInit_internal", &c->desc_init) &&
           find(c->library, "cublasLtMatmulDescSetAttribute", &c->desc_set) &&
           find(c->library, "cublasLtMatrixLayoutInit_internal", &c->layout_init) &&
           find(c->library, "cublasLtMatrixLayoutSetAttribute", &c->layout_set) &&
           find(c->library, "cublasLtMatmulPreferenceInit_internal", &c->preference_init) &&
           find(c->library, "cublasLtMatmulPreferenceSetAttribute", &c->preference_set) &&
           find(c->library, "cublasLtGetStatusName", &c->status_name) &&
           find(c->library, "cublasLtGetStatusString", &c->status_string);
}

int zest_cuda_cublas_failed(zest_cuda *cuda, cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return 0;
    const zest_cuda_failure failure = {cuda->cublas.status_name(status), cuda->cublas.status_string(status),
                                       what, cuda->name};
    if (!cuda->base.error.status) (void)zest_cuda_error_set(&cuda->base.error, &failure);
    return -1;
}

zest_status zest_cuda_cublas_open(zest_cuda *cuda, zest_error *error) {
    zest_cublas *c = &cuda->cublas;
    zest_status status = open_library(&c->library, error);
    if (status) return status;
    if (!find_all(c))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "libcublasLt lacks a function that zest needs: use "
                              "cuBLAS %d",
                              CUBLAS_VER_MAJOR);
    cuda->plans = (zest_gemm_plan *)calloc(ZEST_GEMM_PLANS, sizeof *cuda->plans);
    if (!cuda->plans)
        return zest_error_memory(error, "plans of products", ZEST_GEMM_PLANS * sizeof *cuda->plans);
    if (zest_cuda_cublas_failed(cuda, c->create(&c->handle), "starting cuBLASLt") ||
        zest_cuda_reserve(cuda, &cuda->workspace, ZEST_CUDA_WORKSPACE))
        return zest_device_take_error(&cuda->base, error);
    return ZEST_OK;
}

void zest_cuda_cublas_close(zest_cuda *cuda) {
    zest_cublas *c = &cuda->cublas;
    if (c->handle) (void)c->destroy(c->handle);
    if (c->library) (void)dlclose(c->library);
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
                sum = fmaf(to_float(a[job.a_transposed ? k * job.a_stride + m : m * job.a_stride + k]),
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
    zest_cuda_watch_one watch(cuda, ZEST_PROFILE_GEMM);
    ZEST_CUDA_TYPED(cuda->base.compute, T, {
        if (job->fp32_output)
            plain_kernel<T, float><<<grid, 128, 0, cuda->stream>>>(*job);
        else
            plain_kernel<T, T><<<grid, 128, 0, cuda->stream>>>(*job);
    });
    if (zest_cuda_launched(cuda, "computing a GEMM")) return -1;
    return job->norm.there ? zest_cuda_norm_result(cuda, job) : 0;
}

/* Lane by lane. A norm comes along with a single lane alone: what suits our kernel goes together. */
static int multiply_apart(zest_cuda *cuda, const zest_gemm *job) {
    size_t size = zest_cuda_size(cuda->base.compute), wide = job->fp32_output ? 4 : size;
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
        int result = zest_cuda_multiply(cuda, &one);
        if (result < 0) return -1;
        if (result && multiply_plainly(cuda, &one)) return -1;
    }
    return 0;
}

int zest_cuda_gemm(zest_cuda *cuda, const zest_gemm *job) {
    if (job->norm.there && !zest_cuda_hopper_norms(cuda, job)) {
        zest_gemm bare = *job;
        bare.norm.there = 0;
        return zest_cuda_gemm(cuda, &bare) || zest_cuda_norm_result(cuda, job) ? -1 : 0;
    }
    int together = job->batch > 1 && job->a_lane >= 0 && job->out_lane > 0 && job->residual_lane >= 0;
    int result =
        cuda->settings.split_f32 && (together || job->batch == 1) ? zest_cuda_multiply_split(cuda, job) : 1;
    if (result != 1) return result;
    result = together ? zest_cuda_multiply(cuda, job) : 1;
    return result == 1 ? multiply_apart(cuda, job) : result;
}
