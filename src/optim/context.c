/* The context, and the version of the library. */
#include "optim/context.h"

#include <stdlib.h>

const char *zest_version(void) { return ZEST_VERSION; }

zest_ctx *zest_ctx_new(void) {
    zest_cpu cpu;
    if (zest_cpu_detect(&cpu, NULL)) return NULL;
    zest_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx) return NULL;
    ctx->cpu = cpu;
    ctx->ops = zest_vector_ops_for(cpu);
    zest_comm_alone(&ctx->alone);
    ctx->comm = &ctx->alone;
    return ctx;
}

void zest_ctx_free(zest_ctx *ctx) { free(ctx); }

const char *zest_ctx_error(const zest_ctx *ctx) { return ctx ? ctx->error.message : "no context"; }

zest_status zest_ctx_status(const zest_ctx *ctx) { return ctx ? ctx->error.status : ZEST_ERROR_ARGUMENT; }

const char *zest_ctx_cpu(const zest_ctx *ctx) { return ctx ? zest_cpu_name(ctx->cpu) : "none"; }
