#include "backend/forward.h"

#include "backend/cpu/levels.h"

const zest_forward *zest_forward_for(zest_cpu cpu) {
    switch (cpu) {
#if defined(__x86_64__)
    case ZEST_CPU_AMX: return &zest_forward_amx;
    case ZEST_CPU_AVX512BF16: return &zest_forward_avx512bf16;
    case ZEST_CPU_AVX512: return &zest_forward_avx512;
    case ZEST_CPU_AVX2: return &zest_forward_avx2;
#endif
    default: return &zest_forward_plain;
    }
}
