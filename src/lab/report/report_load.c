/* From folders to the rows of the table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "base/file.h"
#include "lab/report/report_page.h"

/* A run is alive when its log grew within this many of its longest silences so far, and at least so many
 * seconds. */
static const double SILENCES = 3, SILENCE_LEAST = 120;

const char *zest_report_state_name(zest_report_state state) {
    static const char *const names[] = {"finished", "stopped", "running", "broken off"};
    return names[state];
}

const char *zest_report_metric(const zest_report_run *run) {
    const char *metric = run->log.start_count ? run->log.starts[run->log.start_count - 1].task.metric : NULL;
    return metric ? metric : "";
}

/* ---- What the log says ---- */

static const char *option(const zest_log *log, const char *name) {
    const char *text = zest_log_find_option(log, name);
    return text ? text : "";
}

/* The best evaluation of a part, or the last when none says it is the best. */
static zest_log_eval best_eval(const zest_log *log, const char *part) {
    zest_log_eval found = zest_log_eval_none();
    int best = 0;
    for (size_t i = 0; i < log->eval_count; i++) {
        const zest_log_eval *e = &log->evals[i];
        if (strcmp(e->part, part) || (best && !e->best)) continue;
        found = *e;
        best = e->best;
    }
    return found;
}

static void summarise(zest_report_run *run) {
    const zest_log *log = &run->log;
    char *rest;
    run->method = option(log, "method");
    run->t = option(log, "t");
    if (!strcmp(run->method, "mezo") || !strcmp(run->method, "esam")) run->t = "0";
    if (!strcmp(run->method, "sgd") || !strcmp(run->method, "adamw") || !strcmp(run->method, "sam"))
        run->t = "";
    run->tilt = zest_number_parse(run->t, &rest);
    if (!*run->t || *rest || !isfinite(run->tilt)) run->tilt = NAN;
    run->lr = option(log, "lr");
    run->seed = option(log, "seed");
    run->dev = log->end && *log->end->dev.part ? log->end->dev : best_eval(log, "dev");
    run->test = log->end && *log->end->test.part ? log->end->test : best_eval(log, "test");
    run->steps = log->step_count ? log->steps[log->step_count - 1].step : 0;
    run->seconds = log->step_count ? log->steps[log->step_count - 1].seconds : NAN;
    run->best_step = *run->dev.part ? run->dev.step : 0;
    if (!log->end) return;
    run->steps = log->end->step;
    run->best_step = log->end->best_step;
    run->peak_bytes = log->end->peak_bytes;
    run->device_peak_bytes = log->end->device_peak_bytes;
    if (isfinite(log->end->seconds)) run->seconds = log->end->seconds;
}

static zest_report_state find_state(const zest_log *log, double silent) {
    if (log->end) {
        const char *reason = log->end->reason ? log->end->reason : "";
        int const asked =
            strstr(reason, "request") || strstr(reason, "interrupt") || !strcmp(reason, "stopped");
        return asked ? ZEST_REPORT_STOPPED : ZEST_REPORT_FINISHED;
    }
    double longest = 0;
    for (size_t i = 1; i < log->step_count; i++)
        longest = fmax(longest, log->steps[i].seconds - log->steps[i - 1].seconds);
    return silent <= fmax(SILENCES * longest, SILENCE_LEAST) ? ZEST_REPORT_RUNNING : ZEST_REPORT_BROKEN;
}

/* ---- Folders and names ---- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* The folder of a path that may name its log.jsonl. *log is the log's path. Both to be freed. */
static zest_status find_log(const char *path, char **folder, char **log, double *modified,
                            zest_error *error) {
    struct stat info;
    if (stat(path, &info)) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
    *folder = strdup(path);
    if (*folder) {
        size_t length = strlen(*folder);
        while (length > 1 && (*folder)[length - 1] == '/') (*folder)[--length] = '\0';
        *log = S_ISDIR(info.st_mode) ? zest_file_join(*folder, "log.jsonl") : strdup(path);
    }
    if (!*folder || !*log) return zest_error_memory(error, path, strlen(path));
    if (!S_ISDIR(info.st_mode)) {
        char *slash = strrchr(*folder, '/');
        if (slash)
            slash[slash == *folder] = '\0';
        else
            strcpy(*folder, "."); /* stat found it, so it has at least one character */
    }
    if (stat(*log, &info))
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: not a run of zest train: there is no log.jsonl in it", path);
    *modified = (double)info.st_mtime;
    return ZEST_OK;
}

static zest_status load_run(const char *path, double now, zest_report_run *run, zest_error *error) {
    char *log = NULL;
    double modified = 0;
    zest_status status = find_log(path, &run->path, &log, &modified, error);
    if (!status) status = zest_log_read(log, &run->log, error);
    if (!status) {
        char *real = realpath(run->path, NULL);
        run->name = zest_report_clean(last_part(real ? real : run->path));
        free(real);
        if (!run->name) status = zest_error_memory(error, path, strlen(path));
    }
    if (!status) {
        summarise(run);
        run->state = find_state(&run->log, now - modified);
    }
    free(log);
    return status;
}

/* Two runs of one name are shown by their paths. */
static zest_status tell_apart(zest_report *report, zest_error *error) {
    for (size_t i = 0; i < report->count; i++) {
        int twice = 0;
        for (size_t j = 0; j < report->count; j++)
            twice |= j != i && !strcmp(last_part(report->runs[j].name), last_part(report->runs[i].name));
        char *path = twice ? zest_report_clean(report->runs[i].path) : NULL;
        if (twice && !path) return zest_error_memory(error, report->runs[i].path, 0);
        if (path) free(report->runs[i].name), report->runs[i].name = path;
    }
    return ZEST_OK;
}

static zest_status add_run(zest_report *report, const char *path, zest_error *error) {
    size_t const n = report->count;
    if (!(n & (n - 1))) { /* room for twice as many */
        zest_report_run *runs = realloc(report->runs, (n ? 2 * n : 1) * sizeof *runs);
        if (!runs) return zest_error_memory(error, "the runs", n * sizeof *runs);
        report->runs = runs;
    }
    report->runs[report->count++] =
        (zest_report_run){0}; /* counted before it is whole: free knows what to do */
    return load_run(path, report->now, &report->runs[n], error);
}

/* All runs of the sweep that have a log yet. only: the report is about nothing else. */
static zest_status add_sweep(zest_report *report, const char *path, int only, zest_error *error) {
    zest_sweep_plan plan = {0};
    zest_status status = zest_report_read_sweep(path, &plan, error);
    size_t *of_plan = malloc((plan.count + 1) * sizeof *of_plan);
    if (!status && !of_plan) status = zest_error_memory(error, path, plan.count);
    for (size_t i = 0; i < plan.count && !status; i++) {
        zest_buffer run = {0}, log = {0};
        zest_buffer_format(&run, "%s/runs/%s", path, plan.runs[i].name);
        zest_buffer_format(&log, "%s/log.jsonl", run.data ? run.data : "");
        of_plan[i] = ZEST_SWEEP_NONE;
        if (run.failed || log.failed)
            status = zest_error_memory(error, path, 0);
        else if (!access(log.data, F_OK)) {
            of_plan[i] = report->count;
            status = add_run(report, run.data, error);
        }
        zest_buffer_free(&run);
        zest_buffer_free(&log);
    }
    if (!status && !report->count)
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: no run of this sweep has begun", path);
    if (!status && only) {
        report->plan = plan;
        report->of_plan = of_plan;
        report->sweep = calloc(1, sizeof *report->sweep);
        return report->sweep ? zest_sweep_summarise(&report->plan, report->sweep, error)
                             : zest_error_memory(error, path, sizeof *report->sweep);
    }
    zest_sweep_plan_free(&plan);
    free(of_plan);
    return status;
}

zest_status zest_report_load(char *const *paths, size_t count, zest_report *report, zest_error *error) {
    *report = (zest_report){.now = (double)time(NULL)};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = zest_report_is_sweep(paths[i]) ? add_sweep(report, paths[i], count == 1, error)
                                                : add_run(report, paths[i], error);
    if (!status) status = tell_apart(report, error);
    if (!status) status = zest_report_find_series(report, error);
    if (status) zest_report_free(report);
    return status;
}

void zest_report_free(zest_report *report) {
    for (size_t i = 0; i < report->count; i++) {
        free(report->runs[i].name);
        free(report->runs[i].path);
        zest_log_free(&report->runs[i].log);
    }
    free(report->runs);
    zest_report_free_series(report);
    if (report->sweep) zest_sweep_summary_free(report->sweep);
    free(report->sweep);
    zest_sweep_plan_free(&report->plan);
    free(report->of_plan);
    *report = (zest_report){0};
}
