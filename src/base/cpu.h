/* The vector instructions that this machine and its operating system support. */
#ifndef ZEST_BASE_CPU_H
#define ZEST_BASE_CPU_H

#include "base/error.h"

/* Every level includes those before it. The last two differ from AVX512 only in bf16 arithmetic. */
typedef enum {
    ZEST_CPU_PLAIN,
    ZEST_CPU_AVX2,   /* with FMA and F16C */
    ZEST_CPU_AVX512, /* F, DQ, VL and BW */
    ZEST_CPU_AVX512BF16,
    ZEST_CPU_AMX, /* tiles of bf16 */
    ZEST_CPU_COUNT
} zest_cpu;

const char *zest_cpu_name(zest_cpu cpu);

/* The best level, limited by the environment variable ZEST_CPU. An invalid value of the variable is an error;
 * *cpu is not set then. A level that the machine does not have is never chosen. For AMX the process requests
 * the use of tiles from the system; the level counts only if that is granted. */
zest_status zest_cpu_detect(zest_cpu *cpu, zest_error *error);

#endif
