/* The backward pass with AVX-512. */
#if defined(__x86_64__)
#include "grad/backward.h"

#include "kernels/cpu/simd_avx512.h"

enum { PRODUCT_ROWS = 8 };
static inline vec v_step(vec x) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, v_set(0.0f), _CMP_GT_OQ), v_set(1.0f));
}
#include "grad/backward_simd.h"

const zest_backward zest_backward_avx512 = {ZEST_CPU_AVX512,  norm_backward, attention_backward,
                                            attention_masked, activate,      activate_backward,
                                            sum_columns,      drop,          ZEST_PLAIN_ROW_OPS};
#endif
