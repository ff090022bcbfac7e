/* One ZEST step of a shape with random weights: what the benchmark on the CPU and on a device share. */
#ifndef ZEST_CLI_BENCH_STEP_H
#define ZEST_CLI_BENCH_STEP_H

#include "cli/bench.h"
#include "core/stepper.h"
#include "models/losses.h"

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
    zest_stepper stepper;
    zest_bench_task work;
    double *losses, *means;
    zest_model_lane *lanes;
    double lr; /* of the steps; 0: next to nothing */
} zest_bench_job;

typedef struct {
    double total, forward, update, linear, attention, noise, operations;
} zest_bench_times;

/* operations: the CPU's, timed or not. Discard it whatever prepare says. */
zest_status zest_bench_prepare(zest_bench_job *b, const zest_options *options, const zest_forward *operations,
                               zest_cpu cpu, zest_error *error);
void zest_bench_discard(zest_bench_job *b);
zest_status zest_bench_take_step(zest_bench_job *b, uint64_t index, zest_bench_times *t, zest_error *error);

int zest_bench_step_device(const zest_options *options, zest_cpu cpu);

#endif
