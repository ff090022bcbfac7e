/* WordPiece: vocab.txt and its settings, the rules for words, and errors. test_tokenizer.c compares with
 * Hugging Face. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "support.h"
#include "tokenizer/tokenizer.h"

static zest_error error;

#define VOCAB                                                                                   \
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\naff\nUn\n\xC3\xA9t\xC3\xA9\nete\n," \
    "\n\xE6\x97\xA5\nb\n"
enum { UNK = 1, CLS, SEP, MASK, UN, _AFF, _ABLE, AFF, CASED, ETE_ACCENTS, ETE, COMMA, DAY, B };

static zest_tokenizer *opened(const char *folder) {
    error = (zest_error){0};
    zest_tokenizer *tokenizer = zest_tokenizer_open(folder, &error);
    if (!tokenizer) fail_msg("%s", error.message);
    return tokenizer;
}

static void refused(const char *folder, const char *words) {
    zest_tokenizer *tokenizer = zest_tokenizer_open(folder, &error);
    if (tokenizer) fail_msg("accepted, where '%s' was to be said", words);
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
}

static void gives(const zest_tokenizer *t, const char *text, unsigned flags, const int32_t *ids,
                  size_t count) {
    zest_ids got = {0};
    assert_int_equal(zest_tokenizer_encode(t, text, strlen(text), flags, &got, &error), ZEST_OK);
    zest_buffer shown = {0};
    for (size_t i = 0; i < got.count; i++) zest_buffer_format(&shown, " %d", (int)got.data[i]);
    if (got.count != count || memcmp(got.data, ids, count * sizeof *ids))
        fail_msg("\"%s\" gives%s", text, shown.data ? shown.data : " nothing");
    zest_buffer_free(&shown);
    zest_ids_free(&got);
}
#define GIVES(t, text, flags, ...)                        \
    gives(t, text, flags, (const int32_t[]){__VA_ARGS__}, \
          sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void vocabularies_of_lines(void **state) {
    (void)state;
    char folder[64];
    test_folder(folder);
    test_put(folder, "vocab.txt", VOCAB);
    zest_tokenizer *t = opened(folder); /* without settings: lower case, without accents */
    GIVES(t, "Unaffable, \xC3\x89t\xC3\xA9", ZEST_ENCODE_TEMPLATE, CLS, UN, _AFF, _ABLE, COMMA, ETE, SEP);
    GIVES(t,
          "b\xE6\x97\xA5"
          "b[MASK]",
          0, B, DAY, B, MASK);
    GIVES(t, "unaffablex b", 0, UNK, B); /* a word that ends badly is unknown as a whole */
    GIVES(t, "[MASK]", ZEST_ENCODE_LITERAL, UNK, UNK, UNK);
    for (int role = 0; role < ZEST_TOKEN_ROLES; role++) {
        static const int32_t wanted[ZEST_TOKEN_ROLES] = {
            [ZEST_TOKEN_BOS] = -1,  [ZEST_TOKEN_EOS] = -1,  [ZEST_TOKEN_PAD] = 0,    [ZEST_TOKEN_UNK] = UNK,
            [ZEST_TOKEN_CLS] = CLS, [ZEST_TOKEN_SEP] = SEP, [ZEST_TOKEN_MASK] = MASK};
        assert_int_equal(zest_tokenizer_special(t, (zest_token_role)role), wanted[role]);
    }
    zest_buffer text = {0};
    const int32_t ids[] = {CLS, UN, _AFF, COMMA, B, SEP};
    assert_int_equal(zest_tokenizer_decode(t, ids, 6, 1, &text, &error), ZEST_OK);
    assert_string_equal(text.data, "unaff, b");
    zest_buffer_free(&text);
    zest_tokenizer_free(t);

    test_put(
        folder, "tokenizer_config.json",
        "{\"do_lower_case\": false, \"tokenizer_class\": \"BertTokenizer\", \"model_max_length\": 1e30}");
    t = opened(folder);
    GIVES(t, "Un un \xC3\xA9t\xC3\xA9 ete b\xE6\x97\xA5", 0, CASED, UN, ETE_ACCENTS, ETE, B, DAY);
    zest_tokenizer_free(t);
    test_put(folder, "tokenizer_config.json",
             "{\"do_lower_case\": true, \"strip_accents\": false, \"tokenize_chinese_chars\": false}");
    t = opened(folder);
    GIVES(t, "UN \xC3\x89T\xC3\x89 b\xE6\x97\xA5", 0, UN, ETE_ACCENTS, UNK);
    zest_tokenizer_free(t);
    test_remove(folder);
}

/* Lines end as Python's do; the last of equal tokens counts; an empty line is no token but takes a number. */
static void lines_are_read_as_python_reads_them(void **state) {
    (void)state;
    char folder[64];
    test_folder(folder);
    test_put(folder, "vocab.txt", "[UNK]\r\n[CLS]\r[SEP]\n\nb\nx\nb");
    zest_tokenizer *t = opened(folder);
    assert_int_equal(zest_tokenizer_size(t), 7);
    assert_int_equal(zest_tokenizer_id(t, "[SEP]", 5), 2);
    assert_int_equal(zest_tokenizer_id(t, "b", 1), 6);
    assert_null(zest_tokenizer_token(t, 3, NULL));
    GIVES(t, "x b", ZEST_ENCODE_TEMPLATE, 1, 5, 6, 2);
    zest_tokenizer_free(t);
    test_remove(folder);
}

static void vocabularies_are_checked(void **state) {
    (void)state;
    char folder[64];
    test_folder(folder);
    test_put(folder, "vocab.txt", "");
    refused(folder, "vocab.txt: the tokens [CLS] and [SEP] are missing");
    test_put(folder, "vocab.txt", "[CLS]\n[SEP]\n");
    refused(folder, "vocab.txt: the unknown token is missing");
    test_put(folder, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n\xFF\n");
    refused(folder, "vocab.txt: is not UTF-8 text");
    test_put(folder, "vocab.txt", VOCAB);
    test_put(folder, "tokenizer_config.json", "{\"tokenizer_class\": \"BertJapaneseTokenizer\"}");
    refused(folder, "\"BertJapaneseTokenizer\" with vocab.txt is not supported");
    test_put(folder, "tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}");
    refused(folder, "\"GPT2Tokenizer\" with vocab.txt is not supported");
    test_put(folder, "tokenizer_config.json", "{\"do_basic_tokenize\": false}");
    refused(folder, "\"do_basic_tokenize\" is false");
    test_put(folder, "tokenizer_config.json", "{\"do_lower_case\": 1}");
    refused(folder, "\"do_lower_case\" must be true or false");
    test_remove(folder);
}

#define MODEL                                                                                                \
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","                  \
    "\"max_input_chars_per_word\":5,\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"a\":2,\"##a\":3,\"A\":4,\"##A\":5}" \
    "}"
#define NORMALIZER                                                                    \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true," \
    "\"strip_accents\":null,\"lowercase\":true}"
#define FILE                                                                                                \
    "{\"model\":" MODEL ",\"normalizer\":" NORMALIZER ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}," \
    "\"added_tokens\":[{\"id\":1,\"content\":\"[CLS]\",\"special\":true}]}"

/* The limit of a word is in characters; settings in tokenizer_config.json override it, as in transformers. */
static void files_and_settings(void **state) {
    (void)state;
    char folder[64];
    test_folder(folder);
    test_put(folder, "tokenizer.json", FILE);
    zest_tokenizer *t = opened(folder);
    GIVES(t, "aAaAa aaaaaa", 0, 2, 3, 3, 3, 3, 0);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_CLS), 1);
    zest_tokenizer_free(t);
    test_put(folder, "tokenizer_config.json",
             "{\"do_lower_case\": false, \"tokenizer_class\": \"BertTokenizer\"}");
    t = opened(folder);
    GIVES(t, "aA", 0, 2, 5);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_CLS), 1); /* nothing names it: by its spelling */
    zest_tokenizer_free(t);
    test_put(folder, "tokenizer_config.json",
             "{\"do_lower_case\": false, \"tokenizer_class\": \"TokenizersBackend\", \"cls_token\": null}");
    t = opened(folder);
    GIVES(t, "aA", 0, 2, 3);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_CLS), -1);
    zest_tokenizer_free(t);
    test_remove(folder);
}

static void files_are_checked(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"unk_token\":\"a\"}}",
         "continuing_subword_prefix"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"continuing_subword_prefix\":\"##\"}}",
         "unk_token"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"continuing_subword_prefix\":\"##\",\"unk_"
         "token\":"
         "\"b\"}}",
         "its \"unk_token\" is not in the vocabulary"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"continuing_subword_prefix\":\"##\",\"unk_"
         "token\":"
         "\"a\",\"max_input_chars_per_word\":-1}}",
         "max_input_chars_per_word"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"continuing_subword_prefix\":\"##\",\"unk_"
         "token\":"
         "\"a\",\"max_input_chars_per_word\":99999999999999999999}}",
         "max_input_chars_per_word"},
        {"{\"model\":" MODEL ",\"normalizer\":{\"type\":\"BertNormalizer\"}}",
         "\"clean_text\" must be true or false"},
        {"{\"model\":" MODEL ",\"decoder\":{\"type\":\"WordPiece\"}}", "\"prefix\" must be a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        error = (zest_error){0};
        zest_tokenizer *t = zest_tokenizer_from_json(cases[i][0], strlen(cases[i][0]), "f", &error);
        if (t) fail_msg("accepted, where '%s' was to be said", cases[i][1]);
        if (!strstr(error.message, cases[i][1]))
            fail_msg("'%s' does not say '%s'", error.message, cases[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocabularies_of_lines),    cmocka_unit_test(lines_are_read_as_python_reads_them),
        cmocka_unit_test(vocabularies_are_checked), cmocka_unit_test(files_and_settings),
        cmocka_unit_test(files_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
