/* Any bytes, given as a tokenizer.json: an error, or a tokenizer that encodes and decodes. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char text[] = "It's 12\xFF  caf\xC3\xA9 \xE2\x96\x81<s> e\xCC\x81\xCC\xA3\n\n <mask>  end";
    zest_error error = {0};
    zest_tokenizer *tokenizer = zest_tokenizer_from_json((const char *)bytes, size, "fuzz", &error);
    if (!tokenizer) {
        if (!error.message[0] || !error.status) __builtin_trap();
        return 0;
    }
    zest_ids ids = {0};
    zest_buffer back = {0};
    /* The input is also a text. */
    const char *texts[] = {text, (const char *)bytes};
    size_t sizes[] = {sizeof text, size < 300 ? size : 300};
    for (int i = 0; i < 2; i++) {
        if (zest_tokenizer_encode(tokenizer, texts[i], sizes[i], ZEST_ENCODE_TEMPLATE, &ids, &error))
            continue;
        for (size_t j = 0; j < ids.count; j++)
            if (!zest_tokenizer_token(tokenizer, ids.data[j], NULL)) __builtin_trap();
        /* a decoder that makes too much of its tokens is refused */
        zest_status status = zest_tokenizer_decode(tokenizer, ids.data, ids.count, i, &back, &error);
        if (status && status != ZEST_ERROR_FORMAT) __builtin_trap();
        back.size = 0;
    }
    zest_ids_free(&ids);
    zest_buffer_free(&back);
    zest_tokenizer_free(tokenizer);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_JSON, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const names[] = {"bert",   "digits",    "gpt2",  "llama",
                                        "llama3", "metaspace", "o200k", "qwen2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zest_buffer file = {0};
        char path[100];
        snprintf(path, sizeof path, "tests/data/tokenizers/%s.json", names[i]);
        fuzz_read(path, &file);
        add(file.data, file.size, user);
        zest_buffer_free(&file);
    }
}
