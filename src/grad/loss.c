/* Losses, and their gradient by what the head multiplies. With p the softmax of a row's logits:
 *
 *     WORDS     loss = -log p(answer)                    dlogits = (p - [answer])/items
 *     TOKENS    loss = -sum over rows log p(target)      dlogits = (p - [target])/rows
 *     OPTIONS   score s of an item: the mean of its rows' log p(target); loss = -log softmax(s)(answer):
 *               dlogits of a row of item i = ([i is the answer] - softmax(s)_i)/(items' rows · examples)
 *                                            times (p - [target])
 *
 * Numbers are the forward pass's (models/losses.c), fp64 until they are multiplied. The vocabulary goes by in
 * blocks, twice: once for the sums, once for the gradient, so that no more logits exist than a block's. */
#include <math.h>
#include <stdlib.h>

#include "grad/grad_internal.h"

static zest_model_unit unit_of(const zest_grad_pass *pass) {
    return (zest_model_unit){0, pass->lane.perturbation, pass->asked, {pass->features, pass->features}};
}

/* Room for scores (of words or items) and the asked rows' sums and weights. */
static zest_status make_room(zest_grad_pass *pass, size_t scores) {
    zest_grad *grad = pass->grad;
    if (scores > grad->scores_count) {
        free(grad->scores);
        grad->scores = malloc(scores * sizeof *grad->scores);
        grad->scores_count = grad->scores ? scores : 0;
    }
    if (pass->asked > grad->sums_count) {
        free(grad->sums);
        free(grad->weights);
        grad->sums = malloc(pass->asked * sizeof *grad->sums);
        grad->weights = malloc(pass->asked * sizeof *grad->weights);
        grad->sums_count = grad->sums && grad->weights ? pass->asked : 0;
    }
    if (grad->scores_count < scores || grad->sums_count < pass->asked)
        return zest_error_memory(pass->error, "losses", scores * sizeof *grad->scores);
    pass->weights = grad->weights;
    return ZEST_OK;
}

/* ---- Scores ---- */

static zest_status score_words(zest_grad_pass *pass) {
    const zest_model_objective *objective = pass->job->objective;
    zest_model_runner *runner = pass->grad->runner;
    zest_model_unit unit = unit_of(pass);
    size_t count = objective->items * objective->word_count;
    zest_status status = zest_model_room_for(runner, &runner->logits, 2, count, pass->error);
    if (status) return status;
    float *logits[2];
    zest_model_halves(&runner->logits, 0, logits);
    status = zest_model_head_words(runner, &unit, unit.h, objective->words, objective->word_count, logits,
                                   pass->error);
    for (size_t i = 0; i < count && !status; i++) pass->grad->scores[i] = (double)logits[0][i];
    return status;
}

static zest_status sum_block(void *user, int lane, size_t first, size_t count, const float *logits,
                             zest_error *error) {
    zest_grad_pass *pass = user;
    const uint32_t *targets = pass->job->objective->targets;
    (void)lane, (void)error;
#pragma omp parallel for schedule(static) num_threads(pass->grad->runner->threads)
    for (size_t r = 0; r < pass->asked; r++) {
        zest_logit_sum *row = &pass->grad->sums[r];
        zest_row_sum_add(row, logits + r * count, count);
        if (targets[r] >= first && targets[r] - first < count)
            row->target = (double)logits[r * count + targets[r] - first];
    }
    return ZEST_OK;
}

static zest_status score_tokens(zest_grad_pass *pass) {
    const zest_model_objective *objective = pass->job->objective;
    zest_logit_sum *sums = pass->grad->sums;
    zest_model_unit unit = unit_of(pass);
    for (size_t r = 0; r < pass->asked; r++) sums[r] = (zest_logit_sum){-INFINITY, 0, 0};
    zest_status status =
        zest_model_head_blocks(pass->grad->runner, &unit, unit.h, sum_block, pass, pass->error);
    for (size_t i = 0; i < objective->items && !status; i++) {
        double sum = 0;
        size_t first = objective->item_starts[i], end = objective->item_starts[i + 1];
        for (size_t r = first; r < end; r++) sum += sums[r].target - (sums[r].most + log(sums[r].sum));
        pass->grad->scores[i] = objective->kind == ZEST_MODEL_OPTIONS ? sum / (double)(end - first) : sum;
    }
    return status;
}

/* ---- Losses ---- */

/* The scores that one example chooses between. */
static size_t choices_of(const zest_model_objective *objective, size_t example, size_t *first) {
    int words = objective->kind == ZEST_MODEL_WORDS;
    *first = words ? example * objective->word_count : objective->example_starts[example];
    return words ? objective->word_count : objective->example_starts[example + 1] - *first;
}

zest_status zest_grad_head(zest_grad_pass *pass, double *losses, double *mean) {
    const zest_model_objective *objective = pass->job->objective;
    int words = objective->kind == ZEST_MODEL_WORDS, tokens = objective->kind == ZEST_MODEL_TOKENS;
    size_t examples = objective->kind == ZEST_MODEL_OPTIONS ? objective->examples : objective->items;
    zest_status status = make_room(pass, objective->items * (words ? objective->word_count : 1));
    if (!status) status = words ? score_words(pass) : score_tokens(pass);
    if (status) return status;
    const double *scores = pass->grad->scores;
    double sum = 0;
    for (size_t e = 0; e < examples; e++) {
        size_t first = e, count = tokens ? 1 : choices_of(objective, e, &first);
        double loss = tokens
                          ? -scores[e]
                          : zest_log_sum_exp(scores + first, count) - scores[first + objective->answers[e]];
        if (losses) losses[e] = loss;
        sum += loss;
    }
    *mean = sum / (double)(tokens ? pass->asked : examples);
    return ZEST_OK;
}

/* ---- A few words ---- */

/* The scores become dlogits. */
static void word_gradients(zest_grad_pass *pass, double factor) {
    const zest_model_objective *objective = pass->job->objective;
    size_t words = objective->word_count;
    for (size_t i = 0; i < objective->items; i++) {
        double *scores = pass->grad->scores + i * words, sum = zest_log_sum_exp(scores, words);
        for (size_t w = 0; w < words; w++)
            scores[w] = factor / (double)objective->items *
                        (zest_exponential(scores[w] - sum) - (w == objective->answers[i]));
    }
}

static zest_status words_backward(zest_grad_pass *pass, double factor, float *d) {
    const zest_model_objective *objective = pass->job->objective;
    zest_grad *grad = pass->grad;
    const zest_weight *weight = &grad->view.head.weight;
    size_t words = objective->word_count, width = pass->pass.is->embedding_width;
    float *d_weight = zest_grad_of(pass, weight), *d_bias = zest_grad_of(pass, &grad->view.head.bias);
    zest_status status = zest_model_room_for(grad->runner, &grad->small, 1, words * width, pass->error);
    if (status) return status;
    float *const rows[2] = {grad->small.data, grad->small.data};
    if (grad->runner->operations->gather(weight, &pass->lane.perturbation, objective->words, words, rows, 0,
                                         grad->runner->threads, &grad->runner->scratch))
        return zest_model_no_scratch(pass->grad->runner, pass->error);
    word_gradients(pass, factor);
    for (size_t i = 0; i < objective->items; i++)
        for (size_t w = 0; w < words; w++) {
            float by = (float)grad->scores[i * words + w], *to = d + i * width;
            const float *row = rows[0] + w * width, *feature = pass->features + i * width;
            for (size_t c = 0; c < width; c++) to[c] = w ? fmaf(by, row[c], to[c]) : by * row[c];
            float *wanted = d_weight ? d_weight + objective->words[w] * width : NULL;
            for (size_t c = 0; wanted && c < width; c++) wanted[c] = fmaf(by, feature[c], wanted[c]);
            if (d_bias) d_bias[objective->words[w]] += by;
        }
    return ZEST_OK;
}

/* ---- The whole vocabulary ---- */

static void weigh_rows(zest_grad_pass *pass, double factor) {
    const zest_model_objective *objective = pass->job->objective;
    double *weights = pass->weights;
    if (objective->kind == ZEST_MODEL_TOKENS) {
        for (size_t r = 0; r < pass->asked; r++) weights[r] = factor / (double)pass->asked;
        return;
    }
    for (size_t e = 0; e < objective->examples; e++) {
        size_t first, count = choices_of(objective, e, &first);
        double sum = zest_log_sum_exp(pass->grad->scores + first, count);
        for (size_t i = first; i < first + count; i++) {
            double chosen = zest_exponential(pass->grad->scores[i] - sum), rows;
            rows = (double)(objective->item_starts[i + 1] - objective->item_starts[i]);
            for (size_t r = objective->item_starts[i]; r < objective->item_starts[i + 1]; r++)
                weights[r] = factor / (double)objective->examples *
                             ((i - first == objective->answers[e]) - chosen) / rows;
        }
    }
}

typedef struct {
    zest_grad_pass *pass;
    float *d;
} blocks_job;

static zest_status block_backward(void *user, int lane, size_t first, size_t count, const float *logits,
                                  zest_error *error) {
    blocks_job *job = user;
    zest_grad_pass *pass = job->pass;
    const uint32_t *targets = pass->job->objective->targets;
    (void)lane;
    zest_status status =
        zest_model_room_for(pass->grad->runner, &pass->grad->small, 1, pass->asked * count, error);
    if (status) return status;
    float *d_logits = pass->grad->small.data;
#pragma omp parallel for schedule(static) num_threads(pass->grad->runner->threads)
    for (size_t r = 0; r < pass->asked; r++) {
        const zest_logit_sum *row = &pass->grad->sums[r];
        double sum = row->most + log(row->sum), weight = pass->weights[r];
        for (size_t w = 0; w < count; w++)
            d_logits[r * count + w] = (float)(weight * zest_small_exp((double)logits[r * count + w] - sum));
        if (targets[r] >= first && targets[r] - first < count) {
            size_t at = r * count + targets[r] - first;
            d_logits[at] = (float)(weight * (zest_small_exp((double)logits[at] - sum) - 1));
        }
    }
    zest_model_affine block = zest_model_head_block(&pass->grad->view, first, count);
    return zest_grad_map_backward(pass, &block, 0, pass->features, d_logits, count, pass->asked, job->d,
                                  first > 0);
}

zest_status zest_grad_head_backward(zest_grad_pass *pass, double factor, float *d) {
    if (pass->job->objective->kind == ZEST_MODEL_WORDS) return words_backward(pass, factor, d);
    blocks_job job = {pass, d};
    zest_model_unit unit = unit_of(pass);
    weigh_rows(pass, factor);
    return zest_model_head_blocks(pass->grad->runner, &unit, unit.h, block_backward, &job, pass->error);
}
