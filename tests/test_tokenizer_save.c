/* A tokenizer that is written and read again gives the same tokens. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tests/support.h"
#include "tokenizer/tokenizer.h"

static const char *const texts[] = {
    "",
    "Hello world, it's 2026-11-15!",
    "  two  spaces\n\nand lines\t. Numbers 1234567 and 12.5e-3",
    "na\xc3\xafve caf\xc3\xa9 \xe2\x80\x94 \xf0\x9f\x98\x8a \xe7\x94\x9f\xe6\xb4\xbb",
    "<s>special</s> <mask> <|endoftext|>",
};

static void same_tokens(const zest_tokenizer *a, const zest_tokenizer *b) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (unsigned flags = 0; flags < 4; flags++) {
            zest_ids x = {0}, y = {0};
            zest_error error = {0};
            assert_int_equal(zest_tokenizer_encode(a, texts[i], strlen(texts[i]), flags, &x, &error),
                             ZEST_OK);
            assert_int_equal(zest_tokenizer_encode(b, texts[i], strlen(texts[i]), flags, &y, &error),
                             ZEST_OK);
            assert_int_equal(x.count, y.count);
            for (size_t j = 0; j < x.count; j++) assert_int_equal(x.data[j], y.data[j]);
            zest_buffer back[2] = {{0}, {0}};
            zest_tokenizer_decode(a, x.data, x.count, 0, &back[0], &error);
            zest_tokenizer_decode(b, y.data, y.count, 0, &back[1], &error);
            if (x.count) assert_string_equal(back[0].data, back[1].data);
            zest_buffer_free(&back[0]);
            zest_buffer_free(&back[1]);
            zest_ids_free(&x);
            zest_ids_free(&y);
        }
    for (int role = 0; role < ZEST_TOKEN_MASK; role++)
        assert_int_equal(zest_tokenizer_special(a, (zest_token_role)role),
                         zest_tokenizer_special(b, (zest_token_role)role));
}

static void round_trip(zest_tokenizer *tokenizer) {
    char folder[64];
    zest_error error = {0};
    test_folder(folder);
    assert_true(zest_tokenizer_can_save(tokenizer));
    if (zest_tokenizer_save(tokenizer, folder, &error)) fail_msg("%s", error.message);
    zest_tokenizer *again = zest_tokenizer_open(folder, &error);
    if (!again) fail_msg("%s", error.message);
    same_tokens(tokenizer, again);
    zest_tokenizer_free(again);
    test_remove(folder);
}

static void vocabularies_come_back(void **state) {
    (void)state;
    zest_error error = {0};
    zest_tokenizer *tokenizer = zest_tokenizer_open("examples/roberta-tiny", &error);
    assert_non_null(tokenizer);
    round_trip(tokenizer);
    zest_tokenizer_free(tokenizer);
}

/* A small byte-level vocabulary as GGUF files have them, with each way of cutting. */
static void arrays_come_back(void **state) {
    (void)state;
    static const char *const pres[] = {"gpt-2", "smollm", "qwen2", "llama-bpe"};
    zest_tokenizer_text tokens[300], lines[4];
    char spelt[256][4];
    int32_t types[300];
    size_t count = 0;
    for (int byte = 0; byte < 256; byte++) { /* every byte's own token, spelt as GPT-2 does */
        int plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        static int others;
        if (byte == 0) others = 0;
        int code = plain ? byte : 256 + others++;
        int size = code < 128 ? snprintf(spelt[byte], 4, "%c", code)
                              : snprintf(spelt[byte], 4, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 63));
        types[count] = 1;
        tokens[count++] = (zest_tokenizer_text){spelt[byte], (size_t)size};
    }
    static const char *const more[] = {"he", "ll", "hell", "hello", "<|endoftext|>"};
    static const char *const merge[] = {"h e", "l l", "he ll", "hell o"};
    for (size_t i = 0; i < 5; i++) {
        types[count] = i == 4 ? 3 : 1;
        tokens[count++] = (zest_tokenizer_text){more[i], strlen(more[i])};
    }
    for (size_t i = 0; i < 4; i++) lines[i] = (zest_tokenizer_text){merge[i], strlen(merge[i])};
    for (size_t p = 0; p < 4; p++) {
        zest_tokenizer_arrays arrays = {.model = "gpt2",
                                        .pre = pres[p],
                                        .tokens = tokens,
                                        .types = types,
                                        .count = count,
                                        .merges = lines,
                                        .merge_count = 4,
                                        .bos = (int32_t)count - 1,
                                        .eos = (int32_t)count - 1,
                                        .pad = -1,
                                        .unk = -1,
                                        .sep = -1,
                                        .cls = -1,
                                        .mask = -1,
                                        .add_bos = p == 3,
                                        .add_eos = 0,
                                        .add_space_prefix = 0};
        zest_error error = {0};
        zest_tokenizer *tokenizer = zest_tokenizer_from_arrays(&arrays, pres[p], &error);
        if (!tokenizer) fail_msg("%s", error.message);
        round_trip(tokenizer);
        zest_tokenizer_free(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocabularies_come_back),
        cmocka_unit_test(arrays_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
