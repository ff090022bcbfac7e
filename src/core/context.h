/* The context: where messages go, and which kernels this machine runs. */
#ifndef ZEST_CORE_CONTEXT_H
#define ZEST_CORE_CONTEXT_H

#include "backend/ops.h"
#include "base/error.h"

struct zest_ctx {
    zest_error error;
    zest_cpu cpu;
    const zest_ops *ops;
};

/* Where a function with this context reports; NULL for a NULL context. */
static inline zest_error *zest_ctx_sink(zest_ctx *ctx) { return ctx ? &ctx->error : NULL; }

#endif
