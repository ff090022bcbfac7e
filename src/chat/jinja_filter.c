/* Filters and tests of Jinja. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "chat/jinja_internal.h"
#include "tokenizer/unicode.h"

typedef zest_jinja_value value;
typedef zest_jinja_state state;
typedef zest_jinja_text text;
typedef zest_jinja_arguments arguments;

/* ---- Arguments ---- */

int zest_jinja_argument(const arguments *a, size_t index, const char *keyword, value *out) {
    size_t position = 0;
    for (size_t i = 0; i < a->count; i++) {
        if (a->name[i].data ? keyword && zest_jinja_text_is(a->name[i], keyword) : position++ == index)
            return *out = a->value[i], 1;
    }
    return 0;
}

int zest_jinja_argument_text(state *s, const arguments *a, size_t index, const char *keyword, text *out) {
    value given;
    if (!zest_jinja_argument(a, index, keyword, &given)) return 0;
    if (given.kind != ZEST_JINJA_STRING)
        return zest_jinja_fail(s, "an argument is a %s and should be a text",
                               zest_jinja_kind_name(given.kind)),
               0;
    *out = given.text;
    return 1;
}

int zest_jinja_argument_integer(state *s, const arguments *a, size_t index, const char *keyword,
                                int64_t *out) {
    value given;
    if (!zest_jinja_argument(a, index, keyword, &given)) return 0;
    if (given.kind != ZEST_JINJA_NUMBER && given.kind != ZEST_JINJA_BOOLEAN)
        return zest_jinja_fail(s, "an argument is a %s and should be an integer",
                               zest_jinja_kind_name(given.kind)),
               0;
    *out = given.integer;
    return 1;
}

static int is_listed(text word, const char *words) {
    while (words && *words) {
        size_t size = strcspn(words, " ");
        if (size == word.size && !memcmp(words, word.data, size)) return 1;
        words += size + strspn(words + size, " ");
    }
    return 0;
}

int zest_jinja_argument_check(state *s, const char *what, const arguments *a, size_t least, size_t most,
                              const char *keywords) {
    for (size_t i = 0; i < a->count; i++)
        if (a->name[i].data && !is_listed(a->name[i], keywords))
            return zest_jinja_fail(s, "%s has no argument '%.*s' that is supported", what,
                                   (int)(a->name[i].size < 40 ? a->name[i].size : 40), a->name[i].data),
                   0;
    if (a->count < least || a->count > most)
        return zest_jinja_fail(s, "%s has %zu arguments, and takes %zu to %zu", what, a->count, least, most),
               0;
    return !s->status;
}

/* ---- Filters of texts ---- */

static text text_of(state *s, value v) { return zest_jinja_to_string(s, v).text; }

static value trim(state *s, value v, const arguments *a) {
    text set = {0}, self = text_of(s, v);
    value given;
    if (s->status) return v;
    if (zest_jinja_argument(a, 0, "chars", &given) && given.kind != ZEST_JINJA_NONE)
        zest_jinja_argument_text(s, a, 0, "chars", &set);
    if (!zest_jinja_charge(s, 0, self.size * (set.size / 2 + 1))) return v;
    self = zest_jinja_strip(self, set, 1, 1);
    return zest_jinja_string(self.data, self.size);
}

static value upper(state *s, value v, const arguments *a) {
    (void)a;
    text self = text_of(s, v);
    return s->status ? v : zest_jinja_upper(s, self);
}

static value lower(state *s, value v, const arguments *a) {
    (void)a;
    text self = text_of(s, v);
    return s->status ? v : zest_jinja_lower(s, self);
}

static value title(state *s, value v, const arguments *a) {
    (void)a;
    text self = text_of(s, v);
    return s->status ? v : zest_jinja_title(s, self, "- \t\n\r\f\v({[<");
}

static value capitalize(state *s, value v, const arguments *a) {
    (void)a;
    text self = text_of(s, v);
    return s->status ? v : zest_jinja_capitalize(s, self);
}

static value string(state *s, value v, const arguments *a) {
    (void)a;
    return zest_jinja_to_string(s, v);
}

static value replace(state *s, value v, const arguments *a) {
    text from = {0}, to = {0};
    int64_t count = -1;
    value given;
    zest_jinja_argument_text(s, a, 0, "old", &from);
    zest_jinja_argument_text(s, a, 1, "new", &to);
    if (zest_jinja_argument(a, 2, "count", &given) && given.kind != ZEST_JINJA_NONE)
        zest_jinja_argument_integer(s, a, 2, "count", &count);
    text self = text_of(s, v);
    return s->status ? v : zest_jinja_replace(s, self, from, to, count);
}

/* Every line but the first is indented, unless it is empty; with `first` that one, too, with `blank` empty ones. */
static value indent(state *s, value v, const arguments *a) {
    value width = zest_jinja_integer(4), first = zest_jinja_boolean(0), blank = first;
    zest_buffer out = {0}, step = {0};
    zest_jinja_argument(a, 0, "width", &width);
    zest_jinja_argument(a, 1, "first", &first);
    zest_jinja_argument(a, 2, "blank", &blank);
    text self = text_of(s, v);
    if (width.kind == ZEST_JINJA_STRING)
        zest_buffer_add(&step, width.text.data, width.text.size);
    else if (width.kind == ZEST_JINJA_NUMBER && width.integer <= 1000)
        for (int64_t i = 0; i < width.integer; i++) zest_buffer_text(&step, " ");
    else
        zest_jinja_fail(s, "indent takes a width up to 1000, or a text");
    zest_buffer_add(&out, "", 0);
    zest_buffer whole = {
        0}; /* with one more newline, which keeps the last line of a text that ends with one */
    zest_buffer_add(&whole, self.data, s->status ? 0 : self.size);
    zest_buffer_text(&whole, "\n");
    value copy = zest_jinja_from_buffer(s, &whole);
    value lines = s->status ? copy : zest_jinja_split_lines(s, copy.text);
    for (size_t i = 0; !s->status && i < lines.list->count; i++) {
        text line = lines.list->item[i].text;
        if (i) zest_buffer_text(&out, "\n");
        int deeper = i ? line.size || zest_jinja_truth(blank) : zest_jinja_truth(first);
        if (deeper && zest_jinja_charge(s, 1, step.size)) zest_buffer_add(&out, step.data, step.size);
        zest_buffer_add(&out, line.data, line.size);
        if (out.size > ZEST_JINJA_MAX_BYTES) zest_jinja_fail(s, "a text becomes too long");
    }
    zest_buffer_free(&step);
    return zest_jinja_from_buffer(s, &out);
}

static void separator(state *s, value pair, size_t index, text *out) {
    if ((pair.kind == ZEST_JINJA_TUPLE || pair.kind == ZEST_JINJA_LIST) && pair.list->count == 2 &&
        pair.list->item[index].kind == ZEST_JINJA_STRING)
        *out = pair.list->item[index].text;
    else if (pair.kind != ZEST_JINJA_NONE)
        zest_jinja_fail(s, "tojson takes two separators, both texts");
}

/* As transformers defines it: json.dumps without escapes of HTML. */
static value to_json(state *s, value v, const arguments *a) {
    zest_jinja_json_style style = {.item_separator = {", ", 2}, .key_separator = {": ", 2}};
    value given = zest_jinja_none(), width = given;
    if (zest_jinja_argument(a, 0, "ensure_ascii", &given)) style.ensure_ascii = zest_jinja_truth(given);
    if (zest_jinja_argument(a, 3, "sort_keys", &given)) style.sort_keys = zest_jinja_truth(given);
    zest_jinja_argument(a, 1, "indent", &width);
    if (width.kind == ZEST_JINJA_NUMBER && width.integer >= 0 && width.integer <= 100) {
        static const char blanks[101] =
            "                                                                        "
            "                            ";
        style.indent = (text){blanks, (size_t)width.integer};
    } else if (width.kind == ZEST_JINJA_STRING) {
        style.indent = width.text;
    } else if (width.kind != ZEST_JINJA_NONE) {
        return zest_jinja_fail(s, "tojson takes an indent from 0 to 100, or a text");
    }
    if (style.indent.data) style.item_separator = (text){",", 1};
    if (zest_jinja_argument(a, 2, "separators", &given)) {
        separator(s, given, 0, &style.item_separator);
        separator(s, given, 1, &style.key_separator);
    }
    zest_buffer out = {0};
    zest_buffer_add(&out, "", 0);
    zest_jinja_print_json(s, v, &style, &out);
    return zest_jinja_from_buffer(s, &out);
}

/* ---- Filters of numbers ---- */

static value to_integer(state *s, value v, const arguments *a) {
    value fallback = zest_jinja_integer(0);
    char digits[32];
    int64_t number;
    zest_jinja_argument(a, 0, "default", &fallback);
    if (v.kind == ZEST_JINJA_NUMBER || v.kind == ZEST_JINJA_BOOLEAN) return zest_jinja_integer(v.integer);
    if (v.kind == ZEST_JINJA_FLOAT)
        return fabs(v.real) < 9e18 ? zest_jinja_integer((int64_t)v.real) : fallback; /* NaN: fallback, too */
    if (v.kind != ZEST_JINJA_STRING) return fallback;
    text self = zest_jinja_strip(v.text, (text){0}, 1, 1);
    if (self.size && self.data[0] == '+') self.data++, self.size--;
    if (self.size >= sizeof digits) return zest_jinja_fail(s, "int of a text of %zu bytes", self.size);
    memcpy(digits, self.data, self.size);
    digits[self.size] = '\0';
    if (zest_integer_parse(digits, INT64_MIN, INT64_MAX, &number)) return zest_jinja_integer(number);
    char *end;
    double real = zest_number_parse(digits, &end);
    return self.size && !*end && fabs(real) < 9e18 ? zest_jinja_integer((int64_t)real) : fallback;
}

static value to_real(state *s, value v, const arguments *a) {
    value fallback = zest_jinja_real(0);
    char digits[64], *end;
    zest_jinja_argument(a, 0, "default", &fallback);
    if (zest_jinja_is_numeric(v)) return zest_jinja_real(zest_jinja_as_real(v));
    if (v.kind != ZEST_JINJA_STRING) return fallback;
    text self = zest_jinja_strip(v.text, (text){0}, 1, 1);
    if (self.size >= sizeof digits) return zest_jinja_fail(s, "float of a text of %zu bytes", self.size);
    memcpy(digits, self.data, self.size);
    digits[self.size] = '\0';
    double real = zest_number_parse(digits, &end);
    return self.size && !*end ? zest_jinja_real(real) : fallback;
}

static value absolute(state *s, value v, const arguments *a) {
    (void)a;
    if (v.kind == ZEST_JINJA_FLOAT) return zest_jinja_real(fabs(v.real));
    if (!zest_jinja_is_numeric(v) || v.integer == INT64_MIN)
        return zest_jinja_fail(s, "abs of a %s", zest_jinja_kind_name(v.kind));
    return zest_jinja_integer(v.integer < 0 ? -v.integer : v.integer);
}

/* To whole numbers alone, the half to the even one, as Python's round(). */
static value round_number(state *s, value v, const arguments *a) {
    (void)a;
    if (!zest_jinja_is_numeric(v)) return zest_jinja_fail(s, "round of a %s", zest_jinja_kind_name(v.kind));
    if (v.kind != ZEST_JINJA_FLOAT) return zest_jinja_integer(v.integer);
    return zest_jinja_real(nearbyint(zest_jinja_as_real(v)));
}

static value sum(state *s, value v, const arguments *a) {
    value total = zest_jinja_integer(0), name;
    int by_name = zest_jinja_argument(a, 0, "attribute", &name) && name.kind == ZEST_JINJA_STRING;
    zest_jinja_argument(a, 1, "start", &total);
    const zest_jinja_list *items = zest_jinja_elements(s, v);
    for (size_t i = 0; zest_jinja_charge(s, 0, 16) && i < items->count; i++)
        total = zest_jinja_binary(s, (text){"+", 1}, total,
                                  by_name ? zest_jinja_subscript(s, items->item[i], name) : items->item[i]);
    return total;
}

/* ---- Filters of lists ---- */

static value length(state *s, value v, const arguments *a) {
    (void)a;
    return zest_jinja_integer(zest_jinja_length(s, v));
}

static value list_of(const zest_jinja_list *items) {
    return (value){.kind = ZEST_JINJA_LIST, .list = (zest_jinja_list *)items};
}

static value copy_list(state *s, value v, const arguments *a) {
    (void)a;
    value made = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    const zest_jinja_list *items = zest_jinja_elements(s, v);
    for (size_t i = 0; zest_jinja_charge(s, 0, 16) && i < items->count; i++)
        zest_jinja_append(s, made.list, items->item[i]);
    return made;
}

static value end_of(state *s, value v, int last) {
    if (last && v.kind == ZEST_JINJA_GENERATOR) return zest_jinja_fail(s, "last of a generator");
    const zest_jinja_list *items = zest_jinja_elements(s, v);
    if (s->status || !items->count) return zest_jinja_undefined((text){"the element of an empty list", 28});
    return items->item[last ? items->count - 1 : 0];
}

static value first(state *s, value v, const arguments *a) { return (void)a, end_of(s, v, 0); }
static value last(state *s, value v, const arguments *a) { return (void)a, end_of(s, v, 1); }

/* The result of a filter whose elements can be read once. */
static value generator(value list) {
    if (list.kind == ZEST_JINJA_LIST) list.kind = ZEST_JINJA_GENERATOR;
    return list;
}

static value reverse(state *s, value v, const arguments *a) {
    value made = copy_list(s, v, a);
    for (size_t i = 0; !s->status && i < made.list->count / 2; i++) {
        value *x = &made.list->item[i], *y = &made.list->item[made.list->count - 1 - i], swap = *x;
        *x = *y;
        *y = swap;
    }
    return s->status || v.kind != ZEST_JINJA_STRING ? generator(made)
                                                    : zest_jinja_join(s, made.list, (text){"", 0}, 1);
}

/* item.a.b, or the item itself without a name; a name of digits is an index. What is undefined on the way becomes the
 * fallback, unless that is NULL. */
static value attribute_or(state *s, value item, const value *name, const value *fallback) {
    if (!name || name->kind == ZEST_JINJA_NONE) return item;
    if (name->kind != ZEST_JINJA_STRING) return zest_jinja_subscript(s, item, *name);
    if (!zest_jinja_charge(s, 1, name->text.size)) return item;
    for (text left = name->text; !s->status;) {
        size_t size = 0;
        int64_t number;
        char digits[20];
        while (size < left.size && left.data[size] != '.') size++;
        memcpy(digits, left.data, size < sizeof digits ? size : 0);
        digits[size < sizeof digits ? size : 0] = '\0';
        item = zest_integer_parse(digits, 0, INT32_MAX, &number)
                   ? zest_jinja_subscript(s, item, zest_jinja_integer(number))
                   : zest_jinja_subscript(s, item, zest_jinja_string(left.data, size));
        if (fallback && item.kind == ZEST_JINJA_UNDEFINED) item = *fallback;
        if (size == left.size) break;
        left = (text){left.data + size + 1, left.size - size - 1};
    }
    return item;
}

static value attribute_of(state *s, value item, const value *name) {
    return attribute_or(s, item, name, NULL);
}

static value join(state *s, value v, const arguments *a) {
    value name = zest_jinja_none();
    text between = {"", 0};
    zest_jinja_argument_text(s, a, 0, "d", &between);
    zest_jinja_argument(a, 1, "attribute", &name);
    const zest_jinja_list *items = zest_jinja_elements(s, v);
    value chosen = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    for (size_t i = 0; zest_jinja_charge(s, 0, 16) && i < items->count; i++)
        zest_jinja_append(s, chosen.list, attribute_of(s, items->item[i], &name));
    return s->status ? v : zest_jinja_join(s, chosen.list, between, 0);
}

/* Arguments from the second on. */
static arguments rest(const arguments *a, size_t count) {
    size_t skip = a->count < count ? a->count : count;
    return (arguments){a->value + skip, a->name + skip, a->count - skip};
}

static value map(state *s, value v, const arguments *a) {
    value name = zest_jinja_none(), other, made = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    int by_name = zest_jinja_argument(a, SIZE_MAX, "attribute", &name),
        has_fallback = zest_jinja_argument(a, SIZE_MAX, "default", &other) && other.kind != ZEST_JINJA_NONE;
    const zest_jinja_list *items = zest_jinja_elements(s, v);
    if (!by_name && (!zest_jinja_argument(a, 0, NULL, &name) || name.kind != ZEST_JINJA_STRING))
        return zest_jinja_fail(s, "map takes the name of a filter, or attribute=");
    arguments more = rest(a, 1);
    for (size_t i = 0; zest_jinja_charge(s, 0, 16) && i < items->count; i++) {
        zest_jinja_append(s, made.list,
                          by_name ? attribute_or(s, items->item[i], &name, has_fallback ? &other : NULL)
                                  : zest_jinja_filter(s, name.text, items->item[i], &more));
    }
    return generator(made);
}

/* The elements for which a test (or without one, their truth) is as wanted; by_name: the test is of an attribute. */
static value choose(state *s, value v, const arguments *a, int by_name, int wanted) {
    value name, test, made = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    const zest_jinja_list *items = zest_jinja_elements(s, v);
    if (by_name && !zest_jinja_argument(a, 0, NULL, &name))
        return zest_jinja_fail(s, "selectattr and rejectattr take the name of an attribute");
    int tested = zest_jinja_argument(a, (size_t)by_name, NULL, &test);
    if (tested && test.kind != ZEST_JINJA_STRING)
        return zest_jinja_fail(s, "the name of a test should be a text");
    arguments more = rest(a, (size_t)by_name + 1);
    for (size_t i = 0; zest_jinja_charge(s, 0, 16) && i < items->count; i++) {
        value item = by_name ? attribute_of(s, items->item[i], &name) : items->item[i];
        int truth = tested ? zest_jinja_test(s, test.text, item, &more) : zest_jinja_truth(item);
        if (truth == wanted) zest_jinja_append(s, made.list, items->item[i]);
    }
    return generator(made);
}

static value select_items(state *s, value v, const arguments *a) { return choose(s, v, a, 0, 1); }
static value reject_items(state *s, value v, const arguments *a) { return choose(s, v, a, 0, 0); }
static value select_attributes(state *s, value v, const arguments *a) { return choose(s, v, a, 1, 1); }
static value reject_attributes(state *s, value v, const arguments *a) { return choose(s, v, a, 1, 0); }

/* ---- Sorting ---- */

/* What an element is compared by: without its case, unless that counts. */
static value key_of(state *s, value item, const value *name, int case_sensitive) {
    value key = attribute_of(s, item, name);
    if (key.kind != ZEST_JINJA_STRING || case_sensitive || !zest_jinja_charge(s, 0, key.text.size))
        return key;
    return zest_jinja_lower(s, key.text);
}

/* Merges items and keys from..middle and middle..end; stable. */
static void merge(state *s, value *items, value *keys, value *spare, size_t from, size_t middle, size_t end,
                  int descending) {
    size_t a = from, b = middle, out = 0;
    while (a < middle || b < end) {
        int order = a < middle && b < end ? zest_jinja_order(s, keys[a], keys[b]) : a < middle ? -1 : 1;
        if (a < middle && b < end && descending) order = -order;
        size_t from_b = order > 0;
        spare[2 * out] = from_b ? items[b] : items[a];
        spare[2 * out++ + 1] = from_b ? keys[b++] : keys[a++];
    }
    for (size_t i = 0; i < out; i++) items[from + i] = spare[2 * i], keys[from + i] = spare[2 * i + 1];
}

static value sorted(state *s, const zest_jinja_list *list, const value *name, int case_sensitive,
                    int descending) {
    value made = copy_list(s, list_of(list), NULL);
    size_t count = s->status ? 0 : list->count;
    value *keys = zest_jinja_new(s, (count + 1) * sizeof *keys),
          *spare = keys ? zest_jinja_new(s, 2 * (count + 1) * sizeof *spare) : NULL;
    for (size_t i = 0; spare && i < count; i++) keys[i] = key_of(s, list->item[i], name, case_sensitive);
    for (size_t width = 1; spare && width < count && !s->status; width *= 2)
        for (size_t from = 0; from + width < count && !s->status; from += 2 * width)
            merge(s, made.list->item, keys, spare, from, from + width,
                  from + 2 * width < count ? from + 2 * width : count, descending);
    return made;
}

static value sort(state *s, value v, const arguments *a) {
    value descending = zest_jinja_boolean(0), sensitive = descending, name = zest_jinja_none();
    zest_jinja_argument(a, 0, "reverse", &descending);
    zest_jinja_argument(a, 1, "case_sensitive", &sensitive);
    zest_jinja_argument(a, 2, "attribute", &name);
    const zest_jinja_list *items = zest_jinja_elements(s, v);
    return s->status ? v : sorted(s, items, &name, zest_jinja_truth(sensitive), zest_jinja_truth(descending));
}

/* The smallest or the largest; the first of equals. */
static value extreme(state *s, value v, const arguments *a, int sign) {
    value sensitive = zest_jinja_boolean(0), name = zest_jinja_none(), best_key = name;
    zest_jinja_argument(a, 0, "case_sensitive", &sensitive);
    zest_jinja_argument(a, 1, "attribute", &name);
    const zest_jinja_list *items = zest_jinja_elements(s, v);
    size_t best = 0;
    for (size_t i = 0; zest_jinja_charge(s, 0, 16) && i < items->count; i++) {
        value key = key_of(s, items->item[i], &name, zest_jinja_truth(sensitive));
        if (i && sign * zest_jinja_order(s, key, best_key) <= 0) continue;
        best = i;
        best_key = key;
    }
    if (s->status || !items->count) return zest_jinja_undefined((text){"the extreme of an empty list", 28});
    return items->item[best];
}

static value smallest(state *s, value v, const arguments *a) { return extreme(s, v, a, -1); }
static value largest(state *s, value v, const arguments *a) { return extreme(s, v, a, 1); }

static value unique(state *s, value v, const arguments *a) {
    value sensitive = zest_jinja_boolean(0), name = zest_jinja_none();
    value made = zest_jinja_new_list(s, ZEST_JINJA_LIST), seen = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    zest_jinja_argument(a, 0, "case_sensitive", &sensitive);
    zest_jinja_argument(a, 1, "attribute", &name);
    const zest_jinja_list *items = zest_jinja_elements(s, v);
    for (size_t i = 0; zest_jinja_charge(s, 0, 16) && i < items->count; i++) {
        value key = key_of(s, items->item[i], &name, zest_jinja_truth(sensitive));
        if (zest_jinja_contains(s, seen, key)) continue;
        zest_jinja_append(s, seen.list, key);
        zest_jinja_append(s, made.list, items->item[i]);
    }
    return generator(made);
}

static value pairs(state *s, value v) {
    value made = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    if (v.kind == ZEST_JINJA_UNDEFINED) return made;
    if (v.kind != ZEST_JINJA_DICT)
        return zest_jinja_fail(s, "the items of a %s", zest_jinja_kind_name(v.kind));
    for (size_t i = 0; i < v.dict->count && !s->status; i++) {
        value pair = zest_jinja_new_list(s, ZEST_JINJA_TUPLE);
        if (s->status) break;
        zest_jinja_append(s, pair.list, v.dict->key[i]);
        zest_jinja_append(s, pair.list, v.dict->value[i]);
        zest_jinja_append(s, made.list, pair);
    }
    return made;
}

static value items_of(state *s, value v, const arguments *a) { return (void)a, generator(pairs(s, v)); }

static value sort_dict(state *s, value v, const arguments *a) {
    value sensitive = zest_jinja_boolean(0), by = zest_jinja_word("key"), descending = sensitive;
    zest_jinja_argument(a, 0, "case_sensitive", &sensitive);
    zest_jinja_argument(a, 1, "by", &by);
    zest_jinja_argument(a, 2, "reverse", &descending);
    value list = pairs(s, v),
          index = zest_jinja_integer(by.kind == ZEST_JINJA_STRING && zest_jinja_text_is(by.text, "value"));
    return s->status
               ? v
               : sorted(s, list.list, &index, zest_jinja_truth(sensitive), zest_jinja_truth(descending));
}

/* ---- All filters ---- */

static value fallback(state *s, value v, const arguments *a) {
    value other = zest_jinja_word(""), also_false = zest_jinja_boolean(0);
    (void)s;
    zest_jinja_argument(a, 0, "default_value", &other);
    zest_jinja_argument(a, 1, "boolean", &also_false);
    return v.kind == ZEST_JINJA_UNDEFINED || (zest_jinja_truth(also_false) && !zest_jinja_truth(v)) ? other
                                                                                                    : v;
}

value zest_jinja_filter(state *s, text name, value v, const arguments *a) {
    static const struct {
        const char *name;
        value (*apply)(state *, value, const arguments *);
        size_t most; /* arguments */
        const char *keywords;
    } known[] = {{"abs", absolute, 0, NULL},
                 {"capitalize", capitalize, 0, NULL},
                 {"count", length, 0, NULL},
                 {"d", fallback, 2, "default_value boolean"},
                 {"default", fallback, 2, "default_value boolean"},
                 {"dictsort", sort_dict, 3, "case_sensitive by reverse"},
                 {"first", first, 0, NULL},
                 {"float", to_real, 1, "default"},
                 {"indent", indent, 3, "width first blank"},
                 {"int", to_integer, 1, "default"},
                 {"items", items_of, 0, NULL},
                 {"join", join, 2, "d attribute"},
                 {"last", last, 0, NULL},
                 {"length", length, 0, NULL},
                 {"list", copy_list, 0, NULL},
                 {"lower", lower, 0, NULL},
                 {"map", map, 8, "attribute default"},
                 {"max", largest, 2, "case_sensitive attribute"},
                 {"min", smallest, 2, "case_sensitive attribute"},
                 {"reject", reject_items, 8, NULL},
                 {"rejectattr", reject_attributes, 8, NULL},
                 {"replace", replace, 3, "old new count"},
                 {"reverse", reverse, 0, NULL},
                 {"round", round_number, 0, NULL},
                 {"select", select_items, 8, NULL},
                 {"selectattr", select_attributes, 8, NULL},
                 {"sort", sort, 3, "reverse case_sensitive attribute"},
                 {"string", string, 0, NULL},
                 {"sum", sum, 2, "attribute start"},
                 {"title", title, 0, NULL},
                 {"tojson", to_json, 4, "indent ensure_ascii separators sort_keys"},
                 {"trim", trim, 1, "chars"},
                 {"unique", unique, 2, "case_sensitive attribute"},
                 {"upper", upper, 0, NULL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!zest_jinja_text_is(name, known[i].name)) continue;
        if (!zest_jinja_argument_check(s, known[i].name, a, 0, known[i].most, known[i].keywords)) return v;
        return known[i].apply(s, v, a);
    }
    return zest_jinja_fail(s, "the filter '%.*s' is not supported", (int)(name.size < 40 ? name.size : 40),
                           name.data);
}

/* ---- Tests ---- */

static int is_iterable(value v) {
    return v.kind == ZEST_JINJA_STRING || v.kind == ZEST_JINJA_LIST || v.kind == ZEST_JINJA_TUPLE ||
           v.kind == ZEST_JINJA_DICT || v.kind == ZEST_JINJA_UNDEFINED || v.kind == ZEST_JINJA_LOOP ||
           v.kind == ZEST_JINJA_VIEW || v.kind == ZEST_JINJA_GENERATOR;
}

static int of_kind(state *s, text name, value v, int *truth) {
    const struct {
        const char *name;
        int truth;
    } known[] = {{"defined", v.kind != ZEST_JINJA_UNDEFINED},
                 {"undefined", v.kind == ZEST_JINJA_UNDEFINED},
                 {"none", v.kind == ZEST_JINJA_NONE},
                 {"boolean", v.kind == ZEST_JINJA_BOOLEAN},
                 {"true", v.kind == ZEST_JINJA_BOOLEAN && v.integer},
                 {"false", v.kind == ZEST_JINJA_BOOLEAN && !v.integer},
                 {"integer", v.kind == ZEST_JINJA_NUMBER},
                 {"float", v.kind == ZEST_JINJA_FLOAT},
                 {"number", zest_jinja_is_numeric(v)},
                 {"string", v.kind == ZEST_JINJA_STRING},
                 {"mapping", v.kind == ZEST_JINJA_DICT},
                 {"sequence", is_iterable(v) && v.kind != ZEST_JINJA_LOOP && v.kind != ZEST_JINJA_VIEW &&
                                  v.kind != ZEST_JINJA_GENERATOR},
                 {"iterable", is_iterable(v)}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (zest_jinja_text_is(name, known[i].name)) return *truth = known[i].truth, 1;
    (void)s;
    return 0;
}

/* Tests of a text's letters, of which at least one must have a case. */
static int has_case(state *s, value v, int upper_case) {
    text self = text_of(s, v);
    int letters = 0;
    zest_jinja_charge(s, 0, self.size);
    for (size_t i = 0; i < self.size && !s->status; i++) {
        unsigned char c = (unsigned char)self.data[i];
        if (c >= 128) zest_jinja_fail(s, "the case of letters beyond ASCII is not supported");
        int is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z';
        if (upper_case ? is_lower : is_upper) return 0;
        letters += is_upper || is_lower;
    }
    return letters > 0;
}

static int of_number(state *s, text name, value v, const arguments *a) {
    int64_t by = 2, remainder = zest_jinja_text_is(name, "odd");
    if (zest_jinja_text_is(name, "divisibleby")) zest_jinja_argument_integer(s, a, 0, "num", &by);
    if ((v.kind != ZEST_JINJA_NUMBER && v.kind != ZEST_JINJA_BOOLEAN) || !by)
        return zest_jinja_fail(s, "the test '%.*s' of a %s", (int)name.size, name.data,
                               zest_jinja_kind_name(v.kind)),
               0;
    return by == -1 ? !remainder : (v.integer % by != 0) == (remainder != 0);
}

/* Comparisons; -1: none of these. */
static int compared(state *s, text name, value v, value other) {
    static const char *const names[][4] = {
        {"eq", "equalto", "==", ""}, {"ne", "!=", "", ""},           {"lt", "lessthan", "<", ""},
        {"le", "<=", "", ""},        {"gt", "greaterthan", ">", ""}, {"ge", ">=", "", ""},
        {"in", "", "", ""},          {"sameas", "", "", ""}};
    size_t which = 0, count = sizeof names / sizeof *names;
    for (; which < count; which++) {
        size_t i = 0;
        while (i < 4 && !zest_jinja_text_is(name, names[which][i])) i++;
        if (i < 4) break;
    }
    switch (which) {
    case 0: return zest_jinja_equal(s, v, other);
    case 1: return !zest_jinja_equal(s, v, other);
    case 2: return zest_jinja_order(s, v, other) < 0;
    case 3: return zest_jinja_order(s, v, other) <= 0;
    case 4: return zest_jinja_order(s, v, other) > 0;
    case 5: return zest_jinja_order(s, v, other) >= 0;
    case 6: return zest_jinja_contains(s, other, v);
    case 7: /* the same object; which texts and numbers are the same is Python's secret */
        if (v.kind != other.kind) return 0;
        if (v.kind > ZEST_JINJA_BOOLEAN && v.kind < ZEST_JINJA_LIST)
            return zest_jinja_fail(s, "the test 'sameas' of a %s", zest_jinja_kind_name(v.kind)), 0;
        return v.kind == ZEST_JINJA_BOOLEAN ? v.integer == other.integer
                                            : v.kind < ZEST_JINJA_BOOLEAN || v.list == other.list;
    default: return -1;
    }
}

int zest_jinja_test(state *s, text name, value v, const arguments *a) {
    int truth;
    value other = zest_jinja_none();
    if (!a->count && of_kind(s, name, v, &truth)) return truth;
    if (zest_jinja_text_is(name, "odd") || zest_jinja_text_is(name, "even") ||
        (a->count == 1 && zest_jinja_text_is(name, "divisibleby")))
        return of_number(s, name, v, a);
    if (!a->count && (zest_jinja_text_is(name, "upper") || zest_jinja_text_is(name, "lower")))
        return has_case(s, v, name.data[0] == 'u');
    if (a->count == 1 && zest_jinja_argument(a, 0, "other", &other) &&
        (truth = compared(s, name, v, other)) >= 0)
        return truth;
    zest_jinja_fail(s, "the test '%.*s' with %zu arguments is not supported",
                    (int)(name.size < 40 ? name.size : 40), name.data, a->count);
    return 0;
}
