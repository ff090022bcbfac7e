/* Rendering: the statements of Jinja, its scopes of variables, and its limits. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_internal.h"

typedef zest_jinja_value value;
typedef zest_jinja_state state;
typedef zest_jinja_text text;
typedef zest_jinja_node node;
typedef zest_jinja_scope scope;

/* ---- Limits and errors ---- */

value zest_jinja_fail(state *s, const char *format, ...) {
    char sentence[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (!s->status) s->status = zest_jinja_refuse(s->jinja->name, s->line, s->error, "%s", sentence);
    return zest_jinja_none();
}

int zest_jinja_charge(state *s, size_t steps, size_t bytes) {
    if (s->status) return 0;
    s->work += 64 * (uint64_t)steps + bytes;
    if (s->work <= 64 * (uint64_t)ZEST_JINJA_MAX_STEPS) return 1;
    zest_jinja_fail(s, "takes more than %d steps; the template is damaged or hostile", ZEST_JINJA_MAX_STEPS);
    return 0;
}

void *zest_jinja_new(state *s, size_t bytes) {
    if (!zest_jinja_charge(s, 0, bytes)) return NULL;
    void *memory = zest_jinja_arena_new(&s->arena, bytes);
    if (!memory)
        zest_jinja_fail(s,
                        "needs more than %zu bytes; the template is damaged or hostile, or memory is short",
                        s->arena.limit);
    return memory;
}

/* ---- Variables ---- */

typedef struct binding binding;

struct binding {
    text name;
    value value;
    binding *next;
};

struct zest_jinja_scope {
    scope *parent;
    binding *first;
};

static scope *new_scope(state *s, scope *parent) {
    scope *made = zest_jinja_new(s, sizeof *made);
    if (made) made->parent = parent;
    return made;
}

static int same(text a, text b) { return a.size == b.size && !memcmp(a.data, b.data, a.size); }

static binding *find(state *s, const scope *in, text name) {
    for (binding *b = in->first; b && zest_jinja_charge(s, 0, 4); b = b->next)
        if (same(b->name, name)) return b;
    return NULL;
}

int zest_jinja_lookup(state *s, const scope *from, text name, value *out) {
    for (; from; from = from->parent) {
        const binding *b = find(s, from, name);
        if (b) return *out = b->value, 1;
    }
    return 0;
}

static void bind(state *s, scope *in, text name, value v) {
    if (s->status) return;
    binding *b = find(s, in, name);
    if (!b) {
        b = zest_jinja_new(s, sizeof *b);
        if (!b) return;
        *b = (binding){.name = name, .next = in->first};
        in->first = b;
    }
    b->value = v;
}

/* Sets a name, an attribute of a namespace, or several names to the elements of a list. */
static void assign(state *s, scope *in, const node *target, value v) {
    if (s->status) return;
    s->line = target->line;
    if (target->kind == ZEST_JINJA_NODE_NAME) {
        bind(s, in, target->name, v);
    } else if (target->kind == ZEST_JINJA_NODE_ATTRIBUTE) {
        value object = zest_jinja_evaluate(s, in, target->kid[0]);
        if (object.kind == ZEST_JINJA_NAMESPACE)
            zest_jinja_dict_set(s, object.dict, zest_jinja_string(target->name.data, target->name.size), v);
        else
            zest_jinja_fail(s, "only attributes of a namespace can be set");
    } else {
        const zest_jinja_list *items = zest_jinja_elements(s, v);
        if (!s->status && items->count != target->count)
            zest_jinja_fail(s, "%zu values for %zu names", items->count, target->count);
        for (size_t i = 0; i < target->count && !s->status; i++)
            assign(s, in, target->kid[i], items->item[i]);
    }
}

/* ---- Statements ---- */

typedef enum { NEXT, BREAK, CONTINUE } flow;

static flow run(state *s, scope *in, const node *n);

/* The text of a body, as a value. */
static value capture(state *s, scope *in, const node *body) {
    zest_buffer out = {0}, *before = s->out;
    zest_buffer_add(&out, "", 0);
    s->out = &out;
    run(s, in, body);
    s->out = before;
    return zest_jinja_from_buffer(s, &out);
}

static void output(state *s, scope *in, const node *n) {
    const node *what = n->kid[0];
    /* text that is marked as safe prints as any other, but escapes what is added to it */
    if (what->kind == ZEST_JINJA_NODE_FILTER && zest_jinja_text_is(what->name, "safe") && what->count == 1)
        what = what->kid[0];
    value v = zest_jinja_evaluate(s, in, what);
    if (!s->status) zest_jinja_print(s, v, s->out);
    if (s->out->failed) zest_jinja_fail(s, "not enough memory");
}

static flow choose(state *s, scope *in, const node *n) {
    size_t i = 0;
    for (; i + 1 < n->count && !s->status; i += 2)
        if (zest_jinja_truth(zest_jinja_evaluate(s, in, n->kid[i]))) return run(s, in, n->kid[i + 1]);
    return i < n->count && !s->status ? run(s, in, n->kid[i]) : NEXT;
}

/* The elements of the iterable that its filter keeps. */
static const zest_jinja_list *filtered(state *s, scope *in, const node *n) {
    const zest_jinja_list *all = zest_jinja_elements(s, zest_jinja_evaluate(s, in, n->kid[1]));
    if (s->status || !n->kid[2]) return all;
    value kept = zest_jinja_new_list(s, ZEST_JINJA_LIST);
    for (size_t i = 0; !s->status && i < all->count; i++) {
        scope *inner = new_scope(s, in);
        if (s->status) break;
        assign(s, inner, n->kid[0], all->item[i]);
        if (!s->status && zest_jinja_truth(zest_jinja_evaluate(s, inner, n->kid[2])))
            zest_jinja_append(s, kept.list, all->item[i]);
    }
    return kept.list;
}

static void loop(state *s, scope *in, const node *n) {
    static const text name = {"loop", 4};
    const zest_jinja_list *items = filtered(s, in, n);
    zest_jinja_loop *self = s->status ? NULL : zest_jinja_new(s, sizeof *self);
    if (!self) return;
    *self = (zest_jinja_loop){.items = items};
    for (size_t i = 0; i < items->count && !s->status; i++) {
        scope *inner = new_scope(s, in);
        if (s->status) break;
        self->index = i;
        bind(s, inner, name, (value){.kind = ZEST_JINJA_LOOP, .loop = self});
        assign(s, inner, n->kid[0], items->item[i]);
        if (!s->status && run(s, inner, n->kid[3]) == BREAK) break;
    }
    if (!items->count && n->kid[4] && !s->status) run(s, in, n->kid[4]);
}

static void define(state *s, scope *in, const node *n) {
    zest_jinja_macro *macro = zest_jinja_new(s, sizeof *macro);
    if (!macro) return;
    *macro = (zest_jinja_macro){n, in};
    bind(s, in, n->name, (value){.kind = ZEST_JINJA_MACRO, .macro = macro});
}

static void with(state *s, scope *in, const node *n) {
    scope *inner = new_scope(s, in);
    for (size_t i = 1; i + 1 < n->count && !s->status; i += 2)
        assign(s, inner, n->kid[i], zest_jinja_evaluate(s, in, n->kid[i + 1]));
    if (!s->status) run(s, inner, n->kid[0]);
}

static void set_text(state *s, scope *in, const node *n) {
    scope *inner = new_scope(s, in);
    if (s->status) return;
    value v = capture(s, inner, n->kid[1]);
    /* filters of a block: a chain whose innermost argument is missing */
    const node *filter[ZEST_JINJA_MAX_DEPTH];
    size_t count = 0;
    for (const node *f = n->kid[2]; f && count < ZEST_JINJA_MAX_DEPTH; f = f->kid[0]) filter[count++] = f;
    while (count-- > 0 && !s->status) {
        zest_jinja_arguments none = {0};
        if (filter[count]->count > 1) zest_jinja_fail(s, "a filter with arguments behind {%% set %%}");
        v = zest_jinja_filter(s, filter[count]->name, v, &none);
    }
    assign(s, in, n->kid[0], v);
}

/* What the assistant says: its place in the whole text, if it goes there directly. */
static void generation(state *s, scope *in, const node *n) {
    size_t start = s->text->size - s->begin;
    scope *inner = new_scope(s, in);
    if (s->status) return;
    run(s, inner, n->kid[0]);
    if (s->out == s->text && s->input->spans)
        zest_jinja_spans_add(s->input->spans, start, s->text->size - s->begin);
}

static flow run_body(state *s, scope *in, const node *n) {
    flow now = NEXT;
    for (size_t i = 0; i < n->count && now == NEXT && !s->status; i++) now = run(s, in, n->kid[i]);
    return now;
}

static flow run_kind(state *s, scope *in, const node *n) {
    switch (n->kind) {
    case ZEST_JINJA_NODE_BODY: return run_body(s, in, n);
    case ZEST_JINJA_NODE_IF: return choose(s, in, n);
    case ZEST_JINJA_NODE_BREAK: return BREAK;
    case ZEST_JINJA_NODE_CONTINUE: return CONTINUE;
    case ZEST_JINJA_NODE_TEXT: zest_jinja_print(s, n->value, s->out); break;
    case ZEST_JINJA_NODE_OUTPUT: output(s, in, n); break;
    case ZEST_JINJA_NODE_FOR: loop(s, in, n); break;
    case ZEST_JINJA_NODE_SET: assign(s, in, n->kid[0], zest_jinja_evaluate(s, in, n->kid[1])); break;
    case ZEST_JINJA_NODE_CAPTURE: set_text(s, in, n); break;
    case ZEST_JINJA_NODE_MACRO: define(s, in, n); break;
    case ZEST_JINJA_NODE_WITH: with(s, in, n); break;
    case ZEST_JINJA_NODE_GENERATION: generation(s, in, n); break;
    default: zest_jinja_fail(s, "this is no statement");
    }
    return NEXT;
}

static flow run(state *s, scope *in, const node *n) {
    s->line = n->line;
    if (!zest_jinja_charge(s, 1, 0)) return NEXT;
    if (++s->depth > 8 * ZEST_JINJA_MAX_DEPTH) zest_jinja_fail(s, "statements are nested too deep");
    flow now = s->status ? NEXT : run_kind(s, in, n);
    s->depth--;
    return now;
}

value zest_jinja_call_macro(state *s, const zest_jinja_macro *macro, const zest_jinja_arguments *a) {
    const node *n = macro->node;
    size_t parameters = (n->count - 1) / 2, used = 0;
    scope *inner = new_scope(s, macro->scope);
    if (++s->calls > ZEST_JINJA_MAX_CALLS)
        return zest_jinja_fail(s, "macros call each other more than %d deep", ZEST_JINJA_MAX_CALLS);
    for (size_t i = 0; i < parameters && !s->status; i++) {
        const node *name = n->kid[1 + 2 * i], *fallback = n->kid[2 + 2 * i];
        value v = zest_jinja_undefined(name->name);
        char keyword[64];
        snprintf(keyword, sizeof keyword, "%.*s", (int)(name->name.size < 63 ? name->name.size : 63),
                 name->name.data);
        if (zest_jinja_argument(a, i, keyword, &v))
            used++;
        else if (fallback)
            v = zest_jinja_evaluate(s, inner, fallback);
        bind(s, inner, name->name, v);
    }
    if (!s->status && used < a->count)
        zest_jinja_fail(s, "the macro '%.*s' has no such parameter",
                        (int)(n->name.size < 40 ? n->name.size : 40), n->name.data);
    value made = s->status ? zest_jinja_none() : capture(s, inner, n->kid[0]);
    s->calls--;
    return made;
}

/* ---- The whole template ---- */

void zest_jinja_spans_add(zest_jinja_spans *spans, size_t start, size_t end) {
    if (spans->count == spans->capacity) {
        size_t capacity = spans->capacity ? 2 * spans->capacity : 16;
        zest_jinja_span *more = spans->failed ? NULL : realloc(spans->data, capacity * sizeof *more);
        if (!more) {
            spans->failed = 1;
            return;
        }
        spans->data = more;
        spans->capacity = capacity;
    }
    spans->data[spans->count++] = (zest_jinja_span){start, end};
}

void zest_jinja_spans_free(zest_jinja_spans *spans) {
    free(spans->data);
    *spans = (zest_jinja_spans){0};
}

/* Members of the variables become names; their keys live as long as the JSON. */
static void bind_variables(state *s, const json_t *variables) {
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)variables, key, member) {
        value v = zest_jinja_from_json(s, member);
        bind(s, s->root, (text){key, strlen(key)}, v);
    }
}

zest_status zest_jinja_render(const zest_jinja *jinja, const zest_jinja_input *input, zest_buffer *out,
                              zest_error *error) {
    zest_error local = {0};
    zest_buffer whole = {0};
    state s = {.jinja = jinja,
               .input = input,
               .arena = {.limit = ZEST_JINJA_MAX_BYTES},
               .out = &whole,
               .text = &whole,
               .line = 1,
               .error = error ? error : &local};
    zest_buffer_add(&whole, "", 0);
    s.root = new_scope(&s, NULL);
    if (!s.status) bind_variables(&s, input->variables);
    scope *top = s.status ? NULL : new_scope(&s, s.root);
    if (!s.status) run(&s, top, jinja->body);
    zest_jinja_arena_free(&s.arena);
    if (!s.status) zest_buffer_add(out, whole.data, whole.size);
    if (!s.status && (out->failed || whole.failed || (input->spans && input->spans->failed)))
        s.status = zest_error_memory(error, "a conversation", whole.size);
    zest_buffer_free(&whole);
    return s.status;
}
