/* A growing buffer of bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* Ensures capacity for `more` bytes and a terminating NUL. */
static int reserve(zest_buffer *buffer, size_t more) {
    if (buffer->failed) return 0;
    if (more > SIZE_MAX / 2 - buffer->size) return buffer->failed = 1, 0;
    size_t needed = buffer->size + more + 1;
    if (needed <= buffer->capacity) return 1;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity < needed) capacity *= 2;
    char *data = realloc(buffer->data, capacity);
    if (!data) return buffer->failed = 1, 0;
    buffer->data = data;
    buffer->capacity = capacity;
    return 1;
}

void zest_buffer_add(zest_buffer *buffer, const void *bytes, size_t size) {
    if (!reserve(buffer, size)) return;
    if (size) memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

void zest_buffer_text(zest_buffer *buffer, const char *text) { zest_buffer_add(buffer, text, strlen(text)); }

void zest_buffer_vformat(zest_buffer *buffer, const char *format, va_list arguments) {
    va_list copy;
    va_copy(copy, arguments);
    int size = zest_number_vformat(NULL, 0, format, copy);
    va_end(copy);
    if (size < 0) {
        buffer->failed = 1;
        return;
    }
    if (!reserve(buffer, (size_t)size)) return;
    zest_number_vformat(buffer->data + buffer->size, (size_t)size + 1, format, arguments);
    buffer->size += (size_t)size;
}

void zest_buffer_format(zest_buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    zest_buffer_vformat(buffer, format, arguments);
    va_end(arguments);
}

void zest_buffer_free(zest_buffer *buffer) {
    free(buffer->data);
    *buffer = (zest_buffer){0};
}
