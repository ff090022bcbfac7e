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
#include <math.h>

#include "base/exponential.h"
#include "methods/method_internal.h"

typedef struct {
    const zest_method_pass *pass;
    zest_status status; /* of the scaling */
    double most, sum;   /* of the losses so far; of exp(t (f - most)) */
    double losses;
    size_t count, dropped;
} tilting;

static double take(void *user, double loss) {
    tilting *a = user;
    const zest_method *method = a->pass->method;
    double tilt = method->is.tilt;
    a->dropped += !isfinite(loss);
    if (!isfinite(loss)) return 0;
    if (a->count && loss > a->most) {
        double down = zest_exponential(tilt * (a->most - loss));
        if (down != 1) a->status = zest_vectors_scale(method, method->gradient, down, a->pass->error);
        if (a->status) return 0;
        a->sum *= down;
    }
    if (!a->count || loss > a->most) a->most = loss;
    double weight = zest_exponential(tilt * (loss - a->most));
    a->sum += weight;
    a->losses += loss;
    a->count++;
    return weight;
}

/* One step uphill from a neighbour; *place becomes the point. */
static zest_status climb(zest_method_pass *pass, zest_place *place, int *finite) {
    zest_method *method = pass->method;
    double loss;
    zest_status status = zest_vectors_clear(method, method->point, pass->error);
    if (!status) status = zest_vectors_evaluate(pass, place, method->point, NULL, NULL, &loss);
    if (!status) status = zest_vectors_uphill(pass, place, method->is.ascent, finite);
    *place = (zest_place){.point = method->point};
    return status;
}

zest_status zest_tsam_gather(zest_method_pass *pass) {
    zest_method *method = pass->method;
    tilting a = {.pass = pass};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < method->is.k && !status; i++) {
        zest_direction direction;
        zest_place place;
        double loss;
        int finite = 1;
        status = zest_vectors_neighbour(pass, i, &direction, &place);
        if (!status && method->point) status = climb(pass, &place, &finite);
        a.dropped += !finite;
        if (!status && finite)
            status = zest_vectors_evaluate(pass, &place, method->gradient, take, &a, &loss);
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
