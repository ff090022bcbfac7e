/* log.jsonl: what is written comes back, what is torn or strange does no harm. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "train/log.h"
#include "tests/temp_folder.h"

static const char *the_log(void) { return temp_path("log.jsonl"); }
static void put(const char *text) { test_put(test_temp_folder, "log.jsonl", text); }
static char *get(void) { return test_get(the_log()); }

static zest_log_start a_start(void) {
    static const zest_log_option options[] = {{"method", "zest-n"},
                                              {"t", "1"},
                                              {"model", "a \"quoted\" \\ path\twith\x01 bytes \xff\xfe"},
                                              {"out", ""}};
    zest_log_start start = {.time = 1.75e9, .version = "9.9", .options = options, .option_count = 4};
    start.model.family = "opt";
    start.model.parameters = 1315758080;
    start.model.trained = 12345;
    start.model.weights = "bf16", start.model.compute = "f32", start.model.device = "cpu";
    start.task.name = "SST-2", start.task.metric = "accuracy", start.task.classes = 2;
    start.train = 1000, start.dev = 500, start.test = 872;
    return start;
}

static zest_log_step a_step(uint64_t step) {
    return (zest_log_step){.step = step,
                           .loss = 1.0 / 3 + (double)step,
                           .lr = 1e-7,
                           .ess = step % 5 ? 9.75 : NAN,
                           .spread = 4.9406564584124654e-324,
                           .slope = 0.1,
                           .curvature = 1e-17,
                           .t = step % 2 ? 1.0 / 7 : NAN,
                           .scale = NAN,
                           .dropped = step % 2,
                           .seconds = 0.1 * (double)step,
                           .tokens = 1664,
                           .passes = 10};
}

static zest_log_eval an_eval(uint64_t step, const char *part) {
    zest_log_eval e = zest_log_eval_none();
    e.step = step;
    snprintf(e.part, sizeof e.part, "%s", part);
    e.accuracy = e.value = 0.1 + 0.2;
    e.low = 0.25, e.high = 0.35, e.n = 500, e.best = 1, e.seconds = 0.1 * (double)step + 0.05;
    return e;
}

static void write_run(uint64_t steps, int end) {
    zest_log_writer *w;
    zest_log_start const start = a_start();
    assert_int_equal(zest_log_open(the_log(), &w, NULL), ZEST_OK);
    assert_int_equal(zest_log_write_start(w, &start, NULL), ZEST_OK);
    for (uint64_t i = 1; i <= steps; i++) {
        zest_log_step const step = a_step(i);
        assert_int_equal(zest_log_write_step(w, &step, NULL), ZEST_OK);
        zest_log_eval const eval = an_eval(i, "dev");
        if (i % 10 == 0) assert_int_equal(zest_log_write_eval(w, &eval, NULL), ZEST_OK);
    }
    zest_log_end last = {.reason = "steps done",
                         .step = steps,
                         .best_step = 10,
                         .seconds = 12,
                         .peak_bytes = 1 << 20,
                         .device_peak_bytes = 1 << 21};
    last.dev = an_eval(10, "dev"), last.test = an_eval(10, "test");
    if (end) assert_int_equal(zest_log_write_end(w, &last, NULL), ZEST_OK);
    assert_int_equal(zest_log_close(w, NULL), ZEST_OK);
}

static zest_log read_log(void) {
    zest_log log;
    zest_error error = {0};
    if (zest_log_read(the_log(), &log, &error)) fail_msg("%s", error.message);
    return log;
}

/* ---- Round trip ---- */

static void all_comes_back(void **state) {
    (void)state;
    write_run(25, 1);
    zest_log log = read_log();
    assert_int_equal(log.start_count, 1);
    assert_int_equal(log.step_count, 25);
    assert_int_equal(log.eval_count, 2);
    assert_int_equal(log.bad + log.other + (size_t)log.torn, 0);
    assert_string_equal(log.starts[0].version, "9.9");
    assert_int_equal(log.starts[0].option_count, 4);
    assert_string_equal(zest_log_find_option(&log, "t"), "1");
    assert_string_equal(zest_log_find_option(&log, "out"), "");
    assert_null(zest_log_find_option(&log, "T"));
    assert_string_equal(zest_log_find_option(&log, "model"),
                        "a \"quoted\" \\ path\twith\x01 bytes \xef\xbf\xbd\xef\xbf\xbd");
    assert_string_equal(log.starts[0].task.metric, "accuracy");
    assert_string_equal(log.starts[0].model.family, "opt");
    assert_int_equal(log.starts[0].model.trained, 12345);
    assert_false(log.starts[0].resumed);
    for (uint64_t i = 1; i <= 25; i++) {
        zest_log_step const step = a_step(i), *got = &log.steps[i - 1];
        assert_int_equal(got->step, i);
        assert_true(got->loss == step.loss && got->lr == step.lr && got->spread == step.spread);
        assert_true(got->seconds == step.seconds && got->tokens == 1664 && got->passes == 10 &&
                    got->dropped == i % 2);
        assert_int_equal(isnan(got->ess), i % 5 == 0);
        assert_true(got->slope == step.slope && got->curvature == step.curvature && isnan(got->scale));
        assert_true(i % 2 ? got->t == step.t : isnan(got->t));
    }
    assert_true(log.evals[1].value == 0.1 + 0.2 && log.evals[1].best && isnan(log.evals[1].f1));
    assert_non_null(log.end);
    assert_string_equal(log.end->reason, "steps done");
    assert_int_equal(log.end->peak_bytes, 1 << 20);
    assert_int_equal(log.end->device_peak_bytes, 1 << 21);
    assert_string_equal(log.end->test.part, "test");
    zest_log_free(&log);
}

/* A thousand steps in a blink are not a thousand writes; an evaluation brings everything to the file. */
static void steps_are_kept_for_a_while(void **state) {
    (void)state;
    zest_log_writer *w;
    zest_log_step const step = a_step(1);
    zest_log_eval const eval = an_eval(1, "dev");
    assert_int_equal(zest_log_open(the_log(), &w, NULL), ZEST_OK);
    assert_int_equal(zest_log_write_step(w, &step, NULL), ZEST_OK);
    assert_int_equal(test_file_size(the_log()), 0);
    assert_int_equal(zest_log_write_eval(w, &eval, NULL), ZEST_OK);
    assert_true(test_file_size(the_log()) > 100);
    assert_int_equal(zest_log_close(w, NULL), ZEST_OK);
    assert_int_equal(zest_log_close(NULL, NULL), ZEST_OK);
}

/* ---- Torn ---- */

static void any_end_can_be_torn(void **state) {
    (void)state;
    write_run(12, 1);
    char *whole = get();
    size_t const size = strlen(whole), first = (size_t)(strchr(whole, '\n') - whole) + 1;
    for (size_t cut = first; cut < size; cut += 1 + (size_t)(TEST_SLOW > 1) * 6) {
        assert_int_equal(zest_file_write(the_log(), whole, cut, NULL), ZEST_OK);
        zest_log log = read_log();
        assert_int_equal(log.bad, 0);
        assert_int_equal(log.torn, whole[cut - 1] != '\n' && whole[cut] != '\n');
        assert_true(log.step_count <= 12);
        zest_log_free(&log);
    }
    /* appending behind a torn line spoils that line alone */
    whole[size - 20] = '\0';
    put(whole);
    write_run(3, 0);
    zest_log log = read_log();
    assert_int_equal(log.bad, 1);
    assert_int_equal(log.start_count, 2);
    assert_int_equal(log.step_count, 3); /* the second session went over the steps again */
    assert_null(log.end);
    zest_log_free(&log);
    free(whole);
}

/* ---- Going on ---- */

static void continue_drops_what_lies_beyond(void **state) {
    (void)state;
    double seconds = -1;
    assert_int_equal(zest_log_continue(the_log(), 5, &seconds, NULL), ZEST_OK); /* no log yet */
    assert_true(seconds == 0);
    write_run(25, 1);
    char *whole = get();
    assert_int_equal(zest_log_continue(the_log(), 25, &seconds, NULL),
                     ZEST_OK); /* nothing to drop: as it was */
    char *same = get();
    assert_string_equal(whole, same);
    assert_true(seconds == 12);
    assert_int_equal(zest_log_continue(the_log(), 20, &seconds, NULL), ZEST_OK);
    assert_close(seconds, 2.05, 1e-12); /* the evaluation behind step 20 */
    zest_log log = read_log();
    assert_int_equal(log.step_count, 20);
    assert_int_equal(log.eval_count, 2);
    assert_null(log.end);
    zest_log_free(&log);
    /* what is kept is kept byte for byte */
    char *kept = get();
    assert_int_equal(strncmp(whole, kept, strlen(kept)), 0);
    free(kept);
    free(same);
    free(whole);
}

static void continue_mends_a_torn_line(void **state) {
    (void)state;
    write_run(25, 0);
    char *whole = get();
    whole[strlen(whole) - 30] = '\0';
    put(whole);
    assert_int_equal(zest_log_continue(the_log(), 1000, NULL, NULL), ZEST_OK);
    char *kept = get();
    assert_true(kept[strlen(kept) - 1] == '\n');
    zest_log log = read_log();
    assert_int_equal(log.step_count, 24);
    assert_false(log.torn);
    zest_log_free(&log);
    free(kept);
    free(whole);
}

static void a_resumed_session_replaces_steps(void **state) {
    (void)state;
    put("{\"kind\":\"start\"}\n"
        "{\"kind\":\"step\",\"step\":1,\"loss\":1}\n{\"kind\":\"step\",\"step\":2,\"loss\":2}\n"
        "{\"kind\":\"eval\",\"step\":2,\"part\":\"dev\"}\n{\"kind\":\"step\",\"step\":3,\"loss\":3}\n"
        "{\"kind\":\"end\",\"step\":3,\"reason\":\"x\"}\n"
        "{\"kind\":\"start\",\"resumed_at\":1,\"options\":{\"t\":\"5\"}}\n"
        "{\"kind\":\"step\",\"step\":2,\"loss\":20}\n");
    zest_log log = read_log();
    assert_int_equal(log.start_count, 2);
    assert_int_equal(log.step_count, 2);
    assert_int_equal(log.eval_count, 0);
    assert_true(log.steps[1].loss == 20);
    assert_null(log.end);
    assert_true(log.starts[1].resumed && log.starts[1].resumed_at == 1);
    assert_string_equal(zest_log_find_option(&log, "t"), "5");
    zest_log_free(&log);
    assert_int_equal(zest_log_continue(the_log(), 0, NULL, NULL),
                     ZEST_OK); /* drops the second start as well */
    log = read_log();
    assert_int_equal(log.start_count, 1);
    assert_int_equal(log.step_count, 0);
    zest_log_free(&log);
}

/* ---- Hostile ---- */

static void strange_lines_are_passed_over(void **state) {
    (void)state;
    put("{\"kind\":\"start\",\"time\":\"soon\",\"options\":{\"t\":1,\"k\":\"5\"},\"model\":7,\"task\":[],"
        "\"train\":-5}\n"
        "\n{}\n[1,2]\nnull\n{\"kind\":7}\nnot json\n{\"kind\":\"step\"}\n{\"kind\":\"step\",\"step\":-1}\n"
        "{\"kind\":\"step\",\"step\":1.5}\n{\"kind\":\"step\",\"step\":99999999999999999999}\n"
        "{\"kind\":\"step\",\"step\":1,\"loss\":1e999}\n{\"kind\":\"step\",\"step\":1,\"loss\":NaN}\n"
        "{\"kind\":\"step\",\"step\":1,\"loss\":null,\"ess\":\"many\",\"new\":{\"a\":[]}}\n"
        "{\"kind\":\"sharpness\",\"step\":1}\n{\"kind\":\"eval\",\"step\":1}\n"
        "{\"kind\":\"eval\",\"step\":1,\"part\":\"a part with a name that is much too long\",\"value\":1}\n"
        "{\"kind\":\"end\"}\n{\"kind\":\"end\",\"step\":4,\"dev\":\"no\",\"reason\":3,\"seconds\":[]}\n"
        "{\"kind\":\"step\",\"step\":2,\"loss\":\"\\u0000\"}\n\xff\xfe\n");
    zest_log log = read_log();
    assert_int_equal(log.step_count, 1);
    assert_true(isnan(log.steps[0].loss) && isnan(log.steps[0].ess));
    assert_int_equal(log.other, 1);
    assert_int_equal(log.eval_count, 1);
    assert_int_equal(strlen(log.evals[0].part), 15);
    assert_true(isnan(log.starts[0].time));
    assert_int_equal(log.starts[0].option_count, 1);
    assert_int_equal(log.starts[0].train, 0);
    assert_non_null(log.end);
    assert_null(log.end->reason);
    assert_string_equal(log.end->dev.part, "");
    assert_int_equal(log.bad, 15);
    zest_log_free(&log);
}

static void long_and_deep_lines_are_passed_over(void **state) {
    (void)state;
    size_t const size = 3 << 20;
    char *text = malloc(size + 400);
    assert_non_null(text);
    strcpy(text, "{\"kind\":\"start\"}\n");
    size_t at = strlen(text);
    memset(text + at, '[', 1 << 19); /* deep */
    at += 1 << 19;
    text[at++] = '\n';
    memset(text + at, 'x', size - at); /* long */
    strcpy(text + size, "\n{\"kind\":\"step\",\"step\":7}\n{\"kind\":\"st");
    put(text);
    zest_log log = read_log();
    assert_int_equal(log.bad, 2);
    assert_int_equal(log.step_count, 1);
    assert_true(log.torn);
    zest_log_free(&log);
    free(text);
}

/* Steps that go back and forth do not grow the arrays or break their order. */
static void steps_ascend(void **state) {
    (void)state;
    zest_buffer text = {0};
    zest_buffer_text(&text, "{\"kind\":\"start\"}\n");
    for (unsigned i = 0; i < 4000; i++)
        zest_buffer_format(&text, "{\"kind\":\"%s\",\"part\":\"dev\",\"step\":%u}\n", i % 3 ? "step" : "eval",
                           i * 2654435761u >> 20);
    put(text.data);
    zest_log log = read_log();
    for (size_t i = 1; i < log.step_count; i++) assert_true(log.steps[i].step > log.steps[i - 1].step);
    for (size_t i = 1; i < log.eval_count; i++) assert_true(log.evals[i].step >= log.evals[i - 1].step);
    assert_true(log.step_count > 0);
    zest_log_free(&log);
    zest_buffer_free(&text);
}

static void what_is_no_log_is_refused(void **state) {
    (void)state;
    zest_log log;
    zest_error error;
    assert_int_equal(zest_log_read(the_log(), &log, &error), ZEST_ERROR_FILE);
    assert_non_null(strstr(error.message, the_log()));
    put("");
    assert_int_equal(zest_log_read(the_log(), &log, &error), ZEST_ERROR_FORMAT);
    put("{\"kind\":\"sta");
    assert_int_equal(zest_log_read(the_log(), &log, &error), ZEST_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "not a log"));
    assert_int_equal(zest_log_read(test_temp_folder, &log, &error), ZEST_ERROR_FILE); /* a folder */
    zest_log_free(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(all_comes_back),
        IN_TEMP_FOLDER(steps_are_kept_for_a_while),
        IN_TEMP_FOLDER(any_end_can_be_torn),
        IN_TEMP_FOLDER(continue_drops_what_lies_beyond),
        IN_TEMP_FOLDER(continue_mends_a_torn_line),
        IN_TEMP_FOLDER(a_resumed_session_replaces_steps),
        IN_TEMP_FOLDER(strange_lines_are_passed_over),
        IN_TEMP_FOLDER(long_and_deep_lines_are_passed_over),
        IN_TEMP_FOLDER(steps_ascend),
        IN_TEMP_FOLDER(what_is_no_log_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
