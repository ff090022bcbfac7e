#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[ZEST_CPU_COUNT] = {"plain", "avx2", "avx512"};

const char *zest_cpu_name(zest_cpu cpu) { return (unsigned)cpu < ZEST_CPU_COUNT ? names[cpu] : "unknown"; }

static zest_cpu best(void) {
#if defined(__x86_64__)
    /* These ask the operating system too: registers it does not save do not count. */
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return ZEST_CPU_PLAIN;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return ZEST_CPU_AVX512;
    return ZEST_CPU_AVX2;
#else
    return ZEST_CPU_PLAIN;
#endif
}

int zest_cpu_detect(zest_cpu *cpu) {
    zest_cpu found = best();
    const char *wanted = getenv("ZEST_CPU");
    if (wanted && *wanted) {
        int level = 0;
        while (level < ZEST_CPU_COUNT && strcmp(wanted, names[level])) level++;
        if (level == ZEST_CPU_COUNT) return 0;
        if (level < (int)found) found = (zest_cpu)level;
    }
    *cpu = found;
    return 1;
}
