/* Any bytes, given as a SentencePiece .model: an error, or a tokenizer that encodes and decodes. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/fuzz/fuzz.h"
#include "tokenizer/load.h"
#include "tokenizer/tokenizer.h"

static void use(const zest_tokenizer *tokenizer, const char *text, size_t size) {
    zest_error error = {0};
    zest_ids ids = {0};
    zest_buffer back = {0};
    if (!zest_tokenizer_encode(tokenizer, text, size, ZEST_ENCODE_TEMPLATE, &ids, &error)) {
        for (size_t j = 0; j < ids.count; j++)
            if (!zest_tokenizer_token(tokenizer, ids.data[j], NULL)) __builtin_trap();
        zest_status status = zest_tokenizer_decode(tokenizer, ids.data, ids.count, 0, &back, &error);
        if (status && status != ZEST_ERROR_FORMAT) __builtin_trap();
    }
    zest_ids_free(&ids);
    zest_buffer_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char text[] =
        "It's 12\xFF  caf\xC3\xA9 \xE2\x96\x81<s> \xEF\xBC\xA1 e\xCC\x81\n\n <h1>  the <sep> end ";
    zest_error error = {0};
    zest_tokenizer *tokenizer = zest_tokenizer_new("fuzz", &error);
    if (!tokenizer) return 0;
    zest_status status = zest_tokenizer_load_sentencepiece(
        tokenizer, (const char *)(size ? bytes : (const uint8_t *)""), size, &error);
    if (!status) status = zest_tokenizer_finish(tokenizer, &error);
    if (status && !error.message[0]) __builtin_trap();
    if (!status) {
        use(tokenizer, text, sizeof text);
        use(tokenizer, (const char *)bytes, size < 300 ? size : 300);
    }
    zest_tokenizer_free(tokenizer);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_PROTOBUF, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const names[] = {"sp-llama", "sp-gemma", "sp-t5", "sp-unigram", "sp-plain"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zest_buffer file = {0};
        char path[100];
        snprintf(path, sizeof path, "tests/data/tokenizers/%s.model", names[i]);
        fuzz_read(path, &file);
        add(file.data, file.size, user);
        zest_buffer_free(&file);
    }
}
