/* The report: what some runs of zest train did, as one HTML page that needs nothing but a browser.
 *
 *     zest_report report;
 *     status = zest_report_load(paths, count, &report, &error);
 *     status = zest_report_write(&report, "report.html", NULL, &error);
 *     zest_report_free(&report); */
#ifndef ZEST_LAB_REPORT_REPORT_H
#define ZEST_LAB_REPORT_REPORT_H

#include "base/memory.h"
#include "train/log.h"
#include "lab/sweep/sweep.h"

typedef enum {
    ZEST_REPORT_FINISHED, /* the log says how it ended */
    ZEST_REPORT_STOPPED,  /* on request; it can go on */
    ZEST_REPORT_RUNNING,  /* no end yet, and the log was written to lately */
    ZEST_REPORT_BROKEN,   /* no end, and nothing came for long: killed, most likely */
} zest_report_state;

/* What the table shows of a run. Texts are "" when the log does not say. */
typedef struct {
    char *name; /* the folder's, longer where two would be the same */
    char *path;
    zest_log log;
    zest_report_state state;
    const char *method, *t, *lr, *seed;
    double tilt; /* t as a number; NaN: not known. MeZO's is 0 */
    uint64_t steps, best_step;
    zest_log_eval dev, test; /* at the best step; part "" when there is none */
    double seconds;
    uint64_t peak_bytes;           /* 0: not known */
    uint64_t device_peak_bytes;    /* 0: none */
    size_t setting, series, panel; /* which it belongs to */
} zest_report_run;

/* Runs that differ in the seed alone. */
typedef struct {
    char *name; /* "ZEST-N, t = 5" */
    size_t first, count;
} zest_report_setting;

/* What a figure draws in one colour and line. */
typedef struct {
    char *name;
    size_t first, count;
    zest_plot_style style;
} zest_report_series;

/* What has a colour of its own, and a panel where curves would lie on top of each other: a method, mostly. */
typedef struct {
    char *name; /* "ZEST-N" */
    int colour;
    size_t series; /* how many */
} zest_report_panel;

typedef struct {
    zest_report_run *runs;
    size_t count;
    zest_report_setting *settings;
    zest_report_series *series;
    zest_report_panel *panels;
    size_t setting_count, series_count, panel_count;
    zest_sweep_summary *sweep; /* when they are the runs of one sweep, or NULL */
    zest_sweep_plan plan;      /* of the sweep */
    size_t *of_plan;           /* by run of the plan: its position here, or ZEST_SWEEP_NONE */
    const char *defaults; /* what `zest train` changes in the option table, "name=value ..."; NULL: nothing */
    double now;           /* seconds since 1970, when it was loaded */
} zest_report;

/* paths: run folders, or log.jsonl files in them, or sweeps, which stand for their runs. */
zest_status zest_report_load(char *const *paths, size_t count, zest_report *report, zest_error *error);
void zest_report_free(zest_report *report); /* accepts one that is {0} */
/* figures: a folder (made when it is not there) that gets each figure as an SVG file; NULL for none. */
zest_status zest_report_write(const zest_report *report, const char *path, const char *figures,
                              zest_error *error);

/* What the runs amount to, by the rule of docs/sweep.md. To be freed; NULL: memory is short. */
zest_conclusion *zest_report_conclude(const zest_report *report, size_t *count);

const char *zest_report_state_name(zest_report_state state);
/* The metric by which the run was judged: "accuracy", "f1", ...; "" when the log does not say. */
const char *zest_report_metric(const zest_report_run *run);
/* Is it a share of 1, to be shown in per cent? */
int zest_report_is_share(const char *metric);
/* "91.3" of a share, "0.2184" of a loss, a dash of what is not finite. */
void zest_report_value(zest_buffer *out, const char *metric, double value);
/* The `zest train` line that makes such a run again, behind what *out holds. */
void zest_report_command(const zest_report *report, const zest_report_run *run, zest_buffer *out);

#endif
