/* What `zest theory` computed, for its table, its JSON and its figure. */
#ifndef ZEST_CLI_THEORY_H
#define ZEST_CLI_THEORY_H

#include "cli/output.h"

/* R_t and phi_i at one t. What does not exist is NaN. */
typedef struct {
    double t, gaussian;
    zest_sharpness ball, sampled;
    double *gaussian_phi, *ball_phi;
} zest_theory_row;

typedef struct {
    zest_landscape landscape;
    double *eigenvalues, *gradient;
    double limit; /* the Gaussian's */
    zest_worst worst;
    double *maximiser, *worst_phi, *multiplier_derivative, *worst_phi_derivative; /* one allocation */
    zest_tilt_bounds bounds;
    zest_theory_row *rows;
    size_t count;
} zest_theory_table;

/* Fills rows[0 .. count-1] for these t; frees nothing on failure. samples 0: none. */
zest_status zest_theory_table_fill(zest_ctx *ctx, zest_theory_table *sheet, const double *tilts, size_t count,
                                   uint64_t seed, uint64_t samples);
/* Whether F_t exists for Gaussian perturbations at the row's t. */
static inline int zest_theory_has_gaussian(const zest_theory_table *sheet, const zest_theory_row *row) {
    return row->t < sheet->limit;
}
void zest_theory_table_free(zest_theory_table *sheet);

/* Two panels, R_t and phi_i against t, over the range of the tilts that are positive. */
zest_status zest_theory_draw(zest_ctx *ctx, const zest_theory_table *sheets, size_t count, const char *path,
                             zest_error *error);

#endif
