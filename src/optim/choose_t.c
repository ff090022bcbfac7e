/* Advice on t: see choose_t.h. */
#include "optim/choose_t.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/auto_t.h"

/* ---- Losses in parts ---- */

typedef enum { WHOLE, SLOPE, CURVATURE, PARTS } loss_part;

typedef struct {
    zest_tilt_options tilt; /* of the whole; t is set for each question */
    size_t steps, stride;
    const double *losses;  /* as the run has them */
    double *parts[PARTS];  /* 2k losses a step: NULL, those with a_i alone, those with b_i alone */
    double *now, *without; /* coefficients at t, and at 0 */
} sample;

static void split(const sample *s) {
    size_t k = s->tilt.k;
    for (size_t i = 0; i < s->steps; i++) {
        const double *from = s->losses + i * s->stride;
        double *slope = s->parts[SLOPE] + i * 2 * k, *curvature = s->parts[CURVATURE] + i * 2 * k;
        for (size_t j = 0; j < k; j++) {
            double a = 0.5 * (from[2 * j] - from[2 * j + 1]);
            double b = 0.5 * from[2 * j] + 0.5 * from[2 * j + 1]; /* not finite: the pair is left out */
            slope[2 * j] = a;
            slope[2 * j + 1] = -a;
            curvature[2 * j] = curvature[2 * j + 1] = b;
        }
    }
}

/* The tilt of one step's losses, or of a part of them. */
static void tilt_step(sample *s, loss_part part, size_t step, double t, double *out,
                      zest_tilt_report *report) {
    zest_tilt_options tilt = s->tilt;
    size_t stride = part == WHOLE ? s->stride : 2 * tilt.k;
    tilt.t = t;
    if (part != WHOLE || t == 0) tilt.ball_pairs = 0; /* at 0 the denominator is 1 whatever the losses */
    zest_tilt_compute(&tilt, (part == WHOLE ? s->losses : s->parts[part]) + step * stride, out, report);
}

static int is_used(const zest_tilt_report *report) { return report->effective > 0 && !isnan(report->spread); }

/* Mean effective sample size over the steps that have a finite pair. */
static double effective_at(sample *s, loss_part part, double t) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->steps; i++) {
        zest_tilt_report report;
        tilt_step(s, part, i, t, s->now, &report);
        if (is_used(&report)) sum += report.effective, n++;
    }
    return n ? sum / (double)n : NAN;
}

/* ---- How much the tilt changes a step ---- */

/* exp(t b_i) as weights with mean 1, into s->now (k). */
static void curvature_weights(sample *s, size_t step, double t) {
    const double *b = s->parts[CURVATURE] + step * 2 * s->tilt.k;
    double most = -HUGE_VAL, sum = 0;
    size_t n = 0;
    for (size_t j = 0; j < s->tilt.k; j++)
        if (isfinite(b[2 * j])) most = fmax(most, b[2 * j]), n++;
    for (size_t j = 0; j < s->tilt.k; j++)
        sum += s->now[j] = isfinite(b[2 * j]) ? exp(t * (b[2 * j] - most)) : 0;
    for (size_t j = 0; j < s->tilt.k; j++) s->now[j] *= (double)n / sum;
}

/* |g_t - g_0|^2 / |g_0|^2 of one step; NaN: it has no direction. */
static double change_of(sample *s, loss_part part, size_t step, double t) {
    zest_tilt_report report;
    double change = 0, length = 0;
    tilt_step(s, WHOLE, step, 0, s->without, &report);
    if (!is_used(&report)) return NAN;
    if (part == CURVATURE)
        curvature_weights(s, step, t);
    else
        tilt_step(s, part, step, t, s->now, &report);
    for (size_t j = 0; j < s->tilt.k; j++) {
        double now = part == CURVATURE ? s->now[j] * s->without[j] : s->now[j];
        change += (now - s->without[j]) * (now - s->without[j]);
        length += s->without[j] * s->without[j];
    }
    return length > 0 ? change / length : NAN;
}

/* Root mean square over the steps. */
static double change_at(sample *s, loss_part part, double t) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->steps; i++) {
        double one = change_of(s, part, i, t);
        if (!isnan(one)) sum += one, n++;
    }
    return n ? sqrt(sum / (double)n) : NAN;
}

/* ---- Advice ---- */

/* The t at which curvature alone leaves `target` effective pairs, by halving an interval of logarithms; NaN:
 * none within reach. */
static double tilt_for(sample *s, double target, double scale) {
    double low = -20, high = 40; /* of log2(t scale) */
    if (!(scale > 0) || !(effective_at(s, CURVATURE, exp2(low) / scale) > target) ||
        !(effective_at(s, CURVATURE, exp2(high) / scale) < target))
        return NAN;
    for (int i = 0; i < 48; i++) {
        double middle = 0.5 * (low + high);
        if (effective_at(s, CURVATURE, exp2(middle) / scale) > target)
            low = middle;
        else
            high = middle;
    }
    return exp2(0.5 * (low + high)) / scale;
}

/* Spread of the losses and of their parts, means over the steps that have a finite pair. */
static void measure(sample *s, zest_tilt_advice *a) {
    double spread = 0, slope = 0, curvature = 0, squares = 0, differences = 0;
    for (size_t i = 0; i < s->steps; i++) {
        zest_tilt_report report;
        tilt_step(s, WHOLE, i, s->tilt.t, s->now, &report);
        if (!is_used(&report)) continue;
        spread += report.spread;
        slope += report.slope;
        curvature += report.curvature;
        squares += (double)(s->tilt.k - report.dropped - 1) * report.curvature * report.curvature;
        differences += (double)(s->tilt.k - report.dropped - 1);
        a->steps++;
    }
    double n = (double)a->steps;
    a->spread = a->steps ? spread / n : NAN;
    a->slope = a->steps ? slope / n : NAN;
    a->curvature = a->steps ? curvature / n : NAN;
    a->finite = squares > 0 ? 1 / sqrt(2 * squares / differences) : NAN;
}

static void advise(sample *s, zest_tilt_advice *a) {
    double k = (double)a->k, t = s->tilt.t;
    a->effective = effective_at(s, WHOLE, t);
    a->effective_slope = effective_at(s, SLOPE, t);
    a->effective_curvature = effective_at(s, CURVATURE, t);
    a->change = change_at(s, WHOLE, t);
    a->change_slope = change_at(s, SLOPE, t);
    a->change_curvature = change_at(s, CURVATURE, t);
    double low = a->k > 1 ? tilt_for(s, 0.9 * k, a->curvature) : NAN;
    if (isnan(low)) return;
    if (change_at(s, SLOPE, low) > change_at(s, CURVATURE, low)) { /* a larger t would damp, not weigh */
        a->better_rho = a->rho * a->slope / a->curvature;
        return;
    }
    a->low = low;
    a->half = tilt_for(s, a->k > 2 ? k / 2 : 1.5, a->curvature);
    a->high = tilt_for(s, a->k > 2 ? 2 : 1.1, a->curvature);
}

zest_status zest_choose_t(const zest_tilt_options *tilt, const double *losses, size_t steps, size_t stride,
                          zest_tilt_advice *advice, zest_error *error) {
    size_t k = tilt->k, count = 2 * k * (2 * steps + 1);
    double *memory = malloc(count * sizeof *memory);
    *advice = (zest_tilt_advice){.k = k,
                                 .t = tilt->t,
                                 .rho = tilt->rho,
                                 .low = NAN,
                                 .half = NAN,
                                 .high = NAN,
                                 .finite = NAN,
                                 .better_rho = NAN};
    if (!memory) return zest_error_memory(error, "the choice of t", count * sizeof *memory);
    sample s = {.tilt = *tilt,
                .steps = steps,
                .stride = stride,
                .losses = losses,
                .parts = {NULL, memory, memory + 2 * k * steps},
                .now = memory + 4 * k * steps,
                .without = memory + 4 * k * steps + k};
    split(&s);
    measure(&s, advice);
    if (advice->steps) advise(&s, advice);
    free(memory);
    return ZEST_OK;
}

zest_status zest_choose_t_journal(zest_journal *journal, zest_tilt_advice *advice, zest_error *error) {
    size_t stride = 2 * (journal->tilt.k + journal->tilt.ball_pairs);
    uint64_t all = zest_journal_steps(journal);
    size_t steps = all < ZEST_TILT_ADVICE_STEPS ? (size_t)all : ZEST_TILT_ADVICE_STEPS;
    double *losses = malloc((steps * stride + 1) * sizeof *losses);
    zest_tilt_options tilt = journal->tilt;
    zest_auto_t seen = {0};
    if (!losses) return zest_error_memory(error, "the choice of t", steps * stride * sizeof *losses);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < steps && !status; i++) {
        zest_record record;
        status = zest_journal_read(journal, all - steps + i + 1, &record);
        if (status) break;
        memcpy(losses + i * stride, record.losses, stride * sizeof *losses);
        zest_loss_parts parts = zest_tilt_split(record.losses, tilt.k);
        zest_auto_t_add(&seen, &parts);
    }
    if (zest_options_auto_t(&journal->options)) tilt.t = zest_auto_t_next(&seen);
    status = status ? zest_error_set(error, status, "%s: a record cannot be read", journal->path)
                    : zest_choose_t(&tilt, losses, steps, stride, advice, error);
    free(losses);
    return status;
}

double zest_choose_t_round(double t) {
    if (!(t > 0) || isinf(t)) return t;
    double unit = pow(10, floor(log10(t)) - 1);
    return unit >= 1 ? round(t / unit) * unit : round(t / unit) / round(1 / unit);
}

/* "12 %", "3.4 %", "less than 1 %" */
static void add_percent(double share, zest_buffer *out) {
    if (share < 0.01)
        zest_buffer_text(out, "less than 1 %");
    else
        zest_buffer_format(out, share < 0.095 ? "%.1f %%" : "%.0f %%", 100 * share);
}

void zest_choose_t_text(const zest_tilt_advice *a, zest_buffer *out) {
    if (a->t > 0) {
        zest_buffer_format(out, "t = %g changes the steps by ", a->t);
        add_percent(a->change, out);
        if (a->change < 0.01) {
            zest_buffer_text(out, ": at this rho and t the run equals MeZO");
        } else {
            zest_buffer_text(out, " (");
            add_percent(a->change_curvature, out);
            zest_buffer_text(out, " by weighing directions with their curvature, ");
            add_percent(a->change_slope, out);
            zest_buffer_text(out, " by damping large slopes)");
        }
    } else {
        zest_buffer_text(out, "none (t = 0)");
    }
    if (!isnan(a->half))
        zest_buffer_format(out, "; curvature counts at t from about %g to %g", zest_choose_t_round(a->low),
                           zest_choose_t_round(isnan(a->high) ? a->half : a->high));
    else if (!isnan(a->better_rho))
        zest_buffer_format(out,
                           "; losses differ by %.2g through the slope and by %.2g through curvature, so a "
                           "larger t would only damp the steps: curvature counts from a rho of about %g on",
                           a->slope, a->curvature, zest_choose_t_round(a->better_rho));
    if (a->t > a->finite)
        zest_buffer_format(out, "; with Gaussian directions the tilted loss may be infinite at t above %g",
                           zest_choose_t_round(a->finite));
}
