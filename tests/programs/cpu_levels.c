/* Prints the instruction sets below the best one of this CPU, from the highest: ZEST_CPU=... chooses one of them. */
#include <stdio.h>

#include "base/cpu.h"

int main(void) {
    zest_cpu best;
    if (zest_cpu_detect(&best, NULL)) return 1;
    for (int level = (int)best - 1; level >= 0; level--) puts(zest_cpu_name((zest_cpu)level));
    return 0;
}
