/* Gradients of a batch in parts, over the ranks: see trainer_parts.h. */
#ifdef ZEST_GRAD

#include "train/trainer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { CHUNK = 1 << 22 }; /* floats */

/* ---- Memory ---- */

static size_t own_slice(const zest_trainer_parts *p, size_t chunk) {
    const zest_comm *comm = p->trainer->comm;
    return zest_comm_slice(comm, chunk, comm->rank + 1) - zest_comm_slice(comm, chunk, comm->rank);
}

static size_t chunk_at(const zest_trainer_parts *p, size_t at) {
    return p->dimension - at < p->chunk ? p->dimension - at : p->chunk;
}

zest_status zest_trainer_parts_new(zest_trainer *t, const zest_optimizer_batch *batch,
                                   zest_trainer_parts *p) {
    size_t ranks = (size_t)t->comm->ranks;
    *p = (zest_trainer_parts){.trainer = t,
                              .batch = batch,
                              .parts = (size_t)zest_options_whole(t->options, ZEST_OPTION_ACCUMULATE),
                              .dimension = (size_t)t->loaded.model->params.dimension,
                              .chunk = CHUNK};
    for (size_t at = 0; at < p->dimension; at += p->chunk) p->sum_count += own_slice(p, chunk_at(p, at));
    p->received_count = ranks * own_slice(p, chunk_at(p, 0));
    p->own = malloc(p->dimension * sizeof *p->own);
    p->sum = malloc((p->sum_count + 1) * sizeof *p->sum);
    p->received = malloc((p->received_count + 1) * sizeof *p->received);
    p->counts = calloc(ranks, sizeof *p->counts);
    if (p->own && p->sum && p->received && p->counts) return ZEST_OK;
    return zest_error_memory(t->error, "the gradient of a part", p->dimension * sizeof *p->own);
}

void zest_trainer_parts_free(zest_trainer_parts *p) {
    free(p->own);
    free(p->sum);
    free(p->received);
    free(p->counts);
    free(p->losses);
    free(p->part_losses);
    *p = (zest_trainer_parts){0};
}

uint64_t zest_trainer_parts_memory(const zest_trainer_parts *p) {
    return (p->dimension + p->sum_count + p->received_count) * sizeof(float);
}

static zest_status reserve_losses(zest_trainer_parts *p, size_t examples, zest_error *error) {
    if (examples <= p->capacity) return ZEST_OK;
    free(p->losses);
    free(p->part_losses);
    p->losses = malloc(examples * sizeof *p->losses);
    p->part_losses = malloc(examples * sizeof *p->part_losses);
    p->capacity = p->losses && p->part_losses ? examples : 0;
    return p->capacity ? ZEST_OK : zest_error_memory(error, "losses", examples * sizeof *p->losses);
}

/* ---- One part ---- */

/* Where in the batch a part begins; that of part `parts` is the end. */
static size_t part_at(const zest_trainer_parts *p, size_t part) {
    size_t examples = zest_loss_examples(p->trainer->objective);
    return (size_t)zest_comm_share(examples, (int)(part < p->parts ? part : p->parts), (int)p->parts);
}

/* Losses of a part, and its share of the gradient of the batch's mean, which replaces p->own. */
static zest_status evaluate_part(zest_trainer_parts *p, size_t part, const zest_eval_point *at, size_t number,
                                 int with_gradient, zest_error *error) {
    zest_trainer *t = p->trainer;
    size_t first = part_at(p, part), count = part_at(p, part + 1) - first;
    zest_dropout dropout;
    zest_grad_job job = {.at = *at, .gradient = with_gradient ? p->own : NULL};
    if (with_gradient) memset(p->own, 0, p->dimension * sizeof *p->own);
    if (!count) return ZEST_OK;
    zest_status status = t->source->part(t, first, count, &job.objective);
    if (status) return status;
    if (p->batch->dropout) { /* masks of its own, from (seed, step, number, part) */
        dropout = *p->batch->dropout;
        dropout.seed = zest_seed(zest_seed(dropout.seed, p->batch->step, number), part, 0);
        job.dropout = &dropout;
    }
    job.factor = zest_loss_mean_divisor(job.objective) / zest_loss_mean_divisor(t->objective);
    return zest_grad_losses(p->batch->grad, &job, p->part_losses, NULL, error);
}

/* ---- Sums over ranks ---- */

/* Which part a rank has in a round; p->parts or more: none. */
static size_t part_of(const zest_trainer_parts *p, size_t round, int rank) {
    return round * (size_t)p->trainer->comm->ranks + (size_t)rank;
}

/* The gradients of a round, of one chunk: each rank gets its slice of all, and adds them in the order of the parts. */
static zest_status add_chunk(zest_trainer_parts *p, size_t round, size_t at, float *sum, zest_error *error) {
    zest_comm *comm = p->trainer->comm;
    size_t chunk = chunk_at(p, at), own = own_slice(p, chunk), left = p->parts - part_of(p, round, 0);
    int givers = left < (size_t)comm->ranks ? (int)left : comm->ranks;
    zest_status status = zest_comm_give_slices(comm, p->own + at, givers, chunk, p->received, error);
    for (int r = 0; r < givers && !status; r++)
        for (size_t i = 0; i < own; i++) sum[i] += p->received[(size_t)r * own + i];
    return status;
}

static zest_status add_round(zest_trainer_parts *p, size_t round, zest_error *error) {
    zest_status status = ZEST_OK;
    float *sum = p->sum;
    for (size_t at = 0; at < p->dimension && !status; at += p->chunk) {
        status = add_chunk(p, round, at, sum, error);
        sum += own_slice(p, chunk_at(p, at));
    }
    return status;
}

/* All slices, to p->own of every rank. */
static zest_status gather_sum(zest_trainer_parts *p, zest_error *error) {
    zest_status status = ZEST_OK;
    const float *sum = p->sum;
    for (size_t at = 0; at < p->dimension && !status; at += p->chunk) {
        size_t chunk = chunk_at(p, at);
        status = zest_comm_gather_slices(p->trainer->comm, sum, chunk, sizeof *sum, p->own + at, error);
        sum += own_slice(p, chunk);
    }
    return status;
}

/* ---- The batch ---- */

static zest_status evaluate_round(zest_trainer_parts *p, size_t round, const zest_eval_point *at,
                                  size_t number, int with_gradient, zest_error *error) {
    zest_trainer *t = p->trainer;
    size_t own = part_of(p, round, t->comm->rank), first = part_at(p, part_of(p, round, 0));
    zest_status status = ZEST_OK;
    if (own < p->parts) status = evaluate_part(p, own, at, number, with_gradient, error);
    for (int r = 0; r < t->comm->ranks; r++)
        p->counts[r] = part_at(p, part_of(p, round, r) + 1) - part_at(p, part_of(p, round, r));
    status = zest_trainer_gather_values(t, status, p->part_losses, p->counts, p->losses + first);
    return status || !with_gradient ? status : add_round(p, round, error);
}

zest_status zest_trainer_parts_evaluate(void *user, const zest_eval_point *at, size_t number, float *gradient,
                                        zest_grad_weigh *weigh, void *weigher, double *loss,
                                        zest_error *error) {
    zest_trainer_parts *p = user;
    const zest_model_objective *objective = p->trainer->objective;
    size_t examples = zest_loss_examples(objective);
    zest_status status = reserve_losses(p, examples, error);
    memset(p->sum, 0, p->sum_count * sizeof *p->sum);
    for (size_t round = 0; part_of(p, round, 0) < p->parts && !status; round++)
        status = evaluate_round(p, round, at, number, gradient != NULL, error);
    if (status) return status;
    zest_loss_means(objective, p->losses, 1, loss);
    zest_trainer_ranks_note(p->trainer, p->losses, examples);
    double factor = weigh ? weigh(weigher, *loss) : 1;
    if (!gradient || factor == 0) return ZEST_OK;
    status = gather_sum(p, error);
    for (size_t i = 0; i < p->dimension && !status; i++) gradient[i] += (float)(factor * (double)p->own[i]);
    return status;
}

#else
typedef int zest_trainer_parts_unused; /* a C file has at least one declaration */
#endif
