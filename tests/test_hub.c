/* The Hub client without a network: hashes, names, file lists, selection of files, models in the cache.
 * tests/cli/pull.sh tests downloads. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "io/hub_internal.h"
#include "io/hub.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define SHA256 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* ---- Hashes ---- */

static void check_hash(zest_sha_kind kind, const char *message, const char *expected) {
    size_t size = strlen(message);
    for (size_t step = 1; step <= size + 1; step += size / 7 + 1) { /* in pieces of any size */
        zest_sha sha;
        char hex[ZEST_SHA_HEX_SIZE];
        zest_sha_begin(&sha, kind);
        for (size_t at = 0; at < size; at += step)
            zest_sha_add(&sha, message + at, size - at < step ? size - at : step);
        zest_sha_end(&sha, hex);
        assert_string_equal(hex, expected);
    }
}

/* The examples of FIPS 180 (NIST's "SHA1.pdf", "SHA256.pdf") and the empty message. */
static void test_sha_vectors(void **state) {
    (void)state;
    static const char long_message[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check_hash(ZEST_SHA_1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
    check_hash(ZEST_SHA_1, long_message, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    check_hash(ZEST_SHA_1, "", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check_hash(ZEST_SHA_256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_hash(ZEST_SHA_256, long_message,
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_hash(ZEST_SHA_256, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/* A million times the letter a, also of FIPS 180. */
static void test_sha_million(void **state) {
    (void)state;
    static const char *const expected[] = {
        "34aa973cd4c4daa4f61eeb2bdbad27316534016f",
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"};
    char block[1000];
    memset(block, 'a', sizeof block);
    for (int kind = 0; kind < 2; kind++) {
        zest_sha sha;
        char hex[ZEST_SHA_HEX_SIZE];
        zest_sha_begin(&sha, (zest_sha_kind)kind);
        for (int i = 0; i < 1000; i++) zest_sha_add(&sha, block, sizeof block);
        zest_sha_end(&sha, hex);
        assert_string_equal(hex, expected[kind]);
    }
}

/* ---- Names ---- */

static void test_repo_names(void **state) {
    (void)state;
    static const char *const good[] = {
        "FacebookAI/roberta-base", "gpt2",   "a/b",
        "Qwen/Qwen2.5-0.5B",       "_a/b_c", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"};
    static const char *const bad[] = {"",      "/",      "a/",    "/a",      "a//b",  "a/b/c",  "../a",
                                      "a/..",  "a/.b",   "a/b.",  "-a/b",    "a/b-",  "a--b/c", "a/b..c",
                                      "a b/c", "a\\b",   "a/b\n", "a/b.git", "a/b@c", "a/b%2e", "a/b?c",
                                      "a/b#c", "a/\x80", "~/a",   "a/b:c",   "./a"};
    char longest[128];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!zest_hub_name_is_repo(good[i])) fail_msg("'%s' is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (zest_hub_name_is_repo(bad[i])) fail_msg("'%s' is accepted", bad[i]);
    memset(longest, 'a', sizeof longest);
    longest[1] = '/';
    longest[96] = '\0';
    assert_true(zest_hub_name_is_repo(longest));
    longest[96] = 'a', longest[97] = '\0';
    assert_false(zest_hub_name_is_repo(longest));
}

static void test_file_names(void **state) {
    (void)state;
    static const char *const good[] = {"config.json", "sub/file.gguf", "..a",           "a..b",
                                       "a b",         "\xc3\xa9.txt",  ".gitattributes"};
    static const char *const bad[] = {"",      "/etc/passwd", "..",    "../x", "a/../b", "a/..",
                                      ".",     "./a",         "a/./b", "a//b", "a/",     "a\\b",
                                      "..\\x", "a\nb",        "a\x1b", "a\x7f"};
    char longest[300];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!zest_hub_name_is_file(good[i])) fail_msg("'%s' is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (zest_hub_name_is_file(bad[i])) fail_msg("'%s' is accepted", bad[i]);
    memset(longest, 'a', sizeof longest);
    longest[200] = '\0';
    assert_true(zest_hub_name_is_file(longest));
    longest[200] = 'a', longest[201] = '\0';
    assert_false(zest_hub_name_is_file(longest)); /* no space for the suffix of a partial file */
    longest[100] = '/', longest[201] = 'a', longest[256] = '\0';
    assert_false(zest_hub_name_is_file(longest));
}

static void test_revisions(void **state) {
    (void)state;
    static const char *const good[] = {"main", "v1.0", "refs/pr/1", "feature/x-y", COMMIT};
    static const char *const bad[] = {"",     "..",  "../x", "/x",  "x/",    "a..b", "a b",
                                      "a\\b", "a~1", "a^",   "a:b", "a@{1}", "a\n",  "a/./b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!zest_hub_name_is_revision(good[i])) fail_msg("'%s' is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (zest_hub_name_is_revision(bad[i])) fail_msg("'%s' is accepted", bad[i]);
    char repo[ZEST_HUB_REPO_SIZE], revision[ZEST_HUB_REVISION_SIZE];
    assert_true(zest_hub_name_split("a/b@refs/pr/1", repo, revision));
    assert_string_equal(repo, "a/b");
    assert_string_equal(revision, "refs/pr/1");
    assert_true(zest_hub_name_split("a/b", repo, revision));
    assert_string_equal(revision, "main");
    assert_false(zest_hub_name_split("a/b@", repo, revision));
    assert_false(zest_hub_name_split("a/b@../x", repo, revision));
    assert_string_equal(zest_hub_name_known("ROBERTA-base"), "FacebookAI/roberta-base");
    assert_null(zest_hub_name_known("FacebookAI/roberta-base"));
    assert_null(zest_hub_name_known(""));
}

/* ---- Lists ---- */

/* An entry of an LFS file and of a small one. */
#define LFS(name, size)                                                       \
    "{\"rfilename\": \"" name "\", \"size\": " size ", \"blobId\": \"" COMMIT \
    "\", \"lfs\": {\"sha256\": \"" SHA256 "\", \"size\": " size ", \"pointerSize\": 134}}"
#define GIT(name, size) "{\"rfilename\": \"" name "\", \"size\": " size ", \"blobId\": \"" COMMIT "\"}"
#define LIST(entries) "{\"sha\": \"" COMMIT "\", \"siblings\": [" entries "]}"

static zest_status parse(const char *text, zest_hub_list *list, zest_error *error) {
    return zest_hub_list_parse(text, strlen(text), "answer", list, error);
}

static void test_list(void **state) {
    (void)state;
    zest_hub_list list;
    zest_error error = {0};
    assert_int_equal(parse(LIST(LFS("model.safetensors", "5000000000") "," GIT("config.json", "600") "," GIT(
                               "../x", "1") "," GIT("a\\\\b", "1") ", 3, {}"),
                           &list, &error),
                     ZEST_OK);
    assert_string_equal(list.commit, COMMIT);
    assert_int_equal(list.count, 2);
    assert_true(zest_hub_list_find(&list, "model.safetensors")->size == 5000000000u);
    assert_string_equal(zest_hub_list_find(&list, "model.safetensors")->hash, SHA256);
    assert_string_equal(zest_hub_list_find(&list, "config.json")->hash, COMMIT);
    assert_null(zest_hub_list_find(&list, "../x"));
    zest_hub_list_free(&list);
}

static void test_bad_lists(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "garbage",
        "[]",
        "3",
        "{}",
        "{\"sha\": 1, \"siblings\": []}",
        "{\"sha\": \"main\", \"siblings\": []}",
        "{\"sha\": \"../../../../../../../../../../../../etcd\", \"siblings\": []}",
        "{\"sha\": \"0123456789ABCDEF0123456789abcdef01234567\", \"siblings\": []}",
        "{\"sha\": \"" COMMIT "\"}",
        "{\"sha\": \"" COMMIT "\", \"siblings\": {}}",
        "{\"sha\": \"" COMMIT "\", \"siblings\": []",
        "<html>log in</html>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zest_hub_list list;
        zest_error error = {0};
        assert_int_equal(parse(bad[i], &list, &error), ZEST_ERROR_FORMAT);
        assert_non_null(strstr(error.message, "answer"));
        zest_hub_list_free(&list);
    }
}

/* What is chosen of a list, joined by blanks; or "error: message". */
static char *chosen(const char *text, const char *only, char result[2048]) {
    zest_hub_list list;
    zest_hub_selection choice = {0};
    zest_error error = {0};
    size_t used = 0;
    assert_int_equal(parse(text, &list, &error), ZEST_OK);
    zest_status status = zest_hub_selection_make(&choice, &list, only, "org/name", &error);
    result[0] = '\0';
    if (status) snprintf(result, 2048, "error: %s", error.message);
    for (size_t i = 0; i < choice.count && !status; i++)
        used += (size_t)snprintf(result + used, 2048 - used, "%s%s", i ? " " : "", choice.files[i]->name);
    zest_hub_selection_free(&choice);
    zest_hub_list_free(&list);
    return result;
}

static void test_choice(void **state) {
    (void)state;
    char got[2048];
    /* config.json is last, so that an incomplete model never looks complete */
    assert_string_equal(
        chosen(
            LIST(GIT("config.json", "1") "," GIT("README.md", "1") "," LFS("model.safetensors", "1") "," LFS(
                "pytorch_model.bin",
                "1") "," LFS("onnx/model.safetensors",
                             "1") "," GIT("vocab.txt", "1") "," GIT("tokenizer.json",
                                                                    "1") "," GIT("chat_template.jinja", "1")),
            "", got),
        "tokenizer.json vocab.txt chat_template.jinja model.safetensors config.json");
    /* a single file has precedence over shards, as in the loader */
    assert_string_equal(chosen(LIST(GIT("config.json", "1") "," GIT("model.safetensors.index.json",
                                                                    "1") "," LFS("model.safetensors", "1")),
                               "", got),
                        "model.safetensors config.json");
    assert_string_equal(chosen(LIST(LFS("sub/a.gguf", "1") "," GIT("config.json", "1")), "sub/a.gguf", got),
                        "sub/a.gguf");
    assert_non_null(strstr(chosen(LIST(LFS("a.gguf", "1")), "", got), "--file: a.gguf"));
    assert_non_null(strstr(chosen(LIST(LFS("pytorch_model.bin", "1")), "", got), "AutoModelForCausalLM"));
    assert_non_null(strstr(chosen(LIST(LFS("model.safetensors", "1")), "", got), "no config.json"));
    assert_non_null(strstr(chosen(LIST(""), "", got), "no weights"));
    assert_non_null(strstr(chosen(LIST(LFS("a.gguf", "1")), "b.gguf", got), "it has a.gguf"));
    /* without a hash a download cannot be verified */
    assert_non_null(strstr(
        chosen(LIST("{\"rfilename\": \"model.safetensors\", \"size\": 1}," GIT("config.json", "1")), "", got),
        "no size and hash"));
    assert_non_null(strstr(chosen(LIST(GIT("model.safetensors", "-1") "," GIT("config.json", "1")), "", got),
                           "no size and hash"));
}

/* ---- The cache ---- */

static void make_folders(const char *base, const char *path) {
    char whole[512];
    zest_error error;
    for (const char *slash = path; slash; slash = strchr(slash + 1, '/')) {
        const char *next = strchr(slash + 1, '/');
        snprintf(whole, sizeof whole, "%s/%.*s", base, (int)(next ? next - path : (long)strlen(path)), path);
        assert_int_equal(zest_file_make_folder(whole, &error), ZEST_OK);
    }
}

static void expect_found(const char *name, const char *base, const char *rest) {
    char *path = NULL, expected[512];
    zest_error error = {0};
    zest_status status = zest_hub_find(name, &path, &error);
    if (status) fail_msg("%s: %s", name, error.message);
    snprintf(expected, sizeof expected, "%s/%s", base, rest);
    assert_string_equal(path, expected);
    free(path);
}

static void expect_missing(const char *name, const char *advice) {
    char *path = NULL;
    zest_error error = {0};
    assert_int_equal(zest_hub_find(name, &path, &error), ZEST_ERROR_FILE);
    assert_null(path);
    if (!strstr(error.message, advice)) fail_msg("'%s' does not say '%s'", error.message, advice);
}

static void test_find(void **state) {
    (void)state;
    char buffer[64], cache[128];
    static const char snapshot[] = "hub/models--org--name/snapshots/" COMMIT;
    char folder[256];
    const char *base = test_folder(buffer);
    snprintf(cache, sizeof cache, "%s/hub", base);
    setenv("HF_HOME", base, 1);
    unsetenv("HF_HUB_CACHE");
    unsetenv("HUGGINGFACE_HUB_CACHE");
    expect_missing("org/name", "zest pull org/name");
    make_folders(base, snapshot);
    make_folders(base, "hub/models--org--name/refs/refs/pr");
    snprintf(folder, sizeof folder, "%s/hub/models--org--name/refs", base);
    test_put(folder, "main", COMMIT);
    test_put(folder, "refs/pr/1", COMMIT);
    expect_missing("org/name", "is incomplete");
    snprintf(folder, sizeof folder, "%s/%s", base, snapshot);
    test_put(folder, "model.safetensors", "x");
    expect_missing("org/name", "is incomplete"); /* config.json is missing */
    test_put(folder, "config.json", "{}");
    expect_found("org/name", base, snapshot);
    expect_found("org/name@refs/pr/1", base, snapshot);
    expect_found("org/name@" COMMIT, base, snapshot);
    expect_missing("org/name@v2", "zest pull org/name --revision v2");
    expect_missing("org/other", "zest pull org/other");
    expect_missing("roberta-base", "zest pull FacebookAI/roberta-base");
    expect_missing("org/../name", "cannot be opened");
    char repo[ZEST_HUB_REPO_SIZE];
    assert_true(zest_hub_find_repo(folder, repo));
    assert_string_equal(repo, "org/name");
    assert_true(zest_hub_find_repo("/x/models--gpt2/snapshots/" COMMIT "/gpt2.gguf", repo));
    assert_string_equal(repo, "gpt2");
    assert_false(zest_hub_find_repo("/x/models--a--b/snapshots/run1", repo));
    assert_false(zest_hub_find_repo("/snapshots/" COMMIT "/models--a--b", repo));
    expect_missing("/x/models--a--b/snapshots/" COMMIT, "zest pull a/b --revision " COMMIT);
    /* an invalid commit is not followed */
    snprintf(folder, sizeof folder, "%s/hub/models--org--name/refs", base);
    test_put(folder, "main", "../../../../../../../../../../etc/passwd");
    expect_missing("org/name", "zest pull org/name");
    setenv("HF_HUB_CACHE", cache, 1);
    setenv("HF_HOME", "/nowhere", 1);
    expect_found("org/name@" COMMIT, base, snapshot);
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_HOME");
    test_remove(base);
}

static void expect_settings(const char *cache, const char *endpoint, const char *token) {
    zest_hub_settings settings;
    zest_error error = {0};
    assert_int_equal(zest_hub_settings_read(&settings, &error), ZEST_OK);
    assert_string_equal(settings.cache, cache);
    assert_string_equal(settings.endpoint, endpoint);
    if (token)
        assert_string_equal(settings.token, token);
    else
        assert_null(settings.token);
    zest_hub_settings_free(&settings);
}

static void test_settings(void **state) {
    (void)state;
    static const char *const names[] = {
        "HF_HOME",        "HF_HUB_CACHE",        "HUGGINGFACE_HUB_CACHE",  "XDG_CACHE_HOME",
        "HF_TOKEN",       "HF_ENDPOINT",         "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH",
        "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"};
    char buffer[64], cache[128];
    zest_error error = {0};
    zest_hub_settings settings;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    const char *base = test_folder(buffer);
    setenv("HOME", base, 1);
    snprintf(cache, sizeof cache, "%s/.cache/huggingface/hub", base);
    expect_settings(cache, "https://huggingface.co", NULL);
    setenv("XDG_CACHE_HOME", "/x", 1);
    expect_settings("/x/huggingface/hub", "https://huggingface.co", NULL);
    setenv("HF_HOME", base, 1);
    setenv("HF_ENDPOINT", "http://mirror:8080//", 1);
    test_put(base, "token", "  hf_file \r\n");
    snprintf(cache, sizeof cache, "%s/hub", base);
    expect_settings(cache, "http://mirror:8080", "hf_file");
    setenv("HF_TOKEN", "hf_variable", 1);
    setenv("HF_HUB_CACHE", "~/models", 1);
    snprintf(cache, sizeof cache, "%s/models", base);
    expect_settings(cache, "http://mirror:8080", "hf_variable");
    setenv("HF_TOKEN", "a\r\nHost: b", 1); /* would be a second line of the request */
    assert_int_equal(zest_hub_settings_read(&settings, &error), ZEST_ERROR_ARGUMENT);
    zest_hub_settings_free(&settings);
    unsetenv("HF_TOKEN");
    setenv("HF_ENDPOINT", "file:///etc", 1);
    assert_int_equal(zest_hub_settings_read(&settings, &error), ZEST_ERROR_ARGUMENT);
    zest_hub_settings_free(&settings);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    unsetenv("HOME");
    assert_int_equal(zest_hub_settings_read(&settings, &error), ZEST_ERROR_FILE);
    zest_hub_settings_free(&settings);
    test_remove(base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha_vectors), cmocka_unit_test(test_sha_million),
        cmocka_unit_test(test_repo_names),  cmocka_unit_test(test_file_names),
        cmocka_unit_test(test_revisions),   cmocka_unit_test(test_list),
        cmocka_unit_test(test_bad_lists),   cmocka_unit_test(test_choice),
        cmocka_unit_test(test_find),        cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
