/* Stands in for OpenMP's header in builds without it: those for fuzzing and with musl. They use one thread. */
#ifndef ZEST_FUZZ_OMP_H
#define ZEST_FUZZ_OMP_H
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_get_num_threads(void) { return 1; }
static inline void omp_set_num_threads(int count) { (void)count; }
#endif
