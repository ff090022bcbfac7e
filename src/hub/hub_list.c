#include "hub/hub_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "hub/hub_name.h"

enum { FILES = 1000000 };

/* The class of transformers to load the model with: one of ours, whatever the answer says. */
static const char *auto_class(const json_t *answer) {
    const json_t *info = json_object_get(answer, "transformersInfo");
    const char *named = json_string_value(json_object_get(info, "auto_model")),
               *task = json_string_value(json_object_get(answer, "pipeline_tag"));
    int masked = (named && !strcmp(named, "AutoModelForMaskedLM")) || (task && !strcmp(task, "fill-mask"));
    return masked ? "AutoModelForMaskedLM" : "AutoModelForCausalLM";
}

/* Hash and size of an entry: those of the LFS object, or of git's blob. */
static int read_entry(const json_t *entry, zest_hub_file *file) {
    const json_t *lfs = json_object_get(entry, "lfs"), *size = json_object_get(entry, "size");
    const char *hash = json_string_value(json_object_get(entry, "blobId"));
    size_t digits = ZEST_SHA_1_DIGITS;
    if (json_is_object(lfs)) {
        const json_t *sha256 = json_object_get(lfs, "sha256"), *own = json_object_get(lfs, "size");
        hash = json_string_value(sha256 ? sha256 : json_object_get(lfs, "oid"));
        digits = ZEST_SHA_256_DIGITS;
        if (own) size = own;
    }
    if (!hash || !zest_hub_name_hex(hash, digits) || !json_is_integer(size) || json_integer_value(size) < 0)
        return 0;
    file->size = (uint64_t)json_integer_value(size);
    memcpy(file->hash, hash, digits + 1);
    return 1;
}

static zest_status read_files(const json_t *siblings, zest_hub_list *list, const char *source,
                              zest_error *error) {
    size_t total = json_array_size(siblings);
    if (!json_is_array(siblings) || total > FILES)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the answer has no list of files", source);
    list->files = calloc(total + 1, sizeof *list->files);
    if (!list->files) return zest_error_memory(error, source, total * sizeof *list->files);
    for (size_t i = 0; i < total; i++) {
        const json_t *entry = json_array_get(siblings, i);
        const char *name = json_string_value(json_object_get(entry, "rfilename"));
        /* no name that zest needs is of another kind, so such files can be left alone */
        if (!name || !zest_hub_name_file(name)) continue;
        zest_hub_file *file = &list->files[list->count];
        read_entry(entry, file); /* without a hash it cannot be downloaded, which choice_make says */
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
            "%s: the answer is not the JSON of a Hugging Face Hub. Is HF_ENDPOINT right, and no "
            "login page of a network in between?",
            source);
    }
    const char *commit = json_string_value(json_object_get(answer, "sha"));
    zest_status status = ZEST_OK;
    if (!commit || !zest_hub_name_hex(commit, ZEST_SHA_1_DIGITS))
        status = zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the answer has no commit", source);
    else
        memcpy(list->commit, commit, sizeof list->commit);
    list->auto_class = auto_class(answer);
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
