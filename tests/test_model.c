/* Models against the reference implementation: every family, both sources, every loss; and the models that
 * other people trained, where they are at hand. */
#include <jansson.h>

#include "tests/model.h"

/* Largest errors, printed with ZEST_VERBOSE=1. */
static void report(const char *name, const char *what, double error) {
    if (getenv("ZEST_VERBOSE")) printf("%-16s %-10s %.3g\n", name, what, error);
}

static void check_logits(const char *name, const zest_model *model, const test_golden *golden,
                         zest_compute compute, zest_cpu cpu, double tolerance) {
    zest_model_runner *runner = test_runner(model, cpu, compute, 2, 0);
    size_t count = golden->rows * model->config.vocab_size;
    float *logits = malloc(count * sizeof *logits);
    uint32_t rows[64];
    for (uint32_t i = 0; i < golden->rows; i++) rows[i] = i;
    assert_done(zest_model_logits(runner, NULL, &golden->batch, rows, golden->rows, logits, error));
    double error = test_largest(logits, golden_data(golden, "logits"), count);
    report(name, compute == ZEST_COMPUTE_BF16 ? "logits bf16" : "logits", error);
    assert_true(error <= tolerance);
    free(logits);
    zest_model_runner_free(runner);
}

static void check_hidden(const char *name, const zest_model *model, const test_golden *golden) {
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    for (size_t depth = 0; depth <= model->config.layers; depth++) {
        char key[32];
        snprintf(key, sizeof key, "hidden_%zu", depth);
        size_t width =
            depth == model->config.layers ? model->config.embedding_size : model->config.hidden_size;
        float *hidden = malloc(golden->rows * width * sizeof *hidden);
        assert_done(zest_model_hidden(runner, NULL, &golden->batch, depth, hidden, error));
        assert_int_equal(zest_safetensors_find(golden->file, key)->count, golden->rows * width);
        double error = test_largest(hidden, golden_data(golden, key), golden->rows * width);
        report(name, key, error);
        assert_true(error <= 1e-4);
        free(hidden);
    }
    zest_model_runner_free(runner);
}

static void check_losses(const char *name, const zest_model *model, const test_golden *golden) {
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
    zest_model_lane lane = test_lane(model, 1, 0);
    test_objectives objectives;
    test_objectives_make(golden, &objectives);
    double losses[8], scores[64], mean, sum = 0, worst = 0;
    const double *word_losses = golden_data(golden, "word_losses"),
                 *word_logits = golden_data(golden, "word_logits");
    assert_done(zest_model_losses(runner, &lane, 1, &objectives.words, losses, &mean, scores, error));
    for (size_t i = 0; i < objectives.words.items; i++) {
        worst = fmax(worst, fabs(losses[i] - word_losses[i]));
        sum += losses[i];
        for (size_t w = 0; w < golden->word_count; w++)
            worst = fmax(worst,
                         fabs(scores[i * golden->word_count + w] - word_logits[i * golden->word_count + w]));
    }
    assert_true(mean == sum / (double)objectives.words.items);
    if (golden->causal) {
        const double *token_losses = golden_data(golden, "token_losses");
        assert_done(zest_model_losses(runner, &lane, 1, &objectives.tokens, losses, &mean, scores, error));
        sum = 0;
        for (size_t i = 0; i < objectives.tokens.items; i++) {
            worst = fmax(worst, fabs(losses[i] - token_losses[objectives.token_items[i]]));
            assert_true(scores[i] == -losses[i]);
            sum += losses[i];
        }
        assert_true(mean == sum / objectives.item_starts[objectives.tokens.items]);
    }
    report(name, "losses", worst);
    assert_true(worst <= 1e-4);
    zest_model_runner_free(runner);
}

static void test_families(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_MODELS; i++) {
        zest_model *model = test_model(test_models[i], ZEST_MODEL_AS_STORED);
        test_golden golden = test_golden_open(test_models[i]);
        check_logits(test_models[i], model, &golden, ZEST_COMPUTE_F32, ZEST_CPU_PLAIN, 1e-4);
        check_hidden(test_models[i], model, &golden);
        check_losses(test_models[i], model, &golden);
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
}

/* The best instructions of this machine, in fp32; and operands rounded to bf16, which costs about three
 * digits. */
static void test_computes(void **state) {
    (void)state;
    zest_cpu cpu;
    assert_int_equal(zest_cpu_detect(&cpu, NULL), ZEST_OK);
    for (size_t i = 0; i < TEST_MODELS; i++) {
        zest_model *model = test_model(test_models[i], ZEST_MODEL_AS_STORED);
        test_golden golden = test_golden_open(test_models[i]);
        check_logits(test_models[i], model, &golden, ZEST_COMPUTE_F32, cpu, 1e-4);
        check_logits(test_models[i], model, &golden, ZEST_COMPUTE_BF16, cpu, 0.15);
        zest_model_free(model);
        zest_safetensors_close(golden.file);
    }
}

/* Widening changes no value; narrowing changes the results a little. */
static void test_storage(void **state) {
    (void)state;
    test_golden golden = test_golden_open("opt");
    zest_model *wide = test_model("opt-350m", ZEST_MODEL_F32), *narrow = test_model("opt", ZEST_MODEL_BF16);
    test_golden other = test_golden_open("opt-350m");
    for (size_t i = 0; i < wide->params.count; i++) assert_int_equal(wide->tensors[i].dtype, ZEST_DTYPE_F32);
    for (size_t i = 0; i < narrow->params.count; i++)
        assert_int_equal(narrow->tensors[i].dtype, ZEST_DTYPE_BF16);
    check_logits("opt-350m f32", wide, &other, ZEST_COMPUTE_F32, ZEST_CPU_PLAIN, 1e-4);
    check_logits("opt bf16", narrow, &golden, ZEST_COMPUTE_F32, ZEST_CPU_PLAIN, 0.15);
    assert_non_null(strstr(narrow->config_json, "\"torch_dtype\": \"bfloat16\""));
    zest_model_free(wide);
    zest_model_free(narrow);
    zest_safetensors_close(golden.file);
    zest_safetensors_close(other.file);
}

static void test_gguf(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "qwen2"};
    for (size_t i = 0; i < 2; i++) {
        char path[256];
        snprintf(path, sizeof path, "tests/data/models/%s.gguf", names[i]);
        zest_model *model = test_model_load(path, ZEST_MODEL_AS_STORED),
                   *twin = test_model(names[i], ZEST_MODEL_F32);
        test_golden golden = test_golden_open(names[i]);
        check_logits(path + 18, model, &golden, ZEST_COMPUTE_F32, ZEST_CPU_PLAIN, 1e-4);
        assert_int_equal(model->params.dimension, twin->params.dimension);
        assert_int_equal(model->params.count, twin->params.count);
        for (size_t t = 0; t < twin->params.count; t++) {
            assert_string_equal(model->tensors[t].name, twin->tensors[t].name);
            assert_int_equal(model->tensors[t].first, twin->tensors[t].first);
        }
        zest_model_free(model);
        zest_model_free(twin);
        zest_safetensors_close(golden.file);
    }
}

/* ---- Trained models, where they are ---- */

static size_t read_ids(const json_t *list, uint32_t *out, size_t buffer) {
    size_t count = json_array_size(list);
    assert_true(count <= buffer);
    for (size_t i = 0; i < count; i++) out[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    return count;
}

static double worst_of(const json_t *numbers, const float *values) {
    double worst = 0;
    for (size_t i = 0; i < json_array_size(numbers); i++)
        worst = fmax(worst, fabs((double)values[i] - json_number_value(json_array_get(numbers, i))));
    return worst;
}

static void check_trained(const char *name, int masked) {
    char folder[64], file[80], path[512];
    json_error_t why;
    snprintf(folder, sizeof folder, "models/%s", name);
    snprintf(file, sizeof file, "%s/golden.json", folder);
    if (!test_shared(file, path)) return;
    json_t *golden = json_load_file(path, 0, &why);
    assert_non_null(golden);
    zest_model *model = test_model_load(test_shared(folder, path), ZEST_MODEL_AS_STORED);
    zest_cpu cpu;
    assert_int_equal(zest_cpu_detect(&cpu, NULL), ZEST_OK);
    zest_model_runner *runner = test_runner(model, cpu, ZEST_COMPUTE_F32, 0, 0);
    float *logits = malloc(model->config.vocab_size * sizeof *logits);
    const json_t *cases = masked ? golden : json_object_get(golden, "prompts"), *one;
    double worst = 0;
    size_t i;
    json_array_foreach(cases, i, one) {
        uint32_t ids[512], starts[2] = {0, 0};
        starts[1] = (uint32_t)read_ids(json_object_get(one, masked ? "ids" : "token_ids"), ids, 512);
        uint32_t row = masked ? (uint32_t)json_integer_value(json_object_get(one, "mask")) : starts[1] - 1;
        zest_model_batch batch = {.tokens = ids, .starts = starts, .sequences = 1};
        assert_done(zest_model_logits(runner, NULL, &batch, &row, 1, logits, error));
        const char *key = masked ? "logits_first8" : "logits_first8_last_position";
        worst = fmax(worst, worst_of(json_object_get(one, key), logits));
    }
    report(name, "logits", worst);
    assert_true(worst <= 1e-4); /* the goldens have four decimals */
    free(logits);
    json_decref(golden);
    zest_model_runner_free(runner);
    zest_model_free(model);
}

static void test_trained(void **state) {
    (void)state;
    check_trained("roberta-tiny", 1);
    check_trained("stories260K", 0);
    if (TEST_SLOW > 1) return;
    check_trained("roberta-small", 1);
    check_trained("stories15M", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families), cmocka_unit_test(test_computes), cmocka_unit_test(test_storage),
        cmocka_unit_test(test_gguf),     cmocka_unit_test(test_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
