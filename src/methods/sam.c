/* Sharpness-aware minimisation (Foret, Kleiner, Mobahi, Neyshabur, ICLR 2021): the max-loss objective, by one
 * step uphill.
 *
 *     e = r g(x)/(|g(x)| + 1e-12)      G = g(x + e)
 *
 * x + e is made where g(x) was, in fp32 whatever the weights are; x itself is not touched. */
#include <math.h>

#include "methods/method_internal.h"

zest_status zest_sam_gather(zest_method_pass *pass) {
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
