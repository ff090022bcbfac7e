/* JSON from files. All of them are parsed here, by the same rules: no duplicate keys, nesting as deep as jansson
 * allows (2048), integers of 64 bits exact. */
#ifndef ZEST_BASE_JSON_H
#define ZEST_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "base/memory.h"

/* JSON has no largest integer, but jansson does. transformers writes "model_max_length": 10^30 into
 * tokenizer_config.json, so such a number must not make a file unreadable. */
typedef enum {
    ZEST_JSON_BIG_AS_REAL, /* an integer beyond 64 bits becomes the nearest double */
    ZEST_JSON_BIG_AS_TEXT, /* it becomes a string of its digits, for data that is only printed */
} zest_json_big;

/* NULL: see problem, whose text contains no bytes of the file and no control characters. */
json_t *zest_json_load(const char *bytes, size_t size, zest_json_big big, json_error_t *problem);

/* A JSON object, with big integers as doubles. name: the file, for the message. */
zest_status zest_json_parse(const char *bytes, size_t size, const char *name, json_t **json,
                            zest_error *error);

/* The same for a file of at most limit bytes. */
zest_status zest_json_read(const char *path, size_t limit, json_t **json, zest_error *error);

/* Set a member, append an element. The value is taken over. When memory is short, *to is freed and becomes NULL, and
 * stays so: what is made of it then fails, and nothing incomplete is written. */
void zest_json_set(json_t **to, const char *key, json_t *value);
void zest_json_append(json_t **to, json_t *value);

/* Appends the text, with jansson's flags. Unlike json_dumps it detects every failed allocation: out->failed. */
void zest_json_print(const json_t *json, size_t flags, zest_buffer *out);
/* The same as a string to be freed; NULL: out of memory. */
char *zest_json_dump(const json_t *json, size_t flags);

#endif
