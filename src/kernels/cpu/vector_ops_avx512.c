#if defined(__x86_64__)
#include "kernels/cpu/vector_ops.h"

const zest_vector_ops zest_vector_ops_avx512 = ZEST_SWEEP_OPS(ZEST_CPU_AVX512, &zest_noise_avx512);
#endif
