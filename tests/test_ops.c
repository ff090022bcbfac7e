/* linear: every level against the plain reference, the reference against fp64, and the promises about bits. */
#include "tests/linear.h"

static void every_level_equals_the_reference(void **state) {
    (void)state;
    zest_workspace scratch = {0};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int compute = 0; compute < 2; compute++) {
            const linear_case *c = &cases[i];
            operands o = make(c, (zest_compute)compute);
            float *expected[2] = {guarded(o.out_floats), guarded(o.out_floats)};
            run(zest_ops_for(ZEST_CPU_PLAIN), &o, c->residual, 1, &scratch);
            for (int l = 0; l < c->lanes; l++) memcpy(expected[l], o.out[l], o.out_floats * sizeof(float));
            for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++)
                for (int threads = 1; threads <= 3; threads++) {
                    char what[128];
                    snprintf(what, sizeof what, "%s, %s, %s, %d threads", c->name, compute ? "bf16" : "fp32",
                             zest_cpu_name((zest_cpu)cpu_index), threads);
                    run(zest_ops_for((zest_cpu)cpu_index), &o, c->residual, threads, &scratch);
                    for (int l = 0; l < c->lanes; l++) /* the padding between rows is compared too */
                        same(o.out[l], expected[l], o.out_floats,
                             cpu_index == ZEST_CPU_AMX && compute ? c->tolerance : 0, what);
                }
            free(expected[0]);
            free(expected[1]);
            discard(&o);
        }
    free(scratch.data);
}

/* ---- The reference itself ---- */

static double rounded(double x) { return zest_dtype_from_bf16(zest_dtype_to_bf16((float)x)); }

static void check_reference(const linear_case *c, int bf16) {
    zest_workspace scratch = {0};
    operands o = make(c, bf16 ? ZEST_COMPUTE_BF16 : ZEST_COMPUTE_F32);
    run(zest_ops_for(ZEST_CPU_PLAIN), &o, c->residual, 1, &scratch);
    for (int l = 0; l < c->lanes; l++)
        for (size_t m = 0; m < c->rows; m++)
            for (size_t n = 0; n<c->outputs; n += c->inputs> 1000 ? 7 : 1) {
                double sum = c->bias ? moved(&o.job.bias, &o.job.perturbation, l, n) : 0;
                for (size_t k = 0; k < c->inputs; k++) {
                    double a = ((const float *)o.job.a[l])[m * o.job.a_stride + k];
                    double w = moved(&o.job.weight, &o.job.perturbation, l,
                                     c->transposed ? k * c->outputs + n : n * c->inputs + k);
                    sum += bf16 ? rounded(a) * rounded(w) : a * w;
                }
                double y = activated(sum, c->activation);
                size_t at = m * o.job.out_stride + n;
                if (c->residual) y += c->residual == SEPARATE ? o.residual[l][at] : o.fresh[l][at];
                /* one chain of roundings; in bf16 a weight within fp32's error of a tie may round the other
                 * way */
                assert_close(o.out[l][at], y, 5e-6 + 1e-8 * (double)c->inputs + (bf16 ? 2e-3 : 0));
            }
    discard(&o);
    free(scratch.data);
}

static void the_reference_is_right(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int bf16 = 0; bf16 < 2; bf16++) check_reference(&cases[i], bf16);
}

/* ---- What a result may not depend on ---- */

static void a_row_depends_on_nothing_else(void **state) {
    (void)state;
    static const linear_case c = {"", 45, 1300, 75, 0, F32, 1, NONE, 2, 0, 0, {0.01f, -0.01f}, ZEST_ACT_GELU,
                                  0,  0};
    zest_workspace scratch = {0};
    for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++)
        for (int compute = 0; compute < 2; compute++) {
            const zest_ops *forward = zest_ops_for((zest_cpu)cpu_index);
            operands o = make(&c, (zest_compute)compute);
            float *alone = guarded(c.outputs * 9);
            run(forward, &o, NONE, 2, &scratch);
            for (size_t m = 0; m + 9 <= c.rows; m += 4)
                for (size_t rows = 1; rows <= 9; rows += 4)
                    for (int l = 0; l < 2; l++) { /* a few rows of one lane, by one thread */
                        zest_linear job = o.job;
                        job.rows = rows;
                        job.a[0] = (const float *)o.job.a[l] + m * job.a_stride;
                        job.out[0] = alone;
                        job.perturbation.scale[0] = c.scale[l];
                        job.perturbation.lanes = 1;
                        assert_int_equal(forward->linear(&job, 1, &scratch), 0);
                        same(alone, o.out[l] + m * c.outputs, rows * c.outputs, 0,
                             zest_cpu_name((zest_cpu)cpu_index));
                    }
            free(alone);
            discard(&o);
        }
    free(scratch.data);
}

/* More rows than are packed at once: the last turn must see the same weights as the first. */
static void rows_in_turns_change_nothing(void **state) {
    (void)state;
    static const linear_case c = {"", 1100,       8200,          33, 0, BF16, 1, NONE, 1, 0,
                                  0,  {0.01f, 0}, ZEST_ACT_NONE, 0,  0};
    zest_workspace scratch = {0};
    operands o = make(&c, ZEST_COMPUTE_F32);
    memcpy((float *)(uintptr_t)o.job.a[0] + 1099 * c.inputs, o.job.a[0], c.inputs * sizeof(float));
    for (int cpu_index = 1; cpu_index < cpu_count(); cpu_index++) {
        run(zest_ops_for((zest_cpu)cpu_index), &o, NONE, 2, &scratch);
        same(o.out[0] + 1099 * c.outputs, o.out[0], c.outputs, 0, zest_cpu_name((zest_cpu)cpu_index));
    }
    discard(&o);
    free(scratch.data);
}

static void perturbing_on_the_fly_equals_perturbing_before(void **state) {
    (void)state;
    for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++)
        for (int compute = 0; compute < 2; compute++)
            for (int transposed = 0; transposed < 2; transposed++) {
                const zest_ops *forward = zest_ops_for((zest_cpu)cpu_index);
                const zest_vector_ops *ops = zest_vector_ops_for((zest_cpu)cpu_index);
                linear_case c = {
                    "", 16, 150, 90, transposed, F32, 0, NONE, 2, 0, 0, {0.02f, -0.02f}, ZEST_ACT_NONE, 0, 0};
                zest_workspace scratch = {0};
                operands o = make(&c, (zest_compute)compute);
                float *w = guarded(150 * 90), *z = guarded(150 * 90), *out = guarded(16 * 90);
                run(forward, &o, NONE, 1, &scratch);
                ops->noise->normal(z, o.job.perturbation.seed, o.job.weight.first, 150 * 90);
                for (int l = 0; l < 2; l++) {
                    zest_linear job = o.job;
                    ops->fma_f32(w, o.job.weight.data, c.scale[l], z, 150 * 90);
                    job.weight.data = w;
                    job.a[0] = o.job.a[l];
                    job.out[0] = out;
                    job.perturbation = (zest_perturbation){.lanes = 1};
                    assert_int_equal(forward->linear(&job, 1, &scratch), 0);
                    same(out, o.out[l], 16 * 90, 0, zest_cpu_name((zest_cpu)cpu_index));
                }
                free(w);
                free(z);
                free(out);
                free(scratch.data);
                discard(&o);
            }
}

/* A NaN must reach the loss, where it is seen. */
static void a_nan_stays(void **state) {
    (void)state;
    for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++)
        for (int compute = 0; compute < 2; compute++)
            for (int act = ZEST_ACT_NONE; act <= ZEST_ACT_SILU; act++) {
                linear_case c = {"", 3, 40, 20, 0, F32, 0, NONE, 1, 0, 0, {0, 0}, (zest_activation)act, 0, 0};
                zest_workspace scratch = {0};
                operands o = make(&c, (zest_compute)compute);
                ((float *)(uintptr_t)o.job.a[0])[40 + 7] = NAN;
                run(zest_ops_for((zest_cpu)cpu_index), &o, NONE, 1, &scratch);
                for (size_t n = 0; n < 20; n++) {
                    assert_true(isfinite(o.out[0][n]) && isfinite(o.out[0][40 + n]));
                    assert_true(isnan(o.out[0][20 + n]));
                }
                discard(&o);
                free(scratch.data);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_equals_the_reference),
        cmocka_unit_test(the_reference_is_right),
        cmocka_unit_test(a_row_depends_on_nothing_else),
        cmocka_unit_test(rows_in_turns_change_nothing),
        cmocka_unit_test(perturbing_on_the_fly_equals_perturbing_before),
        cmocka_unit_test(a_nan_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
