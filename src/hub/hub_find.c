/* Models by name: what was pulled before. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/hub.h"
#include "hub/hub_name.h"
#include "hub/hub_settings.h"
#include "hub/hub_store.h"

enum { REF_LIMIT = 4096 };

/* A name being looked up. */
typedef struct {
    const char *name; /* as given */
    char repo[ZEST_HUB_REPO_SIZE], revision[ZEST_HUB_REVISION_SIZE];
    const char *cache;
    zest_error *error;
} lookup;

static int has(const char *folder, const char *file) {
    char *path = zest_file_join(folder, file);
    int found = path && access(path, F_OK) == 0;
    free(path);
    return found;
}

int zest_hub_find_repo(const char *path, char repo[ZEST_HUB_REPO_SIZE]) {
    const char *start = strstr(path, "/models--"), *snapshot = strstr(path, "/snapshots/");
    if (!start || !snapshot || snapshot < start) return 0;
    start += strlen("/models--");
    const char *dashes = strstr(start, "--");
    int org = dashes && dashes < snapshot ? (int)(dashes - start) : 0;
    const char *name = org ? dashes + 2 : start;
    if (strcspn(snapshot + strlen("/snapshots/"), "/") != ZEST_SHA_1_DIGITS) return 0;
    int size = snprintf(repo, ZEST_HUB_REPO_SIZE, "%.*s%s%.*s", org, start, org ? "/" : "",
                        (int)(snapshot - name), name);
    return size < ZEST_HUB_REPO_SIZE && zest_hub_name_repo(repo);
}

/* ---- Messages ---- */

/* A snapshot that is gone may be named in the options of an old run. */
zest_status zest_hub_find_missing(const char *path, zest_error *error) {
    char repo[ZEST_HUB_REPO_SIZE];
    if (!zest_hub_find_repo(path, repo))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
    return zest_error_set(error, ZEST_ERROR_FILE,
                          "%s: there is no such folder any more. Get it again: zest pull %s --revision %.*s",
                          path, repo, ZEST_SHA_1_DIGITS, strstr(path, "/snapshots/") + strlen("/snapshots/"));
}

static zest_status explain_missing(const lookup *l) {
    const char *known = zest_hub_name_known(l->repo);
    if (zest_hub_name_has_org(l->repo) && !strcmp(l->revision, "main"))
        return zest_error_set(
            l->error, ZEST_ERROR_FILE,
            "%s: there is no such file or folder, and no model of this name was pulled (%s). "
            "To download it from the Hugging Face Hub: zest pull %s",
            l->name, l->cache, l->repo);
    if (zest_hub_name_has_org(l->repo))
        return zest_error_set(l->error, ZEST_ERROR_FILE,
                              "%s: revision %s of this model was not pulled (%s). To download it from the "
                              "Hugging Face Hub: zest pull %s --revision %s",
                              l->name, l->revision, l->cache, l->repo, l->revision);
    if (known)
        return zest_error_set(
            l->error, ZEST_ERROR_FILE,
            "%s: there is no such file or folder. On the Hugging Face Hub it is %s: run `zest "
            "pull %s`, then use %s as the name",
            l->name, known, known, known);
    return zest_error_set(
        l->error, ZEST_ERROR_FILE,
        "%s: there is no such file or folder. A model of the Hugging Face Hub has a name of two "
        "parts: zest pull ORG/%s",
        l->name, l->repo);
}

static zest_status explain_partial(const lookup *l, const char *folder, int ggufs) {
    if (ggufs > 1)
        return zest_error_set(l->error, ZEST_ERROR_FILE,
                              "%s: several GGUF files were pulled; give one of them by its path, in %s",
                              l->name, folder);
    return zest_error_set(l->error, ZEST_ERROR_FILE,
                          "%s: only a part of this model is in %s. Get the rest: zest pull %s%s%s", l->name,
                          folder, l->repo, strcmp(l->revision, "main") ? " --revision " : "",
                          strcmp(l->revision, "main") ? l->revision : "");
}

/* ---- The cache ---- */

/* The commit that the revision means; 0: not pulled. */
static int find_commit(const lookup *l, const char *repo, char commit[ZEST_SHA_1_DIGITS + 1]) {
    zest_buffer path = {0}, text = {0};
    zest_buffer_format(&path, "%s/refs/%s", repo, l->revision);
    commit[0] = '\0';
    if (!path.failed && access(path.data, F_OK) == 0 && !zest_file_read(path.data, REF_LIMIT, &text, NULL))
        snprintf(commit, ZEST_SHA_1_DIGITS + 1, "%.40s", text.data ? text.data : "");
    else if (zest_hub_name_hex(l->revision, ZEST_SHA_1_DIGITS))
        memcpy(commit, l->revision, ZEST_SHA_1_DIGITS + 1);
    zest_buffer_free(&path);
    zest_buffer_free(&text);
    return zest_hub_name_hex(commit, ZEST_SHA_1_DIGITS);
}

/* Counts the GGUF files of a folder; *first is one of them, to be freed. */
static int find_ggufs(const char *folder, char **first) {
    DIR *listing = opendir(folder);
    int count = 0;
    *first = NULL;
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        size_t length = strlen(entry->d_name);
        if (length <= 5 || strcmp(entry->d_name + length - 5, ".gguf")) continue;
        if (!count++) *first = zest_file_join(folder, entry->d_name);
    }
    if (listing) closedir(listing);
    return count;
}

/* What to load from a snapshot: the folder, or its GGUF file. */
static zest_status choose(const lookup *l, const char *folder, char **path) {
    if (has(folder, "config.json") &&
        (has(folder, "model.safetensors") || has(folder, "model.safetensors.index.json"))) {
        *path = strdup(folder);
        return *path ? ZEST_OK : zest_error_memory(l->error, folder, strlen(folder));
    }
    int ggufs = find_ggufs(folder, path);
    if (ggufs == 1 && *path) return ZEST_OK;
    free(*path);
    *path = NULL;
    return explain_partial(l, folder, ggufs);
}

static zest_status find_pulled(lookup *l, char **path) {
    char commit[ZEST_SHA_1_DIGITS + 1];
    char *cache = zest_hub_settings_cache(), *repo = cache ? zest_hub_store_repo(cache, l->repo) : NULL;
    zest_buffer folder = {0};
    zest_status status = repo    ? ZEST_OK
                         : cache ? zest_error_memory(l->error, l->name, 0)
                                 : zest_hub_settings_no_home(l->error);
    l->cache = cache;
    int found = !status && find_commit(l, repo, commit);
    if (found) zest_buffer_format(&folder, "%s/snapshots/%s", repo, commit);
    if (folder.failed) status = zest_error_memory(l->error, l->name, 0);
    if (!status)
        status = found && access(folder.data, F_OK) == 0 ? choose(l, folder.data, path) : explain_missing(l);
    zest_buffer_free(&folder);
    free(repo);
    free(cache);
    return status;
}

zest_status zest_hub_find(const char *name, char **path, zest_error *error) {
    lookup l = {.name = name, .error = error};
    *path = NULL;
    if (access(name, F_OK) == 0) {
        *path = strdup(name);
        return *path ? ZEST_OK : zest_error_memory(error, name, strlen(name));
    }
    if (!zest_hub_name_split(name, l.repo, l.revision)) return zest_hub_find_missing(name, error);
    return find_pulled(&l, path);
}
