/* Regular expressions of tokenizers: what they match, and that the work is linear in the text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

static zest_error error;

static zest_regex *made(const char *pattern) {
    zest_regex *regex = zest_regex_new(pattern, strlen(pattern), "test", &error);
    if (!regex) fail_msg("%s", error.message);
    return regex;
}

/* The matches, each followed by a vertical bar. */
static void expect(const char *pattern, const char *text, const char *wanted) {
    zest_regex *regex = made(pattern);
    zest_regex_iterator walk = {0};
    zest_buffer got = {0};
    size_t start, end;
    int found = 1;
    zest_buffer_add(&got, "", 0);
    assert_int_equal(zest_regex_begin(&walk, regex, text, strlen(text), &error), ZEST_OK);
    while (assert_int_equal(zest_regex_next(&walk, &found, &start, &end, &error), ZEST_OK), found) {
        zest_buffer_add(&got, text + start, end - start);
        zest_buffer_text(&got, "|");
    }
    if (strcmp(got.data, wanted)) fail_msg("%s in '%s': '%s', not '%s'", pattern, text, got.data, wanted);
    zest_buffer_free(&got);
    zest_regex_iterator_free(&walk);
    zest_regex_free(regex);
}

/* What Oniguruma gives in Hugging Face tokenizers 0.23. */
static void matches(void **state) {
    (void)state;
    expect("a|ab", "abab", "a|a|");
    expect("(?:a|ab)c", "abcac", "abc|ac|");
    expect("ab?", "abaab", "ab|a|ab|");
    expect("a{2,3}", "aaaaaa aa a", "aaa|aaa|aa|");
    expect("a{2,}?b", "aaab", "aaab|");
    expect("(?:ab){1,2}", "ababab", "abab|ab|");
    expect("a{1,2}+", "aaaaa", "aaaaa|");
    expect("a{", "a{a", "a{|");
    expect("a+?b", "aab ab", "aab|ab|");
    expect("a++a", "aaaa", "");
    expect("a?+a", "aaa", "aa|");
    expect("x*", "axa", "|x||");
    expect("[a-c&]+", "ab&d", "ab&|");
    expect("[^a-c]+", "abzc\xC3\xA9z", "z|\xC3\xA9z|");
    expect("[]a]+", "a]b", "a]|");
    expect("[a-]+", "a-b", "a-|");
    expect("[^(\\s|[.,!?])]+", "ab, c.(d", "ab|c|d|");
    expect("[\\S\\n]+", "a \nb", "a|\nb|");
    expect("\\p{Lu}\\P{Lu}*", "AbcD\xC3\x89\xC3\xA9", "Abc|D|\xC3\x89\xC3\xA9|");
    expect("[\\p{L}\\p{^N}]", "1a", "a|");
    expect("\\d+|\\w+|\\h", "12ab \xD9\xA3 _\xC2\xB2", "12|ab|\xD9\xA3|_\xC2\xB2|");
    expect("(?i:'s|'LL|k)", "'S 'll 'Ll K \xE2\x84\xAA '\xC5\xBF", "'S|'ll|'Ll|K|\xE2\x84\xAA|'\xC5\xBF|");
    expect("(?i)[a-c]+d", "aBcD aBd", "aBcD|aBd|");
    expect("\\s+(?!\\S)|\\s+", "a   b  ", "  | |  |");
    expect("a(?=b|c)", "ab ac ad", "a|a|");
    expect("^a|b$", "a a\nab\nb", "a|a|b|b|");
    expect("\\Aa|b\\z", "a\na b\nb", "a|b|");
    expect("\\bis\\b", "this is is\xC3\xA9", "is|");
    expect("\\Ba", "aa ba", "a|a|");
    expect(".+", "ab\nc", "ab|c|");
    expect("\\x41\\x{e9}\\u00e8\\t\\.", "A\xC3\xA9\xC3\xA8\t.", "A\xC3\xA9\xC3\xA8\t.|");
    expect("(?:(?:a|b)+c)+|d", "abcacd ab", "abcac|d|");
}

static void clusters(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {{"ab", 1},
                 {"\r\na", 2},
                 {"\n\xCC\x81", 1},
                 {"e\xCC\x81\xCC\xA3x", 5},
                 {"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8\xE1\x84\x80", 9}, /* a syllable of Hangul */
                 {"\xEA\xB0\x80\xE1\x86\xA8", 6},
                 {"\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7!", 11}, /* joined pictures */
                 {"a\xE2\x80\x8D\xF0\x9F\x91\xA7", 4},
                 {"\xC2\xA9\xE2\x80\x8D\xC2\xA9", 7},
                 {"\xE0\xA4\x95\xE0\xA4\xBE", 6}}; /* a spacing mark */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(zest_unicode_cluster(cases[i].text, strlen(cases[i].text)), cases[i].size);
}

/* The steps for all matches in a text of this size. */
static size_t work_of(const zest_regex *regex, const char *unit, const char *end, size_t size) {
    zest_buffer text = {0};
    zest_regex_iterator walk = {0};
    size_t from, to, work;
    int found = 1;
    while (text.size < size) zest_buffer_text(&text, unit);
    zest_buffer_text(&text, end);
    assert_int_equal(zest_regex_begin(&walk, regex, text.data, text.size, &error), ZEST_OK);
    while (found) assert_int_equal(zest_regex_next(&walk, &found, &from, &to, &error), ZEST_OK);
    work = zest_regex_work(&walk);
    zest_regex_iterator_free(&walk);
    zest_buffer_free(&text);
    return work;
}

/* Patterns of published tokenizers, and patterns that take quadratic or exponential time elsewhere: twice the text takes
 * at most 2.5 times the steps, but for 20000, and at most 2000 a byte. */
static void work_is_linear(void **state) {
    (void)state;
    static const char *const patterns[] = {
        ZEST_PRE_TOKENIZER_GPT2_PATTERN,
        ZEST_PRE_TOKENIZER_CL100K_PATTERN("{1,3}"),
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'"
        "re|'ve|'m|'ll|"
        "'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'"
        "s|'t|'re|'ve|'m|"
        "'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "\\s+$",
        "\\s*[\\r\\n]",
        "a*b",
        "[ab]*c|a",
        "(?:a|aa)+[xy]",
        "(?:a+)+b",
        "(?:a|b|ab)*?c",
        "a*a*a*a*b",
        "(?:[ab]{1,3}){2,4}x",
        "(?:a?){50}(?:a){50}b",
        "a+?b|a++c|\\w+\\z"};
    static const char *const units[] = {"a", "ab", " ", "\n ", "A", "\xC3\xA9", "'", "1", "a b"};
    static const char *const ends[] = {"", "z", "!"};
    size_t size = TEST_SLOW > 1 ? 5000 : 20000;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        zest_regex *regex = made(patterns[p]);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++)
            for (size_t e = 0; e < 3; e++) {
                size_t once = work_of(regex, units[u], ends[e], size);
                size_t twice = work_of(regex, units[u], ends[e], 2 * size);
                if (twice > once * 5 / 2 + 20000 || once > 2000 * size)
                    fail_msg("%s on '%s': %zu steps for %zu bytes, %zu for twice as many", patterns[p],
                             units[u], once, size, twice);
            }
        zest_regex_free(regex);
    }
}

/* Patterns that cost far more than their size: repetitions of what matches nothing, which make no step, and classes of
 * thousands of ranges. */
static void compilation_is_bounded(void **state) {
    (void)state;
    clock_t start = clock();
    static const char *const empty[] = {"(){255}{255}{255}{255}", "(a{0}){255}{255}{255}{255}",
                                        "(((((){255}){255}){255}){255}){255}", "((?i)){255}{255}{255}{255}"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        assert_null(zest_regex_new(empty[i], strlen(empty[i]), "test", &error));
        assert_non_null(strstr(error.message, "once repetitions are written out"));
    }
    static const char *const parts[] = {"\\p{L}", "[^\\p{L}]", "\\W"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        zest_buffer pattern = {0};
        zest_buffer_text(&pattern, "[");
        while (pattern.size < 65000) zest_buffer_text(&pattern, parts[i]);
        zest_buffer_text(&pattern, "]");
        assert_null(zest_regex_new(pattern.data, pattern.size, "test", &error));
        assert_non_null(strstr(error.message, "ranges of characters"));
        zest_buffer_free(&pattern);
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("hostile patterns: %.2f s\n", seconds);
    assert_true(seconds < 2 * TEST_SLOW);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches),
        cmocka_unit_test(clusters),
        cmocka_unit_test(work_is_linear),
        cmocka_unit_test(compilation_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
