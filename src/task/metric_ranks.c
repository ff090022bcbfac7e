/* Predictions on several ranks: each answers a range of the examples, and all get all answers. A prediction depends on
 * its example alone, so on the CPU it has the same bits for any number of ranks. */
#include <stdlib.h>
#include <string.h>

#include "task/metric.h"

/* ---- Shares ---- */

static uint64_t cost_of(const zest_examples *e, size_t i, int text) {
    uint64_t tokens = zest_batch_tokens(e, (uint32_t)i, ZEST_BATCH_SCORE);
    /* generation reads all weights once for each new token, which scoring does once for a batch */
    return text ? tokens + e->prompts[i].length + 4 * e->max_tokens : tokens;
}

zest_metric_range zest_metric_share(const zest_examples *e, int text, int rank, int ranks) {
    uint64_t all = 0, before = 0;
    for (size_t i = 0; i < e->count; i++) all += cost_of(e, i, text);
    uint64_t first = zest_comm_share(all, rank, ranks), end = zest_comm_share(all, rank + 1, ranks);
    zest_metric_range range = {e->count, e->count};
    for (size_t i = 0; i < e->count; i++) { /* an example belongs to the share that it begins in */
        if (before >= first && range.first == e->count) range.first = i;
        if (before >= end) {
            range.end = i;
            break;
        }
        before += cost_of(e, i, text);
    }
    if (range.first > range.end) range.first = range.end;
    return range;
}

/* ---- Gathering ---- */

/* A rank's answers as bytes: scores and losses; of texts also F1, exact match, lengths and the texts themselves. */
static void pack(const zest_metric_range *r, int text, const zest_predictions *p, zest_buffer *out) {
    size_t count = r->end - r->first;
    zest_buffer_add(out, p->scores + p->starts[r->first],
                    (p->starts[r->end] - p->starts[r->first]) * sizeof *p->scores);
    zest_buffer_add(out, p->losses + r->first, count * sizeof *p->losses);
    if (!text) return;
    zest_buffer_add(out, p->f1 + r->first, count * sizeof *p->f1);
    zest_buffer_add(out, p->em + r->first, count * sizeof *p->em);
    for (size_t i = r->first; i < r->end; i++) zest_buffer_add(out, p->texts[i], strlen(p->texts[i]) + 1);
}

/* Takes `size` bytes from *at; 0: there are fewer. */
static int take(const char **at, const char *end, void *out, size_t size) {
    if ((size_t)(end - *at) < size) return 0;
    memcpy(out, *at, size);
    *at += size;
    return 1;
}

static int take_texts(const zest_metric_range *r, const char **at, const char *end, zest_predictions *p) {
    for (size_t i = r->first; i < r->end; i++) {
        const char *stop = memchr(*at, '\0', (size_t)(end - *at));
        char *copy = stop ? strdup(*at) : NULL;
        if (!copy) return 0;
        free(p->texts[i]);
        p->texts[i] = copy;
        *at = stop + 1;
    }
    return 1;
}

static int unpack(const zest_metric_range *r, int text, const char *at, size_t size, zest_predictions *p) {
    const char *end = at + size;
    size_t count = r->end - r->first;
    int whole = take(&at, end, p->scores + p->starts[r->first],
                     (p->starts[r->end] - p->starts[r->first]) * sizeof *p->scores) &&
                take(&at, end, p->losses + r->first, count * sizeof *p->losses);
    if (!text) return whole;
    return whole && take(&at, end, p->f1 + r->first, count * sizeof *p->f1) &&
           take(&at, end, p->em + r->first, count * sizeof *p->em) && take_texts(r, &at, end, p);
}

/* sizes: (ranks). */
static zest_status exchange(zest_comm *comm, const zest_examples *e, int text, const zest_buffer *own,
                            size_t *sizes, zest_predictions *p, zest_error *error) {
    zest_status status = zest_comm_allgather_equal(comm, &own->size, sizeof own->size, sizes, error);
    size_t sum = 0;
    for (int i = 0; i < comm->ranks && !status; i++) sum += sizes[i];
    char *all = status ? NULL : malloc(sum + 1);
    if (!status && !all) status = zest_error_memory(error, "predictions", sum);
    if (!status) status = comm->table->allgather(comm, own->data ? own->data : "", sizes, all, error);
    for (size_t i = 0, at = 0; i < (size_t)comm->ranks && !status; at += sizes[i++]) {
        zest_metric_range r = zest_metric_share(e, text, (int)i, comm->ranks);
        if (!unpack(&r, text, all + at, sizes[i], p))
            status = zest_error_set(error, ZEST_ERROR_STATE, "the answers of rank %zu are not complete", i);
    }
    free(all);
    return status;
}

zest_status zest_metric_gather(zest_comm *comm, const zest_examples *e, int text, zest_predictions *p,
                               zest_error *error) {
    zest_metric_range range = zest_metric_share(e, text, comm->rank, comm->ranks);
    zest_buffer own = {0};
    size_t *sizes = malloc((size_t)comm->ranks * sizeof *sizes);
    pack(&range, text, p, &own);
    zest_status status = sizes && !own.failed ? exchange(comm, e, text, &own, sizes, p, error)
                                              : zest_error_memory(error, "predictions", own.size);
    zest_buffer_free(&own);
    free(sizes);
    return status;
}
