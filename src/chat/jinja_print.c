/* Values as text: as str(), repr() and json.dumps() of Python write them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "chat/jinja_internal.h"
#include "tokenizer/unicode.h"

typedef zest_jinja_value value;
typedef zest_jinja_state state;

/* The shortest digits that give the same number, with an exponent from 1e16 on and below 1e-4. */
static void print_real(double number, const char *const special[3], zest_buffer *out) {
    char digits[64];
    if (!isfinite(number)) {
        zest_buffer_text(out, special[isnan(number) ? 0 : number > 0 ? 1 : 2]);
        return;
    }
    int precision = 1;
    for (; precision <= 17; precision++) {
        zest_number_format(digits, sizeof digits, "%.*e", precision - 1, number);
        if (zest_number_parse(digits, NULL) == number) break;
    }
    int power = (int)strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (number != 0 && (power >= 16 || power < -4)) { /* 1e+16, 1.5e-05: at least two digits of exponent */
        zest_buffer_text(out, digits);
        return;
    }
    zest_number_format(digits, sizeof digits, "%.*f", precision - 1 > power ? precision - 1 - power : 0,
                       number);
    zest_buffer_text(out, digits);
    if (!strchr(digits, '.')) zest_buffer_text(out, ".0");
}

/* ---- str and repr ---- */

/* str.isprintable(): no control character, and of white space the blank alone. */
static int is_printable(uint32_t code) {
    if (code < 0x7F) return code >= ' ';
    return !(zest_unicode_bert_class(code) & ZEST_UNICODE_CONTROL) &&
           !(zest_unicode_class(code) & ZEST_UNICODE_SPACE);
}

static void print_quoted(zest_jinja_text text, zest_buffer *out) {
    int has_single = text.size && memchr(text.data, '\'', text.size),
        has_double = text.size && memchr(text.data, '"', text.size);
    char quote = has_single && !has_double ? '"' : '\'';
    zest_buffer_add(out, &quote, 1);
    for (size_t at = 0, size; at < text.size; at += size) {
        uint32_t code;
        size = zest_unicode_read(text.data + at, &code);
        if (code == '\\' || code == (unsigned char)quote)
            zest_buffer_format(out, "\\%c", (char)code);
        else if (code == '\n')
            zest_buffer_text(out, "\\n");
        else if (code == '\r')
            zest_buffer_text(out, "\\r");
        else if (code == '\t')
            zest_buffer_text(out, "\\t");
        else if (!is_printable(code))
            zest_buffer_format(out, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
        else
            zest_buffer_add(out, text.data + at, size);
    }
    zest_buffer_add(out, &quote, 1);
}

static void print_items(state *s, const zest_jinja_list *list, const char *open, const char *close,
                        zest_buffer *out) {
    zest_buffer_text(out, open);
    for (size_t i = 0; i < list->count && !s->status; i++) {
        if (i) zest_buffer_text(out, ", ");
        zest_jinja_print_repr(s, list->item[i], out);
    }
    zest_buffer_text(out, close);
}

static void print_members(state *s, const zest_jinja_dict *dict, zest_buffer *out) {
    zest_buffer_text(out, "{");
    for (size_t i = 0; i < dict->count && !s->status; i++) {
        if (i) zest_buffer_text(out, ", ");
        zest_jinja_print_repr(s, dict->key[i], out);
        zest_buffer_text(out, ": ");
        zest_jinja_print_repr(s, dict->value[i], out);
    }
    zest_buffer_text(out, "}");
}

/* One more level of nesting, and its work; 0: the rendering has failed. */
static int enter(state *s, const zest_buffer *out) {
    if (++s->depth > 8 * ZEST_JINJA_MAX_DEPTH) zest_jinja_fail(s, "values are nested too deep");
    if (out->size > ZEST_JINJA_MAX_BYTES) zest_jinja_fail(s, "a text becomes too long");
    return zest_jinja_charge(s, 1, 0);
}

void zest_jinja_print_repr(state *s, value v, zest_buffer *out) {
    static const char *const special[] = {"nan", "inf", "-inf"};
    if (!enter(s, out)) return;
    switch (v.kind) {
    case ZEST_JINJA_UNDEFINED: zest_buffer_text(out, "Undefined"); break;
    case ZEST_JINJA_NONE: zest_buffer_text(out, "None"); break;
    case ZEST_JINJA_BOOLEAN: zest_buffer_text(out, v.integer ? "True" : "False"); break;
    case ZEST_JINJA_NUMBER: zest_buffer_format(out, "%lld", (long long)v.integer); break;
    case ZEST_JINJA_FLOAT: print_real(v.real, special, out); break;
    case ZEST_JINJA_STRING:
        if (zest_jinja_charge(s, 0, v.text.size)) print_quoted(v.text, out);
        break;
    case ZEST_JINJA_LIST: print_items(s, v.list, "[", "]", out); break;
    case ZEST_JINJA_TUPLE: print_items(s, v.list, "(", v.list->count == 1 ? ",)" : ")", out); break;
    case ZEST_JINJA_DICT: print_members(s, v.dict, out); break;
    default: zest_jinja_fail(s, "a %s cannot be printed", zest_jinja_kind_name(v.kind));
    }
    s->depth--;
}

void zest_jinja_print(state *s, value v, zest_buffer *out) {
    if (v.kind == ZEST_JINJA_UNDEFINED) return;
    if (v.kind != ZEST_JINJA_STRING) {
        zest_jinja_print_repr(s, v, out);
        return;
    }
    if (out->size + v.text.size > ZEST_JINJA_MAX_BYTES) zest_jinja_fail(s, "the text becomes too long");
    if (zest_jinja_charge(s, 0, v.text.size)) zest_buffer_add(out, v.text.data, v.text.size);
}

value zest_jinja_to_string(state *s, value v) {
    zest_buffer out = {0};
    if (v.kind == ZEST_JINJA_STRING) return v;
    zest_jinja_print(s, v, &out);
    return zest_jinja_from_buffer(s, &out);
}

/* ---- JSON ---- */

static void print_json_code(uint32_t code, zest_buffer *out) {
    if (code >= 0x10000)
        zest_buffer_format(out, "\\u%04x\\u%04x", 0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF));
    else
        zest_buffer_format(out, "\\u%04x", code);
}

static void print_json_text(zest_jinja_text text, int ascii, zest_buffer *out) {
    static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    zest_buffer_text(out, "\"");
    for (size_t at = 0, size; at < text.size; at += size) {
        uint32_t code;
        size = zest_unicode_read(text.data + at, &code);
        const char *found = code && code < 128 ? strchr(special, (int)code) : NULL;
        if (found)
            zest_buffer_format(out, "\\%c", letters[found - special]);
        else if (code < 32 || (ascii && code > 126))
            print_json_code(code, out);
        else
            zest_buffer_add(out, text.data + at, size);
    }
    zest_buffer_text(out, "\"");
}

static void print_json(state *s, value v, const zest_jinja_json_style *style, size_t level, zest_buffer *out);

static void new_line(const zest_jinja_json_style *style, size_t level, zest_buffer *out) {
    if (!style->indent.data) return;
    zest_buffer_text(out, "\n");
    for (size_t i = 0; i < level; i++) zest_buffer_add(out, style->indent.data, style->indent.size);
}

/* What stands before item i of a list or member i of an object. */
static void separate(const zest_jinja_json_style *style, size_t i, size_t level, zest_buffer *out) {
    if (i) zest_buffer_add(out, style->item_separator.data, style->item_separator.size);
    new_line(style, level, out);
}

static int by_key(state *s, const zest_jinja_dict *dict, size_t a, size_t b) {
    return zest_jinja_order(s, dict->key[a], dict->key[b]) > 0;
}

/* The order of the members: an insertion sort, each comparison of which is charged. */
static size_t *sorted(state *s, const zest_jinja_dict *dict, int sort) {
    size_t *order = zest_jinja_new(s, (dict->count + 1) * sizeof *order);
    for (size_t i = 0; i < dict->count && order; i++) {
        size_t at = i;
        for (; sort && at && !s->status && by_key(s, dict, order[at - 1], i); at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

/* A key that is no text becomes one. */
static void print_json_key(state *s, value key, const zest_jinja_json_style *style, zest_buffer *out) {
    zest_buffer text = {0};
    if (key.kind > ZEST_JINJA_STRING || key.kind == ZEST_JINJA_UNDEFINED)
        zest_jinja_fail(s, "a %s is no key of JSON", zest_jinja_kind_name(key.kind));
    else if (key.kind == ZEST_JINJA_STRING)
        print_json_text(key.text, style->ensure_ascii, out);
    else {
        print_json(s, key, style, 0, &text);
        print_json_text((zest_jinja_text){text.data, text.size}, 0, out);
    }
    zest_buffer_free(&text);
}

static void print_object(state *s, const zest_jinja_dict *dict, const zest_jinja_json_style *style,
                         size_t level, zest_buffer *out) {
    const size_t *order = sorted(s, dict, style->sort_keys);
    zest_buffer_text(out, "{");
    for (size_t i = 0; i < dict->count && !s->status; i++) {
        separate(style, i, level + 1, out);
        print_json_key(s, dict->key[order[i]], style, out);
        zest_buffer_add(out, style->key_separator.data, style->key_separator.size);
        print_json(s, dict->value[order[i]], style, level + 1, out);
    }
    if (dict->count) new_line(style, level, out);
    zest_buffer_text(out, "}");
}

static void print_array(state *s, const zest_jinja_list *list, const zest_jinja_json_style *style,
                        size_t level, zest_buffer *out) {
    zest_buffer_text(out, "[");
    for (size_t i = 0; i < list->count && !s->status; i++) {
        separate(style, i, level + 1, out);
        print_json(s, list->item[i], style, level + 1, out);
    }
    if (list->count) new_line(style, level, out);
    zest_buffer_text(out, "]");
}

static void print_json(state *s, value v, const zest_jinja_json_style *style, size_t level,
                       zest_buffer *out) {
    static const char *const special[] = {"NaN", "Infinity", "-Infinity"};
    if (!enter(s, out)) return;
    switch (v.kind) {
    case ZEST_JINJA_NONE: zest_buffer_text(out, "null"); break;
    case ZEST_JINJA_BOOLEAN: zest_buffer_text(out, v.integer ? "true" : "false"); break;
    case ZEST_JINJA_NUMBER: zest_buffer_format(out, "%lld", (long long)v.integer); break;
    case ZEST_JINJA_FLOAT: print_real(v.real, special, out); break;
    case ZEST_JINJA_STRING:
        if (zest_jinja_charge(s, 0, v.text.size)) print_json_text(v.text, style->ensure_ascii, out);
        break;
    case ZEST_JINJA_LIST:
    case ZEST_JINJA_TUPLE: print_array(s, v.list, style, level, out); break;
    case ZEST_JINJA_DICT: print_object(s, v.dict, style, level, out); break;
    default: zest_jinja_fail(s, "a %s cannot be written as JSON", zest_jinja_kind_name(v.kind));
    }
    s->depth--;
}

void zest_jinja_print_json(state *s, value v, const zest_jinja_json_style *style, zest_buffer *out) {
    print_json(s, v, style, 0, out);
}
