#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baselines/optimizer.h"
#include "base/memory.h"
#include "baselines/optimizer_internal.h"
#include "rng/noise.h"
#include "zest.h"
#include "base/exp.h"

static const char *const names[ZEST_METHOD_COUNT] = {"sgd", "adamw", "sam", "esam", "tsam"};

const char *zest_optimizer_name(zest_method_kind kind) {
    return (unsigned)kind < ZEST_METHOD_COUNT ? names[kind] : "?";
}

int zest_optimizer_find(const char *name, zest_method_kind *kind) {
    for (int i = 0; i < ZEST_METHOD_COUNT; i++)
        if (!strcmp(name, names[i])) {
            *kind = (zest_method_kind)i;
            return 1;
        }
    return 0;
}

zest_method_options zest_optimizer_defaults(zest_method_kind kind) {
    return (zest_method_options){
        .kind = kind, .radius = 0.01, .k = 5, .tilt = 1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
}

/* ---- New ---- */

static const char *wrong(const zest_params *params, const zest_method_options *is) {
    if ((unsigned)is->kind >= ZEST_METHOD_COUNT) return "has a kind that there is not";
    if (!params->dimension) return "needs parameters";
    for (size_t t = 0; t < params->count; t++) {
        zest_dtype dtype = params->tensors[t].dtype;
        if (dtype != ZEST_DTYPE_F32 && dtype != ZEST_DTYPE_BF16 && dtype != ZEST_DTYPE_F16)
            return "takes weights of F32, BF16 or F16";
    }
    if (!(is->momentum >= 0 && is->momentum < 1)) return "needs a momentum from 0 to 1";
    if (!(is->decay >= 0) || !(is->clip >= 0)) return "needs a decay and a clip of 0 or more";
    if (!(is->radius >= 0) || !(is->tilt >= 0) || !(is->ascent >= 0) || !isfinite(is->radius + is->tilt))
        return "needs a radius, a tilt and an ascent of 0 or more";
    if (!is->k || is->k >= ((size_t)1 << ZEST_SEED_INDEX_BITS) - 1) return "needs a k from 1 on";
    if (!(is->beta1 >= 0 && is->beta1 < 1 && is->beta2 >= 0 && is->beta2 < 1 && is->epsilon > 0))
        return "needs betas from 0 to 1 and a positive epsilon";
    return NULL;
}

/* d floats, zero. */
static zest_status make(const zest_optimizer *method, float **out, zest_error *error) {
    size_t count = (size_t)method->sweeps.params.dimension;
    *out = zest_optim_vectors_new(&method->sweeps, count);
    if (*out) return zest_optimizer_zero_grad(method, *out, error);
    return method->sweeps.device
               ? zest_optim_vectors_done(&method->sweeps, 1, error)
               : zest_error_memory(error, "a method's gradient or state", count * sizeof **out);
}

zest_status zest_optimizer_new(const zest_params *params, const zest_vector_ops *ops,
                               const zest_method_options *options, zest_optimizer **method,
                               zest_error *error) {
    const char *why = wrong(params, options);
    *method = NULL;
    if (why) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "a method %s", why);
    zest_optimizer *m = calloc(1, sizeof *m);
    if (!m) return zest_error_memory(error, "a method", sizeof *m);
    m->is = *options;
    int adam = options->kind == ZEST_METHOD_ADAMW;
    int point = (options->kind == ZEST_METHOD_SAM && !options->random) ||
                (options->kind == ZEST_METHOD_TSAM && options->ascent > 0);
    zest_status status =
        zest_optim_vectors_open(&m->sweeps, params, ops, options->threads, options->device, error);
    if (!status) status = make(m, &m->gradient, error);
    if (!status && point) status = make(m, &m->point, error);
    if (!status && (adam || options->momentum > 0)) status = make(m, &m->arrays[0], error);
    if (!status && adam) status = make(m, &m->arrays[1], error);
    if (status) {
        zest_optimizer_free(m);
        return status;
    }
    *method = m;
    return ZEST_OK;
}

void zest_optimizer_free(zest_optimizer *method) {
    if (!method) return;
    zest_optimizer_drop(method);
    zest_optim_vectors_free(&method->sweeps, method->gradient);
    zest_optim_vectors_free(&method->sweeps, method->point);
    for (size_t i = 0; i < ZEST_METHOD_ARRAYS; i++)
        zest_optim_vectors_free(&method->sweeps, method->arrays[i]);
    zest_optim_vectors_close(&method->sweeps);
    free(method);
}

/* ---- What a run keeps ---- */

static float *on_host(const zest_optimizer *method, size_t i) {
    return method->sweeps.device ? method->copies[i] : method->arrays[i];
}

size_t zest_optimizer_arrays(zest_optimizer *method, zest_method_array out[ZEST_METHOD_ARRAYS]) {
    static const char *const adam[2] = {"adamw.first", "adamw.second"}, *const sgd[2] = {"sgd.momentum", ""};
    size_t count = 0;
    for (; count < ZEST_METHOD_ARRAYS && method->arrays[count]; count++)
        out[count] = (zest_method_array){(method->is.kind == ZEST_METHOD_ADAMW ? adam : sgd)[count],
                                         on_host(method, count), (size_t)method->sweeps.params.dimension};
    return count;
}

zest_status zest_optimizer_download(zest_optimizer *method, zest_error *error) {
    zest_device *device = method->sweeps.device;
    size_t bytes = (size_t)method->sweeps.params.dimension * sizeof(float);
    int failed = 0;
    for (size_t i = 0; device && i < ZEST_METHOD_ARRAYS && method->arrays[i] && !failed; i++) {
        if (!method->copies[i]) method->copies[i] = zest_memory_new(bytes);
        if (!method->copies[i]) return zest_error_memory(error, "a copy of a method's state", bytes);
        failed = device->operations->device->download(device, method->copies[i], method->arrays[i], bytes);
    }
    return zest_optim_vectors_done(&method->sweeps, failed, error);
}

zest_status zest_optimizer_upload(zest_optimizer *method, zest_error *error) {
    zest_device *device = method->sweeps.device;
    size_t bytes = (size_t)method->sweeps.params.dimension * sizeof(float);
    int failed = 0;
    for (size_t i = 0; device && i < ZEST_METHOD_ARRAYS && method->copies[i] && !failed; i++)
        failed = device->operations->device->upload(device, method->arrays[i], method->copies[i], bytes);
    return zest_optim_vectors_done(&method->sweeps, failed, error);
}

void zest_optimizer_drop(zest_optimizer *method) {
    for (size_t i = 0; i < ZEST_METHOD_ARRAYS; i++) {
        free(method->copies[i]);
        method->copies[i] = NULL;
    }
}

size_t zest_optimizer_memory(const zest_optimizer *method) {
    size_t arrays = 1u + (method->point != NULL) + (method->arrays[0] != NULL) + (method->arrays[1] != NULL);
    return sizeof *method + arrays * (size_t)method->sweeps.params.dimension * sizeof(float);
}

/* ---- A step ---- */

static zest_status gather(zest_method_pass *pass) {
    switch (pass->method->is.kind) {
    case ZEST_METHOD_SAM: return zest_sam_compute_grad(pass);
    case ZEST_METHOD_ESAM: return zest_esam_compute_grad(pass);
    case ZEST_METHOD_TSAM: return zest_tsam_compute_grad(pass);
    default: return zest_sgd_compute_grad(pass);
    }
}

zest_status zest_optimizer_step(zest_optimizer *method, const zest_method_oracle *oracle, uint64_t step,
                                double lr, zest_method_report *report, zest_error *error) {
    zest_method_report unseen;
    zest_method_pass pass = {.method = method, .oracle = oracle, .step = step, .lr = lr, .error = error};
    pass.report = report ? report : &unseen;
    *pass.report = (zest_method_report){0};
    pass.factor = 1;
    zest_status status = zest_optimizer_zero_grad(method, method->gradient, error);
    if (!status) status = gather(&pass);
    double norm;
    if (!status) status = zest_optimizer_grad_norm(method, method->gradient, &norm, error);
    if (status) return status;
    norm *= pass.factor;
    pass.report->norm = norm;
    if (!isfinite(norm) || !isfinite(pass.report->objective) || pass.factor == 0) return ZEST_OK;
    double factor = pass.factor;
    if (method->is.clip > 0 && norm > method->is.clip) factor *= method->is.clip / (norm + 1e-6);
    status = (method->is.kind == ZEST_METHOD_ADAMW ? zest_adamw_apply : zest_sgd_apply)(&pass, factor);
    pass.report->moved = !status;
    return status;
}

/* What the methods ask for: losses at places, and sweeps over all numbers. */

enum { ROUNDING_INDEX = (1 << ZEST_SEED_INDEX_BITS) - 1 };

zest_status zest_optimizer_evaluate(zest_method_pass *pass, const zest_eval_point *at, float *gradient,
                                    zest_grad_weigh *weigh, void *weigher, double *loss) {
    return pass->oracle->evaluate(pass->oracle->user, at, pass->report->evaluations++, gradient, weigh,
                                  weigher, loss, pass->error);
}

/* v of a direction on the sphere has norm sqrt(d). */
zest_status zest_optimizer_neighbour(zest_method_pass *pass, size_t i, zest_direction *direction,
                                     zest_eval_point *place) {
    const zest_optim_vectors *s = &pass->method->sweeps;
    *place = (zest_eval_point){.direction = direction,
                               .scale = pass->method->is.radius / sqrt((double)s->params.dimension)};
    int failed = s->table->sphere(s, zest_seed(pass->method->is.seed, pass->step, i), direction);
    return zest_optim_vectors_done(s, failed, pass->error);
}

zest_status zest_optimizer_zero_grad(const zest_optimizer *method, float *x, zest_error *error) {
    const zest_optim_vectors *s = &method->sweeps;
    return zest_optim_vectors_done(s, s->table->clear(s, x), error);
}

zest_status zest_optimizer_scale_grad(const zest_optimizer *method, float *x, double c, zest_error *error) {
    const zest_optim_vectors *s = &method->sweeps;
    return zest_optim_vectors_done(s, s->table->scale(s, x, (float)c), error);
}

zest_status zest_optimizer_grad_norm(const zest_optimizer *method, const float *x, double *norm,
                                     zest_error *error) {
    const zest_optim_vectors *s = &method->sweeps;
    size_t blocks = (size_t)((s->params.dimension + ZEST_SWEEPS_BLOCK - 1) / ZEST_SWEEPS_BLOCK);
    double *sums = malloc(blocks * sizeof *sums), sum = 0;
    if (!sums) return zest_error_memory(error, "the norm of a gradient", blocks * sizeof *sums);
    zest_status status = zest_optim_vectors_done(s, s->table->squares(s, x, sums), error);
    for (size_t b = 0; b < blocks && !status; b++) sum += sums[b];
    *norm = sqrt(sum);
    free(sums);
    return status;
}

zest_status zest_optimizer_ascend(zest_method_pass *pass, const zest_eval_point *from, double length,
                                  int *finite) {
    const zest_optimizer *method = pass->method;
    const zest_optim_vectors *s = &method->sweeps;
    double norm = 0;
    zest_status status = zest_optimizer_grad_norm(method, method->point, &norm, pass->error);
    *finite = isfinite(norm);
    if (status || !*finite) return status;
    int failed = s->table->uphill(s, from, (float)(length / (norm + 1e-12)), method->point);
    return zest_optim_vectors_done(s, failed, pass->error);
}

zest_sweeps_move zest_optimizer_updating(const zest_method_pass *pass) {
    const zest_optimizer *method = pass->method;
    return (zest_sweeps_move){.gradient = method->gradient,
                              .first = method->arrays[0],
                              .second = method->arrays[1],
                              .rounding = zest_seed(method->is.seed, pass->step, ROUNDING_INDEX),
                              .nearest = method->is.nearest};
}

zest_status zest_loss_and_grad_evaluate(void *user, const zest_eval_point *at, size_t number, float *gradient,
                                        zest_grad_weigh *weigh, void *weigher, double *loss,
                                        zest_error *error) {
    const zest_oracle *oracle = user;
    zest_dropout dropout;
    zest_grad_job job = {.objective = oracle->objective,
                         .at = *at,
                         .gradient = gradient,
                         .factor = 1,
                         .weigh = weigh,
                         .user = weigher};
    if (oracle->dropout) {
        dropout = *oracle->dropout;
        dropout.seed = zest_seed(dropout.seed, oracle->step, number);
        job.dropout = &dropout;
    }
    return zest_grad_losses(oracle->grad, &job, NULL, loss, error);
}

/* Stochastic gradient descent (Robbins and Monro 1951) with heavy-ball momentum (Polyak 1964):
 *
 *     g = G + decay x      m = momentum m + g      x = x - lr m
 *
 * which is also how the weights move under sam, esam and tsam. Clipping scales G down to a norm of at most
 * `clip` before anything else. */

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
