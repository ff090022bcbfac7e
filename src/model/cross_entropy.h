/* The arithmetic of cross-entropies, shared by the losses and by their gradients: both so take the same
 * numbers, bit for bit. */
#ifndef ZEST_MODEL_CROSS_ENTROPY_H
#define ZEST_MODEL_CROSS_ENTROPY_H

#include <math.h>
#include <string.h>

#include "base/exp.h"
#include "model/loss.h"

/* Refuses an objective whose parts do not fit together, or reach beyond the vocabulary. */
zest_status zest_model_objective_check(const zest_model *model, const zest_model_objective *objective,
                                       zest_error *error);

static inline double zest_log_sum_exp(const double *values, size_t count) {
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) most = values[i] > most ? values[i] : most;
    for (size_t i = 0; i < count; i++) sum += zest_exp(values[i] - most);
    return most + log(sum);
}

/* ---- The whole vocabulary ---- */

/* exp(x) for x <= 0, to about 2e-14; nothing below -700 matters beside the largest term, which is 1. Free of
 * branches and of libm, so that loops over it become vector code with the same bits everywhere. A NaN stays
 * one. */
static inline double zest_small_exp(double x) {
    static const double magic = 0x1.8p52; /* adding it leaves the nearest whole number in the low bits */
    x = x < -700 ? -700 : x;
    double shifted = x * 0x1.71547652b82fep0 + magic, n = shifted - magic;
    double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* 2^n */
    double power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* Eight running sums, element i in sum i % 8, added by halves. */
static inline double zest_sum_exp(const float *logits, size_t count, double most) {
    double sums[8] = {0};
    size_t whole = count / 8 * 8;
    for (size_t i = 0; i < whole; i += 8)
        for (size_t j = 0; j < 8; j++) sums[j] += zest_small_exp((double)logits[i + j] - most);
    for (size_t i = whole; i < count; i++) sums[i - whole] += zest_small_exp((double)logits[i] - most);
    for (size_t half = 4; half; half /= 2)
        for (size_t j = 0; j < half; j++) sums[j] += sums[j + half];
    return sums[0];
}

static inline void zest_row_sum_add(zest_logit_sum *row, const float *logits, size_t count) {
    float most = logits[0];
    for (size_t i = 1; i < count; i++) most = logits[i] > most ? logits[i] : most;
    if ((double)most > row->max) {
        row->sum *= zest_small_exp(row->max - (double)most);
        row->max = (double)most;
    }
    row->sum += zest_sum_exp(logits, count, row->max);
}

#endif
