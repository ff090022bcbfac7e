/* Sweeps: one training run for every combination of option values, and the tables and figures of their
 * results.
 *
 *     grid (values of options) -> plan (runs, with names) -> results (result.json of each) -> summary -> tables
 *
 * The grid is text in the form of an options file whose values are lists. The plan is a function of the
 * grid, and the tables are a function of the finished runs: nothing depends on the order in which runs
 * finish. */
#ifndef ZEST_LAB_SWEEP_SWEEP_H
#define ZEST_LAB_SWEEP_SWEEP_H

#include "base/option.h"
#include "lab/plot/plot.h"
#include "lab/stats/stats.h"

typedef struct {
    const char *task, *labels; /* selects the panel: "SST-2", "clean labels" */
    const char *method;        /* selects the line: "zest-n", or "zest-n, weights=bf16" */
    double t;                  /* 0: MeZO. NaN: a method without one, which is skipped */
    const char *metric;        /* "accuracy": shown in per cent, like all but "loss" */
    zest_sample value;         /* over seeds */
} zest_sensitivity_point;

typedef struct {
    const char *title;
    int columns;   /* maximum number of panels in a row; 0: one for each task */
    double width;  /* total; 0: automatic */
    double height; /* of a row of panels; 0: automatic */
} zest_sensitivity_style;

/* To be freed; NULL: out of memory or nothing to draw. */
zest_plot *zest_sensitivity_figure(const zest_sensitivity_point *points, size_t count,
                                   zest_sensitivity_style style);

/* The dev set over time, a line for each t of one method: darker for larger t. */
typedef struct {
    const char *task, *labels, *method, *metric; /* as above */
    double t;
    size_t count;
    const double *steps, *means, *errors; /* over seeds; error NaN: one seed */
} zest_sensitivity_curve;
zest_plot *zest_sensitivity_curves(const zest_sensitivity_curve *curves, size_t count,
                                   zest_sensitivity_style style);

/* "accuracy (%)": label of an axis. Writes into buffer. */
const char *zest_sensitivity_label(const char *metric, char *buffer, size_t size);
/* "ZEST-N" for zest-n, "ZEST-N, weights=bf16" for a row with more options. Writes into buffer. */
const char *zest_sensitivity_name(const char *method, char *buffer, size_t size);
/* The colour of a method in all figures; 0: unknown method. Only the method of a row counts. */
int zest_sensitivity_colour(const char *method);

/* ---- Panels by task and kind of labels, shared by the figures ---- */

enum { ZEST_SENSITIVITY_MAX = 32 };

/* Tasks are columns, kinds of labels rows; with too many columns, in several blocks of rows. */
typedef struct {
    const char *tasks[ZEST_SENSITIVITY_MAX], *labels[ZEST_SENSITIVITY_MAX];
    size_t task_count, label_count, columns;
} zest_sensitivity_panels;

/* Distinct values of t above 0, ascending. */
typedef struct {
    double values[ZEST_SENSITIVITY_MAX];
    size_t count;
} zest_sensitivity_tilts;

/* ---- Grid (grid.c) ---- */

/* Lists of values as texts, by option; NULL: not set. */
typedef struct {
    char *text[ZEST_OPTION_COUNT];
} zest_sweep_block;

/* All combinations of each block, block after block. */
typedef struct {
    zest_sweep_block *blocks;
    size_t count;
} zest_sweep_grid;

void zest_sweep_grid_free(zest_sweep_grid *grid); /* accepts {0} */
/* Lines "name = value, value"; # starts a comment. A line [words] starts a block, which inherits the lines
 * before the first such line. source is for messages. */
zest_status zest_sweep_grid_read(zest_sweep_grid *grid, const char *text, const char *source,
                                 zest_error *error);
/* "paper-table-2", ...: the grid of that table. */
zest_status zest_sweep_grid_preset(zest_sweep_grid *grid, const char *name, zest_error *error);
/* Overrides replace the values of the blocks. Only --method selects: of the methods of a block, the given
 * ones stay, and a block without any is removed. */
zest_status zest_sweep_grid_override(zest_sweep_grid *grid, const zest_options *given, zest_error *error);
/* Multiplies the steps and the epochs of all runs; at least one remains. */
zest_status zest_sweep_grid_scale(zest_sweep_grid *grid, double factor, zest_error *error);
/* Makes paths absolute. */
zest_status zest_sweep_grid_absolute(zest_sweep_grid *grid, zest_error *error);
/* As text that zest_sweep_grid_read accepts. */
void zest_sweep_grid_print(const zest_sweep_grid *grid, zest_buffer *out);

/* ---- Lists (grid.c) ---- */

/* A list split at commas, or at semicolons if there is one or the values contain commas themselves
 * (--train-only, --freeze). White space around values and a trailing separator are ignored. A label before
 * a colon selects the runs that the following values are for: a method, all methods of first or of zeroth
 * order, or a task. */
typedef struct {
    char **items;
    char **labels; /* NULL: for all runs without a more specific value */
    size_t count;
} zest_sweep_values;
zest_status zest_sweep_split(zest_option_id id, const char *text, zest_sweep_values *values,
                             zest_error *error);
void zest_sweep_values_free(zest_sweep_values *values);

/* ---- Plan (plan.c) ---- */

typedef enum {
    ZEST_SWEEP_PLANNED,  /* no folder yet, or nothing usable in it */
    ZEST_SWEEP_STARTED,  /* interrupted; it can be resumed */
    ZEST_SWEEP_FINISHED, /* has a result */
    ZEST_SWEEP_FAILED,   /* message says why */
} zest_sweep_state;

/* The values of one part in result.json; NaN: missing. */
typedef struct {
    double value, accuracy, f1, em, loss;
    size_t n; /* examples; 0: unknown */
} zest_sweep_figures;

typedef struct {
    const char *value[ZEST_OPTION_COUNT]; /* owned by the plan; NULL: the default of zest train */
    char *name;                           /* of its folder: unique, and valid on any file system */
    zest_sweep_state state;
    char *message;   /* of a failed run; or NULL */
    char metric[16]; /* of the task: "accuracy" */
    double worth;    /* on dev, by --select; larger is better; NaN: unknown */
    double seconds;  /* duration */
    uint64_t best_step;
    zest_sweep_figures dev, test;
    unsigned char *right; /* by test example: whether the answer was right; NULL: unknown */
    size_t answers;
} zest_sweep_run;

typedef struct {
    zest_sweep_run *runs;
    size_t count;
    uint64_t *keys;                            /* by run: equal for equal runs */
    unsigned char varies[ZEST_OPTION_COUNT];   /* not the same in all runs */
    unsigned char by_task[ZEST_OPTION_COUNT];  /* varies, but not within a task */
    unsigned char compared[ZEST_OPTION_COUNT]; /* by --compare: not chosen by dev */
    zest_sweep_values *owned;                  /* memory of the values */
    size_t owned_count;
} zest_sweep_plan;

enum { ZEST_SWEEP_MAX_RUNS = 20000 }; /* runs */

/* Every combination once, of the values that are for its method and task: MeZO ignores t, ZEST with t = 0
 * is MeZO, 1e-5 is 0.00001. Seeds vary slowest, then tasks, noise, methods, and the others in the order of
 * the option table. */
zest_status zest_sweep_plan_make(const zest_sweep_grid *grid, zest_sweep_plan *plan, zest_error *error);
void zest_sweep_plan_free(zest_sweep_plan *plan); /* accepts {0} */

/* Whether two runs have the same value of an option. */
int zest_sweep_same(const zest_sweep_run *a, const zest_sweep_run *b, zest_option_id id);
int zest_sweep_same_value(zest_option_id id, const char *a, const char *b);
/* The tilt of a run: 0 for MeZO, the default if none is set; NaN for methods without one. */
double zest_sweep_tilt(const zest_sweep_run *run);
int zest_sweep_is_mezo(const zest_sweep_run *run);
const char *zest_sweep_method(const zest_sweep_run *run); /* its name */
int zest_sweep_method_is_first_order(const char *method);
/* Whether the method uses the option. */
int zest_sweep_matters(const char *method, zest_option_id id);
/* The value of a list for a run whose method and task are known; NULL: none. *counts: whether the list has
 * this value for it. */
const char *zest_sweep_value_for(const zest_sweep_values *values, size_t at, const zest_sweep_run *run,
                                 int *counts);
/* Checks that labels are methods or tasks. tasks: those of the sweep, or NULL. */
zest_status zest_sweep_check_labels(zest_option_id id, const zest_sweep_values *values,
                                    const zest_sweep_values *tasks, zest_error *error);

/* Letters, digits and a few characters without meaning to shells, file systems and HTML; '_' for all
 * others. */
void zest_sweep_safe(zest_buffer *out, const char *text);

/* ---- Results (results.c) ---- */

/* Reads folder/runs/NAME of every run. A folder that contains another run, by its options, is an error. */
zest_status zest_sweep_results_read(zest_sweep_plan *plan, const char *folder, zest_error *error);
/* The same for one run, which is read again. */
zest_status zest_sweep_result_read(zest_sweep_run *run, const char *folder, zest_error *error);
/* The answers of `zest predict` on the test examples; unknown if the file is missing or has no labels. */
zest_status zest_sweep_answers_read(zest_sweep_run *run, const char *path, zest_error *error);

/* ---- Summary (summary.c) ---- */

#define ZEST_SWEEP_NONE SIZE_MAX

/* One cell of the table: a row (a method and other compared options), a task, a noise level. */
typedef struct {
    size_t row, task, noise; /* indices in the summary */
    size_t *chosen;          /* by seed: the run with the best dev value, or ZEST_SWEEP_NONE */
    int complete;            /* all its runs are finished */
    zest_sample dev, test;   /* over seeds; in the unit of result.json */
    size_t base;             /* the entry to compare with, or ZEST_SWEEP_NONE */
    zest_sample difference;  /* test minus the base's, by seed: zest_paired_sample */
    double p;                /* one seed: exact McNemar test on the answers of the two runs; NaN: not known */
} zest_sweep_entry;

/* An entry per t: the other hyper-parameters are chosen by dev for each t. */
typedef struct {
    size_t row, task, noise;
    double t;                    /* NaN: a method without one */
    size_t *chosen;              /* by seed, as above */
    zest_sample dev, loss, test; /* over seeds; loss: that of dev */
    zest_sample difference;      /* test minus the base's, by seed; n = 0: none to compare with */
    double seconds;              /* mean duration of a run */
} zest_sweep_tilt_entry;

/* Tasks, noise levels, rows and seeds are spelt as in the first run that has them. */
typedef struct {
    const zest_sweep_plan *plan;
    const char *base; /* the base of comparisons: "mezo", without it "sgd", or NULL */
    size_t *tasks, *noises, *rows, *seeds;
    size_t task_count, noise_count, row_count, seed_count;
    zest_sweep_entry *entries; /* by noise, then task, then row; only those that have runs */
    size_t entry_count;
    zest_sweep_tilt_entry *tilts; /* by noise, task, row, t */
    size_t tilt_count;
    size_t finished, failed;
} zest_sweep_summary;

zest_status zest_sweep_summarise(const zest_sweep_plan *plan, zest_sweep_summary *summary, zest_error *error);
void zest_sweep_summary_free(zest_sweep_summary *summary); /* accepts {0} */
/* Whether the option is chosen by dev (lr, t, ...). The others define what is compared (task, method,
 * weights, ...). */
int zest_sweep_is_chosen(const zest_sweep_plan *plan, zest_option_id id);
/* Whether the option distinguishes rows. Options that follow from the task do not. */
int zest_sweep_distinguishes_rows(const zest_sweep_plan *plan, zest_option_id id);
/* The entry of a cell, or NULL. */
const zest_sweep_entry *zest_sweep_entry_at(const zest_sweep_summary *summary, size_t noise, size_t task,
                                            size_t row);

/* Whether the plan has runs of the task with these labels. */
int zest_sweep_has(const zest_sweep_summary *summary, size_t noise, size_t task);

/* ---- Conclusions (summary.c) ---- */

/* The conclusion of one entry, as a sentence and a verdict. */
void zest_sweep_conclude(const zest_sweep_summary *summary, const zest_sweep_entry *entry,
                         zest_conclusion *conclusion);
/* All comparisons with the base; without any, the entry with the best dev value. To be freed; NULL: out of
 * memory. */
zest_conclusion *zest_sweep_conclude_all(const zest_sweep_summary *summary, size_t *count);
/* "better", ...: zest_conclusion_verdict of an entry. */
const char *zest_sweep_verdict(const zest_sweep_summary *summary, const zest_sweep_entry *entry);

/* ---- Tables: tables.c (plain text, Markdown, LaTeX), export.c (CSV, JSON) ---- */

void zest_sweep_plain(const zest_sweep_summary *summary, zest_buffer *out);
void zest_sweep_markdown(const zest_sweep_summary *summary, zest_buffer *out);
void zest_sweep_latex(const zest_sweep_summary *summary, zest_buffer *out);
void zest_sweep_csv(const zest_sweep_summary *summary, zest_buffer *out);
void zest_sweep_csv_by_t(const zest_sweep_summary *summary, zest_buffer *out);
zest_status zest_sweep_json(const zest_sweep_summary *summary, zest_buffer *out, zest_error *error);

/* A figure of results on dev or test. */
typedef zest_plot *(*zest_sweep_figure_of)(const zest_sweep_summary *summary, int test,
                                           zest_sensitivity_style style);
/* Results on dev or test against t (export.c). To be freed; NULL: nothing to draw, or out of memory. */
zest_plot *zest_sweep_figure(const zest_sweep_summary *summary, int test, zest_sensitivity_style style);
/* Results on dev or test of every row, a panel for each task and kind of labels (export.c). The same. */
zest_plot *zest_sweep_methods(const zest_sweep_summary *summary, int test, zest_sensitivity_style style);

/* Escaping of text for each format. */
void zest_sweep_escape_markdown(zest_buffer *out, const char *text);
void zest_sweep_escape_latex(zest_buffer *out, const char *text);
void zest_sweep_escape_csv(zest_buffer *out, const char *text); /* quoted where it must be */

const char *zest_sweep_task_name(const char *task, char *buffer, size_t size); /* "reviews" of a path */
/* "zest-n", or "mezo, weights=bf16" where rows of one method differ in that. */
void zest_sweep_row_name(const zest_sweep_summary *summary, size_t row, zest_buffer *out);
/* "clean labels", "30 % of the labels switched" */
void zest_sweep_noise_name(const zest_sweep_summary *summary, size_t noise, zest_buffer *out);
/* "t=5 lr=1e-5": the options chosen by dev. */
void zest_sweep_chosen_name(const zest_sweep_summary *summary, size_t run, zest_buffer *out);
/* "accuracy": the metric of the chosen runs. */
const char *zest_sweep_metric(const zest_sweep_summary *summary, const size_t *chosen);
/* "MeZO": the name of the base. Writes into buffer. */
const char *zest_sweep_base_name(const zest_sweep_summary *summary, char *buffer, size_t size);
/* Whether there are results with more than one t. */
int zest_sweep_several_tilts(const zest_sweep_summary *summary);
/* 100 for fractions, which are shown in per cent; 1 for a loss. */
double zest_sweep_unit(const zest_sweep_summary *summary, size_t task);
int zest_sweep_row_is_first_order(const zest_sweep_summary *summary, size_t row);
/* The number of rows of first or of zeroth order. */
size_t zest_sweep_rows_of_order(const zest_sweep_summary *summary, int first);
/* "1500, 1300, 1400": the best step of each chosen run. */
void zest_sweep_best_steps(const zest_sweep_summary *summary, const size_t *chosen, const char *between,
                           zest_buffer *out);
/* One decimal for per cent, four for a loss; a dash for NaN. sign: always with a sign. */
void zest_sweep_number(zest_buffer *out, double value, double unit, int sign);
/* The interval of a difference; a dash if there is none; with one seed McNemar's p. */
void zest_sweep_interval(zest_buffer *out, const zest_sweep_entry *entry, double unit);
/* Whether it is the best of its column and order (first or zeroth), to the digits shown. */
int zest_sweep_is_best(const zest_sweep_summary *summary, const zest_sweep_entry *entry);

#endif
