/* Tokenizers against the answers of Hugging Face tokenizers.
 *
 * ZEST_TOKENIZER_ANSWERS=FOLDER also compares with the many answers of `tools/make_tokenizer_goldens.py large
 * FOLDER`; ZEST_SHARED=FOLDER compares with the models in there. Without the variables both are left out. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "rng/noise.h"
#include "support.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

#define DATA "tests/data/tokenizers"

static zest_error error;

static zest_tokenizer *opened(const char *path) {
    zest_tokenizer *tokenizer = zest_tokenizer_open(path, &error);
    if (!tokenizer) fail_msg("%s", error.message);
    return tokenizer;
}

/* ---- Answers: lines of JSON, see tools/make_tokenizer_goldens.py -------------------------------------- */

static zest_tokenizer_text *texts_of(const json_t *list, size_t *count) {
    *count = json_array_size(list);
    zest_tokenizer_text *texts = calloc(*count + 1, sizeof *texts);
    assert_non_null(texts);
    for (size_t i = 0; i < *count; i++) {
        const json_t *text = json_array_get(list, i);
        texts[i] = (zest_tokenizer_text){json_string_value(text), json_string_length(text)};
    }
    return texts;
}

static int32_t id_in(const json_t *json, const char *key) {
    const json_t *id = json_object_get(json, key);
    return json_is_integer(id) ? (int32_t)json_integer_value(id) : -1;
}

/* The arrays of a GGUF file, written as JSON. */
static zest_tokenizer *from_arrays_file(const char *path) {
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    zest_tokenizer_arrays a = {
        .pad = -1, .sep = -1, .cls = -1, .mask = -1, .add_eos = -1, .add_space_prefix = -1};
    a.model = json_string_value(json_object_get(json, "model"));
    a.pre = json_string_value(json_object_get(json, "pre"));
    a.tokens = texts_of(json_object_get(json, "tokens"), &a.count);
    a.merges = texts_of(json_object_get(json, "merges"), &a.merge_count);
    const json_t *scores = json_object_get(json, "scores"), *types = json_object_get(json, "types");
    float *score = calloc(a.count, sizeof *score);
    int32_t *type = calloc(a.count, sizeof *type);
    for (size_t i = 0; i < a.count; i++) {
        score[i] = (float)json_number_value(json_array_get(scores, i));
        type[i] = (int32_t)json_integer_value(json_array_get(types, i));
    }
    a.scores = scores ? score : NULL;
    a.types = type;
    a.bos = id_in(json, "bos"), a.eos = id_in(json, "eos"), a.unk = id_in(json, "unk"),
    a.pad = id_in(json, "pad");
    a.add_bos = id_in(json, "add_bos");
    zest_tokenizer *tokenizer = zest_tokenizer_from_arrays(&a, path, &error);
    if (!tokenizer) fail_msg("%s", error.message);
    free((void *)a.tokens);
    free((void *)a.merges);
    free(score);
    free(type);
    json_decref(json);
    return tokenizer;
}

static zest_buffer text_of(const json_t *line, const char *key) {
    zest_buffer text = {0};
    const json_t *plain = json_object_get(line, key), *hex = json_object_get(line, "hex");
    zest_buffer_add(&text, "", 0);
    if (plain) zest_buffer_add(&text, json_string_value(plain), json_string_length(plain));
    for (const char *at = plain || !hex ? "" : json_string_value(hex); *at; at += 2) {
        char digits[3] = {at[0], at[1]}, byte = (char)strtol(digits, NULL, 16);
        zest_buffer_add(&text, &byte, 1);
    }
    return text;
}

static int same_ids(const zest_ids *ids, const json_t *wanted) {
    if (ids->count != json_array_size(wanted)) return 0;
    for (size_t i = 0; i < ids->count; i++)
        if (ids->data[i] != json_integer_value(json_array_get(wanted, i))) return 0;
    return 1;
}

static void mismatch(const char *what, const char *path, const json_t *line, const zest_ids *ids,
                     const zest_buffer *text) {
    char *wanted = json_dumps(line, JSON_COMPACT);
    zest_buffer got = {0};
    for (size_t i = 0; ids && i < ids->count; i++) zest_buffer_format(&got, "%d,", (int)ids->data[i]);
    if (text) zest_buffer_text(&got, text->data ? text->data : "");
    fail_msg("%s: %s\nwanted %.3000s\ngot %.3000s", path, what, wanted, got.data ? got.data : "");
}

static void check_decoding(const zest_tokenizer *tokenizer, const char *path, const json_t *line,
                           const zest_ids *ids) {
    zest_buffer text = text_of(line, "text"), repaired = {0}, wanted = {0}, got = {0};
    zest_unicode_repair(text.data, text.size, &repaired);
    const json_t *back = json_object_get(line, "back"), *skipped = json_object_get(line, "skipped");
    for (int skip = 0; skip < 2; skip++) {
        wanted.size = got.size = 0;
        if (skip && skipped)
            zest_buffer_add(&wanted, json_string_value(skipped), json_string_length(skipped));
        else if (back)
            zest_buffer_add(&wanted, json_string_value(back), json_string_length(back));
        else
            zest_buffer_add(&wanted, repaired.data, repaired.size);
        assert_int_equal(zest_tokenizer_decode(tokenizer, ids->data, ids->count, skip, &got, &error),
                         ZEST_OK);
        if (got.size != wanted.size || (got.size && memcmp(got.data, wanted.data, got.size)))
            mismatch(skip ? "decode, skipping" : "decode", path, line, NULL, &got);
    }
    zest_buffer_free(&text);
    zest_buffer_free(&repaired);
    zest_buffer_free(&wanted);
    zest_buffer_free(&got);
}

static void check_line(const zest_tokenizer *tokenizer, const char *path, const json_t *line) {
    const json_t *wanted = json_object_get(line, "ids"), *all = json_object_get(line, "all"),
                 *decode = json_object_get(line, "decode");
    zest_buffer text = text_of(line, "text");
    zest_ids ids = {0};
    if (wanted) {
        assert_int_equal(zest_tokenizer_encode(tokenizer, text.data, text.size, 0, &ids, &error), ZEST_OK);
        if (!same_ids(&ids, wanted)) mismatch("encode", path, line, &ids, NULL);
        ids.count = 0;
        assert_int_equal(
            zest_tokenizer_encode(tokenizer, text.data, text.size, ZEST_ENCODE_TEMPLATE, &ids, &error), 0);
        if (!same_ids(&ids, all ? all : wanted)) mismatch("encode with the template", path, line, &ids, NULL);
    }
    for (size_t i = 0; i < json_array_size(decode); i++)
        zest_ids_add(&ids, (int32_t)json_integer_value(json_array_get(decode, i)));
    check_decoding(tokenizer, path, line, &ids);
    zest_ids_free(&ids);
    zest_buffer_free(&text);
}

static size_t check_answers(const zest_tokenizer *tokenizer, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("%s cannot be opened", path);
    char *text = NULL;
    size_t capacity = 0, lines = 0;
    for (ssize_t size; (size = getline(&text, &capacity, file)) > 0; lines++) {
        json_t *line = json_loadb(text, (size_t)size, JSON_ALLOW_NUL, NULL);
        assert_non_null(line);
        check_line(tokenizer, path, line);
        json_decref(line);
    }
    free(text);
    fclose(file);
    return lines;
}

/* The tokenizers and answers that FOLDER/list names. */
static size_t check_folder(const char *folder, int loud) {
    char path[4096], source[2048], answers[1024];
    snprintf(path, sizeof path, "%s/list", folder);
    FILE *list = fopen(path, "r");
    if (!list) fail_msg("%s cannot be opened", path);
    size_t total = 0;
    while (fscanf(list, "%2047s %1023s", source, answers) == 2) {
        snprintf(path, sizeof path, source[0] == '/' ? "%s%s" : "%s/%s", source[0] == '/' ? "" : folder,
                 source);
        zest_tokenizer *tokenizer = strstr(source, ".arrays.json") ? from_arrays_file(path) : opened(path);
        snprintf(path, sizeof path, "%s/%s", folder, answers);
        size_t lines = check_answers(tokenizer, path);
        if (loud) print_message("%8zu answers agree: %s\n", lines, source);
        total += lines;
        zest_tokenizer_free(tokenizer);
    }
    fclose(list);
    return total;
}

static void small_tokenizers_answer_as_references(void **state) {
    (void)state;
    assert_int_equal(check_folder(DATA, 0), 8 * 75 + 3 * 200 + 150 + 5 * 250);
}

/* The normalizers, pre-tokenizers and decoders of published families, with small vocabularies. */
static void families_answer_as_hugging_face(void **state) {
    (void)state;
    assert_int_equal(check_folder("tests/data/families", 0), 13 * 200);
}

static void many_answers(void **state) {
    (void)state;
    const char *folder = getenv("ZEST_TOKENIZER_ANSWERS");
    if (!folder) skip();
    assert_true(check_folder(folder, 1) > 0);
}

/* ---- Real models, where they are ---------------------------------------------------------------------- */

static zest_tokenizer *shared(const char *model) {
    char name[64], buffer[512];
    snprintf(name, sizeof name, "models/%s", model);
    const char *path = test_shared(name, buffer);
    return path ? opened(path) : NULL;
}

static void expect_ids(const zest_tokenizer *tokenizer, const char *text, unsigned flags,
                       const int32_t *wanted, size_t count) {
    zest_ids ids = {0};
    assert_int_equal(zest_tokenizer_encode(tokenizer, text, strlen(text), flags, &ids, &error), ZEST_OK);
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.data, wanted, count * sizeof *wanted);
    zest_ids_free(&ids);
}
#define EXPECT(tokenizer, text, flags, ...) \
    expect_ids(tokenizer, text, flags, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / 4)

static void roberta_gives_the_published_ids(void **state) {
    (void)state;
    zest_tokenizer *t = shared("roberta-small");
    if (!t) skip();
    EXPECT(t,
           "This is a test 😊\nI was born in 92000, and this is falsé.\n生活的真谛是\nHi  Hello\nHi   "
           "Hello\n\n \n  \n "
           "Hello\n",
           0, 713, 16, 10, 1296, 17841, 27969, 50118, 100, 21, 2421, 11, 8403, 151, 6, 8, 42, 16, 22461, 1140,
           4, 50118, 48998, 37127, 20024, 2023, 44574, 49122, 4333, 36484, 7487, 3726, 48569, 50118, 30086,
           1437, 20920, 50118, 30086, 1437, 1437, 20920, 50140, 1437, 50118, 1437, 1437, 50118, 20920, 50118);
    EXPECT(t, "It was <mask>.", ZEST_ENCODE_TEMPLATE, 0, 243, 21, 50264, 4, 2);
    EXPECT(t, "</s>", 0, 2);
    EXPECT(t, "</s>", ZEST_ENCODE_LITERAL, 49138, 29, 15698);
    assert_int_equal(zest_tokenizer_size(t), 50265);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_MASK), 50264);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_CLS), 0);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_PAD), 1);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_SEP), 2);
    assert_int_equal(zest_tokenizer_id(t, "Ġgreat", 7), 372);
    assert_int_equal(zest_tokenizer_id(t, "Ġgrea", 6), -1);
    assert_true(zest_tokenizer_is_special(t, 1) && !zest_tokenizer_is_special(t, 372));
    zest_tokenizer_free(t);
}

static void llama_gives_the_published_ids(void **state) {
    (void)state;
    zest_tokenizer *t = shared("stories15M");
    if (!t) skip();
    EXPECT(t, "Hello this is a test", ZEST_ENCODE_TEMPLATE, 1, 15043, 445, 338, 263, 1243);
    EXPECT(t, "Once upon a time", ZEST_ENCODE_TEMPLATE, 1, 9038, 2501, 263, 931);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_BOS), 1);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_EOS), 2);
    assert_int_equal(zest_tokenizer_special(t, ZEST_TOKEN_PAD), -1);
    zest_tokenizer_free(t);
}

static uint32_t draw(uint64_t *state, uint32_t below) {
    return (uint32_t)(zest_seed(11, 0, (*state)++) % below);
}

/* ---- The whole, in other ways ------------------------------------------------------------------------- */

static void text_comes_back(void **state) {
    (void)state;
    static const char *const files[] = {DATA "/llama3.json", DATA "/digits.json", DATA "/llama.json"};
    uint64_t seed = 0;
    for (size_t f = 0; f < 3; f++) {
        zest_tokenizer *t = opened(files[f]);
        zest_buffer text = {0}, back = {0}, pieces = {0};
        zest_ids ids = {0};
        for (int round = 0; round < 2000 / TEST_SLOW; round++) {
            char one[4];
            text.size = back.size = pieces.size = ids.count = 0;
            for (uint32_t n = draw(&seed, 40); n > 0; n--) {
                uint32_t code = draw(&seed, draw(&seed, 2) ? 0x7F : 0xD7FF);
                if (code != 0x2581) zest_buffer_add(&text, one, zest_unicode_write(code, one));
            }
            assert_int_equal(zest_tokenizer_encode(t, text.data, text.size, 0, &ids, &error), ZEST_OK);
            assert_int_equal(zest_tokenizer_decode(t, ids.data, ids.count, 0, &back, &error), ZEST_OK);
            assert_int_equal(back.size, text.size);
            if (text.size) assert_memory_equal(back.data, text.data, text.size);
            for (size_t i = 0; i < ids.count; i++)
                assert_int_equal(zest_tokenizer_token_bytes(t, ids.data[i], &pieces, &error), ZEST_OK);
            size_t prefix = f == 2 && text.size; /* Llama's space in front */
            assert_int_equal(pieces.size, text.size + prefix);
            if (text.size) assert_memory_equal(pieces.data + prefix, text.data, text.size);
        }
        zest_buffer_free(&text);
        zest_buffer_free(&back);
        zest_buffer_free(&pieces);
        zest_ids_free(&ids);
        zest_tokenizer_free(t);
    }
}

/* The text of a prompt and what is said to follow it are the whole text, wherever the prompt ends. */
static void text_goes_on_where_the_prompt_ends(void **state) {
    (void)state;
    static const char *const files[] = {DATA "/llama.json", DATA "/metaspace.json", DATA "/qwen2.json"};
    static const char text[] = "It's  what we'd hoped for: the river runs. 😀 日本";
    for (size_t f = 0; f < 3; f++) {
        zest_tokenizer *t = opened(files[f]);
        zest_ids ids = {0};
        zest_buffer whole = {0};
        size_t ends = 0;
        assert_int_equal(zest_tokenizer_encode(t, text, strlen(text), ZEST_ENCODE_TEMPLATE, &ids, &error), 0);
        assert_int_equal(zest_tokenizer_decode(t, ids.data, ids.count, 1, &whole, &error), ZEST_OK);
        for (size_t first = 0; first <= ids.count; first++) {
            zest_buffer both = {0};
            assert_int_equal(zest_tokenizer_decode(t, ids.data, first, 1, &both, &error), ZEST_OK);
            if (both.size && memcmp(both.data, whole.data, both.size)) { /* it ends within a character */
                both.size = 0;
                assert_int_equal(zest_tokenizer_decode_after(t, ids.data, first, ids.count, 1, &both, &error),
                                 0);
                assert_string_equal(both.data, whole.data + whole.size - both.size);
            } else {
                assert_int_equal(zest_tokenizer_decode_after(t, ids.data, first, ids.count, 1, &both, &error),
                                 0);
                assert_string_equal(both.data, whole.data);
                ends++;
            }
            zest_buffer_free(&both);
        }
        assert_true(ends > 15);
        zest_buffer_free(&whole);
        zest_ids_free(&ids);
        zest_tokenizer_free(t);
    }
}

static void threads_share_a_tokenizer(void **state) {
    (void)state;
    zest_tokenizer *t = opened(DATA "/o200k.json");
    zest_buffer text = {0};
    for (int i = 0; i < 200; i++)
        zest_buffer_format(&text, "The keeper counted %d ships; l'été %d.\n", i, i * i);
    zest_ids alone = {0};
    assert_int_equal(zest_tokenizer_encode(t, text.data, text.size, 0, &alone, &error), ZEST_OK);
    int bad = 0;
#pragma omp parallel for reduction(+ : bad) num_threads(4)
    for (int i = 0; i < 32; i++) {
        zest_ids ids = {0};
        zest_error mine = {0};
        bad += zest_tokenizer_encode(t, text.data, text.size, 0, &ids, &mine) != ZEST_OK ||
               ids.count != alone.count || memcmp(ids.data, alone.data, ids.count * sizeof *ids.data) != 0;
        zest_ids_free(&ids);
    }
    assert_int_equal(bad, 0);
    zest_ids_free(&alone);
    zest_buffer_free(&text);
    zest_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_tokenizers_answer_as_references),
        cmocka_unit_test(families_answer_as_hugging_face),
        cmocka_unit_test(many_answers),
        cmocka_unit_test(roberta_gives_the_published_ids),
        cmocka_unit_test(llama_gives_the_published_ids),
        cmocka_unit_test(text_comes_back),
        cmocka_unit_test(text_goes_on_where_the_prompt_ends),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
