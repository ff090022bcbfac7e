/* Options by name, for zest_lm_train and its like. */
#ifndef ZEST_LM_LM_OPTIONS_H
#define ZEST_LM_LM_OPTIONS_H

#include "base/option.h"
#include "optim/context.h"
#include "zest_lm.h"

struct zest_lm_options {
    zest_ctx *ctx;
    unsigned users;
    zest_options values, defaults;
};

/* A copy, with the path of a model that was pulled in the place of its name. from NULL: nothing is given. Free
 * it whatever this says. */
zest_status zest_lm_options_copy(const zest_lm_options *from, zest_options *to, zest_error *error);

#endif
