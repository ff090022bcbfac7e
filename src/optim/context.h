/* The context: the message of the last error, and the kernels for this CPU. */
#ifndef ZEST_OPTIM_CONTEXT_H
#define ZEST_OPTIM_CONTEXT_H

#include "kernels/ops.h"
#include "base/error.h"

struct zest_ctx {
    zest_error error;
    zest_cpu cpu;
    const zest_vector_ops *ops;
};

/* Where a function with this context puts its message; NULL for a NULL context. */
static inline zest_error *zest_ctx_sink(zest_ctx *ctx) { return ctx ? &ctx->error : NULL; }

#endif
