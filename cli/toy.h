/* What the command toy and its figure share. */
#ifndef ZEST_CLI_TOY_H
#define ZEST_CLI_TOY_H

#include "lab/toys/toy.h"

enum { ZEST_TOY_MINIMA = 4 };

/* Runs of one method over the seeds. */
typedef struct {
    size_t runs, points;       /* points of a path: steps + 1 */
    double *paths;             /* runs after runs of pairs */
    size_t basins[3];          /* how many ended where */
    double mean[2], sd[2];     /* of the end points; like all below, over the runs that are not lost */
    double loss, flat, tilted; /* f, F_0 and F_t at the end, means */
    double slope, slope_error; /* linear: of the route; standard error over the seeds */
    double bend, bend_error;   /* linear: y/y_0 where x is halfway */
    double gain, gain_error; /* linear: MeZO's slope minus this one, seed by seed, as a fraction of MeZO's */
} zest_toy_result;

typedef struct {
    zest_toy_settings settings;
    int clean;
    uint64_t seed, seeds;
    zest_toy_box box;   /* what the figure shows, and where minima are looked for */
    double route_floor; /* linear: where a route ends */
    zest_toy_disc disc;
    double disc_error; /* largest change of F_t at the ends when the rule has half as many points each way */
    zest_toy_result results[ZEST_TOY_METHODS];
    double minima[2][ZEST_TOY_MINIMA][3]; /* of F_0 and of F_t */
    size_t minima_count[2];
} zest_toy_study;

const char *zest_toy_title(zest_toy_method method); /* "GD", "MeZO", "ZEST-N", "ZEST-BC" */
static inline const double *zest_toy_end(const zest_toy_result *result, size_t run) {
    return result->paths + 2 * (run * result->points + result->points - 1);
}

zest_status zest_toy_draw(const zest_toy_study *study, const char *path, zest_error *error);

#endif
