/* The two ends of the model: what stands between the last layer and the head, and the embeddings. A row of a
 * table gets the sum of the gradients of the tokens that read it, in their order. */
#include "grad/grad_internal.h"

zest_status zest_grad_finish_backward(zest_grad_pass *pass) {
    const zest_model *model = &pass->grad->view;
    const zest_model_description *is = pass->pass.is;
    zest_model_runner *runner = pass->grad->runner;
    size_t rows = pass->asked;
    float *d = zest_grad_stream(pass, 0), *other = zest_grad_stream(pass, 1), *a = pass->grad->a.data;
    int threads = runner->threads;
    zest_status status = ZEST_OK;
    if (pass->dense) { /* norm(act(dense)) */
        pass->grad->backward->activate(a, pass->dense, NULL, rows * is->width, is->head_activation, threads,
                                       &runner->scratch);
        status = zest_grad_norm_backward(pass, &model->head_norm, a, d, rows, d, 0);
        if (status) return status;
        pass->grad->backward->activate_back(d, NULL, pass->dense, NULL, rows * is->width, is->head_activation,
                                            threads, &runner->scratch);
        status = zest_grad_map_backward(pass, &model->head_dense, 0, pass->h, d, is->width, rows, other, 0);
        if (!status) status = zest_grad_copy(pass, other, d, NULL, rows, is->width);
    }
    float *last = pass->grad->head.data, *behind = pass->normed ? pass->normed : last;
    if (!status && model->project_out.weight.data) {
        status = zest_grad_map_backward(pass, &model->project_out, 0, behind, d, is->embedding_width, rows,
                                        other, 0);
        if (!status) status = zest_grad_copy(pass, other, d, NULL, rows, is->width);
    }
    if (!status && pass->normed)
        status = zest_grad_norm_backward(pass, &model->final_norm, last, d, rows, d, 0);
    return status;
}

/* Row list[i] of a table's gradient += row i of d. */
static zest_status scatter(zest_grad_pass *pass, const zest_weight *table, zest_grad_list which,
                           const uint32_t *list, const float *d) {
    zest_model_runner *runner = pass->grad->runner;
    zest_collect job = {.x = d,
                        .out = zest_grad_of(pass, table),
                        .x_stride = table->columns,
                        .out_stride = table->columns,
                        .width = table->columns,
                        .add = 1};
    if (!job.out) return ZEST_OK;
    zest_status status = zest_grad_index(pass, which, list, pass->rows, table->rows, 0, &job.index);
    if (status) return status;
    return zest_grad_done(pass, pass->grad->backward->collect(&job, runner->threads, &runner->scratch));
}

/* Through project_in, of one family alone: the rows of the tokens once more, then the product. */
static zest_status project_backward(zest_grad_pass *pass, const float *d, float *out) {
    const zest_model *model = &pass->grad->view;
    zest_model_runner *runner = pass->grad->runner;
    float *const to[2] = {pass->grad->a.data, pass->grad->a.data};
    int failed = zest_forward_rows(runner->operations, &model->tokens, &pass->lane.perturbation,
                                   pass->pass.at.tokens, pass->rows, to, runner->threads, &runner->scratch);
    if (failed) return zest_grad_done(pass, failed);
    return zest_grad_map_backward(pass, &model->project_in, 0, to[0], d, model->is.width, pass->rows, out, 0);
}

zest_status zest_grad_embed_backward(zest_grad_pass *pass) {
    const zest_model *model = &pass->grad->view;
    const zest_model_description *is = pass->pass.is;
    const zest_dropout *dropout = pass->job->dropout;
    zest_model_runner *runner = pass->grad->runner;
    float *d = zest_grad_stream(pass, 0), *other = zest_grad_stream(pass, 1);
    zest_mask mask =
        zest_dropout_mask(dropout, dropout ? dropout->embeddings : 0, 0, ZEST_DROPOUT_EMBEDDINGS);
    zest_status status = ZEST_OK;
    if (mask.threshold)
        pass->grad->backward->drop(d, d, NULL, pass->rows * is->width, &mask, runner->threads,
                                   &runner->scratch);
    if (is->embedding_norm) {
        float *const again[2] = {pass->grad->a.data, pass->grad->a.data};
        status = zest_model_embed_sum(&pass->pass, &pass->lane, again); /* what the norm saw */
        if (!status)
            status = zest_grad_norm_backward(pass, &model->embedding_norm, pass->grad->a.data, d, pass->rows,
                                             d, 0);
    }
    if (status) return status;
    if (is->position_rows)
        status = scatter(pass, &model->positions, ZEST_GRAD_POSITIONS, pass->pass.table_rows, d);
    if (!status && is->token_types)
        status = scatter(pass, &model->types, ZEST_GRAD_TYPES, pass->pass.types, d);
    if (!status && model->project_in.weight.data) {
        status = project_backward(pass, d, other);
        d = other;
    }
    return status ? status : scatter(pass, &model->tokens, ZEST_GRAD_TOKENS, pass->request.batch->tokens, d);
}
