/* The operations in plain C: the reference. Every sum is taken in an order written down here, so that the
 * vector versions can take the same one and give the same bits:
 *
 *     linear     one chain of fused multiply-adds per output element, over the inputs in order
 *     attention  scores by one chain over the head's elements, the weighted sum by one chain over the keys
 *     norm       and the softmax's denominator: sixteen running sums, element i in sum i % 16, then added by
 *                halves */
#include <omp.h>
#include <string.h>

#include "io/gguf.h"
#include "kernels/ops.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/simd_plain.h"
#include "kernels/cpu/activations.h"
#include "kernels/cpu/vector_ops.h"

enum { SUMS = 16, CHUNK = 256 };

/* ---- Weights as a lane sees them ---- */

/* `count` elements from `element` on, `step` apart, for both lanes; z: scratch for as many. */
static void perturb(const zest_weight *weight, const zest_perturbation *p, size_t element, size_t step,
                    size_t count, float *z, float *const out[2]) {
    if (weight->block_type) {
        zest_gguf_read_blocks(weight->block_type, zest_weight_at(weight, element), count, out[0]);
        if (p->lanes > 1) memcpy(out[1], out[0], count * sizeof *out[0]);
        return;
    }
    int noisy = zest_weight_needs_noise(weight, p);
    for (size_t i = 0; i < count; i++) {
        size_t at = element + i * step;
        (void)zest_dtype_to_float(weight->dtype, zest_weight_at(weight, at), 1, &out[0][i]);
        if (noisy && step != 1) zest_weight_noise(weight, p, &zest_noise_plain, at, 1, &z[i]);
    }
    if (noisy && step == 1) zest_weight_noise(weight, p, &zest_noise_plain, element, count, z);
    for (int l = p->lanes - 1; l >= 0; l--) { /* lane 0 last: it holds what was stored until then */
        int perturbed = zest_weight_is_perturbed(weight, p, l);
        for (size_t i = 0; i < count; i++)
            out[l][i] = perturbed ? fmaf(p->scale[l], z[i], out[0][i]) : out[0][i];
    }
}

static void round_bf16(float *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = zest_dtype_from_bf16(zest_dtype_to_bf16(x[i]));
}

/* ---- Linear ---- */

/* Output column n of all rows, for both lanes. scratch: 3 times the number of inputs. */
static void linear_column(const zest_linear *job, size_t inputs, size_t outputs, size_t n, float *scratch) {
    const zest_perturbation *p = &job->perturbation;
    float *w[2] = {scratch, scratch + inputs}, *z = scratch + 2 * inputs, b[2] = {0, 0}, bias_z;
    int bf16 = job->compute == ZEST_COMPUTE_BF16;
    perturb(&job->weight, p, job->transposed ? n : n * inputs, job->transposed ? outputs : 1, inputs, z, w);
    if (job->bias.data) perturb(&job->bias, p, n, 1, 1, &bias_z, (float *[2]){&b[0], &b[1]});
    for (int l = 0; l < p->lanes; l++) {
        const float *residual = job->residual[l];
        float *out = job->out[l];
        if (bf16) round_bf16(w[l], inputs);
        for (size_t m = 0; m < job->rows; m++) {
            size_t step = job->a_transposed ? job->a_stride : 1;
            const float *a = (const float *)job->a[l] + m * (job->a_transposed ? 1 : job->a_stride);
            float sum = 0;
            for (size_t k = 0; k < inputs; k++) {
                size_t i = bf16 && (k ^ 1) < inputs ? k ^ 1 : k;
                float x = bf16 ? zest_dtype_from_bf16(zest_dtype_to_bf16(a[i * step])) : a[i * step];
                sum = fmaf(x, w[l][i], sum);
            }
            float y = f_activate(job->bias.data ? sum + b[l] : sum, job->activation);
            if (residual) y += residual[m * job->residual_stride + n];
            out[m * job->out_stride + n] = y;
        }
    }
}

static int linear(const zest_linear *job, int threads, zest_workspace *scratch) {
    if (job->weight.block_type) return zest_quantized_plain(job, threads, scratch);
    size_t outputs = job->transposed ? job->weight.columns : job->weight.rows;
    size_t inputs = job->transposed ? job->weight.rows : job->weight.columns;
    size_t stride = zest_scratch_round(3 * inputs * sizeof(float)) / sizeof(float);
    if (zest_scratch_reserve(scratch, stride * sizeof(float) * (size_t)threads)) return -1;
    float *data = scratch->data;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t n = 0; n < outputs; n++)
        linear_column(job, inputs, outputs, n, data + stride * (size_t)omp_get_thread_num());
    return 0;
}

/* ---- Sums ---- */

static float total(float sums[SUMS]) {
    for (int half = SUMS / 2; half; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

/* ---- Norm ---- */

static void norm_row(const zest_norm *job, const float *x, const float *g, const float *b, float *out) {
    float sums[SUMS] = {0}, width = (float)job->width, mean = 0;
    if (!job->rms) {
        for (size_t i = 0; i < job->width; i++) sums[i % SUMS] += x[i];
        mean = total(sums) / width;
        memset(sums, 0, sizeof sums);
    }
    for (size_t i = 0; i < job->width; i++) sums[i % SUMS] = fmaf(x[i] - mean, x[i] - mean, sums[i % SUMS]);
    float scale = 1.0f / sqrtf(total(sums) / width + job->epsilon);
    for (size_t i = 0; i < job->width; i++) {
        float y = (x[i] - mean) * scale * (g ? g[i] : 1.0f);
        out[i] = b ? y + b[i] : y;
    }
}

static int norm(const zest_norm *job, int threads, zest_workspace *scratch) {
    size_t width = job->width;
    const zest_perturbation *p = &job->perturbation;
    if (zest_scratch_reserve(scratch, 5 * width * sizeof(float))) return -1;
    float *data = scratch->data, *g[2] = {data, data + width}, *b[2] = {data + 2 * width, data + 3 * width};
    if (job->gain.data) perturb(&job->gain, p, 0, 1, width, data + 4 * width, g);
    if (job->bias.data) perturb(&job->bias, p, 0, 1, width, data + 4 * width, b);
    for (int l = 0; l < p->lanes; l++) {
        const float *x = job->x[l];
        for (size_t i = 0; job->gain_offset != 0 && i < width; i++) g[l][i] += job->gain_offset;
        float *out = job->out[l];
#pragma omp parallel for num_threads(threads) schedule(static)
        for (size_t i = 0; i < zest_norm_vectors(job->rows, job->heads); i++)
            norm_row(job, x + zest_norm_offset(i, job->heads, job->x_stride, width),
                     job->gain.data ? g[l] : NULL, job->bias.data ? b[l] : NULL,
                     out + zest_norm_offset(i, job->heads, job->out_stride, width));
    }
    return 0;
}

/* ---- Attention ---- */

/* One query against the keys from `first` to before `end`. The row maximum is subtracted before exp. s: scratch for the
 * scores. */
static void attend(const zest_attention *job, const float *q, const float *k, const float *v, size_t first,
                   size_t end, float *s, float *out) {
    float sums[SUMS] = {0}, row_max = -INFINITY;
    for (size_t j = first; j < end; j++) {
        float dot = 0;
        for (size_t d = 0; d < job->head_dim; d++) dot = fmaf(q[d], k[j * job->kv_stride + d], dot);
        s[j] = dot * job->scale;
        if (job->soft_cap != 0) s[j] = f_soft_cap(s[j], job->soft_cap);
        row_max = v_max(s[j], row_max);
    }
    for (size_t j = first; j < end; j++) {
        s[j] = f_exp(s[j] - row_max);
        sums[j % SUMS] += s[j];
    }
    float inverse = 1.0f / total(sums);
    for (size_t d = 0; d < job->head_dim; d++) {
        float sum = 0;
        for (size_t j = first; j < end; j++) sum = fmaf(s[j], v[j * job->kv_stride + d], sum);
        out[d] = end > first ? sum * inverse : 0;
    }
}

static void attend_sequence(const zest_attention *job, size_t sequence, size_t head, float *scores) {
    size_t q0 = job->q_start[sequence], queries = job->q_start[sequence + 1] - q0;
    size_t k0 = job->kv_start[sequence], keys = zest_attention_keys(job, sequence), past = keys - queries;
    size_t kv_head = head / (job->heads / job->kv_heads);
    const float *q = (const float *)job->q + head * job->head_dim;
    const float *k = (const float *)job->k + k0 * job->kv_stride + kv_head * job->head_dim;
    const float *v = (const float *)job->v + k0 * job->kv_stride + kv_head * job->head_dim;
    float *out = (float *)job->out + head * job->head_dim;
    for (size_t i = 0; i < queries; i++)
        attend(job, q + (q0 + i) * job->q_stride, k, v, zest_attention_first_key(job, past + i),
               zest_attention_end_key(job, past + i, keys), scores, out + (q0 + i) * job->out_stride);
}

static int attention(const zest_attention *job, int threads, zest_workspace *scratch) {
    size_t longest = zest_attention_max_keys(job), tasks = job->sequences * job->heads;
    size_t stride = zest_scratch_round(longest * sizeof(float)) / sizeof(float);
    if (zest_scratch_reserve(scratch, stride * sizeof(float) * (size_t)threads)) return -1;
    float *data = scratch->data;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t t = 0; t < tasks; t++)
        attend_sequence(job, t / job->heads, t % job->heads, data + stride * (size_t)omp_get_thread_num());
    return 0;
}

/* ---- Element by element ---- */

static void rotary(void *activations, size_t rows, size_t stride, size_t heads, size_t head_dim,
                   size_t rotary_dim, const uint32_t *positions, const float *cosines, const float *sines,
                   int threads, zest_workspace *scratch) {
    (void)scratch;
    float *x = activations;
    size_t half = rotary_dim / 2;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t m = 0; m < rows; m++) {
        const float *c = cosines + positions[m] * half, *s = sines + positions[m] * half;
        for (size_t h = 0; h < heads; h++) {
            float *low = x + m * stride + h * head_dim, *high = low + half;
            for (size_t i = 0; i < half; i++) {
                float a = low[i], b = high[i];
                low[i] = a * c[i] - b * s[i];
                high[i] = b * c[i] + a * s[i];
            }
        }
    }
}

static void gate(void *gates, const void *ups, size_t count, zest_activation activation, int threads,
                 zest_workspace *scratch) {
    float *x = gates;
    const float *up = ups;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i++) x[i] = f_activate(x[i], activation) * up[i];
}

static void gather_row(const zest_weight *table, const zest_perturbation *p, size_t row, void *const out[2],
                       size_t at, int add) {
    float z[CHUNK], w0[CHUNK], w1[CHUNK], *const w[2] = {w0, w1};
    for (size_t c = 0; c < table->columns; c += CHUNK) {
        size_t count = table->columns - c < CHUNK ? table->columns - c : CHUNK;
        perturb(table, p, row * table->columns + c, 1, count, z, w);
        for (int l = 0; l < p->lanes; l++) {
            float *to = (float *)out[l] + at * table->columns + c;
            for (size_t i = 0; i < count; i++) to[i] = add ? to[i] + w[l][i] : w[l][i];
        }
    }
}

static int gather(const zest_gather *job, int threads, zest_workspace *scratch) {
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < job->count; i++)
        for (size_t part = 0; part < job->part_count; part++)
            gather_row(&job->parts[part].table, &job->perturbation, job->parts[part].ids[i], job->out, i,
                       part || job->add);
    return 0;
}

static void add_scaled(void *result, const void *input, float factor, const void *added, size_t count,
                       int threads, zest_workspace *scratch) {
    const float *x = input, *y = added;
    float *out = result;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i++) out[i] = y ? fmaf(factor, x[i], y[i]) : factor * x[i];
}

static void soft_cap(float *x, size_t count, float cap, int threads, zest_workspace *scratch) {
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i++) x[i] = f_soft_cap(x[i], cap);
}

const zest_ops zest_ops_plain = {ZEST_CPU_PLAIN, linear, norm,       attention, rotary,
                                 gate,           gather, add_scaled, soft_cap,  NULL};

const zest_vector_ops zest_vector_ops_plain = ZEST_VECTOR_OPS(ZEST_CPU_PLAIN, &zest_noise_plain);
