/* Metrics: predictions of a model, accuracy, F1 and exact match with confidence intervals, and the text
 * comparison of SQuAD's evaluation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "task/batch.h"
#include "task/metric.h"
#include "task/template.h"
#include "tokenizer/unicode.h"

/* ---- Choice ---- */

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

/* ---- Generation of free-text answers ---- */

typedef struct {
    uint32_t *prompt_tokens, *starts, *tokens;
    size_t *counts;
    int32_t *ids;
} generation;

static void free_generation(generation *r) {
    free(r->prompt_tokens);
    free(r->starts);
    free(r->tokens);
    free(r->counts);
    free(r->ids);
}

/* A text ends with a newline, or with the end token. */
static zest_status find_stops(const zest_tokenizer *tokenizer, uint32_t stops[2], size_t *count,
                              zest_error *error) {
    zest_ids ids = {0};
    zest_status status = zest_tokenizer_encode(tokenizer, "\n", 1, 0, &ids, error);
    int32_t end = zest_tokenizer_special(tokenizer, ZEST_TOKEN_EOS);
    *count = 0;
    if (!status && ids.count) stops[(*count)++] = (uint32_t)ids.data[ids.count - 1];
    if (end >= 0) stops[(*count)++] = (uint32_t)end;
    zest_ids_free(&ids);
    return status;
}

static zest_status score_text(const zest_tokenizer *tokenizer, const zest_examples *e, size_t i,
                              const int32_t *ids, size_t count, zest_predictions *p, zest_error *error) {
    zest_buffer text = {0};
    zest_buffer_text(&text, "");
    zest_status status = zest_tokenizer_decode(tokenizer, ids, count, 1, &text, error);
    zest_metric_clean_up(&text);
    if (!status && (text.failed || !text.data)) status = zest_error_memory(error, "an answer", text.size);
    if (status) {
        zest_buffer_free(&text);
        return status;
    }
    p->texts[i] = text.data;
    p->f1[i] = zest_metric_token_f1(text.data, e->gold[i]);
    p->em[i] = zest_metric_exact(text.data, e->gold[i]);
    return isnan(p->f1[i]) || isnan(p->em[i]) ? zest_error_memory(error, "an answer", text.size) : ZEST_OK;
}

/* Generates for examples first .. first+count-1. */
static zest_status generate(zest_model_runner *runner, const zest_model_lane *lane, const zest_examples *e,
                            const zest_tokenizer *tokenizer, const zest_generate_options *options,
                            size_t first, size_t count, generation *r, zest_predictions *p,
                            zest_error *error) {
    r->starts[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const zest_example_text *prompt = &e->prompts[first + i];
        memcpy(r->prompt_tokens + r->starts[i], e->tokens + prompt->first,
               prompt->length * sizeof *r->prompt_tokens);
        r->starts[i + 1] = r->starts[i] + prompt->length;
    }
    zest_model_batch batch = {.tokens = r->prompt_tokens, .starts = r->starts, .sequences = count};
    zest_status status = zest_generate(runner, lane, &batch, options, r->tokens, r->counts, error);
    for (size_t i = 0; i < count && !status; i++) {
        for (size_t t = 0; t < r->counts[i]; t++)
            r->ids[t] = (int32_t)r->tokens[i * options->max_new_tokens + t];
        status = score_text(tokenizer, e, first + i, r->ids, r->counts[i], p, error);
    }
    return status;
}

/* The number of examples from `first` on, before `end`, that fit into a batch, and the tokens of their prompts. */
static size_t fit(const zest_examples *e, size_t first, size_t end, size_t batch_tokens, size_t *tokens) {
    size_t count = 0, sum = 0;
    *tokens = 0;
    while (first + count < end) {
        sum += e->prompts[first + count].length + e->max_tokens;
        if (count && sum > batch_tokens) break;
        *tokens += e->prompts[first + count++].length;
    }
    return count;
}

static int allocate_generation(const zest_examples *e, const zest_metric_range *range, size_t batch_tokens,
                               generation *r) {
    size_t max_count = 0, max_tokens = 0, tokens;
    for (size_t first = range->first, count; first < range->end; first += count) {
        count = fit(e, first, range->end, batch_tokens, &tokens);
        if (count > max_count) max_count = count;
        if (tokens > max_tokens) max_tokens = tokens;
    }
    r->prompt_tokens = malloc((max_tokens + 1) * sizeof *r->prompt_tokens);
    r->starts = malloc((max_count + 1) * sizeof *r->starts);
    r->tokens = malloc((max_count * e->max_tokens + 1) * sizeof *r->tokens);
    r->counts = malloc((max_count + 1) * sizeof *r->counts);
    r->ids = malloc((e->max_tokens + 1) * sizeof *r->ids);
    return r->prompt_tokens && r->starts && r->tokens && r->counts && r->ids;
}

/* Generates the texts of examples (TEXT) and compares them with the accepted ones. */
static zest_status generate_texts(zest_model_runner *runner, const zest_model_lane *lane,
                                  const zest_examples *e, const zest_tokenizer *tokenizer,
                                  const zest_metric_range *range, size_t batch_tokens,
                                  const zest_progress_callback *progress, zest_predictions *p,
                                  zest_error *error) {
    uint32_t stops[2];
    generation r = {0};
    zest_generate_options options = {.max_new_tokens = e->max_tokens, .stops = stops};
    zest_status status = find_stops(tokenizer, stops, &options.stop_count, error);
    if (!status && !allocate_generation(e, range, batch_tokens, &r))
        status = zest_error_memory(error, "generated answers", batch_tokens * sizeof(uint32_t));
    for (size_t first = range->first, count, tokens; first < range->end && !status; first += count) {
        count = fit(e, first, range->end, batch_tokens, &tokens);
        status = generate(runner, lane, e, tokenizer, &options, first, count, &r, p, error);
        zest_progress_call(progress, first + count - range->first, range->end - range->first);
    }
    free_generation(&r);
    return status;
}

/* ---- Predictions ---- */

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
    if (e->kind == ZEST_TASK_CHAT) return 1;
    return e->text_starts[i + 1] - e->text_starts[i];
}

static zest_status allocate(const zest_examples *e, int text, zest_predictions *p, zest_error *error) {
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

/* Number of tokens of the right answer, or of all that the assistant says. */
static size_t answer_tokens(const zest_examples *e, size_t i) {
    size_t count = 0;
    for (uint32_t t = e->text_starts[i]; e->learned && t < e->text_starts[i + 1]; t++)
        for (uint32_t at = e->texts[t].target; at < e->texts[t].length; at++)
            count += e->learned[e->texts[t].first + at];
    if (e->learned) return count;
    const zest_example_text *text = &e->texts[e->text_starts[i] + e->answers[i]];
    return text->length - text->target;
}

static void record_scores(const zest_examples *e, size_t i, zest_predictions *p) {
    const double *scores = p->scores + p->starts[i];
    size_t count = p->starts[i + 1] - p->starts[i];
    int bad = 0;
    p->choice[i] =
        e->kind == ZEST_TASK_TEXT || e->kind == ZEST_TASK_CHAT ? 0 : zest_metric_choose(scores, count);
    /* choices were scored by means; the training loss is a sum */
    if (e->as_text && e->kind == ZEST_TASK_CHOICE)
        p->losses[i] = -scores[e->answers[i]] * (double)answer_tokens(e, i);
    for (size_t s = 0; s < count; s++) bad |= !isfinite(scores[s]);
    p->bad += bad || !isfinite(p->losses[i]);
}

/* Scores and losses of a range of examples. */
static zest_status score(zest_model_runner *runner, const zest_model_lane *lane, const zest_examples *e,
                         const zest_metric_range *range, size_t batch_tokens, uint32_t *which,
                         const zest_progress_callback *progress, zest_predictions *p, zest_error *error) {
    static const zest_model_lane itself = {.direction = {.gain = 1}, .scale = 0};
    zest_batch batch = {0};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < e->count; i++) which[i] = (uint32_t)i;
    for (size_t first = range->first, end; first < range->end && !status; first = end) {
        size_t tokens = zest_batch_tokens(e, which[first], ZEST_BATCH_SCORE);
        for (end = first + 1; end < range->end; end++) {
            tokens += zest_batch_tokens(e, which[end], ZEST_BATCH_SCORE);
            if (tokens > batch_tokens) break;
        }
        status = zest_batch_make(&batch, e, which + first, end - first, ZEST_BATCH_SCORE, error);
        if (!status)
            status = zest_model_losses(runner, lane ? lane : &itself, 1, &batch.objective, p->losses + first,
                                       NULL, p->scores + p->starts[first], error);
        zest_progress_call(progress, end - range->first, range->end - range->first);
    }
    zest_batch_free(&batch);
    return status;
}

zest_status zest_metric_predict(zest_model_runner *runner, const zest_model_lane *lane,
                                const zest_examples *examples, const zest_tokenizer *tokenizer,
                                size_t batch_tokens, zest_predictions *predictions, zest_error *error) {
    return zest_metric_predict_with(runner, lane, examples, tokenizer, batch_tokens, NULL, NULL, predictions,
                                    error);
}

zest_status zest_metric_predict_with(zest_model_runner *runner, const zest_model_lane *lane,
                                     const zest_examples *examples, const zest_tokenizer *tokenizer,
                                     size_t batch_tokens, zest_comm *comm,
                                     const zest_progress_callback *progress, zest_predictions *predictions,
                                     zest_error *error) {
    if (!batch_tokens) batch_tokens = 4096;
    int text = tokenizer && examples->kind == ZEST_TASK_TEXT, divided = comm && comm->ranks > 1;
    zest_metric_range range = {0, examples->count};
    if (divided) range = zest_metric_share(examples, text, comm->rank, comm->ranks);
    zest_status status = allocate(examples, text, predictions, error);
    uint32_t *which = malloc((examples->count + 1) * sizeof *which);
    if (!status && !which) status = zest_error_memory(error, "predictions", examples->count * sizeof *which);
    /* for free text scoring is the fast part */
    if (!status)
        status = score(runner, lane, examples, &range, batch_tokens, which, text ? NULL : progress,
                       predictions, error);
    if (!status && text)
        status = generate_texts(runner, lane, examples, tokenizer, &range, batch_tokens, progress,
                                predictions, error);
    free(which);
    if (divided) status = zest_comm_agree(comm, status, error);
    if (!status && divided) status = zest_metric_gather(comm, examples, text, predictions, error);
    for (size_t i = 0; i < examples->count && !status; i++) record_scores(examples, i, predictions);
    if (status) zest_predictions_free(predictions);
    return status;
}

/* ---- Metrics of predictions ---- */

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
    } else if (examples->kind != ZEST_TASK_CHAT) {
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

/* ---- Error rate of a batch ---- */

double zest_metric_error(const zest_batch *batch, zest_metric metric, const double *scores) {
    const zest_model_objective *o = &batch->objective;
    size_t hits = 0, both = 0, predicted = 0, right = 0;
    if (o->kind == ZEST_LOSS_TOKENS || (metric != ZEST_METRIC_ACCURACY && metric != ZEST_METRIC_F1))
        return NAN;
    for (size_t i = 0; i < batch->count; i++) {
        size_t first = o->kind == ZEST_LOSS_LABEL_WORDS ? i * o->word_count : o->example_starts[i];
        size_t count = o->kind == ZEST_LOSS_LABEL_WORDS ? o->word_count : o->example_starts[i + 1] - first;
        uint32_t choice = zest_metric_choose(scores + first, count);
        hits += (size_t)is_right(batch->examples, batch->which[i], choice);
        both += choice == 1 && o->answers[i] == 1;
        predicted += choice == 1;
        right += o->answers[i] == 1;
    }
    if (metric == ZEST_METRIC_ACCURACY) return 1 - (double)hits / (double)batch->count;
    return both ? 1 - 2 * (double)both / (double)(predicted + right) : 1;
}

/* ---- Confidence intervals ---- */

enum { RESAMPLES = 2000 };

/* Wilson's score interval (1927). */
void zest_metric_wilson(double hits, double n, double *low, double *high) {
    static const double z = 1.959963984540054; /* quantile 0.975 of the normal distribution */
    if (!(n > 0)) {
        *low = *high = NAN;
        return;
    }
    double p = hits / n, centre = p + z * z / (2 * n), width = z * sqrt((p * (1 - p) + z * z / (4 * n)) / n);
    *low = (centre - width) / (1 + z * z / n);
    *high = (centre + width) / (1 + z * z / n);
    if (hits <= 0) *low = 0; /* exact values instead of rounded ones */
    if (hits >= n) *high = 1;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Quantiles 0.025 and 0.975, interpolated linearly. */
static void percentiles(double values[RESAMPLES], double *low, double *high) {
    double *out[2] = {low, high};
    qsort(values, RESAMPLES, sizeof *values, ascending);
    for (int i = 0; i < 2; i++) {
        double position = (i ? 0.975 : 0.025) * (RESAMPLES - 1);
        size_t below = (size_t)position;
        *out[i] = values[below] + (position - (double)below) * (values[below + 1] - values[below]);
    }
}

static zest_permutation resample(size_t number) {
    return (zest_permutation){.number = number, .stream = ZEST_EXAMPLES_RESAMPLE};
}

void zest_metric_bootstrap_mean(const double *values, size_t count, double *low, double *high) {
    double means[RESAMPLES];
    *low = *high = NAN;
    if (!count) return;
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i])) return;
    for (size_t r = 0; r < RESAMPLES; r++) {
        zest_permutation draw = resample(r);
        double sum = 0;
        for (size_t i = 0; i < count; i++) sum += values[zest_permutation_below(&draw, (uint32_t)count)];
        means[r] = sum / (double)count;
    }
    percentiles(means, low, high);
}

/* From the counts of true positives, and of predicted and actual positives. */
static double f1_of(size_t both, size_t predicted, size_t right) {
    return both ? 2 * (double)both / (double)(predicted + right) : 0;
}

double zest_metric_f1(const uint32_t *choice, const uint32_t *answers, size_t count) {
    size_t both = 0, predicted = 0, right = 0;
    for (size_t i = 0; i < count; i++) {
        both += choice[i] == 1 && answers[i] == 1;
        predicted += choice[i] == 1;
        right += answers[i] == 1;
    }
    return count ? f1_of(both, predicted, right) : NAN;
}

void zest_metric_bootstrap_f1(const uint32_t *choice, const uint32_t *answers, size_t count, double *low,
                              double *high) {
    double values[RESAMPLES];
    *low = *high = NAN;
    if (!count) return;
    for (size_t r = 0; r < RESAMPLES; r++) {
        zest_permutation draw = resample(r);
        size_t both = 0, predicted = 0, right = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t j = zest_permutation_below(&draw, (uint32_t)count);
            both += choice[j] == 1 && answers[j] == 1;
            predicted += choice[j] == 1;
            right += answers[j] == 1;
        }
        values[r] = f1_of(both, predicted, right);
    }
    percentiles(values, low, high);
}

/* ---- Comparison of texts, as in SQuAD's evaluation ---- */

static void replace_all(zest_buffer *text, const char *from, const char *to) {
    size_t from_size = strlen(from), to_size = strlen(to), out = 0, at = 0;
    while (at < text->size) { /* never gets longer */
        if (text->size - at >= from_size && !memcmp(text->data + at, from, from_size)) {
            memcpy(text->data + out, to, to_size);
            out += to_size;
            at += from_size;
        } else {
            text->data[out++] = text->data[at++];
        }
    }
    text->size = out;
    text->data[out] = 0;
}

void zest_metric_clean_up(zest_buffer *text) {
    static const char *const pairs[][2] = {{" .", "."},     {" ?", "?"},     {" !", "!"},   {" ,", ","},
                                           {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    static const zest_template_filter strip = {.kind = ZEST_TEMPLATE_STRIP};
    if (text->failed || !text->data) return;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) replace_all(text, pairs[i][0], pairs[i][1]);
    zest_template_apply_filter(&strip, NULL, text, 0);
}

static int is_punctuation(uint32_t code) {
    return code < 0x80 && code > ' ' && !((code | 32) >= 'a' && (code | 32) <= 'z') &&
           !(code >= '0' && code <= '9') && code != 0x7F;
}

/* \w of Python without "_", which is removed before. */
static int in_word(uint32_t code) {
    return (zest_unicode_class(code) & (ZEST_UNICODE_LETTER | ZEST_UNICODE_NUMBER)) != 0;
}

/* Lower case, without punctuation. */
static void write_plain(const char *text, size_t size, zest_buffer *out) {
    for (size_t at = 0; at < size;) {
        char bytes[4];
        uint32_t code;
        at += zest_unicode_read(text + at, &code);
        if (is_punctuation(code)) continue;
        zest_buffer_add(out, bytes, zest_unicode_write(zest_template_lower(code), bytes));
    }
}

static int is_article(const char *word, size_t size) {
    return (size == 1 && word[0] == 'a') || (size == 2 && !memcmp(word, "an", 2)) ||
           (size == 3 && !memcmp(word, "the", 3));
}

/* Replaces the words a, an and the by a space. */
static void write_without_articles(const char *text, size_t size, zest_buffer *out) {
    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t first = at, length = zest_unicode_read(text + at, &code);
        if (!in_word(code)) {
            zest_buffer_add(out, text + at, length);
            at += length;
            continue;
        }
        while (at < size && (length = zest_unicode_read(text + at, &code), in_word(code))) at += length;
        if (is_article(text + first, at - first))
            zest_buffer_add(out, " ", 1);
        else
            zest_buffer_add(out, text + first, at - first);
    }
}

/* Collapses white space. */
static void write_joined(const char *text, size_t size, zest_buffer *out) {
    int space = 0;
    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t length = zest_unicode_read(text + at, &code);
        if (zest_template_is_space(code)) {
            space = out->size > 0;
        } else {
            if (space) zest_buffer_add(out, " ", 1);
            zest_buffer_add(out, text + at, length);
            space = 0;
        }
        at += length;
    }
}

/* Appends the normalized text to the empty *out. 0: out of memory. */
static int normalise(const char *text, zest_buffer *out) {
    zest_buffer valid = {0}, plain = {0}, bare = {0};
    zest_unicode_repair(text, strlen(text), &valid);
    if (valid.data) write_plain(valid.data, valid.size, &plain);
    if (plain.data) write_without_articles(plain.data, plain.size, &bare);
    zest_buffer_text(out, "");
    if (bare.data) write_joined(bare.data, bare.size, out);
    int done = !valid.failed && !plain.failed && !bare.failed && !out->failed;
    zest_buffer_free(&valid);
    zest_buffer_free(&plain);
    zest_buffer_free(&bare);
    return done;
}

typedef struct {
    const char *at;
    size_t size;
} word;

/* Advances to the next word of a normalized text; 0: none. */
static int next_word(const char **text, word *w) {
    if (!**text) return 0;
    w->at = *text;
    w->size = strcspn(*text, " ");
    *text += w->size;
    *text += **text == ' ';
    return 1;
}

static size_t count_word(const char *text, word target) {
    size_t count = 0;
    for (word w; next_word(&text, &w);) count += w.size == target.size && !memcmp(w.at, target.at, w.size);
    return count;
}

/* F1 of two normalized texts as bags of words. */
static double bag_f1(const char *text, const char *gold) {
    size_t both = 0, mine = 0, right = 0;
    const char *at = text;
    word w;
    for (; next_word(&at, &w); mine++) {
        size_t before = 0, available = count_word(gold, w);
        const char *again = text;
        for (word v; again < w.at && next_word(&again, &v);)
            before += v.size == w.size && !memcmp(v.at, w.at, w.size);
        both += before < available; /* the first `available` of equal words match */
    }
    for (at = gold; next_word(&at, &w);) right++;
    if (!both) return 0;
    double precision = (double)both / (double)mine, recall = (double)both / (double)right;
    return 2 * precision * recall / (precision + recall);
}

static double equal(const char *text, const char *gold) { return strcmp(text, gold) == 0; }

static double best_of(const char *text, char *const *gold, size_t count,
                      double (*compare)(const char *, const char *)) {
    zest_buffer mine = {0}, right = {0};
    double best = 0;
    int done = normalise(text, &mine);
    for (size_t i = 0; i < count && gold[i] && done; i++) {
        right.size = 0;
        done = normalise(gold[i], &right);
        double value = done ? compare(mine.data, right.data) : 0;
        if (value > best) best = value;
    }
    zest_buffer_free(&mine);
    zest_buffer_free(&right);
    return done ? best : NAN;
}

double zest_metric_token_f1(const char *text, char *const *gold) {
    if (gold[0] && (!strcmp(gold[0], "CANNOTANSWER") || !strcmp(gold[0], "no answer")))
        return best_of(text, gold, 1, equal);
    return best_of(text, gold, SIZE_MAX, bag_f1);
}

double zest_metric_exact(const char *text, char *const *gold) { return best_of(text, gold, SIZE_MAX, equal); }
