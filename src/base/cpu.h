/* Which vector instructions this machine and its operating system offer. */
#ifndef ZEST_BASE_CPU_H
#define ZEST_BASE_CPU_H

typedef enum { ZEST_CPU_PLAIN, ZEST_CPU_AVX2, ZEST_CPU_AVX512, ZEST_CPU_COUNT } zest_cpu;

const char *zest_cpu_name(zest_cpu cpu);

/* The best level, or what the environment variable ZEST_CPU holds it down to. Returns 0 when the variable
 * names no level; then *cpu is not set. A level that the machine lacks is never chosen. */
int zest_cpu_detect(zest_cpu *cpu);

#endif
