/* Tokenizer files made to cost time or memory: each is an error. Cases that would take hours or all memory
 * without the limits must end within the time of a test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support.h"
#include "tokenizer/vocab.h"
#include "tokenizer/tokenizer.h"

static zest_error error;

static zest_tokenizer *from_text(const zest_buffer *text) {
    error = (zest_error){0};
    assert_false(text->failed);
    return zest_tokenizer_from_json(text->data, text->size, "f.json", &error);
}

static void says(const char *words) {
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
}

static void refused(const zest_buffer *text, const char *words) {
    zest_tokenizer *tokenizer = from_text(text);
    if (tokenizer) fail_msg("accepted, where '%s' was to be said", words);
    says(words);
}

/* A model with a list of components, `count` times the same. */
static zest_buffer repeated(const char *chain, const char *list, const char *one, int count) {
    zest_buffer text = {0};
    zest_buffer_format(&text,
                       "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"%s\":{\"type\":"
                       "\"Sequence\",\"%s\":[",
                       chain, list);
    for (int i = 0; i < count; i++) zest_buffer_format(&text, "%s%s", i ? "," : "", one);
    zest_buffer_text(&text, "]}}");
    return text;
}

/* 4^16 bytes out of one. */
static void texts_do_not_grow_without_end(void **state) {
    (void)state;
    static const char *const replace[] = {
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaa\"}",
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a|b\"},\"content\":\"aaaa\"}"};
    for (int i = 0; i < 2; i++) {
        zest_buffer text = repeated("normalizer", "normalizers", replace[i], 16);
        zest_tokenizer *tokenizer = from_text(&text);
        assert_non_null(tokenizer);
        zest_ids ids = {0};
        assert_int_equal(zest_tokenizer_encode(tokenizer, "a", 1, 0, &ids, &error), ZEST_ERROR_FORMAT);
        says("normalizer produces more than");
        assert_int_equal(zest_tokenizer_encode(tokenizer, "b c", 3, 0, &ids, &error),
                         i ? ZEST_ERROR_FORMAT : ZEST_OK);
        zest_ids_free(&ids);
        zest_tokenizer_free(tokenizer);
        zest_buffer_free(&text);
    }
    zest_buffer text = repeated("decoder", "decoders", replace[0], 16), back = {0};
    zest_tokenizer *tokenizer = from_text(&text);
    assert_non_null(tokenizer);
    assert_int_equal(zest_tokenizer_decode(tokenizer, (int32_t[]){0}, 1, 0, &back, &error),
                     ZEST_ERROR_FORMAT);
    says("decoder produces more than");
    zest_tokenizer_free(tokenizer);
    zest_buffer_free(&text);
    zest_buffer_free(&back);
}

/* A pre-tokenizer writes longer marks for spaces: 1024^16 bytes out of one. */
static void marks_do_not_grow_without_end(void **state) {
    (void)state;
    char mark[1025], step[1200];
    memset(mark, ' ', 1024);
    mark[1024] = '\0';
    for (int split = 0; split < 2; split++) {
        snprintf(step, sizeof step, "{\"type\":\"Metaspace\",\"replacement\":\"%s\",\"split\":%s}", mark,
                 split ? "true" : "false");
        zest_buffer text = repeated("pre_tokenizer", "pretokenizers", step, 16);
        zest_tokenizer *tokenizer = from_text(&text);
        assert_non_null(tokenizer);
        zest_ids ids = {0};
        assert_int_equal(zest_tokenizer_encode(tokenizer, "a b", 3, 0, &ids, &error), ZEST_ERROR_FORMAT);
        says("pre_tokenizer produces more than");
        zest_ids_free(&ids);
        zest_tokenizer_free(tokenizer);
        zest_buffer_free(&text);
    }
}

/* A text of many sections between added tokens, each of which becomes 1 KiB longer. */
static void short_sections_do_not_grow_without_end(void **state) {
    (void)state;
    char mark[1025];
    memset(mark, 'a', 1024);
    mark[1024] = '\0';
    zest_buffer json = {0}, text = {0};
    zest_buffer_format(
        &json,
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{\"id\":1,"
        "\"content\":\"b\"}],\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"%s\"}}",
        mark);
    for (int i = 0; i < 1000; i++) zest_buffer_text(&text, "ab");
    zest_tokenizer *tokenizer = from_text(&json);
    assert_non_null(tokenizer);
    zest_ids ids = {0};
    assert_int_equal(zest_tokenizer_encode(tokenizer, text.data, 4, 0, &ids, &error), ZEST_OK);
    assert_int_equal(ids.count, 2 * 1026);
    assert_int_equal(zest_tokenizer_encode(tokenizer, text.data, text.size, 0, &ids, &error),
                     ZEST_ERROR_FORMAT);
    says("normalizer produces more than 68096 bytes");
    assert_int_equal(ids.count, 2 * 1026);
    zest_ids_free(&ids);
    zest_tokenizer_free(tokenizer);
    zest_buffer_free(&json);
    zest_buffer_free(&text);
}

/* A file may spell neither its parts nor its tokens without end. */
static void long_texts_are_refused(void **state) {
    (void)state;
    char *long_text = malloc(5001);
    memset(long_text, 'x', 5000);
    long_text[5000] = '\0';
    zest_buffer text = {0};
    zest_buffer_format(
        &text,
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"normalizer\":{\"type\":"
        "\"Prepend\",\"prepend\":\"%s\"}}",
        long_text);
    refused(&text, "\"prepend\" is longer than 1024 bytes");
    text.size = 0;
    zest_buffer_format(
        &text,
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{\"id\":1,"
        "\"content\":\"%s\"}]}",
        long_text);
    refused(&text, "an added token has 5000 bytes");
    text.size = 0;
    zest_buffer_text(&text, "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"u\":0},\"unk_token\":\"u\","
                            "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":1000000000}}");
    refused(&text, "\"max_input_chars_per_word\" must be from 0 to");
    zest_buffer_free(&text);
    free(long_text);
}

/* SentencePiece's merges are found by cutting each token at every place: the square of 2 MB is hours. */
static void long_pieces_are_refused(void **state) {
    (void)state;
    enum { SIZE = 2 << 20 };
    char *piece = malloc(SIZE);
    memset(piece, 'a', SIZE);
    zest_tokenizer_text tokens[] = {{"<unk>", 5}, {"a", 1}, {piece, SIZE}};
    const float scores[] = {0, -1, -2};
    zest_tokenizer_arrays arrays = {.model = "llama",
                                    .tokens = tokens,
                                    .scores = scores,
                                    .count = 3,
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1,
                                    .unk = 0,
                                    .sep = -1,
                                    .cls = -1,
                                    .mask = -1,
                                    .add_bos = -1,
                                    .add_eos = -1,
                                    .add_space_prefix = -1};
    assert_null(zest_tokenizer_from_arrays(&arrays, "g", &error));
    says("token 2 has 2097152 bytes, more than the 1024 allowed");
    tokens[2].size = 1024;
    zest_tokenizer *tokenizer = zest_tokenizer_from_arrays(&arrays, "g", &error);
    if (!tokenizer) fail_msg("%s", error.message);
    zest_tokenizer_free(tokenizer);
    free(piece);
}

/* Tokens whose places in the vocabulary's table are all the same. */
static void collisions_are_refused(void **state) {
    (void)state;
    zest_buffer text = {0};
    int found = 0;
    zest_buffer_text(&text, "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (uint64_t n = 0; found < 4200; n++) {
        char token[9];
        uint64_t rest = n;
        for (int i = 0; i < 8; i++, rest /= 26) token[i] = (char)('a' + rest % 26);
        token[8] = '\0';
        if (zest_hash(token, 8) % 16384) continue;
        zest_buffer_format(&text, "%s\"%s\":%d", found ? "," : "", token, found);
        found++;
    }
    zest_buffer_text(&text, "}}}");
    refused(&text, "too many tokens collide");
    zest_buffer_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_do_not_grow_without_end),
        cmocka_unit_test(marks_do_not_grow_without_end),
        cmocka_unit_test(short_sections_do_not_grow_without_end),
        cmocka_unit_test(long_texts_are_refused),
        cmocka_unit_test(long_pieces_are_refused),
        cmocka_unit_test(collisions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
