/* First-order methods against closed forms on a quadratic, against each other where they must agree to the
 * bit, and on models. */
#include "kernels/ops.h"
#include "optim/lanes.h"
#include "baselines/optimizer.h"
#include "tests/model.h"

static const zest_vector_ops *best_ops(zest_cpu *cpu) {
    zest_cpu found;
    assert_int_equal(zest_cpu_detect(&found, NULL), ZEST_OK);
    if (cpu) *cpu = found;
    return zest_vector_ops_for(found);
}

/* ---- f(x) = 1/2 sum a_i (x_i - b_i)^2, in two tensors ---- */

enum { HEAD = 5000, TAIL = 137, ALL = HEAD + TAIL };

typedef struct {
    zest_params params;
    zest_tensor tensors[2];
    float x[ALL], a[ALL], b[ALL];
    uint16_t half[ALL];
    size_t calls, bad; /* calls so far; a bit set: that call's loss is NaN */
    uint64_t before;   /* fingerprint of the weights */
} quadratic;

static void make_quadratic(quadratic *q, zest_dtype dtype) {
    memset(q, 0, sizeof *q);
    zest_noise_plain.normal(q->x, 1, 0, ALL);
    zest_noise_plain.normal(q->a, 2, 0, ALL);
    zest_noise_plain.normal(q->b, 3, 0, ALL);
    for (size_t i = 0; i < ALL; i++) q->a[i] = 0.01f + q->a[i] * q->a[i] * 0.01f;
    assert_int_equal(
        zest_dtype_from_float(dtype == ZEST_DTYPE_F32 ? ZEST_DTYPE_BF16 : dtype, q->x, ALL, q->half),
        ZEST_OK);
    char *data = dtype == ZEST_DTYPE_F32 ? (char *)q->x : (char *)q->half;
    size_t size = zest_dtype_size(dtype);
    q->tensors[0] = (zest_tensor){"head", dtype, 0, HEAD, data, {0}};
    q->tensors[1] = (zest_tensor){"tail", dtype, HEAD, TAIL, data + HEAD * size, {0}};
    q->params = (zest_params){q->tensors, 2, ALL};
}

static void read_at(const quadratic *q, const zest_eval_point *at, float *out) {
    for (int t = 0; t < 2; t++)
        zest_eval_point_read(at, best_ops(NULL), &q->tensors[t], 0, q->tensors[t].count,
                             out + q->tensors[t].first);
}

static double value_at(const quadratic *q, const float *x) {
    double loss = 0;
    for (size_t i = 0; i < ALL; i++) {
        double d = (double)x[i] - (double)q->b[i];
        loss += 0.5 * (double)q->a[i] * d * d;
    }
    return loss;
}

static zest_status evaluate(void *user, const zest_eval_point *at, size_t number, float *gradient,
                            zest_grad_weigh *weigh, void *weigher, double *loss, zest_error *error) {
    quadratic *q = user;
    float x[ALL];
    (void)error;
    uint64_t now = zest_params_fingerprint(&q->params);
    assert_true(!number || now == q->before); /* evaluations of a step leave the weights alone */
    q->before = now;
    read_at(q, at, x);
    *loss = q->bad >> q->calls % 64 & 1 ? (double)NAN : value_at(q, x);
    q->calls++;
    double factor = weigh ? weigh(weigher, *loss) : 1;
    for (size_t i = 0; i < ALL && factor != 0; i++)
        gradient[i] += (float)(factor * (double)q->a[i] * ((double)x[i] - (double)q->b[i]));
    return ZEST_OK;
}

static zest_optimizer *new_method(const zest_params *params, const zest_optimizer_options *options) {
    zest_optimizer *method;
    assert_done(zest_optimizer_new(params, best_ops(NULL), options, &method, error));
    return method;
}

/* Steps from..to of a method on a quadratic. */
static void run(quadratic *q, zest_optimizer *method, uint64_t from, uint64_t to, double lr,
                zest_optimizer_report *report) {
    zest_optimizer_closure closure = {evaluate, q};
    for (uint64_t step = from; step < to; step++)
        assert_done(zest_optimizer_step(method, &closure, step, lr, report, error));
}

static void run_new(quadratic *q, const zest_optimizer_options *options, uint64_t steps, double lr,
                    zest_optimizer_report *report) {
    zest_optimizer *method = new_method(&q->params, options);
    run(q, method, 0, steps, lr, report);
    zest_optimizer_free(method);
}

static void assert_all_close(const float *x, const double *y, double tolerance) {
    for (size_t i = 0; i < ALL; i++)
        if (!(fabs((double)x[i] - y[i]) <= tolerance))
            fail_msg("element %zu: %.9g, not %.9g", i, (double)x[i], y[i]);
}

/* ---- Closed forms ---- */

static void test_sgd(void **state) {
    (void)state;
    static const double settings[][3] = {{0, 0, 0}, {0.9, 0, 0}, {0, 0.1, 0}, {0.9, 0.1, 0}, {0.9, 0.1, 0.5}};
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        quadratic q;
        double y[ALL], m[ALL] = {0}, lr = 0.3, norm = 0;
        zest_optimizer_report report;
        make_quadratic(&q, ZEST_DTYPE_F32);
        for (size_t i = 0; i < ALL; i++) y[i] = (double)q.x[i];
        zest_optimizer_options options = zest_optimizer_defaults(ZEST_OPTIMIZER_SGD);
        options.momentum = settings[s][0], options.decay = settings[s][1], options.clip = settings[s][2];
        run_new(&q, &options, 10, lr, &report);
        for (int step = 0; step < 10; step++) {
            double g[ALL], square = 0;
            for (size_t i = 0; i < ALL; i++) {
                g[i] = (double)q.a[i] * (y[i] - (double)q.b[i]);
                square += g[i] * g[i];
            }
            norm = sqrt(square);
            double c = options.clip > 0 && norm > options.clip ? options.clip / (norm + 1e-6) : 1;
            for (size_t i = 0; i < ALL; i++) {
                m[i] = options.momentum * m[i] + c * g[i] + options.decay * y[i];
                y[i] -= lr * m[i];
            }
        }
        assert_all_close(q.x, y, 1e-5);
        assert_true(fabs(report.norm / norm - 1) < 1e-5 && report.moved && report.evaluations == 1);
    }
}

static void test_adamw(void **state) {
    (void)state;
    quadratic q;
    double y[ALL], m[ALL] = {0}, v[ALL] = {0}, lr = 0.01;
    make_quadratic(&q, ZEST_DTYPE_F32);
    for (size_t i = 0; i < ALL; i++) y[i] = (double)q.x[i];
    zest_optimizer_options options = zest_optimizer_defaults(ZEST_OPTIMIZER_ADAMW);
    options.decay = 0.05;
    run_new(&q, &options, 20, lr, NULL);
    for (int n = 1; n <= 20; n++)
        for (size_t i = 0; i < ALL; i++) {
            double g = (double)q.a[i] * (y[i] - (double)q.b[i]);
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            y[i] = (1 - lr * 0.05) * y[i] -
                   lr * (m[i] / (1 - pow(0.9, n))) / (sqrt(v[i] / (1 - pow(0.999, n))) + 1e-8);
        }
    assert_all_close(q.x, y, 2e-5);
}

static void test_sam(void **state) {
    (void)state;
    quadratic q;
    double y[ALL], lr = 0.3, r = 0.7, objective = 0;
    zest_optimizer_report report;
    make_quadratic(&q, ZEST_DTYPE_F32);
    for (size_t i = 0; i < ALL; i++) y[i] = (double)q.x[i];
    zest_optimizer_options options = zest_optimizer_defaults(ZEST_OPTIMIZER_SAM);
    options.radius = r;
    run_new(&q, &options, 5, lr, &report);
    for (int step = 0; step < 5; step++) {
        double g[ALL], square = 0;
        for (size_t i = 0; i < ALL; i++) {
            g[i] = (double)q.a[i] * (y[i] - (double)q.b[i]);
            square += g[i] * g[i];
        }
        objective = 0;
        for (size_t i = 0; i < ALL; i++) {
            double there = y[i] + r * g[i] / (sqrt(square) + 1e-12) - (double)q.b[i];
            objective += 0.5 * (double)q.a[i] * there * there;
            y[i] -= lr * (double)q.a[i] * there;
        }
    }
    assert_all_close(q.x, y, 1e-5);
    assert_true(fabs(report.objective / objective - 1) < 1e-5 && report.objective > report.loss);
    assert_int_equal(report.evaluations, 2);
}

/* Neighbour i of step 0, by hand; its distance is r. */
static void neighbour(const quadratic *q, const zest_optimizer_options *options, size_t i, float *out) {
    zest_direction direction;
    assert_done(zest_direction_make(best_ops(NULL), 1, &direction, ZEST_SPHERE,
                                    zest_seed(options->seed, 0, i), ALL, error));
    float z[ALL];
    double square = 0;
    zest_direction_raw(best_ops(NULL), &direction, 0, ALL, z);
    for (size_t j = 0; j < ALL; j++) square += (double)z[j] * (double)z[j];
    for (size_t j = 0; j < ALL; j++)
        out[j] = (float)((double)q->x[j] + options->radius * (double)z[j] / sqrt(square));
}

static void test_tsam(void **state) {
    (void)state;
    for (int ascent = 0; ascent < 2; ascent++)
        for (int tilt = 0; tilt < 12; tilt++) { /* four seeds each: the largest loss comes first, or later */
            quadratic q;
            double y[ALL], f[5], sum = 0, most = -INFINITY, lr = 0.3;
            static float points[5][ALL];
            zest_optimizer_report report;
            make_quadratic(&q, ZEST_DTYPE_F32);
            zest_optimizer_options options = zest_optimizer_defaults(ZEST_OPTIMIZER_TSAM);
            options.radius = 2, options.seed = (uint64_t)tilt / 3;
            options.tilt = tilt % 3 == 2 ? 20 : tilt % 3;
            options.ascent = ascent ? 0.5 : 0;
            for (size_t i = 0; i < ALL; i++) y[i] = (double)q.x[i];
            for (size_t n = 0; n < 5; n++) {
                double square = 0;
                neighbour(&q, &options, n, points[n]);
                for (size_t i = 0; i < ALL; i++) {
                    double g = (double)q.a[i] * ((double)points[n][i] - (double)q.b[i]);
                    square += g * g;
                }
                for (size_t i = 0; i < ALL && ascent; i++) {
                    double g = (double)q.a[i] * ((double)points[n][i] - (double)q.b[i]);
                    points[n][i] = (float)((double)points[n][i] + 0.5 * g / sqrt(square));
                }
                f[n] = value_at(&q, points[n]);
                most = fmax(most, f[n]);
            }
            for (size_t n = 0; n < 5; n++) sum += exp(options.tilt * (f[n] - most));
            for (size_t n = 0; n < 5; n++)
                for (size_t i = 0; i < ALL; i++)
                    y[i] -= lr * exp(options.tilt * (f[n] - most)) / sum * (double)q.a[i] *
                            ((double)points[n][i] - (double)q.b[i]);
            run_new(&q, &options, 1, lr, &report);
            assert_all_close(q.x, y, 1e-6);
            assert_int_equal(report.evaluations, ascent ? 10 : 5);
            if (options.tilt > 0)
                assert_true(fabs(report.objective - (most + log(sum / 5) / options.tilt)) < 1e-5);
        }
}

/* The worst of k random points: the gradient there, and none of the others'. */
static void test_random_sam(void **state) {
    (void)state;
    size_t firsts = 0;
    for (uint64_t seed = 0; seed < 8; seed++) { /* the largest loss comes first, or later */
        quadratic q;
        double y[ALL], most = -INFINITY, mean = 0, lr = 0.3;
        static float points[5][ALL];
        size_t worst = 0;
        zest_optimizer_report report;
        make_quadratic(&q, ZEST_DTYPE_F32);
        zest_optimizer_options options = zest_optimizer_defaults(ZEST_OPTIMIZER_SAM);
        options.radius = 2, options.seed = seed, options.random = 1;
        for (size_t n = 0; n < 5; n++) {
            neighbour(&q, &options, n, points[n]);
            double f = value_at(&q, points[n]);
            if (f > most) most = f, worst = n;
            mean += f / 5;
        }
        firsts += worst == 0;
        for (size_t i = 0; i < ALL; i++)
            y[i] = (double)q.x[i] - lr * (double)q.a[i] * ((double)points[worst][i] - (double)q.b[i]);
        run_new(&q, &options, 1, lr, &report);
        assert_all_close(q.x, y, 1e-6);
        assert_int_equal(report.evaluations, 5);
        assert_true(fabs(report.objective - most) < 1e-5 && fabs(report.loss - mean) < 1e-5);
    }
    assert_true(firsts > 0 && firsts < 8);
}

/* ---- Identities ---- */

static void same_bits(zest_optimizer_options one, zest_optimizer_options other, zest_dtype dtype,
                      uint64_t steps) {
    quadratic p, q;
    make_quadratic(&p, dtype);
    make_quadratic(&q, dtype);
    run_new(&p, &one, steps, 0.3, NULL);
    run_new(&q, &other, steps, 0.3, NULL);
    assert_true(zest_params_fingerprint(&p.params) == zest_params_fingerprint(&q.params));
}

static void test_identities(void **state) {
    (void)state;
    static const zest_dtype dtypes[3] = {ZEST_DTYPE_F32, ZEST_DTYPE_BF16, ZEST_DTYPE_F16};
    for (int d = 0; d < 3; d++) {
        zest_optimizer_options esam = zest_optimizer_defaults(ZEST_OPTIMIZER_ESAM), tsam = esam, sgd = esam,
                               sam = esam;
        esam.radius = tsam.radius = 0.5, esam.momentum = tsam.momentum = 0.9;
        tsam.kind = ZEST_OPTIMIZER_TSAM, tsam.tilt = 0;
        same_bits(esam, tsam, dtypes[d], 5); /* t = 0 is esam */
        tsam.radius = 0, tsam.k = 1, tsam.momentum = 0, sgd.kind = ZEST_OPTIMIZER_SGD;
        same_bits(sgd, tsam, dtypes[d], 5); /* one neighbour, at x itself */
        sam.kind = ZEST_OPTIMIZER_SAM, sam.radius = 0;
        same_bits(sgd, sam, dtypes[d], 5);
        sam.radius = 2, sam.random = 1, tsam = sam, tsam.kind = ZEST_OPTIMIZER_TSAM, tsam.tilt = 1e12;
        same_bits(sam, tsam, dtypes[d], 5); /* the worst of k is t -> infinity */
        sgd.threads = 1, esam.threads = 1, tsam = esam, tsam.threads = 3;
        same_bits(esam, tsam, dtypes[d], 3); /* threads */
    }
    /* and the limits themselves */
    quadratic p, q;
    double y[ALL];
    make_quadratic(&p, ZEST_DTYPE_F32);
    make_quadratic(&q, ZEST_DTYPE_F32);
    zest_optimizer_options sgd = zest_optimizer_defaults(ZEST_OPTIMIZER_SGD),
                           tsam = zest_optimizer_defaults(ZEST_OPTIMIZER_TSAM);
    tsam.k = 1, tsam.radius = 1e-6, tsam.tilt = 1e-9;
    run_new(&p, &sgd, 5, 0.3, NULL);
    run_new(&q, &tsam, 5, 0.3, NULL);
    for (size_t i = 0; i < ALL; i++) y[i] = (double)p.x[i];
    assert_all_close(q.x, y, 1e-6);
}

/* ---- Going on ---- */

static void test_resume(void **state) {
    (void)state;
    for (int kind = 0; kind < ZEST_OPTIMIZER_COUNT; kind++) {
        zest_optimizer_options options = zest_optimizer_defaults((zest_optimizer_kind)kind);
        quadratic p, q;
        make_quadratic(&p, ZEST_DTYPE_BF16);
        make_quadratic(&q, ZEST_DTYPE_BF16);
        options.momentum = kind == ZEST_OPTIMIZER_ADAMW ? 0 : 0.9, options.seed = 8;
        run_new(&p, &options, 8, 0.1, NULL);
        zest_optimizer *first = new_method(&q.params, &options);
        run(&q, first, 0, 3, 0.1, NULL);
        zest_optimizer *second = new_method(&q.params, &options);
        zest_optimizer_array a[ZEST_OPTIMIZER_ARRAYS], b[ZEST_OPTIMIZER_ARRAYS];
        size_t count = zest_optimizer_arrays(first, a);
        assert_int_equal(count, zest_optimizer_arrays(second, b));
        assert_int_equal(count, kind == ZEST_OPTIMIZER_ADAMW ? 2 : 1);
        for (size_t i = 0; i < count; i++) {
            assert_string_equal(a[i].name, b[i].name);
            memcpy(b[i].data, a[i].data, a[i].count * sizeof *a[i].data);
        }
        zest_optimizer_free(first);
        run(&q, second, 3, 8, 0.1, NULL);
        zest_optimizer_free(second);
        assert_true(zest_params_fingerprint(&p.params) == zest_params_fingerprint(&q.params));
    }
}

/* ---- Bad numbers ---- */

static void test_bad_numbers(void **state) {
    (void)state;
    for (int kind = 0; kind < ZEST_OPTIMIZER_COUNT; kind++) {
        zest_optimizer_options options = zest_optimizer_defaults((zest_optimizer_kind)kind);
        zest_optimizer_report report;
        quadratic q;
        make_quadratic(&q, ZEST_DTYPE_F32);
        q.bad = (size_t)-1;
        uint64_t before = zest_params_fingerprint(&q.params);
        run_new(&q, &options, 1, 0.1, &report);
        assert_true(!report.moved && before == zest_params_fingerprint(&q.params));
        if (kind < ZEST_OPTIMIZER_SAM) continue;
        if (kind == ZEST_OPTIMIZER_SAM) { /* the worst of k random points */
            q.calls = 0, options.random = 1;
            run_new(&q, &options, 1, 0.1, &report);
            assert_true(!report.moved && before == zest_params_fingerprint(&q.params));
        }
        assert_int_equal(report.dropped, 5);
        q.calls = 0, q.bad = 5; /* two of five */
        run_new(&q, &options, 1, 0.1, &report);
        assert_true(report.moved && report.dropped == 2 && isfinite(report.loss));
        assert_true(before != zest_params_fingerprint(&q.params));
    }
}

/* The mean is over those that are left. */
static void test_mean_of_the_rest(void **state) {
    (void)state;
    zest_optimizer_options options[2] = {zest_optimizer_defaults(ZEST_OPTIMIZER_ESAM),
                                         zest_optimizer_defaults(ZEST_OPTIMIZER_TSAM)};
    quadratic q[2];
    double y[ALL];
    options[1].tilt = 0;
    for (int i = 0; i < 2; i++) {
        make_quadratic(&q[i], ZEST_DTYPE_F32);
        for (size_t j = 0; j < ALL; j++) y[j] = (double)q[i].x[j];
        options[i].radius = 1e-4, q[i].bad = 5;
        run_new(&q[i], &options[i], 1, 0.5, NULL);
        for (size_t j = 0; j < ALL; j++) y[j] -= 0.5 * (double)q[i].a[j] * (y[j] - (double)q[i].b[j]);
        assert_all_close(q[i].x, y, 1e-5); /* so near x, the mean of any of them is g(x) */
    }
    assert_memory_equal(q[0].x, q[1].x, sizeof q[0].x);
}

/* Updates far below the step of bf16 are not lost: their mean arrives. */
static void test_small_updates(void **state) {
    (void)state;
    quadratic q;
    make_quadratic(&q, ZEST_DTYPE_BF16);
    float before[ALL], after[ALL];
    zest_eval_point here = {0};
    read_at(&q, &here, before);
    zest_optimizer_options options = zest_optimizer_defaults(ZEST_OPTIMIZER_SGD);
    run_new(&q, &options, 400, 1e-3, NULL);
    read_at(&q, &here, after);
    double moved = 0, wanted = 0;
    for (size_t i = 0; i < ALL; i++) {
        double g = (double)q.a[i] * ((double)before[i] - (double)q.b[i]);
        moved += ((double)after[i] - (double)before[i]) * g;
        wanted -= 0.4 * g * g;
    }
    assert_true(fabs(moved / wanted - 1) < 0.15);
}

/* 16-bit weights: fma in fp32, then the rounding that optim/step.h defines, to the bit. */
static void test_rounding(void **state) {
    (void)state;
    for (int nearest = 0; nearest < 2; nearest++) {
        quadratic q;
        zest_eval_point here = {0};
        make_quadratic(&q, ZEST_DTYPE_BF16);
        float x[ALL];
        uint16_t random[ALL], wanted[ALL];
        read_at(&q, &here, x);
        for (size_t i = 0; i < ALL; i++)
            x[i] = fmaf(-0.01f, (float)((double)q.a[i] * ((double)x[i] - (double)q.b[i])), x[i]);
        zest_noise_plain.round(random, zest_seed(9, 0, (1 << 24) - 1), 0, ALL);
        for (size_t i = 0; i < ALL && nearest; i++) random[i] = 0x8000;
        zest_vector_ops_plain.store_bf16(wanted, x, random, ALL);
        zest_optimizer_options options = zest_optimizer_defaults(ZEST_OPTIMIZER_SGD);
        options.seed = 9, options.nearest = nearest;
        run_new(&q, &options, 1, 0.01, NULL);
        assert_memory_equal(q.half, wanted, sizeof wanted);
    }
}

/* ---- Options ---- */

static void test_options(void **state) {
    (void)state;
    quadratic q;
    zest_optimizer *method;
    zest_error why = {0};
    make_quadratic(&q, ZEST_DTYPE_F32);
    for (int bad = 0; bad < 7; bad++) {
        zest_optimizer_options options = zest_optimizer_defaults(ZEST_OPTIMIZER_TSAM);
        if (bad == 0) options.k = 0;
        if (bad == 1) options.tilt = -1;
        if (bad == 2) options.radius = (double)NAN;
        if (bad == 3) options.momentum = 1;
        if (bad == 4) options.kind = ZEST_OPTIMIZER_COUNT;
        if (bad == 5) options.clip = -1;
        if (bad == 6) q.tensors[1].dtype = ZEST_DTYPE_F64;
        assert_int_equal(zest_optimizer_new(&q.params, best_ops(NULL), &options, &method, &why),
                         ZEST_ERROR_ARGUMENT);
        assert_null(method);
    }
    make_quadratic(&q, ZEST_DTYPE_F32);
    static const size_t arrays[ZEST_OPTIMIZER_COUNT] = {1, 3, 2, 1, 1}; /* of d floats, beside the weights */
    for (int kind = 0; kind < ZEST_OPTIMIZER_COUNT; kind++) {
        zest_optimizer_options options = zest_optimizer_defaults((zest_optimizer_kind)kind);
        method = new_method(&q.params, &options);
        assert_int_equal(zest_optimizer_memory(method) / (ALL * sizeof(float)), arrays[kind]);
        zest_optimizer_free(method);
    }
    zest_optimizer_free(NULL);
}

/* ---- Models ---- */

/* Every method brings the loss of a small batch down, and the same seed gives the same weights. */
static void test_models_learn(void **state) {
    (void)state;
    static const char *const learners[] = {"roberta", "opt-350m", "qwen2"};
    static const zest_dropout dropout = {0.05, 0.05, 0.05, 3};
    zest_cpu cpu;
    const zest_vector_ops *ops = best_ops(&cpu);
    for (size_t i = 0; i < 3; i++)
        for (int kind = 0; kind < ZEST_OPTIMIZER_COUNT; kind++) {
            uint64_t prints[2];
            for (int round = 0; round < 2; round++) {
                zest_model *model = test_model(learners[i], ZEST_MODEL_AS_STORED);
                test_golden golden = test_golden_open(learners[i]);
                test_objectives objectives;
                test_objectives_make(&golden, &objectives);
                zest_optimizer_batch batch = {.objective =
                                                  golden.causal ? &objectives.tokens : &objectives.words,
                                              .dropout = i == 1 ? &dropout : NULL};
                zest_optimizer_options options = zest_optimizer_defaults((zest_optimizer_kind)kind);
                options.clip = 1, options.threads = 1 + round;
                zest_grad_options how = {.threads = 1 + round};
                assert_done(zest_grad_new(model, zest_ops_for(cpu), &how, &batch.grad, error));
                zest_optimizer *method;
                assert_done(zest_optimizer_new(&model->params, ops, &options, &method, error));
                zest_optimizer_report first = {0}, report = {0};
                for (batch.step = 0; batch.step < 12; batch.step++) {
                    zest_optimizer_closure closure = {zest_optimizer_evaluate_batch, &batch};
                    double lr = kind == ZEST_OPTIMIZER_ADAMW ? 0.005 : 0.05;
                    assert_done(zest_optimizer_step(method, &closure, batch.step, lr, &report, error));
                    if (!batch.step) first = report;
                }
                assert_true(report.loss < 0.7 * first.loss);
                prints[round] = zest_params_fingerprint(&model->params);
                zest_optimizer_free(method);
                zest_grad_free(batch.grad);
                zest_model_free(model);
                zest_safetensors_close(golden.file);
            }
            assert_true(prints[0] == prints[1]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_sam),
        cmocka_unit_test(test_tsam),
        cmocka_unit_test(test_random_sam),
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_mean_of_the_rest),
        cmocka_unit_test(test_small_updates),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_models_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
