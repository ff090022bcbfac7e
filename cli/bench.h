/* The benchmarks, one file each. */
#ifndef ZEST_CLI_BENCH_H
#define ZEST_CLI_BENCH_H

#include "base/cpu.h"
#include "cli/command.h"

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

#endif
