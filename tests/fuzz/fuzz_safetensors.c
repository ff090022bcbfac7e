/* Any bytes, given to the safetensors reader: an error, or a file all of which can be read. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

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
