/* Statistics of samples with 95 % intervals, comparison of methods over seeds, and the sentences that
 * report it. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "lab/stats/stats.h"

static const double z975 = 1.959963984540054; /* quantile 0.975 of the normal distribution */

static double mean_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    return sum / (double)count;
}

/* Mean of (value - center)^power. */
static double moment(const double *values, size_t count, double center, int power) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double x = values[i] - center;
        sum += power == 2 ? x * x : x * x * x * x;
    }
    return sum / (double)count;
}

static zest_estimate around(double value, double half) {
    return (zest_estimate){value, value - half, value + half};
}

zest_estimate zest_statistics_mean(const double *values, size_t count) {
    if (!count) return (zest_estimate){NAN, NAN, NAN};
    double mean = mean_of(values, count), n = (double)count;
    if (count == 1) return (zest_estimate){mean, NAN, NAN};
    double error = sqrt(moment(values, count, mean, 2) / (n - 1));
    return around(mean, zest_sample_student_quantile(0.95, count - 1) * error);
}

zest_estimate zest_statistics_spread(const double *values, size_t count) {
    if (count < 2) return (zest_estimate){NAN, NAN, NAN};
    double n = (double)count, mean = mean_of(values, count), second = moment(values, count, mean, 2);
    double sd = sqrt(second * n / (n - 1));
    if (!(second > 0)) return (zest_estimate){sd, sd, sd};
    /* a small sample bounds its own kurtosis: use at least that of a normal distribution */
    double kurtosis = fmax(moment(values, count, mean, 4) / (second * second), count < 30 ? 3 : 1);
    double half = zest_sample_student_quantile(0.95, count - 1) * sqrt((kurtosis - 1) / (4 * n));
    return (zest_estimate){sd, sd * exp(-half), sd * exp(half)};
}

zest_estimate zest_statistics_tilted(const double *values, size_t count, size_t group, double t,
                                     double *effective) {
    *effective = (double)count;
    if (!count) return (zest_estimate){NAN, NAN, NAN};
    double top = values[0], sum = 0, square = 0, groups = 0, spread = 0, n = (double)(count / group);
    for (size_t i = 1; i < count; i++) top = fmax(top, values[i]);
    for (size_t i = 0; i < count; i++) {
        double w = exp(t * (values[i] - top));
        sum += w;
        square += w * w;
    }
    *effective = sum * sum / square;
    double value = t > 0 ? top + log(sum / (double)count) / t : mean_of(values, count);
    if (n < 2) return (zest_estimate){value, NAN, NAN};
    for (size_t i = 0; i + group <= count; i += group) {
        double own = 0; /* t = 0: the mean itself */
        for (size_t j = i; j < i + group; j++)
            own += t > 0 ? (double)count * exp(t * (values[j] - top)) / (sum * t) : values[j];
        groups += own / (double)group;
        spread += own / (double)group * (own / (double)group);
    }
    double variance = fmax(spread / n - groups / n * (groups / n), 0);
    return around(value, zest_sample_student_quantile(0.95, (size_t)n - 1) * sqrt(variance / (n - 1)));
}

/* Mean and sum of squared deviations in one pass (Welford). */
zest_sample zest_sample_of(const double *values, size_t count) {
    zest_sample s = {.mean = 0, .error = NAN, .low = NAN, .high = NAN};
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(values[i])) continue;
        double delta = values[i] - s.mean;
        s.mean += delta / (double)++s.n;
        squares += delta * (values[i] - s.mean);
    }
    if (!s.n) s.mean = NAN;
    if (s.n < 2) return s;
    double n = (double)s.n;
    s.error = sqrt(squares / (n - 1) / n);
    double half = zest_sample_student_quantile(0.95, s.n - 1) * s.error;
    s.low = s.mean - half;
    s.high = s.mean + half;
    return s;
}

/* For integer degrees of freedom the distribution is a finite sum in the angle whose tangent is t /
 * sqrt(n): odd n starts with the angle, even n with its sine. */
static double student_cdf(double t, size_t degrees) {
    double n = (double)degrees, angle = atan(t / sqrt(n)), c = cos(angle), s = sin(angle);
    size_t odd = degrees % 2;
    double term = odd ? c : 1, sum = 0;
    for (size_t i = odd ? 1 : 0; i + 2 <= degrees; i += 2) {
        sum += term;
        term *= c * c * (double)(i + 1) / (double)(i + 2);
    }
    const double pi = 3.14159265358979323846;
    return odd ? (angle + s * sum) * 2 / pi : s * sum;
}

double zest_sample_student_quantile(double probability, size_t degrees) {
    double low = 0, high = 1;
    if (!degrees || !(probability >= 0 && probability < 1)) return NAN;
    while (student_cdf(high, degrees) < probability && high < 1e12) high *= 2;
    for (int i = 0; i < 200 && low < high; i++) {
        double middle = 0.5 * (low + high);
        if (middle <= low || middle >= high) break;
        if (student_cdf(middle, degrees) < probability)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

double zest_sample_mcnemar(size_t only_first, size_t only_second) {
    size_t n = only_first + only_second, fewer = only_first < only_second ? only_first : only_second;
    double sum = 0;
    /* terms as logarithms: 2^-n underflows for n > 1074 */
    for (size_t i = 0; i <= fewer; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) -
                   (double)n * log(2));
    return fmin(1, 2 * sum);
}

/* Whether all differences are equal, up to the rounding of sums. */
static int all_equal(const double *values, size_t count, double mean, double step) {
    double tolerance = step > 0 ? 0.5 * step : 1e-9 * fabs(mean);
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (size_t i = 0; i < count; i++) {
        if (isnan(values[i])) continue;
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    return high - low <= tolerance;
}

/* The smallest standard error of a difference of two fractions of the same examples. */
static double min_error(double difference, double examples) {
    double share = fmax(fabs(difference), 1 / examples);
    return sqrt(share * (1 - share) / examples);
}

zest_sample zest_paired_sample(const double *differences, size_t count, size_t examples) {
    zest_sample s = zest_sample_of(differences, count);
    double step = examples ? 1 / (double)examples : 0;
    if (s.n < 2) return s;
    if (all_equal(differences, count, s.mean, step)) {
        s.error = s.low = s.high = NAN;
        return s;
    }
    if (!examples) return s;
    double least = min_error(s.mean, (double)examples);
    double half = fmax(s.high - s.mean, z975 * least);
    s.error = fmax(s.error, least);
    s.low = s.mean - half;
    s.high = s.mean + half;
    return s;
}

zest_paired_verdict zest_paired_verdict_of(const zest_sample *difference, int lower_is_better) {
    if (difference->n < ZEST_PAIRED_SEEDS || isnan(difference->low)) return ZEST_PAIRED_TOO_FEW;
    if (difference->low <= 0 && difference->high >= 0) return ZEST_PAIRED_NO_DIFFERENCE;
    return (difference->mean > 0) != (lower_is_better != 0) ? ZEST_PAIRED_BETTER : ZEST_PAIRED_WORSE;
}

#define MINUS "\xe2\x88\x92"

/* ---- Verdicts ---- */

int zest_conclusion_lower_is_better(const char *metric) { return !strcmp(metric, "loss"); }

static zest_paired_verdict compute_verdict(const zest_conclusion *c) {
    return zest_paired_verdict_of(&c->difference, zest_conclusion_lower_is_better(c->metric));
}

int zest_conclusion_compares(const zest_conclusion *c) {
    return *c->base && c->difference.n && !isnan(c->value.mean);
}

const char *zest_conclusion_verdict(const zest_conclusion *c) {
    static const char *const texts[] = {"too few seeds to tell", "no difference shown", "better", "worse"};
    return zest_conclusion_compares(c) ? texts[compute_verdict(c)] : "";
}

/* ---- Numbers ---- */

double zest_conclusion_per_cent(double share) { return round(1000 * share) / 10; }

static int is_loss(const zest_conclusion *c) { return !strcmp(c->metric, "loss"); }

/* One decimal for per cent, four for a loss. Never "-0.0". */
static void add_number(zest_buffer *out, const zest_conclusion *c, double value) {
    char text[64];
    zest_number_format(text, sizeof text, is_loss(c) ? "%.4f" : "%.1f",
                       fabs(is_loss(c) ? value : zest_conclusion_per_cent(value)));
    int const zero = strspn(text, "0.") == strlen(text);
    zest_buffer_format(out, "%s%s", value < 0 && !zero ? MINUS : "", text);
}

static void add_interval(zest_buffer *out, const zest_conclusion *c, const zest_sample *sample) {
    zest_buffer_text(out, "95 % interval ");
    add_number(out, c, sample->low);
    zest_buffer_text(out, " to ");
    add_number(out, c, sample->high);
    zest_buffer_text(out, ", ");
}

static void add_seeds(zest_buffer *out, size_t n) {
    zest_buffer_format(out, "%zu seed%s", n, n == 1 ? "" : "s");
}

/* ---- Sentence for one method ---- */

/* "84.1 % accuracy on test of SST-2, clean labels" */
static void add_value(zest_buffer *out, const zest_conclusion *c) {
    if (is_loss(c)) zest_buffer_text(out, "a loss of ");
    add_number(out, c, c->value.mean);
    if (!is_loss(c)) zest_buffer_format(out, " %% %s", c->metric);
    zest_buffer_format(out, " on %s", c->part);
    if (*c->where) zest_buffer_format(out, " (%s)", c->where);
}

/* ", 0.3 points above MeZO": rounded as shown. */
static void add_difference(zest_buffer *out, const zest_conclusion *c) {
    zest_buffer amount = {0};
    add_number(&amount, c, fabs(c->difference.mean));
    const char *text = amount.data ? amount.data : "";
    if (strspn(text, "0.") == strlen(text))
        zest_buffer_format(out, ", the same as %s", c->base);
    else
        zest_buffer_format(out, ", %s%s %s %s", text, is_loss(c) ? "" : " points",
                           c->difference.mean > 0 ? "above" : "below", c->base);
    out->failed |= amount.failed;
    zest_buffer_free(&amount);
}

static void add_verdict(zest_buffer *out, const zest_conclusion *c) {
    switch (compute_verdict(c)) {
    case ZEST_PAIRED_TOO_FEW: zest_buffer_text(out, ": too few seeds to tell."); break;
    case ZEST_PAIRED_NO_DIFFERENCE: zest_buffer_text(out, ": no difference can be shown."); break;
    case ZEST_PAIRED_BETTER: zest_buffer_format(out, ": better than %s.", c->base); break;
    case ZEST_PAIRED_WORSE: zest_buffer_format(out, ": worse than %s.", c->base); break;
    }
}

void zest_conclusion_sentence(const zest_conclusion *c, zest_buffer *out) {
    int const compared = zest_conclusion_compares(c);
    if (isnan(c->value.mean)) return;
    zest_buffer_format(out, "%s reached ", c->method);
    add_value(out, c);
    const zest_sample *sample = compared ? &c->difference : &c->value;
    if (compared) add_difference(out, c);
    zest_buffer_text(out, " (");
    if (!isnan(sample->low)) add_interval(out, c, sample);
    add_seeds(out, sample->n);
    if (compared && sample->n > 1 && isnan(sample->low))
        zest_buffer_text(out, ", all with the same difference");
    zest_buffer_text(out, ")");
    if (compared)
        add_verdict(out, c);
    else
        zest_buffer_text(out, ".");
}

/* ---- Several methods ---- */

typedef struct {
    size_t all, by_verdict[4];
    size_t least, most; /* seeds */
} tally;

static tally count_verdicts(const zest_conclusion *all, size_t count) {
    tally t = {.least = SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        size_t const seeds = all[i].difference.n;
        if (!zest_conclusion_compares(&all[i])) continue;
        t.all++;
        t.by_verdict[compute_verdict(&all[i])]++;
        t.least = seeds < t.least ? seeds : t.least;
        t.most = seeds > t.most ? seeds : t.most;
    }
    return t;
}

static const char *base_of(const zest_conclusion *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (*all[i].base) return all[i].base;
    return "";
}

/* "1 is better, 2 are worse and 3 show no difference": only verdicts that occur. */
static void add_counts(const tally *t, zest_buffer *out) {
    static const struct {
        zest_paired_verdict verdict;
        const char *one, *many;
    } parts[] = {{ZEST_PAIRED_BETTER, "is better", "are better"},
                 {ZEST_PAIRED_WORSE, "is worse", "are worse"},
                 {ZEST_PAIRED_NO_DIFFERENCE, "shows no difference", "show no difference"},
                 {ZEST_PAIRED_TOO_FEW, "has too few seeds to tell", "have too few seeds to tell"}};
    size_t left = 0, listed = 0;
    for (size_t i = 0; i < 4; i++) left += t->by_verdict[parts[i].verdict] > 0;
    for (size_t i = 0; i < 4; i++) {
        size_t const n = t->by_verdict[parts[i].verdict];
        if (!n) continue;
        zest_buffer_text(out, !listed++ ? "" : left == 1 ? " and " : ", ");
        zest_buffer_format(out, "%zu %s", n, n == 1 ? parts[i].one : parts[i].many);
        left--;
    }
}

static void add_seed_range(const tally *t, zest_buffer *out) {
    if (t->least < t->most) zest_buffer_format(out, "%zu to ", t->least);
    add_seeds(out, t->most);
}

static void add_tally(const tally *t, const char *base, zest_buffer *out) {
    if (t->by_verdict[ZEST_PAIRED_TOO_FEW] == t->all) {
        zest_buffer_format(out, "%zu comparisons with %s (", t->all, base);
        add_seed_range(t, out);
        zest_buffer_text(out, "): too few seeds to tell.");
        return;
    }
    zest_buffer_format(out, "Of %zu comparisons with %s (95 %% intervals, ", t->all, base);
    add_seed_range(t, out);
    zest_buffer_text(out, ") ");
    if (t->by_verdict[ZEST_PAIRED_NO_DIFFERENCE] == t->all)
        zest_buffer_text(out, "none shows a difference");
    else
        add_counts(t, out);
    zest_buffer_text(out, ".");
}

void zest_conclusion_lead(const zest_conclusion *all, size_t count, zest_buffer *out) {
    tally const t = count_verdicts(all, count);
    if (t.all < 2) {
        for (size_t i = 0; i < count; i++)
            if (!t.all || zest_conclusion_compares(&all[i])) {
                zest_conclusion_sentence(&all[i], out);
                return;
            }
    } else {
        add_tally(&t, base_of(all, count), out);
    }
}

json_t *zest_conclusion_json(const zest_conclusion *all, size_t count) {
    json_t *sentences = json_array();
    for (size_t i = 0; i <= (count > 1 ? count : 0); i++) {
        zest_buffer text = {0};
        if (!i)
            zest_conclusion_lead(all, count, &text);
        else
            zest_conclusion_sentence(&all[i - 1], &text);
        zest_json_append(&sentences, text.failed ? NULL : json_string(text.data ? text.data : ""));
        zest_buffer_free(&text);
    }
    return sentences;
}
