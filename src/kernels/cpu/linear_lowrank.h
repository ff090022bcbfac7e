/* Linear maps whose weights are perturbed by noise of low rank, on top of any CPU's table. */
#ifndef ZEST_KERNELS_CPU_LINEAR_LOWRANK_H
#define ZEST_KERNELS_CPU_LINEAR_LOWRANK_H

#include "kernels/ops.h"

int zest_linear_is_low_rank(const zest_linear *job);
/* Such a job, as operations->linear runs others. own: a second workspace, which the product does not use. */
int zest_linear_low_rank(const zest_ops *operations, const zest_linear *job, int threads,
                         zest_workspace *scratch, zest_workspace *own);

#endif
