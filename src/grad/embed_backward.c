/* The two ends of the model: what stands between the last layer and the head, and the embeddings. A row of a
 * table gets the sum of the gradients of the tokens that read it; threads share the columns, so every element
 * is summed over the tokens in order, however many threads there are. */
#include <string.h>

#include "grad/grad_internal.h"

zest_status zest_grad_finish_backward(zest_grad_pass *pass) {
    const zest_model *model = &pass->grad->view;
    const zest_model_description *is = pass->pass.is;
    size_t rows = pass->asked, widest = is->width > is->embedding_width ? is->width : is->embedding_width;
    float *d = pass->grad->d.data, *other = d + pass->pass.room_rows * widest, *a = pass->grad->a.data;
    int threads = pass->grad->runner->threads;
    zest_status status = ZEST_OK;
    if (pass->dense) { /* norm(act(dense)) */
        pass->grad->backward->activate(a, pass->dense, NULL, rows * is->width, is->head_activation, threads);
        status = zest_grad_norm_backward(pass, &model->head_norm, a, d, rows, d, 0);
        if (status) return status;
        pass->grad->backward->activate_back(d, NULL, pass->dense, NULL, rows * is->width, is->head_activation,
                                            threads);
        status = zest_grad_map_backward(pass, &model->head_dense, 0, pass->h, d, is->width, rows, other, 0);
        if (!status) memcpy(d, other, rows * is->width * sizeof *d);
    }
    float *last = pass->grad->head.data, *behind = pass->normed ? pass->normed : last;
    if (!status && model->project_out.weight.data) {
        status = zest_grad_map_backward(pass, &model->project_out, 0, behind, d, is->embedding_width, rows,
                                        other, 0);
        if (!status) memcpy(d, other, rows * is->width * sizeof *d);
    }
    if (!status && pass->normed)
        status = zest_grad_norm_backward(pass, &model->final_norm, last, d, rows, d, 0);
    return status;
}

/* Row ids[i] of a table's gradient += row i of d. */
static void scatter(const zest_grad_pass *pass, const zest_weight *table, const uint32_t *ids,
                    const float *d) {
    enum { COLUMNS = 64 };
    float *out = zest_grad_of(pass, table);
    size_t width = table->columns;
    if (!out) return;
#pragma omp parallel for num_threads(pass->grad->runner->threads) schedule(static)
    for (size_t first = 0; first < width; first += COLUMNS) {
        size_t end = width < first + COLUMNS ? width : first + COLUMNS;
        for (size_t i = 0; i < pass->rows; i++) {
            float *row = out + ids[i] * width;
            for (size_t c = first; c < end; c++) row[c] += d[i * width + c];
        }
    }
}

/* What the embeddings' norm saw, gathered once more. */
static zest_status embed_again(zest_grad_pass *pass, float *out) {
    const zest_model *model = &pass->grad->view;
    zest_model_runner *runner = pass->grad->runner;
    const zest_perturbation *p = &pass->lane.perturbation;
    float *const to[2] = {out, out};
    int failed = runner->operations->gather(&model->tokens, p, pass->request.batch->tokens, pass->rows, to, 0,
                                            runner->threads, &runner->scratch);
    if (!failed && model->is.token_types)
        failed = runner->operations->gather(&model->types, p, pass->pass.types, pass->rows, to, 1,
                                            runner->threads, &runner->scratch);
    if (!failed && model->is.position_rows)
        failed = runner->operations->gather(&model->positions, p, pass->pass.table_rows, pass->rows, to, 1,
                                            runner->threads, &runner->scratch);
    return failed ? zest_model_no_scratch(pass->grad->runner, pass->error) : ZEST_OK;
}

/* Through project_in, of one family alone: the rows of the tokens once more, then the product. */
static zest_status project_backward(zest_grad_pass *pass, const float *d, float *out) {
    const zest_model *model = &pass->grad->view;
    zest_model_runner *runner = pass->grad->runner;
    float *const to[2] = {pass->grad->a.data, pass->grad->a.data};
    if (runner->operations->gather(&model->tokens, &pass->lane.perturbation, pass->request.batch->tokens,
                                   pass->rows, to, 0, runner->threads, &runner->scratch))
        return zest_model_no_scratch(pass->grad->runner, pass->error);
    return zest_grad_map_backward(pass, &model->project_in, 0, to[0], d, model->is.width, pass->rows, out, 0);
}

zest_status zest_grad_embed_backward(zest_grad_pass *pass) {
    const zest_model *model = &pass->grad->view;
    const zest_model_description *is = pass->pass.is;
    const zest_dropout *dropout = pass->job->dropout;
    size_t widest = is->width > is->embedding_width ? is->width : is->embedding_width;
    float *d = pass->grad->d.data, *other = d + pass->pass.room_rows * widest;
    zest_mask mask =
        zest_dropout_mask(dropout, dropout ? dropout->embeddings : 0, 0, ZEST_DROPOUT_EMBEDDINGS);
    zest_status status = ZEST_OK;
    if (mask.threshold)
        pass->grad->backward->drop(d, d, NULL, pass->rows * is->width, &mask, pass->grad->runner->threads);
    if (is->embedding_norm) {
        status = embed_again(pass, pass->grad->a.data);
        if (!status)
            status = zest_grad_norm_backward(pass, &model->embedding_norm, pass->grad->a.data, d, pass->rows,
                                             d, 0);
    }
    if (status) return status;
    if (is->position_rows) scatter(pass, &model->positions, pass->pass.table_rows, d);
    if (is->token_types) scatter(pass, &model->types, pass->pass.types, d);
    if (model->project_in.weight.data) {
        status = project_backward(pass, d, other);
        d = other;
    }
    if (!status) scatter(pass, &model->tokens, pass->request.batch->tokens, d);
    return status;
}
