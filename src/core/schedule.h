/* Learning rates over a run. */
#ifndef ZEST_CORE_SCHEDULE_H
#define ZEST_CORE_SCHEDULE_H

#include "base/option.h"

/* The rate of step `index`, counted from 0. Warm-up: lr (index+1)/W for the first W steps. Then, with p going
 * from 0 to 1 over the other steps: lr; lr (1 - (1-final) p); lr (final + (1-final) (1 + cos(pi p))/2). What
 * a run used is in its journal, so nothing but a new run depends on the libm behind the cosine. */
double zest_schedule_lr(const zest_options *options, uint64_t index);

#endif
