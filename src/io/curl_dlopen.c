/* libcurl, loaded at run time (make CURL=dlopen), for programs and wheels that must start on machines without it.
 *
 * The functions of libcurl that io/hub_http.c calls are defined here, under their own names. Each looks its
 * namesake up in the system's library and calls it, so that no state is kept between calls; against a request to
 * a server the lookup costs nothing. The ABI behind the name libcurl.so.4 has been stable since 2006. */
#ifdef ZEST_CURL_DLOPEN

#define CURL_DISABLE_TYPECHECK             /* its macros would hide the names */
#define curl_url_get curl_url_get_declared /* with or without const, depending on the version */
#include <curl/curl.h>
#undef curl_url_get
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>

#include "io/hub_internal.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo

static void *find_function(const char *name) {
    static const char *const libraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL); /* loaded once, stays */
        void *function = library ? dlsym(library, name) : NULL;
        if (function) return function;
    }
    return NULL;
}

int zest_curl_dlopen_found(void) { return find_function("curl_url_set") != NULL; }

/* Calls the library's own function. hub_http.c opens nothing unless zest_curl_dlopen_found says yes, so the
 * function is there. */
#define CALL(type, name, arguments) (((type)find_function(name))arguments)

CURL *curl_easy_init(void) { return CALL(CURL * (*)(void), "curl_easy_init", ()); }
void curl_easy_cleanup(CURL *curl) { CALL(void (*)(CURL *), "curl_easy_cleanup", (curl)); }
CURLcode curl_easy_perform(CURL *curl) { return CALL(CURLcode(*)(CURL *), "curl_easy_perform", (curl)); }
const char *curl_easy_strerror(CURLcode code) {
    return CALL(const char *(*)(CURLcode), "curl_easy_strerror", (code));
}
void curl_free(void *memory) { CALL(void (*)(void *), "curl_free", (memory)); }
time_t curl_getdate(const char *date, const time_t *unused) {
    return CALL(time_t(*)(const char *, const time_t *), "curl_getdate", (date, unused));
}
struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text) {
    return CALL(struct curl_slist * (*)(struct curl_slist *, const char *), "curl_slist_append",
                (list, text));
}
void curl_slist_free_all(struct curl_slist *list) {
    CALL(void (*)(struct curl_slist *), "curl_slist_free_all", (list));
}
CURLU *curl_url(void) { return CALL(CURLU * (*)(void), "curl_url", ()); }
void curl_url_cleanup(CURLU *url) { CALL(void (*)(CURLU *), "curl_url_cleanup", (url)); }
CURLUcode curl_url_get(const CURLU *url, CURLUPart part, char **text, unsigned flags);
CURLUcode curl_url_get(const CURLU *url, CURLUPart part, char **text, unsigned flags) {
    return CALL(CURLUcode(*)(const CURLU *, CURLUPart, char **, unsigned), "curl_url_get",
                (url, part, text, flags));
}
CURLUcode curl_url_set(CURLU *url, CURLUPart part, const char *text, unsigned flags) {
    return CALL(CURLUcode(*)(CURLU *, CURLUPart, const char *, unsigned), "curl_url_set",
                (url, part, text, flags));
}

/* The type of the third argument follows from the number of the option. */
CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...) {
    typedef CURLcode (*setopt)(CURL *, CURLoption, ...);
    va_list list;
    va_start(list, option);
    CURLcode code;
    if (option < CURLOPTTYPE_OBJECTPOINT)
        code = CALL(setopt, "curl_easy_setopt", (curl, option, va_arg(list, long)));
    else if (option >= CURLOPTTYPE_OFF_T && option < CURLOPTTYPE_BLOB)
        code = CALL(setopt, "curl_easy_setopt", (curl, option, va_arg(list, curl_off_t)));
    else
        code = CALL(setopt, "curl_easy_setopt", (curl, option, va_arg(list, void *)));
    va_end(list);
    return code;
}

/* All answers are written through a pointer. */
CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...) {
    typedef CURLcode (*getinfo)(CURL *, CURLINFO, ...);
    va_list list;
    va_start(list, info);
    CURLcode code = CALL(getinfo, "curl_easy_getinfo", (curl, info, va_arg(list, void *)));
    va_end(list);
    return code;
}

#else
typedef int zest_curl_dlopen_unused; /* a C file has at least one declaration */
#endif
