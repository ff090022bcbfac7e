#include "cli/train.h"

#include <math.h>
#include <string.h>

#include "cli/output.h"
#include "cli/progress.h"

static const char *option(const zest_trainer_summary *s, zest_option_id id) {
    return zest_options_text(s->options, id);
}

static double mebibytes(uint64_t bytes) { return (double)bytes / 1048576; }

/* "125.0 M", "878464" */
static void add_count(uint64_t count, zest_buffer *out) {
    if (count < 10000000)
        zest_buffer_format(out, "%llu", (unsigned long long)count);
    else
        zest_buffer_format(out, count < 10000000000 ? "%.1f M" : "%.0f M", (double)count / 1e6);
}

static void add_model(const zest_trainer_summary *s, zest_buffer *out) {
    zest_buffer_format(out, "model   %s (%s): ", option(s, ZEST_OPTION_MODEL), s->family);
    add_count(s->parameters, out);
    zest_buffer_text(out, " parameters, ");
    if (s->trained == s->parameters) {
        zest_buffer_text(out, "all of them trained");
    } else {
        add_count(s->trained, out);
        zest_buffer_text(out, " of them trained");
    }
    zest_buffer_format(out, "; %s weights, %s arithmetic, on the %s\n", s->weights,
                       option(s, ZEST_OPTION_COMPUTE), s->on_device ? "GPU" : "CPU");
}

static void add_data(const zest_trainer_summary *s, zest_buffer *out) {
    int text = *option(s, ZEST_OPTION_CORPUS) != '\0';
    const char *unit = text ? "sequences" : "examples";
    if (text)
        zest_buffer_format(out, "text    %s: %zu %s to train on, %zu held out\n",
                           option(s, ZEST_OPTION_CORPUS), s->train, unit, s->dev);
    else
        zest_buffer_format(out, "task    %s: %zu %s to train on, %zu dev, %zu test; best by %s on dev\n",
                           s->task, s->train, unit, s->dev, s->test, s->select);
    if (s->cut) zest_buffer_format(out, "        %zu texts are too long and are shortened\n", s->cut);
}

/* What the method looks at, beside lr. */
static void add_method(const zest_trainer_summary *s, zest_buffer *out) {
    const char *method = option(s, ZEST_OPTION_METHOD), *schedule = option(s, ZEST_OPTION_SCHEDULE);
    int tilted = !strncmp(method, "zest", 4), near = strstr(method, "sam") != NULL;
    zest_buffer_format(out, "method  %s: lr = %s (%s)", method, option(s, ZEST_OPTION_LR), schedule);
    if (!zest_options_first_order(s->options))
        zest_buffer_format(out, ", k = %s, rho = %s", option(s, ZEST_OPTION_K), option(s, ZEST_OPTION_RHO));
    if (near) zest_buffer_format(out, ", radius = %s", option(s, ZEST_OPTION_RADIUS));
    if (near && strcmp(method, "sam")) zest_buffer_format(out, ", k = %s", option(s, ZEST_OPTION_K));
    if (tilted || !strcmp(method, "tsam")) zest_buffer_format(out, ", t = %s", option(s, ZEST_OPTION_T));
    zest_buffer_format(out, ", seed = %s\n", option(s, ZEST_OPTION_SEED));
}

static void add_length(const zest_trainer_summary *s, zest_buffer *out) {
    const char *every = option(s, ZEST_OPTION_EVAL_EVERY);
    zest_buffer_format(out, "length  %s steps of %s %s, about %.0f tokens each (%.*f epochs)",
                       option(s, ZEST_OPTION_STEPS), option(s, ZEST_OPTION_BATCH),
                       *option(s, ZEST_OPTION_CORPUS) ? "sequences" : "examples", s->batch_tokens,
                       s->epochs < 10, s->epochs);
    if (s->dev && strcmp(every, "0"))
        zest_buffer_format(out, "; dev every %s steps\n", every);
    else
        zest_buffer_text(out, s->dev ? "; dev at the start and at the end\n" : "; no dev examples\n");
    if (s->step) zest_buffer_format(out, "        goes on behind step %llu\n", (unsigned long long)s->step);
}

static void add_memory(const zest_trainer_summary *s, zest_buffer *out) {
    zest_buffer_format(out, "memory  about %.0f MiB%s", mebibytes(s->memory),
                       s->on_device ? " of the GPU's" : "");
    if (s->live > 1) zest_buffer_format(out, " with %zu pairs at once (--live 1 takes less)", s->live);
    if (s->device_peak_bytes)
        zest_buffer_format(out, "; measured %.0f", mebibytes(s->device_peak_bytes));
    else if (s->peak_bytes)
        zest_buffer_format(out, "; measured %.0f with the program itself", mebibytes(s->peak_bytes));
    zest_buffer_text(out, "\n");
}

static void add_time(const zest_trainer_summary *s, zest_buffer *out) {
    char total[32];
    if (isnan(s->step_seconds)) return;
    zest_buffer_format(out, "time    %.3g s a step (measured): about %s with %llu evaluations of dev\n",
                       s->step_seconds, zest_progress_duration(s->total_seconds, total, sizeof total),
                       (unsigned long long)s->evaluations);
}

void zest_summary_text(const zest_trainer_summary *s, zest_buffer *out) {
    add_model(s, out);
    add_data(s, out);
    add_method(s, out);
    add_length(s, out);
    add_memory(s, out);
    add_time(s, out);
}

/* Every option that a user can set, as text. */
static json_t *options_json(const zest_trainer_summary *s) {
    json_t *object = json_object();
    for (int i = 0; i < ZEST_OPTION_COUNT; i++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)i);
        if (row->users & ZEST_FOR_TRAINING)
            zest_output_set(&object, row->name, zest_output_string(option(s, (zest_option_id)i)));
    }
    return object;
}

json_t *zest_summary_json(const zest_trainer_summary *s) {
    json_t *object = json_pack(
        "{s:{s:o, s:s, s:I, s:I, s:s, s:s}, s:{s:s, s:s, s:I, s:I, s:I}, s:o, s:f, s:f, s:I, s:I, s:f, s:f}",
        "model", "path", zest_output_string(option(s, ZEST_OPTION_MODEL)), "family", s->family, "parameters",
        (json_int_t)s->parameters, "trained", (json_int_t)s->trained, "weights", s->weights, "device",
        s->on_device ? "cuda" : "cpu", "task", "name", s->task, "select", s->select, "train",
        (json_int_t)s->train, "dev", (json_int_t)s->dev, "test", (json_int_t)s->test, "options",
        options_json(s), "epochs", s->epochs, "batch_tokens", s->batch_tokens, "evaluations",
        (json_int_t)s->evaluations, "memory_bytes", (json_int_t)s->memory, "step_seconds", s->step_seconds,
        "total_seconds", s->total_seconds);
    if (s->peak_bytes) zest_output_set(&object, "peak_bytes", json_integer((json_int_t)s->peak_bytes));
    if (s->device_peak_bytes)
        zest_output_set(&object, "device_peak_bytes", json_integer((json_int_t)s->device_peak_bytes));
    return object;
}
