/* The transformer: embeddings, layers (attention.c has the attention half), and what follows the last layer.
 * Each step takes one group of lanes; forward_pass.c says which lanes go together.
 *
 * The same code serves the backward pass of grad/: with request->save, activations go to buffers that stay,
 * and dropout is applied. */
#include "kernels/cpu/linear_lowrank.h"
#include "model/forward_pass.h"
#include "model/input_rows.h"

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
                         .compute = runner->compute};
}

zest_status zest_model_linear_run(zest_model_runner *runner, const zest_linear *job, zest_error *error) {
    zest_status status = runner->capture ? zest_input_capture_take(runner, job, error) : ZEST_OK;
    if (status) return status;
    int failed = !runner->device && zest_linear_is_low_rank(job)
                     ? zest_linear_low_rank(runner->operations, job, runner->threads, &runner->scratch,
                                            &runner->low_rank)
                     : runner->operations->linear(job, runner->threads, &runner->scratch);
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
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
                     .width = width,
                     .gain_offset = runner->model->config.norm_offset};
    return runner->operations->norm(&job, runner->threads, &runner->scratch)
               ? zest_model_device_error(runner, error)
               : ZEST_OK;
}

/* out = factor x (+ y), of one lane. */
static void add_scaled(zest_model_runner *runner, void *out, const void *x, float factor, const void *y,
                       size_t count) {
    runner->operations->add_scaled(out, x, factor, y, count, runner->threads, &runner->scratch);
}

/* ---- Embeddings ---- */

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
    if (!project->weight.data) { /* as in families with a norm after the sum */
        zest_status status = gather(pass, lanes, parts, count, out, 0);
        size_t elements = pass->rows * config->hidden_size;
        for (size_t l = 0; config->embedding_scale != 0 && l < zest_perturbation_lanes(&lanes->perturbation);
             l++)
            add_scaled(pass->runner, zest_model_lane_at(ZEST_CONST2(out), l),
                       zest_model_lane_at(ZEST_CONST2(out), l), config->embedding_scale, NULL, elements);
        return status;
    }
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
    const zest_forward_save *save = pass->request->save;
    size_t hidden = pass->config->hidden_size;
    void *sum[2]; /* (lanes, tokens, hidden) */
    zest_model_first_lanes(&pass->runner->norm_out, 0, sum);
    zest_status status = zest_model_embed_sum(pass, lanes, pass->config->embedding_norm ? sum : lanes->x);
    if (!status && pass->config->embedding_norm)
        status = zest_model_norm(pass->runner, &model->embedding_norm, &lanes->perturbation, ZEST_CONST2(sum),
                                 lanes->x, pass->rows, hidden, pass->error);
    if (!status && save && save->drops[ZEST_DROPOUT_EMBEDDINGS])
        save->drop(save->user, 0, ZEST_DROPOUT_EMBEDDINGS, lanes->x[0], NULL, pass->rows * hidden);
    return status;
}

/* ---- A layer ---- */

zest_status zest_model_layer_linear(zest_forward_pass *pass, const zest_lane_group *lanes,
                                    const zest_model_affine *affine, const void *const a[2], size_t rows,
                                    size_t inputs, void *const out[2], size_t outputs,
                                    const void *const residual[2], zest_activation activation) {
    return zest_model_linear(pass->runner, affine, &lanes->perturbation, pass->config->transposed, a, rows,
                             inputs, out, outputs, residual, activation, pass->error);
}

/* On a device the norm is part of the product where the sum need not stay. */
static zest_status linear_norm_on_device(zest_forward_pass *pass, const zest_lane_group *lanes,
                                         const zest_residual_args *args, const void *const a[2],
                                         const void *const residual[2], void *const out[2]) {
    const zest_model_config *config = pass->config;
    const zest_norm norm = {.gain = args->norm->weight,
                            .bias = args->norm->bias,
                            .rms = config->rms_norm,
                            .epsilon = config->epsilon,
                            .width = config->hidden_size};
    zest_linear job =
        zest_model_linear_job(pass->runner, args->affine, &lanes->perturbation, config->transposed, a,
                              args->rows, args->inputs, out, config->hidden_size, residual);
    job.norm = &norm;
    return zest_model_linear_run(pass->runner, &job, pass->error);
}

/* With a norm of what is added. Without saving, branch and normed may be one buffer. */
static zest_status add_normed_branch(zest_forward_pass *pass, const zest_lane_group *lanes,
                                     const zest_residual_args *args, const void *const a[2],
                                     const void *const residual[2], void *const sum[2],
                                     void *const normed[2]) {
    const zest_forward_save *save = pass->request->save;
    size_t hidden = pass->config->hidden_size, count = args->rows * hidden;
    zest_status status = zest_model_layer_linear(pass, lanes, args->affine, a, args->rows, args->inputs,
                                                 args->branch, hidden, NULL, ZEST_ACT_NONE);
    if (!status)
        status = zest_model_norm(pass->runner, args->branch_norm, &lanes->perturbation,
                                 ZEST_CONST2(args->branch), normed, args->rows, hidden, pass->error);
    if (!status && save && save->drops[args->site])
        save->drop(save->user, args->layer, args->site, normed[0], NULL, count);
    for (size_t l = 0; !status && l < zest_perturbation_lanes(&lanes->perturbation); l++)
        add_scaled(pass->runner, zest_model_lane_at(ZEST_CONST2(sum), l),
                   zest_model_lane_at(ZEST_CONST2(normed), l), 1, zest_model_lane_at(residual, l), count);
    return status;
}

zest_status zest_model_add_to_residual(zest_forward_pass *pass, const zest_lane_group *lanes,
                                       const zest_residual_args *args, const void *const a[2],
                                       const void *const residual[2], void *const sum[2],
                                       void *const normed[2]) {
    const zest_forward_save *save = pass->request->save;
    size_t hidden = pass->config->hidden_size;
    int drops = save && save->drops[args->site];
    if (args->branch_norm) return add_normed_branch(pass, lanes, args, a, residual, sum, normed);
    if (args->norm && pass->runner->device && sum[0] == normed[0])
        return linear_norm_on_device(pass, lanes, args, a, residual, normed);
    zest_status status = zest_model_layer_linear(pass, lanes, args->affine, a, args->rows, args->inputs, sum,
                                                 hidden, drops ? NULL : residual, ZEST_ACT_NONE);
    if (!status && drops)
        save->drop(save->user, args->layer, args->site, sum[0], residual[0], args->rows * hidden);
    if (status || !args->norm || !normed[0]) return status;
    return zest_model_norm(pass->runner, args->norm, &lanes->perturbation, ZEST_CONST2(sum), normed,
                           args->rows, hidden, pass->error);
}

/* inner = act(up), or act(gate) up. Where gate and up are saved, into a buffer of its own; else in place, and
 * without a gate the product has applied the activation already. */
static void activate(zest_forward_pass *pass, const zest_lane_group *lanes, const zest_layer_buffers *b,
                     size_t rows) {
    const zest_model_config *config = pass->config;
    const zest_forward_save *save = pass->request->save;
    zest_model_runner *runner = pass->runner;
    size_t count = rows * config->ffn_size;
    if (save) {
        save->activate(save->user, b->inner[0], config->gated ? b->gate[0] : b->up[0],
                       config->gated ? b->up[0] : NULL, count, config->activation);
        return;
    }
    for (size_t l = 0; config->gated && l < zest_perturbation_lanes(&lanes->perturbation); l++)
        runner->operations->gate(zest_model_lane_at(ZEST_CONST2(b->gate), l),
                                 zest_model_lane_at(ZEST_CONST2(b->up), l), count, config->activation,
                                 runner->threads, &runner->scratch);
}

static zest_status mlp_block(zest_forward_pass *pass, size_t i, const zest_lane_group *lanes,
                             const zest_layer_buffers *b, size_t rows) {
    const zest_model_layer *layer = &pass->runner->model->layers[i];
    const zest_model_config *config = pass->config;
    const int post_norm = config->post_norm, fused = !pass->request->save && !config->gated;
    size_t hidden = config->hidden_size, ffn = config->ffn_size;
    zest_status status = ZEST_OK;
    if (!post_norm &&
        !config->parallel_residual) /* else the attention block has left a norm's result there */
        status = zest_model_norm(pass->runner, &layer->norm2, &lanes->perturbation, ZEST_CONST2(b->attended),
                                 b->normed, rows, hidden, pass->error);
    if (!status && config->gated)
        status = zest_model_layer_linear(pass, lanes, &layer->gate, ZEST_CONST2(b->normed), rows, hidden,
                                         b->gate, ffn, NULL, ZEST_ACT_NONE);
    if (!status)
        status = zest_model_layer_linear(pass, lanes, &layer->up, ZEST_CONST2(b->normed), rows, hidden, b->up,
                                         ffn, NULL, fused ? config->activation : ZEST_ACT_NONE);
    const int ends = !(post_norm ? b->mlp_sum : b->out)[0]; /* once all is saved */
    if (status || (ends && !config->branch_norms)) return status;
    activate(pass, lanes, b, rows);
    if (ends)
        return zest_model_layer_linear(pass, lanes, &layer->down, ZEST_CONST2(b->inner), rows, ffn,
                                       b->down_branch, hidden, NULL, ZEST_ACT_NONE);
    zest_residual_args args = {.affine = &layer->down,
                               .norm = post_norm ? &layer->norm2 : NULL,
                               .branch_norm = config->branch_norms ? &layer->down_norm : NULL,
                               .branch = b->down_branch,
                               .layer = i,
                               .site = ZEST_DROPOUT_MLP,
                               .rows = rows,
                               .inputs = ffn};
    return zest_model_add_to_residual(pass, lanes, &args, ZEST_CONST2(b->inner),
                                      post_norm ? ZEST_CONST2(b->normed) : ZEST_CONST2(b->attended),
                                      post_norm ? b->mlp_sum : b->out,
                                      config->branch_norms ? b->normed : b->out);
}

static void set_both(void *lanes[2], void *buffer) { lanes[0] = lanes[1] = buffer; }

/* A saved pass has one lane. */
static zest_layer_buffers saved_layer_buffers(const zest_forward_save *save, size_t i) {
    zest_saved_layer saved = save->layer(save->user, i);
    zest_layer_buffers b;
    set_both(b.normed, saved.normed);
    set_both(b.qkv, saved.qkv);
    set_both(b.qk_before_norm, saved.qk_before_norm);
    set_both(b.context_all, saved.context_all);
    set_both(b.context, saved.context);
    set_both(b.residual, saved.residual);
    set_both(b.attended, saved.attended);
    set_both(b.gate, saved.gate);
    set_both(b.up, saved.up);
    set_both(b.inner, saved.inner);
    set_both(b.mlp_sum, saved.mlp_sum);
    set_both(b.out_branch, saved.out_branch);
    set_both(b.down_branch, saved.down_branch);
    set_both(b.out, saved.out);
    return b;
}

/* Without saving, a layer works in place: the hidden states stay where they are, the rest shares two buffers. */
static zest_layer_buffers layer_buffers(const zest_forward_pass *pass, size_t i,
                                        const zest_lane_group *lanes) {
    const zest_model_runner *runner = pass->runner;
    if (pass->request->save) return saved_layer_buffers(pass->request->save, i);
    zest_layer_buffers b;
    zest_model_first_lanes(&runner->norm_out, 0, b.normed);
    zest_model_first_lanes(&runner->work, 0, b.qkv);
    set_both(b.qk_before_norm, NULL);
    zest_model_first_lanes(&runner->work, pass->max_rows * pass->span, b.context_all);
    zest_model_first_lanes(&runner->work, 0, b.up);
    zest_model_first_lanes(&runner->work, pass->max_rows * pass->config->ffn_size, b.gate);
    for (int l = 0; l < 2; l++) {
        b.context[l] = b.context_all[l];
        b.out_branch[l] = b.down_branch[l] = b.normed[l];
        b.residual[l] = b.mlp_sum[l] = b.out[l] = lanes->x[l];
        b.attended[l] = pass->config->post_norm ? b.normed[l] : lanes->x[l];
        b.inner[l] = pass->config->gated ? b.gate[l] : b.up[l];
    }
    return b;
}

zest_status zest_model_forward_layer(zest_forward_pass *pass, size_t i, zest_lane_group *lanes,
                                     size_t *rows) {
    const zest_layer_buffers b = layer_buffers(pass, i, lanes);
    zest_status status = zest_model_attention_block(pass, i, lanes, &b, rows);
    if (!status) status = mlp_block(pass, i, lanes, &b, *rows);
    lanes->x[0] = b.out[0], lanes->x[1] = b.out[1];
    return status;
}

/* ---- Behind the layers ---- */

zest_status zest_model_finish(zest_forward_pass *pass, const zest_lane_group *lanes) {
    zest_model_runner *runner = pass->runner;
    const zest_model *model = runner->model;
    const zest_model_config *config = pass->config;
    const zest_forward_save *save = pass->request->save;
    int last = pass->request->depth == config->layers;
    void *normed[2], *projected[2];
    if (save) {
        set_both(normed, save->final_normed);
        set_both(projected, save->projected);
    } else {
        zest_model_first_lanes(&runner->norm_out, 0, normed);
        zest_model_first_lanes(&runner->work, 0, projected);
    }
    zest_group_output group = {.first = lanes->first,
                               .perturbation = lanes->perturbation,
                               .rows = pass->request->out_rows ? pass->out_rows : pass->rows,
                               .h = {lanes->x[0], lanes->x[1]},
                               .save = save};
    zest_status status = ZEST_OK;
    if (last && config->final_norm) {
        status = zest_model_norm(runner, &model->final_norm, &lanes->perturbation, group.h, normed,
                                 group.rows, config->hidden_size, pass->error);
        group.h[0] = normed[0], group.h[1] = normed[1];
    }
    if (!status && last && model->project_out.weight.data) {
        status = zest_model_linear(runner, &model->project_out, &lanes->perturbation, 0, group.h, group.rows,
                                   config->hidden_size, projected, config->embedding_size, NULL,
                                   ZEST_ACT_NONE, pass->error);
        group.h[0] = projected[0], group.h[1] = projected[1];
    }
    return status ? status : pass->request->on_group(runner, &group, pass->request->user, pass->error);
}
