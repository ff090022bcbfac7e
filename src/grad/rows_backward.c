/* Rows that are moved, and rows that are added up where they were read: the gradient of a row that several
 * read is the sum of theirs, in their order. */
#include <string.h>

#include "grad/plain.h"

int zest_plain_copy(const zest_copy_rows *job, int threads, zest_scratch *scratch) {
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < job->count; i++) {
        size_t source = job->source ? job->source[i] : i, target = job->target ? job->target[i] : i;
        memcpy(job->to + target * job->to_stride, job->from + source * job->from_stride,
               job->width * sizeof *job->to);
    }
    return 0;
}

int zest_plain_collect(const zest_collect *job, int threads, zest_scratch *scratch) {
    const zest_index *index = &job->index;
    (void)scratch;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < index->count; i++) {
        float *out = job->out + (index->targets ? index->targets[i] : i) * job->out_stride;
        if (!job->add) memset(out, 0, job->width * sizeof *out);
        for (size_t s = index->runs[index->starts[i]]; s < index->runs[index->starts[i + 1]]; s++) {
            const float *x = job->x + index->sources[s] * job->x_stride;
            for (size_t c = 0; c < job->width; c++) out[c] += x[c];
        }
    }
    return 0;
}

void zest_plain_negate(float *out, const float *x, size_t count, int threads, zest_scratch *scratch) {
    (void)threads, (void)scratch;
    for (size_t i = 0; i < count; i++) out[i] = -x[i];
}
