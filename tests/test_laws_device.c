/* Scales and noise of low rank on a GPU against the same on the CPU (rng/noise_law.h): linear maps by every law, several
 * matrices and pairs in one, updates to the same bits, models of every family, rows of inputs, steps that replay.
 * Without a GPU all of this is skipped. */
#include "kernels/cpu/linear_lowrank.h"
#include "model/input_rows.h"
#include "model/scales.h"
#include "optim/lanes.h"
#include "optim/step.h"
#include "tests/device.h"
#include "tests/device_support.h"
#include "tests/linear.h"
#include "tests/model.h"

/* ---- Laws ---- */

enum { STORED = 9 };
typedef struct {
    const char *name;
    uint32_t rank;
    float factor;
    int inputs;
} law_kind;
static const law_kind kinds[] = {{"scaled", 0, 1.5f, 0},
                                 {"rank 1", 1, 0, 0},
                                 {"rank 3, scaled", 3, 0.7f, 0},
                                 {"rank 9", 9, 0.25f, 0},
                                 {"rank 2 along inputs", 2, 0.3f, 1}};

/* A weight as some rows of a larger matrix. y: room for stored inputs. */
static zest_noise_law law_of(const law_kind *kind, zest_weight *weight, int transposed, float *y) {
    zest_noise_law law = {.first = weight->first, .factor = kind->factor};
    if (!kind->rank) return law;
    law.rank = kind->rank;
    law.rows = weight->rows + 5, law.columns = weight->columns;
    weight->first += 2 * weight->columns;
    if (!kind->inputs) return law;
    size_t width = transposed ? law.rows : law.columns;
    zest_noise_plain.normal(y, 55, 0, STORED * width);
    law.inputs = y;
    law.input_count = width < STORED ? (uint32_t)width : STORED;
    law.inputs_are_rows = transposed;
    return law;
}

static void run_reference(const zest_linear *job, zest_workspace *scratch, zest_workspace *own) {
    if (zest_linear_is_low_rank(job))
        assert_int_equal(zest_linear_low_rank(&zest_ops_plain, job, 1, scratch, own), 0);
    else
        assert_int_equal(zest_ops_plain.linear(job, 1, scratch), 0);
}

/* ---- Linear maps ---- */

static void check_linear(zest_device *device, const linear_case *c, const law_kind *kind, int which) {
    operands o = make(c, which == 1 ? ZEST_COMPUTE_BF16 : ZEST_COMPUTE_F32);
    zest_workspace plain = {0}, own = {0}, scratch = {.device = device};
    float *got = guarded(o.out_floats), *y = guarded(STORED * (c->inputs + c->outputs + 5));
    o.job.weight.law = law_of(kind, &o.job.weight, c->transposed, y);
    o.job.bias.law.factor = kind->factor;
    zest_linear job = o.job;
    job.weight = device_upload_weight(device, &o.job.weight);
    job.bias = device_upload_weight(device, &o.job.bias);
    if (kind->inputs) job.weight.law.inputs = device_upload(device, y, STORED * (c->inputs + 5) * sizeof *y);
    for (int l = 0; l < c->lanes; l++) {
        job.a[l] =
            device_upload_activations(device, (float *)(uintptr_t)o.job.a[l], c->rows * o.job.a_stride);
        job.out[l] = device_upload_activations(device, o.fresh[l], o.out_floats);
        job.residual[l] = c->residual == NONE ? NULL
                          : c->residual == SEPARATE
                              ? device_upload_activations(device, o.residual[l], o.out_floats)
                              : job.out[l];
        memcpy(o.out[l], o.fresh[l], o.out_floats * sizeof(float));
        o.job.out[l] = o.out[l];
        o.job.residual[l] = c->residual == NONE ? NULL : c->residual == SEPARATE ? o.residual[l] : o.out[l];
    }
    run_reference(&o.job, &plain, &own);
    device_check(device, device->operations->linear(&job, 1, &scratch));
    for (int l = 0; l < c->lanes; l++) {
        char what[160];
        snprintf(what, sizeof what, "%s, %s, %s, lane %d", c->name, kind->name, device_names[which], l);
        device_download_activations(device, job.out[l], o.out_floats, got);
        device_compare(got, o.out[l], c->rows, c->outputs, o.job.out_stride,
                       2e-6 * sqrt((double)c->inputs) + 4 * device_step[which] +
                           (which == 2 ? 1e-3 * sqrt((double)c->inputs) * 0.05 : 0),
                       what);
    }
    free(got), free(y), free(plain.data), free(own.data);
    discard(&o);
}

static void the_gpu_multiplies_by_every_law(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        for (size_t k = 0; k < COUNT(kinds); k++)
            for (size_t i = 0; i < COUNT(cases); i++) check_linear(device, &cases[i], &kinds[k], which);
        zest_device_close(device);
    }
    device_assert_matches();
}

/* Three pairs; of three matrices one of low rank, one dense and one frozen, as q, k and v can be. */
static void matrices_of_one_product_have_laws_of_their_own(void **state) {
    (void)state;
    enum { ROWS = 37, INPUTS = 64, ALL = 64 + 32 + 40, PAIRS = 3, A = ROWS * INPUTS, OUT = ROWS * ALL };
    static const size_t outputs[3] = {64, 32, 40};
    for (int which = 0; which < 3; which++) {
        zest_device *device = device_open(device_computes[which]);
        zest_workspace plain = {0}, own = {0}, scratch = {.device = device};
        zest_perturbation p[PAIRS];
        for (size_t i = 0; i < PAIRS; i++)
            p[i] = (zest_perturbation){.seed = 70 + i, .scale = {0.02f, -0.02f}, .lanes = 2};
        zest_linear_part more[2];
        float *a = normals(2 * PAIRS * A, 60, 1), *expected = normals(2 * PAIRS * OUT, 61, 1),
              *got = guarded(2 * PAIRS * OUT);
        zest_linear job = {.perturbation = p[0], .rows = ROWS, .a_stride = INPUTS, .out_stride = ALL};
        job.perturbation.more = p + 1, job.perturbation.more_count = PAIRS - 1;
        char *there = device_upload_activations(device, a, 2 * PAIRS * A),
             *out = device_upload_activations(device, expected, 2 * PAIRS * OUT);
        for (size_t l = 0; l < 2; l++) {
            job.a[l] = there + l * A * device->element_size;
            job.out[l] = out + l * OUT * device->element_size;
        }
        size_t at = 0;
        for (size_t i = 0; i < 3; at += outputs[i++]) {
            zest_weight w = weight(ZEST_DTYPE_BF16, outputs[i], INPUTS, 5 + i, 0.05f, 1000 + 9000 * i),
                        b = weight(ZEST_DTYPE_BF16, 1, outputs[i], 15 + i, 0.1f, 100000 + 1000 * i);
            if (!i) w.law = law_of(&kinds[2], &w, 0, NULL);
            w.frozen = i == 2;
            for (size_t l = 0; l < 2 * PAIRS; l += 2) {
                zest_linear one = {.weight = w,
                                   .bias = b,
                                   .perturbation = p[l / 2],
                                   .a = {a + l * A, a + (l + 1) * A},
                                   .rows = ROWS,
                                   .a_stride = INPUTS,
                                   .out = {expected + l * OUT + at, expected + (l + 1) * OUT + at},
                                   .out_stride = ALL,
                                   .compute = which == 1 ? ZEST_COMPUTE_BF16 : ZEST_COMPUTE_F32};
                run_reference(&one, &plain, &own);
            }
            zest_linear_part part = {device_upload_weight(device, &w), device_upload_weight(device, &b)};
            if (i)
                more[i - 1] = part;
            else
                job.weight = part.weight, job.bias = part.bias;
            release(&w), release(&b);
        }
        job.more = more, job.more_count = 2;
        device_check(device, device->operations->linear(&job, 1, &scratch));
        device_download_activations(device, out, 2 * PAIRS * OUT, got);
        device_compare(got, expected, 2 * PAIRS * ROWS, ALL, ALL, 2e-5 + 4 * device_step[which],
                       device_names[which]);
        free(a), free(expected), free(got), free(plain.data), free(own.data);
        zest_device_close(device);
    }
    device_assert_matches();
}

/* ---- Updates ---- */

enum { TALL = 83, WIDE = 129, MATRIX = TALL * WIDE, VECTOR = 21, BOTH = MATRIX + VECTOR, TERMS = 35 };

static void fill_update(zest_direction *directions, double *g, zest_update_term *terms, size_t count) {
    for (size_t i = 0; i < count; i++) {
        directions[i] = (zest_direction){40 + i, BOTH, 1, i % 3 == 1 ? ZEST_RADEMACHER : ZEST_GAUSSIAN};
        g[i] = 0.1 * sin(1 + (double)i);
        double c = -0.01 * g[i];
        terms[i] = (zest_update_term){directions[i].seed, (float)c, i % 3 == 1, c};
    }
}

static void check_update(zest_device *device, const law_kind *kind, zest_dtype dtype, uint64_t first,
                         size_t count) {
    const zest_device_table *table = device->operations->device;
    size_t size = zest_dtype_size(dtype);
    float *x = normals(BOTH, 3, 0.02f), *y = normals(STORED * WIDE, 8, 1);
    void *host = malloc(BOTH * size);
    assert_int_equal(zest_dtype_from_float(dtype, x, BOTH, host), 0);
    zest_tensor here[2] = {{"w", dtype, first, MATRIX, host, {0}},
                           {"b", dtype, first + MATRIX, VECTOR, (char *)host + MATRIX * size, {0}}};
    here[0].law = (zest_noise_law){first, TALL, WIDE, kind->rank, kind->factor, 0, 0, NULL};
    here[1].law.factor = kind->factor * 2;
    if (kind->inputs) here[0].law.inputs = y, here[0].law.input_count = STORED;
    zest_tensor there[2] = {here[0], here[1]};
    there[0].data = device_upload(device, host, BOTH * size);
    there[1].data = (char *)there[0].data + MATRIX * size;
    if (kind->inputs) there[0].law.inputs = device_upload(device, y, STORED * WIDE * sizeof *y);
    zest_params params = {here, 2, BOTH}, params_there = {there, 2, BOTH};
    zest_direction directions[TERMS];
    zest_update_term terms[TERMS];
    double g[TERMS];
    fill_update(directions, g, terms, count);
    zest_update update = {directions, g, count, 0.01, first ? 0.5 : 0, 99, first == 4};
    zest_update_apply(zest_vector_ops_for(ZEST_CPU_PLAIN), 1, &params, &update);
    device_check(device, table->update(device, &params_there, terms, count,
                                       first ? (float)(1 - 0.01 * 0.5) : 1.0f, 99, first == 4));
    void *back = device_download(device, there[0].data, BOTH * size);
    if (memcmp(host, back, BOTH * size) != 0) {
        printf("%s, %s, from %u, %zu terms: other bits\n", kind->name, zest_dtype_name(dtype),
               (unsigned)first, count);
        device_mismatches++;
    }
    free(x), free(y), free(host), free(back);
}

static void the_gpu_moves_to_the_same_bits(void **state) {
    (void)state;
    static const zest_dtype dtypes[] = {ZEST_DTYPE_F32, ZEST_DTYPE_BF16, ZEST_DTYPE_F16};
    zest_device *device = device_open(ZEST_COMPUTE_F32);
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (int d = 0; d < 3; d++)
            for (uint64_t first = 0; first < 9; first += 4 - first % 3)
                for (size_t count = 0; count <= TERMS; count = count ? count * 12 - 1 : 3)
                    check_update(device, &kinds[k], dtypes[d], first, count);
    zest_device_close(device);
    device_assert_matches();
}

/* ---- Models ---- */

static const char *const computes[] = {"f32", "bf16", "f16"};
static const double loss_tolerance[] = {1e-4, 0.3, 0.04};
enum { LANES = 7, ITEMS = 8 };

static zest_model_runner *open_gpu(const zest_model *model, zest_compute compute) {
    zest_model_runner *runner;
    zest_model_runner_options options = {.compute = compute, .device = ZEST_DEVICE_CUDA};
    assert_done(zest_model_open_runner(model, &options, &runner, error));
    return runner;
}

/* Two pairs that go together, a single lane, a pair of signs. */
static void make_lanes(const zest_model *model, zest_model_lane lanes[LANES]) {
    static const double scales[LANES] = {0.01, -0.01, 0.015, -0.015, 0.005, 0.02, -0.02};
    static const uint64_t seeds[LANES] = {7, 7, 11, 11, 9, 8, 8};
    for (size_t i = 0; i < LANES; i++) lanes[i] = test_lane(model, seeds[i], scales[i]);
    lanes[5].direction.distribution = lanes[6].direction.distribution = ZEST_RADEMACHER;
}

static void keep_rows(zest_model *model, zest_model_runner *runner, const test_golden *golden, size_t most) {
    zest_input_capture capture;
    assert_done(zest_input_capture_begin(&capture, model, most, 11, error));
    runner->capture = &capture;
    float *logits = malloc(model->config.vocab_size * sizeof *logits);
    for (size_t e = 0; e < most; e++) {
        size_t s = e % golden->batch.sequences;
        uint32_t starts[2] = {0, golden->batch.starts[s + 1] - golden->batch.starts[s]}, last = starts[1] - 1;
        zest_model_batch one = {
            .tokens = golden->batch.tokens + golden->batch.starts[s], .starts = starts, .sequences = 1};
        zest_input_capture_next(&capture, e);
        assert_done(zest_model_logits(runner, NULL, &one, &last, 1, logits, error));
    }
    runner->capture = NULL;
    assert_done(zest_input_capture_end(&capture, error));
    zest_input_capture_free(&capture);
    free(logits);
}

/* Losses of all lanes, twice on the GPU: the same bits. */
static void compare(const char *name, const char *what, const zest_model *model, zest_model_runner *gpu,
                    int compute, const zest_model_objective *objective) {
    double expected[LANES * ITEMS], got[LANES * ITEMS], again[LANES * ITEMS], worst = 0;
    zest_model_lane lanes[LANES];
    assert_true(objective->items <= ITEMS);
    make_lanes(model, lanes);
    zest_model_runner *cpu = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
    assert_done(zest_model_losses(cpu, lanes, LANES, objective, expected, NULL, NULL, error));
    assert_done(zest_model_losses(gpu, lanes, LANES, objective, got, NULL, NULL, error));
    assert_done(zest_model_losses(gpu, lanes, LANES, objective, again, NULL, NULL, error));
    for (size_t i = 0; i < LANES * objective->items; i++) worst = fmax(worst, fabs(got[i] - expected[i]));
    within(name, what, computes[compute], worst, 4 * loss_tolerance[compute]);
    assert_memory_equal(got, again, LANES * objective->items * sizeof *got);
    zest_model_runner_free(cpu);
}

static void every_family_sees_the_law(void **state) {
    (void)state;
    need_device();
    static const struct {
        size_t rank, inputs;
        const char *scales;
    } laws[] = {{0, 0, "*=0.5,*weight=1.5,*.0.*=3"}, {1, 0, ""}, {3, 0, "*bias=4,*norm*=2"}, {2, 5, ""}};
    for (size_t m = 0; m < TEST_MODELS; m++)
        for (size_t i = 0; i < COUNT(laws); i++)
            for (int c = 0; c < 3; c++) {
                char what[80];
                zest_error none = {0};
                zest_model *model = test_model(test_models[m], c ? ZEST_MODEL_BF16 : ZEST_MODEL_AS_STORED);
                test_golden golden = test_golden_open(test_models[m]);
                test_objectives objectives;
                test_objectives_make(&golden, &objectives);
                if (zest_model_shape_noise(model, laws[i].rank, laws[i].scales, &none)) /* no such tensor */
                    assert_done(zest_model_shape_noise(model, laws[i].rank, "", error));
                zest_model_runner *gpu = open_gpu(model, (zest_compute)c);
                if (laws[i].inputs) keep_rows(model, gpu, &golden, laws[i].inputs);
                snprintf(what, sizeof what, "rank %zu '%s'", laws[i].rank, laws[i].scales);
                compare(test_models[m], what, model, gpu, c, &objectives.words);
                if (golden.causal) compare(test_models[m], what, model, gpu, c, &objectives.tokens);
                zest_model_runner_free(gpu);
                zest_model_free(model);
                zest_safetensors_close(golden.file);
            }
    verdict();
}

/* Rows that the GPU keeps are the CPU's, of every matrix. */
static void rows_of_inputs_are_those_of_the_cpu(void **state) {
    (void)state;
    need_device();
    enum { MOST = 5 };
    for (size_t m = 0; m < TEST_MODELS; m++) {
        zest_model *model = test_model(test_models[m], ZEST_MODEL_F32),
                   *twin = test_model(test_models[m], ZEST_MODEL_F32);
        test_golden golden = test_golden_open(test_models[m]);
        assert_done(zest_model_shape_noise(model, 1, "", error));
        assert_done(zest_model_shape_noise(twin, 1, "", error));
        zest_model_runner *gpu = open_gpu(model, ZEST_COMPUTE_F32);
        zest_model_runner *cpu = test_runner(twin, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
        keep_rows(model, gpu, &golden, MOST);
        keep_rows(twin, cpu, &golden, MOST);
        assert_int_equal(model->input_count, twin->input_count);
        within(test_models[m], "rows of inputs", "f32",
               test_largest(model->inputs, twin->inputs, model->input_count), 1e-3);
        zest_model_runner_free(gpu);
        zest_model_runner_free(cpu);
        zest_model_free(model);
        zest_model_free(twin);
        zest_safetensors_close(golden.file);
    }
    verdict();
}

/* Updates of a GPU and of the CPU end in the same bits, whatever the family and the types. */
static void updates_replay(void **state) {
    (void)state;
    need_device();
    static const zest_model_storage storages[] = {ZEST_MODEL_F32, ZEST_MODEL_BF16, ZEST_MODEL_F16};
    enum { K = 3 };
    for (size_t m = 0; m < TEST_MODELS; m++) {
        zest_model *model = test_model(test_models[m], storages[m % 3]),
                   *twin = test_model(test_models[m], storages[m % 3]);
        test_golden golden = test_golden_open(test_models[m]);
        assert_done(zest_model_shape_noise(model, 1 + m % 2, "*=1.5,*weight=0.5", error));
        assert_done(zest_model_shape_noise(twin, 1 + m % 2, "*=1.5,*weight=0.5", error));
        zest_model_runner *gpu = open_gpu(model, ZEST_COMPUTE_F32);
        zest_model_runner *cpu = test_runner(twin, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
        keep_rows(twin, cpu, &golden, 4);
        float *rows = malloc(twin->input_count * sizeof *rows);
        memcpy(rows, twin->inputs, twin->input_count * sizeof *rows);
        assert_done(zest_model_set_inputs(model, rows, 4, error));
        zest_direction directions[K];
        double g[K] = {0.3, 0, -2};
        for (size_t i = 0; i < K; i++) directions[i] = test_lane(model, 20 + i, 1).direction;
        for (uint64_t s = 0; s < 3; s++) {
            zest_update update = {directions, g, K, 0.01, 0.1, 5 + s, s == 2};
            assert_done(zest_model_apply_update(gpu, &update, error));
            assert_done(zest_model_apply_update(cpu, &update, error));
        }
        assert_done(zest_model_download(gpu, error));
        for (size_t t = 0; t < model->params.count; t++) {
            const zest_tensor *a = &model->params.tensors[t], *b = &twin->params.tensors[t];
            if (!memcmp(a->data, b->data, a->count * zest_dtype_size(a->dtype))) continue;
            printf("%s: %s has other bits\n", test_models[m], a->name);
            device_mismatches++;
        }
        zest_model_runner_free(gpu);
        zest_model_runner_free(cpu);
        zest_model_free(model);
        zest_model_free(twin);
        zest_safetensors_close(golden.file);
    }
    device_assert_matches();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gpu_multiplies_by_every_law),
        cmocka_unit_test(matrices_of_one_product_have_laws_of_their_own),
        cmocka_unit_test(the_gpu_moves_to_the_same_bits),
        cmocka_unit_test(every_family_sees_the_law),
        cmocka_unit_test(rows_of_inputs_are_those_of_the_cpu),
        cmocka_unit_test(updates_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
