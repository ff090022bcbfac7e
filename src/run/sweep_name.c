/* Names of runs, for folders: what varies, in the order of the grid.
 * "SST-2-noise0.3-zest-n-t5-lr1e-5-seed42". What is the same in all runs of a method on a task is not told,
 * though other methods have it otherwise. */
#include <stdlib.h>
#include <string.h>

#include "run/sweep.h"

enum { NAME_MOST = 120 }; /* bytes; file systems take 255 */

const char *zest_sweep_task_name(const char *task, char *room, size_t size) {
    const char *slash = strrchr(task, '/'), *from = slash ? slash + 1 : task;
    size_t length = strlen(from);
    if (length > 5 && !strcmp(from + length - 5, ".task")) length -= 5;
    if (length >= size) length = size - 1;
    memcpy(room, from, length);
    room[length] = '\0';
    return room;
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
    char room[128];
    if (!value) return;
    if (out->size) zest_buffer_text(out, "-");
    if (id == ZEST_OPTION_LABEL_NOISE)
        zest_buffer_text(out, "noise");
    else if (id != ZEST_OPTION_TASK && id != ZEST_OPTION_METHOD)
        zest_buffer_text(out, zest_option_row_at(id)->name);
    int path = id == ZEST_OPTION_TASK || id == ZEST_OPTION_MODEL || id == ZEST_OPTION_DATA;
    zest_sweep_safe(out, path ? zest_sweep_task_name(value, room, sizeof room) : value);
}

/* ---- Which options a name has ---- */

/* The runs of one method on one task. */
typedef struct {
    const zest_sweep_run *first;
    unsigned char varies[ZEST_OPTION_COUNT];
} group;

typedef struct {
    group *groups;
    size_t count, room;
    size_t *of; /* by run */
} groups;

static size_t group_of(groups *all, const zest_sweep_run *run) {
    for (size_t g = 0; g < all->count; g++)
        if (zest_sweep_same(all->groups[g].first, run, ZEST_OPTION_METHOD) &&
            zest_sweep_same(all->groups[g].first, run, ZEST_OPTION_TASK))
            return g;
    if (all->count == all->room) {
        group *more = realloc(all->groups, (2 * all->room + 8) * sizeof *more);
        if (!more) return ZEST_SWEEP_NONE;
        all->groups = more;
        all->room = 2 * all->room + 8;
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

static int is_in_name(const zest_sweep_plan *plan, const group *own, zest_option_id id) {
    switch (id) {
    case ZEST_OPTION_TASK:
    case ZEST_OPTION_LABEL_NOISE:
    case ZEST_OPTION_METHOD:
    case ZEST_OPTION_SEED: return 0; /* in front or at the end */
    case ZEST_OPTION_T: return plan->varies[id];
    default: return own->varies[id];
    }
}

static char *name_of(const zest_sweep_plan *plan, const zest_sweep_run *run, const group *own) {
    static const zest_option_id first[] = {ZEST_OPTION_TASK, ZEST_OPTION_LABEL_NOISE, ZEST_OPTION_METHOD};
    zest_buffer out = {0};
    for (size_t i = 0; i < 3; i++)
        if (plan->varies[first[i]]) add_part(&out, run, first[i]);
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (is_in_name(plan, own, (zest_option_id)id)) add_part(&out, run, (zest_option_id)id);
    if (plan->varies[ZEST_OPTION_SEED]) add_part(&out, run, ZEST_OPTION_SEED);
    const char *name = out.size ? out.data : "run";
    zest_buffer safe = {0}; /* a leading '.' hides, a leading '-' looks like an option */
    zest_buffer_format(&safe, "%s%.*s", *name == '.' || *name == '-' ? "_" : "", NAME_MOST, name);
    safe.failed |= out.failed;
    zest_buffer_free(&out);
    if (safe.failed) zest_buffer_free(&safe);
    return safe.data;
}

/* ---- Names that differ ---- */

static int compare(const void *a, const void *b) {
    const zest_sweep_run *const *x = a, *const *y = b;
    int order = strcasecmp((*x)->name, (*y)->name); /* some file systems do not tell case */
    return order ? order : (*x > *y) - (*x < *y);
}

/* Of runs with the same name all but the first get their number in the plan. */
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

zest_status zest_sweep_name_runs(zest_sweep_plan *plan, zest_error *error) {
    groups all = {0};
    zest_status status = find_groups(plan, &all, error);
    for (size_t i = 0; i < plan->count && !status; i++) {
        plan->runs[i].name = name_of(plan, &plan->runs[i], &all.groups[all.of[i]]);
        if (!plan->runs[i].name) status = zest_error_memory(error, "the name of a run", NAME_MOST);
    }
    free(all.groups);
    free(all.of);
    return status ? status : make_unique(plan, error);
}
