/* What task*.c share. */
#ifndef ZEST_DATA_TASK_INTERNAL_H
#define ZEST_DATA_TASK_INTERNAL_H

#include "data/task.h"

/* The text of `path`, understood as that of `original`: names and data are found from there. *task is empty
 * and is left so on error. */
zest_status zest_task_read_file(const char *path, const char *original, zest_task *task, zest_error *error);

#endif
