/* The plain C operations, one file each, for backward.c to put into a table. */
#ifndef ZEST_GRAD_PLAIN_H
#define ZEST_GRAD_PLAIN_H

#include "grad/backward.h"

int zest_plain_norm_backward(const zest_norm_backward *job, int threads, zest_scratch *scratch);
int zest_plain_attention_backward(const zest_attention_backward *job, int threads, zest_scratch *scratch);
int zest_plain_attention_masked(const zest_attention_backward *job, int threads, zest_scratch *scratch);
void zest_plain_activate(float *out, const float *x, const float *up, size_t count,
                         zest_activation activation, int threads, zest_scratch *scratch);
void zest_plain_activate_backward(float *d, float *d_up, const float *x, const float *up, size_t count,
                                  zest_activation activation, int threads, zest_scratch *scratch);
int zest_plain_sum_columns(const float *x, size_t stride, size_t rows, size_t width, float *out, int threads,
                           zest_scratch *scratch);
void zest_plain_drop(float *out, const float *x, const float *residual, size_t count, const zest_mask *mask,
                     int threads, zest_scratch *scratch);
int zest_plain_copy(const zest_copy_rows *job, int threads, zest_scratch *scratch);
int zest_plain_collect(const zest_collect *job, int threads, zest_scratch *scratch);
void zest_plain_negate(float *out, const float *x, size_t count, int threads, zest_scratch *scratch);
int zest_plain_words_backward(const zest_words_backward *job, int threads, zest_scratch *scratch);
int zest_plain_logits_backward(const zest_logits_backward *job, int threads, zest_scratch *scratch);

/* The end of every level's table: operations that are no work beside the others. */
#define ZEST_PLAIN_OF_ROWS                                                             \
    zest_plain_copy, zest_plain_collect, zest_plain_negate, zest_plain_words_backward, \
        zest_plain_logits_backward

/* Factors of `count` elements from `first` on: 0 or the mask's scale. */
void zest_plain_mask(const zest_noise *noise, const zest_mask *mask, uint64_t first, size_t count,
                     float *out);

#endif
