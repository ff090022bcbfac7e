/* The backward pass of the transformer: what follows the layers, the layers from the last to the first, the
 * embeddings. The gradient of the residual stream is in the first third of grad->d_stream; its branches are in
 * the other two. */
#include "grad/grad_internal.h"

/* Rows after the attention of layer i. */
static size_t layer_rows(const zest_grad_pass *pass, size_t i) {
    return i + 1 == pass->forward.config->layers ? pass->out_rows : pass->rows;
}

static zest_status norm_again(zest_grad_pass *pass, const zest_model_affine *norm, const void *x, size_t rows,
                              void *out) {
    return zest_model_norm(pass->grad->runner, norm, &pass->lane.perturbation, (const void *const[2]){x, x},
                           (void *const[2]){out, out}, rows, pass->forward.config->hidden_size, pass->error);
}

static zest_status copy_rows(const zest_grad_pass *pass, const void *from, void *to, const uint32_t *source,
                             size_t count, size_t width) {
    zest_model_runner *runner = pass->grad->runner;
    zest_copy_rows job = {.from = from,
                          .to = to,
                          .from_stride = width,
                          .to_stride = width,
                          .width = width,
                          .count = count,
                          .source = source,
                          .lanes = 1};
    return zest_grad_check(pass, pass->grad->backward->copy(&job, runner->threads, &runner->scratch));
}

/* ---- Matrix products and norms ----
 *
 * y = x W' + b, W (outputs, inputs):
 *
 *     dx = dy W      dW = dy' x      db = sum over rows of dy
 *
 * and where W is stored as (inputs, outputs), dx = dy W', dW = x' dy. All of them are the forward pass's own
 * linear: dx takes the stored weight transposed; dW takes dy (or x) transposed as activations and x (or dy) as a
 * weight of (rows, inputs), and adds to the gradient as to a residual. On the CPU every element of dW is one
 * chain over the rows, so it does not depend on the number of threads. */

static zest_status run_linear(zest_grad_pass *pass, zest_linear *job) {
    zest_model_runner *runner = pass->grad->runner;
    job->compute = runner->compute;
    return zest_grad_check(pass, runner->operations->linear(job, runner->threads, &runner->scratch));
}

/* The dtype of activations that a product takes as weights. */
static zest_dtype activation_dtype(const zest_model_runner *runner) {
    if (!runner->device || runner->compute == ZEST_COMPUTE_F32) return ZEST_DTYPE_F32;
    return runner->compute == ZEST_COMPUTE_BF16 ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F16;
}

/* out += left' right; both have `rows` rows. right has no gaps. */
static zest_status add_product(zest_grad_pass *pass, const void *left, size_t left_stride, size_t left_width,
                               const void *right, size_t right_width, size_t rows, float *out) {
    zest_linear job = {.weight = {right, activation_dtype(pass->grad->runner), rows, right_width, 0, 1},
                       .transposed = 1,
                       .perturbation = {.lanes = 1},
                       .a = {left, left},
                       .a_stride = left_stride,
                       .a_transposed = 1,
                       .rows = left_width,
                       .out = {out, out},
                       .out_stride = right_width,
                       .residual = {out, out},
                       .residual_stride = right_width,
                       .fp32_output = 1};
    return run_linear(pass, &job);
}

static zest_linear inputs_job(const zest_grad_pass *pass, const zest_weight *weight, int transposed,
                              const void *dy, size_t dy_stride, size_t rows, size_t inputs, void *dx,
                              int add) {
    return (zest_linear){.weight = *weight,
                         .transposed = !transposed,
                         .perturbation = pass->lane.perturbation,
                         .a = {dy, dy},
                         .a_stride = dy_stride,
                         .rows = rows,
                         .out = {dx, dx},
                         .out_stride = inputs,
                         .residual = {add ? dx : NULL, add ? dx : NULL},
                         .residual_stride = inputs};
}

zest_status zest_grad_linear_backward(zest_grad_pass *pass, const zest_model_affine *affine, int transposed,
                                      const void *x, const void *dy, size_t dy_stride, size_t rows, void *dx,
                                      int add) {
    zest_model_runner *runner = pass->grad->runner;
    size_t outputs = transposed ? affine->weight.columns : affine->weight.rows;
    size_t inputs = transposed ? affine->weight.rows : affine->weight.columns;
    float *d_weight = zest_grad_weight_grad(pass, &affine->weight),
          *d_bias = zest_grad_weight_grad(pass, &affine->bias);
    zest_status status = ZEST_OK;
    if (d_bias)
        status = zest_grad_check(pass, pass->grad->backward->sum_columns(dy, dy_stride, rows, outputs, d_bias,
                                                                         runner->threads, &runner->scratch));
    if (status) return status;
    if (d_weight && transposed) /* only fused projections are stored so: dy has no gaps */
        status = add_product(pass, x, inputs, inputs, dy, outputs, rows, d_weight);
    else if (d_weight)
        status = add_product(pass, dy, dy_stride, outputs, x, inputs, rows, d_weight);
    if (status || !dx) return status;
    zest_linear job = inputs_job(pass, &affine->weight, transposed, dy, dy_stride, rows, inputs, dx, add);
    return run_linear(pass, &job);
}

/* The same for q, k and v side by side. */
static zest_status qkv_backward(zest_grad_pass *pass, const zest_model_layer *layer, const void *x,
                                const void *dqkv, void *dx, int add) {
    const zest_forward_pass *p = &pass->forward;
    zest_model_runner *runner = pass->grad->runner;
    int transposed = p->config->transposed, together = runner->device && !transposed;
    if (p->config->fused_qkv)
        return zest_grad_linear_backward(pass, &layer->qkv, transposed, x, dqkv, p->qkv_stride, p->rows, dx,
                                         add);
    const zest_model_affine *maps[3] = {&layer->q, &layer->k, &layer->v};
    size_t at[3] = {0, p->q_width, p->q_width + p->kv_width};
    zest_status status = ZEST_OK;
    for (int m = 0; m < 3 && !status; m++)
        status =
            zest_grad_linear_backward(pass, maps[m], transposed, x, zest_model_offset(runner, dqkv, at[m]),
                                      p->qkv_stride, p->rows, together ? NULL : dx, add || m);
    if (status || !together) return status;
    /* On a device: one product for all three. */
    const zest_linear_part more[2] = {{layer->k.weight, {0}}, {layer->v.weight, {0}}};
    zest_linear job =
        inputs_job(pass, &layer->q.weight, 0, dqkv, p->qkv_stride, p->rows, p->config->hidden_size, dx, add);
    job.more = more;
    job.more_count = 2;
    return run_linear(pass, &job);
}

/* Runs a job that has its activations, with what all norms of the model share. */
static zest_status run_norm_backward(zest_grad_pass *pass, const zest_model_affine *norm,
                                     zest_norm_backward job) {
    zest_grad *grad = pass->grad;
    zest_model_runner *runner = grad->runner;
    job.d_gain = zest_grad_weight_grad(pass, &norm->weight);
    job.d_bias = zest_grad_weight_grad(pass, &norm->bias);
    job.rms = pass->forward.config->rms_norm;
    job.epsilon = pass->forward.config->epsilon;
    job.gain_offset = pass->forward.config->norm_offset;
    job.stored = norm->weight;
    job.perturbation = pass->lane.perturbation;
    if (!runner->device && norm->weight.data) {
        uint32_t row = 0; /* a gain is a table of one row: gathering it gives its perturbed values */
        zest_status status = zest_model_buffer_reserve(runner, &grad->small_work, 1, job.width, pass->error);
        void *const gain[2] = {grad->small_work.data, grad->small_work.data};
        if (!status)
            status = zest_grad_check(pass, zest_ops_gather_rows(runner->operations, &norm->weight,
                                                                &pass->lane.perturbation, &row, 1, gain, 1,
                                                                &runner->scratch));
        if (status) return status;
        for (size_t i = 0; job.gain_offset != 0 && i < job.width; i++)
            ((float *)gain[0])[i] += job.gain_offset;
        job.gain = gain[0];
    }
    return zest_grad_check(pass, grad->backward->norm(&job, runner->threads, &runner->scratch));
}

/* y = norm(x): dx (+)= the gradient of x. */
static zest_status norm_backward(zest_grad_pass *pass, const zest_model_affine *norm, const void *x,
                                 const void *dy, size_t rows, void *dx, int add) {
    return run_norm_backward(pass, norm,
                             (zest_norm_backward){.x = x,
                                                  .dy = dy,
                                                  .dx = dx,
                                                  .add = add,
                                                  .rows = rows,
                                                  .width = pass->forward.config->hidden_size});
}

/* The same for every head of q or of k, which begin at `first` in a row; in place. */
static zest_status head_norm_backward(zest_grad_pass *pass, const zest_model_affine *norm,
                                      const zest_saved_layer *saved, size_t first, size_t heads, void *dqkv) {
    const zest_forward_pass *p = &pass->forward;
    const zest_model_runner *runner = pass->grad->runner;
    void *d = zest_model_offset(runner, dqkv, first);
    return run_norm_backward(
        pass, norm,
        (zest_norm_backward){.x = zest_model_offset(runner, saved->qk_before_norm, first),
                             .dy = d,
                             .dx = d,
                             .rows = p->rows,
                             .width = p->config->head_dim,
                             .heads = heads,
                             .x_stride = p->q_width + p->kv_width,
                             .dy_stride = p->qkv_stride,
                             .dx_stride = p->qkv_stride});
}

/* ---- A layer ---- */

/* The gradient of what was added to the residual stream: the stream's own, with the same dropout. */
static const void *d_added(const zest_grad_pass *pass, size_t layer, zest_dropout_site site, size_t rows) {
    zest_model_runner *runner = pass->grad->runner;
    zest_mask mask = zest_grad_mask(pass, layer, site);
    void *d = zest_grad_d_stream(pass, 0), *branch = zest_grad_d_stream(pass, 1);
    if (!mask.threshold) return d;
    pass->grad->backward->drop(branch, d, NULL, rows * pass->forward.config->hidden_size, &mask,
                               runner->threads, &runner->scratch);
    return branch;
}

/* The same where a norm follows the branch: *d becomes the gradient of what the norm took. */
static zest_status branch_norm_backward(zest_grad_pass *pass, const zest_model_affine *norm,
                                        const void *branch, size_t rows, const void **d) {
    void *to = zest_grad_d_stream(pass, 2);
    if (!pass->forward.config->branch_norms) return ZEST_OK;
    zest_status status = norm_backward(pass, norm, branch, *d, rows, to, 0);
    *d = to;
    return status;
}

static zest_status mlp_backward(zest_grad_pass *pass, size_t i, const zest_saved_layer *saved) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_model_config *config = pass->forward.config;
    zest_model_runner *runner = pass->grad->runner;
    size_t rows = layer_rows(pass, i), inner = config->ffn_size, width = config->hidden_size;
    int threads = runner->threads, transposed = config->transposed;
    void *d = zest_grad_d_stream(pass, 0), *branch = zest_grad_d_stream(pass, 1),
         *a = pass->grad->norm_out.data;
    void *dh = pass->grad->layer_work.data,
         *h = zest_model_offset(runner, dh, pass->forward.max_rows * inner);
    const void *from = config->gated ? saved->gate : saved->up, *times = config->gated ? saved->up : NULL;
    zest_status status = ZEST_OK;
    if (config->post_norm) status = norm_backward(pass, &layer->norm2, saved->mlp_sum, d, rows, d, 0);
    if (status) return status;
    pass->grad->backward->activate(h, from, times, rows * inner, config->activation, threads,
                                   &runner->scratch);
    const void *added = d_added(pass, i, ZEST_DROPOUT_MLP, rows);
    status = branch_norm_backward(pass, &layer->down_norm, saved->down_branch, rows, &added);
    if (!status)
        status = zest_grad_linear_backward(pass, &layer->down, transposed, h, added, width, rows, dh, 0);
    if (status) return status;
    pass->grad->backward->activate_backward(dh, h, from, times, rows * inner, config->activation, threads,
                                            &runner->scratch);
    const void *before = config->parallel_residual ? saved->residual : saved->attended; /* the norm */
    status = norm_again(pass, config->post_norm ? &layer->norm1 : &layer->norm2, before, rows, a);
    /* Post-norm: the MLP's input is the stream itself. Pre-norm: a branch of it. */
    void *to = config->post_norm ? d : branch;
    if (!status)
        status = zest_grad_linear_backward(pass, &layer->up, transposed, a, config->gated ? h : dh, inner,
                                           rows, to, config->post_norm);
    if (!status && config->gated)
        status = zest_grad_linear_backward(pass, &layer->gate, transposed, a, dh, inner, rows, to, 1);
    if (status) return status;
    if (config->post_norm) return norm_backward(pass, &layer->norm1, before, d, rows, d, 0);
    /* Parallel residuals: attention's half still needs the gradient of the sum. */
    int apart = config->parallel_residual;
    return norm_backward(pass, &layer->norm2, before, branch, rows, apart ? zest_grad_d_stream(pass, 2) : d,
                         !apart);
}

/* ---- Attention ---- */

static zest_status scatter_add(const zest_grad_pass *pass, const zest_scatter_add *job) {
    zest_model_runner *runner = pass->grad->runner;
    return zest_grad_check(pass, pass->grad->backward->scatter_add(job, runner->threads, &runner->scratch));
}

/* Adds the gradients of output rows to the rows that they were copied from; several may come from one. */
static zest_status scatter_out_rows(const zest_grad_pass *pass, const void *from, size_t width, void *to) {
    zest_scatter_add job = {pass->by_rows, from, to, width, width, width, 0};
    return scatter_add(pass, &job);
}

/* With shared prefixes: adds the gradients of copied keys and values to the rows that they were copied from. */
static zest_status scatter_keys(const zest_grad_pass *pass, const void *d_copies, void *dqkv) {
    const zest_forward_pass *p = &pass->forward;
    size_t width = 2 * p->kv_width;
    zest_scatter_add job = {pass->by_keys,
                            d_copies,
                            zest_model_offset(pass->grad->runner, dqkv, p->q_width),
                            width,
                            p->qkv_stride,
                            width,
                            0};
    return scatter_add(pass, &job);
}

/* The gradient of a rotation is the rotation back: sines with the other sign. */
static zest_status rotate_back(const zest_grad_pass *pass, size_t i, void *dqkv) {
    zest_grad *grad = pass->grad;
    zest_model_runner *runner = grad->runner;
    size_t count = runner->angles * (zest_model_rotary_dim(pass->forward.config) / 2);
    size_t table = zest_model_rope_of(pass->forward.config, i);
    zest_model_buffer *negated = &grad->negated_sines[table];
    if (pass->forward.config->position_rows) return ZEST_OK;
    if (grad->angles[table] != runner->angles) {
        zest_status status = zest_model_buffer_reserve_f32(runner, negated, 1, count, pass->error);
        if (status) return status;
        grad->backward->negate(negated->data, runner->sines[table].data, count, runner->threads,
                               &runner->scratch);
        grad->angles[table] = runner->angles;
    }
    const zest_forward_pass *p = &pass->forward;
    runner->operations->rotary(dqkv, p->rows, p->qkv_stride, p->config->heads + p->config->kv_heads,
                               p->config->head_dim, zest_model_rotary_dim(p->config), p->at.positions,
                               runner->cosines[table].data, negated->data, runner->threads, &runner->scratch);
    return ZEST_OK;
}

/* dqkv, the gradient of the projections' output, out of the context's gradient */
static zest_status attention_backward(zest_grad_pass *pass, size_t i, const zest_saved_layer *saved,
                                      const void *d_context, void *dqkv) {
    const zest_forward_pass *p = &pass->forward;
    zest_model_runner *runner = pass->grad->runner;
    int prefix = pass->request.batch->prefix_of != NULL;
    zest_attention forward =
        zest_model_attention_job(p, i, saved->qkv, p->qkv_stride,
                                 zest_model_offset(runner, saved->qkv, p->q_width), p->qkv_stride, NULL);
    zest_status status = zest_grad_check(pass, prefix && zest_model_expand_prefix(p, &forward));
    if (status) return status;
    zest_mask mask = zest_grad_mask(pass, i, ZEST_DROPOUT_ATTENTION);
    void *d_copies = zest_model_offset(runner, dqkv, p->max_rows * p->qkv_stride);
    void *dk = prefix ? d_copies : zest_model_offset(runner, dqkv, p->q_width);
    zest_attention_backward job = {.forward = forward,
                                   .d_out = d_context,
                                   .dq = dqkv,
                                   .dk = dk,
                                   .dv = zest_model_offset(runner, dk, p->kv_width),
                                   .mask = mask.threshold ? &mask : NULL,
                                   .longest = p->config->max_positions,
                                   .keys = pass->longest_keys,
                                   .rows = pass->rows};
    status = zest_grad_check(pass, pass->grad->backward->attention(&job, runner->threads, &runner->scratch));
    if (!status && prefix) status = scatter_keys(pass, d_copies, dqkv);
    if (!status) status = rotate_back(pass, i, dqkv);
    if (status || !p->config->qk_norm) return status;
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    status = head_norm_backward(pass, &layer->q_norm, saved, 0, p->config->heads, dqkv);
    return status ? status
                  : head_norm_backward(pass, &layer->k_norm, saved, p->q_width, p->config->kv_heads, dqkv);
}

/* The last layer's gradients of output rows become those of all rows. */
static zest_status scatter_last_layer(zest_grad_pass *pass, const void *d_context, void *d_context_all) {
    size_t width = pass->forward.config->hidden_size;
    void *d = zest_grad_d_stream(pass, 0), *branch = zest_grad_d_stream(pass, 1);
    zest_status status = scatter_out_rows(pass, d_context, pass->forward.q_width, d_context_all);
    if (!status) status = copy_rows(pass, d, branch, NULL, pass->out_rows, width);
    return status ? status : scatter_out_rows(pass, branch, width, d);
}

static zest_status attention_block_backward(zest_grad_pass *pass, size_t i, const zest_saved_layer *saved) {
    const zest_model_layer *layer = &pass->grad->view.layers[i];
    const zest_forward_pass *p = &pass->forward;
    const zest_model_config *config = p->config;
    zest_model_runner *runner = pass->grad->runner;
    size_t rows = layer_rows(pass, i), width = config->hidden_size, q = p->q_width;
    void *d = zest_grad_d_stream(pass, 0), *branch = zest_grad_d_stream(pass, 1);
    void *d_context = pass->grad->layer_work.data,
         *d_context_all = zest_model_offset(runner, d_context, p->max_rows * q);
    void *dqkv = zest_model_offset(runner, d_context_all, p->max_rows * q);
    const void *added = d_added(pass, i, ZEST_DROPOUT_ATTENDED, rows);
    zest_status status = branch_norm_backward(pass, &layer->out_norm, saved->out_branch, rows, &added);
    if (!status)
        status = zest_grad_linear_backward(pass, &layer->out, config->transposed, saved->context, added,
                                           width, rows, d_context, 0);
    if (config->parallel_residual) /* the MLP's half */
        runner->operations->add_scaled(d, zest_grad_d_stream(pass, 2), 1, d, rows * width, runner->threads,
                                       &runner->scratch);
    if (!status && i + 1 == config->layers) {
        status = scatter_last_layer(pass, d_context, d_context_all);
        d_context = d_context_all;
    }
    if (!status) status = attention_backward(pass, i, saved, d_context, dqkv);
    if (!status && (config->post_norm || !layer->norm1.weight.data))
        return qkv_backward(pass, layer, saved->x, dqkv, d, 1);
    void *a = pass->grad->norm_out.data;
    if (!status) status = norm_again(pass, &layer->norm1, saved->x, p->rows, a);
    if (!status) status = qkv_backward(pass, layer, a, dqkv, branch, 0);
    if (!status) status = norm_backward(pass, &layer->norm1, saved->x, branch, p->rows, d, 1);
    return status;
}

zest_status zest_grad_layer_backward(zest_grad_pass *pass, size_t i) {
    zest_saved_layer saved = zest_grad_saved(pass, i);
    zest_status status = ZEST_OK;
    if (pass->grad->recompute && i + 1 != pass->forward.config->layers)
        status = zest_grad_recompute_layer(pass, i);
    if (!status) status = mlp_backward(pass, i, &saved);
    return status ? status : attention_block_backward(pass, i, &saved);
}

/* ---- After the layers, and the embeddings ----
 *
 * A row of a table gets the sum of the gradients of the tokens that read it, in their order. */

zest_status zest_grad_finish_backward(zest_grad_pass *pass) {
    const zest_model *model = &pass->grad->view;
    const zest_model_config *config = pass->forward.config;
    zest_model_runner *runner = pass->grad->runner;
    size_t rows = pass->out_rows;
    void *d = zest_grad_d_stream(pass, 0), *other = zest_grad_d_stream(pass, 1),
         *a = pass->grad->norm_out.data;
    int threads = runner->threads;
    zest_status status = ZEST_OK;
    const zest_forward_save *save = &pass->save;
    if (save->head_dense) { /* norm(act(dense)) */
        pass->grad->backward->activate(a, save->head_dense, NULL, rows * config->hidden_size,
                                       config->head_activation, threads, &runner->scratch);
        status = norm_backward(pass, &model->head_norm, a, d, rows, d, 0);
        if (status) return status;
        pass->grad->backward->activate_backward(d, NULL, save->head_dense, NULL, rows * config->hidden_size,
                                                config->head_activation, threads, &runner->scratch);
        status = zest_grad_linear_backward(pass, &model->head_dense, 0, pass->h, d, config->hidden_size, rows,
                                           other, 0);
        if (!status) status = copy_rows(pass, other, d, NULL, rows, config->hidden_size);
    }
    const void *last = pass->grad->head_saved.data,
               *projected = save->final_normed ? save->final_normed : last;
    if (!status && model->project_out.weight.data) {
        status = zest_grad_linear_backward(pass, &model->project_out, 0, projected, d, config->embedding_size,
                                           rows, other, 0);
        if (!status) status = copy_rows(pass, other, d, NULL, rows, config->hidden_size);
    }
    if (!status && save->final_normed) status = norm_backward(pass, &model->final_norm, last, d, rows, d, 0);
    return status;
}

/* Row list[i] of a table's gradient += row i of d. */
static zest_status scatter(zest_grad_pass *pass, const zest_weight *table, zest_grad_list which,
                           const uint32_t *list, const void *d) {
    zest_model_runner *runner = pass->grad->runner;
    zest_scatter_add job = {.x = d,
                            .out = zest_grad_weight_grad(pass, table),
                            .x_stride = table->columns,
                            .out_stride = table->columns,
                            .width = table->columns,
                            .add = 1};
    if (!job.out) return ZEST_OK;
    zest_status status = zest_grad_index(pass, which, list, pass->rows, table->rows, 0, &job.index);
    if (status) return status;
    return zest_grad_check(pass, pass->grad->backward->scatter_add(&job, runner->threads, &runner->scratch));
}

/* Through project_in, which OPT-350m alone has: the rows of the tokens once more, then the product. */
static zest_status project_backward(zest_grad_pass *pass, const void *d, void *out) {
    const zest_model *model = &pass->grad->view;
    zest_model_runner *runner = pass->grad->runner;
    void *const to[2] = {pass->grad->norm_out.data, pass->grad->norm_out.data};
    int failed =
        zest_ops_gather_rows(runner->operations, &model->tokens, &pass->lane.perturbation,
                             pass->forward.at.tokens, pass->rows, to, runner->threads, &runner->scratch);
    if (failed) return zest_grad_check(pass, failed);
    return zest_grad_linear_backward(pass, &model->project_in, 0, to[0], d, model->config.hidden_size,
                                     pass->rows, out, 0);
}

zest_status zest_grad_embed_backward(zest_grad_pass *pass) {
    const zest_model *model = &pass->grad->view;
    const zest_model_config *config = pass->forward.config;
    zest_model_runner *runner = pass->grad->runner;
    void *d = zest_grad_d_stream(pass, 0), *other = zest_grad_d_stream(pass, 1);
    zest_mask mask = zest_grad_mask(pass, 0, ZEST_DROPOUT_EMBEDDINGS);
    zest_status status = ZEST_OK;
    if (mask.threshold)
        pass->grad->backward->drop(d, d, NULL, pass->rows * config->hidden_size, &mask, runner->threads,
                                   &runner->scratch);
    if (config->embedding_norm) {
        void *const again[2] = {pass->grad->norm_out.data, pass->grad->norm_out.data};
        status = zest_model_embed_sum(&pass->forward, &pass->lane, again); /* what the norm saw */
        if (!status)
            status =
                norm_backward(pass, &model->embedding_norm, pass->grad->norm_out.data, d, pass->rows, d, 0);
    }
    if (status) return status;
    if (config->embedding_scale != 0)
        runner->operations->add_scaled(d, d, config->embedding_scale, NULL, pass->rows * config->hidden_size,
                                       runner->threads, &runner->scratch);
    if (config->position_rows)
        status = scatter(pass, &model->positions, ZEST_GRAD_POSITIONS, pass->forward.table_rows, d);
    if (!status && config->token_types)
        status = scatter(pass, &model->types, ZEST_GRAD_TYPES, pass->forward.types, d);
    if (!status && model->project_in.weight.data) {
        status = project_backward(pass, d, other);
        d = other;
    }
    return status ? status : scatter(pass, &model->tokens, ZEST_GRAD_TOKENS, pass->request.batch->tokens, d);
}
