/* How good the answers are. */
#ifndef ZEST_DATA_METRIC_H
#define ZEST_DATA_METRIC_H

#include "data/batch.h"
#include "models/generate.h"

typedef struct {
    size_t n;
    double loss;     /* mean over examples (TOKENS: over tokens); NaN when not computed */
    double accuracy; /* CLASSES, CHOICE; of equal scores the lowest index is chosen. NaN elsewhere */
    double f1;       /* two classes: of class 1. TEXT: mean token F1. NaN elsewhere */
    double em;       /* TEXT: exact match. NaN elsewhere */
    double low, high; /* 95 % interval of `value`: Wilson's for accuracy and em, seeded bootstrap for F1 */
    double value;     /* by the task's metric */
} zest_metrics;

/* Per example, for predict and for objectives without a derivative. Start with {0}. */
typedef struct {
    uint32_t *choice; /* predicted class or option */
    double *scores;   /* of the choice's options: see starts */
    uint32_t *starts; /* count + 1 offsets into scores */
    double *losses;
    char **texts; /* TEXT: what was generated */
    double *f1, *em; /* TEXT */
    size_t count;
} zest_predictions;

void zest_predictions_free(zest_predictions *p);

/* Runs the model (one lane, NULL: itself) over all examples in batches of at most batch_tokens tokens. */
zest_status zest_metric_predict(zest_model_runner *runner, const zest_model_lane *lane,
                                const zest_examples *examples, const zest_tokenizer *tokenizer,
                                size_t batch_tokens, zest_predictions *predictions, zest_error *error);
/* What predictions amount to. */
void zest_metric_sum(const zest_task *task, const zest_examples *examples, const zest_predictions *p,
                     zest_metrics *metrics);

/* The parts, for other users and for tests. */
double zest_metric_f1(const uint32_t *choice, const uint32_t *answers, size_t count); /* of class 1 */
double zest_metric_token_f1(const char *text, char *const *gold);
double zest_metric_exact(const char *text, char *const *gold);
void zest_metric_wilson(double hits, double n, double *low, double *high);

#endif
