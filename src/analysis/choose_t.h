/* Choosing t from losses that a run has paid for anyway.
 *
 * The tilt weighs pair i by exp(t f+_i) + exp(t f-_i): it feels t times the spread of the losses, nothing
 * else (appendix B.8 of the paper bounds the useful t by the range of the losses in the same way). How many
 * of the k pairs carry a step, the effective sample size, falls from k at t = 0 to 1. So the losses of a few
 * steps say at which t it would be half of k, and between which t the tilt does anything without leaving all
 * to one pair. */
#ifndef ZEST_ANALYSIS_CHOOSE_T_H
#define ZEST_ANALYSIS_CHOOSE_T_H

#include "base/buffer.h"
#include "core/journal.h"

typedef struct {
    size_t steps, k;  /* steps that were looked at */
    double t;         /* of the run */
    double spread;    /* mean over steps of the standard deviation of the losses of a step */
    double effective; /* mean over steps of the effective sample size at t */
    /* t at which that mean is 0.9 k, k/2 and 2 (of two pairs: 1.8, 1.5 and 1.1); NaN: at none, as with one
     * pair or without any spread */
    double low, half, high;
} zest_tilt_advice;

enum { ZEST_TILT_ADVICE_STEPS = 64 }; /* enough for two digits of t */

/* losses: of each step 2 (k + ball_pairs), as zest_tilt takes them, `stride` numbers from step to step. */
zest_status zest_choose_t(const zest_tilt_options *tilt, const double *losses, size_t steps, size_t stride,
                          zest_tilt_advice *advice, zest_error *error);
/* From the last steps on record; steps = 0 in the advice when there are none. */
zest_status zest_choose_t_journal(zest_journal *journal, zest_tilt_advice *advice, zest_error *error);

/* "spread 0.012, effective 4.99 of 5 at t = 5; a t of about 60 would halve it (it acts from 27 to 150)" */
void zest_choose_t_text(const zest_tilt_advice *advice, zest_buffer *out);
/* t to two digits, which is what these losses can tell. */
double zest_choose_t_round(double t);

#endif
