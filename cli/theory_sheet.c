#include <math.h>
#include <stdlib.h>

#include "cli/theory.h"

static zest_status fill_row(zest_ctx *ctx, const zest_theory_sheet *sheet, zest_theory_row *row,
                            uint64_t seed, uint64_t samples) {
    size_t n = sheet->landscape.count;
    row->gaussian_phi = malloc(2 * n * sizeof(double));
    if (!row->gaussian_phi) return ZEST_ERROR_MEMORY;
    row->ball_phi = row->gaussian_phi + n;
    row->gaussian = NAN;
    row->sampled.value = NAN;
    for (size_t i = 0; i < n; i++) row->gaussian_phi[i] = NAN;
    zest_status status = ZEST_OK;
    if (zest_theory_has_gaussian(sheet, row))
        status = zest_theory_gaussian(ctx, &sheet->landscape, row->t, &row->gaussian, row->gaussian_phi);
    if (!status) status = zest_theory_ball(ctx, &sheet->landscape, row->t, &row->ball, row->ball_phi);
    if (!status && samples)
        status = zest_theory_sampled(ctx, &sheet->landscape, row->t, seed, samples, &row->sampled, NULL);
    return status;
}

zest_status zest_theory_sheet_fill(zest_ctx *ctx, zest_theory_sheet *sheet, const double *tilts, size_t count,
                                   uint64_t seed, uint64_t samples) {
    sheet->rows = calloc(count + 1, sizeof *sheet->rows);
    if (!sheet->rows) return ZEST_ERROR_MEMORY;
    sheet->count = count;
    zest_status status = zest_theory_gaussian_limit(ctx, &sheet->landscape, &sheet->limit);
    for (size_t j = 0; j < count && !status; j++) {
        sheet->rows[j].t = tilts[j];
        status = fill_row(ctx, sheet, &sheet->rows[j], seed, samples);
    }
    return status;
}

void zest_theory_sheet_free(zest_theory_sheet *sheet) {
    for (size_t j = 0; j < sheet->count; j++) free(sheet->rows[j].gaussian_phi);
    free(sheet->rows);
    free(sheet->eigenvalues);
    free(sheet->gradient);
    free(sheet->maximiser);
}
