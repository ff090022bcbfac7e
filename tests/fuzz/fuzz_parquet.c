/* Any bytes as a Parquet file: an error with a sentence, or rows; as rows of tasks, too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "io/parquet.h"
#include "task/rows.h"
#include "tests/fuzz/fuzz.h"

static void read_columns(const uint8_t *bytes, size_t size, const char *const *paths, size_t count) {
    zest_parquet *file;
    zest_error error = {0};
    json_t *row;
    zest_status status = zest_parquet_open(bytes, size, "fuzz", paths, count, &file, &error);
    if ((status != ZEST_OK) != (file == NULL)) __builtin_trap();
    for (int rows = 0; !status; rows++) {
        status = zest_parquet_next(file, &row, &error);
        if (status && row) __builtin_trap();
        if (!row) break;
        if (!json_is_object(row) || !json_object_size(row)) __builtin_trap();
        zest_buffer text = {0};
        if (rows < 100) zest_json_print(row, JSON_COMPACT, &text);
        if (text.failed) __builtin_trap(); /* something is no JSON */
        zest_buffer_free(&text);
        json_decref(row);
    }
    if (status && !error.message[0]) __builtin_trap();
    zest_parquet_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const paths[] = {"text", "points.inner", "label"};
    zest_rows rows;
    zest_error error = {0};
    read_columns(bytes, size, NULL, 0);
    read_columns(bytes, size, paths, 3);
    zest_rows_layout layout = {.format = size % 2 ? ZEST_ROWS_JSONL : ZEST_ROWS_CHAT};
    if (zest_parquet_is(bytes, size) && !zest_rows_parse(bytes, size, "fuzz", &layout, &rows, &error))
        zest_rows_free(&rows);
    return 0;
}

/* Where the footer begins; 0: nowhere. */
static size_t footer_of(const uint8_t *data, size_t size) {
    uint32_t footer;
    if (size < 12) return 0;
    memcpy(&footer, data + size - 8, 4);
    return footer <= size - 12 ? size - 8 - footer : 0;
}

/* Mostly the pages or the footer change and the rest of the file stays one: the size of the footer fits, and pages keep
 * their places. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    size_t footer = footer_of(data, size), out_size = size;
    fuzz_random r = {.state = seed};
    if (!footer || seed % 16 == 0) return fuzz_mutate(FUZZ_TEXT, data, size, max, seed);
    if (fuzz_below(&r, 2)) {
        for (size_t n = 1 + fuzz_below(&r, 4); n-- > 0;) {
            size_t at = 4 + fuzz_below(&r, footer - 4);
            data[at] =
                fuzz_below(&r, 2) ? (uint8_t)fuzz_integer(&r) : (uint8_t)(data[at] ^ 1u << fuzz_below(&r, 8));
        }
        return size;
    }
    zest_buffer out = {0};
    fuzz_mutate_bytes(&r, data + footer, size - 8 - footer, &out);
    if (!out.failed && footer + out.size + 8 <= max) {
        uint32_t length = (uint32_t)out.size;
        if (out.size) memcpy(data + footer, out.data, out.size);
        memcpy(data + footer + out.size, &length, 4);
        memcpy(data + footer + out.size + 4, "PAR1", 4);
        out_size = footer + out.size + 8;
    }
    zest_buffer_free(&out);
    return out_size;
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const names[] = {"flat-none",   "flat-snappy",   "flat-gzip",   "flat-zstd",
                                        "flat-lz4",    "flat-delta1",   "flat-delta2", "flat-duckdb2",
                                        "flat-polars", "nested-v1",     "nested-v2",   "nested-duckdb",
                                        "chat-snappy", "sharegpt-zstd", "other-types"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[100] = "tests/data/parquet/";
        zest_buffer file = {0};
        strcat(strcat(path, names[i]), ".parquet");
        fuzz_read(path, &file);
        add(file.data, file.size, user);
        zest_buffer_free(&file);
    }
}
