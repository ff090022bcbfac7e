/* Runs by gradients: what is kept, what a kill costs, what resuming gives. */
#include "train/checkpoint.h"
#include "tests/training.h"

#define BASE                                                                                           \
    "task=examples/reviews/reviews.task shots=16 batch=16 seed=13 steps=10 eval-every=4 save-every=3 " \
    "threads=2 "
#define REAL "model=examples/roberta-tiny task=examples/reviews/reviews.task "

static void refuses(const char *options, const char *words) {
    zest_trainer_result result;
    zest_error error = {0};
    if (training_run(options, NULL, NULL, &result, &error) != ZEST_ERROR_ARGUMENT ||
        !strstr(error.message, words))
        fail_msg("'%s' says '%s' and not '%s'", options, error.message, words);
}

#ifdef ZEST_GRAD

static const char *const methods[] = {
    BASE "method=sgd lr=0.1 ",
    BASE "method=sgd lr=0.1 momentum=0.9 clip=1 weights=f32 ",
    BASE "method=adamw lr=1e-3 weight-decay=0.1 schedule=linear warmup=2 dropout=0.1 ",
    BASE "method=sam lr=0.1 radius=0.05 weights=f32 ",
    BASE "method=esam lr=0.1 k=2 ",
    BASE "method=tsam lr=0.1 k=2 t=5 momentum=0.5 ",
    BASE "method=tsam lr=0.1 k=2 t=5 ascent=0.05 freeze=*embeddings* ",
};
enum { METHODS = sizeof methods / sizeof *methods };
#define ADAMW methods[2]

static void a_stopped_run_goes_on_as_if_nothing_happened(void **state) {
    (void)state;
    for (int m = 0; m < METHODS; m++) {
        char name[32];
        zest_trainer_result whole, first, rest;
        snprintf(name, sizeof name, "whole%d", m);
        const char *run = temp_path(name);
        assert_fine(training_run(methods[m], run, NULL, &whole, error));
        assert_int_equal(whole.step, 10);
        for (uint64_t at = 1; at<10; at += TEST_SLOW> 1 ? 6 : 3) {
            char cut[32];
            snprintf(cut, sizeof cut, "cut%d-%d", m, (int)at);
            training_events w = {.stop_at = at};
            assert_fine(training_run(methods[m], temp_path(cut), &w, &first, error));
            assert_int_equal(first.reason, ZEST_TRAINED_INTERRUPTED);
            assert_fine(training_resume(temp_path(cut), "", &rest, error));
            same_first_order_run(temp_path(name), temp_path(cut));
            assert_true(rest.best_step == whole.best_step && rest.dev.loss == whole.dev.loss &&
                        rest.test.loss == whole.test.loss);
        }
    }
}

/* A kill comes without a warning: the steps behind the last checkpoint are taken again. */
static void a_killed_run_goes_on_from_the_last_checkpoint(void **state) {
    (void)state;
    zest_trainer_result result;
    for (uint64_t at = 1; at <= 10; at += TEST_SLOW > 1 ? 4 : 1) {
        char name[32];
        snprintf(name, sizeof name, "killed%d", (int)at);
        training_events w = {.copy_at = at, .from = temp_path("whole"), .to = temp_path(name)};
        test_remove(temp_path("whole"));
        assert_fine(training_run(ADAMW, temp_path("whole"), &w, &result, error));
        assert_fine(training_resume(temp_path(name), "", &result, error));
        same_first_order_run(temp_path("whole"), temp_path(name));
    }
}

static void flip(const char *path) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -7, SEEK_END), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -7, SEEK_END), 0);
    fputc(byte ^ 64, file);
    assert_int_equal(fclose(file), 0);
}

/* A folder as a kill between two files, or between two renames, leaves it. older: last/ of an earlier step. */
static void damage(int kind, const char *run, const char *older) {
    char command[1200];
    switch (kind) {
    case 0: /* the new one has weights and no note */
        training_copy(older, training_path(run, "last.new"));
        assert_int_equal(unlink(training_path(run, "last.new/zest.json")), 0);
        break;
    case 1: /* its state is not what the note says */
        training_copy(training_path(run, "last"), training_path(run, "last.new"));
        flip(training_path(run, "last.new/state.safetensors"));
        break;
    case 2: /* between the renames */
        snprintf(command, sizeof command, "mv '%s/last' '%s/last.new' && cp -r '%s' '%s/last.old'", run, run,
                 older, run);
        training_shell(command);
        break;
    case 3: /* behind the renames */ training_copy(older, training_path(run, "last.old")); break;
    case 4: /* the newest is damaged, the one before is whole */
        training_copy(older, training_path(run, "last.old"));
        flip(training_path(run, "last/model.safetensors"));
        break;
    case 5: /* none is whole: all over again */
        assert_int_equal(truncate(training_path(run, "last/state.safetensors"), 100), 0);
        break;
    default: /* the log lost its end, with evaluations of steps whose weights are gone */
        assert_int_equal(truncate(training_path(run, "log.jsonl"), 3000), 0);
    }
}

static void a_kill_in_a_checkpoint_costs_time_alone(void **state) {
    (void)state;
    zest_trainer_result result;
    training_events early = {.stop_at = 5}, late = {.stop_at = 7};
    assert_fine(training_run(ADAMW, temp_path("whole"), NULL, &result, error));
    assert_fine(training_run(ADAMW, temp_path("early"), &early, &result, error));
    assert_fine(training_run(ADAMW, temp_path("late"), &late, &result, error));
    for (int kind = 0; kind < 7; kind++) {
        char name[32];
        snprintf(name, sizeof name, "damaged%d", kind);
        training_copy(temp_path("late"), temp_path(name));
        damage(kind, temp_path(name), temp_path("early/last"));
        assert_fine(training_resume(temp_path(name), "", &result, error));
        same_file(temp_path("whole/last/vocab.json"), training_path(temp_path(name), "last/vocab.json"));
        if (kind < 6)
            same_first_order_run(temp_path("whole"), temp_path(name));
        else
            same_file(temp_path("whole/last/model.safetensors"),
                      training_path(temp_path(name), "last/model.safetensors"));
    }
}

/* The step in a checkpoint's zest.json is a number in a file: 2^62 of them are not walked through. */
static void a_checkpoint_of_a_huge_step_costs_no_time(void **state) {
    (void)state;
    static const char *const names[] = {"huge/last/zest.json", "huge/best/zest.json"};
    zest_trainer_result result;
    zest_error why = {0};
    assert_fine(training_run(ADAMW, temp_path("huge"), NULL, &result, error));
    for (int i = 0; i < 2; i++) {
        char *note = test_get(temp_path(names[i])), *rest = strchr(note, ',');
        zest_buffer text = {0};
        assert_non_null(rest);
        zest_buffer_format(&text, "{\"step\": 4611686018427387904%s", rest);
        test_put(test_temp_folder, names[i], text.data);
        zest_buffer_free(&text);
        free(note);
    }
    alarm(60); /* ends the test, should it take for ever */
    zest_status status = training_resume(temp_path("huge"), "", &result, &why);
    alarm(0);
    assert_true(status ? why.message[0] != 0 : result.step == (uint64_t)1 << 62);
}

/* A checkpoint that cannot be read now is no reason to begin again, nor is a log. */
static void what_cannot_be_read_is_not_given_up(void **state) {
    (void)state;
    zest_trainer_result result;
    zest_error failure = {0};
    training_events early = {.stop_at = 5};
    static const char *const files[] = {"last/zest.json", "log.jsonl"};
    assert_fine(training_run(ADAMW, temp_path("whole"), NULL, &result, error));
    assert_fine(training_run(ADAMW, temp_path("run"), &early, &result, error));
    for (size_t i = 0; i < sizeof files / sizeof *files;
         i++) { /* a folder instead fails whoever reads it, root too */
        char kept[600];
        snprintf(kept, sizeof kept, "%s/kept", temp_path("run"));
        assert_int_equal(rename(training_path(temp_path("run"), files[i]), kept), 0);
        assert_int_equal(mkdir(training_path(temp_path("run"), files[i]), 0777), 0);
        assert_int_equal(training_resume(temp_path("run"), "", &result, &failure), ZEST_ERROR_FILE);
        assert_non_null(strstr(failure.message, files[i]));
        assert_int_equal(rmdir(training_path(temp_path("run"), files[i])), 0);
        assert_int_equal(rename(kept, training_path(temp_path("run"), files[i])), 0);
    }
    assert_fine(training_resume(temp_path("run"), "", &result, error));
    same_first_order_run(temp_path("whole"), temp_path("run"));
}

static void threads_and_recomputing_change_nothing(void **state) {
    (void)state;
    zest_trainer_result result;
    assert_fine(training_run(methods[5], temp_path("a"), NULL, &result, error));
    char options[600];
    snprintf(options, sizeof options, "%s threads=1 recompute=yes save-every=0", methods[5]);
    assert_fine(training_run(options, temp_path("b"), NULL, &result, error));
    same_first_order_run(temp_path("a"), temp_path("b"));
}

static void further_than_planned(void **state) {
    (void)state;
    zest_trainer_result result;
    assert_fine(training_run(BASE "method=sgd lr=0.1 momentum=0.9 steps=13", temp_path("whole"), NULL,
                             &result, error));
    assert_fine(training_run(BASE "method=sgd lr=0.1 momentum=0.9", temp_path("run"), NULL, &result, error));
    assert_fine(training_resume(temp_path("run"), "steps=13 save-every=1", &result, error));
    assert_int_equal(result.step, 13);
    same_file(temp_path("whole/last/model.safetensors"), temp_path("run/last/model.safetensors"));
    same_file(temp_path("whole/last/state.safetensors"), temp_path("run/last/state.safetensors"));
    zest_error error = {0};
    assert_int_equal(training_resume(temp_path("run"), "momentum=0.5", &result, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "cannot change"));
}

/* 200 epochs of 32 examples in batches of 32; what is given counts. */
static void epochs_are_the_default(void **state) {
    (void)state;
    zest_trainer_result result;
    training_events w = {.stop_at = 2};
    assert_fine(training_run("task=examples/reviews/reviews.task shots=16 seed=13 method=sgd threads=2",
                             temp_path("run"), &w, &result, error));
    zest_log log;
    assert_fine(zest_log_read(temp_path("run/log.jsonl"), &log, error));
    assert_string_equal(zest_log_find_option(&log, "steps"), "200");
    assert_string_equal(zest_log_find_option(&log, "batch"), "32");
    assert_string_equal(zest_log_find_option(&log, "lr"), "1e-3");
    assert_true(log.steps[0].norm > 0 && log.steps[0].ess != log.steps[0].ess);
    zest_log_free(&log);
    assert_fine(training_resume(temp_path("run"), "steps=4", &result, error));
    assert_int_equal(result.step, 4);
}

static zest_status weights_at(const char *run, const char *step, uint64_t *at, uint64_t *print,
                              zest_error *why) {
    zest_run_folder folder;
    zest_options options;
    zest_loaded loaded = {0};
    zest_ctx *ctx = zest_ctx_new();
    assert_fine(zest_run_folder_of(run, &folder, error));
    assert_fine(zest_run_folder_read_options(&folder, ZEST_FOR_TRAINING, &options, error));
    zest_status status = zest_rebuild_run(ctx, &folder, &options, step, NULL, at, &loaded, why);
    if (!status) *print = zest_params_fingerprint(&loaded.model->params);
    zest_load_free(&loaded);
    zest_options_free(&options);
    zest_run_folder_free(&folder);
    zest_ctx_free(ctx);
    return status;
}

static void kept_steps_can_be_had_again(void **state) {
    (void)state;
    zest_trainer_result result;
    uint64_t at, start, best, last, again;
    assert_fine(training_run(BASE "method=sgd lr=0.5 select=loss", temp_path("run"), NULL, &result, error));
    assert_fine(weights_at(temp_path("run"), "0", &at, &start, error));
    assert_fine(weights_at(temp_path("run"), "best", &at, &best, error));
    assert_int_equal(at, result.best_step);
    assert_fine(weights_at(temp_path("run"), "last", &at, &last, error));
    assert_int_equal(at, 10);
    assert_fine(weights_at(temp_path("run"), "10", &at, &again, error));
    assert_true(last == again && start != last);
    zest_error error = {0};
    assert_int_equal(weights_at(temp_path("run"), "7", &at, &again, &error), ZEST_ERROR_STATE);
    assert_non_null(strstr(error.message, "no weights of step 7"));
    assert_non_null(strstr(error.message, "last (10)"));
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    refuses(BASE "method=sgd objective=accuracy", "no gradient");
    refuses(BASE "method=zest-n clip=1", "belongs to methods that take gradients");
    refuses(BASE "method=mezo recompute=yes", "belongs to methods that take gradients");
}

/* Forty steps of SGD: the dev loss falls by more than 0.15 (measured: from 0.72 to 0.46). */
static void sgd_learns(void **state) {
    (void)state;
    if (TEST_SLOW > 1) skip();
    zest_trainer_result result;
    assert_fine(training_run(REAL
                             "shots=128 batch=32 seed=13 method=sgd lr=5e-3 momentum=0.9 clip=1 steps=40 "
                             "eval-every=40 weights=f32 threads=2",
                             NULL, NULL, &result, error));
    assert_true(result.dev.loss < result.start.loss - 0.15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(a_stopped_run_goes_on_as_if_nothing_happened),
        IN_TEMP_FOLDER(a_killed_run_goes_on_from_the_last_checkpoint),
        IN_TEMP_FOLDER(a_kill_in_a_checkpoint_costs_time_alone),
        IN_TEMP_FOLDER(a_checkpoint_of_a_huge_step_costs_no_time),
        IN_TEMP_FOLDER(what_cannot_be_read_is_not_given_up),
        IN_TEMP_FOLDER(threads_and_recomputing_change_nothing),
        IN_TEMP_FOLDER(further_than_planned),
        IN_TEMP_FOLDER(epochs_are_the_default),
        IN_TEMP_FOLDER(kept_steps_can_be_had_again),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(sgd_learns),
    };
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}

#else /* forward passes alone */

static void gradients_are_refused(void **state) {
    (void)state;
    refuses(BASE "method=sgd", "GRAD=off");
    refuses(BASE "method=tsam device=cuda", "GRAD=off");
    refuses("text=README.md", "GRAD=off");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_refused)};
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}

#endif
