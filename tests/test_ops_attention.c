/* attention: every level and the GPU against the plain reference, the reference against fp64. */
#include "tests/device_support.h"

typedef struct {
    size_t heads, kv_heads, size;
    int causal;
    size_t past; /* keys before the first query */
    size_t cut;  /* keys that a sequence leaves out at its end */
    size_t lengths[6];
    size_t window;  /* 0: none */
    float soft_cap; /* 0: none */
} attention_case;

static const attention_case attentions[] = {
    {1, 1, 16, 0, 0, 0, {1}, 0, 0},
    {2, 2, 64, 0, 0, 0, {7, 1, 33, 0, 16}, 0, 0},
    {2, 1, 64, 1, 0, 0, {7, 1, 33, 14, 50}, 0, 0},
    {4, 2, 20, 1, 5, 0, {31, 3}, 0, 0},
    {3, 1, 36, 0, 9, 0, {15, 17}, 0, 0},
    {2, 2, 80, 1, 0, 0, {65}, 0, 0},
    {1, 1, 128, 1, 100, 0, {1, 2}, 0, 0},
    {1, 1, 256, 0, 0, 0, {19, 40}, 0, 0},
    {6, 2, 4, 1, 1, 0, {29}, 0, 0},
    {1, 1, 64, 1, 3, 0, {600, 20}, 0, 0}, /* longer than a task */
    {1, 1, 64, 0, 0, 0, {300}, 0, 0},
    {2, 1, 64, 1, 40, 40, {7, 1, 0, 33}, 0, 0}, /* the keys end with the first queries' */
    {4, 2, 20, 1, 9, 4, {3, 270}, 0, 0},
    {2, 2, 36, 0, 0, 20, {33, 300, 0, 21}, 0, 0}, /* more queries than keys */
    {2, 1, 64, 1, 0, 0, {7, 1, 33, 14, 50}, 1, 0},
    {2, 1, 20, 1, 0, 0, {70, 5, 33}, 13, 0},
    {2, 2, 20, 1, 0, 0, {70}, 64, 0},
    {2, 1, 36, 1, 100, 0, {7, 1, 33}, 40, 0}, /* keys of a cache that no query sees */
    {4, 2, 20, 1, 9, 4, {3, 270}, 33, 0},
    {1, 1, 64, 1, 3, 0, {600, 20}, 100, 0},
    {2, 2, 20, 0, 0, 0, {70, 1, 300, 5}, 17, 0}, /* to both sides */
    {1, 1, 64, 0, 0, 0, {600}, 65, 0},
    {2, 2, 256, 1, 0, 0, {40}, 0, 5},
    {2, 1, 20, 1, 7, 0, {33, 270}, 50, 0.5f},
    {3, 3, 12, 0, 0, 0, {65}, 9, 30},
    {9, 3, 64, 1, 37, 0, {1, 1, 1}, 0, 0}, /* single queries */
    {16, 1, 80, 1, 5, 0, {1, 2, 1}, 0, 0},
    {2, 1, 36, 1, 300, 2, {1, 257}, 0, 0},
    {3, 3, 20, 0, 70, 0, {1}, 0, 0},
    {4, 2, 64, 1, 200, 0, {1, 1}, 70, 0},
    {2, 1, 20, 1, 90, 0, {1}, 33, 2},
};

typedef struct {
    zest_attention job;
    uint32_t q_start[7], kv_start[7], kv_end[6];
    float *q, *k, *v, *out;
    size_t out_floats;
} attention_operands;

static void make(attention_operands *o, const attention_case *c) {
    size_t sequences = 0;
    memset(o, 0, sizeof *o);
    while (sequences < 6 && (c->lengths[sequences] || (sequences + 1 < 6 && c->lengths[sequences + 1]))) {
        o->q_start[sequences + 1] = o->q_start[sequences] + (uint32_t)c->lengths[sequences];
        o->kv_start[sequences + 1] = o->kv_start[sequences] + (uint32_t)(c->lengths[sequences] + c->past);
        size_t keys = c->lengths[sequences] + c->past;
        o->kv_end[sequences] = o->kv_start[sequences] + (uint32_t)(keys > c->cut ? keys - c->cut : 0);
        sequences++;
    }
    size_t q_stride = c->heads * c->size + 3, kv_stride = c->kv_heads * c->size + 5,
           out_stride = c->heads * c->size + 1;
    o->q = normals(o->q_start[sequences] * q_stride, 1, 1.5f);
    o->k = normals(o->kv_start[sequences] * kv_stride, 2, 1.5f);
    o->v = normals(o->kv_start[sequences] * kv_stride, 3, 1);
    o->out_floats = o->q_start[sequences] * out_stride;
    o->out = guarded(o->out_floats);
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
                              c->cut ? o->kv_end : NULL,
                              0,
                              1,
                              0,
                              0,
                              0,
                              o->q_start[sequences],
                              o->kv_start[sequences],
                              c->window,
                              c->soft_cap};
}

static void discard(attention_operands *o) {
    free(o->q);
    free(o->k);
    free(o->v);
    free(o->out);
}

static void every_level_attends_as_the_reference(void **state) {
    (void)state;
    zest_workspace scratch = {0};
    for (size_t i = 0; i < COUNT(attentions); i++) {
        attention_operands o;
        make(&o, &attentions[i]);
        float *expected = guarded(o.out_floats);
        assert_int_equal(zest_ops_plain.attention(&o.job, 1, &scratch), 0);
        memcpy(expected, o.out, o.out_floats * sizeof(float));
        for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++)
            for (int threads = 1; threads <= 3; threads++)
                for (int compute = 0; compute < 2; compute++) { /* attention is fp32 in both */
                    char what[64];
                    snprintf(what, sizeof what, "attention %zu, %s", i, zest_cpu_name((zest_cpu)cpu_index));
                    for (size_t j = 0; j < o.out_floats; j++) o.out[j] = GUARD;
                    o.job.compute = (zest_compute)compute;
                    assert_int_equal(zest_ops_for((zest_cpu)cpu_index)->attention(&o.job, threads, &scratch),
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
    size_t k0 = job->kv_start[sequence], q0 = job->q_start[sequence];
    size_t keys = (job->kv_end ? job->kv_end[sequence] : job->kv_start[sequence + 1]) - k0;
    size_t at_key = keys - (job->q_start[sequence + 1] - q0) + i, seen = job->causal ? at_key + 1 : keys;
    size_t at = head * job->kv_heads / job->heads * job->head_dim;
    const float *q = (const float *)job->q + (q0 + i) * job->q_stride + head * job->head_dim;
    const float *k = job->k, *v = job->v;
    double sum = 0;
    memset(out, 0, job->head_dim * sizeof *out);
    for (size_t j = 0; j < seen; j++) {
        double dot = 0;
        for (size_t d = 0; d < job->head_dim; d++)
            dot += (double)q[d] * k[(k0 + j) * job->kv_stride + at + d];
        double score = dot * job->scale, cap = (double)job->soft_cap;
        if (cap != 0) score = cap * tanh(score / cap);
        if (job->window && fabs((double)j - (double)at_key) >= (double)job->window) continue;
        double e = exp(score);
        sum += e;
        for (size_t d = 0; d < job->head_dim; d++) out[d] += e * v[(k0 + j) * job->kv_stride + at + d];
    }
    for (size_t d = 0; d < job->head_dim; d++) out[d] /= sum;
}

static void the_reference_attends_right(void **state) {
    (void)state;
    zest_workspace scratch = {0};
    for (size_t c = 0; c < COUNT(attentions); c++) {
        attention_operands o;
        double exact[256];
        make(&o, &attentions[c]);
        assert_int_equal(zest_ops_plain.attention(&o.job, 1, &scratch), 0);
        for (size_t s = 0; s < o.job.sequences; s++)
            for (size_t i = 0; i < attentions[c].lengths[s]; i++)
                for (size_t h = 0; h < o.job.heads; h++) {
                    attend(&o.job, s, i, h, exact);
                    const float *got = o.out + (o.q_start[s] + i) * o.job.out_stride + h * o.job.head_dim;
                    for (size_t d = 0; d < o.job.head_dim; d++)
                        assert_close(got[d], exact[d], o.job.window || o.job.soft_cap != 0 ? 8e-6 : 4e-6);
                }
        discard(&o);
    }
    free(scratch.data);
}

/* The last queries of a causal sequence, asked for with the others as past, and a sequence without its
 * batch-mates. */
static void a_query_depends_on_its_keys_alone(void **state) {
    (void)state;
    static const attention_case c = {2, 1, 64, 1, 0, 0, {20, 61, 9}, 0, 0};
    zest_workspace scratch = {0};
    for (int cpu_index = 0; cpu_index < cpu_count(); cpu_index++)
        for (uint32_t skip = 0; skip < 61; skip += 5) {
            attention_operands o;
            make(&o, &c);
            assert_int_equal(zest_ops_for((zest_cpu)cpu_index)->attention(&o.job, 2, &scratch), 0);
            uint32_t q_start[2] = {20 + skip, 81}, kv_start[2] = {20, 81};
            zest_attention job = o.job;
            float *out = guarded(o.out_floats);
            job.sequences = 1;
            job.q_start = q_start;
            job.kv_start = kv_start;
            job.out = out;
            assert_int_equal(zest_ops_for((zest_cpu)cpu_index)->attention(&job, 1, &scratch), 0);
            for (size_t i = q_start[0]; i < 81; i++)
                same(out + i * job.out_stride, o.out + i * job.out_stride, 128, 0,
                     zest_cpu_name((zest_cpu)cpu_index));
            free(out);
            discard(&o);
        }
    free(scratch.data);
}

/* ---- On a GPU ---- */

/* The cases above, whose odd strides only the plain kernel takes, and more with strides that the tensor
 * cores' kernels take: on compute capability 9.0 one for heads of 64 when there are more than 64 queries,
 * else, and up to 64, the other. Several lanes at once. */
static const attention_case more_attentions[] = {
    {2, 2, 32, 0, 0, 0, {7, 1, 33, 0, 16}, 0, 0},
    {2, 1, 64, 1, 0, 0, {7, 1, 130, 14, 64}, 0, 0},
    {2, 2, 64, 0, 0, 0, {128, 65, 63, 1}, 0, 0},
    {2, 2, 64, 0, 0, 0, {64, 33, 0, 16}, 0, 0},
    {3, 3, 64, 0, 0, 0, {128, 128, 128, 128, 128, 128}, 0, 0},
    {3, 1, 64, 1, 0, 0, {128, 129, 0, 65, 300, 2}, 0, 0},
    {4, 2, 64, 0, 0, 0, {300, 1, 0, 200, 256, 129}, 0, 0},
    {2, 2, 64, 1, 70, 0, {66, 5, 256, 127}, 0, 0},
    {2, 1, 64, 0, 131, 0, {1, 120, 65, 192}, 0, 0},
    {40, 8, 64, 1, 0, 0, {257, 100, 31, 0, 96, 191}, 0, 0}, /* more units than blocks */
    {4, 2, 80, 1, 5, 0, {31, 3}, 0, 0},
    {3, 1, 96, 0, 9, 0, {15, 17}, 0, 0},
    {2, 2, 128, 1, 3, 0, {65, 200}, 0, 0},
    {1, 1, 256, 1, 100, 0, {1, 2}, 0, 0},
    {2, 1, 256, 0, 0, 0, {19, 40, 100}, 0, 0},
    {2, 2, 24, 1, 0, 0, {70}, 0, 0},
    {1, 1, 192, 1, 0, 0, {129}, 0, 0},
    {12, 12, 64, 1, 1, 0, {256, 31}, 0, 0},
    {2, 1, 64, 1, 150, 150, {7, 1, 0, 70}, 0, 0},
    {4, 2, 128, 1, 30, 8, {1, 1, 1, 1}, 0, 0},
    {2, 2, 64, 0, 0, 30, {65, 200, 0, 33}, 0, 0},
    {2, 1, 64, 1, 90, 40, {0, 129, 0, 70, 1}, 0, 0}, /* keys without queries */
    {2, 2, 64, 0, 0, 150, {151, 280, 300, 160}, 0, 0},
    {4, 2, 64, 1, 0, 0, {300, 70}, 64, 0},
    {2, 2, 128, 0, 0, 0, {200}, 33, 50},
    {2, 1, 256, 1, 70, 0, {1, 9}, 30, 50},
};

/* Heads that all look at the same keys, which are the values too (model/attention.c): up to 256 the kernels
 * above take them, then another one, in 16 bits. */
static const attention_case shared_attentions[] = {
    {4, 1, 64, 0, 0, 0, {70, 1, 0, 9}, 0, 0},
    {3, 1, 264, 0, 0, 0, {1, 0, 5, 40}, 0, 0},
    {12, 1, 768, 0, 127, 0, {1, 1, 1, 0, 1}, 0, 0},
    {12, 1, 768, 1, 90, 31, {1, 3, 0, 2}, 0, 0}, /* keys behind the last one that is seen */
    {16, 1, 1024, 0, 300, 0, {1, 2}, 0, 0},
    {8, 1, 512, 1, 0, 0, {33, 7, 70}, 0, 0},
    {5, 1, 320, 1, 14, 0, {2, 17, 1}, 0, 0},
    {32, 1, 2048, 1, 255, 0, {1, 1, 3}, 0, 0},
    {7, 1, 1544, 0, 0, 0, {19}, 0, 0},
};

/* Strides as they come, those that the tensor cores' kernels take, and those with keys for values. */
typedef enum { ODD, EVEN, SHARED } layout;

enum { LANES = 3 };
typedef struct {
    attention_operands o;
    layout even;
    size_t longest, q_floats, kv_floats, floats; /* of a lane */
    float *q, *k, *v, *out;                      /* of all of them */
} attention_lanes;

static float *make_normal(size_t each, uint64_t seed) {
    float *x = guarded(LANES * each);
    for (size_t l = 0; l < LANES; l++) zest_noise_plain.normal(x + l * each, seed + l, 0, each);
    return x;
}

static void make_lanes(attention_lanes *a, const attention_case *c, layout even) {
    attention_operands *o = &a->o;
    make(o, c);
    if (even) /* what was made is longer */
        o->job.q_stride = o->job.out_stride = c->heads * c->size, o->job.kv_stride = c->kv_heads * c->size;
    a->even = even, a->longest = 0;
    for (size_t s = 0; s < o->job.sequences; s++)
        a->longest = c->lengths[s] > a->longest ? c->lengths[s] : a->longest;
    a->q_floats = o->job.rows * o->job.q_stride, a->kv_floats = o->job.kv_rows * o->job.kv_stride,
    a->floats = o->job.rows * o->job.out_stride;
    a->q = make_normal(a->q_floats, 41), a->k = make_normal(a->kv_floats, 51),
    a->v = make_normal(a->kv_floats, even == SHARED ? 51 : 61), a->out = guarded(LANES * a->floats);
}

static void discard_lanes(attention_lanes *a) {
    free(a->q), free(a->k), free(a->v), free(a->out);
    discard(&a->o);
}

/* What the device makes of them, to be freed. */
static float *attend_there(zest_device *device, attention_lanes *a) {
    attention_operands *o = &a->o;
    zest_workspace scratch = {.device = device};
    zest_attention job = o->job;
    float *got = guarded(LANES * a->floats);
    job.q = device_upload_activations(device, a->q, LANES * a->q_floats);
    job.k = device_upload_activations(device, a->k, LANES * a->kv_floats);
    job.v = a->even == SHARED ? job.k : device_upload_activations(device, a->v, LANES * a->kv_floats);
    job.out = device_upload_activations(device, a->out, LANES * a->floats);
    job.q_start = device_upload(device, o->q_start, sizeof o->q_start);
    job.kv_start = device_upload(device, o->kv_start, sizeof o->kv_start);
    job.kv_end = a->even || o->job.kv_end ? device_upload(device, o->kv_end, sizeof o->kv_end) : NULL;
    job.max_queries = a->longest, job.lanes = LANES, job.q_lane = a->q_floats, job.kv_lane = a->kv_floats,
    job.out_lane = a->floats;
    device_check(device, device->operations->attention(&job, 1, &scratch));
    device_download_activations(device, job.out, LANES * a->floats, got);
    return got;
}

static void attend_on_device(zest_device *device, const attention_case *c, layout even, int which) {
    attention_lanes a;
    zest_workspace plain = {0};
    char what[96];
    make_lanes(&a, c, even);
    float *got = attend_there(device, &a);
    for (size_t l = 0; l < LANES; l++) {
        zest_attention job = a.o.job;
        job.q = a.q + l * a.q_floats, job.k = a.k + l * a.kv_floats;
        job.v = even == SHARED ? job.k : a.v + l * a.kv_floats; /* k was rounded */
        job.out = a.out + l * a.floats;
        assert_int_equal(zest_ops_plain.attention(&job, 1, &plain), 0);
    }
    snprintf(what, sizeof what, "attention of %zu heads of %zu, %zu first, %s%s", c->heads, c->size,
             c->lengths[0], device_names[which],
             even == SHARED ? ", shared"
             : even         ? ", even"
                            : "");
    device_compare(got, a.out, LANES * a.o.job.rows, c->heads * c->size, a.o.job.out_stride,
                   5e-6 + 2 * device_step[which], what);
    free(got), free(plain.data);
    discard_lanes(&a);
}

static void the_gpu_attends_as_the_reference(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        for (size_t i = 0; i < COUNT(attentions); i++) attend_on_device(device, &attentions[i], ODD, which);
        for (size_t i = 0; i < COUNT(more_attentions); i++)
            attend_on_device(device, &more_attentions[i], EVEN, which);
        for (size_t i = 0; i < COUNT(shared_attentions); i++)
            if (shared_attentions[i].size <= device->max_head_dim)
                attend_on_device(device, &shared_attentions[i], SHARED, which);
        assert_true(device->max_head_dim >= (which ? 512 : 256));
        zest_device_close(device);
    }
    device_assert_matches();
}

/* NaN for all that a sequence has, in every lane. */
static void spoil(attention_lanes *a, size_t sequence) {
    const attention_operands *o = &a->o;
    size_t q0 = o->q_start[sequence] * o->job.q_stride, q1 = o->q_start[sequence + 1] * o->job.q_stride;
    size_t k0 = o->kv_start[sequence] * o->job.kv_stride, k1 = o->kv_start[sequence + 1] * o->job.kv_stride;
    for (size_t l = 0; l < LANES; l++) {
        for (size_t i = q0; i < q1; i++) a->q[l * a->q_floats + i] = NAN;
        for (size_t i = k0; i < k1; i++) a->k[l * a->kv_floats + i] = a->v[l * a->kv_floats + i] = NAN;
    }
}

static void stays_within_a_sequence(zest_device *device, const attention_case *c, layout even,
                                    size_t sequence, int which) {
    attention_lanes a;
    char what[96];
    make_lanes(&a, c, even);
    float *before = attend_there(device, &a);
    spoil(&a, sequence);
    float *after = attend_there(device, &a);
    size_t from = a.o.q_start[sequence] * a.o.job.out_stride,
           to = a.o.q_start[sequence + 1] * a.o.job.out_stride;
    for (size_t l = 0; l < LANES; l++)
        memcpy(after + l * a.floats + from, before + l * a.floats + from, (to - from) * sizeof *after);
    snprintf(what, sizeof what, "attention beside NaN in sequence %zu, %zu first, %s", sequence,
             c->lengths[0], device_names[which]);
    device_compare(after, before, LANES * a.o.job.rows, c->heads * c->size, a.o.job.out_stride, 0, what);
    free(before), free(after);
    discard_lanes(&a);
}

static void no_sequence_on_the_gpu_sees_another_one(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {2, 1, 64, 0, 0, 0, {70, 128, 1, 65, 200, 129}, 0, 0},
        {2, 2, 64, 1, 9, 0, {100, 3, 131, 64, 90, 1}, 0, 0},
        {2, 2, 64, 0, 0, 20, {100, 33, 131, 84, 90, 21}, 0, 0},
        {2, 2, 64, 0, 0, 0, {60, 3, 31, 64, 50, 1}, 0, 0}, /* for the other kernel */
    };
    static const attention_case shared = {5, 1, 320, 0, 21, 0, {2, 1, 30, 4, 5, 1}, 0, 0};
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        for (size_t s = 0; s < 6; s++) {
            for (size_t i = 0; i < COUNT(cases); i++)
                stays_within_a_sequence(device, &cases[i], EVEN, s, which);
            if (shared.size <= device->max_head_dim)
                stays_within_a_sequence(device, &shared, SHARED, s, which);
        }
        zest_device_close(device);
    }
    device_assert_matches();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_attends_as_the_reference),
        cmocka_unit_test(the_reference_attends_right),
        cmocka_unit_test(a_query_depends_on_its_keys_alone),
        cmocka_unit_test(the_gpu_attends_as_the_reference),
        cmocka_unit_test(no_sequence_on_the_gpu_sees_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
