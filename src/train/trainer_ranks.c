/* A training run on several ranks. Each computes a share of a step's losses; all gather them, and make the same update.
 * Weights are not exchanged, but for the start of a resumed run and its end.
 *
 * The lanes of a step come in pairs, which share their noise. The pairs, each with the tokens of the batch, are laid
 * end to end and cut into equal shares: a rank gets whole pairs, and at both ends a part of the batch of a pair. A
 * loss depends on nothing but the example and the lane, and the losses of a lane are added in the order of the
 * examples after they are gathered: so on the CPU the run does not depend on the number of ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "train/trainer_internal.h"

enum { INTERRUPTED = 1, TIME_OVER = 2 }; /* flags of a rank */
enum { COMPARE_EVERY = 100 };            /* steps after which the weights are compared */

/* What a rank says with its losses. */
typedef struct {
    uint64_t step;
    uint64_t losses; /* fingerprint of those of the step before */
    uint32_t flags;
    int32_t status; /* of its share of the losses */
} step_head;

struct zest_trainer_ranks {
    uint64_t *costs;  /* (examples + 1): tokens of the batch before an example */
    size_t *starts;   /* (examples + 1): values of a lane before an example */
    size_t *sizes;    /* (ranks): bytes */
    uint64_t *prints; /* (ranks) */
    size_t capacity;  /* examples */
    char *own, *all;  /* heads and values: of this rank, of all */
    size_t own_capacity, all_capacity;
    double *scratch; /* losses, where scores are wanted */
    size_t scratch_capacity;
    zest_batch batch; /* a part of the batch */
    uint64_t losses;  /* fingerprint of those of the latest step */
    unsigned flags;   /* of all ranks, in the latest step */
};

void zest_trainer_ranks_free(zest_trainer *t) {
    zest_trainer_ranks *r = t->ranks;
    t->ranks = NULL;
    if (!r) return;
    zest_batch_free(&r->batch);
    free(r->costs);
    free(r->starts);
    free(r->sizes);
    free(r->prints);
    free(r->own);
    free(r->all);
    free(r->scratch);
    free(r);
}

static zest_status new_ranks(zest_trainer *t) {
    size_t count = (size_t)t->comm->ranks;
    zest_trainer_ranks *r = t->ranks = calloc(1, sizeof *r);
    if (r) r->sizes = malloc(count * sizeof *r->sizes);
    if (r) r->prints = malloc(count * sizeof *r->prints);
    return r && r->sizes && r->prints ? ZEST_OK : zest_error_memory(t->error, "the ranks", count * 16);
}

/* ---- Shares ---- */

/* Lanes of whole pairs on some of the examples. */
typedef struct {
    size_t lane, lanes, first, end;
} piece;

typedef struct {
    const uint64_t *costs;
    size_t pairs, examples;
} line;

typedef struct {
    size_t pair, example;
} place;

/* The boundary between examples that is nearest to a point of the line. */
static place nearest(const line *l, uint64_t at) {
    uint64_t cost = l->costs[l->examples], rest = at % cost;
    size_t low = 0, high = l->examples; /* costs[low] <= rest < costs[high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (l->costs[middle] <= rest)
            low = middle;
        else
            high = middle;
    }
    size_t example = rest - l->costs[low] > l->costs[high] - rest ? high : low;
    return example == l->examples ? (place){(size_t)(at / cost) + 1, 0}
                                  : (place){(size_t)(at / cost), example};
}

/* The share of a rank: at most three pieces. Returns their number. */
static int share_of(const line *l, int rank, int ranks, piece out[3]) {
    uint64_t all = l->costs[l->examples] * l->pairs;
    place from = nearest(l, zest_comm_share(all, rank, ranks)),
          to = nearest(l, zest_comm_share(all, rank + 1, ranks));
    int count = 0;
    if (from.pair == to.pair) {
        if (from.example < to.example) out[count++] = (piece){2 * from.pair, 2, from.example, to.example};
        return count;
    }
    if (from.example) out[count++] = (piece){2 * from.pair++, 2, from.example, l->examples};
    if (from.pair < to.pair) out[count++] = (piece){2 * from.pair, 2 * (to.pair - from.pair), 0, l->examples};
    if (to.example) out[count++] = (piece){2 * to.pair, 2, 0, to.example};
    return count;
}

static size_t values_of(const zest_trainer_ranks *r, const piece *pieces, int count) {
    size_t values = 0;
    for (int i = 0; i < count; i++)
        values += pieces[i].lanes * (r->starts[pieces[i].end] - r->starts[pieces[i].first]);
    return values;
}

/* ---- Memory ---- */

static zest_status reserve(char **bytes, size_t *capacity, size_t size, zest_error *error) {
    if (size <= *capacity) return ZEST_OK;
    free(*bytes);
    *bytes = malloc(size);
    *capacity = *bytes ? size : 0;
    return *bytes ? ZEST_OK : zest_error_memory(error, "the losses of the ranks", size);
}

static zest_status reserve_numbers(double **numbers, size_t *capacity, size_t count, zest_error *error) {
    char *bytes = (char *)*numbers;
    size_t size = *capacity * sizeof **numbers;
    zest_status status = reserve(&bytes, &size, count * sizeof **numbers, error);
    *numbers = (double *)(void *)bytes;
    *capacity = size / sizeof **numbers;
    return status;
}

/* The values of an example before each: losses, or scores where an objective is made of them. */
static void count_values(zest_trainer *t, int scored) {
    zest_trainer_ranks *r = t->ranks;
    const zest_batch *b = &t->batch;
    const zest_model_objective *o = &b->objective;
    zest_batch_purpose purpose = scored ? ZEST_BATCH_SCORE : ZEST_BATCH_TRAIN;
    r->costs[0] = r->starts[0] = 0;
    for (size_t e = 0; e < b->count; e++) {
        size_t first, each = t->tuner->step.each,
                      width = each                                    ? each
                              : scored && o->kind != ZEST_LOSS_TOKENS ? zest_loss_choices(o, e, &first)
                                                                      : 1;
        r->starts[e + 1] = r->starts[e] + width;
        r->costs[e + 1] = r->costs[e] + zest_batch_tokens(b->examples, b->which[e], purpose);
    }
}

static zest_status plan(zest_trainer *t, int scored) {
    zest_trainer_ranks *r = t->ranks;
    size_t count = t->batch.count + 1;
    if (count > r->capacity) {
        free(r->costs);
        free(r->starts);
        r->costs = malloc(count * sizeof *r->costs);
        r->starts = malloc(count * sizeof *r->starts);
        r->capacity = r->costs && r->starts ? count : 0;
        if (!r->capacity) return zest_error_memory(t->error, "the shares of the ranks", count * 16);
    }
    count_values(t, scored);
    return ZEST_OK;
}

/* ---- A step ---- */

/* Losses or scores of a piece, (lanes, values), to *out, which moves on. */
static zest_status compute_piece(zest_trainer *t, const piece *p, int scored, double **out) {
    zest_trainer_ranks *r = t->ranks;
    const zest_batch *whole = &t->batch;
    const zest_model_objective *objective = &whole->objective;
    size_t examples = p->end - p->first, values = p->lanes * (r->starts[p->end] - r->starts[p->first]);
    zest_status status = ZEST_OK;
    if (t->tuner->step.each) {
        double *plus = *out;
        *out += values;
        return zest_trainer_example_piece(t, p->first, p->end, plus, plus + values / 2);
    }
    if (examples < whole->count) {
        status = zest_batch_make(&r->batch, whole->examples, whole->which + p->first, examples,
                                 scored ? ZEST_BATCH_SCORE : ZEST_BATCH_TRAIN, t->error);
        objective = &r->batch.objective;
    }
    if (!status && scored)
        status = reserve_numbers(&r->scratch, &r->scratch_capacity, p->lanes * examples, t->error);
    if (!status)
        status = zest_model_losses(t->loaded.runner, t->lanes + p->lane, p->lanes, objective,
                                   scored ? r->scratch : *out, NULL, scored ? *out : NULL, t->error);
    *out += values;
    return status;
}

/* Puts a rank's values, piece by piece, where they belong in (lanes, values). */
static void place_values(const zest_trainer_ranks *r, const piece *pieces, int count, size_t width,
                         const double *values, double *out) {
    for (int i = 0; i < count; i++) {
        size_t first = r->starts[pieces[i].first], own = r->starts[pieces[i].end] - first;
        for (size_t l = 0; l < pieces[i].lanes; l++, values += own)
            memcpy(out + (pieces[i].lane + l) * width + first, values, own * sizeof *out);
    }
}

/* What the ranks said besides their values: the first that failed, and whether all are in the same step of the same
 * run. */
static zest_status check_heads(zest_trainer *t) {
    zest_trainer_ranks *r = t->ranks;
    int first = -1, failed = 0;
    uint64_t *steps = r->prints;
    const char *at = r->all;
    r->flags = 0;
    for (int i = 0; i < t->comm->ranks; at += r->sizes[i++]) {
        step_head head;
        memcpy(&head, at, sizeof head);
        failed += head.status != 0;
        if (head.status && first < 0) first = i;
        r->flags |= i ? head.flags & (unsigned)~TIME_OVER : head.flags; /* rank 0 has the clock */
        steps[i] = head.step;
    }
    if (failed) return zest_comm_share_error(t->comm, first, failed == t->comm->ranks, t->error);
    zest_status status = zest_comm_check_equal(t->comm, steps, "the step", t->error);
    at = r->all;
    for (int i = 0; i < t->comm->ranks; at += r->sizes[i++]) {
        step_head head;
        memcpy(&head, at, sizeof head);
        r->prints[i] = head.losses;
    }
    return status ? status
                  : zest_comm_check_equal(t->comm, r->prints, "the losses of the step before", t->error);
}

static unsigned own_flags(const zest_trainer *t) {
    double limit = zest_options_number(t->options, ZEST_OPTION_SECONDS);
    int over = limit > 0 && zest_clock_now() - t->began >= limit;
    return (t->hooks->stop && *t->hooks->stop ? INTERRUPTED : 0) | (over ? TIME_OVER : 0);
}

/* Bytes of every rank, and of all. */
static size_t measure(const zest_trainer *t, const line *l) {
    piece pieces[3];
    size_t sum = 0;
    for (int i = 0; i < t->comm->ranks; i++) {
        int count = share_of(l, i, t->comm->ranks, pieces);
        size_t size = sizeof(step_head) + values_of(t->ranks, pieces, count) * sizeof(double);
        sum += t->ranks->sizes[i] = size;
    }
    return sum;
}

/* This rank's share, after its head in r->own. */
static zest_status compute_share(zest_trainer *t, const line *l, int scored) {
    piece pieces[3];
    int count = share_of(l, t->comm->rank, t->comm->ranks, pieces);
    double *out = (double *)(void *)(t->ranks->own + sizeof(step_head));
    zest_status status = ZEST_OK;
    for (int i = 0; i < count && !status; i++) status = compute_piece(t, &pieces[i], scored, &out);
    return status;
}

_Static_assert(sizeof(step_head) % sizeof(double) == 0, "values follow the head");

/* All ranks say what is in their r->own, (head, values), of r->sizes bytes. status: of this rank's values. */
static zest_status speak(zest_trainer *t, zest_status status) {
    zest_trainer_ranks *r = t->ranks;
    step_head head = {
        .step = t->step + 1, .losses = r->losses, .flags = own_flags(t), .status = (int32_t)status};
    zest_error gathering = {0}; /* one's own message stays */
    t->comm->step = t->step + 1;
    memcpy(r->own, &head, sizeof head);
    status = t->comm->table->allgather(t->comm, r->own, r->sizes, r->all, &gathering);
    return status ? zest_error_set(t->error, status, "%s", gathering.message) : check_heads(t);
}

static zest_status reserve_all(zest_trainer *t, size_t all) {
    zest_trainer_ranks *r = t->ranks;
    zest_status status = reserve(&r->own, &r->own_capacity, r->sizes[t->comm->rank], t->error);
    return status ? status : reserve(&r->all, &r->all_capacity, all, t->error);
}

zest_status zest_trainer_gather_losses(zest_trainer *t, size_t lanes, int scored, double *out) {
    zest_status status = t->ranks ? ZEST_OK : new_ranks(t);
    if (!status) status = plan(t, scored);
    if (status) return status;
    zest_trainer_ranks *r = t->ranks;
    line l = {r->costs, lanes / 2, t->batch.count};
    status = reserve_all(t, measure(t, &l));
    if (status) return status;
    status = speak(t, compute_share(t, &l, scored));
    const char *at = r->all;
    for (int i = 0; i < t->comm->ranks && !status; at += r->sizes[i++]) {
        piece pieces[3];
        int count = share_of(&l, i, t->comm->ranks, pieces);
        place_values(r, pieces, count, r->starts[l.examples],
                     (const double *)(const void *)(at + sizeof(step_head)), out);
    }
    if (!status) zest_trainer_ranks_note(t, out, lanes * r->starts[l.examples]);
    return status;
}

void zest_trainer_ranks_note(zest_trainer *t, const double *losses, size_t count) {
    t->ranks->losses = zest_fingerprint_of(losses, count * sizeof *losses).hash;
}

zest_status zest_trainer_gather_values(zest_trainer *t, zest_status status, const double *own,
                                       const size_t *counts, double *out) {
    zest_status made = t->ranks ? ZEST_OK : new_ranks(t);
    if (made) return made;
    zest_trainer_ranks *r = t->ranks;
    size_t all = 0;
    for (int i = 0; i < t->comm->ranks; i++)
        all += r->sizes[i] = sizeof(step_head) + counts[i] * sizeof(double);
    made = reserve_all(t, all);
    if (made) return made;
    if (counts[t->comm->rank]) memcpy(r->own + sizeof(step_head), own, counts[t->comm->rank] * sizeof *own);
    status = speak(t, status);
    const char *at = r->all;
    for (int i = 0; i < t->comm->ranks && !status; out += counts[i], at += r->sizes[i], i++)
        if (counts[i]) memcpy(out, at + sizeof(step_head), counts[i] * sizeof *out);
    return status;
}

int zest_trainer_ranks_stop(const zest_trainer *t, zest_trained_reason *reason) {
    unsigned flags = t->ranks ? t->ranks->flags : 0;
    if (flags & INTERRUPTED) return *reason = ZEST_TRAINED_INTERRUPTED, 1;
    if (flags & TIME_OVER) return *reason = ZEST_TRAINED_TIME, 1;
    return 0;
}

/* ---- Comparing ---- */

static zest_status compare_weights(zest_trainer *t) {
    t->comm->step = t->step;
    zest_status status = zest_comm_agree(t->comm, zest_model_download(t->loaded.runner, t->error), t->error);
    return status ? status
                  : zest_comm_compare(t->comm, zest_params_fingerprint(&t->loaded.model->params),
                                      "the weights", t->error);
}

zest_status zest_trainer_compare_weights(zest_trainer *t, int always) {
    return t->comm->ranks > 1 && (always || t->step % COMPARE_EVERY == 0) ? compare_weights(t) : ZEST_OK;
}

/* Options that may differ: where things are, and how a rank computes. */
static int may_differ(zest_option_id id) {
    static const zest_option_id own[] = {
        ZEST_OPTION_MODEL,  ZEST_OPTION_TASK,    ZEST_OPTION_DATA,  ZEST_OPTION_CORPUS, ZEST_OPTION_LIVE,
        ZEST_OPTION_DEVICE, ZEST_OPTION_THREADS, ZEST_OPTION_QUIET, ZEST_OPTION_JSON,   ZEST_OPTION_RESUME};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i] == id) return 1;
    return (zest_option_row_at(id)->changes & ZEST_CHANGES_BY_SESSION) != 0;
}

static zest_status print_options(const zest_trainer *t, uint64_t *print) {
    zest_buffer text = {0};
    zest_buffer_text(&text, ZEST_VERSION "\n");
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (zest_option_row_at((zest_option_id)id)->users & t->users && !may_differ((zest_option_id)id))
            zest_buffer_format(&text, "%s=%s\n", zest_option_row_at((zest_option_id)id)->name,
                               zest_options_text(t->options, (zest_option_id)id));
    zest_status status = text.failed ? zest_error_memory(t->error, "the options", text.size) : ZEST_OK;
    if (!status) *print = zest_fingerprint_of(text.data, text.size).hash;
    zest_buffer_free(&text);
    return status;
}

static uint64_t print_examples(const zest_trainer *t) {
    uint64_t prints[3][4] = {{0}};
    for (int part = 0; part < 3; part++) {
        const zest_examples *e = &t->data.parts[part];
        if (!e->count) continue;
        prints[part][0] = e->count;
        prints[part][1] = zest_fingerprint_of(e->tokens, e->token_count * sizeof *e->tokens).hash;
        prints[part][2] = zest_fingerprint_of(e->texts, e->text_starts[e->count] * sizeof *e->texts).hash;
        prints[part][3] = zest_fingerprint_of(e->answers, e->count * sizeof *e->answers).hash;
    }
    return zest_fingerprint_of(prints, sizeof prints).hash;
}

/* Those that are not trained, too. */
static uint64_t print_weights(const zest_trainer *t) {
    const zest_model *model = t->loaded.model;
    zest_params all = {model->tensors, model->tensor_count, model->params.dimension};
    return zest_params_fingerprint(&all);
}

zest_status zest_trainer_compare_start(zest_trainer *t, zest_status status) {
    uint64_t options = 0;
    if (t->comm->ranks == 1) return status;
    if (!status) status = print_options(t, &options);
    status = zest_comm_agree(t->comm, status, t->error);
    if (!status) status = zest_comm_compare(t->comm, options, "the options or the version of zest", t->error);
    if (!status) status = zest_comm_compare(t->comm, print_examples(t), "the examples", t->error);
    return status ? status : zest_comm_compare(t->comm, print_weights(t), "the weights", t->error);
}

/* ---- Sending weights and the state of a run ---- */

zest_status zest_trainer_send_weights(zest_trainer *t, const zest_loaded *loaded) {
    return zest_broadcast_weights(t->comm, loaded, t->sent.used, t->error);
}

/* What rank 0 has read from the folder of a run that goes on. */
typedef struct {
    uint64_t step, dropped, dev_step, best_step;
    int format, has_dev, first_of_equals;
    zest_divergence divergence;
    zest_metrics start, dev;
    double best, best_loss, earlier;
} run_state;

zest_status zest_trainer_send_state(zest_trainer *t) {
    run_state s = {.step = t->step,
                   .dropped = t->dropped,
                   .dev_step = t->dev_step,
                   .best_step = t->best_step,
                   .format = t->format,
                   .has_dev = t->has_dev,
                   .first_of_equals = t->first_of_equals,
                   .divergence = t->divergence,
                   .start = t->start,
                   .dev = t->dev,
                   .best = t->best,
                   .best_loss = t->best_loss,
                   .earlier = t->earlier};
    zest_status status = t->comm->table->broadcast(t->comm, &s, sizeof s, 0, t->error);
    if (status) return status;
    t->step = s.step;
    t->dropped = s.dropped;
    t->dev_step = s.dev_step;
    t->best_step = s.best_step;
    t->format = s.format;
    t->has_dev = s.has_dev;
    t->first_of_equals = s.first_of_equals;
    t->divergence = s.divergence;
    t->start = s.start;
    t->dev = s.dev;
    t->best = s.best;
    t->best_loss = s.best_loss;
    t->earlier = s.earlier;
    status = zest_trainer_send_weights(t, &t->loaded);
    return status ? status : zest_trainer_send_inputs(t);
}
