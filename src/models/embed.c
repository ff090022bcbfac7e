/* What the first layer starts from: rows of the tables of tokens, types and positions. */
#include "models/forward_internal.h"

/* The tables whose rows a token's embedding is the sum of, in this order: tokens, types, positions. */
static size_t list_tables(const zest_model_pass *pass, zest_gather_part parts[ZEST_GATHER_PARTS]) {
    const zest_model *model = pass->runner->model;
    const zest_model_description *is = pass->is;
    size_t count = 0;
    parts[count++] = (zest_gather_part){model->tokens, pass->at.tokens, 0, 0};
    if (is->token_types)
        parts[count++] = (zest_gather_part){model->types, pass->at.types, 0, is->token_types};
    if (is->position_rows)
        parts[count++] = (zest_gather_part){model->positions, pass->at.table_rows,
                                            pass->first_position + is->position_offset,
                                            pass->end_position - pass->first_position};
    return count;
}

static zest_status gather(zest_model_pass *pass, const zest_model_pair *lanes, const zest_gather_part *parts,
                          size_t count, float *const out[2], int add) {
    zest_model_runner *runner = pass->runner;
    zest_gather job = {.parts = parts,
                       .part_count = count,
                       .perturbation = lanes->perturbation,
                       .out = {out[0], out[1]},
                       .count = pass->rows,
                       .add = add};
    return runner->operations->gather(&job, runner->threads, &runner->scratch)
               ? zest_model_no_scratch(runner, pass->error)
               : ZEST_OK;
}

zest_status zest_model_embed_sum(zest_model_pass *pass, const zest_model_pair *lanes, float *const out[2]) {
    const zest_model_affine *project = &pass->runner->model->project_in;
    const zest_model_description *is = pass->is;
    zest_gather_part parts[ZEST_GATHER_PARTS];
    size_t count = list_tables(pass, parts);
    if (!project->weight.data) /* what families with a norm behind the sum have */
        return gather(pass, lanes, parts, count, out, 0);
    float *a[2];
    zest_model_halves(&pass->runner->a, 0, a);
    zest_status status = gather(pass, lanes, parts, 1, a, 0);
    if (!status) /* not transposed in any family, whatever the layers are */
        status = zest_model_linear(pass->runner, project, &lanes->perturbation, 0, ZEST_CONST2(a), pass->rows,
                                   is->embedding_width, out, is->width, NULL, ZEST_ACT_NONE, pass->error);
    return status || count == 1 ? status : gather(pass, lanes, parts + 1, count - 1, out, 1);
}

zest_status zest_model_embed(zest_model_pass *pass, const zest_model_pair *lanes) {
    const zest_model *model = pass->runner->model;
    float *a[2];
    zest_model_halves(&pass->runner->a, 0, a);
    if (!pass->is->embedding_norm) return zest_model_embed_sum(pass, lanes, lanes->x);
    zest_status status = zest_model_embed_sum(pass, lanes, a);
    if (status) return status;
    return zest_model_norm(pass->runner, &model->embedding_norm, &lanes->perturbation, ZEST_CONST2(a),
                           lanes->x, pass->rows, pass->is->width, pass->error);
}
