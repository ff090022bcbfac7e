/* Adam with decoupled weight decay (Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019):
 *
 *     m = b1 m + (1 - b1) G      v = b2 v + (1 - b2) G^2
 *     x = (1 - lr decay) x - lr (m/(1 - b1^n)) / (sqrt(v/(1 - b2^n)) + epsilon),  n = step + 1 */
#include <math.h>

#include "methods/method_internal.h"

/* By squaring: IEEE operations alone, the same on every machine. */
static double power(double base, uint64_t n) {
    double out = 1;
    for (; n; n >>= 1, base *= base)
        if (n & 1) out *= base;
    return out;
}

zest_status zest_adamw_move(const zest_method_pass *pass, double factor) {
    const zest_method_options *is = &pass->method->is;
    const zest_sweeps *s = &pass->method->sweeps;
    zest_sweeps_move move = zest_vectors_moving(pass);
    zest_adamw_numbers numbers = {.factor = (float)factor,
                                  .b1 = (float)is->beta1,
                                  .b2 = (float)is->beta2,
                                  .rest1 = (float)(1 - is->beta1),
                                  .rest2 = (float)(1 - is->beta2),
                                  .keep = (float)(1 - pass->lr * is->decay),
                                  .rate = (float)(pass->lr / (1 - power(is->beta1, pass->step + 1))),
                                  .root = (float)(1 / sqrt(1 - power(is->beta2, pass->step + 1))),
                                  .epsilon = (float)is->epsilon};
    return zest_sweeps_done(s, s->table->adamw(s, &move, &numbers), pass->error);
}
