/* JSON that others wrote. Every model, tokenizer and data file is parsed here, so that all of them are read
 * by the same rules: no duplicate keys, nesting as deep as jansson allows (2048), integers of 64 bits exact.
 */
#ifndef ZEST_BASE_JSON_H
#define ZEST_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/memory.h"
#include "base/error.h"

/* JSON has no largest integer, jansson has. transformers writes "model_max_length": 10^30 into
 * tokenizer_config.json, so such a number must not make a file unreadable. */
typedef enum {
    ZEST_JSON_BIG_AS_REAL, /* an integer beyond 64 bits becomes the nearest double */
    ZEST_JSON_BIG_AS_TEXT, /* it becomes a string of its digits, for data that is only printed again */
} zest_json_big;

/* NULL: see problem, whose text has no bytes of the file and no control characters. */
json_t *zest_json_load(const char *bytes, size_t size, zest_json_big big, json_error_t *problem);

/* A JSON object, with big integers as doubles. name: the file, for the message. */
zest_status zest_json_parse(const char *bytes, size_t size, const char *name, json_t **json,
                            zest_error *error);

/* Appends the text; jansson's flags. Unlike json_dumps this notices every allocation that fails: out->failed.
 */
void zest_json_print(const json_t *json, size_t flags, zest_buffer *out);
/* The same as a text to be freed; NULL: memory is short. */
char *zest_json_dump(const json_t *json, size_t flags);

#endif
