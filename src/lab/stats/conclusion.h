/* The result in plain sentences: what a method reached, how that compares, and how sure it is. The report,
 * the tables of a sweep and the terminal say the same words. */
#ifndef ZEST_LAB_STATS_CONCLUSION_H
#define ZEST_LAB_STATS_CONCLUSION_H

#include <jansson.h>

#include "lab/stats/statistics.h"
#include "base/buffer.h"

/* One method on one set of examples. The texts are plain: escape them wherever they go. */
typedef struct {
    char method[128];       /* "ZEST-N" */
    char where[160];        /* "SST-2, clean labels"; "" when there is only one set of examples */
    char metric[16];        /* "accuracy": a share of 1, shown in per cent; "loss": lower is better */
    char part[8];           /* "test", "dev" */
    char base[128];         /* what it is compared with; "": nothing */
    zest_sample value;      /* over seeds; with one seed low and high may be those of its examples */
    zest_sample difference; /* from the base, seed by seed: zest_paired_sample */
} zest_conclusion;

/* Is it compared with anything? */
int zest_conclusion_compares(const zest_conclusion *conclusion);
zest_paired_verdict zest_conclusion_judge(const zest_conclusion *conclusion);
/* "too few seeds to tell", "no difference shown", "better", "worse"; "" when it is not compared */
const char *zest_conclusion_verdict(const zest_conclusion *conclusion);
int zest_conclusion_lower_is_better(const char *metric);
/* A share in per cent, rounded to the decimal that every table shows; halves away from 0. */
double zest_conclusion_per_cent(double share);

/* "ZEST-N reached 84.1 % accuracy on test, 0.3 points above MeZO (95 % interval −0.4 to 1.0, 3 seeds): no
 * difference can be shown." Adds nothing when there is no value. */
void zest_conclusion_sentence(const zest_conclusion *conclusion, zest_buffer *out);
/* The sentence of a single comparison; of several, one that counts their verdicts; of none, the sentence of
 * the first. */
void zest_conclusion_lead(const zest_conclusion *all, size_t count, zest_buffer *out);

/* The lead, and behind it the sentence of each where there are several, as an array of texts. */
json_t *zest_conclusion_json(const zest_conclusion *all, size_t count);

#endif
