#include "lab/stats/stats.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"

#define MINUS "\xe2\x88\x92"

/* ---- Verdicts ---- */

int zest_conclusion_lower_is_better(const char *metric) { return !strcmp(metric, "loss"); }

zest_paired_verdict zest_conclusion_judge(const zest_conclusion *c) {
    return zest_paired_judge(&c->difference, zest_conclusion_lower_is_better(c->metric));
}

int zest_conclusion_compares(const zest_conclusion *c) {
    return *c->base && c->difference.n && !isnan(c->value.mean);
}

const char *zest_conclusion_verdict(const zest_conclusion *c) {
    static const char *const texts[] = {"too few seeds to tell", "no difference shown", "better", "worse"};
    return zest_conclusion_compares(c) ? texts[zest_conclusion_judge(c)] : "";
}

/* ---- Numbers ---- */

double zest_conclusion_per_cent(double share) { return round(1000 * share) / 10; }

static int is_loss(const zest_conclusion *c) { return !strcmp(c->metric, "loss"); }

/* One decimal of per cents, four of a loss. Never "−0.0". */
static void add_number(zest_buffer *out, const zest_conclusion *c, double value) {
    char text[64];
    zest_number_format(text, sizeof text, is_loss(c) ? "%.4f" : "%.1f",
                       fabs(is_loss(c) ? value : zest_conclusion_per_cent(value)));
    int const zero = strspn(text, "0.") == strlen(text);
    zest_buffer_format(out, "%s%s", value < 0 && !zero ? MINUS : "", text);
}

static void add_interval(zest_buffer *out, const zest_conclusion *c, const zest_sample *sample) {
    zest_buffer_text(out, "95 % interval ");
    add_number(out, c, sample->low);
    zest_buffer_text(out, " to ");
    add_number(out, c, sample->high);
    zest_buffer_text(out, ", ");
}

static void add_seeds(zest_buffer *out, size_t n) {
    zest_buffer_format(out, "%zu seed%s", n, n == 1 ? "" : "s");
}

/* ---- One sentence ---- */

/* "84.1 % accuracy on test of SST-2, clean labels" */
static void add_value(zest_buffer *out, const zest_conclusion *c) {
    if (is_loss(c)) zest_buffer_text(out, "a loss of ");
    add_number(out, c, c->value.mean);
    if (!is_loss(c)) zest_buffer_format(out, " %% %s", c->metric);
    zest_buffer_format(out, " on %s", c->part);
    if (*c->where) zest_buffer_format(out, " (%s)", c->where);
}

/* ", 0.3 points above MeZO": as large as it is shown. */
static void add_difference(zest_buffer *out, const zest_conclusion *c) {
    zest_buffer amount = {0};
    add_number(&amount, c, fabs(c->difference.mean));
    const char *text = amount.data ? amount.data : "";
    if (strspn(text, "0.") == strlen(text))
        zest_buffer_format(out, ", the same as %s", c->base);
    else
        zest_buffer_format(out, ", %s%s %s %s", text, is_loss(c) ? "" : " points",
                           c->difference.mean > 0 ? "above" : "below", c->base);
    out->failed |= amount.failed;
    zest_buffer_free(&amount);
}

static void add_verdict(zest_buffer *out, const zest_conclusion *c) {
    switch (zest_conclusion_judge(c)) {
    case ZEST_PAIRED_TOO_FEW: zest_buffer_text(out, ": too few seeds to tell."); break;
    case ZEST_PAIRED_NO_DIFFERENCE: zest_buffer_text(out, ": no difference can be shown."); break;
    case ZEST_PAIRED_BETTER: zest_buffer_format(out, ": better than %s.", c->base); break;
    case ZEST_PAIRED_WORSE: zest_buffer_format(out, ": worse than %s.", c->base); break;
    }
}

void zest_conclusion_sentence(const zest_conclusion *c, zest_buffer *out) {
    int const compared = zest_conclusion_compares(c);
    if (isnan(c->value.mean)) return;
    zest_buffer_format(out, "%s reached ", c->method);
    add_value(out, c);
    const zest_sample *sample = compared ? &c->difference : &c->value;
    if (compared) add_difference(out, c);
    zest_buffer_text(out, " (");
    if (!isnan(sample->low)) add_interval(out, c, sample);
    add_seeds(out, sample->n);
    if (compared && sample->n > 1 && isnan(sample->low))
        zest_buffer_text(out, ", all with the same difference");
    zest_buffer_text(out, ")");
    if (compared)
        add_verdict(out, c);
    else
        zest_buffer_text(out, ".");
}

/* ---- Several ---- */

typedef struct {
    size_t all, by_verdict[4];
    size_t least, most; /* seeds */
} tally;

static tally count_verdicts(const zest_conclusion *all, size_t count) {
    tally t = {.least = SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        size_t const seeds = all[i].difference.n;
        if (!zest_conclusion_compares(&all[i])) continue;
        t.all++;
        t.by_verdict[zest_conclusion_judge(&all[i])]++;
        t.least = seeds < t.least ? seeds : t.least;
        t.most = seeds > t.most ? seeds : t.most;
    }
    return t;
}

static const char *base_of(const zest_conclusion *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (*all[i].base) return all[i].base;
    return "";
}

/* "1 is better, 2 are worse and 3 show no difference": verdicts that there are. */
static void add_counts(const tally *t, zest_buffer *out) {
    static const struct {
        zest_paired_verdict verdict;
        const char *one, *many;
    } parts[] = {{ZEST_PAIRED_BETTER, "is better", "are better"},
                 {ZEST_PAIRED_WORSE, "is worse", "are worse"},
                 {ZEST_PAIRED_NO_DIFFERENCE, "shows no difference", "show no difference"},
                 {ZEST_PAIRED_TOO_FEW, "has too few seeds to tell", "have too few seeds to tell"}};
    size_t left = 0, said = 0;
    for (size_t i = 0; i < 4; i++) left += t->by_verdict[parts[i].verdict] > 0;
    for (size_t i = 0; i < 4; i++) {
        size_t const n = t->by_verdict[parts[i].verdict];
        if (!n) continue;
        zest_buffer_text(out, !said++ ? "" : left == 1 ? " and " : ", ");
        zest_buffer_format(out, "%zu %s", n, n == 1 ? parts[i].one : parts[i].many);
        left--;
    }
}

static void add_seed_range(const tally *t, zest_buffer *out) {
    if (t->least < t->most) zest_buffer_format(out, "%zu to ", t->least);
    add_seeds(out, t->most);
}

static void add_tally(const tally *t, const char *base, zest_buffer *out) {
    if (t->by_verdict[ZEST_PAIRED_TOO_FEW] == t->all) {
        zest_buffer_format(out, "%zu comparisons with %s (", t->all, base);
        add_seed_range(t, out);
        zest_buffer_text(out, "): too few seeds to tell.");
        return;
    }
    zest_buffer_format(out, "Of %zu comparisons with %s (95 %% intervals, ", t->all, base);
    add_seed_range(t, out);
    zest_buffer_text(out, ") ");
    if (t->by_verdict[ZEST_PAIRED_NO_DIFFERENCE] == t->all)
        zest_buffer_text(out, "none shows a difference");
    else
        add_counts(t, out);
    zest_buffer_text(out, ".");
}

void zest_conclusion_lead(const zest_conclusion *all, size_t count, zest_buffer *out) {
    tally const t = count_verdicts(all, count);
    if (t.all < 2) {
        for (size_t i = 0; i < count; i++)
            if (!t.all || zest_conclusion_compares(&all[i])) {
                zest_conclusion_sentence(&all[i], out);
                return;
            }
    } else {
        add_tally(&t, base_of(all, count), out);
    }
}

json_t *zest_conclusion_json(const zest_conclusion *all, size_t count) {
    json_t *sentences = json_array();
    for (size_t i = 0; i <= (count > 1 ? count : 0); i++) {
        zest_buffer text = {0};
        if (!i)
            zest_conclusion_lead(all, count, &text);
        else
            zest_conclusion_sentence(&all[i - 1], &text);
        json_array_append_new(sentences, json_string(text.data ? text.data : ""));
        zest_buffer_free(&text);
    }
    return sentences;
}
