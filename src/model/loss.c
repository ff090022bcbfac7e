/* From hidden states to logits and losses: of label words, or of the whole vocabulary block by block. Logits are
 * fp32; what is made of them is fp64. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/forward_pass.h"
#include "model/loss.h"

/* ---- Objectives ---- */

static zest_status refuse(zest_error *error, const char *why) {
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "an objective %s", why);
}

static int is_increasing(const uint32_t *starts, size_t count, int empty) {
    for (size_t i = 0; i < count; i++)
        if (starts[i + 1] < starts[i] || (!empty && starts[i + 1] == starts[i])) return 0;
    return starts[0] == 0;
}

zest_status zest_model_objective_check(const zest_model *model, const zest_model_objective *objective,
                                       zest_error *error) {
    if (!objective->items) return refuse(error, "must have at least one item");
    if (objective->kind == ZEST_LOSS_LABEL_WORDS) {
        if (!objective->word_count) return refuse(error, "must have at least one label word");
        for (size_t i = 0; i < objective->word_count; i++)
            if (objective->words[i] >= model->config.vocab_size)
                return refuse(error, "has a label word outside the vocabulary");
        for (size_t i = 0; i < objective->items; i++)
            if (objective->answers[i] >= objective->word_count)
                return refuse(error, "has an answer beyond its label words");
        return ZEST_OK;
    }
    if (!is_increasing(objective->item_starts, objective->items, 0))
        return refuse(error, "has an item without targets");
    for (size_t i = 0; i < objective->item_starts[objective->items]; i++)
        if (objective->targets[i] >= model->config.vocab_size)
            return refuse(error, "has a target outside the vocabulary");
    if (objective->kind == ZEST_LOSS_TOKENS) return ZEST_OK;
    if (!objective->examples || !is_increasing(objective->example_starts, objective->examples, 0) ||
        objective->example_starts[objective->examples] != objective->items)
        return refuse(error, "has examples that do not cover its items");
    for (size_t e = 0; e < objective->examples; e++)
        if (objective->answers[e] >= objective->example_starts[e + 1] - objective->example_starts[e])
            return refuse(error, "has an answer beyond its choices");
    return ZEST_OK;
}

size_t zest_loss_rows(const zest_model_objective *objective) {
    return objective->kind == ZEST_LOSS_LABEL_WORDS ? objective->items
                                                    : objective->item_starts[objective->items];
}

size_t zest_loss_examples(const zest_model_objective *objective) {
    return objective->kind == ZEST_LOSS_CHOICES ? objective->examples : objective->items;
}

size_t zest_loss_choices(const zest_model_objective *objective, size_t example, size_t *first) {
    int words = objective->kind == ZEST_LOSS_LABEL_WORDS;
    *first = words ? example * objective->word_count : objective->example_starts[example];
    return words ? objective->word_count : objective->example_starts[example + 1] - *first;
}

double zest_loss_of_example(const zest_model_objective *objective, const double *scores, size_t example) {
    if (objective->kind == ZEST_LOSS_TOKENS) return -scores[example];
    size_t first, count = zest_loss_choices(objective, example, &first);
    return zest_log_sum_exp(scores + first, count) - scores[first + objective->answers[example]];
}

double zest_loss_mean_divisor(const zest_model_objective *objective) {
    return (double)(objective->kind == ZEST_LOSS_TOKENS ? zest_loss_rows(objective)
                                                        : zest_loss_examples(objective));
}

void zest_loss_add_block(const zest_model_objective *objective, size_t first, size_t count,
                         const float *logits, int threads, zest_logit_sum *sums) {
    const uint32_t *targets = objective->targets;
    size_t rows = zest_loss_rows(objective);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t r = 0; r < rows; r++) {
        zest_logit_sum *row = &sums[r];
        zest_row_sum_add(row, logits + r * count, count);
        if (targets[r] >= first && targets[r] - first < count)
            row->target = (double)logits[r * count + targets[r] - first];
    }
}

void zest_loss_score_items(const zest_model_objective *objective, const zest_logit_sum *sums,
                           double *scores) {
    for (size_t i = 0; i < objective->items; i++) {
        double sum = 0;
        size_t first = objective->item_starts[i], end = objective->item_starts[i + 1];
        for (size_t r = first; r < end; r++) sum += sums[r].target - (sums[r].max + log(sums[r].sum));
        scores[i] = objective->kind == ZEST_LOSS_CHOICES ? sum / (double)(end - first) : sum;
    }
}

/* ---- Losses of lanes ---- */

typedef struct {
    const zest_model_objective *objective;
    double *losses, *scores; /* (lanes, examples), (lanes, items, score_width); scores may be NULL */
    size_t row_count, examples, score_width;
    zest_logit_sum *sums[2]; /* (lanes of a pair, rows) */
    double *item_scores;     /* (items, score_width) of one lane */
    zest_model_runner *runner;
    size_t lane;             /* first of the pair whose logits are being computed */
    const uint32_t *targets; /* these two in the device's memory; NULL: not yet there */
    const uint32_t *words;
} loss_ctx;

/* Losses and scores of a lane out of ctx->item_scores. */
static void record_scores(const loss_ctx *ctx, size_t lane) {
    size_t width = ctx->objective->items * ctx->score_width;
    for (size_t e = 0; e < ctx->examples; e++)
        ctx->losses[lane * ctx->examples + e] = zest_loss_of_example(ctx->objective, ctx->item_scores, e);
    if (ctx->scores) memcpy(ctx->scores + lane * width, ctx->item_scores, width * sizeof *ctx->scores);
}

/* ---- Label words ---- */

static void record_label_words(const loss_ctx *ctx, size_t lane, const float *logits) {
    size_t width = ctx->objective->items * ctx->objective->word_count;
    for (size_t i = 0; i < width; i++) ctx->item_scores[i] = (double)logits[i];
    record_scores(ctx, lane);
}

/* On a device the logits of all lanes stay there until the end of the pass. */
static zest_status label_words_to_results(loss_ctx *ctx, const zest_group_output *group,
                                          const void *const h[2], zest_error *error) {
    const zest_model_objective *objective = ctx->objective;
    size_t width = objective->items * objective->word_count;
    float *results = ctx->runner->results.data;
    float *out[2] = {results + group->first * width, results + (group->first + 1) * width};
    zest_status status = ZEST_OK;
    if (!ctx->words)
        status = zest_model_stage(ctx->runner, objective->words, objective->word_count, &ctx->words, error);
    return status ? status
                  : zest_model_head_label_words(ctx->runner, group, h, ctx->words, objective->word_count, out,
                                                error);
}

static zest_status on_label_words(zest_model_runner *runner, const zest_group_output *group, void *user,
                                  zest_error *error) {
    loss_ctx *ctx = user;
    const zest_model_objective *objective = ctx->objective;
    const void *h[2];
    zest_status status = zest_model_head_transform(runner, group, h, error);
    if (!status && runner->device) return label_words_to_results(ctx, group, h, error);
    if (!status)
        status = zest_model_buffer_reserve_f32(runner, &runner->logits, 2,
                                               objective->items * objective->word_count, error);
    if (status) return status;
    float *logits[2];
    zest_model_first_lanes_f32(&runner->logits, logits);
    status =
        zest_model_head_label_words(runner, group, h, objective->words, objective->word_count, logits, error);
    for (int l = 0; l < group->perturbation.lanes && !status; l++)
        record_label_words(ctx, group->first + (size_t)l, logits[l]);
    return status;
}

/* ---- The whole vocabulary ---- */

/* Sums of a lane's rows on a device, where they stay until the end of the pass. */
static zest_logit_sum *results_of(const loss_ctx *ctx, size_t lane) {
    return (zest_logit_sum *)ctx->runner->results.data + lane * ctx->row_count;
}

static zest_status on_logits_block(void *user, int lane, size_t first, size_t count, const float *logits,
                                   zest_error *error) {
    loss_ctx *ctx = user;
    zest_model_runner *runner = ctx->runner;
    if (runner->device) {
        zest_logit_block block = {logits, ctx->row_count, first, count, ctx->targets};
        int failed = runner->operations->device->sum_logits(runner->device, &block,
                                                            results_of(ctx, ctx->lane + (size_t)lane));
        return failed ? zest_model_device_error(runner, error) : ZEST_OK;
    }
    zest_loss_add_block(ctx->objective, first, count, logits, runner->threads, ctx->sums[lane]);
    return ZEST_OK;
}

static void record_tokens(const loss_ctx *ctx, size_t lane, const zest_logit_sum *sums) {
    zest_loss_score_items(ctx->objective, sums, ctx->item_scores);
    record_scores(ctx, lane);
}

/* Pair i of a group. */
static zest_status sum_pair_logits(loss_ctx *ctx, const zest_group_output *group, size_t i,
                                   const void *const h[2], zest_error *error) {
    zest_group_output pair = *group;
    if (i) pair.perturbation = group->perturbation.more[i - 1];
    pair.perturbation.more_count = 0;
    pair.first = ctx->lane = group->first + 2 * i;
    const void *const own[2] = {zest_model_lane_at(h, 2 * i), zest_model_lane_at(h, 2 * i + 1)};
    return zest_model_head_blocks(ctx->runner, &pair, own, 0, on_logits_block, ctx, error);
}

static zest_status on_token_rows(zest_model_runner *runner, const zest_group_output *group, void *user,
                                 zest_error *error) {
    loss_ctx *ctx = user;
    const void *h[2];
    for (size_t i = 0; !runner->device && i < 2 * ctx->row_count; i++)
        ctx->sums[0][i] = (zest_logit_sum){-INFINITY, 0, 0};
    zest_status status = zest_model_head_transform(runner, group, h, error);
    if (!status && runner->device && !ctx->targets)
        status = zest_model_stage(runner, ctx->objective->targets, ctx->row_count, &ctx->targets, error);
    /* pair by pair: logits are large */
    for (size_t i = 0; i <= group->perturbation.more_count && !status; i++)
        status = sum_pair_logits(ctx, group, i, h, error);
    for (int l = 0; !runner->device && l < group->perturbation.lanes && !status; l++)
        record_tokens(ctx, group->first + (size_t)l, ctx->sums[l]);
    return status;
}

/* ---- Results of a device ---- */

static size_t lane_result_bytes(const loss_ctx *ctx) {
    return ctx->objective->kind == ZEST_LOSS_LABEL_WORDS
               ? ctx->objective->items * ctx->objective->word_count * sizeof(float)
               : ctx->row_count * sizeof(zest_logit_sum);
}

/* The results of all lanes in one transfer: the only time that a pass waits for the device. */
static zest_status download_results(const loss_ctx *ctx, size_t lane_count, zest_error *error) {
    zest_model_runner *runner = ctx->runner;
    size_t lane_bytes = lane_result_bytes(ctx);
    char *results = malloc(lane_count * lane_bytes);
    if (!results) return zest_error_memory(error, "losses", lane_count * lane_bytes);
    zest_status status = ZEST_OK;
    if (runner->operations->device->download(runner->device, results, runner->results.data,
                                             lane_count * lane_bytes))
        status = zest_model_device_error(runner, error);
    for (size_t l = 0; l < lane_count && !status; l++) {
        void *own = results + l * lane_bytes;
        if (ctx->objective->kind == ZEST_LOSS_LABEL_WORDS)
            record_label_words(ctx, l, own);
        else
            record_tokens(ctx, l, own);
    }
    free(results);
    return status;
}

void zest_loss_means(const zest_model_objective *objective, const double *losses, size_t lane_count,
                     double *means) {
    size_t examples = zest_loss_examples(objective);
    for (size_t l = 0; l < lane_count; l++) {
        double sum = 0;
        for (size_t e = 0; e < examples; e++) sum += losses[l * examples + e];
        means[l] = sum / zest_loss_mean_divisor(objective);
    }
}

zest_status zest_model_losses(zest_model_runner *runner, const zest_model_lane *lanes, size_t lane_count,
                              const zest_model_objective *objective, double *losses, double *means,
                              double *scores, zest_error *error) {
    zest_status status = zest_model_objective_check(runner->model, objective, error);
    if (status) return status;
    int words = objective->kind == ZEST_LOSS_LABEL_WORDS;
    loss_ctx ctx = {.objective = objective,
                    .losses = losses,
                    .scores = scores,
                    .row_count = zest_loss_rows(objective),
                    .examples = zest_loss_examples(objective),
                    .score_width = words ? objective->word_count : 1,
                    .runner = runner};
    ctx.item_scores = malloc(objective->items * ctx.score_width * sizeof *ctx.item_scores);
    ctx.sums[0] = malloc(2 * ctx.row_count * sizeof *ctx.sums[0]);
    ctx.sums[1] = ctx.sums[0] ? ctx.sums[0] + ctx.row_count : NULL;
    zest_forward_request request = {.lanes = lanes,
                                    .lane_count = lane_count,
                                    .batch = objective->batch,
                                    .out_rows = objective->rows,
                                    .out_row_count = ctx.row_count,
                                    .depth = runner->model->config.layers,
                                    .on_group = words ? on_label_words : on_token_rows,
                                    .user = &ctx};
    if (!ctx.item_scores || !ctx.sums[0])
        status = zest_error_memory(error, "losses", ctx.row_count * 2 * sizeof *ctx.sums[0]);
    if (!status && runner->device)
        status = zest_model_buffer_reserve_f32(runner, &runner->results, 1,
                                               lane_count * lane_result_bytes(&ctx) / sizeof(float), error);
    if (!status) status = zest_model_forward(runner, &request, error);
    if (!status && runner->device) status = download_results(&ctx, lane_count, error);
    if (!status && means) zest_loss_means(objective, losses, lane_count, means);
    free(ctx.item_scores);
    free(ctx.sums[0]);
    return status;
}

/* ---- The head ---- */

/* Words of a block. A constant: it decides the order in which a row's probabilities are summed. Devices,
 * which sum in an order of their own, take fewer and larger steps. */
enum { BLOCK = 2048, DEVICE_BLOCK = 8192 };
enum { WIDE_LOGITS = 1 << 18 }; /* of all rows, where a block may be as wide as it likes */

zest_status zest_model_head_transform(zest_model_runner *runner, const zest_group_output *group,
                                      const void *h[2], zest_error *error) {
    const zest_model *model = runner->model;
    const zest_forward_save *save = group->save;
    const zest_activation activation = model->config.head_activation;
    size_t width = model->config.hidden_size;
    h[0] = group->h[0], h[1] = group->h[1];
    if (!model->config.head_transform) return ZEST_OK;
    void *dense[2], *activated[2], *features[2]; /* (lanes, rows, hidden) */
    if (save) {
        dense[0] = dense[1] = save->head_dense;
        activated[0] = activated[1] = save->head_activated;
        features[0] = features[1] = save->features;
    } else { /* h may be in the first of these buffers */
        int in_norm_out = h[0] == runner->norm_out.data;
        zest_model_first_lanes(in_norm_out ? &runner->work : &runner->norm_out, 0, dense);
        zest_model_first_lanes(in_norm_out ? &runner->norm_out : &runner->work, 0, features);
        activated[0] = dense[0], activated[1] = dense[1];
    }
    zest_status status =
        zest_model_linear(runner, &model->head_dense, &group->perturbation, 0, h, group->rows, width, dense,
                          width, NULL, save ? ZEST_ACT_NONE : activation, error);
    if (!status && save)
        save->activate(save->user, activated[0], dense[0], NULL, group->rows * width, activation);
    if (!status)
        status = zest_model_norm(runner, &model->head_norm, &group->perturbation, ZEST_CONST2(activated),
                                 features, group->rows, width, error);
    h[0] = features[0], h[1] = features[1];
    return status;
}

/* The label words' rows of the head for both lanes, perturbed, and their biases. */
static zest_status gather_label_words(zest_model_runner *runner, const zest_group_output *group,
                                      const uint32_t *words, size_t count, void *const weight[2],
                                      void *const bias[2], zest_error *error) {
    const zest_model_affine *head = &runner->model->head;
    int failed = zest_ops_gather_rows(runner->operations, &head->weight, &group->perturbation, words, count,
                                      weight, runner->threads, &runner->scratch);
    if (!failed && head->bias.data) {
        zest_weight column = head->bias;
        column.rows = head->bias.columns;
        column.columns = 1;
        failed = zest_ops_gather_rows(runner->operations, &column, &group->perturbation, words, count, bias,
                                      runner->threads, &runner->scratch);
    }
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
}

/* The soft cap of (rows, count) logits in every lane, where the model has one. */
static void cap_logits(zest_model_runner *runner, const zest_group_output *group, float *const out[2],
                       size_t count) {
    float cap = runner->model->config.logit_cap;
    for (size_t l = 0; cap != 0 && l < zest_perturbation_lanes(&group->perturbation); l++)
        runner->operations->soft_cap(out[0] + (ptrdiff_t)l * (out[1] - out[0]), group->rows * count, cap,
                                     runner->threads, &runner->scratch);
}

static zest_status label_words_on_device(zest_model_runner *runner, const zest_group_output *group,
                                         const void *const h[2], const uint32_t *words, size_t count,
                                         float *const out[2], zest_error *error) {
    const zest_model_affine *head = &runner->model->head;
    zest_label_logits job = {.weight = head->weight,
                             .bias = head->bias,
                             .perturbation = group->perturbation,
                             .h = {h[0], h[1]},
                             .rows = group->rows,
                             .width = runner->model->config.embedding_size,
                             .words = words,
                             .count = count,
                             .out = {out[0], out[1]}};
    if (runner->operations->device->label_logits(runner->device, &job))
        return zest_model_device_error(runner, error);
    cap_logits(runner, group, out, count);
    return ZEST_OK;
}

zest_status zest_model_head_label_words(zest_model_runner *runner, const zest_group_output *group,
                                        const void *const h[2], const uint32_t *words, size_t count,
                                        float *const out[2], zest_error *error) {
    size_t width = runner->model->config.embedding_size;
    if (runner->device) return label_words_on_device(runner, group, h, words, count, out, error);
    zest_status status = zest_model_buffer_reserve(runner, &runner->words, 2, count * (width + 1), error);
    if (status) return status;
    void *weight[2], *bias[2];
    zest_model_first_lanes(&runner->words, 0, weight);
    zest_model_first_lanes(&runner->words, count * width, bias);
    status = gather_label_words(runner, group, words, count, weight, bias, error);
    static const zest_perturbation none = {.lanes = 1};
    for (int l = 0; l < group->perturbation.lanes && !status; l++) {
        zest_model_affine gathered = {{weight[l], ZEST_DTYPE_F32, count, width, 0, 1, {0}, 0}, {0}};
        if (runner->model->head.bias.data)
            gathered.bias = (zest_weight){bias[l], ZEST_DTYPE_F32, 1, count, 0, 1, {0}, 0};
        status =
            zest_model_linear(runner, &gathered, &none, 0, (const void *const[2]){h[l], NULL}, group->rows,
                              width, (void *const[2]){out[l], NULL}, count, NULL, ZEST_ACT_NONE, error);
    }
    if (!status) cap_logits(runner, group, out, count);
    return status;
}

/* Words first .. first+count-1 of the head's matrix (size: elements of a word), or of its bias (size 0). */
static zest_weight slice(const zest_weight *whole, size_t first, size_t count, size_t size) {
    zest_weight part = *whole;
    if (!part.data) return part;
    size_t elements = first * (size ? size : 1);
    part.data = (const char *)whole->data + zest_weight_bytes(whole, elements);
    part.first += elements;
    part.rows = size ? count : 1;
    part.columns = size ? size : count;
    return part;
}

zest_model_affine zest_model_head_block(const zest_model *model, size_t first, size_t count) {
    return (zest_model_affine){slice(&model->head.weight, first, count, model->config.embedding_size),
                               slice(&model->head.bias, first, count, 0)};
}

/* Logits are floats whatever the compute. */
static zest_status logits_of_block(zest_model_runner *runner, const zest_group_output *group,
                                   const void *const h[2], size_t first, size_t count, float *const logits[2],
                                   zest_error *error) {
    const zest_model *model = runner->model;
    size_t width = model->config.embedding_size;
    zest_model_affine block = zest_model_head_block(model, first, count);
    zest_linear job = {.weight = block.weight,
                       .bias = block.bias,
                       .perturbation = group->perturbation,
                       .a = {h[0], h[1]},
                       .rows = group->rows,
                       .a_stride = width,
                       .out = {logits[0], logits[1]},
                       .out_stride = count,
                       .compute = runner->compute,
                       .fp32_output = 1};
    zest_status status = zest_model_linear_run(runner, &job, error);
    if (!status) cap_logits(runner, group, logits, count);
    return status;
}

zest_status zest_model_head_blocks(zest_model_runner *runner, const zest_group_output *group,
                                   const void *const h[2], size_t block, zest_on_logits on_logits, void *user,
                                   zest_error *error) {
    size_t words = runner->model->config.vocab_size, step = runner->device ? DEVICE_BLOCK : BLOCK;
    if (block > step && !runner->device) step = block < words ? block : words;
    zest_status status = zest_model_buffer_reserve_f32(runner, &runner->logits, 2, group->rows * step, error);
    float *logits[2];
    zest_model_first_lanes_f32(&runner->logits, logits);
    for (size_t first = 0; first < words && !status; first += step) {
        size_t count = words - first < step ? words - first : step;
        status = logits_of_block(runner, group, h, first, count, logits, error);
        for (int l = 0; l < group->perturbation.lanes && !status; l++)
            status = on_logits(user, l, first, count, logits[l], error);
    }
    return status;
}

/* ---- Logits and hidden states for the caller ---- */

typedef struct {
    zest_model_runner *runner;
    float *out; /* (rows, width) */
    size_t rows, width;
} copy_ctx;

static zest_status copy_block(void *user, int lane, size_t first, size_t count, const float *logits,
                              zest_error *error) {
    const copy_ctx *copy = user;
    (void)lane;
    float *read = NULL;
    zest_status status = ZEST_OK;
    if (copy->runner->device) {
        read = malloc(copy->rows * count * sizeof *read);
        if (!read) return zest_error_memory(error, "logits", copy->rows * count * sizeof *read);
        status = zest_model_read(copy->runner, logits, copy->rows * count, 1, read, error);
        logits = read;
    }
    for (size_t r = 0; r < copy->rows && !status; r++)
        memcpy(copy->out + r * copy->width + first, logits + r * count, count * sizeof *logits);
    free(read);
    return status;
}

static zest_status copy_group_logits(zest_model_runner *runner, const zest_group_output *group, void *user,
                                     zest_error *error) {
    const void *h[2];
    zest_status status = zest_model_head_transform(runner, group, h, error);
    return status ? status
                  : zest_model_head_blocks(runner, group, h, WIDE_LOGITS / (group->rows + 1), copy_block,
                                           user, error);
}

zest_status zest_model_copy_logits(zest_model_runner *runner, const zest_group_output *group, float *out,
                                   zest_error *error) {
    copy_ctx copy = {runner, out, group->rows, runner->model->config.vocab_size};
    return copy_group_logits(runner, group, &copy, error);
}

static zest_status copy_group_hidden(zest_model_runner *runner, const zest_group_output *group, void *user,
                                     zest_error *error) {
    const copy_ctx *copy = user;
    if (runner->device)
        return zest_model_read(runner, group->h[0], group->rows * copy->width, 0, copy->out, error);
    memcpy(copy->out, group->h[0], group->rows * copy->width * sizeof(float));
    return ZEST_OK;
}

static const zest_model_lane unperturbed = {{0, 0, 0, ZEST_GAUSSIAN}, 0};

zest_status zest_model_logits(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, const uint32_t *rows, size_t count, float *out,
                              zest_error *error) {
    copy_ctx copy = {runner, out, count, runner->model->config.vocab_size};
    zest_forward_request request = {.lanes = lane ? lane : &unperturbed,
                                    .lane_count = 1,
                                    .batch = batch,
                                    .out_rows = rows,
                                    .out_row_count = count,
                                    .depth = runner->model->config.layers,
                                    .on_group = copy_group_logits,
                                    .user = &copy};
    return count ? zest_model_forward(runner, &request, error) : ZEST_OK;
}

zest_status zest_model_hidden(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, size_t depth, float *out, zest_error *error) {
    const zest_model_config *config = &runner->model->config;
    if (depth > config->layers)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "the model has %zu layers, not %zu", config->layers,
                              depth);
    copy_ctx copy = {runner, out, 0, depth == config->layers ? config->embedding_size : config->hidden_size};
    zest_forward_request request = {.lanes = lane ? lane : &unperturbed,
                                    .lane_count = 1,
                                    .batch = batch,
                                    .depth = depth,
                                    .on_group = copy_group_hidden,
                                    .user = &copy};
    return zest_model_forward(runner, &request, error);
}
