#include "cli/interrupt.h"

#include <stddef.h>

static volatile sig_atomic_t interrupted; /* a handler has nothing else to write to */

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

volatile sig_atomic_t *zest_interrupt_catch(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &interrupted;
}
