/* Internals of regular expressions: sets of characters, the tree of a pattern, and the program that is matched. */
#ifndef ZEST_TOKENIZER_REGEX_INTERNAL_H
#define ZEST_TOKENIZER_REGEX_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/tokenizer_internal.h"

/* ---- Sets of characters (regex_set.c) ---- */

typedef struct {
    uint32_t low, high; /* both in the set */
} zest_regex_range;

/* Start with {0}. When out of memory, failed is set and further additions do nothing. */
typedef struct {
    zest_regex_range *range;
    size_t count, capacity;
    int failed;
} zest_regex_set;

void zest_regex_set_add(zest_regex_set *set, uint32_t low, uint32_t high);
void zest_regex_set_add_all(zest_regex_set *set, const zest_regex_set *other);
/* Sorts and joins the ranges; afterwards they are disjoint. */
void zest_regex_set_sort(zest_regex_set *set);
/* The other characters of Unicode; sorted. */
void zest_regex_set_invert(zest_regex_set *set);
int zest_regex_set_equal(const zest_regex_set *a, const zest_regex_set *b); /* both sorted */
void zest_regex_set_free(zest_regex_set *set);

/* \s \w \d \h by their letter; 0: there is no such class. */
int zest_regex_set_add_shorthand(zest_regex_set *set, char letter);
/* \p{NAME}: a general category, or a group of them such as L; 0: another name. */
int zest_regex_set_add_property(zest_regex_set *set, const char *name, size_t size);

/* ---- The tree of a pattern (regex_parser.c) ---- */

typedef enum {
    ZEST_REGEX_EMPTY,
    ZEST_REGEX_SET,      /* one character of a set */
    ZEST_REGEX_SEQUENCE, /* children one after the other */
    ZEST_REGEX_CHOICE,   /* the first child that leads to a match */
    ZEST_REGEX_REPEAT,   /* one child, min to max times */
    ZEST_REGEX_FOLLOWED, /* the next character is, or if negated is not, in a set */
    ZEST_REGEX_LINE_START,
    ZEST_REGEX_LINE_END,
    ZEST_REGEX_TEXT_START,
    ZEST_REGEX_TEXT_END,
    ZEST_REGEX_WORD_EDGE, /* negated: anywhere else */
} zest_regex_kind;

typedef struct {
    zest_regex_kind kind;
    uint32_t set;
    uint32_t first, next; /* indices of the first child and of the next sibling; 0: none */
    uint32_t min, max;    /* max UINT32_MAX: no bound */
    unsigned char negated, lazy, possessive;
    unsigned char nullable; /* may match an empty text */
} zest_regex_node;

enum { ZEST_REGEX_SETS = 255, ZEST_REGEX_DEPTH = 50, ZEST_REGEX_REPEATS = 255, ZEST_REGEX_RANGES = 1 << 18 };

typedef struct {
    zest_regex_node *node; /* node 0 is the whole pattern */
    size_t count, capacity;
    zest_regex_set set[ZEST_REGEX_SETS];
    size_t sets;
    const char *problem; /* what is wrong or not supported; NULL: nothing */
    size_t position;     /* of the problem */
    int failed;          /* out of memory */
} zest_regex_tree;

void zest_regex_parse(zest_regex_tree *tree, const char *pattern, size_t size);
void zest_regex_tree_free(zest_regex_tree *tree);

/* ---- The program (regex_compile.c) ---- */

/* Characters are numbered by the sets that they are in: those with the same number are in the same sets. */
typedef struct {
    uint64_t bits[4];
} zest_regex_classes;

typedef enum {
    ZEST_REGEX_OP_SET,   /* one character of the set */
    ZEST_REGEX_OP_RUN,   /* min to max of them, as many as possible first */
    ZEST_REGEX_OP_SPLIT, /* to `to`, or else to `other` */
    ZEST_REGEX_OP_JUMP,
    ZEST_REGEX_OP_FOLLOWED,
    ZEST_REGEX_OP_LINE_START,
    ZEST_REGEX_OP_LINE_END,
    ZEST_REGEX_OP_TEXT_START,
    ZEST_REGEX_OP_TEXT_END,
    ZEST_REGEX_OP_WORD_EDGE,
    ZEST_REGEX_OP_MATCH,
} zest_regex_op;

typedef struct {
    unsigned char op, negated;
    unsigned char possessive; /* a shorter run is never tried: it cannot lead to a match, or must not */
    unsigned char any[2];     /* SPLIT: this way may begin with any character, or with none */
    uint32_t min, max;
    uint32_t to, other;
    uint32_t column;               /* SPLIT, RUN without bound: its number among those that are remembered */
    zest_regex_classes set;        /* SET, RUN, FOLLOWED; WORD_EDGE: \w; SPLIT: what `to` may begin with */
    zest_regex_classes other_head; /* SPLIT: what `other` may begin with */
} zest_regex_step;

enum { ZEST_REGEX_STEPS = 4096 };

struct zest_regex {
    zest_regex_step *step;
    size_t count, columns;
    zest_regex_classes head; /* what a match may begin with */
    int any;                 /* or with any character, or with none */
    uint16_t *block;         /* by code >> 8: where the numbers of these 256 characters begin, in 256s */
    unsigned char *number;
    char *pattern, *source;
};

/* Fills in everything but pattern and source. *problem: what is not supported. */
zest_status zest_regex_compile(zest_regex *regex, zest_regex_tree *tree, const char **problem,
                               zest_error *error);

static inline int zest_regex_in(const zest_regex_classes *set, unsigned number) {
    return set->bits[number >> 6] >> (number & 63) & 1;
}

#endif
