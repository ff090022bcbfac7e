/* A command that mpirun or srun started several times: its processes work together, and rank 0 speaks for them. */
#ifndef ZEST_CLI_RANKS_H
#define ZEST_CLI_RANKS_H

#include "cli/command.h"
#include "comm/comm.h"

/* Whether this process is one of several, and not the first. It prints nothing but its own failure. */
int zest_cli_ranks_is_silent(void);
/* Runs the command by `run`, on all ranks after MPI was started; a process by itself only calls it. */
typedef int zest_cli_ranks_function(const zest_command *command, zest_options *options,
                                    const zest_arguments *arguments);
int zest_cli_ranks_run(const zest_command *command, zest_options *options, const zest_arguments *arguments,
                       zest_cli_ranks_function *run);
/* The ranks; NULL: a process by itself. */
zest_comm *zest_cli_ranks_comm(void);
/* Lets a new context work with the other ranks. */
void zest_cli_ranks_join(zest_ctx *ctx);
/* A failure with this message: whether this rank is to print it, and with what before it ("rank 2: "). */
int zest_cli_ranks_report(const char **before);
/* Whether rank 0 alone has files, which it sends to this rank: --broadcast. */
int zest_cli_ranks_sent(const zest_options *options);
/* The text of rank 0 in every rank: what it read from standard input, or from a file that only it has. */
zest_status zest_cli_ranks_share(zest_buffer *text, zest_error *error);

#endif
