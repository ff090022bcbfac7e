/* Which GEMMs our kernel for compute capability 9.0 supports: those of RoBERTa and OPT with every epilogue,
 * and no others. Elsewhere cuBLASLt would compute them too, and only the time would show it. Exit status 77
 * where there is no such GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

enum { LANES = 2, MAX_SIZE = 3072 };

struct gemm_case {
    const char *what;
    size_t rows, inputs, outputs;
    int residual, norm;
    zest_activation activation;
    int supported;
    int transposed, fp32_output, rms;
};

static const gemm_case cases[] = {
    {"q, k and v", 300, 768, 2304, 0, 0, ZEST_ACT_NONE, 1, 0, 0, 0},
    {"output with norm", 300, 768, 768, 1, 1, ZEST_ACT_NONE, 1, 0, 0, 0},
    {"up with GELU", 300, 768, 3072, 0, 0, ZEST_ACT_GELU, 1, 0, 0, 0},
    {"up with ReLU", 300, 768, 3072, 0, 0, ZEST_ACT_RELU, 1, 0, 0, 0},
    {"down with residual", 300, 3072, 768, 1, 0, ZEST_ACT_NONE, 1, 0, 0, 0},
    {"down with norm", 300, 3072, 768, 1, 1, ZEST_ACT_NONE, 1, 0, 0, 0},
    {"a norm of four tiles", 1, 1024, 1024, 1, 1, ZEST_ACT_NONE, 1, 0, 0, 0},
    {"a norm of five tiles", 300, 768, 1280, 1, 1, ZEST_ACT_NONE, 0, 0, 0, 0},
    {"a norm without residual", 300, 768, 768, 0, 1, ZEST_ACT_NONE, 0, 0, 0, 0},
    {"a norm without mean", 300, 768, 768, 1, 1, ZEST_ACT_NONE, 0, 0, 0, 1},
    {"an odd number of outputs", 300, 768, 770, 0, 0, ZEST_ACT_NONE, 0, 0, 0, 0},
    {"a transposed weight", 300, 768, 768, 0, 0, ZEST_ACT_NONE, 0, 1, 0, 0},
    {"floats for results", 300, 768, 768, 0, 0, ZEST_ACT_NONE, 0, 0, 1, 0},
};

static void check(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return;
    printf("%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

struct buffers {
    __nv_bfloat16 *a, *weight, *residual, *out;
};

static zest_gemm make_gemm(const gemm_case *w, const buffers *r) {
    zest_gemm gemm = {};
    gemm.a = r->a, gemm.weight = r->weight, gemm.out = r->out;
    if (w->residual) gemm.residual = r->residual;
    gemm.batch = LANES;
    gemm.rows = w->rows, gemm.inputs = w->inputs, gemm.outputs = w->outputs;
    gemm.a_stride = w->inputs, gemm.out_stride = gemm.residual_stride = w->outputs;
    gemm.weight_lane = (int64_t)(w->inputs * w->outputs), gemm.a_lane = (int64_t)(w->rows * w->inputs);
    gemm.out_lane = gemm.residual_lane = (int64_t)(w->rows * w->outputs);
    gemm.activation = w->activation;
    gemm.transposed = w->transposed, gemm.fp32_output = w->fp32_output;
    gemm.norm.enabled = w->norm, gemm.norm.rms = w->rms, gemm.norm.epsilon = 1e-5f;
    return gemm;
}

/* A and W are 0, so a result is its residual: 3 + 1 and 3 - 1 in alternation, the norm of which is +- 1. */
static int wrong(const gemm_case *w, const __nv_bfloat16 *out) {
    for (size_t i = 0; i < LANES * w->rows * w->outputs; i++) {
        const float sign = i % w->outputs % 2 ? -1.0f : 1.0f;
        const float expected = w->norm ? sign : w->residual ? 3 + sign : 0;
        const float got = __bfloat162float(out[i]);
        if (fabsf(got - expected) <= 4e-3f) continue;
        printf("%s: element %zu is %g, should be %g\n", w->what, i, (double)got, (double)expected);
        return 1;
    }
    return 0;
}

static int try_one(zest_cuda *cuda, const gemm_case *w, const buffers *r, __nv_bfloat16 *host) {
    const size_t count = LANES * w->rows * w->outputs;
    const zest_gemm gemm = make_gemm(w, r);
    for (size_t i = 0; i < count; i++) host[i] = __float2bfloat16(i % w->outputs % 2 ? 2.0f : 4.0f);
    check(cudaMemcpy(r->residual, host, count * sizeof *host, cudaMemcpyHostToDevice), "copy");
    check(cudaMemset(r->out, 0xff, count * sizeof *host), "memset");
    const int done = zest_cuda_gemm_sm90(cuda, &gemm);
    if (done != !w->supported) {
        printf("%s: %s %s\n", w->what,
               done < 0 ? "failed:"
               : done   ? "was refused"
                        : "was computed",
               cuda->base.error.message);
        return 1;
    }
    check(cudaStreamSynchronize(cuda->stream), "product");
    check(cudaMemcpy(host, r->out, count * sizeof *host, cudaMemcpyDeviceToHost), "copy");
    return w->supported ? wrong(w, host) : 0;
}

int main(void) {
    zest_device *device;
    zest_error error = {};
    int devices = 0, bad = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) return 77;
    if (zest_device_open(ZEST_DEVICE_CUDA, ZEST_COMPUTE_BF16, &device, &error)) {
        printf("%s\n", error.message);
        return 1;
    }
    zest_cuda *cuda = zest_cuda_of(device);
    const size_t elements = (size_t)LANES * MAX_SIZE * MAX_SIZE;
    __nv_bfloat16 *host = (__nv_bfloat16 *)malloc(elements * sizeof *host);
    buffers r;
    if (!cuda->encode_tensormap) return 77;
    if (!host) return 1;
    for (__nv_bfloat16 **buffer : {&r.a, &r.weight, &r.residual, &r.out}) {
        check(cudaMalloc(buffer, elements * sizeof **buffer), "cudaMalloc");
        check(cudaMemset(*buffer, 0, elements * sizeof **buffer), "memset");
    }
    for (const gemm_case &w : cases) bad += try_one(cuda, &w, &r, host);
    printf("%zu GEMMs, %d wrong\n", sizeof cases / sizeof *cases, bad);
    for (__nv_bfloat16 *buffer : {r.a, r.weight, r.residual, r.out}) cudaFree(buffer);
    free(host);
    zest_device_close(device);
    return bad != 0;
}
