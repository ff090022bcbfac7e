/* Products on a GPU by zest's kernel (kernels/cuda/gemm_sm90.cuh) and by cuBLASLt against the plain
 * reference: tiles that end anywhere, gaps behind rows, all lanes, everything that is done to a sum. On other
 * GPUs, and for sizes that zest's kernel refuses, cuBLASLt answers. */
#include "tests/device_support.h"

static const char *const ways[] = {"sm90", "cublas"};
enum { PAIRS = 5 };

typedef struct {
    size_t rows, inputs, outputs, pairs, pad;
    int residual, frozen;
    zest_activation activation;
} product_case;

static const product_case cases[] = {
    {1, 8, 8, 1, 0, 0, 0, ZEST_ACT_NONE},         {1, 64, 256, 1, 0, 1, 0, ZEST_ACT_NONE},
    {63, 72, 24, 2, 8, 0, 0, ZEST_ACT_GELU},      {65, 200, 264, 1, 16, 1, 0, ZEST_ACT_NONE},
    {127, 64, 192, 1, 0, 0, 0, ZEST_ACT_RELU},    {128, 256, 256, 2, 8, 0, 0, ZEST_ACT_SILU},
    {129, 136, 200, 5, 8, 0, 0, ZEST_ACT_GELU},   {257, 72, 520, 3, 0, 0, 0, ZEST_ACT_GELU_TANH},
    {130, 1000, 392, 1, 24, 1, 0, ZEST_ACT_NONE}, {385, 64, 136, 4, 0, 1, 1, ZEST_ACT_NONE},
    {70, 64, 770, 1, 6, 0, 0, ZEST_ACT_GELU},     {70, 64, 50, 2, 6, 1, 0, ZEST_ACT_NONE},
    {600, 64, 1032, 2, 0, 0, 0, ZEST_ACT_GELU},   {4097, 16, 64, 1, 0, 0, 0, ZEST_ACT_RELU},
};

static void open_ways(zest_device *devices[COUNT(ways)], zest_compute compute) {
    for (size_t w = 0; w < COUNT(ways); w++) {
        assert_int_equal(setenv("ZEST_CUDA_GEMM", ways[w], 1), 0);
        devices[w] = device_open(compute);
        assert_int_equal(unsetenv("ZEST_CUDA_GEMM"), 0);
    }
}

static void close_ways(zest_device *devices[COUNT(ways)]) {
    for (size_t w = 0; w < COUNT(ways); w++) zest_device_close(devices[w]);
}

/* Lanes behind each other, each `lane` elements long. */
typedef struct {
    zest_weight weight, bias;
    zest_perturbation pairs[PAIRS];
    float *a, *residual, *fresh;
    size_t a_lane, out_lane;
} operands;

static operands make(const product_case *c) {
    operands o = {.a_lane = c->rows * (c->inputs + c->pad), .out_lane = c->rows * (c->outputs + c->pad)};
    o.weight = weight(ZEST_DTYPE_BF16, c->outputs, c->inputs, 5, 0.05f, 1004);
    o.weight.frozen = c->frozen;
    o.bias = weight(ZEST_DTYPE_BF16, 1, c->outputs, 15, 0.1f, 10000000);
    for (size_t i = 0; i < c->pairs; i++)
        o.pairs[i] = (zest_perturbation){.seed = 70 + i, .scale = {0.02f, -0.02f}, .lanes = 2};
    o.a = normals(2 * c->pairs * o.a_lane, 60, 1);
    o.residual = normals(2 * c->pairs * o.out_lane, 61, 1);
    o.fresh = normals(2 * c->pairs * o.out_lane, 62, 1);
    return o;
}

static void discard(operands *o) {
    release(&o->weight), release(&o->bias);
    free(o->a), free(o->residual), free(o->fresh);
}

static zest_linear job_of(const product_case *c, const operands *o) {
    zest_linear job = {.weight = o->weight,
                       .bias = o->bias,
                       .perturbation = o->pairs[0],
                       .rows = c->rows,
                       .a_stride = c->inputs + c->pad,
                       .out_stride = c->outputs + c->pad,
                       .residual_stride = c->outputs + c->pad,
                       .activation = c->activation};
    return job;
}

static float *further(const float *at, size_t elements, size_t cell) {
    return (float *)(uintptr_t)((const char *)at + elements * cell);
}

static void multiply(zest_device *device, const product_case *c, operands *o, float *got) {
    zest_workspace scratch = {.device = device};
    zest_linear job = job_of(c, o);
    const size_t out = 2 * c->pairs * o->out_lane;
    job.weight = device_upload_weight(device, &o->weight);
    job.bias = device_upload_weight(device, &o->bias);
    job.perturbation.more = o->pairs + 1, job.perturbation.more_count = c->pairs - 1;
    job.a[0] = device_upload_activations(device, o->a, 2 * c->pairs * o->a_lane);
    job.out[0] = device_upload_activations(device, o->fresh, out);
    if (c->residual) job.residual[0] = device_upload_activations(device, o->residual, out);
    job.a[1] = further(job.a[0], o->a_lane, device->element_size);
    job.out[1] = further(job.out[0], o->out_lane, device->element_size);
    if (c->residual) job.residual[1] = further(job.residual[0], o->out_lane, device->element_size);
    device_check(device, device->operations->linear(&job, 1, &scratch));
    device_download_activations(device, job.out[0], out, got);
}

/* Behind multiply(), which rounds the operands of both sides. */
static void expect(const product_case *c, const operands *o, zest_compute compute, float *out) {
    zest_workspace plain = {0};
    memcpy(out, o->fresh, 2 * c->pairs * o->out_lane * sizeof *out);
    for (size_t i = 0; i < c->pairs; i++) {
        zest_linear job = job_of(c, o);
        job.perturbation = o->pairs[i];
        job.compute = compute == ZEST_COMPUTE_BF16 ? ZEST_COMPUTE_BF16 : ZEST_COMPUTE_F32;
        for (size_t l = 0; l < 2; l++) {
            job.a[l] = o->a + (2 * i + l) * o->a_lane;
            job.out[l] = out + (2 * i + l) * o->out_lane;
            job.residual[l] = c->residual ? o->residual + (2 * i + l) * o->out_lane : NULL;
        }
        assert_int_equal(zest_ops_plain.linear(&job, 1, &plain), 0);
    }
    free(plain.data);
}

/* One case in all ways; a: what its first operand is multiplied by. */
static void compare_ways(zest_device *devices[COUNT(ways)], const product_case *c, int which, float a) {
    operands o = make(c);
    const size_t lanes = 2 * c->pairs;
    float *got = guarded(lanes * o.out_lane), *expected = guarded(lanes * o.out_lane);
    /* fp16 rounds weights that the reference does not */
    const double tolerance = 2e-6 * sqrt((double)c->inputs) * a + 6 * device_step[which] +
                             (which == 2 ? 3e-3 * sqrt((double)c->inputs) * 0.05 * a : 0);
    for (size_t i = 0; i < lanes * o.a_lane; i++) o.a[i] *= a;
    for (size_t w = 0; w < COUNT(ways); w++) {
        char what[96];
        multiply(devices[w], c, &o, got);
        if (!w) expect(c, &o, device_computes[which], expected);
        snprintf(what, sizeof what, "%s, %s, %zu x %zu x %zu, times %g", device_names[which], ways[w],
                 c->rows, c->inputs, c->outputs, (double)a);
        device_compare(got, expected, lanes * c->rows, c->outputs, c->outputs + c->pad, tolerance, what);
    }
    free(got), free(expected);
    discard(&o);
}

static void own_products_are_right(void **state) {
    zest_device *devices[COUNT(ways)];
    (void)state;
    for (int which = 1; which < 3; which++) {
        open_ways(devices, device_computes[which]);
        for (size_t i = 0; i < COUNT(cases); i++) compare_ways(devices, &cases[i], which, 1);
        close_ways(devices);
    }
    device_assert_matches();
}

/* Sums of some ten and some hundred, where an activation is its tail. */
static void activations_are_right_far_out(void **state) {
    zest_device *devices[COUNT(ways)];
    (void)state;
    for (int which = 1; which < 3; which++) {
        open_ways(devices, device_computes[which]);
        for (int act = ZEST_ACT_RELU; act <= ZEST_ACT_SILU; act++) {
            const product_case c = {129, 136, 200, 1, 8, 0, 0, (zest_activation)act};
            compare_ways(devices, &c, which, 10);
            compare_ways(devices, &c, which, 200);
        }
        close_ways(devices);
    }
    device_assert_matches();
}

/* In its row and nowhere else, whatever is done to the sum. */
static void a_nan_stays_in_own_products(void **state) {
    zest_device *devices[COUNT(ways)];
    (void)state;
    open_ways(devices, ZEST_COMPUTE_BF16);
    for (int act = ZEST_ACT_NONE; act <= ZEST_ACT_SILU; act++)
        for (size_t w = 0; w < COUNT(ways); w++) {
            product_case c = {70, 64, 72, 1, 0, act == ZEST_ACT_NONE, 0, (zest_activation)act};
            operands o = make(&c);
            float *got = guarded(2 * o.out_lane);
            o.a[67 * c.inputs + 5] = NAN;
            multiply(devices[w], &c, &o, got);
            for (size_t i = 0; i < 2 * o.out_lane; i++)
                if (!isnan(got[i]) != (i / c.outputs != 67)) {
                    printf("%s, activation %d: element %zu of row %zu is %g\n", ways[w], act, i % c.outputs,
                           i / c.outputs, (double)got[i]);
                    device_mismatches++;
                    break;
                }
            free(got);
            discard(&o);
        }
    close_ways(devices);
    device_assert_matches();
}

/* ---- A norm behind the product ---- */

/* By whom the product is done, and how its norm: late is for blocks that do not wait for each other. */
static const char *const norm_ways[][2] = {
    {"sm90", "fused"}, {"sm90", "fallback"}, {"sm90", "separate"}, {"cublas", "fused"}};

/* Rows of one tile and of several, of parts of tiles; few and many inputs; more tiles than a GPU does at
 * once. */
static const product_case norm_cases[] = {
    {1, 256, 256, 1, 0, 1, 0, ZEST_ACT_NONE},   {129, 256, 768, 2, 0, 1, 0, ZEST_ACT_NONE},
    {257, 520, 264, 1, 0, 1, 0, ZEST_ACT_NONE}, {70, 64, 136, 1, 0, 1, 0, ZEST_ACT_NONE},
    {70, 256, 50, 1, 0, 1, 0, ZEST_ACT_NONE},   {1100, 256, 520, 5, 0, 1, 0, ZEST_ACT_NONE},
    {300, 776, 1032, 3, 0, 1, 1, ZEST_ACT_NONE}};

typedef struct {
    operands o;
    zest_norm norm;
} norm_operands;

static norm_operands make_with_norm(const product_case *c) {
    norm_operands n = {.o = make(c), .norm = {.epsilon = 1e-5f, .width = c->outputs}};
    n.norm.gain = weight(ZEST_DTYPE_BF16, 1, c->outputs, 16, 1.0f, 20000000);
    n.norm.bias = weight(ZEST_DTYPE_BF16, 1, c->outputs, 17, 0.5f, 30000000);
    for (size_t i = 0; i < 2 * c->pairs * n.o.out_lane; i++) n.o.residual[i] += 5; /* a mean to take away */
    return n;
}

static void discard_with_norm(norm_operands *n) {
    release(&n->norm.gain), release(&n->norm.bias);
    discard(&n->o);
}

/* In place, as the layers of a model ask for it. */
static void multiply_and_norm(zest_device *device, const product_case *c, norm_operands *n, float *got) {
    zest_workspace scratch = {.device = device};
    operands *o = &n->o;
    zest_linear job = job_of(c, o);
    zest_norm norm = n->norm;
    const size_t out = 2 * c->pairs * o->out_lane;
    job.weight = device_upload_weight(device, &o->weight);
    job.bias = device_upload_weight(device, &o->bias);
    norm.gain = device_upload_weight(device, &n->norm.gain);
    norm.bias = device_upload_weight(device, &n->norm.bias);
    job.perturbation.more = o->pairs + 1, job.perturbation.more_count = c->pairs - 1;
    job.a[0] = device_upload_activations(device, o->a, 2 * c->pairs * o->a_lane);
    job.a[1] = further(job.a[0], o->a_lane, device->element_size);
    job.out[0] = device_upload_activations(device, o->residual, out);
    job.out[1] = further(job.out[0], o->out_lane, device->element_size);
    job.residual[0] = job.out[0], job.residual[1] = job.out[1];
    job.norm = &norm;
    device_check(device, device->operations->linear(&job, 1, &scratch));
    device_download_activations(device, job.out[0], out, got);
}

static void expect_norm(const product_case *c, const norm_operands *n, zest_compute compute, float *out) {
    zest_workspace plain = {0};
    expect(c, &n->o, compute, out);
    for (size_t i = 0; i < c->pairs; i++) {
        zest_norm job = n->norm;
        job.rows = c->rows;
        job.perturbation = n->o.pairs[i];
        for (size_t l = 0; l < 2; l++) job.x[l] = job.out[l] = out + (2 * i + l) * n->o.out_lane;
        assert_int_equal(zest_ops_plain.norm(&job, 1, &plain), 0);
    }
    free(plain.data);
}

static zest_device *open_norm_way(size_t way, zest_compute compute) {
    assert_int_equal(setenv("ZEST_CUDA_GEMM", norm_ways[way][0], 1), 0);
    assert_int_equal(setenv("ZEST_CUDA_NORM", norm_ways[way][1], 1), 0);
    zest_device *device = device_open(compute);
    assert_int_equal(unsetenv("ZEST_CUDA_GEMM"), 0);
    assert_int_equal(unsetenv("ZEST_CUDA_NORM"), 0);
    return device;
}

static void norms_behind_products_are_right(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        zest_device *devices[COUNT(norm_ways)];
        for (size_t w = 0; w < COUNT(norm_ways); w++) devices[w] = open_norm_way(w, device_computes[which]);
        for (size_t i = 0; i < COUNT(norm_cases); i++) {
            const product_case *c = &norm_cases[i];
            norm_operands n = make_with_norm(c);
            const size_t lanes = 2 * c->pairs;
            float *got = guarded(lanes * n.o.out_lane), *expected = guarded(lanes * n.o.out_lane),
                  *fused = guarded(lanes * n.o.out_lane);
            for (size_t w = 0; w < COUNT(norm_ways); w++) {
                char what[96];
                multiply_and_norm(devices[w], c, &n, w ? got : fused);
                if (!w) memcpy(got, fused, lanes * n.o.out_lane * sizeof *got);
                if (!w) expect_norm(c, &n, device_computes[which], expected);
                snprintf(what, sizeof what, "%s, %s, %s, %zu x %zu x %zu", device_names[which],
                         norm_ways[w][0], norm_ways[w][1], c->rows, c->inputs, c->outputs);
                /* rounded before the norm, around 5, and behind it */
                device_compare(got, expected, lanes * c->rows, c->outputs, c->outputs,
                               1e-5 * sqrt((double)c->inputs) + 24 * device_step[which], what);
                /* whether blocks waited for each other must not show */
                if (w == 1) device_compare(got, fused, lanes * c->rows, c->outputs, c->outputs, 0, what);
            }
            free(got), free(expected), free(fused);
            discard_with_norm(&n);
        }
        for (size_t w = 0; w < COUNT(norm_ways); w++) zest_device_close(devices[w]);
    }
    device_assert_matches();
}

/* Blocks meet at the same places in every other product: what one leaves behind there must not show in the
 * next. Operands and sizes take turns; the bits are always the same. */
static void norms_repeat(void **state) {
    enum { KINDS = 3, ROUNDS = 7 };
    static const size_t order[] = {0, 1, 2, 1, 0, 0, 2, 2, 1};
    const product_case *c[KINDS] = {&norm_cases[5], &norm_cases[5], &norm_cases[1]};
    zest_device *device = open_norm_way(0, ZEST_COMPUTE_BF16);
    norm_operands n[KINDS];
    float *first[KINDS], *again = guarded(2 * c[0]->pairs * c[0]->rows * c[0]->outputs);
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        n[k] = make_with_norm(c[k]);
        const size_t count = 2 * c[k]->pairs * n[k].o.out_lane;
        for (size_t i = 0; k == 1 && i < count; i++) n[k].o.residual[i] = 2 * n[k].o.residual[i] + 30;
        first[k] = guarded(count);
        multiply_and_norm(device, c[k], &n[k], first[k]);
    }
    for (int i = 0; i < ROUNDS; i++)
        for (size_t j = 0; j < COUNT(order); j++) {
            const size_t k = order[j];
            multiply_and_norm(device, c[k], &n[k], again);
            device_compare(again, first[k], 2 * c[k]->pairs * c[k]->rows, c[k]->outputs, c[k]->outputs, 0,
                           "again");
        }
    for (size_t k = 0; k < KINDS; k++) {
        free(first[k]);
        discard_with_norm(&n[k]);
    }
    free(again);
    zest_device_close(device);
    device_assert_matches();
}

static void a_nan_stays_in_its_norm(void **state) {
    const product_case c = {300, 256, 520, 1, 0, 1, 0, ZEST_ACT_NONE};
    (void)state;
    for (size_t w = 0; w < COUNT(norm_ways); w++) {
        zest_device *device = open_norm_way(w, ZEST_COMPUTE_BF16);
        norm_operands n = make_with_norm(&c);
        float *got = guarded(2 * n.o.out_lane);
        n.o.a[267 * c.inputs + 5] = NAN;
        multiply_and_norm(device, &c, &n, got);
        for (size_t i = 0; i < 2 * n.o.out_lane; i++)
            if (!isnan(got[i]) != (i / c.outputs != 267)) {
                printf("%s, %s: element %zu of row %zu is %g\n", norm_ways[w][0], norm_ways[w][1],
                       i % c.outputs, i / c.outputs, (double)got[i]);
                device_mismatches++;
                break;
            }
        free(got);
        discard_with_norm(&n);
        zest_device_close(device);
    }
    device_assert_matches();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_products_are_right),
        cmocka_unit_test(activations_are_right_far_out),
        cmocka_unit_test(a_nan_stays_in_own_products),
        cmocka_unit_test(norms_behind_products_are_right),
        cmocka_unit_test(norms_repeat),
        cmocka_unit_test(a_nan_stays_in_its_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
