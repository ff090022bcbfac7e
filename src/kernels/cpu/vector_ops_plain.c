#include "kernels/cpu/vector_ops.h"

const zest_vector_ops zest_vector_ops_plain = ZEST_SWEEP_OPS(ZEST_CPU_PLAIN, &zest_noise_plain);
