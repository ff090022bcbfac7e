/* zest pull: downloads a model from the Hugging Face Hub. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/output.h"
#include "cli/progress.h"
#include "io/hub.h"

typedef struct {
    zest_progress progress;
    volatile sig_atomic_t *interrupted;
} watch;

static int on_progress(const zest_hub_progress *p, void *user) {
    watch *w = user;
    /* files already present must not distort the speed */
    if (p->received == 0) zest_progress_stage(&w->progress, "pull", "bytes", (double)p->done);
    if (zest_progress_due(&w->progress) && p->total) {
        char note[320];
        snprintf(note, sizeof note, "%s", p->note ? p->note : p->file);
        zest_progress_update(&w->progress, (double)p->done, (double)p->total, note);
    }
    return *w->interrupted != 0;
}

static int print_json(const zest_options *options, const char *repo, const zest_hub_result *pulled) {
    json_t *object = json_object(), *files = json_array();
    for (size_t i = 0; i < pulled->count; i++) {
        const zest_hub_file *file = &pulled->files[i];
        json_t *one = json_object();
        zest_output_set(&one, "name", zest_output_string(file->name));
        zest_output_set(&one, "size", json_integer((json_int_t)file->size));
        zest_output_set(&one, "hash", json_string(file->hash));
        zest_output_append(&files, one);
    }
    zest_output_set(&object, "model", json_string(repo));
    zest_output_set(&object, "revision", json_string(zest_options_text(options, ZEST_OPTION_REVISION)));
    zest_output_set(&object, "commit", json_string(pulled->commit));
    zest_output_set(&object, "folder", zest_output_string(pulled->folder));
    zest_output_set(&object, "received_bytes", json_integer((json_int_t)pulled->received));
    zest_output_set(&object, "files", files);
    return zest_output_json(object);
}

static int print(const zest_options *options, const char *repo, const zest_hub_result *pulled) {
    const char *revision = zest_options_text(options, ZEST_OPTION_REVISION);
    int other = strcmp(revision, "main") != 0;
    uint64_t size = 0;
    for (size_t i = 0; i < pulled->count; i++) size += pulled->files[i].size;
    zest_output_print("model   %s, commit %s\n", repo, pulled->commit);
    if (pulled->count)
        zest_output_print("files   %zu, %.1f MiB (%.1f MiB downloaded)\n", pulled->count,
                          (double)size / 1048576, (double)pulled->received / 1048576);
    zest_output_print("folder  %s\n", pulled->folder);
    if (!*zest_options_text(options, ZEST_OPTION_OUT))
        zest_output_print("use     --model %s%s%s\n", repo, other ? "@" : "", other ? revision : "");
    return ZEST_EXIT_OK;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    zest_hub_result pulled;
    watch w = {.interrupted = zest_output_catch_interrupt()};
    zest_hub_request request = {.repo = words[0],
                                .revision = zest_options_text(options, ZEST_OPTION_REVISION),
                                .out = zest_options_text(options, ZEST_OPTION_OUT),
                                .file = zest_options_text(options, ZEST_OPTION_FILE),
                                .progress = on_progress,
                                .user = &w};
    zest_progress_begin(&w.progress, "pull", "bytes", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    zest_status status = zest_hub_pull(&request, &pulled, &error);
    zest_progress_end(&w.progress);
    int code = status                                          ? zest_output_fail(status, error.message)
               : zest_options_whole(options, ZEST_OPTION_JSON) ? print_json(options, words[0], &pulled)
                                                               : print(options, words[0], &pulled);
    zest_hub_result_free(&pulled);
    return code;
}

const zest_command zest_command_pull = {
    .name = "pull",
    .words = "ORG/NAME",
    .min_words = 1,
    .max_words = 1,
    .summary = "download a model from the Hugging Face Hub",
    .description =
        "Downloads the files of a model that zest needs: config.json, the safetensors, the tokenizer's "
        "files. Sizes and hashes are checked. After Ctrl-C, a kill or a lost connection the same command "
        "resumes the download.\n\n"
        "The files go into the cache that Python's huggingface_hub uses (HF_HUB_CACHE, or hub/ in HF_HOME, "
        "which is ~/.cache/huggingface by default): each finds what the other downloaded. Every command "
        "then accepts ORG/NAME as a model, or ORG/NAME@REVISION for a revision other than main. --out DIR "
        "downloads into a plain folder instead.\n\n"
        "--file selects a GGUF file by name. PyTorch's .bin files are not supported: the error message "
        "shows the command that converts them.\n\n"
        "Gated and private models need a token: HF_TOKEN, or the file that `hf auth login` writes. "
        "HF_ENDPOINT chooses a mirror, HF_HUB_OFFLINE=1 forbids downloads, HF_HUB_DOWNLOAD_TIMEOUT is the "
        "number of seconds without data after which a request is sent again (30).",
    .examples =
        "zest pull FacebookAI/roberta-base\tthen: zest train --model FacebookAI/roberta-base ...\n"
        "zest pull HuggingFaceTB/SmolLM2-135M --revision main --out smollm2\tinto a folder\n"
        "zest pull unsloth/SmolLM2-135M-Instruct-GGUF --file SmolLM2-135M-Instruct-Q8_0.gguf\tone GGUF file",
    .options = "out\tdownload into this folder instead of the cache",
    .defaults = "",
    .users = ZEST_FOR_PULL,
    .run = run,
};
