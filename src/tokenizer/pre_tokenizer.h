/* Cutting text into the pieces within which BPE merges ("pre-tokenizers"). */
#ifndef ZEST_TOKENIZER_PRE_TOKENIZER_H
#define ZEST_TOKENIZER_PRE_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/error.h"
#include "tokenizer/regex.h"

/* The patterns that most models use are cut by hand, several times faster than by PCRE2 and with zest's own
 * character classes; the rest goes through PCRE2. */
#define ZEST_PRESPLIT_GPT2_PATTERN \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* Qwen2 has {1} digit in a piece, Llama 3 {1,3}. */
#define ZEST_PRESPLIT_CL100K_PATTERN(digits)                                   \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef enum {
    ZEST_PRESPLIT_PREFIX,    /* a space in front, unless there is one */
    ZEST_PRESPLIT_GPT2,      /* GPT-2's pattern, by hand */
    ZEST_PRESPLIT_CL100K,    /* that of Qwen2 and Llama 3, by hand; count: most digits in a piece */
    ZEST_PRESPLIT_DIGITS,    /* numbers apart from the rest */
    ZEST_PRESPLIT_METASPACE, /* spaces become mark, which begins a piece */
    ZEST_PRESPLIT_REGEX,
    ZEST_PRESPLIT_LITERAL, /* at every mark */
    ZEST_PRESPLIT_BERT,    /* white space goes, punctuation stands alone */
} zest_presplit_kind;

typedef enum {
    ZEST_PRESPLIT_ISOLATED,   /* a match is a piece */
    ZEST_PRESPLIT_REMOVED,    /* a match is dropped */
    ZEST_PRESPLIT_PREVIOUS,   /* a match ends the piece before it */
    ZEST_PRESPLIT_NEXT,       /* a match begins the piece behind it */
    ZEST_PRESPLIT_CONTIGUOUS, /* neighbouring matches are one piece */
} zest_presplit_behaviour;

typedef enum { ZEST_PRESPLIT_NEVER, ZEST_PRESPLIT_FIRST, ZEST_PRESPLIT_ALWAYS } zest_presplit_prepend;

typedef struct {
    zest_presplit_kind kind;
    zest_presplit_behaviour behaviour;
    int invert; /* what lies between the matches counts as the match */
    int count;
    zest_regex *regex;
    char *mark; /* owned */
    size_t mark_size;
    zest_presplit_prepend
        prepend; /* METASPACE: a mark in front of the text's first piece, or of every piece */
    int whole;   /* METASPACE: do not cut */
} zest_presplit_step;

enum { ZEST_PRESPLIT_STEPS = 16 };

typedef struct {
    zest_presplit_step step[ZEST_PRESPLIT_STEPS]; /* each cuts the pieces of the one before */
    size_t count;
} zest_presplit;

void zest_presplit_free(zest_presplit *split);

typedef struct {
    size_t start, end;
    int match;
} zest_presplit_span;

/* Room for the work of one step; start with {0}. */
typedef struct {
    zest_buffer text;
    zest_presplit_span *spans;
    size_t count, capacity;
    zest_regex_walk walk;
} zest_presplit_room;

typedef struct {
    zest_presplit_room room[ZEST_PRESPLIT_STEPS];
} zest_presplit_scratch;

void zest_presplit_scratch_free(zest_presplit_scratch *scratch);

/* Takes one piece, never empty; it is valid during the call alone. */
typedef zest_status (*zest_presplit_sink)(void *user, const char *piece, size_t size);

/* Hands the pieces of the text (valid UTF-8) to sink in order. first: the text stands at the start of the
 * input. */
zest_status zest_presplit_run(const zest_presplit *split, zest_presplit_scratch *scratch, const char *text,
                              size_t size, int first, zest_presplit_sink sink, void *user, zest_error *error);

/* The length of the piece at the start of the text, which is not empty. */
size_t zest_presplit_gpt2(const char *text, size_t size);
size_t zest_presplit_cl100k(const char *text, size_t size, int digits);

#endif
