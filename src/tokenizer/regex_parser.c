/* Parser of regular expressions in the syntax of Oniguruma, as tokenizer files have them. What has no place in a matcher of
 * linear time, or is not known here, is refused by its name. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/regex_internal.h"
#include "tokenizer/unicode.h"

typedef struct {
    zest_regex_tree *tree;
    const char *start, *at, *end;
    int ignore_case;
    int depth;
    size_t ranges;      /* of all classes that were added */
    char last;          /* the literal letter before, where case is ignored; 0: none */
    const char *opened; /* where the innermost group's content begins */
} parser;

static uint32_t parse_choice(parser *p);

static void complain(parser *p, const char *problem) {
    if (p->tree->problem) return;
    p->tree->problem = problem;
    p->tree->position = (size_t)(p->at - p->start);
}

static int stopped(const parser *p) { return p->tree->problem || p->tree->failed; }
static int more(const parser *p) { return p->at < p->end && !stopped(p); }
static int next_is(const parser *p, const char *text) {
    size_t size = strlen(text);
    return (size_t)(p->end - p->at) >= size && !memcmp(p->at, text, size);
}

/* ---- Nodes ---- */

static uint32_t add_node(parser *p, zest_regex_kind kind) {
    zest_regex_tree *tree = p->tree;
    if (tree->count == tree->capacity) {
        size_t capacity = tree->capacity ? 2 * tree->capacity : 64;
        zest_regex_node *node = realloc(tree->node, capacity * sizeof *node);
        if (!node) {
            tree->failed = 1;
            return 0;
        }
        tree->node = node;
        tree->capacity = capacity;
    }
    tree->node[tree->count] = (zest_regex_node){.kind = kind, .nullable = kind != ZEST_REGEX_SET};
    return (uint32_t)tree->count++;
}

/* The number of a set, which is taken over. */
static uint32_t keep_set(parser *p, zest_regex_set *set) {
    zest_regex_tree *tree = p->tree;
    uint32_t i = 0;
    zest_regex_set_sort(set);
    while (i < tree->sets && !zest_regex_set_equal(&tree->set[i], set)) i++;
    tree->failed |= set->failed;
    if (i == ZEST_REGEX_SETS) complain(p, "more than 255 different classes of characters");
    if (i < tree->sets || stopped(p)) {
        zest_regex_set_free(set);
        return i < tree->sets ? i : 0;
    }
    tree->set[tree->sets++] = *set;
    *set = (zest_regex_set){0};
    return i;
}

static uint32_t set_node(parser *p, zest_regex_set *set) {
    uint32_t kept = keep_set(p, set), node = add_node(p, ZEST_REGEX_SET);
    if (!stopped(p)) p->tree->node[node].set = kept;
    return node;
}

/* ---- Single characters ---- */

static uint32_t read_character(parser *p) {
    uint32_t code;
    p->at += zest_unicode_read(p->at, &code);
    return code;
}

static uint32_t read_hex(parser *p, int least, int most, const char *problem) {
    uint32_t code = 0;
    int count = 0;
    for (; count < most && p->at < p->end; count++, p->at++) {
        char c = *p->at;
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (digit < 0) break;
        code = code * 16 + (uint32_t)digit;
    }
    if (count < least || code > 0x10FFFF) complain(p, problem);
    return code;
}

/* The character of an escape; p->at is behind the letter. */
static uint32_t escaped(parser *p, char letter) {
    static const char from[] = "ntrfvae", to[] = "\n\t\r\f\v\a\x1B";
    const char *known = letter ? strchr(from, letter) : NULL;
    if (known) return (unsigned char)to[known - from];
    if (letter == 'u') return read_hex(p, 4, 4, "\\u without four digits");
    if (letter == 'x' && next_is(p, "{")) {
        p->at++;
        uint32_t code = read_hex(p, 1, 8, "\\x{...} without digits");
        if (!next_is(p, "}")) complain(p, "\\x{...} without its end");
        p->at += !stopped(p);
        return code;
    }
    if (letter == 'x') return read_hex(p, 1, 2, "\\x without digits");
    if ((unsigned char)letter < 0x80 &&
        zest_unicode_class((unsigned char)letter) & (ZEST_UNICODE_LETTER | ZEST_UNICODE_NUMBER)) {
        p->at--;
        complain(p, letter == 'X'                    ? "grapheme clusters, \\X"
                    : letter == 'R'                  ? "line breaks, \\R"
                    : letter == 'K'                  ? "\\K"
                    : letter == 'G'                  ? "\\G"
                    : letter == 'k' || letter == 'g' ? "references to groups, \\k and \\g"
                    : letter >= '0' && letter <= '9' ? "references to groups, or octal numbers"
                                                     : "an unknown escape");
        return 0;
    }
    p->at--;
    return read_character(p);
}

static int is_letter(uint32_t code) { return code < 128 && (code | 32) - 'a' < 26; }

/* Both cases; U+017F folds to s, U+212A to k. */
static void add_cases(zest_regex_set *set, uint32_t code) {
    zest_regex_set_add(set, code & ~32u, code & ~32u);
    zest_regex_set_add(set, code | 32, code | 32);
    if ((code | 32) == 's') zest_regex_set_add(set, 0x17F, 0x17F);
    if ((code | 32) == 'k') zest_regex_set_add(set, 0x212A, 0x212A);
}

/* Two letters that one character folds to. */
static int folds_together(char a, char b) {
    static const char *const pairs[] = {"ss", "st", "ff", "fi", "fl"};
    for (int i = 0; i < 5; i++)
        if (a == pairs[i][0] && b == pairs[i][1]) return 1;
    return 0;
}

static uint32_t literal(parser *p, uint32_t code) {
    zest_regex_set set = {0};
    char before = p->last;
    p->last = 0;
    if (p->ignore_case && is_letter(code)) {
        add_cases(&set, code);
        p->last = (char)(code | 32);
        if (before && folds_together(before, p->last))
            complain(p, "(?i) before letters that one character stands for, such as ss");
    } else if (p->ignore_case && zest_unicode_class(code) & ZEST_UNICODE_LETTER) {
        complain(p, "(?i) before letters beyond a to z");
    }
    if (!set.count) zest_regex_set_add(&set, code, code);
    return set_node(p, &set);
}

/* ---- Classes ---- */

/* Adds a class by its name, or one inside the class, and frees it. A name of five bytes can stand for 700 ranges. */
static void add_named(parser *p, zest_regex_set *set, zest_regex_set *found) {
    p->ranges += found->count;
    if (p->ranges > ZEST_REGEX_RANGES) complain(p, "classes of more than 262144 ranges of characters");
    if (!stopped(p)) zest_regex_set_add_all(set, found);
    zest_regex_set_free(found);
}

/* \p{NAME}, \P{NAME}, \p{^NAME}; p->at is behind the p. cased: \p{Lu} and the like. */
static void parse_property(parser *p, int negated, zest_regex_set *set, int *cased) {
    const char *close = next_is(p, "{") ? memchr(p->at, '}', (size_t)(p->end - p->at)) : NULL;
    zest_regex_set found = {0};
    if (!close) {
        complain(p, "\\p without {NAME}");
        return;
    }
    const char *name = p->at + 1;
    if (*name == '^') name++, negated = !negated;
    if (!zest_regex_set_add_property(&found, name, (size_t)(close - name)))
        complain(p, "\\p{...} of something else than a general category");
    *cased |= close - name == 2 && name[0] == 'L' && memchr("ult", name[1], 3);
    p->at = close + 1;
    if (negated) zest_regex_set_invert(&found);
    add_named(p, set, &found);
}

/* \s, \S, \p{..} and the like; 0: the escape is another. p->at is at the letter and moves behind it. */
static int parse_shorthand(parser *p, zest_regex_set *set, int *cased) {
    char letter = p->at < p->end ? *p->at : '\0';
    if (letter == 'p' || letter == 'P') {
        p->at++;
        parse_property(p, letter == 'P', set, cased);
        return 1;
    }
    if (!letter || !strchr("swdhSWDH", letter)) return 0;
    zest_regex_set found = {0};
    p->at++;
    zest_regex_set_add_shorthand(&found, (char)(letter | 32));
    if (letter < 'a') zest_regex_set_invert(&found);
    add_named(p, set, &found);
    return 1;
}

/* One character of a class, by itself or escaped. */
static uint32_t class_character(parser *p) {
    if (*p->at != '\\') return read_character(p);
    if (p->at + 1 >= p->end) {
        complain(p, "a backslash at its end");
        return 0;
    }
    p->at += 2;
    return p->at[-1] == 'b' ? '\b' : escaped(p, p->at[-1]);
}

static void close_cases(parser *p, zest_regex_set *set, int cased) {
    if (cased) complain(p, "(?i) with \\p{Lu}, \\p{Ll} or \\p{Lt}");
    zest_regex_set_sort(set);
    for (uint32_t c = 'a'; c <= 'z'; c++)
        for (size_t i = 0, count = set->count; i < count; i++) {
            zest_regex_range r = set->range[i];
            if ((r.low <= c && c <= r.high) || (r.low <= (c & ~32u) && (c & ~32u) <= r.high)) {
                add_cases(set, c);
                break;
            }
        }
}

static void parse_class(parser *p, zest_regex_set *set);

static void parse_class_item(parser *p, zest_regex_set *set, int *cased) {
    if (next_is(p, "[:")) complain(p, "[:NAME:]");
    if (next_is(p, "&&")) complain(p, "the intersection of classes, &&");
    if (stopped(p)) return;
    if (*p->at == '[') {
        zest_regex_set inner = {0};
        if (++p->depth > ZEST_REGEX_DEPTH) complain(p, "groups within more than 50 others");
        if (!stopped(p)) parse_class(p, &inner);
        p->depth--;
        add_named(p, set, &inner);
        return;
    }
    if (*p->at == '\\') {
        p->at++;
        if (parse_shorthand(p, set, cased)) return;
        p->at--;
    }
    uint32_t low = class_character(p), high = low;
    if (p->end - p->at > 1 && p->at[0] == '-' && p->at[1] != ']' && !stopped(p)) {
        p->at++;
        if (next_is(p, "[") || (next_is(p, "\\") && p->end - p->at > 1 && strchr("pPswdhSWDH", p->at[1])))
            complain(p, "a range of characters that ends with a class");
        high = stopped(p) ? low : class_character(p);
        if (high < low) complain(p, "a range of characters from high to low");
    }
    if (p->ignore_case && high >= 128) complain(p, "(?i) with characters beyond ASCII in a class");
    zest_regex_set_add(set, low, high);
}

static void parse_class(parser *p, zest_regex_set *set) {
    int negated = 0, first = 1, cased = 0;
    p->at++;
    if (next_is(p, "^")) p->at++, negated = 1;
    while (more(p) && (*p->at != ']' || first)) {
        first = 0;
        parse_class_item(p, set, &cased);
    }
    if (!next_is(p, "]")) complain(p, "a [ without its ]");
    p->at += !stopped(p);
    if (p->ignore_case) close_cases(p, set, cased);
    if (negated) zest_regex_set_invert(set);
}

/* ---- Groups and assertions ---- */

/* What stands after (?= or (?!: a set, or a choice of sets. */
static uint32_t parse_lookahead(parser *p, int negated) {
    uint32_t inner = parse_choice(p), made = add_node(p, ZEST_REGEX_FOLLOWED);
    zest_regex_set all = {0};
    if (stopped(p)) return 0;
    zest_regex_node *node = p->tree->node;
    uint32_t one = node[inner].kind == ZEST_REGEX_CHOICE ? node[inner].first : inner;
    for (int choice = node[inner].kind == ZEST_REGEX_CHOICE; one; one = choice ? node[one].next : 0) {
        if (node[one].kind != ZEST_REGEX_SET)
            complain(p, "a lookahead of something else than one class of characters");
        else
            zest_regex_set_add_all(&all, &p->tree->set[node[one].set]);
    }
    uint32_t kept = keep_set(p, &all);
    p->tree->node[made].set = kept;
    p->tree->node[made].negated = (unsigned char)negated;
    return made;
}

/* (?i), (?-i), (?i:...): p->at is behind the question mark. Returns 1 for a group, 0 for a setting; *made: the group. */
static int parse_options(parser *p, uint32_t *made) {
    int on = 1, ignore_case = p->ignore_case, before = p->ignore_case;
    for (; more(p) && *p->at != ':' && *p->at != ')'; p->at++) {
        if (*p->at == '-')
            on = 0;
        else if (*p->at == 'i')
            ignore_case = on;
        else
            complain(p, *p->at == 'm' ? "the option (?m)" : "an unknown kind of group, (?...)");
    }
    if (!more(p)) {
        complain(p, "a ( without its )");
        return 0;
    }
    p->ignore_case = ignore_case;
    if (*p->at == ')') return 0;
    p->at++;
    *made = parse_choice(p);
    p->ignore_case = before;
    return 1;
}

static uint32_t parse_group(parser *p) {
    uint32_t made = 0;
    int outer = p->ignore_case, leads = p->at == p->opened;
    p->at++;
    if (++p->depth > ZEST_REGEX_DEPTH) complain(p, "groups within more than 50 others");
    if (stopped(p)) return 0;
    if (!next_is(p, "?")) {
        made = parse_choice(p);
    } else if (next_is(p, "?=") || next_is(p, "?!")) {
        p->at += 2;
        made = parse_lookahead(p, p->at[-1] == '!');
    } else if (next_is(p, "?<") || next_is(p, "?>") || next_is(p, "?#") || next_is(p, "?(") ||
               next_is(p, "?~")) {
        complain(p, next_is(p, "?<=") || next_is(p, "?<!") ? "a lookbehind"
                    : next_is(p, "?>")                     ? "an atomic group, (?>...)"
                                                           : "an unknown kind of group, (?...)");
    } else {
        p->at++;
        if (!parse_options(p, &made)) { /* for the rest of the group around it */
            if (!leads) complain(p, "an option such as (?i) that is not at the start of a group");
            outer = p->ignore_case;
            made = add_node(p, ZEST_REGEX_EMPTY);
        }
    }
    p->ignore_case = outer;
    p->depth--;
    if (!next_is(p, ")")) complain(p, "a ( without its )");
    p->at += !stopped(p);
    return made;
}

static uint32_t word_edge(parser *p, int negated) {
    uint32_t made = add_node(p, ZEST_REGEX_WORD_EDGE);
    zest_regex_set words = {0};
    if (stopped(p)) return 0;
    zest_regex_set_add_shorthand(&words, 'w');
    p->tree->node[made].set = keep_set(p, &words);
    p->tree->node[made].negated = (unsigned char)negated;
    return made;
}

static uint32_t parse_escape(parser *p) {
    zest_regex_set set = {0};
    int cased = 0;
    p->at++;
    if (p->at >= p->end) {
        complain(p, "a backslash at its end");
        return 0;
    }
    if (parse_shorthand(p, &set, &cased)) {
        if (p->ignore_case && cased) complain(p, "(?i) with \\p{Lu}, \\p{Ll} or \\p{Lt}");
        return set_node(p, &set);
    }
    char letter = *p->at++;
    switch (letter) {
    case 'A': return add_node(p, ZEST_REGEX_TEXT_START);
    case 'z': return add_node(p, ZEST_REGEX_TEXT_END);
    case 'b':
    case 'B': return word_edge(p, letter == 'B');
    default: break;
    }
    uint32_t code = escaped(p, letter);
    return stopped(p) ? 0 : literal(p, code);
}

static uint32_t parse_atom(parser *p) {
    zest_regex_set set = {0};
    char c = *p->at;
    if (c != '\\' && !is_letter((unsigned char)c)) p->last = 0;
    switch (c) {
    case '(': return parse_group(p);
    case '\\': return parse_escape(p);
    case '[': parse_class(p, &set); return set_node(p, &set);
    case '.':
        p->at++;
        zest_regex_set_add(&set, '\n', '\n');
        zest_regex_set_invert(&set);
        return set_node(p, &set);
    case '^': p->at++; return add_node(p, ZEST_REGEX_LINE_START);
    case '$': p->at++; return add_node(p, ZEST_REGEX_LINE_END);
    case '*':
    case '+':
    case '?': complain(p, "a repetition of nothing"); return 0;
    default: return literal(p, read_character(p));
    }
}

/* ---- Repetitions ---- */

/* {n}, {n,}, {n,m}; 0: it is no repetition but the character. */
static int parse_counts(parser *p, uint32_t *min, uint32_t *max) {
    const char *at = p->at + 1;
    uint32_t value[2] = {0, UINT32_MAX};
    int digits = 0, part = 0;
    for (; at < p->end && *at != '}'; at++) {
        if (*at == ',' && !part) {
            if (!digits) complain(p, "{,m} without a lower bound");
            part = 1, digits = 0;
        } else if (*at >= '0' && *at <= '9') {
            if (!digits++) value[part] = 0;
            value[part] = value[part] < 100000 ? value[part] * 10 + (uint32_t)(*at - '0') : value[part];
        } else {
            return 0;
        }
    }
    if (at == p->end || (!digits && !part)) return 0;
    *min = value[0];
    *max = part ? value[1] : value[0];
    if (*max < *min) complain(p, "{n,m} with m below n");
    if (*min > ZEST_REGEX_REPEATS || (*max != UINT32_MAX && *max > ZEST_REGEX_REPEATS))
        complain(p, "a repetition of more than 255 times");
    p->at = at + 1;
    if (!part && next_is(p, "?")) complain(p, "{n}?");
    return 1;
}

static uint32_t repeat(parser *p, uint32_t child, uint32_t min, uint32_t max) {
    uint32_t made = add_node(p, ZEST_REGEX_REPEAT);
    if (stopped(p)) return 0;
    zest_regex_node *node = p->tree->node;
    if (node[child].nullable && max == UINT32_MAX) complain(p, "the repetition of what may be empty");
    node[made].first = child, node[made].min = min, node[made].max = max;
    node[made].nullable = node[child].nullable || !min;
    return made;
}

static uint32_t parse_repeats(parser *p, uint32_t atom) {
    for (int stacked = 0; more(p); stacked++) {
        uint32_t min = *p->at == '+', max = *p->at == '?' ? 1 : UINT32_MAX;
        int braces = *p->at == '{';
        if (!braces && *p->at != '*' && *p->at != '+' && *p->at != '?') break;
        if (braces && !parse_counts(p, &min, &max)) break;
        if (!braces) p->at++;
        p->last = 0;
        if (stacked == 4) complain(p, "more than four repetitions of one thing");
        int lazy = next_is(p, "?"), possessive = !braces && next_is(p, "+");
        if (lazy || possessive) p->at++;
        if (!stopped(p) && possessive && p->tree->node[atom].kind != ZEST_REGEX_SET)
            complain(p, "a possessive repetition of a group");
        if (stopped(p)) return 0;
        atom = repeat(p, atom, min, max);
        if (stopped(p)) return 0;
        p->tree->node[atom].lazy = (unsigned char)lazy;
        p->tree->node[atom].possessive = (unsigned char)possessive;
    }
    return atom;
}

static uint32_t parse_sequence(parser *p) {
    uint32_t made = add_node(p, ZEST_REGEX_SEQUENCE), last = 0;
    int nullable = 1;
    p->last = 0;
    while (more(p) && *p->at != '|' && *p->at != ')') {
        uint32_t one = parse_atom(p);
        if (more(p)) one = parse_repeats(p, one);
        if (stopped(p)) return 0;
        zest_regex_node *node = p->tree->node;
        nullable &= node[one].nullable;
        if (last)
            node[last].next = one;
        else
            node[made].first = one;
        last = one;
    }
    if (stopped(p)) return 0;
    zest_regex_node *node = p->tree->node;
    node[made].nullable = (unsigned char)nullable;
    return last && last == node[made].first ? last : made;
}

static uint32_t parse_choice(parser *p) {
    const char *outer = p->opened;
    p->opened = p->at;
    uint32_t first = parse_sequence(p), last = first, made = 0;
    while (more(p) && *p->at == '|') {
        p->at++;
        if (!made) made = add_node(p, ZEST_REGEX_CHOICE);
        uint32_t one = parse_sequence(p);
        if (stopped(p)) return 0;
        zest_regex_node *node = p->tree->node;
        node[made].first = first;
        node[made].nullable = node[first].nullable;
        node[last].next = one;
        last = one;
    }
    p->opened = outer;
    if (stopped(p)) return 0;
    zest_regex_node *node = p->tree->node;
    if (!made) return first;
    node[made].nullable = 0;
    for (uint32_t i = first; i; i = node[i].next) node[made].nullable |= node[i].nullable;
    return made;
}

void zest_regex_parse(zest_regex_tree *tree, const char *pattern, size_t size) {
    parser p = {.tree = tree, .start = pattern, .at = pattern, .end = pattern + size};
    *tree = (zest_regex_tree){0};
    uint32_t root = add_node(&p, ZEST_REGEX_SEQUENCE);
    uint32_t all = stopped(&p) ? 0 : parse_choice(&p);
    if (p.at < p.end) complain(&p, "a ) without its (");
    if (stopped(&p)) return;
    tree->node[root].first = all;
    tree->node[root].nullable = tree->node[all].nullable;
}

void zest_regex_tree_free(zest_regex_tree *tree) {
    for (size_t i = 0; i < tree->sets; i++) zest_regex_set_free(&tree->set[i]);
    free(tree->node);
    *tree = (zest_regex_tree){0};
}
