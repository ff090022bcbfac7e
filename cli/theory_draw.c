#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/theory.h"
#include "plot/plot.h"

enum { POINTS = 161, SHOWN = 4 }; /* of each curve; curves of phi_i in each landscape */

/* The positive tilts' range, widened to at least one decade. */
static void range_of(const zest_theory_sheet *sheet, double *low, double *high) {
    *low = HUGE_VAL, *high = 0;
    for (size_t j = 0; j < sheet->count; j++) {
        double t = sheet->rows[j].t;
        if (t > 0) *low = fmin(*low, t), *high = fmax(*high, t);
    }
    if (!(*high > 0)) *low = 0.1, *high = 10;
    if (*high < 10 * *low) *low /= 3.2, *high *= 3.2;
}

/* The Gaussian runs off to infinity: it is cut where it would flatten everything else. R_inf is left out
 * where no curve comes near it. */
static void draw_values(zest_plot_panel *panel, const zest_theory_sheet *dense,
                        const zest_theory_sheet *sheet, const double *t, int which) {
    static const char *const ball[] = {"ball, landscape 1", "ball, landscape 2"};
    static const char *const gaussian[] = {"Gaussian, landscape 1", "Gaussian, landscape 2"};
    int colour = which ? ZEST_PLOT_ORANGE : ZEST_PLOT_BLUE;
    double value[POINTS], last = dense->rows[POINTS - 1].ball.value, top = sheet->worst.value;
    int in_sight = last > 0.2 * top;
    for (int j = 0; j < POINTS; j++) value[j] = dense->rows[j].ball.value;
    zest_plot_line(panel, POINTS, t, value, (zest_plot_style){.colour = colour}, ball[which]);
    double cut = fmax(1.15 * (in_sight ? top : last), 1.5 * dense->rows[0].gaussian);
    for (int j = 0; j < POINTS; j++) value[j] = dense->rows[j].gaussian > cut ? NAN : dense->rows[j].gaussian;
    zest_plot_line(panel, POINTS, t, value, (zest_plot_style){.colour = colour, .dash = ZEST_PLOT_DASHED},
                   gaussian[which]);
    zest_plot_style thin = {.colour = colour, .dash = ZEST_PLOT_DOTTED, .width = 1};
    if (in_sight) zest_plot_guide_y(panel, top, thin, which ? NULL : "R_inf in the ball");
}

static void draw_sensitivities(zest_plot_panel *panel, const zest_theory_sheet *dense, const double *t,
                               int which) {
    static const zest_plot_dash dashes[SHOWN] = {ZEST_PLOT_SOLID, ZEST_PLOT_DASHED, ZEST_PLOT_DOTTED,
                                                 ZEST_PLOT_DASH_DOT};
    double value[POINTS];
    for (size_t i = 0; i < dense->landscape.count && i < SHOWN; i++) {
        char label[64];
        for (int j = 0; j < POINTS; j++) value[j] = dense->rows[j].ball_phi[i];
        snprintf(label, sizeof label, "landscape %d, λ = %g", which + 1, dense->landscape.eigenvalues[i]);
        zest_plot_style style = {.colour = which ? ZEST_PLOT_ORANGE : ZEST_PLOT_BLUE, .dash = dashes[i]};
        zest_plot_line(panel, POINTS, t, value, style, label);
    }
}

static zest_plot *layout(const zest_theory_sheet *sheet) {
    char text[160];
    zest_plot *plot = zest_plot_new(1, 2, 960, 440);
    zest_plot_title(plot, "The tilt goes from the average to the worst case",
                    "Left: the regulariser R_t against the tilt t, in the ball from R_0 up to R_inf, for a "
                    "Gaussian up to "
                    "infinity. Right: how much each eigenvalue counts in the ball.");
    snprintf(text, sizeof text, "d = %.15g, rho = %g", (double)sheet->landscape.dimension,
             sheet->landscape.rho);
    zest_plot_subtitle(plot, text);
    for (int c = 0; c < 2; c++) zest_plot_axis_x(zest_plot_at(plot, 0, c), "tilt t", ZEST_PLOT_LOG);
    zest_plot_legend(zest_plot_at(plot, 0, 1), ZEST_PLOT_LEGEND_TOP_LEFT);
    zest_plot_axis_y(zest_plot_at(plot, 0, 0), "regulariser R_t", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(zest_plot_at(plot, 0, 1), "sensitivity φ_i (ball)", ZEST_PLOT_LINEAR);
    return plot;
}

zest_status zest_theory_draw(zest_ctx *ctx, const zest_theory_sheet *sheets, size_t count, const char *path,
                             zest_error *error) {
    double low, high, t[POINTS];
    range_of(sheets, &low, &high);
    for (int j = 0; j < POINTS; j++) t[j] = low * pow(high / low, (double)j / (POINTS - 1));
    zest_plot *plot = layout(sheets);
    zest_status status = plot ? ZEST_OK : zest_error_memory(error, "the figure", 0);
    for (size_t s = 0; s < count && !status; s++) {
        zest_theory_sheet dense = {.landscape = sheets[s].landscape};
        status = zest_theory_sheet_fill(ctx, &dense, t, POINTS, 0, 0);
        if (status) {
            zest_error_set(error, status, "%s", zest_ctx_error(ctx));
        } else {
            draw_values(zest_plot_at(plot, 0, 0), &dense, &sheets[s], t, (int)s);
            draw_sensitivities(zest_plot_at(plot, 0, 1), &dense, t, (int)s);
        }
        zest_theory_sheet_free(&dense);
    }
    if (!status) status = zest_plot_write(plot, path, error);
    zest_plot_free(plot);
    return status;
}
