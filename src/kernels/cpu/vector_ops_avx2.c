#if defined(__x86_64__)
#include "kernels/cpu/vector_ops.h"

const zest_vector_ops zest_vector_ops_avx2 = ZEST_SWEEP_OPS(ZEST_CPU_AVX2, &zest_noise_avx2);
#endif
