/* Any bytes, given to the GGUF reader: an error, or a file all of which can be read. */
#include <stddef.h>
#include <stdint.h>

#include "io/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Where what was read goes, so that no compiler drops the reading. */
static volatile double sink;

static double look(const zest_gguf_value *value) {
    double sum = 0, real;
    uint64_t whole;
    int64_t number;
    int flag;
    const char *text;
    size_t size;
    for (size_t i = 0; i < zest_gguf_value_count(value); i++) {
        if (zest_gguf_value_u64(value, i, &whole)) sum += (double)whole;
        if (zest_gguf_value_i64(value, i, &number)) sum += (double)number;
        if (zest_gguf_value_f64(value, i, &real)) sum += real;
        if (zest_gguf_value_bool(value, i, &flag)) sum += flag;
        if (zest_gguf_value_string(value, i, &text, &size))
            for (size_t j = 0; j < size; j++) sum += text[j];
        if (zest_gguf_value_array(value, i)) sum += look(zest_gguf_value_array(value, i));
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    zest_gguf *file;
    zest_error error = {0};
    float out[1024];
    double sum = 0;
    if (zest_gguf_open_memory(bytes, size, "fuzz", &file, &error)) {
        if (file || !error.message[0]) __builtin_trap();
        return 0;
    }
    for (size_t i = 0; i < zest_gguf_key_count(file); i++)
        sum += look(zest_gguf_find(file, zest_gguf_key_at(file, i)));
    for (size_t i = 0; i < zest_gguf_count(file); i++) {
        const zest_gguf_tensor *tensor = zest_gguf_at(file, i);
        if (zest_gguf_find_tensor(file, tensor->name) != tensor) __builtin_trap();
        if (!tensor->columns || tensor->columns > 1024) continue;
        for (size_t row = 0; row < tensor->rows; row++)
            if (!zest_gguf_read(tensor, row, 1, out, &error)) sum += (double)out[tensor->columns - 1];
        if (!zest_gguf_read_rotary(tensor, 2, 0, 1, out, &error)) sum += (double)out[0];
    }
    sink = sum;
    zest_gguf_close(file);
    return 0;
}
