#include "core/schedule.h"

#include <math.h>

enum { CONSTANT, LINEAR, COSINE }; /* as the option table lists them */

double zest_schedule_lr(const zest_options *options, uint64_t index) {
    double lr = zest_options_number(options, ZEST_OPTION_LR),
           end = zest_options_number(options, ZEST_OPTION_FINAL_LR);
    uint64_t warmup = zest_options_whole(options, ZEST_OPTION_WARMUP);
    uint64_t steps = zest_options_whole(options, ZEST_OPTION_STEPS);
    uint64_t kind = zest_options_whole(options, ZEST_OPTION_SCHEDULE);
    if (index < warmup) return lr * ((double)(index + 1) / (double)warmup);
    if (kind == CONSTANT || steps <= warmup) return lr;
    double p = fmin(1, (double)(index - warmup) / (double)(steps - warmup));
    if (kind == LINEAR) return lr * (1 - (1 - end) * p);
    return lr * (end + (1 - end) * 0.5 * (1 + cos(3.14159265358979323846 * p)));
}
