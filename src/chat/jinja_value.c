/* Values of Jinja: Python's, as far as templates see them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "chat/jinja_internal.h"
#include "tokenizer/unicode.h"

typedef zest_jinja_value value;
typedef zest_jinja_state state;

/* ---- Making values ---- */

value zest_jinja_none(void) { return (value){.kind = ZEST_JINJA_NONE}; }
value zest_jinja_boolean(int truth) { return (value){.kind = ZEST_JINJA_BOOLEAN, .integer = truth != 0}; }
value zest_jinja_integer(int64_t number) { return (value){.kind = ZEST_JINJA_NUMBER, .integer = number}; }
value zest_jinja_real(double number) { return (value){.kind = ZEST_JINJA_FLOAT, .real = number}; }
value zest_jinja_undefined(zest_jinja_text name) {
    return (value){.kind = ZEST_JINJA_UNDEFINED, .text = name};
}

value zest_jinja_string(const char *text, size_t size) {
    return (value){.kind = ZEST_JINJA_STRING, .text = {text, size}};
}

value zest_jinja_word(const char *text) { return zest_jinja_string(text, strlen(text)); }

value zest_jinja_copy(state *s, const char *text, size_t size) {
    char *copy = zest_jinja_charge(s, 0, size) ? zest_jinja_new(s, size + 1) : NULL;
    if (!copy) return zest_jinja_word("");
    if (size) memcpy(copy, text, size);
    return zest_jinja_string(copy, size);
}

value zest_jinja_from_buffer(state *s, zest_buffer *buffer) {
    value made = zest_jinja_word("");
    if (buffer->failed)
        zest_jinja_fail(s, "not enough memory");
    else
        made = zest_jinja_copy(s, buffer->data, buffer->size);
    zest_buffer_free(buffer);
    return made;
}

value zest_jinja_new_list(state *s, zest_jinja_kind kind) {
    zest_jinja_list *list = zest_jinja_new(s, sizeof *list);
    return list ? (value){.kind = kind, .list = list} : zest_jinja_none();
}

/* Twice as large, in the arena. */
static value *grow(state *s, value *old, size_t count, size_t capacity) {
    value *more = zest_jinja_new(s, capacity * sizeof *more);
    if (more && count) memcpy(more, old, count * sizeof *more);
    return more;
}

void zest_jinja_append(state *s, zest_jinja_list *list, value item) {
    if (s->status) return;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 4;
        value *more = grow(s, list->item, list->count, capacity);
        if (!more) return;
        list->item = more;
        list->capacity = capacity;
    }
    list->item[list->count++] = item;
}

value zest_jinja_new_dict(state *s, zest_jinja_kind kind) {
    zest_jinja_dict *dict = zest_jinja_new(s, sizeof *dict);
    return dict ? (value){.kind = kind, .dict = dict} : zest_jinja_none();
}

value *zest_jinja_dict_find(state *s, const zest_jinja_dict *dict, value key) {
    for (size_t i = 0; i < dict->count && zest_jinja_charge(s, 0, 8); i++)
        if (zest_jinja_equal(s, dict->key[i], key)) return &dict->value[i];
    return NULL;
}

static void dict_add(state *s, zest_jinja_dict *dict, value key, value item) {
    if (dict->count == dict->capacity) {
        size_t capacity = dict->capacity ? 2 * dict->capacity : 4;
        value *keys = grow(s, dict->key, dict->count, capacity),
              *values = keys ? grow(s, dict->value, dict->count, capacity) : NULL;
        if (!values) return;
        dict->key = keys;
        dict->value = values;
        dict->capacity = capacity;
    }
    dict->key[dict->count] = key;
    dict->value[dict->count++] = item;
}

void zest_jinja_dict_set(state *s, zest_jinja_dict *dict, value key, value item) {
    if (key.kind >= ZEST_JINJA_LIST && key.kind != ZEST_JINJA_TUPLE) {
        zest_jinja_fail(s, "a %s cannot be the key of a dict", zest_jinja_kind_name(key.kind));
        return;
    }
    value *known = zest_jinja_dict_find(s, dict, key);
    if (s->status) return;
    if (known)
        *known = item;
    else
        dict_add(s, dict, key, item);
}

/* JSON is nested as deep as jansson allows, so this recursion is bounded. Keys of an object are distinct. */
value zest_jinja_from_json(state *s, const json_t *json) {
    const char *key;
    json_t *member;
    value made;
    if (!zest_jinja_charge(s, 1, 0)) return zest_jinja_none();
    switch (json_typeof(json)) {
    case JSON_STRING: return zest_jinja_copy(s, json_string_value(json), json_string_length(json));
    case JSON_INTEGER: return zest_jinja_integer(json_integer_value(json));
    case JSON_REAL: return zest_jinja_real(json_real_value(json));
    case JSON_TRUE: return zest_jinja_boolean(1);
    case JSON_FALSE: return zest_jinja_boolean(0);
    case JSON_ARRAY:
        made = zest_jinja_new_list(s, ZEST_JINJA_LIST);
        for (size_t i = 0; i < json_array_size(json) && !s->status; i++)
            zest_jinja_append(s, made.list, zest_jinja_from_json(s, json_array_get(json, i)));
        return made;
    case JSON_OBJECT:
        made = zest_jinja_new_dict(s, ZEST_JINJA_DICT);
        json_object_foreach((json_t *)json, key, member) {
            value name = zest_jinja_copy(s, key, strlen(key)), item = zest_jinja_from_json(s, member);
            if (s->status) break;
            dict_add(s, made.dict, name, item);
        }
        return made;
    default: return zest_jinja_none();
    }
}

/* ---- What is true of values ---- */

const char *zest_jinja_kind_name(zest_jinja_kind kind) {
    static const char *const names[] = {
        "undefined", "NoneType",  "bool", "int",       "float", "str",   "list",     "tuple",
        "view",      "generator", "dict", "namespace", "loop",  "macro", "function", "method"};
    return names[kind];
}

int zest_jinja_truth(value v) {
    switch (v.kind) {
    case ZEST_JINJA_UNDEFINED:
    case ZEST_JINJA_NONE: return 0;
    case ZEST_JINJA_BOOLEAN:
    case ZEST_JINJA_NUMBER: return v.integer != 0;
    case ZEST_JINJA_FLOAT: return v.real != 0;
    case ZEST_JINJA_STRING: return v.text.size > 0;
    case ZEST_JINJA_LIST:
    case ZEST_JINJA_TUPLE:
    case ZEST_JINJA_VIEW: return v.list->count > 0;
    case ZEST_JINJA_DICT: return v.dict->count > 0;
    case ZEST_JINJA_LOOP: return v.loop->items->count > 0;
    default: return 1;
    }
}

int zest_jinja_is_numeric(value v) { return v.kind >= ZEST_JINJA_BOOLEAN && v.kind <= ZEST_JINJA_FLOAT; }

double zest_jinja_as_real(value v) { return v.kind == ZEST_JINJA_FLOAT ? v.real : (double)v.integer; }

static int same_lists(state *s, const zest_jinja_list *a, const zest_jinja_list *b) {
    if (a == b) return 1;
    if (a->count != b->count) return 0;
    for (size_t i = 0; i < a->count; i++)
        if (!zest_jinja_equal(s, a->item[i], b->item[i])) return 0;
    return 1;
}

static int same_dicts(state *s, const zest_jinja_dict *a, const zest_jinja_dict *b) {
    if (a == b) return 1;
    if (a->count != b->count) return 0;
    for (size_t i = 0; i < a->count; i++) {
        const value *other = zest_jinja_dict_find(s, b, a->key[i]);
        if (!other || !zest_jinja_equal(s, a->value[i], *other)) return 0;
    }
    return 1;
}

static int same_values(state *s, value a, value b) {
    if (zest_jinja_is_numeric(a) && zest_jinja_is_numeric(b)) {
        if (a.kind != ZEST_JINJA_FLOAT && b.kind != ZEST_JINJA_FLOAT) return a.integer == b.integer;
        return zest_jinja_as_real(a) == zest_jinja_as_real(b);
    }
    if (a.kind != b.kind) return 0;
    switch (a.kind) {
    case ZEST_JINJA_UNDEFINED:
    case ZEST_JINJA_NONE: return 1;
    case ZEST_JINJA_STRING:
        return a.text.size == b.text.size && zest_jinja_charge(s, 0, a.text.size) &&
               (!a.text.size || !memcmp(a.text.data, b.text.data, a.text.size));
    case ZEST_JINJA_LIST:
    case ZEST_JINJA_TUPLE: return same_lists(s, a.list, b.list);
    case ZEST_JINJA_DICT: return same_dicts(s, a.dict, b.dict);
    case ZEST_JINJA_FUNCTION:
        return a.text.size == b.text.size && !memcmp(a.text.data, b.text.data, a.text.size);
    default: return a.list == b.list; /* the same object */
    }
}

/* A template can nest lists deeper than the stack reaches. */
int zest_jinja_equal(state *s, value a, value b) {
    if (!zest_jinja_charge(s, 0, 16)) return 0;
    if (++s->depth > 8 * ZEST_JINJA_MAX_DEPTH) zest_jinja_fail(s, "values are nested too deep");
    int same = !s->status && same_values(s, a, b);
    s->depth--;
    return same;
}

static int order_texts(zest_jinja_text a, zest_jinja_text b) {
    size_t least = a.size < b.size ? a.size : b.size;
    int order = least ? memcmp(a.data, b.data, least) : 0; /* UTF-8 sorts as code points do */
    return order ? (order > 0) - (order < 0) : (a.size > b.size) - (a.size < b.size);
}

int zest_jinja_order(state *s, value a, value b) {
    if (!zest_jinja_charge(s, 0, 16)) return 0;
    if (zest_jinja_is_numeric(a) && zest_jinja_is_numeric(b)) {
        if (a.kind != ZEST_JINJA_FLOAT && b.kind != ZEST_JINJA_FLOAT)
            return (a.integer > b.integer) - (a.integer < b.integer);
        double x = zest_jinja_as_real(a), y = zest_jinja_as_real(b);
        if (isnan(x) || isnan(y)) zest_jinja_fail(s, "NaN has no order");
        return (x > y) - (x < y);
    }
    if (a.kind == ZEST_JINJA_STRING && b.kind == ZEST_JINJA_STRING) {
        zest_jinja_charge(s, 0, a.text.size < b.text.size ? a.text.size : b.text.size);
        return order_texts(a.text, b.text);
    }
    if (a.kind == b.kind && (a.kind == ZEST_JINJA_LIST || a.kind == ZEST_JINJA_TUPLE)) {
        for (size_t i = 0; i < a.list->count && i < b.list->count; i++)
            if (!zest_jinja_equal(s, a.list->item[i], b.list->item[i]))
                return zest_jinja_order(s, a.list->item[i], b.list->item[i]);
        return (a.list->count > b.list->count) - (a.list->count < b.list->count);
    }
    zest_jinja_fail(s, "%s and %s have no order", zest_jinja_kind_name(a.kind), zest_jinja_kind_name(b.kind));
    return 0;
}

int zest_jinja_contains(state *s, value list, value item) {
    switch (list.kind) {
    case ZEST_JINJA_STRING:
        if (item.kind != ZEST_JINJA_STRING)
            return zest_jinja_fail(s, "'in' looks for a %s in a text", zest_jinja_kind_name(item.kind)), 0;
        return zest_jinja_charge(s, 0, list.text.size) && zest_jinja_find(list.text, item.text, 0) >= 0;
    case ZEST_JINJA_DICT: return zest_jinja_dict_find(s, list.dict, item) != NULL;
    case ZEST_JINJA_LIST:
    case ZEST_JINJA_TUPLE:
    case ZEST_JINJA_VIEW:
        for (size_t i = 0; i < list.list->count; i++)
            if (zest_jinja_equal(s, list.list->item[i], item)) return 1;
        return 0;
    case ZEST_JINJA_UNDEFINED: return 0;
    default: return zest_jinja_fail(s, "'in' looks into a %s", zest_jinja_kind_name(list.kind)), 0;
    }
}

zest_jinja_list *zest_jinja_elements(state *s, value v) {
    value made = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    if (s->status) return NULL;
    switch (v.kind) {
    case ZEST_JINJA_LIST:
    case ZEST_JINJA_TUPLE:
    case ZEST_JINJA_VIEW: return v.list;
    case ZEST_JINJA_GENERATOR:
        *made.list = *v.list;
        v.list->count = v.list->capacity = 0;
        return made.list;
    case ZEST_JINJA_UNDEFINED: return made.list;
    case ZEST_JINJA_DICT:
        made.list->item = v.dict->key;
        made.list->count = made.list->capacity = v.dict->count;
        return made.list;
    case ZEST_JINJA_STRING:
        for (size_t at = 0, size; at < v.text.size && !s->status; at += size) {
            uint32_t code;
            size = zest_unicode_read(v.text.data + at, &code);
            zest_jinja_append(s, made.list, zest_jinja_string(v.text.data + at, size));
        }
        return made.list;
    default: zest_jinja_fail(s, "a %s has no elements", zest_jinja_kind_name(v.kind)); return made.list;
    }
}

int64_t zest_jinja_length(state *s, value v) {
    switch (v.kind) {
    case ZEST_JINJA_STRING:
        return zest_jinja_charge(s, 0, v.text.size) ? (int64_t)zest_jinja_characters(v.text) : 0;
    case ZEST_JINJA_LIST:
    case ZEST_JINJA_TUPLE:
    case ZEST_JINJA_VIEW: return (int64_t)v.list->count;
    case ZEST_JINJA_DICT: return (int64_t)v.dict->count;
    case ZEST_JINJA_LOOP: return (int64_t)v.loop->items->count;
    case ZEST_JINJA_UNDEFINED: return 0;
    default: zest_jinja_fail(s, "a %s has no length", zest_jinja_kind_name(v.kind)); return 0;
    }
}
