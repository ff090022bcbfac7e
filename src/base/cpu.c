/* Detection of the vector instructions of the CPU. */
#include <stdint.h>

#include "base/cpu.h"
#include "base/environment.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const char *const names[ZEST_CPU_COUNT] = {"plain", "avx2", "avx512", "avx512bf16", "amx"};

const char *zest_cpu_name(zest_cpu cpu) { return (unsigned)cpu < ZEST_CPU_COUNT ? names[cpu] : "unknown"; }

#if defined(__x86_64__)
/* Some compilers' __builtin_cpu_supports does not know "f16c". */
static int has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 29);
}

/* AMX tiles are 8 KiB of registers that Linux grants to a process on request; a second request is harmless. */
static int amx_granted(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    const unsigned bf16 = 1u << 22, tile = 1u << 24, saved = 1u << 17 | 1u << 18;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (bf16 | tile)) != (bf16 | tile)) return 0;
    /* State that the system saves at a context switch. The caller has checked that xgetbv exists. */
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & saved) == saved && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return 0;
#endif
}
#endif

static zest_cpu best(void) {
#if defined(__x86_64__)
    /* These include the check that the operating system saves the registers. */
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return ZEST_CPU_PLAIN;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw"))
        return ZEST_CPU_AVX2;
    if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vnni"))
        return ZEST_CPU_AVX512;
    return amx_granted() ? ZEST_CPU_AMX : ZEST_CPU_AVX512BF16;
#else
    return ZEST_CPU_PLAIN;
#endif
}

zest_status zest_cpu_detect(zest_cpu *cpu, zest_error *error) {
    int level = ZEST_CPU_COUNT - 1;
    zest_status status = zest_environment_choice(ZEST_ENVIRONMENT_CPU, &level, error);
    if (status) return status;
    zest_cpu found = best();
    *cpu = level < (int)found ? (zest_cpu)level : found;
    return ZEST_OK;
}
