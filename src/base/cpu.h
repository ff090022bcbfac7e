/* Which vector instructions this machine and its operating system offer. */
#ifndef ZEST_BASE_CPU_H
#define ZEST_BASE_CPU_H

#include "base/error.h"

/* Every level includes those before it. The last two differ from AVX512 in bf16 arithmetic alone. */
typedef enum {
    ZEST_CPU_PLAIN,
    ZEST_CPU_AVX2,   /* with FMA and F16C */
    ZEST_CPU_AVX512, /* F, DQ, VL and BW */
    ZEST_CPU_AVX512BF16,
    ZEST_CPU_AMX, /* tiles of bf16 */
    ZEST_CPU_COUNT
} zest_cpu;

const char *zest_cpu_name(zest_cpu cpu);

/* The best level, or what the environment variable ZEST_CPU holds it down to. An error when the variable names
 * no level; then *cpu is not set. A level that the machine lacks is never chosen. Where AMX is found the
 * process asks the system for the use of its tiles; it is found only if that is granted. */
zest_status zest_cpu_detect(zest_cpu *cpu, zest_error *error);

#endif
