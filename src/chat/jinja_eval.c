/* Evaluation of Jinja's expressions. */
#include <string.h>

#include "chat/jinja_internal.h"

typedef zest_jinja_value value;
typedef zest_jinja_state state;
typedef zest_jinja_text text;
typedef zest_jinja_node node;
typedef zest_jinja_scope scope;

#define evaluate zest_jinja_evaluate

static value name(state *s, const scope *from, text word) {
    value found;
    if (zest_jinja_lookup(s, from, word, &found)) return found;
    if (zest_jinja_is_function(word, s->input)) return (value){.kind = ZEST_JINJA_FUNCTION, .text = word};
    return zest_jinja_undefined(word);
}

static value items(state *s, scope *from, const node *n) {
    value made =
        zest_jinja_new_list(s, n->kind == ZEST_JINJA_NODE_TUPLE ? ZEST_JINJA_TUPLE : ZEST_JINJA_LIST);
    for (size_t i = 0; i < n->count && !s->status; i++)
        zest_jinja_append(s, made.list, evaluate(s, from, n->kid[i]));
    return made;
}

static value members(state *s, scope *from, const node *n) {
    value made = zest_jinja_new_dict(s, ZEST_JINJA_DICT);
    for (size_t i = 0; i + 1 < n->count && !s->status; i += 2) {
        value key = evaluate(s, from, n->kid[i]), item = evaluate(s, from, n->kid[i + 1]);
        if (!s->status) zest_jinja_dict_set(s, made.dict, key, item);
    }
    return made;
}

static value negative(state *s, value v) {
    if (v.kind == ZEST_JINJA_FLOAT) return zest_jinja_real(-v.real);
    return zest_jinja_binary(s, (text){"-", 1}, zest_jinja_integer(0), v);
}

/* One comparison of a chain. */
static int compares(state *s, text operation, value a, value b) {
    if (zest_jinja_text_is(operation, "==")) return zest_jinja_equal(s, a, b);
    if (zest_jinja_text_is(operation, "!=")) return !zest_jinja_equal(s, a, b);
    if (zest_jinja_text_is(operation, "in")) return zest_jinja_contains(s, b, a);
    if (zest_jinja_text_is(operation, "not")) return !zest_jinja_contains(s, b, a);
    int order = zest_jinja_order(s, a, b);
    if (operation.data[0] == '<') return operation.size == 1 ? order < 0 : order <= 0;
    return operation.size == 1 ? order > 0 : order >= 0;
}

static value compare(state *s, scope *from, const node *n) {
    value left = evaluate(s, from, n->kid[0]);
    for (size_t i = 1; i + 1 < n->count && !s->status; i += 2) {
        value right = evaluate(s, from, n->kid[i + 1]);
        if (s->status || !compares(s, n->kid[i]->name, left, right)) return zest_jinja_boolean(0);
        left = right;
    }
    return zest_jinja_boolean(1);
}

/* The arguments of a call, from kid `first` on. */
static int arguments_of(state *s, scope *from, const node *n, size_t first, zest_jinja_arguments *out) {
    size_t count = n->count - first;
    *out = (zest_jinja_arguments){zest_jinja_new(s, (count + 1) * sizeof(value)), NULL, count};
    if (out->value) out->name = zest_jinja_new(s, (count + 1) * sizeof(text));
    for (size_t i = 0; i < count && !s->status; i++) {
        const node *argument = n->kid[first + i];
        int keyword = argument->kind == ZEST_JINJA_NODE_KEYWORD;
        if (keyword) out->name[i] = argument->name;
        out->value[i] = evaluate(s, from, keyword ? argument->kid[0] : argument);
    }
    return !s->status;
}

static value filter(state *s, scope *from, const node *n) {
    zest_jinja_arguments arguments;
    value v = evaluate(s, from, n->kid[0]);
    if (s->status || !arguments_of(s, from, n, 1, &arguments)) return v;
    s->line = n->line;
    return zest_jinja_filter(s, n->name, v, &arguments);
}

static value test(state *s, scope *from, const node *n) {
    zest_jinja_arguments arguments;
    value v = evaluate(s, from, n->kid[0]);
    if (s->status || !arguments_of(s, from, n, 1, &arguments)) return v;
    s->line = n->line;
    return zest_jinja_boolean(zest_jinja_test(s, n->name, v, &arguments));
}

static value call(state *s, scope *from, const node *n) {
    zest_jinja_arguments arguments;
    value callee = evaluate(s, from, n->kid[0]);
    if (s->status || !arguments_of(s, from, n, 1, &arguments)) return callee;
    s->line = n->line;
    return zest_jinja_call(s, callee, &arguments);
}

static value subscript(state *s, scope *from, const node *n) {
    value object = evaluate(s, from, n->kid[0]), part[3];
    const node *index = n->kid[1];
    if (index->kind != ZEST_JINJA_NODE_SLICE) {
        value key = evaluate(s, from, index);
        return s->status ? key : zest_jinja_subscript(s, object, key);
    }
    for (int i = 0; i < 3; i++)
        part[i] = index->kid[i] ? evaluate(s, from, index->kid[i]) : zest_jinja_none();
    return s->status ? object : zest_jinja_slice(s, object, part);
}

static value operation(state *s, scope *from, const node *n) {
    value a = evaluate(s, from, n->kid[0]), b = evaluate(s, from, n->kid[1]);
    s->line = n->line;
    return s->status ? a : zest_jinja_binary(s, n->name, a, b);
}

static value either(state *s, scope *from, const node *n, int stop_at) {
    value left = evaluate(s, from, n->kid[0]);
    return s->status || zest_jinja_truth(left) == stop_at ? left : evaluate(s, from, n->kid[1]);
}

static value condition(state *s, scope *from, const node *n) {
    value truth = evaluate(s, from, n->kid[0]);
    if (s->status) return truth;
    if (zest_jinja_truth(truth)) return evaluate(s, from, n->kid[1]);
    return n->kid[2] ? evaluate(s, from, n->kid[2])
                     : zest_jinja_undefined((text){"the value without an else", 25});
}

static value attribute(state *s, scope *from, const node *n) {
    value object = evaluate(s, from, n->kid[0]);
    s->line = n->line;
    return s->status ? object : zest_jinja_attribute(s, object, n->name);
}

static value evaluate_kind(state *s, scope *from, const node *n) {
    switch (n->kind) {
    case ZEST_JINJA_NODE_LITERAL: return n->value;
    case ZEST_JINJA_NODE_NAME: return name(s, from, n->name);
    case ZEST_JINJA_NODE_LIST:
    case ZEST_JINJA_NODE_TUPLE: return items(s, from, n);
    case ZEST_JINJA_NODE_DICT: return members(s, from, n);
    case ZEST_JINJA_NODE_NOT: return zest_jinja_boolean(!zest_jinja_truth(evaluate(s, from, n->kid[0])));
    case ZEST_JINJA_NODE_MINUS: return negative(s, evaluate(s, from, n->kid[0]));
    case ZEST_JINJA_NODE_PLUS:
        return zest_jinja_binary(s, (text){"+", 1}, zest_jinja_integer(0), evaluate(s, from, n->kid[0]));
    case ZEST_JINJA_NODE_AND: return either(s, from, n, 0);
    case ZEST_JINJA_NODE_OR: return either(s, from, n, 1);
    case ZEST_JINJA_NODE_BINARY: return operation(s, from, n);
    case ZEST_JINJA_NODE_COMPARE: return compare(s, from, n);
    case ZEST_JINJA_NODE_CONDITION: return condition(s, from, n);
    case ZEST_JINJA_NODE_FILTER: return filter(s, from, n);
    case ZEST_JINJA_NODE_TEST: return test(s, from, n);
    case ZEST_JINJA_NODE_CALL: return call(s, from, n);
    case ZEST_JINJA_NODE_ATTRIBUTE: return attribute(s, from, n);
    case ZEST_JINJA_NODE_SUBSCRIPT: return subscript(s, from, n);
    default: return zest_jinja_fail(s, "this is no expression");
    }
}

value zest_jinja_evaluate(state *s, scope *from, const node *n) {
    s->line = n->line;
    if (!zest_jinja_charge(s, 1, 0)) return zest_jinja_none();
    if (++s->depth > 8 * ZEST_JINJA_MAX_DEPTH) return zest_jinja_fail(s, "an expression is nested too deep");
    value made = evaluate_kind(s, from, n);
    s->depth--;
    return made;
}
