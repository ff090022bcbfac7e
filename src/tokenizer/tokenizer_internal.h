/* Internals of the tokenizer: regular expressions, BPE and WordPiece models, normalizers, pre-tokenizers,
 * decoders, the tokenizer struct, and what the loaders share. */
#ifndef ZEST_TOKENIZER_TOKENIZER_INTERNAL_H
#define ZEST_TOKENIZER_TOKENIZER_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"

/* ---- Regular expressions ----
 *
 * Those of tokenizer files, in the syntax of Oniguruma, with the characters of Unicode 16.0. Time and memory are linear in
 * the text for every pattern; a pattern that cannot be matched so is an error that names what it has. */

typedef struct zest_regex zest_regex;
typedef struct zest_regex_memory zest_regex_memory;

/* source is for messages: where the pattern comes from. */
zest_regex *zest_regex_new(const char *pattern, size_t size, const char *source, zest_error *error);
void zest_regex_free(zest_regex *regex);

/* Iterator over the matches in valid UTF-8. Several iterators may use one regex at a time. Start with {0}. */
typedef struct {
    const zest_regex *regex;
    zest_regex_memory *memory; /* reused */
    const char *text;
    size_t size, from, last; /* last: end of the previous match; SIZE_MAX: none */
} zest_regex_iterator;

zest_status zest_regex_begin(zest_regex_iterator *iterator, const zest_regex *regex, const char *text,
                             size_t size, zest_error *error);
/* *found = 0 after the last match. */
zest_status zest_regex_next(zest_regex_iterator *iterator, int *found, size_t *start, size_t *end,
                            zest_error *error);
/* Steps that were taken since zest_regex_begin. */
size_t zest_regex_work(const zest_regex_iterator *iterator);
void zest_regex_iterator_free(zest_regex_iterator *iterator);

/* ---- Byte-pair encoding ----
 *
 * Byte-pair encoding (Sennrich, Haddow, Birch 2016) of one pre-token: the adjacent pair of lowest rank
 * merges first, the leftmost of equals, until no pair has a merge. */

typedef struct {
    uint64_t key; /* left << 32 + right; UINT64_MAX: empty slot */
    uint32_t rank;
    int32_t merged;
} zest_bpe_pair;

typedef struct {
    zest_vocab vocab;
    zest_bpe_pair *pairs; /* open addressing */
    size_t slots, count;
    size_t reach;             /* largest distance of a pair from its own slot */
    int32_t byte_symbol[256]; /* byte-level: the token that stands for this byte; -1: none */
    int32_t byte_token[256];  /* byte fallback: the token <0xNN>; -1: none */
    int32_t ascii[128];       /* tokens of one plain character */
    int byte_level;           /* pre-tokens are bytes, spelt as in zest_bpe_spelling; else characters */
    int byte_fallback;
    int fuse_unknown;
    int ignore_merges; /* "ignore_merges": a pre-token that is in the vocabulary is one token */
    int words_apart;   /* set by zest_bpe_optimize: no token has a "▁" after another character */
    int32_t unknown;   /* for text that the vocabulary cannot spell; -1: such characters are dropped */
} zest_bpe;

/* Scratch memory for encoding; start with {0}, reusable. */
typedef struct {
    char *memory;
    size_t size;
    zest_buffer spelling;
} zest_bpe_scratch;

/* GPT-2's character for a byte, of one or two bytes in UTF-8. */
uint32_t zest_bpe_spelling(unsigned char byte);
/* The byte of such a character; -1: none. */
int zest_bpe_spelt(uint32_t code);

/* Adds a merge. An existing pair gets the new rank: the last of duplicates wins, as in Hugging Face
 * tokenizers. */
zest_status zest_bpe_add(zest_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t merged,
                         zest_error *error);
/* Marks the model's own tokens as complete: call before added tokens join the vocabulary. */
void zest_bpe_seal(zest_bpe *bpe);
/* Prepares fast paths; call after all merges were added. */
void zest_bpe_optimize(zest_bpe *bpe);
void zest_bpe_free(zest_bpe *bpe);

/* The end of the first word of a pre-token: before a "▁" that no merge can join to the text before it.
 * Encoding word by word gives the same tokens; only for words_apart. */
size_t zest_bpe_word(const char *piece, size_t size);

/* Appends the tokens of a pre-token (valid UTF-8, or any bytes when byte_level). Out of memory:
 * out->failed. */
void zest_bpe_encode(const zest_bpe *bpe, zest_bpe_scratch *scratch, const char *piece, size_t size,
                     zest_ids *out);
void zest_bpe_scratch_free(zest_bpe_scratch *scratch);

/* The two implementations of merging, with equal results: repeated scans for short lists, a heap for long
 * ones. Both return the number of remaining symbols; the heap returns SIZE_MAX when out of memory. */
size_t zest_bpe_merge_short(const zest_bpe *bpe, int32_t *symbols, size_t count);
size_t zest_bpe_merge_long(const zest_bpe *bpe, zest_bpe_scratch *scratch, int32_t *symbols, size_t count);
enum { ZEST_BPE_SHORT = 64 };

/* ---- WordPiece ----
 *
 * WordPiece, the model of BERT tokenizers: the longest token that is a prefix of the word, then the
 * longest that continues it, and so on. A word that cannot be spelt to its end is one unknown token. */

/* The time for a word is quadratic in its length, so the limit in a file is itself limited. 100 is usual. */
enum { ZEST_WORDPIECE_MAX_WORD_CHARS = 10000 };

typedef struct {
    char *prefix; /* owned; of tokens that continue a word: "##". NULL: the model is BPE */
    size_t prefix_size;
    size_t max_word_chars; /* characters; a longer word is unknown */
    int32_t unknown;
    zest_spelling *tokens; /* the model's own tokens, sorted; they point into the vocabulary */
    size_t count;
    size_t first[257];                   /* tokens that start with byte b: first[b] to first[b + 1] */
    size_t continuing, continuing_count; /* range of tokens that start with the prefix */
} zest_wordpiece;

/* Builds the tables; the vocabulary must be complete. source is for messages. */
zest_status zest_wordpiece_finish(zest_wordpiece *wordpiece, const zest_vocab *vocab, const char *source,
                                  zest_error *error);
void zest_wordpiece_free(zest_wordpiece *wordpiece);

/* Appends the tokens of a word (valid UTF-8, not empty). Out of memory: out->failed. */
void zest_wordpiece_encode(const zest_wordpiece *wordpiece, const char *word, size_t size, zest_ids *out);

/* ---- Unigram ----
 *
 * SentencePiece's default model: every token has a score, and the best path through the text wins. */

/* bytes; limits the time of a search. The longest of published models have some dozens. */
enum { ZEST_UNIGRAM_MAX_TOKEN = 1024 };

typedef struct zest_unigram_node zest_unigram_node;
typedef struct zest_unigram_table zest_unigram_table;

typedef struct {
    double *score; /* by id, count of them; NULL: the model is another */
    size_t count;
    double lowest;        /* of the scores; set by finish unless single */
    double unknown_score; /* set by finish */
    int32_t unknown;
    int byte_fallback;
    int single;              /* sums are rounded to single precision, as SentencePiece's own are */
    unsigned char *unlisted; /* by id: tokens that texts are not searched for; NULL: none */
    zest_unigram_node *node; /* the trie of the tokens; set by finish */
    size_t nodes;
    zest_unigram_table *table;
} zest_unigram;

zest_status zest_unigram_finish(zest_unigram *unigram, const zest_vocab *vocab, const char *source,
                                zest_error *error);
void zest_unigram_free(zest_unigram *unigram);
/* Appends the tokens of a text (valid UTF-8). bpe has the vocabulary and the tokens of single bytes. Out of memory:
 * out->failed. */
void zest_unigram_encode(const zest_unigram *unigram, const zest_bpe *bpe, zest_bpe_scratch *scratch,
                         const char *text, size_t size, zest_ids *out);

/* ---- SentencePiece's compiled map of characters (charsmap.c) ---- */

enum { ZEST_CHARSMAP_PLAIN = 1, ZEST_CHARSMAP_PLAIN_BEFORE_ASCII };

typedef struct {
    char *bytes; /* the file's, with a NUL behind them */
    size_t size, units;
    unsigned char plain[128]; /* by character of ASCII: whether it stays as it is */
} zest_charsmap;

zest_charsmap *zest_charsmap_new(const char *bytes, size_t size, const char *source, zest_error *error);
/* The same from its text in base 64. */
zest_charsmap *zest_charsmap_load(const char *text, size_t size, const char *source, zest_error *error);
void zest_charsmap_free(zest_charsmap *map);
/* What the shortest or longest entry at the start of the text becomes; NULL: there is no entry. */
const char *zest_charsmap_find(const zest_charsmap *map, const char *text, size_t size, int longest,
                               size_t *length);
/* The number of characters of ASCII at the start of the text that stay as they are. */
size_t zest_charsmap_plain(const zest_charsmap *map, const char *text, size_t size);
/* Appends the text as Hugging Face tokenizers maps it. Stops once out is larger than limit. */
void zest_charsmap_run(const zest_charsmap *map, const char *text, size_t size, size_t limit,
                       zest_buffer *out);

/* ---- SentencePiece's own normalizer (sentencepiece.c) ---- */

typedef struct {
    zest_charsmap *map;  /* NULL: identity */
    int prefix;          /* add_dummy_prefix: a space before the text */
    int first_only;      /* that space comes before the first section of a text alone */
    int trim;            /* remove_extra_whitespaces: at both ends, and of several in a row all but one */
    int escape;          /* escape_whitespaces: spaces become "▁" */
    zest_spelling *kept; /* sorted: texts that stay as they are, the user-defined tokens */
    size_t kept_count;
    char *kept_text;          /* owned */
    unsigned char first[256]; /* a kept text or an entry of the map begins with this byte, or it is a space */
} zest_sentencepiece;

void zest_sentencepiece_finish(zest_sentencepiece *rules);
/* later: the text is a section behind an added token. */
void zest_sentencepiece_run(const zest_sentencepiece *rules, const char *text, size_t size, int later,
                            size_t limit, zest_buffer *out);
void zest_sentencepiece_free(zest_sentencepiece *rules);

/* ---- Normalizers: change the text before it is split ---- */

typedef enum {
    ZEST_NORMALIZER_PREPEND, /* content in front of a text that is not empty */
    ZEST_NORMALIZER_REPLACE, /* every pattern, or every match of regex, by content */
    ZEST_NORMALIZER_COMPOSE, /* normal form C */
    /* BERT's normalizer: */
    ZEST_NORMALIZER_CLEAN,         /* remove control characters, white space becomes spaces */
    ZEST_NORMALIZER_IDEOGRAPHS,    /* spaces around every CJK character */
    ZEST_NORMALIZER_STRIP_ACCENTS, /* normal form D without nonspacing marks */
    ZEST_NORMALIZER_LOWERCASE,
    ZEST_NORMALIZER_PRECOMPILED,   /* SentencePiece's map of characters, as Hugging Face applies it */
    ZEST_NORMALIZER_SENTENCEPIECE, /* all of SentencePiece's own normalizer */
} zest_normalizer_kind;

typedef struct {
    zest_normalizer_kind kind;
    char *content, *pattern; /* owned */
    size_t content_size, pattern_size;
    zest_regex *regex; /* instead of pattern */
    zest_charsmap *map;
    zest_sentencepiece *sentencepiece;
} zest_normalizer_step;

enum { ZEST_NORMALIZER_STEPS = 16 };

typedef struct {
    zest_normalizer_step step[ZEST_NORMALIZER_STEPS];
    size_t count;
} zest_normalizer;

/* Scratch memory; start with {0}. */
typedef struct {
    zest_buffer text[2], decomposed;
    zest_regex_iterator iterator;
    int later; /* set by the caller: this text is not the first of its input */
} zest_normalizer_scratch;

/* *out is the text itself or points into scratch, valid until the next call. Excessive growth of the text is
 * an error: see ZEST_NORMALIZER_GROWTH. */
zest_status zest_normalizer_run(const zest_normalizer *normalize, zest_normalizer_scratch *scratch,
                                const char *text, size_t size, const char **out, size_t *out_size,
                                zest_error *error);

/* Limit of growth. Published normalizers and decoders make a text at most a few times longer; a chain of
 * replacements in a hostile file could make it 4^16 times longer. */
enum { ZEST_NORMALIZER_GROWTH = 32, ZEST_NORMALIZER_SLACK = 4096 };
static inline size_t zest_normalizer_limit(size_t size) {
    return ZEST_NORMALIZER_GROWTH * size + ZEST_NORMALIZER_SLACK;
}

/* Appends text with every pattern (not empty) replaced by content. Stops once out is larger than limit. */
void zest_normalizer_replace(const char *text, size_t size, const char *pattern, size_t pattern_size,
                             const char *content, size_t content_size, size_t limit, zest_buffer *out);

void zest_normalizer_scratch_free(zest_normalizer_scratch *scratch);
void zest_normalizer_free(zest_normalizer *normalize);

/* ---- Pre-tokenizers: split the text into the units that BPE or WordPiece encodes ----
 *
 * The two patterns that most models use have built-in splitters, faster than regular expressions. */
#define ZEST_PRE_TOKENIZER_GPT2_PATTERN \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* Numbers are split into groups of digits: {1} for Qwen2, {1,3} for Llama 3. */
#define ZEST_PRE_TOKENIZER_CL100K_PATTERN(digits)                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef enum {
    ZEST_PRE_TOKENIZER_PREFIX,    /* prepend a space unless there is one */
    ZEST_PRE_TOKENIZER_GPT2,      /* built-in: GPT-2's pattern */
    ZEST_PRE_TOKENIZER_CL100K,    /* built-in: Qwen2's and Llama 3's pattern; count: digits per group */
    ZEST_PRE_TOKENIZER_DIGITS,    /* split numbers off */
    ZEST_PRE_TOKENIZER_METASPACE, /* spaces become mark, which starts a pre-token */
    ZEST_PRE_TOKENIZER_REGEX,
    ZEST_PRE_TOKENIZER_LITERAL, /* split at every mark */
    ZEST_PRE_TOKENIZER_BERT,    /* split at white space, isolate punctuation */
} zest_pre_tokenizer_kind;

typedef enum {
    ZEST_PRE_TOKENIZER_ISOLATED,   /* a match is a pre-token */
    ZEST_PRE_TOKENIZER_REMOVED,    /* a match is dropped */
    ZEST_PRE_TOKENIZER_PREVIOUS,   /* a match joins the text before it */
    ZEST_PRE_TOKENIZER_NEXT,       /* a match joins the text after it */
    ZEST_PRE_TOKENIZER_CONTIGUOUS, /* adjacent matches are one pre-token */
} zest_pre_tokenizer_behaviour;

typedef enum {
    ZEST_PRE_TOKENIZER_NEVER,
    ZEST_PRE_TOKENIZER_FIRST,
    ZEST_PRE_TOKENIZER_ALWAYS
} zest_pre_tokenizer_prepend;

typedef struct {
    zest_pre_tokenizer_kind kind;
    zest_pre_tokenizer_behaviour behaviour;
    int invert; /* the text between matches counts as the match */
    int count;
    zest_regex *regex;
    char *mark; /* owned */
    size_t mark_size;
    /* METASPACE: a mark before the first section of the text, or before every one. */
    zest_pre_tokenizer_prepend prepend;
    int whole; /* METASPACE: do not split */
} zest_pre_tokenizer_step;

enum { ZEST_PRE_TOKENIZER_STEPS = 16 };

typedef struct {
    zest_pre_tokenizer_step step[ZEST_PRE_TOKENIZER_STEPS]; /* each splits the output of the one before */
    size_t count;
} zest_pre_tokenizer;

void zest_pre_tokenizer_free(zest_pre_tokenizer *split);

typedef struct {
    size_t start, end;
    int match;
} zest_pre_tokenizer_span;

/* Scratch memory of one step; start with {0}. */
typedef struct {
    zest_buffer text;
    zest_pre_tokenizer_span *spans;
    size_t count, capacity;
    zest_regex_iterator iterator;
} zest_pre_tokenizer_buffers;

typedef struct {
    zest_pre_tokenizer_buffers step[ZEST_PRE_TOKENIZER_STEPS];
    size_t made, limit; /* bytes that the steps have written, and may write; limit 0: no limit was set yet */
} zest_pre_tokenizer_scratch;

void zest_pre_tokenizer_scratch_free(zest_pre_tokenizer_scratch *scratch);

/* Receives one pre-token, never empty, valid during the call only. */
typedef zest_status (*zest_pre_tokenizer_sink)(void *user, const char *piece, size_t size);

/* Passes the pre-tokens of the text (valid UTF-8) to sink in order. first: the text is the start of the input. Steps that
 * write more than the scratch's limit are an error; without one it is zest_normalizer_limit of the first text. */
zest_status zest_pre_tokenizer_run(const zest_pre_tokenizer *split, zest_pre_tokenizer_scratch *scratch,
                                   const char *text, size_t size, int first, zest_pre_tokenizer_sink sink,
                                   void *user, zest_error *error);

/* The length of the first pre-token of the text, which must not be empty. */
size_t zest_pre_tokenizer_gpt2(const char *text, size_t size);
size_t zest_pre_tokenizer_cl100k(const char *text, size_t size, int digits);

/* ---- Decoders: a chain of steps over the list of tokens, which are joined at the end ---- */

typedef enum {
    ZEST_DECODER_BYTE_LEVEL,    /* GPT-2's characters to bytes; invalid UTF-8 becomes U+FFFD */
    ZEST_DECODER_BYTE_FALLBACK, /* sequences of <0xNN> to text */
    ZEST_DECODER_REPLACE,       /* replace mark by content in every token */
    ZEST_DECODER_FUSE,          /* join all tokens */
    ZEST_DECODER_STRIP, /* remove up to `start` marks from the start of every token, up to `stop` from its end */
    ZEST_DECODER_METASPACE, /* replace mark by a space; in the first token by nothing if prepended */
    ZEST_DECODER_WORDPIECE, /* remove mark from the start of a token, or else put a space before it */
} zest_decoder_kind;

typedef struct {
    zest_decoder_kind kind;
    char *mark, *content; /* owned */
    size_t mark_size, content_size;
    size_t start, stop;
    int prepended;
    int cleanup; /* WORDPIECE: no space before punctuation and in contractions */
} zest_decoder_step;

enum { ZEST_DECODER_STEPS = 16 };

typedef struct {
    zest_decoder_step step[ZEST_DECODER_STEPS];
    size_t count;
    int spaced; /* no steps: join tokens by spaces */
} zest_decoder;

void zest_decoder_free(zest_decoder *decode);

/* Concatenated strings. Start with {0}. */
typedef struct {
    zest_buffer text;
    size_t *end; /* end offset of string i; it starts at the end of the one before */
    size_t count, capacity;
} zest_decoder_list;

void zest_decoder_add(zest_decoder_list *list, const char *text,
                      size_t size); /* out of memory: list->text.failed */
void zest_decoder_list_free(zest_decoder_list *list);

/* Appends the text; consumes the list. Excessive growth is an error: see zest_normalizer_limit. */
zest_status zest_decoder_run(const zest_decoder *decode, zest_decoder_list *list, zest_buffer *out,
                             zest_error *error);

/* Appends the bytes of a byte-level token; a token with other characters is copied unchanged. */
void zest_decoder_byte_level(const char *token, size_t size, zest_buffer *out);
/* The byte of a token <0xNN>; -1: not such a token. */
int zest_decoder_byte(const char *token, size_t size);

/* ---- The tokenizer ---- */

enum {
    ZEST_TOKENIZER_SPECIAL = 1,
    ZEST_TOKENIZER_CHANGED =
        2, /* a late token changed by the normalizer: decoding gives the normalized spelling */
};

struct zest_tokenizer {
    zest_added early; /* matched in the raw text */
    zest_normalizer normalize;
    zest_added late; /* matched in the normalized text */
    zest_pre_tokenizer split;
    zest_bpe bpe;             /* also has the vocabulary of a WordPiece model */
    zest_wordpiece wordpiece; /* used instead of BPE if it has a prefix */
    zest_unigram unigram;     /* used instead of BPE if it has scores */
    zest_decoder decode;
    zest_ids before, after; /* special tokens around the text */
    unsigned char *flags;   /* by id, `vocab.size` of them, set by finish: ZEST_TOKENIZER_* */
    int32_t role[ZEST_TOKEN_ROLES];
    char *chat; /* the chat template, chat_size bytes; NULL: none */
    size_t chat_size;
    char *name; /* for messages */
};

/* An empty tokenizer: no token has a role. */
zest_tokenizer *zest_tokenizer_new(const char *name, zest_error *error);

/* An added token; it is added to the vocabulary if necessary. content need not be NUL-terminated. */
typedef struct {
    const char *content;
    size_t size;
    int64_t id; /* -1: the id in the vocabulary; ignored if there is none */
    int special, lstrip, rstrip, single_word, normalized;
} zest_tokenizer_added;

zest_status zest_tokenizer_add(zest_tokenizer *tokenizer, const zest_tokenizer_added *added,
                               zest_error *error);

/* Adds a merge. Left, right and their concatenation must be in the vocabulary. rank counts the merges. */
zest_status zest_tokenizer_add_merge(zest_tokenizer *tokenizer, const zest_tokenizer_text *left,
                                     const zest_tokenizer_text *right, size_t rank, zest_error *error);
/* The same from "left right". */
zest_status zest_tokenizer_add_merge_line(zest_tokenizer *tokenizer, const char *line, size_t size,
                                          size_t rank, zest_error *error);

/* Append a step. Too many steps are an error. */
zest_pre_tokenizer_step *zest_tokenizer_split_step(zest_tokenizer *tokenizer, zest_pre_tokenizer_kind kind,
                                                   zest_error *error);
zest_normalizer_step *zest_tokenizer_normalize_step(zest_tokenizer *tokenizer, zest_normalizer_kind kind,
                                                    zest_error *error);
zest_decoder_step *zest_tokenizer_decode_step(zest_tokenizer *tokenizer, zest_decoder_kind kind,
                                              zest_error *error);
/* The normalizer and decoder of Llama: "▁" for spaces, and before the text if prefix. */
zest_status zest_tokenizer_llama_steps(zest_tokenizer *tokenizer, int prefix, zest_error *error);

/* The decoder alone; prefix: the text loses a space at its start. */
zest_status zest_tokenizer_llama_decoder(zest_tokenizer *tokenizer, int prefix, zest_error *error);

/* Builds the tables; nothing may be added afterwards. */
zest_status zest_tokenizer_finish(zest_tokenizer *tokenizer, zest_error *error);

/* What GGUF files call the way in which a byte-level tokenizer splits texts (load_gguf.c); NULL: it has no name there. */
const char *zest_tokenizer_name_pre(const zest_tokenizer *tokenizer);

/* A tokenizer from vocab.json and merges.txt, or from vocab.txt. */
zest_tokenizer *zest_tokenizer_from_vocab(const char *folder, zest_error *error);

#endif
