/* zest generate --chat: conversations. */
#ifndef ZEST_CLI_CHAT_H
#define ZEST_CLI_CHAT_H

#include "cli/lm.h"

/* One turn (--prompt), or a turn for every line of standard input. */
zest_status zest_cli_chat(zest_cli_lm *m, const zest_options *options, zest_lines *lines, json_t **results,
                          zest_error *error);

#endif
