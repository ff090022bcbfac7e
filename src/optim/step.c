/* A step: see step.h. */
#include <math.h>
#include <stdlib.h>

#include "optim/step.h"
#include "optim/auto_t.h"
#include "optim/directions.h"
#include "optim/lanes.h"
#include "optim/journal.h"
#include "rng/noise.h"

zest_status zest_step_init(zest_step *step, const zest_vector_ops *ops, const zest_options *options,
                           int format, zest_error *error) {
    *step = (zest_step){0};
    if (zest_options_first_order(options))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "method %s needs gradients: only zest train has them",
                              zest_options_text(options, ZEST_OPTION_METHOD));
    *step = (zest_step){
        .ops = ops,
        .threads = (int)zest_options_whole(options, ZEST_OPTION_THREADS),
        .tilt = zest_journal_tilt(options, format),
        .length = (zest_step_length)zest_options_whole(options, ZEST_OPTION_STEP_LENGTH),
        .max_step = zest_options_number(options, ZEST_OPTION_MAX_STEP),
        .auto_t = zest_options_auto_t(options),
        .distribution = (zest_distribution)zest_options_whole(options, ZEST_OPTION_DISTRIBUTION),
        .seed = zest_options_whole(options, ZEST_OPTION_SEED),
        .decay = zest_options_number(options, ZEST_OPTION_WEIGHT_DECAY),
        .nearest = zest_options_whole(options, ZEST_OPTION_ROUNDING) == ZEST_CHOICE_NEAREST,
    };
    zest_directions directions;
    zest_status status = zest_tilt_check(&step->tilt, error);
    if (!status) status = zest_directions_read(options, &directions, error);
    if (status) return status;
    if (step->tilt.ball_pairs && step->distribution != ZEST_SPHERE)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "denominator=ball is the form of Theorem 3.1 for directions on the sphere; set "
                              "distribution=sphere");
    if (step->auto_t && step->tilt.k < 2)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "t=auto needs k >= 2: one direction has nothing to differ from");
    step->per_example = zest_options_whole(options, ZEST_OPTION_TILT_SCOPE) != 0;
    if (step->per_example && !directions.examples)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "tilt-scope=example needs directions=example: else an example has no pairs of its own");
    if (step->per_example && step->auto_t)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "t=auto is for tilt-scope=step: it pools the spread of all pairs of a step");
    size_t pairs = step->tilt.k + step->tilt.ball_pairs;
    if (directions.examples) step->each = step->tilt.k / directions.examples;
    step->directions = calloc(pairs, sizeof *step->directions);
    step->coefficients = calloc(step->tilt.k, sizeof *step->coefficients);
    if (!step->directions || !step->coefficients)
        status = zest_error_memory(error, "the directions of a step", pairs * sizeof *step->directions);
    if (!status)
        status = zest_momentum_init(&step->momentum, zest_options_number(options, ZEST_OPTION_MOMENTUM),
                                    (size_t)zest_options_whole(options, ZEST_OPTION_MOMENTUM_STEPS),
                                    step->tilt.k, error);
    if (status) zest_step_free(step);
    return status;
}

void zest_step_free(zest_step *step) {
    free(step->directions);
    free(step->coefficients);
    zest_momentum_free(&step->momentum);
    step->directions = NULL;
    step->coefficients = NULL;
}

zest_status zest_step_draw_directions(zest_step *step, uint64_t index, uint64_t dimension, int with_ball,
                                      zest_error *error) {
    size_t pairs = step->tilt.k + (with_ball ? step->tilt.ball_pairs : 0);
    step->rounding = zest_seed(step->seed, index, ZEST_SEED_ROUNDING);
    for (size_t i = 0; i < pairs; i++) {
        zest_distribution from = i < step->tilt.k ? step->distribution : ZEST_BALL;
        zest_status status = zest_direction_make(step->ops, step->threads, &step->directions[i], from,
                                                 zest_seed(step->seed, index, i), dimension, error);
        if (status) return status;
    }
    return ZEST_OK;
}

void zest_step_tilt(zest_step *step, const double *losses, double lr, zest_tilt_report *report) {
    if (step->auto_t) {
        step->tilt.t = zest_auto_t_next(&step->seen);
        step->losses = zest_tilt_split(losses, step->tilt.k);
    }
    zest_tilt_compute(&step->tilt, losses, step->coefficients, report);
    if (step->each) zest_step_tilt_examples(step, losses, report);
    if (zest_step_has_length(step)) zest_step_fit_length(step, losses, lr, report);
    if (step->momentum.mu > 0) zest_momentum_add(&step->momentum, step->directions, step->coefficients);
}

static void remember(zest_step *step) {
    if (step->auto_t) zest_auto_t_add(&step->seen, &step->losses);
    if (step->momentum.mu > 0) zest_momentum_keep(&step->momentum);
}

/* Of the first step that is summed, t has to be known. */
uint64_t zest_step_memory(const zest_step *step) {
    uint64_t summed = step->momentum.mu > 0 ? step->momentum.steps - 1 : 0;
    return summed + (step->auto_t ? ZEST_AUTO_T_STEPS : 0);
}

void zest_step_forget(zest_step *step) {
    step->seen.count = 0;
    step->momentum.past = 0;
}

zest_status zest_step_recall(zest_step *step, const zest_record *record, uint64_t dimension,
                             zest_error *error) {
    zest_tilt_report report;
    zest_status status = step->momentum.mu > 0
                             ? zest_step_draw_directions(step, record->step - 1, dimension, 0, error)
                             : ZEST_OK;
    if (status) return status;
    zest_step_tilt(step, record->losses, record->lr, &report);
    remember(step);
    return ZEST_OK;
}

int zest_step_update(const zest_step *step, double lr, const zest_tilt_report *report, zest_update *update) {
    *update = (zest_update){.directions = step->directions,
                            .g = step->coefficients,
                            .k = step->tilt.k,
                            .lr = lr,
                            .decay = step->decay,
                            .rounding = step->rounding,
                            .nearest = step->nearest};
    if (step->momentum.mu > 0) {
        update->directions = step->momentum.directions;
        update->g = step->momentum.g;
        update->k = (step->momentum.past + 1) * step->tilt.k;
    }
    return report->dropped + step->padding < step->tilt.k;
}

static zest_status move(const zest_step *step, const zest_step_storage *storage, double lr,
                        const zest_tilt_report *report, zest_error *error) {
    zest_update update;
    if (!zest_step_update(step, lr, report, &update)) return ZEST_OK;
    if (storage->apply) return storage->apply(storage->user, &update, error);
    zest_update_apply(step->ops, step->threads, storage->params, &update);
    return ZEST_OK;
}

zest_status zest_step_apply(zest_step *step, const zest_step_storage *storage, double lr,
                            const zest_tilt_report *report, zest_error *error) {
    zest_status status = move(step, storage, lr, report, error);
    if (!status) remember(step);
    return status;
}

zest_status zest_step_replay(zest_step *step, const zest_record *record, const zest_step_storage *storage,
                             zest_tilt_report *report, zest_error *error) {
    zest_status status =
        zest_step_draw_directions(step, record->step - 1, storage->params->dimension, 0, error);
    if (status) return status;
    zest_step_tilt(step, record->losses, record->lr, report);
    return zest_step_apply(step, storage, record->lr, report, error);
}

/* ---- The learning rate ---- */

double zest_step_lr(const zest_options *options, uint64_t index) {
    double lr = zest_options_number(options, ZEST_OPTION_LR),
           end = zest_options_number(options, ZEST_OPTION_FINAL_LR);
    uint64_t warmup = zest_options_whole(options, ZEST_OPTION_WARMUP);
    uint64_t steps = zest_options_whole(options, ZEST_OPTION_STEPS);
    uint64_t kind = zest_options_whole(options, ZEST_OPTION_SCHEDULE);
    if (index < warmup) return lr * ((double)(index + 1) / (double)warmup);
    if (kind == ZEST_CHOICE_CONSTANT || steps <= warmup) return lr;
    double p = fmin(1, (double)(index - warmup) / (double)(steps - warmup));
    if (kind == ZEST_CHOICE_LINEAR) return lr * (1 - (1 - end) * p);
    return lr * (end + (1 - end) * 0.5 * (1 + cos(3.14159265358979323846 * p)));
}

/* ---- The update: a slice of x stays in cache while all k directions are added to it ---- */

enum { SLICE = 2048, FEW = 8 };

/* Of each: elements first .. first+count-1 of a tensor, which are at x. */

static void update_f64(const zest_vector_ops *ops, const zest_tensor *tensor, uint64_t first, size_t count,
                       double *x, const zest_update *u) {
    float noise[SLICE];
    double keep = 1 - u->lr * u->decay;
    if (keep != 1) ops->scale_f64(x, keep, count);
    for (size_t i = 0; i < u->k; i++) {
        if (u->g[i] == 0) continue;
        zest_direction_noise(ops, &u->directions[i], tensor, first, count, noise);
        ops->fma_f64(x, x, -u->lr * u->g[i] * u->directions[i].gain, noise, count);
    }
}

static void update_f32(const zest_vector_ops *ops, const zest_tensor *tensor, uint64_t first, size_t count,
                       float *x, const zest_update *u) {
    float noise[SLICE];
    double keep = 1 - u->lr * u->decay;
    if (keep != 1) ops->scale_f32(x, (float)keep, count);
    for (size_t i = 0; i < u->k; i++) {
        if (u->g[i] == 0) continue;
        zest_direction_noise(ops, &u->directions[i], tensor, first, count, noise);
        ops->fma_f32(x, x, (float)(-u->lr * u->g[i] * u->directions[i].gain), noise, count);
    }
}

static void update_16(const zest_vector_ops *ops, const zest_tensor *tensor, uint64_t first, size_t count,
                      uint16_t *x, const zest_update *u) {
    float wide[SLICE];
    uint16_t random[SLICE];
    int bf16 = tensor->dtype == ZEST_DTYPE_BF16;
    (bf16 ? ops->load_bf16 : ops->load_f16)(wide, x, count);
    update_f32(ops, tensor, first, count, wide, u);
    if (u->nearest) /* bits that stand for one half */
        for (size_t i = 0; i < count; i++) random[i] = 0x8000;
    else
        ops->noise->round(random, u->rounding, tensor->first + first, count);
    (bf16 ? ops->store_bf16 : ops->store_f16)(x, wide, random, count);
}

static void update_slice(const zest_vector_ops *ops, const zest_tensor *tensor, int64_t slice,
                         const zest_update *u) {
    uint64_t first = (uint64_t)slice * SLICE, left = tensor->count - first;
    size_t count = left < SLICE ? (size_t)left : SLICE;
    void *x = (char *)tensor->data + first * zest_dtype_size(tensor->dtype);
    if (tensor->dtype == ZEST_DTYPE_F64)
        update_f64(ops, tensor, first, count, x, u);
    else if (tensor->dtype == ZEST_DTYPE_F32)
        update_f32(ops, tensor, first, count, x, u);
    else
        update_16(ops, tensor, first, count, x, u);
}

void zest_update_apply(const zest_vector_ops *ops, int threads, const zest_params *params,
                       const zest_update *update) {
    for (size_t i = 0; i < params->count; i++) {
        const zest_tensor *tensor = &params->tensors[i];
        int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE), tiles = zest_update_tiles(tensor);
        if (tensor->law.rank) {
#pragma omp parallel for schedule(dynamic) num_threads(zest_direction_threads(threads))
            for (int64_t n = 0; n < tiles; n++) zest_update_tile(ops, tensor, n, update);
            continue;
        }
        if (slices <= FEW) { /* a parallel region costs more than so little work */
            for (int64_t s = 0; s < slices; s++) update_slice(ops, tensor, s, update);
            continue;
        }
#pragma omp parallel for schedule(static) num_threads(zest_direction_threads(threads))
        for (int64_t s = 0; s < slices; s++) update_slice(ops, tensor, s, update);
    }
}
