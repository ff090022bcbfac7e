/* Attributes, subscripts and operators of values; functions and methods. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "chat/jinja_internal.h"

typedef zest_jinja_value value;
typedef zest_jinja_state state;
typedef zest_jinja_text text;
typedef zest_jinja_arguments arguments;

static int shown(text name) { return (int)(name.size < 40 ? name.size : 40); }

/* ---- Attributes ---- */

static value loop_attribute(state *s, const zest_jinja_loop *loop, text name) {
    int64_t at = (int64_t)loop->index, count = (int64_t)loop->items->count;
    const struct {
        const char *name;
        value value;
    } known[] = {{"index", zest_jinja_integer(at + 1)},
                 {"index0", zest_jinja_integer(at)},
                 {"revindex", zest_jinja_integer(count - at)},
                 {"revindex0", zest_jinja_integer(count - at - 1)},
                 {"first", zest_jinja_boolean(at == 0)},
                 {"last", zest_jinja_boolean(at == count - 1)},
                 {"length", zest_jinja_integer(count)},
                 {"depth", zest_jinja_integer(1)}, /* of recursive loops alone */
                 {"depth0", zest_jinja_integer(0)}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (zest_jinja_text_is(name, known[i].name)) return known[i].value;
    if (zest_jinja_text_is(name, "previtem"))
        return at ? loop->items->item[at - 1] : zest_jinja_undefined((text){"there is no previous item", 25});
    if (zest_jinja_text_is(name, "nextitem"))
        return at + 1 < count ? loop->items->item[at + 1]
                              : zest_jinja_undefined((text){"there is no next item", 21});
    return zest_jinja_fail(s, "loop.%.*s is not supported", shown(name), name.data);
}

/* Names that Python's objects of this kind have as methods, so that they are no keys. */
static int is_method(value object, text name) {
    static const char
        of_dicts[] = " items keys values get copy pop clear update setdefault popitem fromkeys ",
        of_lists[] = " append extend insert remove pop clear copy index count sort reverse ",
        of_texts[] = " capitalize casefold center count encode endswith expandtabs find format format_map "
                     "index isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric "
                     "isprintable isspace istitle isupper join ljust lower lstrip maketrans partition "
                     "removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split "
                     "splitlines startswith strip swapcase title translate upper zfill ";
    char word[32];
    const char *names = object.kind == ZEST_JINJA_DICT     ? of_dicts
                        : object.kind == ZEST_JINJA_STRING ? of_texts
                                                           : of_lists;
    if (object.kind != ZEST_JINJA_DICT && object.kind != ZEST_JINJA_LIST && object.kind != ZEST_JINJA_TUPLE &&
        object.kind != ZEST_JINJA_STRING)
        return 0;
    if (name.size + 3 > sizeof word || (name.size && memchr(name.data, ' ', name.size))) return 0;
    snprintf(word, sizeof word, " %.*s ", (int)name.size, name.data);
    return name.size > 0 && strstr(names, word) != NULL;
}

static value method_of(state *s, value object, text name) {
    zest_jinja_method *method = zest_jinja_new(s, sizeof *method);
    if (!method) return zest_jinja_none();
    *method = (zest_jinja_method){object, name};
    return (value){.kind = ZEST_JINJA_METHOD, .method = method};
}

static value member(state *s, value object, value key, text name) {
    value *found = zest_jinja_dict_find(s, object.dict, key);
    return found ? *found : zest_jinja_undefined(name);
}

value zest_jinja_attribute(state *s, value object, text name) {
    if (object.kind == ZEST_JINJA_UNDEFINED)
        return zest_jinja_fail(s, "'%.*s' is undefined, so it has no '%.*s'", shown(object.text),
                               object.text.data, shown(name), name.data);
    if (object.kind == ZEST_JINJA_LOOP) return loop_attribute(s, object.loop, name);
    if (is_method(object, name)) return method_of(s, object, name);
    if (object.kind == ZEST_JINJA_DICT || object.kind == ZEST_JINJA_NAMESPACE)
        return member(s, object, zest_jinja_string(name.data, name.size), name);
    return zest_jinja_undefined(name);
}

value zest_jinja_subscript(state *s, value object, value key) {
    text name = key.kind == ZEST_JINJA_STRING ? key.text : (text){"an element", 10};
    if (object.kind == ZEST_JINJA_UNDEFINED)
        return zest_jinja_fail(s, "'%.*s' is undefined, so it has no elements", shown(object.text),
                               object.text.data);
    if (object.kind == ZEST_JINJA_DICT) {
        value *found = zest_jinja_dict_find(s, object.dict, key);
        if (found) return *found;
    }
    if (object.kind == ZEST_JINJA_VIEW)
        return zest_jinja_fail(s, "the subscript of a range, or of keys, values or items, is not supported");
    if (key.kind == ZEST_JINJA_STRING && object.kind == ZEST_JINJA_LOOP)
        return loop_attribute(s, object.loop, name);
    if (key.kind == ZEST_JINJA_STRING && is_method(object, name)) return method_of(s, object, name);
    if (key.kind != ZEST_JINJA_NUMBER && key.kind != ZEST_JINJA_BOOLEAN) return zest_jinja_undefined(name);
    if (object.kind != ZEST_JINJA_LIST && object.kind != ZEST_JINJA_TUPLE && object.kind != ZEST_JINJA_STRING)
        return zest_jinja_undefined(name);
    int64_t count = zest_jinja_length(s, object), at = key.integer < 0 ? key.integer + count : key.integer;
    if (s->status || at < 0 || at >= count) return zest_jinja_undefined(name);
    if (object.kind != ZEST_JINJA_STRING) return object.list->item[at];
    size_t from = zest_jinja_offset(object.text, (size_t)at);
    text left = {object.text.data + from, object.text.size - from};
    return zest_jinja_string(left.data, zest_jinja_offset(left, 1));
}

/* ---- Slices ---- */

/* A bound of a slice as Python clips it: low <= bound <= high. */
static int64_t bound(state *s, value given, int64_t count, int64_t fallback, int64_t low, int64_t high) {
    if (given.kind == ZEST_JINJA_NONE) return fallback;
    if (given.kind != ZEST_JINJA_NUMBER && given.kind != ZEST_JINJA_BOOLEAN)
        zest_jinja_fail(s, "a slice takes integers, not a %s", zest_jinja_kind_name(given.kind));
    int64_t at = given.kind == ZEST_JINJA_NUMBER || given.kind == ZEST_JINJA_BOOLEAN ? given.integer : 0;
    if (at < 0) at += count;
    return at < low ? low : at > high ? high : at;
}

value zest_jinja_slice(state *s, value object, const value part[3]) {
    if (object.kind != ZEST_JINJA_STRING && object.kind != ZEST_JINJA_LIST &&
        object.kind != ZEST_JINJA_TUPLE) {
        if (object.kind == ZEST_JINJA_UNDEFINED)
            return zest_jinja_fail(s, "'%.*s' is undefined, so it has no slice", shown(object.text),
                                   object.text.data);
        return zest_jinja_fail(s, "a slice of a %s", zest_jinja_kind_name(object.kind));
    }
    int64_t count = zest_jinja_length(s, object),
            step = bound(s, part[2], 0, 1, INT64_MIN / 2, INT64_MAX / 2);
    if (!step) return zest_jinja_fail(s, "a slice has the step 0");
    int64_t from =
        step > 0 ? bound(s, part[0], count, 0, 0, count) : bound(s, part[0], count, count - 1, -1, count - 1);
    int64_t to =
        step > 0 ? bound(s, part[1], count, count, 0, count) : bound(s, part[1], count, -1, -1, count - 1);
    if (s->status) return zest_jinja_none();
    if (object.kind == ZEST_JINJA_STRING && step == 1) {
        size_t a = zest_jinja_offset(object.text, (size_t)from),
               b = zest_jinja_offset(object.text, (size_t)to);
        return zest_jinja_string(object.text.data + a, a < b ? b - a : 0);
    }
    const zest_jinja_list *items = zest_jinja_elements(s, object);
    value made = zest_jinja_new_list(s, object.kind == ZEST_JINJA_TUPLE ? ZEST_JINJA_TUPLE : ZEST_JINJA_LIST);
    for (int64_t i = from; !s->status && (step > 0 ? i < to : i > to); i += step) {
        zest_jinja_append(s, made.list, items->item[i]);
        if (step > count || step < -count) break;
    }
    return s->status || object.kind != ZEST_JINJA_STRING ? made
                                                         : zest_jinja_join(s, made.list, (text){"", 0}, 1);
}

/* ---- Operators ---- */

static value wrong_kinds(state *s, text operation, value a, value b) {
    if (a.kind == ZEST_JINJA_UNDEFINED || b.kind == ZEST_JINJA_UNDEFINED) {
        text name = a.kind == ZEST_JINJA_UNDEFINED ? a.text : b.text;
        return zest_jinja_fail(s, "'%.*s' is undefined", shown(name), name.data);
    }
    return zest_jinja_fail(s, "%s %.*s %s is not supported", zest_jinja_kind_name(a.kind),
                           (int)operation.size, operation.data, zest_jinja_kind_name(b.kind));
}

static value integers(state *s, text operation, int64_t a, int64_t b) {
    int64_t made = 0;
    int overflow = 0;
    switch (operation.data[0]) {
    case '+': overflow = __builtin_add_overflow(a, b, &made); break;
    case '-': overflow = __builtin_sub_overflow(a, b, &made); break;
    case '*':
        if (operation.size == 1) {
            overflow = __builtin_mul_overflow(a, b, &made);
            break;
        }
        if (b < 0) return zest_jinja_real(pow((double)a, (double)b));
        for (made = 1; b-- > 0 && !overflow && zest_jinja_charge(s, 1, 0);) {
            overflow = __builtin_mul_overflow(made, a, &made);
            if (a == 1 || a == 0) break;
        }
        break;
    default: /* / // %: rounded down, so the remainder has the sign of the divisor */
        if (!b) return zest_jinja_fail(s, "division by zero");
        if (operation.data[0] == '/' && operation.size == 1) return zest_jinja_real((double)a / (double)b);
        if (b == -1) {
            if (operation.data[0] == '%') return zest_jinja_integer(0);
            overflow = __builtin_sub_overflow(0, a, &made);
            break;
        }
        made = a % b;
        if (made && (made < 0) != (b < 0)) made += b;
        if (operation.data[0] == '/') made = a / b - (a % b != 0 && (a < 0) != (b < 0));
    }
    return overflow ? zest_jinja_fail(s, "an integer of more than 64 bits") : zest_jinja_integer(made);
}

static value reals(state *s, text operation, double a, double b) {
    switch (operation.data[0]) {
    case '+': return zest_jinja_real(a + b);
    case '-': return zest_jinja_real(a - b);
    case '*': return zest_jinja_real(operation.size == 1 ? a * b : pow(a, b));
    default: break;
    }
    if (b == 0) return zest_jinja_fail(s, "division by zero");
    if (operation.data[0] == '/') return zest_jinja_real(operation.size == 1 ? a / b : floor(a / b));
    double remainder = fmod(a, b);
    return zest_jinja_real(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
}

static value join_texts(state *s, text a, text b) {
    char *joined = zest_jinja_charge(s, 0, a.size + b.size) ? zest_jinja_new(s, a.size + b.size + 1) : NULL;
    if (!joined) return zest_jinja_word("");
    if (a.size) memcpy(joined, a.data, a.size);
    if (b.size) memcpy(joined + a.size, b.data, b.size);
    return zest_jinja_string(joined, a.size + b.size);
}

static value join_lists(state *s, value a, value b) {
    value made = zest_jinja_new_list(s, a.kind);
    for (size_t i = 0; !s->status && i < a.list->count; i++) zest_jinja_append(s, made.list, a.list->item[i]);
    for (size_t i = 0; !s->status && i < b.list->count; i++) zest_jinja_append(s, made.list, b.list->item[i]);
    zest_jinja_charge(s, 0, 16 * (a.list->count + b.list->count));
    return made;
}

static value repeat(state *s, value a, int64_t times) {
    value made = a.kind == ZEST_JINJA_STRING ? zest_jinja_word("") : zest_jinja_new_list(s, a.kind);
    for (int64_t i = 0; i < times && !s->status && zest_jinja_length(s, a) && zest_jinja_charge(s, 1, 0); i++)
        made = a.kind == ZEST_JINJA_STRING ? join_texts(s, made.text, a.text) : join_lists(s, made, a);
    return made;
}

static int is_list(value v) { return v.kind == ZEST_JINJA_LIST || v.kind == ZEST_JINJA_TUPLE; }

value zest_jinja_binary(state *s, text operation, value a, value b) {
    char sign = operation.data[0];
    if (s->status) return a;
    if (sign == '~') {
        text left = zest_jinja_to_string(s, a).text, right = zest_jinja_to_string(s, b).text;
        return s->status ? a : join_texts(s, left, right);
    }
    if (zest_jinja_is_numeric(a) && zest_jinja_is_numeric(b)) {
        if (a.kind != ZEST_JINJA_FLOAT && b.kind != ZEST_JINJA_FLOAT)
            return integers(s, operation, a.integer, b.integer);
        return reals(s, operation, zest_jinja_as_real(a), zest_jinja_as_real(b));
    }
    if (sign == '+' && a.kind == b.kind && a.kind == ZEST_JINJA_STRING) return join_texts(s, a.text, b.text);
    if (sign == '+' && a.kind == b.kind && is_list(a)) return join_lists(s, a, b);
    if (sign == '*' && operation.size == 1) {
        if ((a.kind == ZEST_JINJA_STRING || is_list(a)) && b.kind == ZEST_JINJA_NUMBER)
            return repeat(s, a, b.integer);
        if ((b.kind == ZEST_JINJA_STRING || is_list(b)) && a.kind == ZEST_JINJA_NUMBER)
            return repeat(s, b, a.integer);
    }
    return wrong_kinds(s, operation, a, b);
}

/* ---- Functions ---- */

static value range(state *s, const arguments *a) {
    int64_t from = 0, to = 0, step = 1;
    value made = zest_jinja_new_list(s, ZEST_JINJA_VIEW);
    if (a->count == 1) zest_jinja_argument_integer(s, a, 0, NULL, &to);
    if (a->count > 1) zest_jinja_argument_integer(s, a, 0, NULL, &from);
    if (a->count > 1) zest_jinja_argument_integer(s, a, 1, NULL, &to);
    zest_jinja_argument_integer(s, a, 2, NULL, &step);
    if (!step) return zest_jinja_fail(s, "range has the step 0");
    for (int64_t i = from; !s->status && (step > 0 ? i < to : i > to);) {
        zest_jinja_append(s, made.list, zest_jinja_integer(i));
        if (made.list->count > 100000) return zest_jinja_fail(s, "range has more than 100000 numbers");
        if (!zest_jinja_charge(s, 1, 0) || __builtin_add_overflow(i, step, &i)) break;
    }
    return made;
}

/* dict(a=1) and namespace(a=1), perhaps with a mapping in front. */
static value make_dict(state *s, const arguments *a, zest_jinja_kind kind) {
    value made = zest_jinja_new_dict(s, kind), given;
    if (zest_jinja_argument(a, 0, NULL, &given)) {
        if (given.kind != ZEST_JINJA_DICT)
            return zest_jinja_fail(s, "dict and namespace take a mapping, not a %s",
                                   zest_jinja_kind_name(given.kind));
        for (size_t i = 0; i < given.dict->count && !s->status; i++)
            zest_jinja_dict_set(s, made.dict, given.dict->key[i], given.dict->value[i]);
    }
    for (size_t i = 0; i < a->count && !s->status; i++)
        if (a->name[i].data)
            zest_jinja_dict_set(s, made.dict, zest_jinja_string(a->name[i].data, a->name[i].size),
                                a->value[i]);
    return made;
}

static value raise_exception(state *s, const arguments *a) {
    value message = zest_jinja_word("");
    zest_jinja_argument(a, 0, "message", &message);
    text said = zest_jinja_to_string(s, message).text;
    return zest_jinja_fail(s, "%.*s", (int)(said.size < 400 ? said.size : 400), said.data);
}

/* Names in English, whatever the locale. */
static value date(state *s, const arguments *a) {
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    text format = {"", 0};
    time_t now = (time_t)s->input->now;
    struct tm t;
    zest_buffer out = {0};
    zest_jinja_argument_text(s, a, 0, "format", &format);
    if (!gmtime_r(&now, &t)) return zest_jinja_fail(s, "the time cannot be shown");
    zest_buffer_add(&out, "", 0);
    for (size_t i = 0; i < format.size && !s->status; i++) {
        if (format.data[i] != '%' || i + 1 == format.size) {
            zest_buffer_add(&out, &format.data[i], 1);
            continue;
        }
        switch (format.data[++i]) {
        case 'Y': zest_buffer_format(&out, "%d", t.tm_year + 1900); break;
        case 'y': zest_buffer_format(&out, "%02d", t.tm_year % 100); break;
        case 'm': zest_buffer_format(&out, "%02d", t.tm_mon + 1); break;
        case 'B': zest_buffer_text(&out, months[t.tm_mon]); break;
        case 'b': zest_buffer_format(&out, "%.3s", months[t.tm_mon]); break;
        case 'd': zest_buffer_format(&out, "%02d", t.tm_mday); break;
        case 'A': zest_buffer_text(&out, days[t.tm_wday]); break;
        case 'a': zest_buffer_format(&out, "%.3s", days[t.tm_wday]); break;
        case 'H': zest_buffer_format(&out, "%02d", t.tm_hour); break;
        case 'I': zest_buffer_format(&out, "%02d", t.tm_hour % 12 ? t.tm_hour % 12 : 12); break;
        case 'p': zest_buffer_text(&out, t.tm_hour < 12 ? "AM" : "PM"); break;
        case 'M': zest_buffer_format(&out, "%02d", t.tm_min); break;
        case 'S': zest_buffer_format(&out, "%02d", t.tm_sec); break;
        case 'j': zest_buffer_format(&out, "%03d", t.tm_yday + 1); break;
        case '%': zest_buffer_text(&out, "%"); break;
        default: zest_jinja_fail(s, "strftime_now does not support %%%c", format.data[i]);
        }
    }
    return zest_jinja_from_buffer(s, &out);
}

int zest_jinja_is_function(text name, const zest_jinja_input *input) {
    if (zest_jinja_text_is(name, "strftime_now")) return input->now != 0;
    return zest_jinja_text_is(name, "range") || zest_jinja_text_is(name, "namespace") ||
           zest_jinja_text_is(name, "dict") || zest_jinja_text_is(name, "raise_exception");
}

static value call_function(state *s, text name, const arguments *a) {
    if (zest_jinja_text_is(name, "range"))
        return zest_jinja_argument_check(s, "range", a, 1, 3, NULL) ? range(s, a) : zest_jinja_none();
    if (zest_jinja_text_is(name, "namespace")) return make_dict(s, a, ZEST_JINJA_NAMESPACE);
    if (zest_jinja_text_is(name, "dict")) return make_dict(s, a, ZEST_JINJA_DICT);
    if (zest_jinja_text_is(name, "raise_exception")) return raise_exception(s, a);
    return date(s, a);
}

/* ---- Methods ---- */

static value tuple_of(state *s, value first, value second) {
    value pair = zest_jinja_new_list(s, ZEST_JINJA_TUPLE);
    if (s->status) return pair;
    zest_jinja_append(s, pair.list, first);
    zest_jinja_append(s, pair.list, second);
    return pair;
}

static value dict_method(state *s, const zest_jinja_dict *dict, text name, const arguments *a) {
    value made = zest_jinja_new_list(s, ZEST_JINJA_VIEW), key = zest_jinja_none(), fallback = key;
    int keys = zest_jinja_text_is(name, "keys"), values = zest_jinja_text_is(name, "values"),
        items = zest_jinja_text_is(name, "items");
    if (zest_jinja_text_is(name, "get") && zest_jinja_argument(a, 0, NULL, &key)) {
        zest_jinja_argument(a, 1, NULL, &fallback);
        value *found = zest_jinja_dict_find(s, dict, key);
        return found ? *found : fallback;
    }
    if (zest_jinja_text_is(name, "copy")) {
        made = zest_jinja_new_dict(s, ZEST_JINJA_DICT);
        for (size_t i = 0; i < dict->count && !s->status; i++)
            zest_jinja_dict_set(s, made.dict, dict->key[i], dict->value[i]);
        return made;
    }
    if ((!keys && !values && !items) || a->count)
        return zest_jinja_fail(s, "the method '%.*s' of a mapping is not supported", shown(name), name.data);
    for (size_t i = 0; i < dict->count && zest_jinja_charge(s, 1, 0); i++)
        zest_jinja_append(s, made.list,
                          keys     ? dict->key[i]
                          : values ? dict->value[i]
                                   : tuple_of(s, dict->key[i], dict->value[i]));
    return made;
}

static value list_method(state *s, const zest_jinja_list *list, text name, const arguments *a) {
    int count = zest_jinja_text_is(name, "count"), hits = 0;
    value item;
    if ((!count && !zest_jinja_text_is(name, "index")) || !zest_jinja_argument(a, 0, NULL, &item))
        return zest_jinja_fail(s, "the method '%.*s' of a list is not supported", shown(name), name.data);
    for (size_t i = 0; i < list->count && !s->status; i++) {
        if (!zest_jinja_equal(s, list->item[i], item)) continue;
        if (!count) return zest_jinja_integer((int64_t)i);
        hits++;
    }
    return count ? zest_jinja_integer(hits) : zest_jinja_fail(s, "index: the list has no such element");
}

value zest_jinja_call(state *s, value callee, const arguments *a) {
    if (callee.kind == ZEST_JINJA_FUNCTION) return call_function(s, callee.text, a);
    if (callee.kind == ZEST_JINJA_MACRO) return zest_jinja_call_macro(s, callee.macro, a);
    if (callee.kind == ZEST_JINJA_METHOD) {
        value self = callee.method->self;
        text name = callee.method->name;
        if (self.kind == ZEST_JINJA_STRING) return zest_jinja_text_method(s, self.text, name, a);
        if (self.kind == ZEST_JINJA_DICT) return dict_method(s, self.dict, name, a);
        return list_method(s, self.list, name, a);
    }
    if (callee.kind == ZEST_JINJA_UNDEFINED)
        return zest_jinja_fail(s, "the function '%.*s' is not defined", shown(callee.text), callee.text.data);
    return zest_jinja_fail(s, "a %s cannot be called", zest_jinja_kind_name(callee.kind));
}
