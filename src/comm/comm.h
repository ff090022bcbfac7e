/* Processes that work on one command together. As in MPI each is a rank, and rank 0 alone writes files and results.
 *
 * One table of operations: a single process (comm.c), or the processes that mpirun or srun has started, by MPI
 * (comm_mpi.c). Whoever includes this file does not know which.
 *
 * All ranks make the same calls in the same order. An error of a call is one of all ranks, unless its text says
 * otherwise. */
#ifndef ZEST_COMM_COMM_H
#define ZEST_COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"

typedef struct zest_comm zest_comm;

typedef struct {
    /* sizes[r] bytes of each rank r, one after the other, into `all` of every rank. */
    zest_status (*allgather)(zest_comm *comm, const void *own, const size_t *sizes, void *all,
                             zest_error *error);
    /* to[r] bytes for each rank r, one after the other in `own`; from[r] bytes of each into `all` of this rank. */
    zest_status (*exchange)(zest_comm *comm, const void *own, const size_t *to, void *all, const size_t *from,
                            zest_error *error);
    /* `size` bytes of rank `root` into `data` of every rank. */
    zest_status (*broadcast)(zest_comm *comm, void *data, size_t size, int root, zest_error *error);
    void (*abort_all)(zest_comm *comm, int code); /* ends all ranks, whatever they do */
    void (*close)(zest_comm *comm);               /* frees it; all ranks, once each */
} zest_comm_table;

struct zest_comm {
    const zest_comm_table *table;
    int rank, ranks;
    int local_rank, local_ranks; /* among those on this machine */
    /* Seconds that a rank waits for another before the call is an error that names it; 0: for ever. */
    double timeout;
    uint64_t step; /* of the run, for messages; set by the trainer */
    int agreed;    /* the last error is known to all ranks: rank 0 reports it */
};

/* A process by itself. */
void zest_comm_alone(zest_comm *comm);

/* ---- Starting (launch.c, comm_mpi.c) ---- */

/* What the launcher says in the environment, before MPI is asked. */
typedef struct {
    int ranks; /* 1: this process was not started with others */
    int rank;
    const char *launcher; /* for messages: "mpirun" */
} zest_comm_launch;

zest_comm_launch zest_comm_launched(void);
/* The processes that were launched, by MPI, which may be opened once in a process. Close it with table->close. */
zest_status zest_comm_open(const zest_comm_launch *launch, zest_comm **comm, zest_error *error);
/* MPI as it was found when zest was built: "Open MPI", "MPICH"; NULL: built without. */
const char *zest_comm_library(void);

/* ---- Calls on top of the table (comm.c) ---- */

/* `size` bytes of every rank. */
zest_status zest_comm_allgather_equal(zest_comm *comm, const void *own, size_t size, void *all,
                                      zest_error *error);
/* A large block of rank 0, in chunks. */
zest_status zest_comm_broadcast_block(zest_comm *comm, void *data, size_t size, zest_error *error);

/* The status of the first rank that has none that is OK, with its message, on every rank. */
zest_status zest_comm_agree(zest_comm *comm, zest_status status, zest_error *error);
/* The error of rank `first`, on every rank; everywhere: all have failed. */
zest_status zest_comm_share_error(zest_comm *comm, int first, int everywhere, zest_error *error);
/* Compares a fingerprint that all ranks must have. what: "the weights", of the message, which names the ranks that
 * differ from most. */
zest_status zest_comm_compare(zest_comm *comm, uint64_t print, const char *what, zest_error *error);

/* The same where they have been gathered, (ranks). */
zest_status zest_comm_check_equal(zest_comm *comm, const uint64_t *prints, const char *what,
                                  zest_error *error);
/* The ranks that are marked, for a message: "2, 5 and 7". */
void zest_comm_name_ranks(const unsigned char *which, int ranks, zest_buffer *out);

/* ---- Sums of vectors ----
 *
 * A sum of the ranks' vectors in a certain order: each rank gets a slice of every vector, adds, and all gather the slices
 * of the sum. So a rank sends and receives two vectors, and not as many as there are ranks. */

/* Where the slice of a rank begins. */
size_t zest_comm_slice(const zest_comm *comm, size_t count, int rank);
/* Ranks 0 .. givers-1 give `count` floats each; every rank gets its slice of them, one after the other. */
zest_status zest_comm_give_slices(zest_comm *comm, const float *own, int givers, size_t count,
                                  float *received, zest_error *error);
/* Every rank's slice of `count` elements, to all. */
zest_status zest_comm_gather_slices(zest_comm *comm, const void *slice, size_t count, size_t element_size,
                                    void *all, zest_error *error);

/* ---- Division of work ---- */

/* Where the share of rank r of `total` units of work begins; that of rank `ranks` is the end of all. */
uint64_t zest_comm_share(uint64_t total, int rank, int ranks);

#endif
