/* JSON from files: parsing with uniform rules, printing with checked allocations. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

enum { FLAGS = JSON_REJECT_DUPLICATES };

/* Whether this text is an integer that does not fit into 64 bits. */
static int is_big_integer(const char *number, size_t size) {
    int negative = number[0] == '-';
    const char *digits = number + negative;
    size_t count = size - (size_t)negative;
    if (count < 19 || digits[0] == '0') return 0;
    for (size_t i = 0; i < count; i++)
        if (!isdigit((unsigned char)digits[i])) return 0;
    return count > 19 || memcmp(digits, negative ? "9223372036854775808" : "9223372036854775807", 19) > 0;
}

/* The end of the string whose opening quote is at `at`; size if it is not terminated. */
static size_t string_end(const char *bytes, size_t size, size_t at) {
    for (at++; at < size && bytes[at] != '"'; at++)
        if (bytes[at] == '\\') at++;
    return at < size ? at + 1 : size;
}

static size_t number_end(const char *bytes, size_t size, size_t at) {
    while (at < size && (isalnum((unsigned char)bytes[at]) || memchr("+-.", bytes[at], 3))) at++;
    return at;
}

/* Copies the text, with big integers rewritten as reals or as strings. */
static void respell(const char *bytes, size_t size, zest_json_big big, zest_buffer *out) {
    size_t copied = 0;
    for (size_t at = 0, end; at < size; at = end) {
        if (bytes[at] == '"') {
            end = string_end(bytes, size, at);
            continue;
        }
        end = number_end(bytes, size, at);
        if (end == at) {
            end = at + 1;
        } else if (is_big_integer(bytes + at, end - at)) {
            zest_buffer_add(out, bytes + copied, at - copied);
            if (big == ZEST_JSON_BIG_AS_TEXT) zest_buffer_text(out, "\"");
            zest_buffer_add(out, bytes + at, end - at);
            zest_buffer_text(out, big == ZEST_JSON_BIG_AS_TEXT ? "\"" : ".0");
            copied = end;
        }
    }
    zest_buffer_add(out, bytes + copied, size - copied);
}

static void clean(char *text) {
    char *quote = strstr(text, " near '"); /* bytes of the file follow */
    if (quote) *quote = '\0';
    for (; *text; text++)
        if (iscntrl((unsigned char)*text)) *text = '?';
}

/* jansson reports some failed allocations as a syntax error; errno of malloc distinguishes them. */
static json_t *load(const char *bytes, size_t size, json_error_t *problem) {
    int before = errno;
    errno = 0;
    json_t *json = json_loadb(bytes, size, FLAGS, problem);
    if (!json && errno == ENOMEM)
        problem->text[sizeof problem->text - 1] =
            (char)json_error_out_of_memory; /* where jansson stores the code */
    errno = before;
    return json;
}

json_t *zest_json_load(const char *bytes, size_t size, zest_json_big big, json_error_t *problem) {
    json_t *json = load(size ? bytes : "", size, problem);
    if (!json && json_error_code(problem) == json_error_numeric_overflow) {
        zest_buffer text = {0};
        respell(bytes, size, big, &text);
        if (text.failed)
            problem->text[sizeof problem->text - 1] = (char)json_error_out_of_memory;
        else
            json = load(text.data, text.size, problem);
        zest_buffer_free(&text);
    }
    if (!json) clean(problem->text);
    return json;
}

zest_status zest_json_parse(const char *bytes, size_t size, const char *name, json_t **json,
                            zest_error *error) {
    json_error_t problem;
    *json = zest_json_load(bytes, size, ZEST_JSON_BIG_AS_REAL, &problem);
    if (json_is_object(*json)) return ZEST_OK;
    if (*json) {
        json_decref(*json);
        *json = NULL;
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: is not a JSON object; is it the right file?",
                              name);
    }
    if (json_error_code(&problem) == json_error_out_of_memory) return zest_error_memory(error, name, size);
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: is not valid JSON at line %d, column %d: %s; download it again", name,
                          problem.line, problem.column, problem.text);
}

zest_status zest_json_read(const char *path, size_t limit, json_t **json, zest_error *error) {
    zest_buffer text = {0};
    *json = NULL;
    zest_status status = zest_file_read(path, limit, &text, error);
    if (!status) status = zest_json_parse(text.data, text.size, path, json, error);
    zest_buffer_free(&text);
    return status;
}

static void give_up(json_t **to) {
    json_decref(*to);
    *to = NULL;
}

void zest_json_set(json_t **to, const char *key, json_t *value) {
    if (json_object_set_new(*to, key, value)) give_up(to);
}

void zest_json_append(json_t **to, json_t *value) {
    if (json_array_append_new(*to, value)) give_up(to);
}

static int add_text(const char *text, size_t size, void *out) {
    zest_buffer_add(out, text, size);
    return ((zest_buffer *)out)->failed ? -1 : 0;
}

void zest_json_print(const json_t *json, size_t flags, zest_buffer *out) {
    if (!json || json_dump_callback(json, add_text, out, flags)) out->failed = 1;
}

char *zest_json_dump(const json_t *json, size_t flags) {
    zest_buffer text = {0};
    zest_json_print(json, flags, &text);
    if (!text.failed) return text.data;
    zest_buffer_free(&text);
    return NULL;
}
