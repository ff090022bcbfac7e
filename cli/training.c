#include "cli/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "run/trainer.h"

/* ---- While it runs ---- */

typedef struct {
    zest_progress progress;
    int lines;   /* a line for every evaluation */
    int started; /* a step was taken in this session */
    double loss;
} watch;

static void show_step(watch *w, const zest_trainer_news *news) {
    char note[128];
    if (!w->started) zest_progress_stage(&w->progress, "train", "steps", (double)news->step);
    w->started = 1;
    w->loss = news->loss;
    if (!zest_progress_due(&w->progress)) return;
    int gradients = !isnan(news->norm);
    snprintf(note, sizeof note, "loss %.4f, dev %.4f, %s %.*f, %.0f tokens/s", news->loss, news->dev.value,
             gradients ? "gradient" : "effective", gradients ? 3 : 1,
             gradients ? news->norm : news->effective, news->tokens_per_second);
    zest_progress_update(&w->progress, (double)news->step, (double)news->steps, note);
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
    if (!text.failed) printf("tilt: %s\n", text.data);
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
    watch w = {.lines = !json && !quiet, .loss = NAN};
    zest_trainer_hooks hooks = {
        .tell = on_news, .rebuild = on_rebuild, .note = on_note, .user = &w, .stop = zest_interrupt_catch()};
    zest_progress_begin(&w.progress, "rebuild", "steps", quiet);
    if (!quiet && !*resume && !*zest_options_text(given, ZEST_OPTION_OUT))
        zest_output_note(
            "nothing of this run will be kept, neither weights nor steps; with --out RUN all of it "
            "is, and the run can be resumed");
    zest_status status = zest_options_copy(&options, given, &error);
    if (!status)
        status = *resume ? zest_trainer_resume(ctx, resume, given, &hooks, &result, &error)
                         : zest_trainer_run(ctx, &options, &hooks, &result, &error);
    zest_progress_end(&w.progress);
    const char *folder = *resume ? resume : zest_options_text(given, ZEST_OPTION_OUT);
    int code;
    if (status) {
        code = zest_output_fail(status, error.message);
        if (*folder && result.step)
            zest_output_note("the run is kept up to step %llu; go on with: zest train --resume %s",
                             (unsigned long long)result.step, folder);
    } else {
        if (result.cut) zest_output_note("%zu texts were too long and were shortened", result.cut);
        code = json ? report_json(&result, folder) : report(&result, folder);
        if (!code && result.reason == ZEST_TRAINED_DIVERGED) code = report_divergence(&result, folder);
    }
    zest_options_free(&options);
    zest_ctx_free(ctx);
    return code;
}
