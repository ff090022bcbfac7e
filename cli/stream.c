/* Generated text shown token by token. */
#include "cli/stream.h"

#include <stdio.h>
#include <string.h>

#include "cli/output.h"
#include "tokenizer/unicode.h"

/* The bytes of a character that begins with this one; 0: none does. */
static size_t length_of(unsigned char lead) {
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) return 3;
    return lead >= 0xF0 && lead <= 0xF4 ? 4 : lead < 0x80;
}

/* Whether a character may begin with these two bytes: no overlong form, no surrogate, nothing above U+10FFFF. */
static int may_follow(unsigned char lead, unsigned char second) {
    unsigned char low = lead == 0xE0   ? 0xA0
                        : lead == 0xF0 ? 0x90
                                       : 0x80,
                  high = lead == 0xED   ? 0x9F
                         : lead == 0xF4 ? 0x8F
                                        : 0xBF;
    return second >= low && second <= high;
}

size_t zest_cli_stream_incomplete(const char *text, size_t size) {
    for (size_t tail = 1; tail <= 3 && tail <= size; tail++) {
        const unsigned char *at = (const unsigned char *)text + size - tail;
        if ((*at & 0xC0) == 0x80) continue; /* within a character */
        return length_of(*at) > tail && (tail == 1 || may_follow(at[0], at[1])) ? tail : 0;
    }
    return 0;
}

static void show(zest_cli_stream *stream, size_t size) {
    zest_buffer text = {0};
    zest_unicode_repair(stream->bytes.data, size, &text);
    const char *shown = text.data ? text.data : "";
    if (stream->skip_space && *shown == ' ') shown++;
    if (text.size) stream->skip_space = 0;
    if (!stream->silent) {
        zest_output_print("%s", shown);
        fflush(stdout);
    }
    if (stream->copy) zest_buffer_text(stream->copy, shown);
    stream->failed |= text.failed || stream->bytes.failed || (stream->copy && stream->copy->failed);
    zest_buffer_free(&text);
    memmove(stream->bytes.data, stream->bytes.data + size, stream->bytes.size - size);
    stream->bytes.size -= size;
}

void zest_cli_stream_token(zest_cli_stream *stream, int32_t token) {
    char bytes[1 << 12];
    size_t size = 0;
    if (zest_lm_token_is_special(stream->lm, token)) return;
    if (zest_lm_token_bytes(stream->lm, token, bytes, sizeof bytes, &size))
        return; /* a padding row: no text */
    zest_buffer_add(&stream->bytes, bytes, size);
    size_t complete = stream->bytes.size - zest_cli_stream_incomplete(stream->bytes.data, stream->bytes.size);
    if (complete) show(stream, complete);
}

void zest_cli_stream_end(zest_cli_stream *stream) {
    if (stream->bytes.size) show(stream, stream->bytes.size);
    zest_buffer_free(&stream->bytes);
}
