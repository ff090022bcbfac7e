#include "cli/terminal.h"

#include "text/unicode.h"

/* C1 controls, line and paragraph separators, and the marks that embed, override or isolate a direction. */
static int is_hidden(uint32_t code) {
    return (code >= 0x7F && code < 0xA0) || code == 0x200E || code == 0x200F ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

static void clean_valid(const char *text, size_t size, zest_buffer *out) {
    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t length = zest_unicode_read(text + at, &code);
        if (code < 0x20 && code != '\t' && code != '\n')
            zest_buffer_format(out, "\\x%02x", (unsigned)code);
        else if (is_hidden(code))
            zest_buffer_format(out, "\\u%04x", (unsigned)code);
        else
            zest_buffer_add(out, text + at, length);
        at += length;
    }
}

void zest_terminal_clean(const char *text, size_t size, zest_buffer *out) {
    while (size) {
        size_t valid = zest_unicode_valid(text, size);
        clean_valid(text, valid, out);
        text += valid, size -= valid;
        if (!size) break;
        zest_buffer_format(out, "\\x%02x", (unsigned char)*text);
        text++, size--;
    }
}
