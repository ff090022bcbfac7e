/* Any text, given as a chat template: an error, or one that renders, or an error of the rendering. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/jinja.h"
#include "tokenizer/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

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
