/* From losses to coefficients, without a context: what the tuner and replay call. */
#ifndef ZEST_CORE_TILT_H
#define ZEST_CORE_TILT_H

#include "base/error.h"

/* Is this a tilt that can be computed? Says what is wrong with it otherwise. */
zest_status zest_tilt_check(const zest_tilt_options *options, zest_error *error);

/* zest_tilt on checked options. The coefficients are a function of IEEE operations alone (see
 * base/exponential.h). */
void zest_tilt_compute(const zest_tilt_options *options, const double *losses, double *coefficients,
                       zest_tilt_report *report);

#endif
