/* Losses of lanes on a batch: what a training step or an evaluation wants from the model. Logits are fp32;
 * what is made of them is fp64. */
#ifndef ZEST_MODEL_LOSS_H
#define ZEST_MODEL_LOSS_H

#include <math.h>
#include <string.h>

#include "base/exp.h"
#include "model/forward_pass.h"

/* An item is what gets one score. Its rows are rows of the packed batch, not of a sequence: items may share
 * them, as choices share the last row of their prompt. Only these rows enter the head. */
typedef enum {
    /* Cross-entropy over the logits of the label words, one row an item (the mask). Only those words' rows of
     * the head are read. Examples are the items; scores: the logits, (items, words). */
    ZEST_LOSS_LABEL_WORDS,
    /* Language modelling: minus the log-likelihood of the targets, each at its row, over the whole
     * vocabulary. Examples are the items, the loss of one is its sum; scores: minus that. The mean is over
     * all tokens, not over examples. */
    ZEST_LOSS_TOKENS,
    /* Multiple choice: an item's score is the mean log-likelihood of its targets, an example's loss the
     * cross-entropy of its items' scores. */
    ZEST_LOSS_CHOICES
} zest_model_objective_kind;

typedef struct {
    zest_model_objective_kind kind;
    const zest_model_batch *batch;
    size_t items;
    const uint32_t *item_starts; /* TOKENS and CHOICES: items + 1 offsets into rows and targets */
    const uint32_t *rows;        /* LABEL_WORDS: one an item */
    const uint32_t *targets;     /* TOKENS and CHOICES: the token that should follow the row */
    const uint32_t *words;       /* LABEL_WORDS: ids in the vocabulary */
    size_t word_count;
    size_t examples;                /* CHOICES; else the items are the examples */
    const uint32_t *example_starts; /* CHOICES: examples + 1 offsets into the items */
    const uint32_t *answers; /* LABEL_WORDS and CHOICES: the right word or choice of each example, from 0 */
} zest_model_objective;

/* losses: (lanes, examples). means, of each lane's losses in order: (lanes), or NULL. scores: (lanes, items),
 * for LABEL_WORDS (lanes, items, words); or NULL. */
zest_status zest_model_losses(zest_model_runner *runner, const zest_model_lane *lanes, size_t lane_count,
                              const zest_model_objective *objective, double *losses, double *means,
                              double *scores, zest_error *error);

/* ---- Arithmetic shared with the gradient, which so takes the same numbers, bit for bit ---- */

/* Refuses an objective whose parts do not fit together, or reach beyond the vocabulary. */
zest_status zest_model_objective_check(const zest_model *model, const zest_model_objective *objective,
                                       zest_error *error);
size_t zest_loss_rows(const zest_model_objective *objective); /* that enter the head */
size_t zest_loss_examples(const zest_model_objective *objective);
/* The scores that one example chooses between: their number, and the first. Not of TOKENS. */
size_t zest_loss_choices(const zest_model_objective *objective, size_t example, size_t *first);
double zest_loss_of_example(const zest_model_objective *objective, const double *scores, size_t example);
/* The sum of the losses is divided by this. */
double zest_loss_mean_divisor(const zest_model_objective *objective);
/* The means (lanes) of losses (lanes, examples), summed in the order of the examples. */
void zest_loss_means(const zest_model_objective *objective, const double *losses, size_t lane_count,
                     double *means);
/* TOKENS and CHOICES: adds the logits of words first .. first+count-1, (rows, count), to the sums of the rows;
 * then the items' scores out of these sums. */
void zest_loss_add_block(const zest_model_objective *objective, size_t first, size_t count,
                         const float *logits, int threads, zest_logit_sum *sums);
void zest_loss_score_items(const zest_model_objective *objective, const zest_logit_sum *sums, double *scores);

static inline double zest_log_sum_exp(const double *values, size_t count) {
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) max = values[i] > max ? values[i] : max;
    for (size_t i = 0; i < count; i++) sum += zest_exp(values[i] - max);
    return max + log(sum);
}

/* exp(x) for x <= 0, to about 2e-14; nothing below -700 matters next to the largest term, which is 1. Free of
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
static inline double zest_sum_exp(const float *logits, size_t count, double max) {
    double sums[8] = {0};
    size_t whole = count / 8 * 8;
    for (size_t i = 0; i < whole; i += 8)
        for (size_t j = 0; j < 8; j++) sums[j] += zest_small_exp((double)logits[i + j] - max);
    for (size_t i = whole; i < count; i++) sums[i - whole] += zest_small_exp((double)logits[i] - max);
    for (size_t half = 4; half; half /= 2)
        for (size_t j = 0; j < half; j++) sums[j] += sums[j + half];
    return sums[0];
}

static inline void zest_row_sum_add(zest_logit_sum *row, const float *logits, size_t count) {
    float max = logits[0];
    for (size_t i = 1; i < count; i++) max = logits[i] > max ? logits[i] : max;
    if ((double)max > row->max) {
        row->sum *= zest_small_exp(row->max - (double)max);
        row->max = (double)max;
    }
    row->sum += zest_sum_exp(logits, count, row->max);
}

#endif
