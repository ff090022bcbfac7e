/* A function with known sharpness, for the tests of its measurement. */
#ifndef ZEST_TESTS_BOWL_H
#define ZEST_TESTS_BOWL_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/lanes.h"
#include "model/forward_pass.h"
#include "tests/support.h"

enum { MOST = 200 };

/* ---- f(x + e) = f + g e + (1/2) e'He + quartic sum e_i^4, with H = Q L Q and Q = I - 2uu' ---- */

typedef struct {
    size_t d;
    double loss, quartic, values[MOST], g[MOST], u[MOST];
    int fp32; /* gradients are rounded to floats, as a model's are */
    double offset[MOST];
    size_t calls;
} bowl;

static inline void turn(const bowl *b, const double *from, double *to) {
    double along = 0;
    for (size_t i = 0; i < b->d; i++) along += b->u[i] * from[i];
    for (size_t i = 0; i < b->d; i++) to[i] = from[i] - 2 * along * b->u[i];
}

static inline void times_hessian(const bowl *b, const double *from, double *to) {
    double turned[MOST];
    turn(b, from, turned);
    for (size_t i = 0; i < b->d; i++) turned[i] *= b->values[i];
    turn(b, turned, to);
}

static inline void make_bowl(bowl *b, size_t d, const double *values) {
    *b = (bowl){.d = d, .loss = 0.7};
    float noise[MOST];
    double norm = 0;
    zest_noise_for(ZEST_CPU_PLAIN)->normal(noise, 99, 0, d);
    for (size_t i = 0; i < d; i++) norm += (double)noise[i] * (double)noise[i];
    for (size_t i = 0; i < d; i++) {
        b->values[i] = values[i];
        b->u[i] = (double)noise[i] / sqrt(norm);
        b->g[i] = 0.3 * sin(1.0 + (double)i);
    }
}

static inline double bowl_at(const bowl *b, const double *e) {
    double h[MOST], f = b->loss;
    times_hessian(b, e, h);
    for (size_t i = 0; i < b->d; i++) f += b->g[i] * e[i] + e[i] * h[i] / 2 + b->quartic * pow(e[i], 4);
    return f;
}

static inline zest_status bowl_slope(void *user, const float *v, double scale, double factor, double *sum,
                                     zest_error *error) {
    bowl *b = user;
    double e[MOST] = {0}, h[MOST];
    (void)error;
    b->calls++;
    for (size_t i = 0; i < b->d; i++) e[i] = scale * (double)v[i];
    times_hessian(b, e, h);
    for (size_t i = 0; i < b->d; i++) {
        double gradient = b->g[i] + h[i] + 4 * b->quartic * e[i] * e[i] * e[i];
        sum[i] += factor * (b->fp32 ? (double)(float)gradient : gradient);
    }
    return ZEST_OK;
}

static inline zest_status bowl_losses(void *user, const zest_model_lane *lanes, size_t count, double *losses,
                                      zest_error *error) {
    const bowl *b = user;
    float z[MOST];
    double e[MOST] = {0};
    (void)error;
    for (size_t l = 0; l < count; l++) {
        zest_direction_raw(zest_vector_ops_for(ZEST_CPU_PLAIN), &lanes[l].direction, 0, b->d, z);
        for (size_t i = 0; i < b->d; i++) e[i] = lanes[l].scale * lanes[l].direction.gain * (double)z[i];
        losses[l] = bowl_at(b, e);
    }
    return ZEST_OK;
}

static inline zest_status bowl_multiply(void *user, const float *v, double *out, zest_error *error) {
    bowl *b = user;
    double from[MOST] = {0};
    (void)error;
    b->calls++;
    for (size_t i = 0; i < b->d; i++) from[i] = (double)v[i];
    times_hessian(b, from, out);
    return ZEST_OK;
}

/* 3, 1.5, 1, 3/4 ... and some negative ones. */
static inline void usual_values(size_t d, double *values) {
    for (size_t i = 0; i < d; i++) values[i] = (i % 3 == 2 ? -1.0 : 3.0) / (double)(i + 1);
}

static inline int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

#define assert_fine(call)                                    \
    do {                                                     \
        zest_error error_ = {0}, *error = &error_;           \
        if (call) fail_msg("%s: %s", #call, error_.message); \
    } while (0)

#endif
