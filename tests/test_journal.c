/* The journal: every byte of it damaged or cut, the disk full, the process killed; the run goes on bit for
 * bit or says why not. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "optim/journal.h"
#include "tests/support.h"

enum { D = 40, STEPS = 9 };

static double bumpy(const double *x, size_t n, void *user) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (x[i] - 0.5) * (x[i] - 0.5) + 0.1 * sin(5 * x[i]);
    if (user) usleep(*(unsigned *)user);
    return sum;
}

static void start_at(double *x) {
    for (int i = 0; i < D; i++) x[i] = 0.1 * i - 1;
}

/* Every test has a context and a folder of its own. */
typedef struct {
    zest_ctx *ctx;
    char folder[64], path[80];
} place;

static int arrive(void **state) {
    place *here = calloc(1, sizeof *here);
    assert_non_null(here);
    here->ctx = test_context();
    snprintf(here->path, sizeof here->path, "%s/journal", test_folder(here->folder));
    *state = here;
    return 0;
}

static int leave(void **state) {
    place *here = *state;
    test_remove(here->folder);
    zest_ctx_free(here->ctx);
    free(here);
    return 0;
}

static const char *const settings[][8] = {
    {"method", "zest-bc", "k", "2", "lr", "0.01", "steps", "9"},
    {"distribution", "sphere", "denominator", "ball", "k", "2", "eval-every", "2"},
    {"schedule", "cosine", "warmup", "3", "weight-decay", "0.1", "distribution", "rademacher"},
};

static zest_tuner *new_tuner(zest_ctx *ctx, double *x, int setting) {
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, D);
    assert_non_null(tuner);
    if (setting >= 0)
        for (int i = 0; i < 8; i += 2)
            assert_ok(ctx, zest_tuner_set(tuner, settings[setting][i], settings[setting][i + 1]));
    if (setting >= 0) assert_ok(ctx, zest_tuner_set(tuner, "steps", "9"));
    assert_ok(ctx, zest_tuner_objective_f64(tuner, bumpy, NULL));
    return tuner;
}

/* A whole run with its journal; x at every step in history. */
static void record_run(zest_ctx *ctx, const char *path, int setting, double history[STEPS + 1][D]) {
    double x[D];
    start_at(x);
    memcpy(history[0], x, sizeof x);
    zest_tuner *tuner = new_tuner(ctx, x, setting);
    assert_ok(ctx, zest_tuner_start_journal(tuner, path));
    for (int s = 1; s <= STEPS; s++) {
        assert_ok(ctx, zest_tuner_step(tuner, NULL));
        memcpy(history[s], x, sizeof x);
    }
    zest_tuner_free(tuner);
}

/* Resumes and runs to the end: x must be what the uninterrupted run had. */
static zest_status finish_run(zest_ctx *ctx, const char *path, const double *expected) {
    double x[D];
    start_at(x);
    zest_tuner *tuner = new_tuner(ctx, x, -1);
    zest_status status = zest_tuner_resume_journal(tuner, path);
    if (!status) {
        assert_ok(ctx, zest_tuner_run(tuner, NULL));
        assert_memory_equal(x, expected, sizeof x);
    }
    zest_tuner_free(tuner);
    return status;
}

static void records_are_small(void **state) {
    (void)state;
    assert_int_equal(zest_journal_record_size(10), 100); /* k = 5 */
}

static void replay_reaches_every_step(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    for (int setting = 0; setting < 3; setting++) {
        double history[STEPS + 1][D], x[D];
        unlink(path);
        record_run(ctx, path, setting, history);
        zest_journal *journal = zest_journal_open(ctx, path);
        assert_non_null(journal);
        assert_true(zest_journal_steps(journal) == STEPS && !zest_journal_torn(journal));
        assert_true(zest_journal_dimension(journal) == D && zest_journal_is_f64(journal));
        for (int i = 0; i < 8; i += 2)
            if (strcmp(settings[setting][i], "steps"))
                assert_string_equal(zest_journal_option(journal, settings[setting][i]),
                                    settings[setting][i + 1]);
        for (int s = 0; s <= STEPS; s++) {
            start_at(x);
            assert_ok(ctx, zest_journal_replay_f64(journal, (uint64_t)s, x, D));
            assert_memory_equal(x, history[s], sizeof x);
        }
        assert_int_equal(zest_journal_replay_f64(journal, STEPS + 1, x, D), ZEST_ERROR_ARGUMENT);
        zest_record record;
        assert_int_equal(zest_journal_read(journal, 0, &record), ZEST_ERROR_ARGUMENT);
        assert_ok(ctx, zest_journal_read(journal, 3, &record));
        if (setting == 1) { /* step 3 (index 2) evaluated x itself */
            assert_true(record.has_center && record.count == 9);
            assert_close(record.losses[8], bumpy(history[2], D, NULL), 0);
        }
        zest_journal_close(journal);
    }
}

static void wrong_starts_are_refused(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    double history[STEPS + 1][D], x[D], shorter[D - 1] = {0};
    float narrow[D] = {0};
    record_run(ctx, path, 0, history);
    start_at(x);
    x[17] = nextafter(x[17], 9); /* the least possible difference */
    zest_journal *journal = zest_journal_open(ctx, path);
    double kept = x[17];
    assert_int_equal(zest_journal_replay_f64(journal, 3, x, D), ZEST_ERROR_FORMAT);
    assert_says(ctx, "started from other values");
    assert_true(x[17] == kept);
    assert_int_equal(zest_journal_replay_f64(journal, 3, shorter, D - 1), ZEST_ERROR_FORMAT);
    assert_int_equal(zest_journal_replay_f32(journal, 3, narrow, D), ZEST_ERROR_FORMAT);
    zest_journal_close(journal);
    zest_tuner *tuner = new_tuner(ctx, x, -1);
    assert_int_equal(zest_tuner_resume_journal(tuner, path), ZEST_ERROR_FORMAT);
    assert_int_equal(zest_tuner_start_journal(tuner, path), ZEST_ERROR_FILE); /* it exists */
    assert_says(ctx, "resume");
    assert_int_equal(zest_tuner_resume_journal(tuner, "/nonexistent/journal"), ZEST_ERROR_FILE);
    assert_int_equal(zest_tuner_start_journal(tuner, "/nonexistent/journal"), ZEST_ERROR_FILE);
    zest_tuner_free(tuner);
}

/* 16-bit embeddings and norms of 32 bits, as in a GGUF file: the last tensor has another type than the first. */
static void tensors_of_several_types_have_one_start(void **state) {
    (void)state;
    uint16_t halves[4] = {1, 2, 3, 4};
    float floats[2] = {1, 2};
    zest_tensor tensors[] = {{"a", ZEST_DTYPE_F16, 0, 4, halves, {0}},
                             {"b", ZEST_DTYPE_F32, 4, 2, floats, {0}}};
    zest_params start = {tensors, 2, 6};
    zest_journal_writer writer;
    zest_options options;
    zest_error error = {0};
    char folder[64], path[128];
    snprintf(path, sizeof path, "%s/journal", test_folder(folder));
    zest_options_init(&options);
    assert_int_equal(zest_journal_create(&writer, path, &options, &start, &error), ZEST_OK);
    zest_journal_finish(&writer);
    zest_ctx *ctx = test_context();
    zest_journal *journal = zest_journal_open(ctx, path);
    if (!journal) fail_msg("%s", zest_ctx_error(ctx));
    if (zest_journal_check_start(journal, &start, &error)) fail_msg("%s", error.message);
    tensors[1].dtype = ZEST_DTYPE_U32; /* the fingerprint has the types */
    assert_int_equal(zest_journal_check_start(journal, &start, &error), ZEST_ERROR_FORMAT);
    zest_journal_close(journal);
    zest_ctx_free(ctx);
    zest_options_free(&options);
    test_remove(folder);
}

static void two_writers_are_refused(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    double x[D], y[D];
    start_at(x);
    start_at(y);
    zest_tuner *first = new_tuner(ctx, x, 0), *second = new_tuner(ctx, y, -1);
    assert_ok(ctx, zest_tuner_start_journal(first, path));
    assert_int_equal(zest_tuner_resume_journal(second, path), ZEST_ERROR_FILE);
    assert_says(ctx, "another process");
    zest_tuner_free(first);
    assert_ok(ctx, zest_tuner_resume_journal(second, path));
    zest_tuner_free(second);
}

/* A kill can leave any prefix of the file. */
static void every_cut_resumes_or_says_why(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    char copy[80];
    snprintf(copy, sizeof copy, "%s/copy", here->folder);
    for (int setting = 0; setting < 2; setting++) {
        double history[STEPS + 1][D];
        unlink(path);
        record_run(ctx, path, setting, history);
        size_t size = test_file_size(path), resumed = 0;
        for (size_t cut = 0; cut <= size; cut++) {
            test_copy_file(path, copy);
            assert_int_equal(truncate(copy, (off_t)cut), 0);
            zest_status status = finish_run(ctx, copy, history[STEPS]);
            if (status) assert_int_equal(status, ZEST_ERROR_FORMAT);
            resumed += !status;
            /* only cuts inside the header are fatal */
            if (status) assert_true(resumed == 0);
            if (!status) assert_int_equal(test_file_size(copy), size); /* it wrote the same file again */
        }
        assert_true(resumed > STEPS * 50);
    }
}

/* One byte changed anywhere: an error, or (in the last record) a clean cut. Never another x. */
static void every_changed_byte_is_noticed(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    char copy[80];
    double history[STEPS + 1][D];
    snprintf(copy, sizeof copy, "%s/copy", here->folder);
    record_run(ctx, path, 0, history);
    size_t size = test_file_size(path), last = size - zest_journal_record_size(4), cuts = 0;
    for (size_t at = 0; at < size; at++)
        for (int change = 1; change < 256; change += 85) {
            test_copy_file(path, copy);
            int file = open(copy, O_RDWR);
            unsigned char byte;
            assert_int_equal(pread(file, &byte, 1, (off_t)at), 1);
            byte = (unsigned char)(byte ^ change);
            assert_int_equal(pwrite(file, &byte, 1, (off_t)at), 1);
            close(file);
            zest_status status = finish_run(ctx, copy, history[STEPS]);
            if (at < last)
                assert_int_equal(status, ZEST_ERROR_FORMAT);
            else
                cuts += status == ZEST_OK;
        }
    assert_int_equal(cuts, 4 * zest_journal_record_size(4) -
                               zest_journal_record_size(4)); /* all three changes of each byte */
}

/* Power failure: the file has its length, but its last blocks were never written. */
static void unwritten_blocks_are_cut_off(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    double history[STEPS + 1][D];
    record_run(ctx, path, 0, history);
    size_t size = test_file_size(path), record = zest_journal_record_size(4);
    assert_int_equal(truncate(path, (off_t)(size - 3 * record - 7)), 0);
    assert_int_equal(truncate(path, (off_t)(size + 4096)), 0);
    zest_journal *journal = zest_journal_open(ctx, path);
    assert_non_null(journal);
    assert_true(zest_journal_steps(journal) == STEPS - 4 && zest_journal_torn(journal) == 4096 + 4 * record);
    zest_journal_close(journal);
    assert_int_equal(finish_run(ctx, path, history[STEPS]), ZEST_OK);
    assert_int_equal(test_file_size(path), size);
}

/* Two records exchanged, one left out, one twice: each is whole in itself, the chain is not. */
static void records_cannot_change_places(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    double history[STEPS + 1][D];
    record_run(ctx, path, 0, history);
    size_t size = test_file_size(path), record = zest_journal_record_size(4), body = size - STEPS * record;
    char *bytes = malloc(size);
    FILE *file = fopen(path, "rb");
    assert_int_equal(fread(bytes, 1, size, file), size);
    fclose(file);
    for (int trick = 0; trick < 3; trick++) {
        file = fopen(path, "wb");
        static const int orders[3][9] = {
            {0, 2, 1, 3, 4, 5, 6, 7, 8}, {0, 1, 3, 4, 5, 6, 7, 8, -1}, {0, 1, 1, 2, 3, 4, 5, 6, 7}};
        fwrite(bytes, 1, body, file);
        for (int i = 0; i < 9 && orders[trick][i] >= 0; i++)
            fwrite(bytes + body + (size_t)orders[trick][i] * record, 1, record, file);
        fclose(file);
        assert_null(zest_journal_open(ctx, path));
        assert_says(ctx, "damaged");
    }
    free(bytes);
}

/* ---- Journals of older formats ---- */

enum { OLD_D = 4, OLD_STEPS = 8 };

/* Of IEEE operations alone, so that a step that is taken anew has the same bits everywhere. */
static double high_bowl(const double *x, size_t n, void *user) {
    (void)user;
    double sum = 1000;
    for (size_t i = 0; i < n; i++) sum += (x[i] - 0.5) * (x[i] - 0.5) * (double)(i + 1);
    return sum;
}

/* tests/data/journal-format-1 and the end of its run are of release 0.1.0: method zest-bc, k 3, t 20, rho
 * 0.01, lr 0.01, seed 7, 8 steps. Replaying it, or continuing a part of it, ends there bit for bit. A run of
 * today ends elsewhere, so the old rule was needed. */
static void a_journal_of_format_1_keeps_its_bits(void **state) {
    static const double start[OLD_D] = {1, -1, 0.25, 2};
    static const double end[OLD_D] = {0x1.104dfce2c9571p+0, -0x1.252546e04a4c5p-1, 0x1.ba4844218b814p-2,
                                      0x1.a67221691e467p+0};
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    size_t whole = test_file_size("tests/data/journal-format-1"), record = zest_journal_record_size(6);
    for (int kept = OLD_STEPS; kept >= 0; kept -= 4) {
        double x[OLD_D];
        memcpy(x, start, sizeof x);
        test_copy_file("tests/data/journal-format-1", here->path);
        assert_int_equal(truncate(here->path, (off_t)(whole - (size_t)(OLD_STEPS - kept) * record)), 0);
        zest_tuner *tuner = zest_tuner_new_f64(ctx, x, OLD_D);
        assert_ok(ctx, zest_tuner_objective_f64(tuner, high_bowl, NULL));
        assert_ok(ctx, zest_tuner_resume_journal(tuner, here->path));
        assert_ok(ctx, zest_tuner_run(tuner, NULL));
        assert_memory_equal(x, end, sizeof x);
        zest_tuner_free(tuner);
        memcpy(x, start, sizeof x);
        zest_journal *journal = zest_journal_open(ctx, here->path);
        assert_non_null(journal);
        assert_ok(ctx, zest_journal_replay_f64(journal, OLD_STEPS, x, OLD_D));
        assert_memory_equal(x, end, sizeof x);
        zest_journal_close(journal);
    }
    double x[OLD_D];
    memcpy(x, start, sizeof x);
    assert_ok(ctx, zest_minimize_f64(ctx, high_bowl, NULL, x, OLD_D,
                                     "method=zest-bc k=3 t=20 rho=0.01 lr=0.01 seed=7 steps=8", NULL));
    assert_memory_not_equal(x, end, sizeof x);
    for (int i = 0; i < OLD_D; i++) assert_close(x[i], end[i], 1e-12);
}

static void unknown_formats_are_refused(void **state) {
    static const uint32_t formats[] = {0, ZEST_FORMAT + 1, 0xffffffffu};
    place *here = *state;
    for (int i = 0; i < 3; i++) {
        unsigned char bytes[4];
        test_copy_file("tests/data/journal-format-1", here->path);
        int file = open(here->path, O_RDWR);
        zest_journal_put32(bytes, formats[i]);
        assert_int_equal(pwrite(file, bytes, 4, 8), 4);
        close(file);
        assert_null(zest_journal_open(here->ctx, here->path));
        assert_says(here->ctx, "this zest reads formats 1 to 3");
    }
}

/* A full disk: the step fails, nothing is lost, and the same tuner goes on when there is room again. */
static void a_full_disk_loses_nothing(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    double history[STEPS + 1][D], x[D];
    record_run(ctx, path, 0, history);
    size_t size = test_file_size(path);
    unlink(path);
    start_at(x);
    zest_tuner *tuner = new_tuner(ctx, x, 0);
    assert_ok(ctx, zest_tuner_start_journal(tuner, path));
    for (int s = 0; s < 4; s++) assert_ok(ctx, zest_tuner_step(tuner, NULL));
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = test_file_size(path) + 10; /* room for part of a record */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    zest_status status = zest_tuner_step(tuner, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, ZEST_ERROR_FILE);
    assert_says(ctx, "cannot be written");
    assert_memory_equal(x, history[4], sizeof x);
    assert_ok(ctx, zest_tuner_run(tuner, NULL));
    assert_memory_equal(x, history[STEPS], sizeof x);
    assert_int_equal(test_file_size(path), size);
    zest_tuner_free(tuner);
}

/* Runs in a child until it is killed or done. Returns 1 when it was done. */
static int run_until_killed(const char *path, unsigned microseconds) {
    pid_t child = fork();
    if (child == 0) {
        zest_ctx *ctx = zest_ctx_new();
        double x[D];
        unsigned pause = 300;
        start_at(x);
        zest_tuner *tuner = zest_tuner_new_f64(ctx, x, D);
        zest_status status = access(path, F_OK) == 0 ? zest_tuner_resume_journal(tuner, path) : ZEST_OK;
        if (!status) status = zest_tuner_set(tuner, "steps", "60");
        if (!status && access(path, F_OK)) status = zest_tuner_start_journal(tuner, path);
        if (!status) status = zest_tuner_objective_f64(tuner, bumpy, &pause);
        if (!status) status = zest_tuner_run(tuner, NULL);
        _exit(status ? 3 : 0);
    }
    assert_true(child > 0);
    usleep(microseconds);
    kill(child, SIGKILL);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFEXITED(how)) assert_int_equal(WEXITSTATUS(how), 0);
    return WIFEXITED(how);
}

static void sigkill_at_any_instant_is_survived(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    double expected[D], x[D];
    start_at(expected);
    assert_ok(ctx, zest_minimize_f64(ctx, bumpy, NULL, expected, D, "steps=60", NULL));
    int kills = 0;
    for (unsigned i = 0; !run_until_killed(path, 9000 + 7919 * i % 23000); i++) assert_true(++kills < 2000);
    assert_true(kills >= 3);
    start_at(x);
    zest_journal *journal = zest_journal_open(ctx, path);
    assert_non_null(journal);
    assert_int_equal(zest_journal_steps(journal), 60);
    assert_ok(ctx, zest_journal_replay_f64(journal, 60, x, D));
    assert_memory_equal(x, expected, sizeof x);
    zest_journal_close(journal);
}

/* What the stop criteria knew is rebuilt from the record: patience runs out in the same step. */
static void patience_survives_a_resume(void **state) {
    place *here = *state;
    zest_ctx *ctx = here->ctx;
    const char *path = here->path;
    double x[D], y[D];
    zest_result whole, resumed;
    start_at(x);
    assert_ok(ctx, zest_minimize_f64(ctx, bumpy, NULL, x, D,
                                     "steps=100000 lr=0.02 patience=25 tolerance=0.01", &whole));
    assert_int_equal(whole.stop, ZEST_STOP_STAGNATION);
    start_at(y);
    zest_tuner *tuner = new_tuner(ctx, y, -1);
    assert_ok(ctx, zest_tuner_set(tuner, "lr", "0.02"));
    assert_ok(ctx, zest_tuner_set(tuner, "patience", "25"));
    assert_ok(ctx, zest_tuner_set(tuner, "tolerance", "0.01"));
    assert_ok(ctx, zest_tuner_set(tuner, "steps", "100000"));
    assert_ok(ctx, zest_tuner_start_journal(tuner, path));
    for (uint64_t s = 0; s + 10 < whole.steps; s++) assert_ok(ctx, zest_tuner_step(tuner, NULL));
    zest_tuner_free(tuner);
    start_at(y);
    tuner = new_tuner(ctx, y, -1);
    assert_ok(ctx, zest_tuner_resume_journal(tuner, path));
    assert_ok(ctx, zest_tuner_run(tuner, &resumed));
    assert_true(resumed.stop == ZEST_STOP_STAGNATION && resumed.steps == whole.steps);
    assert_true(resumed.evaluations == whole.evaluations && resumed.best_step == whole.best_step);
    assert_memory_equal(x, y, sizeof x);
    zest_tuner_free(tuner);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, arrive, leave)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_small),
        TEST(replay_reaches_every_step),
        TEST(a_journal_of_format_1_keeps_its_bits),
        TEST(unknown_formats_are_refused),
        TEST(wrong_starts_are_refused),
        TEST(tensors_of_several_types_have_one_start),
        TEST(two_writers_are_refused),
        TEST(every_cut_resumes_or_says_why),
        TEST(every_changed_byte_is_noticed),
        TEST(unwritten_blocks_are_cut_off),
        TEST(records_cannot_change_places),
        TEST(a_full_disk_loses_nothing),
        TEST(sigkill_at_any_instant_is_survived),
        TEST(patience_survives_a_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
