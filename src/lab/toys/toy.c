/* The two-dimensional toy problems of the paper (section 4.3, appendix B.9): landscapes, tilted loss by
 * quadrature, minima, runs. */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/toys/toy.h"
#include "lab/toys/valley.h"

double zest_toy_stationary(const double *x, size_t n, void *user) {
    (void)n, (void)user;
    double const well = (x[0] * x[0] - 1) * (x[0] * x[0] - 1);
    return 0.2 * (well * (1 + 0.5 * x[0]) + (3 - 2 * x[0]) * x[1] * x[1]);
}

void zest_toy_stationary_gradient(const double x[2], double gradient[2]) {
    double const a = x[0] * x[0] - 1;
    gradient[0] = 0.2 * (4 * x[0] * a * (1 + 0.5 * x[0]) + 0.5 * a * a - 2 * x[1] * x[1]);
    gradient[1] = 0.4 * (3 - 2 * x[0]) * x[1];
}

void zest_toy_stationary_eigenvalues(const double x[2], double eigenvalues[2]) {
    double const a = x[0] * x[0] - 1;
    double const xx = 0.2 * ((4 * a + 8 * x[0] * x[0]) * (1 + 0.5 * x[0]) + 4 * x[0] * a);
    double const xy = -0.8 * x[1], yy = 0.4 * (3 - 2 * x[0]);
    double const middle = 0.5 * (xx + yy), half = hypot(0.5 * (xx - yy), xy);
    eigenvalues[0] = middle + half;
    eigenvalues[1] = middle - half;
}

/* Gradient descent with small steps until near a minimum. 10^4 steps suffice within |x| < 2. */
zest_toy_basin zest_toy_stationary_basin(const double x[2]) {
    double at[2] = {x[0], x[1]}, gradient[2];
    for (int i = 0; i < 10000 && hypot(at[0], at[1]) < 10; i++) {
        if (hypot(at[0] - 1, at[1]) < 0.05) return ZEST_TOY_SHARP;
        if (hypot(at[0] + 1, at[1]) < 0.05) return ZEST_TOY_FLAT;
        zest_toy_stationary_gradient(at, gradient);
        at[0] -= 0.02 * gradient[0];
        at[1] -= 0.02 * gradient[1];
    }
    return ZEST_TOY_LOST;
}

/* ---- Linear regime: triangles over a lattice (toy.h discusses min and max) ---- */

double zest_toy_bowl(double x, double y) { return 0.07 * (8 * x * x + 10 * y * y) + 0.14; }

/* Acute triangles in the metric of h: the two sides at the origin, and the third between them. */
int zest_toy_mesh_is_convex(const zest_toy_mesh *mesh) {
    double const w = mesh->width, h = mesh->height;
    return w > 0 && h > 0 && isfinite(w) && isfinite(h) && 8 * (w / 2) * (w / 2) < 10 * h * h;
}

/* A point on the lattice: the cell (i, j), the position in it, and which of its two triangles. */
typedef struct {
    double i, j, u, v; /* u, v in [0, 1) along the two sides of the cell */
    int upper;
} cell;

static cell locate(const zest_toy_mesh *mesh, const double x[2]) {
    double const along = x[1] / mesh->height, across = x[0] / mesh->width - 0.5 * along;
    cell c = {.i = floor(across), .j = floor(along)};
    c.u = across - c.i;
    c.v = along - c.j;
    c.upper = c.u + c.v > 1;
    return c;
}

static double corner(const zest_toy_mesh *mesh, double i, double j) {
    return zest_toy_bowl((i + 0.5 * j) * mesh->width, j * mesh->height);
}

/* Value and slopes along the two sides of the cell, of the plane through the triangle's corners. The two
 * triangles share the corners (i+1, j) and (i, j+1); the third is (i, j), or opposite to it. */
static double plane(const zest_toy_mesh *mesh, const cell *c, double *rise_u, double *rise_v) {
    double const right = corner(mesh, c->i + 1, c->j), up = corner(mesh, c->i, c->j + 1);
    double const third = corner(mesh, c->i + c->upper, c->j + c->upper);
    *rise_u = c->upper ? third - up : right - third;
    *rise_v = c->upper ? third - right : up - third;
    return third + *rise_u * (c->u - c->upper) + *rise_v * (c->v - c->upper);
}

double zest_toy_linear(const double *x, size_t n, void *user) {
    (void)n;
    const zest_toy_mesh *mesh = user;
    cell const c = locate(mesh, x);
    double rise_u, rise_v;
    return plane(mesh, &c, &rise_u, &rise_v);
}

void zest_toy_linear_gradient(const zest_toy_mesh *mesh, const double x[2], double gradient[2]) {
    cell const c = locate(mesh, x);
    double rise_u, rise_v;
    plane(mesh, &c, &rise_u, &rise_v);
    gradient[0] = rise_u / mesh->width;
    gradient[1] = (rise_v - 0.5 * rise_u) / mesh->height;
}

void zest_toy_mesh_triangle(const zest_toy_mesh *mesh, const double x[2], zest_toy_triangle *triangle) {
    cell const c = locate(mesh, x);
    double const i[3] = {c.i + 1, c.i, c.i + c.upper}, j[3] = {c.j, c.j + 1, c.j + c.upper};
    for (int k = 0; k < 3; k++) {
        triangle->x[k] = (i[k] + 0.5 * j[k]) * mesh->width;
        triangle->y[k] = j[k] * mesh->height;
    }
    zest_toy_linear_gradient(mesh, x, triangle->slope);
}

double zest_toy_route_slope(const zest_toy_mesh *mesh, const double *points, size_t count, double floor_value,
                            double *length) {
    enum { SUBSTEPS = 20 }; /* sub-steps of a step, which may cross several triangles */
    zest_toy_mesh copy = *mesh;
    double total = 0, path_length = 0;
    for (size_t p = 0; p + 1 < count; p++) {
        const double *a = points + 2 * p, *b = a + 2;
        double const substep = hypot(b[0] - a[0], b[1] - a[1]) / SUBSTEPS;
        for (int s = 0; s < SUBSTEPS; s++) {
            double const part = (s + 0.5) / SUBSTEPS;
            double const at[2] = {a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1])};
            double gradient[2];
            if (zest_toy_linear(at, 2, &copy) < floor_value) {
                p = count; /* arrived */
                break;
            }
            zest_toy_linear_gradient(mesh, at, gradient);
            total += substep * hypot(gradient[0], gradient[1]);
            path_length += substep;
        }
    }
    if (length) *length = path_length;
    return path_length > 0 ? total / path_length : 0;
}

double zest_toy_route_bend(const double *points, size_t count) {
    double const half = 0.5 * fabs(points[0]);
    for (size_t p = 0; p + 1 < count && half > 0 && points[1] != 0; p++) {
        const double *a = points + 2 * p, *b = a + 2;
        if (!(fabs(b[0]) <= half)) continue;
        double const part = (fabs(a[0]) - half) / (fabs(a[0]) - fabs(b[0]));
        return (a[1] + part * (b[1] - a[1])) / points[1];
    }
    return NAN;
}

/* ---- Tilted loss F_t on the ball by quadrature ----
 *
 * Circles at the Gauss-Legendre points of r^2 (uniform density on a disc), evenly spaced spokes: for a
 * smooth f the error falls faster than any power of the number of points. */

static const double PI = 3.14159265358979323846;

/* Node and weight i of the n-point Gauss-Legendre rule on [0, 1], by Newton's method. */
static void gauss_legendre(size_t n, size_t i, double *node, double *weight) {
    double x = cos(PI * ((double)i + 0.75) / ((double)n + 0.5)), slope = 1;
    for (int round = 0; round < 100; round++) {
        double now = 1, before = 0;
        for (size_t k = 1; k <= n; k++) { /* k P_k = (2k-1) x P_{k-1} - (k-1) P_{k-2} */
            double const next = ((2 * (double)k - 1) * x * now - ((double)k - 1) * before) / (double)k;
            before = now;
            now = next;
        }
        slope = (double)n * (x * now - before) / (x * x - 1);
        double const step = now / slope;
        x -= step;
        if (fabs(step) < 1e-15) break;
    }
    *node = 0.5 * (1 - x);
    *weight = 1 / ((1 - x * x) * slope * slope);
}

zest_status zest_toy_disc_new(zest_toy_disc *disc, double rho, size_t rings, size_t spokes) {
    *disc = (zest_toy_disc){0};
    if (rings < 1 || spokes < 1 || rings > 10000 || spokes > 100000 || !(rho > 0)) return ZEST_ERROR_ARGUMENT;
    size_t const count = rings * spokes;
    disc->x = malloc(3 * count * sizeof *disc->x);
    if (!disc->x) return ZEST_ERROR_MEMORY;
    disc->y = disc->x + count;
    disc->weight = disc->y + count;
    disc->count = count;
    for (size_t i = 0, at = 0; i < rings; i++) {
        double square, weight;
        gauss_legendre(rings, i, &square, &weight);
        double const radius = rho * sqrt(2 * square);
        for (size_t j = 0; j < spokes; j++, at++) {
            double const angle = 2 * PI * ((double)j + 0.5 * (double)(i % 2)) / (double)spokes;
            disc->x[at] = radius * cos(angle);
            disc->y[at] = radius * sin(angle);
            disc->weight[at] = weight / (double)spokes;
        }
    }
    return ZEST_OK;
}

void zest_toy_disc_free(zest_toy_disc *disc) {
    free(disc->x);
    *disc = (zest_toy_disc){0};
}

/* Log-sum-exp in one pass: the largest exponent so far is factored out. */
double zest_toy_tilted(const zest_toy_disc *disc, zest_objective_f64 f, void *user, double t,
                       const double x[2]) {
    double top = -INFINITY, sum = 0, mean = 0;
    for (size_t i = 0; i < disc->count; i++) {
        double const at[2] = {x[0] + disc->x[i], x[1] + disc->y[i]};
        double const value = f(at, 2, user), exponent = t * value;
        mean += disc->weight[i] * value;
        if (!(t > 0)) continue;
        if (exponent > top) {
            sum *= exp(top - exponent);
            top = exponent;
        }
        sum += disc->weight[i] * exp(exponent - top);
    }
    return t > 0 ? (top + log(sum)) / t : mean;
}

/* ---- Minima of F_t ---- */

enum { ACROSS = 49, UP = 33 };

/* Coordinate search: steps along the axes, halved when none improves. */
static void refine(const zest_toy_disc *disc, zest_objective_f64 f, void *user, double t, double best[3],
                   double step) {
    static const int moves[4][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
    while (step > 1e-6) {
        int moved = 0;
        for (int m = 0; m < 4; m++) {
            double const at[2] = {best[0] + step * moves[m][0], best[1] + step * moves[m][1]};
            double const value = zest_toy_tilted(disc, f, user, t, at);
            if (!(value < best[2])) continue;
            best[0] = at[0], best[1] = at[1], best[2] = value;
            moved = 1;
        }
        if (!moved) step *= 0.5;
    }
}

static int is_lowest(double grid[UP][ACROSS], int i, int j) {
    for (int b = j - 1; b <= j + 1; b++)
        for (int a = i - 1; a <= i + 1; a++)
            if ((a != i || b != j) && !(grid[j][i] < grid[b][a])) return 0;
    return 1;
}

size_t zest_toy_minima(const zest_toy_disc *disc, zest_objective_f64 f, void *user, double t,
                       const zest_toy_box *box, double (*found)[3], size_t capacity) {
    double grid[UP][ACROSS];
    double const dx = (box->x1 - box->x0) / (ACROSS - 1), dy = (box->y1 - box->y0) / (UP - 1);
    size_t count = 0;
    for (int j = 0; j < UP; j++)
        for (int i = 0; i < ACROSS; i++)
            grid[j][i] = zest_toy_tilted(disc, f, user, t, (double[2]){box->x0 + i * dx, box->y0 + j * dy});
    for (int j = 1; j < UP - 1; j++)
        for (int i = 1; i < ACROSS - 1; i++) {
            if (!is_lowest(grid, i, j)) continue;
            double best[3] = {box->x0 + i * dx, box->y0 + j * dy, grid[j][i]};
            refine(disc, f, user, t, best, 0.5 * fmin(dx, dy));
            for (int c = 0; c < 3 && count < capacity; c++) found[count][c] = best[c];
            count++;
        }
    return count;
}

/* ---- Runs: gradient descent, and the zeroth-order methods through the tuner ---- */

void zest_toy_preset(zest_toy_kind kind, int clean, zest_toy_settings *settings) {
    *settings = (zest_toy_settings){.kind = kind,
                                    .mesh = {.width = 0.3, .height = 0.25},
                                    .t = 1,
                                    .lr = 0.1,
                                    .gd_lr = 0.1,
                                    .k = 500,
                                    .distribution = "gaussian",
                                    .denominator = "shared"};
    if (kind == ZEST_TOY_VALLEY) {
        settings->valleys = 1;
        settings->start[2] = 1.5;
        settings->rho = 0.2;
        settings->k = 5;
        settings->lr = 0.02;
        settings->steps = 3000;
    } else if (kind == ZEST_TOY_STATIONARY) {
        settings->start[0] = 0, settings->start[1] = 1;
        settings->rho = clean ? 0.4 : 0.8; /* small enough that the smoothed losses keep both minima */
        settings->steps = clean ? 1000 : 100;
        settings->gd_steps = 50;
    } else {
        settings->start[0] = -1.5; /* neither on the steep axis (y) nor on the flat one */
        settings->start[1] = 1.8;
        settings->rho = clean ? 2 : 0.5;
        settings->steps = settings->gd_steps = clean ? 80 : 40;
        if (!clean) return;
        /* the same distance in smaller steps: closer to the gradient flow */
        settings->lr = settings->gd_lr = 0.05;
        settings->distribution = "sphere", settings->denominator = "ball"; /* exactly as in Theorem 3.1 */
    }
}

const char *zest_toy_method_name(zest_toy_method method) {
    static const char *const names[ZEST_TOY_METHODS] = {"gd", "mezo", "zest-n", "zest-bc"};
    return (unsigned)method < ZEST_TOY_METHODS ? names[method] : "?";
}

uint64_t zest_toy_steps(const zest_toy_settings *settings, zest_toy_method method) {
    return method == ZEST_TOY_GD ? settings->gd_steps : settings->steps;
}

zest_objective_f64 zest_toy_objective(const zest_toy_settings *settings, void **user) {
    *user = (void *)&settings->mesh; /* read only */
    return settings->kind == ZEST_TOY_VALLEY   ? zest_valley
           : settings->kind == ZEST_TOY_LINEAR ? zest_toy_linear
                                               : zest_toy_stationary;
}

static void descend(const zest_toy_settings *settings, double *path) {
    for (uint64_t i = 0; i < settings->gd_steps; i++) {
        double gradient[2], *x = path + 2 * i;
        if (settings->kind == ZEST_TOY_LINEAR)
            zest_toy_linear_gradient(&settings->mesh, x, gradient);
        else
            zest_toy_stationary_gradient(x, gradient);
        x[2] = x[0] - settings->gd_lr * gradient[0];
        x[3] = x[1] - settings->gd_lr * gradient[1];
    }
}

static zest_status prepare(zest_tuner *tuner, const zest_toy_settings *settings, zest_toy_method method,
                           uint64_t seed) {
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"t", settings->t},   {"rho", settings->rho}, {"k", (double)settings->k},
                   {"lr", settings->lr}, {"seed", (double)seed}, {"threads", 1}};
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, seed);
    zest_status status = zest_tuner_set(tuner, "method", zest_toy_method_name(method));
    if (!status) status = zest_tuner_set(tuner, "seed", text);
    if (!status) status = zest_tuner_set(tuner, "distribution", settings->distribution);
    /* MeZO has no denominator */
    if (!status)
        status =
            zest_tuner_set(tuner, "denominator", method == ZEST_TOY_MEZO ? "shared" : settings->denominator);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !status; i++)
        status = zest_tuner_set_number(tuner, numbers[i].name, numbers[i].value);
    if (!status && settings->auto_t && method != ZEST_TOY_MEZO) status = zest_tuner_set(tuner, "t", "auto");
    void *user;
    zest_objective_f64 f = zest_toy_objective(settings, &user);
    return status ? status : zest_tuner_objective_f64(tuner, f, user);
}

static zest_status tune(zest_tuner *tuner, const zest_toy_settings *settings, double x[2], double *path) {
    zest_status status = ZEST_OK;
    for (uint64_t i = 0; i < settings->steps; i++) {
        if (!status) status = zest_tuner_step(tuner, NULL);
        if (status && status != ZEST_ERROR_OBJECTIVE) return status;
        path[2 * i + 2] = status ? NAN : x[0]; /* f diverged: that is a result, too */
        path[2 * i + 3] = status ? NAN : x[1];
    }
    return ZEST_OK;
}

zest_status zest_toy_tuner(const zest_toy_settings *settings, zest_toy_method method, uint64_t seed,
                           double *x, size_t n, zest_ctx **ctx, zest_tuner **tuner, zest_error *error) {
    *tuner = NULL;
    *ctx = zest_ctx_new();
    if (!*ctx)
        return zest_error_set(error, ZEST_ERROR_MEMORY,
                              "cannot create a context: out of memory, or ZEST_CPU is invalid");
    *tuner = zest_tuner_new_f64(*ctx, x, n);
    zest_status status = *tuner ? prepare(*tuner, settings, method, seed) : ZEST_ERROR_MEMORY;
    return status ? zest_error_set(error, status, "%s", zest_ctx_error(*ctx)) : ZEST_OK;
}

zest_status zest_toy_run(const zest_toy_settings *settings, zest_toy_method method, uint64_t seed,
                         double *path, zest_error *error) {
    double x[2] = {settings->start[0], settings->start[1]};
    path[0] = x[0], path[1] = x[1];
    if (method == ZEST_TOY_GD) return descend(settings, path), ZEST_OK;
    zest_ctx *ctx;
    zest_tuner *tuner;
    zest_status status = zest_toy_tuner(settings, method, seed, x, 2, &ctx, &tuner, error);
    if (!status) {
        status = tune(tuner, settings, x, path);
        if (status) zest_error_set(error, status, "%s", zest_ctx_error(ctx));
    }
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
    return status;
}
