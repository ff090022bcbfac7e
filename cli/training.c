#include "cli/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/summary.h"
#include "run/trainer.h"

/* ---- While it runs ---- */

typedef struct {
    zest_progress progress;
    int lines;   /* a line for every evaluation */
    int dry;     /* the summary is the result */
    int json;    /* and is printed as JSON */
    int code;    /* of a dry run */
    int started; /* a step was taken in this session */
    int timed;   /* how long it will take was said */
    uint64_t first, step, steps, eval_every;
    double began; /* clock behind the first step of this session */
    double loss;
} watch;

/* Once, when a few steps and seconds have passed: how long all of it will take. */
static void tell_time(watch *w, const zest_trainer_news *news) {
    double took = zest_clock_now() - w->began, made = (double)(news->step - w->first), left;
    char text[32];
    if (w->timed || made < 3 || took < 3) return;
    w->timed = 1;
    left = (double)(news->steps - news->step);
    double evaluations =
        isnan(news->dev_seconds) ? 0 : 1 + (w->eval_every ? left / (double)w->eval_every : 0);
    double seconds = left * took / made + evaluations * news->dev_seconds;
    if (!w->progress.active || !(seconds > 10)) return;
    zest_progress_clear(&w->progress);
    zest_output_note("%.3g s a step: about %s to go", took / made,
                     zest_progress_duration(seconds, text, sizeof text));
}

static void show_step(watch *w, const zest_trainer_news *news) {
    char note[160], dev[32] = "";
    if (!w->started) {
        zest_progress_stage(&w->progress, "train", "steps", (double)news->step);
        w->first = news->step;
        w->began = zest_clock_now();
    }
    w->started = 1;
    w->loss = news->loss;
    w->step = news->step;
    tell_time(w, news);
    if (!zest_progress_due(&w->progress)) return;
    int gradients = !isnan(news->norm);
    if (news->dev.n) snprintf(dev, sizeof dev, ", dev %.4f", news->dev.value);
    snprintf(note, sizeof note, "loss %.4f%s, %s %.*f, %.0f forward tokens/s", news->loss, dev,
             gradients ? "gradient" : "effective", gradients ? 3 : 1,
             gradients ? news->norm : news->effective, news->tokens_per_second);
    zest_progress_update(&w->progress, (double)news->step, (double)news->steps, note);
}

/* Evaluations take a part of the time, too: the bar stands still, the note does not. */
static void on_evaluate(uint64_t done, uint64_t all, void *user) {
    watch *w = user;
    char note[96];
    if (!zest_progress_due(&w->progress)) return;
    snprintf(note, sizeof note, "evaluating: %llu of %llu examples", (unsigned long long)done,
             (unsigned long long)all);
    zest_progress_update(&w->progress, (double)w->step, (double)w->steps, note);
}

static void on_start(const zest_trainer_summary *summary, void *user) {
    watch *w = user;
    zest_buffer text = {0};
    w->step = summary->step;
    w->steps = zest_options_whole(summary->options, ZEST_OPTION_STEPS);
    w->eval_every = zest_options_whole(summary->options, ZEST_OPTION_EVAL_EVERY);
    zest_progress_clear(&w->progress);
    if (w->dry && w->json) {
        w->code = zest_output_json(zest_summary_json(summary));
        return;
    }
    zest_summary_text(summary, &text);
    if (w->dry) {
        w->code = zest_output_buffer(&text);
    } else {
        if (w->progress.active && !text.failed) zest_output_notes(text.data);
        zest_buffer_free(&text);
    }
    zest_progress_stage(&w->progress, "train", "steps", (double)summary->step);
}

static void show_evaluation(watch *w, const zest_trainer_news *news) {
    zest_progress_clear(&w->progress);
    printf("step %6llu  ", (unsigned long long)news->step);
    if (isnan(w->loss))
        printf("                   ");
    else
        printf("train loss %.4f  ", w->loss);
    zest_metrics_print_short(&news->dev, stdout);
    printf("%s\n", news->best ? "  best" : "");
    fflush(stdout);
}

static void show_advice(const zest_tilt_advice *advice) {
    zest_buffer text = {0};
    zest_choose_t_text(advice, &text);
    char *more = text.failed ? NULL : strstr(text.data, "; "); /* what it does; and what would */
    if (more) *more = '\0';
    if (!text.failed) printf("tilt: %s\n", text.data);
    if (more) printf("      %s\n", more + 2);
    fflush(stdout);
    zest_buffer_free(&text);
}

static void on_news(const zest_trainer_news *news, void *user) {
    watch *w = user;
    if (!news->evaluated)
        show_step(w, news);
    else if (w->lines)
        show_evaluation(w, news);
    if (news->advice && w->lines) show_advice(news->advice);
}

static void on_rebuild(uint64_t step, uint64_t wanted, void *user) {
    watch *w = user;
    if (strcmp(w->progress.label, "rebuild")) zest_progress_stage(&w->progress, "rebuild", "steps", 0);
    zest_progress_update(&w->progress, (double)step, (double)wanted, NULL);
}

static void on_note(const char *sentences, void *user) {
    watch *w = user;
    if (!w->progress.active) return;
    zest_progress_clear(&w->progress);
    zest_output_notes(sentences);
}

/* ---- At the end ---- */

static int report_json(const zest_trainer_result *r, const char *folder) {
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:f, s:I, s:I, s:o}", "reason", zest_trainer_reason(r->reason),
        "step", (json_int_t)r->step, "best_step", (json_int_t)r->best_step, "metric", r->metric, "start",
        zest_metrics_json(&r->start), "dev", zest_metrics_json(&r->dev), "test", zest_metrics_json(&r->test),
        "seconds", r->seconds, "peak_bytes", (json_int_t)r->peak_bytes, "dropped_pairs",
        (json_int_t)r->dropped_pairs, "run", zest_output_string(folder));
    if (r->device_peak_bytes)
        zest_output_set(&object, "device_peak_bytes", json_integer((json_int_t)r->device_peak_bytes));
    return zest_output_json(object);
}

static int report(const zest_trainer_result *r, const char *folder) {
    printf("%s after %llu steps, %.0f s", zest_trainer_reason(r->reason), (unsigned long long)r->step,
           r->seconds);
    if (r->reason == ZEST_TRAINED_INTERRUPTED) {
        printf("\n");
        if (*folder) zest_output_print("go on   zest train --resume %s\n", folder);
        return ZEST_EXIT_OK;
    }
    printf("; best at step %llu\n", (unsigned long long)r->best_step);
    zest_metrics_print("dev", r->metric, &r->dev, stdout);
    zest_metrics_print("test", r->metric, &r->test, stdout);
    if (r->dropped_pairs)
        printf("left out  %llu pairs with a loss that was not finite\n",
               (unsigned long long)r->dropped_pairs);
    if (*folder) zest_output_print("run   %s\n", folder);
    return ZEST_EXIT_OK;
}

/* Why a run with an exploding loss was stopped, and what to do. */
static int report_divergence(const zest_trainer_result *r, const char *folder) {
    char now[32] = "not finite";
    if (isfinite(r->divergence.latest)) snprintf(now, sizeof now, "%.4g", r->divergence.latest);
    zest_output_note("the training loss diverged: %d steps in a row above %.4g (it began at %.4g and is %s "
                     "now); try a smaller --lr or --rho",
                     ZEST_DIVERGENCE_STEPS, zest_divergence_limit(&r->divergence), r->divergence.first, now);
    if (*folder && r->dev.n)
        zest_output_note("the best weights, of step %llu, are in %s/best; to go on regardless: zest train "
                         "--resume %s --on-divergence continue",
                         (unsigned long long)r->best_step, folder, folder);
    return ZEST_EXIT_FAILURE;
}

int zest_training_run(const zest_options *given) {
    const char *resume = zest_options_text(given, ZEST_OPTION_RESUME);
    zest_error error = {0};
    zest_options options;
    zest_trainer_result result = {0};
    int json = (int)zest_options_whole(given, ZEST_OPTION_JSON),
        quiet = (int)zest_options_whole(given, ZEST_OPTION_QUIET);
    zest_ctx *ctx = zest_output_context();
    if (!ctx) return ZEST_EXIT_FAILURE;
    watch w = {.lines = !json && !quiet, .json = json, .loss = NAN};
    zest_trainer_hooks hooks = {.start = on_start,
                                .tell = on_news,
                                .rebuild = on_rebuild,
                                .evaluate = on_evaluate,
                                .note = on_note,
                                .user = &w,
                                .stop = zest_interrupt_catch()};
    zest_progress_begin(&w.progress, "rebuild", "steps", quiet);
    w.dry = (int)zest_options_whole(given, ZEST_OPTION_DRY_RUN);
    if (!quiet && !w.dry && !*resume && !*zest_options_text(given, ZEST_OPTION_OUT))
        zest_output_note(
            "nothing of this run will be kept, neither weights nor steps; with --out RUN all of it "
            "is, and the run can be resumed");
    zest_status status = zest_options_copy(&options, given, &error);
    if (!status && w.dry && *resume)
        status = zest_error_set(&error, ZEST_ERROR_ARGUMENT, "--dry-run is for a new run, not for --resume");
    if (!status)
        status = w.dry     ? zest_trainer_dry_run(ctx, &options, &hooks, &error)
                 : *resume ? zest_trainer_resume(ctx, resume, given, &hooks, &result, &error)
                           : zest_trainer_run(ctx, &options, &hooks, &result, &error);
    zest_progress_end(&w.progress);
    const char *folder = *resume ? resume : zest_options_text(given, ZEST_OPTION_OUT);
    int code;
    if (status) {
        code = zest_output_fail(status, error.message);
        if (*folder && result.step)
            zest_output_note("the run is kept up to step %llu; go on with: zest train --resume %s",
                             (unsigned long long)result.step, folder);
    } else if (w.dry) {
        code = w.code;
    } else {
        if (result.cut) zest_output_note("%zu texts were too long and were shortened", result.cut);
        code = json ? report_json(&result, folder) : report(&result, folder);
        if (!code && result.reason == ZEST_TRAINED_DIVERGED) code = report_divergence(&result, folder);
    }
    zest_options_free(&options);
    zest_ctx_free(ctx);
    return code;
}
