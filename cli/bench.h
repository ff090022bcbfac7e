/* The benchmarks of zest bench. */
#ifndef ZEST_CLI_BENCH_H
#define ZEST_CLI_BENCH_H

#include "base/cpu.h"
#include "cli/command.h"
#include "model/loss.h"
#include "optim/step.h"

int zest_bench_noise(const zest_options *options, zest_cpu cpu);
int zest_bench_update(const zest_options *options, zest_cpu cpu);
int zest_bench_gemm(const zest_options *options, zest_cpu cpu);
int zest_bench_attention(const zest_options *options, zest_cpu cpu);
int zest_bench_step(const zest_options *options, zest_cpu cpu);
int zest_bench_descent(const zest_options *options, zest_cpu cpu);

/* The number of threads from --threads. */
int zest_bench_threads(const zest_options *options);

/* The model configuration of --shape; for an unknown name the error lists the known ones. */
zest_status zest_bench_shape(const zest_options *options, const char **config, zest_error *error);

/* Start offsets of contiguous sequences, count + 1 of them: all --tokens long, or with the lengths of
 * SST-2's prompts. */
void zest_bench_lengths(const zest_options *options, size_t count, uint32_t *starts);

/* One ZEST step of a shape with random weights; shared by the benchmarks on the CPU and on a device. */

/* A batch with one prediction per sequence. */
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
    double lr; /* learning rate; 0: almost none */
} zest_bench_job;

typedef struct {
    double total, forward, update, linear, attention, noise, operations;
} zest_bench_times;

/* operations: the CPU's, timed or not. Discard it in any case. */
zest_status zest_bench_prepare(zest_bench_job *b, const zest_options *options, const zest_ops *operations,
                               zest_cpu cpu, zest_error *error);
void zest_bench_discard(zest_bench_job *b);
zest_status zest_bench_take_step(zest_bench_job *b, uint64_t index, zest_bench_times *t, zest_error *error);

int zest_bench_step_device(const zest_options *options, zest_cpu cpu);

#endif
