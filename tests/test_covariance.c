/* Option covariance=inputs: the law against its equation in rng/noise_law.h; the rows that are kept against the model's
 * own hidden states; lanes and updates of every family against a model that was perturbed by hand; runs. */
#include "model/input_rows.h"
#include "model/scales.h"
#include "optim/lanes.h"
#include "optim/step.h"
#include "tests/model.h"
#include "tests/training.h"

enum { ROWS = 37, COLUMNS = 301, COUNT = ROWS * COLUMNS, FIRST = 4321, STORED = 9 };

/* The law in words, in double precision. */
static void by_hand(const zest_noise_law *law, int signs, uint64_t seed, double *out) {
    static float n[COUNT];
    static double u[ROWS], a[COLUMNS];
    (signs ? zest_noise_plain.sign : zest_noise_plain.normal)(n, seed, law->first, COUNT);
    for (size_t i = 0; i < COUNT; i++) out[i] = 0;
    for (size_t j = 0; j < law->rank; j++) {
        const float *rows = n + j * (ROWS + COLUMNS), *columns = rows + ROWS;
        for (size_t i = 0; i < ROWS; i++) u[i] = law->inputs_are_rows ? 0 : (double)rows[i];
        for (size_t i = 0; i < COLUMNS; i++) a[i] = law->inputs_are_rows ? (double)columns[i] : 0;
        for (size_t s = 0; s < law->input_count; s++)
            for (size_t i = 0; i < (law->inputs_are_rows ? ROWS : COLUMNS); i++)
                if (law->inputs_are_rows)
                    u[i] += (double)rows[s] * (double)law->inputs[s * ROWS + i];
                else
                    a[i] += (double)columns[s] * (double)law->inputs[s * COLUMNS + i];
        for (size_t i = 0; i < COUNT; i++) out[i] += (double)law->factor * u[i / COLUMNS] * a[i % COLUMNS];
    }
}

static void every_slice_and_instruction_set_gives_the_law(void **state) {
    (void)state;
    static const zest_cpu levels[] = {ZEST_CPU_PLAIN, ZEST_CPU_AVX2, ZEST_CPU_AVX512};
    static float whole[COUNT], part[COUNT], inputs[STORED * COLUMNS];
    static double expected[COUNT];
    zest_cpu best;
    assert_done(zest_cpu_detect(&best, error));
    for (size_t i = 0; i < STORED * COLUMNS; i++) inputs[i] = (float)sin(0.37 * (double)i);
    for (int rows = 0; rows < 2; rows++)
        for (int signs = 0; signs < 2; signs++) {
            zest_noise_law law = {FIRST, ROWS, COLUMNS, 1 + 2 * (uint32_t)signs, 0.8f, STORED, rows, inputs};
            by_hand(&law, signs, 99, expected);
            zest_noise_plain.by_law(&law, signs, whole, 99, FIRST, COUNT);
            for (size_t i = 0; i < COUNT; i++) assert_true(fabs(whole[i] - expected[i]) < 1e-4);
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

/* ---- Rows of a model ---- */

/* One sequence of a golden batch, from its start. */
static zest_model_batch sequence(const test_golden *golden, size_t s, uint32_t starts[2]) {
    starts[0] = 0, starts[1] = golden->batch.starts[s + 1] - golden->batch.starts[s];
    return (zest_model_batch){
        .tokens = golden->batch.tokens + golden->batch.starts[s], .starts = starts, .sequences = 1};
}

/* Keeps `most` rows from the golden's sequences. */
static void keep_rows(zest_model *model, const test_golden *golden, size_t most) {
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    zest_input_capture capture;
    assert_done(zest_input_capture_begin(&capture, model, most, 11, error));
    runner->capture = &capture;
    float *logits = malloc(model->config.vocab_size * sizeof *logits);
    for (size_t e = 0; e < most; e++) {
        uint32_t starts[2], last;
        zest_model_batch one = sequence(golden, e % golden->batch.sequences, starts);
        last = starts[1] - 1;
        zest_input_capture_next(&capture, e);
        assert_done(zest_model_logits(runner, NULL, &one, &last, 1, logits, error));
    }
    assert_done(zest_input_capture_end(&capture, error));
    zest_input_capture_free(&capture);
    zest_model_runner_free(runner);
    free(logits);
}

static const zest_tensor *find(const zest_model *model, const char *part) {
    for (size_t i = 0; i < model->tensor_count; i++)
        if (strstr(model->tensors[i].name, part)) return &model->tensors[i];
    fail_msg("no tensor %s", part);
    return NULL;
}

/* BERT's first layer reads the embeddings. Rows of a matrix have the squared lengths of n independent numbers, on
 * average; they are those of tokens, up to one factor for all. Embeddings and head have none. */
static void rows_are_the_inputs_of_tokens(void **state) {
    (void)state;
    zest_model *model = test_model("bert", ZEST_MODEL_F32);
    test_golden golden = test_golden_open("bert");
    size_t width = model->config.hidden_size, most = 3;
    assert_done(zest_model_shape_noise(model, 1, "", error));
    keep_rows(model, &golden, most);
    const zest_noise_law *query = &find(model, "layer.0.attention.self.query.weight")->law,
                         *key = &find(model, "layer.0.attention.self.key.weight")->law;
    assert_int_equal(query->input_count, most);
    assert_memory_equal(query->inputs, key->inputs, most * width * sizeof(float));
    assert_int_equal(find(model, "word_embeddings")->law.input_count, 0);
    assert_int_equal(find(model, "transform.dense.weight")->law.input_count, most);
    double square = 0, factor = 0;
    for (size_t i = 0; i < most * width; i++) square += (double)query->inputs[i] * (double)query->inputs[i];
    assert_true(fabs(square - (double)width) < 1e-3);
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    for (size_t e = 0; e < most; e++) {
        uint32_t starts[2], found = 0;
        zest_model_batch one = sequence(&golden, e % golden.batch.sequences, starts);
        float *hidden = malloc(starts[1] * width * sizeof *hidden);
        const float *kept = query->inputs + e * width;
        assert_done(zest_model_hidden(runner, NULL, &one, 0, hidden, error));
        for (size_t r = 0; r < starts[1]; r++) {
            double c = factor != 0 ? factor : (double)kept[0] / (double)hidden[r * width];
            int same = 1;
            for (size_t i = 0; i < width; i++)
                same &= fabs((double)kept[i] - c * (double)hidden[r * width + i]) < 1e-5;
            found += (uint32_t)same;
            if (same) factor = c;
        }
        assert_int_equal(found, 1);
        free(hidden);
    }
    zest_model_runner_free(runner);
    zest_model_free(model);
    zest_safetensors_close(golden.file);
}

static void perturb(zest_model *model, const zest_model_lane *lane) {
    for (size_t t = 0; t < model->tensor_count; t++) {
        const zest_tensor *tensor = &model->tensors[t];
        float *x = tensor->data, *z = malloc(tensor->count * sizeof *z);
        zest_noise_plain.by_law(&tensor->law, 0, z, lane->direction.seed, tensor->first, tensor->count);
        for (size_t i = 0; i < tensor->count; i++) x[i] = fmaf((float)lane->scale, z[i], x[i]);
        free(z);
    }
}

static double loss_of(const zest_model *model, const zest_model_lane *lane, const zest_model_objective *o) {
    double losses[16], mean;
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
    assert_true(o->items <= 16);
    assert_done(zest_model_losses(runner, lane, 1, o, losses, &mean, NULL, error));
    zest_model_runner_free(runner);
    return mean;
}

/* Matrices that are transposed, stacked or fused. */
static void lanes_and_updates_of_every_family_see_the_law(void **state) {
    (void)state;
    for (size_t m = 0; m < TEST_MODELS; m++) {
        zest_model *model = test_model(test_models[m], ZEST_MODEL_F32);
        test_golden golden = test_golden_open(test_models[m]);
        test_objectives objectives;
        test_objectives_make(&golden, &objectives);
        const zest_model_objective *objective = golden.causal ? &objectives.tokens : &objectives.words;
        assert_done(zest_model_shape_noise(model, 2, "*weight=1.5", error));
        keep_rows(model, &golden, 5);
        size_t with = 0;
        for (size_t t = 0; t < model->tensor_count; t++) with += model->tensors[t].law.input_count == 5;
        assert_true(with >= 3 * model->config.layers);
        zest_model_lane lane = test_lane(model, 5, 0.02), center = test_lane(model, 0, 0);
        double before = loss_of(model, &center, objective), seen = loss_of(model, &lane, objective), g = 1;
        zest_update update = {.directions = &lane.direction, .g = &g, .k = 1, .lr = -0.02};
        perturb(model, &lane);
        double moved = loss_of(model, &center, objective);
        assert_true(fabs(seen - moved) < 2e-5 * (1 + fabs(seen)) && fabs(seen - before) > 1e-6);
        update.lr = 0.02;
        zest_update_apply(zest_vector_ops_for(ZEST_CPU_PLAIN), 2, &model->params, &update);
        assert_true(fabs(loss_of(model, &center, objective) - before) < 2e-5 * (1 + fabs(before)));
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
}

/* ---- Runs ---- */

#define RUN                                                                                          \
    "task=examples/reviews/reviews.task shots=5 batch=4 seed=13 eval-every=6 test-size=2 threads=1 " \
    "weights=f32 rho=0.01 lr=1e-3 "

static void runs_resume_and_replay(void **state) {
    (void)state;
    static const char *const laws[] = {
        "k=2 directions=lowrank:2 covariance=inputs:7 method=mezo",
        "k=3 directions=example:1 covariance=inputs tilt-scope=example method=zest-bc t=2 "
        "distribution=rademacher momentum=0.8 momentum-steps=3 step-length=mezo scales=*bias=4 weights=bf16"};
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        zest_trainer_result whole, killed, rest, without;
        training_events w = {.copy_at = 7, .from = temp_path("killed"), .to = temp_path("rest")};
        char options[600];
        snprintf(options, sizeof options, RUN "steps=11 %s", laws[i]);
        assert_fine(training_run(options, temp_path("whole"), NULL, &whole, error));
        assert_fine(training_run(options, temp_path("killed"), &w, &killed, error));
        test_remove(temp_path("rest/last"));
        assert_fine(training_resume(temp_path("rest"), "", &rest, error));
        same_file(temp_path("whole/journal"), temp_path("rest/journal"));
        same_file(temp_path("whole/last/model.safetensors"), temp_path("rest/last/model.safetensors"));
        assert_fine(training_run(options, NULL, NULL, &without, error));
        assert_true(without.dev.loss == whole.dev.loss && without.best_step == whole.best_step);
        test_remove(temp_path("whole")), test_remove(temp_path("killed")), test_remove(temp_path("rest"));
    }
}

/* The rows are data of the run: without them, or with others, it neither goes on nor is replayed. */
static void other_rows_are_refused(void **state) {
    (void)state;
    zest_trainer_result result;
    zest_error refused = {0};
    assert_fine(training_run(RUN "steps=3 k=2 directions=lowrank:1 covariance=inputs:7", temp_path("run"),
                             NULL, &result, error));
    assert_fine(training_run(RUN "steps=3 k=2 directions=lowrank:1 covariance=inputs:6", temp_path("other"),
                             NULL, &result, error));
    const char *file = temp_path("run/covariance.safetensors");
    zest_buffer bytes = {0};
    assert_fine(zest_file_read(file, 1 << 20, &bytes, error));
    bytes.data[bytes.size - 1] ^= 1;
    assert_fine(zest_file_write(file, bytes.data, bytes.size, error));
    assert_int_equal(training_resume(temp_path("run"), "steps=4", &result, &refused), ZEST_ERROR_FORMAT);
    assert_non_null(strstr(refused.message, "another fingerprint"));
    test_copy_file(temp_path("other/covariance.safetensors"), file);
    assert_int_equal(training_resume(temp_path("run"), "steps=4", &result, &refused), ZEST_ERROR_FORMAT);
    assert_non_null(strstr(refused.message, "rows of inputs belong to another run"));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(training_resume(temp_path("run"), "steps=4", &result, &refused), ZEST_ERROR_FILE);
    bytes.data[bytes.size - 1] ^= 1;
    assert_fine(zest_file_write(file, bytes.data, bytes.size, error));
    assert_fine(training_resume(temp_path("run"), "steps=4", &result, error));
    zest_buffer_free(&bytes);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *options, *says;
    } bad[] = {{"covariance=inputs:7", "directions of low rank"},
               {"covariance=inputs:7 directions=dense", "directions of low rank"},
               {"covariance=inputs:0 directions=lowrank:1", "from 1 to 1024"},
               {"covariance=inputs:2000 directions=lowrank:1", "from 1 to 1024"},
               {"covariance=inputs:7:12 directions=lowrank:1", "from 1 to 1024"},
               {"covariance=outputs directions=lowrank:1", "identity, or inputs:S"},
               {"method=sgd covariance=inputs", "covariance"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char options[500];
        zest_error error = {0};
        zest_trainer_result result;
        snprintf(options, sizeof options, RUN "steps=1 %s", bad[i].options);
        assert_int_equal(training_run(options, NULL, NULL, &result, &error), ZEST_ERROR_ARGUMENT);
        if (!strstr(error.message, bad[i].says)) fail_msg("%s: %s", bad[i].options, error.message);
    }
    zest_trainer_result result;
    assert_fine(training_run(RUN "steps=1 covariance=identity", temp_path("run"), NULL, &result, error));
    assert_fine(training_resume(temp_path("run"), "steps=2", &result, error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slice_and_instruction_set_gives_the_law),
        cmocka_unit_test(rows_are_the_inputs_of_tokens),
        cmocka_unit_test(lanes_and_updates_of_every_family_see_the_law),
        IN_TEMP_FOLDER(runs_resume_and_replay),
        IN_TEMP_FOLDER(other_rows_are_refused),
        IN_TEMP_FOLDER(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}
