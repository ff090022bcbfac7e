#include "cli/metrics.h"

#include <math.h>
#include <string.h>

#include "cli/output.h"

typedef struct {
    const char *name;
    double value;
} named;

enum { NAMED = 5 };

static void name_all(const zest_metrics *m, named out[NAMED]) {
    out[0] = (named){"accuracy", m->accuracy};
    out[1] = (named){"f1", m->f1};
    out[2] = (named){"em", m->em};
    out[3] = (named){"loss", m->loss};
    /* of plain text, which has a loss over its tokens and nothing else */
    out[4] = (named){"perplexity", isnan(m->accuracy) && isnan(m->f1) && isnan(m->em) ? exp(m->loss) : NAN};
}

void zest_metrics_print(const char *part, const char *metric, const zest_metrics *m, FILE *out) {
    named all[NAMED];
    if (!m->n) return;
    name_all(m, all);
    fprintf(out, "%-5s %s %.4f", part, metric, m->value);
    if (isfinite(m->low)) fprintf(out, " (%.4f to %.4f)", m->low, m->high);
    for (size_t i = 0; i < NAMED; i++)
        if (isfinite(all[i].value) && strcmp(all[i].name, metric))
            fprintf(out, "  %s %.4f", all[i].name, all[i].value);
    fprintf(out, "  n = %zu\n", m->n);
}

void zest_metrics_print_short(const zest_metrics *m, FILE *out) {
    named all[NAMED];
    name_all(m, all);
    fprintf(out, "dev");
    for (size_t i = 0; i < NAMED; i++)
        if (isfinite(all[i].value)) fprintf(out, "  %s %.4f", all[i].name, all[i].value);
}

json_t *zest_metrics_json(const zest_metrics *m) {
    named all[NAMED];
    if (!m->n) return json_null();
    json_t *object = json_pack("{s:I}", "n", (json_int_t)m->n);
    name_all(m, all);
    for (size_t i = 0; i < NAMED; i++)
        if (!isnan(all[i].value)) zest_output_set(&object, all[i].name, zest_output_real(all[i].value));
    zest_output_set(&object, "low", zest_output_real(m->low));
    zest_output_set(&object, "high", zest_output_real(m->high));
    return object;
}
