/* The plan of a sweep: the runs of a grid without duplicates, and their names. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "base/text.h"
#include "lab/sweep/sweep.h"

/* ---- Equality of values ---- */

/* An integer beyond 2^53 is not a double: such values are compared as integers. */
static int same_integer(const char *a, const char *b) {
    char *end_a, *end_b;
    unsigned long long x = strtoull(a, &end_a, a[0] == '0' && (a[1] | 32) == 'x' ? 16 : 10),
                       y = strtoull(b, &end_b, b[0] == '0' && (b[1] | 32) == 'x' ? 16 : 10);
    return *end_a || *end_b ? zest_number_parse(a, NULL) == zest_number_parse(b, NULL) : x == y;
}

/* The values have been validated. */
int zest_sweep_same_value(zest_option_id id, const char *a, const char *b) {
    if (!a || !b) return a == b;
    if (a == b || !strcmp(a, b)) return 1;
    switch (zest_option_row_at(id)->kind) {
    case ZEST_KIND_REAL: /* a word, such as auto, equals itself alone */
        return zest_option_is_number(a) && zest_option_is_number(b) &&
               zest_number_parse(a, NULL) == zest_number_parse(b, NULL);
    case ZEST_KIND_COUNT:
    case ZEST_KIND_SEED: return same_integer(a, b);
    case ZEST_KIND_FLAG: return !strchr("yt1", a[0]) == !strchr("yt1", b[0]);
    default: return 0;
    }
}

int zest_sweep_same(const zest_sweep_run *a, const zest_sweep_run *b, zest_option_id id) {
    return zest_sweep_same_value(id, a->value[id], b->value[id]);
}

const char *zest_sweep_method(const zest_sweep_run *run) {
    const char *method = run->value[ZEST_OPTION_METHOD];
    return method ? method : zest_option_row_at(ZEST_OPTION_METHOD)->fallback;
}

int zest_sweep_method_is_first_order(const char *method) {
    return zest_option_find_method(method) >= ZEST_CHOICE_SGD;
}

int zest_sweep_matters(const char *method, zest_option_id id) {
    return zest_option_takes(zest_option_row_at(id), zest_option_find_method(method));
}

int zest_sweep_is_mezo(const zest_sweep_run *run) { return !strcmp(zest_sweep_method(run), "mezo"); }

double zest_sweep_tilt(const zest_sweep_run *run) {
    const char *t = run->value[ZEST_OPTION_T];
    if (zest_sweep_is_mezo(run)) return 0;
    if (!zest_sweep_matters(zest_sweep_method(run), ZEST_OPTION_T)) return NAN;
    if (!t) t = zest_option_row_at(ZEST_OPTION_T)->fallback;
    return zest_option_is_number(t) ? zest_number_parse(t, NULL) : NAN;
}

static void make_canonical(zest_sweep_run *run) {
    static const char mezo[] = "mezo";
    if (!strncmp(zest_sweep_method(run), "zest", 4) && zest_sweep_tilt(run) == 0)
        run->value[ZEST_OPTION_METHOD] = mezo;
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (!zest_sweep_matters(zest_sweep_method(run), (zest_option_id)id)) run->value[id] = NULL;
    const char *weights = run->value[ZEST_OPTION_WEIGHTS], *search = run->value[ZEST_OPTION_SAM_SEARCH];
    if (!strcmp(zest_sweep_method(run), "sam") && (!search || strcmp(search, "random")))
        /* a single ascent step */
        run->value[ZEST_OPTION_K] = NULL;
    if (weights && !strcmp(weights, "f32")) run->value[ZEST_OPTION_ROUNDING] = NULL; /* nothing is rounded */
}

/* ---- All combinations of a block ---- */

typedef struct {
    zest_sweep_plan *plan;
    zest_option_id ids[ZEST_OPTION_COUNT]; /* slowest first */
    const zest_sweep_values *values[ZEST_OPTION_COUNT];
    size_t count;
    const zest_sweep_values *tasks; /* one of these, or NULL */
    zest_error *error;
} block;

static zest_status check_values(zest_option_id id, const zest_sweep_values *values, zest_error *error) {
    zest_options scratch;
    zest_options_init(&scratch);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < values->count && !status; i++)
        status = zest_options_set_id(&scratch, id, values->items[i], error);
    zest_options_free(&scratch);
    return status;
}

static zest_status add_axis(block *b, zest_option_id id, const char *text) {
    zest_sweep_plan *plan = b->plan;
    if (!text || id == ZEST_OPTION_COMPARE) return ZEST_OK;
    zest_sweep_values *values = &plan->owned[plan->owned_count];
    zest_status status = zest_sweep_split(id, text, values, b->error);
    if (status) return status;
    plan->owned_count++;
    b->ids[b->count] = id;
    b->values[b->count++] = values;
    if (id == ZEST_OPTION_TASK) b->tasks = values;
    return check_values(id, values, b->error);
}

static int is_first(zest_option_id id, size_t *position) {
    static const zest_option_id first[] = {ZEST_OPTION_SEED, ZEST_OPTION_TASK, ZEST_OPTION_LABEL_NOISE,
                                           ZEST_OPTION_METHOD};
    for (*position = 0; *position < 4; ++*position)
        if (first[*position] == id) return 1;
    return 0;
}

static zest_status find_axes(block *b, const zest_sweep_block *from) {
    zest_status status = ZEST_OK;
    size_t position;
    for (size_t p = 0; p < 4 && !status; p++)
        for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++)
            if (is_first((zest_option_id)id, &position) && position == p)
                status = add_axis(b, (zest_option_id)id, from->text[id]);
    for (int id = 0; id < ZEST_OPTION_COUNT && !status; id++)
        if (!is_first((zest_option_id)id, &position))
            status = add_axis(b, (zest_option_id)id, from->text[id]);
    for (size_t i = 0; i < b->count && !status; i++)
        status = zest_sweep_check_labels(b->ids[i], b->values[i], b->tasks, b->error);
    return status;
}

static int same_run(const zest_sweep_run *a, const zest_sweep_run *b) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (a->value[id] != b->value[id] && !zest_sweep_same(a, b, (zest_option_id)id)) return 0;
    return 1;
}

/* Equal values have equal keys; different ones mostly differ, which makes comparisons fast. */
static uint64_t key_of(const zest_sweep_run *run) {
    uint64_t key = 14695981039346656037u;
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const char *value = run->value[id];
        zest_option_kind kind = zest_option_row_at((zest_option_id)id)->kind;
        char text[32];
        if (!value) continue;
        if (kind == ZEST_KIND_REAL || kind == ZEST_KIND_COUNT || kind == ZEST_KIND_SEED)
            zest_number_format(text, sizeof text, "%.9g", zest_number_parse(value, NULL)), value = text;
        else if (kind == ZEST_KIND_FLAG)
            value = strchr("yt1", value[0]) ? "y" : "n";
        key = (key ^ (uint64_t)id) * 1099511628211u;
        for (; *value; value++) key = (key ^ (unsigned char)*value) * 1099511628211u;
    }
    return key;
}

/* Makes capacity for one more run. */
static zest_status grow(zest_sweep_plan *plan, zest_error *error) {
    size_t buffer = plan->count ? 2 * plan->count : 1;
    if (plan->count & (plan->count - 1)) return ZEST_OK;
    zest_sweep_run *runs = realloc(plan->runs, buffer * sizeof *runs);
    if (runs) plan->runs = runs;
    uint64_t *keys = realloc(plan->keys, buffer * sizeof *keys);
    if (keys) plan->keys = keys;
    return runs && keys ? ZEST_OK : zest_error_memory(error, "the runs of a sweep", buffer * sizeof *runs);
}

static zest_status add_run(block *b, const size_t *at) {
    zest_sweep_plan *plan = b->plan;
    zest_sweep_run run = {.worth = NAN};
    int counts;
    for (size_t i = 0; i < b->count; i++) run.value[b->ids[i]] = b->values[i]->items[at[i]];
    for (size_t i = 0; i < b->count; i++) {
        run.value[b->ids[i]] = zest_sweep_value_for(b->values[i], at[i], &run, &counts);
        if (!counts) return ZEST_OK;
    }
    make_canonical(&run);
    uint64_t key = key_of(&run);
    for (size_t i = 0; i < plan->count; i++)
        if (plan->keys[i] == key && same_run(&plan->runs[i], &run)) return ZEST_OK;
    if (plan->count == ZEST_SWEEP_MAX_RUNS)
        return zest_error_set(b->error, ZEST_ERROR_ARGUMENT,
                              "the grid has more than %d runs; make several sweeps", ZEST_SWEEP_MAX_RUNS);
    zest_status status = grow(plan, b->error);
    if (status) return status;
    plan->keys[plan->count] = key;
    plan->runs[plan->count++] = run;
    return ZEST_OK;
}

static zest_status combine(block *b) {
    size_t at[ZEST_OPTION_COUNT] = {0}, wheel;
    zest_status status;
    do {
        status = add_run(b, at);
        for (wheel = b->count; wheel > 0; wheel--) {
            if (++at[wheel - 1] < b->values[wheel - 1]->count) break;
            at[wheel - 1] = 0;
        }
    } while (!status && wheel > 0);
    return status;
}

/* ---- Names of runs, used for folders ----
 *
 * The options that vary, in the order of the grid: "SST-2-noise0.3-zest-n-t5-lr1e-5-seed42". An option that
 * is the same in all runs of a method on a task is omitted, even if it differs between methods. */

enum { MAX_NAME = 120 }; /* bytes; file systems allow 255 */

const char *zest_sweep_task_name(const char *task, char *buffer, size_t size) {
    const char *slash = strrchr(task, '/'), *from = slash ? slash + 1 : task;
    size_t length = strlen(from);
    if (length > 5 && !strcmp(from + length - 5, ".task")) length -= 5;
    if (length >= size) length = size - 1;
    memcpy(buffer, from, length);
    buffer[length] = '\0';
    return buffer;
}

void zest_sweep_safe(zest_buffer *out, const char *text) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+=-_";
    for (; *text; text++) {
        char c = strchr(good, *text) ? *text : '_';
        zest_buffer_add(out, &c, 1);
    }
}

static void add_part(zest_buffer *out, const zest_sweep_run *run, zest_option_id id) {
    const char *value = run->value[id];
    char buffer[128];
    if (!value) return;
    if (out->size) zest_buffer_text(out, "-");
    if (id == ZEST_OPTION_LABEL_NOISE)
        zest_buffer_text(out, "noise");
    else if (id != ZEST_OPTION_TASK && id != ZEST_OPTION_METHOD)
        zest_buffer_text(out, zest_option_row_at(id)->name);
    int path = id == ZEST_OPTION_TASK || id == ZEST_OPTION_MODEL || id == ZEST_OPTION_DATA;
    zest_sweep_safe(out, path ? zest_sweep_task_name(value, buffer, sizeof buffer) : value);
}

/* ---- Options in a name ---- */

/* The runs of one method on one task. */
typedef struct {
    const zest_sweep_run *first;
    unsigned char varies[ZEST_OPTION_COUNT];
} group;

typedef struct {
    group *groups;
    size_t count, buffer;
    size_t *of; /* by run */
} groups;

static size_t group_of(groups *all, const zest_sweep_run *run) {
    for (size_t g = 0; g < all->count; g++)
        if (zest_sweep_same(all->groups[g].first, run, ZEST_OPTION_METHOD) &&
            zest_sweep_same(all->groups[g].first, run, ZEST_OPTION_TASK))
            return g;
    if (all->count == all->buffer) {
        group *more = realloc(all->groups, (2 * all->buffer + 8) * sizeof *more);
        if (!more) return ZEST_SWEEP_NONE;
        all->groups = more;
        all->buffer = 2 * all->buffer + 8;
    }
    all->groups[all->count] = (group){.first = run};
    return all->count++;
}

static zest_status find_groups(const zest_sweep_plan *plan, groups *all, zest_error *error) {
    all->of = malloc((plan->count + 1) * sizeof *all->of);
    for (size_t i = 0; all->of && i < plan->count; i++) {
        size_t g = all->of[i] = group_of(all, &plan->runs[i]);
        if (g == ZEST_SWEEP_NONE) return zest_error_memory(error, "the names of runs", sizeof *all->groups);
        for (int id = 0; id < ZEST_OPTION_COUNT; id++)
            all->groups[g].varies[id] |=
                plan->varies[id] &&
                !zest_sweep_same(all->groups[g].first, &plan->runs[i], (zest_option_id)id);
    }
    return all->of ? ZEST_OK : zest_error_memory(error, "the names of runs", plan->count * sizeof *all->of);
}

static int is_in_name(const zest_sweep_plan *plan, const group *runs_of, zest_option_id id) {
    switch (id) {
    case ZEST_OPTION_TASK:
    case ZEST_OPTION_LABEL_NOISE:
    case ZEST_OPTION_METHOD:
    case ZEST_OPTION_SEED: return 0; /* at the start or at the end of the name */
    case ZEST_OPTION_T: return plan->varies[id];
    default: return runs_of->varies[id];
    }
}

static char *name_of(const zest_sweep_plan *plan, const zest_sweep_run *run, const group *runs_of) {
    static const zest_option_id first[] = {ZEST_OPTION_TASK, ZEST_OPTION_LABEL_NOISE, ZEST_OPTION_METHOD};
    zest_buffer out = {0};
    for (size_t i = 0; i < 3; i++)
        if (plan->varies[first[i]]) add_part(&out, run, first[i]);
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (is_in_name(plan, runs_of, (zest_option_id)id)) add_part(&out, run, (zest_option_id)id);
    if (plan->varies[ZEST_OPTION_SEED]) add_part(&out, run, ZEST_OPTION_SEED);
    const char *name = out.size ? out.data : "run";
    zest_buffer safe = {0}; /* a leading '.' hides, a leading '-' looks like an option */
    zest_buffer_format(&safe, "%s%.*s", *name == '.' || *name == '-' ? "_" : "", MAX_NAME, name);
    safe.failed |= out.failed;
    zest_buffer_free(&out);
    if (safe.failed) zest_buffer_free(&safe);
    return safe.data;
}

/* ---- Unique names ---- */

static int compare(const void *a, const void *b) {
    const zest_sweep_run *const *x = a, *const *y = b;
    int order = strcasecmp((*x)->name, (*y)->name); /* some file systems ignore case */
    return order ? order : (*x > *y) - (*x < *y);
}

/* Of runs with the same name all but the first get their index in the plan. */
static zest_status make_unique(zest_sweep_plan *plan, zest_error *error) {
    zest_sweep_run **sorted = malloc((plan->count + 1) * sizeof *sorted);
    if (!sorted) return zest_error_memory(error, "the names of runs", plan->count * sizeof *sorted);
    for (size_t i = 0; i < plan->count; i++) sorted[i] = &plan->runs[i];
    qsort(sorted, plan->count, sizeof *sorted, compare);
    zest_status status = ZEST_OK;
    for (size_t i = 0, first = 0; i < plan->count && !status; i++) {
        if (strcasecmp(sorted[i]->name, sorted[first]->name)) first = i;
        if (i == first) continue;
        zest_buffer name = {0};
        zest_buffer_format(&name, "%s~%zu", sorted[i]->name, (size_t)(sorted[i] - plan->runs) + 1);
        if (name.failed) status = zest_error_memory(error, "the names of runs", name.size);
        if (!name.failed) free(sorted[i]->name), sorted[i]->name = name.data;
    }
    free(sorted);
    return status;
}

static zest_status name_runs(zest_sweep_plan *plan, zest_error *error) {
    groups all = {0};
    zest_status status = find_groups(plan, &all, error);
    for (size_t i = 0; i < plan->count && !status; i++) {
        plan->runs[i].name = name_of(plan, &plan->runs[i], &all.groups[all.of[i]]);
        if (!plan->runs[i].name) status = zest_error_memory(error, "the name of a run", MAX_NAME);
    }
    free(all.groups);
    free(all.of);
    return status ? status : make_unique(plan, error);
}

/* ---- The plan ---- */

static void find_varying(zest_sweep_plan *plan) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        for (size_t i = 1; i < plan->count && !plan->varies[id]; i++)
            plan->varies[id] = !zest_sweep_same(&plan->runs[0], &plan->runs[i], (zest_option_id)id);
}

/* The options that --compare names. */
static zest_status find_compared(zest_sweep_plan *plan, const char *text, zest_error *error) {
    zest_sweep_values names = {0};
    zest_status status = text ? zest_sweep_split(ZEST_OPTION_COMPARE, text, &names, error) : ZEST_OK;
    for (size_t i = 0; i < names.count && !status; i++) {
        zest_option_id id = zest_option_find(names.items[i], ZEST_FOR_TRAIN);
        char suggestion[ZEST_OPTION_SUGGESTION_SIZE];
        if (id == ZEST_OPTION_COUNT)
            status = zest_error_set(error, ZEST_ERROR_ARGUMENT, "--compare: unknown option '%.100s'%s",
                                    names.items[i],
                                    zest_option_suggest(names.items[i], ZEST_FOR_TRAIN, 1, suggestion));
        else if (names.labels[i] || (!plan->compared[id] && !zest_sweep_is_chosen(plan, id)))
            status =
                zest_error_set(error, ZEST_ERROR_ARGUMENT,
                               "--compare: '%.100s' is not an option that dev chooses; t, lr and radius are",
                               names.items[i]);
        else
            plan->compared[id] = 1;
    }
    zest_sweep_values_free(&names);
    return status;
}

/* The first run of its task. Runs of a task are mostly adjacent: `like` is that of the previous run. */
static size_t first_of_task(const zest_sweep_plan *plan, size_t run, size_t like) {
    if (zest_sweep_same(&plan->runs[like], &plan->runs[run], ZEST_OPTION_TASK)) return like;
    for (like = 0; !zest_sweep_same(&plan->runs[like], &plan->runs[run], ZEST_OPTION_TASK);) like++;
    return like;
}

static void find_by_task(zest_sweep_plan *plan) {
    memcpy(plan->by_task, plan->varies, sizeof plan->by_task);
    plan->by_task[ZEST_OPTION_METHOD] = 0;
    for (size_t i = 0, first = 0; i < plan->count; i++) {
        first = first_of_task(plan, i, first);
        for (int id = 0; id < ZEST_OPTION_COUNT; id++)
            if (plan->by_task[id] && !zest_sweep_same(&plan->runs[first], &plan->runs[i], (zest_option_id)id))
                plan->by_task[id] = 0;
    }
}

zest_status zest_sweep_plan_make(const zest_sweep_grid *grid, zest_sweep_plan *plan, zest_error *error) {
    *plan = (zest_sweep_plan){0};
    plan->owned = calloc(grid->count * ZEST_OPTION_COUNT + 1, sizeof *plan->owned);
    if (!plan->owned) return zest_error_memory(error, "the values of a sweep", sizeof *plan->owned);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < grid->count && !status; i++) {
        block b = {.plan = plan, .error = error};
        status = find_axes(&b, &grid->blocks[i]);
        if (!status) status = combine(&b);
        if (!status) status = find_compared(plan, grid->blocks[i].text[ZEST_OPTION_COMPARE], error);
    }
    if (!status) find_varying(plan);
    if (!status) find_by_task(plan);
    if (!status) status = name_runs(plan, error);
    if (status) zest_sweep_plan_free(plan);
    return status;
}

void zest_sweep_plan_free(zest_sweep_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        free(plan->runs[i].name);
        free(plan->runs[i].message);
        free(plan->runs[i].right);
    }
    for (size_t i = 0; i < plan->owned_count; i++) zest_sweep_values_free(&plan->owned[i]);
    free(plan->runs);
    free(plan->keys);
    free(plan->owned);
    *plan = (zest_sweep_plan){0};
}
