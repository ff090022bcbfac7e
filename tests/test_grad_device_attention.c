/* Attention's gradients, and its forward pass with a mask, on a GPU against plain C, on operands rounded to
 * the compute's type. Without a GPU these tests are skipped. */
#include "grad/backward.h"
#include "grad/grad.h"
#include "tests/device_support.h"

enum { COMPUTES = 2 };
/* Of the largest result: sums of some thousand products in fp32 in another order; in bf16 results that are
 * rounded, out of weights of a softmax that are rounded too. */
static const double tolerance[COMPUTES] = {2e-5, 2e-2};

typedef struct {
    size_t heads, kv_heads, head_dim;
    int causal, past, masked;
    size_t odd;     /* elements after a row that keep it from being aligned */
    size_t window;  /* 0: none */
    float soft_cap; /* 0: none */
} attention_case;

static const attention_case attention_cases[] = {
    {2, 2, 64, 0, 0, 0, 0, 0, 0},  {4, 2, 64, 1, 0, 0, 0, 0, 0},  {3, 1, 5, 1, 0, 0, 0, 0, 0},
    {2, 1, 80, 1, 7, 0, 0, 0, 0},  {2, 2, 16, 0, 0, 1, 0, 0, 0},  {4, 2, 33, 1, 3, 1, 0, 0, 0},
    {1, 1, 1, 1, 0, 1, 0, 0, 0},   {2, 1, 96, 1, 40, 1, 0, 0, 0}, {2, 1, 128, 1, 5, 0, 0, 0, 0},
    {1, 1, 128, 0, 0, 1, 0, 0, 0}, {2, 1, 256, 1, 0, 0, 0, 0, 0}, {1, 1, 200, 0, 0, 1, 0, 0, 0},
    {2, 2, 64, 0, 0, 0, 1, 0, 0},  {2, 2, 32, 1, 0, 0, 0, 0, 0},  {2, 1, 64, 1, 70, 1, 0, 0, 0},
    {4, 2, 64, 1, 0, 0, 0, 33, 0}, {2, 2, 20, 0, 0, 1, 0, 9, 0},  {2, 1, 256, 1, 7, 0, 0, 0, 5},
    {3, 1, 96, 1, 40, 1, 1, 64, 2}};
static const uint32_t lengths[] = {37, 1, 150, 64, 65};
enum { SEQUENCES = 5, LONGEST = 301 };

typedef struct {
    uint32_t q_start[SEQUENCES + 1], kv_start[SEQUENCES + 1];
    float *x[8]; /* q, k, v, d_out; dq, dk, dv, out */
    size_t count[8];
    zest_mask mask;
    zest_attention_backward job;
} attention_data;

static void make_attention(const attention_case *c, attention_data *a) {
    memset(a, 0, sizeof *a);
    for (size_t s = 0; s < SEQUENCES; s++) {
        a->q_start[s + 1] = a->q_start[s] + lengths[s];
        a->kv_start[s + 1] = a->kv_start[s] + lengths[s] + (uint32_t)c->past;
    }
    size_t q = c->heads * c->head_dim + 8 + c->odd, kv = c->kv_heads * c->head_dim + 16 + c->odd;
    size_t out = c->heads * c->head_dim, rows = a->q_start[SEQUENCES], keys = a->kv_start[SEQUENCES];
    const size_t counts[8] = {rows * q, keys * kv, keys * kv, rows * out,
                              rows * q, keys * kv, keys * kv, rows * out};
    for (size_t i = 0; i < 8; i++) {
        a->count[i] = counts[i];
        a->x[i] = i < 4 ? normals(counts[i], i + 1, 1) : guarded(counts[i]);
    }
    a->mask = zest_dropout_mask(&(zest_dropout){0, 0, 0.3, 9}, 0.3, 1, ZEST_DROPOUT_ATTENTION);
    a->job = (zest_attention_backward){.forward = {.q_stride = q,
                                                   .kv_stride = kv,
                                                   .out_stride = out,
                                                   .sequences = SEQUENCES,
                                                   .heads = c->heads,
                                                   .kv_heads = c->kv_heads,
                                                   .head_dim = c->head_dim,
                                                   .causal = c->causal,
                                                   .scale = 1.0f / sqrtf((float)c->head_dim),
                                                   .max_queries = 150,
                                                   .window = c->window,
                                                   .soft_cap = c->soft_cap,
                                                   .lanes = 1},
                                       .mask = c->masked ? &a->mask : NULL,
                                       .longest = LONGEST,
                                       .keys = 150 + (size_t)c->past,
                                       .rows = rows};
}

static void point(zest_attention_backward *job, float *const x[8], const uint32_t *q_start,
                  const uint32_t *kv_start) {
    job->forward.q = x[0], job->forward.k = x[1], job->forward.v = x[2], job->d_out = x[3];
    job->dq = x[4], job->dk = x[5], job->dv = x[6], job->forward.out = x[7];
    job->forward.q_start = q_start, job->forward.kv_start = kv_start;
}

static void one_attention(zest_device *device, int c, const attention_case *n) {
    attention_data a;
    zest_workspace scratch = {.device = device}, host = {0};
    float *uploaded[8]; /* activations, of the device's dtype */
    make_attention(n, &a);
    for (size_t i = 0; i < 8; i++) uploaded[i] = device_upload_activations(device, a.x[i], a.count[i]);
    zest_attention_backward on_device = a.job;
    point(&on_device, uploaded, device_upload(device, a.q_start, sizeof a.q_start),
          device_upload(device, a.kv_start, sizeof a.kv_start));
    point(&a.job, a.x, a.q_start, a.kv_start);
    assert_int_equal(zest_backward_plain.attention(&a.job, 2, &host), 0);
    device_check(device, zest_backward_for(device->operations)->attention(&on_device, 1, &scratch));
    if (n->masked) {
        assert_int_equal(zest_backward_plain.attention_masked(&a.job, 2, &host), 0);
        device_check(device,
                     zest_backward_for(device->operations)->attention_masked(&on_device, 1, &scratch));
    }
    static const char *const names[] = {"dq", "dk", "dv", "out"};
    const size_t strides[] = {a.job.forward.q_stride, a.job.forward.kv_stride, a.job.forward.kv_stride,
                              a.job.forward.out_stride};
    const size_t heads[] = {n->heads, n->kv_heads, n->kv_heads, n->heads};
    for (size_t i = 0; i < (n->masked ? 4u : 3u); i++) {
        float *got = guarded(a.count[4 + i]);
        char what[80];
        snprintf(what, sizeof what, "%s attention of heads of %zu%s%s: %s", device_names[c], n->head_dim,
                 n->causal ? ", causal" : "", n->masked ? ", masked" : "", names[i]);
        device_download_activations(device, uploaded[4 + i], a.count[4 + i], got);
        device_compare(got, a.x[4 + i], a.count[4 + i] / strides[i], heads[i] * n->head_dim, strides[i],
                       tolerance[c] *
                           device_largest(a.x[4 + i], a.count[4 + i], heads[i] * n->head_dim, strides[i]),
                       what);
        free(got);
    }
    for (size_t i = 0; i < 8; i++) free(a.x[i]);
    free(host.data);
}

static void gradients(void **state) {
    (void)state;
    for (int c = 0; c < COMPUTES; c++) {
        zest_device *device = device_open(device_computes[c]);
        for (size_t i = 0; i < COUNT(attention_cases); i++) one_attention(device, c, &attention_cases[i]);
        zest_device_close(device);
    }
    device_assert_matches();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
