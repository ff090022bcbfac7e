/* A folder with a tokenizer's files (tokenizer.json; vocab.json and merges.txt; vocab.txt; the settings): an error with
 * a sentence, or a tokenizer that encodes and decodes. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "The <mask> sat\xFF on a caf\xC3\xA9 it's ##ly 12\n\n in there";
    zest_error error = {0};
    zest_ids ids = {0};
    zest_buffer back = {0};
    fuzz_bundle_unpack(data, size);
    zest_tokenizer *tokenizer = zest_tokenizer_open(fuzz_folder(), &error);
    if (!tokenizer && !error.message[0]) __builtin_trap();
    if (tokenizer &&
        !zest_tokenizer_encode(tokenizer, text, sizeof text - 1, ZEST_ENCODE_TEMPLATE, &ids, &error)) {
        for (size_t i = 0; i < ids.count; i++)
            if (!zest_tokenizer_token(tokenizer, ids.data[i], NULL)) __builtin_trap();
        zest_tokenizer_decode(tokenizer, ids.data, ids.count, 1, &back, &error);
        zest_tokenizer_decode_after(tokenizer, ids.data, ids.count / 2, ids.count, 0, &back, &error);
        for (size_t i = 0; i < ids.count; i++)
            zest_tokenizer_token_bytes(tokenizer, ids.data[i], &back, &error);
    }
    for (int role = 0; tokenizer && role < ZEST_TOKEN_ROLES; role++) {
        int32_t id = zest_tokenizer_special(tokenizer, (zest_token_role)role);
        if (id != -1 && !zest_tokenizer_token(tokenizer, id, NULL)) __builtin_trap();
    }
    zest_ids_free(&ids);
    zest_buffer_free(&back);
    zest_tokenizer_free(tokenizer);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_BUNDLE, data, size, max, seed);
}

/* The tokenizers of the tiny models, without their weights. */
void fuzz_seeds(fuzz_add add, void *user) {
    static const char map[] =
        "{\"mask_token\":\"<mask>\",\"eos_token\":{\"content\":\"</s>\",\"lstrip\":false}}",
                      added[] = "{\"<new>\":30,\"<mask>\":4}";
    for (size_t i = 0; fuzz_config(i); i++) {
        zest_buffer all = {0}, out = {0};
        fuzz_file files[FUZZ_MAX_FILES];
        fuzz_model_bundle(i, &all);
        size_t count = fuzz_bundle_read((uint8_t *)all.data, all.size, files);
        for (size_t f = 0; f < count; f++)
            if (strcmp(files[f].name, "config.json") && strcmp(files[f].name, "model.safetensors"))
                fuzz_bundle_add(&out, files[f].name, files[f].data, files[f].size);
        if (i % 2 == 0) fuzz_bundle_add(&out, "special_tokens_map.json", map, sizeof map - 1);
        if (i % 2 == 0) fuzz_bundle_add(&out, "added_tokens.json", added, sizeof added - 1);
        add(out.data, out.size, user);
        zest_buffer_free(&all);
        zest_buffer_free(&out);
    }
}
