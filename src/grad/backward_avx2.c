/* The backward pass with AVX2. */
#if defined(__x86_64__)
#include "grad/backward.h"

#include "kernels/cpu/simd_avx2.h"

enum { PRODUCT_ROWS = 5 };
static inline vec v_step(vec x) {
    return _mm256_and_ps(_mm256_cmp_ps(x, v_set(0.0f), _CMP_GT_OQ), v_set(1.0f));
}
#include "grad/backward_simd.h"

const zest_backward zest_backward_avx2 = {ZEST_CPU_AVX2,    norm_backward, attention_backward,
                                          attention_masked, activate,      activate_backward,
                                          sum_columns,      drop,          ZEST_PLAIN_ROW_OPS};
#endif
