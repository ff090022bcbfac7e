/* SentencePiece's .model files: damaged and unsupported ones, the settings of a folder, special tokens. That tokens are those
 * of sentencepiece is in test_tokenizer.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "support.h"
#include "tokenizer/load.h"
#include "tokenizer/tokenizer.h"

#define LLAMA "tests/data/tokenizers/sp-llama.model"

static zest_error error;

static zest_tokenizer *from_bytes(const char *bytes, size_t size) {
    error = (zest_error){0};
    zest_tokenizer *tokenizer = zest_tokenizer_new("f.model", &error);
    assert_non_null(tokenizer);
    char *copy = malloc(size ? size : 1); /* of just this size, for the sanitizers */
    assert_non_null(copy);
    if (size) memcpy(copy, bytes, size);
    zest_status status = zest_tokenizer_load_sentencepiece(tokenizer, copy, size, &error);
    if (!status) status = zest_tokenizer_finish(tokenizer, &error);
    free(copy);
    if (!status) return tokenizer;
    zest_tokenizer_free(tokenizer);
    return NULL;
}

static void refused(const char *bytes, size_t size, const char *words) {
    zest_tokenizer *tokenizer = from_bytes(bytes, size);
    if (tokenizer) fail_msg("accepted, where '%s' was to be said", words);
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
    assert_int_equal(error.status, ZEST_ERROR_FORMAT);
}
#define REFUSED(bytes, words) refused(bytes, sizeof(bytes) - 1, words)

/* Three tokens: <unk>, "a" with a score of 0, "b". */
#define TOKENS                              \
    "\n\x09\n\x05<unk>\x18\x02\n\x08\n\x01" \
    "a\x15\0\0\0\0\n\x03\n\x01"             \
    "b"

static void messages_are_checked(void **state) {
    (void)state;
    zest_tokenizer *good = from_bytes(TOKENS, sizeof TOKENS - 1);
    assert_non_null(good);
    assert_int_equal(zest_tokenizer_size(good), 3);
    zest_tokenizer_free(good);
    REFUSED("", "is not a SentencePiece model");
    REFUSED("\n", "is not a SentencePiece model");
    REFUSED("{\"model\":1}", "is not a SentencePiece model");
    REFUSED("\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "is not a SentencePiece model");
    REFUSED(TOKENS "\x0b", "is not a SentencePiece model");           /* a group */
    REFUSED(TOKENS "\n\x02\x18\x09", "is not a SentencePiece model"); /* no such type */
    REFUSED(TOKENS "\n\x05\x15\0\0\xc0\x7f", "score is not a number");
    REFUSED(TOKENS "\n\x03\n\x01\xff", "is not UTF-8");
    REFUSED(TOKENS "\n\x03\n\x01"
                   "a",
            "\"a\" is listed twice");
    REFUSED("\n\x03\n\x01"
            "a",
            "one token of type UNKNOWN");
    REFUSED(TOKENS "\x12\x03\xc0\x02\x01", "at the place of unk_id");
    REFUSED(TOKENS "\x12\x02\x18\x03", "is a WORD model, which zest does not support");
    REFUSED(TOKENS "\x12\x02\x18\x04", "is a CHAR model");
    REFUSED(TOKENS "\x12\x03\xc0\x01\x01", "treat_whitespace_as_suffix");
    REFUSED(TOKENS "\x12\x02\x18\x02\n\x05\n\x01"
                   "c\x18\x05",
            "tokens of type UNUSED");
    REFUSED(TOKENS "\n\x05\n\x01"
                   "c\x18\x04",
            "is Unigram with tokens of type USER_DEFINED");
    REFUSED(TOKENS "\x1a\x05\x12\x03"
                   "abc",
            "map is damaged");
    REFUSED(TOKENS "*\x05\x12\x03"
                   "abc",
            "denormalizer_spec");
}

/* Every beginning of a file, and every byte of it changed: an error, or a tokenizer that works. */
static void damaged_files(void **state) {
    (void)state;
    zest_buffer file = {0};
    assert_int_equal(zest_file_read(LLAMA, 1 << 20, &file, &error), ZEST_OK);
    size_t step = 3 * TEST_SLOW, accepted = 0;
    for (size_t i = 0; i < file.size; i += step) {
        zest_tokenizer *tokenizer = from_bytes(file.data, i);
        zest_tokenizer_free(tokenizer);
        char kept = file.data[i];
        file.data[i] = (char)(kept ^ (1 << i % 8));
        tokenizer = from_bytes(file.data, file.size);
        file.data[i] = kept;
        if (!tokenizer) continue;
        zest_ids ids = {0};
        if (!zest_tokenizer_encode(tokenizer, "a caf\xC3\xA9", 7, 0, &ids, &error)) accepted++;
        zest_ids_free(&ids);
        zest_tokenizer_free(tokenizer);
    }
    assert_true(accepted > 0);
    zest_buffer_free(&file);
}

static void expect(const zest_tokenizer *tokenizer, const char *text, unsigned flags, const char *wanted) {
    zest_ids ids = {0};
    zest_buffer got = {0};
    assert_int_equal(zest_tokenizer_encode(tokenizer, text, strlen(text), flags, &ids, &error), ZEST_OK);
    for (size_t i = 0; i < ids.count; i++)
        zest_buffer_format(&got, "%s%s", i ? " " : "", zest_tokenizer_token(tokenizer, ids.data[i], NULL));
    assert_string_equal(got.data ? got.data : "", wanted);
    zest_ids_free(&ids);
    zest_buffer_free(&got);
}

static void folders_say_how(void **state) {
    (void)state;
    char buffer[64], path[128];
    const char *folder = test_folder(buffer);
    zest_buffer file = {0};
    assert_int_equal(zest_file_read(LLAMA, 1 << 20, &file, &error), ZEST_OK);
    snprintf(path, sizeof path, "%s/tokenizer.model", folder);
    assert_int_equal(zest_file_write(path, file.data, file.size, &error), ZEST_OK);
    static const struct {
        const char *config, *text, *tokens;
    } cases[] = {
        {"{}", "it</s>it", "<s> ▁it </s> ▁it"},
        {"{\"legacy\":false}", "it</s>it", "<s> ▁it </s> it"},
        {"{\"tokenizer_class\":\"LlamaTokenizer\",\"add_eos_token\":true}", "it", "<s> ▁it </s>"},
        {"{\"tokenizer_class\":\"GemmaTokenizer\",\"add_bos_token\":false}", "it", "▁it"},
        {"{\"tokenizer_class\":\"T5Tokenizer\"}", "it", "▁it </s>"},
        {"{\"added_tokens_decoder\":{\"900\":{\"content\":\"<|im_end|>\",\"special\":true}}}", "it<|im_end|>",
         "<s> ▁it <|im_end|>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_put(folder, "tokenizer_config.json", cases[i].config);
        zest_tokenizer *tokenizer = zest_tokenizer_open(folder, &error);
        if (!tokenizer) fail_msg("%s", error.message);
        expect(tokenizer, cases[i].text, ZEST_ENCODE_TEMPLATE, cases[i].tokens);
        assert_int_equal(zest_tokenizer_special(tokenizer, ZEST_TOKEN_BOS), 1);
        assert_int_equal(zest_tokenizer_special(tokenizer, ZEST_TOKEN_EOS), 2);
        zest_tokenizer_free(tokenizer);
    }
    test_put(folder, "tokenizer_config.json", "{\"tokenizer_class\":\"XLNetTokenizer\"}");
    assert_null(zest_tokenizer_open(folder, &error));
    assert_non_null(strstr(error.message, "\"XLNetTokenizer\" with tokenizer.model is not supported"));
    zest_buffer_free(&file);
    test_remove(folder);
}

static void control_tokens_are_text_when_literal(void **state) {
    (void)state;
    zest_tokenizer *tokenizer = zest_tokenizer_open(LLAMA, &error);
    assert_non_null(tokenizer);
    expect(tokenizer, "</s>", 0, "</s>");
    expect(tokenizer, "</s>", ZEST_ENCODE_LITERAL, "▁< / s >");
    expect(tokenizer, "\xF0\x9F\xA6\x99", 0, "▁ <0xF0> <0x9F> <0xA6> <0x99>");
    zest_tokenizer_free(tokenizer);
}

/* ---- Maps of characters that take their time ---- */

static void add_unit(zest_buffer *out, uint32_t unit) {
    const unsigned char bytes[] = {unit & 255, unit >> 8 & 255, unit >> 16 & 255, unit >> 24};
    zest_buffer_add(out, bytes, 4);
}

static void add_size(zest_buffer *out, char key, size_t size) { /* of a field; three bytes */
    const char bytes[] = {key, (char)((size & 127) | 128), (char)((size >> 7 & 127) | 128),
                          (char)(size >> 14)};
    zest_buffer_add(out, bytes, 4);
}

/* A tokenizer whose map has at every place a child for every byte, which is that place again. Such a child is an entry with
 * the text at `entry`, or none: UINT32_MAX. */
static zest_tokenizer *circular(uint32_t entry, const zest_buffer *texts) {
    zest_buffer map = {0}, file = {0};
    enum { ROOT = 256, UNITS = 512 };
    add_unit(&map, 4 * UNITS);
    for (uint32_t i = 0; i < UNITS; i++) {
        uint32_t byte = i ^ ROOT, ends = entry != UINT32_MAX, unit = 0;
        if (!i) unit = (uint32_t)ROOT << 10;
        if (i == ROOT) unit = (ends ? entry : 0) | (uint32_t)1 << 31;
        if (i > ROOT) unit = byte << 10 | ends << 8 | byte;
        add_unit(&map, unit);
    }
    zest_buffer_add(&map, texts->data, texts->size);
    zest_buffer_add(&file, TOKENS, sizeof TOKENS - 1);
    add_size(&file, 0x1a, map.size + 4);
    add_size(&file, 0x12, map.size);
    zest_buffer_add(&file, map.data, map.size);
    zest_tokenizer *tokenizer = from_bytes(file.data, file.size);
    if (!tokenizer) fail_msg("%s", error.message);
    zest_buffer_free(&map);
    zest_buffer_free(&file);
    return tokenizer;
}

/* Quadratic work in a text, and the length of an entry's text times that of the text. */
static void maps_are_bounded(void **state) {
    (void)state;
    zest_buffer texts = {0}, text = {0};
    zest_ids ids = {0};
    clock_t start = clock();
    while (texts.size < 1000000) zest_buffer_text(&texts, "x");
    zest_buffer_add(&texts, "\xFF\0", 2);
    while (text.size < 100000) zest_buffer_text(&text, "ab");
    zest_tokenizer *tokenizer = circular(UINT32_MAX, &texts);
    assert_int_equal(zest_tokenizer_encode(tokenizer, text.data, text.size, 0, &ids, &error), ZEST_OK);
    zest_tokenizer_free(tokenizer);
    tokenizer = circular(0, &texts);
    assert_int_equal(zest_tokenizer_encode(tokenizer, text.data, text.size, 0, &ids, &error), ZEST_OK);
    zest_tokenizer_free(tokenizer);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("hostile maps: %.1f s\n", seconds);
    assert_true(seconds < 5 * TEST_SLOW);
    zest_ids_free(&ids);
    zest_buffer_free(&texts);
    zest_buffer_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_checked), cmocka_unit_test(damaged_files),
        cmocka_unit_test(folders_say_how),      cmocka_unit_test(control_tokens_are_text_when_literal),
        cmocka_unit_test(maps_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
