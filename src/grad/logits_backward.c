/* From the gradient by logits: of a few words to the features and the words' rows of the head; of a block of
 * the vocabulary, out of the rows' sums. */
#include <math.h>

#include "grad/plain.h"
#include "models/losses_internal.h"

int zest_plain_words_backward(const zest_words_backward *job, int threads, zest_scratch *scratch) {
    size_t width = job->width;
    (void)threads, (void)scratch;
    for (size_t i = 0; i < job->items; i++)
        for (size_t w = 0; w < job->count; w++) {
            float by = job->by[i * job->count + w], *to = job->d + i * width;
            const float *row = job->rows + w * width, *feature = job->features + i * width;
            for (size_t c = 0; c < width; c++) to[c] = w ? fmaf(by, row[c], to[c]) : by * row[c];
            float *wanted = job->d_weight ? job->d_weight + job->words[w] * width : NULL;
            for (size_t c = 0; wanted && c < width; c++) wanted[c] = fmaf(by, feature[c], wanted[c]);
            if (job->d_bias) job->d_bias[job->words[w]] += by;
        }
    return 0;
}

int zest_plain_logits_backward(const zest_logits_backward *job, int threads, zest_scratch *scratch) {
    const zest_logit_block *block = &job->block;
    size_t count = block->count;
    (void)scratch;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t r = 0; r < block->rows; r++) {
        const zest_logit_sum *row = &job->sums[r];
        const float *logits = block->logits + r * count;
        float *d = job->d + r * job->d_stride;
        double sum = row->most + log(row->sum), weight = job->weights[r];
        for (size_t w = 0; w < count; w++) d[w] = (float)(weight * zest_small_exp((double)logits[w] - sum));
        if (block->targets[r] >= block->first && block->targets[r] - block->first < count) {
            size_t at = block->targets[r] - block->first;
            d[at] = (float)(weight * (zest_small_exp((double)logits[at] - sum) - 1));
        }
    }
    return 0;
}
