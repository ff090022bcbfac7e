/* The table of commands and the parser of the command line and of config files. */
#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "base/option.h"
#include "base/text.h"
#include "cli/command.h"

/* In the order in which a newcomer needs them. */
static const zest_command *const commands[] = {
    &zest_command_pull,     &zest_command_train,    &zest_command_eval,       &zest_command_predict,
    &zest_command_info,     &zest_command_report,   &zest_command_sweep,      &zest_command_sharpness,
    &zest_command_replay,   &zest_command_export,   &zest_command_generate,   &zest_command_score,
    &zest_command_tokenize, &zest_command_pretrain, &zest_command_minimize,   &zest_command_toy,
    &zest_command_theory,   &zest_command_bench,    &zest_command_completion, NULL,
};

static const struct {
    const zest_command *first;
    const char *title;
} groups[] = {
    {&zest_command_pull, "Fine-tune a model"},
    {&zest_command_info, "Inspect and compare runs"},
    {&zest_command_generate, "Use a language model"},
    {&zest_command_minimize, "Beyond language models"},
    {&zest_command_bench, "This machine"},
};

/* Names that other tools use for the same option. */
static const struct {
    const char *theirs, *ours;
} names[] = {
    {"finetune", "train"},    {"fine-tune", "train"},
    {"fit", "train"},         {"evaluate", "eval"},
    {"test", "eval"},         {"infer", "predict"},
    {"inference", "predict"}, {"classify", "predict"},
    {"download", "pull"},     {"get", "pull"},
    {"fetch", "pull"},        {"run", "generate"},
    {"complete", "generate"}, {"chat", "generate"},
    {"perplexity", "eval"},   {"convert", "export"},
    {"quantize", "export"},   {"gguf", "export"},
    {"encode", "tokenize"},   {"tokenise", "tokenize"},
    {"optimize", "minimize"}, {"optimise", "minimize"},
    {"show", "info"},         {"inspect", "info"},
    {"status", "info"},       {"plot", "report"},
    {"grid", "sweep"},        {"search", "sweep"},
    {"hessian", "sharpness"}, {"flatness", "sharpness"},
    {"benchmark", "bench"},   {"completions", "completion"},
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
               : zest_options_set_unchecked(options, id, value, error);
}

const char *zest_command_suggest(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].theirs, name) && zest_command_find(names[i].ours)) return names[i].ours;
    const char *best = NULL;
    size_t least = 3; /* a larger distance is not a typing mistake */
    for (const zest_command *const *c = commands; *c; c++) {
        size_t d = zest_edit_distance(name, strlen(name), (*c)->name);
        if (d < least && d < strlen((*c)->name)) least = d, best = (*c)->name;
    }
    return best;
}

/* Names the commands that have an option which this one has not: "; train and pretrain have it". */
static void find_others(const char *name, zest_buffer *out) {
    const zest_command *const *all = zest_command_all();
    const char *found[32];
    size_t count = 0;
    for (; *all && count < sizeof found / sizeof *found; all++)
        if (zest_option_find(name, zest_command_users(*all)) != ZEST_OPTION_COUNT)
            found[count++] = (*all)->name;
    for (size_t i = 0; i < count; i++)
        zest_buffer_format(out, "%s%s", !i ? "; " : i + 1 < count ? ", " : " and ", found[i]);
    if (count) zest_buffer_text(out, count > 1 ? " have it" : " has it");
}

static zest_status unknown(const zest_command *command, const char *word, const char *name,
                           zest_error *error) {
    char suggestion[ZEST_OPTION_SUGGESTION_SIZE];
    zest_buffer others = {0};
    if (zest_option_find(name, zest_command_users(command)) == ZEST_OPTION_COUNT) find_others(name, &others);
    zest_status status =
        others.size
            ? zest_error_set(error, ZEST_ERROR_ARGUMENT, "zest %s has no option --%s%.600s", command->name,
                             name, others.data)
            : zest_error_set(error, ZEST_ERROR_ARGUMENT, "unknown option %.*s%s", (int)strcspn(word, "="),
                             word, zest_option_suggest(name, zest_command_users(command), 0, suggestion));
    zest_buffer_free(&others);
    return status;
}

/* The option of an argument. *value is the text after '=' or the letter, or NULL; *negated for --no-FLAG. */
static zest_option_id find(const zest_command *command, const char *word, char *name, size_t capacity,
                           const char **value, int *negated) {
    *value = NULL;
    *negated = 0;
    size_t rest = strcspn(word + 1, "=");
    if (word[1] != '-' && zest_option_is_long_name(word + 1, rest, zest_command_users(command))) {
        if (rest >= capacity) rest = capacity - 1;
        memcpy(name, word + 1, rest);
        name[rest] = '\0';
        return ZEST_OPTION_COUNT;
    }
    if (word[1] != '-') {
        name[0] = word[1], name[1] = '\0';
        if (word[2]) *value = word + 2 + (word[2] == '=');
        return zest_option_find_letter(word[1], zest_command_users(command));
    }
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
    if (length >= capacity) length = capacity - 1;
    memcpy(name, word + 2, length);
    name[length] = '\0';
    if (equals) *value = equals + 1;
    zest_option_id id = zest_option_find(name, zest_command_users(command));
    if (id == ZEST_OPTION_COUNT && !equals && !strncmp(name, "no-", 3)) {
        zest_option_id flag = zest_option_find(name + 3, zest_command_users(command));
        if (flag != ZEST_OPTION_COUNT && zest_option_row_at(flag)->kind == ZEST_KIND_FLAG)
            *negated = 1, id = flag;
    }
    return id;
}

/* A negative number is a value, not an option. */
static int is_option(const char *word) {
    return word[0] == '-' && word[1] && !strchr("0123456789.", word[1]);
}

zest_status zest_arguments_parse(const zest_command *command, int argc, char **argv, zest_options *options,
                                 zest_arguments *arguments, zest_error *error) {
    *arguments = (zest_arguments){.words = argv};
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *value;
        if (!strcmp(word, "--")) {
            while (++i < argc) arguments->words[arguments->count++] = argv[i];
            break;
        }
        if (!is_option(word)) {
            arguments->words[arguments->count++] = argv[i];
            continue;
        }
        if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            arguments->help = 1;
            continue;
        }
        if (!strcmp(word, "--version")) {
            arguments->version = 1;
            continue;
        }
        char name[64];
        int negated;
        zest_option_id id = find(command, word, name, sizeof name, &value, &negated);
        if (id == ZEST_OPTION_COUNT) return unknown(command, word, name, error);
        if (zest_option_row_at(id)->kind == ZEST_KIND_FLAG)
            value = value ? value : negated ? "no" : "yes";
        else if (!value && i + 1 < argc)
            value = argv[++i];
        if (!value) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s needs a value", word);
        if (id == ZEST_OPTION_CONFIG && zest_options_given(options, id))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--config is given twice; merge the two files");
        zest_status status = zest_command_set(command, options, id, value, error);
        if (status) return status;
    }
    if (arguments->help || arguments->version) return ZEST_OK;
    if (zest_options_given(options, ZEST_OPTION_CONFIG)) {
        zest_status status =
            zest_config_read(command, zest_options_text(options, ZEST_OPTION_CONFIG), options, error);
        if (status) return status;
    }
    if (arguments->count > command->max_words)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: unexpected argument '%s'", command->name,
                              arguments->words[command->max_words]);
    if (arguments->count < command->min_words)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s needs %s", command->name, command->words);
    return ZEST_OK;
}

enum { CONFIG_LIMIT = 1 << 20 };

typedef struct {
    const zest_command *command;
    const char *path;
    zest_options *options;
    unsigned char on_command_line[ZEST_OPTION_COUNT];
    zest_error *error;
} config;

/* Strips blanks at both ends, in place. */
static char *trim(char *text) {
    size_t size = strlen(text);
    while (size && isspace((unsigned char)text[size - 1])) text[--size] = '\0';
    while (isspace((unsigned char)*text)) text++;
    return text;
}

static zest_status refuse_name(const config *c, const char *name, size_t line) {
    char suggestion[ZEST_OPTION_SUGGESTION_SIZE];
    return zest_error_set(c->error, ZEST_ERROR_ARGUMENT, "%s, line %zu: unknown option '%.100s'%s", c->path,
                          line, name,
                          zest_option_suggest(name, zest_command_users(c->command), 1, suggestion));
}

static zest_status read_line(const config *c, char *text, size_t line) {
    char *equals = strchr(text, '=');
    if (!equals)
        return zest_error_set(c->error, ZEST_ERROR_ARGUMENT,
                              "%s, line %zu: expected name = value, got '%.100s'", c->path, line, text);
    *equals = '\0';
    const char *name = trim(text), *value = trim(equals + 1);
    zest_option_id id = zest_option_find(name, zest_command_users(c->command));
    if (id == ZEST_OPTION_CONFIG)
        return zest_error_set(c->error, ZEST_ERROR_ARGUMENT,
                              "%s, line %zu: a config file cannot contain --config", c->path, line);
    if (id == ZEST_OPTION_COUNT)
        return zest_option_find(name, ~0u) == ZEST_OPTION_COUNT ? refuse_name(c, name, line) : ZEST_OK;
    if (!*value || c->on_command_line[id]) return ZEST_OK;
    zest_error inner;
    if (!zest_command_set(c->command, c->options, id, value, &inner)) return ZEST_OK;
    return zest_error_set(c->error, inner.status, "%s, line %zu: %.800s%s", c->path, line, inner.message,
                          strstr(value, " #") ? "; a comment must be on a line of its own" : "");
}

static zest_status read_lines(const config *c, char *text) {
    zest_status status = ZEST_OK;
    for (size_t line = 1; text && !status; line++) {
        char *one = trim(strsep(&text, "\n"));
        if (*one && *one != '#') status = read_line(c, one, line);
    }
    return status;
}

zest_status zest_config_read(const zest_command *command, const char *path, zest_options *options,
                             zest_error *error) {
    config c = {.command = command, .path = path, .options = options, .error = error};
    zest_buffer text = {0};
    memcpy(c.on_command_line, options->given, sizeof c.on_command_line);
    zest_status status = zest_file_read_stream(path, CONFIG_LIMIT, &text, error);
    if (!status && text.data && strlen(text.data) < text.size)
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: has a zero byte; a config file is text", path);
    if (!status && text.data) status = read_lines(&c, text.data);
    zest_buffer_free(&text);
    return status;
}
