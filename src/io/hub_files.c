/* Names of the Hub (repositories, revisions, files), the file list of a repository, and the selection of
 * the files that zest needs. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/json.h"
#include "io/hub_internal.h"
#include "io/safetensors.h"

enum { COMPONENT_SIZE = 200 }; /* leaves space for suffixes such as .incomplete in a name of 255 bytes */

static int is_control(char c) { return (unsigned char)c < 32 || c == 127; }

int zest_hub_name_is_repo(const char *name) {
    size_t length = strlen(name), slashes = 0;
    if (!length || length >= ZEST_HUB_REPO_SIZE || strstr(name, "--") || strstr(name, "..")) return 0;
    for (size_t i = 0; i < length; i++) {
        char c = name[i], next = name[i + 1];
        int edge = i == 0 || name[i - 1] == '/' || next == '\0' || next == '/';
        if (c == '/')
            slashes++;
        else if (!isalnum((unsigned char)c) && c != '_' && (edge || (c != '-' && c != '.')))
            return 0;
        if (c == '/' && (i == 0 || next == '\0' || next == '/')) return 0;
    }
    return slashes <= 1 && !(length > 4 && !strcmp(name + length - 4, ".git"));
}

int zest_hub_name_has_org(const char *name) { return strchr(name, '/') != NULL; }

/* A relative path whose components are not empty, "." or "..". */
static int is_relative_path(const char *name, size_t size) {
    size_t length = strlen(name);
    if (!length || length >= size) return 0;
    for (size_t i = 0; i < length; i++)
        if (is_control(name[i]) || name[i] == '\\') return 0;
    for (const char *part = name;; part++) {
        size_t n = strcspn(part, "/");
        if (n == 0 || n > COMPONENT_SIZE || (n == 1 && part[0] == '.') || (n == 2 && !strncmp(part, "..", 2)))
            return 0;
        part += n;
        if (!*part) return 1;
    }
}

int zest_hub_name_is_revision(const char *name) {
    return is_relative_path(name, ZEST_HUB_REVISION_SIZE) && !strstr(name, "..") &&
           !strpbrk(name, " ~^:?*[@");
}

int zest_hub_name_is_file(const char *name) { return is_relative_path(name, ZEST_HUB_FILE_SIZE); }

int zest_hub_name_is_hex(const char *text, size_t digits) {
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

int zest_hub_name_split(const char *name, char repo[ZEST_HUB_REPO_SIZE],
                        char revision[ZEST_HUB_REVISION_SIZE]) {
    const char *at = strchr(name, '@');
    size_t length = at ? (size_t)(at - name) : strlen(name);
    if (length >= ZEST_HUB_REPO_SIZE) return 0;
    memcpy(repo, name, length);
    repo[length] = '\0';
    if (snprintf(revision, ZEST_HUB_REVISION_SIZE, "%s", at ? at + 1 : "main") >= ZEST_HUB_REVISION_SIZE)
        return 0;
    return zest_hub_name_is_repo(repo) && zest_hub_name_is_revision(revision);
}

const char *zest_hub_name_known(const char *name) {
    static const char *const repos[] = {
        "FacebookAI/roberta-base",
        "FacebookAI/roberta-large",
        "distilbert/distilroberta-base",
        "google-bert/bert-base-uncased",
        "google-bert/bert-base-cased",
        "google-bert/bert-large-uncased",
        "google-bert/bert-large-cased",
        "openai-community/gpt2",
        "openai-community/gpt2-medium",
        "openai-community/gpt2-large",
        "openai-community/gpt2-xl",
        "distilbert/distilgpt2",
        "facebook/opt-125m",
        "facebook/opt-350m",
        "facebook/opt-1.3b",
        "facebook/opt-2.7b",
        "facebook/opt-6.7b",
        "facebook/opt-13b",
        "HuggingFaceTB/SmolLM2-135M",
        "HuggingFaceTB/SmolLM2-360M",
        "HuggingFaceTB/SmolLM2-1.7B",
        "Qwen/Qwen2-0.5B",
        "Qwen/Qwen2-1.5B",
        "Qwen/Qwen2.5-0.5B",
        "Qwen/Qwen2.5-1.5B",
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        "meta-llama/Llama-3.2-1B",
        "mistralai/Mistral-7B-v0.1",
    };
    for (size_t i = 0; i < sizeof repos / sizeof *repos; i++)
        if (!strcasecmp(strchr(repos[i], '/') + 1, name)) return repos[i];
    return NULL;
}

void zest_hub_name_sanitize(char *text) {
    for (; *text; text++)
        if (is_control(*text)) *text = '.';
}

enum { MAX_FILES = 1000000 };

/* The class of Python's transformers for this model: always one of these two. */
static const char *find_auto_class(const json_t *answer) {
    const json_t *info = json_object_get(answer, "transformersInfo");
    const char *named = json_string_value(json_object_get(info, "auto_model")),
               *task = json_string_value(json_object_get(answer, "pipeline_tag"));
    int masked = (named && !strcmp(named, "AutoModelForMaskedLM")) || (task && !strcmp(task, "fill-mask"));
    return masked ? "AutoModelForMaskedLM" : "AutoModelForCausalLM";
}

/* Hash and size of an entry: those of the LFS object, or of the git blob. */
static int read_entry(const json_t *entry, zest_hub_file *file) {
    const json_t *lfs = json_object_get(entry, "lfs"), *size = json_object_get(entry, "size");
    const char *hash = json_string_value(json_object_get(entry, "blobId"));
    size_t digits = ZEST_SHA_1_DIGITS;
    if (json_is_object(lfs)) {
        const json_t *sha256 = json_object_get(lfs, "sha256"), *lfs_size = json_object_get(lfs, "size");
        hash = json_string_value(sha256 ? sha256 : json_object_get(lfs, "oid"));
        digits = ZEST_SHA_256_DIGITS;
        if (lfs_size) size = lfs_size;
    }
    if (!hash || !zest_hub_name_is_hex(hash, digits) || !json_is_integer(size) ||
        json_integer_value(size) < 0)
        return 0;
    file->size = (uint64_t)json_integer_value(size);
    memcpy(file->hash, hash, digits + 1);
    return 1;
}

static zest_status read_files(const json_t *siblings, zest_hub_list *list, const char *source,
                              zest_error *error) {
    size_t total = json_array_size(siblings);
    if (!json_is_array(siblings) || total > MAX_FILES)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the response has no list of files", source);
    list->files = calloc(total + 1, sizeof *list->files);
    if (!list->files) return zest_error_memory(error, source, total * sizeof *list->files);
    for (size_t i = 0; i < total; i++) {
        const json_t *entry = json_array_get(siblings, i);
        const char *name = json_string_value(json_object_get(entry, "rfilename"));
        /* zest needs no file with any other name, so such files are skipped */
        if (!name || !zest_hub_name_is_file(name)) continue;
        zest_hub_file *file = &list->files[list->count];
        read_entry(entry,
                   file); /* without a hash it cannot be downloaded: zest_hub_selection_make reports that */
        file->name = strdup(name);
        if (!file->name) return zest_error_memory(error, source, strlen(name));
        list->count++;
    }
    return ZEST_OK;
}

zest_status zest_hub_list_parse(const char *text, size_t size, const char *source, zest_hub_list *list,
                                zest_error *error) {
    json_error_t why;
    *list = (zest_hub_list){0};
    json_t *answer = zest_json_load(text, size, ZEST_JSON_BIG_AS_REAL, &why);
    if (!json_is_object(answer)) {
        json_decref(answer);
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: the response is not the JSON of a Hugging Face Hub. Check HF_ENDPOINT, and that no "
            "login page of the network intercepts requests",
            source);
    }
    const char *commit = json_string_value(json_object_get(answer, "sha"));
    zest_status status = ZEST_OK;
    if (!commit || !zest_hub_name_is_hex(commit, ZEST_SHA_1_DIGITS))
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the response has no commit", source);
    else
        memcpy(list->commit, commit, sizeof list->commit);
    list->auto_class = find_auto_class(answer);
    if (!status) status = read_files(json_object_get(answer, "siblings"), list, source, error);
    json_decref(answer);
    return status;
}

void zest_hub_list_free(zest_hub_list *list) {
    for (size_t i = 0; i < list->count; i++) free(list->files[i].name);
    free(list->files);
    *list = (zest_hub_list){0};
}

const zest_hub_file *zest_hub_list_find(const zest_hub_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->files[i].name, name)) return &list->files[i];
    return NULL;
}

/* ---- Selection of the files that zest needs ---- */

static const char *const metadata_files[] = {
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
enum { METADATA_FILES = sizeof metadata_files / sizeof *metadata_files };

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static zest_status add(zest_hub_selection *selection, const zest_hub_file *file, zest_error *error) {
    if (!file->hash[0])
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the server sent no size and hash, so a download could not be verified. Is "
                              "HF_ENDPOINT a mirror that omits them?",
                              file->name);
    for (size_t i = 0; i < selection->count; i++)
        if (selection->files[i] == file) return ZEST_OK;
    const zest_hub_file **grown = realloc(selection->files, (selection->count + 1) * sizeof *grown);
    if (!grown) return zest_error_memory(error, file->name, 0);
    selection->files = grown;
    selection->files[selection->count++] = file;
    return ZEST_OK;
}

/* ---- Messages for repositories without usable weights ---- */

/* Appends up to eight names with this suffix: "a.gguf, b.gguf". Returns the number of all. */
static size_t list_names(const zest_hub_list *list, const char *suffix, zest_buffer *out) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (!ends_with(list->files[i].name, suffix)) continue;
        if (count++ < 8) zest_buffer_format(out, "%s%s", count > 1 ? ", " : "", list->files[i].name);
    }
    if (count > 8) zest_buffer_format(out, " and %zu more", count - 8);
    return count;
}

static zest_status explain_missing_weights(const zest_hub_list *list, const char *repo, zest_error *error) {
    zest_buffer ggufs = {0}, pickles = {0};
    zest_status status;
    const char *slash = strrchr(repo, '/'), *folder = slash ? slash + 1 : repo;
    if (list_names(list, ".gguf", &ggufs) && !ggufs.failed)
        status =
            zest_error_set(error, ZEST_ERROR_FILE,
                           "%s: has no safetensors, but GGUF files. Choose one of them with --file: %.700s",
                           repo, ggufs.data);
    else if (list_names(list, ".bin", &pickles) && !pickles.failed)
        status = zest_error_set(
            error, ZEST_ERROR_FILE,
            "%s: has no safetensors, but %.100s, PyTorch pickles, which zest does not read because they "
            "can run code. Convert it once, with PyTorch and transformers, into the folder %s: python3 -c "
            "'import sys; from transformers import %s as M, AutoTokenizer as T; "
            "[c.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2]) for c in (M, T)]' %s %s",
            repo, pickles.data, folder, list->auto_class, repo, folder);
    else
        status =
            zest_error_set(error, ZEST_ERROR_FILE,
                           "%s: has neither model.safetensors nor model.safetensors.index.json: no weights "
                           "that zest can read",
                           repo);
    zest_buffer_free(&ggufs);
    zest_buffer_free(&pickles);
    return status;
}

static zest_status explain_missing_file(const zest_hub_list *list, const char *only, const char *repo,
                                        zest_error *error) {
    zest_buffer names = {0};
    const char *dot = strrchr(only, '.');
    size_t count = list_names(list, dot ? dot : "", &names);
    zest_status status = zest_error_set(error, ZEST_ERROR_FILE, "%s: has no file %s%s%.600s", repo, only,
                                        count ? "; it has " : "", count && !names.failed ? names.data : "");
    zest_buffer_free(&names);
    return status;
}

static zest_status choose_model(zest_hub_selection *selection, const zest_hub_list *list, const char *repo,
                                zest_error *error) {
    const zest_hub_file *weights = zest_hub_list_find(list, "model.safetensors"),
                        *index = zest_hub_list_find(list, "model.safetensors.index.json"),
                        *config = zest_hub_list_find(list, "config.json");
    if (!weights && !index) return explain_missing_weights(list, repo, error);
    if (!config)
        return zest_error_set(error, ZEST_ERROR_FILE,
                              "%s: has no config.json, so its architecture is unknown", repo);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < METADATA_FILES && !status; i++) {
        const zest_hub_file *file = zest_hub_list_find(list, metadata_files[i]);
        if (file) status = add(selection, file, error);
    }
    const zest_hub_file *pieces = zest_hub_list_find(list, "tokenizer.model");
    if (!status && pieces && !zest_hub_list_find(list, "tokenizer.json"))
        status = add(selection, pieces, error);
    if (!status) status = add(selection, weights ? weights : index, error);
    if (!weights) selection->index = index;
    return status ? status : add(selection, config, error);
}

zest_status zest_hub_selection_make(zest_hub_selection *selection, const zest_hub_list *list,
                                    const char *only, const char *repo, zest_error *error) {
    *selection = (zest_hub_selection){0};
    if (!*only) return choose_model(selection, list, repo, error);
    const zest_hub_file *file = zest_hub_list_find(list, only);
    return file ? add(selection, file, error) : explain_missing_file(list, only, repo, error);
}

zest_status zest_hub_selection_add_shards(zest_hub_selection *selection, const zest_hub_list *list,
                                          const char *index_path, const char *repo, zest_error *error) {
    char **names = NULL;
    size_t count = 0;
    const zest_hub_file *config = selection->files[--selection->count]; /* stays last */
    zest_status status = zest_safetensors_shards(index_path, repo, &names, &count, error);
    for (size_t i = 0; i < count && !status; i++) {
        const zest_hub_file *file = zest_hub_list_find(list, names[i]);
        status =
            file ? add(selection, file, error)
                 : zest_error_set(error, ZEST_ERROR_FORMAT, "%s names %.200s, which is not in the repository",
                                  selection->index->name, names[i]);
    }
    for (size_t i = 0; i < count; i++) free(names[i]);
    free(names);
    return status ? status : add(selection, config, error);
}

void zest_hub_selection_free(zest_hub_selection *selection) {
    free(selection->files);
    *selection = (zest_hub_selection){0};
}
