/* Which runs belong together. A setting is a set of runs that differ in the seed alone. A series is what a
 * figure draws in one colour and line style: a setting, or, where there is only one setting, a run. A panel
 * is what has one colour: a method; where all runs have the same method, a t; and so on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_page.h"

/* ---- Settings ---- */

/* Options that say where and how a run was made, not what it is. */
int zest_report_is_aside(const char *name) {
    static const char *const aside[] = {"seed", "out", "resume", "quiet", "threads", "data", "json", "live"};
    for (size_t i = 0; i < sizeof aside / sizeof aside[0]; i++)
        if (!strcmp(aside[i], name)) return 1;
    return 0;
}

static const zest_log_start *start_of(const zest_report_run *run) {
    return &run->log.starts[run->log.start_count - 1];
}

/* The value of an option as far as the method looks at it: MeZO has no t. */
static const char *value_of(const zest_report_run *run, const char *name) {
    return !strcmp(name, "t") ? run->t : zest_log_find_option(&run->log, name);
}

static int same_setting(const zest_report_run *a, const zest_report_run *b) {
    const zest_log_start *start = start_of(a);
    if (start->option_count != start_of(b)->option_count) return 0;
    for (size_t i = 0; i < start->option_count; i++) {
        const char *name = start->options[i].name;
        if (zest_report_is_aside(name)) continue;
        const char *own = value_of(a, name), *other = value_of(b, name);
        if (!other || strcmp(own, other)) return 0;
    }
    return 1;
}

/* Which options of a method's settings differ, by position among those of its first setting. */
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
    int paths = 0; /* a path says little in a figure: the run's name says it */
    zest_buffer_text(&name, zest_sensitivity_name(run->method, method, sizeof method));
    for (size_t i = 0; i < start->option_count; i++) {
        const char *option = start->options[i].name, *value = value_of(run, option);
        if (!varying[i] || !value || zest_report_is_aside(option)) continue;
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

/* All settings of one method; 0: memory is short. */
static int name_method(zest_report *report, const zest_report_run *first) {
    unsigned char *varying = find_varying(report, first);
    int good = varying != NULL;
    for (size_t i = 0; good && i < report->setting_count; i++) {
        const zest_report_run *run = &report->runs[report->settings[i].first];
        if (strcmp(run->method, first->method)) continue;
        report->settings[i].name = name_setting(run, first, varying);
        good = report->settings[i].name != NULL;
    }
    free(varying);
    return good;
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

/* ---- Panels: what has a colour ---- */

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

/* Methods have the same colour on every page; all else has the next one. */
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

/* Runs that differ in the seed alone are told apart when there is nothing else to tell apart. */
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

/* Series of one colour differ in the line and in the mark. */
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
