/* Long vectors in a GPU's memory against the same in the host's: element by element the same bits, sums
 * within rounding. And Lanczos's process on both. Skipped without a GPU. */
#include "lab/sharpness/sharpness_internal.h"
#include "tests/device_support.h"
#include "tests/model.h"

typedef struct {
    zest_vector_space host, gpu;
    const zest_vector_table *on_host, *on_gpu;
    float *v, *u;  /* the host's */
    double *w, *y; /* likewise */
    float *gv, *gu;
    double *gw, *gy;
} pair;

static void make_pair(pair *p, zest_device *device, size_t count) {
    p->host = (zest_vector_space){count, &zest_vector_ops_plain, 2, NULL};
    p->gpu = (zest_vector_space){count, &zest_vector_ops_plain, 2, device};
    p->on_host = zest_vector_operations(&p->host);
    p->on_gpu = zest_vector_operations(&p->gpu);
    p->v = zest_vector_floats(&p->host, 1), p->u = zest_vector_floats(&p->host, 1);
    p->w = zest_vector_doubles(&p->host, 1), p->y = zest_vector_doubles(&p->host, 1);
    assert_true(p->v && p->u && p->w && p->y);
    zest_noise_plain.normal(p->v, 4, 0, count);
    zest_noise_plain.normal(p->u, 5, 0, count);
    for (size_t i = 0; i < count; i++) p->w[i] = 1.3 * (double)p->u[i] + 0.1, p->y[i] = (double)p->v[i] / 3;
    p->gv = device_upload(device, p->v, count * sizeof *p->v);
    p->gu = device_upload(device, p->u, count * sizeof *p->u);
    p->gw = device_upload(device, p->w, count * sizeof *p->w);
    p->gy = device_upload(device, p->y, count * sizeof *p->y);
}

static void free_pair(pair *p) {
    void *const host[] = {p->v, p->u, p->w, p->y}, *const gpu[] = {p->gv, p->gu, p->gw, p->gy};
    for (size_t i = 0; i < 4; i++) {
        zest_vector_free(&p->host, host[i]);
        zest_vector_free(&p->gpu, gpu[i]);
    }
}

static void alike(const pair *p, const void *expected, const void *there, size_t size, const char *what) {
    size_t count = p->host.count;
    char *got = malloc(count * size);
    zest_device *device = p->gpu.device;
    assert_non_null(got);
    device_check(device, device->operations->device->download(device, got, there, count * size));
    for (size_t i = 0; i < count; i++)
        if (memcmp(got + i * size, (const char *)expected + i * size, size)) {
            printf("%s: element %zu of %zu differs\n", what, i, count);
            device_mismatches++;
            break;
        }
    free(got);
}

static void near(double got, double expected, double scale, const char *what) {
    if (fabs(got - expected) <= 1e-12 * scale) return;
    printf("%s is %.17g, not %.17g\n", what, got, expected);
    device_mismatches++;
}

static void operations(void **state) {
    (void)state;
    static const size_t counts[] = {1, 31, 4097, 16384, 100003, 3000001};
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        pair p;
        make_pair(&p, device, counts[i]);
        const zest_vector_table *h = p.on_host, *g = p.on_gpu;
        double n = (double)counts[i];
        near(g->dot(&p.gpu, p.gv, p.gw), h->dot(&p.host, p.v, p.w), n, "dot");
        near(g->norm(&p.gpu, p.gw), h->norm(&p.host, p.w), sqrt(n), "norm");
        near(g->distance(&p.gpu, p.gw, p.gy), h->distance(&p.host, p.w, p.y), sqrt(n), "distance");
        near(g->square(&p.gpu, p.gv), h->square(&p.host, p.v), n, "square");
        h->add(&p.host, p.w, -0.7, p.v), g->add(&p.gpu, p.gw, -0.7, p.gv);
        alike(&p, p.w, p.gw, sizeof *p.w, "add");
        h->store(&p.host, p.u, 1.1, p.w), g->store(&p.gpu, p.gu, 1.1, p.gw);
        alike(&p, p.u, p.gu, sizeof *p.u, "store");
        h->shift(&p.host, p.v, 0.3, p.u), g->shift(&p.gpu, p.gv, 0.3, p.gu);
        alike(&p, p.v, p.gv, sizeof *p.v, "shift");
        h->scale(&p.host, p.v, 1.7f), g->scale(&p.gpu, p.gv, 1.7f);
        alike(&p, p.v, p.gv, sizeof *p.v, "scale");
        g->copy(&p.gpu, p.gu, p.gv);
        alike(&p, p.v, p.gu, sizeof *p.v, "copy");
        h->normal(&p.host, p.v, 8), g->normal(&p.gpu, p.gv, 8);
        alike(&p, p.v, p.gv, sizeof *p.v, "normal");
        h->sign(&p.host, p.v, 8), g->sign(&p.gpu, p.gv, 8);
        alike(&p, p.v, p.gv, sizeof *p.v, "sign");
        h->clear(&p.host, p.w, sizeof *p.w), g->clear(&p.gpu, p.gw, sizeof *p.gw);
        alike(&p, p.w, p.gw, sizeof *p.w, "clear");
        assert_done(zest_vector_check(&p.gpu, error));
        free_pair(&p);
    }
    zest_device_close(device);
    device_assert_matches();
}

/* Parameters of every type, at numbers and places that are not round. */
static void reading(void **state) {
    (void)state;
    enum { A = 1001, B = 70003, C = 513, ALL = A + B + C };
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    pair p;
    make_pair(&p, device, ALL);
    uint16_t b[B], c[C];
    assert_int_equal(zest_dtype_from_float(ZEST_DTYPE_BF16, p.u + A, B, b), 0);
    assert_int_equal(zest_dtype_from_float(ZEST_DTYPE_F16, p.u + A + B, C, c), 0);
    zest_tensor host[3] = {{"a", ZEST_DTYPE_F32, 0, A, p.u, {0}},
                           {"b", ZEST_DTYPE_BF16, A, B, b, {0}},
                           {"c", ZEST_DTYPE_F16, A + B, C, c, {0}}},
                there[3];
    zest_params params = {host, 3, ALL}, placed = {there, 3, ALL};
    for (int i = 0; i < 3; i++) {
        there[i] = host[i];
        there[i].data =
            device_upload(device, host[i].data, (size_t)host[i].count * zest_dtype_size(host[i].dtype));
    }
    p.on_host->read(&p.host, &params, p.v);
    p.on_gpu->read(&p.gpu, &placed, p.gv);
    alike(&p, p.v, p.gv, sizeof *p.v, "read");
    for (int i = 0; i < 3; i++) device->operations->device->release(device, there[i].data);
    free_pair(&p);
    zest_device_close(device);
    device_assert_matches();
}

/* Enough vectors that they need more shared memory than a block has by default. */
static void turning(void **state) {
    (void)state;
    enum { N = 400, K = 7, D = 1000 };
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    zest_vector_space host = {D, &zest_vector_ops_plain, 2, NULL},
                      gpu = {D, &zest_vector_ops_plain, 2, device};
    static float basis[N * D], got[K * D], turns[N * K];
    static double turn[N * K];
    for (int large = 0; large < 2; large++) {
        size_t n = large ? N : 12;
        zest_noise_plain.normal(basis, 1, 0, N * D);
        zest_noise_plain.normal(turns, 2, 0, N * K);
        for (size_t i = 0; i < N * K; i++) turn[i] = (double)turns[i];
        float *there = device_upload(device, basis, sizeof basis);
        zest_vector_rotation on_host = {basis, turn, n, K}, on_gpu = {there, turn, n, K};
        assert_int_equal(zest_vector_host.rotate(&host, &on_host), 0);
        device_check(device, zest_vector_operations(&gpu)->rotate(&gpu, &on_gpu));
        device_check(device, device->operations->device->download(device, got, there, sizeof got));
        device_compare(got, basis, K, D, D, 1e-6, "turn");
        device->operations->device->release(device, there);
    }
    zest_device_close(device);
    device_assert_matches();
}

/* ---- Lanczos's process: a matrix that is diagonal but for one direction ---- */

enum { DIMENSION = 5000 };
typedef struct {
    zest_device *device;
    float values[DIMENSION];
} matrix;

static zest_status multiply(void *user, const float *v, double *out, zest_error *error) {
    static float x[DIMENSION];
    static double y[DIMENSION];
    const matrix *m = user;
    const zest_device_table *table = m->device ? m->device->operations->device : NULL;
    double mean = 0;
    (void)error;
    if (!table) memcpy(x, v, sizeof x);
    if (table) device_check(m->device, table->download(m->device, x, v, sizeof x));
    for (size_t i = 0; i < DIMENSION; i++) mean += (double)x[i] / DIMENSION;
    for (size_t i = 0; i < DIMENSION; i++) y[i] = (double)m->values[i] * (double)x[i] + 3 * mean;
    if (!table) memcpy(out, y, sizeof y);
    if (table) device_check(m->device, table->upload(m->device, out, y, sizeof y));
    return ZEST_OK;
}

static void lanczos(void **state) {
    (void)state;
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    static matrix m;
    zest_lanczos_result r[2];
    for (size_t i = 0; i < DIMENSION; i++) m.values[i] = i < 8 ? (float)(20 - 2 * i) : (float)(i % 50) / 50;
    size_t held = device->operations->device->bytes_allocated(device, NULL);
    for (int side = 0; side < 2; side++) {
        m.device = side ? device : NULL;
        zest_lanczos_job job = {.multiply = multiply,
                                .user = &m,
                                .dimension = DIMENSION,
                                .requested = 4,
                                .steps = 60,
                                .vectors = 14,
                                .tolerance = 1e-4,
                                .seed = 6,
                                .ops = &zest_vector_ops_plain,
                                .threads = 2,
                                .device = m.device};
        assert_done(zest_lanczos_run(&job, &r[side], error));
    }
    assert_int_equal(r[0].count, r[1].count);
    assert_true(r[1].restarts > 0 && r[1].converged);
    for (size_t k = 0; k < r[0].count; k++)
        if (!(fabs(r[0].values[k] - r[1].values[k]) <= 1e-5 * fabs(r[0].values[0]))) {
            printf("eigenvalue %zu is %.9g, not %.9g\n", k, r[1].values[k], r[0].values[k]);
            device_mismatches++;
        }
    zest_lanczos_free(&r[0]);
    zest_lanczos_free(&r[1]);
    assert_true(device->operations->device->bytes_allocated(device, NULL) <=
                held + (1 << 20)); /* its own tables */
    zest_device_close(device);
    device_assert_matches();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations),
        cmocka_unit_test(reading),
        cmocka_unit_test(turning),
        cmocka_unit_test(lanczos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
