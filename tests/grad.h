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

static inline void open_fixture(fixture *f, const char *name, zest_model_storage storage) {
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

static inline void close_fixture(fixture *f) {
    zest_model_free(f->model);
    zest_safetensors_close(f->golden.file);
}

/* The gradient of one job, alone. */
static inline float *gradient_of(const zest_model *model, zest_cpu cpu, const zest_grad_options *options,
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

#endif
