/* What the CUDA kernels of the backward pass share. Compute types are fp32 and bf16. No atomic additions: the
 * order of every sum depends on the sizes alone, so gradients are deterministic. */
#ifndef ZEST_GRAD_CUDA_BACKWARD_CUH
#define ZEST_GRAD_CUDA_BACKWARD_CUH

#include "kernels/cuda/dtype.cuh"

extern "C" {
#include "grad/backward.h"
}

/* Runs code with T standing for the type of activations in a compute type. */
#define ZEST_BACKWARD_DISPATCH(compute, T, ...) \
    do {                                        \
        if ((compute) == ZEST_COMPUTE_F32) {    \
            typedef float T;                    \
            __VA_ARGS__;                        \
        } else {                                \
            typedef __nv_bfloat16 T;            \
            __VA_ARGS__;                        \
        }                                       \
    } while (0)

/* ---- Dropout masks: the bits of backward_plain.c ---- */

/* Factors of elements 8 block .. 8 block + 7. */
__device__ __forceinline__ void mask8(const zest_mask &mask, uint64_t block, float out[8]) {
    zest_philox_block bits = zest_philox_at(mask.key, ZEST_STREAM_ROUND, block);
#pragma unroll
    for (int j = 0; j < 8; j++)
        out[j] = (bits.word[j / 2] >> 16 * (j % 2) & 0xffff) >= mask.threshold ? mask.scale : 0.0f;
}

__device__ __forceinline__ float mask1(const zest_mask &mask, uint64_t element) {
    zest_philox_block bits = zest_philox_at(mask.key, ZEST_STREAM_ROUND, element / 8);
    unsigned half = (unsigned)(element % 8), w = half / 2;
    uint32_t word = w == 0 ? bits.word[0] : w == 1 ? bits.word[1] : w == 2 ? bits.word[2] : bits.word[3];
    return (word >> 16 * (half % 2) & 0xffff) >= mask.threshold ? mask.scale : 0.0f;
}

/* Two consecutive elements, mostly from one draw. */
__device__ __forceinline__ void mask2(const zest_mask &mask, uint64_t element, float out[2]) {
    if (element % 2) {
        out[0] = mask1(mask, element);
        out[1] = mask1(mask, element + 1);
        return;
    }
    zest_philox_block bits = zest_philox_at(mask.key, ZEST_STREAM_ROUND, element / 8);
    unsigned w = (unsigned)(element % 8) / 2;
    uint32_t word = w == 0 ? bits.word[0] : w == 1 ? bits.word[1] : w == 2 ? bits.word[2] : bits.word[3];
    out[0] = (word & 0xffff) >= mask.threshold ? mask.scale : 0.0f;
    out[1] = word >> 16 >= mask.threshold ? mask.scale : 0.0f;
}

/* ---- elementwise_backward.cu ---- */

/* partial (runs, width + second_width): adds the sums of its columns to first (width) and second
 * (second_width), either of which may be NULL. */
int zest_backward_cuda_reduce_columns(zest_cuda *cuda, const float *partial, size_t runs, float *first,
                                      size_t width, float *second, size_t second_width);

/* ---- The operations ---- */

int zest_backward_cuda_norm(const zest_norm_backward *args, int threads, zest_workspace *scratch);
int zest_backward_cuda_attention(const zest_attention_backward *args, int threads, zest_workspace *scratch);
int zest_backward_cuda_attention_masked(const zest_attention_backward *args, int threads,
                                        zest_workspace *scratch);
/* 0: done, 1: it does not suit, nothing was done, -1: error. stats: (rows, heads). */
int zest_backward_cuda_attention_window(zest_cuda *cuda, const zest_attention_backward *args, int forward,
                                        float2 *stats);
int zest_backward_cuda_attention_mma(zest_cuda *cuda, const zest_attention_backward *args, int forward,
                                     float2 *stats);
void zest_backward_cuda_activate(void *out, const void *x, const void *up, size_t count,
                                 zest_activation activation, int threads, zest_workspace *scratch);
void zest_backward_cuda_activate_backward(void *d, void *d_up, const void *x, const void *up, size_t count,
                                          zest_activation activation, int threads, zest_workspace *scratch);
int zest_backward_cuda_sum_columns(const void *x, size_t stride, size_t rows, size_t width, float *out,
                                   int threads, zest_workspace *scratch);
void zest_backward_cuda_drop(void *out, const void *x, const void *residual, size_t count,
                             const zest_mask *mask, int threads, zest_workspace *scratch);
int zest_backward_cuda_copy(const zest_copy_rows *args, int threads, zest_workspace *scratch);
int zest_backward_cuda_scatter_add(const zest_scatter_add *args, int threads, zest_workspace *scratch);
void zest_backward_cuda_negate(float *out, const float *x, size_t count, int threads,
                               zest_workspace *scratch);
int zest_backward_cuda_label_words(const zest_label_words_backward *args, int threads,
                                   zest_workspace *scratch);
int zest_backward_cuda_logits(const zest_logits_backward *args, int threads, zest_workspace *scratch);

/* ---- Attention ---- */

struct attention_grad_params {
    const void *q, *k, *v, *d_out;
    void *dq, *dk, *dv, *out;
    float2 *stats; /* (rows, heads): log-sum-exp of the scores, sum of p dp */
    size_t q_stride, kv_stride, out_stride;
    const uint32_t *q_start, *kv_start;
    unsigned heads, group_size, head_dim;
    int causal;
    float scale, scale2; /* scale2: scale times log2(e) */
    zest_mask mask;
    uint64_t longest;
};

static inline attention_grad_params attention_grad_params_of(const zest_attention_backward *args,
                                                             float2 *stats) {
    const zest_attention *a = &args->forward;
    return {a->q,
            a->k,
            a->v,
            args->d_out,
            args->dq,
            args->dk,
            args->dv,
            a->out,
            stats,
            a->q_stride,
            a->kv_stride,
            a->out_stride,
            a->q_start,
            a->kv_start,
            (unsigned)a->heads,
            (unsigned)(a->heads / a->kv_heads),
            (unsigned)a->head_dim,
            a->causal,
            a->scale,
            a->scale * 1.44269504f,
            args->mask ? *args->mask : zest_mask{0, 0, 1.0f},
            args->longest};
}

/* A launch with dynamic shared memory. */
template <class Kernel>
static int attention_grad_run(zest_cuda *cuda, Kernel *kernel, const attention_grad_params *params, dim3 grid,
                              unsigned threads, size_t bytes) {
    if (zest_cuda_shared(cuda, (const void *)kernel, bytes, "computing the gradient of attention")) return -1;
    kernel<<<grid, threads, bytes, cuda->stream>>>(*params);
    return zest_cuda_launched(cuda, "computing the gradient of attention");
}

/* launch(params, sequences) for as many sequences at a time as the third dimension of the grid allows.
 * Non-zero: an error. */
template <class F>
static int attention_grad_launches(const zest_attention_backward *args, float2 *stats, F launch) {
    const size_t most = 65535, sequences = args->forward.sequences;
    attention_grad_params chunk = attention_grad_params_of(args, stats);
    int bad = 0;
    for (size_t first = 0; first < sequences && !bad; first += most) {
        bad = launch(&chunk, (unsigned)(sequences - first < most ? sequences - first : most));
        chunk.q_start += most, chunk.kv_start += most;
    }
    return bad;
}

#endif
