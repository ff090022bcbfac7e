/* What the files of `zest sharpness` share. */
#ifndef ZEST_CLI_SHARPNESS_H
#define ZEST_CLI_SHARPNESS_H

#include "cli/output.h"
#include "cli/progress.h"
#include "io/hub.h"
#include "lab/sharpness/sharpness.h"

/* ---- sharpness.c ---- */

/* One run or model, or a file that says what was found about one. */
typedef struct {
    zest_sharpness_found found;
    json_t *kept;                  /* what the file says; NULL: it was measured */
    char *task;                    /* owned for found */
    char repo[ZEST_HUB_REPO_SIZE]; /* what a pulled model is called */
} zest_sharpness_view;

/* What is asked for, and how far it is. */
typedef struct {
    const zest_options *given;
    const zest_sharpness_plan *plan;
    const zest_sharpness_found *first; /* that was measured, or NULL */
    zest_sharpness_cost *cost;         /* of the measurement, which is then not made; or NULL */
    zest_progress progress;
    const char *what, *name;
} zest_sharpness_look;

/* Free the view whatever this says. */
zest_status zest_sharpness_look_at(zest_sharpness_look *look, const char *path, zest_sharpness_view *view,
                                   zest_error *error);
void zest_sharpness_look_free(zest_sharpness_view *view);

/* ---- sharpness.c ---- */

/* The table for people. */
void zest_sharpness_print(const zest_sharpness_view *views, size_t count);

#endif
