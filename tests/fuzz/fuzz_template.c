/* A template in the first line, rows of JSON in the others: an error with a sentence, or prompts that are UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "task/template.h"
#include "tests/fuzz/fuzz.h"
#include "tokenizer/unicode.h"

static void check(const zest_buffer *text) {
    if (text->data && zest_unicode_valid(text->data, text->size) != text->size) __builtin_trap();
}

static void render(const zest_template *t, const zest_rows *rows) {
    zest_template_segments segments = {0};
    zest_error error = {0};
    for (size_t row = 0; row < rows->count && row < 8; row++) {
        zest_buffer out = {0};
        if (!zest_template_render(t, rows, row, row ? "ans {w}" : NULL, &out, &error)) check(&out);
        out.size = 0;
        if (!zest_template_render_option(t, rows, row, " An option.", &out, &error)) check(&out);
        zest_buffer_free(&out);
        if (zest_template_render_segments(t, rows, row, &segments, &error)) continue;
        check(&segments.text);
        for (size_t i = 0; i < segments.count; i++) {
            const zest_template_segment *s = &segments.segments[i];
            if (s->first > segments.text.size || s->size > segments.text.size - s->first) __builtin_trap();
        }
    }
    zest_template_segments_free(&segments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const zest_rows_layout layout = {.format = ZEST_ROWS_JSONL};
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    zest_template *t = NULL;
    zest_rows rows;
    zest_error error = {0};
    char *text = end ? strndup((const char *)data, (size_t)(end - data)) : NULL;
    if (!text) return 0;
    if (zest_template_parse(text, "fuzz", &t, &error)) {
        if (t || !error.message[0]) __builtin_trap();
    } else if (!zest_rows_parse(end + 1, size - (size_t)(end + 1 - data), "rows", &layout, &rows, &error)) {
        zest_template_check(t, &rows, &error);
        for (int use = 0; use < 3; use++) zest_template_expect(t, (zest_template_use)use, &error);
        render(t, &rows);
        zest_rows_free(&rows);
    }
    zest_template_free(t);
    free(text);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_TEXT, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const lines[] = {"{text} It was{mask}.", "{a|drop-last}?{mask}, {text|lower-first}",
                                        "Q: {text|strip}\\nA: {answer}",
                                        "{text|@x=>{option}|lower-word|upper-first|question-mark|drop-dot}",
                                        "{{{text|a=>{a|b=>c}|strip-end}}} \\| \\t"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        zest_buffer file = {0};
        zest_buffer_format(&file,
                           "%s\n{\"text\":\"A caf\xC3\xA9. \",\"a\":\"I b @x b\"}\n{\"text\":\"\xC5\xB8 "
                           "a\",\"a\":[\"b\",\"c\"]}\n",
                           lines[i]);
        add(file.data, file.size, user);
        zest_buffer_free(&file);
    }
}
