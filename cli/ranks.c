/* Several processes of one command. All run the same code; their output is that of rank 0, and the end of one is the
 * end of all. */
#include <fcntl.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "optim/context.h"

static zest_comm *comm;   /* NULL: a process by itself */
static int has_failed;    /* with a message */
static char own_name[32]; /* "rank 2: " */

int zest_cli_ranks_is_silent(void) { return zest_comm_launched().rank > 0; }

zest_comm *zest_cli_ranks_comm(void) { return comm; }

void zest_cli_ranks_join(zest_ctx *ctx) {
    if (comm) ctx->comm = comm;
}

/* ---- Failures ---- */

/* The same failure on every rank, of an option say, is reported by the first, which ends all before the others speak. */
static void let_others_speak(void) {
    int before = comm->rank < 20 ? comm->rank : 20;
    struct timespec pause = {.tv_sec = before / 2, .tv_nsec = before % 2 * 500000000};
    (void)nanosleep(&pause, NULL);
}

int zest_cli_ranks_report(const char **before) {
    *before = "";
    has_failed = 1;
    if (!comm) return !zest_cli_ranks_is_silent();
    if (comm->agreed || !comm->rank) return !comm->rank; /* rank 0 speaks for all */
    let_others_speak();
    snprintf(own_name, sizeof own_name, "rank %d: ", comm->rank);
    *before = own_name;
    return 1;
}

/* ---- Threads and GPUs of a rank ---- */

/* The processors that this rank may use are divided among the ranks on its machine that may use the same. */
static zest_status share_processors(zest_error *error) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return ZEST_OK;
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    uint64_t own = zest_fingerprint_of(&set, sizeof set).hash ^ zest_fingerprint_of(host, strlen(host)).hash;
    uint64_t *all = malloc((size_t)comm->ranks * sizeof *all);
    if (!all) return zest_error_memory(error, "the ranks", (size_t)comm->ranks * sizeof *all);
    zest_status status = zest_comm_allgather_equal(comm, &own, sizeof own, all, error);
    int same = 0, threads = omp_get_max_threads();
    for (int r = 0; r < comm->ranks && !status; r++) same += all[r] == own;
    free(all);
    if (!status) omp_set_num_threads(threads / same > 1 ? threads / same : 1);
    return status;
}

enum { MAX_GPUS = 1024 };

/* Item i of "0,2,5"; its length, 0: there is none. */
static size_t item_at(const char *list, int i, const char **item) {
    for (; i && *list; i--) list += strcspn(list, ",") + (strchr(list, ',') != NULL);
    *item = list;
    return strcspn(list, ",");
}

/* Where a machine has several GPUs each rank gets one of them, in turn: the driver shows it no other. */
static void choose_gpu(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *item;
    char number[64];
    int count = 0;
    if (comm->local_ranks == 1) return;
    if (visible) {
        while (count < MAX_GPUS && item_at(visible, count, &item)) count++;
    } else {
        do snprintf(number, sizeof number, "/dev/nvidia%d", count);
        while (!access(number, F_OK) && ++count < MAX_GPUS);
    }
    if (count < 2) return;
    int own = comm->local_rank % count;
    size_t size = visible ? item_at(visible, own, &item) : 0;
    if (size >= sizeof number) return;
    if (visible)
        snprintf(number, sizeof number, "%.*s", (int)size, item);
    else
        snprintf(number, sizeof number, "%d", own);
    (void)setenv("CUDA_VISIBLE_DEVICES", number, 1);
}

/* ---- Running ---- */

static zest_status prepare(zest_options *options, zest_error *error) {
    int null = comm->rank ? open("/dev/null", O_WRONLY) : -1;
    comm->timeout = zest_options_number(options, ZEST_OPTION_RANK_TIMEOUT);
    if (null >= 0) {
        (void)dup2(null, STDOUT_FILENO);
        (void)close(null);
    }
    choose_gpu();
    uint64_t sends = zest_options_whole(options, ZEST_OPTION_BROADCAST);
    zest_status status = zest_comm_compare(comm, sends, "the settings of --broadcast", error);
    if (!status && comm->rank) status = zest_options_set_id(options, ZEST_OPTION_QUIET, "yes", error);
    return status || zest_options_whole(options, ZEST_OPTION_THREADS) ? status : share_processors(error);
}

/* A rank that failed by itself ends the others, which may be waiting for it. */
static int end(int code) {
    if (has_failed && !comm->agreed) {
        (void)fflush(stdout);
        comm->table->abort_all(comm, code);
    }
    comm->table->close(comm);
    comm = NULL;
    return code;
}

int zest_cli_ranks_run(const zest_command *command, zest_options *options, const zest_arguments *arguments,
                       zest_cli_ranks_function *run) {
    zest_comm_launch launch = zest_comm_launched();
    zest_error error = {0};
    if (launch.ranks == 1) return run(command, options, arguments);
    if (!command->ranks)
        return zest_output_failf(ZEST_ERROR_ARGUMENT,
                                 "zest %s works in one process, and %s has started %d; start it without %s",
                                 command->name, launch.launcher, launch.ranks, launch.launcher);
    zest_status status = zest_comm_open(&launch, &comm, &error);
    if (status) return zest_output_fail(status, error.message);
    status = prepare(options, &error);
    return end(status ? zest_output_fail(status, error.message) : run(command, options, arguments));
}

int zest_cli_ranks_sent(const zest_options *options) {
    return comm && comm->rank && zest_options_whole(options, ZEST_OPTION_BROADCAST);
}

zest_status zest_cli_ranks_share(zest_buffer *text, zest_error *error) {
    uint64_t size = text->size;
    if (!comm) return ZEST_OK;
    zest_status status = comm->table->broadcast(comm, &size, sizeof size, 0, error);
    char *data = status ? NULL : calloc(size + 1, 1);
    if (!status && !data) status = zest_error_memory(error, "standard input", size);
    if (!status && !comm->rank && size) memcpy(data, text->data, size);
    if (!status) status = zest_comm_broadcast_block(comm, data, size, error);
    if (!status && comm->rank) {
        zest_buffer_free(text);
        zest_buffer_add(text, data, size);
        if (text->failed) status = zest_error_memory(error, "standard input", size);
    }
    free(data);
    return status;
}
