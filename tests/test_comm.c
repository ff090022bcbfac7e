/* What the ranks of a command agree on, and how they share work, with ranks that are played by one process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "tests/support.h"

/* ---- Shares ---- */

/* They cover the work without gaps, differ by at most one, and do not overflow. */
static void shares_cover_the_work(void **state) {
    (void)state;
    static const uint64_t totals[] = {0, 1, 7, 10000, UINT64_MAX};
    static const int counts[] = {1, 2, 3, 7, 64, 10000};
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            uint64_t total = totals[t], ranks = (uint64_t)counts[c];
            assert_true(zest_comm_share(total, 0, counts[c]) == 0);
            assert_true(zest_comm_share(total, counts[c], counts[c]) == total);
            for (int r = 0; r < counts[c]; r++) {
                uint64_t size =
                    zest_comm_share(total, r + 1, counts[c]) - zest_comm_share(total, r, counts[c]);
                assert_true(size == total / ranks || size == total / ranks + 1);
            }
        }
}

/* ---- Several ranks in one process: what each of them gives is known beforehand ---- */

typedef struct {
    zest_comm comm;
    const char *given; /* what all ranks give to the next gathering; NULL: all give the same */
    zest_error root;   /* what the root of a broadcast gives */
} played;

static zest_status gather_played(zest_comm *comm, const void *own, const size_t *sizes, void *all,
                                 zest_error *error) {
    played *p = (played *)comm;
    char *out = all;
    size_t at = 0;
    (void)error;
    for (int r = 0; r < comm->ranks; r++, at += sizes[r - 1])
        memcpy(out + at, p->given ? p->given + at : own, sizes[r]);
    return ZEST_OK;
}

static zest_status broadcast_played(zest_comm *comm, void *data, size_t size, int root, zest_error *error) {
    played *p = (played *)comm;
    (void)error;
    if (root != comm->rank) memcpy(data, &p->root, size);
    return ZEST_OK;
}

static const zest_comm_table table = {gather_played, NULL, broadcast_played, NULL, NULL};

static played play(int rank, int ranks, const void *given) {
    return (played){.comm = {.table = &table, .rank = rank, .ranks = ranks, .step = 41}, .given = given};
}

static void equal_prints_pass(void **state) {
    (void)state;
    zest_error error = {0};
    played p = play(1, 4, NULL);
    assert_int_equal(zest_comm_compare(&p.comm, 17, "the weights", &error), ZEST_OK);
    assert_false(p.comm.agreed);
}

static void differs(const uint64_t *prints, int ranks, const char *message) {
    zest_error error = {0};
    played p = play(0, ranks, prints);
    assert_int_equal(zest_comm_compare(&p.comm, prints[0], "the weights", &error), ZEST_ERROR_STATE);
    assert_string_equal(error.message, message);
    assert_true(p.comm.agreed);
}

/* The minority is named, whether rank 0 is in it or not; of a tie those that differ from rank 0. */
static void the_ranks_that_differ_are_named(void **state) {
    (void)state;
    differs((const uint64_t[]){5, 5, 6, 5}, 4,
            "step 41: the weights of rank 2 differ from those of the other 3");
    differs((const uint64_t[]){6, 5, 5}, 3,
            "step 41: the weights of rank 0 differ from those of the other 2");
    differs((const uint64_t[]){5, 6}, 2, "step 41: the weights of rank 1 differ from those of the other 1");
    differs((const uint64_t[]){5, 6, 7, 5, 5, 8, 5}, 7,
            "step 41: the weights of ranks 1, 2 and 5 differ from those of the other 4");
}

static void many_ranks_are_counted(void **state) {
    (void)state;
    unsigned char which[20];
    zest_buffer text = {0};
    memset(which, 1, sizeof which);
    zest_comm_name_ranks(which, 20, &text);
    assert_string_equal(text.data, "0, 1, 2, 3, 4, 5, 6, 7 and 12 more");
    zest_buffer_free(&text);
}

/* ---- Failures ---- */

static void a_failure_of_one_is_that_of_all(void **state) {
    (void)state;
    static const int32_t statuses[] = {ZEST_OK, ZEST_OK, ZEST_ERROR_FILE, ZEST_ERROR_MEMORY};
    zest_error error = {0};
    played p = play(0, 4, (const char *)statuses);
    zest_error_set(&p.root, ZEST_ERROR_FILE, "a.txt: is not there");
    assert_int_equal(zest_comm_agree(&p.comm, ZEST_OK, &error), ZEST_ERROR_FILE);
    assert_string_equal(error.message, "rank 2: a.txt: is not there");
    assert_true(p.comm.agreed);
}

/* The same on every rank: the ranks are not to blame, and not named. */
static void a_failure_of_all_names_no_rank(void **state) {
    (void)state;
    static const int32_t statuses[] = {ZEST_ERROR_ARGUMENT, ZEST_ERROR_ARGUMENT};
    zest_error error = {0};
    played p = play(1, 2, (const char *)statuses);
    zest_error_set(&p.root, ZEST_ERROR_ARGUMENT, "no such task");
    zest_error_set(&error, ZEST_ERROR_ARGUMENT, "no such task");
    assert_int_equal(zest_comm_agree(&p.comm, ZEST_ERROR_ARGUMENT, &error), ZEST_ERROR_ARGUMENT);
    assert_string_equal(error.message, "no such task");
}

static void a_process_by_itself_agrees(void **state) {
    (void)state;
    zest_comm alone;
    zest_error error = {0};
    zest_comm_alone(&alone);
    assert_int_equal(zest_comm_agree(&alone, ZEST_OK, &error), ZEST_OK);
    assert_int_equal(zest_comm_agree(&alone, ZEST_ERROR_FILE, &error), ZEST_ERROR_FILE);
    assert_int_equal(zest_comm_compare(&alone, 3, "the weights", &error), ZEST_OK);
    uint64_t own = 9, all = 0;
    assert_int_equal(zest_comm_allgather_equal(&alone, &own, sizeof own, &all, &error), ZEST_OK);
    assert_true(all == 9);
}

/* ---- Launchers ---- */

static void launched_as(const char *rank, const char *ranks, int expected_rank, int expected_ranks) {
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    if (rank) setenv("OMPI_COMM_WORLD_RANK", rank, 1);
    if (ranks) setenv("OMPI_COMM_WORLD_SIZE", ranks, 1);
    zest_comm_launch launch = zest_comm_launched();
    assert_int_equal(launch.rank, expected_rank);
    assert_int_equal(launch.ranks, expected_ranks);
}

/* Anything but a rank below a number of ranks is a process by itself; and so is a batch script of Slurm, whose variables
 * say nothing about how a program was started. */
static void launchers_are_found(void **state) {
    (void)state;
    static const char *const others[] = {"PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
    for (size_t i = 0; i < 3; i++) unsetenv(others[i]);
    launched_as("2", "4", 2, 4);
    launched_as("4", "4", 0, 1);
    launched_as("-1", "4", 0, 1);
    launched_as("1x", "4", 0, 1);
    launched_as("1", "99999999999", 0, 1);
    launched_as("0", NULL, 0, 1);
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "8", 1);
    launched_as(NULL, NULL, 0, 1);
    setenv("PMIX_RANK", "3", 1);
    launched_as(NULL, NULL, 3, 8);
    unsetenv("PMIX_RANK");
    unsetenv("SLURM_STEP_NUM_TASKS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_cover_the_work),           cmocka_unit_test(equal_prints_pass),
        cmocka_unit_test(the_ranks_that_differ_are_named), cmocka_unit_test(many_ranks_are_counted),
        cmocka_unit_test(a_failure_of_one_is_that_of_all), cmocka_unit_test(a_failure_of_all_names_no_rank),
        cmocka_unit_test(a_process_by_itself_agrees),      cmocka_unit_test(launchers_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
