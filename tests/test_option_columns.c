/* What the option table says of an option is what happens: which methods take it, when it may change, what it is
 * in a sweep. Every row is tried. */
#include <math.h>

#include "base/text.h"
#include "optim/tuner.h"
#include "tests/sweep.h"
#include "tests/training.h"

#define TRAIN                                                                                             \
    "task=examples/reviews/reviews.task shots=2 batch=4 seed=13 steps=3 eval-every=0 test-size=2 lr=0.1 " \
    "weights=f32 threads=1 "

#ifdef ZEST_GRAD
enum { METHODS = ZEST_CHOICE_COUNT };
#else
enum { METHODS = ZEST_CHOICE_SGD };
#endif

static const zest_option_row *row_of(int id) { return zest_option_row_at((zest_option_id)id); }

static const char *method_name(unsigned method) {
    static char name[16];
    return zest_option_name_methods(1u << method, "", name, sizeof name);
}

static int is_off_by_default(int id) {
    zest_options options;
    zest_options_init(&options);
    int off = row_of(id)->kind == ZEST_KIND_TEXT ? !*row_of(id)->fallback
                                                 : options.number[id] == 0 && options.whole[id] == 0;
    zest_options_free(&options);
    return off;
}

/* Another value than the default that an option can have. */
static const char *other_value(int id) {
    static char text[96];
    const zest_option_row *row = row_of(id);
    double number = zest_number_parse(row->fallback, NULL);
    switch (row->kind) {
    case ZEST_KIND_FLAG: return strcmp(row->fallback, "yes") ? "yes" : "no";
    case ZEST_KIND_TEXT: return "other";
    case ZEST_KIND_LIST: return "1,2,3";
    case ZEST_KIND_SEED: return "77";
    case ZEST_KIND_CHOICE:
        snprintf(text, sizeof text, "%s",
                 strchr(row->choices, '|') + 1); /* the second; the first is the default */
        text[strcspn(text, "|")] = '\0';
        return text;
    case ZEST_KIND_COUNT: return snprintf(text, sizeof text, "%.0f", fmin(number + 1, row->high)), text;
    case ZEST_KIND_REAL: break;
    }
    double value = isfinite(number) && number > 0 ? number / 2 : isfinite(row->high) ? row->high / 2 : 0.5;
    return snprintf(text, sizeof text, "%g", value), text;
}

/* ---- Methods ---- */

static void add_loss(const zest_trainer_progress *progress, void *user) {
    if (!progress->evaluated) *(double *)user = *(double *)user * 3 + progress->loss;
}

/* A number that changes with the losses of a run. */
static double trace_of(const char *options) {
    zest_options o;
    zest_error error = {0};
    double trace = 0;
    zest_trainer_result result;
    zest_trainer_hooks hooks = {.on_progress = add_loss, .user = &trace};
    zest_ctx *ctx = zest_ctx_new();
    zest_options_init(&o);
    zest_status status = zest_options_set_all(&o, ZEST_FOR_TRAIN, options, "test", &error);
    if (!status) status = zest_options_set_id(&o, ZEST_OPTION_MODEL, training_model, &error);
    if (!status) status = zest_trainer_run(ctx, &o, &hooks, &result, &error);
    if (status) fail_msg("%s: %s", options, error.message);
    zest_options_free(&o);
    zest_ctx_free(ctx);
    return trace;
}

/* Options that a method does not take are refused, or, where they are on by default, change nothing; those that it
 * takes change its losses. */
static void methods_take_what_they_say(void **state) {
    (void)state;
    static const struct {
        zest_option_id id;
        const char *value;
    } all[] = {{ZEST_OPTION_T, "50"},
               {ZEST_OPTION_STEP_LENGTH, "spread"},
               {ZEST_OPTION_MAX_STEP, "1e-3"},
               {ZEST_OPTION_RHO, "0.05"},
               {ZEST_OPTION_K, "3"},
               {ZEST_OPTION_DISTRIBUTION, "rademacher"},
               {ZEST_OPTION_RADIUS, "3"},
               {ZEST_OPTION_MOMENTUM, "0.9"},
               {ZEST_OPTION_CLIP, "1e-4"},
               {ZEST_OPTION_ASCENT, "2"},
               {ZEST_OPTION_BETA1, "0.5"},
               {ZEST_OPTION_BETA2, "0.5"},
               {ZEST_OPTION_ADAM_EPSILON, "1"},
               {ZEST_OPTION_DROPOUT, "0.5"},
               {ZEST_OPTION_SCALES, "*=3"},
               {ZEST_OPTION_DENOMINATOR, "ball"}};
    for (unsigned m = 0; m < METHODS; m++) {
        char base[400], options[500];
        snprintf(base, sizeof base, TRAIN "method=%s k=2 %s", method_name(m),
                 m < ZEST_CHOICE_SGD    ? "distribution=sphere "
                 : m == ZEST_CHOICE_SAM ? "sam-search=random radius=1 "
                                        : "radius=1 ");
        double plain = trace_of(base);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            const zest_option_row *row = zest_option_row_at(all[i].id);
            int takes = zest_option_takes(row, m), off = is_off_by_default((int)all[i].id);
            if (TEST_SLOW > 1 && (i + m) % 4) continue;
            snprintf(options, sizeof options, "%s%s=%s", base, row->name, all[i].value);
            if (!takes && off) {
                zest_trainer_result result;
                zest_error error = {0};
                assert_int_equal(training_run(options, NULL, NULL, &result, &error), ZEST_ERROR_ARGUMENT);
                assert_non_null(strstr(error.message, "does nothing for method"));
            } else if ((trace_of(options) != plain) != takes) {
                fail_msg("%s: the table says that it %s", options, takes ? "matters" : "changes nothing");
            }
        }
    }
}

/* The message names those that take it; only what was given and is on counts. */
static void refusals_name_the_methods(void **state) {
    (void)state;
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        for (unsigned m = 0; m < ZEST_CHOICE_COUNT; m++) {
            zest_options given;
            zest_error error = {0};
            char takers[96];
            zest_options_init(&given);
            assert_int_equal(zest_options_check_method(&given, m, &error), 0);
            assert_int_equal(zest_options_set_id(&given, (zest_option_id)id, other_value(id), &error), 0);
            zest_status status = zest_options_check_method(&given, m, &error);
            int refused = !zest_option_takes(row_of(id), m) && is_off_by_default(id);
            if ((status == ZEST_ERROR_ARGUMENT) != refused)
                fail_msg("%s, %s", row_of(id)->name, method_name(m));
            zest_option_name_methods(row_of(id)->methods, "and", takers, sizeof takers);
            if (refused)
                assert_true(strstr(error.message, row_of(id)->name) && strstr(error.message, takers));
            if (refused && *row_of(id)->fallback) { /* given, but off */
                zest_options_set_id(&given, (zest_option_id)id, row_of(id)->fallback, &error);
                assert_int_equal(zest_options_check_method(&given, m, &error), 0);
            }
            zest_options_free(&given);
        }
    char text[96];
    assert_string_equal(
        zest_option_name_methods(row_of(ZEST_OPTION_RADIUS)->methods, "and", text, sizeof text),
        "sam, esam and tsam");
    assert_string_equal(zest_option_name_methods(ZEST_METHODS_FORWARD, "or", text, sizeof text),
                        "zest-n, zest-bc or mezo");
    assert_string_equal(zest_option_name_methods(1u << ZEST_CHOICE_MEZO, "or", text, sizeof text), "mezo");
    assert_int_equal(zest_option_find_method("tsam"), ZEST_CHOICE_TSAM);
    assert_int_equal(zest_option_find_method("zest"), ZEST_CHOICE_COUNT);
    unsigned choices = 1;
    for (const char *c = row_of(ZEST_OPTION_METHOD)->choices; *c; c++) choices += *c == '|';
    assert_int_equal(choices, ZEST_CHOICE_COUNT);
    /* the order of the enum, by which the trainer finds an optimizer */
    assert_string_equal(zest_option_name_methods(ZEST_METHODS_GRADIENT, "and", text, sizeof text),
                        "sgd, adamw, sam, esam and tsam");
}

/* ---- Changes ---- */

static double bowl(const float *x, size_t n, void *user) {
    (void)n, (void)user;
    return (double)(x[0] * x[0]);
}

static void a_running_tuner_changes_what_it_may(void **state) {
    (void)state;
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        if (!(row_of(id)->users & ZEST_FOR_TUNER)) {
            assert_false(row_of(id)->changes & ZEST_CHANGES_RUNNING);
            continue;
        }
        float x[2] = {1, 2};
        zest_ctx *ctx = zest_ctx_new();
        zest_tuner *tuner = zest_tuner_new_f32(ctx, x, 2);
        assert_int_equal(zest_tuner_objective_f32(tuner, bowl, NULL), 0);
        assert_int_equal(zest_tuner_step(tuner, NULL), 0);
        int may = (row_of(id)->changes & ZEST_CHANGES_RUNNING) != 0;
        zest_status status = zest_tuner_set(tuner, row_of(id)->name, other_value(id));
        if (status != (may ? ZEST_OK : ZEST_ERROR_STATE)) fail_msg("%s", row_of(id)->name);
        assert_string_equal(zest_tuner_get(tuner, row_of(id)->name),
                            may ? other_value(id) : row_of(id)->fallback);
        zest_tuner_free(tuner);
        zest_ctx_free(ctx);
    }
}

/* Of a run that is resumed. Whatever may change gets past this; some values then fail for another reason. */
static void a_resumed_run_changes_what_it_may(void **state) {
    (void)state;
    zest_trainer_result result;
    zest_run_folder folder;
    assert_fine(training_run(TRAIN "method=mezo k=1", temp_path("run"), NULL, &result, error));
    assert_fine(zest_run_folder_of(temp_path("run"), &folder, error));
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        zest_options given, kept;
        zest_error why = {0};
        zest_trainer_hooks hooks = {0};
        if (!(row_of(id)->users & ZEST_FOR_TRAIN)) continue;
        zest_options_init(&given);
        zest_ctx *ctx = zest_ctx_new();
        const char *value = other_value(id);
        assert_fine(zest_run_folder_read_options(&folder, ZEST_FOR_TRAIN, &kept, error));
        if (!strcmp(zest_options_text(&kept, (zest_option_id)id), value)) value = row_of(id)->fallback;
        assert_fine(zest_options_set_id(&given, (zest_option_id)id, value, error));
        (void)zest_trainer_resume(ctx, temp_path("run"), &given, &hooks, &result, &why);
        int refused = strstr(why.message, "cannot change any more") != NULL;
        if (refused != !(row_of(id)->changes & ZEST_CHANGES_ON_RESUME) &&
            !strstr(why.message, "does nothing for method"))
            fail_msg("--%s=%s: '%s'", row_of(id)->name, value, why.message);
        zest_options_free(&kept);
        zest_options_free(&given);
        zest_ctx_free(ctx);
    }
    zest_run_folder_free(&folder);
}

/* Options of one session are not kept with the run. */
static void sessions_leave_nothing_behind(void **state) {
    (void)state;
    zest_run_folder folder;
    zest_options options, kept;
    zest_options_init(&options);
    assert_fine(zest_run_folder_of(test_temp_folder, &folder, error));
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        assert_fine(zest_options_set_id(&options, (zest_option_id)id, other_value(id), error));
    assert_fine(zest_run_folder_write_options(&folder, ZEST_FOR_TRAINING, &options, error));
    assert_fine(zest_run_folder_read_options(&folder, ZEST_FOR_TRAINING, &kept, error));
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        if (!(row_of(id)->users & ZEST_FOR_TRAINING)) continue;
        int session = (row_of(id)->changes & ZEST_CHANGES_BY_SESSION) != 0;
        assert_string_equal(zest_options_text(&kept, (zest_option_id)id),
                            session ? row_of(id)->fallback : other_value(id));
    }
    zest_options_free(&kept);
    zest_options_free(&options);
    zest_run_folder_free(&folder);
}

/* ---- Sweeps ---- */

/* A grid takes what runs may differ in, and two values of it are two runs, unless the method does not take it. What
 * dev chooses is one row, what runs are is two. */
static void sweeps_vary_what_they_may(void **state) {
    (void)state;
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = row_of(id);
        char text[400];
        zest_sweep_grid grid;
        zest_error error = {0};
        if (!(row->users & ZEST_FOR_TRAIN)) {
            assert_int_equal(row->sweep, ZEST_SWEEP_NEVER);
            continue;
        }
        snprintf(text, sizeof text, "%s = %s; %s\n", row->name, *row->fallback ? row->fallback : "one",
                 other_value(id));
        zest_status status = zest_sweep_grid_read(&grid, text, "test", &error);
        assert_int_equal(status != ZEST_OK, row->sweep == ZEST_SWEEP_NEVER);
        if (status) continue;
        zest_sweep_grid_free(&grid);
        for (unsigned m = 0; m < ZEST_CHOICE_COUNT && id != ZEST_OPTION_METHOD; m++) {
            char with[500];
            snprintf(with, sizeof with, "%smethod = %s\n%s", text, method_name(m),
                     id == ZEST_OPTION_K ? "sam-search = random\n" : "");
            zest_sweep_plan plan = plan_of(with);
            if (plan.count != (zest_option_takes(row, m) ? 2 : 1)) fail_msg("%s: %zu runs", with, plan.count);
            if (plan.count == 2) {
                assert_int_equal(zest_sweep_is_chosen(&plan, (zest_option_id)id),
                                 row->sweep == ZEST_SWEEP_TUNED);
                assert_int_equal(zest_sweep_distinguishes_rows(&plan, (zest_option_id)id),
                                 row->sweep == ZEST_SWEEP_ROW || row->sweep == ZEST_SWEEP_DATA);
            }
            zest_sweep_plan_free(&plan);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_take_what_they_say),
        cmocka_unit_test(refusals_name_the_methods),
        cmocka_unit_test(a_running_tuner_changes_what_it_may),
        IN_TEMP_FOLDER(a_resumed_run_changes_what_it_may),
        IN_TEMP_FOLDER(sessions_leave_nothing_behind),
        cmocka_unit_test(sweeps_vary_what_they_may),
    };
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}
