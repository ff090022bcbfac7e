/* zest train and zest pretrain: a run from its options to its last line of output, through zest_lm.h. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/lm.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/target.h"

/* ---- What the run is going to be, for people and scripts ---- */

static const char *option(const zest_lm_train_summary *s, zest_option_id id) {
    const char *text = zest_lm_options_get(s->options, zest_option_row_at(id)->name);
    return text ? text : "";
}

static double mebibytes(uint64_t bytes) { return (double)bytes / 1048576; }

/* "125.0 M", "878464" */
static void add_count(uint64_t count, zest_buffer *out) {
    if (count < 10000000)
        zest_buffer_format(out, "%llu", (unsigned long long)count);
    else
        zest_buffer_format(out, count < 10000000000 ? "%.1f M" : "%.0f M", (double)count / 1e6);
}

static void add_model(const zest_lm_train_summary *s, zest_buffer *out) {
    zest_buffer_text(out, "model   ");
    zest_cli_model_name(option(s, ZEST_OPTION_MODEL), out);
    zest_buffer_format(out, " (%s): ", s->family);
    add_count(s->parameters, out);
    zest_buffer_text(out, " parameters, ");
    if (s->trained == s->parameters) {
        zest_buffer_text(out, "all of them trained");
    } else {
        add_count(s->trained, out);
        zest_buffer_text(out, " of them trained");
    }
    zest_buffer_format(out, "; %s weights, %s arithmetic, on the %s\n", s->weights,
                       option(s, ZEST_OPTION_COMPUTE), s->on_device ? "GPU" : "CPU");
}

static void add_data(const zest_lm_train_summary *s, zest_buffer *out) {
    int text = *option(s, ZEST_OPTION_CORPUS) != '\0';
    const char *unit = text ? "sequences" : "examples";
    if (text)
        zest_buffer_format(out, "text    %s: %zu %s to train on, %zu held out\n",
                           option(s, ZEST_OPTION_CORPUS), s->train, unit, s->dev);
    else
        zest_buffer_format(out, "task    %s: %zu %s to train on, %zu dev, %zu test; best by %s on dev\n",
                           s->task, s->train, unit, s->dev, s->test, s->select);
    if (s->cut) zest_buffer_format(out, "        %zu texts are too long and are shortened\n", s->cut);
}

/* Whether the run uses an option: its method takes it, and sam draws k points only where it is asked to. */
static int is_used(const zest_lm_train_summary *s, zest_option_id id) {
    unsigned method = zest_option_find_method(option(s, ZEST_OPTION_METHOD));
    if (method == ZEST_CHOICE_SAM && id == ZEST_OPTION_K)
        return !strcmp(option(s, ZEST_OPTION_SAM_SEARCH), "random");
    return method < ZEST_CHOICE_COUNT && zest_option_takes(zest_option_row_at(id), method);
}

static void add_method(const zest_lm_train_summary *s, zest_buffer *out) {
    static const zest_option_id shown[] = {ZEST_OPTION_K, ZEST_OPTION_RHO, ZEST_OPTION_RADIUS, ZEST_OPTION_T};
    zest_buffer_format(out, "method  %s: lr = %s (%s)", option(s, ZEST_OPTION_METHOD),
                       option(s, ZEST_OPTION_LR), option(s, ZEST_OPTION_SCHEDULE));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (is_used(s, shown[i]))
            zest_buffer_format(out, ", %s = %s", zest_option_row_at(shown[i])->name, option(s, shown[i]));
    zest_buffer_format(out, ", seed = %s\n", option(s, ZEST_OPTION_SEED));
}

static void add_length(const zest_lm_train_summary *s, zest_buffer *out) {
    const char *every = option(s, ZEST_OPTION_EVAL_EVERY);
    zest_buffer_format(out, "length  %s steps of %s %s, about %.0f tokens each (%.*f epochs)",
                       option(s, ZEST_OPTION_STEPS), option(s, ZEST_OPTION_BATCH),
                       *option(s, ZEST_OPTION_CORPUS) ? "sequences" : "examples", s->batch_tokens,
                       s->epochs < 10, s->epochs);
    if (s->dev && strcmp(every, "0"))
        zest_buffer_format(out, "; dev every %s steps\n", every);
    else
        zest_buffer_text(out, s->dev ? "; dev at the start and at the end\n" : "; no dev examples\n");
    if (s->step) zest_buffer_format(out, "        goes on behind step %llu\n", (unsigned long long)s->step);
}

static void add_memory(const zest_lm_train_summary *s, zest_buffer *out) {
    zest_buffer_format(out, "memory  about %.0f MiB%s", mebibytes(s->memory),
                       s->on_device ? " of the GPU's" : "");
    if (s->live > 1) zest_buffer_format(out, " with %zu pairs at once (--live 1 takes less)", s->live);
    if (s->device_peak_bytes)
        zest_buffer_format(out, "; measured %.0f", mebibytes(s->device_peak_bytes));
    else if (s->peak_bytes)
        zest_buffer_format(out, "; measured %.0f with the program itself", mebibytes(s->peak_bytes));
    zest_buffer_text(out, "\n");
}

static void add_time(const zest_lm_train_summary *s, zest_buffer *out) {
    char total[32];
    if (isnan(s->step_seconds)) return;
    zest_buffer_format(out, "time    %.3g s a step (measured): about %s with %llu evaluations of dev\n",
                       s->step_seconds, zest_progress_duration(s->total_seconds, total, sizeof total),
                       (unsigned long long)s->evaluations);
}

/* Lines "model   ...", "task    ..." and so on. */
static void summary_text(const zest_lm_train_summary *s, zest_buffer *out) {
    add_model(s, out);
    add_data(s, out);
    add_method(s, out);
    add_length(s, out);
    add_memory(s, out);
    add_time(s, out);
}

/* Every option that a user can set, as text. */
static json_t *options_json(const zest_lm_train_summary *s) {
    json_t *object = json_object();
    for (int i = 0; i < ZEST_OPTION_COUNT; i++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)i);
        if (row->users & ZEST_FOR_TRAINING)
            zest_output_set(&object, row->name, zest_output_string(option(s, (zest_option_id)i)));
    }
    return object;
}

/* NULL: memory is short. */
static json_t *summary_json(const zest_lm_train_summary *s) {
    json_t *object = json_pack(
        "{s:{s:o, s:s, s:I, s:I, s:s, s:s}, s:{s:s, s:s, s:I, s:I, s:I}, s:o, s:f, s:f, s:I, s:I, s:f, s:f}",
        "model", "path", zest_output_string(option(s, ZEST_OPTION_MODEL)), "family", s->family, "parameters",
        (json_int_t)s->parameters, "trained", (json_int_t)s->trained, "weights", s->weights, "device",
        s->on_device ? "cuda" : "cpu", "task", "name", s->task, "select", s->select, "train",
        (json_int_t)s->train, "dev", (json_int_t)s->dev, "test", (json_int_t)s->test, "options",
        options_json(s), "epochs", s->epochs, "batch_tokens", s->batch_tokens, "evaluations",
        (json_int_t)s->evaluations, "memory_bytes", (json_int_t)s->memory, "step_seconds", s->step_seconds,
        "total_seconds", s->total_seconds);
    if (s->peak_bytes) zest_output_set(&object, "peak_bytes", json_integer((json_int_t)s->peak_bytes));
    if (s->device_peak_bytes)
        zest_output_set(&object, "device_peak_bytes", json_integer((json_int_t)s->device_peak_bytes));
    return object;
}

/* ---- While it runs ---- */

typedef struct {
    zest_progress progress;
    int lines;   /* a line for every evaluation */
    int unkept;  /* there is no folder for the run */
    int dry;     /* the summary is the result */
    int json;    /* and is printed as JSON */
    int code;    /* of a dry run */
    int started; /* a step was taken in this session */
    int timed;   /* how long it will take was said */
    uint64_t first, step, steps, eval_every;
    double began; /* clock behind the first step of this session */
    double loss;
} display;

/* Once, when a few steps and seconds have passed: how long all of it will take. */
static void show_time_left(display *d, const zest_lm_train_progress *progress) {
    double elapsed = zest_clock_now() - d->began, made = (double)(progress->step - d->first), left;
    char text[32];
    if (d->timed || made < 3 || elapsed < 3) return;
    d->timed = 1;
    left = (double)(progress->steps - progress->step);
    double evaluations =
        isnan(progress->dev_seconds) ? 0 : 1 + (d->eval_every ? left / (double)d->eval_every : 0);
    double seconds = left * elapsed / made + evaluations * progress->dev_seconds;
    if (!d->progress.active || !(seconds > 10)) return;
    zest_progress_clear(&d->progress);
    zest_output_note("%.3g s a step: about %s to go", elapsed / made,
                     zest_progress_duration(seconds, text, sizeof text));
}

static void show_step(display *d, const zest_lm_train_progress *progress) {
    char note[160], dev[32] = "";
    if (!d->started) {
        zest_progress_stage(&d->progress, "train", "steps", (double)progress->step);
        d->first = progress->step;
        d->began = zest_clock_now();
    }
    d->started = 1;
    d->loss = progress->loss;
    d->step = progress->step;
    show_time_left(d, progress);
    if (!zest_progress_due(&d->progress)) return;
    int gradients = !isnan(progress->norm);
    if (progress->dev.n) snprintf(dev, sizeof dev, ", dev %.4f", progress->dev.value);
    snprintf(note, sizeof note, "loss %.4f%s, %s %.*f, %.0f forward tokens/s", progress->loss, dev,
             gradients ? "gradient" : "effective", gradients ? 3 : 1,
             gradients ? progress->norm : progress->effective, progress->tokens_per_second);
    zest_progress_update(&d->progress, (double)progress->step, (double)progress->steps, note);
}

/* Evaluations take a part of the time, too: the bar stands still, the note does not. */
static void on_evaluate(uint64_t done, uint64_t all, void *user) {
    display *d = user;
    char note[96];
    if (!zest_progress_due(&d->progress)) return;
    snprintf(note, sizeof note, "evaluating: %llu of %llu examples", (unsigned long long)done,
             (unsigned long long)all);
    zest_progress_update(&d->progress, (double)d->step, (double)d->steps, note);
}

static void on_start(const zest_lm_train_summary *summary, void *user) {
    display *d = user;
    zest_buffer text = {0};
    d->step = summary->step;
    d->steps = summary->steps;
    d->eval_every = summary->eval_every;
    zest_progress_clear(&d->progress);
    if (d->dry && d->json) {
        d->code = zest_output_json(summary_json(summary));
        return;
    }
    summary_text(summary, &text);
    if (d->dry) {
        d->code = zest_output_buffer(&text);
    } else {
        if (d->progress.active && !text.failed) zest_output_notes(text.data);
        zest_buffer_free(&text);
        if (d->progress.active && d->unkept)
            zest_output_note(
                "nothing of this run will be kept, neither weights nor steps; with --out RUN all "
                "of it is, and the run can be resumed");
    }
    zest_progress_stage(&d->progress, "train", "steps", (double)summary->step);
}

static void show_evaluation(display *d, const zest_lm_train_progress *progress) {
    zest_progress_clear(&d->progress);
    printf("step %6llu  ", (unsigned long long)progress->step);
    if (isnan(d->loss))
        printf("                   ");
    else
        printf("train loss %.4f  ", d->loss);
    zest_metrics_print_short(&progress->dev, stdout);
    printf("%s\n", progress->best ? "  best" : "");
    fflush(stdout);
}

static void show_advice(const char *advice) {
    const char *more = strstr(advice, "; "); /* what it does; and what would */
    printf("tilt: %.*s\n", (int)(more ? (size_t)(more - advice) : strlen(advice)), advice);
    if (more) printf("      %s\n", more + 2);
    fflush(stdout);
}

static int on_progress(const zest_lm_train_progress *progress, void *user) {
    display *d = user;
    if (!progress->evaluated)
        show_step(d, progress);
    else if (d->lines)
        show_evaluation(d, progress);
    if (progress->advice && d->lines) show_advice(progress->advice);
    return 0;
}

static void on_rebuild(uint64_t step, uint64_t wanted, void *user) {
    display *d = user;
    if (strcmp(d->progress.label, "rebuild")) zest_progress_stage(&d->progress, "rebuild", "steps", 0);
    zest_progress_update(&d->progress, (double)step, (double)wanted, NULL);
}

static void on_note(const char *sentences, void *user) {
    display *d = user;
    if (!d->progress.active) return;
    zest_progress_clear(&d->progress);
    zest_output_notes(sentences);
}

/* ---- At the end ---- */

static int report_json(const zest_lm_train_result *r, const char *folder) {
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:f, s:I, s:I, s:o}", "reason",
                  zest_lm_stop_reason_name(r->reason), "step", (json_int_t)r->step, "best_step",
                  (json_int_t)r->best_step, "metric", r->metric, "start", zest_metrics_json(&r->start), "dev",
                  zest_metrics_json(&r->dev), "test", zest_metrics_json(&r->test), "seconds", r->seconds,
                  "peak_bytes", (json_int_t)r->peak_bytes, "dropped_pairs", (json_int_t)r->dropped_pairs,
                  "run", zest_output_string(folder));
    if (r->device_peak_bytes)
        zest_output_set(&object, "device_peak_bytes", json_integer((json_int_t)r->device_peak_bytes));
    return zest_output_json(object);
}

static int report(const zest_lm_train_result *r, const char *folder) {
    printf("%s after %llu steps, %.0f s", zest_lm_stop_reason_name(r->reason), (unsigned long long)r->step,
           r->seconds);
    if (r->reason == ZEST_LM_INTERRUPTED) {
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
static int report_divergence(const zest_lm_train_result *r, const char *folder) {
    char now[32] = "not finite";
    if (isfinite(r->latest_loss)) snprintf(now, sizeof now, "%.4g", r->latest_loss);
    zest_output_note("the training loss diverged: %llu steps in a row above %.4g (it began at %.4g and is %s "
                     "now); try a smaller --lr or --rho",
                     (unsigned long long)r->divergence_steps, r->divergence_limit, r->first_loss, now);
    if (*folder && r->dev.n)
        zest_output_note("the best weights, of step %llu, are in %s/best; to go on regardless: zest train "
                         "--resume %s --on-divergence continue",
                         (unsigned long long)r->best_step, folder, folder);
    return ZEST_EXIT_FAILURE;
}

/* What came of a run. */
static int finish(const display *d, const zest_lm_train_result *result, const char *folder) {
    if (d->dry) return d->code;
    if (result->cut) zest_output_note("%zu texts were too long and were shortened", result->cut);
    int code = d->json ? report_json(result, folder) : report(result, folder);
    return !code && result->reason == ZEST_LM_DIVERGED ? report_divergence(result, folder) : code;
}

static int fail(zest_status status, const char *message, uint64_t step, const char *folder) {
    int code = zest_output_fail(status, message);
    if (*folder && step)
        zest_output_note("the run is kept up to step %llu; go on with: zest train --resume %s",
                         (unsigned long long)step, folder);
    return code;
}

/* Starts the run that the options ask for, or goes on with the one in --resume. Returns the exit status. */
static int training_run(const zest_command *command, const zest_options *given) {
    const char *resume = zest_options_text(given, ZEST_OPTION_RESUME);
    zest_lm_train_result result = {0};
    int json = (int)zest_options_whole(given, ZEST_OPTION_JSON),
        quiet = (int)zest_options_whole(given, ZEST_OPTION_QUIET);
    zest_ctx *ctx = zest_output_context();
    if (!ctx) return ZEST_EXIT_FAILURE;
    display d = {.lines = !json && !quiet, .json = json, .loss = NAN};
    zest_lm_callbacks callbacks = {.on_start = on_start,
                                   .on_progress = on_progress,
                                   .on_rebuild = on_rebuild,
                                   .on_evaluate = on_evaluate,
                                   .on_note = on_note,
                                   .user = &d,
                                   .stop = zest_output_catch_interrupt()};
    zest_progress_begin(&d.progress, "rebuild", "steps", quiet);
    d.dry = (int)zest_options_whole(given, ZEST_OPTION_DRY_RUN);
    d.unkept = !*resume && !*zest_options_text(given, ZEST_OPTION_OUT);
    const char *folder = *resume ? resume : zest_options_text(given, ZEST_OPTION_OUT);
    int code;
    zest_lm_options *options = zest_cli_lm_options(ctx, command, given);
    if (options && d.dry && *resume) {
        code = zest_output_fail(ZEST_ERROR_ARGUMENT, "--dry-run is for a new run, not for --resume");
    } else {
        zest_status status = !options  ? zest_ctx_status(ctx)
                             : d.dry   ? zest_lm_dry_run(ctx, options, &callbacks)
                             : *resume ? zest_lm_resume(ctx, resume, options, &callbacks, &result)
                                       : zest_lm_train(ctx, options, &callbacks, &result);
        zest_progress_end(&d.progress);
        code = status ? fail(status, zest_ctx_error(ctx), result.step, folder) : finish(&d, &result, folder);
    }
    zest_lm_options_free(options);
    zest_ctx_free(ctx);
    return code;
}

/* ---- zest train: fine-tunes a language model on a task ---- */

static int list_tasks(const zest_options *options) {
    int json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    json_t *tasks = json_array();
    zest_lm_task_info task;
    for (size_t i = 0; zest_lm_task(i, &task); i++) {
        zest_output_append(&tasks, json_pack("{s:s, s:s, s:s}", "name", task.name, "models", task.models,
                                             "about", task.about));
        if (!json) printf("%-8s  %-14s  %s\n", task.name, task.models, task.about);
    }
    if (json) return zest_output_json(json_pack("{s:o}", "tasks", tasks));
    json_decref(tasks);
    return ZEST_EXIT_OK;
}

static int run(const zest_options *given, char **words, int count) {
    (void)words, (void)count;
    if (!strcmp(zest_options_text(given, ZEST_OPTION_TASK), "list")) return list_tasks(given);
    return training_run(&zest_command_train, given);
}

const zest_command zest_command_train = {
    .name = "train",
    .words = "",
    .summary = "fine-tune a language model with forward passes",
    .description =
        "Trains MODEL on TASK in the memory of inference: every step evaluates the loss of the batch at x + "
        "rho v_i and x - rho v_i for k random directions v_i and moves along them (ZEST; MeZO with --method "
        "mezo). The weights that do best on the dev examples are kept and evaluated on the test "
        "examples.\n\n"
        "A masked model answers with label words at the mask, a causal one by the likelihood of its "
        "answers. What is not given depends on the model, as in the paper: masked models take 512 shots a "
        "class, batch 128, lr 1e-5 and 700 epochs (5600 steps for two classes, 8400 for three; with other "
        "splits 5600 steps); causal ones 1000 rows, batch 16, lr 2e-6, 20000 steps.\n\n"
        "For comparison there are methods with gradients: --method sgd, adamw, sam, esam and tsam. There "
        "masked models take batch 32, lr 1e-3 and 200 epochs, causal ones batch 8, lr 1e-5 and 3750 steps. "
        "They need memory for activations, gradient and state, and a resumed run starts from the last "
        "checkpoint (--save-every) instead of the last step.\n\n"
        "With --out RUN everything is kept in a folder: options, the task, journal, log.jsonl, TensorBoard "
        "events, and best/ and last/, which are Hugging Face folders. Every step is written to the journal "
        "before it is taken, and the journal is synced to disk once a second. After Ctrl-C, a kill or a "
        "power failure `zest train --resume RUN` goes on from the last step on record; on the CPU it ends "
        "with the same bits as a run that was not stopped. `zest eval RUN`, `zest predict RUN`, `zest "
        "replay RUN`, `zest info RUN` and `zest report RUN` take it from there.",
    .examples =
        "zest train --model FacebookAI/roberta-base --task SST-2 --data data --out run1\tthe paper's "
        "settings\n"
        "zest train --model FacebookAI/roberta-base --task reviews.task --shots 64 --out "
        "run2\tdata of your own\n"
        "zest train --model smollm2.gguf --task COPA --data data --weights bf16 --steps 2000 --out run3\ta "
        "causal model\n"
        "zest train --model FacebookAI/roberta-base --task SST-2 --data data --method tsam --t 5 "
        "--recompute --out run4\ta first-order method\n"
        "zest train --resume run1 --steps 8000\tgo on, and further than planned\n"
        "zest train --task list\tthe tasks that are known by name",
    .options =
        "model\tmodel to fine-tune: a Hugging Face folder, a GGUF file, or ORG/NAME after `zest pull "
        "ORG/NAME`\n"
        "dry-run\tload and check everything, take one or two steps, print the plan of the run with its time "
        "and memory, and write nothing\n"
        "out\trun folder to create: options, journal, log, best and last weights\n"
        "resume\tcontinue the run in this folder, with its options\n"
        "seed\trandom seed of the run and of its train/dev split\n"
        "train-only\ttrain only the tensors whose names match; several patterns separated by commas, * "
        "matches any characters\n"
        "batch\tbatch size\n"
        "patience\tearly stopping: stop after this many steps without a better dev value; 0: off\n"
        "eval-every\tsteps between evaluations of the dev examples",
    .defaults = ZEST_TRAIN_DEFAULTS,
    .users = ZEST_FOR_TRAIN,
    .ranks = 1,
    .run = run,
};

/* ---- zest pretrain: makes a language model out of text ---- */

static int pretrain_run(const zest_options *given, char **words, int count) {
    (void)words, (void)count;
    if (!*zest_options_text(given, ZEST_OPTION_CORPUS) && !*zest_options_text(given, ZEST_OPTION_RESUME))
        return zest_output_fail(ZEST_ERROR_ARGUMENT, "say what to train on: --text FILE");
    return training_run(&zest_command_pretrain, given);
}

const zest_command zest_command_pretrain = {
    .name = "pretrain",
    .words = "",
    .summary = "train a language model from scratch, with gradients",
    .description =
        "Trains MODEL on the text of a file by AdamW: a masked model predicts hidden tokens, a causal one "
        "every next token. MODEL is a Hugging Face folder with config.json and a tokenizer; where it has no "
        "weights, random ones are made from the seed.\n\n"
        "The text is cut into documents at blank lines; these are packed behind each other into sequences "
        "of --length tokens. The loss on documents that are held out, and its exponential, the perplexity, "
        "are printed and logged every --eval-every steps; the weights with the lowest are kept in best/.\n\n"
        "The run's folder is that of `zest train`: options, log.jsonl, TensorBoard events, best/ and last/ "
        "as Hugging Face folders. After Ctrl-C or a kill `zest pretrain --resume RUN` goes on from the last "
        "checkpoint (--save-every) and ends with the same bits. `zest train --model RUN/best` fine-tunes "
        "what came out.",
    .examples =
        "zest pretrain --model shape --text books.txt --steps 20000 --schedule linear --warmup 1000 --out "
        "made\ta new model\n"
        "zest pretrain --model FacebookAI/roberta-base --text mine.txt --lr 1e-4 --out adapted\tone that is "
        "used to other texts\n"
        "zest pretrain --resume made\tgo on",
    .options = "model\tHugging Face folder with config.json and a tokenizer; without weights, random ones "
               "are made from the seed\n"
               "out\trun folder to create: options, log, best and last weights\n"
               "resume\tcontinue the run in this folder, with its options\n"
               "seed\trandom seed\n"
               "batch\tbatch size\n"
               "train-only\ttrain only the tensors whose names match; several patterns separated by commas, "
               "* matches any characters\n"
               "patience\tearly stopping: stop after this many steps without a lower held-out loss; 0: off\n"
               "eval-every\tsteps between evaluations of the held-out documents",
    .defaults = ZEST_PRETRAIN_DEFAULTS,
    .users = ZEST_FOR_PRETRAIN,
    .ranks = 1,
    .run = pretrain_run,
};
