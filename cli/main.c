/* The program: finds the command, parses its options, runs it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/target.h"
#include "train/run_folder.h"

static int unknown_command(const char *name) {
    const char *meant = zest_command_suggest(name);
    return meant ? zest_output_failf(ZEST_ERROR_ARGUMENT, "unknown command '%s'; did you mean zest %s?", name,
                                     meant)
                 : zest_output_failf(ZEST_ERROR_ARGUMENT,
                                     "unknown command '%s'; zest --help lists the commands", name);
}

static int help(const char *name) {
    zest_buffer out = {0};
    if (!name) {
        zest_help_overview(&out);
        return zest_output_buffer(&out);
    }
    const zest_command *command = zest_command_find(name);
    int environment = !strcmp(name, "environment");
    if (!command && !environment) return unknown_command(name);
    if (environment)
        zest_help_environment(&out);
    else
        zest_help_command(command, &out);
    return zest_output_buffer(&out);
}

static int version(void) {
    printf("zest %s\n", zest_version());
    return ZEST_EXIT_OK;
}

/* Commands that read runs do not write over them. */
static zest_status check_target(const zest_command *command, const zest_options *options, zest_error *error) {
    if (!(command->users & (ZEST_FOR_PREDICT | ZEST_FOR_REPLAY | ZEST_FOR_REPORT))) return ZEST_OK;
    return zest_run_folder_refuse_target(zest_options_text(options, ZEST_OPTION_OUT), error);
}

/* Runs the command after replacing names of pulled models by paths. */
static int run_found(const zest_command *command, zest_options *options, const zest_arguments *arguments) {
    zest_error error = {0};
    char **words = NULL;
    zest_status status = check_target(command, options, &error);
    if (!status) status = zest_cli_model_find(command, options, arguments, &words, &error);
    int code =
        status ? zest_output_fail(status, error.message) : command->run(options, words, arguments->count);
    for (int i = 0; i < arguments->count && words; i++) free(words[i]);
    free(words);
    return code;
}

static int run(const zest_command *command, int argc, char **argv) {
    zest_options options;
    zest_arguments arguments;
    zest_error error;
    zest_cpu cpu; /* an invalid ZEST_CPU is reported by every command */
    if (zest_cpu_detect(&cpu, &error)) return zest_output_fail(error.status, error.message);
    zest_options_init(&options);
    zest_status status = zest_options_set_default(&options, command->defaults, &error);
    if (!status) status = zest_arguments_parse(command, argc, argv, &options, &arguments, &error);
    int code;
    if (status) {
        code = zest_output_fail(status, error.message);
        zest_output_note("`zest %s --help` explains", command->name);
    } else if (arguments.help) {
        code = help(command->name);
    } else if (arguments.version) {
        code = version();
    } else {
        code = zest_cli_ranks_run(command, &options, &arguments, run_found);
    }
    zest_options_free(&options);
    return code;
}

static int dispatch(int argc, char **argv) {
    const char *first = argc > 1 ? argv[1] : NULL;
    if (!first) return help(NULL) ? ZEST_EXIT_FAILURE : ZEST_EXIT_USAGE;
    if (!strcmp(first, "--help") || !strcmp(first, "-h") || !strcmp(first, "help"))
        return help(argc > 2 ? argv[2] : NULL);
    if (!strcmp(first, "--version") || !strcmp(first, "version")) return version();
    if (!strcmp(first, "manual")) {
        zest_buffer out = {0};
        zest_help_manual(&out);
        return zest_output_buffer(&out);
    }
    const zest_command *command = zest_command_find(first);
    return command ? run(command, argc - 2, argv + 2) : unknown_command(first);
}

/* Opens a closed standard stream on /dev/null in a mode in which using it fails; else the next file to be
 * opened, say a journal, would get its descriptor and the output meant for it. */
static void open_standard_streams(void) {
    for (int stream = 0; stream <= 2; stream++)
        if (fcntl(stream, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", stream ? O_RDONLY : O_WRONLY) < 0)
            _exit(ZEST_EXIT_FAILURE);
}

int main(int argc, char **argv) {
    open_standard_streams();
    zest_limit_omp_spin(argv);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write, not the end of the process */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file size limit */
    return zest_output_finish(dispatch(argc, argv));
}
