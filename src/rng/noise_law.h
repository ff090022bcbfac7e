/* The law of a tensor's noise: what its raw noise, numbered element by element, is made of.
 *
 *     dense      z_i = s n(first + i)
 *     low rank   z_(row, column) = s / sqrt(r)  sum over j < r of  u_j(row) a_j(column)
 *                u_j(row)     = n(first + j (rows + columns) + row)
 *                a_j(column)  = n(first + j (rows + columns) + rows + column)
 *
 *     inputs     the same, but the side of the layer's inputs, of n numbers, is a sum over S stored vectors y_i:
 *                a_j = sum over i < S <= n of  n(first number of that side + i) y_i
 *
 * n(number) are the independent normals or signs of a seed, s is the tensor's scale. Every z has mean 0 and variance
 * s^2, and z of different elements are uncorrelated under both laws; low-rank ones are not independent. A matrix with
 * r (rows + columns) >= rows columns gains nothing by a low rank and stays dense, and so do vectors. With inputs the
 * covariance of a_j is sum y_i y_i'. Sums are chains of fused multiply-adds, and the factor is applied last: the same
 * bits everywhere. */
#ifndef ZEST_RNG_NOISE_LAW_H
#define ZEST_RNG_NOISE_LAW_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "rng/noise.h"

/* All zero: dense noise of scale 1. */
struct zest_noise_law {
    uint64_t first;         /* number of the tensor's first element */
    uint64_t rows, columns; /* of a matrix, as it is stored */
    uint32_t rank;          /* 0: dense */
    float factor;           /* s, or s / sqrt(r); 0: 1 */
    uint32_t input_count;   /* S; 0: independent numbers */
    int inputs_are_rows;    /* the matrix is stored inputs x outputs */
    const float *inputs;    /* (S, inputs): y */
};
enum { ZEST_NOISE_INPUTS = 1024 }; /* S at most */

/* The numbers of factor j: rows of u, then columns of a. */
static inline uint64_t zest_noise_law_factor(const zest_noise_law *law, uint64_t j) {
    return law->first + j * (law->rows + law->columns);
}

typedef enum { ZEST_NOISE_ROWS, ZEST_NOISE_COLUMNS } zest_noise_side;

/* Elements first .. of u_j or of a_j, without the factor. */
static inline void zest_noise_law_vector(const zest_noise_law *law, zest_noise_fill *fill,
                                         zest_noise_side side, uint64_t j, float *out, uint64_t seed,
                                         uint64_t first, size_t count) {
    uint64_t number = zest_noise_law_factor(law, j) + (side == ZEST_NOISE_COLUMNS ? law->rows : 0);
    if (!law->input_count || (side == ZEST_NOISE_ROWS) != law->inputs_are_rows) {
        fill(out, seed, number + first, count);
        return;
    }
    uint64_t width = side == ZEST_NOISE_ROWS ? law->rows : law->columns;
    float z[ZEST_NOISE_INPUTS];
    fill(z, seed, number, law->input_count);
    for (uint32_t s = 0; s < law->input_count; s++) {
        const float *y = law->inputs + s * width + first;
        for (size_t i = 0; i < count; i++) out[i] = s ? fmaf(z[s], y[i], out[i]) : z[s] * y[i];
    }
}

/* A run within one row. */
static inline void zest_noise_law_run(const zest_noise_law *law, zest_noise_fill *fill, float *out,
                                      uint64_t seed, uint64_t row, uint64_t column, size_t count) {
    enum { RUN = 256 };
    float a[RUN], u;
    for (size_t done = 0; done < count; done += RUN) {
        size_t here = count - done < (size_t)RUN ? count - done : (size_t)RUN;
        for (uint64_t j = 0; j < law->rank; j++) {
            zest_noise_law_vector(law, fill, ZEST_NOISE_ROWS, j, &u, seed, row, 1);
            zest_noise_law_vector(law, fill, ZEST_NOISE_COLUMNS, j, a, seed, column + done, here);
            for (size_t i = 0; i < here; i++) out[done + i] = j ? fmaf(u, a[i], out[done + i]) : u * a[i];
        }
    }
}

/* Elements first .. first+count-1, numbered as in the run: all of the tensor. Each noise file compiles this text with
 * its own flags. */
static inline void zest_noise_law_fill(const zest_noise_law *law, zest_noise_fill *fill, float *out,
                                       uint64_t seed, uint64_t first, size_t count) {
    if (!law->rank) fill(out, seed, first, count);
    for (size_t done = 0; law->rank && done < count;) {
        uint64_t at = first + done - law->first, row = at / law->columns, column = at % law->columns;
        size_t here = law->columns - column < count - done ? (size_t)(law->columns - column) : count - done;
        zest_noise_law_run(law, fill, out + done, seed, row, column, here);
        done += here;
    }
    if (law->factor == 0 || law->factor == 1) return;
    for (size_t i = 0; i < count; i++) out[i] *= law->factor;
}

#define ZEST_NOISE_LAW_FUNCTION(normal, sign)                                                                \
    static void fill_by_law(const zest_noise_law *law, int signs, float *out, uint64_t seed, uint64_t first, \
                            size_t count) {                                                                  \
        zest_noise_law_fill(law, signs ? sign : normal, out, seed, first, count);                            \
    }                                                                                                        \
    static void fill_vector(const zest_noise_law *law, int signs, int side, uint64_t j, float *out,          \
                            uint64_t seed, uint64_t first, size_t count) {                                   \
        zest_noise_law_vector(law, signs ? sign : normal, (zest_noise_side)side, j, out, seed, first,        \
                              count);                                                                        \
    }

#endif
