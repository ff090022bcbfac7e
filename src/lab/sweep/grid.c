/* The grid of a sweep: lists of values per option, in blocks; and the grids of the paper. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "lab/sweep/sweep.h"
#include "task/task.h"

void zest_sweep_grid_free(zest_sweep_grid *grid) {
    for (size_t b = 0; b < grid->count; b++)
        for (int id = 0; id < ZEST_OPTION_COUNT; id++) free(grid->blocks[b].text[id]);
    free(grid->blocks);
    *grid = (zest_sweep_grid){0};
}

/* ---- Lists of values ----
 *
 * "1e-5, 2e-5, first: 1e-3, TREC: 5e-5". A label selects the runs that the following values are for. */

void zest_sweep_values_free(zest_sweep_values *values) {
    for (size_t i = 0; i < values->count; i++) free(values->items[i]), free(values->labels[i]);
    free(values->items);
    free(values->labels);
    *values = (zest_sweep_values){0};
}

/* ---- Splitting ---- */

static char separator(zest_option_id id, const char *text) {
    int has_commas = id == ZEST_OPTION_TRAIN_ONLY || id == ZEST_OPTION_FREEZE || id == ZEST_OPTION_SCALES ||
                     zest_option_row_at(id)->kind == ZEST_KIND_LIST;
    return has_commas || strchr(text, ';') ? ';' : ',';
}

/* A copy without surrounding white space. */
static char *trimmed(const char *begin, const char *end) {
    while (begin < end && isspace((unsigned char)*begin)) begin++;
    while (end > begin && isspace((unsigned char)end[-1])) end--;
    return strndup(begin, (size_t)(end - begin));
}

static zest_status empty_value(zest_option_id id, const char *text, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "option %s: '%s' contains an empty value",
                          zest_option_row_at(id)->name, text);
}

static int is_method_label(const char *label) {
    zest_options scratch;
    zest_options_init(&scratch);
    int known = !strcmp(label, "first") || !strcmp(label, "zeroth") ||
                !zest_options_set_id(&scratch, ZEST_OPTION_METHOD, label, NULL);
    zest_options_free(&scratch);
    return known;
}

/* The label of an item, to be freed; NULL: none. In lists of texts, which may contain colons, only methods
 * are labels. */
static char *label_of(zest_option_id id, const char *item) {
    const char *colon = strchr(item, ':');
    zest_option_kind kind = zest_option_row_at(id)->kind;
    if (!colon || id == ZEST_OPTION_METHOD || id == ZEST_OPTION_TASK) return NULL;
    char *label = trimmed(item, colon);
    int plain = kind != ZEST_KIND_TEXT && kind != ZEST_KIND_LIST;
    if (label && *label && (plain || is_method_label(label))) return label;
    free(label);
    return NULL;
}

/* Adds the item between two positions. An item without a label has that of the one before. */
static zest_status add_item(zest_option_id id, zest_sweep_values *values, const char *begin, const char *end,
                            zest_error *error) {
    char *item = trimmed(begin, end), *label = item ? label_of(id, item) : NULL;
    const char *inherited = values->count ? values->labels[values->count - 1] : NULL;
    if (item && label) {
        char *rest = trimmed(strchr(item, ':') + 1, item + strlen(item));
        free(item);
        item = rest;
    } else if (item && inherited) {
        label = strdup(inherited);
        if (!label) free(item), item = NULL;
    }
    if (item && *item) {
        values->labels[values->count] = label;
        values->items[values->count++] = item;
        return ZEST_OK;
    }
    zest_status status = item ? ZEST_ERROR_ARGUMENT : zest_error_memory(error, "a list of values", 0);
    free(item);
    free(label);
    return status;
}

zest_status zest_sweep_split(zest_option_id id, const char *text, zest_sweep_values *values,
                             zest_error *error) {
    char between = separator(id, text);
    size_t buffer = 1;
    for (const char *c = text; *c; c++) buffer += *c == between;
    *values = (zest_sweep_values){.items = calloc(buffer, sizeof *values->items),
                                  .labels = calloc(buffer, sizeof *values->labels)};
    zest_status status = values->items && values->labels
                             ? ZEST_OK
                             : zest_error_memory(error, "a list of values", buffer * sizeof *values->items);
    for (const char *at = text; at && !status;) {
        const char *end = strchr(at, between), *next = end ? end + 1 : NULL;
        status = add_item(id, values, at, end ? end : at + strlen(at), error);
        if (status == ZEST_ERROR_ARGUMENT) { /* a trailing separator is ignored */
            int last = !next && values->count && !at[strspn(at, " \t\r")];
            status = last ? ZEST_OK : empty_value(id, text, error);
        }
        at = next;
    }
    if (status) zest_sweep_values_free(values);
    return status;
}

/* ---- Joining ---- */

/* The inverse. */
static void join_values(zest_option_id id, const zest_sweep_values *values, zest_buffer *out) {
    const char *between = separator(id, "") == ';' ? ";" : ",", *label = NULL;
    for (size_t i = 0; i < values->count; i++)
        if (strpbrk(values->items[i], ",;")) between = ";";
    for (size_t i = 0; i < values->count; i++) {
        const char *own = values->labels[i];
        if (own && (!label || strcmp(own, label))) zest_buffer_format(out, "%s:", own);
        label = own;
        zest_buffer_text(out, values->items[i]);
        if (i + 1 < values->count || *between == ';') zest_buffer_text(out, between);
    }
}

/* ---- Matching values with runs ---- */

/* 0: not for this run. The most specific match counts: a method, its order, a task, any run. */
static int rank(const char *label, const zest_sweep_run *run) {
    const char *task = run->value[ZEST_OPTION_TASK];
    char buffer[128];
    if (!label) return 1;
    if (!strcmp(label, zest_sweep_method(run))) return 4;
    if (!strcmp(label, zest_sweep_method_is_first_order(zest_sweep_method(run)) ? "first" : "zeroth"))
        return 3;
    return task && !strcasecmp(label, zest_sweep_task_name(task, buffer, sizeof buffer)) ? 2 : 0;
}

const char *zest_sweep_value_for(const zest_sweep_values *values, size_t at, const zest_sweep_run *run,
                                 int *counts) {
    int best = 0, specific = rank(values->labels[at], run);
    for (size_t i = 0; i < values->count; i++) {
        int other = rank(values->labels[i], run);
        if (other > best) best = other;
    }
    *counts = best ? specific == best : at == 0; /* no value for it: counts once, without a value */
    return best ? values->items[at] : NULL;
}

zest_status zest_sweep_check_labels(zest_option_id id, const zest_sweep_values *values,
                                    const zest_sweep_values *tasks, zest_error *error) {
    for (size_t i = 0; i < values->count; i++) {
        const char *label = values->labels[i];
        zest_task task;
        char buffer[128];
        int known = !label || is_method_label(label);
        for (size_t t = 0; tasks && t < tasks->count && !known; t++)
            known = !strcasecmp(label, zest_sweep_task_name(tasks->items[t], buffer, sizeof buffer));
        if (!known && !zest_task_is_file(label) && !zest_task_open(label, &task, NULL)) {
            known = 1;
            zest_task_free(&task);
        }
        if (!known)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "option %s: '%s' before the colon is neither a method (or first, zeroth) "
                                  "nor a task",
                                  zest_option_row_at(id)->name, label);
    }
    return ZEST_OK;
}

/* ---- Parsing ---- */

static zest_status put(zest_sweep_block *block, zest_option_id id, const char *text, zest_error *error) {
    char *copy = strdup(text);
    if (!copy) return zest_error_memory(error, "a grid", strlen(text));
    free(block->text[id]);
    block->text[id] = copy;
    return ZEST_OK;
}

/* Appends a block that inherits everything from `from` (NULL: nothing). */
static zest_status add_block(zest_sweep_grid *grid, const zest_sweep_block *from, zest_error *error) {
    zest_sweep_block *blocks = realloc(grid->blocks, (grid->count + 1) * sizeof *blocks);
    if (!blocks) return zest_error_memory(error, "a grid", sizeof *blocks);
    grid->blocks = blocks;
    zest_sweep_block *block = &blocks[grid->count++];
    *block = (zest_sweep_block){{0}};
    zest_status status = ZEST_OK;
    for (int id = 0; from && id < ZEST_OPTION_COUNT && !status; id++)
        if (from->text[id]) status = put(block, (zest_option_id)id, from->text[id], error);
    return status;
}

/* Whether a grid may set the option: those in which runs may differ, and those that the sweep itself needs
 * when it is resumed. */
static int is_selected(zest_option_id id) {
    return zest_option_row_at(id)->sweep != ZEST_SWEEP_NEVER || id == ZEST_OPTION_COMPARE;
}

static zest_option_id find_selected(const char *name) {
    zest_option_id id = zest_option_find(name, ZEST_FOR_SWEEP);
    return id == ZEST_OPTION_COMPARE ? id : zest_option_find(name, ZEST_FOR_TRAIN);
}

static zest_status read_line(zest_sweep_block *block, char *line, zest_error *error) {
    char *equals = strchr(line, '=');
    if (!equals)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "expected name = value, value, got '%.200s'", line);
    char *name = trimmed(line, equals), *text = trimmed(equals + 1, line + strlen(line));
    zest_status status = ZEST_OK;
    if (!name || !text) {
        status = zest_error_memory(error, "a grid", strlen(line));
    } else {
        zest_option_id id = find_selected(name);
        char suggestion[ZEST_OPTION_SUGGESTION_SIZE];
        if (id == ZEST_OPTION_COUNT)
            status = zest_error_set(error, ZEST_ERROR_ARGUMENT, "unknown option '%.100s'%s", name,
                                    zest_option_suggest(name, ZEST_FOR_TRAIN, 1, suggestion));
        else if (!is_selected(id))
            status =
                zest_error_set(error, ZEST_ERROR_ARGUMENT,
                               "%s is not an option of a run in a sweep; set it on the command line", name);
        else
            status = put(block, id, text, error);
    }
    free(name);
    free(text);
    return status;
}

zest_status zest_sweep_grid_read(zest_sweep_grid *grid, const char *text, const char *source,
                                 zest_error *error) {
    zest_sweep_grid common = {0};
    zest_error inner = {0};
    char *copy = strdup(text), *next = copy;
    *grid = (zest_sweep_grid){0};
    if (!copy) return zest_error_memory(error, source, strlen(text));
    zest_status status = add_block(&common, NULL, &inner);
    int number = 0;
    while (next && !status) {
        char *line = strsep(&next, "\n");
        number++;
        while (isspace((unsigned char)*line)) line++;
        if (*line == '[')
            status = add_block(grid, common.blocks, &inner);
        else if (*line && *line != '#')
            status = read_line(grid->count ? &grid->blocks[grid->count - 1] : common.blocks, line, &inner);
    }
    if (!status && !grid->count) status = add_block(grid, common.blocks, &inner);
    zest_sweep_grid_free(&common);
    free(copy);
    if (!status) return ZEST_OK;
    zest_sweep_grid_free(grid);
    return zest_error_set(error, status, "%s, line %d: %.800s", source, number, inner.message);
}

void zest_sweep_grid_print(const zest_sweep_grid *grid, zest_buffer *out) {
    for (size_t b = 0; b < grid->count; b++) {
        if (grid->count > 1) zest_buffer_format(out, "[%zu]\n", b + 1);
        for (int id = 0; id < ZEST_OPTION_COUNT; id++)
            if (grid->blocks[b].text[id])
                zest_buffer_format(out, "%s = %s\n", zest_option_row_at((zest_option_id)id)->name,
                                   grid->blocks[b].text[id]);
    }
}

/* ---- Overrides ---- */

/* Keeps those values of a block that are selected; *left: whether any remain. */
static zest_status select_methods(zest_sweep_block *block, const char *selected, int *left,
                                  zest_error *error) {
    zest_sweep_values have = {0}, names = {0};
    zest_buffer out = {0};
    zest_status status = zest_sweep_split(ZEST_OPTION_METHOD, block->text[ZEST_OPTION_METHOD], &have, error);
    if (!status) status = zest_sweep_split(ZEST_OPTION_METHOD, selected, &names, error);
    for (size_t i = 0; i < have.count; i++)
        for (size_t j = 0; j < names.count; j++)
            if (!strcmp(have.items[i], names.items[j]))
                zest_buffer_format(&out, "%s%s", out.size ? "," : "", have.items[i]);
    *left = out.size > 0;
    if (!status && out.failed) status = zest_error_memory(error, "a grid", out.size);
    if (!status && *left) status = put(block, ZEST_OPTION_METHOD, out.data, error);
    zest_sweep_values_free(&have);
    zest_sweep_values_free(&names);
    zest_buffer_free(&out);
    return status;
}

static void remove_block(zest_sweep_grid *grid, size_t at) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) free(grid->blocks[at].text[id]);
    memmove(&grid->blocks[at], &grid->blocks[at + 1], (grid->count - at - 1) * sizeof *grid->blocks);
    grid->count--;
}

static zest_status override_methods(zest_sweep_grid *grid, const char *selected, zest_error *error) {
    zest_status status = ZEST_OK;
    /* the block has no methods */
    if (grid->count == 1) return put(grid->blocks, ZEST_OPTION_METHOD, selected, error);
    for (size_t b = 0; b < grid->count && !status; b++) {
        int left = 1;
        if (grid->blocks[b].text[ZEST_OPTION_METHOD])
            status = select_methods(&grid->blocks[b], selected, &left, error);
        else
            status = put(&grid->blocks[b], ZEST_OPTION_METHOD, selected, error);
        if (!status && !left) remove_block(grid, b--);
    }
    if (!status && !grid->count)
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT, "the grid does not have any of the methods %s",
                                selected);
    return status;
}

/* The length of runs is set by --steps or --epochs: an override of one replaces both. */
static void drop_other_length(zest_sweep_grid *grid, const zest_options *given) {
    int steps = zest_options_given(given, ZEST_OPTION_STEPS),
        epochs = zest_options_given(given, ZEST_OPTION_EPOCHS);
    for (size_t b = 0; b < grid->count && steps != epochs; b++) {
        char **other = &grid->blocks[b].text[steps ? ZEST_OPTION_EPOCHS : ZEST_OPTION_STEPS];
        free(*other);
        *other = NULL;
    }
}

zest_status zest_sweep_grid_override(zest_sweep_grid *grid, const zest_options *given, zest_error *error) {
    zest_status status = grid->count ? ZEST_OK : add_block(grid, NULL, error);
    for (int i = 0; i < ZEST_OPTION_COUNT && !status; i++) {
        zest_option_id id = (zest_option_id)i;
        if (!is_selected(id) || !zest_options_given(given, id)) continue;
        const char *text = zest_options_text(given, id);
        if (id == ZEST_OPTION_METHOD) {
            status = override_methods(grid, text, error);
            continue;
        }
        for (size_t b = 0; b < grid->count && !status; b++) status = put(&grid->blocks[b], id, text, error);
    }
    if (!status) drop_other_length(grid, given);
    return status;
}

/* Replaces every value of an option in a block; change returns a string to be freed, or NULL when out of
 * memory. */
static zest_status map(zest_sweep_block *block, zest_option_id id, char *(*change)(const char *, void *),
                       void *user, zest_error *error) {
    zest_sweep_values values;
    zest_buffer out = {0};
    zest_status status = zest_sweep_split(id, block->text[id], &values, error);
    for (size_t i = 0; i < values.count && !status; i++) {
        char *text = change(values.items[i], user);
        if (!text) status = zest_error_memory(error, "a grid", 0);
        if (text) free(values.items[i]), values.items[i] = text;
    }
    join_values(id, &values, &out);
    if (!status && out.failed) status = zest_error_memory(error, "a grid", out.size);
    if (!status) status = put(block, id, out.data, error);
    zest_sweep_values_free(&values);
    zest_buffer_free(&out);
    return status;
}

static char *times(const char *text, void *user) {
    zest_options scratch;
    char buffer[32];
    zest_options_init(&scratch);
    int bad = zest_options_set_id(&scratch, ZEST_OPTION_STEPS, text, NULL) != ZEST_OK;
    double steps = round(*(double *)user * (double)zest_options_whole(&scratch, ZEST_OPTION_STEPS));
    zest_options_free(&scratch);
    snprintf(buffer, sizeof buffer, "%.0f", fmax(1, fmin(steps, 9e15)));
    return strdup(bad ? text : buffer); /* an invalid value is reported when the plan is made */
}

zest_status zest_sweep_grid_scale(zest_sweep_grid *grid, double factor, zest_error *error) {
    static const zest_option_id ids[] = {ZEST_OPTION_STEPS, ZEST_OPTION_EPOCHS};
    zest_status status = ZEST_OK;
    for (size_t b = 0; b < grid->count && !status && factor != 1; b++) {
        zest_sweep_block *block = &grid->blocks[b];
        if (!block->text[ZEST_OPTION_STEPS] && !block->text[ZEST_OPTION_EPOCHS])
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "--scale multiplies --steps or --epochs: set one of them");
        for (size_t i = 0; i < 2 && !status; i++)
            if (block->text[ids[i]]) status = map(block, ids[i], times, &factor, error);
    }
    return status;
}

static char *absolute(const char *text, void *user) {
    int task = *(zest_option_id *)user == ZEST_OPTION_TASK;
    char *absolute_path = task && !zest_task_is_file(text) ? NULL : realpath(text, NULL);
    return absolute_path ? absolute_path : strdup(text); /* a missing file is reported by the run */
}

zest_status zest_sweep_grid_absolute(zest_sweep_grid *grid, zest_error *error) {
    zest_option_id ids[] = {ZEST_OPTION_MODEL, ZEST_OPTION_DATA, ZEST_OPTION_TASK};
    zest_status status = ZEST_OK;
    for (size_t b = 0; b < grid->count && !status; b++)
        for (size_t i = 0; i < 3 && !status; i++)
            if (grid->blocks[b].text[ids[i]])
                status = map(&grid->blocks[b], ids[i], absolute, &ids[i], error);
    return status;
}

/* ---- The grids of the paper's tables and of its figure 3 (section 5 and appendix C) ----
 *
 * Texts in the form of a grid file. The paper has one seed, 42 here: its numbers are fractions of one test
 * set each.
 *
 * The paper gives no schedule, clipping or dropout for the methods with gradients, but says that its code is
 * adopted from MeZO's. That trains first-order methods with the defaults of Hugging Face's Trainer, which decay
 * lr linearly to 0 without a warm-up and clip gradients to norm 1, and with the dropout of the models'
 * configurations, 0.1. Zeroth-order methods have a constant lr and no dropout there. */

/* SAM variants use k neighbours on the sphere of a radius; ZEST and TSAM a t. */
#define METHODS                                                                                             \
    "method = sgd, esam, sam, tsam, mezo, zest-n, zest-bc\nt = 1, 5, 20\nk = 5\nrho = 0.002\nseed = 42\n"   \
    "radius = 0.003, 0.005, 0.01, 0.03, 0.05\nschedule = first: linear\nclip = first: 1\ndropout = first: " \
    "0.1\n"
/* RoBERTa-base, 512 shots per class, at most 700 epochs, or 200 with gradients */
#define MASKED                                                                                        \
    METHODS "lr = 2e-5, 1e-5, 5e-6, first: 2e-3, 1e-3, 5e-4, 2e-4, 1e-4\nbatch = 128, first: 8, 32\n" \
            "shots = 512\nepochs = 700, first: 200\n"
#define MASKED_TASKS "task = SST-2, sst-5, QQP, MRPC, TREC, MNLI, SNLI, RTE\n"
/* OPT-1.3B, 1000 rows, at most 20000 steps, or 3750 with gradients */
#define CAUSAL                                                                                              \
    METHODS "lr = 5e-6, 2e-6, 1e-6, first: 5e-2, 1e-2, 1e-3, sgd: 5e-5, 1e-5, 5e-6\nbatch = 16, first: 8\n" \
            "train-size = 1000\nsteps = 20000, first: 3750\neval-every = 500\n"

/* ---- Rules for a step, at equal numbers of forward tokens: k, batch and steps are the same for all, so that 2k batch
 * steps sentences pass. Three rates each, chosen on dev, a factor of two apart: divided by the sum of the weights for
 * momentum, and larger where an estimate has less noise. ---- */

#define FORWARD_BUDGET                                                                                     \
    "task = SST-2, TREC, MRPC, sst-5, RTE\nlabel-noise = 0, 0.3\nseed = 42, 13, 21\nshots = 512\nbatch = " \
    "128\n"                                                                                                \
    "k = 5\nrho = 0.002\nsteps = 1500\neval-every = 100\nmethod = mezo\nlr = 5e-5, 1e-4, 2e-4\n"           \
    "compare = momentum,schedule,step-length,t\n"                                                          \
    "[mezo]\nmethod = mezo\n"
#define DEVICE_RULES                                                          \
    "[cosine]\nschedule = cosine\n"                                           \
    "[frozen tables]\nfreeze = *embeddings*\n"                                \
    "[momentum]\nmomentum = 0.9\nlr = 8e-6, 1.6e-5, 3.2e-5\n"                 \
    "[tilt from the losses]\nmethod = zest-n\nt = auto\nstep-length = mezo\n" \
    "[vectors alone]\ntrain-only = *bias,*LayerNorm*\nrho = 0.03\nlr = 1.5e-3, 3e-3, 6e-3\n"
#define CPU_RULES                                                                                    \
    "[low rank]\ndirections = lowrank:1\n"                                                           \
    "[a direction for every example]\ndirections = example:1\nlr = 1e-4, 2e-4, 4e-4\n"               \
    "[and frozen tables]\ndirections = example:1\nfreeze = *embeddings*\nlr = 1e-4, 2e-4, 4e-4\n"    \
    "[tilt within examples]\nmethod = zest-n\nt = 5\ntilt-scope = example\ndirections = example:1\n" \
    "step-length = mezo\nlr = 1e-4, 2e-4, 4e-4\n"                                                    \
    "[scales]\nscales = *bias=8,*LayerNorm*=8\n"

static const struct {
    const char *name, *text;
} presets[] = {
    {"forward-budget", FORWARD_BUDGET DEVICE_RULES},
    {"forward-budget-cpu", FORWARD_BUDGET CPU_RULES},
    {"paper-table-2", MASKED_TASKS MASKED "label-noise = 0\n"},
    {"paper-table-3", MASKED_TASKS MASKED "label-noise = 0.3\n"},
    {"paper-table-4", "task = COPA, ReCoRD, SQuAD, DROP\n" CAUSAL},
    {"paper-figure-3", MASKED_TASKS MASKED "label-noise = 0, 0.3\nmethod = mezo, zest-n\n"},
};

zest_status zest_sweep_grid_preset(zest_sweep_grid *grid, const char *name, zest_error *error) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (!strcmp(presets[i].name, name)) return zest_sweep_grid_read(grid, presets[i].text, name, error);
    *grid = (zest_sweep_grid){0};
    return zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "unknown preset '%s'; the presets are paper-table-2, paper-table-3, paper-table-4, paper-figure-3, "
        "forward-budget and forward-budget-cpu",
        name);
}
