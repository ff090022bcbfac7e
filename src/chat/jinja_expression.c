/* Expressions of Jinja as nodes: one function for each level of precedence, as in Jinja's own grammar. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "chat/jinja_parser.h"

#define WORD ZEST_JINJA_WORD
#define SIGN ZEST_JINJA_SIGN
#define sees zest_jinja_parser_sees
#define accept zest_jinja_parser_accept
#define expect zest_jinja_parser_expect

typedef zest_jinja_parser parser;
typedef zest_jinja_node node;

static node *unary(parser *p, int with_filters);
static node *or_expression(parser *p);

static node *wrap(parser *p, zest_jinja_node_kind kind, node *first) {
    node *made = zest_jinja_parser_node(p, kind);
    zest_jinja_parser_add(p, made, first);
    return made;
}

static node *expression(parser *p) { return zest_jinja_parser_expression(p, 1); }

/* ---- Literals ---- */

static node *literal(parser *p, zest_jinja_value value) {
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_LITERAL);
    if (made) made->value = value;
    return made;
}

/* Digits without the underscores that may stand between them. */
static node *number(parser *p) {
    char digits[64];
    size_t size = 0;
    const zest_jinja_token *token = p->at;
    for (size_t i = 0; i < token->text.size && size < sizeof digits - 1; i++)
        if (token->text.data[i] != '_') digits[size++] = token->text.data[i];
    digits[size] = '\0';
    int64_t integer;
    if (size == sizeof digits - 1) return zest_jinja_parser_fail(p, "a number has too many digits");
    if (token->kind == ZEST_JINJA_REAL) return literal(p, zest_jinja_real(zest_number_parse(digits, NULL)));
    if (!zest_integer_parse(digits, 0, INT64_MAX, &integer))
        return zest_jinja_parser_fail(p, "the number %s is too large", digits);
    return literal(p, zest_jinja_integer(integer));
}

/* Strings behind each other are one. */
static node *string(parser *p) {
    zest_jinja_text text = p->at->text;
    while (p->at[1].kind == ZEST_JINJA_QUOTED) {
        zest_jinja_text more = p->at[1].text;
        char *joined = zest_jinja_arena_new(&p->jinja->arena, text.size + more.size + 1);
        if (!joined) return zest_jinja_parser_fail(p, "not enough memory");
        memcpy(joined, text.data, text.size);
        memcpy(joined + text.size, more.data, more.size);
        text = (zest_jinja_text){joined, text.size + more.size};
        p->at++;
    }
    return literal(p, zest_jinja_string(text.data, text.size));
}

static node *word(parser *p) {
    const zest_jinja_text name = p->at->text;
    if (zest_jinja_text_is(name, "true") || zest_jinja_text_is(name, "True"))
        return literal(p, zest_jinja_boolean(1));
    if (zest_jinja_text_is(name, "false") || zest_jinja_text_is(name, "False"))
        return literal(p, zest_jinja_boolean(0));
    if (zest_jinja_text_is(name, "none") || zest_jinja_text_is(name, "None"))
        return literal(p, zest_jinja_none());
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_NAME);
    if (made) made->name = name;
    return made;
}

/* What follows "(", "[" or "{" up to the closing bracket. */
static node *items(parser *p, zest_jinja_node_kind kind, const char *close) {
    node *made = zest_jinja_parser_node(p, kind);
    while (!p->status && !sees(p, SIGN, close)) {
        zest_jinja_parser_add(p, made, expression(p));
        if (kind == ZEST_JINJA_NODE_DICT) {
            expect(p, SIGN, ":");
            zest_jinja_parser_add(p, made, expression(p));
        }
        if (!accept(p, SIGN, ",")) break;
    }
    expect(p, SIGN, close);
    return made;
}

static node *parentheses(parser *p) {
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_TUPLE), *first;
    if (accept(p, SIGN, ")")) return made;
    first = expression(p);
    if (accept(p, SIGN, ")")) return first;
    zest_jinja_parser_add(p, made, first);
    while (accept(p, SIGN, ",") && !sees(p, SIGN, ")")) zest_jinja_parser_add(p, made, expression(p));
    expect(p, SIGN, ")");
    return made;
}

static node *primary(parser *p) {
    node *made = NULL;
    switch (p->at->kind) {
    case ZEST_JINJA_WORD: made = word(p); break;
    case ZEST_JINJA_QUOTED: made = string(p); break;
    case ZEST_JINJA_INTEGER:
    case ZEST_JINJA_REAL: made = number(p); break;
    default:
        if (accept(p, SIGN, "(")) return parentheses(p);
        if (accept(p, SIGN, "[")) return items(p, ZEST_JINJA_NODE_LIST, "]");
        if (accept(p, SIGN, "{")) return items(p, ZEST_JINJA_NODE_DICT, "}");
        return zest_jinja_parser_fail(p, "a value is expected here");
    }
    if (!p->status) p->at++;
    return made;
}

/* ---- Calls and subscripts ---- */

/* Arguments up to ")". */
static void arguments(parser *p, node *call) {
    while (!p->status && !sees(p, SIGN, ")")) {
        if (sees(p, SIGN, "*") || sees(p, SIGN, "**")) {
            zest_jinja_parser_fail(p, "arguments with * or ** are not supported");
            return;
        }
        if (p->at->kind == WORD && p->at[1].kind == SIGN && zest_jinja_text_is(p->at[1].text, "=")) {
            node *keyword = zest_jinja_parser_node(p, ZEST_JINJA_NODE_KEYWORD);
            if (keyword) keyword->name = p->at->text;
            p->at += 2;
            zest_jinja_parser_add(p, keyword, expression(p));
            zest_jinja_parser_add(p, call, keyword);
        } else {
            zest_jinja_parser_add(p, call, expression(p));
        }
        if (!accept(p, SIGN, ",")) break;
    }
    expect(p, SIGN, ")");
}

static node *slice_or_index(parser *p) {
    node *part[3] = {NULL, NULL, NULL};
    int colons = 0;
    for (int i = 0; i < 3 && !p->status; i++) {
        if (!sees(p, SIGN, ":") && !sees(p, SIGN, "]")) part[i] = expression(p);
        if (i == 2 || !accept(p, SIGN, ":")) break;
        colons++;
    }
    if (!colons) return part[0] ? part[0] : zest_jinja_parser_fail(p, "an empty subscript");
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_SLICE);
    for (int i = 0; i < 3; i++) zest_jinja_parser_add(p, made, part[i]);
    return made;
}

static node *postfix(parser *p, node *value) {
    while (!p->status) {
        if (accept(p, SIGN, ".")) {
            if (p->at->kind != WORD) return zest_jinja_parser_fail(p, "a name is expected behind the dot");
            value = wrap(p, ZEST_JINJA_NODE_ATTRIBUTE, value);
            if (value) value->name = p->at++->text;
        } else if (accept(p, SIGN, "[")) {
            value = wrap(p, ZEST_JINJA_NODE_SUBSCRIPT, value);
            zest_jinja_parser_add(p, value, slice_or_index(p));
            expect(p, SIGN, "]");
        } else if (accept(p, SIGN, "(")) {
            value = wrap(p, ZEST_JINJA_NODE_CALL, value);
            if (value) arguments(p, value);
        } else {
            break;
        }
    }
    return value;
}

/* ---- Filters and tests ---- */

static node *filter(parser *p, node *value) {
    if (p->at->kind != WORD) return zest_jinja_parser_fail(p, "the name of a filter is expected behind |");
    node *made = wrap(p, ZEST_JINJA_NODE_FILTER, value);
    if (made) made->name = p->at++->text;
    if (sees(p, SIGN, "."))
        return zest_jinja_parser_fail(p, "a filter with a dot in its name is not supported");
    if (made && accept(p, SIGN, "(")) arguments(p, made);
    return made;
}

zest_jinja_node *zest_jinja_parser_filters(zest_jinja_parser *p, zest_jinja_node *value) {
    while (!p->status && accept(p, SIGN, "|")) value = filter(p, value);
    return value;
}

/* Whether the token begins the argument of a test without brackets: `x is divisibleby 3`. */
static int begins_argument(const parser *p) {
    static const char *const not_arguments[] = {"else", "or", "and", "if", "is", "in", "not"};
    if (p->at->kind == SIGN) return sees(p, SIGN, "(") || sees(p, SIGN, "[") || sees(p, SIGN, "{");
    for (size_t i = 0; i < sizeof not_arguments / sizeof *not_arguments; i++)
        if (sees(p, WORD, not_arguments[i])) return 0;
    return p->at->kind == WORD || p->at->kind == ZEST_JINJA_QUOTED || p->at->kind == ZEST_JINJA_INTEGER ||
           p->at->kind == ZEST_JINJA_REAL;
}

static node *test(parser *p, node *value) {
    int negated = accept(p, WORD, "not");
    if (p->at->kind != WORD) return zest_jinja_parser_fail(p, "the name of a test is expected behind \"is\"");
    node *made = wrap(p, ZEST_JINJA_NODE_TEST, value);
    if (made) made->name = p->at++->text;
    if (made && accept(p, SIGN, "("))
        arguments(p, made);
    else if (begins_argument(p))
        zest_jinja_parser_add(p, made, postfix(p, primary(p)));
    return negated ? wrap(p, ZEST_JINJA_NODE_NOT, made) : made;
}

static node *filters_and_tests(parser *p, node *value) {
    while (!p->status) {
        if (accept(p, SIGN, "|"))
            value = filter(p, value);
        else if (accept(p, WORD, "is"))
            value = test(p, value);
        else if (accept(p, SIGN, "(")) { /* the result of a filter is called */
            value = wrap(p, ZEST_JINJA_NODE_CALL, value);
            if (value) arguments(p, value);
        } else
            break;
    }
    return value;
}

/* ---- Operators, from the strongest to the weakest ---- */

static node *unary(parser *p, int with_filters) {
    node *value;
    if (!zest_jinja_parser_enter(p)) return NULL;
    if (accept(p, SIGN, "-"))
        value = wrap(p, ZEST_JINJA_NODE_MINUS, unary(p, 0));
    else if (accept(p, SIGN, "+"))
        value = wrap(p, ZEST_JINJA_NODE_PLUS, unary(p, 0));
    else
        value = primary(p);
    value = postfix(p, value);
    if (with_filters) value = filters_and_tests(p, value);
    p->depth--;
    return value;
}

static node *unary_with_filters(parser *p) { return unary(p, 1); }

/* Operators of one level, from left to right. */
static node *binary(parser *p, node *(*operand)(parser *), const char *const *signs, size_t count) {
    node *left = operand(p);
    while (!p->status) {
        size_t i = 0;
        while (i < count && !sees(p, SIGN, signs[i])) i++;
        if (i == count) break;
        left = wrap(p, ZEST_JINJA_NODE_BINARY, left);
        if (left) left->name = p->at->text;
        p->at++;
        zest_jinja_parser_add(p, left, operand(p));
    }
    return left;
}

static node *power(parser *p) {
    static const char *const signs[] = {"**"};
    return binary(p, unary_with_filters, signs, 1);
}

static node *product(parser *p) {
    static const char *const signs[] = {"*", "/", "//", "%"};
    return binary(p, power, signs, 4);
}

static node *concatenation(parser *p) {
    static const char *const signs[] = {"~"};
    return binary(p, product, signs, 1);
}

static node *sum(parser *p) {
    static const char *const signs[] = {"+", "-"};
    return binary(p, concatenation, signs, 2);
}

/* The operator of a comparison, with its tokens passed; data NULL: none. */
static zest_jinja_text comparison(parser *p) {
    static const char *const signs[] = {"==", "!=", "<=", ">=", "<", ">"};
    const zest_jinja_token *token = p->at;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (accept(p, SIGN, signs[i])) return token->text;
    if (accept(p, WORD, "in")) return token->text;
    if (sees(p, WORD, "not") && token[1].kind == WORD && zest_jinja_text_is(token[1].text, "in")) {
        p->at += 2;
        return token->text;
    }
    return (zest_jinja_text){0};
}

static node *compare(parser *p) {
    node *left = sum(p), *made = NULL;
    zest_jinja_text operation;
    while (!p->status && (operation = comparison(p)).data) {
        node *name = zest_jinja_parser_node(p, ZEST_JINJA_NODE_NAME);
        if (name) name->name = operation;
        if (!made) made = wrap(p, ZEST_JINJA_NODE_COMPARE, left);
        zest_jinja_parser_add(p, made, name);
        zest_jinja_parser_add(p, made, sum(p));
    }
    return made ? made : left;
}

static node *not_expression(parser *p) {
    if (!sees(p, WORD, "not")) return compare(p);
    if (!zest_jinja_parser_enter(p)) return NULL;
    p->at++;
    node *made = wrap(p, ZEST_JINJA_NODE_NOT, not_expression(p));
    p->depth--;
    return made;
}

static node *and_expression(parser *p) {
    node *left = not_expression(p);
    while (!p->status && accept(p, WORD, "and")) {
        left = wrap(p, ZEST_JINJA_NODE_AND, left);
        zest_jinja_parser_add(p, left, not_expression(p));
    }
    return left;
}

static node *or_expression(parser *p) {
    node *left = and_expression(p);
    while (!p->status && accept(p, WORD, "or")) {
        left = wrap(p, ZEST_JINJA_NODE_OR, left);
        zest_jinja_parser_add(p, left, and_expression(p));
    }
    return left;
}

zest_jinja_node *zest_jinja_parser_expression(zest_jinja_parser *p, int with_condition) {
    if (!zest_jinja_parser_enter(p)) return NULL;
    node *value = or_expression(p);
    while (!p->status && with_condition && accept(p, WORD, "if")) {
        node *made = wrap(p, ZEST_JINJA_NODE_CONDITION, or_expression(p));
        zest_jinja_parser_add(p, made, value);
        zest_jinja_parser_add(p, made, accept(p, WORD, "else") ? expression(p) : NULL);
        value = made;
    }
    p->depth--;
    return value;
}

static int ends_tag(const parser *p) {
    return p->at->kind == ZEST_JINJA_BLOCK_END || p->at->kind == ZEST_JINJA_OUTPUT_END;
}

zest_jinja_node *zest_jinja_parser_tuple(zest_jinja_parser *p, int with_condition) {
    node *first = zest_jinja_parser_expression(p, with_condition);
    if (!sees(p, SIGN, ",")) return first;
    node *made = wrap(p, ZEST_JINJA_NODE_TUPLE, first);
    while (!p->status && accept(p, SIGN, ",") && !ends_tag(p))
        zest_jinja_parser_add(p, made, zest_jinja_parser_expression(p, with_condition));
    return made;
}
