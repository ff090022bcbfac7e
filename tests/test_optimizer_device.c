/* The sweeps of the methods on a GPU, and every method on a function with a known gradient: the bits of the
 * CPU. Skipped without a GPU. */
#include "base/option.h"
#include "optim/lanes.h"
#include "baselines/optimizer.h"
#include "baselines/vector_ops.h"
#include "tests/device_support.h"
#include "tests/model.h"

static const char *method_name(zest_optimizer_kind kind) {
    static char name[16];
    return zest_option_name_methods(1u << (ZEST_CHOICE_SGD + kind), "", name, sizeof name);
}

static const zest_vector_ops *best_ops(void) {
    zest_cpu cpu;
    assert_int_equal(zest_cpu_detect(&cpu, NULL), ZEST_OK);
    return zest_vector_ops_for(cpu);
}

static void get(zest_device *device, void *to, const void *from, size_t bytes) {
    device_check(device, device->operations->device->download(device, to, from, bytes));
}

static void put(zest_device *device, void *to, const void *from, size_t bytes) {
    device_check(device, device->operations->device->upload(device, to, from, bytes));
}

/* ---- Weights of all types, some of them where no wide access goes, in both memories ---- */

enum { TENSORS = 6 };
static const size_t sizes[TENSORS] = {5000, 137, 1, 140001, 4096, 30};
enum { ALL = 5000 + 137 + 1 + 140001 + 4096 + 30, ROOM = ALL * 4 + 4096 };

typedef struct {
    zest_device *device; /* NULL: all of it on the host */
    zest_tensor on_host[TENSORS], on_device[TENSORS];
    zest_params host, params; /* params: where the method moves them */
    char *arena, *there;
    float *a, *b, *x, *point, *gradient; /* f = 1/2 sum a (x - b)^2; the rest are the closure's */
    size_t calls, bad;                   /* a bit set: that call's loss is NaN */
    int bad_slope;                       /* one element of the gradient is NaN */
} bowl;

static zest_dtype type_of(zest_dtype dtype, size_t i) {
    static const zest_dtype mixed[3] = {ZEST_DTYPE_F32, ZEST_DTYPE_BF16, ZEST_DTYPE_F16};
    return dtype == ZEST_DTYPE_COUNT ? mixed[i % 3] : dtype;
}

static float *new_floats(size_t count) {
    float *out = calloc(count, sizeof *out);
    assert_non_null(out);
    return out;
}

/* dtype ZEST_DTYPE_COUNT: all of them in turn. */
static void make_bowl(bowl *w, zest_dtype dtype, zest_device *device) {
    size_t at = 0, first = 0;
    *w = (bowl){.device = device, .arena = calloc(1, ROOM)};
    assert_non_null(w->arena);
    w->a = new_floats(ALL), w->b = new_floats(ALL), w->x = new_floats(ALL);
    w->point = new_floats(ALL), w->gradient = new_floats(ALL);
    zest_noise_plain.normal(w->x, 1, 0, ALL);
    zest_noise_plain.normal(w->a, 2, 0, ALL);
    zest_noise_plain.normal(w->b, 3, 0, ALL);
    for (size_t i = 0; i < ALL; i++) w->a[i] = 0.01f + w->a[i] * w->a[i] * 0.01f;
    for (size_t i = 0; i < TENSORS; i++) {
        zest_dtype type = type_of(dtype, i);
        at = (at + 63) / 64 * 64 + (i % 2 ? 4 : 0);
        w->on_host[i] = w->on_device[i] = (zest_tensor){"w", type, first, sizes[i], w->arena + at, {0}};
        assert_int_equal(zest_dtype_from_float(type, w->x + first, sizes[i], w->arena + at), 0);
        at += sizes[i] * zest_dtype_size(type), first += sizes[i];
    }
    assert_true(at <= ROOM && first == ALL);
    w->host = w->params = (zest_params){w->on_host, TENSORS, ALL};
    if (!device) return;
    w->there = device_upload(device, w->arena, ROOM);
    for (size_t i = 0; i < TENSORS; i++)
        w->on_device[i].data = w->there + ((char *)w->on_host[i].data - w->arena);
    w->params.tensors = w->on_device;
}

static void free_bowl(bowl *w) {
    if (w->device) w->device->operations->device->release(w->device, w->there);
    free(w->arena);
    free(w->a);
    free(w->b);
    free(w->x);
    free(w->point);
    free(w->gradient);
}

static void fetch_weights(bowl *w) {
    if (w->device) get(w->device, w->arena, w->there, ROOM);
}

/* Loss and gradient on the host, whatever memory they are asked for in. */
static zest_status evaluate(void *user, const zest_eval_point *at, size_t number, float *gradient,
                            zest_grad_weigh *weigh, void *weigher, double *loss, zest_error *error) {
    bowl *w = user;
    zest_eval_point place = *at;
    (void)error, (void)number;
    fetch_weights(w);
    if (w->device && at->point) {
        get(w->device, w->point, at->point, ALL * sizeof(float));
        place.point = w->point;
    }
    for (size_t t = 0; t < TENSORS; t++)
        zest_eval_point_read(&place, best_ops(), &w->on_host[t], 0, sizes[t], w->x + w->on_host[t].first);
    *loss = 0;
    for (size_t i = 0; i < ALL; i++) {
        double d = (double)w->x[i] - (double)w->b[i];
        *loss += 0.5 * (double)w->a[i] * d * d;
    }
    if (w->bad >> w->calls++ % 64 & 1) *loss = (double)NAN;
    double factor = weigh ? weigh(weigher, *loss) : 1;
    float *g = w->device ? w->gradient : gradient;
    if (w->device) get(w->device, g, gradient, ALL * sizeof *g);
    for (size_t i = 0; i < ALL && factor != 0; i++)
        g[i] += (float)(factor * (double)w->a[i] * ((double)w->x[i] - (double)w->b[i]));
    if (w->bad_slope) g[4321] = NAN;
    if (w->device) put(w->device, gradient, g, ALL * sizeof *g);
    return ZEST_OK;
}

/* ---- Whole methods ---- */

static zest_optimizer *new_method(bowl *w, zest_optimizer_options options) {
    zest_optimizer *method;
    options.device = w->device;
    assert_done(zest_optimizer_new(&w->params, best_ops(), &options, &method, error));
    return method;
}

static void same_reports(const zest_optimizer_report *a, const zest_optimizer_report *b, const char *what) {
    const double x[3] = {a->loss, a->objective, a->norm}, y[3] = {b->loss, b->objective, b->norm};
    for (int i = 0; i < 3; i++)
        if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i]))) {
            printf("%s: number %d of the report is %.17g, not %.17g\n", what, i, y[i], x[i]);
            device_mismatches++;
        }
    device_mismatches += a->moved != b->moved || a->dropped != b->dropped || a->evaluations != b->evaluations;
}

static void same_weights(bowl *a, bowl *b, const char *what) {
    fetch_weights(b);
    for (size_t t = 0; t < TENSORS; t++) {
        size_t size = zest_dtype_size(a->on_host[t].dtype);
        const char *x = a->on_host[t].data, *y = b->on_host[t].data;
        for (size_t i = 0; i < sizes[t]; i++) {
            if (!memcmp(x + i * size, y + i * size, size)) continue;
            printf("%s: element %zu of tensor %zu (%s) differs\n", what, i, t,
                   zest_dtype_name(a->on_host[t].dtype));
            device_mismatches++;
            break;
        }
    }
}

static void same_arrays(zest_optimizer *a, zest_optimizer *b, const char *what) {
    zest_optimizer_array x[ZEST_OPTIMIZER_ARRAYS], y[ZEST_OPTIMIZER_ARRAYS];
    assert_done(zest_optimizer_download(b, error));
    size_t count = zest_optimizer_arrays(a, x);
    assert_int_equal(count, zest_optimizer_arrays(b, y));
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(x[i].name, y[i].name);
        if (!memcmp(x[i].data, y[i].data, ALL * sizeof(float))) continue;
        printf("%s: %s differs\n", what, x[i].name);
        device_mismatches++;
    }
    zest_optimizer_drop(b);
}

/* Some steps in both memories; `bad` and `slope` are the bowl's. */
static void compare(zest_device *device, zest_optimizer_options options, zest_dtype dtype, size_t bad,
                    int slope, const char *what) {
    bowl p, q;
    make_bowl(&p, dtype, NULL);
    make_bowl(&q, dtype, device);
    p.bad = q.bad = bad, p.bad_slope = q.bad_slope = slope;
    zest_optimizer *host = new_method(&p, options), *there = new_method(&q, options);
    zest_optimizer_closure ask_host = {evaluate, &p}, ask_there = {evaluate, &q};
    for (uint64_t step = 0; step < 3; step++) {
        zest_optimizer_report a, b;
        assert_done(zest_optimizer_step(host, &ask_host, step, 0.3, &a, error));
        assert_done(zest_optimizer_step(there, &ask_there, step, 0.3, &b, error));
        same_reports(&a, &b, what);
        if (slope) assert_int_equal(b.moved, 0);
        same_weights(&p, &q, what);
    }
    same_arrays(host, there, what);
    assert_int_equal(zest_optimizer_memory(host), zest_optimizer_memory(there));
    zest_optimizer_free(host);
    zest_optimizer_free(there);
    free_bowl(&p);
    free_bowl(&q);
}

static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_BF16, ZEST_DTYPE_F16, ZEST_DTYPE_COUNT};
static const char *const dtype_names[] = {"f32", "bf16", "f16", "mixed"};

static void test_optimizer(void **state) {
    (void)state;
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    size_t held = device->operations->device->bytes_allocated(device, NULL);
    for (int kind = 0; kind < ZEST_OPTIMIZER_COUNT; kind++)
        for (int d = 0; d < 4; d++)
            for (int more = 0; more < (kind == ZEST_OPTIMIZER_SAM ? 3 : 2); more++) {
                char what[64];
                zest_optimizer_options options = zest_optimizer_defaults((zest_optimizer_kind)kind);
                options.k = 3, options.radius = 0.5, options.tilt = 5, options.seed = 7;
                options.random = more == 2;
                if (more) {
                    options.momentum = kind == ZEST_OPTIMIZER_ADAMW ? 0 : 0.9;
                    options.decay = 0.1, options.clip = 0.5, options.ascent = 0.2;
                    options.nearest = d == 2;
                }
                snprintf(what, sizeof what, "%s %s %d", method_name(options.kind), dtype_names[d], more);
                compare(device, options, dtypes[d], 0, 0, what);
            }
    assert_int_equal(device->operations->device->bytes_allocated(device, NULL),
                     held); /* nothing is left behind */
    zest_device_close(device);
    device_assert_matches();
}

static void test_bad_numbers(void **state) {
    (void)state;
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    for (int kind = 0; kind < ZEST_OPTIMIZER_COUNT; kind++) {
        zest_optimizer_options options = zest_optimizer_defaults((zest_optimizer_kind)kind);
        compare(device, options, ZEST_DTYPE_BF16, 5, 0, "some losses are NaN");
        compare(device, options, ZEST_DTYPE_F32, (size_t)-1, 0, "all losses are NaN");
        compare(device, options, ZEST_DTYPE_F32, 0, 1, "a NaN in the gradient");
    }
    zest_device_close(device);
    device_assert_matches();
}

/* State that travels through the host goes on as if nothing had happened. */
static void test_resume(void **state) {
    (void)state;
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    for (int kind = 0; kind < ZEST_OPTIMIZER_COUNT; kind++) {
        zest_optimizer_options options = zest_optimizer_defaults((zest_optimizer_kind)kind);
        options.momentum = kind == ZEST_OPTIMIZER_ADAMW ? 0 : 0.9, options.k = 2;
        bowl p, q;
        make_bowl(&p, ZEST_DTYPE_BF16, device);
        make_bowl(&q, ZEST_DTYPE_BF16, device);
        zest_optimizer_closure ask[2] = {{evaluate, &p}, {evaluate, &q}};
        zest_optimizer *whole = new_method(&p, options), *part = new_method(&q, options);
        zest_optimizer_array a[ZEST_OPTIMIZER_ARRAYS], b[ZEST_OPTIMIZER_ARRAYS];
        for (uint64_t step = 0; step < 4; step++) {
            assert_done(zest_optimizer_step(whole, &ask[0], step, 0.1, NULL, error));
            assert_done(zest_optimizer_step(part, &ask[1], step, 0.1, NULL, error));
            if (step != 1) continue;
            zest_optimizer *next = new_method(&q, options);
            assert_done(zest_optimizer_download(part, error));
            assert_done(zest_optimizer_download(next, error));
            size_t count = zest_optimizer_arrays(part, a);
            assert_int_equal(count, zest_optimizer_arrays(next, b));
            for (size_t i = 0; i < count; i++) memcpy(b[i].data, a[i].data, a[i].count * sizeof(float));
            assert_done(zest_optimizer_upload(next, error));
            zest_optimizer_drop(next);
            zest_optimizer_free(part);
            part = next;
        }
        fetch_weights(&p);
        same_weights(&p, &q, method_name(options.kind));
        zest_optimizer_free(whole);
        zest_optimizer_free(part);
        free_bowl(&p);
        free_bowl(&q);
    }
    zest_device_close(device);
    device_assert_matches();
}

/* ---- The sweeps one by one, on numbers that are not nice ---- */

/* Every magnitude: from below the normal numbers to near the largest. */
static void draw_wild(float *x, size_t count, uint64_t seed, int spread) {
    zest_noise_plain.normal(x, seed, 0, count);
    for (size_t i = 0; i < count; i++)
        x[i] = ldexpf(x[i], (int)(zest_seed(seed, i, 1) % (unsigned)(2 * spread)) - spread);
}

static void same_floats(zest_device *device, const float *expected, const float *there, size_t count,
                        const char *what) {
    float *got = new_floats(count + 1);
    get(device, got, there, count * sizeof *got);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&got[i], &expected[i], sizeof *got)) {
            printf("%s: element %zu of %zu is %.9g, not %.9g\n", what, i, count, (double)got[i],
                   (double)expected[i]);
            device_mismatches++;
            break;
        }
    free(got);
}

static void check_arrays(zest_device *device, size_t count) {
    zest_tensor tensor = {"x", ZEST_DTYPE_F32, 0, count, NULL, {0}};
    zest_params params = {&tensor, 1, count};
    size_t blocks = (count + ZEST_OPTIM_BLOCK - 1) / ZEST_OPTIM_BLOCK;
    double *sums = calloc(2 * blocks, sizeof *sums);
    float *x = new_floats(count), *there;
    zest_optim_vectors host, gpu;
    zest_direction one, other;
    assert_non_null(sums);
    assert_done(zest_optim_vectors_open(&host, &params, best_ops(), 2, NULL, error));
    assert_done(zest_optim_vectors_open(&gpu, &params, best_ops(), 2, device, error));
    draw_wild(x, count, 3, 80);
    there = device_upload(device, x, count * sizeof *x);
    assert_int_equal(host.functions->square_sums(&host, x, sums), 0);
    device_check(device, gpu.functions->square_sums(&gpu, there, sums + blocks));
    for (size_t b = 0; b < blocks; b++)
        if (sums[b] != sums[blocks + b]) {
            printf("squares of %zu: block %zu is %.17g, not %.17g\n", count, b, sums[blocks + b], sums[b]);
            device_mismatches++;
        }
    assert_int_equal(host.functions->scale(&host, x, 0x1.8p-60f), 0);
    device_check(device, gpu.functions->scale(&gpu, there, 0x1.8p-60f));
    same_floats(device, x, there, count, "scale");
    device_check(device, gpu.functions->zero(&gpu, there));
    memset(x, 0, count * sizeof *x);
    same_floats(device, x, there, count, "clear");
    assert_int_equal(host.functions->draw_sphere(&host, 99, &one), 0);
    device_check(device, gpu.functions->draw_sphere(&gpu, 99, &other));
    if (one.gain != other.gain || one.seed != other.seed || one.dimension != other.dimension ||
        one.distribution != other.distribution) {
        printf("sphere of %zu: gain %.17g, not %.17g\n", count, other.gain, one.gain);
        device_mismatches++;
    }
    device->operations->device->release(device, there);
    zest_optim_vectors_close(&gpu);
    zest_optim_vectors_close(&host);
    free(sums);
    free(x);
}

static void test_arrays(void **state) {
    (void)state;
    static const size_t counts[] = {1, 7, 8, 255, 2048, 2049, 65535, 65536, 65541, 131072 + 2051, 400003};
    zest_device *device = device_open(ZEST_COMPUTE_BF16);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) check_arrays(device, counts[i]);
    zest_device_close(device);
    device_assert_matches();
}

/* kind: 0 to 2 sgd, 3 adamw, 4 and 5 uphill. */
static void check_weights(zest_device *device, zest_dtype dtype, int kind, const char *what) {
    bowl p, q;
    zest_optim_vectors host, gpu;
    float *arrays[2][3];
    make_bowl(&p, dtype, NULL);
    make_bowl(&q, dtype, device);
    assert_done(zest_optim_vectors_open(&host, &p.params, best_ops(), 2, NULL, error));
    assert_done(zest_optim_vectors_open(&gpu, &q.params, best_ops(), 2, device, error));
    for (int i = 0; i < 3; i++) {
        arrays[0][i] = new_floats(ALL);
        draw_wild(arrays[0][i], ALL, (uint64_t)(20 + i), i == 0 ? 30 : 10);
        for (size_t j = 0; i == 2 && j < ALL; j++) arrays[0][i][j] = fabsf(arrays[0][i][j]);
        arrays[1][i] = device_upload(device, arrays[0][i], ALL * sizeof(float));
    }
    for (int side = 0; side < 2; side++) {
        const zest_optim_vectors *s = side ? &gpu : &host;
        float **x = arrays[side];
        int moves = kind != 0;
        zest_optim_update move = {x[0], moves ? x[1] : NULL, kind == 3 ? x[2] : NULL, 55, kind == 2};
        zest_sgd_coefficients sgd = {.keep = 0.999f, .slope = -0.1f, .momentum = 0.9f, .factor = 0.7f};
        sgd.decay = kind == 1 ? 0 : 0.01f, sgd.back = -0.13f;
        zest_adamw_coefficients adamw = {0.7f, 0.9f, 0.999f, 0.1f, 0.001f, 0.99f, 0.02f, 1.5f, 1e-8f};
        zest_direction direction = {12, ALL, 1.01, kind == 5 ? ZEST_RADEMACHER : ZEST_SPHERE};
        zest_eval_point here = {0}, near = {.direction = &direction, .scale = 0.003};
        int failed = kind < 3   ? s->functions->sgd(s, &move, &sgd)
                     : kind < 4 ? s->functions->adamw(s, &move, &adamw)
                                : s->functions->ascend(s, kind == 4 ? &here : &near, 0.37f, x[1]);
        device_check(device, failed);
    }
    same_weights(&p, &q, what);
    for (int i = 0; i < 3; i++) {
        same_floats(device, arrays[0][i], arrays[1][i], ALL, what);
        device->operations->device->release(device, arrays[1][i]);
        free(arrays[0][i]);
    }
    zest_optim_vectors_close(&gpu);
    zest_optim_vectors_close(&host);
    free_bowl(&p);
    free_bowl(&q);
}

static void test_weights(void **state) {
    (void)state;
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    for (int d = 0; d < 4; d++)
        for (int kind = 0; kind < 6; kind++) {
            char what[64];
            snprintf(what, sizeof what, "sweep %d %s", kind, dtype_names[d]);
            check_weights(device, dtypes[d], kind, what);
        }
    zest_device_close(device);
    device_assert_matches();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays),      cmocka_unit_test(test_weights), cmocka_unit_test(test_optimizer),
        cmocka_unit_test(test_bad_numbers), cmocka_unit_test(test_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
