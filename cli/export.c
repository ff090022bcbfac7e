/* zest export: a run or a model as a GGUF file. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/lm.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "lm/target.h"

static void on_rebuild(uint64_t done, uint64_t total, void *user) {
    zest_progress_update(user, (double)done, (double)total, NULL);
}

static zest_status check_target(const char *out, const char *source, zest_error *error) {
    struct stat there, here;
    if (!*out) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "no file was named: give --gguf FILE");
    if (stat(out, &there)) return ZEST_OK;
    if (S_ISDIR(there.st_mode))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--gguf %s: is a folder; name a file", out);
    if (!stat(source, &here) && here.st_dev == there.st_dev && here.st_ino == there.st_ino)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--gguf %s: is the model that is read; choose another name", out);
    return ZEST_OK;
}

/* The tokenizer and the weights as they are stored; those of a run at --step. */
static zest_status open_source(zest_cli_lm *m, const char *path, const zest_options *options,
                               zest_progress *progress, zest_error *error) {
    zest_run_folder folder;
    zest_status status = zest_run_folder_of(path, &folder, error);
    if (status) return status;
    int is_run = !zest_target_is_model(path) && zest_run_folder_is_training(&folder);
    zest_run_folder_free(&folder);
    if (!is_run) return zest_cli_lm_open(m, path, 0, options, error);
    return zest_cli_lm_open_run(m, path, zest_options_text(options, ZEST_OPTION_STEP), options, on_rebuild,
                                progress, error);
}

static int report(const zest_cli_lm *m, const zest_options *options) {
    const char *out = zest_options_text(options, ZEST_OPTION_GGUF),
               *type = zest_options_text(options, ZEST_OPTION_GGUF_TYPE);
    struct stat info = {0};
    (void)stat(out, &info);
    if (zest_options_whole(options, ZEST_OPTION_JSON))
        return zest_output_json(json_pack("{s:o, s:s, s:I, s:I, s:I}", "gguf", zest_output_string(out),
                                          "type", type, "bytes", (json_int_t)info.st_size, "parameters",
                                          (json_int_t)m->info.parameters, "step", (json_int_t)m->info.step));
    zest_output_print("%s: %s, %llu parameters, %.1f MiB, read back and compared\n", out, type,
                      (unsigned long long)m->info.parameters, (double)info.st_size / (1 << 20));
    return ZEST_EXIT_OK;
}

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    zest_cli_lm m = {0};
    zest_progress progress;
    const char *out = zest_options_text(options, ZEST_OPTION_GGUF);
    zest_progress_begin(&progress, "rebuild", "steps", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    zest_status status = check_target(out, words[0], &error);
    if (!status) status = open_source(&m, words[0], options, &progress, &error);
    zest_progress_end(&progress);
    if (!status)
        status = zest_cli_lm_error(
            &m, zest_lm_save_gguf(m.lm, out, zest_options_text(options, ZEST_OPTION_GGUF_TYPE)), &error);
    int code = status ? zest_output_fail(status, error.message) : report(&m, options);
    zest_cli_lm_close(&m);
    return code;
}

const zest_command zest_command_export = {
    .name = "export",
    .words = "RUN|MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "write a run or a model as a GGUF file, for llama.cpp",
    .description =
        "Writes weights, tokenizer and chat template as one file for llama.cpp and what is built on it. "
        "Families: Llama, Mistral, Qwen2, Qwen3, Phi-3, GPT-2, Gemma 2 and 3. Of a run, the weights of "
        "--step.\n\n"
        "Vectors stay f32. With types of fewer than six bits the output matrix (or the embeddings, where "
        "they are the output matrix, too) is q6_k. Rows that are no multiple of a type's block, 256 for the "
        "k types and 32 for the others, take q4_0, q5_0, q5_1 or q8_0 instead of q2_k and q3_k, q4_k, q5_k "
        "or q6_k, and f16 instead of the others.\n\n"
        "Before the file replaces an older one it is read back: keys, names and shapes must be those that "
        "were meant, f32 weights the same bits, others within what their type can hold. A tokenizer whose "
        "tokens would differ is refused.",
    .examples = "zest export run1 --gguf model.gguf --type q8_0\tthe best weights of a run, 8.5 bits each\n"
                "zest export HuggingFaceTB/SmolLM2-135M --gguf smollm2.gguf --type f32\ta model as it is",
    .options = "model\tof a run: where its model is now, if it was moved",
    .defaults = "step=best",
    .users = ZEST_FOR_EXPORT,
    .run = run,
};
