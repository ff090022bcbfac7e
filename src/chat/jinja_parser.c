/* Statements of Jinja as nodes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_parser.h"

#define WORD ZEST_JINJA_WORD
#define SIGN ZEST_JINJA_SIGN
#define sees zest_jinja_parser_sees
#define accept zest_jinja_parser_accept
#define expect zest_jinja_parser_expect

typedef zest_jinja_parser parser;
typedef zest_jinja_node node;

enum { PARSE_LIMIT = 64 << 20 }; /* bytes of the nodes */

/* ---- Memory ---- */

struct zest_jinja_block {
    zest_jinja_block *next;
    size_t size, used;
    _Alignas(16) char data[];
};

void *zest_jinja_arena_new(zest_jinja_arena *arena, size_t bytes) {
    enum { BLOCK = 1 << 14 };
    zest_jinja_block *block = arena->blocks;
    if (bytes > arena->limit) return NULL;
    bytes = (bytes + 15) / 16 * 16;
    if (!block || block->size - block->used < bytes) {
        size_t size = bytes > BLOCK ? bytes : BLOCK;
        if (arena->used + size > arena->limit) return NULL;
        zest_jinja_block *fresh = malloc(sizeof *fresh + size);
        if (!fresh) return NULL;
        *fresh = (zest_jinja_block){.next = block, .size = size};
        arena->used += size;
        arena->blocks = block = fresh;
    }
    void *memory = block->data + block->used;
    block->used += bytes;
    return memset(memory, 0, bytes);
}

void zest_jinja_arena_free(zest_jinja_arena *arena) {
    for (zest_jinja_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    *arena = (zest_jinja_arena){0};
}

/* ---- What both files of the parser use ---- */

zest_jinja_node *zest_jinja_parser_fail(zest_jinja_parser *p, const char *format, ...) {
    char sentence[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (!p->status) p->status = zest_jinja_refuse(p->jinja->name, p->at->line, p->error, "%s", sentence);
    return NULL;
}

zest_jinja_node *zest_jinja_parser_node(zest_jinja_parser *p, zest_jinja_node_kind kind) {
    node *made = p->status ? NULL : zest_jinja_arena_new(&p->jinja->arena, sizeof *made);
    if (!made) return zest_jinja_parser_fail(p, "not enough memory");
    made->kind = kind;
    made->line = p->at->line;
    return made;
}

void zest_jinja_parser_add(zest_jinja_parser *p, zest_jinja_node *parent, zest_jinja_node *kid) {
    if (p->status) return;
    if (parent->count == parent->capacity) {
        size_t capacity = parent->capacity ? 2 * parent->capacity : 4;
        node **more = zest_jinja_arena_new(&p->jinja->arena, capacity * sizeof *more);
        if (!more) {
            zest_jinja_parser_fail(p, "not enough memory");
            return;
        }
        if (parent->count) memcpy(more, parent->kid, parent->count * sizeof *more);
        parent->kid = more;
        parent->capacity = capacity;
    }
    parent->kid[parent->count++] = kid;
}

int zest_jinja_parser_enter(zest_jinja_parser *p) {
    if (p->status) return 0;
    if (++p->depth <= ZEST_JINJA_MAX_DEPTH) return 1;
    zest_jinja_parser_fail(p, "statements or expressions are nested more than %d deep", ZEST_JINJA_MAX_DEPTH);
    return 0;
}

int zest_jinja_parser_sees(const zest_jinja_parser *p, zest_jinja_token_kind kind, const char *text) {
    return !p->status && p->at->kind == kind && zest_jinja_text_is(p->at->text, text);
}

int zest_jinja_parser_accept(zest_jinja_parser *p, zest_jinja_token_kind kind, const char *text) {
    if (!sees(p, kind, text)) return 0;
    p->at++;
    return 1;
}

int zest_jinja_parser_expect(zest_jinja_parser *p, zest_jinja_token_kind kind, const char *text) {
    if (accept(p, kind, text)) return 1;
    zest_jinja_parser_fail(p, "'%s' is expected here", text);
    return 0;
}

/* ---- Targets of assignments ---- */

static node *name_node(parser *p) {
    if (p->at->kind != WORD) return zest_jinja_parser_fail(p, "the name of a variable is expected here");
    if (sees(p, WORD, "loop")) return zest_jinja_parser_fail(p, "a variable called loop is not supported");
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_NAME);
    if (made) made->name = p->at++->text;
    return made;
}

/* A name, name.attribute (of a namespace), or names with commas between them. */
static node *target(parser *p, int with_namespace) {
    node *first = name_node(p);
    if (with_namespace && accept(p, SIGN, ".")) {
        node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_ATTRIBUTE);
        zest_jinja_parser_add(p, made, first);
        if (p->at->kind != WORD) return zest_jinja_parser_fail(p, "a name is expected behind the dot");
        if (made) made->name = p->at++->text;
        return made;
    }
    if (!sees(p, SIGN, ",")) return first;
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_TUPLE);
    zest_jinja_parser_add(p, made, first);
    while (accept(p, SIGN, ",") && p->at->kind == WORD && !sees(p, WORD, "in"))
        zest_jinja_parser_add(p, made, name_node(p));
    return made;
}

/* ---- Statements ---- */

static node *body(parser *p, const char *const *ends, size_t count);

static void end_tag(parser *p) {
    if (p->status) return;
    if (p->at->kind == ZEST_JINJA_BLOCK_END)
        p->at++;
    else
        zest_jinja_parser_fail(p, "'%.*s' is not expected here",
                               (int)(p->at->text.size < 40 ? p->at->text.size : 40), p->at->text.data);
}

/* The body up to {% name %}, which is passed. */
static node *body_until(parser *p, const char *name) {
    node *made = body(p, &name, 1);
    if (!p->status) p->at++;
    end_tag(p);
    return made;
}

static node *if_statement(parser *p) {
    static const char *const ends[] = {"elif", "else", "endif"};
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_IF);
    for (int more = 1; more && !p->status;) {
        zest_jinja_parser_add(p, made, zest_jinja_parser_tuple(p, 0));
        end_tag(p);
        zest_jinja_parser_add(p, made, body(p, ends, 3));
        more = accept(p, WORD, "elif");
    }
    if (accept(p, WORD, "else")) {
        end_tag(p);
        zest_jinja_parser_add(p, made, body(p, ends + 2, 1));
    }
    expect(p, WORD, "endif");
    end_tag(p);
    return made;
}

static node *for_statement(parser *p) {
    static const char *const ends[] = {"else", "endfor"};
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_FOR);
    zest_jinja_parser_add(p, made, target(p, 0));
    expect(p, WORD, "in");
    zest_jinja_parser_add(p, made, zest_jinja_parser_tuple(p, 0));
    zest_jinja_parser_add(p, made, accept(p, WORD, "if") ? zest_jinja_parser_expression(p, 1) : NULL);
    if (sees(p, WORD, "recursive")) return zest_jinja_parser_fail(p, "recursive loops are not supported");
    end_tag(p);
    p->loops++;
    zest_jinja_parser_add(p, made, body(p, ends, 2));
    p->loops--;
    node *otherwise = NULL;
    if (accept(p, WORD, "else")) {
        end_tag(p);
        otherwise = body(p, ends + 1, 1);
    }
    zest_jinja_parser_add(p, made, otherwise);
    expect(p, WORD, "endfor");
    end_tag(p);
    return made;
}

static node *set_statement(parser *p) {
    node *to = target(p, 1);
    int block = !sees(p, SIGN, "=");
    node *made = zest_jinja_parser_node(p, block ? ZEST_JINJA_NODE_CAPTURE : ZEST_JINJA_NODE_SET);
    zest_jinja_parser_add(p, made, to);
    if (!block) {
        p->at++;
        zest_jinja_parser_add(p, made, zest_jinja_parser_tuple(p, 1));
        end_tag(p);
        return made;
    }
    node *filters = zest_jinja_parser_filters(p, NULL);
    end_tag(p);
    zest_jinja_parser_add(p, made, body_until(p, "endset"));
    zest_jinja_parser_add(p, made, filters);
    return made;
}

static node *macro_statement(parser *p) {
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_MACRO), *parameters = made;
    size_t loops = p->loops;
    if (p->at->kind != WORD) return zest_jinja_parser_fail(p, "a macro needs a name");
    if (made) made->name = p->at++->text;
    zest_jinja_parser_add(p, made, NULL); /* the body, which follows the parameters */
    expect(p, SIGN, "(");
    while (!p->status && !sees(p, SIGN, ")")) {
        zest_jinja_parser_add(p, parameters, name_node(p));
        zest_jinja_parser_add(p, parameters,
                              accept(p, SIGN, "=") ? zest_jinja_parser_expression(p, 1) : NULL);
        if (!accept(p, SIGN, ",")) break;
    }
    expect(p, SIGN, ")");
    end_tag(p);
    p->loops = 0;
    node *inside = body_until(p, "endmacro");
    p->loops = loops;
    if (!p->status) made->kid[0] = inside;
    return made;
}

static node *with_statement(parser *p) {
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_WITH);
    zest_jinja_parser_add(p, made, NULL);
    while (!p->status && p->at->kind == WORD) {
        zest_jinja_parser_add(p, made, name_node(p));
        expect(p, SIGN, "=");
        zest_jinja_parser_add(p, made, zest_jinja_parser_expression(p, 1));
        if (!accept(p, SIGN, ",")) break;
    }
    end_tag(p);
    node *inside = body_until(p, "endwith");
    if (!p->status) made->kid[0] = inside;
    return made;
}

static node *generation_statement(parser *p) {
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_GENERATION);
    end_tag(p);
    zest_jinja_parser_add(p, made, body_until(p, "endgeneration"));
    return made;
}

static node *jump(parser *p, zest_jinja_node_kind kind, const char *name) {
    if (!p->loops) return zest_jinja_parser_fail(p, "{%% %s %%} stands outside of a loop", name);
    node *made = zest_jinja_parser_node(p, kind);
    end_tag(p);
    return made;
}

static node *break_statement(parser *p) { return jump(p, ZEST_JINJA_NODE_BREAK, "break"); }
static node *continue_statement(parser *p) { return jump(p, ZEST_JINJA_NODE_CONTINUE, "continue"); }

/* The statement behind {%. */
static node *statement(parser *p) {
    static const struct {
        const char *name;
        node *(*parse)(parser *);
    } known[] = {{"if", if_statement},       {"for", for_statement},
                 {"set", set_statement},     {"macro", macro_statement},
                 {"with", with_statement},   {"generation", generation_statement},
                 {"break", break_statement}, {"continue", continue_statement}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (accept(p, WORD, known[i].name)) return known[i].parse(p);
    zest_jinja_text name = p->at->text;
    return zest_jinja_parser_fail(p, "the statement '%.*s' is not supported, or does not belong here",
                                  (int)(name.size < 40 ? name.size : 40), name.data);
}

/* The tag at the current token is {% END: a word that ends the body. */
static int is_end(const parser *p, const char *const *ends, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (p->at[1].kind == WORD && zest_jinja_text_is(p->at[1].text, ends[i])) return 1;
    return 0;
}

static node *output(parser *p) {
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_OUTPUT);
    p->at++;
    zest_jinja_parser_add(p, made, zest_jinja_parser_tuple(p, 1));
    if (!p->status && p->at->kind != ZEST_JINJA_OUTPUT_END)
        return zest_jinja_parser_fail(p, "'%.*s' is not expected here",
                                      (int)(p->at->text.size < 40 ? p->at->text.size : 40), p->at->text.data);
    p->at++;
    return made;
}

/* Statements up to one of these ends, whose word is then the current token; without ends up to the end of the text. */
static node *body(parser *p, const char *const *ends, size_t count) {
    if (!zest_jinja_parser_enter(p)) return NULL;
    node *made = zest_jinja_parser_node(p, ZEST_JINJA_NODE_BODY);
    while (!p->status && p->at->kind != ZEST_JINJA_END) {
        node *one = NULL;
        if (p->at->kind == ZEST_JINJA_DATA) {
            one = zest_jinja_parser_node(p, ZEST_JINJA_NODE_TEXT);
            if (one) one->value = zest_jinja_string(p->at->text.data, p->at->text.size);
            p->at++;
        } else if (p->at->kind == ZEST_JINJA_OUTPUT_BEGIN) {
            one = output(p);
        } else if (is_end(p, ends, count)) {
            break;
        } else {
            p->at++;
            one = statement(p);
        }
        zest_jinja_parser_add(p, made, one);
    }
    if (!p->status && count && p->at->kind == ZEST_JINJA_END)
        return zest_jinja_parser_fail(p, "{%% %s %%} is missing", ends[count - 1]);
    if (!p->status && count) p->at++;
    p->depth--;
    return made;
}

/* ---- The whole template ---- */

static zest_status parse(zest_jinja *jinja, zest_jinja_text text, zest_error *error) {
    zest_jinja_tokens tokens = {0};
    zest_status status = zest_jinja_lexer_run(&jinja->arena, text, jinja->name, &tokens, error);
    if (!status) {
        parser p = {.jinja = jinja, .at = tokens.token, .error = error};
        jinja->body = body(&p, NULL, 0);
        status = p.status;
    }
    free(tokens.token);
    return status;
}

zest_jinja *zest_jinja_parse(const char *text, size_t size, const char *name, zest_error *error) {
    if (size > ZEST_JINJA_MAX_SIZE) {
        zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the chat template has %zu bytes, more than %d", name,
                       size, ZEST_JINJA_MAX_SIZE);
        return NULL;
    }
    zest_jinja *jinja = calloc(1, sizeof *jinja);
    if (jinja) jinja->name = strdup(name), jinja->arena.limit = PARSE_LIMIT;
    if (!jinja || !jinja->name) {
        zest_jinja_free(jinja);
        zest_error_memory(error, name, size);
        return NULL;
    }
    if (parse(jinja, (zest_jinja_text){text, size}, error)) {
        zest_jinja_free(jinja);
        return NULL;
    }
    return jinja;
}

void zest_jinja_free(zest_jinja *jinja) {
    if (!jinja) return;
    zest_jinja_arena_free(&jinja->arena);
    free(jinja->name);
    free(jinja);
}
