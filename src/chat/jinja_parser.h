/* The parser: expressions (jinja_expression.c) and statements (jinja_parser.c). */
#ifndef ZEST_CHAT_JINJA_PARSER_H
#define ZEST_CHAT_JINJA_PARSER_H

#include "chat/jinja_internal.h"

/* After an error `status` is set, and every function returns at once. */
typedef struct {
    zest_jinja *jinja;
    const zest_jinja_token *at;
    size_t depth;
    size_t loops; /* open ones */
    zest_status status;
    zest_error *error;
} zest_jinja_parser;

/* Fails at the current token; returns NULL. */
zest_jinja_node *zest_jinja_parser_fail(zest_jinja_parser *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
zest_jinja_node *zest_jinja_parser_node(zest_jinja_parser *p, zest_jinja_node_kind kind);
void zest_jinja_parser_add(zest_jinja_parser *p, zest_jinja_node *node, zest_jinja_node *kid);
/* One more level of nesting; 0: too many. Leave it with --p->depth. */
int zest_jinja_parser_enter(zest_jinja_parser *p);

/* Whether the current token is this word or sign; accept also moves past it, expect fails if it is not. */
int zest_jinja_parser_sees(const zest_jinja_parser *p, zest_jinja_token_kind kind, const char *text);
int zest_jinja_parser_accept(zest_jinja_parser *p, zest_jinja_token_kind kind, const char *text);
int zest_jinja_parser_expect(zest_jinja_parser *p, zest_jinja_token_kind kind, const char *text);

/* An expression; without: "a if b" ends before the "if". */
zest_jinja_node *zest_jinja_parser_expression(zest_jinja_parser *p, int with_condition);
/* The same, or a tuple: expressions with commas between them. */
zest_jinja_node *zest_jinja_parser_tuple(zest_jinja_parser *p, int with_condition);
/* Filters behind a value, which may be NULL. */
zest_jinja_node *zest_jinja_parser_filters(zest_jinja_parser *p, zest_jinja_node *value);

#endif
