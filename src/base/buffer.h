/* A growing run of bytes: for text that is put together, and for files read whole. */
#ifndef ZEST_BASE_BUFFER_H
#define ZEST_BASE_BUFFER_H

#include <stdarg.h>
#include <stddef.h>

/* Start with {0}. data is always followed by a NUL once something was added. When memory runs out, failed is
 * set and further additions do nothing, so a caller checks once, at the end. */
typedef struct {
    char *data;
    size_t size, capacity;
    int failed;
} zest_buffer;

void zest_buffer_add(zest_buffer *buffer, const void *bytes, size_t size);
void zest_buffer_text(zest_buffer *buffer, const char *text);
void zest_buffer_format(zest_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void zest_buffer_vformat(zest_buffer *buffer, const char *format, va_list arguments);
void zest_buffer_free(zest_buffer *buffer);

#endif
