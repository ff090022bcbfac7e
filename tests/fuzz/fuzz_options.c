/* Any text as options: parsed, printed and parsed again to the same text. */
#include <stdlib.h>
#include <string.h>

#include "base/option.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    zest_options options, again;
    zest_error error;
    zest_options_init(&options);
    zest_options_init(&again);
    if (!zest_options_set_all(&options, ~0u, text, "fuzz", &error)) {
        zest_buffer first = {0}, second = {0};
        zest_options_print(&options, ~0u, &first);
        if (zest_options_set_all(&again, ~0u, first.data, "again", &error)) abort();
        zest_options_print(&again, ~0u, &second);
        if (strcmp(first.data, second.data)) abort();
        zest_buffer_free(&first);
        zest_buffer_free(&second);
    }
    zest_options_free(&options);
    zest_options_free(&again);
    free(text);
    return 0;
}
