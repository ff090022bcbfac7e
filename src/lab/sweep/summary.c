/* What is compared with what: hyper-parameters chosen by dev, means over seeds, differences from the base. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sweep/sweep.h"

static zest_sweep_role role_of(zest_option_id id) { return zest_option_row_at(id)->sweep; }

/* Which examples a run sees: what runs must share to be compared seed by seed. */
static int is_data(zest_option_id id) { return role_of(id) == ZEST_SWEEP_DATA; }

/* How a run was tuned, as opposed to what it is. */
int zest_sweep_is_chosen(const zest_sweep_plan *plan, zest_option_id id) {
    return role_of(id) == ZEST_SWEEP_TUNED && !plan->compared[id];
}

int zest_sweep_tells_rows(const zest_sweep_plan *plan, zest_option_id id) {
    return role_of(id) != ZEST_SWEEP_NEVER && role_of(id) != ZEST_SWEEP_TABLE &&
           !zest_sweep_is_chosen(plan, id) && !plan->by_task[id];
}

/* ---- Tasks, noise, rows, seeds ---- */

static int same_whole_row(const zest_sweep_plan *plan, const zest_sweep_run *a, const zest_sweep_run *b) {
    for (int i = 0; i < ZEST_OPTION_COUNT; i++)
        if (zest_sweep_tells_rows(plan, (zest_option_id)i) && !zest_sweep_same(a, b, (zest_option_id)i))
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

/* The first run of each kind; NULL: memory is short. */
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

/* ---- Choosing ---- */

/* A place of the table, one seed, and, unless it is NaN, one t. */
typedef struct {
    size_t row, task, noise, seed;
    double t;
} place;

static int belongs(const zest_sweep_summary *s, const zest_sweep_run *run, const place *p) {
    const zest_sweep_run *runs = s->plan->runs;
    return same_whole_row(s->plan, &runs[s->rows[p->row]], run) &&
           same_task(s->plan, &runs[s->tasks[p->task]], run) &&
           same_noise(s->plan, &runs[s->noises[p->noise]], run) &&
           (p->seed == ZEST_SWEEP_NONE || same_seed(s->plan, &runs[s->seeds[p->seed]], run)) &&
           (isnan(p->t) || zest_sweep_tilt(run) == p->t);
}

/* The better of two finished runs by dev, as the trainer chooses between checkpoints: of equal values the
 * lower dev loss, then the first. */
static int is_better(const zest_sweep_run *run, const zest_sweep_run *best) {
    if (isnan(best->worth) || isnan(run->worth)) return isnan(best->worth) && !isnan(run->worth);
    if (run->worth != best->worth) return run->worth > best->worth;
    return run->dev.loss < best->dev.loss || (isnan(best->dev.loss) && !isnan(run->dev.loss));
}

static size_t choose(const zest_sweep_summary *s, const place *p) {
    size_t best = ZEST_SWEEP_NONE;
    for (size_t i = 0; i < s->plan->count; i++) {
        const zest_sweep_run *run = &s->plan->runs[i];
        if (run->state != ZEST_SWEEP_FINISHED || !belongs(s, run, p)) continue;
        if (best == ZEST_SWEEP_NONE || is_better(run, &s->plan->runs[best])) best = i;
    }
    return best;
}

static void choose_all(const zest_sweep_summary *s, place p, size_t *chosen) {
    for (p.seed = 0; p.seed < s->seed_count; p.seed++) chosen[p.seed] = choose(s, &p);
}

static double dev_of(const zest_sweep_run *run) { return run->dev.value; }
static double loss_of(const zest_sweep_run *run) { return run->dev.loss; }
static double test_of(const zest_sweep_run *run) { return run->test.value; }
static double seconds_of(const zest_sweep_run *run) { return run->seconds; }

/* Over the seeds that have a run. */
static zest_sample average(const zest_sweep_summary *s, const size_t *chosen,
                           double (*read)(const zest_sweep_run *), double *room) {
    for (size_t i = 0; i < s->seed_count; i++)
        room[i] = chosen[i] == ZEST_SWEEP_NONE ? NAN : read(&s->plan->runs[chosen[i]]);
    return zest_sample_of(room, s->seed_count);
}

/* The test examples that a run's metric is a share of; 0: not known, or no share. */
static size_t examples_of(const zest_sweep_run *run) {
    return zest_conclusion_lower_is_better(run->metric) ? 0 : run->test.n;
}

/* Test minus the base's, over the seeds that have both. The smallest test set sets the resolution. */
static zest_sample subtract(const zest_sweep_summary *s, const size_t *chosen, const size_t *base,
                            double *room) {
    size_t examples = SIZE_MAX;
    for (size_t i = 0; i < s->seed_count; i++) {
        room[i] = NAN;
        if (chosen[i] == ZEST_SWEEP_NONE || base[i] == ZEST_SWEEP_NONE) continue;
        const zest_sweep_run *one = &s->plan->runs[chosen[i]], *other = &s->plan->runs[base[i]];
        room[i] = test_of(one) - test_of(other);
        if (examples_of(one) < examples) examples = examples_of(one);
        if (examples_of(other) < examples) examples = examples_of(other);
    }
    return zest_paired_sample(room, s->seed_count, examples == SIZE_MAX ? 0 : examples);
}

/* ---- Entries ---- */

static zest_status add_entry(zest_sweep_summary *s, const place *p, double *room, zest_error *error) {
    place any = {p->row, p->task, p->noise, ZEST_SWEEP_NONE, NAN};
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
    e->dev = average(s, e->chosen, dev_of, room);
    e->test = average(s, e->chosen, test_of, room);
    return ZEST_OK;
}

/* The smallest t above `last` among the runs of a place; infinity: there is none. */
static double next_tilt(const zest_sweep_summary *s, const place *any, double last) {
    double next = HUGE_VAL;
    for (size_t i = 0; i < s->plan->count; i++) {
        double t = zest_sweep_tilt(&s->plan->runs[i]);
        if (t > last && t < next && belongs(s, &s->plan->runs[i], any)) next = t;
    }
    return next;
}

static zest_status add_tilt(zest_sweep_summary *s, const zest_sweep_entry *of, double t, double *room,
                            zest_error *error) {
    zest_sweep_tilt_entry *e = &s->tilts[s->tilt_count];
    *e = (zest_sweep_tilt_entry){.row = of->row,
                                 .task = of->task,
                                 .noise = of->noise,
                                 .t = t,
                                 .chosen = malloc((s->seed_count + 1) * sizeof *e->chosen)};
    if (!e->chosen) return zest_error_memory(error, "a table", s->seed_count * sizeof *e->chosen);
    s->tilt_count++;
    choose_all(s, (place){of->row, of->task, of->noise, ZEST_SWEEP_NONE, t}, e->chosen);
    e->dev = average(s, e->chosen, dev_of, room);
    e->loss = average(s, e->chosen, loss_of, room);
    e->test = average(s, e->chosen, test_of, room);
    e->seconds = average(s, e->chosen, seconds_of, room).mean;
    if (of->base != ZEST_SWEEP_NONE)
        e->difference = subtract(s, e->chosen, s->entries[of->base].chosen, room);
    return ZEST_OK;
}

static zest_status add_tilts(zest_sweep_summary *s, const zest_sweep_entry *of, double *room,
                             zest_error *error) {
    place any = {of->row, of->task, of->noise, ZEST_SWEEP_NONE, NAN};
    zest_status status = ZEST_OK;
    double t = next_tilt(s, &any, -1);
    if (isinf(t)) return add_tilt(s, of, NAN, room, error);
    for (; !isinf(t) && !status; t = next_tilt(s, &any, t)) status = add_tilt(s, of, t, room, error);
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

/* ---- Against the base ---- */

static double mcnemar(const zest_sweep_run *a, const zest_sweep_run *b) {
    size_t first = 0, second = 0;
    if (!a->right || !b->right || a->answers != b->answers) return NAN;
    for (size_t i = 0; i < a->answers; i++) {
        first += a->right[i] && !b->right[i];
        second += b->right[i] && !a->right[i];
    }
    return zest_sample_mcnemar(first, second);
}

/* How many options that tell rows apart two runs share; -1: they do not see the same examples. */
static int likeness(const zest_sweep_plan *plan, const zest_sweep_run *a, const zest_sweep_run *b) {
    int shared = 0;
    for (int i = 0; i < ZEST_OPTION_COUNT; i++) {
        zest_option_id id = (zest_option_id)i;
        if (!zest_sweep_tells_rows(plan, id)) continue;
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

/* The base on the same data, and of what else is the same as far as there is one: a method that wants weights
 * of another type is still compared. */
static size_t find_base(const zest_sweep_summary *s, const zest_sweep_entry *e) {
    const zest_sweep_run *runs = s->plan->runs, *own = &runs[s->rows[e->row]];
    size_t base = ZEST_SWEEP_NONE;
    int best = -1;
    for (size_t i = 0; i < s->entry_count && !is_base(s, own); i++) {
        const zest_sweep_run *other = &runs[s->rows[s->entries[i].row]];
        int like = s->entries[i].task == e->task && s->entries[i].noise == e->noise && is_base(s, other)
                       ? likeness(s->plan, own, other)
                       : -1;
        if (like > best) best = like, base = i;
    }
    return base;
}

static void compare(zest_sweep_summary *s, zest_sweep_entry *e, double *room) {
    e->base = find_base(s, e);
    if (e->base == ZEST_SWEEP_NONE) return;
    const size_t *base = s->entries[e->base].chosen;
    e->difference = subtract(s, e->chosen, base, room);
    for (size_t i = 0; i < s->seed_count && e->difference.n == 1; i++)
        if (e->chosen[i] != ZEST_SWEEP_NONE && base[i] != ZEST_SWEEP_NONE)
            e->p = mcnemar(&s->plan->runs[e->chosen[i]], &s->plan->runs[base[i]]);
}

/* ---- The whole ---- */

static zest_status fill(zest_sweep_summary *s, zest_error *error) {
    size_t places = s->task_count * s->noise_count * s->row_count;
    double *room = malloc((s->seed_count + 1) * sizeof *room);
    s->entries = calloc(places + 1, sizeof *s->entries);
    s->tilts = calloc(s->plan->count + 1, sizeof *s->tilts); /* each has a run of its own */
    zest_status status = room && s->entries && s->tilts
                             ? ZEST_OK
                             : zest_error_memory(error, "a table", places * sizeof *s->entries);
    for (size_t i = 0; i < places && !status; i++) {
        place p = {.row = i % s->row_count,
                   .task = i / s->row_count % s->task_count,
                   .noise = i / s->row_count / s->task_count};
        status = add_entry(s, &p, room, error);
    }
    for (size_t i = 0; i < s->entry_count && !status; i++) compare(s, &s->entries[i], room);
    for (size_t i = 0; i < s->entry_count && !status; i++) status = add_tilts(s, &s->entries[i], room, error);
    free(room);
    return status;
}

zest_status zest_sweep_summarise(const zest_sweep_plan *plan, zest_sweep_summary *s, zest_error *error) {
    *s = (zest_sweep_summary){.plan = plan};
    choose_base(s);
    s->tasks = kinds(plan, same_task, &s->task_count);
    s->noises = kinds(plan, same_noise, &s->noise_count);
    s->rows = kinds(plan, same_whole_row, &s->row_count);
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

/* What the tables of a sweep amount to, in words. */

/* As figures show it: "ZEST-N, weights=bf16". */
static void name_row(const zest_sweep_summary *s, size_t row, char *text, size_t size) {
    zest_buffer name = {0};
    zest_sweep_row_name(s, row, &name);
    zest_sensitivity_name(name.data ? name.data : "", text, size);
    zest_buffer_free(&name);
}

/* What tells the examples of an entry from those of others: its task, its labels, both or nothing. */
static void name_examples(const zest_sweep_summary *s, const zest_sweep_entry *e, char *text, size_t size) {
    const char *task = s->plan->runs[s->tasks[e->task]].value[ZEST_OPTION_TASK];
    zest_buffer labels = {0};
    char name[128] = "";
    if (s->task_count > 1) zest_sweep_task_name(task ? task : "", name, sizeof name);
    if (s->noise_count > 1) zest_sweep_noise_name(s, e->noise, &labels);
    snprintf(text, size, "%s%s%s", name, *name && labels.data ? ", " : "", labels.data ? labels.data : "");
    zest_buffer_free(&labels);
}

/* Over seeds; an interval never narrower than the binomial error of the test examples. */
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

/* By dev, since test is what is to be told. */
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
