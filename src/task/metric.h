/* Metrics: how good the answers of a model are. */
#ifndef ZEST_TASK_METRIC_H
#define ZEST_TASK_METRIC_H

#include "base/progress.h"
#include "comm/comm.h"
#include "model/generate.h"
#include "task/batch.h"

/* Values that do not apply, and all values of an empty set, are NaN. */
typedef struct {
    size_t n;
    double loss;      /* mean over examples (as_text and TEXT: over the tokens of the right answers) */
    double accuracy;  /* CLASSES, CHOICE; ties go to the lowest index */
    double f1;        /* two classes: F1 of class 1, 0 without true positives. TEXT: mean token F1 */
    double em;        /* TEXT: exact match */
    double low, high; /* 95 % interval of `value`: Wilson's for accuracy and em, seeded bootstrap for F1 */
    double value;     /* of the task's metric */
    size_t bad;       /* examples with a non-finite score or loss */
} zest_metrics;

#define ZEST_METRIC_NO_CHOICE UINT32_MAX

/* Per-example results, for predict and for non-differentiable objectives. Start with {0}. */
typedef struct {
    /* predicted class or option. A non-finite score is never chosen; without a finite score the choice is
     * ZEST_METRIC_NO_CHOICE, which is wrong */
    uint32_t *choice;
    double *scores;   /* scores of all options, see starts. TEXT: log-likelihood of the first accepted text */
    uint32_t *starts; /* count + 1 offsets into scores */
    double *losses;   /* as_text and TEXT: negative log-likelihood of the right answer, summed over tokens */
    char **texts;     /* TEXT: generated texts */
    double *f1, *em;  /* TEXT */
    size_t count;
    size_t bad; /* examples with a non-finite score or loss */
} zest_predictions;

void zest_predictions_free(zest_predictions *p);

/* Runs the model (one lane, NULL: unperturbed) over all examples in batches of at most batch_tokens tokens
 * (0: 4096; a longer example is a batch of its own). The predictions do not depend on batch_tokens. Frees
 * earlier predictions. TEXT is generated greedily up to a newline or the end token, decoded without
 * special tokens, cleaned up as in Hugging Face (" ." becomes "." and so on) and stripped; without a
 * tokenizer (NULL) nothing is generated, and texts, f1 and em stay NULL. */
zest_status zest_metric_predict(zest_model_runner *runner, const zest_model_lane *lane,
                                const zest_examples *examples, const zest_tokenizer *tokenizer,
                                size_t batch_tokens, zest_predictions *predictions, zest_error *error);
/* The same with a progress callback (NULL: none): the number of finished examples. The ranks divide the examples (NULL: a
 * single process), and all get all predictions; the progress is that of this rank's. */
zest_status zest_metric_predict_with(zest_model_runner *runner, const zest_model_lane *lane,
                                     const zest_examples *examples, const zest_tokenizer *tokenizer,
                                     size_t batch_tokens, zest_comm *comm,
                                     const zest_progress_callback *progress, zest_predictions *predictions,
                                     zest_error *error);
/* The metrics of predictions. */
void zest_metric_sum(const zest_task *task, const zest_examples *examples, const zest_predictions *p,
                     zest_metrics *metrics);
const char *zest_metric_name(zest_metric metric); /* "accuracy", "f1", "em", "loss" */
/* One of the values; larger is better, except for the loss. */
double zest_metric_value(const zest_metrics *metrics, zest_metric metric);

/* For non-differentiable objectives: 1 - accuracy or 1 - F1 (of class 1) of one lane on a batch of label
 * words or choices with these scores (from zest_model_losses). Ties go to the lowest index, so a tie of
 * all options is the answer 0 and not a fraction of a right one; a non-finite score is never chosen. NaN
 * for other metrics and batches. */
double zest_metric_error(const zest_batch *batch, zest_metric metric, const double *scores);

/* Building blocks. */
double zest_metric_f1(const uint32_t *choice, const uint32_t *answers, size_t count); /* of class 1 */
/* Best match with one of the accepted texts, after lower-casing and removal of ASCII punctuation, of the
 * words a, an and the, and of extra spaces. If the first accepted text is "CANNOTANSWER" or "no answer",
 * the match must be exact. NaN: out of memory. */
double zest_metric_token_f1(const char *text, char *const *gold);
double zest_metric_exact(const char *text, char *const *gold);
void zest_metric_wilson(double hits, double n, double *low, double *high);
/* Percentile intervals from 2000 bootstrap resamples with a fixed seed. */
void zest_metric_bootstrap_mean(const double *values, size_t count, double *low, double *high);
void zest_metric_bootstrap_f1(const uint32_t *choice, const uint32_t *answers, size_t count, double *low,
                              double *high);

/* ---- Internal to src/task ---- */

/* A range of examples. */
typedef struct {
    size_t first, end;
} zest_metric_range;

/* metric_ranks.c: the examples that a rank answers, of about the same number of tokens. */
zest_metric_range zest_metric_share(const zest_examples *examples, int text, int rank, int ranks);
/* The predictions of all ranks, each of its share, into p of every rank. */
zest_status zest_metric_gather(zest_comm *comm, const zest_examples *examples, int text, zest_predictions *p,
                               zest_error *error);

/* Applies Hugging Face's clean_up_tokenization and strips; in place. */
void zest_metric_clean_up(zest_buffer *text);

/* The index of the largest finite score, or ZEST_METRIC_NO_CHOICE. */
uint32_t zest_metric_choose(const double *scores, size_t count);

#endif
