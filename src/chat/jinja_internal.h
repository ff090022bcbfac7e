/* Internals of the Jinja subset: memory, tokens, nodes, values, and what the files of this folder share. */
#ifndef ZEST_CHAT_JINJA_INTERNAL_H
#define ZEST_CHAT_JINJA_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "chat/jinja.h"

/* ---- Memory: blocks that are freed together ---- */

typedef struct zest_jinja_block zest_jinja_block;

typedef struct {
    zest_jinja_block *blocks;
    size_t used, limit; /* bytes */
} zest_jinja_arena;

/* Zeroed. NULL: out of memory, or beyond the limit. */
void *zest_jinja_arena_new(zest_jinja_arena *arena, size_t bytes);
void zest_jinja_arena_free(zest_jinja_arena *arena);

typedef struct {
    const char *data;
    size_t size;
} zest_jinja_text;

static inline int zest_jinja_text_is(zest_jinja_text text, const char *word) {
    size_t i = 0;
    while (i < text.size && word[i] && text.data[i] == word[i]) i++;
    return i == text.size && !word[i];
}

/* ---- Tokens (jinja_lexer.c) ---- */

typedef enum {
    ZEST_JINJA_DATA,
    ZEST_JINJA_BLOCK_BEGIN,
    ZEST_JINJA_BLOCK_END,
    ZEST_JINJA_OUTPUT_BEGIN,
    ZEST_JINJA_OUTPUT_END,
    ZEST_JINJA_WORD,
    ZEST_JINJA_QUOTED, /* a string, with its escapes resolved */
    ZEST_JINJA_INTEGER,
    ZEST_JINJA_REAL,
    ZEST_JINJA_SIGN, /* an operator or a bracket */
    ZEST_JINJA_END,
} zest_jinja_token_kind;

typedef struct {
    zest_jinja_token_kind kind;
    zest_jinja_text text;
    unsigned line;
} zest_jinja_token;

typedef struct {
    zest_jinja_token *token; /* ends with an END */
    size_t count, capacity;
} zest_jinja_tokens;

/* Sets the error "NAME, line N: ...", ZEST_ERROR_FORMAT. */
zest_status zest_jinja_refuse(const char *name, unsigned line, zest_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* text must outlive the tokens; strings with escapes are copied into the arena. */
zest_status zest_jinja_lexer_run(zest_jinja_arena *arena, zest_jinja_text text, const char *name,
                                 zest_jinja_tokens *tokens, zest_error *error);

/* ---- Values ---- */

typedef enum {
    ZEST_JINJA_UNDEFINED,
    ZEST_JINJA_NONE,
    ZEST_JINJA_BOOLEAN,
    ZEST_JINJA_NUMBER, /* an integer */
    ZEST_JINJA_FLOAT,
    ZEST_JINJA_STRING,
    ZEST_JINJA_LIST,
    ZEST_JINJA_TUPLE,
    ZEST_JINJA_VIEW,      /* range(), keys(): elements and a length, but not a list */
    ZEST_JINJA_GENERATOR, /* of map, select and the like: its elements can be read once */
    ZEST_JINJA_DICT,
    ZEST_JINJA_NAMESPACE,
    ZEST_JINJA_LOOP,
    ZEST_JINJA_MACRO,
    ZEST_JINJA_FUNCTION, /* a built-in function */
    ZEST_JINJA_METHOD,   /* of a value */
} zest_jinja_kind;

typedef struct zest_jinja_value zest_jinja_value;
typedef struct zest_jinja_list zest_jinja_list;
typedef struct zest_jinja_dict zest_jinja_dict;
typedef struct zest_jinja_loop zest_jinja_loop;
typedef struct zest_jinja_macro zest_jinja_macro;
typedef struct zest_jinja_method zest_jinja_method;

struct zest_jinja_value {
    zest_jinja_kind kind;
    union {
        int64_t integer; /* also BOOLEAN */
        double real;
        zest_jinja_text text;  /* STRING; UNDEFINED: what is undefined; FUNCTION: its name */
        zest_jinja_list *list; /* LIST, TUPLE, VIEW, GENERATOR */
        zest_jinja_dict *dict; /* DICT, NAMESPACE */
        zest_jinja_loop *loop;
        const zest_jinja_macro *macro;
        const zest_jinja_method *method;
    };
};

struct zest_jinja_list {
    zest_jinja_value *item;
    size_t count, capacity;
};

/* In the order of insertion, as in Python. */
struct zest_jinja_dict {
    zest_jinja_value *key, *value;
    size_t count, capacity;
};

struct zest_jinja_loop {
    const zest_jinja_list *items;
    size_t index; /* from 0 */
};

struct zest_jinja_method {
    zest_jinja_value self;
    zest_jinja_text name;
};

/* ---- Nodes (jinja_parser.c) ---- */

typedef enum {
    /* statements */
    ZEST_JINJA_NODE_BODY,       /* kids: statements */
    ZEST_JINJA_NODE_TEXT,       /* value */
    ZEST_JINJA_NODE_OUTPUT,     /* expression */
    ZEST_JINJA_NODE_IF,         /* test, body, test, body, ..., and perhaps the body of else */
    ZEST_JINJA_NODE_FOR,        /* target, iterable, filter or NULL, body, body of else or NULL */
    ZEST_JINJA_NODE_SET,        /* target, expression */
    ZEST_JINJA_NODE_CAPTURE,    /* target, body, filters applied to NULL (the text) or NULL */
    ZEST_JINJA_NODE_MACRO,      /* name; body, then for each parameter a NAME and its default or NULL */
    ZEST_JINJA_NODE_WITH,       /* body, then target and expression of each variable */
    ZEST_JINJA_NODE_GENERATION, /* body */
    ZEST_JINJA_NODE_BREAK,
    ZEST_JINJA_NODE_CONTINUE,
    /* expressions */
    ZEST_JINJA_NODE_LITERAL, /* value */
    ZEST_JINJA_NODE_NAME,
    ZEST_JINJA_NODE_LIST,
    ZEST_JINJA_NODE_TUPLE,
    ZEST_JINJA_NODE_DICT, /* key, value, key, value, ... */
    ZEST_JINJA_NODE_NOT,
    ZEST_JINJA_NODE_MINUS,
    ZEST_JINJA_NODE_PLUS,
    ZEST_JINJA_NODE_AND,
    ZEST_JINJA_NODE_OR,
    ZEST_JINJA_NODE_BINARY,    /* name: the operator; two operands */
    ZEST_JINJA_NODE_COMPARE,   /* operand, then for each comparison a NAME (the operator) and an operand */
    ZEST_JINJA_NODE_CONDITION, /* test, value, value of else or NULL */
    ZEST_JINJA_NODE_FILTER,    /* name; argument or NULL, then call arguments */
    ZEST_JINJA_NODE_TEST,      /* name; value, then call arguments */
    ZEST_JINJA_NODE_CALL,      /* callee, then call arguments */
    ZEST_JINJA_NODE_KEYWORD,   /* a call argument: name, expression */
    ZEST_JINJA_NODE_ATTRIBUTE, /* name; object */
    ZEST_JINJA_NODE_SUBSCRIPT, /* object, index */
    ZEST_JINJA_NODE_SLICE,     /* start, stop, step; each may be NULL */
} zest_jinja_node_kind;

typedef struct zest_jinja_node zest_jinja_node;

struct zest_jinja_node {
    zest_jinja_node_kind kind;
    unsigned line;
    zest_jinja_text name;
    zest_jinja_value value;
    zest_jinja_node **kid;
    size_t count, capacity;
};

struct zest_jinja {
    char *name;
    zest_jinja_arena arena; /* of the nodes and their texts */
    const zest_jinja_node *body;
};

/* ---- Evaluation ---- */

typedef struct zest_jinja_scope zest_jinja_scope; /* variables */

struct zest_jinja_macro {
    const zest_jinja_node *node;
    zest_jinja_scope *scope; /* where it was defined */
};

/* One rendering. After an error `status` is set, and every function returns at once. */
typedef struct {
    const zest_jinja *jinja;
    const zest_jinja_input *input;
    zest_jinja_arena arena;
    zest_buffer *out;        /* what is rendered now: the text, or a captured part of it */
    const zest_buffer *text; /* the whole text */
    size_t begin;            /* of the whole text in its buffer */
    zest_jinja_scope *root;
    uint64_t work; /* 64 for every step, and the bytes */
    size_t depth, calls;
    unsigned line;
    zest_status status;
    zest_error *error;
} zest_jinja_state;

/* Arguments of a filter, a test, a function or a method. */
typedef struct {
    zest_jinja_value *value;
    zest_jinja_text *name; /* of a keyword; data NULL: positional */
    size_t count;
} zest_jinja_arguments;

/* Fails with an error at the current line; returns an undefined value. */
zest_jinja_value zest_jinja_fail(zest_jinja_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Counts work: steps, and bytes or elements that are read or copied. 0: the rendering has failed. */
int zest_jinja_charge(zest_jinja_state *state, size_t steps, size_t bytes);
void *zest_jinja_new(zest_jinja_state *state, size_t bytes); /* NULL: failed */

/* ---- Values (jinja_value.c) ---- */

zest_jinja_value zest_jinja_none(void);
zest_jinja_value zest_jinja_boolean(int truth);
zest_jinja_value zest_jinja_integer(int64_t number);
zest_jinja_value zest_jinja_real(double number);
zest_jinja_value zest_jinja_undefined(zest_jinja_text name);
zest_jinja_value zest_jinja_word(const char *text);                /* text is kept */
zest_jinja_value zest_jinja_string(const char *text, size_t size); /* text is kept */
zest_jinja_value zest_jinja_copy(zest_jinja_state *state, const char *text, size_t size);
/* Frees the buffer. */
zest_jinja_value zest_jinja_from_buffer(zest_jinja_state *state, zest_buffer *buffer);
zest_jinja_value zest_jinja_from_json(zest_jinja_state *state, const json_t *json);

zest_jinja_value zest_jinja_new_list(zest_jinja_state *state, zest_jinja_kind kind);
void zest_jinja_append(zest_jinja_state *state, zest_jinja_list *list, zest_jinja_value item);
zest_jinja_value zest_jinja_new_dict(zest_jinja_state *state, zest_jinja_kind kind);
/* NULL: no such key. */
zest_jinja_value *zest_jinja_dict_find(zest_jinja_state *state, const zest_jinja_dict *dict,
                                       zest_jinja_value key);
void zest_jinja_dict_set(zest_jinja_state *state, zest_jinja_dict *dict, zest_jinja_value key,
                         zest_jinja_value value);

const char *zest_jinja_kind_name(zest_jinja_kind kind); /* as Python calls it */
int zest_jinja_truth(zest_jinja_value value);
int zest_jinja_is_numeric(zest_jinja_value value); /* booleans, too, as in Python */
double zest_jinja_as_real(zest_jinja_value value);
int zest_jinja_equal(zest_jinja_state *state, zest_jinja_value a, zest_jinja_value b);
/* -1, 0, 1; values without an order fail. */
int zest_jinja_order(zest_jinja_state *state, zest_jinja_value a, zest_jinja_value b);
int zest_jinja_contains(zest_jinja_state *state, zest_jinja_value list, zest_jinja_value item);
/* The elements as a list: characters of a text, keys of a mapping. An undefined value has none. */
zest_jinja_list *zest_jinja_elements(zest_jinja_state *state, zest_jinja_value value);
int64_t zest_jinja_length(zest_jinja_state *state, zest_jinja_value value);

/* Appends str(value), repr(value) or json.dumps(value). */
void zest_jinja_print(zest_jinja_state *state, zest_jinja_value value, zest_buffer *out);
void zest_jinja_print_repr(zest_jinja_state *state, zest_jinja_value value, zest_buffer *out);

typedef struct {
    zest_jinja_text indent; /* data NULL: one line */
    zest_jinja_text item_separator, key_separator;
    int sort_keys, ensure_ascii;
} zest_jinja_json_style;

void zest_jinja_print_json(zest_jinja_state *state, zest_jinja_value value,
                           const zest_jinja_json_style *style, zest_buffer *out);
/* str(value) as a value. */
zest_jinja_value zest_jinja_to_string(zest_jinja_state *state, zest_jinja_value value);

/* ---- Texts (jinja_text.c): positions count characters, as in Python ---- */

size_t zest_jinja_characters(zest_jinja_text text);
/* The byte offset of character `index`. */
size_t zest_jinja_offset(zest_jinja_text text, size_t index);
int zest_jinja_is_space(uint32_t code); /* str.isspace() */
/* Without white space (set.data NULL), or the characters of set, at the ends that are chosen. */
zest_jinja_text zest_jinja_strip(zest_jinja_text text, zest_jinja_text set, int start, int end);
zest_jinja_value zest_jinja_lower(zest_jinja_state *state, zest_jinja_text text);
zest_jinja_value zest_jinja_upper(zest_jinja_state *state, zest_jinja_text text);
/* starts: the characters after which a word begins; NULL: after everything that is no letter, as str.title(). */
zest_jinja_value zest_jinja_title(zest_jinja_state *state, zest_jinja_text text, const char *starts);
zest_jinja_value zest_jinja_capitalize(zest_jinja_state *state, zest_jinja_text text);
/* count < 0: all. */
zest_jinja_value zest_jinja_replace(zest_jinja_state *state, zest_jinja_text text, zest_jinja_text from,
                                    zest_jinja_text to, int64_t count);
zest_jinja_value zest_jinja_split_lines(zest_jinja_state *state, zest_jinja_text text);
/* The byte offset, or -1. */
int64_t zest_jinja_find(zest_jinja_text text, zest_jinja_text part, int last);
zest_jinja_value zest_jinja_join(zest_jinja_state *state, const zest_jinja_list *items,
                                 zest_jinja_text between, int strings_only);
/* A method of a text, with its arguments. */
zest_jinja_value zest_jinja_text_method(zest_jinja_state *state, zest_jinja_text self, zest_jinja_text name,
                                        const zest_jinja_arguments *arguments);

/* ---- Arguments ---- */

/* Whether argument `index`, or the keyword, is given. */
int zest_jinja_argument(const zest_jinja_arguments *arguments, size_t index, const char *keyword,
                        zest_jinja_value *value);
/* The same of a kind; a wrong kind fails. */
int zest_jinja_argument_text(zest_jinja_state *state, const zest_jinja_arguments *arguments, size_t index,
                             const char *keyword, zest_jinja_text *text);
int zest_jinja_argument_integer(zest_jinja_state *state, const zest_jinja_arguments *arguments, size_t index,
                                const char *keyword, int64_t *number);
/* Fails unless there are `least` to `most` of them, and no other keywords than these ("a b c", or NULL). */
int zest_jinja_argument_check(zest_jinja_state *state, const char *what,
                              const zest_jinja_arguments *arguments, size_t least, size_t most,
                              const char *keywords);

/* ---- Filters and tests (jinja_filter.c), functions and methods (jinja_call.c), expressions (jinja_eval.c) ---- */

zest_jinja_value zest_jinja_filter(zest_jinja_state *state, zest_jinja_text name, zest_jinja_value value,
                                   const zest_jinja_arguments *arguments);
int zest_jinja_test(zest_jinja_state *state, zest_jinja_text name, zest_jinja_value value,
                    const zest_jinja_arguments *arguments);

/* object.name, which for mappings prefers methods; object[key], which prefers elements. */
zest_jinja_value zest_jinja_attribute(zest_jinja_state *state, zest_jinja_value object, zest_jinja_text name);
zest_jinja_value zest_jinja_subscript(zest_jinja_state *state, zest_jinja_value object, zest_jinja_value key);
/* Functions and methods; macros are called by jinja_eval.c. */
zest_jinja_value zest_jinja_call(zest_jinja_state *state, zest_jinja_value callee,
                                 const zest_jinja_arguments *arguments);
int zest_jinja_is_function(zest_jinja_text name, const zest_jinja_input *input);

zest_jinja_value zest_jinja_binary(zest_jinja_state *state, zest_jinja_text operation, zest_jinja_value a,
                                   zest_jinja_value b);
zest_jinja_value zest_jinja_slice(zest_jinja_state *state, zest_jinja_value object,
                                  const zest_jinja_value part[3]);

/* The value of an expression. */
zest_jinja_value zest_jinja_evaluate(zest_jinja_state *state, zest_jinja_scope *scope,
                                     const zest_jinja_node *node);

/* A variable; 0: there is none of this name. */
int zest_jinja_lookup(zest_jinja_state *state, const zest_jinja_scope *scope, zest_jinja_text name,
                      zest_jinja_value *value);
/* Calls a macro (jinja.c). */
zest_jinja_value zest_jinja_call_macro(zest_jinja_state *state, const zest_jinja_macro *macro,
                                       const zest_jinja_arguments *arguments);

#endif
