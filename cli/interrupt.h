/* Ctrl-C asks for a clean end; a second one ends zest at once. */
#ifndef ZEST_CLI_INTERRUPT_H
#define ZEST_CLI_INTERRUPT_H

#include <signal.h>

/* From now on SIGINT and SIGTERM set the flag that is returned. */
volatile sig_atomic_t *zest_interrupt_catch(void);

#endif
