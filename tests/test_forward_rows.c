/* attention, norm, rotary, gate, gather: every level against the plain reference, the reference against fp64.
 */
#include "tests/device_support.h"

/* ---- Attention ---- */

typedef struct {
    size_t heads, kv_heads, size;
    int causal;
    size_t past; /* keys before the first query */
    size_t lengths[6];
} attention_case;

static const attention_case attentions[] = {
    {1, 1, 16, 0, 0, {1}},       {2, 2, 64, 0, 0, {7, 1, 33, 0, 16}}, {2, 1, 64, 1, 0, {7, 1, 33, 14, 50}},
    {4, 2, 20, 1, 5, {31, 3}},   {3, 1, 36, 0, 9, {15, 17}},          {2, 2, 80, 1, 0, {65}},
    {1, 1, 128, 1, 100, {1, 2}}, {1, 1, 256, 0, 0, {19, 40}},         {6, 2, 4, 1, 1, {29}},
    {1, 1, 64, 1, 3, {600, 20}}, /* longer than a task */
    {1, 1, 64, 0, 0, {300}},
};

typedef struct {
    zest_attention job;
    uint32_t q_start[7], kv_start[7];
    float *q, *k, *v, *out;
    size_t out_floats;
} attention_operands;

static void make(attention_operands *o, const attention_case *c) {
    size_t sequences = 0;
    memset(o, 0, sizeof *o);
    while (sequences < 6 && (c->lengths[sequences] || (sequences + 1 < 6 && c->lengths[sequences + 1]))) {
        o->q_start[sequences + 1] = o->q_start[sequences] + (uint32_t)c->lengths[sequences];
        o->kv_start[sequences + 1] = o->kv_start[sequences] + (uint32_t)(c->lengths[sequences] + c->past);
        sequences++;
    }
    size_t q_stride = c->heads * c->size + 3, kv_stride = c->kv_heads * c->size + 5,
           out_stride = c->heads * c->size + 1;
    o->q = normals(o->q_start[sequences] * q_stride, 1, 1.5f);
    o->k = normals(o->kv_start[sequences] * kv_stride, 2, 1.5f);
    o->v = normals(o->kv_start[sequences] * kv_stride, 3, 1);
    o->out_floats = o->q_start[sequences] * out_stride;
    o->out = room(o->out_floats);
    o->job = (zest_attention){o->q,
                              o->k,
                              o->v,
                              o->out,
                              q_stride,
                              kv_stride,
                              out_stride,
                              o->q_start,
                              o->kv_start,
                              sequences,
                              c->heads,
                              c->kv_heads,
                              c->size,
                              c->causal,
                              1 / sqrtf((float)c->size),
                              ZEST_COMPUTE_F32,
                              NULL,
                              0,
                              1,
                              0,
                              0,
                              0};
}

static void discard(attention_operands *o) {
    free(o->q);
    free(o->k);
    free(o->v);
    free(o->out);
}

static void every_level_attends_as_the_reference(void **state) {
    (void)state;
    zest_scratch scratch = {0};
    for (size_t i = 0; i < COUNT(attentions); i++) {
        attention_operands o;
        make(&o, &attentions[i]);
        float *expected = room(o.out_floats);
        assert_int_equal(zest_forward_plain.attention(&o.job, 1, &scratch), 0);
        memcpy(expected, o.out, o.out_floats * sizeof(float));
        for (int level = 0; level < levels(); level++)
            for (int threads = 1; threads <= 3; threads++)
                for (int compute = 0; compute < 2; compute++) { /* attention is fp32 in both */
                    char what[64];
                    snprintf(what, sizeof what, "attention %zu, %s", i, zest_cpu_name((zest_cpu)level));
                    for (size_t j = 0; j < o.out_floats; j++) o.out[j] = GUARD;
                    o.job.compute = (zest_compute)compute;
                    assert_int_equal(zest_forward_for((zest_cpu)level)->attention(&o.job, threads, &scratch),
                                     0);
                    same(o.out, expected, o.out_floats, 0, what);
                }
        free(expected);
        discard(&o);
    }
    free(scratch.data);
}

/* One query in fp64. */
static void attend(const zest_attention *job, size_t sequence, size_t i, size_t head, double *out) {
    size_t k0 = job->kv_start[sequence], keys = job->kv_start[sequence + 1] - k0, q0 = job->q_start[sequence];
    size_t seen = job->causal ? keys - (job->q_start[sequence + 1] - q0) + i + 1 : keys;
    size_t at = head * job->kv_heads / job->heads * job->head_size;
    const float *q = job->q + (q0 + i) * job->q_stride + head * job->head_size;
    double sum = 0;
    memset(out, 0, job->head_size * sizeof *out);
    for (size_t j = 0; j < seen; j++) {
        double dot = 0;
        for (size_t d = 0; d < job->head_size; d++)
            dot += (double)q[d] * job->k[(k0 + j) * job->kv_stride + at + d];
        double e = exp(dot * job->scale);
        sum += e;
        for (size_t d = 0; d < job->head_size; d++) out[d] += e * job->v[(k0 + j) * job->kv_stride + at + d];
    }
    for (size_t d = 0; d < job->head_size; d++) out[d] /= sum;
}

static void the_reference_attends_right(void **state) {
    (void)state;
    zest_scratch scratch = {0};
    for (size_t c = 0; c < COUNT(attentions); c++) {
        attention_operands o;
        double exact[256];
        make(&o, &attentions[c]);
        assert_int_equal(zest_forward_plain.attention(&o.job, 1, &scratch), 0);
        for (size_t s = 0; s < o.job.sequences; s++)
            for (size_t i = 0; i < attentions[c].lengths[s]; i++)
                for (size_t h = 0; h < o.job.heads; h++) {
                    attend(&o.job, s, i, h, exact);
                    const float *got = o.out + (o.q_start[s] + i) * o.job.out_stride + h * o.job.head_size;
                    for (size_t d = 0; d < o.job.head_size; d++) assert_close(got[d], exact[d], 4e-6);
                }
        discard(&o);
    }
    free(scratch.data);
}

/* The last queries of a causal sequence, asked for with the others as past, and a sequence without its
 * batch-mates. */
static void a_query_depends_on_its_keys_alone(void **state) {
    (void)state;
    static const attention_case c = {2, 1, 64, 1, 0, {20, 61, 9}};
    zest_scratch scratch = {0};
    for (int level = 0; level < levels(); level++)
        for (uint32_t skip = 0; skip < 61; skip += 5) {
            attention_operands o;
            make(&o, &c);
            assert_int_equal(zest_forward_for((zest_cpu)level)->attention(&o.job, 2, &scratch), 0);
            uint32_t q_start[2] = {20 + skip, 81}, kv_start[2] = {20, 81};
            zest_attention job = o.job;
            float *out = room(o.out_floats);
            job.sequences = 1;
            job.q_start = q_start;
            job.kv_start = kv_start;
            job.out = out;
            assert_int_equal(zest_forward_for((zest_cpu)level)->attention(&job, 1, &scratch), 0);
            for (size_t i = q_start[0]; i < 81; i++)
                same(out + i * job.out_stride, o.out + i * job.out_stride, 128, 0,
                     zest_cpu_name((zest_cpu)level));
            free(out);
            discard(&o);
        }
    free(scratch.data);
}

/* ---- Norm ---- */

static double moved(const zest_weight *w, const zest_perturbation *p, int lane, size_t i) {
    float x, z;
    assert_int_equal(
        zest_dtype_to_float(w->dtype, (const char *)w->data + i * zest_dtype_size(w->dtype), 1, &x), 0);
    (p->signs ? zest_noise_plain.sign : zest_noise_plain.normal)(&z, p->seed, w->first + i, 1);
    return x + (w->frozen ? 0 : (double)p->scale[lane] * z);
}

static void check_norm(const zest_norm *job, const float *x, const float *got, int lane) {
    for (size_t m = 0; m < job->rows; m++, x += job->width, got += job->width) {
        double mean = 0, square = 0, width = (double)job->width;
        for (size_t i = 0; i < job->width && !job->rms; i++) mean += x[i] / width;
        for (size_t i = 0; i < job->width; i++) square += (x[i] - mean) * (x[i] - mean) / width;
        for (size_t i = 0; i < job->width; i++) {
            double y = (x[i] - mean) / sqrt(square + job->epsilon);
            if (job->gain.data) y *= moved(&job->gain, &job->perturbation, lane, i);
            if (job->bias.data) y += moved(&job->bias, &job->perturbation, lane, i);
            assert_close(got[i], y, 4e-6);
        }
    }
}

static void norms(void **state) {
    (void)state;
    static const size_t widths[] = {1, 7, 16, 23, 96, 769, 15011}; /* the last is worth several threads */
    static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_F16, ZEST_DTYPE_BF16};
    zest_scratch scratch = {0};
    for (size_t w = 0; w < COUNT(widths); w++)
        for (int kind = 0; kind < 16; kind++) {
            size_t width = widths[w], count = 5 * width;
            int no_gain = kind & 2, no_bias = kind & 4, in_place = kind & 8, lanes = kind % 3 ? 2 : 1;
            zest_norm job = {.rms = kind & 1, .epsilon = 1e-5f, .rows = 5, .width = width};
            job.perturbation =
                (zest_perturbation){.seed = 99, .signs = kind == 5, .scale = {0.05f, -0.05f}, .lanes = lanes};
            if (!no_gain) job.gain = weight(dtypes[kind % 3], 1, width, 3, 1, 13);
            if (!no_bias) job.bias = weight(dtypes[kind % 3], 1, width, 4, 1, 1 << 20);
            job.bias.frozen = kind == 9;
            float *x[2] = {normals(count, 1, 2), normals(count, 2, 2)},
                  *expected[2] = {room(count), room(count)};
            float *out[2] = {room(count), room(count)};
            for (int l = 0; l < lanes; l++) job.x[l] = x[l], job.out[l] = expected[l];
            assert_int_equal(zest_forward_plain.norm(&job, 1, &scratch), 0);
            for (int l = 0; l < lanes; l++) check_norm(&job, x[l], expected[l], l);
            for (int level = 0; level < levels(); level++) {
                for (int l = 0; l < lanes; l++) {
                    memcpy(out[l], x[l], count * sizeof(float));
                    job.x[l] = in_place ? out[l] : x[l];
                    job.out[l] = out[l];
                }
                assert_int_equal(zest_forward_for((zest_cpu)level)->norm(&job, 1 + level % 3, &scratch), 0);
                for (int l = 0; l < lanes; l++)
                    same(out[l], expected[l], count, 0, zest_cpu_name((zest_cpu)level));
            }
            for (int l = 0; l < 2; l++) free(x[l]), free(expected[l]), free(out[l]);
            release(&job.gain);
            release(&job.bias);
        }
    free(scratch.data);
}

/* ---- Element by element ---- */

static void rotaries(void **state) {
    (void)state;
    static const size_t sizes[] = {2, 16, 20, 64, 128, 10, 8192};
    static const uint32_t positions[] = {3, 0, 7, 7, 2, 9};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        size_t size = sizes[s], half = size / 2, stride = 3 * size + 2, count = 6 * stride;
        float *x = normals(count, 1, 1), *expected = normals(count, 1, 1), *c = room(10 * half),
              *n = room(10 * half);
        for (size_t i = 0; i < 10 * half; i++) {
            double angle = (double)(i / half) * pow(10000, -2.0 * (double)(i % half) / (double)size);
            c[i] = (float)cos(angle), n[i] = (float)sin(angle);
        }
        zest_forward_plain.rotary(expected, 6, stride, 3, size, positions, c, n, 1, NULL);
        for (size_t m = 0; m < 6; m++)
            for (size_t h = 0; h < 3; h++)
                for (size_t i = 0; i < half; i++) { /* a rotation of the plane, as a complex product */
                    size_t at = m * stride + h * size + i, t = positions[m] * half + i;
                    assert_close(expected[at], (double)x[at] * c[t] - (double)x[at + half] * n[t], 1e-6);
                    assert_close(expected[at + half], (double)x[at] * n[t] + (double)x[at + half] * c[t],
                                 1e-6);
                }
        for (int level = 0; level < levels(); level++) {
            float *got = normals(count, 1, 1);
            zest_forward_for((zest_cpu)level)->rotary(got, 6, stride, 3, size, positions, c, n, 2, NULL);
            same(got, expected, count, 0, zest_cpu_name((zest_cpu)level));
            free(got);
        }
        free(x), free(expected), free(c), free(n);
    }
}

/* The activations over their whole range, as gate computes them. */
static void activations(void **state) {
    (void)state;
    enum { N = 20011 };
    float *x = room(N), *ones = room(N), *expected = room(N), *got = room(N);
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * 3e-3f, ones[i] = 1;
    for (int act = ZEST_ACT_NONE; act <= ZEST_ACT_SILU; act++) {
        memcpy(expected, x, N * sizeof *x);
        zest_forward_plain.gate(expected, ones, N, (zest_activation)act, 1, NULL);
        for (int i = 0; i < N; i++) {
            double v = x[i], y = v;
            if (act == ZEST_ACT_RELU) y = v > 0 ? v : 0;
            if (act == ZEST_ACT_GELU) y = 0.5 * v * erfc(-v / sqrt(2.0));
            if (act == ZEST_ACT_GELU_TANH)
                y = 0.5 * v * (1 + tanh(sqrt(2 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
            if (act == ZEST_ACT_SILU) y = v / (1 + exp(-v));
            assert_close(expected[i], y, 2e-7 * fmax(1, fabs(v)));
        }
        for (int level = 0; level < levels(); level++) {
            memcpy(got, x, N * sizeof *x);
            zest_forward_for((zest_cpu)level)->gate(got, ones, N, (zest_activation)act, 2, NULL);
            same(got, expected, N, 0, zest_cpu_name((zest_cpu)level));
        }
        for (int level = 0; level < levels(); level++) { /* far out, and NaN */
            float far[4] = {1e30f, -1e30f, NAN, 0}, up[4] = {2, 2, 2, 2};
            zest_forward_for((zest_cpu)level)->gate(far, up, 4, (zest_activation)act, 1, NULL);
            assert_true(far[0] == 2e30f && isnan(far[2]) && far[3] == 0);
            if (act) assert_close(far[1], 0, 1e-7);
        }
    }
    free(x), free(ones), free(expected), free(got);
}

static void gathers(void **state) {
    (void)state;
    static const uint32_t ids[] = {4, 0, 4, 30, 17};
    static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_F16, ZEST_DTYPE_BF16};
    for (int kind = 0; kind < 24; kind++) {
        size_t columns = kind & 1 ? 3001 : 24, count = COUNT(ids) * columns;
        int add = kind & 2, lanes = kind & 4 ? 2 : 1;
        zest_weight table = weight(dtypes[kind % 3], 31, columns, 7, 1, 1000001);
        zest_perturbation p = {
            .seed = 5, .signs = kind == 10, .scale = {kind == 3 ? 0 : 0.1f, -0.1f}, .lanes = lanes};
        table.frozen = kind == 6;
        float *before = normals(count, 1, 1), *expected[2] = {room(count), room(count)},
              *out[2] = {room(count), room(count)};
        for (int l = 0; l < 2; l++) memcpy(expected[l], before, count * sizeof(float));
        assert_int_equal(zest_forward_plain.gather(&table, &p, ids, COUNT(ids), expected, add, 1, NULL), 0);
        for (size_t i = 0; i < count * (size_t)lanes; i++) {
            size_t l = i / count, row = i % count / columns, c = i % columns, at = i % count;
            assert_close(expected[l][at],
                         moved(&table, &p, (int)l, ids[row] * columns + c) + (add ? before[at] : 0), 1e-6);
        }
        for (int level = 0; level < levels(); level++) {
            for (int l = 0; l < 2; l++) memcpy(out[l], before, count * sizeof(float));
            assert_int_equal(
                zest_forward_for((zest_cpu)level)->gather(&table, &p, ids, COUNT(ids), out, add, 2, NULL), 0);
            for (int l = 0; l < 2; l++) same(out[l], expected[l], count, 0, zest_cpu_name((zest_cpu)level));
        }
        free(before);
        for (int l = 0; l < 2; l++) free(expected[l]), free(out[l]);
        release(&table);
    }
}

/* ---- On a GPU ---- */

/* The cases above, whose odd strides only the plain kernel takes, and more with strides that the tensor
 * cores' kernel takes; two lanes at once. */
static const attention_case more_attentions[] = {
    {2, 2, 32, 0, 0, {7, 1, 33, 0, 16}},
    {2, 1, 64, 1, 0, {7, 1, 130, 14, 64}},
    {2, 2, 64, 0, 0, {128, 65, 63, 1}},
    {4, 2, 80, 1, 5, {31, 3}},
    {3, 1, 96, 0, 9, {15, 17}},
    {2, 2, 128, 1, 3, {65, 200}},
    {1, 1, 256, 1, 100, {1, 2}},
    {2, 1, 256, 0, 0, {19, 40, 100}},
    {2, 2, 24, 1, 0, {70}},
    {1, 1, 192, 1, 0, {129}},
    {12, 12, 64, 1, 1, {256, 31}},
};

static void attend_on_device(zest_device *device, const attention_case *c, int even, int which) {
    attention_operands o;
    zest_scratch plain = {0}, scratch = {.device = device};
    make(&o, c);
    size_t n = o.job.sequences, q = c->heads * c->size, kv = c->kv_heads * c->size, longest = 0;
    size_t q_rows = o.q_start[n], kv_rows = o.kv_start[n];
    if (even) o.job.q_stride = q, o.job.kv_stride = kv, o.job.out_stride = q; /* what was made is longer */
    size_t floats = q_rows * o.job.out_stride, q_floats = q_rows * o.job.q_stride,
           kv_floats = kv_rows * o.job.kv_stride;
    float *both[4] = {room(2 * q_floats), room(2 * kv_floats), room(2 * kv_floats), room(2 * floats)};
    float *expected = room(2 * floats), *got = room(2 * floats);
    for (size_t l = 0; l < 2; l++) {
        zest_noise_plain.normal(both[0] + l * q_floats, 41 + l, 0, q_floats);
        zest_noise_plain.normal(both[1] + l * kv_floats, 43 + l, 0, kv_floats);
        zest_noise_plain.normal(both[2] + l * kv_floats, 45 + l, 0, kv_floats);
    }
    zest_attention job = o.job;
    job.q = device_put_cells(device, both[0], 2 * q_floats);
    job.k = device_put_cells(device, both[1], 2 * kv_floats);
    job.v = device_put_cells(device, both[2], 2 * kv_floats);
    job.out = device_put_cells(device, both[3], 2 * floats);
    job.q_start = device_put(device, o.q_start, sizeof o.q_start);
    job.kv_start = device_put(device, o.kv_start, sizeof o.kv_start);
    if (even) job.kv_end = device_put(device, o.kv_start + 1, sizeof o.kv_start - sizeof *o.kv_start);
    for (size_t s = 0; s < n; s++) longest = c->lengths[s] > longest ? c->lengths[s] : longest;
    job.longest = longest, job.lanes = 2, job.q_lane = q_floats, job.kv_lane = kv_floats,
    job.out_lane = floats;
    device_fine(device, device->operations->attention(&job, 1, &scratch));
    device_get_cells(device, job.out, 2 * floats, got);
    memcpy(expected, both[3], 2 * floats * sizeof *expected);
    for (size_t l = 0; l < 2; l++) {
        o.job.q = both[0] + l * q_floats, o.job.k = both[1] + l * kv_floats,
        o.job.v = both[2] + l * kv_floats;
        o.job.out = expected + l * floats;
        assert_int_equal(zest_forward_plain.attention(&o.job, 1, &plain), 0);
    }
    char what[96];
    snprintf(what, sizeof what, "attention of %zu heads of %zu, %s%s", c->heads, c->size, device_names[which],
             even ? ", even" : "");
    device_same(got, expected, 2 * q_rows, q, o.job.out_stride, 5e-6 + 2 * device_step[which], what);
    for (int i = 0; i < 4; i++) free(both[i]);
    free(expected), free(got), free(plain.data);
    discard(&o);
}

static void the_gpu_attends_as_the_reference(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        for (size_t i = 0; i < COUNT(attentions); i++) attend_on_device(device, &attentions[i], 0, which);
        for (size_t i = 0; i < COUNT(more_attentions); i++)
            attend_on_device(device, &more_attentions[i], 1, which);
        zest_device_close(device);
    }
    device_verdict();
}

static void norm_on_device(zest_device *device, size_t width, int kind, int which) {
    static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_F16, ZEST_DTYPE_BF16};
    enum { ROWS = 11 };
    size_t count = ROWS * width;
    int lanes = kind % 3 ? 2 : 1;
    zest_scratch plain = {0}, scratch = {.device = device};
    zest_norm job = {.rms = kind & 1, .epsilon = 1e-5f, .rows = ROWS, .width = width}, there;
    job.perturbation =
        (zest_perturbation){.seed = 99, .signs = kind == 5, .scale = {0.05f, -0.05f}, .lanes = lanes};
    if (!(kind & 2)) job.gain = weight(dtypes[kind % 3], 1, width, 3, 1, 13);
    if (!(kind & 4)) job.bias = weight(dtypes[kind % 3], 1, width, 4, 1, 1 << 20);
    job.bias.frozen = kind == 9;
    there = job;
    there.gain = device_put_weight(device, &job.gain);
    there.bias = device_put_weight(device, &job.bias);
    float *x[2] = {normals(count, 1, 2), normals(count, 2, 2)}, *expected[2] = {room(count), room(count)},
          *got = room(count);
    for (int l = 0; l < lanes; l++) {
        there.x[l] = device_put_cells(device, x[l], count);
        there.out[l] = kind & 8 ? (float *)(uintptr_t)there.x[l] : device_put_cells(device, got, count);
        job.x[l] = x[l], job.out[l] = expected[l];
    }
    assert_int_equal(zest_forward_plain.norm(&job, 1, &plain), 0);
    device_fine(device, device->operations->norm(&there, 1, &scratch));
    for (int l = 0; l < lanes; l++) {
        device_get_cells(device, there.out[l], count, got);
        device_same(got, expected[l], ROWS, width, width, 5e-6 + device_step[which], device_names[which]);
    }
    for (int l = 0; l < 2; l++) free(x[l]), free(expected[l]);
    free(got), free(plain.data);
    release(&job.gain), release(&job.bias);
}

static void the_gpu_norms_as_the_reference(void **state) {
    (void)state;
    static const size_t widths[] = {1, 7, 16, 96, 512, 768, 1024, 2048, 769, 4096, 15011};
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        for (size_t w = 0; w < COUNT(widths); w++)
            for (int kind = 0; kind < 16; kind++) norm_on_device(device, widths[w], kind, which);
        zest_device_close(device);
    }
    device_verdict();
}

static void gather_on_device(zest_device *device, int kind, int which) {
    static const uint32_t ids[] = {4, 0, 4, 30, 17};
    static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_F16, ZEST_DTYPE_BF16};
    size_t columns = kind & 1 ? 3001 : 24, count = COUNT(ids) * columns;
    int add = kind & 2, lanes = kind & 4 ? 2 : 1;
    zest_scratch scratch = {.device = device};
    zest_weight table = weight(dtypes[kind % 3], 31, columns, 7, 1, 1000001), there;
    zest_perturbation p = {
        .seed = 5, .signs = kind == 10, .scale = {kind == 3 ? 0 : 0.1f, -0.1f}, .lanes = lanes};
    table.frozen = kind == 6;
    there = device_put_weight(device, &table);
    float *expected[2] = {normals(count, 1, 1), normals(count, 1, 1)}, *out[2], *got = room(count);
    for (int l = 0; l < 2; l++) out[l] = device_put_cells(device, expected[l], count);
    assert_int_equal(zest_forward_plain.gather(&table, &p, ids, COUNT(ids), expected, add, 1, NULL), 0);
    const uint32_t *ids_there = device_put(device, ids, sizeof ids);
    device_fine(device, device->operations->gather(&there, &p, ids_there, COUNT(ids), out, add, 1, &scratch));
    for (int l = 0; l < 2; l++) {
        device_get_cells(device, out[l], count, got);
        if (which || l >= lanes) /* in fp32 not a bit may differ */
            device_same(got, expected[l], COUNT(ids), columns, columns, device_step[which],
                        device_names[which]);
        else
            same(got, expected[l], count, 0, "gather on the GPU");
        free(expected[l]);
    }
    free(got);
    release(&table);
}

static void the_gpu_gathers_rotates_and_gates(void **state) {
    (void)state;
    enum { N = 20011, SIZE = 64, HALF = SIZE / 2, STRIDE = 3 * SIZE + 2, COUNT_ = 6 * STRIDE };
    static const uint32_t positions[] = {3, 0, 7, 7, 2, 9};
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        zest_scratch scratch = {.device = device};
        for (int kind = 0; kind < 24; kind++) gather_on_device(device, kind, which);
        float *x = normals(COUNT_, 1, 1), *got = room(COUNT_), c[10 * HALF], s[10 * HALF];
        for (size_t i = 0; i < 10 * HALF; i++)
            c[i] = (float)cos(0.1 * (double)i), s[i] = (float)sin(0.1 * (double)i);
        float *there = device_put_cells(device, x, COUNT_);
        zest_forward_plain.rotary(x, 6, STRIDE, 3, SIZE, positions, c, s, 1, NULL);
        device->operations->rotary(there, 6, STRIDE, 3, SIZE, device_put(device, positions, sizeof positions),
                                   device_put(device, c, sizeof c), device_put(device, s, sizeof s), 1,
                                   &scratch);
        device_get_cells(device, there, COUNT_, got);
        device_same(got, x, 6, 3 * SIZE, STRIDE, 1e-6 + device_step[which], device_names[which]);
        free(x), free(got);
        for (int act = ZEST_ACT_NONE; act <= ZEST_ACT_SILU; act++) {
            float *gate = room(N), *up = normals(N, 2, 1);
            for (int i = 0; i < N; i++) gate[i] = (float)(i - N / 2) * 3e-3f;
            float *gate_there = device_put_cells(device, gate, N),
                  *up_there = device_put_cells(device, up, N);
            zest_forward_plain.gate(gate, up, N, (zest_activation)act, 1, NULL);
            device->operations->gate(gate_there, up_there, N, (zest_activation)act, 1, &scratch);
            device_get_cells(device, gate_there, N, up);
            device_same(up, gate, 1, N, N, 3e-6 + device_step[which], device_names[which]);
            free(gate), free(up);
        }
        device_fine(device, device->problem[0]);
        zest_device_close(device);
    }
    device_verdict();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_attends_as_the_reference),
        cmocka_unit_test(the_reference_attends_right),
        cmocka_unit_test(a_query_depends_on_its_keys_alone),
        cmocka_unit_test(norms),
        cmocka_unit_test(rotaries),
        cmocka_unit_test(activations),
        cmocka_unit_test(gathers),
        cmocka_unit_test(the_gpu_attends_as_the_reference),
        cmocka_unit_test(the_gpu_norms_as_the_reference),
        cmocka_unit_test(the_gpu_gathers_rotates_and_gates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
