/* The model or run that a command measures, with a progress bar and notes. */
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/target.h"
#include "io/hub.h"

static void on_note(const char *sentences, void *user) {
    (void)user;
    zest_output_notes(sentences);
}

zest_status zest_cli_target_open(zest_target *target, const char *path, const zest_options *given,
                                 zest_error *error) {
    int quiet = (int)zest_options_whole(given, ZEST_OPTION_QUIET);
    *target = (zest_target){0};
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx) return zest_error_memory(error, "a context", 0);
    zest_cli_ranks_join(ctx);
    zest_progress progress;
    zest_progress_begin(&progress, "rebuild", "steps", quiet);
    zest_target_callbacks callbacks = {.note = quiet ? NULL : on_note,
                                       .rebuild = zest_progress_sink(&progress)};
    zest_status status = zest_target_open(ctx, target, path, given, &callbacks, error);
    zest_progress_end(&progress);
    zest_ctx_free(ctx);
    return status;
}

static zest_status find_option(const zest_command *command, zest_options *options, zest_error *error) {
    const char *given = zest_options_text(options, ZEST_OPTION_MODEL);
    char *path = NULL;
    if (!*given || !(zest_option_row_at(ZEST_OPTION_MODEL)->users & command->users)) return ZEST_OK;
    zest_status status = zest_hub_find(given, &path, error);
    if (!status && strcmp(path, given)) status = zest_options_set_id(options, ZEST_OPTION_MODEL, path, error);
    free(path);
    return status;
}

zest_status zest_cli_model_find(const zest_command *command, zest_options *options,
                                const zest_arguments *arguments, char ***words, zest_error *error) {
    int sent = zest_cli_ranks_sent(options);
    int models = !sent && strstr(command->words, "MODEL") != NULL; /* else rank 0 finds them */
    *words = calloc((size_t)arguments->count + 1, sizeof **words);
    if (!*words) return zest_error_memory(error, "the command line", 0);
    zest_status status = sent ? ZEST_OK : find_option(command, options, error);
    for (int i = 0; i < arguments->count && !status; i++) {
        const char *given = arguments->words[i];
        if (models)
            status = zest_hub_find(given, &(*words)[i], error);
        else if (!((*words)[i] = strdup(given)))
            status = zest_error_memory(error, given, strlen(given));
    }
    return status;
}

void zest_cli_model_name(const char *path, zest_buffer *out) {
    enum { SHORT_COMMIT = 7 };
    char repo[ZEST_HUB_REPO_SIZE];
    if (!zest_hub_find_repo(path, repo)) {
        zest_buffer_text(out, path);
        return;
    }
    const char *commit = strstr(path, "/snapshots/") + strlen("/snapshots/");
    const char *file = commit + strcspn(commit, "/");
    zest_buffer_format(out, "%s, commit %.*s", repo, SHORT_COMMIT, commit);
    if (*file && file[1]) zest_buffer_format(out, ", %s", file + 1);
}
