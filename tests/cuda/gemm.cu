/* Which products zest's own kernel takes on compute capability 9.0: those of RoBERTa and OPT, whatever follows them, and
 * no others. Elsewhere cuBLASLt would answer for it, and only the time would tell. Exit status 77 when there is no such
 * GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

enum { LANES = 2, MOST = 3072 };

struct wish {
    const char *what;
    size_t rows, inputs, outputs;
    int residual, norm;
    zest_activation activation;
    int taken;
    int transposed, fp32_output, rms;
};

static const wish wishes[] = {
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

struct rooms {
    __nv_bfloat16 *a, *weight, *residual, *out;
};

static zest_gemm job_of(const wish *w, const rooms *r) {
    zest_gemm job = {};
    job.a = r->a, job.weight = r->weight, job.out = r->out;
    if (w->residual) job.residual = r->residual;
    job.batch = LANES;
    job.rows = w->rows, job.inputs = w->inputs, job.outputs = w->outputs;
    job.a_stride = w->inputs, job.out_stride = job.residual_stride = w->outputs;
    job.weight_lane = (int64_t)(w->inputs * w->outputs), job.a_lane = (int64_t)(w->rows * w->inputs);
    job.out_lane = job.residual_lane = (int64_t)(w->rows * w->outputs);
    job.activation = w->activation;
    job.transposed = w->transposed, job.fp32_output = w->fp32_output;
    job.norm.there = w->norm, job.norm.rms = w->rms, job.norm.epsilon = 1e-5f;
    return job;
}

/* A and W are 0, so a result is its residual: 3 +- 1 in turns, the norm of which is +- 1. */
static int wrong(const wish *w, const __nv_bfloat16 *out) {
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

static int try_one(zest_cuda *cuda, const wish *w, const rooms *r, __nv_bfloat16 *host) {
    const size_t count = LANES * w->rows * w->outputs;
    const zest_gemm job = job_of(w, r);
    for (size_t i = 0; i < count; i++) host[i] = __float2bfloat16(i % w->outputs % 2 ? 2.0f : 4.0f);
    check(cudaMemcpy(r->residual, host, count * sizeof *host, cudaMemcpyHostToDevice), "copy");
    check(cudaMemset(r->out, 0xff, count * sizeof *host), "memset");
    const int done = zest_cuda_multiply_hopper(cuda, &job);
    if (done != !w->taken) {
        printf("%s: %s %s\n", w->what,
               done < 0 ? "failed:"
               : done   ? "was refused"
                        : "was taken",
               cuda->base.error.message);
        return 1;
    }
    check(cudaStreamSynchronize(cuda->stream), "product");
    check(cudaMemcpy(host, r->out, count * sizeof *host, cudaMemcpyDeviceToHost), "copy");
    return w->taken ? wrong(w, host) : 0;
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
    const size_t cells = (size_t)LANES * MOST * MOST;
    __nv_bfloat16 *host = (__nv_bfloat16 *)malloc(cells * sizeof *host);
    rooms r;
    if (!cuda->describe_tiles) return 77;
    if (!host) return 1;
    for (__nv_bfloat16 **room : {&r.a, &r.weight, &r.residual, &r.out}) {
        check(cudaMalloc(room, cells * sizeof **room), "cudaMalloc");
        check(cudaMemset(*room, 0, cells * sizeof **room), "memset");
    }
    for (const wish &w : wishes) bad += try_one(cuda, &w, &r, host);
    printf("%zu products, %d not as they should be\n", sizeof wishes / sizeof *wishes, bad);
    for (__nv_bfloat16 *room : {r.a, r.weight, r.residual, r.out}) cudaFree(room);
    free(host);
    zest_device_close(device);
    return bad != 0;
}
