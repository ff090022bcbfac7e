/* Tokenizers: text to token ids and back, as Hugging Face `tokenizers` does it, token for token.
 *
 *     text -> added tokens cut out -> normalised -> split into pieces -> BPE or WordPiece in every piece
 *     -> ids
 *
 * Known: byte-level BPE (GPT-2, RoBERTa, OPT, Qwen2, Llama 3, SmolLM), Llama-style BPE with byte fallback,
 * and WordPiece (BERT), read from a Hugging Face folder, from a tokenizer.json, or (BPE) from the arrays in a
 * GGUF file. What a file asks for beyond that is refused by name, never approximated. Truncation and padding
 * in a tokenizer.json are left to the caller.
 *
 * A tokenizer never changes once it is made: any number of threads may use one at a time.
 */
#ifndef ZEST_TOKENIZER_TOKENIZER_H
#define ZEST_TOKENIZER_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/error.h"
#include "io/gguf.h"
#include "tokenizer/vocab.h"

typedef struct zest_tokenizer zest_tokenizer;

/* path: a folder with tokenizer.json, with vocab.json and merges.txt, or with vocab.txt; or a tokenizer.json
 * itself. Special tokens come from tokenizer_config.json and special_tokens_map.json beside it, where they
 * are. NULL: see error. */
zest_tokenizer *zest_tokenizer_open(const char *path, zest_error *error);

/* The contents of a tokenizer.json. name is for messages. */
zest_tokenizer *zest_tokenizer_from_json(const char *bytes, size_t size, const char *name, zest_error *error);

/* What a GGUF file holds under tokenizer.ggml.*. Nothing is kept of it after the call. */
typedef struct {
    const char *data; /* need not end in NUL */
    size_t size;
} zest_tokenizer_text;

typedef struct {
    const char *model; /* .model: "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE) */
    const char
        *pre; /* .pre: "gpt-2", "smollm", "qwen2", "llama-bpe"; NULL or "default": gpt-2. Unused by llama */
    const zest_tokenizer_text *tokens;
    const float *scores; /* llama: needed unless there are merges; else NULL */
    const int32_t
        *types;   /* .token_type, or NULL: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte */
    size_t count; /* of tokens, scores and types */
    const zest_tokenizer_text *merges; /* "left right" */
    size_t merge_count;
    int32_t bos, eos, pad, unk, sep, cls, mask; /* ids; -1 where the file has none */
    int add_bos, add_eos, add_space_prefix;     /* 1, 0, or -1 where the file does not say */
} zest_tokenizer_arrays;

zest_tokenizer *zest_tokenizer_from_arrays(const zest_tokenizer_arrays *arrays, const char *name,
                                           zest_error *error);

/* The tokenizer inside a GGUF file, which may be closed afterwards. name is for messages. */
zest_tokenizer *zest_tokenizer_from_gguf(const zest_gguf *file, const char *name, zest_error *error);

void zest_tokenizer_free(zest_tokenizer *tokenizer);

enum {
    ZEST_ENCODE_TEMPLATE = 1, /* put the model's own special tokens around the text: <s> ... </s> */
    ZEST_ENCODE_LITERAL = 2,  /* the text "</s>" stands for itself and not for the special token */
};

/* Appends the ids. Bytes that are not UTF-8 are seen as U+FFFD, as Hugging Face sees text that was decoded
 * with errors="replace". */
zest_status zest_tokenizer_encode(const zest_tokenizer *tokenizer, const char *text, size_t size,
                                  unsigned flags, zest_ids *out, zest_error *error);

/* Appends the text. Ids without a token give nothing; so do special tokens when skip_special. Bytes that do
 * not add up to UTF-8 become U+FFFD. */
zest_status zest_tokenizer_decode(const zest_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                  int skip_special, zest_buffer *out, zest_error *error);

/* Appends what ids[first .. count) add to the text of ids[0 .. first), which are the prompt or its last
 * tokens. Decoded alone, generated tokens lose the space in front of their first word in tokenizers of
 * SentencePiece's kind. */
zest_status zest_tokenizer_decode_after(const zest_tokenizer *tokenizer, const int32_t *ids, size_t first,
                                        size_t count, int skip_special, zest_buffer *out, zest_error *error);

/* Appends the bytes that one token stands for, unrepaired: for text that is shown while it is being
 * generated. */
zest_status zest_tokenizer_token_bytes(const zest_tokenizer *tokenizer, int32_t id, zest_buffer *out,
                                       zest_error *error);

/* The id of a token as it is spelt in the vocabulary ("Ġgood", "▁good"); -1: no such token. */
int32_t zest_tokenizer_id(const zest_tokenizer *tokenizer, const char *token, size_t size);
/* The spelling of an id (followed by a NUL) and its length, unless size is NULL; NULL: no such id. */
const char *zest_tokenizer_token(const zest_tokenizer *tokenizer, int32_t id, size_t *size);
/* The largest id and one; there may be gaps below it. */
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

/* Writing a tokenizer as Hugging Face's tokenizer.json, for models that came from a GGUF file. */

/* Can it be written? Byte-level BPE can, cut by the patterns that GGUF files name. */
int zest_save_can(const zest_tokenizer *tokenizer);

/* Writes tokenizer.json and tokenizer_config.json (special tokens by their role) into the folder. */
zest_status zest_save_tokenizer(const zest_tokenizer *tokenizer, const char *folder, zest_error *error);

#endif
