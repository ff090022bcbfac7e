/* What the parts of zest toy share. */
#ifndef ZEST_CLI_TOY_H
#define ZEST_CLI_TOY_H

#include "cli/command.h"
#include "lab/plot/plot.h"
#include "lab/toys/toy.h"

/* The preset, overridden by given options. */
zest_status zest_toy_settings_of(const zest_options *options, zest_toy_kind kind, int clean,
                                 zest_toy_settings *settings, zest_error *error);

void zest_toy_mean_and_sd(const double *values, size_t count, double *mean, double *sd);
/* "GD", "MeZO", "ZEST-N", "ZEST-BC" */
const char *zest_toy_title(zest_toy_method method);
/* Prints a number, or a dash for NaN. */
void zest_toy_print_number(const char *before, int width, int decimals, double number);
/* Colour, dash and mark of a method in figures. */
zest_plot_style zest_toy_style(zest_toy_method method);

/* zest toy valley (toy_valley.c). */
int zest_toy_valley(const zest_options *options);

#endif
