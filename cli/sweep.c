/* zest sweep: a grid of training runs, and the tables that follow. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/sweep_jobs.h"

enum { GRID_LIMIT = 1 << 20 };

typedef struct {
    const zest_options *options;
    const char *folder; /* "": none, for a dry run */
    zest_sweep_grid grid;
    zest_sweep_plan plan;
    int lock;
    zest_error error;
} sweep;

/* ---- The grid ---- */

static zest_status read_grid_file(sweep *s, const char *path) {
    zest_buffer text = {0};
    zest_status status = zest_file_read(path, GRID_LIMIT, &text, &s->error);
    if (!status) status = zest_sweep_grid_read(&s->grid, text.data ? text.data : "", path, &s->error);
    zest_buffer_free(&text);
    return status;
}

static zest_status resume_grid(sweep *s) {
    char *path = zest_file_join(s->folder, "grid");
    if (!path) return zest_error_memory(&s->error, s->folder, 0);
    zest_status status =
        access(path, F_OK)
            ? zest_error_set(&s->error, ZEST_ERROR_FILE, "%s: is no sweep (a folder with a grid)", s->folder)
            : read_grid_file(s, path);
    free(path);
    return status;
}

static zest_status check_grid(sweep *s) {
    for (size_t b = 0; b < s->grid.count; b++) {
        const zest_sweep_block *block = &s->grid.blocks[b];
        if (!block->text[ZEST_OPTION_MODEL])
            return zest_error_set(&s->error, ZEST_ERROR_ARGUMENT, "say which model to train: --model DIR");
        if (!block->text[ZEST_OPTION_TASK])
            return zest_error_set(&s->error, ZEST_ERROR_ARGUMENT,
                                  "say which tasks: --task NAME,NAME --data DIR, or --task FILE");
    }
    return ZEST_OK;
}

/* From the resumed sweep, a preset or a file, with what was given on top of it. */
static zest_status make_grid(sweep *s, const char *file) {
    int resumed = *zest_options_text(s->options, ZEST_OPTION_RESUME) != '\0',
        preset = zest_options_given(s->options, ZEST_OPTION_PRESET);
    if ((file != NULL) + preset + resumed > 1)
        return zest_error_set(&s->error, ZEST_ERROR_ARGUMENT,
                              "a grid file, --preset and --resume each bring a grid: give one of them");
    zest_status status = ZEST_OK;
    if (resumed)
        status = resume_grid(s);
    else if (preset)
        status =
            zest_sweep_grid_preset(&s->grid, zest_options_text(s->options, ZEST_OPTION_PRESET), &s->error);
    else if (file)
        status = read_grid_file(s, file);
    if (!status) status = zest_sweep_grid_override(&s->grid, s->options, &s->error);
    if (!status)
        status =
            zest_sweep_grid_scale(&s->grid, zest_options_number(s->options, ZEST_OPTION_SCALE), &s->error);
    if (!status) status = check_grid(s);
    if (!status) status = zest_sweep_grid_absolute(&s->grid, &s->error);
    return status ? status : zest_sweep_plan_make(&s->grid, &s->plan, &s->error);
}

/* ---- The folder ---- */

static zest_status make_part(sweep *s, const char *name) {
    char *path = zest_file_join(s->folder, name);
    zest_status status =
        path ? zest_file_make_folder(path, &s->error) : zest_error_memory(&s->error, s->folder, 0);
    free(path);
    return status;
}

static zest_status write_part(sweep *s, const char *name, const zest_buffer *text) {
    char *path = zest_file_join(s->folder, name);
    zest_status status = path && !text->failed
                             ? zest_file_write(path, text->data ? text->data : "", text->size, &s->error)
                             : zest_error_memory(&s->error, s->folder, text->size);
    free(path);
    return status;
}

/* One sweep at a time in a folder. */
static zest_status take_lock(sweep *s) {
    s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock >= 0 && !flock(s->lock, LOCK_EX | LOCK_NB)) return ZEST_OK;
    return zest_error_set_errno(&s->error, ZEST_ERROR_FILE,
                                "%s: cannot be locked; is another zest sweep at work there?", s->folder);
}

static zest_status make_folder(sweep *s) {
    static const char *const parts[] = {"runs", "logs", "answers"};
    zest_buffer text = {0};
    char *path = zest_file_join(s->folder, "grid");
    zest_status status = path ? ZEST_OK : zest_error_memory(&s->error, s->folder, 0);
    int resumed = *zest_options_text(s->options, ZEST_OPTION_RESUME) != '\0';
    if (!status && !resumed && access(path, F_OK) == 0)
        status = zest_error_set(&s->error, ZEST_ERROR_FILE,
                                "%s: holds a sweep already; go on with zest sweep --resume %s, or choose "
                                "another --out",
                                s->folder, s->folder);
    free(path);
    if (!status) status = zest_file_make_folder(s->folder, &s->error);
    if (!status) status = take_lock(s);
    for (size_t i = 0; i < 3 && !status; i++) status = make_part(s, parts[i]);
    zest_sweep_grid_print(&s->grid, &text);
    if (!status) status = zest_sweep_results_read(&s->plan, s->folder, &s->error);
    if (!status) status = write_part(s, "grid", &text);
    zest_buffer_free(&text);
    return status;
}

/* ---- Results ---- */

/* With one seed the only error bar is in the answers: those of the runs that are compared. */
static zest_status get_answers(sweep *s, zest_sweep_jobs *jobs, const zest_sweep_summary *summary) {
    size_t *wanted = malloc((2 * summary->entry_count + 1) * sizeof *wanted), count = 0;
    if (!wanted) return zest_error_memory(&s->error, "the answers of runs", summary->entry_count);
    for (size_t i = 0; i < summary->entry_count; i++) {
        const zest_sweep_entry *e = &summary->entries[i];
        if (e->base == ZEST_SWEEP_NONE || e->difference.n != 1) continue;
        for (size_t j = 0; j < summary->seed_count; j++) {
            size_t one = e->chosen[j], other = summary->entries[e->base].chosen[j];
            if (one == ZEST_SWEEP_NONE || other == ZEST_SWEEP_NONE ||
                strcmp(s->plan.runs[one].metric, "accuracy"))
                continue;
            wanted[count++] = one;
            wanted[count++] = other;
        }
    }
    zest_status status = zest_sweep_make_answers(jobs, wanted, count, &s->error);
    free(wanted);
    return status;
}

/* The tables as text, and where the files are; or everything as JSON. */
static zest_status print_results(sweep *s, const zest_sweep_summary *summary, const zest_buffer *json) {
    zest_buffer text = {0};
    zest_sweep_plain(summary, &text);
    if (text.failed) return zest_error_memory(&s->error, "the tables", text.size);
    if (zest_options_whole(s->options, ZEST_OPTION_JSON))
        zest_output_print("%s\n", json->data);
    else
        zest_output_print("%s\nAll tables: %s/table.md. One page with figures: zest report %s\n", text.data,
                          s->folder, s->folder);
    zest_buffer_free(&text);
    return ZEST_OK;
}

static zest_status write_tables(sweep *s, const zest_sweep_summary *summary) {
    zest_buffer table = {0}, csv = {0}, by_t = {0}, latex = {0}, json = {0};
    zest_sweep_markdown(summary, &table);
    zest_sweep_csv(summary, &csv);
    zest_sweep_csv_by_t(summary, &by_t);
    zest_sweep_latex(summary, &latex);
    zest_status status = zest_sweep_json(summary, &json, &s->error);
    if (!status) status = write_part(s, "table.md", &table);
    if (!status) status = write_part(s, "table.csv", &csv);
    if (!status) status = write_part(s, "by-t.csv", &by_t);
    if (!status) status = write_part(s, "table.tex", &latex);
    if (!status) status = write_part(s, "results.json", &json);
    if (!status) status = print_results(s, summary, &json);
    zest_buffer_free(&table);
    zest_buffer_free(&csv);
    zest_buffer_free(&by_t);
    zest_buffer_free(&latex);
    zest_buffer_free(&json);
    return status;
}

/* When there are several methods, and several t. */
static zest_status draw(sweep *s, const zest_sweep_summary *summary) {
    static const struct {
        const char *name, *title;
        zest_sweep_figure_of make;
        int test;
    } figures[] = {{"methods-test.svg", "Test results by method", zest_sweep_methods, 1},
                   {"by-t-dev.svg", "Dev results against t", zest_sweep_figure, 0},
                   {"by-t-test.svg", "Test results against t", zest_sweep_figure, 1}};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < sizeof figures / sizeof *figures && !status; i++) {
        zest_plot *plot =
            figures[i].make(summary, figures[i].test, (zest_sensitivity_style){.title = figures[i].title});
        char *path = zest_file_join(s->folder, figures[i].name);
        if (plot && path) status = zest_plot_write(plot, path, &s->error);
        zest_plot_free(plot);
        free(path);
    }
    return status;
}

static zest_status conclude(sweep *s, zest_sweep_jobs *jobs) {
    zest_sweep_summary summary;
    zest_status status = zest_sweep_summarise(&s->plan, &summary, &s->error);
    if (status) return status;
    status = get_answers(s, jobs, &summary);
    zest_sweep_summary_free(&summary);
    if (!status) status = zest_sweep_summarise(&s->plan, &summary, &s->error);
    if (status) return status;
    status = write_tables(s, &summary);
    if (!status) status = draw(s, &summary);
    zest_sweep_summary_free(&summary);
    return status;
}

/* ---- The command ---- */

static int list_runs_json(const sweep *s) {
    static const char *const states[] = {"planned", "started", "finished", "failed"};
    json_t *runs = json_array();
    for (size_t i = 0; i < s->plan.count; i++) {
        const zest_sweep_run *run = &s->plan.runs[i];
        json_t *one =
            json_pack("{s:o, s:s}", "name", zest_output_string(run->name), "state", states[run->state]);
        if (run->state == ZEST_SWEEP_FINISHED)
            zest_output_set(&one, "seconds", zest_output_real(run->seconds));
        zest_output_append(&runs, one);
    }
    return zest_output_json(json_pack("{s:o}", "runs", runs));
}

static int list_runs(const sweep *s) {
    static const char *const states[] = {"to make", "broken off", "finished", "failed"};
    size_t counts[4] = {0};
    double seconds = 0;
    for (size_t i = 0; i < s->plan.count; i++) {
        const zest_sweep_run *run = &s->plan.runs[i];
        counts[run->state]++;
        if (run->state == ZEST_SWEEP_FINISHED) seconds += run->seconds;
        zest_output_print("%-10s  %s\n", states[run->state], run->name);
    }
    size_t done = counts[ZEST_SWEEP_FINISHED], jobs = zest_options_whole(s->options, ZEST_OPTION_JOBS);
    printf("%zu runs: %zu finished, %zu broken off, %zu to make", s->plan.count, done,
           counts[ZEST_SWEEP_STARTED], counts[ZEST_SWEEP_PLANNED]);
    if (done) {
        double each = seconds / (double)done;
        printf("; at %.0f s each, %zu at a time, about %.0f s are left", each, jobs,
               each * (double)(s->plan.count - done) / (double)jobs);
    }
    printf("\n");
    return ZEST_EXIT_OK;
}

/* ---- Several runs on one GPU ---- */

/* For runs that are not finished. */
static int wants_gpu(const zest_sweep_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        const char *device = plan->runs[i].value[ZEST_OPTION_DEVICE];
        if (plan->runs[i].state != ZEST_SWEEP_FINISHED && device && !strcmp(device, "cuda")) return 1;
    }
    return 0;
}

/* Its control daemon keeps a pipe there. */
static int mps_is_on(void) {
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char *control = zest_file_join(folder && *folder ? folder : "/tmp/nvidia-mps", "control");
    int there = control && !access(control, F_OK);
    free(control);
    return there;
}

static void hint_at_mps(const zest_sweep_jobs *jobs) {
    if (jobs->quiet || jobs->jobs < 2 || !wants_gpu(jobs->plan) || mps_is_on()) return;
    zest_output_note("processes take turns on a GPU; after `nvidia-cuda-mps-control -d` they share it, "
                     "which is about twice as fast for small models");
}

static int make(sweep *s) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = (size_t)zest_options_whole(s->options, ZEST_OPTION_THREADS);
    zest_sweep_jobs jobs = {.plan = &s->plan,
                            .folder = s->folder,
                            .jobs = (size_t)zest_options_whole(s->options, ZEST_OPTION_JOBS),
                            .threads = threads     ? threads
                                       : cores > 0 ? (size_t)cores
                                                   : 1,
                            .keep = (zest_sweep_keep)zest_options_whole(s->options, ZEST_OPTION_KEEP),
                            .quiet = (int)zest_options_whole(s->options, ZEST_OPTION_QUIET)};
    zest_status status = make_folder(s);
    if (!status) hint_at_mps(&jobs);
    if (!status) status = zest_sweep_make_runs(&jobs, &s->error);
    if (!status) status = conclude(s, &jobs);
    if (!status) zest_sweep_drop_weights(&jobs);
    if (status) return zest_output_fail(status, s->error.message);
    if (jobs.interrupted) zest_output_note("stopped; go on with: zest sweep --resume %s", s->folder);
    for (size_t i = 0; i < s->plan.count; i++)
        if (s->plan.runs[i].state == ZEST_SWEEP_FAILED) return ZEST_EXIT_FAILURE;
    return ZEST_EXIT_OK;
}

static int go(sweep *s, const char *file) {
    int dry = (int)zest_options_whole(s->options, ZEST_OPTION_DRY_RUN);
    zest_status status = make_grid(s, file);
    if (!status && !dry && !*s->folder)
        status = zest_error_set(&s->error, ZEST_ERROR_ARGUMENT, "say where the runs go: --out DIR");
    if (!status && dry && *s->folder) status = zest_sweep_results_read(&s->plan, s->folder, &s->error);
    if (status) return zest_output_fail(status, s->error.message);
    if (!dry) return make(s);
    return zest_options_whole(s->options, ZEST_OPTION_JSON) ? list_runs_json(s) : list_runs(s);
}

static int run(const zest_options *options, char **words, int count) {
    const char *resume = zest_options_text(options, ZEST_OPTION_RESUME);
    sweep s = {.options = options,
               .folder = *resume ? resume : zest_options_text(options, ZEST_OPTION_OUT),
               .lock = -1};
    int code = go(&s, count ? words[0] : NULL);
    if (s.lock >= 0) close(s.lock);
    zest_sweep_plan_free(&s.plan);
    zest_sweep_grid_free(&s.grid);
    return code;
}

const zest_command zest_command_sweep = {
    .name = "sweep",
    .words = "[GRID]",
    .least = 0,
    .most = 1,
    .summary = "train with all combinations of some options and tabulate the results",
    .description =
        "Every option of `zest train` may have several values, separated by commas, on the command line or "
        "in "
        "a file GRID of lines `name = value, value`; each combination is a run of `zest train` in "
        "OUT/runs/NAME. What is the same thing is made once: MeZO ignores t, and ZEST with t = 0 is MeZO. "
        "Values that hold commas are separated by semicolons instead (always so for --train-only and "
        "--freeze); a single one ends with a semicolon. A label says whom the values behind it are for: "
        "--lr 1e-5,2e-5,first:1e-3,TREC:5e-5 has values for first-order methods and for a task; a method's "
        "name, first or zeroth, a task's name go before values without a label, in this order.\n\n"
        "For each task, share of label noise, method and seed, the run with the best dev value is chosen, "
        "and its test value is reported: mean and standard error over seeds, and differences from MeZO (in a "
        "sweep without it, from SGD) of the same seed with a 95 % interval. A verdict needs 3 seeds: better "
        "or worse when the interval excludes 0. The tables are printed; OUT/table.md, table.csv, by-t.csv, "
        "table.tex and results.json hold them. "
        "methods-test.svg shows them, by-t-test.svg and by-t-dev.svg results against t.\n\n"
        "A run that fails is reported, and the others go on; the exit status is then 1. After Ctrl-C, a kill "
        "or a power failure `zest sweep --resume OUT` goes on; with other values of options it extends the "
        "sweep.",
    .examples =
        "zest sweep --model FacebookAI/roberta-base --data data --task SST-2,TREC --method "
        "mezo,zest-n,zest-bc --t "
        "1,5,20 "
        "--lr 1e-5,2e-5 --seed 42,13,21 --steps 1500 --out sweep1\tseveral methods, tilts and seeds\n"
        "zest sweep --model FacebookAI/roberta-base --data data --task SST-2 --method mezo,zest-n,sgd,sam "
        "--lr "
        "1e-5,first:1e-3 --batch 128,first:32 --device cuda --jobs 5 --keep none --out sweep2\tmethods with "
        "values of their own, five runs at a time\n"
        "zest sweep --preset paper-table-2 --model FacebookAI/roberta-base --data data --scale 0.1 "
        "--out table2\tthe "
        "paper's table, with a tenth of the steps\n"
        "zest sweep --resume sweep1 --jobs 4\tgo on, four runs at a time\n"
        "zest sweep my.sweep --dry-run\tlist the runs",
    .options = "dry-run\tlist the runs and their states, and train nothing\n"
               "out\tsweep folder to create\n"
               "resume\tcontinue the sweep in this folder, with its options\n"
               "jobs\truns in parallel; results do not depend on it\n"
               "preset\tvalues of options that are not given: paper-table-2, paper-table-3, paper-table-4 or "
               "paper-figure-3\n"
               "model\tmodels to fine-tune: Hugging Face folders, GGUF files, or ORG/NAME after `zest pull "
               "ORG/NAME`\n"
               "patience\tearly stopping: stop after this many steps without a better dev value; 0: off\n"
               "eval-every\tsteps between evaluations of the dev examples\n"
               "batch\tbatch size",
    .defaults =
        "rho=0.002 lr=1e-5 batch=128 steps=5600 eval-every=100 seed=42 preset=", /* as train has them */
    .users = ZEST_FOR_SWEEP,
    .lists = ZEST_FOR_TRAIN,
    .run = run,
};
