#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baselines/optimizer.h"
#include "base/memory.h"
#include "baselines/optimizer_internal.h"
#include "rng/noise.h"
#include "zest.h"

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
