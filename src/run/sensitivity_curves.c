/* The same over time: a line for each t, as the paper draws its figure 3. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "run/sensitivity_panels.h"

/* The method's colour, paler and more broken for smaller t; MeZO dashed in its own, as everywhere. */
static zest_plot_style style_of(const zest_sensitivity_curve *c, const zest_sensitivity_tilts *tilts) {
    static const zest_plot_dash dashes[] = {ZEST_PLOT_SOLID, ZEST_PLOT_DASH_DOT, ZEST_PLOT_DOTTED,
                                            ZEST_PLOT_DASHED};
    size_t above = 0;
    int const colour = zest_sensitivity_colour(c->method ? c->method : "");
    if (c->t == 0) return (zest_plot_style){.colour = ZEST_PLOT_BLUE, .width = 2, .dash = ZEST_PLOT_DASHED};
    for (size_t i = 0; i < tilts->count; i++) above += tilts->values[i] > c->t;
    return (zest_plot_style){.colour = colour ? colour : ZEST_PLOT_ORANGE,
                             .width = 2.2,
                             .opacity = fmax(0.45, 1 - 0.2 * (double)above),
                             .dash = dashes[above % 4]};
}

static void draw_curve(zest_plot_panel *panel, const zest_sensitivity_curve *c, zest_plot_style style) {
    double *room = malloc((3 * c->count + 1) * sizeof *room);
    double *y = room, *low = room + c->count, *high = low + c->count,
           unit = strcmp(c->metric, "loss") ? 100 : 1;
    char name[48];
    if (!room) return; /* the figure goes without */
    for (size_t i = 0; i < c->count; i++) {
        double const error = isfinite(c->errors[i]) ? c->errors[i] : 0;
        y[i] = unit * c->means[i], low[i] = y[i] - unit * error, high[i] = y[i] + unit * error;
    }
    if (c->t == 0)
        snprintf(name, sizeof name, "MeZO (t = 0)");
    else
        zest_number_format(name, sizeof name, "t = %g", c->t);
    zest_plot_band(panel, c->count, c->steps, low, high,
                   (zest_plot_style){.colour = style.colour, .opacity = 0.1}, NULL);
    zest_plot_line(panel, c->count, c->steps, y, style, name);
    free(room);
}

static void draw_panel(zest_plot_panel *panel, const zest_sensitivity_curve *curves, size_t count,
                       const char *task, const char *labels, const zest_sensitivity_tilts *tilts) {
    char text[128];
    int any = 0;
    for (size_t i = 0; i < count; i++) {
        const zest_sensitivity_curve *c = &curves[i];
        if (strcmp(c->task, task) || strcmp(c->labels, labels)) continue;
        if (!any++) {
            snprintf(text, sizeof text, "%.60s, %.60s", task, labels);
            zest_plot_panel_title(panel, text);
            zest_plot_axis_x(panel, "step", ZEST_PLOT_LINEAR);
            zest_plot_axis_y(panel, zest_sensitivity_label(c->metric, text, sizeof text), ZEST_PLOT_LINEAR);
        }
        draw_curve(panel, c, style_of(c, tilts));
    }
}

zest_plot *zest_sensitivity_curves(const zest_sensitivity_curve *curves, size_t count,
                                   zest_sensitivity_style style) {
    zest_sensitivity_tilts tilts = {.count = 0};
    zest_sensitivity_panels panels = {0};
    for (size_t i = 0; i < count; i++) {
        zest_sensitivity_note(&panels, curves[i].task, curves[i].labels);
        zest_sensitivity_note_tilt(&tilts, curves[i].t);
    }
    if (!tilts.count || !panels.task_count) return NULL;
    zest_plot *plot = zest_sensitivity_plot(&panels, style,
                                            "The result on the dev set against the step, a panel for each "
                                            "task and kind of labels, a line for each t "
                                            "with its standard error over seeds.");
    for (size_t t = 0; t < panels.task_count; t++)
        for (size_t l = 0; l < panels.label_count; l++)
            draw_panel(zest_sensitivity_panel(plot, &panels, t, l), curves, count, panels.tasks[t],
                       panels.labels[l], &tilts);
    return plot;
}
