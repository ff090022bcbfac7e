/* Whether this process was started with others: what launchers put into the environment of their processes. */
#include <limits.h>
#include <stdlib.h>

#include "comm/comm.h"

/* A whole number from `low` on in a variable; -1: there is none. */
static int number_in(const char *name, int low) {
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9') return -1;
    unsigned long number = strtoul(text, &end, 10);
    return *end || number > INT_MAX || (int)number < low ? -1 : (int)number;
}

/* MPI is not asked, since starting it takes a second and prints where there is no network. Slurm's variables alone say
 * nothing: a batch script has them too, and what it starts without srun is a single process. srun --mpi=pmix sets
 * PMIX_RANK, and the number of ranks in one of Slurm's. */
zest_comm_launch zest_comm_launched(void) {
    static const struct {
        const char *rank, *ranks, *launcher;
    } known[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun"}, /* Open MPI */
                 {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "srun"},
                 {"PMI_RANK", "PMI_SIZE", "mpiexec"}}; /* MPICH's, and srun --mpi=pmi2 */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int rank = number_in(known[i].rank, 0), ranks = number_in(known[i].ranks, 1);
        if (rank >= 0 && ranks > rank) return (zest_comm_launch){ranks, rank, known[i].launcher};
    }
    return (zest_comm_launch){1, 0, ""};
}
