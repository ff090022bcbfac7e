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
    TRIES = 5,       /* in a row without news */
    NEWS = 64 << 10, /* so many new bytes make a fresh start of the count */
    REDIRECTS = 10,  /* one after the other */
    CONNECT_SECONDS = 20,
    SLOWEST = 64,        /* bytes a second; less for stall_seconds is a stall */
    PATIENCE = 120,      /* the longest that a server may ask us to wait */
    DISCARDED = 1 << 20, /* of a body that nobody reads */
};

/* One answer of a server. */
typedef struct {
    long status;
    double retry_after; /* seconds; negative: it did not say */
    int has_range;
    uint64_t range_start;
    zest_hub_refusal refusal;
} answer;

struct zest_hub_http {
    CURL *curl;
    const zest_hub_settings *settings;
    zest_hub_watch *watch;
    struct curl_slist *plain, *with_token; /* headers */
    int answered;                          /* a server answered before: the network is there */
    char curl_error[CURL_ERROR_SIZE];
    /* of the request in flight */
    const zest_hub_sink *sink;
    uint64_t offset, received, discarded;
    int began, stopped;
    answer got;
    zest_status failed; /* what the sink said */
    zest_error *error;
};

/* ---- Callbacks of libcurl ---- */

/* "Name: value" of this name: the value, without blanks and line end. */
static int header_value(const char *line, size_t size, const char *name, char *value, size_t capacity) {
    size_t length = strlen(name);
    if (size <= length || line[length] != ':' || strncasecmp(line, name, length)) return 0;
    line += length + 1, size -= length + 1;
    while (size && (*line == ' ' || *line == '\t')) line++, size--;
    while (size && strchr(" \t\r\n", line[size - 1])) size--;
    if (size >= capacity) size = capacity - 1;
    memcpy(value, line, size);
    value[size] = '\0';
    zest_hub_name_clean(value);
    return 1;
}

/* Seconds, or a date. */
static double read_delay(const char *text) {
    char *end;
    double seconds = zest_number_parse(text, &end);
    if (end != text && !*end) return seconds >= 0 ? seconds : 0;
    time_t date = curl_getdate(text, NULL), now = time(NULL);
    return date == (time_t)-1 ? -1 : date > now ? (double)(date - now) : 0;
}

static size_t on_header(char *line, size_t unit, size_t count, void *user) {
    zest_hub_http *http = user;
    answer *got = &http->got;
    size_t size = unit * count;
    char value[256];
    if (size > 5 && !strncmp(line, "HTTP/", 5)) *got = (answer){.retry_after = -1};
    if (header_value(line, size, "Retry-After", value, sizeof value)) got->retry_after = read_delay(value);
    /* the Hub's own: ratelimit: "api";r=0;t=55 has the seconds until more requests are allowed */
    if (header_value(line, size, "RateLimit", value, sizeof value) && got->retry_after < 0) {
        const char *left = strstr(value, ";t=");
        if (left) got->retry_after = zest_number_parse(left + 3, NULL);
    }
    if (header_value(line, size, "Content-Range", value, sizeof value))
        got->has_range = sscanf(value, "bytes %" SCNu64 "-", &got->range_start) == 1;
    header_value(line, size, "X-Error-Code", got->refusal.code, sizeof got->refusal.code);
    header_value(line, size, "X-Error-Message", got->refusal.text, sizeof got->refusal.text);
    return size;
}

static zest_status begin(zest_hub_http *http) {
    http->began = 1;
    if (http->got.status != 206) return http->sink->begin(http->sink->user, 0, http->error);
    if (!http->got.has_range || http->got.range_start != http->offset)
        return zest_error_set(http->error, ZEST_ERROR_FORMAT,
                              "the server answered with another part of the file than the one asked for");
    return http->sink->begin(http->sink->user, http->offset, http->error);
}

static size_t on_data(char *bytes, size_t unit, size_t count, void *user) {
    zest_hub_http *http = user;
    size_t size = unit * count;
    curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &http->got.status);
    if (http->got.status != 200 && http->got.status != 206) {
        http->discarded += size;
        return http->discarded > DISCARDED ? 0 : size;
    }
    if (!http->began) http->failed = begin(http);
    if (!http->failed) http->failed = http->sink->write(http->sink->user, bytes, size, http->error);
    http->received += size;
    http->watch->progress.received += size;
    return http->failed ? 0 : size;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    zest_hub_http *http = user;
    (void)a, (void)b, (void)c, (void)d;
    return http->stopped = zest_hub_watch_report(http->watch);
}

/* ---- One request ---- */

/* scheme://host:port of a URL, to be freed with curl_free each; 0: it is no URL. */
typedef struct {
    char *scheme, *host, *port;
} origin;

static int read_origin(const char *url, origin *o) {
    CURLU *parts = curl_url();
    *o = (origin){0};
    int good = parts && !curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) &&
               !curl_url_get(parts, CURLUPART_SCHEME, &o->scheme, 0) &&
               !curl_url_get(parts, CURLUPART_HOST, &o->host, 0) &&
               !curl_url_get(parts, CURLUPART_PORT, &o->port, CURLU_DEFAULT_PORT);
    curl_url_cleanup(parts);
    return good;
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

/* http and https alone; from https never back to http. */
static int may_go_to(const char *from, const char *to) {
    int secure = !strncasecmp(from, "https://", 8);
    return !strncasecmp(to, "https://", 8) || (!secure && !strncasecmp(to, "http://", 7));
}

static CURLcode request(zest_hub_http *http, const char *url) {
    CURL *curl = http->curl;
    char range[32];
    snprintf(range, sizeof range, "%" PRIu64 "-", http->offset);
    http->got = (answer){.retry_after = -1};
    http->began = http->stopped = 0;
    http->received = http->discarded = 0;
    http->failed = ZEST_OK;
    http->curl_error[0] = '\0';
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_RANGE, http->offset ? range : NULL);
    /* the token is for the Hub; the servers that it redirects to have their permission in the URL */
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER,
                     same_origin(url, http->settings->endpoint) ? http->with_token : http->plain);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http->got.status);
    http->got.refusal.status = http->got.status;
    if (http->got.status) http->answered = 1;
    if (http->got.status == 200 && code == CURLE_OK && !http->began) http->failed = begin(http); /* empty */
    return code;
}

static int is_redirect(long status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Sends a request and follows redirects ourselves, since what may be sent where is ours to decide. */
static zest_status follow(zest_hub_http *http, const char *url, CURLcode *code) {
    char *here = strdup(url);
    zest_status status = here ? ZEST_OK : zest_error_memory(http->error, url, 0);
    for (int hops = 0; !status; hops++) {
        char *target = NULL;
        *code = request(http, here);
        curl_easy_getinfo(http->curl, CURLINFO_REDIRECT_URL, &target);
        if (!is_redirect(http->got.status) || !target) break;
        if (hops == REDIRECTS)
            status =
                zest_error_set(http->error, ZEST_ERROR_FORMAT, "%s: more than %d redirects", url, REDIRECTS);
        else if (!may_go_to(here, target))
            status = zest_error_set(http->error, ZEST_ERROR_FORMAT,
                                    "%s: redirects to another protocol (%.*s), which zest does not follow",
                                    url, (int)strcspn(target, ":"), target);
        char *next = status ? NULL : strdup(target);
        if (!status && !next) status = zest_error_memory(http->error, url, 0);
        free(here);
        here = next;
    }
    free(here);
    return status;
}

/* ---- Trying again ---- */

typedef enum { DONE, FAILED, AGAIN } outcome;

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

static int is_passing(CURLcode code) {
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

static outcome refuse(zest_hub_http *http, const char *url, int tries) {
    long status = http->got.status;
    double wait = http->got.retry_after;
    if (is_busy(status) && tries < TRIES && wait <= PATIENCE) return AGAIN;
    const char *text = http->got.refusal.text;
    char asks[64] = "";
    if (is_busy(status) && wait > PATIENCE) snprintf(asks, sizeof asks, "; it asks to wait %.0f s", wait);
    zest_error_set(http->error, ZEST_ERROR_FILE, "%s: the server answered %ld%s%.200s%s%s (%d %s)", url,
                   status, *text ? " " : "", text, asks,
                   is_busy(status) ? ": it is busy or limits requests, try again later" : "", tries,
                   tries == 1 ? "try" : "tries");
    return FAILED;
}

/* What became of a request. `tries` counts it. */
static outcome judge(zest_hub_http *http, const char *url, CURLcode code, int tries) {
    long status = http->got.status;
    if (http->stopped) return zest_hub_watch_stopped(http->error), FAILED;
    if (http->failed) return FAILED; /* the sink said why */
    if (status == 416 && http->offset) {
        if (http->sink->begin(http->sink->user, 0, http->error)) return FAILED;
        return tries < TRIES ? AGAIN : refuse(http, url, tries);
    }
    if (status && status != 200 && status != 206) return refuse(http, url, tries);
    if (code == CURLE_OK) return DONE;
    /* who was never reached is told at once */
    if (is_passing(code) && (http->answered || was_connected(http)) && tries < TRIES) return AGAIN;
    network_error(http, url, code, tries);
    return FAILED;
}

/* The n-th wait: as the server says, else 1, 2, 4, 8 seconds. A connection that brought data is taken up
 * again at once. */
static int wait_to_retry(zest_hub_http *http, int tries) {
    int busy = is_busy(http->got.status);
    double seconds = busy && http->got.retry_after >= 0 ? http->got.retry_after
                     : http->received >= NEWS           ? 0
                                                        : (double)(1 << (tries - 1));
    char note[128];
    if (busy)
        snprintf(note, sizeof note, "the server answered %ld; trying again in %.0f s", http->got.status,
                 seconds);
    else
        snprintf(note, sizeof note, "the connection was lost; trying again in %.0f s", seconds);
    return zest_hub_watch_wait(http->watch, seconds, note);
}

zest_status zest_hub_http_get(zest_hub_http *http, const char *url, const zest_hub_sink *sink, long seconds,
                              zest_hub_refusal *refusal, zest_error *error) {
    http->sink = sink;
    http->error = error;
    *refusal = (zest_hub_refusal){0};
    curl_easy_setopt(http->curl, CURLOPT_TIMEOUT, seconds);
    for (int tries = 1;; tries++) {
        CURLcode code = CURLE_OK;
        http->offset = sink->offset(sink->user);
        zest_status status = follow(http, url, &code);
        if (status) return status;
        if (http->received >= NEWS) tries = 1;
        outcome o = judge(http, url, code, tries);
        if (o == DONE) return ZEST_OK;
        *refusal = http->got.refusal;
        if (o == FAILED) return http->failed ? http->failed : error->status;
        if (wait_to_retry(http, tries)) return zest_hub_watch_stopped(error);
    }
}

/* ---- Opening ---- */

static zest_status make_headers(zest_hub_http *http, zest_error *error) {
    static const char identity[] = "Accept-Encoding: identity"; /* sizes are those of the files */
    http->plain = curl_slist_append(NULL, identity);
    http->with_token = curl_slist_append(NULL, identity);
    int failed = !http->plain || !http->with_token;
    if (!failed && http->settings->token) {
        zest_buffer line = {0};
        zest_buffer_format(&line, "Authorization: Bearer %s", http->settings->token);
        struct curl_slist *longer = line.failed ? NULL : curl_slist_append(http->with_token, line.data);
        if (!longer) failed = 1;
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
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOWEST);
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

zest_hub_http *zest_hub_http_open(const zest_hub_settings *settings, zest_hub_watch *watch,
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
    http->watch = watch;
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

zest_hub_http *zest_hub_http_open(const zest_hub_settings *settings, zest_hub_watch *watch,
                                  zest_error *error) {
    (void)settings;
    zest_error_set(
        error, ZEST_ERROR_STATE,
        "this zest was built without libcurl and cannot download. Install it (Debian, Ubuntu: apt-get "
        "install libcurl4-openssl-dev) and run make again; or download config.json, the .safetensors "
        "and the tokenizer's files of %s by hand into a folder, and give that folder as the model",
        watch->request->repo);
    return NULL;
}

void zest_hub_http_close(zest_hub_http *http) { (void)http; }

zest_status zest_hub_http_get(zest_hub_http *http, const char *url, const zest_hub_sink *sink, long seconds,
                              zest_hub_refusal *refusal, zest_error *error) {
    (void)http, (void)url, (void)sink, (void)seconds, (void)refusal;
    return zest_error_set(error, ZEST_ERROR_STATE, "this zest was built without libcurl");
}

#endif
