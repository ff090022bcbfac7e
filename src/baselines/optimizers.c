/* Stochastic gradient descent (Robbins and Monro 1951) with heavy-ball momentum (Polyak 1964):
 *
 *     g = G + decay x      m = momentum m + g      x = x - lr m
 *
 * which is also how the weights move under sam, esam and tsam. Clipping scales G down to a norm of at most
 * `clip` before anything else. */
#include <math.h>

#include "baselines/optimizer_internal.h"
#include "base/exp.h"

zest_status zest_sgd_compute_grad(zest_method_pass *pass) {
    zest_eval_point here = {0};
    zest_status status =
        zest_optimizer_evaluate(pass, &here, pass->method->gradient, NULL, NULL, &pass->report->loss);
    pass->report->objective = pass->report->loss;
    return status;
}

zest_status zest_sgd_apply(const zest_method_pass *pass, double factor) {
    const zest_method_options *is = &pass->method->is;
    const zest_optim_vectors *s = &pass->method->sweeps;
    float back = (float)-pass->lr;
    zest_sweeps_move move = zest_optimizer_updating(pass);
    zest_sgd_numbers numbers = {.keep = (float)(1 - pass->lr * is->decay),
                                .slope = back * (float)factor,
                                .momentum = (float)is->momentum,
                                .factor = (float)factor,
                                .decay = (float)is->decay,
                                .back = back};
    return zest_optim_vectors_done(s, s->table->sgd(s, &move, &numbers), pass->error);
}

/* Adam with decoupled weight decay (Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019):
 *
 *     m = b1 m + (1 - b1) G      v = b2 v + (1 - b2) G^2
 *     x = (1 - lr decay) x - lr (m/(1 - b1^n)) / (sqrt(v/(1 - b2^n)) + epsilon),  n = step + 1 */

/* By squaring: IEEE operations alone, the same on every machine. */
static double power(double base, uint64_t n) {
    double out = 1;
    for (; n; n >>= 1, base *= base)
        if (n & 1) out *= base;
    return out;
}

zest_status zest_adamw_apply(const zest_method_pass *pass, double factor) {
    const zest_method_options *is = &pass->method->is;
    const zest_optim_vectors *s = &pass->method->sweeps;
    zest_sweeps_move move = zest_optimizer_updating(pass);
    zest_adamw_numbers numbers = {.factor = (float)factor,
                                  .b1 = (float)is->beta1,
                                  .b2 = (float)is->beta2,
                                  .rest1 = (float)(1 - is->beta1),
                                  .rest2 = (float)(1 - is->beta2),
                                  .keep = (float)(1 - pass->lr * is->decay),
                                  .rate = (float)(pass->lr / (1 - power(is->beta1, pass->step + 1))),
                                  .root = (float)(1 / sqrt(1 - power(is->beta2, pass->step + 1))),
                                  .epsilon = (float)is->epsilon};
    return zest_optim_vectors_done(s, s->table->adamw(s, &move, &numbers), pass->error);
}

/* Sharpness-aware minimisation (Foret, Kleiner, Mobahi, Neyshabur, ICLR 2021): the max-loss objective,
 * max f(x + e) over |e| <= r. Two ways to look for the maximum:
 *
 *     ascent   e = r g(x)/(|g(x)| + 1e-12)                                    G = g(x + e)
 *     random   e = the one of e_1 .. e_k ~ U(r S^(d-1)) with the largest f    G = g(x + e)
 *
 * The first is Foret's, one step uphill. The second is what the ZEST paper says of its SAM runs, "U(r
 * S^(d-1)) as the perturbation distribution" and "k = 5": with sampled perturbations the maximum is over
 * samples. It is tsam as t -> infinity.
 *
 * Uphill, x + e is made where g(x) was, in fp32 whatever the weights are; x itself is not touched. */

static zest_status gather_uphill(zest_method_pass *pass) {
    zest_optimizer *method = pass->method;
    zest_eval_point here = {0}, there = {.point = method->point};
    int finite = 0;
    zest_status status = zest_optimizer_zero_grad(method, method->point, pass->error);
    if (!status)
        status = zest_optimizer_evaluate(pass, &here, method->point, NULL, NULL, &pass->report->loss);
    if (!status) status = zest_optimizer_ascend(pass, &here, method->is.radius, &finite);
    pass->report->objective = pass->report->loss;
    if (status || !finite || !isfinite(pass->report->loss)) {
        pass->factor = 0;
        return status;
    }
    return zest_optimizer_evaluate(pass, &there, method->gradient, NULL, NULL, &pass->report->objective);
}

typedef struct {
    const zest_method_pass *pass;
    zest_status status; /* of the clearing */
    double most, sum;   /* of the losses so far */
    size_t count, dropped;
} search;

/* A new maximum takes the place of the gradient that is there; the gradients of the others are not computed.
 */
static double take(void *user, double loss) {
    search *s = user;
    const zest_optimizer *method = s->pass->method;
    s->dropped += !isfinite(loss);
    if (!isfinite(loss)) return 0;
    s->sum += loss;
    if (s->count++ && !(loss > s->most)) return 0;
    s->most = loss;
    s->status = zest_optimizer_zero_grad(method, method->gradient, s->pass->error);
    return s->status ? 0 : 1;
}

static zest_status gather_worst(zest_method_pass *pass) {
    search s = {.pass = pass};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < pass->method->is.k && !status; i++) {
        zest_direction direction;
        zest_eval_point place;
        double loss;
        status = zest_optimizer_neighbour(pass, i, &direction, &place);
        if (!status) status = zest_optimizer_evaluate(pass, &place, pass->method->gradient, take, &s, &loss);
        if (!status) status = s.status;
    }
    pass->report->dropped = s.dropped;
    pass->report->loss = s.sum / (double)s.count;
    pass->report->objective = s.count ? s.most : NAN;
    pass->factor = s.count ? 1 : 0;
    return status;
}

zest_status zest_sam_compute_grad(zest_method_pass *pass) {
    return pass->method->is.random ? gather_worst(pass) : gather_uphill(pass);
}

/* The average-loss objective E f(x + e), e ~ U(r S^(d-1)) (Wen, Ma, Li, "How does sharpness-aware
 * minimization minimize sharpness?", 2022, call it average-direction sharpness; the ZEST paper calls the
 * method ESAM, which is not "efficient SAM"):
 *
 *     G = 1/k sum_i g(x + e_i)
 *
 * Neighbours whose loss is not finite are left out. */

typedef struct {
    double sum;
    size_t count, dropped;
} averaging;

static double esam_take(void *user, double loss) {
    averaging *a = user;
    a->dropped += !isfinite(loss);
    if (!isfinite(loss)) return 0;
    a->sum += loss;
    a->count++;
    return 1;
}

zest_status zest_esam_compute_grad(zest_method_pass *pass) {
    averaging a = {0};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < pass->method->is.k && !status; i++) {
        zest_direction direction;
        zest_eval_point place;
        double loss;
        status = zest_optimizer_neighbour(pass, i, &direction, &place);
        if (!status)
            status = zest_optimizer_evaluate(pass, &place, pass->method->gradient, esam_take, &a, &loss);
    }
    pass->report->dropped = a.dropped;
    pass->report->loss = pass->report->objective = a.sum / (double)a.count;
    pass->factor = a.count ? 1 / (double)a.count : 0;
    return status;
}

/* Tilted SAM (Li, Zhou, Bilmes, "Reweighting local minima with tilted SAM", 2024): F_t(x) = 1/t log E
 * exp(t f(x + e)), e ~ U(r S^(d-1)). The gradient's estimate with k neighbours:
 *
 *     w_i = exp(t f_i)/sum_j exp(t f_j)      G = sum_i w_i g(x + e_i)
 *
 * gathered with a running maximum: before g_i is added, all that is there is scaled down if f_i is a new
 * maximum. So there is one gradient in memory, not k. At t = 0 every weight and every scale is 1, and the
 * result is esam's to the bit.
 *
 * With `ascent` each neighbour first takes one step of that length along its own gradient, and f_i and g_i
 * are taken there: the mode that the authors' code calls random1. */

typedef struct {
    const zest_method_pass *pass;
    zest_status status; /* of the scaling */
    double most, sum;   /* of the losses so far; of exp(t (f - most)) */
    double losses;
    size_t count, dropped;
} tilting;

static double tsam_take(void *user, double loss) {
    tilting *a = user;
    const zest_optimizer *method = a->pass->method;
    double tilt = method->is.tilt;
    a->dropped += !isfinite(loss);
    if (!isfinite(loss)) return 0;
    if (a->count && loss > a->most) {
        double down = zest_exp(tilt * (a->most - loss));
        if (down != 1) a->status = zest_optimizer_scale_grad(method, method->gradient, down, a->pass->error);
        if (a->status) return 0;
        a->sum *= down;
    }
    if (!a->count || loss > a->most) a->most = loss;
    double weight = zest_exp(tilt * (loss - a->most));
    a->sum += weight;
    a->losses += loss;
    a->count++;
    return weight;
}

/* One step uphill from a neighbour; *place becomes the point. */
static zest_status climb(zest_method_pass *pass, zest_eval_point *place, int *finite) {
    zest_optimizer *method = pass->method;
    double loss;
    zest_status status = zest_optimizer_zero_grad(method, method->point, pass->error);
    if (!status) status = zest_optimizer_evaluate(pass, place, method->point, NULL, NULL, &loss);
    if (!status) status = zest_optimizer_ascend(pass, place, method->is.ascent, finite);
    *place = (zest_eval_point){.point = method->point};
    return status;
}

zest_status zest_tsam_compute_grad(zest_method_pass *pass) {
    zest_optimizer *method = pass->method;
    tilting a = {.pass = pass};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < method->is.k && !status; i++) {
        zest_direction direction;
        zest_eval_point place;
        double loss;
        int finite = 1;
        status = zest_optimizer_neighbour(pass, i, &direction, &place);
        if (!status && method->point) status = climb(pass, &place, &finite);
        a.dropped += !finite;
        if (!status && finite)
            status = zest_optimizer_evaluate(pass, &place, method->gradient, tsam_take, &a, &loss);
        if (!status) status = a.status;
    }
    pass->report->dropped = a.dropped;
    pass->report->loss = a.losses / (double)a.count;
    pass->report->objective = pass->report->loss;
    if (method->is.tilt > 0)
        pass->report->objective = a.most + log(a.sum / (double)a.count) / method->is.tilt;
    pass->factor = a.count ? 1 / a.sum : 0;
    return status;
}
