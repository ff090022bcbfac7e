#include "analysis/choose_t.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    zest_tilt_options tilt;
    const double *losses;
    size_t steps, stride;
    double *coefficients; /* that nobody looks at */
} sample;

/* Mean effective sample size, and spread, at t over the steps that have a finite pair. */
static double effective_at(sample *s, double t, double *spread, size_t *used) {
    double sum = 0, spreads = 0;
    size_t n = 0;
    s->tilt.t = t;
    for (size_t i = 0; i < s->steps; i++) {
        zest_tilt_report report;
        zest_tilt_compute(&s->tilt, s->losses + i * s->stride, s->coefficients, &report);
        if (!(report.effective > 0) || isnan(report.spread)) continue;
        sum += report.effective;
        spreads += report.spread;
        n++;
    }
    if (spread) *spread = n ? spreads / (double)n : NAN;
    if (used) *used = n;
    return n ? sum / (double)n : NAN;
}

/* The t at which the mean is `target`, by halving an interval of logarithms; NaN: none within reach. */
static double tilt_for(sample *s, double target, double spread) {
    double low = -20, high = 40; /* of log2(t spread) */
    if (!(spread > 0) || !(effective_at(s, exp2(low) / spread, NULL, NULL) > target) ||
        !(effective_at(s, exp2(high) / spread, NULL, NULL) < target))
        return NAN;
    for (int i = 0; i < 48; i++) {
        double middle = 0.5 * (low + high);
        if (effective_at(s, exp2(middle) / spread, NULL, NULL) > target)
            low = middle;
        else
            high = middle;
    }
    return exp2(0.5 * (low + high)) / spread;
}

zest_status zest_choose_t(const zest_tilt_options *tilt, const double *losses, size_t steps, size_t stride,
                          zest_tilt_advice *advice, zest_error *error) {
    double k = (double)tilt->k;
    *advice = (zest_tilt_advice){.k = tilt->k, .t = tilt->t, .low = NAN, .half = NAN, .high = NAN};
    sample s = {.tilt = *tilt,
                .losses = losses,
                .steps = steps,
                .stride = stride,
                .coefficients = malloc(tilt->k * sizeof *s.coefficients)};
    if (!s.coefficients) return zest_error_memory(error, "the choice of t", tilt->k * sizeof(double));
    advice->effective = effective_at(&s, tilt->t, &advice->spread, &advice->steps);
    if (advice->steps && tilt->k > 1) {
        advice->low = tilt_for(&s, 0.9 * k, advice->spread);
        advice->half = tilt_for(&s, tilt->k > 2 ? k / 2 : 1.5, advice->spread);
        advice->high = tilt_for(&s, tilt->k > 2 ? 2 : 1.1, advice->spread);
    }
    free(s.coefficients);
    return ZEST_OK;
}

zest_status zest_choose_t_journal(zest_journal *journal, zest_tilt_advice *advice, zest_error *error) {
    size_t stride = 2 * (journal->tilt.k + journal->tilt.ball_pairs);
    uint64_t all = zest_journal_steps(journal);
    size_t steps = all < ZEST_TILT_ADVICE_STEPS ? (size_t)all : ZEST_TILT_ADVICE_STEPS;
    double *losses = malloc((steps * stride + 1) * sizeof *losses);
    if (!losses) return zest_error_memory(error, "the choice of t", steps * stride * sizeof *losses);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < steps && !status; i++) {
        zest_record record;
        status = zest_journal_read(journal, all - steps + i + 1, &record);
        if (!status) memcpy(losses + i * stride, record.losses, stride * sizeof *losses);
    }
    status = status ? zest_error_set(error, status, "%s: a record cannot be read", journal->path)
                    : zest_choose_t(&journal->tilt, losses, steps, stride, advice, error);
    free(losses);
    return status;
}

double zest_choose_t_round(double t) {
    if (!(t > 0) || isinf(t)) return t;
    double unit = pow(10, floor(log10(t)) - 1);
    return unit >= 1 ? round(t / unit) * unit : round(t / unit) / round(1 / unit);
}

void zest_choose_t_text(const zest_tilt_advice *a, zest_buffer *out) {
    zest_buffer_format(out, "spread %.2g, effective %.2f of %zu at t = %g", a->spread, a->effective, a->k,
                       a->t);
    if (isnan(a->half)) return;
    zest_buffer_format(out, "; a t of about %g would %s", zest_choose_t_round(a->half),
                       a->t < a->half ? "halve it" : "leave half of them");
    if (!isnan(a->low) && !isnan(a->high))
        zest_buffer_format(out, " (it acts from %g to %g)", zest_choose_t_round(a->low),
                           zest_choose_t_round(a->high));
}
