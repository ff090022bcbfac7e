#if defined(__x86_64__)
#include "backend/cpu/sweep.h"

const zest_ops zest_ops_avx2 = ZEST_SWEEP_OPS(ZEST_CPU_AVX2, &zest_noise_avx2);
#endif
