/* Seen by metric*.c. */
#ifndef ZEST_DATA_METRIC_INTERNAL_H
#define ZEST_DATA_METRIC_INTERNAL_H

#include "data/metric.h"

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
