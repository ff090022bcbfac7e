/* Attention. For one query, s_j = scale q·k_j, p = softmax(s), o = sum_j m_j p_j v_j (m: the mask, or ones).
 * With w = m p and do given:
 *
 *     dv_j += w_j do          dp_j = m_j do·v_j          ds_j = p_j (dp_j - sum_i p_i dp_i) scale
 *     dk_j += ds_j q          dq = sum_j ds_j k_j
 *
 * The weights p are made again from q and k, so nothing of queries × keys is kept between the passes. Orders:
 * scores and dp by one chain over the head's elements; dq by one chain over the keys; dk and dv by one chain
 * over the queries, within the heads that share a key head in order; the sums of a softmax's row as in
 * forward_plain.c. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "backend/cpu/scratch.h"
#include "backend/cpu/vector_plain.h"
#include "backend/cpu/functions.h"
#include "grad/plain.h"

enum { SUMS = 16 };

static float total(float sums[SUMS]) {
    for (int half = SUMS / 2; half; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

/* The keys of one sequence and key head, and room for a query's row. */
typedef struct {
    const zest_attention_backward *job;
    const float *k, *v;
    float *dk, *dv;
    size_t keys;
    float *p, *m, *ds;
} head_task;

static float dot(const float *a, const float *b, size_t count) {
    float sum = 0;
    for (size_t d = 0; d < count; d++) sum = fmaf(a[d], b[d], sum);
    return sum;
}

/* p of a query that sees `keys` keys; element: of the mask */
static void weigh_keys(const head_task *t, const float *q, size_t keys, uint64_t element) {
    const zest_attention *job = &t->job->forward;
    float sums[SUMS] = {0}, most = -INFINITY;
    for (size_t j = 0; j < keys; j++) {
        t->p[j] = dot(q, t->k + j * job->kv_stride, job->head_size) * job->scale;
        most = v_max(t->p[j], most);
    }
    for (size_t j = 0; j < keys; j++) {
        t->p[j] = f_exp(t->p[j] - most);
        sums[j % SUMS] += t->p[j];
        t->m[j] = 1;
    }
    float inverse = 1.0f / total(sums);
    for (size_t j = 0; j < keys; j++) t->p[j] *= inverse;
    if (t->job->mask) zest_plain_mask(&zest_noise_plain, t->job->mask, element, keys, t->m);
}

static void query_backward(const head_task *t, const float *q, const float *d_out, size_t keys,
                           uint64_t element, float *dq) {
    const zest_attention *job = &t->job->forward;
    size_t size = job->head_size, stride = job->kv_stride;
    float sums[SUMS] = {0};
    weigh_keys(t, q, keys, element);
    for (size_t j = 0; j < keys; j++) {
        t->ds[j] = dot(d_out, t->v + j * stride, size) * t->m[j];
        sums[j % SUMS] = fmaf(t->p[j], t->ds[j], sums[j % SUMS]);
    }
    float mean = total(sums);
    for (size_t j = 0; j < keys; j++) {
        float w = t->p[j] * t->m[j];
        t->ds[j] = t->p[j] * (t->ds[j] - mean) * job->scale;
        for (size_t d = 0; d < size; d++) {
            t->dv[j * stride + d] = fmaf(w, d_out[d], t->dv[j * stride + d]);
            t->dk[j * stride + d] = fmaf(t->ds[j], q[d], t->dk[j * stride + d]);
        }
    }
    for (size_t d = 0; d < size; d++) {
        float sum = 0;
        for (size_t j = 0; j < keys; j++) sum = fmaf(t->ds[j], t->k[j * stride + d], sum);
        dq[d] = sum;
    }
}

static void query_forward(const head_task *t, const float *q, size_t keys, uint64_t element, float *out) {
    const zest_attention *job = &t->job->forward;
    weigh_keys(t, q, keys, element);
    for (size_t d = 0; d < job->head_size; d++) {
        float sum = 0;
        for (size_t j = 0; j < keys; j++) sum = fmaf(t->p[j] * t->m[j], t->v[j * job->kv_stride + d], sum);
        out[d] = sum;
    }
}

static void do_task(const zest_attention_backward *backward, size_t task, int forward, float *room,
                    size_t longest) {
    const zest_attention *job = &backward->forward;
    size_t sequence = task / job->kv_heads, kv_head = task % job->kv_heads, size = job->head_size;
    size_t q0 = job->q_start[sequence], queries = job->q_start[sequence + 1] - q0;
    size_t k0 = job->kv_start[sequence], keys = job->kv_start[sequence + 1] - k0;
    size_t at = k0 * job->kv_stride + kv_head * size, group = job->heads / job->kv_heads;
    head_task t = {backward, job->k + at,    job->v + at,       NULL, NULL, keys,
                   room,     room + longest, room + 2 * longest};
    if (!forward) {
        t.dk = backward->dk + at, t.dv = backward->dv + at;
        for (size_t j = 0; j < keys; j++) {
            memset(t.dk + j * job->kv_stride, 0, size * sizeof(float));
            memset(t.dv + j * job->kv_stride, 0, size * sizeof(float));
        }
    }
    for (size_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (size_t i = 0; i < queries; i++) {
            size_t row = q0 + i, seen = job->causal ? keys - queries + i + 1 : keys, h = head * size;
            uint64_t element = (uint64_t)(row * job->heads + head) * backward->longest;
            const float *q = job->q + row * job->q_stride + h;
            if (forward)
                query_forward(&t, q, seen, element, job->out + row * job->out_stride + h);
            else
                query_backward(&t, q, backward->d_out + row * job->out_stride + h, seen, element,
                               backward->dq + row * job->q_stride + h);
        }
}

static int do_all(const zest_attention_backward *backward, int forward, int threads, zest_scratch *scratch) {
    const zest_attention *job = &backward->forward;
    size_t longest = zest_scratch_keys(job), tasks = job->sequences * job->kv_heads;
    size_t room = zest_scratch_round(3 * longest * sizeof(float)) / sizeof(float);
    if (zest_scratch_reserve(scratch, room * sizeof(float) * (size_t)threads + 1)) return -1;
    float *data = scratch->data;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t task = 0; task < tasks; task++)
        do_task(backward, task, forward, data + room * (size_t)omp_get_thread_num(), longest);
    return 0;
}

int zest_plain_attention_backward(const zest_attention_backward *job, int threads, zest_scratch *scratch) {
    return do_all(job, 0, threads, scratch);
}

int zest_plain_attention_masked(const zest_attention_backward *job, int threads, zest_scratch *scratch) {
    return do_all(job, 1, threads, scratch);
}
