#include <stdlib.h>
#include <string.h>

#include "cli/lm.h"
#include "cli/output.h"

/* ---- Loading ---- */

/* Those of the given options that a model takes, as lines. */
static zest_status add_options(const zest_options *options, zest_buffer *text, zest_error *error) {
    for (int id = 0; id < ZEST_OPTION_COUNT; id++) {
        const zest_option_row *row = zest_option_row_at((zest_option_id)id);
        if (row->users & ZEST_FOR_LM && zest_options_given(options, (zest_option_id)id))
            zest_buffer_format(text, "%s=%s\n", row->name, zest_options_text(options, (zest_option_id)id));
    }
    return text->failed ? zest_error_memory(error, "the options", text->size) : ZEST_OK;
}

static zest_lm *load(zest_ctx *ctx, const char *path, int tokenizer_only, const zest_options *options,
                     zest_error *error) {
    zest_buffer text = {0};
    if (tokenizer_only) return zest_lm_load_tokenizer(ctx, path);
    zest_status status = add_options(options, &text, error);
    zest_lm *lm = status ? NULL : zest_lm_load(ctx, path, text.data);
    zest_buffer_free(&text);
    return lm;
}

int zest_cli_lm_run(const zest_options *options, const char *path, int tokenizer_only, zest_option_id given,
                    zest_cli_work *work) {
    zest_error error = {0};
    zest_lines lines = {0};
    zest_ctx *ctx = zest_output_context();
    if (!ctx) return ZEST_EXIT_FAILURE;
    int json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    json_t *results = json ? json_array() : NULL;
    zest_lm *lm = NULL;
    zest_status status = zest_lines_read(&lines, options, given, &error);
    if (!status && !(lm = load(ctx, path, tokenizer_only, options, &error)))
        status = zest_ctx_error_status(ctx);
    if (!status) status = work(ctx, lm, options, &lines, json ? &results : NULL);
    int code = lines.failed ? ZEST_EXIT_FAILURE : ZEST_EXIT_OK, printed = ZEST_EXIT_OK;
    if (!status && json) printed = zest_output_json(json_pack("{s:o}", "results", results));
    if (status) json_decref(results);
    if (status) printed = zest_output_fail(status, *error.message ? error.message : zest_ctx_error(ctx));
    zest_lm_free(lm);
    zest_lines_free(&lines);
    zest_ctx_free(ctx);
    return printed ? printed : code;
}
