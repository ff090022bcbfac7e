/* Sets of characters in regular expressions, as sorted ranges; general categories are those of Unicode 16.0. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/regex_internal.h"
#include "tokenizer/unicode.h"

enum { LAST = 0x10FFFF };

void zest_regex_set_add(zest_regex_set *set, uint32_t low, uint32_t high) {
    if (set->failed || low > high) return;
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? 2 * set->capacity : 8;
        zest_regex_range *range = realloc(set->range, capacity * sizeof *range);
        if (!range) {
            set->failed = 1;
            return;
        }
        set->range = range;
        set->capacity = capacity;
    }
    set->range[set->count++] = (zest_regex_range){low, high};
}

void zest_regex_set_add_all(zest_regex_set *set, const zest_regex_set *other) {
    for (size_t i = 0; i < other->count; i++)
        zest_regex_set_add(set, other->range[i].low, other->range[i].high);
    set->failed |= other->failed;
}

static int by_low(const void *a, const void *b) {
    const zest_regex_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

void zest_regex_set_sort(zest_regex_set *set) {
    size_t count = 0;
    if (set->count) qsort(set->range, set->count, sizeof *set->range, by_low);
    for (size_t i = 0; i < set->count; i++) {
        zest_regex_range next = set->range[i];
        if (count && next.low <= set->range[count - 1].high + 1) {
            if (set->range[count - 1].high < next.high) set->range[count - 1].high = next.high;
        } else {
            set->range[count++] = next;
        }
    }
    set->count = count;
}

void zest_regex_set_invert(zest_regex_set *set) {
    zest_regex_set other = {0};
    uint32_t from = 0;
    zest_regex_set_sort(set);
    for (size_t i = 0; i < set->count; i++) {
        if (from < set->range[i].low) zest_regex_set_add(&other, from, set->range[i].low - 1);
        from = set->range[i].high + 1;
    }
    zest_regex_set_add(&other, from, LAST);
    other.failed |= set->failed;
    free(set->range);
    *set = other;
}

int zest_regex_set_equal(const zest_regex_set *a, const zest_regex_set *b) {
    return a->count == b->count && (!a->count || !memcmp(a->range, b->range, a->count * sizeof *a->range));
}

void zest_regex_set_free(zest_regex_set *set) {
    free(set->range);
    *set = (zest_regex_set){0};
}

/* The characters whose category has its bit in this mask. */
static void add_categories(zest_regex_set *set, uint32_t mask) {
    uint32_t from = 0, category = 0;
    for (size_t i = 0; i <= zest_unicode_categories_count; i++) {
        int last = i == zest_unicode_categories_count;
        uint32_t code = last ? LAST + 1 : zest_unicode_categories[i] >> 5;
        if (code > from && mask >> category & 1) zest_regex_set_add(set, from, code - 1);
        if (last) break;
        from = code;
        category = zest_unicode_categories[i] & 31;
    }
}

static uint32_t mask_of(const char *name, size_t size) {
    uint32_t mask = 0;
    for (int i = 0; i < ZEST_UNICODE_CATEGORIES; i++)
        if (!strncmp(zest_unicode_category_name(i), name, size)) mask |= 1u << i;
    return mask;
}

int zest_regex_set_add_property(zest_regex_set *set, const char *name, size_t size) {
    static const struct {
        const char *name, *category;
    } longer[] = {{"Letter", "L"},
                  {"Lowercase_Letter", "Ll"},
                  {"Uppercase_Letter", "Lu"},
                  {"Titlecase_Letter", "Lt"},
                  {"Modifier_Letter", "Lm"},
                  {"Other_Letter", "Lo"},
                  {"Mark", "M"},
                  {"Number", "N"},
                  {"Decimal_Number", "Nd"},
                  {"Punctuation", "P"},
                  {"Symbol", "S"},
                  {"Separator", "Z"},
                  {"Space_Separator", "Zs"},
                  {"Other", "C"}};
    char category[3] = "";
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        if (size == strlen(longer[i].name) && !memcmp(name, longer[i].name, size))
            memcpy(category, longer[i].category, strlen(longer[i].category) + 1);
    if (!*category && size <= 2) memcpy(category, name, size);
    uint32_t mask = *category ? mask_of(category, strlen(category)) : 0;
    add_categories(set, mask);
    return mask != 0;
}

int zest_regex_set_add_shorthand(zest_regex_set *set, char letter) {
    switch (letter) {
    case 'd': add_categories(set, mask_of("Nd", 2)); return 1;
    case 'w':
        add_categories(set, mask_of("L", 1) | mask_of("M", 1) | mask_of("N", 1) | mask_of("Pc", 2));
        return 1;
    case 'h':
        zest_regex_set_add(set, '0', '9');
        zest_regex_set_add(set, 'A', 'F');
        zest_regex_set_add(set, 'a', 'f');
        return 1;
    case 's':
        add_categories(set, mask_of("Z", 1));
        zest_regex_set_add(set, '\t', '\r');
        zest_regex_set_add(set, 0x85, 0x85);
        return 1;
    default: return 0;
    }
}
