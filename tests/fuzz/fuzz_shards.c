/* A folder with an index and its shards: an error with a sentence, or tensors all of which can be read. */
#include <string.h>

#include "io/safetensors.h"
#include "tests/fuzz/fuzz.h"

/* Where what was read goes, so that no compiler drops the reading. */
static volatile unsigned sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    zest_safetensors *file;
    zest_error error = {0};
    unsigned sum = 0;
    fuzz_bundle_unpack(data, size);
    if (zest_safetensors_open_folder(fuzz_folder(), "AutoModel", &file, &error)) {
        if (file || !error.message[0]) __builtin_trap();
        return 0;
    }
    for (size_t i = 0; i < zest_safetensors_count(file); i++) {
        const zest_safetensors_tensor *tensor = zest_safetensors_at(file, i);
        const unsigned char *bytes = tensor->data;
        if (zest_safetensors_find(file, tensor->name) != tensor) __builtin_trap();
        for (size_t j = 0; j < tensor->size; j++) sum += bytes[j];
    }
    sink = sum;
    zest_safetensors_close(file);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_BUNDLE, data, size, max, seed);
}

static void add_shard(zest_buffer *out, const char *name, const char *header, size_t data) {
    zest_buffer file = {0};
    uint64_t length = strlen(header);
    zest_buffer_add(&file, &length, sizeof length);
    zest_buffer_text(&file, header);
    zest_buffer_add(&file, (char[32]){1, 2, 3}, data);
    fuzz_bundle_add(out, name, file.data, file.size);
    zest_buffer_free(&file);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char index[] =
        "{\"metadata\":{\"total_size\":28},\"weight_map\":{\"a\":\"one.safetensors\",\"b\":"
        "\"two.safetensors\",\"c\":\"one.safetensors\"}}";
    zest_buffer out = {0};
    fuzz_bundle_add(&out, "model.safetensors.index.json", index, sizeof index - 1);
    add_shard(&out, "one.safetensors",
              "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},\"c\":{\"dtype\":\"BF16\","
              "\"shape\":[2],"
              "\"data_offsets\":[16,20]}}",
              20);
    add_shard(&out, "two.safetensors", "{\"b\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}", 8);
    add(out.data, out.size, user);
    zest_buffer_free(&out);
}
