/* Which files of a repository zest needs. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "hub/hub_list.h"
#include "hub/hub_name.h"
#include "params/safetensors.h"

static const char *const small_files[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
};
enum { SMALL_FILES = sizeof small_files / sizeof *small_files };

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static zest_status add(zest_hub_choice *choice, const zest_hub_file *file, zest_error *error) {
    if (!file->hash[0])
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the server gives no size and hash of it, so it could not be checked. Is "
                              "HF_ENDPOINT a mirror that leaves them out?",
                              file->name);
    for (size_t i = 0; i < choice->count; i++)
        if (choice->files[i] == file) return ZEST_OK;
    const zest_hub_file **longer = realloc(choice->files, (choice->count + 1) * sizeof *longer);
    if (!longer) return zest_error_memory(error, file->name, 0);
    choice->files = longer;
    choice->files[choice->count++] = file;
    return ZEST_OK;
}

/* ---- Repositories without what we need ---- */

/* Up to eight names with this ending: "a.gguf, b.gguf". Returns how many there are. */
static size_t list_names(const zest_hub_list *list, const char *ending, zest_buffer *out) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (!ends_with(list->files[i].name, ending)) continue;
        if (count++ < 8) zest_buffer_format(out, "%s%s", count > 1 ? ", " : "", list->files[i].name);
    }
    if (count > 8) zest_buffer_format(out, " and %zu more", count - 8);
    return count;
}

static zest_status explain_weights(const zest_hub_list *list, const char *repo, zest_error *error) {
    zest_buffer ggufs = {0}, pickles = {0};
    zest_status status;
    const char *slash = strrchr(repo, '/'), *folder = slash ? slash + 1 : repo;
    if (list_names(list, ".gguf", &ggufs) && !ggufs.failed)
        status = zest_error_set(
            error, ZEST_ERROR_FILE,
            "%s: has no safetensors, but GGUF files. Take one of them with --file: %.700s", repo, ggufs.data);
    else if (list_names(list, ".bin", &pickles) && !pickles.failed)
        status = zest_error_set(
            error, ZEST_ERROR_FILE,
            "%s: has no safetensors, but %.100s, PyTorch pickles, which zest does not read because they can "
            "run "
            "code. Convert it once, with PyTorch and transformers, into the folder %s: python3 -c 'import "
            "sys; "
            "from transformers import %s as M, AutoTokenizer as T; [c.from_pretrained(sys.argv[1])"
            ".save_pretrained(sys.argv[2]) for c in (M, T)]' %s %s",
            repo, pickles.data, folder, list->auto_class, repo, folder);
    else
        status = zest_error_set(
            error, ZEST_ERROR_FILE,
            "%s: has neither model.safetensors nor model.safetensors.index.json, so no weights "
            "that zest reads",
            repo);
    zest_buffer_free(&ggufs);
    zest_buffer_free(&pickles);
    return status;
}

static zest_status explain_file(const zest_hub_list *list, const char *only, const char *repo,
                                zest_error *error) {
    zest_buffer names = {0};
    const char *dot = strrchr(only, '.');
    size_t count = list_names(list, dot ? dot : "", &names);
    zest_status status = zest_error_set(error, ZEST_ERROR_FILE, "%s: has no file %s%s%.600s", repo, only,
                                        count ? "; it has " : "", count && !names.failed ? names.data : "");
    zest_buffer_free(&names);
    return status;
}

/* ---- The choice ---- */

static zest_status choose_model(zest_hub_choice *choice, const zest_hub_list *list, const char *repo,
                                zest_error *error) {
    const zest_hub_file *weights = zest_hub_list_find(list, "model.safetensors"),
                        *index = zest_hub_list_find(list, "model.safetensors.index.json"),
                        *config = zest_hub_list_find(list, "config.json");
    if (!weights && !index) return explain_weights(list, repo, error);
    if (!config)
        return zest_error_set(error, ZEST_ERROR_FILE,
                              "%s: has no config.json, which says what kind of model it is", repo);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < SMALL_FILES && !status; i++) {
        const zest_hub_file *file = zest_hub_list_find(list, small_files[i]);
        if (file) status = add(choice, file, error);
    }
    if (!status) status = add(choice, weights ? weights : index, error);
    if (!weights) choice->index = index;
    return status ? status : add(choice, config, error);
}

zest_status zest_hub_choice_make(zest_hub_choice *choice, const zest_hub_list *list, const char *only,
                                 const char *repo, zest_error *error) {
    *choice = (zest_hub_choice){0};
    if (!*only) return choose_model(choice, list, repo, error);
    const zest_hub_file *file = zest_hub_list_find(list, only);
    return file ? add(choice, file, error) : explain_file(list, only, repo, error);
}

zest_status zest_hub_choice_shards(zest_hub_choice *choice, const zest_hub_list *list, const char *index_path,
                                   const char *repo, zest_error *error) {
    char **names = NULL;
    size_t count = 0;
    const zest_hub_file *config = choice->files[--choice->count]; /* stays the last */
    zest_status status = zest_safetensors_shards(index_path, repo, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        const zest_hub_file *file = zest_hub_list_find(list, names[i]);
        status =
            file ? add(choice, file, error)
                 : zest_error_set(error, ZEST_ERROR_FORMAT, "%s names %.200s, which is not in the repository",
                                  choice->index->name, names[i]);
    }
    for (size_t i = 0; i < count; i++) free(names[i]);
    free(names);
    return status ? status : add(choice, config, error);
}

void zest_hub_choice_free(zest_hub_choice *choice) {
    free(choice->files);
    *choice = (zest_hub_choice){0};
}
