#include "cli/output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int zest_output_fail(zest_status status, const char *message) {
    fprintf(stderr, "zest: %s\n", message);
    return status == ZEST_ERROR_ARGUMENT ? ZEST_EXIT_USAGE : ZEST_EXIT_FAILURE;
}

int zest_output_failf(zest_status status, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return zest_output_fail(status, message);
}

zest_ctx *zest_output_context(void) {
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx)
        zest_output_fail(
            ZEST_ERROR_MEMORY,
            "no context: ZEST_CPU may be amx, avx512bf16, avx512, avx2 or plain, or memory is short");
    return ctx;
}

json_t *zest_output_real(double number) { return isfinite(number) ? json_real(number) : json_null(); }

int zest_output_json(json_t *object) {
    char *text = object ? json_dumps(object, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    if (!text) return zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for the JSON result");
    int bad = printf("%s\n", text) < 0 || fflush(stdout);
    free(text);
    return bad ? zest_output_fail(ZEST_ERROR_FILE, "standard output cannot be written") : ZEST_EXIT_OK;
}
