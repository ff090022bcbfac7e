/* Commands of the program: one file each, one row each in cli/command.c. Help, manual page and parser read
 * the row. */
#ifndef ZEST_CLI_COMMAND_H
#define ZEST_CLI_COMMAND_H

#include "base/option.h"

enum { ZEST_EXIT_OK = 0, ZEST_EXIT_FAILURE = 1, ZEST_EXIT_USAGE = 2 };

typedef struct zest_command {
    const char *name;
    /* positional arguments in the usage line: "RUN", "linear|stationary". A command with a MODEL among
     * them finds pulled models by name (cli/target.h) */
    const char *words;
    int min_words, max_words; /* number of positional arguments */
    const char *summary;      /* one line, no full stop */
    const char *description;  /* paragraphs, separated by empty lines */
    const char *examples;     /* lines "command<TAB>what it does" */
    const char *defaults;     /* "name=value ..." that differ from the table's, or "" */
    const char *options;      /* lines "name<TAB>help" of options with a special meaning here; or NULL */
    unsigned users;           /* its ZEST_FOR_ bit */
    int ranks;                /* divides its work over the processes that mpirun or srun started */
    unsigned lists;           /* commands whose options it also accepts, as texts that it parses itself */
    int (*run)(const zest_options *options, char **words, int count);
} zest_command;

extern const zest_command zest_command_minimize, zest_command_toy, zest_command_theory, zest_command_bench,
    zest_command_replay, zest_command_info, zest_command_generate, zest_command_score, zest_command_train,
    zest_command_eval, zest_command_predict, zest_command_report, zest_command_sweep, zest_command_pretrain,
    zest_command_sharpness, zest_command_pull, zest_command_tokenize, zest_command_completion,
    zest_command_export;

/* All options that it accepts. */
static inline unsigned zest_command_users(const zest_command *command) {
    return command->users | command->lists | ZEST_FOR_SHELL;
}
/* Stores a value, or the list of values of an option that the command parses itself. */
zest_status zest_command_set(const zest_command *command, zest_options *options, zest_option_id id,
                             const char *value, zest_error *error);

/* The help text of an option for this command, of *size bytes. */
const char *zest_command_option_help(const zest_command *command, const zest_option_row *row, size_t *size);

/* All commands, in the order of the help; NULL-terminated. */
const zest_command *const *zest_command_all(void);
const zest_command *zest_command_find(const char *name);
/* The title of the group that starts with this command in the overview; NULL: same group. */
const char *zest_command_heading(const zest_command *command);
/* The most similar command, for a misspelt name; or NULL. */
const char *zest_command_suggest(const char *name);

/* ---- Command line ----
 *
 * --name value, --name=value, -l value, --flag, --no-flag, -- ; positional arguments keep their order. */

typedef struct {
    char **words; /* points into argv */
    int count;
    int help; /* --help or -h was given */
    int version;
} zest_arguments;

zest_status zest_arguments_parse(const zest_command *command, int argc, char **argv, zest_options *options,
                                 zest_arguments *arguments, zest_error *error);

/* `zest --help`, `zest COMMAND --help` and the manual page: all from the option table and the commands. */

void zest_help_overview(zest_buffer *out);
void zest_help_command(const zest_command *command, zest_buffer *out);
void zest_help_environment(zest_buffer *out);
void zest_help_manual(zest_buffer *out); /* roff, section 1 */

/* ---- Config files ----
 *
 * --config FILE: options from a file in the format of a run's options file, so that a run can be repeated
 * from it: lines `name = value`, blank lines, and lines that start with #. */

/* Sets the options of the file, except for those given on the command line. A file may serve several
 * commands, so options of other commands are skipped; an unknown name is an error with its line. An empty
 * value leaves the default. */
zest_status zest_config_read(const zest_command *command, const char *path, zest_options *options,
                             zest_error *error);

#endif
