/* Training runs on the demo's model and data: what is kept, what a kill costs, what resuming gives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "train/checkpoint.h"
#include "train/log.h"
#include "train/rebuild.h"
#include "train/trainer.h"
#include "tests/training.h"

#define REAL "model=examples/roberta-tiny task=examples/reviews/reviews.task "
#define OPEN_END                                                                         \
    "task=examples/reviews/reviews.task shots=16 batch=16 lr=1e-3 rho=0.01 k=2 seed=13 " \
    "eval-every=3 t=1 threads=2 "
#define BASE OPEN_END "steps=10 "

static zest_status train(const char *options, const char *out, uint64_t stop, zest_trainer_result *result,
                         zest_error *error) {
    training_events watch = {.stop_at = stop};
    return training_run(options, out, &watch, result, error);
}

/* Journals, weights and results of two runs are the same, bit for bit. */
static void same_run(const char *a, const char *b) {
    static const char *const files[] = {"journal", "best/model.safetensors", "last/model.safetensors",
                                        "best/zest.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char x[300], y[300];
        snprintf(x, sizeof x, "%s/%s", a, files[i]);
        snprintf(y, sizeof y, "%s/%s", b, files[i]);
        same_file(x, y);
    }
}

static void same_metrics(const zest_metrics *a, const zest_metrics *b) {
    assert_int_equal(a->n, b->n);
    assert_true(a->loss == b->loss && a->accuracy == b->accuracy && a->low == b->low && a->high == b->high);
}

static void same_result(const zest_trainer_result *a, const zest_trainer_result *b) {
    assert_int_equal(a->best_step, b->best_step);
    assert_int_equal(a->step, b->step);
    same_metrics(&a->dev, &b->dev);
    same_metrics(&a->test, &b->test);
}

/* ---- Whole runs ---- */

static void a_run_keeps_everything(void **state) {
    (void)state;
    zest_trainer_result result;
    const char *run = temp_path("run");
    assert_fine(train(BASE, run, 0, &result, error));
    assert_int_equal(result.step, 10);
    assert_int_equal(result.reason, ZEST_TRAINED_STEPS);
    assert_int_equal(result.train, 32);
    assert_int_equal(result.dev_count, 32);
    assert_int_equal(result.test.n, 240);
    zest_log log;
    char path[300];
    snprintf(path, sizeof path, "%s/log.jsonl", run);
    assert_fine(zest_log_read(path, &log, error));
    assert_int_equal(log.step_count, 10);
    assert_int_equal(log.eval_count, 5); /* 0, 3, 6, 9, 10 */
    assert_non_null(log.end);
    assert_int_equal(log.end->best_step, result.best_step);
    zest_log_free(&log);
}

/* The step that is best by the log: the first with the highest accuracy and, of these, the lowest loss. *ties
 * counts evaluations that are as accurate as the best one before them, with a lower loss. *first: the first
 * with the highest accuracy, whatever the losses. */
static uint64_t best_by_log(const char *run, size_t *ties, uint64_t *first) {
    zest_log log;
    uint64_t best = 0, flagged = 0;
    double accuracy = -1, loss = 0;
    assert_fine(zest_log_read(training_path(run, "log.jsonl"), &log, error));
    *ties = 0;
    for (size_t i = 0; i < log.eval_count; i++) {
        const zest_log_eval *e = &log.evals[i];
        int equal = e->accuracy == accuracy && e->loss < loss;
        *ties += (size_t)equal;
        if (e->accuracy > accuracy) *first = e->step;
        if (e->accuracy > accuracy || equal) best = e->step, accuracy = e->accuracy, loss = e->loss;
        if (e->best) flagged = e->step;
    }
    assert_int_equal(flagged, best);
    zest_log_free(&log);
    return best;
}

static void of_equal_values_the_lower_loss_is_best(void **state) {
    (void)state;
    zest_trainer_result whole, first, rest;
    size_t ties;
    uint64_t earliest = 0;
    const char *options = BASE "shots=4 dev-size=0 lr=1e-4 steps=24 eval-every=2";
    assert_fine(train(options, temp_path("whole"), 0, &whole, error));
    assert_int_equal(best_by_log(temp_path("whole"), &ties, &earliest), whole.best_step);
    assert_true(ties > 0 && earliest != whole.best_step); /* or the test would say nothing */
    uint64_t step, print;
    assert_true(zest_checkpoint_read(temp_path("whole/best"), &step, &print));
    assert_int_equal(step, whole.best_step);
    assert_fine(train(options, temp_path("cut"), 13, &first, error));
    assert_fine(training_resume(temp_path("cut"), "", &rest, error));
    same_run(temp_path("whole"), temp_path("cut"));
    same_result(&whole, &rest);
    /* a run of zest 0.1, which has no inputs.json, keeps its rule: of equal values the first */
    assert_fine(train(options, temp_path("old"), 1, &first, error));
    assert_int_equal(unlink(temp_path("old/inputs.json")), 0);
    assert_fine(training_resume(temp_path("old"), "", &rest, error));
    assert_int_equal(rest.best_step, earliest);
}

/* Without a folder nothing is kept, but the figures are those of the same best weights. */
static void best_means_best_without_a_folder(void **state) {
    (void)state;
    static const char *const methods[] = {"lr=1e-3", "lr=1e-3 weights=bf16 weight-decay=0.1",
                                          "lr=1e-3 distribution=sphere denominator=ball",
                                          "method=sgd lr=1e-2", "method=adamw lr=1e-3"};
    int between[2] = {0};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        char options[400], name[32];
        zest_trainer_result with, without;
        snprintf(options, sizeof options, REAL BASE "shots=8 batch=8 test-size=20 steps=14 %s", methods[m]);
        snprintf(name, sizeof name, "run%zu", m);
        assert_fine(train(options, temp_path(name), 0, &with, error));
        assert_fine(train(options, NULL, 0, &without, error));
        same_result(&with, &without);
        between[strstr(methods[m], "method") != NULL] += with.best_step > 0 && with.best_step < with.step;
    }
    assert_true(between[0] && between[1]); /* best at the end would say nothing */
}

/* A rate that is far too large: the run ends, with the best weights, and a resumed one ends at the same step.
 * Without the guard it would go on. */
static void a_loss_that_explodes_ends_the_run(void **state) {
    (void)state;
    static const char *const methods[] = {"method=zest-n lr=100", "method=sgd lr=100"};
    for (int m = 0; m < 2; m++) {
        char options[400];
        zest_trainer_result whole, first, rest;
        snprintf(options, sizeof options, BASE "steps=40 save-every=1 %s", methods[m]);
        const char *run = temp_path(m ? "first" : "zeroth"), *cut = temp_path(m ? "first-cut" : "zeroth-cut");
        assert_fine(train(options, run, 0, &whole, error));
        assert_int_equal(whole.reason, ZEST_TRAINED_DIVERGED);
        assert_true(whole.step >= ZEST_DIVERGENCE_STEPS && whole.step < 30);
        assert_true(zest_divergence_limit(&whole.divergence) >= 10 * whole.divergence.first);
        assert_true(training_exists(training_path(run, "best/model.safetensors")));
        assert_true(training_exists(training_path(run, "result.json")));
        assert_true(whole.dev.accuracy >= whole.start.accuracy); /* of the best weights, not of the last */
        assert_fine(train(options, cut, 5, &first, error));
        assert_int_equal(first.reason, ZEST_TRAINED_INTERRUPTED);
        assert_fine(training_resume(cut, "", &rest, error));
        assert_int_equal(rest.reason, ZEST_TRAINED_DIVERGED);
        same_result(&whole, &rest);
        assert_fine(training_resume(run, "", &rest, error)); /* and stays ended */
        assert_int_equal(rest.reason, ZEST_TRAINED_DIVERGED);
        assert_int_equal(rest.step, whole.step);
        if (m) continue; /* by now its losses are not even finite, which ends it in any case */
        assert_fine(training_resume(run, "on-divergence=continue", &rest, error));
        assert_int_equal(rest.reason, ZEST_TRAINED_STEPS);
        assert_int_equal(rest.step, 40);
    }
}

static void threads_and_live_pairs_change_nothing(void **state) {
    (void)state;
    zest_trainer_result a, b;
    assert_fine(train(BASE, temp_path("a"), 0, &a, error));
    assert_fine(train(BASE " threads=1 live=1", temp_path("b"), 0, &b, error));
    same_file(temp_path("a/best/model.safetensors"), temp_path("b/best/model.safetensors"));
    same_file(temp_path("a/last/model.safetensors"), temp_path("b/last/model.safetensors"));
    same_result(&a, &b);
}

/* ---- Stopping and going on ---- */

static void an_interrupted_run_goes_on_as_if_nothing_happened(void **state) {
    (void)state;
    zest_trainer_result whole, first, rest;
    assert_fine(train(BASE, temp_path("whole"), 0, &whole, error));
    for (uint64_t at = 1; at < 10; at += 2) {
        char name[32];
        snprintf(name, sizeof name, "cut%d", (int)at);
        const char *run = temp_path(name);
        assert_fine(train(BASE, run, at, &first, error));
        assert_int_equal(first.reason, ZEST_TRAINED_INTERRUPTED);
        assert_int_equal(first.step, at);
        assert_fine(training_resume(run, "", &rest, error));
        same_run(temp_path("whole"), run);
        same_result(&whole, &rest);
    }
}

static void cut_file(const char *path, long less) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - less), 0);
}

/* What a kill or a power failure leaves: a torn record, a torn log, no last weights, or weights that are not
 * what their note says. Only time is lost. */
static void a_kill_loses_the_step_in_flight_at_most(void **state) {
    (void)state;
    zest_trainer_result whole, first, rest;
    assert_fine(train(BASE, temp_path("whole"), 0, &whole, error));
    for (int damage = 0; damage < 5; damage++) {
        char name[32], path[300];
        snprintf(name, sizeof name, "damage%d", damage);
        const char *run = temp_path(name);
        assert_fine(train(BASE, run, 7, &first, error));
        snprintf(path, sizeof path, "%s/%s", run,
                 damage == 0 || damage == 4 ? "journal"
                 : damage == 1              ? "log.jsonl"
                                            : "last/zest.json");
        if (damage == 0) cut_file(path, 5); /* a torn record: step 7 is taken again */
        if (damage == 1) cut_file(path, 700);
        if (damage == 2) assert_int_equal(unlink(path), 0);
        if (damage == 3) /* a note of other weights */
            test_put(run, "last/zest.json", "{\"step\": 5, \"fingerprint\": \"0000000000000001\"}");
        if (damage == 4) { /* only two steps were on the disk, and the best weights are newer */
            cut_file(path, 5 * (long)(20 + 8 * 4));
            snprintf(path, sizeof path, "%s/last", run);
        }
        assert_fine(training_resume(run, "", &rest, error));
        same_run(temp_path("whole"), run);
        same_result(&whole, &rest);
    }
}

static void further_than_planned(void **state) {
    (void)state;
    zest_trainer_result whole, first, rest;
    assert_fine(train(BASE " steps=13", temp_path("whole"), 0, &whole, error));
    assert_fine(train(BASE, temp_path("run"), 0, &first, error));
    assert_fine(training_resume(temp_path("run"), "steps=13", &rest, error));
    same_file(temp_path("whole/last/model.safetensors"), temp_path("run/last/model.safetensors"));
    assert_int_equal(rest.step, 13);
}

static void what_may_not_change_does_not(void **state) {
    (void)state;
    zest_trainer_result result;
    assert_fine(train(BASE, temp_path("run"), 2, &result, error));
    zest_error error = {0};
    assert_int_equal(training_resume(temp_path("run"), "lr=1", &result, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "--lr is '1e-3'"));
    assert_int_equal(training_resume(temp_path("nowhere"), "", &result, &error), ZEST_ERROR_FILE);
    assert_int_equal(train(BASE, temp_path("run"), 0, &result, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, "resume"));
}

static void patience_ends_a_run(void **state) {
    (void)state;
    zest_trainer_result result, again;
    /* a rate of 0: nothing ever gets better */
    assert_fine(train(BASE " lr=0 patience=6 steps=100", temp_path("run"), 0, &result, error));
    assert_int_equal(result.reason, ZEST_TRAINED_PATIENCE);
    assert_int_equal(result.best_step, 0);
    assert_int_equal(result.step, 6);
    same_metrics(&result.dev, &result.start);
    assert_fine(training_resume(temp_path("run"), "", &again, error)); /* and stays ended */
    assert_int_equal(again.step, 6);
}

/* ---- Replay ---- */

static uint64_t print_at(const char *run, const char *step, const char *out) {
    zest_run_folder folder;
    zest_options options;
    zest_loaded loaded;
    uint64_t at, print;
    zest_ctx *ctx = zest_ctx_new();
    assert_fine(zest_run_folder_of(run, &folder, error));
    assert_fine(zest_run_folder_read_options(&folder, ZEST_FOR_TRAIN, &options, error));
    assert_fine(zest_rebuild_run(ctx, &folder, &options, step, NULL, &at, &loaded, error));
    print = zest_params_fingerprint(&loaded.model->params);
    if (out) assert_fine(zest_model_save(loaded.model, out, error));
    zest_load_free(&loaded);
    zest_options_free(&options);
    zest_run_folder_free(&folder);
    zest_ctx_free(ctx);
    return print;
}

static void any_step_can_be_rebuilt(void **state) {
    (void)state;
    zest_trainer_result result, other;
    uint64_t prints[11];
    const char *run = temp_path("run");
    assert_fine(train(BASE, run, 0, &result, error));
    for (int s = 0; s <= 10; s++) {
        char text[8], path[300];
        snprintf(text, sizeof text, "%d", s);
        prints[s] = print_at(run, text, s == 4 ? temp_path("four") : NULL);
        for (int before = 0; before < s; before++) assert_true(prints[s] != prints[before]);
        snprintf(path, sizeof path, "%s/last/zest.json", run);
        if (s == 5) assert_int_equal(unlink(path), 0); /* from here on from the start or from best/ */
    }
    assert_true(print_at(run, "last", NULL) == prints[10]);
    char best[8];
    snprintf(best, sizeof best, "%d", (int)result.best_step);
    assert_true(print_at(run, "best", NULL) == prints[result.best_step]);
    /* the same weights as a run that ended there */
    assert_fine(train(BASE " steps=4", temp_path("short"), 0, &other, error));
    same_file(temp_path("four/model.safetensors"), temp_path("short/last/model.safetensors"));
}

/* ---- Kinds of runs ---- */

static void frozen_tensors_stay(void **state) {
    (void)state;
    zest_trainer_result result;
    zest_model *start, *end;
    assert_fine(train(BASE " freeze=*embeddings*", temp_path("run"), 0, &result, error));
    assert_fine(zest_model_load(training_model, NULL, &start, error));
    assert_fine(zest_model_load(temp_path("run/last"), NULL, &end, error));
    for (size_t i = 0; i < start->tensor_count; i++) {
        const zest_tensor *a = &start->tensors[i], *b = &end->tensors[i];
        size_t size = (size_t)a->count * zest_dtype_size(a->dtype);
        assert_string_equal(a->name, b->name);
        assert_int_equal(!memcmp(a->data, b->data, size), strstr(a->name, "embeddings") != NULL);
    }
    zest_model_free(start);
    zest_model_free(end);
}

/* 1 - accuracy of a batch is a multiple of 1/16, and pairs often tie: then the step along that direction is
 * none, not a random one. */
static void accuracy_can_be_the_objective(void **state) {
    (void)state;
    static const char *const kinds[] = {"accuracy", "f1"};
    for (int i = 0; i < 2; i++) {
        zest_trainer_result result;
        char options[400];
        snprintf(options, sizeof options, "%s objective=%s rho=0.02", BASE REAL, kinds[i]);
        assert_fine(train(options, temp_path(kinds[i]), 0, &result, error));
        zest_ctx *ctx = zest_ctx_new();
        char path[300];
        snprintf(path, sizeof path, "%s/journal", temp_path(kinds[i]));
        zest_journal *journal = zest_journal_open(ctx, path);
        assert_non_null(journal);
        size_t differ = 0;
        for (uint64_t s = 1; s <= zest_journal_steps(journal); s++) {
            zest_record record;
            assert_int_equal(zest_journal_read(journal, s, &record), ZEST_OK);
            for (size_t l = 0; l < record.count; l++) {
                double sixteenths = 16 * record.losses[l];
                assert_true(record.losses[l] >= 0 && record.losses[l] <= 1);
                if (i == 0) assert_true(sixteenths == (double)(int)sixteenths);
                differ += record.losses[l] != record.losses[0];
            }
        }
        assert_true(differ > 0);
        zest_journal_close(journal);
        zest_ctx_free(ctx);
    }
}

static void epochs_are_steps(void **state) {
    (void)state;
    zest_trainer_result result; /* 32 examples in batches of 13: three steps, the last with 6 */
    assert_fine(train(OPEN_END " batch=13 epochs=2", temp_path("run"), 0, &result, error));
    assert_int_equal(result.step, 6);
    assert_fine(
        training_resume(temp_path("run"), "steps=8", &result, error)); /* takes the place of the epochs */
    assert_int_equal(result.step, 8);
    assert_fine(training_resume(temp_path("run"), "epochs=3", &result, error));
    assert_int_equal(result.step, 9);
    zest_error error = {0};
    assert_int_equal(training_resume(temp_path("run"), "steps=12 epochs=5", &result, &error),
                     ZEST_ERROR_ARGUMENT);
    assert_int_equal(train(BASE " epochs=2", NULL, 0, &result, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "give one of them"));
}

/* The same run learns: what two dozen steps with a large rate do to the training loss is no accident. */
static void a_run_learns(void **state) {
    (void)state;
    if (TEST_SLOW > 1) skip();
    zest_trainer_result result;
    assert_fine(train(BASE REAL " shots=32 batch=32 k=5 lr=3e-4 rho=0.005 steps=60 eval-every=60 weights=f32",
                      NULL, 0, &result, error));
    assert_true(result.dev.loss < result.start.loss - 0.05);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(a_run_keeps_everything),
        IN_TEMP_FOLDER(of_equal_values_the_lower_loss_is_best),
        IN_TEMP_FOLDER(best_means_best_without_a_folder),
        IN_TEMP_FOLDER(a_loss_that_explodes_ends_the_run),
        IN_TEMP_FOLDER(threads_and_live_pairs_change_nothing),
        IN_TEMP_FOLDER(an_interrupted_run_goes_on_as_if_nothing_happened),
        IN_TEMP_FOLDER(a_kill_loses_the_step_in_flight_at_most),
        IN_TEMP_FOLDER(further_than_planned),
        IN_TEMP_FOLDER(what_may_not_change_does_not),
        IN_TEMP_FOLDER(patience_ends_a_run),
        IN_TEMP_FOLDER(any_step_can_be_rebuilt),
        IN_TEMP_FOLDER(frozen_tensors_stay),
        IN_TEMP_FOLDER(accuracy_can_be_the_objective),
        IN_TEMP_FOLDER(epochs_are_steps),
        cmocka_unit_test(a_run_learns),
    };
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}
