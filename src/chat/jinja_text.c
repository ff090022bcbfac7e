/* Texts in Jinja: Python's methods of str. */
#include <string.h>

#include "chat/jinja_internal.h"
#include "tokenizer/unicode.h"

typedef zest_jinja_value value;
typedef zest_jinja_state state;
typedef zest_jinja_text text;
typedef zest_jinja_arguments arguments;

/* ---- Positions ---- */

static int continues(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

size_t zest_jinja_characters(text t) {
    size_t count = 0;
    for (size_t i = 0; i < t.size; i++) count += !continues(t.data[i]);
    return count;
}

size_t zest_jinja_offset(text t, size_t index) {
    size_t at = 0;
    for (; at < t.size && index; index--)
        for (at++; at < t.size && continues(t.data[at]);) at++;
    return at;
}

/* ---- White space ---- */

/* Unicode's white space, and four control characters that Python counts, too. */
int zest_jinja_is_space(uint32_t code) {
    if (code < 128) return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1C && code <= 0x1F);
    return (zest_unicode_class(code) & ZEST_UNICODE_SPACE) != 0;
}

static int is_stripped(uint32_t code, text set) {
    if (!set.data) return zest_jinja_is_space(code);
    for (size_t at = 0; at < set.size;) {
        uint32_t other;
        at += zest_unicode_read(set.data + at, &other);
        if (other == code) return 1;
    }
    return 0;
}

text zest_jinja_strip(text t, text set, int start, int end) {
    uint32_t code;
    while (start && t.size) {
        size_t size = zest_unicode_read(t.data, &code);
        if (!is_stripped(code, set)) break;
        t.data += size;
        t.size -= size;
    }
    while (end && t.size) {
        size_t at = t.size - 1;
        while (at && continues(t.data[at])) at--;
        zest_unicode_read(t.data + at, &code);
        if (!is_stripped(code, set)) break;
        t.size = at;
    }
    return t;
}

/* ---- Case ---- */

static char lower_ascii(char c) { return (char)(c >= 'A' && c <= 'Z' ? c | 32 : c); }
static char upper_ascii(char c) { return (char)(c >= 'a' && c <= 'z' ? c & ~32 : c); }

value zest_jinja_lower(state *s, text t) {
    zest_buffer out = {0};
    zest_buffer_add(&out, "", 0);
    for (size_t at = 0; at < t.size && !s->status;) {
        uint32_t code, more;
        char bytes[8];
        at += zest_unicode_read(t.data + at, &code);
        if (code == 0x3A3) zest_jinja_fail(s, "the lower case of the Greek letter sigma is not supported");
        code = zest_unicode_lowercase(code, &more);
        size_t size = zest_unicode_write(code, bytes);
        if (more) size += zest_unicode_write(more, bytes + size);
        zest_buffer_add(&out, bytes, size);
    }
    return zest_jinja_from_buffer(s, &out);
}

/* A copy whose letters can be changed in place: those beyond ASCII are refused. */
static char *copy_ascii(state *s, text t, const char *what) {
    for (size_t at = 0; at < t.size;) {
        uint32_t code;
        at += zest_unicode_read(t.data + at, &code);
        if (code < 128 || !(zest_unicode_class(code) & (ZEST_UNICODE_LETTER | ZEST_UNICODE_NUMBER))) continue;
        zest_jinja_fail(s, "%s of letters beyond ASCII is not supported", what);
        return NULL;
    }
    value copy = zest_jinja_copy(s, t.data, t.size);
    return s->status ? NULL : (char *)copy.text.data;
}

value zest_jinja_upper(state *s, text t) {
    char *copy = copy_ascii(s, t, "upper");
    for (size_t i = 0; i < t.size && copy; i++) copy[i] = upper_ascii(copy[i]);
    return zest_jinja_string(copy ? copy : "", copy ? t.size : 0);
}

value zest_jinja_title(state *s, text t, const char *starts) {
    char *copy = copy_ascii(s, t, "title");
    int inside = 0;
    for (size_t i = 0; i < t.size && copy; i++) {
        char lower = lower_ascii(copy[i]);
        copy[i] = inside ? lower : upper_ascii(copy[i]);
        inside = starts ? !strchr(starts, lower) : lower >= 'a' && lower <= 'z';
    }
    return zest_jinja_string(copy ? copy : "", copy ? t.size : 0);
}

value zest_jinja_capitalize(state *s, text t) {
    char *copy = copy_ascii(s, t, "capitalize");
    for (size_t i = 0; i < t.size && copy; i++) copy[i] = i ? lower_ascii(copy[i]) : upper_ascii(copy[i]);
    return zest_jinja_string(copy ? copy : "", copy ? t.size : 0);
}

/* ---- Searching, joining, splitting ---- */

int64_t zest_jinja_find(text t, text part, int last) {
    if (part.size > t.size) return -1;
    if (!part.size) return last ? (int64_t)t.size : 0;
    if (!last) {
        const char *hit = memmem(t.data, t.size, part.data, part.size);
        return hit ? hit - t.data : -1;
    }
    for (size_t at = t.size - part.size + 1; at-- > 0;)
        if (!memcmp(t.data + at, part.data, part.size)) return (int64_t)at;
    return -1;
}

value zest_jinja_replace(state *s, text t, text from, text to, int64_t count) {
    zest_buffer out = {0};
    size_t at = 0;
    zest_buffer_add(&out, "", 0);
    if (!from.size) { /* Python puts `to` before every character and at the end */
        for (; count && at < t.size && zest_jinja_charge(s, 1, to.size); count--) {
            uint32_t code;
            size_t size = zest_unicode_read(t.data + at, &code);
            zest_buffer_add(&out, to.data, to.size);
            zest_buffer_add(&out, t.data + at, size);
            at += size;
        }
        if (count && at == t.size) zest_buffer_add(&out, to.data, to.size);
    }
    while (from.size && count && zest_jinja_charge(s, 1, to.size)) {
        int64_t hit = zest_jinja_find((text){t.data + at, t.size - at}, from, 0);
        if (hit < 0) break;
        zest_buffer_add(&out, t.data + at, (size_t)hit);
        zest_buffer_add(&out, to.data, to.size);
        at += (size_t)hit + from.size;
        count--;
        if (out.size > ZEST_JINJA_MAX_BYTES) zest_jinja_fail(s, "a text becomes too long");
    }
    if (at < t.size) zest_buffer_add(&out, t.data + at, t.size - at);
    zest_jinja_charge(s, 0, t.size);
    return zest_jinja_from_buffer(s, &out);
}

value zest_jinja_join(state *s, const zest_jinja_list *items, text between, int strings_only) {
    zest_buffer out = {0};
    zest_buffer_add(&out, "", 0);
    for (size_t i = 0; i < items->count && !s->status; i++) {
        if (strings_only && items->item[i].kind != ZEST_JINJA_STRING)
            zest_jinja_fail(s, "join meets a %s among texts", zest_jinja_kind_name(items->item[i].kind));
        if (i && zest_jinja_charge(s, 1, between.size)) zest_buffer_add(&out, between.data, between.size);
        zest_jinja_print(s, items->item[i], &out);
    }
    return zest_jinja_from_buffer(s, &out);
}

static int is_line_end(uint32_t code) {
    return (code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

value zest_jinja_split_lines(state *s, text t) {
    value made = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    size_t from = 0;
    for (size_t at = 0; at < t.size && zest_jinja_charge(s, 0, 8);) {
        uint32_t code;
        size_t size = zest_unicode_read(t.data + at, &code);
        if (is_line_end(code)) {
            zest_jinja_append(s, made.list, zest_jinja_string(t.data + from, at - from));
            if (code == '\r' && at + 1 < t.size && t.data[at + 1] == '\n') size = 2;
            from = at + size;
        }
        at += size;
    }
    if (from < t.size) zest_jinja_append(s, made.list, zest_jinja_string(t.data + from, t.size - from));
    return made;
}

/* Splits at white space, or at `by`; at most `most` times unless negative. */
static value split(state *s, text t, text by, int64_t most) {
    value made = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    static const text blank = {0};
    zest_jinja_charge(s, 0, t.size);
    if (!by.data) t = zest_jinja_strip(t, blank, 1, most < 0);
    while (!s->status && (by.data || t.size)) {
        size_t hit = 0, size = by.size;
        if (by.data) {
            int64_t found = most ? zest_jinja_find(t, by, 0) : -1;
            hit = found < 0 ? t.size : (size_t)found;
        } else {
            uint32_t code = 'a';
            for (hit = 0; hit < t.size; hit += size) {
                size = zest_unicode_read(t.data + hit, &code);
                if (most && zest_jinja_is_space(code)) break;
            }
        }
        zest_jinja_append(s, made.list, zest_jinja_string(t.data, hit));
        zest_jinja_charge(s, 1, 0);
        if (hit == t.size) break;
        t = (text){t.data + hit + size, t.size - hit - size};
        if (!by.data) t = zest_jinja_strip(t, blank, 1, most < 0);
        if (most > 0) most--;
    }
    return made;
}

static value split_from_end(state *s, text t, text by, int64_t most) {
    value made = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    if (!by.data) {
        zest_jinja_fail(s, "rsplit at white space is not supported");
        return made;
    }
    for (int64_t found; !s->status; most -= most > 0) {
        found = most && zest_jinja_charge(s, 1, t.size * (by.size / 8 + 1)) ? zest_jinja_find(t, by, 1) : -1;
        size_t from = found < 0 ? 0 : (size_t)found + by.size;
        zest_jinja_append(s, made.list, zest_jinja_string(t.data + from, t.size - from));
        if (found < 0) break;
        t.size = (size_t)found;
    }
    for (size_t i = 0; i < made.list->count / 2 && !s->status; i++) {
        value *a = &made.list->item[i], *b = &made.list->item[made.list->count - 1 - i], swap = *a;
        *a = *b;
        *b = swap;
    }
    return made;
}

/* ---- Methods ---- */

static value strip(state *s, text self, text name, const arguments *a) {
    text set = {0};
    value given;
    if (zest_jinja_argument(a, 0, "chars", &given) && given.kind != ZEST_JINJA_NONE)
        zest_jinja_argument_text(s, a, 0, "chars", &set);
    if (!zest_jinja_charge(s, 0, self.size * (set.size / 2 + 1))) return zest_jinja_none();
    text left = zest_jinja_strip(self, set, name.data[0] != 'r', name.data[0] != 'l');
    return zest_jinja_string(left.data, left.size);
}

static value split_method(state *s, text self, text name, const arguments *a) {
    text by = {0};
    int64_t most = -1;
    value given;
    if (zest_jinja_argument(a, 0, "sep", &given) && given.kind != ZEST_JINJA_NONE)
        zest_jinja_argument_text(s, a, 0, "sep", &by);
    zest_jinja_argument_integer(s, a, 1, "maxsplit", &most);
    if (by.data && !by.size) zest_jinja_fail(s, "split has an empty separator");
    if (s->status) return zest_jinja_none();
    return name.data[0] == 'r' ? split_from_end(s, self, by, most) : split(s, self, by, most);
}

static int fits(text self, text part, int at_end) {
    if (part.size > self.size) return 0;
    return !part.size || !memcmp(self.data + (at_end ? self.size - part.size : 0), part.data, part.size);
}

/* startswith, endswith: a text, or a tuple of texts. */
static value starts_or_ends(state *s, text self, text name, const arguments *a) {
    value part = zest_jinja_none();
    int at_end = name.data[0] == 'e', found = 0;
    zest_jinja_argument(a, 0, NULL, &part);
    if (a->count > 1)
        return zest_jinja_fail(s, "%s with a position is not supported", at_end ? "endswith" : "startswith");
    size_t count = part.kind == ZEST_JINJA_TUPLE ? part.list->count : 1;
    for (size_t i = 0; i < count && !s->status; i++) {
        value one = part.kind == ZEST_JINJA_TUPLE ? part.list->item[i] : part;
        if (one.kind != ZEST_JINJA_STRING)
            return zest_jinja_fail(s, "%s takes a text", at_end ? "endswith" : "startswith");
        found |= zest_jinja_charge(s, 0, one.text.size) && fits(self, one.text, at_end);
    }
    return zest_jinja_boolean(found);
}

static value remove_part(state *s, text self, text name, const arguments *a) {
    text part = {0};
    int at_end = zest_jinja_text_is(name, "removesuffix");
    zest_jinja_argument_text(s, a, 0, NULL, &part);
    if (!zest_jinja_charge(s, 0, part.size) || !fits(self, part, at_end))
        return zest_jinja_string(self.data, self.size);
    return zest_jinja_string(self.data + (at_end ? 0 : part.size), self.size - part.size);
}

static value find_method(state *s, text self, text name, const arguments *a) {
    text part = {0};
    zest_jinja_argument_text(s, a, 0, NULL, &part);
    if (!zest_jinja_charge(s, 0, self.size * (name.data[0] == 'r' ? part.size / 8 + 1 : 1)))
        return zest_jinja_none();
    if (name.data[0] == 'c') { /* count, of those that do not overlap */
        int64_t count = 0;
        if (!part.size) return zest_jinja_integer((int64_t)zest_jinja_characters(self) + 1);
        for (int64_t hit; (hit = zest_jinja_find(self, part, 0)) >= 0; count++)
            self = (text){self.data + hit + part.size, self.size - (size_t)hit - part.size};
        return zest_jinja_integer(count);
    }
    int64_t hit = zest_jinja_find(self, part, name.data[0] == 'r');
    return zest_jinja_integer(hit < 0 ? -1 : (int64_t)zest_jinja_characters((text){self.data, (size_t)hit}));
}

static value replace_method(state *s, text self, text name, const arguments *a) {
    text from = {0}, to = {0};
    int64_t count = -1;
    (void)name;
    zest_jinja_argument_text(s, a, 0, NULL, &from);
    zest_jinja_argument_text(s, a, 1, NULL, &to);
    zest_jinja_argument_integer(s, a, 2, "count", &count);
    return s->status ? zest_jinja_none() : zest_jinja_replace(s, self, from, to, count);
}

static value join_method(state *s, text self, text name, const arguments *a) {
    value list = zest_jinja_none();
    (void)name;
    zest_jinja_argument(a, 0, NULL, &list);
    const zest_jinja_list *items = zest_jinja_elements(s, list);
    return s->status ? list : zest_jinja_join(s, items, self, 1);
}

static value case_method(state *s, text self, text name, const arguments *a) {
    (void)a;
    if (!zest_jinja_charge(s, 0, self.size)) return zest_jinja_none();
    switch (name.data[0]) {
    case 'u': return zest_jinja_upper(s, self);
    case 'l': return zest_jinja_lower(s, self);
    case 't': return zest_jinja_title(s, self, NULL);
    case 'c': return zest_jinja_capitalize(s, self);
    default: return zest_jinja_split_lines(s, self);
    }
}

/* isdigit and so on: true if there is a character, and all are of the kind. */
static value is_method(state *s, text self, text name, const arguments *a) {
    int all = self.size > 0;
    (void)a;
    for (size_t at = 0; at < self.size && all && zest_jinja_charge(s, 0, 4);) {
        uint32_t code;
        at += zest_unicode_read(self.data + at, &code);
        unsigned class = zest_unicode_class(code);
        int letter = (class & ZEST_UNICODE_LETTER) != 0, number = (class & ZEST_UNICODE_NUMBER) != 0;
        if (number && code >= 128)
            return zest_jinja_fail(s, "%.*s of digits beyond ASCII is not supported", (int)name.size,
                                   name.data);
        all = zest_jinja_text_is(name, "isdigit")   ? number
              : zest_jinja_text_is(name, "isspace") ? zest_jinja_is_space(code)
              : zest_jinja_text_is(name, "isalpha") ? letter
                                                    : letter || number;
    }
    return zest_jinja_boolean(all);
}

value zest_jinja_text_method(state *s, text self, text name, const arguments *a) {
    static const struct {
        const char *name;
        value (*call)(state *, text, text, const arguments *);
        size_t least, most;
    } known[] = {{"strip", strip, 0, 1},
                 {"lstrip", strip, 0, 1},
                 {"rstrip", strip, 0, 1},
                 {"split", split_method, 0, 2},
                 {"rsplit", split_method, 0, 2},
                 {"startswith", starts_or_ends, 1, 1},
                 {"endswith", starts_or_ends, 1, 1},
                 {"removeprefix", remove_part, 1, 1},
                 {"removesuffix", remove_part, 1, 1},
                 {"find", find_method, 1, 1},
                 {"rfind", find_method, 1, 1},
                 {"count", find_method, 1, 1},
                 {"replace", replace_method, 2, 3},
                 {"join", join_method, 1, 1},
                 {"upper", case_method, 0, 0},
                 {"lower", case_method, 0, 0},
                 {"title", case_method, 0, 0},
                 {"capitalize", case_method, 0, 0},
                 {"splitlines", case_method, 0, 0},
                 {"isalnum", is_method, 0, 0},
                 {"isalpha", is_method, 0, 0},
                 {"isdigit", is_method, 0, 0},
                 {"isspace", is_method, 0, 0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!zest_jinja_text_is(name, known[i].name)) continue;
        if (!zest_jinja_argument_check(s, known[i].name, a, known[i].least, known[i].most,
                                       "sep maxsplit chars count"))
            return zest_jinja_none();
        return known[i].call(s, self, name, a);
    }
    return zest_jinja_fail(s, "the method '%.*s' of a text is not supported",
                           (int)(name.size < 40 ? name.size : 40), name.data);
}
