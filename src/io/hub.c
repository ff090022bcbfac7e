/* Models of the Hugging Face Hub: pull downloads a repository into the cache, find returns the path of a
 * model that was pulled, settings come from the environment. */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "io/hub.h"
#include "io/hub_internal.h"

enum { LIST_LIMIT = 32 << 20, LIST_SECONDS = 120 };

/* State of a pull. */
typedef struct {
    const zest_hub_request *request;
    const char *revision;
    zest_hub_settings settings;
    zest_hub_reporter reporter;
    zest_hub_http *http;
    zest_hub_list list;
    zest_hub_selection selection;
    zest_hub_store store;
    zest_error *error;
} pull;

/* ---- Checks of the request ---- */

static zest_status check_names(const zest_hub_request *r, zest_error *error) {
    const char *known = zest_hub_name_known(r->repo);
    if (!zest_hub_name_is_repo(r->repo))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "'%.200s' is not a model name: expected ORG/NAME, as on the Hub's pages",
                              r->repo);
    if (!zest_hub_name_has_org(r->repo))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "'%s' has no organisation. Try: zest pull %s%s",
                              r->repo, known ? known : "ORG/", known ? "" : r->repo);
    if (*r->revision && !zest_hub_name_is_revision(r->revision))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "'%.200s' is not a valid branch, tag or commit",
                              r->revision);
    if (*r->file && !zest_hub_name_is_file(r->file))
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "'%.200s' is not a file name in a repository: it must be relative, without '..'", r->file);
    return ZEST_OK;
}

/* ---- Requests ---- */

/* Percent-encodes everything but letters, digits and -._~; slashes are kept where they separate path
 * components. */
static void add_escaped(zest_buffer *url, const char *text, int keep_slash) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        int plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    (c && strchr("-._~", c)) || (keep_slash && c == '/');
        if (plain)
            zest_buffer_add(url, text, 1);
        else
            zest_buffer_format(url, "%%%02X", c);
    }
}

static zest_status explain_missing(const pull *p, const zest_hub_http_error *http_error) {
    const char *repo = p->request->repo, *known = zest_hub_name_known(strchr(repo, '/') + 1);
    if (!strcmp(http_error->code, "RevisionNotFound"))
        return zest_error_set(p->error, ZEST_ERROR_FILE, "%s: has no branch, tag or commit '%s'", repo,
                              p->revision);
    if (known && !strcmp(known, repo)) known = NULL;
    return zest_error_set(
        p->error, ZEST_ERROR_FILE,
        "%s: was not found at %s, or it is private. Check the name%s%s%s; for a private model set "
        "HF_TOKEN to a token that may read it",
        repo, p->settings.endpoint, known ? " (did you mean " : "", known ? known : "", known ? "?)" : "");
}

/* Replaces the message of a failed request by one that says what to do. */
static zest_status explain_http_error(const pull *p, const zest_hub_http_error *http_error,
                                      zest_status status) {
    const char *repo = p->request->repo, *endpoint = p->settings.endpoint;
    int denied = http_error->status == 401 || http_error->status == 403;
    if (denied && !strcmp(http_error->code, "GatedRepo"))
        return zest_error_set(
            p->error, ZEST_ERROR_FILE,
            "%s: is gated. Accept its licence at %s/%s, create a token at %s/settings/tokens, set "
            "HF_TOKEN to it, and pull again%s",
            repo, endpoint, repo, endpoint, p->settings.token ? ". (The token in use was not enough)" : "");
    if (denied && p->settings.token)
        return zest_error_set(
            p->error, ZEST_ERROR_FILE,
            "%s: the server answered %ld: the token (HF_TOKEN, or the file `token` in HF_HOME) "
            "is not valid or may not read this model. See %s/%s and %s/settings/tokens",
            repo, http_error->status, endpoint, repo, endpoint);
    /* the Hub answers 401 for repositories that do not exist, too */
    if (http_error->status == 404 || denied) return explain_missing(p, http_error);
    return status;
}

static uint64_t buffer_offset(void *user) {
    (void)user;
    return 0;
}

static zest_status buffer_begin(void *user, uint64_t offset, zest_error *error) {
    (void)offset, (void)error;
    ((zest_buffer *)user)->size = 0;
    return ZEST_OK;
}

static zest_status buffer_write(void *user, const void *bytes, size_t size, zest_error *error) {
    zest_buffer *text = user;
    if (text->size + size > LIST_LIMIT)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "the list of files is larger than the %d MiB allowed here", LIST_LIMIT >> 20);
    zest_buffer_add(text, bytes, size);
    return text->failed ? zest_error_memory(error, "the list of files", size) : ZEST_OK;
}

static zest_status get_list(pull *p) {
    zest_buffer url = {0}, text = {0};
    zest_hub_sink sink = {buffer_offset, buffer_begin, buffer_write, &text};
    zest_hub_http_error http_error;
    zest_buffer_format(&url, "%s/api/models/%s/revision/", p->settings.endpoint, p->request->repo);
    add_escaped(&url, p->revision, 0);
    zest_buffer_text(&url, "?blobs=true");
    zest_status status = url.failed ? zest_error_memory(p->error, "a request", 0) : ZEST_OK;
    if (!status) {
        status = zest_hub_http_get(p->http, url.data, &sink, LIST_SECONDS, &http_error, p->error);
        if (status) status = explain_http_error(p, &http_error, status);
    }
    if (!status)
        status = zest_hub_list_parse(text.data ? text.data : "", text.size, url.data, &p->list, p->error);
    zest_buffer_free(&text);
    zest_buffer_free(&url);
    return status;
}

/* ---- Download of the files ---- */

/* Sums up the bytes to download and checks that they fit on the disk. */
static zest_status check_space(pull *p) {
    uint64_t missing = 0, space = zest_hub_store_free_space(&p->store);
    zest_hub_progress *progress = &p->reporter.progress;
    progress->count = p->selection.count;
    progress->total = 0;
    for (size_t i = 0; i < p->selection.count; i++) {
        progress->total += p->selection.files[i]->size;
        missing += zest_hub_download_missing(&p->store, p->selection.files[i]);
    }
    if (missing <= space) return ZEST_OK;
    return zest_error_set(p->error, ZEST_ERROR_FILE,
                          "%s: %" PRIu64 " MiB remain to be downloaded, but the disk has %" PRIu64
                          " MiB free. Free some space, or choose another disk with --out or HF_HOME",
                          p->store.folder, (missing >> 20) + 1, space >> 20);
}

static zest_status get_file(pull *p, const zest_hub_file *file) {
    zest_buffer url = {0};
    zest_hub_http_error http_error = {0};
    zest_hub_downloader d = {p->http, &p->store, &p->reporter};
    zest_buffer_format(&url, "%s/%s/resolve/%s/", p->settings.endpoint, p->request->repo, p->list.commit);
    add_escaped(&url, file->name, 1);
    if (url.failed) return zest_error_memory(p->error, file->name, 0);
    zest_status status = zest_hub_download(&d, url.data, file, &http_error, p->error);
    zest_buffer_free(&url);
    return status ? explain_http_error(p, &http_error, status) : ZEST_OK;
}

/* Adds the shards that the downloaded index names. */
static zest_status add_shards(pull *p) {
    char *final_path, *partial_path;
    zest_status status =
        zest_hub_store_paths(&p->store, p->selection.index, &final_path, &partial_path, p->error);
    if (status) return status;
    status = zest_hub_selection_add_shards(&p->selection, &p->list, final_path, p->request->repo, p->error);
    free(final_path);
    free(partial_path);
    return status ? status : check_space(p);
}

static zest_status get_files(pull *p) {
    zest_status status = check_space(p);
    for (size_t i = 0; i < p->selection.count && !status; i++) {
        const zest_hub_file *file = p->selection.files[i];
        p->reporter.progress.file = file->name;
        p->reporter.progress.index = i;
        if (zest_hub_reporter_update(&p->reporter)) return zest_hub_reporter_stopped(p->error);
        status = get_file(p, file);
        if (!status && file == p->selection.index) status = add_shards(p);
    }
    for (size_t i = 0; i < p->selection.count && !status; i++)
        status = zest_hub_store_link(&p->store, p->selection.files[i], p->error);
    return status ? status : zest_hub_store_write_ref(&p->store, p->revision, p->list.commit, p->error);
}

/* ---- Pull ---- */

static zest_status fill_result(const pull *p, zest_hub_result *pulled) {
    pulled->folder = strdup(p->store.folder);
    pulled->files = calloc(p->selection.count + 1, sizeof *pulled->files);
    if (!pulled->folder || !pulled->files) return zest_error_memory(p->error, "the result", 0);
    memcpy(pulled->commit, p->list.commit, sizeof pulled->commit);
    for (size_t i = 0; i < p->selection.count; i++) {
        pulled->files[i] = *p->selection.files[i];
        pulled->files[i].name = strdup(p->selection.files[i]->name);
        if (!pulled->files[i].name) return zest_error_memory(p->error, "the result", 0);
        pulled->count++;
    }
    pulled->received = p->reporter.progress.received;
    return ZEST_OK;
}

static zest_status pull_online(pull *p, zest_hub_result *pulled) {
    p->http = zest_hub_http_open(&p->settings, &p->reporter, p->error);
    if (!p->http) return p->error->status;
    zest_status status = get_list(p);
    p->reporter.progress.received = 0; /* count the bytes of files only */
    if (!status)
        status =
            zest_hub_selection_make(&p->selection, &p->list, p->request->file, p->request->repo, p->error);
    if (!status)
        status = zest_hub_store_open(&p->store, &p->settings, p->request->repo, p->list.commit,
                                     p->request->out, p->error);
    if (!status) status = get_files(p);
    return status ? status : fill_result(p, pulled);
}

/* With HF_HUB_OFFLINE a pull succeeds only when the model is in the cache already. */
static zest_status pull_offline(const pull *p, zest_hub_result *pulled) {
    zest_buffer name = {0};
    zest_error why = {0};
    char *path = NULL;
    zest_buffer_format(&name, "%s@%s", p->request->repo, p->revision);
    zest_status status = name.failed ? zest_error_memory(p->error, "a name", 0) : ZEST_OK;
    if (!status && (*p->request->out || zest_hub_find(name.data, &path, &why)))
        status =
            zest_error_set(p->error, ZEST_ERROR_FILE, "%s: HF_HUB_OFFLINE is set, so nothing is downloaded%s",
                           p->request->repo, *p->request->out ? "" : ", and it was not pulled before");
    char *snapshot = path ? strstr(path, "/snapshots/") : NULL;
    if (!status && snapshot) {
        char *commit = snapshot + strlen("/snapshots/");
        memcpy(pulled->commit, commit, ZEST_SHA_1_DIGITS);
        commit[ZEST_SHA_1_DIGITS] = '\0';
        pulled->folder = path;
        path = NULL;
    }
    free(path);
    zest_buffer_free(&name);
    return status;
}

zest_status zest_hub_pull(const zest_hub_request *request, zest_hub_result *pulled, zest_error *error) {
    pull p = {.request = request,
              .revision = *request->revision ? request->revision : "main",
              .reporter = {.request = request, .progress = {.file = ""}},
              .store = {.lock = -1},
              .error = error};
    *pulled = (zest_hub_result){0};
    zest_status status = check_names(request, error);
    if (!status) status = zest_hub_settings_read(&p.settings, error);
    if (!status) status = p.settings.offline ? pull_offline(&p, pulled) : pull_online(&p, pulled);
    zest_hub_store_close(&p.store);
    zest_hub_selection_free(&p.selection);
    zest_hub_list_free(&p.list);
    zest_hub_http_close(p.http);
    zest_hub_settings_free(&p.settings);
    return status;
}

void zest_hub_result_free(zest_hub_result *pulled) {
    for (size_t i = 0; i < pulled->count; i++) free(pulled->files[i].name);
    free(pulled->files);
    free(pulled->folder);
    *pulled = (zest_hub_result){0};
}

/* ---- Lookup of pulled models by name ---- */

enum { REF_LIMIT = 4096 };

/* State of a lookup. */
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
    return size < ZEST_HUB_REPO_SIZE && zest_hub_name_is_repo(repo);
}

/* A snapshot that was deleted may be named in the options of an old run. */
zest_status zest_hub_find_missing(const char *path, zest_error *error) {
    char repo[ZEST_HUB_REPO_SIZE];
    if (!zest_hub_find_repo(path, repo))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
    return zest_error_set(
        error, ZEST_ERROR_FILE,
        "%s: the folder does not exist any more. Download it again: zest pull %s --revision %.*s", path, repo,
        ZEST_SHA_1_DIGITS, strstr(path, "/snapshots/") + strlen("/snapshots/"));
}

static zest_status explain_not_pulled(const lookup *l) {
    const char *known = zest_hub_name_known(l->repo);
    if (zest_hub_name_has_org(l->repo) && !strcmp(l->revision, "main"))
        return zest_error_set(l->error, ZEST_ERROR_FILE,
                              "%s: no such file or folder, and no model of this name was pulled (%s). "
                              "To download it from the Hugging Face Hub: zest pull %s",
                              l->name, l->cache, l->repo);
    if (zest_hub_name_has_org(l->repo))
        return zest_error_set(l->error, ZEST_ERROR_FILE,
                              "%s: revision %s of this model was not pulled (%s). To download it from the "
                              "Hugging Face Hub: zest pull %s --revision %s",
                              l->name, l->revision, l->cache, l->repo, l->revision);
    if (known)
        return zest_error_set(l->error, ZEST_ERROR_FILE,
                              "%s: no such file or folder. On the Hugging Face Hub it is %s: run `zest "
                              "pull %s`, then use %s as the name",
                              l->name, known, known, known);
    return zest_error_set(
        l->error, ZEST_ERROR_FILE,
        "%s: no such file or folder. A model of the Hugging Face Hub is named ORG/NAME: zest pull ORG/%s",
        l->name, l->repo);
}

static zest_status explain_partial(const lookup *l, const char *folder, int ggufs) {
    if (ggufs > 1)
        return zest_error_set(l->error, ZEST_ERROR_FILE,
                              "%s: several GGUF files were pulled; use the path of one of them, in %s",
                              l->name, folder);
    return zest_error_set(l->error, ZEST_ERROR_FILE,
                          "%s: the model in %s is incomplete. Download the rest: zest pull %s%s%s", l->name,
                          folder, l->repo, strcmp(l->revision, "main") ? " --revision " : "",
                          strcmp(l->revision, "main") ? l->revision : "");
}

/* The commit that the revision refers to; 0: not pulled. */
static int find_commit(const lookup *l, const char *repo, char commit[ZEST_SHA_1_DIGITS + 1]) {
    zest_buffer path = {0}, text = {0};
    zest_buffer_format(&path, "%s/refs/%s", repo, l->revision);
    commit[0] = '\0';
    if (!path.failed && access(path.data, F_OK) == 0 && !zest_file_read(path.data, REF_LIMIT, &text, NULL))
        snprintf(commit, ZEST_SHA_1_DIGITS + 1, "%.40s", text.data ? text.data : "");
    else if (zest_hub_name_is_hex(l->revision, ZEST_SHA_1_DIGITS))
        memcpy(commit, l->revision, ZEST_SHA_1_DIGITS + 1);
    zest_buffer_free(&path);
    zest_buffer_free(&text);
    return zest_hub_name_is_hex(commit, ZEST_SHA_1_DIGITS);
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

/* The path to load from a snapshot: the folder, or its GGUF file. */
static zest_status choose_path(const lookup *l, const char *folder, char **path) {
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
        status = found && access(folder.data, F_OK) == 0 ? choose_path(l, folder.data, path)
                                                         : explain_not_pulled(l);
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

enum { STALL_SECONDS = 30, STALL_LIMIT = 3600, TOKEN_LIMIT = 4096 };

/* ---- Settings from the environment ---- */

/* The first of the variables that is set and not empty; NULL: none. */
static const char *variable(const char *first, const char *second) {
    const char *value = getenv(first);
    if (value && *value) return value;
    value = second ? getenv(second) : NULL;
    return value && *value ? value : NULL;
}

/* Expands "~/x"; makes a relative path absolute. */
static char *absolute(const char *path) {
    const char *home = getenv("HOME");
    char here[PATH_MAX];
    if (path[0] == '~' && (path[1] == '/' || !path[1]))
        return home && *home ? zest_file_join(home, path + 1 + (path[1] == '/')) : NULL;
    if (path[0] == '/') return strdup(path);
    return getcwd(here, sizeof here) ? zest_file_join(here, path) : NULL;
}

static char *find_home(void) {
    const char *hub = variable("HF_HOME", NULL), *cache = variable("XDG_CACHE_HOME", NULL);
    if (hub) return absolute(hub);
    char *parent = absolute(cache ? cache : "~/.cache"),
         *home = parent ? zest_file_join(parent, "huggingface") : NULL;
    free(parent);
    return home;
}

static zest_status set_token(zest_hub_settings *settings, const char *text, size_t size, const char *source,
                             zest_error *error) {
    while (size && isspace((unsigned char)text[size - 1])) size--;
    while (size && isspace((unsigned char)*text)) text++, size--;
    if (!size) return ZEST_OK;
    for (size_t i = 0; i < size; i++) /* it becomes a header line of a request */
        if (!isgraph((unsigned char)text[i]))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "%s: contains characters that cannot be part of a Hub token", source);
    settings->token = strndup(text, size);
    return settings->token ? ZEST_OK : zest_error_memory(error, source, size);
}

static zest_status find_token(zest_hub_settings *settings, zest_error *error) {
    const char *token = variable("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
               *given = variable("HF_TOKEN_PATH", NULL);
    if (token) return set_token(settings, token, strlen(token), "HF_TOKEN", error);
    char *home = find_home(), *path = given ? absolute(given) : home ? zest_file_join(home, "token") : NULL;
    free(home);
    zest_buffer text = {0};
    zest_status status = ZEST_OK;
    if (path && access(path, F_OK) == 0) {
        status = zest_file_read(path, TOKEN_LIMIT, &text, error);
        if (!status && text.size) status = set_token(settings, text.data, text.size, path, error);
    }
    zest_buffer_free(&text);
    free(path);
    return status;
}

static int is_true(const char *value) {
    static const char *const words[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; value && i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(value, words[i])) return 1;
    return 0;
}

static zest_status find_endpoint(zest_hub_settings *settings, zest_error *error) {
    const char *given = variable("HF_ENDPOINT", NULL);
    settings->endpoint = strdup(given ? given : "https://huggingface.co");
    if (!settings->endpoint) return zest_error_memory(error, "HF_ENDPOINT", 0);
    size_t length = strlen(settings->endpoint);
    while (length && settings->endpoint[length - 1] == '/') settings->endpoint[--length] = '\0';
    if (strncasecmp(settings->endpoint, "https://", 8) && strncasecmp(settings->endpoint, "http://", 7))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "HF_ENDPOINT is '%.200s': it must start with https:// (or http://)", given);
    return ZEST_OK;
}

char *zest_hub_settings_cache(void) {
    const char *given = variable("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE");
    if (given) return absolute(given);
    char *home = find_home(), *cache = home ? zest_file_join(home, "hub") : NULL;
    free(home);
    return cache;
}

zest_status zest_hub_settings_no_home(zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FILE,
                          "no folder for models: set HOME, or HF_HOME to the folder to use");
}

zest_status zest_hub_settings_read(zest_hub_settings *settings, zest_error *error) {
    const char *stall = variable("HF_HUB_DOWNLOAD_TIMEOUT", NULL);
    *settings = (zest_hub_settings){.stall_seconds = stall ? strtol(stall, NULL, 10) : 0};
    if (settings->stall_seconds <= 0 || settings->stall_seconds > STALL_LIMIT)
        settings->stall_seconds = STALL_SECONDS;
    settings->offline = is_true(variable("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"));
    settings->cache = zest_hub_settings_cache();
    zest_status status = settings->cache ? find_endpoint(settings, error) : zest_hub_settings_no_home(error);
    return status ? status : find_token(settings, error);
}

void zest_hub_settings_free(zest_hub_settings *settings) {
    free(settings->endpoint);
    free(settings->cache);
    free(settings->token);
    *settings = (zest_hub_settings){0};
}

int zest_hub_reporter_update(zest_hub_reporter *reporter) {
    const zest_hub_request *request = reporter->request;
    return request->progress ? request->progress(&reporter->progress, request->user) : 0;
}

int zest_hub_reporter_wait(zest_hub_reporter *reporter, double seconds, const char *note) {
    double end = zest_clock_now() + seconds;
    int stop;
    reporter->progress.note = note;
    while (!(stop = zest_hub_reporter_update(reporter)) && zest_clock_now() < end) {
        struct timespec slice = {.tv_nsec = 50000000};
        nanosleep(&slice, NULL);
    }
    reporter->progress.note = NULL;
    return stop;
}

zest_status zest_hub_reporter_stopped(zest_error *error) {
    return zest_error_set(
        error, ZEST_ERROR_STATE,
        "stopped; the data received so far is kept, and the same command resumes the download");
}
