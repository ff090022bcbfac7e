/* Laws of noise: scales per tensor and low-rank directions, against the equations in rng/noise_law.h and in
 * model/scales.c, from raw noise alone; lanes of every family against a model that was perturbed by hand; runs. */
#include "kernels/ops.h"
#include "model/scales.h"
#include "optim/lanes.h"
#include "optim/step.h"
#include "tests/model.h"
#include "tests/training.h"

enum { ROWS = 37, COLUMNS = 301, COUNT = ROWS * COLUMNS, FIRST = 4321 };

/* The law in words, in double precision. */
static void by_hand(const zest_noise_law *law, int signs, uint64_t seed, double *out) {
    static float n[COUNT];
    (signs ? zest_noise_plain.sign : zest_noise_plain.normal)(n, seed, law->first, COUNT);
    double factor = law->factor != 0 ? (double)law->factor : 1;
    for (size_t i = 0; i < COUNT; i++) {
        double sum = law->rank ? 0 : (double)n[i];
        for (size_t j = 0; j < law->rank; j++) {
            const float *u = n + j * (ROWS + COLUMNS), *a = u + ROWS;
            sum += (double)u[i / COLUMNS] * (double)a[i % COLUMNS];
        }
        out[i] = factor * sum;
    }
}

static void every_slice_and_instruction_set_gives_the_law(void **state) {
    (void)state;
    static const zest_cpu levels[] = {ZEST_CPU_PLAIN, ZEST_CPU_AVX2, ZEST_CPU_AVX512};
    static const uint32_t ranks[] = {0, 1, 3, 16};
    static float whole[COUNT], part[COUNT];
    static double expected[COUNT];
    zest_cpu best;
    assert_done(zest_cpu_detect(&best, error));
    for (size_t r = 0; r < 4; r++)
        for (int signs = 0; signs < 2; signs++) {
            zest_noise_law law = {.first = FIRST,
                                  .rows = ROWS,
                                  .columns = COLUMNS,
                                  .rank = ranks[r],
                                  .factor = ranks[r] == 3 ? 0 : 1.7f};
            by_hand(&law, signs, 99, expected);
            zest_noise_plain.by_law(&law, signs, whole, 99, FIRST, COUNT);
            for (size_t i = 0; i < COUNT; i++) assert_true(fabs(whole[i] - expected[i]) < 4e-5);
            for (size_t l = 0; l < 3; l++) {
                if (levels[l] > best) continue;
                const zest_noise *noise = zest_noise_for(levels[l]);
                for (size_t at = 0, size = 1; at < COUNT; at += size, size = size * 3 % 1021 + 1) {
                    if (size > COUNT - at) size = COUNT - at;
                    noise->by_law(&law, signs, part + at, 99, FIRST + at, size);
                }
                assert_memory_equal(part, whole, sizeof whole);
            }
        }
}

/* E z = 0, E z^2 = s^2, and elements that share a row or a column are uncorrelated. 4,000 seeds: the largest of the
 * 12 differences is beyond 5 standard errors once in 150,000 choices of seeds. */
static void moments_are_those_of_dense_noise(void **state) {
    (void)state;
    enum { SEEDS = 4000 };
    zest_noise_law law = {.rows = 40, .columns = 50, .rank = 2, .factor = (float)(3 / sqrt(2))};
    double sums[4][3] = {{0}};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float z[52];
        zest_noise_plain.by_law(&law, 0, z, seed, 0, 52); /* row 0, and two elements of row 1 */
        const double values[4] = {z[0], z[0] * z[0] - 9, z[0] * z[1], z[0] * z[50]};
        for (int i = 0; i < 4; i++) sums[i][0] += values[i], sums[i][1] += values[i] * values[i];
    }
    for (int i = 0; i < 4; i++) {
        double mean = sums[i][0] / SEEDS, error = sqrt(sums[i][1] / SEEDS / SEEDS);
        assert_true(fabs(mean) < 5 * error && error > 0);
    }
}

/* E exp(t rho v'G) = prod (1 - s_i^2)^(-1/2) at rank 1, with s_i = t rho sigma_i = 0.3 and 0.2: docs/theory.md. Dense
 * noise would have exp(0.065); 5 standard errors are 0.013. With signs |v|^2 = m n. */
static void slopes_have_the_closed_form(void **state) {
    (void)state;
    enum { SEEDS = 20000 };
    zest_noise_law law = {.rows = 40, .columns = 50, .rank = 1};
    double sum = 0, square = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float z[2];
        zest_noise_plain.by_law(&law, 0, &z[0], seed, 0, 1);
        zest_noise_plain.by_law(&law, 0, &z[1], seed, 51, 1);
        double e = exp(0.3 * z[0] + 0.2 * z[1]);
        sum += e, square += e * e;
    }
    double mean = sum / SEEDS, expected = 1 / sqrt((1 - 0.09) * (1 - 0.04));
    double error = sqrt((square / SEEDS - mean * mean) / SEEDS);
    assert_true(fabs(mean - expected) < 5 * error && error < 0.0035);
    float v[2000];
    zest_noise_plain.by_law(&law, 1, v, 3, 0, 2000);
    for (size_t i = 0; i < 2000; i++) assert_true(v[i] * v[i] == 1);
}

/* ---- Models ---- */

static void perturb(zest_model *model, const zest_model_lane *lane) {
    float c = (float)(lane->scale * lane->direction.gain);
    for (size_t t = 0; t < model->tensor_count; t++) {
        const zest_tensor *tensor = &model->tensors[t];
        float *x = tensor->data, *z = malloc(tensor->count * sizeof *z);
        zest_direction_noise(zest_vector_ops_for(ZEST_CPU_PLAIN), &lane->direction, tensor, 0, tensor->count,
                             z);
        for (size_t i = 0; i < tensor->count; i++) x[i] = fmaf(c, z[i], x[i]);
        free(z);
    }
}

static void losses_of(const zest_model *model, zest_cpu cpu, const zest_model_lane *lanes, size_t count,
                      const zest_model_objective *objective, double *losses) {
    zest_model_runner *runner = test_runner(model, cpu, ZEST_COMPUTE_F32, 2, 0);
    assert_done(zest_model_losses(runner, lanes, count, objective, losses, NULL, NULL, error));
    zest_model_runner_free(runner);
}

/* Matrices that are transposed, stacked, fused, tied or read by rows: their elements have the noise that the update
 * gives them. */
static void lanes_of_every_family_see_the_law(void **state) {
    (void)state;
    for (size_t m = 0; m < TEST_MODELS; m++)
        for (size_t rank = 0; rank < 3; rank += 2) {
            zest_model *model = test_model(test_models[m], ZEST_MODEL_F32);
            test_golden golden = test_golden_open(test_models[m]);
            test_objectives objectives;
            test_objectives_make(&golden, &objectives);
            const zest_model_objective *objective = golden.causal ? &objectives.tokens : &objectives.words;
            assert_done(zest_model_shape_noise(model, rank, "*=0.5,*weight=1.5,*.0.*=3", error));
            assert_true(zest_model_has_laws(model));
            size_t low = 0;
            for (size_t t = 0; t < model->tensor_count; t++) low += model->tensors[t].law.rank > 0;
            assert_true(rank ? low > 4 : low == 0);
            zest_model_lane lanes[2] = {test_lane(model, 5, 0.02), test_lane(model, 5, -0.02)};
            double plain[2 * 16], best[2 * 16], moved[16];
            assert_true(objective->items <= 16);
            losses_of(model, ZEST_CPU_PLAIN, lanes, 2, objective, plain);
            zest_cpu cpu;
            assert_done(zest_cpu_detect(&cpu, error));
            losses_of(model, cpu, lanes, 2, objective, best);
            for (size_t i = 0; i < 2 * objective->items; i++) assert_true(fabs(plain[i] - best[i]) < 1e-4);
            for (int l = 0; l < 2; l++) {
                zest_model *other = test_model(test_models[m], ZEST_MODEL_F32);
                assert_done(zest_model_shape_noise(other, rank, "*=0.5,*weight=1.5,*.0.*=3", error));
                perturb(other, &lanes[l]);
                zest_model_set_laws(other, 0, NULL);
                zest_model_lane itself = test_lane(other, 0, 0);
                losses_of(other, ZEST_CPU_PLAIN, &itself, 1, objective, moved);
                for (size_t i = 0; i < objective->items;
                     i++) { /* low rank: products are added, not weights */
                    double lane = plain[(size_t)l * objective->items + i];
                    assert_true(rank ? fabs(moved[i] - lane) < 2e-5 * (1 + fabs(lane)) : moved[i] == lane);
                }
                zest_model_free(other);
            }
            zest_model_free(model);
            zest_safetensors_close(golden.file);
        }
}

/* An update adds what a lane sees: to the bit where noise is dense, and where its rank is low up to the rounding of a
 * product, which lanes round before it is added. */
static void updates_have_the_noise_of_lanes(void **state) {
    (void)state;
    zest_model *updated = test_model("gpt2", ZEST_MODEL_F32), *moved = test_model("gpt2", ZEST_MODEL_F32);
    zest_model_lane lane = test_lane(updated, 77, -0.125);
    double g = 1;
    zest_update update = {.directions = &lane.direction, .g = &g, .k = 1, .lr = 0.125};
    assert_done(zest_model_shape_noise(updated, 2, "*bias=7", error));
    assert_done(zest_model_shape_noise(moved, 2, "*bias=7", error));
    perturb(moved, &lane);
    zest_update_apply(zest_vector_ops_for(ZEST_CPU_PLAIN), 2, &updated->params, &update);
    for (size_t t = 0; t < updated->params.count; t++) {
        const zest_tensor *tensor = &updated->params.tensors[t];
        const float *a = tensor->data, *b = moved->params.tensors[t].data;
        if (!tensor->law.rank) assert_memory_equal(a, b, tensor->count * sizeof *a);
        for (size_t i = 0; i < tensor->count; i++) assert_true(fabsf(a[i] - b[i]) < 1e-6f);
    }
    zest_model_free(updated);
    zest_model_free(moved);
}

static void wrong_scales_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {{"embeddings", "should read PATTERN=NUMBER"},
               {"=3", "should read PATTERN=NUMBER"},
               {"*bias=0", "--freeze"},
               {"*bias=1e9", "0.001 to 1000"},
               {"*bias=nan", "0.001 to 1000"},
               {"*bias=2x", "0.001 to 1000"},
               {"*bias=2,nothing=3", "matches no tensor"}};
    zest_model *model = test_model("roberta", ZEST_MODEL_F32);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zest_error error = {0};
        assert_int_equal(zest_model_shape_noise(model, 0, bad[i].text, &error), ZEST_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, bad[i].says));
        assert_false(zest_model_has_laws(model));
    }
    assert_done(zest_model_shape_noise(model, 0, "", error));
    assert_false(zest_model_has_laws(model));
    zest_model_free(model);
}

/* ---- Runs ---- */

#define RUN                                                                                         \
    "task=examples/reviews/reviews.task shots=8 batch=4 seed=13 steps=12 eval-every=6 test-size=2 " \
    "threads=1 "                                                                                    \
    "k=2 method=mezo weights=f32 "

/* v = 2 z everywhere: the run with twice the rho and, since g halves and v doubles, four times the lr. Powers of two
 * leave no rounding. */
static void one_scale_for_all_is_rho_and_lr(void **state) {
    (void)state;
    zest_trainer_result scaled, plain;
    assert_fine(training_run(RUN "scales=*=2 rho=0.01 lr=0.001", temp_path("scaled"), NULL, &scaled, error));
    assert_fine(training_run(RUN "rho=0.02 lr=0.004", temp_path("plain"), NULL, &plain, error));
    same_file(temp_path("scaled/last/model.safetensors"), temp_path("plain/last/model.safetensors"));
}

/* A file is the same as its lines, and the run keeps the lines. */
static void scales_come_from_a_file(void **state) {
    (void)state;
    static const char text[] = "# where few weights are\n\n*bias = 4\r\n  *none*=0.5 # and here\n";
    zest_trainer_result result;
    zest_error refused = {0};
    char options[600];
    assert_fine(zest_file_write(temp_path("scales"), text, sizeof text - 1, error));
    snprintf(options, sizeof options, RUN "rho=0.01 lr=0.001 scales=%s", temp_path("scales"));
    /* no tensor is called *norm* in this family */
    assert_int_equal(training_run(options, temp_path("run"), NULL, &result, &refused), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(refused.message, "'*none*=0.5' matches no tensor"));
    assert_fine(zest_file_write(temp_path("scales"), text, 36, error));
    assert_fine(training_run(options, temp_path("file"), NULL, &result, error));
    assert_fine(
        training_run(RUN "rho=0.01 lr=0.001 scales=*bias=4", temp_path("text"), NULL, &result, error));
    same_file(temp_path("file/journal"), temp_path("text/journal"));
    assert_fine(zest_file_write(temp_path("scales"), "nothing\n", 8, error));
    assert_int_equal(training_run(options, NULL, NULL, &result, &refused), ZEST_ERROR_FORMAT);
    snprintf(options, sizeof options, RUN "scales=%s", temp_path("missing"));
    assert_int_equal(training_run(options, NULL, NULL, &result, &refused), ZEST_ERROR_FILE);
}

/* With every mixture of rules: a run that was killed goes on to the same bits, and replay gives them. */
static void runs_resume_and_replay(void **state) {
    (void)state;
    static const char *const laws[] = {
        "directions=lowrank:1 lr=1e-3 rho=0.01",
        "directions=lowrank:3 distribution=rademacher scales=*bias=4,*embeddings*=0.25 method=zest-bc t=2 "
        "momentum=0.8 momentum-steps=3 step-length=mezo lr=1e-3 rho=0.01 weights=bf16",
        "scales=*query*=2 distribution=sphere method=zest-n t=auto max-step=1 lr=1e-3 rho=0.01 "
        "freeze=*embeddings*"};
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        zest_trainer_result whole, killed, rest;
        training_events w = {.copy_at = 9, .from = temp_path("killed"), .to = temp_path("rest")};
        char options[600];
        snprintf(options, sizeof options, RUN "%s", laws[i]);
        assert_fine(training_run(options, temp_path("whole"), NULL, &whole, error));
        assert_fine(training_run(options, temp_path("killed"), &w, &killed, error));
        assert_fine(training_resume(temp_path("rest"), "", &rest, error));
        same_file(temp_path("whole/journal"), temp_path("rest/journal"));
        same_file(temp_path("whole/last/model.safetensors"), temp_path("rest/last/model.safetensors"));
        zest_ctx *ctx = zest_ctx_new();
        zest_journal *journal = zest_journal_open(ctx, temp_path("whole/journal"));
        assert_non_null(journal);
        assert_int_equal(journal->format, 3);
        zest_journal_close(journal);
        zest_ctx_free(ctx);
        test_remove(temp_path("whole")), test_remove(temp_path("killed")), test_remove(temp_path("rest"));
    }
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *options, *says;
    } bad[] = {{"directions=lowrank:2 distribution=sphere", "not uniform on a sphere"},
               {"directions=lowrank:0", "from 1 to 1024"},
               {"directions=lowrank:2x", "from 1 to 1024"},
               {"directions=sparse", "lowrank:R or example:R"},
               {"scales=nothing=2", "matches no tensor"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char options[400];
        zest_error error = {0};
        zest_trainer_result result;
        snprintf(options, sizeof options, RUN "%s", bad[i].options);
        assert_int_equal(training_run(options, NULL, NULL, &result, &error), ZEST_ERROR_ARGUMENT);
        if (!strstr(error.message, bad[i].says)) fail_msg("%s: %s", bad[i].options, error.message);
    }
    zest_ctx *ctx = zest_ctx_new();
    double x[4] = {0};
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, 4);
    const zest_lanes *lanes;
    assert_int_equal(zest_tuner_set(tuner, "directions", "lowrank:1"), 0);
    assert_int_equal(zest_tuner_ask(tuner, &lanes), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(zest_ctx_error(ctx), "neither matrices nor tensors"));
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slice_and_instruction_set_gives_the_law),
        cmocka_unit_test(moments_are_those_of_dense_noise),
        cmocka_unit_test(slopes_have_the_closed_form),
        cmocka_unit_test(lanes_of_every_family_see_the_law),
        cmocka_unit_test(updates_have_the_noise_of_lanes),
        cmocka_unit_test(wrong_scales_are_refused),
        IN_TEMP_FOLDER(one_scale_for_all_is_rho_and_lr),
        IN_TEMP_FOLDER(scales_come_from_a_file),
        IN_TEMP_FOLDER(runs_resume_and_replay),
        IN_TEMP_FOLDER(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}
