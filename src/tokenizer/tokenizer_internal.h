/* Changing text before it is split ("normalizers"). */
#ifndef ZEST_TOKENIZER_TOKENIZER_INTERNAL_H
#define ZEST_TOKENIZER_TOKENIZER_INTERNAL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/error.h"
#include "tokenizer/regex.h"
#include "tokenizer/vocab.h"
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/wordpiece.h"

typedef enum {
    ZEST_NORMALIZE_PREPEND, /* content in front of a text that is not empty */
    ZEST_NORMALIZE_REPLACE, /* every pattern, or every match of regex, by content */
    ZEST_NORMALIZE_COMPOSE, /* normal form C */
    /* The parts of BERT's normalizer: */
    ZEST_NORMALIZE_CLEAN,         /* control characters go, white space becomes spaces */
    ZEST_NORMALIZE_IDEOGRAPHS,    /* spaces around every Chinese character */
    ZEST_NORMALIZE_STRIP_ACCENTS, /* normal form D without nonspacing marks */
    ZEST_NORMALIZE_LOWERCASE,
} zest_normalize_kind;

typedef struct {
    zest_normalize_kind kind;
    char *content, *pattern; /* owned */
    size_t content_size, pattern_size;
    zest_regex *regex; /* instead of pattern */
} zest_normalize_step;

enum { ZEST_NORMALIZE_STEPS = 16 };

typedef struct {
    zest_normalize_step step[ZEST_NORMALIZE_STEPS];
    size_t count;
} zest_normalize;

/* Room for the work; start with {0}. */
typedef struct {
    zest_buffer text[2], decomposed;
    zest_regex_walk walk;
} zest_normalize_scratch;

/* *out is the text itself or lies in scratch, where it stays until the next call. A file whose steps make a
 * text longer and longer is refused: see ZEST_NORMALIZE_GROWTH. */
zest_status zest_normalize_run(const zest_normalize *normalize, zest_normalize_scratch *scratch,
                               const char *text, size_t size, const char **out, size_t *out_size,
                               zest_error *error);

/* No published normalizer or decoder makes a text more than a few times longer. A chain of replacements in a
 * hostile file could make it 4^16 times longer. */
enum { ZEST_NORMALIZE_GROWTH = 32, ZEST_NORMALIZE_SLACK = 4096 };
static inline size_t zest_normalize_limit(size_t size) {
    return ZEST_NORMALIZE_GROWTH * size + ZEST_NORMALIZE_SLACK;
}

/* Appends text with every pattern (not empty) replaced by content. It stops once out is larger than limit. */
void zest_normalize_replace(const char *text, size_t size, const char *pattern, size_t pattern_size,
                            const char *content, size_t content_size, size_t limit, zest_buffer *out);

void zest_normalize_scratch_free(zest_normalize_scratch *scratch);
void zest_normalize_free(zest_normalize *normalize);

/* Cutting text into the pieces within which BPE merges ("pre-tokenizers"). */

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

/* From tokens back to text ("decoders"): a chain of steps over the list of tokens, joined at the end. */

typedef enum {
    ZEST_DECODE_BYTE_LEVEL,    /* GPT-2's characters to the bytes that they spell; then repaired to UTF-8 */
    ZEST_DECODE_BYTE_FALLBACK, /* rows of <0xNN> to what they spell */
    ZEST_DECODE_REPLACE,       /* mark by content in every token */
    ZEST_DECODE_FUSE,          /* all tokens to one */
    ZEST_DECODE_STRIP,         /* up to start marks off the front of every token, up to stop off its end */
    ZEST_DECODE_METASPACE,     /* mark by a space; by nothing in the first token when prepended */
    ZEST_DECODE_WORDPIECE, /* mark off the front of every token but the first, or else a space before it */
} zest_decode_kind;

typedef struct {
    zest_decode_kind kind;
    char *mark, *content; /* owned */
    size_t mark_size, content_size;
    size_t start, stop;
    int prepended;
    int cleanup; /* WORDPIECE: no space before punctuation and in contractions */
} zest_decode_step;

enum { ZEST_DECODE_STEPS = 16 };

typedef struct {
    zest_decode_step step[ZEST_DECODE_STEPS];
    size_t count;
    int spaced; /* no steps: tokens are joined by spaces */
} zest_decode;

void zest_decode_free(zest_decode *decode);

/* Strings, end to end. Start with {0}. */
typedef struct {
    zest_buffer text;
    size_t *end; /* where string i ends; it begins where the one before ends */
    size_t count, capacity;
} zest_decode_list;

void zest_decode_add(zest_decode_list *list, const char *text, size_t size); /* memory: list->text.failed */
void zest_decode_list_free(zest_decode_list *list);

/* Appends the text; the list is used up. A chain that makes the text longer and longer is refused, see
 * zest_normalize_limit. */
zest_status zest_decode_run(const zest_decode *decode, zest_decode_list *list, zest_buffer *out,
                            zest_error *error);

/* Appends the bytes of a byte-level token; one with a character that spells no byte stands for itself. */
void zest_decode_byte_level(const char *token, size_t size, zest_buffer *out);
/* The byte of a token <0xNN>; -1: it is none. */
int zest_decode_byte(const char *token, size_t size);

/* What a tokenizer is made of; seen by tokenizer.c and by those that build one (build_*.c). */

enum {
    ZEST_TOKENIZER_SPECIAL = 1,
    ZEST_TOKENIZER_CHANGED = 2, /* a late token that normalising changed: it comes back as it is looked for */
};

struct zest_tokenizer {
    zest_added early; /* looked for in the text as it comes */
    zest_normalize normalize;
    zest_added late; /* looked for in the normalised text */
    zest_presplit split;
    zest_bpe bpe;             /* and the vocabulary, whatever the model is */
    zest_wordpiece wordpiece; /* instead of BPE's merges, where it has a prefix */
    zest_decode decode;
    zest_ids before, after; /* the template: what stands around the text */
    unsigned char *flags;   /* by id, `vocab.size` of them, made by finish: ZEST_TOKENIZER_* */
    int32_t role[ZEST_TOKEN_ROLES];
    char *name; /* for messages */
};

/* An empty one: no token has a role. */
zest_tokenizer *zest_tokenizer_new(const char *name, zest_error *error);

/* An added token. One that is not in the vocabulary yet joins it. content need not end in NUL. */
typedef struct {
    const char *content;
    size_t size;
    int64_t id; /* -1: that of the vocabulary, and nothing happens when it has none */
    int special, eats_left, eats_right, single_word, normalized;
} zest_tokenizer_added;

zest_status zest_tokenizer_add(zest_tokenizer *tokenizer, const zest_tokenizer_added *added,
                               zest_error *error);

/* Adds the merge of two tokens, each and both together spelt as in the vocabulary. place is for messages. */
zest_status zest_tokenizer_add_merge(zest_tokenizer *tokenizer, const zest_tokenizer_text *left,
                                     const zest_tokenizer_text *right, size_t place, zest_error *error);
/* The same from "left right". */
zest_status zest_tokenizer_add_merge_line(zest_tokenizer *tokenizer, const char *line, size_t size,
                                          size_t place, zest_error *error);

/* Steps. Texts are copied. A chain that is full already is an error. */
zest_presplit_step *zest_tokenizer_split_step(zest_tokenizer *tokenizer, zest_presplit_kind kind,
                                              zest_error *error);
zest_normalize_step *zest_tokenizer_normalize_step(zest_tokenizer *tokenizer, zest_normalize_kind kind,
                                                   zest_error *error);
zest_decode_step *zest_tokenizer_decode_step(zest_tokenizer *tokenizer, zest_decode_kind kind,
                                             zest_error *error);
/* Llama's: "▁" for spaces, in front of the text too when prefix; and the way back. */
zest_status zest_tokenizer_llama_steps(zest_tokenizer *tokenizer, int prefix, zest_error *error);

/* Last: makes the tables; nothing may be added afterwards. */
zest_status zest_tokenizer_finish(zest_tokenizer *tokenizer, zest_error *error);

/* Builders, each of one kind of file (build_*.c). */
zest_tokenizer *zest_tokenizer_from_vocab(const char *folder, zest_error *error);

/* Building tokenizers from JSON; seen by build_*.c alone. */

/* ---- JSON (load_json.c) ----------------------------------------------------------------------------------- */

enum { ZEST_BUILD_FILE_LIMIT = 1 << 26, ZEST_BUILD_TEXT_LIMIT = 1024 };
enum { ZEST_BUILD_WORD_LENGTH = 100 }; /* max_input_chars_per_word of WordPiece where nothing says it */

/* Reads folder/name. *out is NULL when there is no such file and it is optional. */
zest_status zest_build_read(const char *folder, const char *name, int optional, json_t **out,
                            zest_error *error);

/* A member that is there and not null; else NULL. */
json_t *zest_build_member(const json_t *object, const char *key);
/* A member that must be true or false; fallback where it is missing, and where that is -1 it must be there.
 */
zest_status zest_build_flag(const zest_tokenizer *tokenizer, const json_t *object, const char *where,
                            const char *key, int fallback, int *flag, zest_error *error);
/* A copy of a member that must be a string; *text is to be freed. */
zest_status zest_build_text(const zest_tokenizer *tokenizer, const json_t *object, const char *where,
                            const char *key, char **text, size_t *size, zest_error *error);
/* "NAME: WHERE: SAYING", with ZEST_ERROR_FORMAT. */
zest_status zest_build_refuse(const zest_tokenizer *tokenizer, const char *where, const char *saying,
                              zest_error *error);
/* The type of a component; NULL: see error. */
const char *zest_build_type(const zest_tokenizer *tokenizer, const json_t *component, const char *where,
                            zest_error *error);
/* Reads every component of a Sequence's list with `one`. */
typedef zest_status (*zest_build_component)(zest_tokenizer *tokenizer, const json_t *component,
                                            zest_error *error);
zest_status zest_build_sequence(zest_tokenizer *tokenizer, const json_t *component, const char *where,
                                const char *key, zest_build_component one, zest_error *error);

/* Tokens of a vocabulary {"token": id}. */
zest_status zest_build_vocab(zest_tokenizer *tokenizer, const json_t *vocab, zest_error *error);
/* An added token {"content": ..., "special": ..., ...}. */
zest_status zest_build_added(zest_tokenizer *tokenizer, const json_t *token, int64_t id, zest_error *error);

/* ---- Components of a tokenizer.json; each may be null ------------------------------------------------- */

zest_status zest_build_normalizer(zest_tokenizer *tokenizer, const json_t *component, zest_error *error);
zest_status zest_build_pre_tokenizer(zest_tokenizer *tokenizer, const json_t *component, zest_error *error);
zest_status zest_build_decoder(zest_tokenizer *tokenizer, const json_t *component, zest_error *error);
zest_status zest_build_post_processor(zest_tokenizer *tokenizer, const json_t *component, zest_error *error);
/* The parts of BERT's normalizer that are wanted, as steps. */
zest_status zest_build_bert_steps(zest_tokenizer *tokenizer, int clean, int ideographs, int accents,
                                  int lowercase, zest_error *error);
/* The model becomes WordPiece. prefix is copied. */
zest_status zest_build_wordpiece(zest_tokenizer *tokenizer, const char *prefix, size_t prefix_size,
                                 int64_t longest_word, zest_error *error);
/* A pattern, {"String": ...} or {"Regex": ...}: one of text and regex is set. */
zest_status zest_build_pattern(const zest_tokenizer *tokenizer, const json_t *component, const char *where,
                               char **text, size_t *size, zest_regex **regex, zest_error *error);

/* ---- Roles (load_vocab.c) ---------------------------------------------------------------------------- */

/* What tokenizer_config.json and special_tokens_map.json say; either may be NULL. */
typedef struct {
    json_t *config, *map;
} zest_build_settings;

zest_status zest_build_read_settings(const char *folder, zest_build_settings *settings, zest_error *error);
void zest_build_free_settings(zest_build_settings *settings);
/* Classes of transformers that take tokenizer.json as it is, in version 4 and in version 5. */
int zest_build_generic_class(const char *name);
/* What they give for a role: a string, an object with "content", JSON null, or NULL for nothing. */
const json_t *zest_build_role(const zest_build_settings *settings, zest_token_role role);
/* Sets the roles from the settings; those that they do not mention, from the usual spellings among the
 * special tokens. */
void zest_build_roles(zest_tokenizer *tokenizer, const zest_build_settings *settings);
/* Sets one by spelling, if there is such a token. */
void zest_build_set_role(zest_tokenizer *tokenizer, zest_token_role role, const char *content, size_t size);

#endif
