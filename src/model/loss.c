#include "model/loss.h"

#include <math.h>
#include <stdlib.h>

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
static zest_status leave_words(loss_ctx *job, const zest_group_output *unit, const float *const h[2],
                               zest_error *error) {
    const zest_model_objective *objective = job->objective;
    size_t width = objective->items * objective->word_count;
    float *out[2] = {job->runner->results.data + unit->first * width,
                     job->runner->results.data + (unit->first + 1) * width};
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
    const float *h[2];
    zest_status status = zest_model_head_transform(runner, unit, h, error);
    if (!status && runner->device) return leave_words(job, unit, h, error);
    if (!status)
        status = zest_model_buffer_reserve_f32(runner, &runner->logits, 2,
                                               objective->items * objective->word_count, error);
    if (status) return status;
    float *logits[2];
    zest_model_first_lanes(&runner->logits, 0, logits);
    status =
        zest_model_head_label_words(runner, unit, h, objective->words, objective->word_count, logits, error);
    for (int l = 0; l < unit->perturbation.lanes && !status; l++)
        keep_words(job, unit->first + (size_t)l, logits[l]);
    return status;
}

/* ---- The whole vocabulary ---- */

/* Sums of a lane's rows, in the results that wait for the end of the pass. */
static zest_logit_sum *results_of(const loss_ctx *job, size_t lane) {
    return (zest_logit_sum *)(void *)job->runner->results.data + lane * job->row_count;
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
                                      const float *const h[2], zest_error *error) {
    zest_group_output one = *unit;
    if (i) one.perturbation = unit->perturbation.more[i - 1];
    one.perturbation.more_count = 0;
    one.first = job->lane = unit->first + 2 * i;
    const float *const own[2] = {zest_model_lane_at(h, 2 * i), zest_model_lane_at(h, 2 * i + 1)};
    return zest_model_head_blocks(job->runner, &one, own, on_logits_block, job, error);
}

static zest_status on_token_rows(zest_model_runner *runner, const zest_group_output *unit, void *user,
                                 zest_error *error) {
    loss_ctx *job = user;
    const float *h[2];
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
