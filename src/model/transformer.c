#include <stdlib.h>

#include "model/transformer.h"
#include "model/forward_pass.h"

/* ---- Operations ---- */

zest_linear zest_model_linear_job(const zest_model_runner *runner, const zest_model_affine *affine,
                                  const zest_perturbation *p, int transposed, const void *const a[2],
                                  size_t rows, size_t a_stride, void *const out[2], size_t out_stride,
                                  const void *const residual[2]) {
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
                         .deterministic = runner->deterministic};
}

zest_status zest_model_linear_run(zest_model_runner *runner, const zest_linear *job, zest_error *error) {
    return runner->operations->linear(job, runner->threads, &runner->scratch)
               ? zest_model_device_error(runner, error)
               : ZEST_OK;
}

zest_status zest_model_linear(zest_model_runner *runner, const zest_model_affine *affine,
                              const zest_perturbation *p, int transposed, const void *const a[2], size_t rows,
                              size_t a_stride, void *const out[2], size_t out_stride,
                              const void *const residual[2], zest_activation activation, zest_error *error) {
    zest_linear job =
        zest_model_linear_job(runner, affine, p, transposed, a, rows, a_stride, out, out_stride, residual);
    job.activation = activation;
    return zest_model_linear_run(runner, &job, error);
}

zest_status zest_model_norm(zest_model_runner *runner, const zest_model_affine *affine,
                            const zest_perturbation *p, const void *const x[2], void *const out[2],
                            size_t rows, size_t width, zest_error *error) {
    zest_norm job = {.gain = affine->weight,
                     .bias = affine->bias,
                     .rms = runner->model->config.rms_norm,
                     .epsilon = runner->model->config.epsilon,
                     .perturbation = *p,
                     .x = {x[0], x[1]},
                     .out = {out[0], out[1]},
                     .rows = rows,
                     .width = width};
    return runner->operations->norm(&job, runner->threads, &runner->scratch)
               ? zest_model_device_error(runner, error)
               : ZEST_OK;
}

/* ---- Behind the layers ---- */

static zest_status finish(zest_forward_pass *pass, const zest_lane_group *lanes) {
    zest_model_runner *runner = pass->runner;
    const zest_model *model = runner->model;
    const zest_model_config *config = pass->config;
    size_t rows = pass->request->out_rows ? pass->out_rows : pass->rows;
    void *a[2], *work[2];
    zest_model_first_lanes(&runner->norm_out, 0, a);
    zest_model_first_lanes(&runner->work, 0, work);
    zest_group_output unit = {lanes->first, lanes->perturbation, rows, {lanes->x[0], lanes->x[1]}};
    zest_status status = ZEST_OK;
    if (pass->request->depth == config->layers && config->final_norm) {
        status = zest_model_norm(runner, &model->final_norm, &lanes->perturbation, unit.h, a, rows,
                                 config->hidden_size, pass->error);
        unit.h[0] = a[0], unit.h[1] = a[1];
    }
    if (!status && pass->request->depth == config->layers && model->project_out.weight.data) {
        status = zest_model_linear(runner, &model->project_out, &lanes->perturbation, 0, unit.h, rows,
                                   config->hidden_size, work, config->embedding_size, NULL, ZEST_ACT_NONE,
                                   pass->error);
        unit.h[0] = work[0], unit.h[1] = work[1];
    }
    return status ? status : pass->request->on_group(runner, &unit, pass->request->user, pass->error);
}

/* ---- Pairs ---- */

/* The lanes from `first` on that go together: two with opposite scales along one direction, or one. */
static zest_lane_group pair_of(const zest_forward_request *request, size_t first) {
    const zest_model_lane *lane = &request->lanes[first];
    zest_lane_group out = {.first = first, .perturbation = {.seed = lane->direction.seed, .lanes = 1}};
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

static zest_status pass_groups(zest_forward_pass *pass, const zest_lane_group *pairs, size_t count) {
    zest_status status = ZEST_OK;
    size_t rows = pass->rows;
    for (size_t i = 0; i < count && !status; i++) status = zest_model_embed(pass, &pairs[i]);
    for (size_t layer = 0; layer < pass->request->depth; layer++)
        for (size_t i = 0; i < count && !status; i++)
            status = zest_model_forward_layer(pass, layer, &pairs[i], &rows);
    for (size_t i = 0; i < count && !status; i++) status = finish(pass, &pairs[i]);
    return status;
}

/* Pairs of one kind can go together. */
static int alike(const zest_perturbation *a, const zest_perturbation *b) {
    return a->lanes == 2 && b->lanes == 2 && a->signs == b->signs && a->scale[0] != 0 && b->scale[0] != 0;
}

/* Puts neighbours together; further: the perturbations of all pairs, which groups point into. */
static size_t form_groups(const zest_forward_pass *pass, zest_lane_group *pairs, size_t count,
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
static zest_status pass_live(zest_forward_pass *pass, zest_lane_group *pairs, size_t count,
                             const zest_perturbation *further) {
    zest_model_runner *runner = pass->runner;
    size_t per_lane = pass->max_rows * pass->config->hidden_size;
    void *next = runner->hidden.data;
    for (zest_lane_group *lane = pairs; lane < pairs + count; lane++) {
        lane->x[0] = next;
        lane->x[1] = lane->perturbation.lanes == 2 ? zest_model_offset(runner, next, per_lane) : next;
        next = zest_model_offset(runner, next, per_lane * (size_t)lane->perturbation.lanes);
    }
    return pass_groups(pass, pairs, form_groups(pass, pairs, count, further));
}

static zest_status pass_lanes(zest_forward_pass *pass) {
    zest_model_runner *runner = pass->runner;
    size_t lanes = pass->request->lane_count, per_lane = pass->max_rows * pass->config->hidden_size;
    size_t most = 2 * pass->live < lanes ? 2 * pass->live : lanes, count = pass->pair_count;
    zest_perturbation *further = malloc(count * sizeof *further);
    if (!further) return zest_error_memory(pass->error, "lanes", count * sizeof *further);
    for (size_t i = 0; i < count; i++) further[i] = pass->pairs[i].perturbation;
    zest_status status = zest_model_buffer_reserve(runner, &runner->hidden, 1, most * per_lane, pass->error);
    for (size_t first = 0; first < count && !status; first += pass->live) {
        size_t here = count - first < pass->live ? count - first : pass->live;
        status = pass_live(pass, pass->pairs + first, here, further + first);
    }
    free(further);
    return status;
}

static zest_status list_pairs(zest_forward_pass *pass) {
    const zest_forward_request *request = pass->request;
    zest_lane_group *pairs = pass->pairs = malloc(request->lane_count * sizeof *pairs);
    if (!pairs) return zest_error_memory(pass->error, "lanes", request->lane_count * sizeof *pairs);
    size_t count = 0;
    for (size_t i = 0; i < request->lane_count; i += (size_t)pairs[count++].perturbation.lanes)
        pairs[count] = pair_of(request, i);
    pass->pair_count = count;
    pass->live = pass->runner->live && pass->runner->live < count ? pass->runner->live : count;
    pass->group = 1;
    return ZEST_OK;
}

zest_status zest_model_forward(zest_model_runner *runner, const zest_forward_request *request,
                               zest_error *error) {
    zest_forward_pass pass;
    zest_status status = zest_forward_prepare(runner, request, &pass, error);
    if (status) return status;
    zest_model_index_out_rows(&pass);
    status = list_pairs(&pass);
    if (!status) status = zest_model_plan_groups(&pass);
    if (!status) status = zest_model_alloc_activations(&pass);
    if (!status) status = zest_model_stage_pass(&pass);
    if (!status) status = pass_lanes(&pass);
    free(pass.pairs);
    return status;
}

/* What the first layer starts from: rows of the tables of tokens, types and positions. */

/* The tables whose rows a token's embedding is the sum of, in this order: tokens, types, positions. */
static size_t list_tables(const zest_forward_pass *pass, zest_gather_part parts[ZEST_GATHER_PARTS]) {
    const zest_model *model = pass->runner->model;
    const zest_model_config *config = pass->config;
    size_t count = 0;
    parts[count++] = (zest_gather_part){model->tokens, pass->at.tokens, 0, 0};
    if (config->token_types)
        parts[count++] = (zest_gather_part){model->types, pass->at.types, 0, config->token_types};
    if (config->position_rows)
        parts[count++] = (zest_gather_part){model->positions, pass->at.table_rows,
                                            pass->first_position + config->position_offset,
                                            pass->end_position - pass->first_position};
    return count;
}

static zest_status gather(zest_forward_pass *pass, const zest_lane_group *lanes,
                          const zest_gather_part *parts, size_t count, void *const out[2], int add) {
    zest_model_runner *runner = pass->runner;
    zest_gather job = {.parts = parts,
                       .part_count = count,
                       .perturbation = lanes->perturbation,
                       .out = {out[0], out[1]},
                       .count = pass->rows,
                       .add = add};
    return runner->operations->gather(&job, runner->threads, &runner->scratch)
               ? zest_model_device_error(runner, pass->error)
               : ZEST_OK;
}

zest_status zest_model_embed_sum(zest_forward_pass *pass, const zest_lane_group *lanes, void *const out[2]) {
    const zest_model_affine *project = &pass->runner->model->project_in;
    const zest_model_config *config = pass->config;
    zest_gather_part parts[ZEST_GATHER_PARTS];
    size_t count = list_tables(pass, parts);
    if (!project->weight.data) /* what families with a norm behind the sum have */
        return gather(pass, lanes, parts, count, out, 0);
    void *a[2];
    zest_model_first_lanes(&pass->runner->norm_out, 0, a);
    zest_status status = gather(pass, lanes, parts, 1, a, 0);
    if (!status) /* not transposed in any family, whatever the layers are */
        status = zest_model_linear(pass->runner, project, &lanes->perturbation, 0, ZEST_CONST2(a), pass->rows,
                                   config->embedding_size, out, config->hidden_size, NULL, ZEST_ACT_NONE,
                                   pass->error);
    return status || count == 1 ? status : gather(pass, lanes, parts + 1, count - 1, out, 1);
}

zest_status zest_model_embed(zest_forward_pass *pass, const zest_lane_group *lanes) {
    const zest_model *model = pass->runner->model;
    void *a[2];
    zest_model_first_lanes(&pass->runner->norm_out, 0, a);
    if (!pass->config->embedding_norm) return zest_model_embed_sum(pass, lanes, lanes->x);
    zest_status status = zest_model_embed_sum(pass, lanes, a);
    if (status) return status;
    return zest_model_norm(pass->runner, &model->embedding_norm, &lanes->perturbation, ZEST_CONST2(a),
                           lanes->x, pass->rows, pass->config->hidden_size, pass->error);
}

/* A layer of one group of lanes: attention, then the MLP. */

zest_status zest_model_layer_linear(zest_forward_pass *pass, const zest_lane_group *lanes,
                                    const zest_model_affine *affine, const void *const a[2], size_t rows,
                                    size_t inputs, void *const out[2], size_t outputs,
                                    const void *const residual[2], zest_activation activation) {
    return zest_model_linear(pass->runner, affine, &lanes->perturbation, pass->config->transposed, a, rows,
                             inputs, out, outputs, residual, activation, pass->error);
}

zest_status zest_model_layer_linear_norm(zest_forward_pass *pass, const zest_lane_group *lanes,
                                         const zest_model_affine *affine, const zest_model_affine *norm,
                                         const void *const a[2], size_t rows, size_t inputs,
                                         void *const out[2], const void *const residual[2]) {
    zest_model_runner *runner = pass->runner;
    const zest_model_config *config = pass->config;
    const zest_norm behind = {.gain = norm->weight,
                              .bias = norm->bias,
                              .rms = config->rms_norm,
                              .epsilon = config->epsilon,
                              .width = config->hidden_size};
    zest_linear job = zest_model_linear_job(runner, affine, &lanes->perturbation, config->transposed, a, rows,
                                            inputs, out, config->hidden_size, residual);
    if (runner->device) job.norm = &behind;
    zest_status status = zest_model_linear_run(runner, &job, pass->error);
    return status || runner->device ? status
                                    : zest_model_norm(runner, norm, &lanes->perturbation, ZEST_CONST2(out),
                                                      out, rows, config->hidden_size, pass->error);
}

static zest_status mlp_block(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes, size_t rows) {
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const zest_model_config *config = pass->config;
    void *a[2], *up[2], *gate[2];
    zest_model_first_lanes(&pass->runner->norm_out, 0, a);
    zest_model_first_lanes(&pass->runner->work, 0, up);
    zest_model_first_lanes(&pass->runner->work, pass->max_rows * config->ffn_size, gate);
    zest_status status = ZEST_OK;
    if (!config->post_norm)
        status = zest_model_norm(pass->runner, &layer->norm2, &lanes->perturbation, ZEST_CONST2(lanes->x), a,
                                 rows, config->hidden_size, pass->error);
    const void *const in[2] = {a[0], a[1]}; /* the norm's result, or what attention has left there */
    if (!status && config->gated)
        status = zest_model_layer_linear(pass, lanes, &layer->gate, in, rows, config->hidden_size, gate,
                                         config->ffn_size, NULL, ZEST_ACT_NONE);
    if (!status)
        status = zest_model_layer_linear(pass, lanes, &layer->up, in, rows, config->hidden_size, up,
                                         config->ffn_size, NULL,
                                         config->gated ? ZEST_ACT_NONE : config->activation);
    if (status) return status;
    for (size_t l = 0; config->gated && l < zest_perturbation_lanes(&lanes->perturbation); l++)
        pass->runner->operations->gate(zest_model_lane_at(ZEST_CONST2(gate), l),
                                       zest_model_lane_at(ZEST_CONST2(up), l), rows * config->ffn_size,
                                       config->activation, pass->runner->threads, &pass->runner->scratch);
    const void *const inner[2] = {config->gated ? gate[0] : up[0], config->gated ? gate[1] : up[1]};
    if (config->post_norm)
        return zest_model_layer_linear_norm(pass, lanes, &layer->down, &layer->norm2, inner, rows,
                                            config->ffn_size, lanes->x, in);
    return zest_model_layer_linear(pass, lanes, &layer->down, inner, rows, config->ffn_size, lanes->x,
                                   config->hidden_size, ZEST_CONST2(lanes->x), ZEST_ACT_NONE);
}

zest_status zest_model_forward_layer(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                                     size_t *rows) {
    zest_status status = zest_model_attention_block(pass, i, lanes, rows);
    return status ? status : mlp_block(pass, i, lanes, *rows);
}
