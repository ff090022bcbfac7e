/* The run folders that minimize leaves, for the commands that read them. */
#ifndef ZEST_CLI_RUN_FOLDER_H
#define ZEST_CLI_RUN_FOLDER_H

#include "base/error.h"

/* path is a run folder or its journal. Both results are to be freed; *start is NULL when there is no such
 * file. */
zest_status zest_run_folder_find(const char *path, char **journal, char **start, zest_error *error);

#endif
