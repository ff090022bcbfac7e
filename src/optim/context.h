/* The context: the message of the last error, the kernels for this CPU, and the ranks that work together. */
#ifndef ZEST_OPTIM_CONTEXT_H
#define ZEST_OPTIM_CONTEXT_H

#include "kernels/ops.h"
#include "base/error.h"
#include "comm/comm.h"

struct zest_ctx {
    zest_error error;
    zest_cpu cpu;
    const zest_vector_ops *ops;
    zest_comm alone;
    zest_comm *comm; /* the ranks that work together; else `alone` */
};

/* Where a function with this context puts its message; NULL for a NULL context. */
static inline zest_error *zest_ctx_sink(zest_ctx *ctx) { return ctx ? &ctx->error : NULL; }

#endif
