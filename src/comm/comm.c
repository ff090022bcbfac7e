/* A single process; what all ranks agree on; shares of work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"

/* ---- A single process ---- */

static zest_status allgather_alone(zest_comm *comm, const void *own, const size_t *sizes, void *all,
                                   zest_error *error) {
    (void)comm, (void)error;
    if (sizes[0] && all != own) memmove(all, own, sizes[0]);
    return ZEST_OK;
}

static zest_status exchange_alone(zest_comm *comm, const void *own, const size_t *to, void *all,
                                  const size_t *from, zest_error *error) {
    (void)comm, (void)to, (void)error;
    if (from[0]) memmove(all, own, from[0]);
    return ZEST_OK;
}

static zest_status broadcast_alone(zest_comm *comm, void *data, size_t size, int root, zest_error *error) {
    (void)comm, (void)data, (void)size, (void)root, (void)error;
    return ZEST_OK;
}

static void abort_alone(zest_comm *comm, int code) { (void)comm, (void)code; }
static void close_alone(zest_comm *comm) { (void)comm; }

static const zest_comm_table alone = {allgather_alone, exchange_alone, broadcast_alone, abort_alone,
                                      close_alone};

void zest_comm_alone(zest_comm *comm) { *comm = (zest_comm){.table = &alone, .ranks = 1, .local_ranks = 1}; }

/* ---- Gathering and sending ---- */

zest_status zest_comm_allgather_equal(zest_comm *comm, const void *own, size_t size, void *all,
                                      zest_error *error) {
    size_t *sizes = malloc((size_t)comm->ranks * sizeof *sizes);
    if (!sizes)
        return zest_error_memory(error, "the sizes of the ranks", (size_t)comm->ranks * sizeof *sizes);
    for (int r = 0; r < comm->ranks; r++) sizes[r] = size;
    zest_status status = comm->table->allgather(comm, own, sizes, all, error);
    free(sizes);
    return status;
}

enum { CHUNK = 64 << 20 };

zest_status zest_comm_broadcast_block(zest_comm *comm, void *data, size_t size, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t at = 0; at < size && !status; at += CHUNK)
        status =
            comm->table->broadcast(comm, (char *)data + at, size - at < CHUNK ? size - at : CHUNK, 0, error);
    return status;
}

/* ---- Agreement ---- */

zest_status zest_comm_share_error(zest_comm *comm, int first, int everywhere, zest_error *error) {
    zest_error theirs = {0};
    if (comm->rank == first) theirs = *error;
    zest_status status = comm->table->broadcast(comm, &theirs, sizeof theirs, first, error);
    if (status) return status;
    theirs.message[sizeof theirs.message - 1] = '\0';
    comm->agreed = 1;
    return everywhere ? zest_error_set(error, theirs.status, "%s", theirs.message)
                      : zest_error_set(error, theirs.status, "rank %d: %.1000s", first, theirs.message);
}

zest_status zest_comm_agree(zest_comm *comm, zest_status status, zest_error *error) {
    if (comm->ranks == 1) return status;
    int32_t own = (int32_t)status, *all = malloc((size_t)comm->ranks * sizeof *all);
    if (!all) return zest_error_memory(error, "the ranks", (size_t)comm->ranks * sizeof *all);
    zest_error ignored, *to = status ? &ignored : error; /* an error of one's own keeps its message */
    zest_status gathered = zest_comm_allgather_equal(comm, &own, sizeof own, all, to);
    int first = -1, failed = 0;
    for (int r = 0; r < comm->ranks && !gathered; r++) {
        if (!all[r]) continue;
        failed++;
        if (first < 0) first = r;
    }
    free(all);
    if (gathered) return status ? status : gathered;
    return first < 0 ? ZEST_OK : zest_comm_share_error(comm, first, failed == comm->ranks, error);
}

/* ---- Comparison ---- */

static int count_of(const uint64_t *prints, int ranks, uint64_t print) {
    int count = 0;
    for (int r = 0; r < ranks; r++) count += prints[r] == print;
    return count;
}

/* The print that most ranks have; of equally many, that of the lowest rank. */
static uint64_t most_common(const uint64_t *prints, int ranks) {
    int best = 0;
    for (int r = 0; r < ranks; r++) {
        if (count_of(prints, ranks, prints[r]) > count_of(prints, ranks, prints[best])) best = r;
        if (count_of(prints, ranks, prints[best]) > ranks / 2) break;
    }
    return prints[best];
}

enum { NAMED = 8 }; /* ranks in a message */

/* "2", "2 and 5", "2, 5 and 7", "0, 1, 2, 3, 4, 5, 6, 7 and 12 more" */
void zest_comm_name_ranks(const unsigned char *which, int ranks, zest_buffer *out) {
    int left = 0, named = 0;
    for (int r = 0; r < ranks; r++) left += which[r] != 0;
    for (int r = 0; r < ranks && named < NAMED; r++) {
        if (!which[r]) continue;
        left--;
        zest_buffer_format(out, "%s%d", !named++ ? "" : left ? ", " : " and ", r);
    }
    if (left) zest_buffer_format(out, " and %d more", left);
}

static zest_status report_different(zest_comm *comm, const uint64_t *prints, const char *what,
                                    zest_error *error) {
    uint64_t usual = most_common(prints, comm->ranks);
    int different = comm->ranks - count_of(prints, comm->ranks, usual);
    unsigned char *which = calloc((size_t)comm->ranks, 1);
    zest_buffer names = {0};
    for (int r = 0; r < comm->ranks && which; r++) which[r] = prints[r] != usual;
    if (which) zest_comm_name_ranks(which, comm->ranks, &names);
    comm->agreed = 1;
    zest_status status = zest_error_set(
        error, ZEST_ERROR_STATE, "step %llu: %s of rank%s %s differ from those of the other %d",
        (unsigned long long)comm->step, what, different > 1 ? "s" : "",
        names.data && !names.failed ? names.data : "?", comm->ranks - different);
    zest_buffer_free(&names);
    free(which);
    return status;
}

zest_status zest_comm_check_equal(zest_comm *comm, const uint64_t *prints, const char *what,
                                  zest_error *error) {
    for (int r = 1; r < comm->ranks; r++)
        if (prints[r] != prints[0]) return report_different(comm, prints, what, error);
    return ZEST_OK;
}

zest_status zest_comm_compare(zest_comm *comm, uint64_t print, const char *what, zest_error *error) {
    if (comm->ranks == 1) return ZEST_OK;
    uint64_t *all = malloc((size_t)comm->ranks * sizeof *all);
    if (!all) return zest_error_memory(error, "the ranks", (size_t)comm->ranks * sizeof *all);
    zest_status status = zest_comm_allgather_equal(comm, &print, sizeof print, all, error);
    if (!status) status = zest_comm_check_equal(comm, all, what, error);
    free(all);
    return status;
}

/* ---- Sums of vectors ---- */

size_t zest_comm_slice(const zest_comm *comm, size_t count, int rank) {
    return (size_t)zest_comm_share(count, rank, comm->ranks);
}

static size_t slice_size(const zest_comm *comm, size_t count, int rank) {
    return zest_comm_slice(comm, count, rank + 1) - zest_comm_slice(comm, count, rank);
}

zest_status zest_comm_give_slices(zest_comm *comm, const float *own, int givers, size_t count,
                                  float *received, zest_error *error) {
    size_t *to = malloc(2 * (size_t)comm->ranks * sizeof *to), *from = to ? to + comm->ranks : NULL;
    if (!to) return zest_error_memory(error, "the ranks", 2 * (size_t)comm->ranks * sizeof *to);
    for (int r = 0; r < comm->ranks; r++) {
        to[r] = comm->rank < givers ? slice_size(comm, count, r) * sizeof *own : 0;
        from[r] = r < givers ? slice_size(comm, count, comm->rank) * sizeof *own : 0;
    }
    zest_status status = comm->table->exchange(comm, own, to, received, from, error);
    free(to);
    return status;
}

zest_status zest_comm_gather_slices(zest_comm *comm, const void *slice, size_t count, size_t element_size,
                                    void *all, zest_error *error) {
    size_t *sizes = malloc((size_t)comm->ranks * sizeof *sizes);
    if (!sizes) return zest_error_memory(error, "the ranks", (size_t)comm->ranks * sizeof *sizes);
    for (int r = 0; r < comm->ranks; r++) sizes[r] = slice_size(comm, count, r) * element_size;
    zest_status status = comm->table->allgather(comm, slice, sizes, all, error);
    free(sizes);
    return status;
}

/* ---- Division of work ---- */

/* floor(total * rank / ranks) without overflow */
uint64_t zest_comm_share(uint64_t total, int rank, int ranks) {
    uint64_t r = (uint64_t)rank, n = (uint64_t)ranks;
    return total / n * r + total % n * r / n;
}
