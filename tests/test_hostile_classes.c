/* Classes of defects that files of strangers have found in other programs of this kind, each with a test of its own.
 * Tests of the readers one by one are in test_gguf_hostile, test_safetensors, test_tokenizer_hostile,
 * test_tokenizer_limits, test_model_load, test_rows and test_template. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/model.h"
#include "optim/journal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temp_folder.h"
#include "tokenizer/tokenizer_internal.h"
#include "zest_lm.h"

static zest_error error;

static void says(const char *words) {
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
}

static void put32(zest_buffer *out, uint32_t value) { zest_buffer_add(out, &value, sizeof value); }
static void put64(zest_buffer *out, uint64_t value) { zest_buffer_add(out, &value, sizeof value); }

/* ---- GGUF files: one tensor, or a tiny model with one thing changed ---- */

typedef struct {
    uint32_t alignment, rank, type;
    uint64_t dims[4], offset;
} one_tensor;

/* Opens a file with this tensor and 64 bytes of data, in memory that ends where the file ends. */
static zest_status open_tensor(const one_tensor *t) {
    zest_buffer out = {0};
    zest_gguf *file;
    zest_buffer_text(&out, "GGUF");
    put32(&out, 3);
    put64(&out, 1);
    put64(&out, 1);
    put64(&out, 17);
    zest_buffer_text(&out, "general.alignment");
    put32(&out, ZEST_GGUF_U32);
    put32(&out, t->alignment);
    put64(&out, 1);
    zest_buffer_text(&out, "t");
    put32(&out, t->rank);
    for (uint32_t i = 0; i < t->rank; i++) put64(&out, t->dims[i]);
    put32(&out, t->type);
    put64(&out, t->offset);
    while (t->alignment && t->alignment < 4096 && out.size % t->alignment) zest_buffer_add(&out, "", 1);
    zest_buffer_add(&out, (char[64]){0}, 64);
    void *copy = malloc(out.size);
    assert_non_null(copy);
    memcpy(copy, out.data, out.size);
    error = (zest_error){0};
    zest_status status = zest_gguf_open_memory(copy, out.size, "memory", &file, &error);
    if (!status) {
        const zest_gguf_tensor *tensor = zest_gguf_at(file, 0);
        const unsigned char *data = tensor->data;
        unsigned sum = 0;
        for (size_t i = 0; i < tensor->rows * tensor->row_size; i++) sum += data[i];
        assert_int_equal(sum, 0);
    }
    zest_gguf_close(file);
    free(copy);
    zest_buffer_free(&out);
    return status;
}

/* Products, sums and paddings that wrap round, also where the first check passes and the second does not. */
static void size_arithmetic_does_not_wrap(void **state) {
    (void)state;
    enum { F32 = ZEST_GGUF_TYPE_F32, Q8 = ZEST_GGUF_TYPE_Q8_0 };
    const uint64_t half = (uint64_t)1 << 32, top = (uint64_t)1 << 63;
    const struct {
        one_tensor tensor;
        const char *words; /* NULL: accepted */
    } cases[] = {
        {{32, 2, F32, {8, 2}, 0}, NULL},
        {{32, 4, F32, {2, half, half, 1}, 0}, "overflows"},
        {{32, 4, F32, {half, half, 2, 1}, 0}, "overflows"},
        {{32, 4, F32, {4, half, 0, half}, 0}, NULL},            /* nothing, whatever the others say */
        {{32, 3, F32, {2, top, 2}, 0}, "overflows"},            /* 2^65 elements are 2 */
        {{32, 2, F32, {(uint64_t)1 << 62, 1}, 0}, "overflows"}, /* 2^62 elements are 2^64 bytes */
        {{32, 2, F32, {((uint64_t)1 << 62) + 1, 1}, 0}, "overflows"},
        {{32, 2, Q8, {32, UINT64_MAX / 34 + 1}, 0}, "overflows"},
        {{32, 1, F32, {16}, UINT64_MAX - 31}, "truncated?"}, /* the offset and the size sum up to 32 */
        {{32, 1, F32, {8}, 64}, "truncated?"},
        {{32, 1, F32, {UINT64_MAX / 4}, 32}, "truncated?"},
        {{32, 1, F32, {UINT64_MAX / 4 - 7}, 64}, "truncated?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_status status = open_tensor(&cases[i].tensor);
        if (!cases[i].words && status) fail_msg("%zu: %s", i, error.message);
        if (!cases[i].words) continue;
        assert_int_equal(status, ZEST_ERROR_FORMAT);
        says(cases[i].words);
    }
}

/* The rounding up to an alignment of 2^31 and more, and alignments that are none. */
static void alignment_does_not_wrap(void **state) {
    (void)state;
    const struct {
        one_tensor tensor;
        const char *words;
    } cases[] = {
        {{1, 1, 0, {16}, 0}, NULL},
        {{64, 1, 0, {16}, 0}, NULL},
        {{1u << 31, 1, 0, {0}, 0}, NULL}, /* no data, nowhere */
        {{1u << 31, 1, 0, {1}, 0}, "truncated?"},
        {{1u << 31, 1, 0, {1}, (uint64_t)1 << 63}, "truncated?"},
        {{1u << 31, 1, 0, {1}, 32}, "not a multiple of the alignment"},
        {{0, 1, 0, {1}, 0}, "power of two"},
        {{UINT32_MAX, 1, 0, {1}, 0}, "power of two"},
        {{3, 1, 0, {1}, 0}, "power of two"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_status status = open_tensor(&cases[i].tensor);
        if (!cases[i].words && status) fail_msg("%zu: %s", i, error.message);
        if (!cases[i].words) continue;
        assert_int_equal(status, ZEST_ERROR_FORMAT);
        says(cases[i].words);
    }
}

/* A copy of the tiny model with these bytes in place of the value after a key. */
static void put_changed(const char *key, uint32_t kind, const void *value, size_t size) {
    zest_buffer file = {0};
    zest_error why = {0};
    fuzz_gguf_model("llama", &file);
    char *at = memmem(file.data, file.size, key, strlen(key));
    assert_non_null(at);
    memcpy(at + strlen(key), &kind, sizeof kind);
    memcpy(at + strlen(key) + 4, value, size);
    if (zest_file_write(temp_path("m.gguf"), file.data, file.size, &why)) fail_msg("%s", why.message);
    zest_buffer_free(&file);
}

static void expect_no_model(const char *words) {
    zest_model *model;
    error = (zest_error){0};
    assert_int_equal(zest_model_load(temp_path("m.gguf"), NULL, &model, &error), ZEST_ERROR_FORMAT);
    assert_null(model);
    says(words);
}

static void block_count_is_checked(void **state) {
    (void)state;
    static const struct {
        uint32_t kind, value;
        const char *words;
    } cases[] = {{ZEST_GGUF_U32, 0, "'num_hidden_layers' must be"},
                 {ZEST_GGUF_U32, 2, "is missing"},
                 {ZEST_GGUF_U32, 4097, "'layers' are too many"},
                 {ZEST_GGUF_U32, UINT32_MAX, "'num_hidden_layers' must be"},
                 {ZEST_GGUF_I32, UINT32_MAX, "'llama.block_count' is missing or no whole number"},
                 {ZEST_GGUF_F32, 0x3F800000, "'llama.block_count' is missing or no whole number"},
                 {ZEST_GGUF_BOOL, 0, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_changed("llama.block_count", cases[i].kind, &cases[i].value, 4);
        expect_no_model(cases[i].words);
    }
    zest_model *model;
    put_changed("llama.block_count", ZEST_GGUF_U32, &(uint32_t){1}, 4);
    if (zest_model_load(temp_path("m.gguf"), NULL, &model, &error)) fail_msg("%s", error.message);
    zest_model_free(model);
}

static void put_file(zest_buffer *file) {
    zest_error why = {0};
    if (zest_file_write(temp_path("m.gguf"), file->data, file->size, &why)) fail_msg("%s", why.message);
    zest_buffer_free(file);
}

/* Weights that the metadata does not describe: left aside, they would make another model without a word. */
static void weights_that_nothing_uses_are_refused(void **state) {
    (void)state;
    zest_buffer file = {0};
    if (zest_file_read("tests/data/models/llama.gguf", 1 << 24, &file, &error)) fail_msg("%s", error.message);
    char *at = memmem(file.data, file.size, "llama.block_count", 17);
    assert_non_null(at);
    assert_memory_equal(at + 17, "\4\0\0\0\2\0\0\0", 8); /* an u32, 2 */
    at[21] = 1;
    put_file(&file);
    expect_no_model("is of layer 1, but its metadata has only the 1 layers");
    fuzz_gguf_model("qwen2", &file); /* has biases, which a Llama does not */
    for (size_t i = 0; i + 5 <= file.size; i++)
        if (!memcmp(file.data + i, "qwen2", 5)) memcpy(file.data + i, "llama", 5);
    put_file(&file);
    expect_no_model("tensor 'blk.0.attn_q.bias' is unknown");
}

/* Arrays whose elements have another type of the same size, or another size: read as what they are, or refused. */
static void array_elements_of_another_type_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *key;
        uint32_t kind;
        const char *words;
    } cases[] = {{"tokenizer.ggml.scores", ZEST_GGUF_I32, NULL}, /* numbers, if odd ones */
                 {"tokenizer.ggml.scores", ZEST_GGUF_U32, NULL},
                 {"tokenizer.ggml.scores", ZEST_GGUF_BOOL, ""}, /* of another size: what follows is no key */
                 {"tokenizer.ggml.scores", ZEST_GGUF_U64, ""},
                 {"tokenizer.ggml.scores", ZEST_GGUF_STRING, ""},
                 {"tokenizer.ggml.token_type", ZEST_GGUF_U32, NULL},
                 {"tokenizer.ggml.token_type", ZEST_GGUF_F32, "tokenizer.ggml.token_type must be a list of"},
                 {"tokenizer.ggml.tokens", ZEST_GGUF_U32, ""},
                 {"tokenizer.ggml.tokens", ZEST_GGUF_ARRAY, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t kinds[] = {cases[i].kind};
        put_changed(cases[i].key, ZEST_GGUF_ARRAY, kinds, 4);
        error = (zest_error){0};
        zest_tokenizer *tokenizer = zest_tokenizer_open(temp_path("m.gguf"), &error);
        if (!cases[i].words && !tokenizer) fail_msg("%zu: %s", i, error.message);
        if (cases[i].words && tokenizer) fail_msg("%zu: accepted", i);
        if (cases[i].words) says(cases[i].words);
        zest_tokenizer_free(tokenizer);
    }
}

/* Lists of strings where numbers belong, and the other way round, in a file that is whole. */
static void lists_of_another_type_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"scores", "token_type", "merges", "tokens"};
    static const char *const words[] = {"a list of numbers", "a list of whole numbers", "a list of strings",
                                        "a list of strings"};
    for (size_t bad = 0; bad < 5; bad++) {
        zest_buffer out = {0};
        zest_gguf *file;
        zest_buffer_text(&out, "GGUF");
        put32(&out, 3);
        put64(&out, 0);
        put64(&out, 5);
        put64(&out, 20);
        zest_buffer_text(&out, "tokenizer.ggml.model");
        put32(&out, ZEST_GGUF_STRING);
        put64(&out, 5);
        zest_buffer_text(&out, "llama");
        for (size_t i = 0; i < 4; i++) {
            int strings = (i >= 2) != (i == bad);
            put64(&out, 15 + strlen(names[i]));
            zest_buffer_format(&out, "tokenizer.ggml.%s", names[i]);
            put32(&out, ZEST_GGUF_ARRAY);
            put32(&out, strings ? ZEST_GGUF_STRING : ZEST_GGUF_I32);
            put64(&out, i == 2 ? 1 : 3);
            for (uint32_t n = 0; n < (i == 2 ? 1 : 3); n++) {
                const char *token = i == 2 ? "a b" : n == 0 ? "a" : n == 1 ? "b" : "ab";
                if (strings) put64(&out, strlen(token)), zest_buffer_text(&out, token);
                if (!strings) put32(&out, 1);
            }
        }
        error = (zest_error){0};
        if (zest_gguf_open_memory(out.data, out.size, "memory", &file, &error)) fail_msg("%s", error.message);
        zest_tokenizer *tokenizer = zest_tokenizer_from_gguf(file, "memory", &error);
        if (bad == 4 && !tokenizer) fail_msg("%s", error.message);
        if (bad < 4) assert_null(tokenizer);
        if (bad < 4) says(words[bad]);
        zest_tokenizer_free(tokenizer);
        zest_gguf_close(file);
        zest_buffer_free(&out);
    }
}

/* ---- Tokenizers ---- */

/* Only two hexadecimal digits are a byte; a sign, a space or a third digit is not. */
static void byte_tokens_are_spelt_exactly(void **state) {
    (void)state;
    static const struct {
        const char *token;
        int byte;
    } cases[] = {{"<0x41>", 0x41}, {"<0xfF>", 0xFF}, {"<0x-1>", -1}, {"<0x+1>", -1}, {"<0x 1>", -1},
                 {"<0x1>", -1},    {"<0x100>", -1},  {"<0x>", -1},   {"<0x1 >", -1}, {"<0X41>", -1},
                 {"<0xG1>", -1},   {"<0x4", -1},     {"<0x0x>", -1}, {"", -1},       {"<0x\xC3\xA9>", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(zest_decoder_byte(cases[i].token, strlen(cases[i].token)), cases[i].byte);
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"<0x-1>"
        "\":1,\"<0x100>\":2,"
        "\"<0xFF>\":3,\"<0xC3>\":4,\"<0xA9>\":5},\"merges\":[]},\"decoder\":{\"type\":\"ByteFallback\"}}";
    zest_tokenizer *tokenizer = zest_tokenizer_from_json(json, sizeof json - 1, "t", &error);
    if (!tokenizer) fail_msg("%s", error.message);
    zest_ids ids = {0};
    zest_buffer text = {0};
    assert_int_equal(zest_tokenizer_encode(tokenizer, "\xC3\xA9z", 3, 0, &ids, &error), ZEST_OK);
    assert_int_equal(ids.count, 3);
    assert_memory_equal(ids.data, ((int32_t[]){4, 5, 0}), 12);
    assert_int_equal(zest_tokenizer_decode(tokenizer, (int32_t[]){1, 2, 4, 5}, 4, 0, &text, &error), ZEST_OK);
    assert_string_equal(text.data, "<0x-1><0x100>\xC3\xA9");
    zest_ids_free(&ids);
    zest_buffer_free(&text);
    zest_tokenizer_free(tokenizer);
}

/* Counts have no sign, ids do: none of them wraps round. */
static void token_counts_have_no_sign(void **state) {
    (void)state;
    static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX, 4096};
    zest_ctx *ctx = test_context();
    zest_lm *lm = zest_lm_load(ctx, "examples/roberta-tiny", "threads=1");
    if (!lm) fail_msg("%s", zest_ctx_error(ctx));
    int32_t ids[4] = {7, 7, 7, 7};
    char text[8];
    float logits[1];
    size_t count = 0, rows[] = {0};
    assert_int_equal(zest_lm_encode(lm, "a b c d e", ZEST_LM_WHOLE, 0, NULL, 0, &count), ZEST_OK);
    assert_in_range(count, 5, 20);
    assert_int_equal(zest_lm_encode(lm, "a b c d e", ZEST_LM_WHOLE, 0, ids, 2, &count), ZEST_ERROR_ARGUMENT);
    assert_int_equal(ids[2], 7);
    assert_int_equal(zest_lm_encode(lm, "a", (size_t)1 << 40, 0, ids, 4, &count), ZEST_ERROR_ARGUMENT);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(zest_lm_logits(lm, &bad[i], 1, rows, 1, logits), ZEST_ERROR_ARGUMENT);
        assert_null(zest_lm_token(lm, bad[i], NULL));
        assert_int_equal(zest_lm_token_bytes(lm, bad[i], text, sizeof text, &count), ZEST_ERROR_ARGUMENT);
    }
    assert_int_equal(zest_lm_logits(lm, ids, SIZE_MAX, rows, 1, logits), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_lm_logits(lm, ids, SIZE_MAX / 2 + 1, rows, 1, logits), ZEST_ERROR_ARGUMENT);
    rows[0] = SIZE_MAX;
    ids[0] = 5;
    assert_int_equal(zest_lm_logits(lm, ids, 1, rows, 1, logits), ZEST_ERROR_ARGUMENT);
    zest_lm_free(lm);
    zest_ctx_free(ctx);
}

static zest_tokenizer *from_merges(const char *vocab, const char *merges) {
    zest_buffer json = {0};
    zest_buffer_format(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[%s]}}", vocab, merges);
    error = (zest_error){0};
    zest_tokenizer *tokenizer = zest_tokenizer_from_json(json.data, json.size, "t", &error);
    zest_buffer_free(&json);
    return tokenizer;
}

/* A merge makes a token of the vocabulary, so no merge is longer than the longest token. */
static void merges_longer_than_any_token_are_refused(void **state) {
    (void)state;
    enum { SIZE = 100000 };
    assert_null(from_merges("\"a\":0,\"b\":1", "\"a b\""));
    says("merge 1 needs the token \"ab\"");
    assert_null(from_merges("\"a\":0,\"b\":1,\"ab\":2", "\"a b\",\"ab ab\""));
    says("merge 2 needs the token \"abab\"");
    char *merge = malloc(SIZE + 5);
    assert_non_null(merge);
    memset(merge, 'a', SIZE + 4);
    merge[0] = merge[SIZE + 3] = '"';
    merge[SIZE / 2] = ' ';
    merge[SIZE + 4] = '\0';
    assert_null(from_merges("\"a\":0,\"aa\":1", merge));
    says("merge 1 needs the token \"aaaa");
    assert_true(strlen(error.message) < 400);
    assert_null(from_merges("\"a\":0", "\"a \""));
    says("merge 1 needs the token \"\"");
    free(merge);
}

static double encode_seconds(const zest_tokenizer *tokenizer, size_t size) {
    char *text = malloc(size);
    zest_ids ids = {0};
    assert_non_null(text);
    for (size_t i = 0; i < size; i++) text[i] = "abba"[i * 2654435761u >> 13 & 3];
    clock_t began = clock();
    if (zest_tokenizer_encode(tokenizer, text, size, 0, &ids, &error)) fail_msg("%s", error.message);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    assert_in_range(ids.count, 1, size);
    zest_ids_free(&ids);
    free(text);
    return seconds;
}

/* 16 times the text takes about 18 times the time, not 256 times. */
static void one_long_word_takes_no_quadratic_time(void **state) {
    (void)state;
    enum { SIZE = (1 << 16) / (TEST_SLOW > 1 ? 8 : 1) };
    zest_tokenizer *tokenizer =
        from_merges("\"a\":0,\"b\":1,\"ab\":2,\"ba\":3,\"abab\":4,\"bb\":5,\"abba\":6,\"aa\":7",
                    "\"a b\",\"b a\",\"ab ab\",\"b b\",\"ab ba\",\"a a\"");
    if (!tokenizer) fail_msg("%s", error.message);
    encode_seconds(tokenizer, SIZE); /* warm */
    double small = encode_seconds(tokenizer, SIZE), large = encode_seconds(tokenizer, 16 * SIZE);
    if (large > 100 * (small + 1e-3)) fail_msg("%g s, and %g s for 16 times the text", small, large);
    zest_tokenizer_free(tokenizer);
}

static zest_tokenizer *from_pattern(const char *pattern) {
    zest_buffer json = {0};
    zest_buffer_format(
        &json,
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":"
        "\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"%s\"}}}",
        pattern);
    error = (zest_error){0};
    zest_tokenizer *tokenizer = zest_tokenizer_from_json(json.data, json.size, "t", &error);
    zest_buffer_free(&json);
    return tokenizer;
}

/* Patterns that take exponential time, or that become gigabytes when they are compiled. */
static void patterns_do_not_blow_up(void **state) {
    (void)state;
    static const char *const slow[] = {"(?:a|aa)+$", "(?:a+)+b", "(?:a*a)*c", "(?:a|a|a)*d"};
    static const char *const large[] = {"(?:(?:(?:a{1,60000}){1,60000}){1,60000}){1,60000}",
                                        "(?:(?:[ab]{500}){500}){500}"};
    clock_t began = clock();
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        zest_tokenizer *tokenizer = from_pattern(slow[i]);
        zest_ids ids = {0};
        char text[200];
        if (!tokenizer) fail_msg("%s", error.message);
        memset(text, 'a', sizeof text);
        text[199] = '.';
        assert_int_equal(zest_tokenizer_encode(tokenizer, text, sizeof text, 0, &ids, &error), ZEST_OK);
        zest_ids_free(&ids);
        zest_tokenizer_free(tokenizer);
    }
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        assert_null(from_pattern(large[i]));
        says("more than 255 times");
    }
    assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 10);
}

/* ---- Memory ---- */

static void small_safetensors(zest_buffer *out) {
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1000000000,1000000000],\"data_"
                                 "offsets\":[0,4000000000000000000]}}";
    put64(out, sizeof header - 1);
    zest_buffer_add(out, header, sizeof header - 1);
}

static void small_gguf(zest_buffer *out) {
    zest_buffer_text(out, "GGUF");
    put32(out, 3);
    put64(out, 1 << 20);
    put64(out, 1 << 30);
    put64(out, 1);
    zest_buffer_text(out, "k");
    put32(out, ZEST_GGUF_ARRAY);
    put32(out, ZEST_GGUF_STRING);
    put64(out, (uint64_t)1 << 40);
}

/* A header whose options ask for as much as they may, and no records. */
static void small_journal(zest_buffer *out) {
    static const char text[] =
        "fingerprint=1\ndimension=9000000000000000000\ntensor=F64 9000000000000000000 x\nk=1048576\n"
        "denominator=ball\ndistribution=sphere\n";
    zest_buffer_text(out, ZEST_JOURNAL_MAGIC);
    put32(out, ZEST_FORMAT);
    put32(out, sizeof text - 1);
    zest_buffer_add(out, text, sizeof text - 1);
    put32(out, zest_journal_checksum(out->data, out->size, 0));
}

/* Each of the files is under a kilobyte and asks for petabytes. 1: one of them was answered by lack of memory. */
static int open_small_files(void) {
    zest_error why;
    zest_buffer file = {0};
    zest_safetensors *tensors;
    zest_gguf *gguf;
    zest_model *model;
    small_safetensors(&file);
    int failed = zest_safetensors_open_memory(file.data, file.size, "m", &tensors, &why) != ZEST_ERROR_FORMAT;
    file.size = 0;
    small_gguf(&file);
    failed |= zest_gguf_open_memory(file.data, file.size, "m", &gguf, &why) != ZEST_ERROR_FORMAT;
    file.size = 0;
    small_journal(&file);
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx || zest_file_write(temp_path("journal"), file.data, file.size, &why)) return 2;
    zest_journal *journal = zest_journal_open(ctx, temp_path("journal"));
    failed |= !journal && strstr(zest_ctx_error(ctx), "memory") != NULL;
    zest_journal_close(journal);
    zest_ctx_free(ctx);
    static const char
        json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4194303},\"merges\":[]}}",
        config[] = "{\"model_type\":\"llama\",\"vocab_size\":268435456,\"hidden_size\":268435456,"
                   "\"num_hidden_layers\":4096,\"num_attention_heads\":1,\"intermediate_size\":268435456,"
                   "\"max_position_embeddings\":268435456}";
    zest_tokenizer *tokenizer = zest_tokenizer_from_json(json, sizeof json - 1, "t", &why);
    failed |= !tokenizer;
    zest_tokenizer_free(tokenizer);
    file.size = 0;
    put64(&file, 8);
    zest_buffer_text(&file, "{}      ");
    if (zest_file_write(temp_path("config.json"), config, sizeof config - 1, &why) ||
        zest_file_write(temp_path("model.safetensors"), file.data, file.size, &why))
        return 2;
    failed |= zest_model_load(test_temp_folder, NULL, &model, &why) != ZEST_ERROR_FORMAT;
    zest_buffer_free(&file);
    return failed;
}

/* In a process that may not have more than 256 MiB beyond what it has. */
static void tiny_files_allocate_little(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own memory is terabytes of addresses */
#endif
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct rlimit limit;
        unsigned long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        if (!file || fscanf(file, "%lu", &pages) != 1) _exit(2);
        fclose(file);
        limit.rlim_cur = limit.rlim_max = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)256 << 20);
        if (setrlimit(RLIMIT_AS, &limit)) _exit(2);
        _exit(open_small_files());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- Writing ---- */

/* Dimensions that lie are found when a model is read, so they cannot lead what is written; and what the caller of the
 * library says is checked as well. */
static void written_data_have_their_dimensions(void **state) {
    (void)state;
    zest_buffer file = {0};
    fuzz_gguf_model("llama", &file);
    char *at = memmem(file.data, file.size, "blk.0.ffn_down.weight", 21);
    assert_non_null(at);
    memcpy(at + 21 + 4, &(uint64_t){16}, 8); /* columns: half of what is there */
    if (zest_file_write(temp_path("m.gguf"), file.data, file.size, &error)) fail_msg("%s", error.message);
    expect_no_model("'model.layers.0.mlp.down_proj.weight' is [32, 16] but config.json makes it [32, 32]");
    zest_buffer_free(&file);
    zest_ctx *ctx = test_context();
    zest_lm *lm = zest_lm_load(ctx, "examples/roberta-tiny", "threads=1");
    if (!lm) fail_msg("%s", zest_ctx_error(ctx));
    zest_lm_tensor tensor;
    float values[4] = {0};
    assert_true(zest_lm_get_tensor(lm, 0, &tensor));
    const size_t bad[][2] = {{tensor.count, 1}, {tensor.count - 1, 2},    {SIZE_MAX, 2},
                             {1, SIZE_MAX},     {SIZE_MAX - 1, SIZE_MAX}, {tensor.count + 1, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(zest_lm_write_tensor(lm, 0, bad[i][0], bad[i][1], values), ZEST_ERROR_ARGUMENT);
        assert_int_equal(zest_lm_read_tensor(lm, 0, bad[i][0], bad[i][1], values), ZEST_ERROR_ARGUMENT);
    }
    assert_int_equal(zest_lm_write_tensor(lm, SIZE_MAX, 0, 1, values), ZEST_ERROR_ARGUMENT);
    zest_lm_free(lm);
    zest_ctx_free(ctx);
    const size_t wraps[] = {(size_t)1 << 62, 4}, huge[] = {(size_t)1 << 61, 4};
    zest_safetensors_source source = {
        .name = "a", .dtype = ZEST_DTYPE_F32, .rank = 2, .shape = wraps, .data = values};
    assert_int_equal(zest_safetensors_write(temp_path("x"), &source, 1, NULL, &error), ZEST_ERROR_ARGUMENT);
    source.shape = huge;
    assert_int_equal(zest_safetensors_write(temp_path("x"), &source, 1, NULL, &error), ZEST_ERROR_ARGUMENT);
    assert_int_equal(access(temp_path("x"), F_OK), -1);
}

/* ---- Messages ---- */

/* A damaged journal was refused without a word where the cause was told again: the message was its own argument. */
static void a_cause_may_be_told_again(void **state) {
    (void)state;
    zest_error why = {0};
    zest_error_set(&why, ZEST_ERROR_FORMAT, "%s: is damaged", "journal");
    zest_error_set(&why, why.status, "%s", why.message);
    assert_string_equal(why.message, "journal: is damaged");
    assert_int_equal(zest_error_set(&why, ZEST_ERROR_STATE, "run: %s; cut it", why.message),
                     ZEST_ERROR_STATE);
    assert_string_equal(why.message, "run: journal: is damaged; cut it");
    test_put(test_temp_folder, "journal", "no journal of anything");
    test_put(test_temp_folder, "options", "method=mezo\n");
    zest_ctx *ctx = test_context();
    assert_null(zest_lm_open_run(ctx, test_temp_folder, "last", NULL, NULL, NULL));
    assert_says(ctx, "journal: not a journal of zest");
    zest_ctx_free(ctx);
}

/* ---- Journals ---- */

/* The header of a stranger's journal: a million tensors take no quadratic time. */
static void many_tensors_in_a_journal_take_no_quadratic_time(void **state) {
    (void)state;
    enum { LINES = 400000 / (TEST_SLOW > 1 ? 4 : 1) };
    zest_buffer text = {0}, file = {0};
    zest_buffer_text(&text, "fingerprint=1\ndimension=4\n");
    for (int i = 0; i < LINES; i++) zest_buffer_text(&text, "tensor=F64 4 x\n");
    zest_buffer_text(&file, ZEST_JOURNAL_MAGIC);
    put32(&file, ZEST_FORMAT);
    put32(&file, (uint32_t)text.size);
    zest_buffer_add(&file, text.data, text.size);
    put32(&file, zest_journal_checksum(file.data, file.size, 0));
    if (zest_file_write(temp_path("journal"), file.data, file.size, &error)) fail_msg("%s", error.message);
    zest_ctx *ctx = test_context();
    clock_t began = clock();
    zest_journal *journal = zest_journal_open(ctx, temp_path("journal"));
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (!journal) fail_msg("%s", zest_ctx_error(ctx));
    if (seconds > 5) fail_msg("%g s", seconds);
    zest_journal_close(journal);
    zest_ctx_free(ctx);
    zest_buffer_free(&text);
    zest_buffer_free(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_arithmetic_does_not_wrap),
        cmocka_unit_test(alignment_does_not_wrap),
        IN_TEMP_FOLDER(block_count_is_checked),
        IN_TEMP_FOLDER(weights_that_nothing_uses_are_refused),
        IN_TEMP_FOLDER(array_elements_of_another_type_are_refused),
        cmocka_unit_test(lists_of_another_type_are_refused),
        cmocka_unit_test(byte_tokens_are_spelt_exactly),
        cmocka_unit_test(token_counts_have_no_sign),
        cmocka_unit_test(merges_longer_than_any_token_are_refused),
        cmocka_unit_test(one_long_word_takes_no_quadratic_time),
        cmocka_unit_test(patterns_do_not_blow_up),
        IN_TEMP_FOLDER(tiny_files_allocate_little),
        IN_TEMP_FOLDER(written_data_have_their_dimensions),
        IN_TEMP_FOLDER(a_cause_may_be_told_again),
        IN_TEMP_FOLDER(many_tensors_in_a_journal_take_no_quadratic_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
