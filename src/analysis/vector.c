#include "analysis/vector.h"

#include <math.h>
#include <stdint.h>

#include "core/direction.h"

enum { BLOCK_LEAST = 65536, BLOCKS_MOST = 1024 };

typedef double block_sum(const void *a, const void *b, size_t first, size_t end);

static double dot_block(const void *a, const void *b, size_t first, size_t end) {
    const float *v = a;
    const double *w = b;
    double sum[4] = {0};
    size_t i = first;
    for (; i + 4 <= end; i += 4)
        for (size_t j = 0; j < 4; j++) sum[j] += (double)v[i + j] * w[i + j];
    for (; i < end; i++) sum[0] += (double)v[i] * w[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static double square_block(const void *a, const void *b, size_t first, size_t end) {
    const double *w = a;
    double sum = 0;
    (void)b;
    for (size_t i = first; i < end; i++) sum += w[i] * w[i];
    return sum;
}

static double distance_block(const void *a, const void *b, size_t first, size_t end) {
    const double *x = a, *y = b;
    double sum = 0;
    for (size_t i = first; i < end; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sum;
}

static double sum_blocks(block_sum *block, const void *a, const void *b, size_t count, int threads) {
    double sums[BLOCKS_MOST], sum = 0;
    size_t size = (count + BLOCKS_MOST - 1) / BLOCKS_MOST;
    if (size < BLOCK_LEAST) size = BLOCK_LEAST;
    int64_t blocks = (int64_t)((count + size - 1) / size);
    if (blocks == 1) return block(a, b, 0, count);
#pragma omp parallel for schedule(static) num_threads(zest_direction_threads(threads))
    for (int64_t i = 0; i < blocks; i++) {
        size_t first = (size_t)i * size;
        sums[i] = block(a, b, first, count - first < size ? count : first + size);
    }
    for (int64_t i = 0; i < blocks; i++) sum += sums[i];
    return sum;
}

double zest_vector_dot(const float *v, const double *w, size_t count, int threads) {
    return sum_blocks(dot_block, v, w, count, threads);
}

double zest_vector_norm(const double *w, size_t count, int threads) {
    return sqrt(sum_blocks(square_block, w, NULL, count, threads));
}

double zest_vector_distance(const double *a, const double *b, size_t count, int threads) {
    return sqrt(sum_blocks(distance_block, a, b, count, threads));
}

void zest_vector_add(double *w, double c, const float *v, size_t count, int threads) {
#pragma omp parallel for schedule(static) \
    num_threads(zest_direction_threads(threads)) if (count > BLOCK_LEAST)
    for (size_t i = 0; i < count; i++) w[i] += c * (double)v[i];
}

void zest_vector_store(float *v, double c, const double *w, size_t count, int threads) {
#pragma omp parallel for schedule(static) \
    num_threads(zest_direction_threads(threads)) if (count > BLOCK_LEAST)
    for (size_t i = 0; i < count; i++) v[i] = (float)(c * w[i]);
}
