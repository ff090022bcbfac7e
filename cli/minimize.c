/* zest minimize: minimises a function computed by an external program. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "optim/exec.h"
#include "optim/tuner.h"

/* ---- Run folder: start, options, journal, x ---- */

typedef struct {
    const char *folder; /* NULL: nothing is saved */
    char *start, *options, *journal, *x;
} paths;

static zest_status find_paths(paths *p, const char *folder, zest_error *error) {
    *p = (paths){.folder = folder};
    if (!folder) return ZEST_OK;
    p->start = zest_file_join(folder, "start");
    p->options = zest_file_join(folder, "options");
    p->journal = zest_file_join(folder, "journal");
    p->x = zest_file_join(folder, "x");
    return p->start && p->options && p->journal && p->x
               ? ZEST_OK
               : zest_error_memory(error, folder, 4 * strlen(folder));
}

static void free_paths(paths *p) {
    free(p->start);
    free(p->options);
    free(p->journal);
    free(p->x);
}

/* Free *options whatever this returns. */
static zest_status read_options(const paths *p, zest_options *options, zest_error *error) {
    zest_buffer text = {0};
    zest_options_init(options);
    zest_status status = zest_file_read(p->options, 1 << 20, &text, error);
    if (!status)
        status =
            zest_options_set_all(options, ZEST_FOR_MINIMIZE, text.data ? text.data : "", p->options, error);
    zest_buffer_free(&text);
    return status;
}

/* ---- Starting point ---- */

static zest_status constant_start(const zest_options *options, double value, double **x, size_t *n,
                                  zest_error *error) {
    *n = (size_t)zest_options_whole(options, ZEST_OPTION_DIM);
    if (!*n)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "the number of dimensions is missing: --dim COUNT");
    if (!isfinite(value)) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--start must be finite");
    *x = malloc(*n * sizeof **x);
    if (!*x) return zest_error_memory(error, "x", *n * sizeof **x);
    for (size_t i = 0; i < *n; i++) (*x)[i] = value;
    return ZEST_OK;
}

static zest_status make_start(const zest_options *options, double **x, size_t *n, zest_error *error) {
    const char *start = zest_options_text(options, ZEST_OPTION_START);
    char *end;
    double value = zest_number_parse(start, &end);
    if (*start && !*end) return constant_start(options, value, x, n, error);
    zest_status status = zest_file_read_numbers(start, x, n, error);
    size_t dim = (size_t)zest_options_whole(options, ZEST_OPTION_DIM);
    if (!status && dim && dim != *n) {
        free(*x);
        *x = NULL;
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s contains %zu numbers, but --dim is %zu", start,
                              *n, dim);
    }
    return status;
}

/* ---- Running ---- */

static zest_tuner *volatile running; /* for the signal handler */

static void on_signal(int number) {
    (void)number;
    if (running) zest_tuner_stop(running);
}

/* Ctrl-C ends the run after the current step; a second one ends zest. */
static void catch_signals(zest_tuner *tuner) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    running = tuner;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

typedef struct {
    zest_progress progress;
    double steps;
    int started;
} watch;

static int on_step(const zest_step_report *report, void *user) {
    watch *w = user;
    char note[96];
    if (!w->started) zest_progress_stage(&w->progress, "minimize", "steps", (double)report->step);
    w->started = 1;
    if (!zest_progress_due(&w->progress)) return 0;
    snprintf(note, sizeof note, "loss %.6g, lr %.3g, effective %.1f", report->loss, report->lr,
             report->tilt.effective);
    zest_progress_update(&w->progress, (double)report->step, w->steps, note);
    return 0;
}

static void on_wait(double seconds, void *user) {
    zest_output_note("no answer from '%s' for %g seconds; does it flush its output, and read its input "
                     "unbuffered?",
                     (const char *)user, seconds);
}

static zest_status set_options(zest_tuner *tuner, const zest_options *options, int only_given) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (!(row->users & ZEST_FOR_TUNER)) continue;
        if (only_given && !zest_options_given(options, (zest_option_id)id)) continue;
        zest_status status = zest_tuner_set(tuner, row->name, zest_options_text(options, (zest_option_id)id));
        if (status) return status;
    }
    return ZEST_OK;
}

/* A new run folder: everything is on disk before the first evaluation. The journal comes last: with it the
 * run has started and can be resumed; without it, it can be started again. Its lock comes first, so that of two
 * processes one gives up. */
static zest_status save_run(zest_tuner *tuner, const paths *p, const zest_options *options, const double *x,
                            size_t n, zest_ctx *ctx, zest_error *error) {
    zest_buffer text = {0};
    zest_options_print(options, ZEST_FOR_MINIMIZE, &text);
    zest_status status = text.failed ? zest_error_memory(error, "options", text.size) : ZEST_OK;
    if (!status) status = zest_file_make_folder(p->folder, error);
    if (!status && zest_tuner_reserve_journal(tuner, p->journal))
        status = zest_error_set(error, zest_ctx_status(ctx), "%s", zest_ctx_error(ctx));
    if (!status) zest_file_remove_temporaries(p->folder);
    if (!status) status = zest_file_write_numbers(p->start, x, n, error);
    if (!status) status = zest_file_write(p->options, text.data, text.size, error);
    zest_buffer_free(&text);
    if (!status && zest_tuner_commit_journal(tuner))
        status = zest_error_set(error, zest_ctx_status(ctx), "%s", zest_ctx_error(ctx));
    return status;
}

/* The journal's header has the options that the run began with, which no resume changes: a file of other options was
 * edited, or belongs to another run. */
static zest_status check_options(const paths *p, const zest_options *recorded, zest_error *error) {
    zest_options options;
    zest_status status = read_options(p, &options, error);
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        const char *here = zest_options_text(&options, (zest_option_id)id),
                   *there = zest_options_text(recorded, (zest_option_id)id);
        if (!(row->users & ZEST_FOR_TUNER) || !(row->users & ZEST_FOR_MINIMIZE) || !strcmp(here, there))
            continue;
        status = zest_error_set(error, ZEST_ERROR_FORMAT,
                                "%s: has %s=%.100s, but %s has %s=%.100s: the file was edited, or belongs to "
                                "another run; put it back as it was",
                                p->options, row->name, here, p->journal, row->name, there);
    }
    zest_options_free(&options);
    return status;
}

static zest_status resume_run(zest_tuner *tuner, const paths *p, zest_ctx *ctx, zest_error *error) {
    if (zest_tuner_resume_journal(tuner, p->journal))
        return zest_error_set(error, zest_ctx_status(ctx), "%s", zest_ctx_error(ctx));
    zest_file_remove_temporaries(p->folder);
    return check_options(p, &tuner->options, error);
}

static json_t *result_json(const zest_result *r, const double *x, size_t n) {
    json_t *object = json_pack("{s:s, s:I, s:I, s:o, s:o, s:I, s:I, s:f}", "stop", zest_stop_name(r->stop),
                               "steps", (json_int_t)r->steps, "evaluations", (json_int_t)r->evaluations,
                               "loss", zest_output_real(r->loss), "best", zest_output_real(r->best),
                               "best_step", (json_int_t)r->best_step, "dropped_pairs",
                               (json_int_t)r->dropped_pairs, "seconds", r->seconds);
    json_t *point = json_array();
    for (size_t i = 0; object && i < n; i++) zest_output_append(&point, zest_output_real(x[i]));
    zest_output_set(&object, "x", point);
    return object;
}

static int report(const zest_options *options, const zest_result *r, const double *x, size_t n,
                  const paths *p) {
    enum { SHOWN = 8 };
    if (zest_options_whole(options, ZEST_OPTION_JSON))
        return zest_output_json(result_json(r, x, n <= 10000 ? n : 0));
    printf("%s after %llu steps and %llu evaluations (%.1f s)\n", zest_stop_name(r->stop),
           (unsigned long long)r->steps, (unsigned long long)r->evaluations, r->seconds);
    printf("loss  %.9g\n", r->loss);
    if (r->dropped_pairs)
        printf("left out  %llu pairs with a loss that was not finite\n",
               (unsigned long long)r->dropped_pairs);
    printf("x    ");
    for (size_t i = 0; i < n && i < SHOWN; i++) printf(" %.9g", x[i]);
    printf(n > SHOWN ? " ... (%zu in all)\n" : "\n", n);
    if (p->folder) zest_output_print("run   %s\n", p->folder);
    return ZEST_EXIT_OK;
}

/* The options of a run folder, overridden by those of the command line. */
static zest_status stored_options(const paths *p, const zest_options *given, zest_options *out,
                                  zest_error *error) {
    zest_status status = read_options(p, out, error);
    memset(out->given, 0, sizeof out->given); /* nothing is given on this command line yet */
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++)
        if (zest_options_given(given, (zest_option_id)id))
            status = zest_options_set_id(out, (zest_option_id)id,
                                         zest_options_text(given, (zest_option_id)id), error);
    return status;
}

/* The run from a prepared starting point. */
static int optimise(const zest_options *options, int resumed, paths *p, double *x, size_t n) {
    zest_error error = {0};
    zest_ctx *ctx = zest_output_context();
    if (!ctx) return ZEST_EXIT_FAILURE;
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, n);
    if (!tuner) {
        int code = zest_output_fail(ZEST_ERROR_MEMORY, zest_ctx_error(ctx));
        zest_ctx_free(ctx);
        return code;
    }
    char *exec_command = options->text[ZEST_OPTION_EXEC];
    watch w = {.steps = (double)zest_options_whole(options, ZEST_OPTION_STEPS)};
    zest_result result = {0};
    zest_exec *exec = NULL;
    zest_status status = resumed ? resume_run(tuner, p, ctx, &error) : ZEST_OK;
    if (!status) status = set_options(tuner, options, resumed);
    if (!status && !resumed && p->folder) status = save_run(tuner, p, options, x, n, ctx, &error);
    if (!status) {
        exec = zest_exec_start(exec_command, (size_t)zest_options_whole(options, ZEST_OPTION_JOBS),
                               (zest_exec_format)zest_options_whole(options, ZEST_OPTION_FORMAT),
                               zest_options_number(options, ZEST_OPTION_TIMEOUT), &error);
        if (exec) zest_exec_on_wait(exec, on_wait, exec_command);
        status = exec ? zest_tuner_objective_lanes(tuner, zest_exec_objective, exec) : error.status;
    }
    if (!status) {
        catch_signals(tuner);
        zest_progress_begin(&w.progress, "minimize", "steps",
                            (int)zest_options_whole(options, ZEST_OPTION_QUIET));
        zest_tuner_on_step(tuner, on_step, &w);
        status = zest_tuner_run(tuner, &result);
        zest_progress_end(&w.progress);
        running = NULL;
    }
    if (!status && p->folder) status = zest_file_write_numbers(p->x, x, n, &error);
    int code;
    if (status) {
        const char *why = exec && *zest_exec_error(exec) ? zest_exec_error(exec)
                          : *error.message               ? error.message
                                                         : zest_ctx_error(ctx);
        code = zest_output_fail(status, why);
        if (p->folder && result.steps)
            zest_output_note("the run is saved up to step %llu; continue with: zest minimize --resume %s",
                             (unsigned long long)result.steps, p->folder);
    } else {
        code = report(options, &result, x, n, p);
    }
    zest_exec_stop(exec);
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
    return code;
}

static int run(const zest_options *given, char **words, int count) {
    (void)words, (void)count;
    const char *resume = zest_options_text(given, ZEST_OPTION_RESUME),
               *out = zest_options_text(given, ZEST_OPTION_OUT);
    int resumed = *resume != '\0';
    zest_options options;
    zest_error error = {0};
    paths p;
    double *x = NULL;
    size_t n = 0;
    zest_options_init(&options);
    zest_status status = find_paths(&p, resumed ? resume : *out ? out : NULL, &error);
    if (!status && resumed)
        status = stored_options(&p, given, &options, &error);
    else if (!status)
        status = zest_options_copy(&options, given, &error);
    if (!status && !*zest_options_text(&options, ZEST_OPTION_EXEC))
        status = zest_error_set(&error, ZEST_ERROR_ARGUMENT,
                                "nothing to minimise: set --exec PROGRAM (or --resume RUN)");
    if (!status)
        status =
            resumed ? zest_file_read_numbers(p.start, &x, &n, &error) : make_start(&options, &x, &n, &error);
    int code = status ? zest_output_fail(status, error.message) : optimise(&options, resumed, &p, x, n);
    free(x);
    free_paths(&p);
    zest_options_free(&options);
    return code;
}

const zest_command zest_command_minimize = {
    .name = "minimize",
    .words = "",
    .summary = "minimise a function that a program of yours computes",
    .description =
        "Starts PROGRAM, sends it points, reads losses, and minimises the average (MeZO) or the tilted "
        "(ZEST) loss around x. No gradients, no C.\n\n"
        "Protocol: every point is one line of numbers on the program's standard input; the program answers "
        "each with one line, the loss, and flushes. It is started once per job and lives until the run "
        "ends. 'nan' or 'inf' exclude a pair from its step. With --format f64 or f32 points are raw "
        "little-endian numbers instead; answers are still lines.\n\n"
        "With --out RUN every step is written to the journal before it is applied, and the journal is "
        "synced to disk once a second. After Ctrl-C, a crash of the program, a kill or a power failure, "
        "`zest minimize --resume RUN` continues after the last recorded step. If the program answers as "
        "before, the result has the same bits as that of an uninterrupted run.",
    .examples =
        "zest minimize --exec 'python3 -u loss.py' --dim 3 --start 1\ta function in Python (-u: unbuffered)\n"
        "zest minimize --exec ./model --start x0.txt --jobs 8 --out run1\teight copies at once, kept in "
        "run1\n"
        "zest minimize --resume run1 --steps 5000\tand further",
    .options = "out\trun folder to create: options, start, journal, x\n"
               "resume\tcontinue the run in this folder, with its options\n"
               "jobs\tcopies of the program that run in parallel; results do not depend on it\n"
               "dim\tnumber of dimensions\n"
               "seed\trandom seed\n"
               "method\testimator of the tilted gradient: zest-n (naive), zest-bc (bias-corrected) or mezo "
               "(which is t = 0); the others need gradients and are refused\n"
               "patience\tstop after this many steps without a better loss; 0: off\n"
               "eval-every\tevaluate x itself every so many steps; --target and --patience then use these "
               "losses; 0: they use the mean loss of the perturbed points of every step",
    .defaults = "",
    .users = ZEST_FOR_MINIMIZE,
    .run = run,
};
