/* norm, rotary, gate, gather, scaled sums, soft caps: every level against the plain reference, the reference against fp64. */
#include "tests/device_support.h"

/* ---- Norm ---- */

static void check_norm(const zest_norm *job, const float *x, const float *got, int lane) {
    for (size_t m = 0; m < job->rows; m++, x += job->width, got += job->width) {
        double mean = 0, square = 0, width = (double)job->width;
        for (size_t i = 0; i < job->width && !job->rms; i++) mean += x[i] / width;
        for (size_t i = 0; i < job->width; i++) square += (x[i] - mean) * (x[i] - mean) / width;
        for (size_t i = 0; i < job->width; i++) {
            double y = (x[i] - mean) / sqrt(square + job->epsilon);
            if (job->gain.data) y *= job->gain_offset + moved(&job->gain, &job->perturbation, lane, i);
            if (job->bias.data) y += moved(&job->bias, &job->perturbation, lane, i);
            assert_close(got[i], y, 4e-6);
        }
    }
}

static void norms(void **state) {
    (void)state;
    static const size_t widths[] = {1, 7, 16, 23, 96, 769, 15011}; /* the last is worth several threads */
    static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_F16, ZEST_DTYPE_BF16};
    zest_workspace scratch = {0};
    for (size_t w = 0; w < COUNT(widths); w++)
        for (int kind = 0; kind < 16; kind++) {
            size_t width = widths[w], count = 5 * width;
            int no_gain = kind & 2, no_bias = kind & 4, temp_path = kind & 8, lanes = kind % 3 ? 2 : 1;
            zest_norm job = {.rms = kind & 1, .epsilon = 1e-5f, .rows = 5, .width = width};
            job.perturbation =
                (zest_perturbation){.seed = 99, .signs = kind == 5, .scale = {0.05f, -0.05f}, .lanes = lanes};
            if (!no_gain) job.gain = weight(dtypes[kind % 3], 1, width, 3, 1, 13);
            if (!no_bias) job.bias = weight(dtypes[kind % 3], 1, width, 4, 1, 1 << 20);
            job.bias.frozen = kind == 9;
            job.gain_offset = !no_gain && kind >= 12 ? 1 : 0;
            float *x[2] = {normals(count, 1, 2), normals(count, 2, 2)},
                  *expected[2] = {guarded(count), guarded(count)};
            float *out[2] = {guarded(count), guarded(count)};
            for (int l = 0; l < lanes; l++) job.x[l] = x[l], job.out[l] = expected[l];
            assert_int_equal(zest_ops_plain.norm(&job, 1, &scratch), 0);
            for (int l = 0; l < lanes; l++) check_norm(&job, x[l], expected[l], l);
            for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++) {
                for (int l = 0; l < lanes; l++) {
                    memcpy(out[l], x[l], count * sizeof(float));
                    job.x[l] = temp_path ? out[l] : x[l];
                    job.out[l] = out[l];
                }
                assert_int_equal(zest_ops_for((zest_cpu)cpu_index)->norm(&job, 1 + cpu_index % 3, &scratch),
                                 0);
                for (int l = 0; l < lanes; l++)
                    same(out[l], expected[l], count, 0, zest_cpu_name((zest_cpu)cpu_index));
            }
            for (int l = 0; l < 2; l++) free(x[l]), free(expected[l]), free(out[l]);
            release(&job.gain);
            release(&job.bias);
        }
    free(scratch.data);
}

/* Several vectors a row: each as a row of its own, and what is between the rows stays as it is. */
static void norms_of_heads(void **state) {
    (void)state;
    static const size_t widths[] = {1, 7, 16, 23, 128};
    enum { ROWS = 6, HEADS = 3, GAP = 5 };
    zest_workspace scratch = {0};
    for (size_t w = 0; w < COUNT(widths); w++)
        for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++) {
            size_t width = widths[w], stride = HEADS * width + GAP, other = stride + 2;
            const zest_ops *operations = zest_ops_for((zest_cpu)cpu_index);
            zest_norm job = {.rms = 1, .epsilon = 1e-6f, .rows = ROWS, .width = width, .heads = HEADS};
            job.perturbation = (zest_perturbation){.seed = 5, .scale = {0.1f, -0.1f}, .lanes = 2};
            job.gain = weight(ZEST_DTYPE_BF16, 1, width, 3, 1, 13);
            job.x_stride = stride, job.out_stride = other;
            float *x[2], *out[2], *packed[2], *expected[2];
            for (int l = 0; l < 2; l++) {
                x[l] = normals(ROWS * stride, (uint64_t)l + 1, 2), out[l] = normals(ROWS * other, 9, 1);
                packed[l] = guarded(ROWS * HEADS * width), expected[l] = guarded(ROWS * HEADS * width);
                for (size_t m = 0; m < ROWS; m++)
                    memcpy(packed[l] + m * HEADS * width, x[l] + m * stride, HEADS * width * sizeof(float));
                job.x[l] = x[l], job.out[l] = out[l];
            }
            zest_norm rows = job;
            rows.rows = ROWS * HEADS, rows.heads = 0;
            for (int l = 0; l < 2; l++) rows.x[l] = packed[l], rows.out[l] = expected[l];
            assert_int_equal(operations->norm(&rows, 1, &scratch), 0);
            assert_int_equal(operations->norm(&job, 2, &scratch), 0);
            float *untouched = normals(ROWS * other, 9, 1);
            for (int l = 0; l < 2; l++)
                for (size_t m = 0; m < ROWS; m++) {
                    assert_memory_equal(out[l] + m * other, expected[l] + m * HEADS * width,
                                        HEADS * width * sizeof(float));
                    assert_memory_equal(out[l] + m * other + HEADS * width,
                                        untouched + m * other + HEADS * width, (GAP + 2) * sizeof(float));
                }
            for (int l = 0; l < 2; l++) free(x[l]), free(out[l]), free(packed[l]), free(expected[l]);
            free(untouched);
            release(&job.gain);
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
        float *x = normals(count, 1, 1), *expected = normals(count, 1, 1), *c = guarded(10 * half),
              *n = guarded(10 * half);
        for (size_t i = 0; i < 10 * half; i++) {
            double angle = (double)(i / half) * pow(10000, -2.0 * (double)(i % half) / (double)size);
            c[i] = (float)cos(angle), n[i] = (float)sin(angle);
        }
        zest_ops_plain.rotary(expected, 6, stride, 3, size, size, positions, c, n, 1, NULL);
        for (size_t m = 0; m < 6; m++)
            for (size_t h = 0; h < 3; h++)
                for (size_t i = 0; i < half; i++) { /* a rotation of the plane, as a complex product */
                    size_t at = m * stride + h * size + i, t = positions[m] * half + i;
                    assert_close(expected[at], (double)x[at] * c[t] - (double)x[at + half] * n[t], 1e-6);
                    assert_close(expected[at + half], (double)x[at] * n[t] + (double)x[at + half] * c[t],
                                 1e-6);
                }
        for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++) {
            float *got = normals(count, 1, 1);
            zest_ops_for((zest_cpu)cpu_index)
                ->rotary(got, 6, stride, 3, size, size, positions, c, n, 2, NULL);
            same(got, expected, count, 0, zest_cpu_name((zest_cpu)cpu_index));
            free(got);
        }
        free(x), free(expected), free(c), free(n);
    }
}

/* A part of each head: as heads of that size, the rest of which is left alone. */
static void rotaries_of_a_part(void **state) {
    (void)state;
    enum { ROWS = 6, HEADS = 3, SIZE = 50, PART = 22, STRIDE = HEADS * SIZE + 3, FLOATS = ROWS * STRIDE };
    static const uint32_t positions[ROWS] = {3, 0, 7, 7, 2, 9};
    float *x = normals(FLOATS, 1, 1), *expected = normals(FLOATS, 1, 1), c[10 * PART / 2], n[10 * PART / 2];
    for (size_t i = 0; i < 10 * PART / 2; i++)
        c[i] = (float)cos(0.1 * (double)i), n[i] = (float)sin(0.1 * (double)i);
    for (size_t h = 0; h < HEADS; h++)
        zest_ops_plain.rotary(expected + h * SIZE, ROWS, STRIDE, 1, PART, PART, positions, c, n, 1, NULL);
    for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++) {
        float *got = normals(FLOATS, 1, 1);
        zest_ops_for((zest_cpu)cpu_index)
            ->rotary(got, ROWS, STRIDE, HEADS, SIZE, PART, positions, c, n, 2, NULL);
        same(got, expected, FLOATS, 0, zest_cpu_name((zest_cpu)cpu_index));
        for (size_t i = PART; i < SIZE; i++) assert_true(got[i] == x[i]);
        free(got);
    }
    free(x), free(expected);
}

/* The activations over their whole range, as gate computes them. */
static void activations(void **state) {
    (void)state;
    enum { N = 20011 };
    float *x = guarded(N), *ones = guarded(N), *expected = guarded(N), *got = guarded(N);
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * 3e-3f, ones[i] = 1;
    for (int act = ZEST_ACT_NONE; act <= ZEST_ACT_SILU; act++) {
        memcpy(expected, x, N * sizeof *x);
        zest_ops_plain.gate(expected, ones, N, (zest_activation)act, 1, NULL);
        for (int i = 0; i < N; i++) {
            double v = x[i];
            assert_close(expected[i], activated(v, (zest_activation)act), 2e-7 * fmax(1, fabs(v)));
        }
        for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++) {
            memcpy(got, x, N * sizeof *x);
            zest_ops_for((zest_cpu)cpu_index)->gate(got, ones, N, (zest_activation)act, 2, NULL);
            same(got, expected, N, 0, zest_cpu_name((zest_cpu)cpu_index));
        }
        for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++) { /* far out, and NaN */
            float far[4] = {1e30f, -1e30f, NAN, 0}, up[4] = {2, 2, 2, 2};
            zest_ops_for((zest_cpu)cpu_index)->gate(far, up, 4, (zest_activation)act, 1, NULL);
            assert_true(far[0] == 2e30f && isnan(far[2]) && far[3] == 0);
            if (act) assert_close(far[1], 0, 1e-7);
        }
    }
    free(x), free(ones), free(expected), free(got);
}

/* factor x (+ y), in place too; and soft caps, which keep the digits of small numbers. */
static void scaled_sums_and_caps(void **state) {
    (void)state;
    enum { N = 20011 };
    float *x = normals(N, 1, 1), *y = normals(N, 2, 1), *expected = guarded(N), *got = guarded(N);
    for (int kind = 0; kind < 2; kind++) {
        const float *added = kind ? y : NULL;
        zest_ops_plain.add_scaled(expected, x, 5.6f, added, N, 1, NULL);
        for (int i = 0; i < N; i++)
            assert_close(expected[i], (double)5.6f * (double)x[i] + (kind ? (double)y[i] : 0), 2e-6);
        for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++) {
            memcpy(got, kind ? y : x, N * sizeof *x);
            zest_ops_for((zest_cpu)cpu_index)
                ->add_scaled(got, kind ? x : got, 5.6f, kind ? got : NULL, N, 2, NULL);
            same(got, expected, N, 0, zest_cpu_name((zest_cpu)cpu_index));
        }
    }
    for (int i = 0; i < N; i++) x[i] = (float)pow(10, i % 60 * 0.15 - 6) * (i % 2 ? 1 : -1);
    x[0] = 1e30f, x[1] = -1e30f, x[2] = 0;
    memcpy(expected, x, N * sizeof *x);
    zest_ops_plain.soft_cap(expected, N, 30, 1, NULL);
    for (int i = 0; i < N; i++) {
        double exact = 30 * tanh((double)x[i] / 30);
        assert_close(expected[i], exact, 5e-7 * fabs(exact));
    }
    for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++) {
        float nan = NAN;
        memcpy(got, x, N * sizeof *x);
        zest_ops_for((zest_cpu)cpu_index)->soft_cap(got, N, 30, 2, NULL);
        same(got, expected, N, 0, zest_cpu_name((zest_cpu)cpu_index));
        zest_ops_for((zest_cpu)cpu_index)->soft_cap(&nan, 1, 30, 1, NULL);
        assert_true(isnan(nan));
    }
    free(x), free(y), free(expected), free(got);
}

enum { IDS = 9 };

/* A sum of rows of up to three tables, as embeddings are: one with few rows that are used, one with a range
 * that does not begin at 0. Kinds differ in types, lanes, scales, in what is frozen and what was there. */
typedef struct {
    zest_gather_part parts[ZEST_GATHER_PARTS];
    zest_gather job;
    size_t columns, values; /* values: of a lane's result */
} gathering;

static gathering gathering_of(int kind, size_t columns, uint64_t first) {
    static const uint32_t ids[ZEST_GATHER_PARTS][IDS] = {
        {4, 0, 4, 30, 17, 30, 1, 2, 4}, {1, 0, 0, 1, 1, 0, 1, 0, 0}, {5, 6, 7, 8, 5, 6, 5, 6, 7}};
    static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_F16, ZEST_DTYPE_BF16};
    static const size_t rows[] = {31, 2, 12};
    gathering g = {.columns = columns, .values = IDS * columns};
    for (size_t i = 0; i < ZEST_GATHER_PARTS; i++)
        g.parts[i] = (zest_gather_part){
            .table = weight(dtypes[((size_t)kind + i) % 3], rows[i], columns, 7 + i, 1, first + (i << 20)),
            .ids = ids[i],
            .first_row = i == 2 ? 5 : 0,
            .row_count = i == 0   ? 0
                         : i == 1 ? 2
                                  : 4};
    g.parts[0].table.frozen = kind == 6, g.parts[1].table.frozen = kind == 5;
    g.job.part_count = 1 + (size_t)kind / 2 % 3;
    g.job.add = kind % 4 == 3 || kind == 6;
    g.job.count = IDS;
    g.job.perturbation = (zest_perturbation){.seed = 5,
                                             .signs = kind == 10 || kind == 23,
                                             .scale = {kind == 3 || kind == 4 ? 0 : 0.1f, -0.1f},
                                             .lanes = kind & 4 ? 2 : 1};
    return g;
}

static void gathering_free(gathering *g) {
    for (size_t i = 0; i < ZEST_GATHER_PARTS; i++) release(&g->parts[i].table);
}

static int gathered(const zest_ops *operations, gathering *g, float *const out[2], zest_workspace *scratch) {
    g->job.parts = g->parts;
    g->job.out[0] = out[0], g->job.out[1] = out[1];
    return operations->gather(&g->job, 2, scratch);
}

/* Table by table, each a job of its own: the sums must come in this order. */
static void gathered_singly(gathering *g, float *const out[2]) {
    zest_gather one = g->job;
    one.out[0] = out[0], one.out[1] = out[1], one.part_count = 1;
    for (size_t i = 0; i < g->job.part_count; i++) {
        one.parts = &g->parts[i];
        one.add = g->job.add || i;
        assert_int_equal(zest_ops_plain.gather(&one, 1, NULL), 0);
    }
}

static void gathers_of(int kind, size_t columns) {
    gathering g = gathering_of(kind, columns, 1000001);
    const zest_perturbation *p = &g.job.perturbation;
    float *before = normals(g.values, 1, 1), *expected[2] = {guarded(g.values), guarded(g.values)},
          *out[2] = {guarded(g.values), guarded(g.values)};
    for (int l = 0; l < 2; l++) memcpy(expected[l], before, g.values * sizeof(float));
    gathered_singly(&g, expected);
    for (size_t i = 0; i < g.values * (size_t)p->lanes; i++) {
        size_t l = i / g.values, at = i % g.values, row = at / columns, c = at % columns;
        double sum = g.job.add ? before[at] : 0;
        for (size_t part = 0; part < g.job.part_count; part++)
            sum += moved(&g.parts[part].table, p, (int)l, g.parts[part].ids[row] * columns + c);
        assert_close(expected[l][at], sum, 2e-6);
    }
    for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++) {
        for (int l = 0; l < 2; l++) memcpy(out[l], before, g.values * sizeof(float));
        assert_int_equal(gathered(zest_ops_for((zest_cpu)cpu_index), &g, out, NULL), 0);
        for (int l = 0; l < 2; l++)
            same(out[l], expected[l], g.values, 0, zest_cpu_name((zest_cpu)cpu_index));
    }
    free(before);
    for (int l = 0; l < 2; l++) free(expected[l]), free(out[l]);
    gathering_free(&g);
}

static void gathers(void **state) {
    (void)state;
    for (int kind = 0; kind < 24; kind++) gathers_of(kind, kind & 1 ? 3001 : 24);
}

/* ---- On a GPU ---- */

static void norm_on_device(zest_device *device, size_t width, int kind, int which) {
    static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_F16, ZEST_DTYPE_BF16};
    enum { ROWS = 11 };
    size_t count = ROWS * width;
    int lanes = kind % 3 ? 2 : 1;
    zest_workspace plain = {0}, scratch = {.device = device};
    zest_norm job = {.rms = kind & 1, .epsilon = 1e-5f, .rows = ROWS, .width = width}, on_device;
    job.perturbation =
        (zest_perturbation){.seed = 99, .signs = kind == 5, .scale = {0.05f, -0.05f}, .lanes = lanes};
    if (!(kind & 2)) job.gain = weight(dtypes[kind % 3], 1, width, 3, 1, 13);
    if (!(kind & 4)) job.bias = weight(dtypes[kind % 3], 1, width, 4, 1, 1 << 20);
    job.bias.frozen = kind == 9;
    job.gain_offset = job.gain.data && kind % 5 == 0 ? 1 : 0;
    on_device = job;
    on_device.gain = device_upload_weight(device, &job.gain);
    on_device.bias = device_upload_weight(device, &job.bias);
    float *x[2] = {normals(count, 1, 2), normals(count, 2, 2)},
          *expected[2] = {guarded(count), guarded(count)}, *got = guarded(count);
    for (int l = 0; l < lanes; l++) {
        on_device.x[l] = device_upload_activations(device, x[l], count);
        on_device.out[l] =
            kind & 8 ? (float *)(uintptr_t)on_device.x[l] : device_upload_activations(device, got, count);
        job.x[l] = x[l], job.out[l] = expected[l];
    }
    assert_int_equal(zest_ops_plain.norm(&job, 1, &plain), 0);
    device_check(device, device->operations->norm(&on_device, 1, &scratch));
    for (int l = 0; l < lanes; l++) {
        device_download_activations(device, on_device.out[l], count, got);
        device_compare(got, expected[l], ROWS, width, width, 5e-6 + device_step[which], device_names[which]);
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
    device_assert_matches();
}

/* Further pairs behind the first, each with its own direction: what the reference does one after the other. */
static void gather_on_device(zest_device *device, int kind, size_t columns, uint64_t first, int which) {
    enum { PAIRS = 3 };
    gathering g = gathering_of(kind, columns, first), on_device = g;
    zest_perturbation *p = &g.job.perturbation, more[PAIRS - 1];
    /* a pair at rest has no others beside it */
    size_t pairs = p->lanes == 2 && p->scale[0] != 0 ? PAIRS : 1, lanes = pairs * (size_t)p->lanes;
    zest_workspace scratch = {.device = device};
    for (size_t i = 0; i + 1 < pairs; i++) {
        more[i] = *p;
        more[i].seed = 77 + i, more[i].scale[0] = 0.2f, more[i].scale[1] = -0.2f;
    }
    on_device.job.perturbation.more = more, on_device.job.perturbation.more_count = pairs - 1;
    /* Tables that are not made before have passes of their own, with roundings of sums that may be larger. */
    double tolerance = device_step[which] * (kind == 16 || kind == 22 ? 8 : 1);
    if (kind == 16) on_device.parts[2].row_count = 0;
    if (kind == 22) on_device.parts[1].row_count = 5;
    for (size_t i = 0; i < ZEST_GATHER_PARTS; i++) {
        on_device.parts[i].table = device_upload_weight(device, &g.parts[i].table);
        on_device.parts[i].ids = device_upload(device, g.parts[i].ids, IDS * sizeof(uint32_t));
    }
    /* One guarded lane behind the last. */
    float *expected = normals((lanes + 1) * g.values, 1, 1), *got = guarded((lanes + 1) * g.values);
    float *activations = device_upload_activations(device, expected, (lanes + 1) * g.values);
    float *const out[2] = {activations,
                           (float *)(void *)((char *)activations + g.values * device->element_size)};
    device_check(device, gathered(device->operations, &on_device, out, &scratch));
    for (size_t i = 0; i < pairs; i++) {
        float *to = expected + i * 2 * g.values, *const both[2] = {to, to + g.values};
        if (i) *p = more[i - 1];
        gathered_singly(&g, both);
    }
    device_download_activations(device, activations, (lanes + 1) * g.values, got);
    if (which)
        device_compare(got, expected, lanes * IDS, columns, columns, tolerance, device_names[which]);
    else /* in fp32 not a bit may differ */
        same(got, expected, lanes * g.values, 0, "gather on the GPU");
    same(got + lanes * g.values, expected + lanes * g.values, g.values, 0, "behind the last lane");
    free(expected), free(got);
    gathering_free(&g);
}

static void gathers_on_device(zest_device *device, int which) {
    for (int kind = 0; kind < 24; kind++) {
        gather_on_device(device, kind, kind & 1 ? 3001 : 24, 1000001, which); /* within a block of noise */
        gather_on_device(device, kind, 1048, 1000004, which);
        gather_on_device(device, kind, 1044, 1000004, which); /* blocks of noise, but not two of them */
    }
}

static void sums_and_caps_on_device(zest_device *device, int which) {
    enum { N = 20011 };
    zest_workspace scratch = {.device = device};
    float *x = normals(N, 5, 1), *y = normals(N, 6, 1), *expected = guarded(N), *got = guarded(N);
    float *x_there = device_upload_activations(device, x, N),
          *y_there = device_upload_activations(device, y, N);
    zest_ops_plain.add_scaled(expected, x, 5.6f, y, N, 1, NULL);
    device->operations->add_scaled(y_there, x_there, 5.6f, y_there, N, 1, &scratch);
    device_download_activations(device, y_there, N, got);
    device_compare(got, expected, 1, N, N, 2e-6 + device_step[which], device_names[which]);
    float *logits = device_upload(device, x, N * sizeof *x);
    zest_ops_plain.soft_cap(x, N, 2, 1, NULL);
    device->operations->soft_cap(logits, N, 2, 1, &scratch);
    device_check(device, device->operations->device->download(device, got, logits, N * sizeof *got));
    device_compare(got, x, 1, N, N, 1e-6, "soft cap");
    free(x), free(y), free(expected), free(got);
}

static void the_gpu_gathers_rotates_and_gates(void **state) {
    (void)state;
    enum { N = 20011, SIZE = 64, HALF = SIZE / 2, STRIDE = 3 * SIZE + 2, COUNT_ = 6 * STRIDE };
    static const uint32_t positions[] = {3, 0, 7, 7, 2, 9};
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        zest_workspace scratch = {.device = device};
        gathers_on_device(device, which);
        float *x = normals(COUNT_, 1, 1), *got = guarded(COUNT_), c[10 * HALF], s[10 * HALF];
        for (size_t i = 0; i < 10 * HALF; i++)
            c[i] = (float)cos(0.1 * (double)i), s[i] = (float)sin(0.1 * (double)i);
        float *on_device = device_upload_activations(device, x, COUNT_);
        zest_ops_plain.rotary(x, 6, STRIDE, 3, SIZE, SIZE, positions, c, s, 1, NULL);
        device->operations->rotary(
            on_device, 6, STRIDE, 3, SIZE, SIZE, device_upload(device, positions, sizeof positions),
            device_upload(device, c, sizeof c), device_upload(device, s, sizeof s), 1, &scratch);
        device_download_activations(device, on_device, COUNT_, got);
        device_compare(got, x, 6, 3 * SIZE, STRIDE, 1e-6 + device_step[which], device_names[which]);
        free(x), free(got);
        for (int act = ZEST_ACT_NONE; act <= ZEST_ACT_SILU; act++) {
            float *gate = guarded(N), *up = normals(N, 2, 1);
            for (int i = 0; i < N; i++) gate[i] = (float)(i - N / 2) * 3e-3f;
            float *gate_there = device_upload_activations(device, gate, N),
                  *up_there = device_upload_activations(device, up, N);
            zest_ops_plain.gate(gate, up, N, (zest_activation)act, 1, NULL);
            device->operations->gate(gate_there, up_there, N, (zest_activation)act, 1, &scratch);
            device_download_activations(device, gate_there, N, up);
            device_compare(up, gate, 1, N, N, 3e-6 + device_step[which], device_names[which]);
            free(gate), free(up);
        }
        sums_and_caps_on_device(device, which);
        device_check(device, device->error.status != ZEST_OK);
        zest_device_close(device);
    }
    device_assert_matches();
}

/* Two lanes with a gap between them. Numbers are moved, so not a bit may differ. */
static void turn_heads(zest_device *device, size_t rows, size_t heads, size_t kv_heads, size_t size) {
    const size_t side = heads * size, width = kv_heads * size, few = rows * side + 8,
                 many = rows * heads * width + 16;
    float *x = normals(2 * few, 1, 1), *guard = normals(2 * many, 2, 1), *expected = guarded(2 * many),
          *got = guarded(2 * many);
    float *from = device_upload_activations(device, x, 2 * few),
          *to = device_upload_activations(device, guard, 2 * many);
    memcpy(expected, guard, 2 * many * sizeof *expected);
    for (size_t l = 0; l < 2; l++)
        for (size_t r = 0; r < rows * heads; r++)
            for (size_t c = 0; c < width; c++) {
                size_t head = r % heads, at = head * kv_heads / heads * size, d = c - at;
                expected[l * many + r * width + c] =
                    c >= at && d < size ? x[l * few + r / heads * side + head * size + d] : 0;
            }
    zest_head_rows job = {from, to, rows, heads, kv_heads, size, 0, 2, few, many};
    device_check(device, device->operations->device->head_rows(device, &job));
    device_download_activations(device, to, 2 * many, got);
    same(got, expected, 2 * many, 0, "heads in rows of their own");
    memcpy(expected, guard, 2 * few * sizeof *expected); /* as many are there, and few less */
    float *again = device_upload_activations(device, guard, 2 * few);
    zest_head_rows back = {to, again, rows, heads, kv_heads, size, 1, 2, many, few};
    device_check(device, device->operations->device->head_rows(device, &back));
    device_download_activations(device, again, 2 * few, got);
    for (size_t l = 0; l < 2; l++) memcpy(expected + l * few, x + l * few, (few - 8) * sizeof *expected);
    same(got, expected, 2 * few, 0, "heads side by side again");
    free(x), free(guard), free(expected), free(got);
}

static void the_gpu_turns_heads(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        turn_heads(device, 1, 1, 1, 5);
        turn_heads(device, 3, 12, 12, 64);
        turn_heads(device, 5, 6, 2, 20);
        turn_heads(device, 2, 4, 1, 300);
        zest_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),
        cmocka_unit_test(norms_of_heads),
        cmocka_unit_test(rotaries),
        cmocka_unit_test(rotaries_of_a_part),
        cmocka_unit_test(activations),
        cmocka_unit_test(scaled_sums_and_caps),
        cmocka_unit_test(gathers),
        cmocka_unit_test(the_gpu_norms_as_the_reference),
        cmocka_unit_test(the_gpu_gathers_rotates_and_gates),
        cmocka_unit_test(the_gpu_turns_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
