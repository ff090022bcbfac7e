/* What the files of the theory share. Their functions are in zest_theory.h; docs/theory.md has the formulas
 * and says where they differ from the paper's. */
#ifndef ZEST_LAB_THEORY_THEORY_H
#define ZEST_LAB_THEORY_THEORY_H

#include "base/progress.h"
#include "optim/context.h"
#include "zest_theory.h"

/* Every number finite, rho > 0, 1 <= count <= dimension; otherwise a sentence that says which is not. */
zest_status zest_theory_check(zest_ctx *ctx, const zest_landscape *landscape);
/* The same, and t finite and >= 0. */
zest_status zest_theory_check_tilt(zest_ctx *ctx, const zest_landscape *landscape, double t);
/* ZEST_OK when value is finite: numbers of reasonable input can still overflow when they are multiplied. */
zest_status zest_theory_check_result(zest_ctx *ctx, double value, const char *what);

/* zest_theory_sampled that reports how many samples are done. */
zest_status zest_theory_sampled_report(zest_ctx *ctx, const zest_landscape *landscape, double t,
                                       uint64_t seed, uint64_t samples,
                                       const zest_progress_callback *progress, zest_sharpness *sharpness,
                                       double *sensitivity);

static inline double zest_theory_slope(const zest_landscape *landscape, size_t i) {
    return landscape->gradient ? landscape->gradient[i] : 0;
}

#endif
