#include "hub/hub.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "hub/hub_download.h"
#include "hub/hub_list.h"
#include "hub/hub_name.h"

enum { LIST_LIMIT = 32 << 20, LIST_SECONDS = 120 };

/* A pull under way. */
typedef struct {
    const zest_hub_request *request;
    const char *revision;
    zest_hub_settings settings;
    zest_hub_watch watch;
    zest_hub_http *http;
    zest_hub_list list;
    zest_hub_choice choice;
    zest_hub_store store;
    zest_error *error;
} pull;

/* ---- What is asked for ---- */

static zest_status check_names(const zest_hub_request *r, zest_error *error) {
    const char *known = zest_hub_name_known(r->repo);
    if (!zest_hub_name_repo(r->repo))
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "'%.200s' is no name of a model: it should read ORG/NAME, as on the Hub's pages", r->repo);
    if (!zest_hub_name_has_org(r->repo))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "'%s' lacks the organisation: zest pull %s%s",
                              r->repo, known ? known : "ORG/", known ? "" : r->repo);
    if (*r->revision && !zest_hub_name_revision(r->revision))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "'%.200s' is no name of a branch, tag or commit",
                              r->revision);
    if (*r->file && !zest_hub_name_file(r->file))
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "'%.200s' is no name of a file in a repository: it should be relative, without '..'", r->file);
    return ZEST_OK;
}

/* ---- Requests ---- */

/* Everything but letters, digits and -._~ as %XX; slashes stay if they separate parts of a path. */
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

static zest_status explain_missing(const pull *p, const zest_hub_refusal *refusal) {
    const char *repo = p->request->repo, *known = zest_hub_name_known(strchr(repo, '/') + 1);
    if (!strcmp(refusal->code, "RevisionNotFound"))
        return zest_error_set(p->error, ZEST_ERROR_FILE, "%s: has no branch, tag or commit '%s'", repo,
                              p->revision);
    if (known && !strcmp(known, repo)) known = NULL;
    return zest_error_set(
        p->error, ZEST_ERROR_FILE,
        "%s: was not found at %s, or it is private. Check the name%s%s%s; for a private model set "
        "HF_TOKEN to a token that may read it",
        repo, p->settings.endpoint, known ? " (did you mean " : "", known ? known : "", known ? "?)" : "");
}

/* Puts the reason of a refusal in place of its number. */
static zest_status explain(const pull *p, const zest_hub_refusal *refusal, zest_status status) {
    const char *repo = p->request->repo, *endpoint = p->settings.endpoint;
    int denied = refusal->status == 401 || refusal->status == 403;
    if (denied && !strcmp(refusal->code, "GatedRepo"))
        return zest_error_set(
            p->error, ZEST_ERROR_FILE,
            "%s: is gated. Accept its licence at %s/%s, make a token at %s/settings/tokens, set "
            "HF_TOKEN to it, and pull again%s",
            repo, endpoint, repo, endpoint, p->settings.token ? ". (The token in use was not enough)" : "");
    if (denied && p->settings.token)
        return zest_error_set(
            p->error, ZEST_ERROR_FILE,
            "%s: the server answered %ld: the token (HF_TOKEN, or the file `token` in HF_HOME) "
            "is not valid or may not read this model. See %s/%s and %s/settings/tokens",
            repo, refusal->status, endpoint, repo, endpoint);
    /* the Hub answers 401 to strangers for what does not exist, too */
    if (refusal->status == 404 || denied) return explain_missing(p, refusal);
    return status;
}

static uint64_t memory_offset(void *user) {
    (void)user;
    return 0;
}

static zest_status memory_begin(void *user, uint64_t offset, zest_error *error) {
    (void)offset, (void)error;
    ((zest_buffer *)user)->size = 0;
    return ZEST_OK;
}

static zest_status memory_write(void *user, const void *bytes, size_t size, zest_error *error) {
    zest_buffer *text = user;
    if (text->size + size > LIST_LIMIT)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "the list of files is larger than the %d MiB allowed here", LIST_LIMIT >> 20);
    zest_buffer_add(text, bytes, size);
    return text->failed ? zest_error_memory(error, "the list of files", size) : ZEST_OK;
}

static zest_status get_list(pull *p) {
    zest_buffer url = {0}, text = {0};
    zest_hub_sink sink = {memory_offset, memory_begin, memory_write, &text};
    zest_hub_refusal refusal;
    zest_buffer_format(&url, "%s/api/models/%s/revision/", p->settings.endpoint, p->request->repo);
    add_escaped(&url, p->revision, 0);
    zest_buffer_text(&url, "?blobs=true");
    zest_status status = url.failed ? zest_error_memory(p->error, "a request", 0) : ZEST_OK;
    if (!status) {
        status = zest_hub_http_get(p->http, url.data, &sink, LIST_SECONDS, &refusal, p->error);
        if (status) status = explain(p, &refusal, status);
    }
    if (!status)
        status = zest_hub_list_parse(text.data ? text.data : "", text.size, url.data, &p->list, p->error);
    zest_buffer_free(&text);
    zest_buffer_free(&url);
    return status;
}

/* ---- Files ---- */

/* How much there is to do, and whether it fits the disk. */
static zest_status plan(pull *p) {
    uint64_t missing = 0, space = zest_hub_store_space(&p->store);
    zest_hub_progress *progress = &p->watch.progress;
    progress->count = p->choice.count;
    progress->total = 0;
    for (size_t i = 0; i < p->choice.count; i++) {
        progress->total += p->choice.files[i]->size;
        missing += zest_hub_download_missing(&p->store, p->choice.files[i]);
    }
    if (missing <= space) return ZEST_OK;
    return zest_error_set(p->error, ZEST_ERROR_FILE,
                          "%s: %" PRIu64 " MiB are still to come, but the disk has %" PRIu64
                          " MiB left. Make room, or choose another disk with --out or HF_HOME",
                          p->store.folder, (missing >> 20) + 1, space >> 20);
}

static zest_status get_file(pull *p, const zest_hub_file *file) {
    zest_buffer url = {0};
    zest_hub_refusal refusal = {0};
    zest_hub_downloader d = {p->http, &p->store, &p->watch};
    zest_buffer_format(&url, "%s/%s/resolve/%s/", p->settings.endpoint, p->request->repo, p->list.commit);
    add_escaped(&url, file->name, 1);
    if (url.failed) return zest_error_memory(p->error, file->name, 0);
    zest_status status = zest_hub_download(&d, url.data, file, &refusal, p->error);
    zest_buffer_free(&url);
    return status ? explain(p, &refusal, status) : ZEST_OK;
}

/* The shards that the index names, which is there now. */
static zest_status add_shards(pull *p) {
    char *whole, *partial;
    zest_status status = zest_hub_store_paths(&p->store, p->choice.index, &whole, &partial, p->error);
    if (status) return status;
    status = zest_hub_choice_shards(&p->choice, &p->list, whole, p->request->repo, p->error);
    free(whole);
    free(partial);
    return status ? status : plan(p);
}

static zest_status get_files(pull *p) {
    zest_status status = plan(p);
    for (size_t i = 0; i < p->choice.count && !status; i++) {
        const zest_hub_file *file = p->choice.files[i];
        p->watch.progress.file = file->name;
        p->watch.progress.index = i;
        if (zest_hub_watch_report(&p->watch)) return zest_hub_watch_stopped(p->error);
        status = get_file(p, file);
        if (!status && file == p->choice.index) status = add_shards(p);
    }
    for (size_t i = 0; i < p->choice.count && !status; i++)
        status = zest_hub_store_place(&p->store, p->choice.files[i], p->error);
    return status ? status : zest_hub_store_note(&p->store, p->revision, p->list.commit, p->error);
}

/* ---- The pull ---- */

static zest_status tell(const pull *p, zest_hub_pulled *pulled) {
    pulled->folder = strdup(p->store.folder);
    pulled->files = calloc(p->choice.count + 1, sizeof *pulled->files);
    if (!pulled->folder || !pulled->files) return zest_error_memory(p->error, "the result", 0);
    memcpy(pulled->commit, p->list.commit, sizeof pulled->commit);
    for (size_t i = 0; i < p->choice.count; i++) {
        pulled->files[i] = *p->choice.files[i];
        pulled->files[i].name = strdup(p->choice.files[i]->name);
        if (!pulled->files[i].name) return zest_error_memory(p->error, "the result", 0);
        pulled->count++;
    }
    pulled->received = p->watch.progress.received;
    return ZEST_OK;
}

static zest_status pull_online(pull *p, zest_hub_pulled *pulled) {
    p->http = zest_hub_http_open(&p->settings, &p->watch, p->error);
    if (!p->http) return p->error->status;
    zest_status status = get_list(p);
    p->watch.progress.received = 0; /* of files alone */
    if (!status)
        status = zest_hub_choice_make(&p->choice, &p->list, p->request->file, p->request->repo, p->error);
    if (!status)
        status = zest_hub_store_open(&p->store, &p->settings, p->request->repo, p->list.commit,
                                     p->request->out, p->error);
    if (!status) status = get_files(p);
    return status ? status : tell(p, pulled);
}

/* With HF_HUB_OFFLINE a pull has what was pulled before, or nothing. */
static zest_status pull_offline(const pull *p, zest_hub_pulled *pulled) {
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

zest_status zest_hub_pull(const zest_hub_request *request, zest_hub_pulled *pulled, zest_error *error) {
    pull p = {.request = request,
              .revision = *request->revision ? request->revision : "main",
              .watch = {.request = request, .progress = {.file = ""}},
              .store = {.lock = -1},
              .error = error};
    *pulled = (zest_hub_pulled){0};
    zest_status status = check_names(request, error);
    if (!status) status = zest_hub_settings_read(&p.settings, error);
    if (!status) status = p.settings.offline ? pull_offline(&p, pulled) : pull_online(&p, pulled);
    zest_hub_store_close(&p.store);
    zest_hub_choice_free(&p.choice);
    zest_hub_list_free(&p.list);
    zest_hub_http_close(p.http);
    zest_hub_settings_free(&p.settings);
    return status;
}

void zest_hub_pulled_free(zest_hub_pulled *pulled) {
    for (size_t i = 0; i < pulled->count; i++) free(pulled->files[i].name);
    free(pulled->files);
    free(pulled->folder);
    *pulled = (zest_hub_pulled){0};
}
