/* norm, rotary, gate, gather: every level against the plain reference, the reference against fp64. */
#include "tests/device_support.h"

/* ---- Norm ---- */

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
            double v = x[i];
            assert_close(expected[i], activated(v, (zest_activation)act), 2e-7 * fmax(1, fabs(v)));
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
    size_t columns = kind & 1 ? 3001 : 1048, count = COUNT(ids) * columns;
    int add = kind & 2, lanes = kind & 4 ? 2 : 1;
    zest_scratch scratch = {.device = device};
    /* Beginning within a block of noise, or with one. */
    zest_weight table = weight(dtypes[kind % 3], 31, columns, 7, 1, kind < 12 ? 1000001 : 1000004), there;
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
        cmocka_unit_test(norms),
        cmocka_unit_test(rotaries),
        cmocka_unit_test(activations),
        cmocka_unit_test(gathers),
        cmocka_unit_test(the_gpu_norms_as_the_reference),
        cmocka_unit_test(the_gpu_gathers_rotates_and_gates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
