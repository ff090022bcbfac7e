/* One step after its losses are known: tilt, then move. The tuner uses it for new steps and replay for old
 * ones, so the two cannot differ. */
#ifndef ZEST_CORE_STEPPER_H
#define ZEST_CORE_STEPPER_H

#include "backend/ops.h"
#include "base/option.h"
#include "core/tilt.h"
#include "core/update.h"
#include "params/params.h"

typedef struct {
    const zest_ops *ops;
    int threads;
    zest_tilt_options tilt;
    zest_distribution distribution;
    uint64_t seed;
    double decay;
    zest_direction *directions; /* k, then the ball pairs' */
    double *coefficients;       /* k */
    uint64_t rounding;          /* seed of the step's stochastic rounding */
    int nearest;                /* no such rounding */
} zest_stepper;

/* format: ZEST_FORMAT for a new run, that of the journal for one that is on record. */
zest_status zest_stepper_init(zest_stepper *stepper, const zest_ops *ops, const zest_options *options,
                              int format, zest_error *error);
void zest_stepper_free(zest_stepper *stepper);

/* The directions of step `index` (from 0). Ball pairs are only wanted for evaluation. */
zest_status zest_stepper_aim(zest_stepper *stepper, uint64_t index, uint64_t dimension, int with_ball,
                             zest_error *error);
/* The coefficients that the losses give. */
void zest_stepper_tilt(zest_stepper *stepper, const double *losses, zest_tilt_report *report);
/* The update that the coefficients ask for, to be applied wherever the parameters are. 0: none, since every
 * pair was dropped. */
int zest_stepper_update(const zest_stepper *stepper, double lr, const zest_tilt_report *report,
                        zest_update *update);
/* Moves x along the directions. When every pair was dropped, x stays as it is. */
void zest_stepper_move(const zest_stepper *stepper, const zest_params *params, double lr,
                       const zest_tilt_report *report);
/* A step that is on record, taken again. */
zest_status zest_stepper_redo(zest_stepper *stepper, const zest_record *record, const zest_params *params,
                              zest_tilt_report *report, zest_error *error);

#endif
