/* The benchmarks, one file each. */
#ifndef ZEST_CLI_BENCH_H
#define ZEST_CLI_BENCH_H

#include "base/cpu.h"
#include "cli/command.h"
#include "optim/step.h"
#include "model/loss.h"

int zest_bench_noise(const zest_options *options, zest_cpu cpu);
int zest_bench_update(const zest_options *options, zest_cpu cpu);
int zest_bench_gemm(const zest_options *options, zest_cpu cpu);
int zest_bench_attention(const zest_options *options, zest_cpu cpu);
int zest_bench_step(const zest_options *options, zest_cpu cpu);
int zest_bench_descent(const zest_options *options, zest_cpu cpu);

/* The threads that --threads asks for. */
int zest_bench_threads(const zest_options *options);

/* The configuration of --shape; an unknown name is answered with those that are known. */
zest_status zest_bench_shape(const zest_options *options, const char **config, zest_error *error);

/* Starts of sequences behind each other: all --tokens long, or with the lengths of SST-2's prompts. count + 1
 * numbers. */
void zest_bench_lengths(const zest_options *options, size_t count, uint32_t *starts);

/* One ZEST step of a shape with random weights: what the benchmark on the CPU and on a device share. */

/* A batch with an answer asked of every sequence. */
typedef struct {
    uint32_t *tokens, *starts, *rows, *targets, *item_starts, *answers;
    zest_model_batch batch;
    zest_model_objective objective;
    size_t count;
} zest_bench_task;

typedef struct {
    zest_model *model;
    zest_model_runner *runner;
    zest_step step;
    zest_bench_task work;
    double *losses, *means;
    zest_model_lane *lanes;
    double lr; /* of the steps; 0: next to nothing */
} zest_bench_job;

typedef struct {
    double total, forward, update, linear, attention, noise, operations;
} zest_bench_times;

/* operations: the CPU's, timed or not. Discard it whatever prepare says. */
zest_status zest_bench_prepare(zest_bench_job *b, const zest_options *options, const zest_ops *operations,
                               zest_cpu cpu, zest_error *error);
void zest_bench_discard(zest_bench_job *b);
zest_status zest_bench_take_step(zest_bench_job *b, uint64_t index, zest_bench_times *t, zest_error *error);

int zest_bench_step_device(const zest_options *options, zest_cpu cpu);

#endif
