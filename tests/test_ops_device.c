/* linear on a GPU: every case against the plain reference, and what only the GPU does: several matrices or
 * pairs in one product, products of many chunks. Without a GPU these tests are skipped. */
#include "tests/device_support.h"
#include "tests/linear.h"

/* Products of numbers of about 1 and 0.05: fp32 sums in any order differ by about 1e-7 sqrt(inputs); a 16-bit
 * compute rounds the weights (both sides alike), the bias and the result. */
static void check_on_device(zest_device *device, const linear_case *c, int which) {
    operands o = make(c, which == 1 ? ZEST_COMPUTE_BF16 : ZEST_COMPUTE_F32);
    zest_workspace plain = {0}, scratch = {.device = device};
    zest_linear job = o.job;
    float *got = guarded(o.out_floats);
    job.weight = device_upload_weight(device, &o.job.weight);
    job.bias = device_upload_weight(device, &o.job.bias);
    for (int l = 0; l < c->lanes; l++) {
        job.a[l] =
            device_upload_activations(device, (float *)(uintptr_t)o.job.a[l], c->rows * o.job.a_stride);
        float *out = device_upload_activations(device, o.fresh[l], o.out_floats);
        job.out[l] = out;
        job.residual[l] = c->residual == NONE ? NULL
                          : c->residual == SEPARATE
                              ? device_upload_activations(device, o.residual[l], o.out_floats)
                              : out;
    }
    run(zest_ops_for(ZEST_CPU_PLAIN), &o, c->residual, 1, &plain);
    device_check(device, device->operations->linear(&job, 1, &scratch));
    for (int l = 0; l < c->lanes; l++) {
        char what[128];
        snprintf(what, sizeof what, "%s, %s, lane %d", c->name, device_names[which], l);
        device_download_activations(device, job.out[l], o.out_floats, got);
        device_compare(got, o.out[l], c->rows, c->outputs, o.job.out_stride,
                       2e-6 * sqrt((double)c->inputs) + 4 * device_step[which] +
                           (which == 2 ? 1e-3 * sqrt((double)c->inputs) * 0.05 : 0),
                       what);
    }
    free(got);
    free(plain.data);
    discard(&o);
}

static void the_gpu_multiplies_as_the_reference(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        for (size_t i = 0; i < COUNT(cases); i++) check_on_device(device, &cases[i], which);
        zest_device_close(device);
    }
    device_assert_matches();
}

/* Several matrices in one product, as q, k and v are. */
static void the_gpu_stacks_matrices(void **state) {
    (void)state;
    enum { ROWS = 37, INPUTS = 64, ALL = 64 + 32 + 40 };
    static const size_t outputs[3] = {64, 32, 40};
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        zest_workspace plain = {0}, scratch = {.device = device};
        zest_perturbation p = {.seed = 77, .scale = {0.02f, -0.02f}, .lanes = 2};
        zest_linear_part more[2];
        float *a[2], *expected[2], *got = guarded(ROWS * ALL);
        zest_linear job = {.perturbation = p, .rows = ROWS, .a_stride = INPUTS, .out_stride = ALL};
        for (int l = 0; l < 2; l++) {
            a[l] = normals(ROWS * INPUTS, 60 + (uint64_t)l, 1);
            job.a[l] = device_upload_activations(device, a[l], ROWS * INPUTS);
            expected[l] = guarded(ROWS * ALL);
            job.out[l] = device_upload_activations(device, expected[l], ROWS * ALL);
        }
        size_t at = 0;
        for (size_t i = 0; i < 3; at += outputs[i++]) {
            zest_weight w = weight(ZEST_DTYPE_BF16, outputs[i], INPUTS, 5 + i, 0.05f, 1000 * i),
                        b = weight(ZEST_DTYPE_BF16, 1, outputs[i], 15 + i, 0.1f, 100000 + 1000 * i);
            zest_linear one = {.weight = w,
                               .bias = b,
                               .perturbation = p,
                               .a = {a[0], a[1]},
                               .rows = ROWS,
                               .a_stride = INPUTS,
                               .out = {expected[0] + at, expected[1] + at},
                               .out_stride = ALL,
                               .compute = which == 1 ? ZEST_COMPUTE_BF16 : ZEST_COMPUTE_F32};
            assert_int_equal(zest_ops_plain.linear(&one, 1, &plain), 0);
            zest_linear_part part = {device_upload_weight(device, &w), device_upload_weight(device, &b)};
            if (i)
                more[i - 1] = part;
            else
                job.weight = part.weight, job.bias = part.bias;
            release(&w), release(&b);
        }
        job.more = more, job.more_count = 2;
        device_check(device, device->operations->linear(&job, 1, &scratch));
        for (int l = 0; l < 2; l++) {
            device_download_activations(device, job.out[l], ROWS * ALL, got);
            device_compare(got, expected[l], ROWS, ALL, ALL, 2e-5 + 4 * device_step[which],
                           device_names[which]);
            free(a[l]), free(expected[l]);
        }
        free(got), free(plain.data);
        zest_device_close(device);
    }
    device_assert_matches();
}

/* Several pairs in one product give what each gives alone: with a residual in its place, and with an
 * activation that the product cannot take along. Twice: the second product chooses its algorithm. */
static void the_gpu_takes_several_pairs(void **state) {
    (void)state;
    enum { ROWS = 130, INPUTS = 256, OUTPUTS = 192, PAIRS = 3, LANE = ROWS * INPUTS };
    for (int which = 0; which < 3; which++)
        for (int kind = 0; kind < 4; kind++) { /* 1: a residual in place, 2: GELU, 3: frozen */
            zest_device *device = device_open(device_computes[which]);
            zest_workspace plain = {0}, scratch = {.device = device};
            zest_perturbation p[PAIRS];
            for (size_t i = 0; i < PAIRS; i++)
                p[i] = (zest_perturbation){.seed = 70 + i, .scale = {0.02f, -0.02f}, .lanes = 2};
            float *a = normals(2 * PAIRS * LANE, 60, 1), *out = normals(2 * PAIRS * LANE, 61, 1),
                  *got = guarded(2 * PAIRS * LANE);
            zest_weight w = weight(ZEST_DTYPE_BF16, OUTPUTS, INPUTS, 5, 0.05f, 1002),
                        b = weight(ZEST_DTYPE_BF16, 1, OUTPUTS, 15, 0.1f, 100000);
            w.frozen = kind == 3;
            zest_linear job = {.weight = device_upload_weight(device, &w),
                               .bias = device_upload_weight(device, &b),
                               .perturbation = p[0],
                               .rows = ROWS,
                               .a_stride = INPUTS,
                               .out_stride = OUTPUTS,
                               .residual_stride = OUTPUTS,
                               .activation = kind == 2 ? ZEST_ACT_GELU : ZEST_ACT_NONE};
            job.perturbation.more = p + 1, job.perturbation.more_count = PAIRS - 1;
            job.a[0] = device_upload_activations(device, a, 2 * PAIRS * LANE);
            job.a[1] = (const float *)(const void *)((const char *)job.a[0] + LANE * device->element_size);
            for (int round = 0; round < 2; round++) {
                job.out[0] = device_upload_activations(device, out, 2 * PAIRS * LANE);
                job.out[1] = (float *)(void *)((char *)job.out[0] + LANE * device->element_size);
                for (int l = 0; l < 2; l++) job.residual[l] = kind == 1 ? job.out[l] : NULL;
                device_check(device, device->operations->linear(&job, 1, &scratch));
            }
            device_download_activations(device, job.out[0], 2 * PAIRS * LANE, got);
            for (size_t i = 0; i < PAIRS; i++) {
                zest_linear one = job;
                one.weight = w, one.bias = b, one.perturbation = p[i];
                one.compute = which == 1 ? ZEST_COMPUTE_BF16 : ZEST_COMPUTE_F32;
                for (size_t l = 0; l < 2; l++) {
                    one.a[l] = a + (2 * i + l) * LANE;
                    one.out[l] = out + (2 * i + l) * LANE;
                    one.residual[l] = kind == 1 ? one.out[l] : NULL;
                }
                assert_int_equal(zest_ops_plain.linear(&one, 1, &plain), 0);
                for (size_t l = 0; l < 2; l++)
                    device_compare(got + (2 * i + l) * LANE, one.out[l], ROWS, OUTPUTS, OUTPUTS,
                                   4e-5 + 6 * device_step[which], device_names[which]);
            }
            free(a), free(out), free(got), free(plain.data);
            release(&w), release(&b);
            zest_device_close(device);
        }
    device_assert_matches();
}

static void a_nan_stays_on_the_gpu(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++)
        for (int act = ZEST_ACT_NONE; act <= ZEST_ACT_SILU; act++) {
            zest_device *device = device_open(device_computes[which]);
            zest_workspace scratch = {.device = device};
            linear_case c = {"", 3, 40, 24, 0, F32, 1, NONE, 1, 0, 0, {0, 0}, (zest_activation)act, 0, 0};
            operands o = make(&c, ZEST_COMPUTE_F32);
            zest_linear job = o.job;
            ((float *)(uintptr_t)o.job.a[0])[40 + 7] = NAN;
            job.weight = device_upload_weight(device, &o.job.weight);
            job.bias = device_upload_weight(device, &o.job.bias);
            job.a[0] = device_upload_activations(device, (float *)(uintptr_t)o.job.a[0], 3 * 40);
            job.out[0] = device_upload_activations(device, o.fresh[0], o.out_floats);
            device_check(device, device->operations->linear(&job, 1, &scratch));
            device_download_activations(device, job.out[0], o.out_floats, o.out[0]);
            for (size_t n = 0; n < 24; n++) {
                assert_true(isfinite(o.out[0][n]) && isfinite(o.out[0][48 + n]));
                if (isnan(o.out[0][24 + n])) continue;
                printf("%s, activation %d loses a NaN\n", device_names[which], act);
                device_mismatches++;
                break;
            }
            discard(&o);
            zest_device_close(device);
        }
    device_assert_matches();
}

/* ---- Large products ---- */

enum { LARGE_ROWS = 256, LARGE_IN = 3072, LARGE_OUT = 4096 };
static const size_t large_rows[] = {130, 255};

/* The worst difference of some rows from the sum in fp64; of got, and of a sum in fp32. */
static void large_errors(const operands *o, const float *const w[2], double *worst, double *plain) {
    *worst = *plain = 0;
    for (int l = 0; l < 2; l++)
        for (size_t r = 0; r < COUNT(large_rows); r++)
            for (size_t n = 0; n < LARGE_OUT; n++) {
                const float *x = (const float *)o->job.a[l] + large_rows[r] * LARGE_IN,
                            *row = w[l] + n * LARGE_IN;
                double sum = 0;
                float single = 0;
                for (size_t k = 0; k < LARGE_IN; k++) {
                    sum += (double)x[k] * (double)row[k];
                    single = fmaf(x[k], row[k], single);
                }
                *worst = fmax(*worst, fabs((double)o->out[l][large_rows[r] * LARGE_OUT + n] - sum));
                *plain = fmax(*plain, fabs((double)single - sum));
            }
}

/* Weights as the lanes see them, rounded as the device does. */
static void large_weights(const zest_device *device, const operands *o, float *const w[2]) {
    const size_t count = (size_t)LARGE_IN * LARGE_OUT;
    float *z = guarded(count), *stored = guarded(count);
    void *activations = malloc(count * sizeof(float));
    assert_non_null(activations);
    zest_vector_ops_for(ZEST_CPU_PLAIN)
        ->noise->normal(z, o->job.perturbation.seed, o->job.weight.first, count);
    assert_int_equal(zest_dtype_to_float(o->job.weight.dtype, o->job.weight.data, count, stored), 0);
    for (int l = 0; l < 2; l++) {
        for (size_t i = 0; i < count; i++) w[l][i] = fmaf(o->job.perturbation.scale[l], z[i], stored[i]);
        assert_int_equal(zest_dtype_from_float(device_dtype(device), w[l], count, activations), 0);
        assert_int_equal(zest_dtype_to_float(device_dtype(device), activations, count, w[l]), 0);
    }
    free(activations);
    free(stored);
    free(z);
}

/* Matrices of many chunks, and both ways to multiply floats. */
static void the_gpu_multiplies_large_matrices(void **state) {
    (void)state;
    static const struct {
        const char *name, *way;
        zest_compute compute;
        int dtype;
        double tolerance;
    } kinds[] = {{"f32", "fp32", ZEST_COMPUTE_F32, F32, 1.2e-4},
                 {"f32 by bf16 triples", "bf16x6", ZEST_COMPUTE_F32, F32, 1.2e-4},
                 {"bf16 of f32", "fp32", ZEST_COMPUTE_BF16, F32, 0.1},
                 {"bf16", "fp32", ZEST_COMPUTE_BF16, BF16, 0.1},
                 {"f16", "fp32", ZEST_COMPUTE_F16, F16, 0.01}};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        linear_case c = {.rows = LARGE_ROWS,
                         .inputs = LARGE_IN,
                         .outputs = LARGE_OUT,
                         .dtype = kinds[i].dtype,
                         .lanes = 2,
                         .scale = {0.01f, -0.01f}};
        assert_int_equal(setenv("ZEST_CUDA_F32", kinds[i].way, 1), 0);
        zest_device *device = device_open(kinds[i].compute);
        assert_int_equal(unsetenv("ZEST_CUDA_F32"), 0);
        zest_workspace scratch = {.device = device};
        operands o = make(&c, kinds[i].compute);
        o.job.weight.first = 1000;
        zest_linear job = o.job;
        job.weight = device_upload_weight(device, &o.job.weight);
        const size_t rows = (size_t)LARGE_ROWS * LARGE_IN, out = (size_t)LARGE_ROWS * LARGE_OUT;
        for (int l = 0; l < 2; l++)
            job.a[l] = device_upload_activations(device, (float *)(uintptr_t)o.job.a[l], rows);
        float *both = device->operations->device->allocate(device, 2 * out * sizeof(float));
        assert_non_null(both);
        job.out[0] = both;
        job.out[1] = (float *)((char *)both + out * device->element_size);
        if (job.a[1] < job.a[0]) { /* lanes lie behind each other */
            const float *first = job.a[1];
            job.a[1] = job.a[0];
            job.a[0] = first;
            first = o.job.a[1];
            o.job.a[1] = o.job.a[0];
            o.job.a[0] = first;
        }
        float *w[2] = {guarded((size_t)LARGE_IN * LARGE_OUT), guarded((size_t)LARGE_IN * LARGE_OUT)};
        double worst, plain;
        for (int turn = 0; turn < 2; turn++) /* the second one is tuned */
            device_check(device, device->operations->linear(&job, 1, &scratch));
        for (int l = 0; l < 2; l++) device_download_activations(device, job.out[l], out, o.out[l]);
        large_weights(device, &o, w);
        large_errors(&o, (const float *const *)w, &worst, &plain);
        if (getenv("ZEST_VERBOSE"))
            printf("large product, %s: off by %.3g, a plain sum in fp32 by %.3g\n", kinds[i].name, worst,
                   plain);
        if (!(worst <= kinds[i].tolerance)) device_mismatches++;
        free(w[0]);
        free(w[1]);
        discard(&o);
        zest_device_close(device);
    }
    device_assert_matches();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gpu_multiplies_as_the_reference), cmocka_unit_test(the_gpu_stacks_matrices),
        cmocka_unit_test(the_gpu_takes_several_pairs),         cmocka_unit_test(a_nan_stays_on_the_gpu),
        cmocka_unit_test(the_gpu_multiplies_large_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
