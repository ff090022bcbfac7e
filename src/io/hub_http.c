/* HTTP requests to the Hub by libcurl: redirects, resumption, retries with backoff. Without libcurl the
 * functions report that the build has none. */
#include "io/hub_internal.h"

#ifdef ZEST_CURL

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/text.h"

enum {
    MAX_TRIES = 5,             /* consecutive attempts without progress */
    PROGRESS_BYTES = 64 << 10, /* bytes of new data that reset the number of attempts */
    MAX_REDIRECTS = 10,        /* per request */
    CONNECT_SECONDS = 20,
    MIN_SPEED = 64,          /* bytes per second; less than this for stall_seconds is a stall */
    MAX_RETRY_AFTER = 120,   /* seconds: the longest Retry-After that is obeyed */
    MAX_DISCARDED = 1 << 20, /* bytes read of the body of an error response */
};

/* A response of the server. */
typedef struct {
    long status;
    double retry_after; /* seconds; negative: not given */
    int has_range;
    uint64_t range_start;
    zest_hub_http_error http_error;
} response;

struct zest_hub_http {
    CURL *curl;
    const zest_hub_settings *settings;
    zest_hub_reporter *reporter;
    struct curl_slist *plain, *with_token; /* headers */
    int answered;                          /* a server responded before, so the network works */
    char curl_error[CURL_ERROR_SIZE];
    /* the current request */
    const zest_hub_sink *sink;
    uint64_t offset, received, discarded;
    int began, stopped;
    response last;
    zest_status failed; /* result of the sink */
    zest_error *error;
};

/* ---- libcurl callbacks ---- */

/* The value of a header line "Name: value" with this name, without surrounding whitespace. */
static int header_value(const char *line, size_t size, const char *name, char *value, size_t capacity) {
    size_t length = strlen(name);
    if (size <= length || line[length] != ':' || strncasecmp(line, name, length)) return 0;
    line += length + 1, size -= length + 1;
    while (size && (*line == ' ' || *line == '\t')) line++, size--;
    while (size && strchr(" \t\r\n", line[size - 1])) size--;
    if (size >= capacity) size = capacity - 1;
    memcpy(value, line, size);
    value[size] = '\0';
    zest_hub_name_sanitize(value);
    return 1;
}

/* Retry-After: seconds or a date. */
static double read_delay(const char *text) {
    char *end;
    double seconds = zest_number_parse(text, &end);
    if (end != text && !*end) return seconds >= 0 ? seconds : 0;
    time_t date = curl_getdate(text, NULL), now = time(NULL);
    return date == (time_t)-1 ? -1 : date > now ? (double)(date - now) : 0;
}

static size_t on_header(char *line, size_t unit, size_t count, void *user) {
    zest_hub_http *http = user;
    response *last = &http->last;
    size_t size = unit * count;
    char value[256];
    if (size > 5 && !strncmp(line, "HTTP/", 5)) *last = (response){.retry_after = -1};
    if (header_value(line, size, "Retry-After", value, sizeof value)) last->retry_after = read_delay(value);
    /* the Hub sends ratelimit: "api";r=0;t=55, where t is the seconds until more requests are allowed */
    if (header_value(line, size, "RateLimit", value, sizeof value) && last->retry_after < 0) {
        const char *left = strstr(value, ";t=");
        if (left) last->retry_after = zest_number_parse(left + 3, NULL);
    }
    if (header_value(line, size, "Content-Range", value, sizeof value))
        last->has_range = sscanf(value, "bytes %" SCNu64 "-", &last->range_start) == 1;
    header_value(line, size, "X-Error-Code", last->http_error.code, sizeof last->http_error.code);
    header_value(line, size, "X-Error-Message", last->http_error.text, sizeof last->http_error.text);
    return size;
}

static zest_status begin(zest_hub_http *http) {
    http->began = 1;
    if (http->last.status != 206) return http->sink->begin(http->sink->user, 0, http->error);
    if (!http->last.has_range || http->last.range_start != http->offset)
        return zest_error_set(http->error, ZEST_ERROR_FORMAT,
                              "the server sent another byte range than the one requested");
    return http->sink->begin(http->sink->user, http->offset, http->error);
}

static size_t on_data(char *bytes, size_t unit, size_t count, void *user) {
    zest_hub_http *http = user;
    size_t size = unit * count;
    curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &http->last.status);
    if (http->last.status != 200 && http->last.status != 206) {
        http->discarded += size;
        return http->discarded > MAX_DISCARDED ? 0 : size;
    }
    if (!http->began) http->failed = begin(http);
    if (!http->failed) http->failed = http->sink->write(http->sink->user, bytes, size, http->error);
    http->received += size;
    http->reporter->progress.received += size;
    return http->failed ? 0 : size;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    zest_hub_http *http = user;
    (void)a, (void)b, (void)c, (void)d;
    return http->stopped = zest_hub_reporter_update(http->reporter);
}

/* ---- One request ---- */

/* Scheme, host and port of a URL, each to be freed with curl_free; 0: not a URL. */
typedef struct {
    char *scheme, *host, *port;
} origin;

static int read_origin(const char *url, origin *o) {
    CURLU *handle = curl_url();
    *o = (origin){0};
    int parsed = handle && !curl_url_set(handle, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) &&
                 !curl_url_get(handle, CURLUPART_SCHEME, &o->scheme, 0) &&
                 !curl_url_get(handle, CURLUPART_HOST, &o->host, 0) &&
                 !curl_url_get(handle, CURLUPART_PORT, &o->port, CURLU_DEFAULT_PORT);
    curl_url_cleanup(handle);
    return parsed;
}

static void free_origin(origin *o) {
    curl_free(o->scheme);
    curl_free(o->host);
    curl_free(o->port);
}

static int same_origin(const char *left, const char *right) {
    origin a, b;
    int known = read_origin(left, &a) & read_origin(right, &b);
    int same = known && !strcmp(a.scheme, b.scheme) && !strcasecmp(a.host, b.host) && !strcmp(a.port, b.port);
    free_origin(&a);
    free_origin(&b);
    return same;
}

/* Only http and https; never from https to http. */
static int may_redirect(const char *from, const char *to) {
    int secure = !strncasecmp(from, "https://", 8);
    return !strncasecmp(to, "https://", 8) || (!secure && !strncasecmp(to, "http://", 7));
}

static CURLcode request(zest_hub_http *http, const char *url) {
    CURL *curl = http->curl;
    char range[32];
    snprintf(range, sizeof range, "%" PRIu64 "-", http->offset);
    http->last = (response){.retry_after = -1};
    http->began = http->stopped = 0;
    http->received = http->discarded = 0;
    http->failed = ZEST_OK;
    http->curl_error[0] = '\0';
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_RANGE, http->offset ? range : NULL);
    /* the token is for the Hub only; redirect targets carry their permission in the URL */
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER,
                     same_origin(url, http->settings->endpoint) ? http->with_token : http->plain);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http->last.status);
    http->last.http_error.status = http->last.status;
    if (http->last.status) http->answered = 1;
    /* empty body */
    if (http->last.status == 200 && code == CURLE_OK && !http->began) http->failed = begin(http);
    return code;
}

static int is_redirect(long status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Follows redirects here rather than in libcurl, to control where the token is sent. */
static zest_status follow(zest_hub_http *http, const char *url, CURLcode *code) {
    char *current = strdup(url);
    zest_status status = current ? ZEST_OK : zest_error_memory(http->error, url, 0);
    for (int hops = 0; !status; hops++) {
        char *target = NULL;
        *code = request(http, current);
        curl_easy_getinfo(http->curl, CURLINFO_REDIRECT_URL, &target);
        if (!is_redirect(http->last.status) || !target) break;
        if (hops == MAX_REDIRECTS)
            status = zest_error_set(http->error, ZEST_ERROR_FORMAT, "%s: more than %d redirects", url,
                                    MAX_REDIRECTS);
        else if (!may_redirect(current, target))
            status = zest_error_set(http->error, ZEST_ERROR_FORMAT,
                                    "%s: redirects to another protocol (%.*s), which zest does not follow",
                                    url, (int)strcspn(target, ":"), target);
        char *next = status ? NULL : strdup(target);
        if (!status && !next) status = zest_error_memory(http->error, url, 0);
        free(current);
        current = next;
    }
    free(current);
    return status;
}

/* ---- Retries ---- */

typedef enum { OUTCOME_DONE, OUTCOME_FAILED, OUTCOME_RETRY } outcome;

static zest_status network_error(zest_hub_http *http, const char *url, CURLcode code, int tries) {
    const char *why = http->curl_error[0] ? http->curl_error : curl_easy_strerror(code), *advice = "";
    char times[48] = "";
    if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT)
        advice = ". Is there a network? Behind a proxy set https_proxy; for a mirror set HF_ENDPOINT";
    else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        advice = ". The certificate was not accepted: install ca-certificates, or set SSL_CERT_FILE";
    if (tries > 1) snprintf(times, sizeof times, " (%d tries)", tries);
    return zest_error_set(http->error, ZEST_ERROR_FILE, "%s: %.300s%s%s", url, why, times, advice);
}

static int is_transient(CURLcode code) {
    switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return 1;
    default: return 0;
    }
}

static int was_connected(const zest_hub_http *http) {
    double seconds = 0;
    curl_easy_getinfo(http->curl, CURLINFO_CONNECT_TIME, &seconds);
    return seconds > 0;
}

static int is_busy(long status) {
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

static outcome http_failure(zest_hub_http *http, const char *url, int tries) {
    long status = http->last.status;
    double wait = http->last.retry_after;
    if (is_busy(status) && tries < MAX_TRIES && wait <= MAX_RETRY_AFTER) return OUTCOME_RETRY;
    const char *text = http->last.http_error.text;
    char retry_note[64] = "";
    if (is_busy(status) && wait > MAX_RETRY_AFTER)
        snprintf(retry_note, sizeof retry_note, "; Retry-After: %.0f s", wait);
    zest_error_set(http->error, ZEST_ERROR_FILE, "%s: the server answered %ld%s%.200s%s%s (%d %s)", url,
                   status, *text ? " " : "", text, retry_note,
                   is_busy(status) ? ": it is busy or limits requests, try again later" : "", tries,
                   tries == 1 ? "try" : "tries");
    return OUTCOME_FAILED;
}

/* Decides whether a request is done, failed or to be retried. `tries` counts it. */
static outcome classify(zest_hub_http *http, const char *url, CURLcode code, int tries) {
    long status = http->last.status;
    if (http->stopped) return zest_hub_reporter_stopped(http->error), OUTCOME_FAILED;
    if (http->failed) return OUTCOME_FAILED; /* the sink has set the error */
    if (status == 416 && http->offset) {
        if (http->sink->begin(http->sink->user, 0, http->error)) return OUTCOME_FAILED;
        return tries < MAX_TRIES ? OUTCOME_RETRY : http_failure(http, url, tries);
    }
    if (status && status != 200 && status != 206) return http_failure(http, url, tries);
    if (code == CURLE_OK) return OUTCOME_DONE;
    /* a host that was never reached is reported at once */
    if (is_transient(code) && (http->answered || was_connected(http)) && tries < MAX_TRIES)
        return OUTCOME_RETRY;
    network_error(http, url, code, tries);
    return OUTCOME_FAILED;
}

/* Delay before the next attempt: as the server requests, else 1, 2, 4, 8 seconds; none after a connection
 * that delivered data. */
static int wait_to_retry(zest_hub_http *http, int tries) {
    int busy = is_busy(http->last.status);
    double seconds = busy && http->last.retry_after >= 0 ? http->last.retry_after
                     : http->received >= PROGRESS_BYTES  ? 0
                                                         : (double)(1 << (tries - 1));
    char note[128];
    if (busy)
        snprintf(note, sizeof note, "the server answered %ld; trying again in %.0f s", http->last.status,
                 seconds);
    else
        snprintf(note, sizeof note, "the connection was lost; trying again in %.0f s", seconds);
    return zest_hub_reporter_wait(http->reporter, seconds, note);
}

zest_status zest_hub_http_get(zest_hub_http *http, const char *url, const zest_hub_sink *sink, long seconds,
                              zest_hub_http_error *http_error, zest_error *error) {
    http->sink = sink;
    http->error = error;
    *http_error = (zest_hub_http_error){0};
    curl_easy_setopt(http->curl, CURLOPT_TIMEOUT, seconds);
    for (int tries = 1;; tries++) {
        CURLcode code = CURLE_OK;
        http->offset = sink->offset(sink->user);
        zest_status status = follow(http, url, &code);
        if (status) return status;
        if (http->received >= PROGRESS_BYTES) tries = 1;
        outcome o = classify(http, url, code, tries);
        if (o == OUTCOME_DONE) return ZEST_OK;
        *http_error = http->last.http_error;
        if (o == OUTCOME_FAILED) return http->failed ? http->failed : error->status;
        if (wait_to_retry(http, tries)) return zest_hub_reporter_stopped(error);
    }
}

/* ---- Opening ---- */

static zest_status make_headers(zest_hub_http *http, zest_error *error) {
    static const char identity[] = "Accept-Encoding: identity"; /* so that sizes are those of the files */
    http->plain = curl_slist_append(NULL, identity);
    http->with_token = curl_slist_append(NULL, identity);
    int failed = !http->plain || !http->with_token;
    if (!failed && http->settings->token) {
        zest_buffer line = {0};
        zest_buffer_format(&line, "Authorization: Bearer %s", http->settings->token);
        struct curl_slist *grown = line.failed ? NULL : curl_slist_append(http->with_token, line.data);
        if (!grown) failed = 1;
        zest_buffer_free(&line);
    }
    return failed ? zest_error_memory(error, "a request", 0) : ZEST_OK;
}

static void set_options(zest_hub_http *http) {
    CURL *curl = http->curl;
    const char *certificates = getenv("SSL_CERT_FILE");
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_UNRESTRICTED_AUTH, 0L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    if (certificates && *certificates) curl_easy_setopt(curl, CURLOPT_CAINFO, certificates);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "zest/" ZEST_VERSION);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)MIN_SPEED);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, http->settings->stall_seconds);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, http->curl_error);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, http);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, http);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, http);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

#ifdef ZEST_CURL_DLOPEN
int zest_hub_available(void) { return zest_curl_dlopen_found(); }
#else
int zest_hub_available(void) { return 1; }
#endif

zest_hub_http *zest_hub_http_open(const zest_hub_settings *settings, zest_hub_reporter *reporter,
                                  zest_error *error) {
    if (!zest_hub_available()) {
        zest_error_set(error, ZEST_ERROR_STATE,
                       "downloads need libcurl.so.4, which this machine lacks. Install it (Debian, Ubuntu: "
                       "apt-get install libcurl4; Fedora: dnf install libcurl)");
        return NULL;
    }
    zest_hub_http *http = calloc(1, sizeof *http);
    if (http) http->curl = curl_easy_init();
    if (!http || !http->curl) {
        free(http);
        zest_error_memory(error, "libcurl", 0);
        return NULL;
    }
    http->settings = settings;
    http->reporter = reporter;
    set_options(http);
    if (!make_headers(http, error)) return http;
    zest_hub_http_close(http);
    return NULL;
}

void zest_hub_http_close(zest_hub_http *http) {
    if (!http) return;
    curl_easy_cleanup(http->curl);
    curl_slist_free_all(http->plain);
    curl_slist_free_all(http->with_token);
    free(http);
}

#else /* a build without libcurl */

int zest_hub_available(void) { return 0; }

zest_hub_http *zest_hub_http_open(const zest_hub_settings *settings, zest_hub_reporter *reporter,
                                  zest_error *error) {
    (void)settings;
    zest_error_set(
        error, ZEST_ERROR_STATE,
        "this zest was built without libcurl and cannot download. Install it (Debian, Ubuntu: apt-get "
        "install libcurl4-openssl-dev) and run make again; or download config.json, the .safetensors "
        "and the tokenizer's files of %s by hand into a folder, and give that folder as the model",
        reporter->request->repo);
    return NULL;
}

void zest_hub_http_close(zest_hub_http *http) { (void)http; }

zest_status zest_hub_http_get(zest_hub_http *http, const char *url, const zest_hub_sink *sink, long seconds,
                              zest_hub_http_error *http_error, zest_error *error) {
    (void)http, (void)url, (void)sink, (void)seconds, (void)http_error;
    return zest_error_set(error, ZEST_ERROR_STATE, "this zest was built without libcurl");
}

#endif
