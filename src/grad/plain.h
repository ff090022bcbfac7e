/* The plain C operations, one file each, for backward_plain.c to put into a table. */
#ifndef ZEST_GRAD_PLAIN_H
#define ZEST_GRAD_PLAIN_H

#include "grad/backward.h"

int zest_plain_norm_backward(const zest_norm_backward *job, int threads, zest_scratch *scratch);
int zest_plain_attention_backward(const zest_attention_backward *job, int threads, zest_scratch *scratch);
int zest_plain_attention_masked(const zest_attention_backward *job, int threads, zest_scratch *scratch);
void zest_plain_activate(float *out, const float *x, const float *up, size_t count,
                         zest_activation activation, int threads);
void zest_plain_activate_backward(float *d, float *d_up, const float *x, const float *up, size_t count,
                                  zest_activation activation, int threads);
int zest_plain_sum_columns(const float *x, size_t stride, size_t rows, size_t width, float *out, int threads,
                           zest_scratch *scratch);
void zest_plain_drop(float *out, const float *x, const float *residual, size_t count, const zest_mask *mask,
                     int threads);

/* Factors of `count` elements from `first` on: 0 or the mask's scale. */
void zest_plain_mask(const zest_noise *noise, const zest_mask *mask, uint64_t first, size_t count,
                     float *out);

#endif
