/* Any bytes, given to the safetensors reader: an error, or a file all of which can be read. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/safetensors.h"
#include "tests/fuzz/fuzz.h"

/* Where what was read goes, so that no compiler drops the reading. */
static volatile unsigned sink;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    zest_safetensors *file;
    zest_error error = {0};
    const char *key, *value;
    unsigned sum = 0;
    if (zest_safetensors_open_memory(bytes, size, "fuzz", &file, &error)) {
        if (file || !error.message[0]) __builtin_trap();
        return 0;
    }
    for (size_t i = 0; i < zest_safetensors_count(file); i++) {
        const zest_safetensors_tensor *tensor = zest_safetensors_at(file, i);
        const unsigned char *data = tensor->data;
        if (zest_safetensors_find(file, tensor->name) != tensor) __builtin_trap();
        for (size_t j = 0; j < tensor->rank; j++) sum += (unsigned)tensor->shape[j];
        for (size_t j = 0; j < tensor->size; j++) sum += data[j];
        float out[64];
        size_t count = tensor->count < 64 ? tensor->count : 64;
        if (zest_dtype_is_real(tensor->dtype) && zest_dtype_to_float(tensor->dtype, data, count, out))
            __builtin_trap();
    }
    for (size_t i = 0; zest_safetensors_metadata_at(file, i, &key, &value); i++)
        sum += (unsigned)(strlen(key) + strlen(value));
    sink = sum;
    zest_safetensors_close(file);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_SAFETENSORS, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const headers[] = {
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,"
        "24]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]}}",
        "{\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},\"e\":{\"dtype\":\"F16\",\"shape\":["
        "0,7],"
        "\"data_offsets\":[8,8]},\"t\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[8,32]}}"};
    for (size_t i = 0; i < 2; i++) {
        zest_buffer file = {0};
        uint64_t length = strlen(headers[i]);
        zest_buffer_add(&file, &length, sizeof length);
        zest_buffer_text(&file, headers[i]);
        zest_buffer_add(&file, (char[32]){1, 2, 3}, 32);
        add(file.data, file.size, user);
        zest_buffer_free(&file);
    }
}
