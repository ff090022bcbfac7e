/* The figures of zest toy. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/toy.h"
#include "lab/plot/plot.h"

enum { ACROSS = 91, UP = 64, SHOWN_STEPS = 200 };

static const int colours[ZEST_TOY_METHODS] = {ZEST_PLOT_GREY, ZEST_PLOT_BLUE, ZEST_PLOT_RED,
                                              ZEST_PLOT_PURPLE};
static const zest_plot_dash dashes[ZEST_TOY_METHODS] = {ZEST_PLOT_DASHED, ZEST_PLOT_SOLID, ZEST_PLOT_SOLID,
                                                        ZEST_PLOT_DASH_DOT};
static const zest_plot_mark marks[ZEST_TOY_METHODS] = {ZEST_PLOT_SQUARE, ZEST_PLOT_CIRCLE, ZEST_PLOT_DIAMOND,
                                                       ZEST_PLOT_TRIANGLE};

/* ---- Paths ---- */

static void draw_path(zest_plot_panel *panel, const zest_toy_result *r, size_t run, zest_plot_style style,
                      const char *label) {
    double *x = malloc(2 * r->points * sizeof *x);
    if (!x) return; /* the figure goes without */
    const double *path = r->paths + 2 * run * r->points;
    for (size_t i = 0; i < r->points; i++) x[i] = path[2 * i], x[r->points + i] = path[2 * i + 1];
    zest_plot_line(panel, r->points, x, x + r->points, style, label);
    free(x);
}

/* Where all runs ended. */
static void draw_ends(zest_plot_panel *panel, const zest_toy_study *study, int method) {
    const zest_toy_result *r = &study->results[method];
    zest_plot_style const faint = {.colour = colours[method],
                                   .mark = marks[method],
                                   .size = 6,
                                   .dash = ZEST_PLOT_NO_LINE,
                                   .opacity = 0.55};
    for (size_t run = 0; run < r->runs; run++) {
        const double *end = zest_toy_end(r, run);
        zest_plot_line(panel, 1, end, end + 1, faint, NULL);
    }
}

/* The first seed's paths in full, the other ends as marks. */
static void draw_paths(zest_plot_panel *panel, const zest_toy_study *study) {
    for (int m = 0; m < ZEST_TOY_METHODS; m++) draw_ends(panel, study, m);
    for (int m = 0; m < ZEST_TOY_METHODS; m++) {
        const zest_toy_result *r = &study->results[m];
        zest_plot_style style = {.colour = colours[m], .dash = dashes[m], .width = 1.5};
        draw_path(panel, r, 0, style, NULL);
        style.mark = marks[m], style.size = 10, style.width = 2;
        const double *end = zest_toy_end(r, 0);
        zest_plot_line(panel, 1, end, end + 1, style, zest_toy_title((zest_toy_method)m));
    }
    const double *start = study->settings.start;
    zest_plot_style const ring = {.mark = ZEST_PLOT_RING, .size = 10, .dash = ZEST_PLOT_NO_LINE};
    zest_plot_line(panel, 1, start, start + 1, ring, "start");
}

/* ---- Surfaces ---- */

static void axes(zest_plot_panel *panel, const zest_toy_study *study, const char *title) {
    zest_plot_panel_title(panel, title);
    zest_plot_axis_x(panel, "x", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, "y", ZEST_PLOT_LINEAR);
    zest_plot_range_x(panel, study->box.x0, study->box.x1);
    zest_plot_range_y(panel, study->box.y0, study->box.y1);
    zest_plot_equal(panel);
}

/* Contours of f (t < 0) or of F_t. */
static void draw_surface(zest_plot_panel *panel, const zest_toy_study *study, double t, const char *label) {
    static const double levels[] = {0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1, 1.35, 1.8, 2.4, 3.2};
    enum { LEVELS = sizeof levels / sizeof levels[0] };
    const zest_toy_box *box = &study->box;
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    double *values = malloc(ACROSS * UP * sizeof *values);
    if (!values) return;
    for (int j = 0; j < UP; j++)
        for (int i = 0; i < ACROSS; i++) {
            double const at[2] = {box->x0 + (box->x1 - box->x0) * i / (ACROSS - 1),
                                  box->y0 + (box->y1 - box->y0) * j / (UP - 1)};
            values[j * ACROSS + i] = t < 0 ? f(at, 2, user) : zest_toy_tilted(&study->disc, f, user, t, at);
        }
    zest_plot_grid const grid = {ACROSS, UP, box->x0, box->x1, box->y0, box->y1, values};
    zest_plot_colours(panel, ZEST_PLOT_MAP_DEPTH, ZEST_PLOT_LOG, 0.02, 4, label);
    zest_plot_filled(panel, &grid, LEVELS, levels);
    zest_plot_contours(panel, &grid, LEVELS, levels,
                       (zest_plot_style){.colour = ZEST_PLOT_GREY, .opacity = 0.45}, NULL);
    free(values);
}

/* ---- The stationary toy ---- */

static void draw_tilted(zest_plot_panel *panel, const zest_toy_study *study, int which) {
    char title[80], label[32];
    double const t = which ? study->settings.t : 0;
    snprintf(title, sizeof title, "F at t = %g, in the ball of radius %.3g", t,
             sqrt(2) * study->settings.rho);
    snprintf(label, sizeof label, "F at t = %g", t);
    axes(panel, study, title);
    draw_surface(panel, study, t, label);
    for (int m = which ? ZEST_TOY_ZEST_N : ZEST_TOY_MEZO; m < (which ? ZEST_TOY_METHODS : ZEST_TOY_ZEST_N);
         m++)
        draw_ends(panel, study, m);
    for (size_t j = 0; j < study->minima_count[which]; j++) {
        const double *m = study->minima[which][j];
        char text[32];
        zest_plot_style const star = {
            .colour = ZEST_PLOT_ORANGE, .mark = ZEST_PLOT_STAR, .size = 11, .dash = ZEST_PLOT_NO_LINE};
        zest_plot_line(panel, 1, m, m + 1, star, "minimum of F");
        snprintf(text, sizeof text, "%.4f", m[2]);
        zest_plot_text(panel, m[0], m[1], ZEST_PLOT_BELOW, text, (zest_plot_style){.size = 11.5});
    }
}

/* x against the step: mean and standard deviation over the seeds. */
static void draw_progress(zest_plot_panel *panel, const zest_toy_study *study, zest_toy_method method) {
    const zest_toy_result *r = &study->results[method];
    size_t const stride = 1 + (r->points - 1) / SHOWN_STEPS, count = (r->points - 1) / stride + 1;
    double *room = malloc(4 * count * sizeof *room);
    if (!room) return;
    double *step = room, *mean = room + count, *low = mean + count, *high = low + count;
    for (size_t i = 0; i < count; i++) {
        double sum = 0, squares = 0;
        for (size_t run = 0; run < r->runs; run++) sum += r->paths[2 * (run * r->points + i * stride)];
        mean[i] = sum / (double)r->runs;
        for (size_t run = 0; run < r->runs; run++)
            squares += pow(r->paths[2 * (run * r->points + i * stride)] - mean[i], 2);
        double const sd = r->runs > 1 ? sqrt(squares / (double)(r->runs - 1)) : 0;
        step[i] = (double)(i * stride), low[i] = mean[i] - sd, high[i] = mean[i] + sd;
    }
    if (r->runs > 1)
        zest_plot_band(panel, count, step, low, high, (zest_plot_style){.colour = colours[method]}, NULL);
    zest_plot_line(panel, count, step, mean,
                   (zest_plot_style){.colour = colours[method], .dash = dashes[method]}, NULL);
    free(room);
}

static zest_plot *stationary_figure(const zest_toy_study *study) {
    zest_plot *plot = zest_plot_new(2, 2, 1120, 880);
    zest_plot_title(
        plot, "Two minima of equal loss and equal trace",
        "Contours of the loss with the paths of gradient descent, MeZO and ZEST; contours of the loss "
        "averaged and tilted over a ball, with their minima; the coordinate x against the step.");
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    axes(panel, study, "f and the paths of the first seed");
    draw_surface(panel, study, -1, "f");
    draw_paths(panel, study);
    zest_plot_text(panel, 1.02, -0.12, ZEST_PLOT_BELOW, "sharp", (zest_plot_style){.size = 12.5});
    zest_plot_text(panel, -1.02, -0.12, ZEST_PLOT_BELOW, "flat", (zest_plot_style){.size = 12.5});
    panel = zest_plot_at(plot, 0, 1);
    zest_plot_panel_title(panel, "x against the step: mean and sd over the seeds");
    zest_plot_axis_x(panel, "step", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, "x", ZEST_PLOT_LINEAR);
    zest_plot_range_y(panel, -1.5, 1.5);
    zest_plot_guide_y(panel, 1, (zest_plot_style){.dash = ZEST_PLOT_DOTTED, .width = 1}, NULL);
    zest_plot_guide_y(panel, -1, (zest_plot_style){.dash = ZEST_PLOT_DOTTED, .width = 1}, NULL);
    for (int m = 0; m < ZEST_TOY_METHODS; m++) draw_progress(panel, study, (zest_toy_method)m);
    for (int which = 0; which < 2; which++) draw_tilted(zest_plot_at(plot, 1, which), study, which);
    return plot;
}

/* ---- The linear toy ---- */

/* Every triangle that touches the box: the middles of all lower and upper halves of the cells. */
static void draw_triangles(zest_plot_panel *panel, const zest_toy_study *study) {
    const zest_toy_mesh *mesh = &study->settings.mesh;
    const zest_toy_box *box = &study->box;
    int const rows = (int)ceil(3 / mesh->height) + 2, columns = (int)ceil(4.5 / mesh->width) + 2;
    if (rows > 60 || columns > 60) return; /* too fine to be seen */
    for (int j = -rows; j <= rows; j++)
        for (int i = -2 * columns; i <= 2 * columns; i++)
            for (int upper = 0; upper < 2; upper++) {
                double const u = i + (1 + upper) / 3.0, v = j + (1 + upper) / 3.0;
                double const middle[2] = {(u + 0.5 * v) * mesh->width, v * mesh->height};
                zest_toy_triangle t;
                char text[16];
                if (middle[0] < box->x0 - mesh->width || middle[0] > box->x1 + mesh->width ||
                    middle[1] < box->y0 - mesh->height || middle[1] > box->y1 + mesh->height)
                    continue;
                zest_toy_mesh_triangle(mesh, middle, &t);
                double const slope = hypot(t.slope[0], t.slope[1]);
                zest_plot_polygon(panel, 3, t.x, t.y, slope);
                snprintf(text, sizeof text, "%.1f", slope);
                if (mesh->width >= 0.28 && middle[0] > box->x0 + 0.08 && middle[0] < box->x1 - 0.08 &&
                    middle[1] > box->y0 + 0.05 && middle[1] < box->y1 - 0.05)
                    zest_plot_text(panel, middle[0], middle[1], ZEST_PLOT_CENTRE, text,
                                   (zest_plot_style){.size = 9});
            }
}

/* Downhill on F_t itself, in small steps: the route that an exact gradient would take. */
static void exact_route(const zest_toy_study *study, double t, double *slope, double *bend) {
    enum { STEPS = 400 };
    double const h = 1e-3, rate = study->settings.lr * (double)study->settings.steps / STEPS;
    double path[2 * (STEPS + 1)] = {study->settings.start[0], study->settings.start[1]};
    void *user;
    zest_objective_f64 f = zest_toy_objective(&study->settings, &user);
    for (int i = 0; i < STEPS; i++) {
        const double *x = path + 2 * i;
        for (int c = 0; c < 2; c++) {
            double up[2] = {x[0], x[1]}, down[2] = {x[0], x[1]};
            up[c] += h, down[c] -= h;
            path[2 * i + 2 + c] = x[c] - rate / (2 * h) *
                                             (zest_toy_tilted(&study->disc, f, user, t, up) -
                                              zest_toy_tilted(&study->disc, f, user, t, down));
        }
    }
    *slope = zest_toy_route_slope(&study->settings.mesh, path, STEPS + 1, study->route_floor, NULL);
    *bend = zest_toy_route_bend(path, STEPS + 1);
}

/* The two signs of a route against each other, with a standard error either way. */
static void draw_routes(zest_plot_panel *panel, const zest_toy_study *study) {
    zest_plot_style const star = {
        .colour = ZEST_PLOT_ORANGE, .mark = ZEST_PLOT_STAR, .size = 11, .dash = ZEST_PLOT_NO_LINE};
    zest_plot_panel_title(panel, "Routes: flat is left and low");
    zest_plot_axis_x(panel, "mean |∇f| along the way, until f < 0.5", ZEST_PLOT_LINEAR);
    zest_plot_axis_y(panel, "y / y₀ where x = x₀ / 2", ZEST_PLOT_LINEAR);
    for (int i = 0; i < 2; i++) {
        double const t = i ? study->settings.t : 0;
        double slope, bend;
        char text[32];
        exact_route(study, t, &slope, &bend);
        snprintf(text, sizeof text, "t = %g", t);
        zest_plot_line(panel, 1, &slope, &bend, star, "downhill on F of the ball itself");
        zest_plot_text(panel, slope, bend, i ? ZEST_PLOT_RIGHT : ZEST_PLOT_LEFT, text,
                       (zest_plot_style){.size = 12});
    }
    for (int m = 0; m < ZEST_TOY_METHODS; m++) {
        const zest_toy_result *r = &study->results[m];
        double const low = r->bend - r->bend_error, high = r->bend + r->bend_error;
        double const across[2] = {r->slope - r->slope_error, r->slope + r->slope_error},
                     level[2] = {r->bend, r->bend};
        zest_plot_style const thin = {.colour = colours[m], .width = 1.5};
        zest_plot_whiskers(panel, 1, &r->slope, &low, &high, thin);
        zest_plot_line(panel, 2, across, level, thin, NULL);
        zest_plot_line(
            panel, 1, &r->slope, &r->bend,
            (zest_plot_style){.colour = colours[m], .mark = marks[m], .size = 10, .dash = ZEST_PLOT_NO_LINE},
            NULL);
    }
}

static zest_plot *linear_figure(const zest_toy_study *study) {
    zest_plot *plot = zest_plot_new(1, 2, 1120, 620);
    zest_plot_title(
        plot, "The way down a surface of triangles",
        "Triangles shaded by their slope, dark is flat, with the paths of gradient descent, MeZO and ZEST; "
        "beside it how steep each method's way is and how soon it turns to the flat axis, with standard "
        "errors.");
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    axes(panel, study, "Slope of each triangle, and the paths of the first seed");
    zest_plot_colours(panel, ZEST_PLOT_MAP_LIGHT, ZEST_PLOT_LINEAR, 0, 3.6, "|∇f| of the triangle");
    draw_triangles(panel, study);
    draw_paths(panel, study);
    draw_routes(zest_plot_at(plot, 0, 1), study);
    return plot;
}

zest_status zest_toy_draw(const zest_toy_study *study, const char *path, zest_error *error) {
    const zest_toy_settings *s = &study->settings;
    char text[200];
    zest_plot *plot = s->kind == ZEST_TOY_LINEAR ? linear_figure(study) : stationary_figure(study);
    snprintf(text, sizeof text,
             "preset %s: %s directions%s, k = %" PRIu64 ", ρ = %g, t = %g, lr = %g, %" PRIu64
             " steps, %" PRIu64 " seeds; GD %" PRIu64 " steps",
             study->clean ? "clean" : "paper", s->distribution,
             strcmp(s->denominator, "ball") ? "" : ", ball denominator", s->k, s->rho, s->t, s->lr, s->steps,
             study->seeds, s->gd_steps);
    zest_plot_subtitle(plot, text);
    zest_status const status = zest_plot_write(plot, path, error);
    zest_plot_free(plot);
    return status;
}
