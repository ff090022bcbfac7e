#include "data/metric.h"

#include <math.h>
#include <stdlib.h>

#include "data/metric_internal.h"

/* ---- Choosing ---- */

uint32_t zest_metric_choose(const double *scores, size_t count) {
    uint32_t best = ZEST_METRIC_NO_CHOICE;
    for (size_t i = 0; i < count; i++)
        if (isfinite(scores[i]) && (best == ZEST_METRIC_NO_CHOICE || scores[i] > scores[best]))
            best = (uint32_t)i;
    return best;
}

static int is_right(const zest_examples *e, size_t i, uint32_t choice) {
    const uint32_t *right = e->right ? e->right[i] : NULL;
    if (!right) return choice == e->answers[i];
    for (uint32_t r = 1; r <= right[0]; r++)
        if (right[r] == choice) return 1;
    return 0;
}

/* ---- Predicting ---- */

void zest_predictions_free(zest_predictions *p) {
    for (size_t i = 0; i < p->count && p->texts; i++) free(p->texts[i]);
    free(p->texts);
    free(p->choice);
    free(p->scores);
    free(p->starts);
    free(p->losses);
    free(p->f1);
    free(p->em);
    *p = (zest_predictions){0};
}

static size_t scores_of(const zest_examples *e, size_t i) {
    if (e->masked) return e->word_count;
    return e->text_starts[i + 1] - e->text_starts[i];
}

static zest_status make_room(const zest_examples *e, int text, zest_predictions *p, zest_error *error) {
    size_t n = e->count, scores = 0;
    zest_predictions_free(p);
    p->count = n;
    p->starts = calloc(n + 1, sizeof *p->starts);
    for (size_t i = 0; i < n && p->starts; i++) p->starts[i + 1] = (uint32_t)(scores += scores_of(e, i));
    p->choice = calloc(n + 1, sizeof *p->choice);
    p->losses = calloc(n + 1, sizeof *p->losses);
    p->scores = calloc(scores + 1, sizeof *p->scores);
    if (text) p->texts = calloc(n + 1, sizeof *p->texts);
    if (text) p->f1 = calloc(n + 1, sizeof *p->f1);
    if (text) p->em = calloc(n + 1, sizeof *p->em);
    if (!p->starts || !p->choice || !p->losses || !p->scores || (text && (!p->texts || !p->f1 || !p->em)))
        return zest_error_memory(error, "predictions", (n + scores) * sizeof *p->scores);
    return ZEST_OK;
}

/* Tokens of the right answer. */
static size_t answer_tokens(const zest_examples *e, size_t i) {
    const zest_example_text *text = &e->texts[e->text_starts[i] + e->answers[i]];
    return text->length - text->asked;
}

static void take(const zest_examples *e, size_t i, zest_predictions *p) {
    const double *scores = p->scores + p->starts[i];
    size_t count = p->starts[i + 1] - p->starts[i];
    int bad = 0;
    p->choice[i] = e->kind == ZEST_TASK_TEXT ? 0 : zest_metric_choose(scores, count);
    /* choices were scored by means; what training minimises is a sum */
    if (e->as_text && e->kind == ZEST_TASK_CHOICE)
        p->losses[i] = -scores[e->answers[i]] * (double)answer_tokens(e, i);
    for (size_t s = 0; s < count; s++) bad |= !isfinite(scores[s]);
    p->bad += bad || !isfinite(p->losses[i]);
}

static zest_status score_all(zest_model_runner *runner, const zest_model_lane *lane, const zest_examples *e,
                             size_t batch_tokens, uint32_t *which, const zest_progress_callback *progress,
                             zest_predictions *p, zest_error *error) {
    static const zest_model_lane itself = {.direction = {.gain = 1}, .scale = 0};
    zest_batch batch = {0};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < e->count; i++) which[i] = (uint32_t)i;
    for (size_t first = 0, end; first < e->count && !status; first = end) {
        size_t tokens = zest_batch_tokens(e, which[first], ZEST_BATCH_SCORE);
        for (end = first + 1; end < e->count; end++) {
            tokens += zest_batch_tokens(e, which[end], ZEST_BATCH_SCORE);
            if (tokens > batch_tokens) break;
        }
        status = zest_batch_make(&batch, e, which + first, end - first, ZEST_BATCH_SCORE, error);
        if (!status)
            status = zest_model_losses(runner, lane ? lane : &itself, 1, &batch.objective, p->losses + first,
                                       NULL, p->scores + p->starts[first], error);
        for (size_t i = first; i < end && !status; i++) take(e, i, p);
        zest_progress_call(progress, end, e->count);
    }
    zest_batch_free(&batch);
    return status;
}

zest_status zest_metric_predict(zest_model_runner *runner, const zest_model_lane *lane,
                                const zest_examples *examples, const zest_tokenizer *tokenizer,
                                size_t batch_tokens, zest_predictions *predictions, zest_error *error) {
    return zest_metric_predict_watched(runner, lane, examples, tokenizer, batch_tokens, NULL, predictions,
                                       error);
}

zest_status zest_metric_predict_watched(zest_model_runner *runner, const zest_model_lane *lane,
                                        const zest_examples *examples, const zest_tokenizer *tokenizer,
                                        size_t batch_tokens, const zest_progress_callback *progress,
                                        zest_predictions *predictions, zest_error *error) {
    if (!batch_tokens) batch_tokens = 4096;
    int text = tokenizer && examples->kind == ZEST_TASK_TEXT;
    zest_status status = make_room(examples, text, predictions, error);
    uint32_t *which = malloc((examples->count + 1) * sizeof *which);
    if (!status && !which) status = zest_error_memory(error, "predictions", examples->count * sizeof *which);
    /* of free text the scores are the quick part */
    if (!status)
        status = score_all(runner, lane, examples, batch_tokens, which, text ? NULL : progress, predictions,
                           error);
    if (!status && text)
        status = zest_metric_generate(runner, lane, examples, tokenizer, batch_tokens, progress, predictions,
                                      error);
    free(which);
    if (status) zest_predictions_free(predictions);
    return status;
}

/* ---- Summing up ---- */

static double mean(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    return count ? sum / (double)count : NAN;
}

static double mean_loss(const zest_examples *e, const zest_predictions *p) {
    size_t tokens = 0;
    if (!e->as_text) return mean(p->losses, p->count);
    for (size_t i = 0; i < p->count; i++) tokens += answer_tokens(e, i);
    return tokens ? mean(p->losses, p->count) * (double)p->count / (double)tokens : NAN;
}

const char *zest_metric_name(zest_metric metric) {
    static const char *const names[] = {"accuracy", "f1", "em", "loss"};
    return names[metric];
}

double zest_metric_value(const zest_metrics *metrics, zest_metric metric) {
    switch (metric) {
    case ZEST_METRIC_ACCURACY: return metrics->accuracy;
    case ZEST_METRIC_F1: return metrics->f1;
    case ZEST_METRIC_EM: return metrics->em;
    case ZEST_METRIC_LOSS: return metrics->loss;
    }
    return NAN;
}

static void find_interval(zest_metric metric, const zest_examples *e, const zest_predictions *p,
                          zest_metrics *m) {
    double n = (double)m->n;
    if (isnan(m->value) || metric == ZEST_METRIC_LOSS) return;
    if (metric == ZEST_METRIC_ACCURACY) zest_metric_wilson(round(m->accuracy * n), n, &m->low, &m->high);
    if (metric == ZEST_METRIC_EM) zest_metric_wilson(round(m->em * n), n, &m->low, &m->high);
    if (metric == ZEST_METRIC_F1 && e->kind == ZEST_TASK_TEXT)
        zest_metric_bootstrap_mean(p->f1, p->count, &m->low, &m->high);
    else if (metric == ZEST_METRIC_F1)
        zest_metric_bootstrap_f1(p->choice, e->answers, p->count, &m->low, &m->high);
}

void zest_metric_sum(const zest_task *task, const zest_examples *examples, const zest_predictions *p,
                     zest_metrics *metrics) {
    zest_metrics m = {
        .n = p->count, .accuracy = NAN, .f1 = NAN, .em = NAN, .low = NAN, .high = NAN, .bad = p->bad};
    m.loss = mean_loss(examples, p);
    if (examples->kind == ZEST_TASK_TEXT) {
        if (p->f1) m.f1 = mean(p->f1, p->count);
        if (p->em) m.em = mean(p->em, p->count);
    } else {
        size_t hits = 0;
        for (size_t i = 0; i < p->count; i++) hits += (size_t)is_right(examples, i, p->choice[i]);
        m.accuracy = p->count ? (double)hits / (double)p->count : NAN;
    }
    if (examples->kind == ZEST_TASK_CLASSES && task->class_count == 2)
        m.f1 = zest_metric_f1(p->choice, examples->answers, p->count);
    m.value = zest_metric_value(&m, task->metric);
    find_interval(task->metric, examples, p, &m);
    *metrics = m;
}

/* ---- Without a derivative ---- */

double zest_metric_error(const zest_batch *batch, zest_metric metric, const double *scores) {
    const zest_model_objective *o = &batch->objective;
    size_t hits = 0, both = 0, said = 0, right = 0;
    if (o->kind == ZEST_MODEL_TOKENS || (metric != ZEST_METRIC_ACCURACY && metric != ZEST_METRIC_F1))
        return NAN;
    for (size_t i = 0; i < batch->count; i++) {
        size_t first = o->kind == ZEST_MODEL_WORDS ? i * o->word_count : o->example_starts[i];
        size_t count = o->kind == ZEST_MODEL_WORDS ? o->word_count : o->example_starts[i + 1] - first;
        uint32_t choice = zest_metric_choose(scores + first, count);
        hits += (size_t)is_right(batch->examples, batch->which[i], choice);
        both += choice == 1 && o->answers[i] == 1;
        said += choice == 1;
        right += o->answers[i] == 1;
    }
    if (metric == ZEST_METRIC_ACCURACY) return 1 - (double)hits / (double)batch->count;
    return both ? 1 - 2 * (double)both / (double)(said + right) : 1;
}
