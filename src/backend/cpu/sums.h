/* Sums over a row in the order of the definition: sixteen running sums, element i in sum i % 16. Include a
 * vector_*.h first. */
#ifndef ZEST_BACKEND_CPU_SUMS_H
#define ZEST_BACKEND_CPU_SUMS_H

enum { SUMS = 16, SUM_VECTORS = SUMS / WIDTH /* 1 or 2 */ };

typedef struct {
    vec part[SUM_VECTORS];
} running;

static inline running running_zero(void) {
    running s;
    for (int v = 0; v < SUM_VECTORS; v++) s.part[v] = v_set(0.0f);
    return s;
}

static inline float running_total(const running *s) {
    return v_total(SUM_VECTORS == 1 ? s->part[0] : v_add(s->part[0], s->part[SUM_VECTORS - 1]));
}

#endif
