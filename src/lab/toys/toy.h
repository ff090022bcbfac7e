/* The two landscapes of the paper's low-dimensional examples (section 4.3, appendix B.9) and the tilted
 * loss on them. The functions have the signature of an objective of two doubles, so a tuner can minimise
 * them. */
#ifndef ZEST_LAB_TOYS_TOY_H
#define ZEST_LAB_TOYS_TOY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* ---- Stationary regime: two minima of equal loss and trace, with different largest eigenvalues ---- */

/* f(x,y) = (1/5)[(x^2-1)^2 + (x/2)(x^2-1)^2 + (1+2(1-x)) y^2]. Minima (1,0), the sharp one, and (-1,0), the
 * flat one, both 0. Unbounded below: f -> -inf for x -> -inf, and for y -> inf where x > 3/2. */
double zest_toy_stationary(const double *x, size_t n, void *user);
void zest_toy_stationary_gradient(const double x[2], double gradient[2]);
/* Eigenvalues of the Hessian, the larger first. */
void zest_toy_stationary_eigenvalues(const double x[2], double eigenvalues[2]);

typedef enum { ZEST_TOY_SHARP, ZEST_TOY_FLAT, ZEST_TOY_LOST } zest_toy_basin;
/* The minimum of f that gradient descent reaches from x; lost: none. */
zest_toy_basin zest_toy_stationary_basin(const double x[2]);

/* ---- Linear regime: a surface of triangles ---- */

/* The function that is triangulated: h(x,y) = 0.07(8x^2+10y^2)+0.14. */
double zest_toy_bowl(double x, double y);

/* A lattice of triangles over the whole plane: corners at i·(width,0) + j·(width/2,height), one of them at
 * the minimum. f equals h at the corners and is linear on each triangle.
 *
 * The paper writes f = min_j P_j over the planes of the triangles. For a convex h that minimum is concave and
 * unbounded below, so it cannot be meant. For a lattice whose triangles are acute once x is stretched by
 * sqrt(8) and y by sqrt(10) (then h is a round paraboloid and the lattice is Delaunay: the lower hull of its
 * points), f = max_j P_j: convex, with its minimum 0.14 at (0,0). That is what is used here. */
typedef struct {
    double width, height;
} zest_toy_mesh;

typedef struct {
    double x[3], y[3];
    double slope[2]; /* the gradient of f on this triangle */
} zest_toy_triangle;

int zest_toy_mesh_is_convex(const zest_toy_mesh *mesh);
/* The triangle that contains a point. */
void zest_toy_mesh_triangle(const zest_toy_mesh *mesh, const double x[2], zest_toy_triangle *triangle);
double zest_toy_linear(const double *x, size_t n, void *user); /* user: the mesh */
void zest_toy_linear_gradient(const zest_toy_mesh *mesh, const double x[2], double gradient[2]);

/* Steepness of a path: the mean of |grad f| along it, by length, from the start until f falls below
 * `floor`. points: count pairs. *length may be NULL. */
double zest_toy_route_slope(const zest_toy_mesh *mesh, const double *points, size_t count, double floor,
                            double *length);

/* The other property of the path: y where |x| first falls to half of its initial value, over y at the
 * start. Gradient flow on a smooth h would give 2^-1.25; the sooner y falls, the sooner the path follows
 * the flat axis. NAN: never. */
double zest_toy_route_bend(const double *points, size_t count);

/* ---- The tilted loss ---- */

/* Points and weights of a quadrature rule on the disc of radius sqrt(2) * rho: the ball of Theorem 3.1 in
 * two dimensions. */
typedef struct {
    size_t count;
    double *x, *y, *weight; /* one allocation, owned by x */
} zest_toy_disc;

/* `rings` circles of `spokes` points. Exact for polynomials of degree below min(4 * rings, spokes). */
zest_status zest_toy_disc_new(zest_toy_disc *disc, double rho, size_t rings, size_t spokes);
void zest_toy_disc_free(zest_toy_disc *disc);
/* F_t(x) = (1/t) log E exp(t f(x + rho v)), v uniform in the ball; the mean of f when t = 0. Never overflows. */
double zest_toy_tilted(const zest_toy_disc *disc, zest_objective_f64 f, void *user, double t,
                       const double x[2]);

/* The local minima of F_t in a box, each as x, y, F_t; returns their number, of which at most `capacity`
 * are written. */
typedef struct {
    double x0, x1, y0, y1;
} zest_toy_box;
size_t zest_toy_minima(const zest_toy_disc *disc, zest_objective_f64 f, void *user, double t,
                       const zest_toy_box *box, double (*found)[3], size_t capacity);

/* ---- Runs ---- */

typedef enum { ZEST_TOY_STATIONARY, ZEST_TOY_LINEAR, ZEST_TOY_VALLEY } zest_toy_kind;
typedef enum {
    ZEST_TOY_GD,
    ZEST_TOY_MEZO,
    ZEST_TOY_ZEST_N,
    ZEST_TOY_ZEST_BC,
    ZEST_TOY_METHODS
} zest_toy_method;

typedef struct {
    zest_toy_kind kind;
    zest_toy_mesh mesh; /* of the linear toy */
    size_t valleys;     /* of the valley (valley.h) */
    double start[3];    /* two numbers in the plane; x, y and s of every valley */
    double t, rho, lr, gd_lr;
    int auto_t; /* in place of t: chosen in every step */
    uint64_t k, steps, gd_steps;
    const char *distribution, *denominator; /* names as in the tuner */
} zest_toy_settings;

/* The settings of the paper, with our choice where it gives none (lr; start and mesh of the linear toy).
 * clean: settings that show the paper's claim clearly; docs/toys.md describes how they were found. The valley is not
 * in the paper and has one preset. */
void zest_toy_preset(zest_toy_kind kind, int clean, zest_toy_settings *settings);
const char *zest_toy_method_name(zest_toy_method method); /* "gd", "mezo", "zest-n", "zest-bc" */
uint64_t zest_toy_steps(const zest_toy_settings *settings, zest_toy_method method);
zest_objective_f64 zest_toy_objective(const zest_toy_settings *settings, void **user);

/* A tuner of a zeroth-order method over x (n numbers), which starts where x is. Both are the caller's to free, also
 * after an error. */
zest_status zest_toy_tuner(const zest_toy_settings *settings, zest_toy_method method, uint64_t seed,
                           double *x, size_t n, zest_ctx **ctx, zest_tuner **tuner, zest_error *error);
/* One run in the plane: path gets steps + 1 points, the start first. The zeroth-order methods use the tuner.
 * Points after f stopped being finite are NAN. */
zest_status zest_toy_run(const zest_toy_settings *settings, zest_toy_method method, uint64_t seed,
                         double *path, zest_error *error);

#endif
