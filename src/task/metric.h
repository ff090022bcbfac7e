/* How good the answers are. */
#ifndef ZEST_TASK_METRIC_H
#define ZEST_TASK_METRIC_H

#include "base/progress.h"
#include "task/batch.h"
#include "model/generate.h"

/* What does not apply, and everything of no examples, is NaN. */
typedef struct {
    size_t n;
    double loss;      /* mean over examples (as_text and TEXT: over the tokens of the right answers) */
    double accuracy;  /* CLASSES, CHOICE; of equal scores the lowest index is chosen */
    double f1;        /* two classes: of class 1, 0 when no example of it was found. TEXT: mean token F1 */
    double em;        /* TEXT: exact match */
    double low, high; /* 95 % interval of `value`: Wilson's for accuracy and em, seeded bootstrap for F1 */
    double value;     /* by the task's metric */
    size_t bad;       /* examples with a score or loss that is not finite */
} zest_metrics;

#define ZEST_METRIC_NO_CHOICE UINT32_MAX

/* Per example, for predict and for objectives without a derivative. Start with {0}. */
typedef struct {
    uint32_t *choice; /* predicted class or option. A score that is not finite is never chosen; where no score
                       * is, the choice is ZEST_METRIC_NO_CHOICE, which is wrong */
    double *scores;   /* of the choice's options: see starts. TEXT: log-likelihood of the first right text */
    uint32_t *starts; /* count + 1 offsets into scores */
    double *losses;   /* as_text and TEXT: minus the log-likelihood of the right answer, a sum over tokens */
    char **texts;     /* TEXT: what was generated */
    double *f1, *em;  /* TEXT */
    size_t count;
    size_t bad; /* examples with a score or loss that is not finite */
} zest_predictions;

void zest_predictions_free(zest_predictions *p);

/* Runs the model (one lane, NULL: itself) over all examples in batches of at most batch_tokens tokens (0:
 * 4096; an example with more is a batch of its own). The predictions do not depend on batch_tokens. What was
 * predicted before is freed. TEXT is generated greedily up to a newline or the end token, decoded without
 * special tokens, cleaned up as Hugging Face does (" ." becomes "." and so on) and stripped; without a
 * tokenizer (NULL) nothing is generated, and texts, f1 and em stay NULL. */
zest_status zest_metric_predict(zest_model_runner *runner, const zest_model_lane *lane,
                                const zest_examples *examples, const zest_tokenizer *tokenizer,
                                size_t batch_tokens, zest_predictions *predictions, zest_error *error);
/* The same, and reports how many of the examples are answered. progress: NULL is fine. */
zest_status zest_metric_predict_watched(zest_model_runner *runner, const zest_model_lane *lane,
                                        const zest_examples *examples, const zest_tokenizer *tokenizer,
                                        size_t batch_tokens, const zest_progress_callback *progress,
                                        zest_predictions *predictions, zest_error *error);
/* What predictions amount to. */
void zest_metric_sum(const zest_task *task, const zest_examples *examples, const zest_predictions *p,
                     zest_metrics *metrics);
const char *zest_metric_name(zest_metric metric); /* "accuracy", "f1", "em", "loss" */
/* One of the figures; larger is better, but for the loss. */
double zest_metric_value(const zest_metrics *metrics, zest_metric metric);

/* For objectives without a derivative: 1 - accuracy or 1 - F1 (of class 1) of one lane on a batch of WORDS or
 * OPTIONS, whose scores (from zest_model_losses) these are. Of equal scores the lowest index is chosen, so
 * that a tie between all options is an answer "0" and not a fraction of a right one; a score that is not
 * finite is never chosen. NaN for other metrics and batches. */
double zest_metric_error(const zest_batch *batch, zest_metric metric, const double *scores);

/* The parts, for other users and for tests. */
double zest_metric_f1(const uint32_t *choice, const uint32_t *answers, size_t count); /* of class 1 */
/* Against the best of the right texts, after lower case, without ASCII punctuation, the words a, an and the,
 * and superfluous spaces. A first right text "CANNOTANSWER" or "no answer" must be met exactly. NaN: no
 * memory. */
double zest_metric_token_f1(const char *text, char *const *gold);
double zest_metric_exact(const char *text, char *const *gold);
void zest_metric_wilson(double hits, double n, double *low, double *high);
/* Percentile intervals from 2000 resamples, the same at every call. */
void zest_metric_bootstrap_mean(const double *values, size_t count, double *low, double *high);
void zest_metric_bootstrap_f1(const uint32_t *choice, const uint32_t *answers, size_t count, double *low,
                              double *high);

/* Seen by metric*.c. */

/* The texts of all examples (TEXT), and how they compare with the right ones. */
zest_status zest_metric_generate(zest_model_runner *runner, const zest_model_lane *lane,
                                 const zest_examples *examples, const zest_tokenizer *tokenizer,
                                 size_t batch_tokens, const zest_progress_callback *progress,
                                 zest_predictions *p, zest_error *error);

/* Decoded text as Hugging Face's clean_up_tokenization leaves it, stripped; in place. */
void zest_metric_clean_up(zest_buffer *text);

/* The index of the largest finite score, or ZEST_METRIC_NO_CHOICE. */
uint32_t zest_metric_choose(const double *scores, size_t count);

#endif
