#include "grad/backward.h"

#include "grad/plain.h"

const zest_backward zest_backward_plain = {ZEST_CPU_PLAIN,
                                           zest_plain_norm_backward,
                                           zest_plain_attention_backward,
                                           zest_plain_attention_masked,
                                           zest_plain_activate,
                                           zest_plain_activate_backward,
                                           zest_plain_sum_columns,
                                           zest_plain_drop,
                                           ZEST_PLAIN_OF_ROWS};

const zest_backward *zest_backward_for(const zest_forward *operations) {
#if defined(ZEST_CUDA)
    if (operations->device) return &zest_backward_cuda;
#endif
    switch (operations->cpu) {
#if defined(__x86_64__)
    case ZEST_CPU_AMX:
    case ZEST_CPU_AVX512BF16:
    case ZEST_CPU_AVX512: return &zest_backward_avx512;
    case ZEST_CPU_AVX2: return &zest_backward_avx2;
#endif
    default: return &zest_backward_plain;
    }
}
