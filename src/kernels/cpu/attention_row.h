/* Softmax attention of a single query, as in generation: keys and values are read where they are, each once for all
 * heads that share them. Included by attention.h. The sums have the order of the tiles there, so the bits are the
 * same. */
#ifndef ZEST_KERNELS_CPU_ATTENTION_ROW_H
#define ZEST_KERNELS_CPU_ATTENTION_ROW_H

enum { ROW_VECTORS = 4 }; /* of a head's result that are summed at a time */

/* Scores of WIDTH keys from key j on, those beyond the last are the last one's: squares of keys are transposed in
 * registers, and each chain goes over the head's elements in order. */
static void row_scores(const zest_attention *job, const float *q, size_t heads, const float *k, size_t keys,
                       size_t j, float *scores, size_t stride) {
    size_t size = job->head_dim, here = part_of(keys, j);
    vec sum[TILE_ROWS];
    for (size_t h = 0; h < heads; h++) sum[h] = v_set(0.0f);
    for (size_t d = 0; d < size; d += WIDTH) {
        size_t part = part_of(size, d);
        vec t[WIDTH];
        for (size_t r = 0; r < WIDTH; r++)
            t[r] = load_some(k + (j + (r < here ? r : here - 1)) * job->kv_stride + d, part);
        v_transpose(t);
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < part; i++) sum[h] = v_fma(v_set(q[h * size + d + i]), t[i], sum[h]);
    }
    for (size_t h = 0; h < heads; h++) v_store(scores + h * stride + j, sum[h]);
}

/* The weighted sum of the values of one head. */
static void row_values(const zest_attention *job, const float *weights, const float *v, size_t keys,
                       float inverse, float *out) {
    for (size_t d = 0; d < job->head_dim; d += ROW_VECTORS * WIDTH) {
        size_t left = job->head_dim - d, vectors = (left + WIDTH - 1) / WIDTH;
        vec sum[ROW_VECTORS] = {v_set(0.0f), v_set(0.0f), v_set(0.0f), v_set(0.0f)};
        if (left >= ROW_VECTORS * WIDTH) {
            for (size_t j = 0; j < keys; j++)
                for (size_t i = 0; i < ROW_VECTORS; i++)
                    sum[i] = v_fma(v_set(weights[j]), v_load(v + j * job->kv_stride + d + i * WIDTH), sum[i]);
            vectors = ROW_VECTORS;
        } else {
            for (size_t j = 0; j < keys; j++)
                for (size_t i = 0; i < vectors; i++) {
                    const float *value = v + j * job->kv_stride + d + i * WIDTH;
                    sum[i] = v_fma(v_set(weights[j]), load_some(value, part_of(left, i * WIDTH)), sum[i]);
                }
        }
        for (size_t i = 0; i < vectors; i++)
            store_some(out + d + i * WIDTH, part_of(left, i * WIDTH), v_mul(sum[i], v_set(inverse)));
    }
}

/* What the query sees: keys from `first` to before `count` of those at k. */
typedef struct {
    const float *k, *v;
    size_t first, count;
} row_keys;

/* At most TILE_ROWS heads of one key head: q and out begin at the first. */
static void attend_row(const zest_attention *job, const attention_workspace *r, float *workspace,
                       const float *q, size_t heads, const row_keys *seen, float *out) {
    float *all = workspace + r->scores, *weights = workspace + r->weights;
    const int capped = job->soft_cap != 0;
    for (size_t j = 0; j < seen->count; j += WIDTH)
        row_scores(job, q, heads, seen->k, seen->count, j, all, r->keys);
    for (size_t h = 0; h < heads; h++) {
        float *scores = all + h * r->keys, scale = capped ? 1.0f : job->scale;
        if (capped) cap_row(scores, seen->count, job->scale, job->soft_cap);
        float inverse = softmax_range(scores, seen->first, seen->count, seen->count, scale, weights, LINE);
        row_values(job, weights, seen->v, seen->count, inverse, out + h * job->head_dim);
    }
}

#endif
