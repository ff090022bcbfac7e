/* The operations of the backward pass in plain C: the reference, with the derivations and the order of every sum. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "grad/backward.h"
#include "kernels/cpu/simd_plain.h"
#include "kernels/cpu/ops_cpu.h"
#include "model/loss.h"
#include "rng/noise.h"

static inline vec v_step(vec x) { return x > 0 ? 1.0f : 0.0f; }
#include "kernels/cpu/activations.h"
#include "grad/activation_grad.h"

/* ---- Activations ----
 *
 * y = act(x): dx = act'(x) dy. Gated, y = act(x) up: dx = act'(x) up dy, d_up = act(x) dy. */

void zest_plain_activate(void *result, const void *input, const void *gated, size_t count,
                         zest_activation activation, int threads, zest_workspace *scratch) {
    const float *x = input, *up = gated;
    float *out = result;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i++) {
        float y = f_activate(x[i], activation);
        out[i] = up ? y * up[i] : y;
    }
}

void zest_plain_activate_backward(void *d_result, void *d_gated, const void *input, const void *gated,
                                  size_t count, zest_activation activation, int threads,
                                  zest_workspace *scratch) {
    const float *x = input, *up = gated;
    float *d = d_result, *d_up = d_gated;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i++) {
        float dy = d[i];
        if (up) d_up[i] = f_activate(x[i], activation) * dy;
        d[i] = f_activation_grad(x[i], activation) * (up ? up[i] * dy : dy);
    }
}

/* ---- Attention ----
 *
 * For one query, s_j = scale q·k_j, p = softmax(s), o = sum_j m_j p_j v_j (m: the mask, or ones).
 * With w = m p and do given:
 *
 *     dv_j += w_j do          dp_j = m_j do·v_j          ds_j = p_j (dp_j - sum_i p_i dp_i) scale
 *     dk_j += ds_j q          dq = sum_j ds_j k_j
 *
 * Where scores are capped, t = tanh(s/cap), p = softmax(cap t), and ds_j is multiplied by 1 - t_j^2.
 *
 * The weights p are computed again from q and k, so nothing of (queries, keys) is saved between the passes. Orders:
 * scores and dp by one chain over the head's elements; dq by one chain over the keys; dk and dv by one chain
 * over the queries, within the heads that share a key head in order; the sums of a softmax's row as in
 * ops_plain.c. */

enum { SUMS = 16 };

static float total(float sums[SUMS]) {
    for (int half = SUMS / 2; half; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

/* The keys of one sequence and key head, and a workspace for a query's row. */
typedef struct {
    const zest_attention_backward *job;
    const float *k, *v;
    float *dk, *dv;
    size_t keys;
    float *p, *m, *ds, *slopes; /* slopes: of the soft cap */
} head_task;

static float dot(const float *a, const float *b, size_t count) {
    float sum = 0;
    for (size_t d = 0; d < count; d++) sum = fmaf(a[d], b[d], sum);
    return sum;
}

/* The keys that a query sees: from `first` to before `end`. */
typedef struct {
    size_t first, end;
} key_range;

/* p of a query; element: of the mask */
static void weigh_keys(const head_task *t, const float *q, key_range seen, uint64_t element) {
    const zest_attention *job = &t->job->forward;
    float sums[SUMS] = {0}, row_max = -INFINITY;
    for (size_t j = seen.first; j < seen.end; j++) {
        t->p[j] = dot(q, t->k + j * job->kv_stride, job->head_dim) * job->scale;
        if (job->soft_cap != 0) {
            float ratio = f_tanh(t->p[j] / job->soft_cap);
            t->slopes[j] = fmaf(-ratio, ratio, 1.0f);
            t->p[j] = job->soft_cap * ratio;
        }
        row_max = v_max(t->p[j], row_max);
    }
    for (size_t j = seen.first; j < seen.end; j++) {
        t->p[j] = f_exp(t->p[j] - row_max);
        sums[j % SUMS] += t->p[j];
        t->m[j] = 1;
    }
    float inverse = 1.0f / total(sums);
    for (size_t j = seen.first; j < seen.end; j++) t->p[j] *= inverse;
    if (t->job->mask)
        zest_plain_mask(&zest_noise_plain, t->job->mask, element + seen.first, seen.end - seen.first,
                        t->m + seen.first);
}

static void query_backward(const head_task *t, const float *q, const float *d_out, key_range seen,
                           uint64_t element, float *dq) {
    const zest_attention *job = &t->job->forward;
    size_t size = job->head_dim, stride = job->kv_stride;
    float sums[SUMS] = {0};
    weigh_keys(t, q, seen, element);
    for (size_t j = seen.first; j < seen.end; j++) {
        t->ds[j] = dot(d_out, t->v + j * stride, size) * t->m[j];
        sums[j % SUMS] = fmaf(t->p[j], t->ds[j], sums[j % SUMS]);
    }
    float mean = total(sums);
    for (size_t j = seen.first; j < seen.end; j++) {
        float w = t->p[j] * t->m[j];
        t->ds[j] = t->p[j] * (t->ds[j] - mean) * job->scale;
        if (job->soft_cap != 0) t->ds[j] *= t->slopes[j];
        for (size_t d = 0; d < size; d++) {
            t->dv[j * stride + d] = fmaf(w, d_out[d], t->dv[j * stride + d]);
            t->dk[j * stride + d] = fmaf(t->ds[j], q[d], t->dk[j * stride + d]);
        }
    }
    for (size_t d = 0; d < size; d++) {
        float sum = 0;
        for (size_t j = seen.first; j < seen.end; j++) sum = fmaf(t->ds[j], t->k[j * stride + d], sum);
        dq[d] = sum;
    }
}

static void query_forward(const head_task *t, const float *q, key_range seen, uint64_t element, float *out) {
    const zest_attention *job = &t->job->forward;
    weigh_keys(t, q, seen, element);
    for (size_t d = 0; d < job->head_dim; d++) {
        float sum = 0;
        for (size_t j = seen.first; j < seen.end; j++)
            sum = fmaf(t->p[j] * t->m[j], t->v[j * job->kv_stride + d], sum);
        out[d] = sum;
    }
}

static void run_task(const zest_attention_backward *backward, size_t task, int forward, float *workspace,
                     size_t longest) {
    const zest_attention *job = &backward->forward;
    size_t sequence = task / job->kv_heads, kv_head = task % job->kv_heads, size = job->head_dim;
    size_t q0 = job->q_start[sequence], queries = job->q_start[sequence + 1] - q0;
    size_t k0 = job->kv_start[sequence], keys = job->kv_start[sequence + 1] - k0;
    size_t at = k0 * job->kv_stride + kv_head * size, group = job->heads / job->kv_heads;
    head_task t = {.job = backward,
                   .k = (const float *)job->k + at,
                   .v = (const float *)job->v + at,
                   .keys = keys,
                   .p = workspace,
                   .m = workspace + longest,
                   .ds = workspace + 2 * longest,
                   .slopes = workspace + 3 * longest};
    if (!forward) {
        t.dk = (float *)backward->dk + at, t.dv = (float *)backward->dv + at;
        for (size_t j = 0; j < keys; j++) {
            memset(t.dk + j * job->kv_stride, 0, size * sizeof(float));
            memset(t.dv + j * job->kv_stride, 0, size * sizeof(float));
        }
    }
    for (size_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (size_t i = 0; i < queries; i++) {
            size_t row = q0 + i, at_key = keys - queries + i, h = head * size;
            key_range seen = {zest_attention_first_key(job, at_key),
                              zest_attention_end_key(job, at_key, keys)};
            uint64_t element = (uint64_t)(row * job->heads + head) * backward->longest;
            const float *q = (const float *)job->q + row * job->q_stride + h;
            if (forward)
                query_forward(&t, q, seen, element, (float *)job->out + row * job->out_stride + h);
            else
                query_backward(&t, q, (const float *)backward->d_out + row * job->out_stride + h, seen,
                               element, (float *)backward->dq + row * job->q_stride + h);
        }
}

static int run_tasks(const zest_attention_backward *backward, int forward, int threads,
                     zest_workspace *scratch) {
    const zest_attention *job = &backward->forward;
    size_t longest = zest_attention_max_keys(job), tasks = job->sequences * job->kv_heads;
    size_t stride = zest_scratch_round(4 * longest * sizeof(float)) / sizeof(float);
    if (zest_scratch_reserve(scratch, stride * sizeof(float) * (size_t)threads + 1)) return -1;
    float *data = scratch->data;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t task = 0; task < tasks; task++)
        run_task(backward, task, forward, data + stride * (size_t)omp_get_thread_num(), longest);
    return 0;
}

static int attention_backward(const zest_attention_backward *job, int threads, zest_workspace *scratch) {
    return run_tasks(job, 0, threads, scratch);
}

static int attention_masked(const zest_attention_backward *job, int threads, zest_workspace *scratch) {
    return run_tasks(job, 1, threads, scratch);
}

/* ---- Norms ----
 *
 * With h = (x - mean) s, s = 1/sqrt(var + eps), y = h g + b, and e = dy g:
 *
 *     dx = s (e - mean(e) - h mean(e h))     dg = sum over rows of dy h     db = sum over rows of dy
 *
 * since h stays centred and of unit length whatever x does: what moves along the ones or along h is taken
 * out. A norm by the root mean square does not centre: dx = s (e - h mean(e h)).
 *
 * Sums over a row: sixteen running sums, element i in sum i % 16, then added by halves. Sums over rows: runs
 * of ZEST_BACKWARD_ROWS rows, then the runs in order. */

/* Mean and scale, with the forward pass's bits. */
static float scale_of(const zest_norm_backward *job, const float *x, float *mean) {
    float sums[SUMS] = {0}, width = (float)job->width;
    *mean = 0;
    if (!job->rms) {
        for (size_t i = 0; i < job->width; i++) sums[i % SUMS] += x[i];
        *mean = total(sums) / width;
        memset(sums, 0, sizeof sums);
    }
    for (size_t i = 0; i < job->width; i++) sums[i % SUMS] = fmaf(x[i] - *mean, x[i] - *mean, sums[i % SUMS]);
    return 1.0f / sqrtf(total(sums) / width + job->epsilon);
}

/* One row; what it adds to the gradients of gain and bias goes to g and b. */
static void row_backward(const zest_norm_backward *job, size_t row, float *g, float *b) {
    const float *x = (const float *)job->x + zest_norm_backward_at(job, job->x_stride, row);
    const float *dy = (const float *)job->dy + zest_norm_backward_at(job, job->dy_stride, row);
    float *dx = (float *)job->dx + zest_norm_backward_at(job, job->dx_stride, row), mean,
          scale = scale_of(job, x, &mean);
    float along_ones[SUMS] = {0}, along_h[SUMS] = {0}, width = (float)job->width;
    for (size_t i = 0; i < job->width; i++) {
        float h = (x[i] - mean) * scale, e = job->gain ? dy[i] * job->gain[i] : dy[i];
        along_ones[i % SUMS] += e;
        along_h[i % SUMS] = fmaf(e, h, along_h[i % SUMS]);
        g[i] = fmaf(dy[i], h, g[i]);
        b[i] += dy[i];
    }
    float first = job->rms ? 0 : total(along_ones) / width, second = total(along_h) / width;
    for (size_t i = 0; i < job->width; i++) {
        float h = (x[i] - mean) * scale, e = job->gain ? dy[i] * job->gain[i] : dy[i];
        float d = fmaf(-second, h, e - first) * scale;
        dx[i] = job->add ? dx[i] + d : d;
    }
}

static int norm_backward(const zest_norm_backward *job, int threads, zest_workspace *scratch) {
    size_t rows = zest_norm_vectors(job->rows, job->heads), width = job->width;
    size_t runs = (rows + ZEST_BACKWARD_ROWS - 1) / ZEST_BACKWARD_ROWS;
    if (zest_scratch_reserve(scratch, 2 * runs * width * sizeof(float) + 1)) return -1;
    float *sums = scratch->data;
    memset(sums, 0, 2 * runs * width * sizeof *sums);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t run = 0; run < runs; run++) {
        size_t end = (run + 1) * ZEST_BACKWARD_ROWS < rows ? (run + 1) * ZEST_BACKWARD_ROWS : rows;
        for (size_t row = run * ZEST_BACKWARD_ROWS; row < end; row++)
            row_backward(job, row, sums + 2 * run * width, sums + (2 * run + 1) * width);
    }
    for (size_t run = 0; run < runs; run++)
        for (size_t i = 0; i < width; i++) {
            if (job->d_gain) job->d_gain[i] += sums[2 * run * width + i];
            if (job->d_bias) job->d_bias[i] += sums[(2 * run + 1) * width + i];
        }
    return 0;
}

static int sum_columns(const void *activations, size_t stride, size_t rows, size_t width, float *out,
                       int threads, zest_workspace *scratch) {
    const float *x = activations;
    size_t runs = (rows + ZEST_BACKWARD_ROWS - 1) / ZEST_BACKWARD_ROWS;
    if (zest_scratch_reserve(scratch, runs * width * sizeof(float) + 1)) return -1;
    float *sums = scratch->data;
    memset(sums, 0, runs * width * sizeof *sums);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t run = 0; run < runs; run++) {
        size_t end = (run + 1) * ZEST_BACKWARD_ROWS < rows ? (run + 1) * ZEST_BACKWARD_ROWS : rows;
        for (size_t row = run * ZEST_BACKWARD_ROWS; row < end; row++)
            for (size_t i = 0; i < width; i++) sums[run * width + i] += x[row * stride + i];
    }
    for (size_t run = 0; run < runs; run++)
        for (size_t i = 0; i < width; i++) out[i] += sums[run * width + i];
    return 0;
}

/* ---- Rows ----
 *
 * The gradient of a row that was read several times is the sum of its readers' gradients, in their order. */

int zest_plain_copy(const zest_copy_rows *job, int threads, zest_workspace *scratch) {
    const float *from = job->from;
    float *to = job->to;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < job->count; i++) {
        size_t source = job->source ? job->source[i] : i, target = job->target ? job->target[i] : i;
        memcpy(to + target * job->to_stride, from + source * job->from_stride, job->width * sizeof *to);
    }
    return 0;
}

int zest_plain_scatter_add(const zest_scatter_add *job, int threads, zest_workspace *scratch) {
    const zest_scatter_index *index = &job->index;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < index->count; i++) {
        float *out = (float *)job->out + (index->targets ? index->targets[i] : i) * job->out_stride;
        if (!job->add) memset(out, 0, job->width * sizeof *out);
        for (size_t s = index->runs[index->starts[i]]; s < index->runs[index->starts[i + 1]]; s++) {
            const float *x = (const float *)job->x + index->sources[s] * job->x_stride;
            for (size_t c = 0; c < job->width; c++) out[c] += x[c];
        }
    }
    return 0;
}

void zest_plain_negate(float *out, const float *x, size_t count, int threads, zest_workspace *scratch) {
    (void)threads, (void)scratch;
    for (size_t i = 0; i < count; i++) out[i] = -x[i];
}

/* ---- Logits ----
 *
 * Of label words: gradients of the features and of the words' rows of the head. Of a block of the vocabulary: out
 * of the rows' sums. */

int zest_plain_label_words_backward(const zest_label_words_backward *job, int threads,
                                    zest_workspace *scratch) {
    size_t width = job->width;
    (void)threads, (void)scratch;
    for (size_t i = 0; i < job->items; i++)
        for (size_t w = 0; w < job->count; w++) {
            float d_logit = job->d_logits[i * job->count + w], *to = (float *)job->d + i * width;
            const float *row = (const float *)job->rows + w * width;
            const float *feature = (const float *)job->features + i * width;
            for (size_t c = 0; c < width; c++) to[c] = w ? fmaf(d_logit, row[c], to[c]) : d_logit * row[c];
            float *d_row = job->d_weight ? job->d_weight + job->words[w] * width : NULL;
            for (size_t c = 0; d_row && c < width; c++) d_row[c] = fmaf(d_logit, feature[c], d_row[c]);
            if (job->d_bias) job->d_bias[job->words[w]] += d_logit;
        }
    return 0;
}

int zest_plain_logits_backward(const zest_logits_backward *job, int threads, zest_workspace *scratch) {
    const zest_logit_block *block = &job->block;
    size_t count = block->count;
    (void)scratch;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t r = 0; r < block->rows; r++) {
        const zest_logit_sum *row = &job->sums[r];
        const float *logits = block->logits + r * count;
        float *d = (float *)job->d + r * job->d_stride;
        double sum = row->max + log(row->sum), weight = job->weights[r], cap = (double)job->soft_cap;
        for (size_t w = 0; w < count; w++) d[w] = (float)(weight * zest_small_exp((double)logits[w] - sum));
        if (block->targets[r] >= block->first && block->targets[r] - block->first < count) {
            size_t at = block->targets[r] - block->first;
            d[at] = (float)(weight * (zest_small_exp((double)logits[at] - sum) - 1));
        }
        for (size_t w = 0; job->soft_cap != 0 && w < count; w++)
            d[w] *= (float)(1 - (double)logits[w] / cap * ((double)logits[w] / cap));
    }
    return 0;
}

/* ---- Dropout ----
 *
 * (Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, JMLR 2014), the kept elements scaled up:
 * y = m x, dx = m dy. The mask is a function of a key and the element's number, so the backward pass draws
 * the same one again. */

enum { RUN = 512 };

void zest_plain_mask(const zest_noise *noise, const zest_mask *mask, uint64_t first, size_t count,
                     float *out) {
    uint16_t bits[RUN];
    for (size_t i = 0; i < count; i += RUN) {
        size_t here = count - i < RUN ? count - i : RUN;
        noise->round(bits, mask->key, first + i, here);
        for (size_t j = 0; j < here; j++) out[i + j] = bits[j] >= mask->threshold ? mask->scale : 0.0f;
    }
}

void zest_plain_drop(void *result, const void *input, const void *added, size_t count, const zest_mask *mask,
                     int threads, zest_workspace *scratch) {
    const float *x = input, *residual = added;
    float *out = result;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i += RUN) {
        float m[RUN];
        size_t here = count - i < RUN ? count - i : RUN;
        zest_plain_mask(&zest_noise_plain, mask, i, here, m);
        for (size_t j = i; j < i + here; j++)
            out[j] = residual ? fmaf(m[j - i], x[j], residual[j]) : m[j - i] * x[j];
    }
}

const zest_backward zest_backward_plain = {
    ZEST_CPU_PLAIN,   norm_backward,       attention_backward,
    attention_masked, zest_plain_activate, zest_plain_activate_backward,
    sum_columns,      zest_plain_drop,     ZEST_PLAIN_ROW_OPS};

const zest_backward *zest_backward_for(const zest_ops *operations) {
#if defined(ZEST_CUDA)
    if (operations->device) return &zest_backward_cuda;
#endif
    switch (operations->cpu) {
#if defined(__x86_64__)
    case ZEST_CPU_AMX:
    case ZEST_CPU_AVX512BF16:
    case ZEST_CPU_AVX512: return &zest_backward_avx512;
    case ZEST_CPU_AVX2: return &zest_backward_avx2;
#endif
    default: return &zest_backward_plain;
    }
}
