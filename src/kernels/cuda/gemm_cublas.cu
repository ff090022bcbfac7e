/* zest_cuda_gemm: dispatches a GEMM to the backends (gemm_select.cu, gemm_f32.cu), with a reference kernel
 * for what none of them supports. Opens cuBLASLt at run time, so that the program starts on machines without
 * it. */
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
                              "libcublasLt lacks a function that zest needs: use cuBLAS %d",
                              CUBLAS_VER_MAJOR);
    cuda->plans = (zest_gemm_plan *)calloc(ZEST_GEMM_PLANS, sizeof *cuda->plans);
    if (!cuda->plans) return zest_error_memory(error, "GEMM plans", ZEST_GEMM_PLANS * sizeof *cuda->plans);
    if (zest_cuda_cublas_failed(cuda, c->create(&c->handle), "starting cuBLASLt") ||
        zest_cuda_reserve(cuda, &cuda->workspace, ZEST_CUDA_CUBLAS_WORKSPACE))
        return zest_device_take_error(&cuda->base, error);
    return ZEST_OK;
}

void zest_cuda_cublas_close(zest_cuda *cuda) {
    zest_cublas *c = &cuda->cublas;
    if (c->handle) (void)c->destroy(c->handle);
    if (c->library) (void)dlclose(c->library);
}

/* ---- Reference kernel, for sizes that cuBLASLt does not support: one thread for an element ---- */

template <class T, class Out> static __global__ void gemm_reference_kernel(zest_gemm gemm) {
    size_t n = blockIdx.x * (size_t)blockDim.x + threadIdx.x, m = blockIdx.y;
    if (n >= gemm.outputs) return;
    for (; m < gemm.rows; m += gridDim.y)
        for (int b = 0; b < gemm.batch; b++) {
            const T *w = (const T *)gemm.weight + b * gemm.weight_lane,
                    *a = (const T *)gemm.a + b * gemm.a_lane;
            float sum = 0;
            for (size_t k = 0; k < gemm.inputs; k++)
                sum = fmaf(to_float(a[gemm.a_transposed ? k * gemm.a_stride + m : m * gemm.a_stride + k]),
                           to_float(w[gemm.transposed ? k * gemm.outputs + n : n * gemm.inputs + k]), sum);
            if (gemm.bias) sum += to_float(((const Out *)gemm.bias)[b * gemm.bias_lane + n]);
            sum = activate(sum, gemm.activation);
            if (gemm.residual)
                sum += to_float(
                    ((const Out *)gemm.residual)[b * gemm.residual_lane + m * gemm.residual_stride + n]);
            ((Out *)gemm.out)[b * gemm.out_lane + m * gemm.out_stride + n] = from_float<Out>(sum);
        }
}

static int gemm_reference(zest_cuda *cuda, const zest_gemm *gemm) {
    dim3 grid(zest_cuda_blocks(gemm->outputs, 128), (unsigned)(gemm->rows < 65535 ? gemm->rows : 65535));
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_GEMM);
    ZEST_CUDA_DISPATCH(cuda->base.compute, T, {
        if (gemm->fp32_output)
            gemm_reference_kernel<T, float><<<grid, 128, 0, cuda->stream>>>(*gemm);
        else
            gemm_reference_kernel<T, T><<<grid, 128, 0, cuda->stream>>>(*gemm);
    });
    if (zest_cuda_launched(cuda, "computing a GEMM")) return -1;
    return gemm->norm.enabled ? zest_cuda_norm_after_gemm(cuda, gemm) : 0;
}

/* One lane after the other, for lanes in any order in memory. A norm comes here with a single lane only: else
 * our kernel took all lanes at once. */
static int gemm_by_lane(zest_cuda *cuda, const zest_gemm *gemm) {
    size_t size = zest_cuda_element_size(cuda->base.compute), wide = gemm->fp32_output ? 4 : size;
    for (int b = 0; b < gemm->batch; b++) {
        zest_gemm one = *gemm;
        one.batch = 1;
        one.weight = (const char *)gemm->weight + b * gemm->weight_lane * (int64_t)size;
        one.a = (const char *)gemm->a + b * gemm->a_lane * (int64_t)size;
        one.out = (char *)gemm->out + b * gemm->out_lane * (int64_t)wide;
        if (gemm->bias) one.bias = (const char *)gemm->bias + b * gemm->bias_lane * (int64_t)wide;
        if (gemm->residual)
            one.residual = (const char *)gemm->residual + b * gemm->residual_lane * (int64_t)wide;
        one.weight_lane = one.a_lane = one.out_lane = one.bias_lane = one.residual_lane = 0;
        int result = zest_cuda_gemm_select(cuda, &one);
        if (result < 0) return -1;
        if (result && gemm_reference(cuda, &one)) return -1;
    }
    return 0;
}

int zest_cuda_gemm(zest_cuda *cuda, const zest_gemm *gemm) {
    if (gemm->norm.enabled && !zest_cuda_gemm_sm90_fuses_norm(cuda, gemm)) {
        zest_gemm without_norm = *gemm;
        without_norm.norm.enabled = 0;
        return zest_cuda_gemm(cuda, &without_norm) || zest_cuda_norm_after_gemm(cuda, gemm) ? -1 : 0;
    }
    int batched = gemm->batch > 1 && gemm->a_lane >= 0 && gemm->out_lane > 0 && gemm->residual_lane >= 0;
    int result =
        cuda->settings.split_f32 && (batched || gemm->batch == 1) ? zest_cuda_gemm_f32(cuda, gemm) : 1;
    if (result != 1) return result;
    result = batched ? zest_cuda_gemm_select(cuda, gemm) : 1;
    return result == 1 ? gemm_by_lane(cuda, gemm) : result;
}
