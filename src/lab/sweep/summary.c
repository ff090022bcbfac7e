/* Summary of a sweep: hyper-parameters chosen by dev, means over seeds, differences from the base, and
 * conclusions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sweep/sweep.h"

static zest_sweep_role role_of(zest_option_id id) { return zest_option_row_at(id)->sweep; }

/* Options that select the examples: runs must share them to be compared seed by seed. */
static int is_data(zest_option_id id) { return role_of(id) == ZEST_SWEEP_DATA; }

/* Options that are tuned, as opposed to compared. */
int zest_sweep_is_chosen(const zest_sweep_plan *plan, zest_option_id id) {
    return role_of(id) == ZEST_SWEEP_TUNED && !plan->compared[id];
}

int zest_sweep_distinguishes_rows(const zest_sweep_plan *plan, zest_option_id id) {
    return role_of(id) != ZEST_SWEEP_NEVER && role_of(id) != ZEST_SWEEP_TABLE &&
           !zest_sweep_is_chosen(plan, id) && !plan->by_task[id];
}

/* ---- Tasks, noise, rows, seeds ---- */

static int same_row_options(const zest_sweep_plan *plan, const zest_sweep_run *a, const zest_sweep_run *b) {
    for (int i = 0; i < ZEST_OPTION_COUNT; i++)
        if (zest_sweep_distinguishes_rows(plan, (zest_option_id)i) &&
            !zest_sweep_same(a, b, (zest_option_id)i))
            return 0;
    return 1;
}
static int same_task(const zest_sweep_plan *plan, const zest_sweep_run *a, const zest_sweep_run *b) {
    (void)plan;
    return zest_sweep_same(a, b, ZEST_OPTION_TASK);
}
static int same_noise(const zest_sweep_plan *plan, const zest_sweep_run *a, const zest_sweep_run *b) {
    (void)plan;
    return zest_sweep_same(a, b, ZEST_OPTION_LABEL_NOISE);
}
static int same_seed(const zest_sweep_plan *plan, const zest_sweep_run *a, const zest_sweep_run *b) {
    (void)plan;
    return zest_sweep_same(a, b, ZEST_OPTION_SEED);
}

typedef int (*sameness)(const zest_sweep_plan *plan, const zest_sweep_run *a, const zest_sweep_run *b);

/* The first run of each kind; NULL: out of memory. */
static size_t *kinds(const zest_sweep_plan *plan, sameness same, size_t *count) {
    size_t *first = malloc((plan->count + 1) * sizeof *first);
    *count = 0;
    for (size_t i = 0; first && i < plan->count; i++) {
        size_t k = 0;
        while (k < *count && !same(plan, &plan->runs[first[k]], &plan->runs[i])) k++;
        if (k == *count) first[(*count)++] = i;
    }
    return first;
}

/* ---- Choice by dev ---- */

/* A cell of the table, one seed, and (unless NaN) one t. */
typedef struct {
    size_t row, task, noise, seed;
    double t;
} cell;

static int belongs(const zest_sweep_summary *s, const zest_sweep_run *run, const cell *p) {
    const zest_sweep_run *runs = s->plan->runs;
    return same_row_options(s->plan, &runs[s->rows[p->row]], run) &&
           same_task(s->plan, &runs[s->tasks[p->task]], run) &&
           same_noise(s->plan, &runs[s->noises[p->noise]], run) &&
           (p->seed == ZEST_SWEEP_NONE || same_seed(s->plan, &runs[s->seeds[p->seed]], run)) &&
           (isnan(p->t) || zest_sweep_tilt(run) == p->t);
}

/* The better of two finished runs by dev, with the same rule as between checkpoints: ties by lower dev
 * loss, then the first. */
static int is_better(const zest_sweep_run *run, const zest_sweep_run *best) {
    if (isnan(best->worth) || isnan(run->worth)) return isnan(best->worth) && !isnan(run->worth);
    if (run->worth != best->worth) return run->worth > best->worth;
    return run->dev.loss < best->dev.loss || (isnan(best->dev.loss) && !isnan(run->dev.loss));
}

static size_t choose(const zest_sweep_summary *s, const cell *p) {
    size_t best = ZEST_SWEEP_NONE;
    for (size_t i = 0; i < s->plan->count; i++) {
        const zest_sweep_run *run = &s->plan->runs[i];
        if (run->state != ZEST_SWEEP_FINISHED || !belongs(s, run, p)) continue;
        if (best == ZEST_SWEEP_NONE || is_better(run, &s->plan->runs[best])) best = i;
    }
    return best;
}

static void choose_all(const zest_sweep_summary *s, cell p, size_t *chosen) {
    for (p.seed = 0; p.seed < s->seed_count; p.seed++) chosen[p.seed] = choose(s, &p);
}

static double dev_of(const zest_sweep_run *run) { return run->dev.value; }
static double loss_of(const zest_sweep_run *run) { return run->dev.loss; }
static double test_of(const zest_sweep_run *run) { return run->test.value; }
static double seconds_of(const zest_sweep_run *run) { return run->seconds; }

/* Over the seeds that have a run. */
static zest_sample average(const zest_sweep_summary *s, const size_t *chosen,
                           double (*read)(const zest_sweep_run *), double *buffer) {
    for (size_t i = 0; i < s->seed_count; i++)
        buffer[i] = chosen[i] == ZEST_SWEEP_NONE ? NAN : read(&s->plan->runs[chosen[i]]);
    return zest_sample_of(buffer, s->seed_count);
}

/* The number of test examples if the metric is a fraction of them; 0: unknown, or not a fraction. */
static size_t examples_of(const zest_sweep_run *run) {
    return zest_conclusion_lower_is_better(run->metric) ? 0 : run->test.n;
}

/* Test minus the base's, over the seeds that have both. The smallest test set determines the resolution. */
static zest_sample subtract(const zest_sweep_summary *s, const size_t *chosen, const size_t *base,
                            double *buffer) {
    size_t examples = SIZE_MAX;
    for (size_t i = 0; i < s->seed_count; i++) {
        buffer[i] = NAN;
        if (chosen[i] == ZEST_SWEEP_NONE || base[i] == ZEST_SWEEP_NONE) continue;
        const zest_sweep_run *one = &s->plan->runs[chosen[i]], *other = &s->plan->runs[base[i]];
        buffer[i] = test_of(one) - test_of(other);
        if (examples_of(one) < examples) examples = examples_of(one);
        if (examples_of(other) < examples) examples = examples_of(other);
    }
    return zest_paired_sample(buffer, s->seed_count, examples == SIZE_MAX ? 0 : examples);
}

/* ---- Entries ---- */

static zest_status add_entry(zest_sweep_summary *s, const cell *p, double *buffer, zest_error *error) {
    cell any = {p->row, p->task, p->noise, ZEST_SWEEP_NONE, NAN};
    size_t runs = 0, finished = 0;
    for (size_t i = 0; i < s->plan->count; i++) {
        if (!belongs(s, &s->plan->runs[i], &any)) continue;
        runs++;
        finished += s->plan->runs[i].state == ZEST_SWEEP_FINISHED;
    }
    if (!runs) return ZEST_OK;
    zest_sweep_entry *e = &s->entries[s->entry_count];
    *e = (zest_sweep_entry){.row = p->row,
                            .task = p->task,
                            .noise = p->noise,
                            .complete = finished == runs,
                            .base = ZEST_SWEEP_NONE,
                            .p = NAN,
                            .chosen = malloc((s->seed_count + 1) * sizeof *e->chosen)};
    if (!e->chosen) return zest_error_memory(error, "a table", s->seed_count * sizeof *e->chosen);
    s->entry_count++;
    choose_all(s, any, e->chosen);
    e->dev = average(s, e->chosen, dev_of, buffer);
    e->test = average(s, e->chosen, test_of, buffer);
    return ZEST_OK;
}

/* The smallest t above `last` among the runs of a cell; infinity: none. */
static double next_tilt(const zest_sweep_summary *s, const cell *any, double last) {
    double next = HUGE_VAL;
    for (size_t i = 0; i < s->plan->count; i++) {
        double t = zest_sweep_tilt(&s->plan->runs[i]);
        if (t > last && t < next && belongs(s, &s->plan->runs[i], any)) next = t;
    }
    return next;
}

static zest_status add_tilt(zest_sweep_summary *s, const zest_sweep_entry *of, double t, double *buffer,
                            zest_error *error) {
    zest_sweep_tilt_entry *e = &s->tilts[s->tilt_count];
    *e = (zest_sweep_tilt_entry){.row = of->row,
                                 .task = of->task,
                                 .noise = of->noise,
                                 .t = t,
                                 .chosen = malloc((s->seed_count + 1) * sizeof *e->chosen)};
    if (!e->chosen) return zest_error_memory(error, "a table", s->seed_count * sizeof *e->chosen);
    s->tilt_count++;
    choose_all(s, (cell){of->row, of->task, of->noise, ZEST_SWEEP_NONE, t}, e->chosen);
    e->dev = average(s, e->chosen, dev_of, buffer);
    e->loss = average(s, e->chosen, loss_of, buffer);
    e->test = average(s, e->chosen, test_of, buffer);
    e->seconds = average(s, e->chosen, seconds_of, buffer).mean;
    if (of->base != ZEST_SWEEP_NONE)
        e->difference = subtract(s, e->chosen, s->entries[of->base].chosen, buffer);
    return ZEST_OK;
}

static zest_status add_tilts(zest_sweep_summary *s, const zest_sweep_entry *of, double *buffer,
                             zest_error *error) {
    cell any = {of->row, of->task, of->noise, ZEST_SWEEP_NONE, NAN};
    zest_status status = ZEST_OK;
    double t = next_tilt(s, &any, -1);
    if (isinf(t)) return add_tilt(s, of, NAN, buffer, error);
    for (; !isinf(t) && !status; t = next_tilt(s, &any, t)) status = add_tilt(s, of, t, buffer, error);
    return status;
}

const zest_sweep_entry *zest_sweep_entry_at(const zest_sweep_summary *s, size_t noise, size_t task,
                                            size_t row) {
    for (size_t i = 0; i < s->entry_count; i++)
        if (s->entries[i].noise == noise && s->entries[i].task == task && s->entries[i].row == row)
            return &s->entries[i];
    return NULL;
}

int zest_sweep_has(const zest_sweep_summary *s, size_t noise, size_t task) {
    for (size_t i = 0; i < s->entry_count; i++)
        if (s->entries[i].noise == noise && s->entries[i].task == task) return 1;
    return 0;
}

/* ---- Comparison with the base ---- */

static double mcnemar(const zest_sweep_run *a, const zest_sweep_run *b) {
    size_t first = 0, second = 0;
    if (!a->right || !b->right || a->answers != b->answers) return NAN;
    for (size_t i = 0; i < a->answers; i++) {
        first += a->right[i] && !b->right[i];
        second += b->right[i] && !a->right[i];
    }
    return zest_sample_mcnemar(first, second);
}

/* How many row options two runs share; -1: they do not use the same examples. */
static int likeness(const zest_sweep_plan *plan, const zest_sweep_run *a, const zest_sweep_run *b) {
    int shared = 0;
    for (int i = 0; i < ZEST_OPTION_COUNT; i++) {
        zest_option_id id = (zest_option_id)i;
        if (!zest_sweep_distinguishes_rows(plan, id)) continue;
        int same = zest_sweep_same(a, b, id);
        if (!same && is_data(id)) return -1;
        shared += same;
    }
    return shared;
}

static int is_base(const zest_sweep_summary *s, const zest_sweep_run *run) {
    return s->base &&
           (!strcmp(s->base, "mezo") ? zest_sweep_is_mezo(run) : !strcmp(zest_sweep_method(run), s->base));
}

/* MeZO; in a sweep without it, SGD. */
static void choose_base(zest_sweep_summary *s) {
    static const char *const names[] = {"mezo", "sgd"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        s->base = names[n];
        for (size_t i = 0; i < s->plan->count; i++)
            if (is_base(s, &s->plan->runs[i])) return;
    }
    s->base = NULL;
}

/* The base on the same data with the most options in common: a method that needs another weight type is
 * still compared. */
static size_t find_base(const zest_sweep_summary *s, const zest_sweep_entry *e) {
    const zest_sweep_run *runs = s->plan->runs, *first = &runs[s->rows[e->row]];
    size_t base = ZEST_SWEEP_NONE;
    int best = -1;
    for (size_t i = 0; i < s->entry_count && !is_base(s, first); i++) {
        const zest_sweep_run *other = &runs[s->rows[s->entries[i].row]];
        int like = s->entries[i].task == e->task && s->entries[i].noise == e->noise && is_base(s, other)
                       ? likeness(s->plan, first, other)
                       : -1;
        if (like > best) best = like, base = i;
    }
    return base;
}

static void compare(zest_sweep_summary *s, zest_sweep_entry *e, double *buffer) {
    e->base = find_base(s, e);
    if (e->base == ZEST_SWEEP_NONE) return;
    const size_t *base = s->entries[e->base].chosen;
    e->difference = subtract(s, e->chosen, base, buffer);
    for (size_t i = 0; i < s->seed_count && e->difference.n == 1; i++)
        if (e->chosen[i] != ZEST_SWEEP_NONE && base[i] != ZEST_SWEEP_NONE)
            e->p = mcnemar(&s->plan->runs[e->chosen[i]], &s->plan->runs[base[i]]);
}

/* ---- The summary ---- */

static zest_status fill(zest_sweep_summary *s, zest_error *error) {
    size_t cells = s->task_count * s->noise_count * s->row_count;
    double *buffer = malloc((s->seed_count + 1) * sizeof *buffer);
    s->entries = calloc(cells + 1, sizeof *s->entries);
    s->tilts = calloc(s->plan->count + 1, sizeof *s->tilts); /* at most one per run */
    zest_status status = buffer && s->entries && s->tilts
                             ? ZEST_OK
                             : zest_error_memory(error, "a table", cells * sizeof *s->entries);
    for (size_t i = 0; i < cells && !status; i++) {
        cell p = {.row = i % s->row_count,
                  .task = i / s->row_count % s->task_count,
                  .noise = i / s->row_count / s->task_count};
        status = add_entry(s, &p, buffer, error);
    }
    for (size_t i = 0; i < s->entry_count && !status; i++) compare(s, &s->entries[i], buffer);
    for (size_t i = 0; i < s->entry_count && !status; i++)
        status = add_tilts(s, &s->entries[i], buffer, error);
    free(buffer);
    return status;
}

zest_status zest_sweep_summarise(const zest_sweep_plan *plan, zest_sweep_summary *s, zest_error *error) {
    *s = (zest_sweep_summary){.plan = plan};
    choose_base(s);
    s->tasks = kinds(plan, same_task, &s->task_count);
    s->noises = kinds(plan, same_noise, &s->noise_count);
    s->rows = kinds(plan, same_row_options, &s->row_count);
    s->seeds = kinds(plan, same_seed, &s->seed_count);
    for (size_t i = 0; i < plan->count; i++) {
        s->finished += plan->runs[i].state == ZEST_SWEEP_FINISHED;
        s->failed += plan->runs[i].state == ZEST_SWEEP_FAILED;
    }
    zest_status status = s->tasks && s->noises && s->rows && s->seeds
                             ? fill(s, error)
                             : zest_error_memory(error, "a table", plan->count * sizeof *s->tasks);
    if (status) zest_sweep_summary_free(s);
    return status;
}

void zest_sweep_summary_free(zest_sweep_summary *s) {
    for (size_t i = 0; i < s->entry_count; i++) free(s->entries[i].chosen);
    for (size_t i = 0; i < s->tilt_count; i++) free(s->tilts[i].chosen);
    free(s->entries);
    free(s->tilts);
    free(s->tasks);
    free(s->noises);
    free(s->rows);
    free(s->seeds);
    *s = (zest_sweep_summary){0};
}

/* ---- Conclusions ---- */

/* As in figures: "ZEST-N, weights=bf16". */
static void name_row(const zest_sweep_summary *s, size_t row, char *text, size_t size) {
    zest_buffer name = {0};
    zest_sweep_row_name(s, row, &name);
    zest_sensitivity_name(name.data ? name.data : "", text, size);
    zest_buffer_free(&name);
}

/* What distinguishes the examples of an entry: its task, its labels, both or neither. */
static void name_examples(const zest_sweep_summary *s, const zest_sweep_entry *e, char *text, size_t size) {
    const char *task = s->plan->runs[s->tasks[e->task]].value[ZEST_OPTION_TASK];
    zest_buffer labels = {0};
    char name[128] = "";
    if (s->task_count > 1) zest_sweep_task_name(task ? task : "", name, sizeof name);
    if (s->noise_count > 1) zest_sweep_noise_name(s, e->noise, &labels);
    snprintf(text, size, "%s%s%s", name, *name && labels.data ? ", " : "", labels.data ? labels.data : "");
    zest_buffer_free(&labels);
}

/* Over seeds; the interval is never narrower than the binomial error of the test examples. */
static zest_sample value_of(const zest_sweep_summary *s, const zest_sweep_entry *e) {
    double *values = malloc((s->seed_count + 1) * sizeof *values);
    zest_sample value = e->test;
    size_t examples = 0;
    for (size_t i = 0; values && i < s->seed_count; i++) {
        const zest_sweep_run *run = e->chosen[i] == ZEST_SWEEP_NONE ? NULL : &s->plan->runs[e->chosen[i]];
        values[i] = run ? run->test.value : NAN;
        if (run && !zest_conclusion_lower_is_better(run->metric)) examples = run->test.n;
    }
    if (values) value = zest_paired_sample(values, s->seed_count, examples);
    free(values);
    return value;
}

void zest_sweep_conclude(const zest_sweep_summary *s, const zest_sweep_entry *e, zest_conclusion *c) {
    *c = (zest_conclusion){.part = "test", .value = value_of(s, e), .difference = e->difference};
    name_row(s, e->row, c->method, sizeof c->method);
    name_examples(s, e, c->where, sizeof c->where);
    snprintf(c->metric, sizeof c->metric, "%s", zest_sweep_metric(s, e->chosen));
    if (e->base != ZEST_SWEEP_NONE) name_row(s, s->entries[e->base].row, c->base, sizeof c->base);
}

const char *zest_sweep_verdict(const zest_sweep_summary *s, const zest_sweep_entry *e) {
    zest_conclusion c;
    zest_sweep_conclude(s, e, &c);
    return zest_conclusion_verdict(&c);
}

/* By dev, since test is what is reported. */
static const zest_sweep_entry *best_entry(const zest_sweep_summary *s) {
    const zest_sweep_entry *best = NULL;
    for (size_t i = 0; i < s->entry_count; i++) {
        const zest_sweep_entry *e = &s->entries[i];
        int const lower = zest_conclusion_lower_is_better(zest_sweep_metric(s, e->chosen));
        if (isnan(e->dev.mean)) continue;
        if (!best || (lower ? e->dev.mean < best->dev.mean : e->dev.mean > best->dev.mean)) best = e;
    }
    return best;
}

zest_conclusion *zest_sweep_conclude_all(const zest_sweep_summary *s, size_t *count) {
    zest_conclusion *all = calloc(s->entry_count + 1, sizeof *all);
    *count = 0;
    for (size_t i = 0; all && i < s->entry_count; i++) {
        zest_sweep_conclude(s, &s->entries[i], &all[*count]);
        *count += (size_t)zest_conclusion_compares(&all[*count]);
    }
    const zest_sweep_entry *best = all && !*count ? best_entry(s) : NULL;
    if (best) zest_sweep_conclude(s, best, &all[(*count)++]);
    return all;
}
