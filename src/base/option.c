/* Options: reading the one table (option_table.h), checking and storing values, ranges in words, suggestions for
 * mistyped names. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "base/text.h"

/* ---- The table ---- */

#define NONE -HUGE_VAL, HUGE_VAL, 0, ""
#define POSITIVE 0, HUGE_VAL, 1, ""
#define AT_LEAST(low) low, HUGE_VAL, 0, ""
#define AT_LEAST_OR(low, words) low, HUGE_VAL, 0, words
#define WITHIN(low, high) low, high, 0, ""
#define CHOICES(words) 0, 0, 0, words
#define RUN(methods, changes, sweep) methods, changes, ZEST_SWEEP_##sweep
#define NO_RUN RUN(ANY, FIXED, NEVER)
enum {
    SGD = 1 << ZEST_CHOICE_SGD,
    ADAMW = 1 << ZEST_CHOICE_ADAMW,
    SAM = 1 << ZEST_CHOICE_SAM,
    ESAM = 1 << ZEST_CHOICE_ESAM,
    TSAM = 1 << ZEST_CHOICE_TSAM,
    ZEST = 1 << ZEST_CHOICE_ZEST_N | 1 << ZEST_CHOICE_ZEST_BC,
    FORWARD = ZEST_METHODS_FORWARD,
    GRADIENT = ZEST_METHODS_GRADIENT,
    ANY = FORWARD | GRADIENT,
};
enum {
    FIXED = 0,
    RUNNING = ZEST_CHANGES_RUNNING,
    RESUME = ZEST_CHANGES_ON_RESUME,
    SESSION = ZEST_CHANGES_BY_SESSION
};
#define ROW(id, name, letter, kind, fallback, range, argument, section, users, run, help) \
    [ZEST_OPTION_##                                                                       \
        id] = {name, letter, ZEST_KIND_##kind, fallback, range, argument, section, users, run, help},
static const zest_option_row table[ZEST_OPTION_COUNT] = {ZEST_OPTION_TABLE(ROW)};

const zest_option_row *zest_option_row_at(zest_option_id id) { return &table[id]; }

zest_option_id zest_option_find(const char *name, unsigned users) {
    int id = 0;
    while (id < ZEST_OPTION_COUNT && !(table[id].users & users && !strcmp(table[id].name, name))) id++;
    return (zest_option_id)id;
}

zest_option_id zest_option_find_letter(char letter, unsigned users) {
    int id = 0;
    while (id < ZEST_OPTION_COUNT && !(table[id].users & users && letter && table[id].letter == letter)) id++;
    return (zest_option_id)id;
}

const char *zest_option_kind_name(zest_option_kind kind) {
    static const char *const names[] = {"flag", "real", "count", "seed", "choice", "text", "list"};
    return names[kind];
}

/* "a, b or c" for those of the choices whose bit is set. */
static void join_choices(const char *choices, uint64_t wanted, const char *word, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (const char *c = choices; wanted && used < size; wanted >>= 1) {
        size_t length = strcspn(c, "|");
        const char *before = !used ? "" : wanted == 1 ? " " : ", ", *last = used && wanted == 1 ? word : "";
        if (wanted & 1)
            used += (size_t)snprintf(out + used, size - used, "%s%s%s%.*s", before, last, *last ? " " : "",
                                     (int)length, c);
        if (!c[length]) break;
        c += length + 1;
    }
}

const char *zest_option_range(const zest_option_row *row, char *out, size_t size) {
    out[0] = '\0';
    if (row->kind == ZEST_KIND_CHOICE) {
        unsigned count = 1;
        for (const char *c = row->choices; *c; c++) count += *c == '|';
        join_choices(row->choices, ((uint64_t)1 << count) - 1, "or", out, size);
    } else if (isfinite(row->low) && isfinite(row->high)) {
        zest_number_format(out, size, "%g to %.10g", row->low, row->high);
    } else if (isfinite(row->low)) {
        zest_number_format(out, size, "%s %g%s%s", row->open ? ">" : ">=", row->low,
                           *row->choices ? " or " : "", row->choices);
    }
    return out;
}

const char *zest_option_name_methods(unsigned methods, const char *word, char *out, size_t size) {
    join_choices(table[ZEST_OPTION_METHOD].choices, methods, word, out, size);
    return out;
}

/* ---- Values ---- */

typedef struct {
    double number;
    uint64_t whole;
} value;

static int parse_whole(const char *text, uint64_t *whole) {
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)text[0])) return 0;
    *whole = strtoull(text, &end, text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10);
    if (!errno && !*end) return 1;
    /* "1e6" is a count too when it is one exactly */
    errno = 0;
    double number = zest_number_parse(text, &end);
    if (*end || !(number >= 0 && number <= 9007199254740992.0) || number != floor(number)) return 0;
    *whole = (uint64_t)number;
    return 1;
}

static int parse_real(const char *text, double *number) {
    char *end;
    if (!*text || isspace((unsigned char)*text)) return 0;
    *number = zest_number_parse(text, &end);
    return !*end && !isnan(*number);
}

int zest_option_is_number(const char *text) {
    double number;
    return parse_real(text, &number);
}

static int parse_choice(const char *choices, const char *text, uint64_t *position) {
    size_t length = strlen(text);
    *position = 0;
    for (const char *c = choices; c; ++*position) {
        const char *bar = strchr(c, '|');
        size_t here = bar ? (size_t)(bar - c) : strlen(c);
        if (here == length && !strncmp(c, text, length)) return 1;
        c = bar ? bar + 1 : NULL;
    }
    return 0;
}

static int parse_flag(const char *text, uint64_t *whole) {
    *whole = !strcmp(text, "yes") || !strcmp(text, "true") || !strcmp(text, "1");
    return *whole || !strcmp(text, "no") || !strcmp(text, "false") || !strcmp(text, "0");
}

static int parse(const zest_option_row *row, const char *text, value *out) {
    out->number = 0;
    out->whole = 0;
    switch (row->kind) {
    case ZEST_KIND_TEXT: return 1;
    case ZEST_KIND_LIST: return 1; /* zest_options_list checks the numbers */
    case ZEST_KIND_FLAG: return parse_flag(text, &out->whole);
    case ZEST_KIND_CHOICE: return parse_choice(row->choices, text, &out->whole);
    case ZEST_KIND_REAL:
        if (parse_real(text, &out->number)) return 1;
        out->number = 0;
        if (!*row->choices || !parse_choice(row->choices, text, &out->whole)) return out->whole = 0;
        return out->whole++, 1;
    case ZEST_KIND_COUNT:
    case ZEST_KIND_SEED:
        if (!parse_whole(text, &out->whole)) return 0;
        out->number = (double)out->whole;
        return 1;
    }
    return 0;
}

static int in_range(const zest_option_row *row, double number) {
    if (row->kind != ZEST_KIND_REAL && row->kind != ZEST_KIND_COUNT) return 1;
    if (isfinite(row->low) && !isfinite(number)) return 0;
    return (row->open ? number > row->low : number >= row->low) && number <= row->high;
}

static zest_status refuse(const zest_options *options, zest_option_id id, const char *text,
                          zest_error *error) {
    static const char *const what[] = {"yes or no",
                                       "a number",
                                       "a whole number",
                                       "a whole number from 0 to 2^64-1",
                                       "one of these words: ",
                                       "text",
                                       "numbers with commas between them"};
    const zest_option_row *row = &table[id];
    char range[256], fallback[128] = "";
    zest_option_range(row, range, sizeof range);
    /* a command may have another default than the table */
    if (!options->given[id] && *zest_options_text(options, id))
        snprintf(fallback, sizeof fallback, " (default %.100s)", zest_options_text(options, id));
    const char *reason = id == ZEST_OPTION_T && text[0] == '-'
                             ? ". A negative tilt would favour the lowest loss nearby, that is, sharp minima"
                             : "";
    return zest_error_set(
        error, ZEST_ERROR_ARGUMENT, "option %s: '%.300s' is not allowed; it takes %s%s%s%s%s", row->name,
        text, what[row->kind], *range && row->kind != ZEST_KIND_CHOICE ? " " : "", range, fallback, reason);
}

unsigned zest_option_find_method(const char *name) {
    uint64_t position;
    int found = parse_choice(table[ZEST_OPTION_METHOD].choices, name, &position);
    return found ? (unsigned)position : ZEST_CHOICE_COUNT;
}

/* 0, no, or the first choice: an option that does nothing. */
static int is_off(const zest_option_row *row, const char *text) {
    value v;
    if (row->kind == ZEST_KIND_TEXT || row->kind == ZEST_KIND_LIST) return !*text;
    return parse(row, text, &v) && v.number == 0 && v.whole == 0;
}

zest_status zest_options_check_method(const zest_options *given, uint64_t method, zest_error *error) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = &table[id];
        const char *text = zest_options_text(given, (zest_option_id)id);
        char takers[96], own[16];
        if (!given->given[id] || zest_option_takes(row, method)) continue;
        if (!is_off(row, row->fallback) || is_off(row, text)) continue;
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--%s does nothing for method %s; it belongs to %s%s", row->name,
                              zest_option_name_methods(1u << method, "", own, sizeof own),
                              row->methods & FORWARD ? "" : "methods that take gradients: ",
                              zest_option_name_methods(row->methods, "and", takers, sizeof takers));
    }
    return method >= ZEST_CHOICE_SGD ? zest_options_check_t(given, error) : ZEST_OK;
}

zest_status zest_options_check_t(const zest_options *options, zest_error *error) {
    if (!options->whole[ZEST_OPTION_T]) return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "--t auto is for runs of zest-n and zest-bc, which choose t from the losses of their "
        "steps; give a number here");
}

void zest_options_init(zest_options *options) {
    memset(options, 0, sizeof *options);
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        value v;
        parse(&table[id], table[id].fallback, &v);
        options->number[id] = v.number;
        options->whole[id] = v.whole;
    }
}

void zest_options_free(zest_options *options) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) free(options->text[id]);
    memset(options, 0, sizeof *options);
}

zest_status zest_options_copy(zest_options *to, const zest_options *from, zest_error *error) {
    zest_options_init(to);
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        if (!from->text[id]) continue;
        zest_status status = zest_options_set_id(to, (zest_option_id)id, from->text[id], error);
        if (status) return status;
        to->given[id] = from->given[id];
    }
    return ZEST_OK;
}

const char *zest_options_text(const zest_options *options, zest_option_id id) {
    return options->text[id] ? options->text[id] : table[id].fallback;
}

zest_status zest_options_set_id(zest_options *options, zest_option_id id, const char *text,
                                zest_error *error) {
    const zest_option_row *row = &table[id];
    value v;
    if (strchr(text, '\n') && row->users & ZEST_FOR_KEPT) /* options files have a line for each */
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "option %s: a value cannot hold a line break",
                              row->name);
    if (!parse(row, text, &v) || !in_range(row, v.number)) return refuse(options, id, text, error);
    char *copy = strdup(text);
    if (!copy) return zest_error_memory(error, "an option", strlen(text));
    free(options->text[id]);
    options->text[id] = copy;
    options->number[id] = v.number;
    options->whole[id] = v.whole;
    options->given[id] = 1;
    return ZEST_OK;
}

zest_status zest_options_set_unchecked(zest_options *options, zest_option_id id, const char *text,
                                       zest_error *error) {
    char *copy = strdup(text);
    if (!copy) return zest_error_memory(error, "an option", strlen(text));
    free(options->text[id]);
    options->text[id] = copy;
    options->given[id] = 1;
    return ZEST_OK;
}

zest_status zest_options_set(zest_options *options, unsigned users, const char *name, const char *text,
                             zest_error *error) {
    zest_option_id id = zest_option_find(name, users);
    if (id != ZEST_OPTION_COUNT) return zest_options_set_id(options, id, text, error);
    char suggestion[ZEST_OPTION_SUGGESTION_SIZE];
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "no option is called '%.100s'%s", name,
                          zest_option_suggest(name, users, 1, suggestion));
}

/* One "name=value" with blanks allowed around both; a name without a value is an error. */
static zest_status parse_one(char *piece, const char *source, int line, zest_option_setter *set, void *user,
                             zest_error *error) {
    char *equals = strchr(piece, '=');
    if (!equals)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s, line %d: '%s' should read name=value", source,
                              line, piece);
    char *end = equals, *text = equals + 1;
    while (end > piece && isspace((unsigned char)end[-1])) end--;
    *end = '\0';
    while (isspace((unsigned char)*text)) text++;
    zest_error inner;
    if (!set(user, piece, text, &inner)) return ZEST_OK;
    return zest_error_set(error, inner.status, "%s, line %d: %.900s", source, line, inner.message);
}

static void trim_end(char *text) {
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
}

zest_status zest_options_parse(const char *text, const char *source, zest_option_setter *set, void *user,
                               zest_error *error) {
    char *copy = strdup(text), *next = copy;
    if (!copy) return zest_error_memory(error, source, strlen(text));
    zest_status status = ZEST_OK;
    int in_lines = strchr(text, '\n') != NULL;
    for (int line = 1; next && !status; line++) {
        char *piece = strsep(&next, in_lines ? "\n" : " ");
        while (isspace((unsigned char)*piece)) piece++;
        trim_end(piece);
        if (*piece && *piece != '#') status = parse_one(piece, source, in_lines ? line : 1, set, user, error);
    }
    free(copy);
    return status;
}

typedef struct {
    zest_options *options;
    unsigned users;
} target;

static zest_status set_in_target(void *user, const char *name, const char *text, zest_error *error) {
    target *to = user;
    return zest_options_set(to->options, to->users, name, text, error);
}

zest_status zest_options_set_all(zest_options *options, unsigned users, const char *text, const char *source,
                                 zest_error *error) {
    return zest_options_parse(text, source, set_in_target, &(target){options, users}, error);
}

zest_status zest_options_set_default(zest_options *options, const char *text, zest_error *error) {
    unsigned char given[ZEST_OPTION_COUNT];
    memcpy(given, options->given, sizeof given);
    zest_status status = zest_options_set_all(options, ~0u, text, "defaults", error);
    memcpy(options->given, given, sizeof given);
    return status;
}

void zest_options_print(const zest_options *options, unsigned users, zest_buffer *out) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (table[id].users & users)
            zest_buffer_format(out, "%s=%s\n", table[id].name,
                               zest_options_text(options, (zest_option_id)id));
}

zest_status zest_options_list(const zest_options *options, zest_option_id id, double **values, size_t *count,
                              zest_error *error) {
    const char *text = zest_options_text(options, id);
    size_t capacity = 1;
    for (const char *c = text; *c; c++) capacity += *c == ',';
    *count = 0;
    *values = malloc(capacity * sizeof **values);
    if (!*values) return zest_error_memory(error, table[id].name, capacity * sizeof **values);
    for (const char *c = text; *c;) {
        char *end;
        double number = zest_number_parse(c, &end);
        if (end == c || !isfinite(number) || (*end && *end != ',') || (*end == ',' && !end[1])) {
            free(*values);
            *values = NULL;
            return refuse(options, id, text, error);
        }
        (*values)[(*count)++] = number;
        c = *end ? end + 1 : end;
    }
    return ZEST_OK;
}

enum { LONGEST = 64 };

/* Names in transformers, MeZO's code, llama.cpp and the usual training scripts, and what zest calls the same
 * thing: an option, perhaps with a value. Of several rows with one name, the first whose option is known to
 * the command counts. */
static const struct {
    const char *theirs, *ours;
} names[] = {
    {"learning-rate", "lr"},
    {"per-device-train-batch-size", "batch"},
    {"train-batch-size", "batch"},
    {"micro-batch-size", "batch"},
    {"batch-size", "batch"},
    {"bs", "batch"},
    {"num-train-epochs", "epochs"},
    {"num-epochs", "epochs"},
    {"n-epochs", "epochs"},
    {"max-epochs", "epochs"},
    {"max-steps", "steps"},
    {"num-steps", "steps"},
    {"train-steps", "steps"},
    {"num-iterations", "steps"},
    {"iterations", "steps"},
    {"max-iter", "steps"},
    {"max-iters", "steps"},
    {"iters", "steps"},
    {"max-evals", "evals"},
    {"max-time", "seconds"},
    {"time-limit", "seconds"},
    {"output-dir", "out"},
    {"output", "out"},
    {"out-dir", "out"},
    {"save-dir", "out"},
    {"save-path", "out"},
    {"model-name-or-path", "model"},
    {"model-name", "model"},
    {"model-path", "model"},
    {"base-model", "model"},
    {"pretrained", "model"},
    {"task-name", "task"},
    {"dataset", "task"},
    {"dataset-name", "task"},
    {"data-dir", "data"},
    {"data-path", "data"},
    {"train-file", "text"},
    {"corpus", "text"},
    {"eval-steps", "eval-every"},
    {"eval-interval", "eval-every"},
    {"evaluation-steps", "eval-every"},
    {"save-steps", "save-every"},
    {"save-interval", "save-every"},
    {"checkpoint-every", "save-every"},
    {"lr-scheduler-type", "schedule"},
    {"lr-scheduler", "schedule"},
    {"lr-schedule", "schedule"},
    {"scheduler", "schedule"},
    {"warmup-steps", "warmup"},
    {"min-lr", "final-lr"},
    {"max-grad-norm", "clip"},
    {"grad-clip", "clip"},
    {"clip-grad-norm", "clip"},
    {"gradient-clipping", "clip"},
    {"adam-beta1", "beta1"},
    {"adam-beta2", "beta2"},
    {"adam-eps", "adam-epsilon"},
    {"wd", "weight-decay"},
    {"optim", "method"},
    {"optimizer", "method"},
    {"optimiser", "method"},
    {"algorithm", "method"},
    {"algo", "method"},
    {"trainer", "method"},
    {"gradient-checkpointing", "recompute"},
    {"activation-checkpointing", "recompute"},
    {"early-stopping-patience", "patience"},
    {"metric-for-best-model", "select"},
    {"metric", "select"},
    {"resume-from-checkpoint", "resume"},
    {"resume-from", "resume"},
    {"checkpoint", "step"},
    {"dtype", "weights"},
    {"torch-dtype", "weights"},
    {"precision", "weights"},
    {"load-bfloat16", "weights bf16"},
    {"load-float16", "weights f16"},
    {"bf16", "weights bf16"},
    {"fp16", "weights f16"},
    {"random-seed", "seed"},
    {"manual-seed", "seed"},
    {"train-set-seed", "seed"},
    {"zo-eps", "rho"},
    {"zo-epsilon", "rho"},
    {"eps", "rho"},
    {"perturbation-scale", "rho"},
    {"smoothing", "rho"},
    {"tilt", "t"},
    {"num-perturbations", "k"},
    {"num-directions", "k"},
    {"num-queries", "k"},
    {"q", "k"},
    {"num-train", "train-size"},
    {"num-dev", "dev-size"},
    {"num-eval", "test-size"},
    {"num-test", "test-size"},
    {"num-k", "shots"},
    {"k-shot", "shots"},
    {"num-shots", "shots"},
    {"few-shot", "shots"},
    {"noise-rate", "label-noise"},
    {"sam-rho", "radius"},
    {"mlm-probability", "mask"},
    {"mask-prob", "mask"},
    {"max-length", "length"},
    {"max-seq-length", "length"},
    {"seq-length", "length"},
    {"block-size", "length"},
    {"seq-len", "tokens"},
    {"max-new-tokens", "max-tokens"},
    {"max-length", "max-tokens"},
    {"n-predict", "max-tokens"},
    {"predict", "max-tokens"},
    {"ngl", "device cuda"},
    {"n-gpu-layers", "device cuda"},
    {"gpu-layers", "device cuda"},
    {"gpu", "device cuda"},
    {"cuda", "device cuda"},
    {"use-cuda", "device cuda"},
    {"num-threads", "threads"},
    {"n-threads", "threads"},
    {"nthreads", "threads"},
    {"num-workers", "jobs"},
    {"workers", "jobs"},
    {"num-workers", "threads"},
    {"input-file", "input"},
    {"file", "input"},
    {"sentence", "text"},
    {"silent", "quiet"},
    {"config-file", "config"},
};

static void normalise(const char *name, size_t size, char out[LONGEST]) {
    if (size >= LONGEST) size = LONGEST - 1;
    for (size_t i = 0; i < size; i++) out[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    out[size] = '\0';
}

/* Does the row's option belong to the users? It may stand before a value. */
static int is_known(const char *ours, unsigned users) {
    char option[LONGEST];
    normalise(ours, strcspn(ours, " "), option);
    return zest_option_find(option, users) != ZEST_OPTION_COUNT;
}

static const char *translate(const char *name, unsigned users) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].theirs, name) && is_known(names[i].ours, users)) return names[i].ours;
    return NULL;
}

static const char *nearest(const char *name, unsigned users) {
    const char *best = NULL;
    size_t least = 3; /* further away is no typing mistake */
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (!(row->users & users)) continue;
        size_t d = zest_edit_distance(name, strlen(name), row->name);
        if (d < least && d < strlen(row->name)) least = d, best = row->name;
    }
    return best;
}

const char *zest_option_suggest(const char *name, unsigned users, int quoted, char *text) {
    char plain[LONGEST];
    normalise(name, strlen(name), plain);
    int exact = is_known(plain, users);
    const char *translated = exact ? NULL : translate(plain, users), *meant = exact ? plain
                                                                              : translated
                                                                                  ? translated
                                                                                  : nearest(plain, users);
    text[0] = '\0';
    if (meant)
        snprintf(text, ZEST_OPTION_SUGGESTION_SIZE, "; %s %s%s%s%s",
                 translated ? "zest calls it" : "did you mean", quoted ? "'" : "--", meant, quoted ? "'" : "",
                 translated ? "" : "?");
    return text;
}

int zest_option_is_long_name(const char *name, size_t size, unsigned users) {
    char plain[LONGEST];
    if (size < 2) return 0;
    normalise(name, size, plain);
    return is_known(plain, users) || translate(plain, users);
}
