/* The components of tokenizers against plain definitions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng/noise.h"
#include "support.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

static zest_error error;

/* ---- Splitters by hand against their patterns --------------------------------------------------------- */

static uint32_t draw(uint64_t *state, uint32_t below) {
    return (uint32_t)(zest_seed(11, 0, (*state)++) % below);
}

static uint32_t character(uint64_t *state) {
    static const uint32_t ranges[][2] = {{0, 0x7F},        {0x80, 0x17F},      {0x300, 0x370},
                                         {0x600, 0x6FF},   {0x1680, 0x18FF},   {0x2000, 0x20FF},
                                         {0x2150, 0x2189}, {0x3000, 0x30FF},   {0x4E00, 0x4F00},
                                         {0xA000, 0xABFF}, {0x10000, 0x1FFFF}, {0, 0x10FFFF}};
    for (;;) {
        const uint32_t *range = ranges[draw(state, 12)];
        uint32_t code = range[0] + draw(state, range[1] - range[0] + 1);
        if (code < 0xD800 || code >= 0xE000) return code;
    }
}

static void random_text(uint64_t *state, zest_buffer *text) {
    static const char *const bits[] = {" ",   "  ",   "\n", "\r\n", "\t",        "'s",          "'S", "'Re",
                                       "'ll", "'ve ", "'",  "a",    "B",         "7",           "12", "!",
                                       "?!",  " x",   " 9", " .",   "'\xC5\xBF", "\xE2\x80\x83"};
    text->size = 0;
    for (uint32_t n = draw(state, 12) + 1; n > 0; n--) {
        char one[4];
        if (draw(state, 4))
            zest_buffer_text(text, bits[draw(state, sizeof bits / sizeof *bits)]);
        else
            zest_buffer_add(text, one, zest_unicode_write(character(state), one));
    }
}

static void splitters_follow_their_patterns(void **state) {
    (void)state;
    static const char *const patterns[] = {ZEST_PRE_TOKENIZER_GPT2_PATTERN,
                                           ZEST_PRE_TOKENIZER_CL100K_PATTERN(""),
                                           ZEST_PRE_TOKENIZER_CL100K_PATTERN("{1,3}")};
    zest_regex *regex[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(regex[i] = zest_regex_new(patterns[i], strlen(patterns[i]), "test", &error));
    zest_regex_iterator walk = {0};
    zest_buffer text = {0};
    uint64_t seed = 0;
    for (int round = 0; round < 30000 / TEST_SLOW; round++) {
        random_text(&seed, &text);
        for (int kind = 0; kind < 3; kind++) {
            assert_int_equal(zest_regex_begin(&walk, regex[kind], text.data, text.size, &error), ZEST_OK);
            for (size_t at = 0, start, end; at < text.size; at = end) {
                int found;
                assert_int_equal(zest_regex_next(&walk, &found, &start, &end, &error), ZEST_OK);
                assert_true(found && start == at && end > start);
                size_t length =
                    kind ? zest_pre_tokenizer_cl100k(text.data + at, text.size - at, kind == 1 ? 1 : 3)
                         : zest_pre_tokenizer_gpt2(text.data + at, text.size - at);
                if (length != end - start)
                    fail_msg("pattern %d, byte %zu of '%s': %zu for %zu", kind, at, text.data, length,
                             end - start);
            }
        }
    }
    for (int i = 0; i < 3; i++) zest_regex_free(regex[i]);
    zest_regex_iterator_free(&walk);
    zest_buffer_free(&text);
}

/* ---- Parts -------------------------------------------------------------------------------------------- */

/* The definition of BPE: all of the list is swept for the lowest rank, again and again. */
static void both_ways_of_merging_agree(void **state) {
    (void)state;
    zest_tokenizer *t = zest_tokenizer_open("tests/data/tokenizers/llama.json", &error);
    assert_non_null(t);
    zest_bpe_scratch scratch = {0};
    uint64_t seed = 0;
    size_t merged = 0;
    for (int round = 0; round < 20000 / TEST_SLOW; round++) {
        int32_t one[ZEST_BPE_SHORT], two[ZEST_BPE_SHORT];
        size_t count = 1 + draw(&seed, ZEST_BPE_SHORT);
        for (size_t i = 0; i < count; i++) one[i] = two[i] = 259 + (int32_t)draw(&seed, 60);
        size_t a = zest_bpe_merge_short(&t->bpe, one, count),
               b = zest_bpe_merge_long(&t->bpe, &scratch, two, count);
        assert_int_equal(a, b);
        assert_memory_equal(one, two, a * sizeof *one);
        merged += count - a;
    }
    assert_true(merged > 100);
    zest_bpe_scratch_free(&scratch);
    zest_tokenizer_free(t);
}

static void bytes_are_spelt_and_read_back(void **state) {
    (void)state;
    for (int byte = 0; byte < 256; byte++)
        assert_int_equal(zest_bpe_spelt(zest_bpe_spelling((unsigned char)byte)), byte);
    assert_int_equal(zest_bpe_spelling(' '), 0x120);
    assert_int_equal(zest_bpe_spelling('\n'), 0x10A);
    assert_int_equal(zest_bpe_spelling(173), 0x143);
    assert_int_equal(zest_bpe_spelt(0x144), -1);
    assert_int_equal(zest_bpe_spelt(' '), -1);
}

static void text_is_repaired_and_composed(void **state) {
    (void)state;
    static const char *const repaired[][2] = {
        {"plain", "plain"},
        {"a\xFFz", "a\uFFFDz"},
        {"\xE2\x82", "\uFFFD"},
        {"\xC0\x80", "\uFFFD\uFFFD"},
        {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
        {"\xF0\x9F\x98x", "\uFFFDx"},
        {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
    };
    static const char *const composed[][2] = {
        {"e\u0301", "é"},
        {"a\u0323\u0302", "ậ"},
        {"a\u0302\u0323", "ậ"},
        {"\u212B", "Å"},
        {"\u1100\u1161\u11A8", "각"},
        {"\u0958", "\u0915\u093C"},
        {"x\u0301y", "x\u0301y"},
        {"\u0301", "\u0301"},
        {"q\u0307\u0323", "q\u0323\u0307"},
        {"가\u11A8", "각"},
        {"a\u0315\u0300", "à\u0315"},
        {"plain é", "plain é"},
        {"e\u0346\u0301", "e\u0346\u0301"},
    };
    zest_buffer out = {0};
    for (size_t i = 0; i < sizeof repaired / sizeof *repaired; i++) {
        out.size = 0;
        zest_unicode_repair(repaired[i][0], strlen(repaired[i][0]), &out);
        assert_string_equal(out.data, repaired[i][1]);
    }
    for (size_t i = 0; i < sizeof composed / sizeof *composed; i++) {
        out.size = 0;
        zest_unicode_compose(composed[i][0], strlen(composed[i][0]), &out);
        assert_string_equal(out.data, composed[i][1]);
    }
    zest_buffer_free(&out);
}

/* ---- What becomes of matches -------------------------------------------------------------------------- */

static zest_status gather_piece(void *user, const char *piece, size_t size) {
    zest_buffer_add(user, "(", 1);
    zest_buffer_add(user, piece, size);
    zest_buffer_add(user, ")", 1);
    return ZEST_OK;
}

static void expect_pieces(zest_pre_tokenizer_step step, const char *text, const char *wanted) {
    zest_pre_tokenizer split = {.step = {step}, .count = 1};
    zest_pre_tokenizer_scratch scratch = {0};
    zest_buffer out = {0};
    zest_buffer_add(&out, "", 0);
    assert_int_equal(
        zest_pre_tokenizer_run(&split, &scratch, text, strlen(text), 1, gather_piece, &out, &error), ZEST_OK);
    assert_string_equal(out.data, wanted);
    zest_buffer_free(&out);
    zest_pre_tokenizer_scratch_free(&scratch);
}

static void matches_become_pieces(void **state) {
    (void)state;
    char dash[] = "-", bar[] = "_";
    zest_pre_tokenizer_step step = {.kind = ZEST_PRE_TOKENIZER_LITERAL, .mark = dash, .mark_size = 1};
    static const struct {
        zest_pre_tokenizer_behaviour behaviour;
        int invert;
        const char *wanted;
    } cases[] = {
        {ZEST_PRE_TOKENIZER_ISOLATED, 0, "(-)(a)(-)(-)(b)(-)"},
        {ZEST_PRE_TOKENIZER_REMOVED, 0, "(a)(b)"},
        {ZEST_PRE_TOKENIZER_REMOVED, 1, "(-)(-)(-)(-)"},
        {ZEST_PRE_TOKENIZER_PREVIOUS, 0, "(-)(a-)(-)(b-)"},
        {ZEST_PRE_TOKENIZER_NEXT, 0, "(-a)(-)(-b)(-)"},
        {ZEST_PRE_TOKENIZER_CONTIGUOUS, 0, "(-)(a)(--)(b)(-)"},
        {ZEST_PRE_TOKENIZER_PREVIOUS, 1, "(-a)(-)(-b)(-)"},
        {ZEST_PRE_TOKENIZER_NEXT, 1, "(-)(a-)(-)(b-)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        step.behaviour = cases[i].behaviour;
        step.invert = cases[i].invert;
        expect_pieces(step, "-a--b-", cases[i].wanted);
    }
    expect_pieces((zest_pre_tokenizer_step){.kind = ZEST_PRE_TOKENIZER_DIGITS}, "a12b", "(a)(1)(2)(b)");
    expect_pieces((zest_pre_tokenizer_step){.kind = ZEST_PRE_TOKENIZER_DIGITS,
                                            .behaviour = ZEST_PRE_TOKENIZER_CONTIGUOUS},
                  "a12b", "(a)(12)(b)");
    expect_pieces((zest_pre_tokenizer_step){.kind = ZEST_PRE_TOKENIZER_PREFIX}, "a b", "( a b)");
    expect_pieces((zest_pre_tokenizer_step){.kind = ZEST_PRE_TOKENIZER_PREFIX}, " a", "( a)");
    expect_pieces((zest_pre_tokenizer_step){.kind = ZEST_PRE_TOKENIZER_PREFIX}, "", "");
    zest_pre_tokenizer_step marks = {.kind = ZEST_PRE_TOKENIZER_METASPACE,
                                     .mark = bar,
                                     .mark_size = 1,
                                     .behaviour = ZEST_PRE_TOKENIZER_NEXT};
    marks.prepend = ZEST_PRE_TOKENIZER_ALWAYS;
    expect_pieces(marks, "a  b", "(_a)(_)(_b)");
    marks.prepend = ZEST_PRE_TOKENIZER_NEVER;
    expect_pieces(marks, "a b ", "(a)(_b)(_)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitters_follow_their_patterns), cmocka_unit_test(both_ways_of_merging_agree),
        cmocka_unit_test(bytes_are_spelt_and_read_back),   cmocka_unit_test(text_is_repaired_and_composed),
        cmocka_unit_test(matches_become_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
