/* Lists of values: "1e-5, 2e-5, first: 1e-3, TREC: 5e-5". A label says whom the values behind it are for. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "data/task.h"
#include "run/sweep.h"

void zest_sweep_values_free(zest_sweep_values *values) {
    for (size_t i = 0; i < values->count; i++) free(values->items[i]), free(values->labels[i]);
    free(values->items);
    free(values->labels);
    *values = (zest_sweep_values){0};
}

/* ---- Taking apart ---- */

static char separator(zest_option_id id, const char *text) {
    int own_commas = id == ZEST_OPTION_TRAIN_ONLY || id == ZEST_OPTION_FREEZE ||
                     zest_option_row_at(id)->kind == ZEST_KIND_LIST;
    return own_commas || strchr(text, ';') ? ';' : ',';
}

char *zest_sweep_trimmed(const char *begin, const char *end) {
    while (begin < end && isspace((unsigned char)*begin)) begin++;
    while (end > begin && isspace((unsigned char)end[-1])) end--;
    return strndup(begin, (size_t)(end - begin));
}

static zest_status empty_value(zest_option_id id, const char *text, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "option %s: '%s' has an empty value in it",
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

/* The label that an item begins with, to be freed; NULL: none. Texts may hold a colon of their own: there
 * only methods are labels. */
static char *label_of(zest_option_id id, const char *item) {
    const char *colon = strchr(item, ':');
    zest_option_kind kind = zest_option_row_at(id)->kind;
    if (!colon || id == ZEST_OPTION_METHOD || id == ZEST_OPTION_TASK) return NULL;
    char *label = zest_sweep_trimmed(item, colon);
    int plain = kind != ZEST_KIND_TEXT && kind != ZEST_KIND_LIST;
    if (label && *label && (plain || is_method_label(label))) return label;
    free(label);
    return NULL;
}

/* Adds the item between two places. One without a label has that of the item before it. */
static zest_status add_item(zest_option_id id, zest_sweep_values *values, const char *begin, const char *end,
                            zest_error *error) {
    char *item = zest_sweep_trimmed(begin, end), *label = item ? label_of(id, item) : NULL;
    const char *inherited = values->count ? values->labels[values->count - 1] : NULL;
    if (item && label) {
        char *rest = zest_sweep_trimmed(strchr(item, ':') + 1, item + strlen(item));
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
    size_t room = 1;
    for (const char *c = text; *c; c++) room += *c == between;
    *values = (zest_sweep_values){.items = calloc(room, sizeof *values->items),
                                  .labels = calloc(room, sizeof *values->labels)};
    zest_status status = values->items && values->labels
                             ? ZEST_OK
                             : zest_error_memory(error, "a list of values", room * sizeof *values->items);
    for (const char *at = text; at && !status;) {
        const char *end = strchr(at, between), *next = end ? end + 1 : NULL;
        status = add_item(id, values, at, end ? end : at + strlen(at), error);
        if (status == ZEST_ERROR_ARGUMENT) { /* a separator at the end does not count */
            int last = !next && values->count && !at[strspn(at, " \t\r")];
            status = last ? ZEST_OK : empty_value(id, text, error);
        }
        at = next;
    }
    if (status) zest_sweep_values_free(values);
    return status;
}

/* ---- Putting together ---- */

void zest_sweep_join(zest_option_id id, const zest_sweep_values *values, zest_buffer *out) {
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

/* ---- Whom a value is for ---- */

/* 0: not for this run. The most special of what fits counts: a method, its order, a task, anybody. */
static int rank(const char *label, const zest_sweep_run *run) {
    const char *task = run->value[ZEST_OPTION_TASK];
    char room[128];
    if (!label) return 1;
    if (!strcmp(label, zest_sweep_method(run))) return 4;
    if (!strcmp(label, zest_sweep_first_order(zest_sweep_method(run)) ? "first" : "zeroth")) return 3;
    return task && !strcasecmp(label, zest_sweep_task_name(task, room, sizeof room)) ? 2 : 0;
}

const char *zest_sweep_value_for(const zest_sweep_values *values, size_t at, const zest_sweep_run *run,
                                 int *counts) {
    int best = 0, own = rank(values->labels[at], run);
    for (size_t i = 0; i < values->count; i++) {
        int other = rank(values->labels[i], run);
        if (other > best) best = other;
    }
    *counts = best ? own == best : at == 0; /* no value for it: once, without one */
    return best ? values->items[at] : NULL;
}

zest_status zest_sweep_check_labels(zest_option_id id, const zest_sweep_values *values,
                                    const zest_sweep_values *tasks, zest_error *error) {
    for (size_t i = 0; i < values->count; i++) {
        const char *label = values->labels[i];
        zest_task task;
        char room[128];
        int known = !label || is_method_label(label);
        for (size_t t = 0; tasks && t < tasks->count && !known; t++)
            known = !strcasecmp(label, zest_sweep_task_name(tasks->items[t], room, sizeof room));
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
