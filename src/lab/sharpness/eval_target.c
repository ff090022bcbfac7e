/* The model and the examples that sharpness is measured on: losses of perturbed weights in lanes, and
 * gradients. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sharpness/sharpness_internal.h"

#ifdef ZEST_GRAD
#include "grad/grad.h"
#endif

/* Tokens of a batch: enough that drawing the noise of a lane, once per batch, costs little. */
enum { BATCH_TOKENS = 4096 };
enum { RECOMPUTE_FROM = 1 << 25 }; /* parameters from which activations are recomputed instead of saved */

struct zest_eval_target {
    zest_eval_target_options o;
    const zest_model *model;
    /* grad_runner computes gradients; own: opened here, not the one that was loaded */
    zest_model_runner *grad_runner, *own;
    zest_vector_space space;
    zest_cpu cpu;
    uint32_t *which;
    size_t count;
    zest_batch *batches;
    double *weights; /* weight of each batch in the mean over all examples */
    size_t batch_count;
    double *losses; /* losses of a batch in each of `lanes` lanes, and the means of all batches */
    size_t max_tokens, lanes;
    float *point, *batch_grad; /* point of evaluation; gradient of one batch */
    float *received;           /* slices of the gradients of several ranks */
#ifdef ZEST_GRAD
    zest_grad *grad;
#endif
    const char *what;
    double done, all;
};

/* ---- Examples and batches ---- */

static zest_status choose(zest_eval_target *m, zest_error *error) {
    const zest_examples *e = m->o.examples;
    m->which = malloc((e->count + 1) * sizeof *m->which);
    if (!m->which) return zest_error_memory(error, "examples", e->count * sizeof *m->which);
    zest_permutation_fill(m->o.seed, 0, m->which, e->count);
    m->count = m->o.max_examples && m->o.max_examples < e->count ? m->o.max_examples : e->count;
    if (m->count) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "no examples to measure on");
}

/* The number that the mean of a batch is taken over. */
static double weight(const zest_batch *batch) {
    const zest_model_objective *o = &batch->objective;
    return o->kind == ZEST_LOSS_TOKENS ? (double)o->item_starts[o->items] : (double)batch->count;
}

static zest_status fill(zest_eval_target *m, zest_error *error) {
    double sum = 0;
    zest_status status = ZEST_OK;
    m->batches = calloc(m->count, sizeof *m->batches);
    m->weights = calloc(m->count, sizeof *m->weights);
    if (!m->batches || !m->weights) return zest_error_memory(error, "batches", m->count * sizeof *m->batches);
    for (size_t first = 0, end; first < m->count && !status; first = end) {
        size_t tokens = zest_batch_tokens(m->o.examples, m->which[first], ZEST_BATCH_TRAIN);
        for (end = first + 1; end < m->count; end++) {
            tokens += zest_batch_tokens(m->o.examples, m->which[end], ZEST_BATCH_TRAIN);
            if (tokens > BATCH_TOKENS) break;
        }
        zest_batch *batch = &m->batches[m->batch_count++];
        status =
            zest_batch_make(batch, m->o.examples, m->which + first, end - first, ZEST_BATCH_TRAIN, error);
        if (status) break;
        if (batch->count > m->max_tokens) m->max_tokens = batch->count;
        sum += m->weights[m->batch_count - 1] = weight(batch);
    }
    for (size_t b = 0; b < m->batch_count; b++) m->weights[b] /= sum;
    return status;
}

/* A device has one compute type: gradients of another precision need a second runner. */
static zest_status open_slopes(zest_eval_target *m, zest_error *error) {
    zest_device *device = zest_model_runner_device(m->o.loaded->runner);
    zest_model_runner_options run = {
        .compute = m->o.compute, .threads = m->o.threads, .device = ZEST_DEVICE_CUDA};
    zest_status status = ZEST_OK;
    if (m->o.gradients && device && device->compute != m->o.compute)
        status = zest_model_open_runner(m->model, &run, &m->own, error);
    m->grad_runner = m->own ? m->own : m->o.loaded->runner;
    m->space = (zest_vector_space){(size_t)m->model->params.dimension, zest_vector_ops_for(m->cpu),
                                   m->o.threads, zest_model_runner_device(m->grad_runner)};
    return status;
}

zest_status zest_eval_target_new(const zest_eval_target_options *options, zest_eval_target **measure,
                                 zest_error *error) {
    zest_eval_target *m = *measure = calloc(1, sizeof *m);
    if (!m) return zest_error_memory(error, "a measurement", sizeof *m);
    m->o = *options;
    m->model = options->loaded->model;
    m->what = "";
    zest_status status = zest_cpu_detect(&m->cpu, error);
    if (!status) status = open_slopes(m, error);
    if (!status) status = choose(m, error);
    return status ? status : fill(m, error);
}

void zest_eval_target_free(zest_eval_target *m) {
    if (!m) return;
    for (size_t b = 0; b < m->batch_count; b++) zest_batch_free(&m->batches[b]);
#ifdef ZEST_GRAD
    zest_grad_free(m->grad);
#endif
    free(m->batches);
    free(m->weights);
    free(m->which);
    free(m->losses);
    free(m->received);
    zest_vector_free(&m->space, m->point);
    zest_vector_free(&m->space, m->batch_grad);
    zest_model_runner_free(m->own); /* its device owned the two */
    free(m);
}

size_t zest_eval_target_examples(const zest_eval_target *m) { return m->count; }

int zest_eval_target_divides(const zest_eval_target *m) {
    return m->o.comm && m->o.comm->ranks > 1 && !m->space.device;
}

zest_vector_space zest_eval_target_space(const zest_eval_target *m) { return m->space; }

/* ---- Progress and interruption ---- */

void zest_eval_target_begin(zest_eval_target *m, const char *what, double passes) {
    m->what = what;
    m->done = 0;
    m->all = passes;
}

/* After `passes` passes over one batch. */
static zest_status advance(zest_eval_target *m, size_t batch, double passes, zest_error *error) {
    m->done += passes * m->weights[batch] * (m->o.comm ? m->o.comm->ranks : 1);
    if (m->o.on_progress) m->o.on_progress(m->o.user, m->what, m->done, m->all);
    if (m->o.stop && *m->o.stop)
        return zest_error_set(error, ZEST_ERROR_STATE, "interrupted; nothing was written");
    return ZEST_OK;
}

/* ---- Losses ---- */

/* Pairs of lanes first .. end-1 on batch b: the means of their losses. */
static zest_status measure_pairs(zest_eval_target *m, const zest_model_lane *lanes, size_t count, size_t b,
                                 size_t first, size_t end, double *means, zest_error *error) {
    size_t lane = 2 * first, here = (2 * end < count ? 2 * end : count) - lane;
    zest_status status = zest_model_losses(m->o.loaded->runner, lanes + lane, here, &m->batches[b].objective,
                                           m->losses, means, NULL, error);
    return status ? status : advance(m, b, (double)here, error);
}

/* Where a rank's share of the means begins. Units of work are pairs of lanes on a batch, batch by batch. */
static size_t means_before(const zest_eval_target *m, size_t count, int rank) {
    size_t pairs = (count + 1) / 2,
           unit = (size_t)zest_comm_share(pairs * m->batch_count, rank, m->o.comm->ranks);
    return unit / pairs * count + 2 * (unit % pairs);
}

static zest_status measure_share(zest_eval_target *m, const zest_model_lane *lanes, size_t count,
                                 double *means, zest_error *error) {
    size_t pairs = (count + 1) / 2, units = pairs * m->batch_count;
    size_t at = (size_t)zest_comm_share(units, m->o.comm->rank, m->o.comm->ranks),
           end = (size_t)zest_comm_share(units, m->o.comm->rank + 1, m->o.comm->ranks);
    zest_status status = ZEST_OK;
    while (at < end && !status) {
        size_t b = at / pairs, first = at % pairs, last = end - b * pairs < pairs ? end - b * pairs : pairs;
        status = measure_pairs(m, lanes, count, b, first, last, means, error);
        means += (2 * last < count ? 2 * last : count) - 2 * first;
        at = b * pairs + last;
    }
    return status;
}

/* The means of all lanes on all batches, (batches, lanes), of which every rank computes a share. */
static zest_status gather_means(zest_eval_target *m, const zest_model_lane *lanes, size_t count,
                                double *means, zest_error *error) {
    zest_comm *comm = m->o.comm;
    size_t all = m->batch_count * count, *sizes = malloc((size_t)comm->ranks * sizeof *sizes);
    double *own = malloc((all + 1) * sizeof *own);
    zest_status status = sizes && own ? ZEST_OK : zest_error_memory(error, "losses", all * sizeof *own);
    for (int r = 0; r < comm->ranks && !status; r++)
        sizes[r] = (means_before(m, count, r + 1) - means_before(m, count, r)) * sizeof *own;
    if (!status) status = measure_share(m, lanes, count, own, error);
    status = zest_comm_agree(comm, status, error);
    if (!status) status = comm->table->allgather(comm, own, sizes, means, error);
    free(sizes);
    free(own);
    return status;
}

static zest_status reserve_lanes(zest_eval_target *m, size_t count, zest_error *error) {
    if (count <= m->lanes) return ZEST_OK;
    size_t numbers = count * (m->max_tokens + m->batch_count);
    double *more = realloc(m->losses, numbers * sizeof *more);
    if (!more) return zest_error_memory(error, "losses", numbers * sizeof *more);
    m->losses = more;
    m->lanes = count;
    return ZEST_OK;
}

zest_status zest_eval_target_losses(void *user, const zest_model_lane *lanes, size_t count, double *losses,
                                    zest_error *error) {
    zest_eval_target *m = user;
    zest_status status = reserve_lanes(m, count, error);
    if (status) return status;
    double *means = m->losses + count * m->max_tokens; /* (batches, lanes) */
    int divided = m->o.comm && m->o.comm->ranks > 1;
    if (divided) status = gather_means(m, lanes, count, means, error);
    for (size_t b = 0; b < m->batch_count && !divided && !status; b++)
        status = measure_pairs(m, lanes, count, b, 0, (count + 1) / 2, means + b * count, error);
    for (size_t i = 0; i < count; i++) losses[i] = 0;
    for (size_t b = 0; b < m->batch_count && !status; b++)
        for (size_t i = 0; i < count; i++) losses[i] += m->weights[b] * means[b * count + i];
    return status;
}

/* ---- Gradients ---- */

#ifdef ZEST_GRAD

int zest_eval_target_has_gradients(void) { return 1; }

static zest_status prepare(zest_eval_target *m, zest_error *error) {
    size_t d = m->space.count;
    if (!m->point) m->point = zest_vector_floats(&m->space, 1);
    if (!m->batch_grad) m->batch_grad = zest_vector_floats(&m->space, 1);
    if (!m->point || !m->batch_grad)
        return zest_vector_no_memory(&m->space, "a gradient", 8 * (double)d, error);
    zest_grad_options options = {.compute = m->o.compute,
                                 .threads = m->o.threads,
                                 .recompute = d >= RECOMPUTE_FROM,
                                 .runner = m->grad_runner};
    if (m->grad) return ZEST_OK;
    return zest_grad_new(m->model, zest_ops_for(m->cpu), &options, &m->grad, error);
}

/* point = x, which the passes read */
static const zest_vector_table *read_weights(zest_eval_target *m) {
    const zest_vector_table *vectors = zest_vector_operations(&m->space);
    vectors->read(&m->space, zest_model_runner_params(m->grad_runner), m->point);
    return vectors;
}

/* m->batch_grad: of batch b at m->point. */
static zest_status batch_gradient(zest_eval_target *m, size_t b, zest_error *error) {
    zest_grad_job job = {.objective = &m->batches[b].objective,
                         .at = {.point = m->point},
                         .gradient = m->batch_grad,
                         .factor = 1};
    zest_vector_operations(&m->space)->clear(&m->space, m->batch_grad, sizeof *m->batch_grad);
    return zest_grad_losses(m->grad, &job, NULL, NULL, error);
}

enum { CHUNK = 1 << 22 }; /* elements that ranks exchange at once */

/* Batches first .. first+givers-1, one of each rank: this rank adds its slices of them to those of the sum, in the order
 * of the batches. */
static zest_status add_slices(zest_eval_target *m, size_t first, int givers, double factor, double *sum,
                              zest_error *error) {
    zest_comm *comm = m->o.comm;
    zest_status status = ZEST_OK;
    for (size_t at = 0; at < m->space.count && !status; at += CHUNK) {
        size_t chunk = m->space.count - at < CHUNK ? m->space.count - at : CHUNK,
               begin = zest_comm_slice(comm, chunk, comm->rank);
        zest_vector_space slice = m->space;
        slice.count = zest_comm_slice(comm, chunk, comm->rank + 1) - begin;
        status = zest_comm_give_slices(comm, m->batch_grad + at, givers, chunk, m->received, error);
        for (size_t r = 0; r < (size_t)givers && !status; r++)
            zest_vector_operations(&slice)->add(&slice, sum + at + begin, factor * m->weights[first + r],
                                                m->received + r * slice.count);
    }
    return status;
}

static zest_status gather_slices(zest_eval_target *m, double *sum, zest_error *error) {
    zest_comm *comm = m->o.comm;
    size_t most = m->space.count < CHUNK ? m->space.count : CHUNK;
    double *own = malloc(most * sizeof *own);
    zest_status status = own ? ZEST_OK : zest_error_memory(error, "a slice", most * sizeof *own);
    status = zest_comm_agree(comm, status, error);
    for (size_t at = 0; at < m->space.count && !status; at += CHUNK) {
        size_t chunk = m->space.count - at < CHUNK ? m->space.count - at : CHUNK,
               begin = zest_comm_slice(comm, chunk, comm->rank),
               count = zest_comm_slice(comm, chunk, comm->rank + 1) - begin;
        memcpy(own, sum + at + begin, count * sizeof *own);
        status = zest_comm_gather_slices(comm, own, chunk, sizeof *own, sum + at, error);
    }
    free(own);
    return status;
}

/* The batches over the ranks, with the bits of one process: a batch's gradient is computed by one rank, and added in the
 * order of the batches. */
static zest_status divided_gradient(zest_eval_target *m, double factor, double *sum, zest_error *error) {
    zest_comm *comm = m->o.comm;
    size_t chunk = m->space.count < CHUNK ? m->space.count : CHUNK;
    zest_status status = ZEST_OK;
    if (!m->received) m->received = malloc((chunk + (size_t)comm->ranks) * sizeof *m->received);
    if (!m->received) status = zest_error_memory(error, "a slice", chunk * sizeof *m->received);
    for (size_t b = 0; b < m->batch_count && !status; b += (size_t)comm->ranks) {
        size_t own = b + (size_t)comm->rank, left = m->batch_count - b;
        int givers = left < (size_t)comm->ranks ? (int)left : comm->ranks;
        if (own < m->batch_count) status = batch_gradient(m, own, error);
        if (own < m->batch_count && !status) status = advance(m, own, 3, error);
        status = zest_comm_agree(comm, status, error);
        if (!status) status = add_slices(m, b, givers, factor, sum, error);
    }
    return status ? status : gather_slices(m, sum, error);
}

zest_status zest_eval_target_gradient(void *user, const float *v, double scale, double factor, double *sum,
                                      zest_error *error) {
    zest_eval_target *m = user;
    zest_status status = prepare(m, error);
    if (zest_eval_target_divides(m)) status = zest_comm_agree(m->o.comm, status, error);
    if (status) return status;
    const zest_vector_table *vectors = read_weights(m);
    vectors->shift(&m->space, m->point, scale, v);
    if (zest_eval_target_divides(m)) return divided_gradient(m, factor, sum, error);
    for (size_t b = 0; b < m->batch_count && !status; b++) {
        status = batch_gradient(m, b, error);
        if (status) break;
        vectors->add(&m->space, sum, factor * m->weights[b], m->batch_grad);
        status = advance(m, b, 3, error);
    }
    return status ? status : zest_vector_check(&m->space, error);
}

zest_status zest_eval_target_at(zest_eval_target *m, const float *p, double a, const float *q, double b,
                                double *loss, zest_error *error) {
    zest_status status = prepare(m, error);
    if (zest_eval_target_divides(m)) status = zest_comm_agree(m->o.comm, status, error);
    if (status) return status;
    const zest_vector_table *vectors = read_weights(m);
    if (p) vectors->shift(&m->space, m->point, a, p);
    if (q) vectors->shift(&m->space, m->point, b, q);
    *loss = 0;
    for (size_t i = 0; i < m->batch_count && !status; i++) {
        double mean;
        zest_grad_job job = {.objective = &m->batches[i].objective, .at = {.point = m->point}};
        status = zest_grad_losses(m->grad, &job, NULL, &mean, error);
        if (!status) *loss += m->weights[i] * mean;
        if (!status) status = advance(m, i, 1, error);
    }
    /* every rank computes all of it, and may be interrupted */
    return zest_eval_target_divides(m) ? zest_comm_agree(m->o.comm, status, error) : status;
}

zest_status zest_eval_target_norm(zest_eval_target *m, double *norm, zest_error *error) {
    zest_status status = prepare(m, error);
    *norm = 0;
    if (status) return status;
    const zest_vector_table *vectors = read_weights(m);
    if (m->space.device)
        *norm = vectors->square(&m->space, m->point);
    else /* in one call: steps are chosen from these bits */
        for (size_t i = 0; i < m->space.count; i++) *norm += (double)m->point[i] * (double)m->point[i];
    *norm = sqrt(*norm);
    return zest_vector_check(&m->space, error);
}

#else

int zest_eval_target_has_gradients(void) { return 0; }

static zest_status refuse(zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_STATE, "this build has no gradients (GRAD=off)");
}

zest_status zest_eval_target_gradient(void *user, const float *v, double scale, double factor, double *sum,
                                      zest_error *error) {
    (void)user, (void)v, (void)scale, (void)factor, (void)sum;
    return refuse(error);
}

zest_status zest_eval_target_at(zest_eval_target *m, const float *p, double a, const float *q, double b,
                                double *loss, zest_error *error) {
    (void)m, (void)p, (void)a, (void)q, (void)b, (void)loss;
    return refuse(error);
}

zest_status zest_eval_target_norm(zest_eval_target *m, double *norm, zest_error *error) {
    (void)m, (void)norm;
    return refuse(error);
}

#endif

/* ---- Memory ---- */

double zest_eval_target_free_memory(const zest_eval_target *m) {
    zest_device *device = m->space.device;
    if (device) return (double)device->operations->device->available(device);
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    double kilobytes = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf", &kilobytes) == 1) break;
    if (file) fclose(file);
    return 1024 * kilobytes;
}
