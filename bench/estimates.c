/* Quality of gradient estimates for the same forward passes: bench/estimates [OPTIONS OF zest train] compares the
 * estimate of one batch with its gradient, which a backward pass gives.
 *
 *     batch      (1/k) sum_i (v_i'g) v_i              one set of k directions for the whole batch
 *     example    (1/(kB)) sum_e,i (v_ei'g_e) v_ei     k directions for each of the B examples
 *
 * Both have the mean g, the batch's gradient; their errors are |g|^2 d/k and mean_e |g_e|^2 d/(kB). The ratio is the
 * gain of a direction for each example. It is B when all examples agree on the gradient, and 1 when they have nothing in
 * common. Measured: (mean e'g)^2 / (mean |e|^2 |g|^2) over --steps estimates e from losses at x + rho v and x - rho v,
 * with dense and with rank-one directions, and with --covariance inputs:S with those of S rows of each layer's inputs; and
 * the slopes along v, as a root mean square (|v|^2 is d on average for all). The last line is JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grad/grad.h"
#include "model/input_rows.h"
#include "model/scales.h"
#include "optim/directions.h"
#include "optim/lanes.h"
#include "rng/noise.h"
#include "task/batch.h"
#include "train/load.h"

typedef struct {
    zest_options options;
    zest_loaded loaded;
    zest_loaded_data data;
    zest_grad *grad;
    const zest_vector_ops *ops;
    size_t k, batch, d;
    size_t inputs; /* --covariance */
    double rho, slopes;
    uint32_t *which;
    float *mean, *own, *noise, *estimate; /* (d): gradients of the batch and of an example, ... */
    zest_error error;
} bench;

static void need(bench *b, zest_status status) {
    if (!status) return;
    fprintf(stderr, "%s\n", b->error.message);
    exit(1);
}

static double dot(const float *x, const float *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

static void gradient(bench *b, const zest_model_objective *objective, float *out) {
    zest_grad_job job = {.objective = objective, .gradient = out, .factor = 1};
    memset(out, 0, b->d * sizeof *out);
    need(b, zest_grad_losses(b->grad, &job, NULL, NULL, &b->error));
}

/* |g|^2 of the batch, and the mean of |g_e|^2 of its examples. */
static void measure_gradients(bench *b, double *whole, double *each) {
    zest_batch batch = {0};
    need(b, zest_batch_make(&batch, &b->data.parts[0], b->which, b->batch, ZEST_BATCH_TRAIN, &b->error));
    gradient(b, &batch.objective, b->mean);
    *whole = dot(b->mean, b->mean, b->d);
    *each = 0;
    for (size_t e = 0; e < b->batch; e++) {
        need(b, zest_batch_make(&batch, &b->data.parts[0], b->which + e, 1, ZEST_BATCH_TRAIN, &b->error));
        gradient(b, &batch.objective, b->own);
        *each += dot(b->own, b->own, b->d) / (double)b->batch;
    }
    zest_batch_free(&batch);
}

static double slope_along(bench *b, const zest_direction *v, const zest_model_objective *objective) {
    zest_model_lane lanes[2] = {{*v, b->rho}, {*v, -b->rho}};
    double *losses = malloc(2 * b->batch * sizeof *losses), means[2];
    if (!losses) exit(1);
    need(b, zest_model_losses(b->loaded.runner, lanes, 2, objective, losses, means, NULL, &b->error));
    free(losses);
    return (means[0] - means[1]) / (2 * b->rho);
}

static void add(bench *b, const zest_direction *v, double c) {
    const zest_params *params = &b->loaded.model->params;
    for (size_t t = 0; t < params->count; t++) {
        const zest_tensor *tensor = &params->tensors[t];
        zest_direction_noise(b->ops, v, tensor, 0, tensor->count, b->noise);
        b->ops->fma_f32(b->estimate + tensor->first, b->estimate + tensor->first, (float)c, b->noise,
                        tensor->count);
    }
}

/* Adds an estimate from `count` examples, times `weight`. */
static void estimate(bench *b, uint64_t seed, const uint32_t *which, size_t count, double weight) {
    zest_batch batch = {0};
    need(b, zest_batch_make(&batch, &b->data.parts[0], which, count, ZEST_BATCH_TRAIN, &b->error));
    for (size_t i = 0; i < b->k; i++) {
        zest_direction v = {zest_seed(seed, i, 0), b->d, 1, ZEST_GAUSSIAN};
        double slope = slope_along(b, &v, &batch.objective);
        b->slopes += slope * slope * weight / (double)b->k;
        add(b, &v, weight / (double)b->k * slope);
    }
    zest_batch_free(&batch);
}

/* Rows of the inputs of examples that follow the batch. */
static void keep_inputs(bench *b) {
    zest_input_capture capture;
    zest_batch batch = {0};
    zest_model_lane center = {{0, b->d, 1, ZEST_GAUSSIAN}, 0};
    double loss[64];
    need(b, zest_input_capture_begin(&capture, b->loaded.model, b->inputs, 1, &b->error));
    b->loaded.runner->capture = &capture;
    for (size_t i = 0; i < b->inputs; i++) {
        const uint32_t *which = b->which + (b->batch + i) % b->data.parts[0].count;
        need(b, zest_batch_make(&batch, &b->data.parts[0], which, 1, ZEST_BATCH_TRAIN, &b->error));
        zest_input_capture_next(&capture, i);
        if (batch.objective.items > 64) exit(1);
        need(b,
             zest_model_losses(b->loaded.runner, &center, 1, &batch.objective, loss, NULL, NULL, &b->error));
    }
    b->loaded.runner->capture = NULL;
    need(b, zest_input_capture_end(&capture, &b->error));
    zest_input_capture_free(&capture);
    zest_batch_free(&batch);
}

static double quality(bench *b, size_t rank, int per_example, int with_inputs, size_t repeats) {
    double along = 0, square = 0;
    b->slopes = 0;
    zest_model_set_laws(b->loaded.model, rank, NULL);
    if (with_inputs) keep_inputs(b);
    for (size_t r = 0; r < repeats; r++) {
        memset(b->estimate, 0, b->d * sizeof *b->estimate);
        for (size_t e = 0; e < (per_example ? b->batch : 1); e++)
            estimate(b, 1000 * (r + 1) + e, b->which + e, per_example ? 1 : b->batch,
                     per_example ? 1 / (double)b->batch : 1);
        along += dot(b->estimate, b->mean, b->d) / (double)repeats;
        square += dot(b->estimate, b->estimate, b->d) / (double)repeats;
    }
    return along * along / square / dot(b->mean, b->mean, b->d);
}

static void open_bench(bench *b, int argc, char **argv) {
    zest_cpu cpu;
    zest_options_init(&b->options);
    need(b, zest_options_set_all(&b->options, ZEST_FOR_TRAIN, ZEST_TRAIN_DEFAULTS, "defaults", &b->error));
    for (int i = 1; i < argc; i++)
        need(b, zest_options_set_all(&b->options, ZEST_FOR_TRAIN, argv[i], argv[i], &b->error));
    need(b, zest_load_start(&b->loaded, &b->options, &b->error));
    need(b, zest_load_data(&b->data, &b->options, &b->loaded, ZEST_LOAD_TRAIN | ZEST_LOAD_DEV, &b->error));
    need(b, zest_cpu_detect(&cpu, &b->error));
    zest_grad_options how = {.threads = (int)zest_options_whole(&b->options, ZEST_OPTION_THREADS)};
    need(b, zest_grad_new(b->loaded.model, zest_ops_for(cpu), &how, &b->grad, &b->error));
    b->ops = zest_vector_ops_for(cpu);
    b->k = (size_t)zest_options_whole(&b->options, ZEST_OPTION_K);
    b->rho = zest_options_number(&b->options, ZEST_OPTION_RHO);
    b->d = (size_t)b->loaded.model->params.dimension;
    b->inputs = zest_directions_of(&b->options).inputs;
    size_t examples = b->data.parts[0].count;
    b->batch = (size_t)zest_options_whole(&b->options, ZEST_OPTION_BATCH);
    if (b->batch > examples) b->batch = examples;
    b->which = malloc(examples * sizeof *b->which);
    b->mean = malloc(4 * b->d * sizeof *b->mean);
    if (!b->which || !b->mean) exit(1);
    b->own = b->mean + b->d, b->noise = b->own + b->d, b->estimate = b->noise + b->d;
    zest_permutation_fill(zest_options_whole(&b->options, ZEST_OPTION_SEED), 0, b->which, examples);
}

int main(int argc, char **argv) {
    bench b = {0};
    enum { LAWS = 5 };
    double whole, each, measured[LAWS], slopes[LAWS];
    open_bench(&b, argc, argv);
    size_t repeats = (size_t)zest_options_whole(&b.options, ZEST_OPTION_STEPS);
    measure_gradients(&b, &whole, &each);
    double gain = (double)b.batch * whole / each, d = (double)b.d, k = (double)b.k;
    printf("%zu weights, batch %zu, k %zu: |g|^2 %.4g, mean |g_e|^2 %.4g, gain of a direction for each "
           "example %.2f\n",
           b.d, b.batch, b.k, whole, each, gain);
    int laws = b.inputs ? LAWS : 3;
    for (int law = 0; repeats && law < laws; law++) {
        static const char *const names[] = {"dense, batch", "rank 1, batch", "rank 1, example",
                                            "inputs, batch", "inputs, example"};
        int per_example = law == 2 || law == 4;
        measured[law] = quality(&b, law > 0, per_example, law > 2, repeats);
        slopes[law] = sqrt(b.slopes / (double)repeats);
        printf("  %-16s squared cosine %.4g, slope %.4g", names[law], measured[law], slopes[law]);
        if (law < 3) printf(", expected %.4g", 1 / (1 + d / k / (per_example ? gain : 1)));
        printf("\n");
    }
    printf("{\"weights\": %zu, \"batch\": %zu, \"k\": %zu, \"whole\": %.6g, \"each\": %.6g, \"gain\": %.4f",
           b.d, b.batch, b.k, whole, each, gain);
    if (repeats)
        printf(", \"dense\": %.6g, \"rank1\": %.6g, \"example\": %.6g", measured[0], measured[1],
               measured[2]);
    if (repeats && b.inputs)
        printf(", \"inputs\": %.6g, \"inputs_example\": %.6g, \"slope\": %.6g, \"inputs_slope\": %.6g",
               measured[3], measured[4], slopes[1], slopes[3]);
    printf("}\n");
    zest_grad_free(b.grad);
    zest_load_free_data(&b.data);
    zest_load_free(&b.loaded);
    zest_options_free(&b.options);
    free(b.which);
    free(b.mean);
    return 0;
}
