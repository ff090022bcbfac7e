/* Cutting text into the pieces within which BPE merges ("pre-tokenizers"). */
#ifndef ZEST_TEXT_SPLIT_H
#define ZEST_TEXT_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "text/regex.h"

/* The patterns that most models use are cut by hand, several times faster than by PCRE2 and with zest's own
 * character classes; the rest goes through PCRE2. */
#define ZEST_SPLIT_GPT2_PATTERN \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* Qwen2 has {1} digit in a piece, Llama 3 {1,3}. */
#define ZEST_SPLIT_CL100K_PATTERN(digits)                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef enum {
    ZEST_SPLIT_PREFIX,    /* a space in front, unless there is one */
    ZEST_SPLIT_GPT2,      /* GPT-2's pattern, by hand */
    ZEST_SPLIT_CL100K,    /* that of Qwen2 and Llama 3, by hand; count: most digits in a piece */
    ZEST_SPLIT_DIGITS,    /* numbers apart from the rest */
    ZEST_SPLIT_METASPACE, /* spaces become mark, which begins a piece */
    ZEST_SPLIT_REGEX,
    ZEST_SPLIT_LITERAL, /* at every mark */
} zest_split_kind;

typedef enum {
    ZEST_SPLIT_ISOLATED,   /* a match is a piece */
    ZEST_SPLIT_REMOVED,    /* a match is dropped */
    ZEST_SPLIT_PREVIOUS,   /* a match ends the piece before it */
    ZEST_SPLIT_NEXT,       /* a match begins the piece behind it */
    ZEST_SPLIT_CONTIGUOUS, /* neighbouring matches are one piece */
} zest_split_behaviour;

typedef enum { ZEST_SPLIT_NEVER, ZEST_SPLIT_FIRST, ZEST_SPLIT_ALWAYS } zest_split_prepend;

typedef struct {
    zest_split_kind kind;
    zest_split_behaviour behaviour;
    int invert; /* what lies between the matches counts as the match */
    int count;
    zest_regex *regex;
    char *mark; /* owned */
    size_t mark_size;
    zest_split_prepend prepend; /* METASPACE: a mark in front of the text's first piece, or of every piece */
    int whole;                  /* METASPACE: do not cut */
} zest_split_step;

enum { ZEST_SPLIT_STEPS = 16 };

typedef struct {
    zest_split_step step[ZEST_SPLIT_STEPS]; /* each cuts the pieces of the one before */
    size_t count;
} zest_split;

void zest_split_free(zest_split *split);

typedef struct {
    size_t start, end;
    int match;
} zest_split_span;

/* Room for the work of one step; start with {0}. */
typedef struct {
    zest_buffer text;
    zest_split_span *spans;
    size_t count, capacity;
    zest_regex_walk walk;
} zest_split_room;

typedef struct {
    zest_split_room room[ZEST_SPLIT_STEPS];
} zest_split_scratch;

void zest_split_scratch_free(zest_split_scratch *scratch);

/* Takes one piece, never empty; it is valid during the call alone. */
typedef zest_status (*zest_split_sink)(void *user, const char *piece, size_t size);

/* Hands the pieces of the text (valid UTF-8) to sink in order. first: the text stands at the start of the
 * input. */
zest_status zest_split_run(const zest_split *split, zest_split_scratch *scratch, const char *text,
                           size_t size, int first, zest_split_sink sink, void *user, zest_error *error);

/* The length of the piece at the start of the text, which is not empty. */
size_t zest_split_gpt2(const char *text, size_t size);
size_t zest_split_cl100k(const char *text, size_t size, int digits);

#endif
