#include "models/forward.h"

#include <stdlib.h>

#include "models/forward_internal.h"

/* ---- Operations ---- */

zest_linear zest_model_linear_job(const zest_model_runner *runner, const zest_model_affine *affine,
                                  const zest_perturbation *p, int transposed, const float *const a[2],
                                  size_t rows, size_t a_stride, float *const out[2], size_t out_stride,
                                  const float *const residual[2]) {
    return (zest_linear){.weight = affine->weight,
                         .bias = affine->bias,
                         .transposed = transposed,
                         .perturbation = *p,
                         .a = {a[0], a[1]},
                         .rows = rows,
                         .a_stride = a_stride,
                         .out = {out[0], out[1]},
                         .out_stride = out_stride,
                         .residual = {residual ? residual[0] : NULL, residual ? residual[1] : NULL},
                         .residual_stride = out_stride,
                         .compute = runner->compute,
                         .steady = runner->steady};
}

zest_status zest_model_linear_run(zest_model_runner *runner, const zest_linear *job, zest_error *error) {
    return runner->operations->linear(job, runner->threads, &runner->scratch)
               ? zest_model_no_scratch(runner, error)
               : ZEST_OK;
}

zest_status zest_model_linear(zest_model_runner *runner, const zest_model_affine *affine,
                              const zest_perturbation *p, int transposed, const float *const a[2],
                              size_t rows, size_t a_stride, float *const out[2], size_t out_stride,
                              const float *const residual[2], zest_activation activation, zest_error *error) {
    zest_linear job =
        zest_model_linear_job(runner, affine, p, transposed, a, rows, a_stride, out, out_stride, residual);
    job.activation = activation;
    return zest_model_linear_run(runner, &job, error);
}

zest_status zest_model_norm(zest_model_runner *runner, const zest_model_affine *affine,
                            const zest_perturbation *p, const float *const x[2], float *const out[2],
                            size_t rows, size_t width, zest_error *error) {
    zest_norm job = {.gain = affine->weight,
                     .bias = affine->bias,
                     .rms = runner->model->is.rms,
                     .epsilon = runner->model->is.epsilon,
                     .perturbation = *p,
                     .x = {x[0], x[1]},
                     .out = {out[0], out[1]},
                     .rows = rows,
                     .width = width};
    return runner->operations->norm(&job, runner->threads, &runner->scratch)
               ? zest_model_no_scratch(runner, error)
               : ZEST_OK;
}

/* ---- Behind the layers ---- */

static zest_status finish(zest_model_pass *pass, const zest_model_pair *lanes) {
    zest_model_runner *runner = pass->runner;
    const zest_model *model = runner->model;
    const zest_model_description *is = pass->is;
    size_t rows = pass->request->rows ? pass->asked : pass->rows;
    float *a[2], *work[2];
    zest_model_halves(&runner->a, 0, a);
    zest_model_halves(&runner->work, 0, work);
    zest_model_unit unit = {lanes->first, lanes->perturbation, rows, {lanes->x[0], lanes->x[1]}};
    zest_status status = ZEST_OK;
    if (pass->request->depth == is->layers && is->final_norm) {
        status = zest_model_norm(runner, &model->final_norm, &lanes->perturbation, unit.h, a, rows, is->width,
                                 pass->error);
        unit.h[0] = a[0], unit.h[1] = a[1];
    }
    if (!status && pass->request->depth == is->layers && model->project_out.weight.data) {
        status = zest_model_linear(runner, &model->project_out, &lanes->perturbation, 0, unit.h, rows,
                                   is->width, work, is->embedding_width, NULL, ZEST_ACT_NONE, pass->error);
        unit.h[0] = work[0], unit.h[1] = work[1];
    }
    return status ? status : pass->request->visit(runner, &unit, pass->request->user, pass->error);
}

/* ---- Pairs ---- */

/* The lanes from `first` on that go together: two with opposite scales along one direction, or one. */
static zest_model_pair pair_of(const zest_model_request *request, size_t first) {
    const zest_model_lane *lane = &request->lanes[first];
    zest_model_pair out = {.first = first, .perturbation = {.seed = lane->direction.seed, .lanes = 1}};
    out.perturbation.signs = lane->direction.distribution == ZEST_RADEMACHER;
    out.perturbation.scale[0] = (float)(lane->scale * lane->direction.gain);
    if (first + 1 == request->lane_count || request->cache) return out;
    const zest_model_lane *next = lane + 1;
    int opposite = next->direction.seed == lane->direction.seed &&
                   next->direction.distribution == lane->direction.distribution &&
                   next->direction.gain == lane->direction.gain && next->scale == -lane->scale;
    if (!opposite) return out;
    out.perturbation.scale[1] = -out.perturbation.scale[0];
    out.perturbation.lanes = 2;
    return out;
}

static zest_status pass_groups(zest_model_pass *pass, const zest_model_pair *pairs, size_t count) {
    zest_status status = ZEST_OK;
    size_t rows = pass->rows;
    for (size_t i = 0; i < count && !status; i++) status = zest_model_embed(pass, &pairs[i]);
    for (size_t layer = 0; layer < pass->request->depth; layer++)
        for (size_t i = 0; i < count && !status; i++)
            status = zest_model_pass_layer(pass, layer, &pairs[i], &rows);
    for (size_t i = 0; i < count && !status; i++) status = finish(pass, &pairs[i]);
    return status;
}

/* Pairs of one kind can go together. */
static int alike(const zest_perturbation *a, const zest_perturbation *b) {
    return a->lanes == 2 && b->lanes == 2 && a->signs == b->signs && a->scale[0] != 0 && b->scale[0] != 0;
}

/* Puts neighbours together; further: the perturbations of all pairs, which groups point into. */
static size_t form_groups(const zest_model_pass *pass, zest_model_pair *pairs, size_t count,
                          const zest_perturbation *further) {
    size_t groups = 0;
    for (size_t i = 0; i < count; groups++) {
        size_t here = 1;
        while (here < pass->group && i + here < count && alike(&further[i], &further[i + here])) here++;
        pairs[groups] = pairs[i];
        pairs[groups].perturbation.more = here > 1 ? &further[i + 1] : NULL;
        pairs[groups].perturbation.more_count = here - 1;
        i += here;
    }
    return groups;
}

/* A turn of as many pairs as are live. */
static zest_status pass_live(zest_model_pass *pass, zest_model_pair *pairs, size_t count,
                             const zest_perturbation *further) {
    zest_model_runner *runner = pass->runner;
    size_t per_lane = pass->room_rows * pass->is->width;
    float *next = runner->x.data;
    for (zest_model_pair *lane = pairs; lane < pairs + count; lane++) {
        lane->x[0] = next;
        lane->x[1] = lane->perturbation.lanes == 2 ? zest_model_at(runner, next, per_lane) : next;
        next = zest_model_at(runner, next, per_lane * (size_t)lane->perturbation.lanes);
    }
    return pass_groups(pass, pairs, form_groups(pass, pairs, count, further));
}

static zest_status pass_lanes(zest_model_pass *pass) {
    zest_model_runner *runner = pass->runner;
    size_t lanes = pass->request->lane_count, per_lane = pass->room_rows * pass->is->width;
    size_t most = 2 * pass->live < lanes ? 2 * pass->live : lanes, count = pass->pair_count;
    zest_perturbation *further = malloc(count * sizeof *further);
    if (!further) return zest_error_memory(pass->error, "lanes", count * sizeof *further);
    for (size_t i = 0; i < count; i++) further[i] = pass->pairs[i].perturbation;
    zest_status status = zest_model_room_for(runner, &runner->x, 1, most * per_lane, pass->error);
    for (size_t first = 0; first < count && !status; first += pass->live) {
        size_t here = count - first < pass->live ? count - first : pass->live;
        status = pass_live(pass, pass->pairs + first, here, further + first);
    }
    free(further);
    return status;
}

static zest_status list_pairs(zest_model_pass *pass) {
    const zest_model_request *request = pass->request;
    zest_model_pair *pairs = pass->pairs = malloc(request->lane_count * sizeof *pairs);
    if (!pairs) return zest_error_memory(pass->error, "lanes", request->lane_count * sizeof *pairs);
    size_t count = 0;
    for (size_t i = 0; i < request->lane_count; i += (size_t)pairs[count++].perturbation.lanes)
        pairs[count] = pair_of(request, i);
    pass->pair_count = count;
    pass->live = pass->runner->live && pass->runner->live < count ? pass->runner->live : count;
    pass->group = 1;
    return ZEST_OK;
}

zest_status zest_model_forward(zest_model_runner *runner, const zest_model_request *request,
                               zest_error *error) {
    zest_model_pass pass;
    zest_status status = zest_model_prepare(runner, request, &pass, error);
    if (status) return status;
    zest_model_number_asked(&pass);
    status = list_pairs(&pass);
    if (!status) status = zest_model_fit(&pass);
    if (!status) status = zest_model_make_room(&pass);
    if (!status) status = zest_model_stage_pass(&pass);
    if (!status) status = pass_lanes(&pass);
    free(pass.pairs);
    return status;
}
