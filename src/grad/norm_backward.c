/* Norms. With h = (x - mean) s, s = 1/sqrt(var + eps), y = h g + b, and e = dy g:
 *
 *     dx = s (e - mean(e) - h mean(e h))     dg = sum over rows of dy h     db = sum over rows of dy
 *
 * since h stays centred and of unit length whatever x does: what moves along the ones or along h is taken
 * out. A norm by the root mean square does not centre: dx = s (e - h mean(e h)).
 *
 * Sums over a row: sixteen running sums, element i in sum i % 16, then added by halves. Sums over rows: runs
 * of ZEST_BACKWARD_ROWS rows, then the runs in order. */
#include <math.h>
#include <string.h>

#include "backend/cpu/scratch.h"
#include "grad/plain.h"

enum { SUMS = 16 };

static float total(float sums[SUMS]) {
    for (int half = SUMS / 2; half; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

/* Mean and scale, with the forward pass's bits. */
static float scale_of(const zest_norm_backward *job, const float *x, float *mean) {
    float sums[SUMS] = {0}, width = (float)job->width;
    *mean = 0;
    if (!job->rms) {
        for (size_t i = 0; i < job->width; i++) sums[i % SUMS] += x[i];
        *mean = total(sums) / width;
        memset(sums, 0, sizeof sums);
    }
    for (size_t i = 0; i < job->width; i++) sums[i % SUMS] = fmaf(x[i] - *mean, x[i] - *mean, sums[i % SUMS]);
    return 1.0f / sqrtf(total(sums) / width + job->epsilon);
}

/* One row; what it adds to the gradients of gain and bias goes to g and b. */
static void row_backward(const zest_norm_backward *job, size_t row, float *g, float *b) {
    const float *x = job->x + row * job->width, *dy = job->dy + row * job->width;
    float *dx = job->dx + row * job->width, mean, scale = scale_of(job, x, &mean);
    float along_ones[SUMS] = {0}, along_h[SUMS] = {0}, width = (float)job->width;
    for (size_t i = 0; i < job->width; i++) {
        float h = (x[i] - mean) * scale, e = job->gain ? dy[i] * job->gain[i] : dy[i];
        along_ones[i % SUMS] += e;
        along_h[i % SUMS] = fmaf(e, h, along_h[i % SUMS]);
        g[i] = fmaf(dy[i], h, g[i]);
        b[i] += dy[i];
    }
    float first = job->rms ? 0 : total(along_ones) / width, second = total(along_h) / width;
    for (size_t i = 0; i < job->width; i++) {
        float h = (x[i] - mean) * scale, e = job->gain ? dy[i] * job->gain[i] : dy[i];
        float d = fmaf(-second, h, e - first) * scale;
        dx[i] = job->add ? dx[i] + d : d;
    }
}

int zest_plain_norm_backward(const zest_norm_backward *job, int threads, zest_scratch *scratch) {
    size_t runs = (job->rows + ZEST_BACKWARD_ROWS - 1) / ZEST_BACKWARD_ROWS, width = job->width;
    if (zest_scratch_reserve(scratch, 2 * runs * width * sizeof(float) + 1)) return -1;
    float *sums = scratch->data;
    memset(sums, 0, 2 * runs * width * sizeof *sums);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t run = 0; run < runs; run++) {
        size_t end = (run + 1) * ZEST_BACKWARD_ROWS < job->rows ? (run + 1) * ZEST_BACKWARD_ROWS : job->rows;
        for (size_t row = run * ZEST_BACKWARD_ROWS; row < end; row++)
            row_backward(job, row, sums + 2 * run * width, sums + (2 * run + 1) * width);
    }
    for (size_t run = 0; run < runs; run++)
        for (size_t i = 0; i < width; i++) {
            if (job->d_gain) job->d_gain[i] += sums[2 * run * width + i];
            if (job->d_bias) job->d_bias[i] += sums[(2 * run + 1) * width + i];
        }
    return 0;
}

int zest_plain_sum_columns(const float *x, size_t stride, size_t rows, size_t width, float *out, int threads,
                           zest_scratch *scratch) {
    size_t runs = (rows + ZEST_BACKWARD_ROWS - 1) / ZEST_BACKWARD_ROWS;
    if (zest_scratch_reserve(scratch, runs * width * sizeof(float) + 1)) return -1;
    float *sums = scratch->data;
    memset(sums, 0, runs * width * sizeof *sums);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t run = 0; run < runs; run++) {
        size_t end = (run + 1) * ZEST_BACKWARD_ROWS < rows ? (run + 1) * ZEST_BACKWARD_ROWS : rows;
        for (size_t row = run * ZEST_BACKWARD_ROWS; row < end; row++)
            for (size_t i = 0; i < width; i++) sums[run * width + i] += x[row * stride + i];
    }
    for (size_t run = 0; run < runs; run++)
        for (size_t i = 0; i < width; i++) out[i] += sums[run * width + i];
    return 0;
}
