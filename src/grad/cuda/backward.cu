#include "grad/cuda/backward.cuh"

extern "C" const zest_backward zest_backward_cuda = {ZEST_CPU_PLAIN,
                                                     zest_backward_cuda_norm,
                                                     zest_backward_cuda_attention,
                                                     zest_backward_cuda_attention_masked,
                                                     zest_backward_cuda_activate,
                                                     zest_backward_cuda_activate_back,
                                                     zest_backward_cuda_sum_columns,
                                                     zest_backward_cuda_drop,
                                                     zest_backward_cuda_copy,
                                                     zest_backward_cuda_collect,
                                                     zest_backward_cuda_negate,
                                                     zest_backward_cuda_words,
                                                     zest_backward_cuda_logits};
