/* What first-order methods and the search for eigenvalues cost beside their gradients:
 * bench/optimizers [MILLIONS] [f32|bf16] [cpu|cuda] [THREADS] prints the milliseconds of a step of each method
 * whose gradients are free, for that many million weights, and of what a step of Lanczos's process does to
 * each vector of its basis. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sharpness/sharpness_internal.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/option.h"
#include "baselines/optimizer.h"

enum { STEPS = 5 };

static void stop(const char *why) {
    fprintf(stderr, "bench/optimizers: %s\n", why);
    exit(1);
}

static zest_status free_of_charge(void *user, const zest_eval_point *at, size_t number, float *gradient,
                                  zest_grad_weigh *weigh, void *weigher, double *loss, zest_error *error) {
    (void)user, (void)at, (void)gradient, (void)error;
    *loss = 1 + 0.01 * (double)number; /* increasing: tsam rescales its sum each time */
    if (weigh) (void)weigh(weigher, *loss);
    return ZEST_OK;
}

static void wait_for(zest_device *device, const void *data) {
    char byte;
    if (device && device->operations->device->download(device, &byte, data, 1)) stop(device->error.message);
}

static void time_method(const zest_params *params, zest_optimizer_options options, const char *name) {
    zest_error error = {0};
    zest_optimizer *method;
    zest_optimizer_closure closure = {free_of_charge, NULL};
    zest_cpu cpu;
    if (zest_cpu_detect(&cpu, &error) ||
        zest_optimizer_new(params, zest_vector_ops_for(cpu), &options, &method, &error))
        stop(error.message);
    double best = 1e9;
    for (uint64_t step = 0; step < STEPS; step++) {
        double began = zest_clock_now();
        if (zest_optimizer_step(method, &closure, step, 1e-3, NULL, &error)) stop(error.message);
        wait_for(options.device, params->tensors[0].data);
        double seconds = zest_clock_now() - began;
        if (seconds < best) best = seconds;
    }
    printf("%-24s %9.3f ms a step\n", name, 1e3 * best);
    zest_optimizer_free(method);
}

static void time_methods(const zest_params *params, int threads, zest_device *device) {
    for (int kind = 0; kind < ZEST_OPTIMIZER_COUNT; kind++)
        for (int more = 0; more < 2; more++) {
            zest_optimizer_options options = zest_optimizer_defaults((zest_optimizer_kind)kind);
            char name[64], method[32];
            options.threads = threads, options.device = device;
            if (more) options.momentum = 0.9, options.ascent = 0.01;
            if (more && kind != ZEST_OPTIMIZER_SGD && kind != ZEST_OPTIMIZER_TSAM) continue;
            snprintf(name, sizeof name, "%s%s",
                     zest_option_name_methods(1u << (ZEST_CHOICE_SGD + kind), "", method, sizeof method),
                     !more                        ? ""
                     : kind == ZEST_OPTIMIZER_SGD ? ", momentum"
                                                  : ", momentum, ascent");
            time_method(params, options, name);
        }
}

/* Orthogonalisation of a product against a vector: two dot products and two subtractions. */
static void time_vectors(size_t count, int threads, zest_device *device) {
    zest_error error = {0};
    zest_cpu cpu;
    if (zest_cpu_detect(&cpu, &error)) stop(error.message);
    zest_vector_space space = {count, zest_vector_ops_for(cpu), threads, device};
    const zest_vector_table *vectors = zest_vector_operations(&space);
    float *v = zest_vector_floats(&space, 1);
    double *w = zest_vector_doubles(&space, 1), best = 1e9, sum = 0;
    if (!v || !w) stop("memory is short");
    vectors->normal(&space, v, 1);
    vectors->clear(&space, w, sizeof *w);
    for (int i = 0; i < STEPS; i++) {
        double began = zest_clock_now();
        for (int pass = 0; pass < 2; pass++) {
            sum += vectors->dot(&space, v, w);
            vectors->add(&space, w, 0.5, v);
        }
        wait_for(device, w);
        double seconds = zest_clock_now() - began;
        if (seconds < best) best = seconds;
    }
    printf("%-24s %9.3f ms a vector (%.6g)\n", "Lanczos's process", 1e3 * best, sum);
    zest_vector_free(&space, v);
    zest_vector_free(&space, w);
}

/* Weights of the size of a model, in tensors of a million. */
static zest_params make_weights(size_t millions, zest_dtype dtype, zest_device *device) {
    const size_t each = 1000000, size = zest_dtype_size(dtype);
    zest_tensor *tensors = calloc(millions, sizeof *tensors);
    char *data = zest_memory_new(millions * each * size), *there = data;
    if (!tensors || !data) stop("memory is short");
    memset(data, 0, millions * each * size);
    if (device) {
        there = device->operations->device->allocate(device, millions * each * size);
        if (!there || device->operations->device->upload(device, there, data, millions * each * size))
            stop(device->error.message);
        free(data);
    }
    for (size_t i = 0; i < millions; i++)
        tensors[i] = (zest_tensor){"w", dtype, i * each, each, there + i * each * size, {0}};
    return (zest_params){tensors, millions, millions * each};
}

int main(int argc, char **argv) {
    size_t millions = argc > 1 ? strtoul(argv[1], NULL, 10) : 41;
    zest_dtype dtype = argc > 2 && !strcmp(argv[2], "bf16") ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F32;
    int there = argc > 3 && !strcmp(argv[3], "cuda"), threads = argc > 4 ? atoi(argv[4]) : 0;
    zest_device *device = NULL;
    zest_error error = {0};
    if (!millions) stop("how many million weights?");
    if (there && zest_device_open(ZEST_DEVICE_CUDA, ZEST_COMPUTE_F32, &device, &error)) stop(error.message);
    zest_params params = make_weights(millions, dtype, device);
    printf("%zu million weights, %s, %s\n", millions, zest_dtype_name(dtype),
           device ? device->operations->device->name(device) : "in the host's memory");
    time_methods(&params, threads, device);
    time_vectors((size_t)params.dimension, threads, device);
    if (!device) free(params.tensors[0].data);
    free((void *)params.tensors);
    zest_device_close(device);
    return 0;
}
