/* F_t on the ball by quadrature. Circles at the Gauss-Legendre points of r^2 (its density is flat on a disc),
 * evenly spaced spokes: for a smooth f the error falls faster than any power of the number of points. */
#include "lab/toys/toy.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static const double PI = 3.14159265358979323846;

/* Node and weight number i of the Gauss-Legendre rule with n points on [0, 1], by Newton's method. */
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

/* One pass, with the largest exponent so far taken out of the sum: exp is never asked for more than exp(0).
 */
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

/* Downhill in steps along the axes, halved where none helps. */
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
                       const zest_toy_box *box, double (*found)[3], size_t room) {
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
            for (int c = 0; c < 3 && count < room; c++) found[count][c] = best[c];
            count++;
        }
    return count;
}
