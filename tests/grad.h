/* What the tests of gradients share: a tiny model with its three objectives, and the gradient of one job. */
#ifndef ZEST_TESTS_GRAD_H
#define ZEST_TESTS_GRAD_H

#include "grad/grad.h"
#include "tests/model.h"

enum { OBJECTIVES = 3 };

static inline void report(const char *name, const char *what, double error) {
    if (getenv("ZEST_VERBOSE")) printf("%-16s %-24s %.3g\n", name, what, error);
}

static inline zest_cpu best_cpu(void) {
    zest_cpu cpu;
    assert_int_equal(zest_cpu_detect(&cpu, NULL), ZEST_OK);
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

static inline void open_fixture(fixture *f, const char *name, zest_model_storage storage) {
    memset(f, 0, sizeof *f);
    f->model = test_model(name, storage);
    f->golden = test_golden_open(name);
    test_objectives_make(&f->golden, &f->objectives);
    f->options = f->objectives.tokens;
    f->options.kind = ZEST_LOSS_CHOICES;
    f->options.examples = 1;
    f->options.example_starts = option_examples;
    f->options.answers = option_answers;
    f->all[0] = f->objectives.words;
    f->all[1] = f->objectives.tokens;
    f->all[2] = f->options;
    f->count = f->golden.causal ? OBJECTIVES : 1;
}

static inline void close_fixture(fixture *f) {
    zest_model_free(f->model);
    zest_safetensors_close(f->golden.file);
}

/* ---- Goldens: gradients of the reference implementation, told by a few numbers each ---- */

enum { SAMPLES = 16 };
static const char *const objective_names[OBJECTIVES] = {"words", "tokens", "options"};

static inline zest_safetensors *open_goldens(const char *name) {
    char path[300], buffer[256];
    zest_safetensors *file;
    snprintf(path, sizeof path, "%s/grad.safetensors", test_model_path(name, buffer));
    assert_done(zest_safetensors_open(path, &file, error));
    return file;
}

static inline double golden_mean(const zest_safetensors *file, size_t objective) {
    const zest_safetensors_tensor *golden = zest_safetensors_find(file, objective_names[objective]);
    assert_non_null(golden);
    return *(const double *)golden->data;
}

/* The largest difference of the summary from the golden, relative to the golden's norm. */
static inline double summary_error(const double *golden, const float *gradient, size_t count) {
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

static inline const double *golden_of(const zest_safetensors *file, size_t objective, const char *tensor) {
    static const double nothing[2 + SAMPLES] = {0};
    char key[300];
    snprintf(key, sizeof key, "%s/%s", objective_names[objective], tensor);
    const zest_safetensors_tensor *golden = zest_safetensors_find(file, key);
    return golden ? golden->data : nothing;
}

/* A tensor's gradient in the order of the file, where that is (heads, q k v, head_dim) and memory's (q k v, heads,
 * head_dim); to be freed. */
static inline float *file_order(const zest_model *model, size_t t, const float *g) {
    size_t count = (size_t)model->tensors[t].count, heads = model->config.heads, block = count / (3 * heads);
    float *out = malloc(count * sizeof *out);
    assert_non_null(out);
    memcpy(out, g, count * sizeof *out);
    for (size_t b = 0; model->shapes[t].by_heads && b < 3 * heads; b++)
        memcpy(out + b * block, g + (b % 3 * heads + b / 3) * block, block * sizeof *out);
    return out;
}

/* The largest of all tensors. */
static inline double golden_error(const fixture *f, const zest_safetensors *file, size_t objective,
                                  const float *g, double tolerance) {
    double worst = 0, whole = 0;
    const zest_params *params = &f->model->params;
    for (size_t t = 0; t < params->count; t++)
        whole = fmax(whole, golden_of(file, objective, params->tensors[t].name)[0]);
    for (size_t t = 0; t < params->count; t++) {
        const zest_tensor *tensor = &params->tensors[t];
        const double *values = golden_of(file, objective, tensor->name);
        /* a key's bias moves all scores of a query alike: its gradient is zero but for rounding */
        double unit = fmax(values[0], 1e-2 * whole);
        float *own = file_order(f->model, t, g + tensor->first);
        double error = summary_error(values, own, tensor->count) / unit;
        free(own);
        if (!(error <= worst)) worst = error;
        if (error > tolerance) report(tensor->name, objective_names[objective], error);
    }
    return worst;
}

/* The gradient of one job, alone. */
static inline float *gradient_of(const zest_model *model, zest_cpu cpu, const zest_grad_options *options,
                                 zest_grad_job job, double *losses, double *mean) {
    zest_grad *grad;
    float *out = calloc(model->params.dimension, sizeof *out);
    assert_non_null(out);
    assert_done(zest_grad_new(model, zest_ops_for(cpu), options, &grad, error));
    job.gradient = out;
    if (job.factor == 0) job.factor = 1;
    assert_done(zest_grad_losses(grad, &job, losses, mean, error));
    assert_true(zest_grad_memory(grad) > 0);
    zest_grad_free(grad);
    return out;
}

#endif
