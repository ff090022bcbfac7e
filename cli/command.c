#include "cli/command.h"

#include <string.h>

#include "base/distance.h"

/* In the order in which a newcomer needs them. */
static const zest_command *const commands[] = {
    &zest_command_pull,
    &zest_command_train,
    &zest_command_eval,
    &zest_command_predict,
    &zest_command_info,
    &zest_command_report,
    &zest_command_sweep,
    &zest_command_sharpness,
    &zest_command_replay,
    &zest_command_generate,
    &zest_command_score,
    &zest_command_tokenize,
    &zest_command_pretrain,
    &zest_command_minimize,
    &zest_command_toy,
    &zest_command_theory,
    &zest_command_bench,
    &zest_command_completion,
    NULL,
};

static const struct {
    const zest_command *first;
    const char *title;
} groups[] = {
    {&zest_command_pull, "Fine-tune a model"},
    {&zest_command_info, "Look at runs and compare them"},
    {&zest_command_generate, "Use a language model"},
    {&zest_command_minimize, "Beyond language models"},
    {&zest_command_bench, "This machine"},
};

/* What other tools call the same thing. */
static const struct {
    const char *theirs, *ours;
} names[] = {
    {"finetune", "train"},
    {"fine-tune", "train"},
    {"fit", "train"},
    {"evaluate", "eval"},
    {"test", "eval"},
    {"infer", "predict"},
    {"inference", "predict"},
    {"classify", "predict"},
    {"download", "pull"},
    {"get", "pull"},
    {"fetch", "pull"},
    {"run", "generate"},
    {"complete", "generate"},
    {"chat", "generate"},
    {"perplexity", "score"},
    {"encode", "tokenize"},
    {"tokenise", "tokenize"},
    {"optimize", "minimize"},
    {"optimise", "minimize"},
    {"show", "info"},
    {"inspect", "info"},
    {"status", "info"},
    {"plot", "report"},
    {"grid", "sweep"},
    {"search", "sweep"},
    {"hessian", "sharpness"},
    {"flatness", "sharpness"},
    {"benchmark", "bench"},
    {"completions", "completion"},
};

const zest_command *const *zest_command_all(void) { return commands; }

const zest_command *zest_command_find(const char *name) {
    for (const zest_command *const *c = commands; *c; c++)
        if (!strcmp((*c)->name, name)) return *c;
    return NULL;
}

const char *zest_command_option_help(const zest_command *command, const zest_option_row *row, size_t *size) {
    size_t length = strlen(row->name);
    for (const char *line = command->options; line && *line; line += *line == '\n') {
        size_t end = strcspn(line, "\n");
        if (!strncmp(line, row->name, length) && line[length] == '\t') {
            *size = end - length - 1;
            return line + length + 1;
        }
        line += end;
    }
    *size = strlen(row->help);
    return row->help;
}

const char *zest_command_heading(const zest_command *command) {
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (groups[i].first == command) return groups[i].title;
    return NULL;
}

zest_status zest_command_set(const zest_command *command, zest_options *options, zest_option_id id,
                             const char *value, zest_error *error) {
    int own = (zest_option_row_at(id)->users & (command->users | ZEST_FOR_SHELL)) != 0;
    return own ? zest_options_set_id(options, id, value, error)
               : zest_options_keep(options, id, value, error);
}

const char *zest_command_suggest(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].theirs, name) && zest_command_find(names[i].ours)) return names[i].ours;
    const char *best = NULL;
    size_t least = 3; /* further away is no typing mistake */
    for (const zest_command *const *c = commands; *c; c++) {
        size_t d = zest_distance(name, strlen(name), (*c)->name);
        if (d < least && d < strlen((*c)->name)) least = d, best = (*c)->name;
    }
    return best;
}
