#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/loss.h"
#include "model/forward_pass.h"
#include "model/cross_entropy.h"

typedef struct {
    const zest_model_objective *objective;
    double *losses, *scores; /* of all lanes; scores may be NULL */
    size_t row_count, examples, score_width;
    zest_logit_sum *sums[2];
    double *item_scores; /* one lane */
    int threads;
    zest_model_runner *runner;
    size_t lane;             /* first of the unit that is being visited */
    const uint32_t *targets; /* these two where a device's operations look for them; NULL: not yet */
    const uint32_t *words;
} loss_ctx;

/* ---- Cross-entropy ---- */

/* The losses of a lane whose scores stand in groups, one group an example. */
static void cross_entropies(const loss_ctx *job, const double *scores, double *losses) {
    const zest_model_objective *objective = job->objective;
    int words = objective->kind == ZEST_LOSS_LABEL_WORDS;
    for (size_t e = 0; e < job->examples; e++) {
        size_t first = words ? e * objective->word_count : objective->example_starts[e];
        size_t count = words ? objective->word_count : objective->example_starts[e + 1] - first;
        losses[e] = zest_log_sum_exp(scores + first, count) - scores[first + objective->answers[e]];
    }
}

static void keep(const loss_ctx *job, size_t lane, const double *scores) {
    const zest_model_objective *objective = job->objective;
    double *losses = job->losses + lane * job->examples;
    size_t width = objective->items * job->score_width;
    if (objective->kind == ZEST_LOSS_TOKENS)
        for (size_t i = 0; i < objective->items; i++) losses[i] = -scores[i];
    else
        cross_entropies(job, scores, losses);
    for (size_t i = 0; job->scores && i < width; i++) job->scores[lane * width + i] = scores[i];
}

/* ---- A few words ---- */

static void keep_words(const loss_ctx *job, size_t lane, const float *logits) {
    size_t width = job->objective->items * job->objective->word_count;
    for (size_t i = 0; i < width; i++) job->item_scores[i] = (double)logits[i];
    keep(job, lane, job->item_scores);
}

/* On a device the logits of all lanes wait for the end of the pass. */
static zest_status leave_words(loss_ctx *job, const zest_group_output *unit, const void *const h[2],
                               zest_error *error) {
    const zest_model_objective *objective = job->objective;
    size_t width = objective->items * objective->word_count;
    float *results = job->runner->results.data;
    float *out[2] = {results + unit->first * width, results + (unit->first + 1) * width};
    zest_status status = ZEST_OK;
    if (!job->words)
        status = zest_model_stage(job->runner, objective->words, objective->word_count, &job->words, error);
    return status ? status
                  : zest_model_head_label_words(job->runner, unit, h, job->words, objective->word_count, out,
                                                error);
}

static zest_status on_label_words(zest_model_runner *runner, const zest_group_output *unit, void *user,
                                  zest_error *error) {
    loss_ctx *job = user;
    const zest_model_objective *objective = job->objective;
    const void *h[2];
    zest_status status = zest_model_head_transform(runner, unit, h, error);
    if (!status && runner->device) return leave_words(job, unit, h, error);
    if (!status)
        status = zest_model_buffer_reserve_f32(runner, &runner->logits, 2,
                                               objective->items * objective->word_count, error);
    if (status) return status;
    float *logits[2];
    zest_model_first_lanes_f32(&runner->logits, logits);
    status =
        zest_model_head_label_words(runner, unit, h, objective->words, objective->word_count, logits, error);
    for (int l = 0; l < unit->perturbation.lanes && !status; l++)
        keep_words(job, unit->first + (size_t)l, logits[l]);
    return status;
}

/* ---- The whole vocabulary ---- */

/* Sums of a lane's rows, in the results that wait for the end of the pass. */
static zest_logit_sum *results_of(const loss_ctx *job, size_t lane) {
    return (zest_logit_sum *)job->runner->results.data + lane * job->row_count;
}

static zest_status on_logits_block(void *user, int lane, size_t first, size_t count, const float *logits,
                                   zest_error *error) {
    loss_ctx *job = user;
    const uint32_t *targets = job->objective->targets;
    if (job->runner->device) {
        zest_logit_block block = {logits, job->row_count, first, count, job->targets};
        int failed = job->runner->operations->device->sum_logits(job->runner->device, &block,
                                                                 results_of(job, job->lane + (size_t)lane));
        return failed ? zest_model_device_error(job->runner, error) : ZEST_OK;
    }
#pragma omp parallel for schedule(static) num_threads(job->threads)
    for (size_t r = 0; r < job->row_count; r++) {
        zest_logit_sum *row = &job->sums[lane][r];
        zest_row_sum_add(row, logits + r * count, count);
        if (targets[r] >= first && targets[r] - first < count)
            row->target = (double)logits[r * count + targets[r] - first];
    }
    return ZEST_OK;
}

static void keep_tokens(const loss_ctx *job, size_t lane, const zest_logit_sum *sums) {
    const zest_model_objective *objective = job->objective;
    for (size_t i = 0; i < objective->items; i++) {
        double sum = 0;
        size_t first = objective->item_starts[i], end = objective->item_starts[i + 1];
        for (size_t r = first; r < end; r++) sum += sums[r].target - (sums[r].max + log(sums[r].sum));
        job->item_scores[i] = objective->kind == ZEST_LOSS_CHOICES ? sum / (double)(end - first) : sum;
    }
    keep(job, lane, job->item_scores);
}

static zest_status token_rows_of_pair(loss_ctx *job, const zest_group_output *unit, size_t i,
                                      const void *const h[2], zest_error *error) {
    zest_group_output one = *unit;
    if (i) one.perturbation = unit->perturbation.more[i - 1];
    one.perturbation.more_count = 0;
    one.first = job->lane = unit->first + 2 * i;
    const void *const own[2] = {zest_model_lane_at(h, 2 * i), zest_model_lane_at(h, 2 * i + 1)};
    return zest_model_head_blocks(job->runner, &one, own, on_logits_block, job, error);
}

static zest_status on_token_rows(zest_model_runner *runner, const zest_group_output *unit, void *user,
                                 zest_error *error) {
    loss_ctx *job = user;
    const void *h[2];
    for (size_t i = 0; !runner->device && i < 2 * job->row_count; i++)
        job->sums[0][i] = (zest_logit_sum){-INFINITY, 0, 0};
    zest_status status = zest_model_head_transform(runner, unit, h, error);
    if (!status && runner->device && !job->targets)
        status = zest_model_stage(runner, job->objective->targets, job->row_count, &job->targets, error);
    for (size_t i = 0; i <= unit->perturbation.more_count && !status;
         i++) /* pair by pair: logits are large */
        status = token_rows_of_pair(job, unit, i, h, error);
    for (int l = 0; !runner->device && l < unit->perturbation.lanes && !status; l++)
        keep_tokens(job, unit->first + (size_t)l, job->sums[l]);
    return status;
}

/* ---- What a device leaves ---- */

static size_t result_bytes(const loss_ctx *job) {
    return job->objective->kind == ZEST_LOSS_LABEL_WORDS
               ? job->objective->items * job->objective->word_count * sizeof(float)
               : job->row_count * sizeof(zest_logit_sum);
}

/* The results of all lanes in one transfer: the only time that a pass waits for the device. */
static zest_status fetch_results(const loss_ctx *job, size_t lane_count, zest_error *error) {
    zest_model_runner *runner = job->runner;
    size_t each = result_bytes(job);
    char *results = malloc(lane_count * each);
    if (!results) return zest_error_memory(error, "losses", lane_count * each);
    zest_status status = ZEST_OK;
    if (runner->operations->device->download(runner->device, results, runner->results.data,
                                             lane_count * each))
        status = zest_model_device_error(runner, error);
    for (size_t l = 0; l < lane_count && !status; l++) {
        void *own = results + l * each;
        if (job->objective->kind == ZEST_LOSS_LABEL_WORDS)
            keep_words(job, l, own);
        else
            keep_tokens(job, l, own);
    }
    free(results);
    return status;
}

/* ---- The whole ---- */

static zest_status refuse(zest_error *error, const char *why) {
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "an objective %s", why);
}

static int rises(const uint32_t *starts, size_t count, int empty) {
    for (size_t i = 0; i < count; i++)
        if (starts[i + 1] < starts[i] || (!empty && starts[i + 1] == starts[i])) return 0;
    return starts[0] == 0;
}

zest_status zest_model_objective_check(const zest_model *model, const zest_model_objective *objective,
                                       zest_error *error) {
    if (!objective->items) return refuse(error, "needs an item");
    if (objective->kind == ZEST_LOSS_LABEL_WORDS) {
        if (!objective->word_count) return refuse(error, "needs words");
        for (size_t i = 0; i < objective->word_count; i++)
            if (objective->words[i] >= model->config.vocab_size)
                return refuse(error, "has a word outside the vocabulary");
        for (size_t i = 0; i < objective->items; i++)
            if (objective->answers[i] >= objective->word_count)
                return refuse(error, "has an answer beyond its words");
        return ZEST_OK;
    }
    if (!rises(objective->item_starts, objective->items, 0))
        return refuse(error, "has an item without targets");
    for (size_t i = 0; i < objective->item_starts[objective->items]; i++)
        if (objective->targets[i] >= model->config.vocab_size)
            return refuse(error, "has a target outside the vocabulary");
    if (objective->kind == ZEST_LOSS_TOKENS) return ZEST_OK;
    if (!objective->examples || !rises(objective->example_starts, objective->examples, 0) ||
        objective->example_starts[objective->examples] != objective->items)
        return refuse(error, "has examples that do not cover its items");
    for (size_t e = 0; e < objective->examples; e++)
        if (objective->answers[e] >= objective->example_starts[e + 1] - objective->example_starts[e])
            return refuse(error, "has an answer beyond its options");
    return ZEST_OK;
}

static void take_means(const loss_ctx *job, size_t lane_count, double *means) {
    double divisor = (double)(job->objective->kind == ZEST_LOSS_TOKENS ? job->row_count : job->examples);
    for (size_t l = 0; l < lane_count; l++) {
        double sum = 0;
        for (size_t e = 0; e < job->examples; e++) sum += job->losses[l * job->examples + e];
        means[l] = sum / divisor;
    }
}

zest_status zest_model_losses(zest_model_runner *runner, const zest_model_lane *lanes, size_t lane_count,
                              const zest_model_objective *objective, double *losses, double *means,
                              double *scores, zest_error *error) {
    zest_status status = zest_model_objective_check(runner->model, objective, error);
    if (status) return status;
    int words = objective->kind == ZEST_LOSS_LABEL_WORDS;
    loss_ctx job = {.objective = objective,
                    .losses = losses,
                    .scores = scores,
                    .threads = runner->threads,
                    .runner = runner};
    job.row_count = words ? objective->items : objective->item_starts[objective->items];
    job.examples = objective->kind == ZEST_LOSS_CHOICES ? objective->examples : objective->items;
    job.score_width = words ? objective->word_count : 1;
    job.item_scores = malloc(objective->items * job.score_width * sizeof *job.item_scores);
    job.sums[0] = malloc(2 * job.row_count * sizeof *job.sums[0]);
    job.sums[1] = job.sums[0] ? job.sums[0] + job.row_count : NULL;
    zest_forward_request request = {.lanes = lanes,
                                    .lane_count = lane_count,
                                    .batch = objective->batch,
                                    .out_rows = objective->rows,
                                    .out_row_count = job.row_count,
                                    .depth = runner->model->config.layers,
                                    .on_group = words ? on_label_words : on_token_rows,
                                    .user = &job};
    if (!job.item_scores || !job.sums[0])
        status = zest_error_memory(error, "losses", job.row_count * 2 * sizeof *job.sums[0]);
    if (!status && runner->device)
        status = zest_model_buffer_reserve_f32(runner, &runner->results, 1,
                                               lane_count * result_bytes(&job) / sizeof(float), error);
    if (!status) status = zest_model_forward(runner, &request, error);
    if (!status && runner->device) status = fetch_results(&job, lane_count, error);
    if (!status && means) take_means(&job, lane_count, means);
    free(job.item_scores);
    free(job.sums[0]);
    return status;
}

/* From hidden states to logits: of a few words, or of the whole vocabulary block by block. */

/* Words of a block. A constant: it decides the order in which a row's probabilities are summed. Devices,
 * which sum in an order of their own, take fewer and larger steps. */
enum { BLOCK = 2048, DEVICE_BLOCK = 8192 };

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
    } else { /* h may lie in the first of these buffers */
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

/* The words' rows of the head as both lanes see them, one behind the other, and their biases. */
static zest_status gather_words(zest_model_runner *runner, const zest_group_output *unit,
                                const uint32_t *words, size_t count, void *const weight[2],
                                void *const bias[2], zest_error *error) {
    const zest_model_affine *head = &runner->model->head;
    int failed = zest_ops_gather_rows(runner->operations, &head->weight, &unit->perturbation, words, count,
                                      weight, runner->threads, &runner->scratch);
    if (!failed && head->bias.data) {
        zest_weight column = head->bias;
        column.rows = head->bias.columns;
        column.columns = 1;
        failed = zest_ops_gather_rows(runner->operations, &column, &unit->perturbation, words, count, bias,
                                      runner->threads, &runner->scratch);
    }
    return failed ? zest_model_device_error(runner, error) : ZEST_OK;
}

static zest_status device_words(zest_model_runner *runner, const zest_group_output *unit,
                                const void *const h[2], const uint32_t *words, size_t count,
                                float *const out[2], zest_error *error) {
    const zest_model_affine *head = &runner->model->head;
    zest_label_logits job = {.weight = head->weight,
                             .bias = head->bias,
                             .perturbation = unit->perturbation,
                             .h = {h[0], h[1]},
                             .rows = unit->rows,
                             .width = runner->model->config.embedding_size,
                             .words = words,
                             .count = count,
                             .out = {out[0], out[1]}};
    return runner->operations->device->label_logits(runner->device, &job)
               ? zest_model_device_error(runner, error)
               : ZEST_OK;
}

zest_status zest_model_head_label_words(zest_model_runner *runner, const zest_group_output *unit,
                                        const void *const h[2], const uint32_t *words, size_t count,
                                        float *const out[2], zest_error *error) {
    size_t width = runner->model->config.embedding_size;
    if (runner->device) return device_words(runner, unit, h, words, count, out, error);
    zest_status status = zest_model_buffer_reserve(runner, &runner->words, 2, count * (width + 1), error);
    if (status) return status;
    void *weight[2], *bias[2];
    zest_model_first_lanes(&runner->words, 0, weight);
    zest_model_first_lanes(&runner->words, count * width, bias);
    status = gather_words(runner, unit, words, count, weight, bias, error);
    static const zest_perturbation none = {.lanes = 1};
    for (int l = 0; l < unit->perturbation.lanes && !status; l++) {
        zest_model_affine made = {{weight[l], ZEST_DTYPE_F32, count, width, 0, 1}, {0}};
        if (runner->model->head.bias.data) made.bias = (zest_weight){bias[l], ZEST_DTYPE_F32, 1, count, 0, 1};
        status = zest_model_linear(runner, &made, &none, 0, (const void *const[2]){h[l], NULL}, unit->rows,
                                   width, (void *const[2]){out[l], NULL}, count, NULL, ZEST_ACT_NONE, error);
    }
    return status;
}

/* Words first .. first+count-1 of the head's matrix (size: elements of a word), or of its bias (size 0). */
static zest_weight slice(const zest_weight *whole, size_t first, size_t count, size_t size) {
    zest_weight part = *whole;
    if (!part.data) return part;
    size_t elements = first * (size ? size : 1);
    part.data = (const char *)whole->data + elements * zest_dtype_size(whole->dtype);
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
static zest_status multiply_block(zest_model_runner *runner, const zest_group_output *unit,
                                  const void *const h[2], size_t first, size_t count, float *const logits[2],
                                  zest_error *error) {
    const zest_model *model = runner->model;
    size_t width = model->config.embedding_size;
    zest_model_affine block = zest_model_head_block(model, first, count);
    zest_linear job = {.weight = block.weight,
                       .bias = block.bias,
                       .perturbation = unit->perturbation,
                       .a = {h[0], h[1]},
                       .rows = unit->rows,
                       .a_stride = width,
                       .out = {logits[0], logits[1]},
                       .out_stride = count,
                       .compute = runner->compute,
                       .fp32_output = 1,
                       .deterministic = runner->deterministic};
    return runner->operations->linear(&job, runner->threads, &runner->scratch)
               ? zest_model_device_error(runner, error)
               : ZEST_OK;
}

zest_status zest_model_head_blocks(zest_model_runner *runner, const zest_group_output *unit,
                                   const void *const h[2], zest_on_logits visit, void *user,
                                   zest_error *error) {
    size_t words = runner->model->config.vocab_size, step = runner->device ? DEVICE_BLOCK : BLOCK;
    zest_status status = zest_model_buffer_reserve_f32(runner, &runner->logits, 2, unit->rows * step, error);
    float *logits[2];
    zest_model_first_lanes_f32(&runner->logits, logits);
    for (size_t first = 0; first < words && !status; first += step) {
        size_t count = words - first < step ? words - first : step;
        status = multiply_block(runner, unit, h, first, count, logits, error);
        for (int l = 0; l < unit->perturbation.lanes && !status; l++)
            status = visit(user, l, first, count, logits[l], error);
    }
    return status;
}

/* ---- For those who want the numbers themselves ---- */

typedef struct {
    zest_model_runner *runner;
    float *out;
    size_t rows, width;
} copying;

static zest_status copy_block(void *user, int lane, size_t first, size_t count, const float *logits,
                              zest_error *error) {
    const copying *copy = user;
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

static zest_status visit_logits(zest_model_runner *runner, const zest_group_output *unit, void *user,
                                zest_error *error) {
    const void *h[2];
    zest_status status = zest_model_head_transform(runner, unit, h, error);
    return status ? status : zest_model_head_blocks(runner, unit, h, copy_block, user, error);
}

static zest_status visit_hidden(zest_model_runner *runner, const zest_group_output *unit, void *user,
                                zest_error *error) {
    const copying *copy = user;
    if (runner->device)
        return zest_model_read(runner, unit->h[0], unit->rows * copy->width, 0, copy->out, error);
    memcpy(copy->out, unit->h[0], unit->rows * copy->width * sizeof(float));
    return ZEST_OK;
}

static const zest_model_lane itself = {{0, 0, 0, ZEST_GAUSSIAN}, 0};

zest_status zest_model_logits(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, const uint32_t *rows, size_t count, float *out,
                              zest_error *error) {
    copying copy = {runner, out, count, runner->model->config.vocab_size};
    zest_forward_request request = {.lanes = lane ? lane : &itself,
                                    .lane_count = 1,
                                    .batch = batch,
                                    .out_rows = rows,
                                    .out_row_count = count,
                                    .depth = runner->model->config.layers,
                                    .on_group = visit_logits,
                                    .user = &copy};
    return count ? zest_model_forward(runner, &request, error) : ZEST_OK;
}

zest_status zest_model_hidden(zest_model_runner *runner, const zest_model_lane *lane,
                              const zest_model_batch *batch, size_t depth, float *out, zest_error *error) {
    const zest_model_config *config = &runner->model->config;
    if (depth > config->layers)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "the model has %zu layers, not %zu", config->layers,
                              depth);
    copying copy = {runner, out, 0, depth == config->layers ? config->embedding_size : config->hidden_size};
    zest_forward_request request = {.lanes = lane ? lane : &itself,
                                    .lane_count = 1,
                                    .batch = batch,
                                    .depth = depth,
                                    .on_group = visit_hidden,
                                    .user = &copy};
    return zest_model_forward(runner, &request, error);
}
