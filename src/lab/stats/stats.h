/* Statistics of samples of losses with 95 % intervals, comparisons over seeds, sentences, and plain-text
 * tables. */
#ifndef ZEST_LAB_STATS_STATS_H
#define ZEST_LAB_STATS_STATS_H

#include <jansson.h>
#include <stddef.h>

#include "base/memory.h"

typedef struct {
    double value, low, high; /* NaN: not known */
} zest_estimate;

/* Mean of a sample, with Student's interval; count 1 has no interval. */
zest_estimate zest_statistics_mean(const double *values, size_t count);

/* Standard deviation. Interval: log s is approximately normal with variance (kurtosis - 1) / 4n, with the
 * kurtosis of the sample, so losses need not be normal; for normal ones it is close to the chi-square
 * interval. */
zest_estimate zest_statistics_spread(const double *values, size_t count);

/* F_t = (1/t) log mean exp(t f), without overflow; the mean when t = 0. The interval is from the spread of
 * the weights (delta method) and is unreliable when few of them carry the sum: `effective` is their
 * number, (sum w)^2 / sum w^2. Values come in groups of `group` that belong together (2 for antithetic
 * pairs). */
zest_estimate zest_statistics_tilted(const double *values, size_t count, size_t group, double t,
                                     double *effective);

/* ---- A few numbers and the statistics of their mean ---- */

typedef struct {
    size_t n;
    double mean;      /* NaN: n = 0 */
    double error;     /* standard error of the mean; NaN: n < 2 */
    double low, high; /* Student's 95 % interval of the mean; NaN: n < 2 */
} zest_sample;

/* NaN values are ignored. */
zest_sample zest_sample_of(const double *values, size_t count);

/* The q with P(|T| < q) = probability, of Student's t with so many degrees of freedom. */
double zest_sample_student_quantile(double probability, size_t degrees);

/* McNemar's exact test on the examples that only one of two got right. Two-sided p; 1 when there are none. */
double zest_sample_mcnemar(size_t only_first, size_t only_second);

/* ---- Two methods compared seed by seed: the interval of the mean difference, and the verdict ---- */

/* The mean of paired differences, one a seed; NaN for a seed that has none. examples: the test examples that
 * the metric is a share of, or 0 for a metric without steps, such as a loss.
 *
 * The interval is Student's with n - 1 degrees of freedom. It is never narrower than 1.96 times the least
 * binomial error: if a share differs by d, then at least a share |d| of the examples was answered
 * differently, so the variance of d is at least |d| (1 - |d|) / examples. |d| counts as one example at least.
 *
 * n = 1 has no interval. Nor have differences that are all equal, to half a step of the metric: their
 * variance of 0 says that the metric is coarse, not that seeds do not matter. */
zest_sample zest_paired_sample(const double *differences, size_t count, size_t examples);

typedef enum {
    ZEST_PAIRED_TOO_FEW,       /* fewer than 3 seeds, or all differences are equal */
    ZEST_PAIRED_NO_DIFFERENCE, /* the 95 % interval contains 0 */
    ZEST_PAIRED_BETTER,
    ZEST_PAIRED_WORSE,
} zest_paired_verdict;

enum { ZEST_PAIRED_SEEDS = 3 }; /* a verdict needs at least so many */

zest_paired_verdict zest_paired_verdict_of(const zest_sample *difference, int lower_is_better);

/* ---- Results as sentences, used by the report, the tables of a sweep and the terminal ---- */

/* One method on one set of examples. The texts are plain: escape them for the output format. */
typedef struct {
    char method[128];       /* "ZEST-N" */
    char where[160];        /* "SST-2, clean labels"; "" when there is only one set of examples */
    char metric[16];        /* "accuracy": a fraction, shown in per cent; "loss": lower is better */
    char part[8];           /* "test", "dev" */
    char base[128];         /* the base of the comparison; "": none */
    zest_sample value;      /* over seeds; with one seed low and high may be those of its examples */
    zest_sample difference; /* from the base, seed by seed: zest_paired_sample */
} zest_conclusion;

/* Whether it is compared with a base. */
int zest_conclusion_compares(const zest_conclusion *conclusion);
/* "too few seeds to tell", "no difference shown", "better", "worse"; "" when it is not compared */
const char *zest_conclusion_verdict(const zest_conclusion *conclusion);
int zest_conclusion_lower_is_better(const char *metric);
/* A fraction in per cent, rounded to the decimal that every table shows; halves away from 0. */
double zest_conclusion_per_cent(double share);

/* "ZEST-N reached 84.1 % accuracy on test, 0.3 points above MeZO (95 % interval −0.4 to 1.0, 3 seeds): no
 * difference can be shown." Adds nothing when there is no value. */
void zest_conclusion_sentence(const zest_conclusion *conclusion, zest_buffer *out);
/* The sentence of a single comparison; of several, one that counts their verdicts; without any, the
 * sentence of the first. */
void zest_conclusion_lead(const zest_conclusion *all, size_t count, zest_buffer *out);

/* The lead, and the sentence of each when there are several, as an array of strings. */
json_t *zest_conclusion_json(const zest_conclusion *all, size_t count);

/* ---- Plain-text tables for terminals: aligned columns of limited width ----
 *
 *     static const zest_text_column columns[] = {{"run", ZEST_TEXT_NAME}, {"test", ZEST_TEXT_NUMBER}};
 *     zest_text_table table = {.columns = columns, .column_count = 2};
 *     zest_text_table_cell(&table, name), zest_text_table_cell(&table, "84.1");     row by row
 *     zest_text_table_write(&table, &out);
 *     zest_text_table_free(&table); */

enum { ZEST_TEXT_WIDTH = 100, ZEST_TEXT_COLUMNS = 16 };

typedef enum {
    ZEST_TEXT_LEFT,
    ZEST_TEXT_NUMBER, /* right-aligned */
    ZEST_TEXT_NAME,   /* left-aligned; shortened in the middle if the table is too wide */
} zest_text_kind;

typedef struct {
    const char *heading;
    zest_text_kind kind;
} zest_text_column;

typedef struct {
    const zest_text_column *columns;
    size_t column_count; /* at most ZEST_TEXT_COLUMNS */
    char **cells;        /* row by row */
    size_t count;
    int failed; /* out of memory */
} zest_text_table;

/* The next cell. Invalid UTF-8 is repaired, control characters are removed. */
void zest_text_table_cell(zest_text_table *table, const char *text);
/* The same with the text of a buffer, which is freed. */
void zest_text_table_cell_buffer(zest_text_table *table, zest_buffer *text);
/* Header and rows, each line at most ZEST_TEXT_WIDTH characters wide as long as names can be shortened.
 * Empty columns are omitted. */
void zest_text_table_write(const zest_text_table *table, zest_buffer *out);
void zest_text_table_free(zest_text_table *table);
/* A paragraph: cleaned in the same way, wrapped at ZEST_TEXT_WIDTH. */
void zest_text_table_paragraph(zest_buffer *out, const char *text);

#endif
