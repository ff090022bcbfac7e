/* Any bytes, given to the GGUF reader: an error, or a file all of which can be read. */
#include <stddef.h>
#include <stdint.h>

#include "io/gguf.h"
#include "tests/fuzz/fuzz.h"
#include "tokenizer/tokenizer.h"

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

/* Its ids are tokens, and they have a text. */
static void encode(const zest_tokenizer *tokenizer) {
    static const char text[] = "tab \xE2\x96\x81 <s>th\xFF\xC3\xA9 A";
    zest_ids ids = {0};
    zest_buffer back = {0};
    zest_error error = {0};
    if (!zest_tokenizer_encode(tokenizer, text, sizeof text - 1, ZEST_ENCODE_TEMPLATE, &ids, &error))
        for (size_t i = 0; i < ids.count; i++)
            if (!zest_tokenizer_token(tokenizer, ids.data[i], NULL)) __builtin_trap();
    zest_tokenizer_decode(tokenizer, ids.data, ids.count, 0, &back, &error);
    zest_ids_free(&ids);
    zest_buffer_free(&back);
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
    zest_tokenizer *tokenizer = zest_tokenizer_from_gguf(file, "fuzz", &error);
    if (!tokenizer && !error.message[0]) __builtin_trap();
    if (tokenizer) encode(tokenizer);
    zest_tokenizer_free(tokenizer);
    zest_gguf_close(file);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_GGUF, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    zest_buffer file = {0};
    fuzz_read("tests/data/gguf/goldens.gguf", &file);
    add(file.data, file.size, user);
    for (int i = 0; i < 2; i++) {
        file.size = 0;
        fuzz_gguf_model(i ? "llama" : "qwen2", &file);
        add(file.data, file.size, user);
    }
    zest_buffer_free(&file);
}
