/* First-order optimizers: the shared step, then each optimizer with its source. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baselines/optimizer.h"
#include "base/memory.h"
#include "base/option.h"
#include "baselines/vector_ops.h"
#include "rng/noise.h"
#include "zest.h"
#include "base/exp.h"

struct zest_optimizer {
    zest_optimizer_options options;
    zest_optim_vectors vectors; /* the weights; the arrays are in the same memory */
    float *gradient;            /* (d): G, up to a factor */
    float *point; /* (d): sam by ascent, tsam with an ascent: a gradient, then the perturbed point */
    float *arrays[ZEST_OPTIMIZER_ARRAYS]; /* (d): momentum; or the two moments of adamw */
    float *copies[ZEST_OPTIMIZER_ARRAYS]; /* of them in host memory, after a download */
};

/* One step in progress. */
typedef struct {
    zest_optimizer *optimizer;
    const zest_optimizer_closure *closure;
    uint64_t step;
    double lr;
    zest_optimizer_report *report;
    zest_error *error;
    double factor; /* G is this times optimizer->gradient */
} zest_optimizer_pass;

#define SAME_PLACE(name) ((int)ZEST_OPTIMIZER_##name == ZEST_CHOICE_##name - ZEST_CHOICE_SGD)
_Static_assert(SAME_PLACE(SGD) && SAME_PLACE(ADAMW) && SAME_PLACE(SAM) && SAME_PLACE(ESAM) &&
                   SAME_PLACE(TSAM) && SAME_PLACE(COUNT),
               "optimizers have the order of the choices of --method");

zest_optimizer_options zest_optimizer_defaults(zest_optimizer_kind kind) {
    return (zest_optimizer_options){
        .kind = kind, .radius = 0.01, .k = 5, .tilt = 1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
}

/* ---- Evaluations, and loops over all weights ---- */

static zest_status evaluate(zest_optimizer_pass *pass, const zest_eval_point *at, float *gradient,
                            zest_grad_weigh *weigh, void *weigher, double *loss) {
    return pass->closure->evaluate(pass->closure->user, at, pass->report->evaluations++, gradient, weigh,
                                   weigher, loss, pass->error);
}

/* Random point i of the step, on the sphere of the radius around x; it refers to the direction. v of a direction
 * on the sphere has norm sqrt(d). */
static zest_status draw_neighbour(zest_optimizer_pass *pass, size_t i, zest_direction *direction,
                                  zest_eval_point *point) {
    const zest_optim_vectors *s = &pass->optimizer->vectors;
    *point = (zest_eval_point){.direction = direction,
                               .scale = pass->optimizer->options.radius / sqrt((double)s->params.dimension)};
    int failed =
        s->functions->draw_sphere(s, zest_seed(pass->optimizer->options.seed, pass->step, i), direction);
    return zest_optim_vectors_done(s, failed, pass->error);
}

static zest_status zero_grad(const zest_optimizer *optimizer, float *x, zest_error *error) {
    const zest_optim_vectors *s = &optimizer->vectors;
    return zest_optim_vectors_done(s, s->functions->zero(s, x), error);
}

static zest_status scale_grad(const zest_optimizer *optimizer, float *x, double c, zest_error *error) {
    const zest_optim_vectors *s = &optimizer->vectors;
    return zest_optim_vectors_done(s, s->functions->scale(s, x, (float)c), error);
}

/* In blocks of fixed size; *norm may be infinite or NaN. */
static zest_status grad_norm(const zest_optimizer *optimizer, const float *x, double *norm,
                             zest_error *error) {
    const zest_optim_vectors *s = &optimizer->vectors;
    size_t blocks = (size_t)((s->params.dimension + ZEST_OPTIM_BLOCK - 1) / ZEST_OPTIM_BLOCK);
    double *sums = malloc(blocks * sizeof *sums), sum = 0;
    if (!sums) return zest_error_memory(error, "the norm of a gradient", blocks * sizeof *sums);
    zest_status status = zest_optim_vectors_done(s, s->functions->square_sums(s, x, sums), error);
    for (size_t b = 0; b < blocks && !status; b++) sum += sums[b];
    *norm = sqrt(sum);
    free(sums);
    return status;
}

/* Replaces the gradient in optimizer->point by the point `length` along it from `from`. *finite is 0, and nothing
 * is done, when its norm is not finite. */
static zest_status ascend(zest_optimizer_pass *pass, const zest_eval_point *from, double length,
                          int *finite) {
    const zest_optimizer *optimizer = pass->optimizer;
    const zest_optim_vectors *s = &optimizer->vectors;
    double norm = 0;
    zest_status status = grad_norm(optimizer, optimizer->point, &norm, pass->error);
    *finite = isfinite(norm);
    if (status || !*finite) return status;
    int failed = s->functions->ascend(s, from, (float)(length / (norm + 1e-12)), optimizer->point);
    return zest_optim_vectors_done(s, failed, pass->error);
}

/* The arrays of this step's update. */
static zest_optim_update update_of(const zest_optimizer_pass *pass) {
    const zest_optimizer *optimizer = pass->optimizer;
    return (zest_optim_update){.gradient = optimizer->gradient,
                               .first = optimizer->arrays[0],
                               .second = optimizer->arrays[1],
                               .rounding = zest_seed(optimizer->options.seed, pass->step, ZEST_SEED_ROUNDING),
                               .nearest = optimizer->options.nearest};
}

zest_status zest_optimizer_evaluate_batch(void *user, const zest_eval_point *at, size_t number,
                                          float *gradient, zest_grad_weigh *weigh, void *weigher,
                                          double *loss, zest_error *error) {
    const zest_optimizer_batch *closure = user;
    zest_dropout dropout;
    zest_grad_job job = {.objective = closure->objective,
                         .at = *at,
                         .gradient = gradient,
                         .factor = 1,
                         .weigh = weigh,
                         .user = weigher};
    if (closure->dropout) {
        dropout = *closure->dropout;
        dropout.seed = zest_seed(dropout.seed, closure->step, number);
        job.dropout = &dropout;
    }
    return zest_grad_losses(closure->grad, &job, NULL, loss, error);
}

/* ---- Options and memory ---- */

static const char *wrong(const zest_params *params, const zest_optimizer_options *options) {
    if ((unsigned)options->kind >= ZEST_OPTIMIZER_COUNT) return "has an unknown kind";
    if (!params->dimension) return "needs parameters";
    for (size_t t = 0; t < params->count; t++) {
        zest_dtype dtype = params->tensors[t].dtype;
        if (dtype != ZEST_DTYPE_F32 && dtype != ZEST_DTYPE_BF16 && dtype != ZEST_DTYPE_F16)
            return "takes weights of F32, BF16 or F16";
    }
    if (!(options->momentum >= 0 && options->momentum < 1)) return "needs a momentum from 0 to 1";
    if (!(options->decay >= 0) || !(options->clip >= 0)) return "needs a decay and a clip of 0 or more";
    if (!(options->radius >= 0) || !(options->tilt >= 0) || !(options->ascent >= 0) ||
        !isfinite(options->radius + options->tilt))
        return "needs a radius, a tilt and an ascent of 0 or more";
    if (!options->k || options->k >= ((size_t)1 << ZEST_SEED_INDEX_BITS) - 1) return "needs a k from 1 on";
    if (!(options->beta1 >= 0 && options->beta1 < 1 && options->beta2 >= 0 && options->beta2 < 1 &&
          options->epsilon > 0))
        return "needs betas from 0 to 1 and a positive epsilon";
    return NULL;
}

/* d floats, zero. */
static zest_status make(const zest_optimizer *optimizer, float **out, zest_error *error) {
    size_t count = (size_t)optimizer->vectors.params.dimension;
    *out = zest_optim_vectors_new(&optimizer->vectors, count);
    if (*out) return zero_grad(optimizer, *out, error);
    return optimizer->vectors.device
               ? zest_optim_vectors_done(&optimizer->vectors, 1, error)
               : zest_error_memory(error, "the gradient or state of an optimizer", count * sizeof **out);
}

zest_status zest_optimizer_new(const zest_params *params, const zest_vector_ops *ops,
                               const zest_optimizer_options *options, zest_optimizer **optimizer,
                               zest_error *error) {
    const char *why = wrong(params, options);
    *optimizer = NULL;
    if (why) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "an optimizer %s", why);
    zest_optimizer *m = calloc(1, sizeof *m);
    if (!m) return zest_error_memory(error, "an optimizer", sizeof *m);
    m->options = *options;
    int adam = options->kind == ZEST_OPTIMIZER_ADAMW;
    int point = (options->kind == ZEST_OPTIMIZER_SAM && !options->random) ||
                (options->kind == ZEST_OPTIMIZER_TSAM && options->ascent > 0);
    zest_status status =
        zest_optim_vectors_open(&m->vectors, params, ops, options->threads, options->device, error);
    if (!status) status = make(m, &m->gradient, error);
    if (!status && point) status = make(m, &m->point, error);
    if (!status && (adam || options->momentum > 0)) status = make(m, &m->arrays[0], error);
    if (!status && adam) status = make(m, &m->arrays[1], error);
    if (status) {
        zest_optimizer_free(m);
        return status;
    }
    *optimizer = m;
    return ZEST_OK;
}

void zest_optimizer_free(zest_optimizer *optimizer) {
    if (!optimizer) return;
    zest_optimizer_drop(optimizer);
    zest_optim_vectors_free(&optimizer->vectors, optimizer->gradient);
    zest_optim_vectors_free(&optimizer->vectors, optimizer->point);
    for (size_t i = 0; i < ZEST_OPTIMIZER_ARRAYS; i++)
        zest_optim_vectors_free(&optimizer->vectors, optimizer->arrays[i]);
    zest_optim_vectors_close(&optimizer->vectors);
    free(optimizer);
}

/* ---- State ---- */

static float *on_host(const zest_optimizer *optimizer, size_t i) {
    return optimizer->vectors.device ? optimizer->copies[i] : optimizer->arrays[i];
}

size_t zest_optimizer_arrays(zest_optimizer *optimizer, zest_optimizer_array out[ZEST_OPTIMIZER_ARRAYS]) {
    static const char *const adam[2] = {"adamw.first", "adamw.second"}, *const sgd[2] = {"sgd.momentum", ""};
    size_t count = 0;
    for (; count < ZEST_OPTIMIZER_ARRAYS && optimizer->arrays[count]; count++)
        out[count] =
            (zest_optimizer_array){(optimizer->options.kind == ZEST_OPTIMIZER_ADAMW ? adam : sgd)[count],
                                   on_host(optimizer, count), (size_t)optimizer->vectors.params.dimension};
    return count;
}

zest_status zest_optimizer_download(zest_optimizer *optimizer, zest_error *error) {
    zest_device *device = optimizer->vectors.device;
    size_t bytes = (size_t)optimizer->vectors.params.dimension * sizeof(float);
    int failed = 0;
    for (size_t i = 0; device && i < ZEST_OPTIMIZER_ARRAYS && optimizer->arrays[i] && !failed; i++) {
        if (!optimizer->copies[i]) optimizer->copies[i] = zest_memory_new(bytes);
        if (!optimizer->copies[i]) return zest_error_memory(error, "a copy of the optimizer's state", bytes);
        failed =
            device->operations->device->download(device, optimizer->copies[i], optimizer->arrays[i], bytes);
    }
    return zest_optim_vectors_done(&optimizer->vectors, failed, error);
}

zest_status zest_optimizer_upload(zest_optimizer *optimizer, zest_error *error) {
    zest_device *device = optimizer->vectors.device;
    size_t bytes = (size_t)optimizer->vectors.params.dimension * sizeof(float);
    int failed = 0;
    for (size_t i = 0; device && i < ZEST_OPTIMIZER_ARRAYS && optimizer->copies[i] && !failed; i++)
        failed =
            device->operations->device->upload(device, optimizer->arrays[i], optimizer->copies[i], bytes);
    return zest_optim_vectors_done(&optimizer->vectors, failed, error);
}

void zest_optimizer_drop(zest_optimizer *optimizer) {
    for (size_t i = 0; i < ZEST_OPTIMIZER_ARRAYS; i++) {
        free(optimizer->copies[i]);
        optimizer->copies[i] = NULL;
    }
}

size_t zest_optimizer_memory(const zest_optimizer *optimizer) {
    size_t arrays =
        1u + (optimizer->point != NULL) + (optimizer->arrays[0] != NULL) + (optimizer->arrays[1] != NULL);
    return sizeof *optimizer + arrays * (size_t)optimizer->vectors.params.dimension * sizeof(float);
}

/* ---- sgd ----
 *
 * Stochastic gradient descent (Robbins and Monro 1951) with heavy-ball momentum (Polyak 1964):
 *
 *     g = G + decay x      m = momentum m + g      x = x - lr m
 *
 * which is also the update of sam, esam and tsam. Clipping scales G down to a norm of at most
 * `clip` before anything else. */

/* adamw's too */
static zest_status sgd_grad(zest_optimizer_pass *pass) {
    zest_eval_point here = {0};
    zest_status status = evaluate(pass, &here, pass->optimizer->gradient, NULL, NULL, &pass->report->loss);
    pass->report->objective = pass->report->loss;
    return status;
}

static zest_status sgd_apply(const zest_optimizer_pass *pass, double factor) {
    const zest_optimizer_options *options = &pass->optimizer->options;
    const zest_optim_vectors *s = &pass->optimizer->vectors;
    float back = (float)-pass->lr;
    zest_optim_update update = update_of(pass);
    zest_sgd_coefficients coefficients = {.keep = (float)(1 - pass->lr * options->decay),
                                          .slope = back * (float)factor,
                                          .momentum = (float)options->momentum,
                                          .factor = (float)factor,
                                          .decay = (float)options->decay,
                                          .back = back};
    return zest_optim_vectors_done(s, s->functions->sgd(s, &update, &coefficients), pass->error);
}

/* ---- adamw ----
 *
 * Adam with decoupled weight decay (Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019):
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

static zest_status adamw_apply(const zest_optimizer_pass *pass, double factor) {
    const zest_optimizer_options *options = &pass->optimizer->options;
    const zest_optim_vectors *s = &pass->optimizer->vectors;
    zest_optim_update update = update_of(pass);
    zest_adamw_coefficients coefficients = {
        .factor = (float)factor,
        .b1 = (float)options->beta1,
        .b2 = (float)options->beta2,
        .rest1 = (float)(1 - options->beta1),
        .rest2 = (float)(1 - options->beta2),
        .keep = (float)(1 - pass->lr * options->decay),
        .rate = (float)(pass->lr / (1 - power(options->beta1, pass->step + 1))),
        .root = (float)(1 / sqrt(1 - power(options->beta2, pass->step + 1))),
        .epsilon = (float)options->epsilon};
    return zest_optim_vectors_done(s, s->functions->adamw(s, &update, &coefficients), pass->error);
}

/* ---- sam ----
 *
 * Sharpness-aware minimisation (Foret, Kleiner, Mobahi, Neyshabur, ICLR 2021): the max-loss objective,
 * max f(x + e) over |e| <= r. Two searches for the maximum:
 *
 *     ascent   e = r g(x)/(|g(x)| + 1e-12)                                    G = g(x + e)
 *     random   e = the one of e_1 .. e_k ~ U(r S^(d-1)) with the largest f    G = g(x + e)
 *
 * The first is Foret's, one ascent step. The second is what the ZEST paper says of its SAM runs, "U(r
 * S^(d-1)) as the perturbation distribution" and "k = 5": with sampled perturbations the maximum is over
 * samples. It is tsam as t -> infinity.
 *
 * In the ascent, x + e replaces g(x) in memory, in fp32 whatever the type of the weights; x is not written. */

static zest_status sam_ascent_grad(zest_optimizer_pass *pass) {
    zest_optimizer *optimizer = pass->optimizer;
    zest_eval_point here = {0}, there = {.point = optimizer->point};
    int finite = 0;
    zest_status status = zero_grad(optimizer, optimizer->point, pass->error);
    if (!status) status = evaluate(pass, &here, optimizer->point, NULL, NULL, &pass->report->loss);
    if (!status) status = ascend(pass, &here, optimizer->options.radius, &finite);
    pass->report->objective = pass->report->loss;
    if (status || !finite || !isfinite(pass->report->loss)) {
        pass->factor = 0;
        return status;
    }
    return evaluate(pass, &there, optimizer->gradient, NULL, NULL, &pass->report->objective);
}

typedef struct {
    const zest_optimizer_pass *pass;
    zest_status status;  /* of the clearing */
    double largest, sum; /* of the losses so far */
    size_t count, dropped;
} worst_state;

/* The weight of a gradient: 1 for a new maximum, which replaces the gradient so far; the others are not computed. */
static double worst_weight(void *user, double loss) {
    worst_state *s = user;
    const zest_optimizer *optimizer = s->pass->optimizer;
    s->dropped += !isfinite(loss);
    if (!isfinite(loss)) return 0;
    s->sum += loss;
    if (s->count++ && !(loss > s->largest)) return 0;
    s->largest = loss;
    s->status = zero_grad(optimizer, optimizer->gradient, s->pass->error);
    return s->status ? 0 : 1;
}

static zest_status sam_worst_grad(zest_optimizer_pass *pass) {
    worst_state s = {.pass = pass};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < pass->optimizer->options.k && !status; i++) {
        zest_direction direction;
        zest_eval_point point;
        double loss;
        status = draw_neighbour(pass, i, &direction, &point);
        if (!status) status = evaluate(pass, &point, pass->optimizer->gradient, worst_weight, &s, &loss);
        if (!status) status = s.status;
    }
    pass->report->dropped = s.dropped;
    pass->report->loss = s.sum / (double)s.count;
    pass->report->objective = s.count ? s.largest : NAN;
    pass->factor = s.count ? 1 : 0;
    return status;
}

static zest_status sam_grad(zest_optimizer_pass *pass) {
    return pass->optimizer->options.random ? sam_worst_grad(pass) : sam_ascent_grad(pass);
}

/* ---- esam ----
 *
 * The average-loss objective E f(x + e), e ~ U(r S^(d-1)) (Wen, Ma, Li, "How does sharpness-aware
 * minimization minimize sharpness?", 2022, call it average-direction sharpness; the ZEST paper calls the
 * method ESAM, which is not "efficient SAM"):
 *
 *     G = 1/k sum_i g(x + e_i)
 *
 * Neighbours whose loss is not finite are left out. */

typedef struct {
    double sum;
    size_t count, dropped;
} esam_state;

static double esam_weight(void *user, double loss) {
    esam_state *a = user;
    a->dropped += !isfinite(loss);
    if (!isfinite(loss)) return 0;
    a->sum += loss;
    a->count++;
    return 1;
}

static zest_status esam_grad(zest_optimizer_pass *pass) {
    esam_state a = {0};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < pass->optimizer->options.k && !status; i++) {
        zest_direction direction;
        zest_eval_point point;
        double loss;
        status = draw_neighbour(pass, i, &direction, &point);
        if (!status) status = evaluate(pass, &point, pass->optimizer->gradient, esam_weight, &a, &loss);
    }
    pass->report->dropped = a.dropped;
    pass->report->loss = pass->report->objective = a.sum / (double)a.count;
    pass->factor = a.count ? 1 / (double)a.count : 0;
    return status;
}

/* ---- tsam ----
 *
 * Tilted SAM (Li, Zhou, Bilmes, "Reweighting local minima with tilted SAM", 2024): F_t(x) = 1/t log E
 * exp(t f(x + e)), e ~ U(r S^(d-1)). The gradient's estimate with k neighbours:
 *
 *     w_i = exp(t f_i)/sum_j exp(t f_j)      G = sum_i w_i g(x + e_i)
 *
 * accumulated as an online softmax: before g_i is added, the sum so far is scaled down if f_i is a new maximum. So
 * there is one gradient in memory, not k. At t = 0 every weight and every scale is 1, and the
 * result is esam's to the bit.
 *
 * With `ascent` each neighbour first takes one step of that length along its own gradient, and f_i and g_i
 * are taken there: the mode that the authors' code calls random1. */

typedef struct {
    const zest_optimizer_pass *pass;
    zest_status status;  /* of the scaling */
    double largest, sum; /* of the losses so far; of exp(t (f - largest)) */
    double losses;
    size_t count, dropped;
} tsam_state;

static double tsam_weight(void *user, double loss) {
    tsam_state *a = user;
    const zest_optimizer *optimizer = a->pass->optimizer;
    double tilt = optimizer->options.tilt;
    a->dropped += !isfinite(loss);
    if (!isfinite(loss)) return 0;
    if (a->count && loss > a->largest) {
        double down = zest_exp(tilt * (a->largest - loss));
        if (down != 1) a->status = scale_grad(optimizer, optimizer->gradient, down, a->pass->error);
        if (a->status) return 0;
        a->sum *= down;
    }
    if (!a->count || loss > a->largest) a->largest = loss;
    double weight = zest_exp(tilt * (loss - a->largest));
    a->sum += weight;
    a->losses += loss;
    a->count++;
    return weight;
}

/* One ascent step from a neighbour; *point becomes its end. */
static zest_status ascend_neighbour(zest_optimizer_pass *pass, zest_eval_point *point, int *finite) {
    zest_optimizer *optimizer = pass->optimizer;
    double loss;
    zest_status status = zero_grad(optimizer, optimizer->point, pass->error);
    if (!status) status = evaluate(pass, point, optimizer->point, NULL, NULL, &loss);
    if (!status) status = ascend(pass, point, optimizer->options.ascent, finite);
    *point = (zest_eval_point){.point = optimizer->point};
    return status;
}

static zest_status tsam_grad(zest_optimizer_pass *pass) {
    zest_optimizer *optimizer = pass->optimizer;
    tsam_state a = {.pass = pass};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < optimizer->options.k && !status; i++) {
        zest_direction direction;
        zest_eval_point point;
        double loss;
        int finite = 1;
        status = draw_neighbour(pass, i, &direction, &point);
        if (!status && optimizer->point) status = ascend_neighbour(pass, &point, &finite);
        a.dropped += !finite;
        if (!status && finite) status = evaluate(pass, &point, optimizer->gradient, tsam_weight, &a, &loss);
        if (!status) status = a.status;
    }
    pass->report->dropped = a.dropped;
    pass->report->loss = a.losses / (double)a.count;
    pass->report->objective = pass->report->loss;
    if (optimizer->options.tilt > 0)
        pass->report->objective = a.largest + log(a.sum / (double)a.count) / optimizer->options.tilt;
    pass->factor = a.count ? 1 / a.sum : 0;
    return status;
}

/* ---- The step ---- */

static zest_status compute_grad(zest_optimizer_pass *pass) {
    switch (pass->optimizer->options.kind) {
    case ZEST_OPTIMIZER_SAM: return sam_grad(pass);
    case ZEST_OPTIMIZER_ESAM: return esam_grad(pass);
    case ZEST_OPTIMIZER_TSAM: return tsam_grad(pass);
    default: return sgd_grad(pass);
    }
}

zest_status zest_optimizer_step(zest_optimizer *optimizer, const zest_optimizer_closure *closure,
                                uint64_t step, double lr, zest_optimizer_report *report, zest_error *error) {
    zest_optimizer_report unseen;
    zest_optimizer_pass pass = {
        .optimizer = optimizer, .closure = closure, .step = step, .lr = lr, .error = error};
    pass.report = report ? report : &unseen;
    *pass.report = (zest_optimizer_report){0};
    pass.factor = 1;
    zest_status status = zero_grad(optimizer, optimizer->gradient, error);
    if (!status) status = compute_grad(&pass);
    double norm;
    if (!status) status = grad_norm(optimizer, optimizer->gradient, &norm, error);
    if (status) return status;
    norm *= pass.factor;
    pass.report->norm = norm;
    if (!isfinite(norm) || !isfinite(pass.report->objective) || pass.factor == 0) return ZEST_OK;
    double factor = pass.factor;
    if (optimizer->options.clip > 0 && norm > optimizer->options.clip)
        factor *= optimizer->options.clip / (norm + 1e-6);
    status = (optimizer->options.kind == ZEST_OPTIMIZER_ADAMW ? adamw_apply : sgd_apply)(&pass, factor);
    pass.report->moved = !status;
    return status;
}
