#include "backend/ops.h"

const zest_ops *zest_ops_for(zest_cpu cpu) {
    switch (cpu) {
#if defined(__x86_64__)
    case ZEST_CPU_AMX:
    case ZEST_CPU_AVX512BF16:
    case ZEST_CPU_AVX512: return &zest_ops_avx512;
    case ZEST_CPU_AVX2: return &zest_ops_avx2;
#endif
    default: return &zest_ops_plain;
    }
}
