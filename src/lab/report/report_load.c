/* Loading of a report: run folders and sweeps, grouped into settings, series and panels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "lab/report/report_page.h"

/* A run counts as running when its log grew within this many of its longest pauses so far, and at least so
 * many seconds. */
static const double SILENCES = 3, MIN_SILENCE = 120;

const char *zest_report_state_name(zest_report_state state) {
    static const char *const names[] = {"finished", "stopped", "running", "broken off"};
    return names[state];
}

const char *zest_report_metric(const zest_report_run *run) {
    const char *metric = run->log.start_count ? run->log.starts[run->log.start_count - 1].task.metric : NULL;
    return metric ? metric : "";
}

/* ---- Contents of the log ---- */

static const char *option(const zest_log *log, const char *name) {
    const char *text = zest_log_find_option(log, name);
    return text ? text : "";
}

/* The best evaluation of a part, or the last when none is marked as best. */
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
    if (!strcmp(run->method, "mezo") || !strcmp(run->method, "esam"))
        run->t = "0"; /* they are zest-n and tsam without a tilt */
    else if (!zest_option_takes(zest_option_row_at(ZEST_OPTION_T), zest_option_find_method(run->method)))
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
    double max_pause = 0;
    for (size_t i = 1; i < log->step_count; i++)
        max_pause = fmax(max_pause, log->steps[i].seconds - log->steps[i - 1].seconds);
    return silent <= fmax(SILENCES * max_pause, MIN_SILENCE) ? ZEST_REPORT_RUNNING : ZEST_REPORT_BROKEN;
}

/* ---- Folders and names ---- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* The folder of a path that may name its log.jsonl. *log is the path of the log. Both to be freed. */
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
            strcpy(*folder, "."); /* stat succeeded, so it has at least one character */
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

/* Runs of the same name are shown by their paths. */
static zest_status make_names_unique(zest_report *report, zest_error *error) {
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
    if (!(n & (n - 1))) { /* doubles the capacity */
        zest_report_run *runs = realloc(report->runs, (n ? 2 * n : 1) * sizeof *runs);
        if (!runs) return zest_error_memory(error, "the runs", n * sizeof *runs);
        report->runs = runs;
    }
    report->runs[report->count++] =
        (zest_report_run){0}; /* counted before it is complete, so that free releases it */
    return load_run(path, report->now, &report->runs[n], error);
}

/* All runs of the sweep that have a log. only: the report has nothing else. */
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
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: no run of this sweep has started", path);
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
    if (!status) status = make_names_unique(report, error);
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

/* ---- Grouping ----
 *
 * A setting is a set of runs that differ only in the seed. A series is what a figure draws in one colour and
 * line style: a setting, or a run if there is only one setting. A panel is what has one colour: a method; if
 * all runs have the same method, a t; and so on. */

/* ---- Settings ---- */

/* Options about where and how a run was made. */
int zest_report_is_bookkeeping(const char *name) {
    static const char *const bookkeeping[] = {"seed",    "out",  "resume", "quiet",
                                              "threads", "data", "json",   "live"};
    for (size_t i = 0; i < sizeof bookkeeping / sizeof bookkeeping[0]; i++)
        if (!strcmp(bookkeeping[i], name)) return 1;
    return 0;
}

static const zest_log_start *start_of(const zest_report_run *run) {
    return &run->log.starts[run->log.start_count - 1];
}

/* The value of an option if the method uses it: MeZO has no t. */
static const char *value_of(const zest_report_run *run, const char *name) {
    return !strcmp(name, "t") ? run->t : zest_log_find_option(&run->log, name);
}

static int same_setting(const zest_report_run *a, const zest_report_run *b) {
    const zest_log_start *start = start_of(a);
    if (start->option_count != start_of(b)->option_count) return 0;
    for (size_t i = 0; i < start->option_count; i++) {
        const char *name = start->options[i].name;
        if (zest_report_is_bookkeeping(name)) continue;
        const char *own = value_of(a, name), *other = value_of(b, name);
        if (!other || strcmp(own, other)) return 0;
    }
    return 1;
}

/* The options in which the settings of a method differ, by index among those of its first setting. */
static unsigned char *find_varying(const zest_report *report, const zest_report_run *first) {
    const zest_log_start *start = start_of(first);
    unsigned char *varying = calloc(start->option_count + 1, 1);
    for (size_t i = 0; varying && i < report->setting_count; i++) {
        const zest_report_run *run = &report->runs[report->settings[i].first];
        if (strcmp(run->method, first->method)) continue;
        for (size_t j = 0; j < start->option_count; j++) {
            const char *value = varying[j] ? NULL : value_of(run, start->options[j].name);
            varying[j] |= !value || strcmp(value, value_of(first, start->options[j].name));
        }
    }
    return varying;
}

/* "ZEST-N, t = 5" */
static char *name_setting(const zest_report_run *run, const zest_report_run *first,
                          const unsigned char *varying) {
    const zest_log_start *start = start_of(first);
    zest_buffer name = {0};
    char method[128];
    int paths = 0; /* a path is not informative in a figure: the name of the run is used */
    zest_buffer_text(&name, zest_sensitivity_name(run->method, method, sizeof method));
    for (size_t i = 0; i < start->option_count; i++) {
        const char *option = start->options[i].name, *value = value_of(run, option);
        if (!varying[i] || !value || zest_report_is_bookkeeping(option)) continue;
        if (strchr(value, '/'))
            paths = 1;
        else
            zest_buffer_format(&name, ", %s = %s", option, value);
    }
    if (paths) zest_buffer_format(&name, " (%s)", run->name);
    char *clean = name.failed ? NULL : zest_report_clean(name.data);
    zest_buffer_free(&name);
    return clean;
}

/* All settings of one method; 0: out of memory. */
static int name_method(zest_report *report, const zest_report_run *first) {
    unsigned char *varying = find_varying(report, first);
    int ok = varying != NULL;
    for (size_t i = 0; ok && i < report->setting_count; i++) {
        const zest_report_run *run = &report->runs[report->settings[i].first];
        if (strcmp(run->method, first->method)) continue;
        report->settings[i].name = name_setting(run, first, varying);
        ok = report->settings[i].name != NULL;
    }
    free(varying);
    return ok;
}

static zest_status find_settings(zest_report *report, zest_error *error) {
    report->settings = calloc(report->count + 1, sizeof *report->settings);
    if (!report->settings) return zest_error_memory(error, "the settings of runs", report->count);
    for (size_t i = 0; i < report->count; i++) {
        size_t at = 0;
        while (at < report->setting_count &&
               !same_setting(&report->runs[report->settings[at].first], &report->runs[i]))
            at++;
        if (at == report->setting_count) report->settings[report->setting_count++].first = i;
        report->settings[at].count++;
        report->runs[i].setting = at;
    }
    for (size_t i = 0; i < report->setting_count; i++)
        if (!report->settings[i].name && !name_method(report, &report->runs[report->settings[i].first]))
            return zest_error_memory(error, "the settings of runs", report->count);
    return ZEST_OK;
}

/* ---- Panels: groups with one colour ---- */

typedef enum { BY_METHOD, BY_T, BY_SERIES } panel_key;

static int several(const zest_report *report, panel_key by) {
    for (size_t i = 1; i < report->count; i++) {
        const zest_report_run *a = &report->runs[0], *b = &report->runs[i];
        if (by == BY_METHOD ? strcmp(a->method, b->method) : strcmp(a->t, b->t)) return 1;
    }
    return 0;
}

static int same_panel(const zest_report_run *a, const zest_report_run *b, panel_key by) {
    if (by == BY_SERIES) return a->series == b->series;
    return !strcmp(by == BY_METHOD ? a->method : a->t, by == BY_METHOD ? b->method : b->t);
}

static char *name_panel(const zest_report *report, const zest_report_run *run, panel_key by) {
    char text[160];
    if (by == BY_SERIES) return zest_report_clean(report->series[run->series].name);
    if (by == BY_METHOD)
        zest_sensitivity_name(run->method, text, sizeof text);
    else
        snprintf(text, sizeof text, "t = %s", run->t);
    return zest_report_clean(text);
}

/* Methods have the same colour on every page; others get the next one. */
static int colour_of(const zest_report_run *run, panel_key by, size_t panel) {
    int const known = by == BY_METHOD ? zest_sensitivity_colour(run->method) : 0;
    return known ? known : 1 + (int)(panel % (ZEST_PLOT_COLOURS - 1));
}

static zest_status find_panels(zest_report *report, zest_error *error) {
    panel_key const by = several(report, BY_METHOD) ? BY_METHOD : several(report, BY_T) ? BY_T : BY_SERIES;
    report->panels = calloc(report->count + 1, sizeof *report->panels);
    if (!report->panels) return zest_error_memory(error, "the panels of figures", report->count);
    for (size_t i = 0; i < report->count; i++) {
        zest_report_run *run = &report->runs[i];
        size_t j = 0;
        while (j < i && !same_panel(&report->runs[j], run, by)) j++;
        run->panel = j < i ? report->runs[j].panel : report->panel_count;
        if (j < i) continue;
        zest_report_panel *panel = &report->panels[report->panel_count++];
        *panel = (zest_report_panel){.name = name_panel(report, run, by),
                                     .colour = colour_of(run, by, run->panel)};
        if (!panel->name) return zest_error_memory(error, "the panels of figures", report->count);
    }
    return ZEST_OK;
}

/* ---- Series ---- */

/* Runs that differ only in the seed are separate series if there is only one setting. */
static zest_status find_series(zest_report *report, zest_error *error) {
    int const by_run = report->setting_count == 1;
    report->series = calloc(report->count + 1, sizeof *report->series);
    if (!report->series) return zest_error_memory(error, "the series of figures", report->count);
    report->series_count = by_run ? report->count : report->setting_count;
    for (size_t i = 0; i < report->count; i++) {
        zest_report_run *run = &report->runs[i];
        run->series = by_run ? i : run->setting;
        zest_report_series *series = &report->series[run->series];
        if (series->count++) continue;
        series->first = i;
        series->name = strdup(by_run ? run->name : report->settings[run->setting].name);
        if (!series->name) return zest_error_memory(error, "the series of figures", report->count);
    }
    return ZEST_OK;
}

/* Series of one colour differ in line style and marker. */
static void choose_styles(zest_report *report) {
    static const zest_plot_dash dashes[] = {ZEST_PLOT_SOLID, ZEST_PLOT_DASHED, ZEST_PLOT_DOTTED,
                                            ZEST_PLOT_DASH_DOT};
    static const zest_plot_mark marks[] = {ZEST_PLOT_CIRCLE, ZEST_PLOT_SQUARE, ZEST_PLOT_DIAMOND,
                                           ZEST_PLOT_TRIANGLE};
    for (size_t s = 0; s < report->series_count; s++) {
        zest_report_series *series = &report->series[s];
        zest_report_panel *panel = &report->panels[report->runs[series->first].panel];
        series->style = (zest_plot_style){.colour = panel->colour,
                                          .width = 2,
                                          .dash = dashes[panel->series % 4],
                                          .mark = marks[panel->series % 4],
                                          .group = 1 + (int)s};
        panel->series++;
    }
}

int zest_report_has_seeds(const zest_report *report) {
    for (size_t i = 0; i < report->series_count; i++)
        if (report->series[i].count > 1) return 1;
    return 0;
}

zest_status zest_report_find_series(zest_report *report, zest_error *error) {
    zest_status status = find_settings(report, error);
    if (!status) status = find_series(report, error);
    if (!status) status = find_panels(report, error);
    if (!status) choose_styles(report);
    return status;
}

void zest_report_free_series(zest_report *report) {
    for (size_t i = 0; report->settings && i < report->setting_count; i++) free(report->settings[i].name);
    for (size_t i = 0; report->series && i < report->series_count; i++) free(report->series[i].name);
    for (size_t i = 0; report->panels && i < report->panel_count; i++) free(report->panels[i].name);
    free(report->settings);
    free(report->series);
    free(report->panels);
}
