/* Losses, and their gradients with respect to the features that the head multiplies. With p the softmax of
 * a row's logits:
 *
 *     LABEL_WORDS   loss = -log p(answer)                    dlogits = (p - [answer])/items
 *     TOKENS        loss = -sum over rows log p(target)      dlogits = (p - [target])/rows
 *     CHOICES       score s of an item: the mean of its rows' log p(target); loss = -log softmax(s)(answer):
 *                   dlogits of a row of item i = ([i is the answer] - softmax(s)_i)/(items' rows · examples)
 *                                                times (p - [target])
 *
 * The numbers are those of model/loss.c, fp64 until they are multiplied. The vocabulary is read in blocks,
 * twice: once for the sums, once for the gradient, so that no more logits exist than a block's. */
#include <math.h>
#include <stdlib.h>

#include "grad/grad_internal.h"

static zest_group_output group_of(const zest_grad_pass *pass) {
    return (zest_group_output){.perturbation = pass->lane.perturbation,
                               .rows = pass->out_rows,
                               .h = {pass->features, pass->features}};
}

/* Memory for scores (of label words or items) and for the sums and weights of output rows. */
static zest_status reserve(zest_grad_pass *pass, size_t scores) {
    zest_grad *grad = pass->grad;
    if (scores > grad->scores_count) {
        free(grad->scores);
        free(grad->d_logits);
        grad->scores = malloc(scores * sizeof *grad->scores);
        grad->d_logits = malloc(scores * sizeof *grad->d_logits);
        grad->scores_count = grad->scores && grad->d_logits ? scores : 0;
    }
    if (pass->out_rows > grad->sums_count) {
        free(grad->sums);
        free(grad->weights);
        grad->sums = malloc(pass->out_rows * sizeof *grad->sums);
        grad->weights = malloc(pass->out_rows * sizeof *grad->weights);
        grad->sums_count = grad->sums && grad->weights ? pass->out_rows : 0;
    }
    if (grad->scores_count < scores || grad->sums_count < pass->out_rows)
        return zest_error_memory(pass->error, "losses", scores * sizeof *grad->scores);
    return ZEST_OK;
}

/* The results of a pass for the host: the only time that it waits for a device. */
static zest_status download(zest_grad_pass *pass, const void *from, void *to, size_t bytes) {
    zest_model_runner *runner = pass->grad->runner;
    return zest_grad_check(pass, runner->operations->device->download(runner->device, to, from, bytes));
}

/* ---- Scores ---- */

static zest_status score_words(zest_grad_pass *pass) {
    const zest_model_objective *objective = pass->job->objective;
    zest_model_runner *runner = pass->grad->runner;
    zest_group_output group = group_of(pass);
    size_t count = objective->items * objective->word_count;
    zest_status status = zest_model_buffer_reserve_f32(runner, &runner->logits, 2, count, pass->error);
    if (!status)
        status = zest_model_stage(runner, objective->words, objective->word_count, &pass->words, pass->error);
    if (status) return status;
    float *logits[2];
    zest_model_first_lanes_f32(&runner->logits, logits);
    status = zest_model_head_label_words(runner, &group, group.h, pass->words, objective->word_count, logits,
                                         pass->error);
    if (!status && runner->device) {
        status = download(pass, logits[0], pass->grad->d_logits, count * sizeof *logits[0]);
        logits[0] = pass->grad->d_logits;
    }
    for (size_t i = 0; i < count && !status; i++) pass->grad->scores[i] = (double)logits[0][i];
    return status;
}

static zest_status sum_block(void *user, int lane, size_t first, size_t count, const float *logits,
                             zest_error *error) {
    zest_grad_pass *pass = user;
    zest_model_runner *runner = pass->grad->runner;
    (void)lane, (void)error;
    if (runner->device) {
        zest_logit_block block = {logits, pass->out_rows, first, count, pass->targets};
        return zest_grad_check(
            pass, runner->operations->device->sum_logits(runner->device, &block, runner->results.data));
    }
    zest_loss_add_block(pass->job->objective, first, count, logits, runner->threads, pass->grad->sums);
    return ZEST_OK;
}

/* The sums of output rows, on the host and in memory that the operations read. */
static zest_status sum_rows(zest_grad_pass *pass) {
    zest_model_runner *runner = pass->grad->runner;
    zest_logit_sum *sums = pass->grad->sums;
    zest_group_output group = group_of(pass);
    size_t bytes = pass->out_rows * sizeof *sums;
    for (size_t r = 0; r < pass->out_rows; r++) sums[r] = (zest_logit_sum){-INFINITY, 0, 0};
    pass->sums = sums;
    zest_status status =
        zest_model_stage(runner, pass->job->objective->targets, pass->out_rows, &pass->targets, pass->error);
    if (!status && runner->device) {
        status =
            zest_model_buffer_reserve_f32(runner, &runner->results, 1, bytes / sizeof(float), pass->error);
        pass->sums = runner->results.data;
    }
    if (!status) status = zest_model_head_blocks(runner, &group, group.h, 0, sum_block, pass, pass->error);
    return !status && runner->device ? download(pass, pass->sums, sums, bytes) : status;
}

static zest_status score_tokens(zest_grad_pass *pass) {
    zest_status status = sum_rows(pass);
    if (!status) zest_loss_score_items(pass->job->objective, pass->grad->sums, pass->grad->scores);
    return status;
}

zest_status zest_grad_head(zest_grad_pass *pass, double *losses, double *mean) {
    const zest_model_objective *objective = pass->job->objective;
    int words = objective->kind == ZEST_LOSS_LABEL_WORDS;
    zest_status status = reserve(pass, objective->items * (words ? objective->word_count : 1));
    if (!status) status = words ? score_words(pass) : score_tokens(pass);
    if (status) return status;
    double sum = 0;
    for (size_t e = 0; e < zest_loss_examples(objective); e++) {
        double loss = zest_loss_of_example(objective, pass->grad->scores, e);
        if (losses) losses[e] = loss;
        sum += loss;
    }
    *mean = sum / zest_loss_mean_divisor(objective);
    return ZEST_OK;
}

/* ---- Label words ---- */

/* Of a soft cap, where its result is the logit; the factor 1 leaves the others' bits as they are. */
static double cap_slope(const zest_grad_pass *pass, double logit) {
    double cap = (double)pass->forward.config->logit_cap, ratio = cap != 0 ? logit / cap : 0;
    return 1 - ratio * ratio;
}

static void label_word_gradients(zest_grad_pass *pass, double factor) {
    const zest_model_objective *objective = pass->job->objective;
    size_t words = objective->word_count;
    for (size_t i = 0; i < objective->items; i++) {
        const double *scores = pass->grad->scores + i * words, sum = zest_log_sum_exp(scores, words);
        for (size_t w = 0; w < words; w++)
            pass->grad->d_logits[i * words + w] =
                (float)(factor / (double)objective->items *
                        (zest_exp(scores[w] - sum) - (w == objective->answers[i])) *
                        cap_slope(pass, scores[w]));
    }
}

static zest_status label_words_backward(zest_grad_pass *pass, double factor, void *d) {
    const zest_model_objective *objective = pass->job->objective;
    zest_grad *grad = pass->grad;
    zest_model_runner *runner = grad->runner;
    const zest_weight *weight = &grad->view.head.weight;
    size_t words = objective->word_count, width = pass->forward.config->embedding_size;
    zest_status status = zest_model_buffer_reserve(runner, &grad->small_work, 1, words * width, pass->error);
    if (status) return status;
    void *const rows[2] = {grad->small_work.data, grad->small_work.data};
    status = zest_grad_check(pass, zest_ops_gather_rows(runner->operations, weight, &pass->lane.perturbation,
                                                        pass->words, words, rows, runner->threads,
                                                        &runner->scratch));
    if (status) return status;
    label_word_gradients(pass, factor);
    zest_label_words_backward job = {
        .d_logits = zest_grad_stage(pass, grad->d_logits, objective->items * words * sizeof *grad->d_logits),
        .rows = rows[0],
        .features = pass->features,
        .d = d,
        .words = pass->words,
        .d_weight = zest_grad_weight_grad(pass, weight),
        .d_bias = zest_grad_weight_grad(pass, &grad->view.head.bias),
        .items = objective->items,
        .count = words,
        .width = width};
    return zest_grad_check(pass, !job.d_logits ||
                                     grad->backward->label_words(&job, runner->threads, &runner->scratch));
}

/* ---- The whole vocabulary ---- */

static void compute_row_weights(zest_grad_pass *pass, double factor) {
    const zest_model_objective *objective = pass->job->objective;
    double *weights = pass->grad->weights;
    if (objective->kind == ZEST_LOSS_TOKENS) {
        for (size_t r = 0; r < pass->out_rows; r++) weights[r] = factor / (double)pass->out_rows;
        return;
    }
    for (size_t e = 0; e < objective->examples; e++) {
        size_t first, count = zest_loss_choices(objective, e, &first);
        double sum = zest_log_sum_exp(pass->grad->scores + first, count);
        for (size_t i = first; i < first + count; i++) {
            double chosen = zest_exp(pass->grad->scores[i] - sum), rows;
            rows = (double)(objective->item_starts[i + 1] - objective->item_starts[i]);
            for (size_t r = objective->item_starts[i]; r < objective->item_starts[i + 1]; r++)
                weights[r] = factor / (double)objective->examples *
                             ((i - first == objective->answers[e]) - chosen) / rows;
        }
    }
}

typedef struct {
    zest_grad_pass *pass;
    const double *weights; /* of output rows: dlogits = weight (p - target) */
    void *d;
} blocks_ctx;

static zest_status block_backward(void *user, int lane, size_t first, size_t count, const float *logits,
                                  zest_error *error) {
    blocks_ctx *job = user;
    zest_grad_pass *pass = job->pass;
    zest_model_runner *runner = pass->grad->runner;
    const size_t alignment = 8; /* that a device's products are fast with */
    const size_t stride = (count + alignment - 1) / alignment * alignment;
    (void)lane;
    zest_status status =
        zest_model_buffer_reserve(runner, &pass->grad->small_work, 1, pass->out_rows * stride, error);
    if (status) return status;
    void *d_logits = pass->grad->small_work.data;
    zest_logits_backward work = {.block = {logits, pass->out_rows, first, count, pass->targets},
                                 .sums = pass->sums,
                                 .weights = job->weights,
                                 .d = d_logits,
                                 .d_stride = stride,
                                 .soft_cap = pass->forward.config->logit_cap};
    status = zest_grad_check(pass, pass->grad->backward->logits(&work, runner->threads, &runner->scratch));
    if (status) return status;
    zest_model_affine block = zest_model_head_block(&pass->grad->view, first, count);
    return zest_grad_linear_backward(pass, &block, 0, pass->features, d_logits, stride, pass->out_rows,
                                     job->d, first > 0);
}

zest_status zest_grad_head_backward(zest_grad_pass *pass, double factor, void *d) {
    if (pass->job->objective->kind == ZEST_LOSS_LABEL_WORDS) return label_words_backward(pass, factor, d);
    compute_row_weights(pass, factor);
    blocks_ctx job = {.pass = pass, .d = d};
    job.weights = zest_grad_stage(pass, pass->grad->weights, pass->out_rows * sizeof *job.weights);
    if (!job.weights) return zest_grad_check(pass, 1);
    zest_group_output group = group_of(pass);
    return zest_model_head_blocks(pass->grad->runner, &group, group.h, 0, block_backward, &job, pass->error);
}
