/* The report: runs of zest train as one self-contained HTML page.
 *
 *     zest_report report;
 *     status = zest_report_load(paths, count, &report, &error);
 *     status = zest_report_write(&report, "report.html", NULL, &error);
 *     zest_report_free(&report); */
#ifndef ZEST_LAB_REPORT_REPORT_H
#define ZEST_LAB_REPORT_REPORT_H

#include "base/memory.h"
#include "lab/sweep/sweep.h"
#include "train/log.h"

typedef enum {
    ZEST_REPORT_FINISHED, /* the log has its end */
    ZEST_REPORT_STOPPED,  /* on request; it can be resumed */
    ZEST_REPORT_RUNNING,  /* no end yet, and the log was written recently */
    ZEST_REPORT_BROKEN,   /* no end, and no recent data: probably killed */
} zest_report_state;

/* One run. Texts are "" when the log has none. */
typedef struct {
    char *name; /* of the folder, with more of the path where two would be equal */
    char *path;
    zest_log log;
    zest_report_state state;
    const char *method, *t, *lr, *seed;
    double tilt; /* t as a number; NaN: unknown. 0 for MeZO */
    uint64_t steps, best_step;
    zest_log_eval dev, test; /* at the best step; part "" when there is none */
    double seconds;
    uint64_t peak_bytes;           /* 0: not known */
    uint64_t device_peak_bytes;    /* 0: none */
    size_t setting, series, panel; /* indices */
} zest_report_run;

/* Runs that differ only in the seed. */
typedef struct {
    char *name; /* "ZEST-N, t = 5" */
    size_t first, count;
} zest_report_setting;

/* What a figure draws in one colour and line style. */
typedef struct {
    char *name;
    size_t first, count;
    zest_plot_style style;
} zest_report_series;

/* What has a colour of its own, and a panel where curves would overlap: usually a method. */
typedef struct {
    char *name; /* "ZEST-N" */
    int colour;
    size_t series; /* number of series */
} zest_report_panel;

typedef struct {
    zest_report_run *runs;
    size_t count;
    zest_report_setting *settings;
    zest_report_series *series;
    zest_report_panel *panels;
    size_t setting_count, series_count, panel_count;
    zest_sweep_summary *sweep; /* if they are the runs of one sweep, or NULL */
    zest_sweep_plan plan;      /* of the sweep */
    size_t *of_plan;           /* by run of the plan: its index here, or ZEST_SWEEP_NONE */
    /* defaults of `zest train` that differ from the option table, "name=value ..."; NULL: none */
    const char *defaults;
    double now; /* seconds since 1970, when it was loaded */
} zest_report;

/* paths: run folders, or log.jsonl files in them, or sweeps, which stand for their runs. */
zest_status zest_report_load(char *const *paths, size_t count, zest_report *report, zest_error *error);
void zest_report_free(zest_report *report); /* accepts {0} */
/* figures: a folder (created if missing) that gets each figure as an SVG file; NULL: none. */
zest_status zest_report_write(const zest_report *report, const char *path, const char *figures,
                              zest_error *error);

/* The conclusions, by the rule of docs/sweep.md. To be freed; NULL: out of memory. */
zest_conclusion *zest_report_conclude(const zest_report *report, size_t *count);

const char *zest_report_state_name(zest_report_state state);
/* The metric of the run: "accuracy", "f1", ...; "" when the log has none. */
const char *zest_report_metric(const zest_report_run *run);
/* Whether it is a fraction, to be shown in per cent. */
int zest_report_is_share(const char *metric);
/* "91.3" for a fraction, "0.2184" for a loss, a dash for a value that is not finite. */
void zest_report_value(zest_buffer *out, const char *metric, double value);
/* Appends the `zest train` command that repeats the run. */
void zest_report_command(const zest_report *report, const zest_report_run *run, zest_buffer *out);

#endif
