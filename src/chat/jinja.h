/* The part of Jinja that chat templates are written in, as transformers runs it: blocks are trimmed (trim_blocks,
 * lstrip_blocks), nothing is escaped, undefined variables print as nothing.
 *
 *     statements   if, for (with if, else, break, continue), set (also of a namespace, also as a block), macro, with,
 *                  generation, raw; comments; the signs - and + of white space control
 *     expressions  Python's operators, literals, slices and conditions; attributes, subscripts, calls
 *     filters      abs capitalize count default (d) dictsort first float indent int items join last length list
 *                  lower map max min reject rejectattr replace reverse round select selectattr sort string sum
 *                  title tojson trim unique upper; safe at the end of an output
 *     tests        boolean defined divisibleby eq (equalto, ==) even false float ge gt in integer iterable le lower lt
 *                  mapping ne none number odd sameas sequence string true undefined upper
 *     functions    range, namespace, dict, raise_exception, strftime_now
 *     methods      of texts: capitalize count endswith find isalnum isalpha isdigit isspace join lower lstrip
 *                  removeprefix removesuffix replace rfind rsplit rstrip split splitlines startswith strip title upper;
 *                  of mappings: copy get items keys values; of lists: count index
 *
 * What is not in this list (call, filter and include blocks, inheritance, other filters, formatting with %) is an error
 * that names it and its line: statements when the template is parsed, the others when they are reached. Case is mapped
 * for all letters by lower, and for ASCII letters alone by upper, title and capitalize, which refuse others. */
#ifndef ZEST_CHAT_JINJA_H
#define ZEST_CHAT_JINJA_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"

typedef struct zest_jinja zest_jinja;

/* Limits that keep a template of a stranger from taking all memory or time: bytes of a template, nesting of its
 * statements and expressions, calls of macros within each other, bytes that rendering may use, and steps that it may
 * take (a step is the evaluation of one node, or the reading or copying of 64 bytes). The variables count, too. */
enum {
    ZEST_JINJA_MAX_SIZE = 1 << 20,
    ZEST_JINJA_MAX_DEPTH = 128,
    ZEST_JINJA_MAX_CALLS = 64,
    ZEST_JINJA_MAX_STEPS = 20000000,
    ZEST_JINJA_MAX_BYTES = 128 << 20,
};

/* Bytes of the rendered text. */
typedef struct {
    size_t start, end;
} zest_jinja_span;

/* A growing list of spans. Start with {0}. Out of memory: failed. */
typedef struct {
    zest_jinja_span *data;
    size_t count, capacity;
    int failed;
} zest_jinja_spans;

void zest_jinja_spans_add(zest_jinja_spans *spans, size_t start, size_t end);
void zest_jinja_spans_free(zest_jinja_spans *spans);

/* Valid UTF-8; kept by nobody after the call. name is for messages. NULL: see error. Immutable afterwards. */
zest_jinja *zest_jinja_parse(const char *text, size_t size, const char *name, zest_error *error);
void zest_jinja_free(zest_jinja *jinja);

typedef struct {
    const json_t *variables; /* an object; its members are the template's variables */
    int64_t now;             /* of strftime_now, in seconds since 1970; 0: there is no strftime_now */
    zest_jinja_spans *spans; /* receives what lies inside {% generation %}; or NULL */
} zest_jinja_input;

/* Appends the text. raise_exception is an error with its message. */
zest_status zest_jinja_render(const zest_jinja *jinja, const zest_jinja_input *input, zest_buffer *out,
                              zest_error *error);

#endif
