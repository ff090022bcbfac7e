/* The landscape of the stationary regime (appendix B.9). */
#include <math.h>

#include "lab/toys/toy.h"

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

/* Small steps downhill, until near a minimum. 10^4 of them pass any slow stretch within |x| < 2. */
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

/* The landscape of the linear regime: triangles over a lattice (appendix B.9; see toy.h on min and max). */

double zest_toy_bowl(double x, double y) { return 0.07 * (8 * x * x + 10 * y * y) + 0.14; }

/* Acute triangles in the metric of h: the two sides that leave the origin, and the third between them. */
int zest_toy_mesh_is_convex(const zest_toy_mesh *mesh) {
    double const w = mesh->width, h = mesh->height;
    return w > 0 && h > 0 && isfinite(w) && isfinite(h) && 8 * (w / 2) * (w / 2) < 10 * h * h;
}

/* A place on the lattice: the cell (i, j), the place within it, and which of its two triangles. */
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

/* Value and rises along the two sides of the cell, of the plane through the triangle's corners. The two
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
    enum { PIECES = 20 }; /* of a step: it may cross several triangles */
    zest_toy_mesh copy = *mesh;
    double total = 0, way = 0;
    for (size_t p = 0; p + 1 < count; p++) {
        const double *a = points + 2 * p, *b = a + 2;
        double const piece = hypot(b[0] - a[0], b[1] - a[1]) / PIECES;
        for (int s = 0; s < PIECES; s++) {
            double const part = (s + 0.5) / PIECES;
            double const at[2] = {a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1])};
            double gradient[2];
            if (zest_toy_linear(at, 2, &copy) < floor_value) {
                p = count; /* arrived */
                break;
            }
            zest_toy_linear_gradient(mesh, at, gradient);
            total += piece * hypot(gradient[0], gradient[1]);
            way += piece;
        }
    }
    if (length) *length = way;
    return way > 0 ? total / way : 0;
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
