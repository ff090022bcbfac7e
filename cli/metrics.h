/* Metrics for people and scripts. */
#ifndef ZEST_CLI_METRICS_H
#define ZEST_CLI_METRICS_H

#include <jansson.h>
#include <stdio.h>

#include "data/metric.h"

/* "test  accuracy 0.8257 (0.7991 to 0.8494)  loss 0.4012  n = 872"; nothing when there are no examples. */
void zest_metrics_print(const char *part, const char *metric, const zest_metrics *m, FILE *out);
/* "dev loss 0.4012  accuracy 0.8257" */
void zest_metrics_print_short(const zest_metrics *m, FILE *out);
/* {"n":872,"loss":..,"accuracy":..}: what was computed; null when there were no examples. */
json_t *zest_metrics_json(const zest_metrics *m);

#endif
