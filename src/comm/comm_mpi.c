/* Ranks by MPI. The library is loaded when a launcher has started several processes, so that a single process neither
 * needs it nor waits for it. It is the MPI whose headers zest was built with: Open MPI's and MPICH's binary interfaces
 * differ.
 *
 * No call waits in MPI: operations are started, and tested until they are done. So a rank that waits can ask the others
 * where they are, and name the one that does not answer. */
#ifdef ZEST_MPI

#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "comm/comm.h"

/* ---- The library ---- */

/* The functions that are called, under the names of the standard. */
/* clang-format off */
#define FUNCTIONS(X)                                                            \
    X(Init_thread) X(Initialized) X(Finalize) X(Abort) X(Error_string)          \
    X(Comm_rank) X(Comm_size) X(Comm_dup) X(Comm_free) X(Comm_split_type)       \
    X(Comm_set_errhandler) X(Iallgatherv) X(Ialltoallv) X(Ibcast) X(Test) X(Iprobe) X(Send) X(Recv)
/* clang-format on */

typedef struct {
    zest_comm comm;
    void *library;
#define POINTER(name) __typeof__(MPI_##name) *name;
    FUNCTIONS(POINTER)
#undef POINTER
    MPI_Comm world, questions; /* questions: for those of a rank that waits */
    MPI_Datatype byte;
    int *sizes, *offsets; /* of the ranks' blocks; (2 ranks): what is sent after what is received */
} mpi_comm;

/* Open MPI's handles are addresses of variables of its library, MPICH's are numbers. */
#ifdef OPEN_MPI
static const char *const libraries[] = {"libmpi.so.40", "libmpi.so"};
#define HANDLE(m, type, name) ((type)dlsym((m)->library, "ompi_mpi_" #name))
#define COMM_WORLD(m) HANDLE(m, MPI_Comm, comm_world)
#define BYTE(m) HANDLE(m, MPI_Datatype, byte)
#define ERRORS_RETURN(m) HANDLE(m, MPI_Errhandler, errors_return)
#define INFO_NULL(m) HANDLE(m, MPI_Info, info_null)
const char *zest_comm_library(void) { return "Open MPI"; }
#else
static const char *const libraries[] = {"libmpich.so.12", "libmpi.so.12", "libmpich.so", "libmpi.so"};
#define COMM_WORLD(m) MPI_COMM_WORLD
#define BYTE(m) MPI_BYTE
#define ERRORS_RETURN(m) MPI_ERRORS_RETURN
#define INFO_NULL(m) MPI_INFO_NULL
const char *zest_comm_library(void) { return "MPICH"; }
#endif

static int find_functions(mpi_comm *m) {
    int found = 1;
#define FIND(name) found &= (*(void **)&m->name = dlsym(m->library, "MPI_" #name)) != NULL;
    FUNCTIONS(FIND)
#undef FIND
    return found;
}

/* RTLD_GLOBAL: Open MPI's components look its symbols up by themselves. */
static zest_status load(mpi_comm *m, zest_error *error) {
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !m->library; i++)
        m->library = dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL);
    if (!m->library)
        return zest_error_set(error, ZEST_ERROR_STATE,
                              "%s of %s, with which zest was built, is not there; install it, or start zest "
                              "without a launcher",
                              libraries[0], zest_comm_library());
    if (!find_functions(m))
        return zest_error_set(error, ZEST_ERROR_STATE, "%s is no MPI 3 library", libraries[0]);
    return ZEST_OK;
}

static zest_status fail(const mpi_comm *m, int code, const char *what, zest_error *error) {
    char text[MPI_MAX_ERROR_STRING + 1] = "unknown error";
    int length = 0;
    (void)m->Error_string(code, text, &length);
    return zest_error_set(error, ZEST_ERROR_STATE, "MPI: %s failed in step %llu: %.400s", what,
                          (unsigned long long)m->comm.step, text);
}

/* ---- Waiting ---- */

enum { ASK = 1, ANSWER = 2 };              /* tags */
static const double grace = 3;             /* seconds in which a question is answered */
static const double first_question = 0.25; /* seconds of waiting after which questions are looked for */

static int send_empty(mpi_comm *m, int to, int tag) {
    return m->Send(NULL, 0, m->byte, to, tag, m->questions); /* so small that it is on its way at once */
}

/* Answers a question, if there is one. */
static void answer_question(mpi_comm *m) {
    MPI_Status from;
    int there = 0;
    if (m->Iprobe(MPI_ANY_SOURCE, ASK, m->questions, &there, &from) || !there) return;
    int asker = from.MPI_SOURCE;
    if (!m->Recv(NULL, 0, m->byte, asker, ASK, m->questions, &from)) (void)send_empty(m, asker, ANSWER);
}

static void nap(double seconds) {
    struct timespec pause = {.tv_nsec = (long)(1e9 * seconds)};
    (void)nanosleep(&pause, NULL);
}

/* Whose answers arrive while questions are answered, for the grace period or until `expected` are there. */
static int collect_answers(mpi_comm *m, unsigned char *silent, int expected) {
    double until = zest_clock_now() + grace;
    while (expected && zest_clock_now() < until) {
        MPI_Status from;
        int there = 0;
        answer_question(m);
        if (m->Iprobe(MPI_ANY_SOURCE, ANSWER, m->questions, &there, &from)) break;
        if (!there) {
            nap(1e-3);
            continue;
        }
        int source = from.MPI_SOURCE;
        if (m->Recv(NULL, 0, m->byte, source, ANSWER, m->questions, &from)) break;
        expected -= silent[source];
        silent[source] = 0;
    }
    return expected;
}

/* This rank has waited for too long. Rank 0 asks all others where they are, the others ask rank 0. Those that wait as
 * well answer. *goes_on: rank 0 waits, and will find out which rank is missing. */
static zest_status find_silent(mpi_comm *m, double waited, int *goes_on, zest_error *error) {
    int ranks = m->comm.ranks, asked = 0;
    unsigned char *silent = calloc((size_t)ranks, 1);
    zest_buffer names = {0};
    *goes_on = 0;
    if (!silent) return zest_error_memory(error, "the ranks", (size_t)ranks);
    for (int r = 0; r < ranks; r++)
        if (r != m->comm.rank && (!m->comm.rank || !r)) asked += silent[r] = !send_empty(m, r, ASK);
    int missing = collect_answers(m, silent, asked);
    zest_comm_name_ranks(silent, ranks, &names);
    free(silent);
    *goes_on = m->comm.rank && !missing;
    zest_status status = ZEST_OK;
    if (missing)
        status = zest_error_set(error, ZEST_ERROR_STATE,
                                "rank%s %s did not come to step %llu within %.0f s and %s not answer: "
                                "hanging, or far slower than "
                                "the others (then give a longer --rank-timeout)",
                                missing > 1 ? "s" : "", names.data && !names.failed ? names.data : "?",
                                (unsigned long long)m->comm.step, waited, missing > 1 ? "do" : "does");
    else if (!*goes_on)
        status =
            zest_error_set(error, ZEST_ERROR_STATE,
                           "step %llu: the ranks have waited for each other for %.0f s; does the network "
                           "between them work?",
                           (unsigned long long)m->comm.step, waited);
    zest_buffer_free(&names);
    return status;
}

/* Between two tests. A thread of OpenMP may need the core, so waiting yields, and sleeps for a small part of the time
 * that it has taken already. Large blocks need the processor to move. */
static void pause_between(double waited, int large) {
    static const double shortest = 50e-6, longest = 200e-6;
    double pause = waited / 32;
    if (large || pause < shortest / 2)
        sched_yield();
    else
        nap(pause < longest ? pause : longest);
}

static zest_status wait_for(mpi_comm *m, MPI_Request *request, int large, const char *what,
                            zest_error *error) {
    double began = zest_clock_now(), answered = began;
    for (;;) {
        int done = 0, goes_on, code = m->Test(request, &done, MPI_STATUS_IGNORE);
        if (code) return fail(m, code, what, error);
        if (done) return ZEST_OK;
        double now = zest_clock_now();
        if (now - answered > first_question) {
            answer_question(m);
            answered = now - 0.9 * first_question;
        }
        if (m->comm.timeout > 0 && now - began > m->comm.timeout) {
            zest_status status = find_silent(m, now - began, &goes_on, error);
            if (status) return status;
            began = zest_clock_now();
        }
        pause_between(now - began, large);
    }
}

/* ---- The operations ---- */

enum { LARGE = 1 << 20 }; /* bytes */

/* Sizes and offsets as MPI takes them. */
static zest_status set_blocks(const size_t *sizes, int ranks, int *out, int *offsets, size_t *sum,
                              zest_error *error) {
    *sum = 0;
    for (int r = 0; r < ranks; r++) {
        offsets[r] = (int)*sum;
        out[r] = (int)sizes[r];
        *sum += sizes[r];
        if (sizes[r] > INT_MAX || *sum > INT_MAX)
            return zest_error_set(
                error, ZEST_ERROR_ARGUMENT,
                "the results of the ranks are more than 2 GiB in one piece; take a smaller batch");
    }
    return ZEST_OK;
}

static zest_status allgather(zest_comm *comm, const void *own, const size_t *sizes, void *all,
                             zest_error *error) {
    mpi_comm *m = (mpi_comm *)comm;
    MPI_Request request;
    size_t sum;
    zest_status status = set_blocks(sizes, comm->ranks, m->sizes, m->offsets, &sum, error);
    if (status) return status;
    int code = m->Iallgatherv(own, m->sizes[comm->rank], m->byte, all, m->sizes, m->offsets, m->byte,
                              m->world, &request);
    return code ? fail(m, code, "gathering", error) : wait_for(m, &request, sum > LARGE, "gathering", error);
}

static zest_status exchange(zest_comm *comm, const void *own, const size_t *to, void *all, const size_t *from,
                            zest_error *error) {
    mpi_comm *m = (mpi_comm *)comm;
    int *to_sizes = m->sizes + comm->ranks, *to_offsets = m->offsets + comm->ranks;
    MPI_Request request;
    size_t sent, received;
    zest_status status = set_blocks(from, comm->ranks, m->sizes, m->offsets, &received, error);
    if (!status) status = set_blocks(to, comm->ranks, to_sizes, to_offsets, &sent, error);
    if (status) return status;
    int code = m->Ialltoallv(own, to_sizes, to_offsets, m->byte, all, m->sizes, m->offsets, m->byte, m->world,
                             &request);
    return code ? fail(m, code, "exchanging", error)
                : wait_for(m, &request, sent + received > LARGE, "exchanging", error);
}

static zest_status broadcast(zest_comm *comm, void *data, size_t size, int root, zest_error *error) {
    mpi_comm *m = (mpi_comm *)comm;
    MPI_Request request;
    if (size > INT_MAX)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "a block of %zu bytes is too large to be sent",
                              size);
    int code = m->Ibcast(data, (int)size, m->byte, root, m->world, &request);
    return code ? fail(m, code, "broadcasting", error)
                : wait_for(m, &request, size > LARGE, "broadcasting", error);
}

static void abort_all(zest_comm *comm, int code) {
    mpi_comm *m = (mpi_comm *)comm;
    (void)m->Abort(m->world, code);
}

static void close_comm(zest_comm *comm) {
    mpi_comm *m = (mpi_comm *)comm;
    (void)m->Comm_free(&m->questions);
    (void)m->Finalize();
    free(m->sizes);
    free(m->offsets);
    free(m); /* the library stays: its handlers run when the process ends */
}

static const zest_comm_table table = {allgather, exchange, broadcast, abort_all, close_comm};

/* ---- Opening ---- */

/* Where this rank is among those on its machine. */
static int find_neighbours(mpi_comm *m) {
    MPI_Comm here;
    int code = m->Comm_split_type(m->world, MPI_COMM_TYPE_SHARED, m->comm.rank, INFO_NULL(m), &here);
    if (!code) code = m->Comm_rank(here, &m->comm.local_rank);
    if (!code) code = m->Comm_size(here, &m->comm.local_ranks);
    if (!code) code = m->Comm_free(&here);
    return code;
}

static zest_status start(mpi_comm *m, const zest_comm_launch *launch, zest_error *error) {
    int level, begun = 0, code = m->Initialized(&begun);
    if (begun) return zest_error_set(error, ZEST_ERROR_STATE, "MPI is open in this process already");
    if (!code) code = m->Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (code) return fail(m, code, "its start", error);
    m->world = COMM_WORLD(m);
    m->byte = BYTE(m);
    code = m->Comm_set_errhandler(m->world, ERRORS_RETURN(m));
    if (!code) code = m->Comm_rank(m->world, &m->comm.rank);
    if (!code) code = m->Comm_size(m->world, &m->comm.ranks);
    if (!code) code = m->Comm_dup(m->world, &m->questions);
    if (!code) code = find_neighbours(m);
    if (code) return fail(m, code, "its start", error);
    if (m->comm.ranks != launch->ranks)
        return zest_error_set(error, ZEST_ERROR_STATE,
                              "%s started %d processes, but %s, with which zest was built, sees %d: use the "
                              "launcher of %s",
                              launch->launcher, launch->ranks, zest_comm_library(), m->comm.ranks,
                              zest_comm_library());
    m->sizes = malloc(2 * (size_t)m->comm.ranks * sizeof *m->sizes);
    m->offsets = malloc(2 * (size_t)m->comm.ranks * sizeof *m->offsets);
    return m->sizes && m->offsets ? ZEST_OK
                                  : zest_error_memory(error, "the ranks", (size_t)m->comm.ranks * 16);
}

zest_status zest_comm_open(const zest_comm_launch *launch, zest_comm **comm, zest_error *error) {
    *comm = NULL;
    mpi_comm *m = calloc(1, sizeof *m);
    if (!m) return zest_error_memory(error, "MPI", sizeof *m);
    m->comm.table = &table;
    zest_status status = load(m, error);
    if (!status) status = start(m, launch, error);
    if (status) {
        free(m->sizes);
        free(m->offsets);
        free(m);
        return status;
    }
    *comm = &m->comm;
    return ZEST_OK;
}

#else

#include "comm/comm.h"

const char *zest_comm_library(void) { return NULL; }

zest_status zest_comm_open(const zest_comm_launch *launch, zest_comm **comm, zest_error *error) {
    *comm = NULL;
    return zest_error_set(
        error, ZEST_ERROR_STATE,
        "%s started %d processes, but this zest was built without MPI and cannot divide its "
        "work: build it where Open MPI or MPICH is installed (make deps), or start it alone",
        launch->launcher, launch->ranks);
}

#endif
