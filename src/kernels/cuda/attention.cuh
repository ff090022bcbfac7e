/* Attention: out = softmax(scale q k') v per lane, sequence and head, without a matrix of scores in memory.
 * What the kernels share: their parameters, and launches of one block for each tile of queries.
 *
 *   q, out  (lanes, rows of all sequences, heads, head_dim)    k, v  (lanes, rows, kv_heads, head_dim)
 *
 * Sequence s has the query rows q_start[s] .. q_start[s + 1] and the key rows from kv_start[s] to kv_end[s],
 * or to kv_start[s + 1]. There are at least as many keys as queries; the last query stands at the last
 * key. */
#ifndef ZEST_KERNELS_CUDA_ATTENTION_CUH
#define ZEST_KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/dtype.cuh"

struct attention_params {
    const void *q, *k, *v;
    void *out;
    size_t q_stride, kv_stride, out_stride, q_lane, kv_lane, out_lane;
    const uint32_t *q_start, *kv_start, *kv_end;
    unsigned group_size, head_dim, lanes;
    int causal;
    float scale; /* times log2(e): exponentials are powers of two */
};

static inline attention_params attention_params_of(const zest_attention *args) {
    return {args->q,
            args->k,
            args->v,
            args->out,
            args->q_stride,
            args->kv_stride,
            args->out_stride,
            args->q_lane,
            args->kv_lane,
            args->out_lane,
            args->q_start,
            args->kv_start,
            args->kv_end,
            (unsigned)(args->heads / args->kv_heads),
            (unsigned)args->head_dim,
            (unsigned)args->lanes,
            args->causal,
            args->scale * 1.44269504f};
}

/* launch(params, grid) for as many sequences at a time as the grid's third dimension allows; tile_q: queries
 * of a block. Non-zero: an error. */
template <class F> static int attention_launches(const zest_attention *args, size_t tile_q, F launch) {
    const size_t row_max = 65535 / args->lanes;
    int bad = 0;
    for (size_t first = 0; first < args->sequences && !bad; first += row_max) {
        size_t count = args->sequences - first < row_max ? args->sequences - first : row_max;
        attention_params chunk = attention_params_of(args);
        chunk.q_start += first, chunk.kv_start += first;
        if (chunk.kv_end) chunk.kv_end += first;
        bad = launch(&chunk, dim3(zest_cuda_blocks(args->max_queries, tile_q), (unsigned)args->heads,
                                  (unsigned)(count * args->lanes)));
    }
    return bad;
}

#endif
