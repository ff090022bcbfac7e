/* Any text, given as a chat template: an error, or one that renders, or an error of the rendering. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "chat/jinja.h"
#include "tests/fuzz/fuzz.h"
#include "tokenizer/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char given[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, "
                                "{\"role\": \"user\", \"content\": \" Gr\xC3\xBC\xC3\x9F "
                                "\"}, {\"role\": \"assistant\", \"content\": \"<think>\\nx</think>\\n1\", "
                                "\"tool_calls\": [{\"function\": "
                                "{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, null]}}}]}, {\"role\": "
                                "\"tool\", \"content\": {\"b\": 1}}], "
                                "\"tools\": [{\"function\": {\"name\": \"f\"}}], \"bos_token\": \"<s>\", "
                                "\"add_generation_prompt\": true, \"n\": 7, "
                                "\"s\": \"abc\", \"l\": [3, 1, 2], \"d\": {\"k\": \"v\"}}";
    zest_error error = {0};
    zest_buffer out = {0};
    zest_jinja_spans spans = {0};
    if (zest_unicode_valid((const char *)bytes, size) < size) return 0;
    json_t *variables = json_loads(given, 0, NULL);
    zest_jinja *jinja = zest_jinja_parse((const char *)bytes, size, "fuzz", &error);
    if (!jinja && (!error.message[0] || !error.status)) __builtin_trap();
    zest_jinja_input input = {.variables = variables, .now = 1722021234, .spans = &spans};
    if (jinja && !zest_jinja_render(jinja, &input, &out, &error)) {
        if (zest_unicode_valid(out.data, out.size) < out.size) __builtin_trap();
        for (size_t i = 0; i < spans.count; i++)
            if (spans.data[i].start > spans.data[i].end || spans.data[i].end > out.size) __builtin_trap();
    }
    zest_jinja_free(jinja);
    zest_jinja_spans_free(&spans);
    zest_buffer_free(&out);
    json_decref(variables);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_TEXT, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const names[] = {"chatml",    "gemma3", "llama3.1", "mistral-tools",
                                        "phi4-mini", "qwen3",  "smollm2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zest_buffer file = {0};
        char path[100];
        snprintf(path, sizeof path, "tests/data/chat/%s.jinja", names[i]);
        fuzz_read(path, &file);
        add(file.data, file.size, user);
        zest_buffer_free(&file);
    }
}
