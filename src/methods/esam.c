/* The average-loss objective E f(x + e), e ~ U(r S^(d-1)) (Wen, Ma, Li, "How does sharpness-aware
 * minimization minimize sharpness?", 2022, call it average-direction sharpness; the ZEST paper calls the
 * method ESAM, which is not "efficient SAM"):
 *
 *     G = 1/k sum_i g(x + e_i)
 *
 * Neighbours whose loss is not finite are left out. */
#include <math.h>

#include "methods/method_internal.h"

typedef struct {
    double sum;
    size_t count, dropped;
} averaging;

static double take(void *user, double loss) {
    averaging *a = user;
    a->dropped += !isfinite(loss);
    if (!isfinite(loss)) return 0;
    a->sum += loss;
    a->count++;
    return 1;
}

zest_status zest_esam_gather(zest_method_pass *pass) {
    averaging a = {0};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < pass->method->is.k && !status; i++) {
        zest_direction direction;
        zest_place place;
        double loss;
        status = zest_vectors_neighbour(pass, i, &direction, &place);
        if (!status) status = zest_vectors_evaluate(pass, &place, pass->method->gradient, take, &a, &loss);
    }
    pass->report->dropped = a.dropped;
    pass->report->loss = pass->report->objective = a.sum / (double)a.count;
    pass->factor = a.count ? 1 / (double)a.count : 0;
    return status;
}
