/* Adam with decoupled weight decay (Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019):
 *
 *     m = b1 m + (1 - b1) G      v = b2 v + (1 - b2) G^2
 *     x = (1 - lr decay) x - lr (m/(1 - b1^n)) / (sqrt(v/(1 - b2^n)) + epsilon),  n = step + 1 */
#include <math.h>

#include "methods/method_internal.h"

typedef struct {
    float factor, b1, b2, rest1, rest2; /* rest: 1 - b */
    float keep, rate, root, epsilon;    /* 1 - lr decay, lr/(1 - b1^n), 1/sqrt(1 - b2^n) */
} constants;

/* By squaring: IEEE operations alone, the same on every machine. */
static double power(double base, uint64_t n) {
    double out = 1;
    for (; n; n >>= 1, base *= base)
        if (n & 1) out *= base;
    return out;
}

static void each(zest_method_pass *pass, const void *user, uint64_t first, size_t count, float *x) {
    const constants *c = user;
    const float *g = pass->method->gradient + first;
    float *m = pass->method->arrays[0] + first, *v = pass->method->arrays[1] + first;
    for (size_t i = 0; i < count; i++) {
        float d = c->factor * g[i];
        m[i] = c->b1 * m[i] + c->rest1 * d;
        v[i] = c->b2 * v[i] + c->rest2 * (d * d);
        x[i] = c->keep * x[i] - c->rate * (m[i] / (sqrtf(v[i]) * c->root + c->epsilon));
    }
}

void zest_adamw_move(zest_method_pass *pass, double factor) {
    const zest_method_options *is = &pass->method->is;
    constants c = {.factor = (float)factor,
                   .b1 = (float)is->beta1,
                   .b2 = (float)is->beta2,
                   .rest1 = (float)(1 - is->beta1),
                   .rest2 = (float)(1 - is->beta2),
                   .keep = (float)(1 - pass->lr * is->decay),
                   .rate = (float)(pass->lr / (1 - power(is->beta1, pass->step + 1))),
                   .root = (float)(1 / sqrt(1 - power(is->beta2, pass->step + 1))),
                   .epsilon = (float)is->epsilon};
    zest_vectors_move(pass, each, &c);
}
