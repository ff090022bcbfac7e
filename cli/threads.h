/* How the program's threads wait for each other. */
#ifndef ZEST_CLI_THREADS_H
#define ZEST_CLI_THREADS_H

/* OpenMP's threads wait by spinning for milliseconds, which is right on an empty machine and ruinous on a
 * busy one: a spinning thread keeps the core that the thread it waits for needs (small models became ten
 * times slower). Its runtime reads how long to spin when the process starts, so the program starts itself
 * once more with a short spin, unless the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT. Returns when there
 * is nothing to do, or when it cannot be done. */
void zest_threads_be_polite(char **argv);

#endif
