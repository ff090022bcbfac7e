/* What eval and predict look at: a run at one of its steps, or a model. */
#ifndef ZEST_CLI_SUBJECT_H
#define ZEST_CLI_SUBJECT_H

#include "run/folder.h"
#include "run/load.h"

typedef struct {
    zest_options options; /* those of the run, and what was given on top */
    zest_loaded loaded;
    int is_run;
    uint64_t step;      /* of a run */
    zest_inputs inputs; /* what the run was made from: to be set as `recorded` of the data that are loaded */
} zest_subject;

/* Close it whatever this says. */
zest_status zest_subject_open(zest_subject *subject, const char *path, const zest_options *given,
                              zest_error *error);
void zest_subject_close(zest_subject *subject);

#endif
