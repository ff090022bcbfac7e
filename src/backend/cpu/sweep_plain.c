#include "backend/cpu/sweep.h"

const zest_ops zest_ops_plain = ZEST_SWEEP_OPS(ZEST_CPU_PLAIN, &zest_noise_plain);
