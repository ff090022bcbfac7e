/* What a tokenizer is made of; seen by tokenizer.c and by those that build one (build_*.c). */
#ifndef ZEST_TOKENIZER_PIPELINE_H
#define ZEST_TOKENIZER_PIPELINE_H

#include "tokenizer/vocab.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/wordpiece.h"

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

#endif
