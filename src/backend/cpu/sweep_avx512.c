#if defined(__x86_64__)
#include "backend/cpu/sweep.h"

const zest_ops zest_ops_avx512 = ZEST_SWEEP_OPS(ZEST_CPU_AVX512, &zest_noise_avx512);
#endif
