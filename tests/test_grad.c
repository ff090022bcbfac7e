/* Gradients against the reference implementation, against differences of our own losses, and what must not
 * change a bit of them. */
#include "backend/ops.h"
#include "core/direction.h"
#include "grad/grad.h"
#include "models/freeze.h"
#include "tests/model.h"

enum { SAMPLES = 16, OBJECTIVES = 3 };
static const char *const objective_names[OBJECTIVES] = {"words", "tokens", "options"};

static void report(const char *name, const char *what, double error) {
    if (getenv("ZEST_VERBOSE")) printf("%-16s %-24s %.3g\n", name, what, error);
}

static zest_cpu best_cpu(void) {
    zest_cpu cpu;
    assert_true(zest_cpu_detect(&cpu));
    return cpu;
}

/* ---- A model with its three objectives ---- */

typedef struct {
    zest_model *model;
    test_golden golden;
    test_objectives objectives;
    zest_model_objective options, all[OBJECTIVES];
    size_t count;
} fixture;

static const uint32_t option_answers[1] = {1}, option_examples[2] = {0, 2};

static void open_fixture(fixture *f, const char *name, zest_model_storage storage) {
    memset(f, 0, sizeof *f);
    f->model = test_model(name, storage);
    f->golden = test_golden_open(name);
    test_objectives_make(&f->golden, &f->objectives);
    f->options = f->objectives.tokens;
    f->options.kind = ZEST_MODEL_OPTIONS;
    f->options.examples = 1;
    f->options.example_starts = option_examples;
    f->options.answers = option_answers;
    f->all[0] = f->objectives.words;
    f->all[1] = f->objectives.tokens;
    f->all[2] = f->options;
    f->count = f->golden.causal ? OBJECTIVES : 1;
}

static void close_fixture(fixture *f) {
    zest_model_free(f->model);
    zest_safetensors_close(f->golden.file);
}

/* The gradient of one job, alone. */
static float *gradient_of(const zest_model *model, zest_cpu cpu, const zest_grad_options *options,
                          zest_grad_job job, double *losses, double *mean) {
    zest_grad *grad;
    float *out = calloc(model->params.dimension, sizeof *out);
    assert_non_null(out);
    assert_done(zest_grad_new(model, zest_forward_for(cpu), options, &grad, error));
    job.gradient = out;
    if (job.factor == 0) job.factor = 1;
    assert_done(zest_grad_losses(grad, &job, losses, mean, error));
    assert_true(zest_grad_memory(grad) > 0);
    zest_grad_free(grad);
    return out;
}

/* ---- The reference implementation ---- */

/* The largest difference of the summary from the golden, relative to the golden's norm. */
static double summary_error(const double *golden, const float *gradient, size_t count) {
    double square = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        square += (double)gradient[i] * (double)gradient[i];
        sum += (double)gradient[i];
    }
    /* the sum's rounding errors grow with the count, hence its own unit */
    double worst = fmax(fabs(sqrt(square) - golden[0]), fabs(sum - golden[1]) / sqrt((double)count));
    for (uint64_t j = 0; j < SAMPLES; j++)
        worst = fmax(worst, fabs((double)gradient[j * 2654435761u % count] - golden[2 + j]));
    return worst;
}

static void check_goldens(const char *name, zest_cpu cpu, zest_compute compute, double tolerance) {
    fixture f;
    char path[300], room[256], key[300];
    zest_safetensors *file;
    open_fixture(&f, name, ZEST_MODEL_AS_STORED);
    snprintf(path, sizeof path, "%s/grad.safetensors", test_model_path(name, room));
    assert_done(zest_safetensors_open(path, &file, error));
    for (size_t o = 0; o < f.count; o++) {
        double mean, worst = 0, whole = 0;
        zest_grad_options options = {.compute = compute, .threads = 2};
        float *g = gradient_of(f.model, cpu, &options, (zest_grad_job){.objective = &f.all[o]}, NULL, &mean);
        const zest_safetensors_tensor *golden = zest_safetensors_find(file, objective_names[o]);
        assert_non_null(golden);
        assert_true(fabs(mean - *(const double *)golden->data) <= tolerance);
        for (size_t t = 0; t < f.model->params.count; t++) {
            snprintf(key, sizeof key, "%s/%s", objective_names[o], f.model->params.tensors[t].name);
            golden = zest_safetensors_find(file, key);
            if (golden) whole = fmax(whole, ((const double *)golden->data)[0]);
        }
        for (size_t t = 0; t < f.model->params.count; t++) {
            const zest_tensor *tensor = &f.model->params.tensors[t];
            snprintf(key, sizeof key, "%s/%s", objective_names[o], tensor->name);
            golden = zest_safetensors_find(file, key);
            static const double nothing[2 + SAMPLES] = {0};
            const double *values = golden ? golden->data : nothing;
            /* a key's bias moves all scores of a query alike: its gradient is zero but for rounding */
            double unit = fmax(values[0], 1e-2 * whole);
            double error = summary_error(values, g + tensor->first, tensor->count) / unit;
            if (error > worst) worst = error;
            if (error > tolerance) report(tensor->name, key, error);
        }
        report(name, objective_names[o], worst);
        assert_true(worst <= tolerance);
        free(g);
    }
    zest_safetensors_close(file);
    close_fixture(&f);
}

static void test_goldens(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_MODELS; i++) {
        check_goldens(test_models[i], ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1e-4);
        check_goldens(test_models[i], best_cpu(), ZEST_COMPUTE_F32, 1e-4);
        check_goldens(test_models[i], best_cpu(), ZEST_COMPUTE_BF16, 0.1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goldens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
