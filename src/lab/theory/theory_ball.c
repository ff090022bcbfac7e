/* The regulariser under ball perturbation for finite t (Theorem 4.2, eq. Rt:B), which the paper leaves as a
 * d-dimensional integral.
 *
 * Its Laplace transform with respect to the squared radius is a product over the directions, so that it is
 * one contour integral whatever d. With a_i = t rho^2 lambda_i, b_i = t rho g_i and w = (d - count)/2 + 1,
 *
 *     E exp(tX) = C int exp(h(z)) dz,        Re z > max(a_i, 0),
 *     h(z) = z d/2 - w log z - 1/2 sum_i log(z - a_i) + sum_i b_i^2 / (2 (z - a_i)),
 *
 * where 1/C is the same integral without tilt. In the tilted ball, E u_i^2 is the mean of
 * 1/(z - a_i) + b_i^2/(z - a_i)^2 under the weight exp(h).
 *
 * The contour passes through the saddle c, where h'(c) = 0, and then bends to the left, ending at 110
 * degrees. With y_i = (z - c)/(c - a_i), h(z) - h(c) is a sum of terms y - log(1+y) and y^2/(1+y) with
 * positive factors. Each of them falls along such a path, on all scales at once, so the integrand never
 * grows, and none of them loses digits. On the hyperbola z = c - A (cosh s - 1) + iB sinh s the trapezoid
 * rule converges geometrically. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/theory/theory.h"

typedef struct {
    size_t count;
    double *a, *bb, *gap; /* a_i, b_i^2, c - a_i */
    double half;          /* d/2 */
    double weight;        /* of log z in the exponent */
    double c;
    int near; /* a weak tilt: the exponent is the untilted one, and the tilt enters as exp(q) - 1 */
} ball;

/* What the trapezoid rule sums, divided by i: exp(h), (exp(q) - 1) exp(h) if near, and exp(h) times u_i^2's
 * factor. */
enum { PLAIN, TILTED, MOMENTS };

static double complex complex_of(double re, double im) { return re + im * I; }

/* y - log(1+y), without the cancellation that small y would bring: w y^2/2 is about 1 where it counts, and w
 * may be 1e9. */
static double complex excess(double complex y) {
    if (cabs(y) > 0.25) return y - clog(1 + y);
    double complex sum = 0;
    for (int k = 30; k >= 2; k--) sum = (k % 2 ? -1.0 : 1.0) / k + y * sum;
    return y * y * sum;
}

static double complex log1p_complex(double complex y) {
    double re = creal(y), im = cimag(y);
    return complex_of(log1p(re * (2 + re) + im * im) / 2, atan2(im, 1 + re));
}

static double complex expm1_complex(double complex q) {
    double s = sin(cimag(q) / 2), e = expm1(creal(q));
    return complex_of(e * cos(cimag(q)) - 2 * s * s, (e + 1) * sin(cimag(q)));
}

/* h(c + step) - h(c). */
static double complex exponent(const ball *p, double complex step) {
    double complex sum = p->weight * excess(step / p->c);
    if (p->near) return sum;
    for (size_t i = 0; i < p->count; i++) {
        double complex y = step / p->gap[i];
        sum += excess(y) / 2 + p->bb[i] / (2 * p->gap[i]) * (y * y / (1 + y));
    }
    return sum;
}

/* q: what the tilt adds to the exponent. */
static double complex tilt_at(const ball *p, double complex z) {
    double complex q = 0;
    for (size_t i = 0; i < p->count; i++) q += (p->bb[i] / (z - p->a[i]) - log1p_complex(-p->a[i] / z)) / 2;
    return q;
}

/* Adds one node's contribution to the sums; returns 0 once nothing is left to add. */
static int add_node(const ball *p, double complex step, double complex pace, double *sums, int moments) {
    double complex h = exponent(p, step);
    if (creal(h) < -60) return 0;
    double complex weight = cexp(h) * pace;
    sums[PLAIN] += creal(weight);
    if (p->near) {
        double complex more = expm1_complex(tilt_at(p, p->c + step)) * weight;
        sums[TILTED] += creal(more);
        weight += more;
    }
    for (size_t i = 0; moments && i < p->count; i++) {
        double complex r = 1 / (p->gap[i] + step);
        sums[MOMENTS + i] += creal(weight * (r + p->bb[i] * r * r));
    }
    return 1;
}

/* The width of the saddle is where the exponent has fallen by 1/2. */
static double saddle_width(const ball *p) {
    double second = p->weight / p->c / p->c;
    for (size_t i = 0; !p->near && i < p->count; i++)
        second += (0.5 + p->bb[i] / p->gap[i]) / p->gap[i] / p->gap[i];
    return 1 / sqrt(second);
}

/* The nodes first, first + stride, ... of the upper half; the lower half is their mirror image. */
static void add_nodes(const ball *p, double first, double stride, double *sums, int moments) {
    const double bend = 0.364; /* -cot(110 degrees) */
    double width = saddle_width(p);
    for (double s = first; s < 700; s += stride) {
        double complex step = width * complex_of(-2 * bend * sinh(s / 2) * sinh(s / 2), sinh(s));
        double complex pace = width * complex_of(cosh(s), bend * sinh(s));
        if (!add_node(p, step, pace, sums, moments)) return;
    }
}

/* The logarithm of the integral; near, of its ratio to the untilted one. */
static double log_of(const ball *p, const double *sums, double stride) {
    return p->near ? log1p(sums[TILTED] / sums[PLAIN]) : log(sums[PLAIN] * stride);
}

static double moment_of(const ball *p, const double *sums, size_t i) {
    return sums[MOMENTS + i] / (sums[PLAIN] + (p->near ? sums[TILTED] : 0));
}

typedef struct {
    double log, log_change;       /* the change that the last halving of the step made */
    double moment, moment_change; /* the largest of the moments, and of their changes */
} integral;

static integral compare(const ball *p, const double *before, const double *now, double stride, int moments) {
    integral result = {.log = log_of(p, now, stride)};
    result.log_change = fabs(result.log - log_of(p, before, 2 * stride));
    for (size_t i = 0; moments && i < p->count; i++) {
        double moment = moment_of(p, now, i), change = fabs(moment - moment_of(p, before, i));
        result.moment = fmax(result.moment, moment);
        result.moment_change = fmax(result.moment_change, change);
    }
    return result;
}

static int has_settled(const ball *p, const integral *result) {
    const double tolerance =
        4e-15; /* each halving doubles the digits, so the last change is larger than the error */
    return result->log_change <= tolerance * (p->near ? fabs(result->log) : 1) &&
           result->moment_change <= tolerance * result->moment;
}

/* Halves the step until the result settles. sums: 2·(MOMENTS + count) numbers, the first half keeps the
 * result. */
static integral integrate(const ball *p, double *sums, int moments) {
    size_t total = MOMENTS + (moments ? p->count : 0);
    double *before = sums + total, stride = 0.25;
    for (size_t j = 0; j < total; j++) sums[j] = 0;
    add_node(p, 0, saddle_width(p) / 2, sums, moments); /* half of it: it is its own mirror image */
    add_nodes(p, stride, stride, sums, moments);
    integral result;
    do {
        memcpy(before, sums, total * sizeof *sums);
        add_nodes(p, stride / 2, stride, sums, moments);
        stride /= 2;
        result = compare(p, before, sums, stride, moments);
    } while (!has_settled(p, &result) && stride > 1.0 / 128);
    return result;
}

/* h'(c) = 0. Measured from the rightmost singularity, -h' falls and is convex, so Newton's method from the
 * left climbs to the root without overshooting, by a factor of at least 1.5 while it is far away. */
static void find_saddle(ball *p) {
    double right = 0;
    for (size_t i = 0; i < p->count; i++) right = fmax(right, p->a[i]);
    double x = 0.5 / p->half; /* a singularity of weight 1/2 or more sits at x = 0 */
    for (int turn = 0; turn < 1000; turn++) {
        double value = p->weight / (right + x) - p->half, fall = p->weight / (right + x) / (right + x);
        for (size_t i = 0; i < p->count; i++) {
            double r = 1 / (right - p->a[i] + x);
            value += r / 2 * (1 + p->bb[i] * r);
            fall += r * r * (0.5 + p->bb[i] * r);
        }
        double next = x + value / fall;
        if (!(next - x > 1e-15 * x)) break;
        x = next;
    }
    p->c = right + x;
    for (size_t i = 0; i < p->count; i++) p->gap[i] = right - p->a[i] + x;
}

/* -log(1 - a/c) */
static double curve_at(const ball *p, size_t i) {
    double ratio = p->a[i] / p->c;
    return fabs(ratio) < 0.5 ? -log1p(-ratio) : -log(p->gap[i] / p->c);
}

/* log E exp(tX) for a strong tilt: h at its saddle less the untilted h at its own, and the ratio of the
 * integrals. */
static double log_mean_far(ball *p, double *sums, int moments, integral *result, double *size) {
    double all = p->half + 1, centre = all / p->half, q = 0, untilted_sums[2 * MOMENTS];
    ball untilted = {.half = p->half, .weight = all, .c = centre};
    integral reference = integrate(&untilted, untilted_sums, 0);
    *result = integrate(p, sums, moments);
    for (size_t i = 0; i < p->count; i++) {
        q += (curve_at(p, i) + p->bb[i] / p->gap[i]) / 2;
        *size += (fabs(curve_at(p, i)) + p->bb[i] / p->gap[i]) / 2;
    }
    double moved = all * creal(excess(p->c / centre - 1));
    *size += 1 + moved;
    result->log_change += reference.log_change;
    return moved + q + (result->log - reference.log);
}

/* Without tilt the moments of the ball are known: E u_i^2 = d/(d+2). */
static void average(const zest_landscape *landscape, zest_sharpness *sharpness, double *sensitivity) {
    double d = (double)landscape->dimension, factor = landscape->rho * landscape->rho / 2 * (d / (d + 2));
    *sharpness = (zest_sharpness){0};
    for (size_t i = 0; i < landscape->count; i++) {
        sharpness->value += factor * landscape->eigenvalues[i];
        sharpness->error += 4e-16 * factor * fabs(landscape->eigenvalues[i]);
        if (sensitivity) sensitivity[i] = factor;
    }
    if (sensitivity) sharpness->sensitivity_error = 4e-16 * factor;
}

/* Fills in a_i and b_i^2; returns the size of the tilt at z = 1. */
static double prepare(ball *p, const zest_landscape *landscape, double t) {
    double rho = landscape->rho, size = 0;
    for (size_t i = 0; i < p->count; i++) {
        double b = t * rho * zest_theory_slope(landscape, i);
        p->a[i] = t * rho * rho * landscape->eigenvalues[i];
        p->bb[i] = b * b;
        size += (fabs(p->a[i]) + p->bb[i]) / 2;
    }
    p->near = size < 0.25;
    if (!p->near) {
        p->weight = ((double)(landscape->dimension - landscape->count)) / 2 + 1;
        find_saddle(p);
    } else {
        p->weight = p->half + 1;
        p->c = p->weight / p->half;
        for (size_t i = 0; i < p->count; i++) p->gap[i] = p->c - p->a[i];
    }
    return size;
}

zest_status zest_theory_ball(zest_ctx *ctx, const zest_landscape *landscape, double t,
                             zest_sharpness *sharpness, double *sensitivity) {
    zest_status status = zest_theory_check_tilt(ctx, landscape, t);
    if (status) return status;
    size_t count = landscape->count, bytes = (3 * count + 2 * (MOMENTS + count)) * sizeof(double);
    double *memory = malloc(bytes);
    if (!memory) return zest_error_memory(zest_ctx_sink(ctx), "the theory's sums", bytes);
    ball p = {.count = count, .a = memory, .bb = memory + count, .gap = memory + 2 * count};
    p.half = (double)landscape->dimension / 2;
    double size = prepare(&p, landscape, t), *sums = memory + 3 * count;
    if (size < 1e-150) {
        average(landscape, sharpness,
                sensitivity); /* anything smaller would be lost below the least double */
    } else if (!isfinite(size)) {
        sharpness->value = size;
    } else {
        integral result;
        double log_mean;
        if (p.near)
            result = integrate(&p, sums, sensitivity != NULL), log_mean = result.log;
        else
            size = 0, log_mean = log_mean_far(&p, sums, sensitivity != NULL, &result, &size);
        *sharpness = (zest_sharpness){.value = log_mean / t, .error = (result.log_change + 2e-15 * size) / t};
        double factor = landscape->rho * landscape->rho / 2;
        for (size_t i = 0; sensitivity && i < count; i++) sensitivity[i] = factor * moment_of(&p, sums, i);
        sharpness->sensitivity_error = factor * (result.moment_change + 2e-15 * result.moment);
    }
    free(memory);
    return zest_theory_check_result(ctx, sharpness->value, "the ball's R_t");
}
