/* The innermost loops: TILE_ROWS rows of packed activations by TILE_VECTORS vectors of outputs, sums in
 * registers. Include pack.h first. Every output element is one chain of multiply-adds over the steps in
 * order, whatever the size of the tile it falls into. */
#ifndef ZEST_KERNELS_CPU_GEMM_TILE_H
#define ZEST_KERNELS_CPU_GEMM_TILE_H

#if PAIRS
#define TILE_MULTIPLY(a, b, c) v_multiply_pairs(a, b, c)
#else
#define TILE_MULTIPLY(a, b, c) v_fma(a, b, c)
#endif

/* One tile over `steps` steps. The sums start from zero or, unless `first`, from c. group: floats from a
 * group of outputs to the next. rows and vectors are constants where this is called, so that the sums live in
 * registers. */
static inline __attribute__((always_inline)) void tile(const int rows, const int vectors, const float *a,
                                                       const float *b, size_t group, size_t steps, int first,
                                                       float *c, size_t c_stride) {
    vec sum[TILE_ROWS][TILE_VECTORS], w[TILE_VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = first ? v_set(0.0f) : v_load(c + (size_t)r * c_stride + v * WIDTH);
    while (steps) {
        size_t here = steps < LINE ? steps : LINE;
        const float *next = a + (size_t)TILE_ROWS * LINE;
        steps -= here;
        for (; here; here--, a++, b += WIDTH) {
            for (int v = 0; v < vectors; v++) w[v] = v_load(b + v * group);
            for (int r = 0; r < rows; r++) {
                vec x = v_set(a[r * LINE]);
                for (int v = 0; v < vectors; v++) sum[r][v] = TILE_MULTIPLY(x, w[v], sum[r][v]);
            }
        }
        a = next;
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) v_store(c + (size_t)r * c_stride + v * WIDTH, sum[r][v]);
}

/* A block of at most TILE_ROWS rows by `groups` groups of outputs. */
static void tile_block(int rows, size_t groups, const float *a, const float *b, size_t group, size_t steps,
                       int first, float *c, size_t c_stride) {
#define TILE_ROWS_CASE(n)                                                                       \
    case n:                                                                                     \
        if (n <= TILE_ROWS)                                                                     \
            tile(n <= TILE_ROWS ? n : 1, TILE_VECTORS, a, b, group, steps, first, c, c_stride); \
        break
    for (size_t g = 0; g < groups; g += TILE_VECTORS, b += TILE_VECTORS * group, c += TILE_VECTORS * WIDTH)
        switch (rows) {
            TILE_ROWS_CASE(1);
            TILE_ROWS_CASE(2);
            TILE_ROWS_CASE(3);
            TILE_ROWS_CASE(4);
            TILE_ROWS_CASE(5);
            TILE_ROWS_CASE(6);
            TILE_ROWS_CASE(7);
            TILE_ROWS_CASE(8);
            TILE_ROWS_CASE(9);
            TILE_ROWS_CASE(10);
            TILE_ROWS_CASE(11);
            TILE_ROWS_CASE(12);
            TILE_ROWS_CASE(13);
            TILE_ROWS_CASE(14);
        }
#undef TILE_ROWS_CASE
}

#endif
