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
#include <math.h>

#include "methods/method_internal.h"

static zest_status gather_uphill(zest_method_pass *pass) {
    zest_method *method = pass->method;
    zest_place here = {0}, there = {.point = method->point};
    int finite = 0;
    zest_status status = zest_vectors_clear(method, method->point, pass->error);
    if (!status) status = zest_vectors_evaluate(pass, &here, method->point, NULL, NULL, &pass->report->loss);
    if (!status) status = zest_vectors_uphill(pass, &here, method->is.radius, &finite);
    pass->report->objective = pass->report->loss;
    if (status || !finite || !isfinite(pass->report->loss)) {
        pass->factor = 0;
        return status;
    }
    return zest_vectors_evaluate(pass, &there, method->gradient, NULL, NULL, &pass->report->objective);
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
    const zest_method *method = s->pass->method;
    s->dropped += !isfinite(loss);
    if (!isfinite(loss)) return 0;
    s->sum += loss;
    if (s->count++ && !(loss > s->most)) return 0;
    s->most = loss;
    s->status = zest_vectors_clear(method, method->gradient, s->pass->error);
    return s->status ? 0 : 1;
}

static zest_status gather_worst(zest_method_pass *pass) {
    search s = {.pass = pass};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < pass->method->is.k && !status; i++) {
        zest_direction direction;
        zest_place place;
        double loss;
        status = zest_vectors_neighbour(pass, i, &direction, &place);
        if (!status) status = zest_vectors_evaluate(pass, &place, pass->method->gradient, take, &s, &loss);
        if (!status) status = s.status;
    }
    pass->report->dropped = s.dropped;
    pass->report->loss = s.sum / (double)s.count;
    pass->report->objective = s.count ? s.most : NAN;
    pass->factor = s.count ? 1 : 0;
    return status;
}

zest_status zest_sam_gather(zest_method_pass *pass) {
    return pass->method->is.random ? gather_worst(pass) : gather_uphill(pass);
}
