/* Tokenizers: text to token ids and back, with the same result as Hugging Face `tokenizers`.
 *
 *     text -> added tokens split off -> normalizer -> pre-tokenizer -> BPE, WordPiece or Unigram -> ids
 *
 * Supported: byte-level BPE (GPT-2, RoBERTa, OPT, Qwen2, Llama 3, SmolLM), Llama-style BPE with byte
 * fallback, WordPiece (BERT) and Unigram (XLM-R), read from a Hugging Face folder, from a tokenizer.json, from a
 * SentencePiece .model (BPE and Unigram), or (BPE) from the arrays in a GGUF file. Unsupported features are an error that names them, never approximated.
 * Truncation and padding settings in a tokenizer.json are ignored: the caller does both.
 *
 * A tokenizer is immutable: any number of threads may use one at a time. */
#ifndef ZEST_TOKENIZER_TOKENIZER_H
#define ZEST_TOKENIZER_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "io/gguf.h"
#include "io/gguf_write.h"
#include "tokenizer/vocab.h"

typedef struct zest_tokenizer zest_tokenizer;

/* path: a folder with tokenizer.json, with vocab.json and merges.txt, with vocab.txt, or with tokenizer.model; or a
 * tokenizer.json, .model or .gguf itself. Special tokens come from tokenizer_config.json and special_tokens_map.json in the same folder, if
 * present. NULL: see error. */
zest_tokenizer *zest_tokenizer_open(const char *path, zest_error *error);

/* The contents of a tokenizer.json. name is for messages. */
zest_tokenizer *zest_tokenizer_from_json(const char *bytes, size_t size, const char *name, zest_error *error);

/* The values of a GGUF file under tokenizer.ggml.*. No pointer is kept after the call. */
typedef zest_gguf_text zest_tokenizer_text;

typedef struct {
    const char *model; /* .model: "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE) */
    /* .pre: "gpt-2", "smollm", "qwen2", "llama-bpe"; NULL or "default": gpt-2. Unused by llama. */
    const char *pre;
    const zest_tokenizer_text *tokens;
    const float *scores; /* llama: needed unless there are merges; else NULL */
    /* .token_type, or NULL: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. */
    const int32_t *types;
    size_t count;                      /* of tokens, scores and types */
    const zest_tokenizer_text *merges; /* "left right" */
    size_t merge_count;
    int32_t bos, eos, pad, unk, sep, cls, mask; /* ids; -1 where the file has none */
    int add_bos, add_eos, add_space_prefix;     /* 1, 0, or -1 where the file has none */
} zest_tokenizer_arrays;

zest_tokenizer *zest_tokenizer_from_arrays(const zest_tokenizer_arrays *arrays, const char *name,
                                           zest_error *error);

/* The tokenizer inside a GGUF file, which may be closed afterwards. name is for messages. */
zest_tokenizer *zest_tokenizer_from_gguf(const zest_gguf *file, const char *name, zest_error *error);

void zest_tokenizer_free(zest_tokenizer *tokenizer);

enum {
    ZEST_ENCODE_TEMPLATE = 1, /* add the model's special tokens around the text: <s> ... </s> */
    ZEST_ENCODE_LITERAL = 2,  /* "</s>" in the text is plain text, not the special token */
};

/* Appends the ids. Bytes that are not UTF-8 become U+FFFD, as in Python's errors="replace". */
zest_status zest_tokenizer_encode(const zest_tokenizer *tokenizer, const char *text, size_t size,
                                  unsigned flags, zest_ids *out, zest_error *error);

/* Appends the text. Ids without a token are skipped, and special tokens if skip_special. Bytes that are
 * not UTF-8 become U+FFFD. */
zest_status zest_tokenizer_decode(const zest_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                  int skip_special, zest_buffer *out, zest_error *error);

/* Appends the text that ids[first .. count) add to that of ids[0 .. first), the prompt or its last tokens.
 * Decoded alone, generated tokens would lose the space before their first word in SentencePiece tokenizers. */
zest_status zest_tokenizer_decode_after(const zest_tokenizer *tokenizer, const int32_t *ids, size_t first,
                                        size_t count, int skip_special, zest_buffer *out, zest_error *error);

/* Appends the raw bytes of one token: for text that is shown while it is generated. */
zest_status zest_tokenizer_token_bytes(const zest_tokenizer *tokenizer, int32_t id, zest_buffer *out,
                                       zest_error *error);

/* The id of a token as it is spelt in the vocabulary ("Ġgood", "▁good"); -1: no such token. */
int32_t zest_tokenizer_id(const zest_tokenizer *tokenizer, const char *token, size_t size);
/* The spelling of an id (followed by a NUL) and its length, unless size is NULL; NULL: no such id. */
const char *zest_tokenizer_token(const zest_tokenizer *tokenizer, int32_t id, size_t *size);
/* The largest id plus one; some ids may be unused. */
int32_t zest_tokenizer_size(const zest_tokenizer *tokenizer);
int zest_tokenizer_is_special(const zest_tokenizer *tokenizer, int32_t id);

typedef enum {
    ZEST_TOKEN_BOS,
    ZEST_TOKEN_EOS,
    ZEST_TOKEN_PAD,
    ZEST_TOKEN_UNK,
    ZEST_TOKEN_MASK,
    ZEST_TOKEN_CLS,
    ZEST_TOKEN_SEP,
    ZEST_TOKEN_ROLES,
} zest_token_role;

/* The id of the token with this role; -1: the tokenizer has none. */
int32_t zest_tokenizer_special(const zest_tokenizer *tokenizer, zest_token_role role);

/* The model's chat template as its files have it (chat/chat_template.h renders it): chat_template.jinja, or else
 * "chat_template" of tokenizer_config.json, or tokenizer.chat_template of a GGUF file. NULL: the model has none. */
const char *zest_tokenizer_chat_template(const zest_tokenizer *tokenizer, size_t *size);

/* What the tokenizer was read from, for messages. */
const char *zest_tokenizer_name(const zest_tokenizer *tokenizer);

/* ---- Writing a tokenizer.json, for models loaded from a GGUF file ---- */

/* Whether zest can write it: byte-level BPE with one of the pre-tokenizers of GGUF files. */
int zest_tokenizer_can_save(const zest_tokenizer *tokenizer);

/* Writes tokenizer.json and tokenizer_config.json (special tokens by their role) into the folder. */
zest_status zest_tokenizer_save(const zest_tokenizer *tokenizer, const char *folder, zest_error *error);

/* ---- Writing the keys tokenizer.ggml.* of a GGUF file ---- */

/* Byte-level BPE with one of the pre-tokenizers that have a name there, and Llama-style BPE with byte fallback; others
 * are refused, and so is one whose tokens would differ. vocab_size: rows of the model's embeddings; ids without a token
 * become unused ones. */
zest_status zest_tokenizer_put_gguf(const zest_tokenizer *tokenizer, size_t vocab_size,
                                    zest_gguf_metadata *metadata, zest_error *error);

#endif
