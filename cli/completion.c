/* zest completion: completion scripts for bash and zsh, from the same tables as the help. */
#include <string.h>

#include "cli/output.h"
#include "model/model.h"
#include "task/task.h"

/* ---- Candidates ---- */

/* Appends the words of a list separated by bars: "a|b|c" gives "a b c". */
static void add_choices(const char *list, zest_buffer *out) {
    for (; *list; list++) zest_buffer_add(out, *list == '|' ? " " : list, 1);
}

/* The words that an option's value is chosen from; none if it can be anything. */
static void add_values(zest_option_id id, zest_buffer *out) {
    const zest_option_row *row = zest_option_row_at(id);
    if (row->kind == ZEST_KIND_CHOICE) add_choices(row->choices, out);
    if (id == ZEST_OPTION_STEP) zest_buffer_text(out, "best last");
    for (int i = 0; id == ZEST_OPTION_SHAPE && zest_family_preset_name(i); i++)
        zest_buffer_format(out, "%s%s", i ? " " : "", zest_family_preset_name(i));
    for (size_t i = 0; id == ZEST_OPTION_TASK && zest_task_at(i); i++)
        zest_buffer_format(out, "%s%s", i ? " " : "", zest_task_at(i)->name);
}

/* Whether the positional argument is one of a list, "linear|stationary". RUN|MODEL are paths. */
static int has_choices(const zest_command *command) {
    return command->words[0] >= 'a' && command->words[0] <= 'z';
}

static int is_taken(const zest_command *command, int id) {
    return (zest_option_row_at((zest_option_id)id)->users & zest_command_users(command)) != 0;
}

/* ---- bash ---- */

/* The cases of options with one kind of value: those with fixed words, each by itself, or all others
 * together. */
static void bash_values(const zest_command *command, int chosen, zest_buffer *out) {
    zest_buffer words = {0};
    size_t count = 0;
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (!is_taken(command, id) || row->kind == ZEST_KIND_FLAG) continue;
        words.size = 0;
        add_values((zest_option_id)id, &words);
        if (chosen != (words.size > 0)) continue;
        zest_buffer_text(out, chosen || !count ? "        " : " | ");
        zest_buffer_format(out, "--%s", row->name);
        if (row->letter) zest_buffer_format(out, " | -%c", row->letter);
        if (chosen) zest_buffer_format(out, ") value=1 values=\"%s\" ;;\n", words.data);
        count++;
    }
    if (!chosen && count) zest_buffer_text(out, ") value=1 ;;\n");
    out->failed |= words.failed;
    zest_buffer_free(&words);
}

static void bash_command(const zest_command *command, zest_buffer *out) {
    zest_buffer_format(out, "    %s)\n        words=\"", command->name);
    if (has_choices(command)) add_choices(command->words, out);
    zest_buffer_text(out, "\"\n        options=\"--help --version");
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (is_taken(command, id))
            zest_buffer_format(out, " --%s", zest_option_row_at((zest_option_id)id)->name);
    zest_buffer_text(out, "\"\n        case $option in\n");
    bash_values(command, 1, out);
    bash_values(command, 0, out);
    zest_buffer_text(out, "        esac\n        ;;\n");
}

/* If COMPREPLY stays empty, the shell offers files. '=' separates words, so --lr=1 has three. */
static void bash(zest_buffer *out) {
    zest_buffer_text(out, "# bash completion for zest, made by `zest completion bash`.\n"
                          "_zest() {\n"
                          "    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}\n"
                          "    local command=${COMP_WORDS[1]} commands options= words= values= value=\n"
                          "    if [ \"$current\" = \"=\" ]; then\n"
                          "        current=\n"
                          "    elif [ \"$option\" = \"=\" ]; then\n"
                          "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
                          "    fi\n"
                          "    COMPREPLY=()\n"
                          "    commands=\"");
    for (const zest_command *const *c = zest_command_all(); *c; c++)
        zest_buffer_format(out, "%s%s", c == zest_command_all() ? "" : " ", (*c)->name);
    zest_buffer_text(out,
                     "\"\n"
                     "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                     "        COMPREPLY=($(compgen -W \"$commands help --help --version\" -- \"$current\"))\n"
                     "        return\n"
                     "    fi\n"
                     "    case $command in\n"
                     "    help) words=$commands ;;\n");
    for (const zest_command *const *c = zest_command_all(); *c; c++) bash_command(*c, out);
    zest_buffer_text(out, "    esac\n"
                          "    if [ -n \"$value\" ]; then\n"
                          "        COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n"
                          "    elif [ \"${current#-}\" != \"$current\" ]; then\n"
                          "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
                          "    else\n"
                          "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                          "    fi\n"
                          "}\n"
                          "complete -o default -F _zest zest\n");
}

/* ---- zsh ---- */

/* The first clause of a help text, for a string in single quotes with brackets. */
static void add_short(const char *text, size_t size, zest_buffer *out) {
    for (; size && strncmp(text, "; ", 2) && strncmp(text, ". ", 2); text++, size--) {
        if (*text == '\'')
            zest_buffer_text(out, "'\\''");
        else if (strchr("[]:\\", *text))
            zest_buffer_format(out, "\\%c", *text);
        else
            zest_buffer_add(out, text, 1);
    }
}

static void zsh_value(zest_option_id id, zest_buffer *out) {
    const zest_option_row *row = zest_option_row_at(id);
    zest_buffer words = {0};
    add_values(id, &words);
    zest_buffer_text(out, ":");
    for (const char *c = row->argument; *c; c++) zest_buffer_add(out, *c == '|' ? " " : c, 1);
    if (id == ZEST_OPTION_TASK)
        zest_buffer_text(out, ":_zest_tasks");
    else if (words.size)
        zest_buffer_format(out, ":(%s)", words.data);
    else if (strstr(row->argument, "DIR"))
        zest_buffer_text(out, ":_files -/");
    else if (strstr(row->argument, "FILE") || strstr(row->argument, "PATH") || strstr(row->argument, "RUN"))
        zest_buffer_text(out, ":_files");
    else
        zest_buffer_text(out, ": ");
    out->failed |= words.failed;
    zest_buffer_free(&words);
}

static void zsh_option(const zest_command *command, zest_option_id id, zest_buffer *out) {
    const zest_option_row *row = zest_option_row_at(id);
    const char *equals = row->kind == ZEST_KIND_FLAG ? "" : "=";
    zest_buffer_text(out, "            ");
    if (row->letter)
        zest_buffer_format(out, "'(-%c --%s)'{-%c%s,--%s%s}'[", row->letter, row->name, row->letter,
                           *equals ? "+" : "", row->name, equals);
    else
        zest_buffer_format(out, "'--%s%s[", row->name, equals);
    size_t size;
    const char *help = zest_command_option_help(command, row, &size);
    add_short(help, size, out);
    zest_buffer_text(out, "]");
    if (row->kind != ZEST_KIND_FLAG) zsh_value(id, out);
    zest_buffer_text(out, "' \\\n");
}

static void zsh_command(const zest_command *command, zest_buffer *out) {
    zest_buffer_format(out,
                       "    %s)\n        _arguments -s \\\n            '--help[show help]' \\\n            "
                       "'--version[show the version]' \\\n",
                       command->name);
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (is_taken(command, id)) zsh_option(command, (zest_option_id)id, out);
    if (has_choices(command)) {
        zest_buffer_text(out, "            '1:word:(");
        add_choices(command->words, out);
        zest_buffer_text(out, ")'\n        ;;\n");
    } else {
        zest_buffer_text(out, "            '*:file:_files'\n        ;;\n");
    }
}

static void zsh(zest_buffer *out) {
    zest_buffer tasks = {0};
    add_values(ZEST_OPTION_TASK, &tasks);
    zest_buffer_text(out, "#compdef zest\n"
                          "# zsh completion for zest, made by `zest completion zsh`.\n"
                          "_zest_tasks() {\n"
                          "    local -a tasks\n");
    zest_buffer_format(out, "    tasks=(%s)\n", tasks.data ? tasks.data : "");
    zest_buffer_text(out, "    _describe task tasks\n"
                          "    _files -g '*.task(-.)'\n"
                          "}\n"
                          "_zest() {\n"
                          "    local -a commands\n"
                          "    commands=(\n");
    for (const zest_command *const *c = zest_command_all(); *c; c++) {
        zest_buffer_format(out, "        '%s:", (*c)->name);
        add_short((*c)->summary, strlen((*c)->summary), out);
        zest_buffer_text(out, "'\n");
    }
    zest_buffer_text(out, "        'help:explain a command'\n"
                          "    )\n"
                          "    if (( CURRENT == 2 )); then\n"
                          "        _describe command commands\n"
                          "        return\n"
                          "    fi\n"
                          "    shift words\n"
                          "    (( CURRENT-- ))\n"
                          "    case $words[1] in\n"
                          "    help) _describe command commands ;;\n");
    for (const zest_command *const *c = zest_command_all(); *c; c++) zsh_command(*c, out);
    zest_buffer_text(out,
                     "    esac\n"
                     "}\n"
                     "if [ \"$funcstack[1]\" = _zest ]; then _zest \"$@\"; else compdef _zest zest; fi\n");
    out->failed |= tasks.failed;
    zest_buffer_free(&tasks);
}

/* ---- Command ---- */

static int run(const zest_options *options, char **words, int count) {
    (void)options, (void)count;
    zest_buffer out = {0};
    if (!strcmp(words[0], "bash"))
        bash(&out);
    else if (!strcmp(words[0], "zsh"))
        zsh(&out);
    else
        return zest_output_failf(ZEST_ERROR_ARGUMENT, "unknown shell '%s'; the shells are bash and zsh",
                                 words[0]);
    return zest_output_buffer(&out);
}

const zest_command zest_command_completion = {
    .name = "completion",
    .words = "bash|zsh",
    .min_words = 1,
    .max_words = 1,
    .summary = "print a completion script for bash or zsh",
    .description = "Prints a script that completes commands, options, and the values of options with a fixed "
                   "list. `make install` installs both scripts; otherwise:\n\n"
                   "    source <(zest completion bash)         in ~/.bashrc\n"
                   "    source <(zest completion zsh)          in ~/.zshrc, after compinit",
    .examples = "zest completion bash > ~/.local/share/bash-completion/completions/zest\tfor one user\n"
                "zest completion zsh > ~/.zfunc/_zest\tinto a folder of $fpath",
    .defaults = "",
    .users = 0,
    .run = run,
};
