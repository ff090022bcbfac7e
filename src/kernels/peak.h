/* The ceiling of a machine: how many multiply-adds a second its best instructions do when nothing has to be
 * fetched. What a benchmark reaches is set beside the ceiling of the same run, since clocks and neighbours
 * change. */
#ifndef ZEST_KERNELS_PEAK_H
#define ZEST_KERNELS_PEAK_H

#include "kernels/ops.h"

/* Floating-point operations a second (a multiply-add counts as two) of so many threads at once, best of some
 * rounds of a few milliseconds each. Random operands: power, and so the clock, depends on the data. */
double zest_peak_measure(zest_cpu cpu, zest_compute compute, int threads);

/* One round for the levels: multiply-adds in registers, `loops` times; returns the operations done. `data`
 * holds 1024 random floats; `sink` takes what keeps the compiler from leaving the work out. */
typedef double zest_peak_round(long loops, const float *data, float *sink);
zest_peak_round zest_ceiling_plain, zest_ceiling_avx2, zest_ceiling_avx512, zest_ceiling_avx512bf16,
    zest_ceiling_amx;

#endif
