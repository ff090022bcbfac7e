/* Any bytes as a data file, the first of which choose its layout: an error with a sentence, or rows all of
 * which can be read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "task/rows.h"
#include "tests/fuzz/fuzz.h"

/* Where what was read goes, so that no compiler drops the reading. */
static volatile size_t sink;

static void look(const zest_rows *rows) {
    size_t sum = 0, count;
    if (!rows->count || !rows->name_count) __builtin_trap();
    for (size_t f = 0; f < rows->name_count; f++)
        if (zest_rows_field(rows, rows->names[f]) != (int)f) __builtin_trap();
    for (size_t r = 0; r < rows->count; r++)
        for (size_t f = 0; f < rows->name_count; f++) {
            const char *const *texts = zest_rows_get(rows, r, (int)f, &count);
            char buffer[64];
            for (size_t i = 0; i < count; i++)
                sum += strlen(texts[i]) + strlen(zest_rows_show(texts[i], buffer));
        }
    sink = sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const fields[] = {NULL, "a", "a=0 b=-1", "a=b.c"};
    zest_rows rows;
    zest_error error = {0};
    if (size < 1) return 0;
    int format = bytes[0] & 15;
    zest_rows_layout layout = {.format = (zest_rows_format)(format % 8),
                               .header = format >= 8,
                               .skip_short = format >= 8,
                               .all_answers = format >= 8,
                               .fields = fields[bytes[0] >> 6]};
    if (zest_rows_parse(bytes + 1, size - 1, "fuzz", &layout, &rows, &error)) {
        if (rows.texts || !error.message[0]) __builtin_trap();
        return 0;
    }
    look(&rows);
    zest_rows_free(&rows);
    return 0;
}

/* The layout stays; what follows is lines, or lines of JSON. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    if (size < 2 || seed % 64 == 0) return fuzz_mutate(FUZZ_TEXT, data, size, max, seed);
    fuzz_kind kind = (data[0] & 7) < 2 || seed % 4 == 0 ? FUZZ_TEXT : FUZZ_JSON_LINES;
    return 1 + fuzz_mutate(kind, data + 1, size - 1, max - 1, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const files[] = {
        "\x08"
        "a\tb\nfine film\t1\n\xC3\xA9 dull\t0\n",
        "\x01"
        "\"a \"\"b\"\"\",x\n\"two\nlines\",y\n",
        "\x02"
        "{\"a\":\"fine\",\"b\":{\"c\":[\"x\",1]}}\n{\"a\":2.5,\"b\":{\"c\":true}}\n",
        "\x0B"
        "{\"passage\":{\"text\":\"A b "
        "c.\",\"entities\":[{\"start\":0,\"end\":0},{\"start\":2,\"end\":2}]},\"qas\":"
        "[{\"query\":\"@placeholder b\",\"answers\":[{\"text\":\"A\"}]}]}\n",
        "\x0C"
        "{\"passage\":{\"text\":\"T.\",\"questions\":[{\"question\":\"q\",\"answers\":[{\"text\":\"x\","
        "\"label\":1}]}]}}\n",
        "\x05"
        "{\"text\":\"Mark told Pete "
        "lies.\",\"target\":{\"span1_index\":0,\"span1_text\":\"Mark\",\"span2_index\":2,"
        "\"span2_text\":\"Pete\"},\"label\":true}\n",
        "\x06"
        "{\"data\":[{\"title\":\"t\",\"paragraphs\":[{\"context\":\"c\",\"qas\":[{\"question\":\"q\","
        "\"answers\":"
        "[{\"text\":\"c\"}]}]}]}]}\n",
        "\x0F"
        "{\"p1\":{\"passage\":\"c "
        "3\",\"qa_pairs\":[{\"question\":\"q\",\"answer\":{\"number\":\"3\",\"date\":{},\"spans\":"
        "[]},\"validated_answers\":[{\"number\":\"\",\"date\":{\"day\":\"1\"},\"spans\":[\"c\"]}]}]}}\n"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) add(files[i], strlen(files[i]), user);
}
