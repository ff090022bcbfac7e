/* Long vectors: kept as floats, worked on as doubles. Sums run over blocks that depend on the length alone
 * and are added in order, so a result has the same bits for any number of threads. */
#ifndef ZEST_ANALYSIS_VECTOR_H
#define ZEST_ANALYSIS_VECTOR_H

#include <stddef.h>

/* threads 0: all cores, everywhere. */
double zest_vector_dot(const float *v, const double *w, size_t count, int threads);
double zest_vector_norm(const double *w, size_t count, int threads);
/* |a - b| */
double zest_vector_distance(const double *a, const double *b, size_t count, int threads);
/* w += c v */
void zest_vector_add(double *w, double c, const float *v, size_t count, int threads);
/* v = c w */
void zest_vector_store(float *v, double c, const double *w, size_t count, int threads);

#endif
