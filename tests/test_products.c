/* Products on a GPU by zest's kernel (backend/cuda/gemm_hopper.cuh) and by cuBLASLt against the plain
 * reference: tiles that end anywhere, gaps behind rows, all lanes, everything that is done to a sum. On other
 * GPUs, and for sizes that zest's kernel refuses, cuBLASLt answers. */
#include "tests/device_support.h"

static const char *const ways[] = {"own", "cublas"};
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
    zest_scratch scratch = {.device = device};
    zest_linear job = job_of(c, o);
    const size_t out = 2 * c->pairs * o->out_lane;
    job.weight = device_put_weight(device, &o->weight);
    job.bias = device_put_weight(device, &o->bias);
    job.perturbation.more = o->pairs + 1, job.perturbation.more_count = c->pairs - 1;
    job.a[0] = device_put_cells(device, o->a, 2 * c->pairs * o->a_lane);
    job.out[0] = device_put_cells(device, o->fresh, out);
    if (c->residual) job.residual[0] = device_put_cells(device, o->residual, out);
    job.a[1] = further(job.a[0], o->a_lane, device->cell);
    job.out[1] = further(job.out[0], o->out_lane, device->cell);
    if (c->residual) job.residual[1] = further(job.residual[0], o->out_lane, device->cell);
    device_fine(device, device->operations->linear(&job, 1, &scratch));
    device_get_cells(device, job.out[0], out, got);
}

/* Behind multiply(), which rounds the operands of both sides. */
static void expect(const product_case *c, const operands *o, zest_compute compute, float *out) {
    zest_scratch plain = {0};
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
        assert_int_equal(zest_forward_plain.linear(&job, 1, &plain), 0);
    }
    free(plain.data);
}

static void own_products_are_right(void **state) {
    zest_device *devices[COUNT(ways)];
    (void)state;
    for (int which = 1; which < 3; which++) {
        open_ways(devices, device_computes[which]);
        for (size_t i = 0; i < COUNT(cases); i++) {
            const product_case *c = &cases[i];
            operands o = make(c);
            const size_t lanes = 2 * c->pairs;
            float *got = room(lanes * o.out_lane), *expected = room(lanes * o.out_lane);
            for (size_t w = 0; w < COUNT(ways); w++) {
                char what[96];
                multiply(devices[w], c, &o, got);
                if (!w) expect(c, &o, device_computes[which], expected);
                snprintf(what, sizeof what, "%s, %s, %zu x %zu x %zu", device_names[which], ways[w], c->rows,
                         c->inputs, c->outputs);
                device_same(got, expected, lanes * c->rows, c->outputs, c->outputs + c->pad,
                            2e-6 * sqrt((double)c->inputs) + 6 * device_step[which] +
                                (which == 2 ? 1e-3 * sqrt((double)c->inputs) * 0.05 : 0),
                            what);
            }
            free(got), free(expected);
            discard(&o);
        }
        close_ways(devices);
    }
    device_verdict();
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
            float *got = room(2 * o.out_lane);
            o.a[67 * c.inputs + 5] = NAN;
            multiply(devices[w], &c, &o, got);
            for (size_t i = 0; i < 2 * o.out_lane; i++)
                if (!isnan(got[i]) != (i / c.outputs != 67)) {
                    printf("%s, activation %d: element %zu of row %zu is %g\n", ways[w], act, i % c.outputs,
                           i / c.outputs, (double)got[i]);
                    device_complaints++;
                    break;
                }
            free(got);
            discard(&o);
        }
    close_ways(devices);
    device_verdict();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_products_are_right),
        cmocka_unit_test(a_nan_stays_in_own_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
