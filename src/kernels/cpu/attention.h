/* Softmax attention. Include pack.h (floats, no pairs) and gemm_tile.h first: both products are tiles.
 *
 * A task is a run of queries of one sequence and key head. It packs the keys and values once, then takes
 * TILE_ROWS queries at a time: all their scores, softmax, weighted sum. So there is never more than a block
 * of scores, and every query's sums run over its keys in order, whatever the block. Keys that some queries of
 * a block do not see yet have weight zero there, which changes no sum of finite numbers. */
#ifndef ZEST_KERNELS_CPU_ATTENTION_H
#define ZEST_KERNELS_CPU_ATTENTION_H

#include <math.h>
#include <omp.h>

#include "kernels/cpu/activations.h"
#include "kernels/cpu/simd_rows.h"
#include "kernels/cpu/ops_cpu.h"

enum { TASK_QUERIES = 256, PANEL = TILE_VECTORS * WIDTH };
_Static_assert(PANEL % LINE == 0, "a panel of keys is whole lines");

/* Workspace of one thread: offsets and sizes in floats. */
typedef struct {
    size_t keys; /* of the longest sequence, rounded up to whole panels and lines */
    size_t head, lines, sums;
    size_t k, v, q, scores, weights, out, all;
} attention_workspace;

static attention_workspace attention_workspace_of(const zest_attention *job) {
    attention_workspace r = {0};
    r.keys = round_up(zest_attention_max_keys(job), PANEL);
    r.head = round_up(job->head_dim, WIDTH); /* steps of packed keys */
    r.lines = round_up(job->head_dim, LINE); /* steps of packed queries */
    r.sums = round_up(job->head_dim, PANEL); /* columns of the result */
    r.v = r.k + r.keys * r.head;
    r.q = r.v + r.keys * r.sums;
    r.scores = r.q + TILE_ROWS * r.lines;
    r.weights = r.scores + TILE_ROWS * r.keys;
    r.out = r.weights + TILE_ROWS * r.keys;
    r.all = round_up(r.out + TILE_ROWS * r.sums, ZEST_MEMORY_LINE / sizeof(float));
    return r;
}

/* ---- Packing ---- */

/* Keys as columns, [group of WIDTH keys][element][WIDTH keys]; those beyond the last, up to a whole panel,
 * are zero. */
static void pack_keys(const float *k, size_t stride, size_t keys, size_t size, size_t head, float *out) {
    for (size_t j = 0; j < round_up(keys, PANEL); j += WIDTH)
        for (size_t d = 0; d < size; d += WIDTH) {
            vec t[WIDTH];
            for (size_t r = 0; r < WIDTH; r++)
                t[r] = j + r < keys ? load_some(k + (j + r) * stride + d, part_of(size, d)) : v_set(0.0f);
            v_transpose(t);
            for (size_t i = 0; i < WIDTH; i++) v_store(out + (j * head) + (d + i) * WIDTH, t[i]);
        }
}

/* Values as they are, [group of WIDTH elements][key][WIDTH elements]. */
static void pack_values(const float *v, size_t stride, size_t keys, size_t size, size_t group, float *out) {
    for (size_t d = 0; d < round_up(size, PANEL); d += WIDTH)
        for (size_t j = 0; j < keys; j++) {
            vec x = d < size ? load_some(v + j * stride + d, part_of(size, d)) : v_set(0.0f);
            v_store(out + d * group + j * WIDTH, x);
        }
}

/* ---- Softmax ---- */

/* The scaled scores of a row, capped, in place: a pass of its own for the few models that have it. */
static void cap_row(float *scores, size_t keys, float scale, float cap) {
    for (size_t j = 0; j < keys; j += WIDTH)
        v_store(scores + j, f_soft_cap(v_mul(v_load(scores + j), v_set(scale)), cap));
}

/* One row of scores to weights, lines `stride` apart, not yet divided by their sum: its inverse is returned.
 * The row sees the keys from `first` to before `keys`, its block those before `end`. Without a window `first` is a
 * constant, and what asks for it is gone. */
static inline __attribute__((always_inline)) float softmax_range(const float *scores, size_t first,
                                                                 size_t keys, size_t end, float scale,
                                                                 float *weights, size_t stride) {
    vec row_max = v_set(-INFINITY), factor = v_set(scale);
    running sums = running_zero();
    for (size_t j = first / WIDTH * WIDTH; j < keys; j += WIDTH) {
        vec s = v_mul(v_load(scores + j), factor);
        if (keys - j < WIDTH) s = v_first(keys - j, s, row_max);
        if (first > j) s = v_first(first - j, row_max, s);
        row_max = v_max(s, row_max);
    }
    row_max = v_set(v_largest(row_max));
    for (size_t j = 0; j < end; j += LINE, weights += stride)
        for (size_t v = 0; v < SUM_VECTORS; v++) {
            size_t at = j + v * WIDTH;
            vec e = v_set(0.0f);
            if (at < keys && at + WIDTH > first) {
                e = f_exp(v_sub(v_mul(v_load(scores + at), factor), row_max));
                if (keys - at < WIDTH) e = v_first(keys - at, e, v_set(0.0f));
                if (first > at) e = v_first(first - at, v_set(0.0f), e);
                sums.part[v] = v_add(sums.part[v], e);
            }
            v_store(weights + v * WIDTH, e);
        }
    return 1.0f / running_total(&sums);
}

static float softmax_row(const float *scores, size_t keys, size_t end, float scale, float *weights) {
    return softmax_range(scores, 0, keys, end, scale, weights, (size_t)TILE_ROWS * LINE);
}

static float softmax_window(const float *scores, size_t first, size_t keys, size_t end, float scale,
                            float *weights) {
    return softmax_range(scores, first, keys, end, scale, weights, (size_t)TILE_ROWS * LINE);
}

#include "kernels/cpu/attention_row.h"

/* ---- Tasks ---- */

/* The keys that are packed: from `base` on, a multiple of PANEL, so that the sums of a softmax's row are the same as from
 * key 0 on. */
typedef struct {
    size_t keys, base; /* of the sequence; the first packed one */
} packed_keys;

/* TILE_ROWS queries or fewer of one head; the first of them stands at key `at`. */
static void attend_block(const zest_attention *job, const attention_workspace *r, float *workspace,
                         const packed_keys *packed, const float *q, size_t rows, size_t at, float *out) {
    size_t start = (zest_attention_first_key(job, at) - packed->base) / PANEL * PANEL,
           skip = packed->base + start;
    size_t end = zest_attention_end_key(job, at + rows - 1, packed->keys) - skip, size = job->head_dim;
    float *c = workspace + r->out, inverse[TILE_ROWS];
    pack_rows(q, job->q_stride, rows, size, 0, workspace + r->q);
    tile_block((int)rows, round_up(end, PANEL) / WIDTH, workspace + r->q, workspace + r->k + start * r->head,
               r->head * WIDTH, size, 1, workspace + r->scores, r->keys);
    for (size_t i = 0; i < rows; i++) {
        float *scores = workspace + r->scores + i * r->keys, *weights = workspace + r->weights + i * LINE;
        size_t keys = zest_attention_end_key(job, at + i, packed->keys) - skip;
        if (job->soft_cap != 0) cap_row(scores, keys, job->scale, job->soft_cap);
        float scale = job->soft_cap != 0 ? 1.0f : job->scale;
        inverse[i] = job->window ? softmax_window(scores, zest_attention_first_key(job, at + i) - skip, keys,
                                                  end, scale, weights)
                                 : softmax_row(scores, keys, end, scale, weights);
    }
    tile_block((int)rows, r->sums / WIDTH, workspace + r->weights, workspace + r->v + start * WIDTH,
               r->keys * WIDTH, end, 1, c, r->sums);
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < size; d += WIDTH)
            store_some(out + i * job->out_stride + d, part_of(size, d),
                       v_mul(v_load(c + i * r->sums + d), v_set(inverse[i])));
}

static void zero_rows(const zest_attention *job, size_t row, size_t rows, size_t head) {
    for (size_t i = 0; i < rows; i++)
        memset((float *)job->out + (row + i) * job->out_stride + head * job->head_dim, 0,
               job->head_dim * sizeof(float));
}

/* Queries from..to of a sequence, for all heads that share a key head. */
static void attend_task(const zest_attention *job, const attention_workspace *r, float *workspace,
                        size_t sequence, size_t kv_head, size_t from, size_t to) {
    size_t q0 = job->q_start[sequence], queries = job->q_start[sequence + 1] - q0, size = job->head_dim;
    size_t k0 = job->kv_start[sequence], keys = zest_attention_keys(job, sequence), past = keys - queries;
    size_t group = job->heads / job->kv_heads;
    packed_keys packed = {keys, zest_attention_first_key(job, past + from) / PANEL * PANEL};
    size_t used = zest_attention_end_key(job, past + to - 1, keys) - packed.base,
           first = (k0 + packed.base) * job->kv_stride + kv_head * size;
    const float *q = job->q, *k = job->k, *v = job->v;
    float *out = job->out;
    if (to - from == 1 && keys) {
        size_t at = past + from, end = (kv_head + 1) * group;
        row_keys seen = {k + first, v + first, zest_attention_first_key(job, at) - packed.base, used};
        for (size_t head = kv_head * group; head < end; head += TILE_ROWS)
            attend_row(job, r, workspace, q + (q0 + from) * job->q_stride + head * size,
                       end - head < TILE_ROWS ? end - head : TILE_ROWS, &seen,
                       out + (q0 + from) * job->out_stride + head * size);
        return;
    }
    pack_keys(k + first, job->kv_stride, used, size, r->head, workspace + r->k);
    pack_values(v + first, job->kv_stride, used, size, r->keys, workspace + r->v);
    for (size_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (size_t i = from; i < to; i += TILE_ROWS) {
            size_t rows = to - i < TILE_ROWS ? to - i : TILE_ROWS;
            if (!keys)
                zero_rows(job, q0 + i, rows, head);
            else
                attend_block(job, r, workspace, &packed, q + (q0 + i) * job->q_stride + head * size, rows,
                             past + i, out + (q0 + i) * job->out_stride + head * size);
        }
}

static int attention(const zest_attention *job, int threads, zest_workspace *scratch) {
    attention_workspace r = attention_workspace_of(job);
    size_t longest = 0;
    double products = 0;
    for (size_t s = 0; s < job->sequences; s++) {
        size_t queries = job->q_start[s + 1] - job->q_start[s];
        if (queries > longest) longest = queries;
        products += (double)queries * (double)zest_attention_keys(job, s);
    }
    threads = useful_threads(threads, products * (double)(job->heads * job->head_dim));
    if (zest_scratch_reserve(scratch, (size_t)threads * r.all * sizeof(float))) return -1;
    float *data = scratch->data;
    /* Long sequences are cut into runs; for short ones all but the first are empty. */
    size_t runs = (longest + TASK_QUERIES - 1) / TASK_QUERIES, tasks = job->sequences * job->kv_heads * runs;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t t = 0; t < tasks; t++) {
        size_t sequence = t / runs / job->kv_heads, from = (runs - 1 - t % runs) * TASK_QUERIES;
        size_t queries = job->q_start[sequence + 1] - job->q_start[sequence];
        size_t to = queries < from + TASK_QUERIES ? queries : from + TASK_QUERIES;
        if (from < to)
            attend_task(job, &r, data + r.all * (size_t)omp_get_thread_num(), sequence,
                        t / runs % job->kv_heads, from, to);
    }
    return 0;
}

#endif
