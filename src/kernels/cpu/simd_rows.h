/* Rows whose length is not a multiple of the vector, and sums over rows. Include a simd_*.h first. Full vectors
 * take the plain instructions: masked stores are slow on some machines. */
#ifndef ZEST_KERNELS_CPU_SIMD_ROWS_H
#define ZEST_KERNELS_CPU_SIMD_ROWS_H

/* Elements from i on, at most a vector of them. */
static inline size_t part_of(size_t count, size_t i) { return count - i < WIDTH ? count - i : WIDTH; }

static inline vec load_some(const float *p, size_t part) {
    return part == WIDTH ? v_load(p) : v_load_part(p, part);
}

static inline void store_some(float *p, size_t part, vec x) {
    if (part == WIDTH)
        v_store(p, x);
    else
        v_store_part(p, part, x);
}

/* x rounded up to a multiple. */
static inline size_t round_up(size_t x, size_t multiple) { return (x + multiple - 1) / multiple * multiple; }

/* As many threads as there is work for, given as a rough number of operations: waking one and waiting for it
 * costs as much as some hundred thousand. */
static inline int useful_threads(int threads, double operations) {
    double useful = 1 + operations / 2e5;
    return useful < threads ? (int)useful : threads;
}

/* Sums over a row in the order of ops_plain.c: sixteen running sums, element i in sum i % 16. */

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
