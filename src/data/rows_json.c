/* JSONL: an object a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"
#include "data/rows_internal.h"

/* ---- What the readers of JSON share ---- */

zest_status zest_rows_load_json(zest_rows_builder *b, const char *text, size_t size, size_t line,
                                json_t **json) {
    json_error_t problem;
    *json = zest_json_load(text, size, ZEST_JSON_BIG_AS_TEXT, &problem);
    if (json_is_object(*json)) return ZEST_OK;
    size_t where = line ? line : problem.line > 0 ? (size_t)problem.line : 1;
    if (*json) {
        json_decref(*json);
        *json = NULL;
        return zest_rows_refuse(b, where, "is JSON, but no object; each %s must be one: {\"text\": ...}",
                                line ? "line" : "file");
    }
    if (json_error_code(&problem) == json_error_out_of_memory)
        return zest_error_memory(b->error, b->path, size);
    return zest_rows_refuse(b, where, "is no sound JSON object: %s (at column %d)%s", problem.text,
                            problem.column,
                            line ? "; JSONL has one whole object on each line" : "; fetch the file again");
}

static int is_blank(const char *text, size_t size) {
    while (size && (*text == ' ' || *text == '\t' || *text == '\r')) text++, size--;
    return !size;
}

zest_status zest_rows_each_line(zest_rows_builder *b, zest_rows_take *take) {
    const char *at = b->file.data + b->begin, *end = b->file.data + b->file.size;
    zest_status status = ZEST_OK;
    for (size_t line = 1; at < end && !status; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        json_t *json;
        if (!is_blank(at, size)) {
            status = zest_rows_load_json(b, at, size, line, &json);
            if (!status) status = take(b, json, line);
            json_decref(json);
        }
        at = stop ? stop + 1 : end;
    }
    return status;
}

zest_status zest_rows_member(zest_rows_builder *b, const json_t *object, const char *key, size_t line,
                             const json_t **text) {
    *text = json_object_get(object, key);
    if (json_is_string(*text)) return ZEST_OK;
    return zest_rows_refuse(b, line, "needs the text \"%s\"%s", key,
                            *text ? ", which here is of another kind" : ", which is not there");
}

size_t zest_rows_keep_string(zest_rows_builder *b, const json_t *string) {
    return zest_rows_keep(b, json_string_value(string), json_string_length(string));
}

/* The shortest decimal that reads back as the same number. */
static int print_real(double value, char *room, size_t size) {
    int used = 0;
    for (int digits = 15; digits <= 17; digits++) {
        used = zest_number_format(room, size, "%.*g", digits, value);
        if (zest_number_parse(room, NULL) == value) break;
    }
    return used;
}

int zest_rows_keep_json(zest_rows_builder *b, const json_t *value, size_t *offset) {
    char room[64] = "";
    int used = 0;
    if (json_is_string(value)) return *offset = zest_rows_keep_string(b, value), 1;
    if (json_is_boolean(value))
        used = snprintf(room, sizeof room, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        used = snprintf(room, sizeof room, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        used = print_real(json_real_value(value), room, sizeof room);
    else if (!json_is_null(value))
        return 0;
    *offset = zest_rows_keep(b, room, (size_t)used);
    return 1;
}

/* ---- Fields by path ---- */

/* Adds the texts at a path; 0: none is there, or something that is no text. Lists are gone through, so that
 * answers.text finds the texts of [{"text": ...}, ...]. */
static int add_texts(zest_rows_builder *b, const json_t *value, const char *path) {
    size_t offset;
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            if (!add_texts(b, json_array_get(value, i), path)) return 0;
        return 1;
    }
    if (!*path) {
        if (!value || !zest_rows_keep_json(b, value, &offset)) return 0;
        zest_rows_add(b, offset);
        return 1;
    }
    json_t *whole = json_object_get(value, path);
    if (whole) return add_texts(b, whole, "");
    const char *dot = strchr(path, '.');
    char key[256];
    if (!dot || (size_t)(dot - path) >= sizeof key) return 0;
    memcpy(key, path, (size_t)(dot - path));
    key[dot - path] = '\0';
    json_t *part = json_object_get(value, key);
    return part ? add_texts(b, part, dot + 1) : 0;
}

/* Is this something that a field can hold? */
static int is_text(const json_t *value) {
    if (!json_is_array(value)) return !json_is_object(value);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_is_array(json_array_get(value, i)) || json_is_object(json_array_get(value, i))) return 0;
    return 1;
}

/* Paths of everything in the first object, those of objects within it with a dot. Objects deeper than that
 * can be had by naming them. */
static void find_names(const json_t *object, const char *before, zest_buffer *names) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (json_is_object(value) && !*before)
            find_names(value, key, names);
        else if (is_text(value) && *key && !strpbrk(key, " ,\t="))
            zest_buffer_format(names, "%s%s%s ", before, *before ? "." : "", key);
    }
}

/* The fields are known once the first object is. */
static zest_status name_fields(zest_rows_builder *b, const json_t *object, size_t line) {
    zest_buffer names = {0};
    zest_rows_layout found = *b->layout;
    const zest_rows_layout *given = b->layout;
    zest_status status = ZEST_OK;
    if (!given->fields) {
        find_names(object, "", &names);
        if (names.failed) status = zest_error_memory(b->error, b->path, names.size);
        if (!status && !names.size) status = zest_rows_refuse(b, line, "holds no text");
        found.fields = names.data;
        b->layout = &found;
    }
    if (!status) status = zest_rows_picks_parse(b, b->picks);
    if (!status) zest_rows_picks_name(b, b->picks);
    b->layout = given;
    zest_buffer_free(&names);
    return status;
}

static zest_status take_row(zest_rows_builder *b, const json_t *object, size_t line) {
    zest_status status = b->rows->count ? ZEST_OK : name_fields(b, object, line);
    if (status) return status;
    const zest_rows_picks *picks = b->picks;
    zest_rows_begin(b, line);
    for (size_t i = 0; i < picks->count; i++) {
        int optional = b->layout->optional && !strcmp(picks->picks[i].name, b->layout->optional);
        if (!add_texts(b, object, picks->picks[i].from) && !optional)
            return zest_rows_refuse(b, line, "has no text \"%.60s\"%s", picks->picks[i].from,
                                    b->layout->fields ? "; is the name right, and in every row?"
                                                      : ", which the first row has; name the fields you "
                                                        "need (fields = text label)");
        zest_rows_end_field(b);
    }
    return ZEST_OK;
}

zest_status zest_rows_jsonl(zest_rows_builder *b) {
    zest_rows_picks picks = {0};
    b->picks = &picks;
    zest_status status = zest_rows_each_line(b, take_row);
    zest_rows_picks_free(&picks);
    b->picks = NULL;
    return status;
}
