/* --broadcast: rank 0 alone has the files of a model, a task and a run. It sends the other ranks, once and in chunks, what
 * they would read: settings, tokenizer, task and data as whole files, and of weight files the headers. They keep these
 * in a temporary folder of their own. The weights are sent from memory to memory when rank 0 has loaded or rebuilt them
 * and the others have a model of that shape. Everything that arrives is compared by fingerprint. */
#ifndef ZEST_TRAIN_BROADCAST_H
#define ZEST_TRAIN_BROADCAST_H

#include "comm/comm.h"
#include "train/load.h"

typedef struct {
    int used;     /* files were sent, by this rank or to it */
    char *folder; /* of what was sent to this rank; NULL: it reads its own */
    /* where it is in there; NULL: it was not sent */
    char *run, *model, *home, *task, *text;
    zest_task_place places[3]; /* of the task's data */
} zest_broadcast;

/* With several ranks and --broadcast; otherwise does nothing. path: the run or the model that the options are on top of,
 * or NULL. An error is one of all ranks. Free it whatever this returns. */
zest_status zest_broadcast_files(zest_comm *comm, const char *path, const zest_options *given,
                                 zest_broadcast *b, zest_error *error);
void zest_broadcast_free(zest_broadcast *b); /* deletes the folder, too */

/* Puts the paths of what was sent into the options. */
zest_status zest_broadcast_redirect(const zest_broadcast *b, zest_options *options, zest_error *error);

/* The weights of rank 0 to all. all: those that are not trained, too. */
zest_status zest_broadcast_weights(zest_comm *comm, const zest_loaded *loaded, int all, zest_error *error);

#endif
