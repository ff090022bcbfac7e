/* What the loaders of tokenizers share: members of JSON files, components, settings of a model's folder. */
#ifndef ZEST_TOKENIZER_LOAD_H
#define ZEST_TOKENIZER_LOAD_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/tokenizer_internal.h"

/* ---- Members (load_members.c) ---- */

/* tokenizer_config.json and special_tokens_map.json; either may be NULL. */
typedef struct {
    json_t *config, *map;
} zest_tokenizer_load_settings;

enum { ZEST_TOKENIZER_LOAD_FILE_LIMIT = 1 << 26, ZEST_TOKENIZER_LOAD_TEXT_LIMIT = 1024 };
enum { ZEST_TOKENIZER_LOAD_WORD_LENGTH = 100 }; /* default of WordPiece's max_input_chars_per_word */

/* Parses folder/name. *out is NULL if the file is optional and does not exist. */
zest_status zest_tokenizer_load_read(const char *folder, const char *name, int optional, json_t **out,
                                     zest_error *error);

/* A member; NULL if it is missing or JSON null. */
json_t *zest_tokenizer_load_member(const json_t *object, const char *key);
/* A boolean member; fallback if it is missing, -1: it is required. */
zest_status zest_tokenizer_load_flag(const zest_tokenizer *tokenizer, const json_t *object, const char *where,
                                     const char *key, int fallback, int *flag, zest_error *error);
/* Sets the error "NAME: WHERE: MESSAGE", ZEST_ERROR_FORMAT. */
zest_status zest_tokenizer_load_error(const zest_tokenizer *tokenizer, const char *where, const char *message,
                                      zest_error *error);

/* A copy of a string member, to be freed. */
zest_status zest_tokenizer_load_text(const zest_tokenizer *tokenizer, const json_t *object, const char *where,
                                     const char *key, char **text, size_t *size, zest_error *error);
/* The type of a component; NULL: see error. */
const char *zest_tokenizer_load_type(const zest_tokenizer *tokenizer, const json_t *component,
                                     const char *where, zest_error *error);
/* Sets the error that names this type and the known ones. */
zest_status zest_tokenizer_load_unsupported(const zest_tokenizer *tokenizer, const char *where,
                                            const char *type, const char *known, zest_error *error);
/* A pattern, {"String": ...} or {"Regex": ...}: one of text and regex is set. */
zest_status zest_tokenizer_load_pattern(const zest_tokenizer *tokenizer, const json_t *component,
                                        const char *where, char **text, size_t *size, zest_regex **regex,
                                        zest_error *error);

/* ---- The model (load_model.c, load_unigram.c) ---- */

/* The model, and its unknown token once the added tokens are known. */
zest_status zest_tokenizer_load_model(zest_tokenizer *tokenizer, const json_t *model, zest_error *error);
zest_status zest_tokenizer_load_unknown(zest_tokenizer *tokenizer, const json_t *model, zest_error *error);
zest_status zest_tokenizer_load_added_list(zest_tokenizer *tokenizer, const json_t *tokens,
                                           zest_error *error);
/* Adds the tokens of a vocabulary {"token": id}. */
zest_status zest_tokenizer_load_vocab(zest_tokenizer *tokenizer, const json_t *vocab, zest_error *error);
/* Adds an added token {"content": ..., "special": ..., ...}. */
zest_status zest_tokenizer_load_added(zest_tokenizer *tokenizer, const json_t *token, int64_t id,
                                      zest_error *error);

/* Unigram: [[token, score], ...] and "unk_id" (load_unigram.c). */
zest_status zest_tokenizer_load_unigram(zest_tokenizer *tokenizer, const json_t *model, zest_error *error);

/* Adds the tokens of these arrays (load_scores.c). */
zest_status zest_tokenizer_load_pieces(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *arrays,
                                       zest_error *error);
/* Adds the merges that their scores stand for. */
zest_status zest_tokenizer_load_scores(zest_tokenizer *tokenizer, const zest_tokenizer_arrays *arrays,
                                       zest_error *error);

/* ---- SentencePiece's .model files (load_sentencepiece.c) ---- */

/* The file at this path, with the settings in the folder. */
zest_tokenizer *zest_tokenizer_from_sentencepiece(const char *path, const char *folder, zest_error *error);
/* Fills in the model, the normalizer and the decoder from the bytes of such a file. */
zest_status zest_tokenizer_load_sentencepiece(zest_tokenizer *tokenizer, const char *bytes, size_t size,
                                              zest_error *error);

/* ---- The chat template (load_chat.c) ---- */

enum { ZEST_TOKENIZER_CHAT_LIMIT = 1 << 20 }; /* bytes; published ones have at most some 20,000 */

/* Finds the template in the folder, or in tokenizer_config.json, which may be NULL. */
zest_status zest_tokenizer_load_chat(zest_tokenizer *tokenizer, const char *folder, const json_t *config,
                                     zest_error *error);
/* Makes this text the template. */
zest_status zest_tokenizer_load_set_chat(zest_tokenizer *tokenizer, const char *text, size_t size,
                                         zest_error *error);

/* ---- Components of a tokenizer.json; each may be null ---- */

typedef zest_status (*zest_tokenizer_loader)(zest_tokenizer *tokenizer, const json_t *component,
                                             zest_error *error);

/* Calls `one` for every component of a Sequence. */
zest_status zest_tokenizer_load_sequence(zest_tokenizer *tokenizer, const json_t *component,
                                         const char *where, const char *key, zest_tokenizer_loader one,
                                         zest_error *error);

zest_status zest_tokenizer_load_normalizer(zest_tokenizer *tokenizer, const json_t *component,
                                           zest_error *error);
/* transformers takes the options of BERT's normalizer from tokenizer_config.json, whatever tokenizer.json
 * has. */
void zest_tokenizer_load_override_normalizer(json_t *normalizer, const json_t *config);
zest_status zest_tokenizer_load_pre_tokenizer(zest_tokenizer *tokenizer, const json_t *component,
                                              zest_error *error);
zest_status zest_tokenizer_load_decoder(zest_tokenizer *tokenizer, const json_t *component,
                                        zest_error *error);
zest_status zest_tokenizer_load_post_processor(zest_tokenizer *tokenizer, const json_t *component,
                                               zest_error *error);
/* When Metaspace prepends a mark: add_prefix_space in old files, prepend_scheme in new ones. */
zest_status zest_tokenizer_load_prepend(const zest_tokenizer *tokenizer, const json_t *component,
                                        const char *where, zest_pre_tokenizer_prepend *prepend,
                                        zest_error *error);

/* Adds the enabled steps of BERT's normalizer. */
zest_status zest_tokenizer_load_bert_steps(zest_tokenizer *tokenizer, int clean, int ideographs, int accents,
                                           int lowercase, zest_error *error);
/* Makes WordPiece the model. prefix is copied. */
zest_status zest_tokenizer_load_wordpiece(zest_tokenizer *tokenizer, const char *prefix, size_t prefix_size,
                                          int64_t max_word_chars, zest_error *error);

/* ---- Roles of special tokens (load_vocab.c) ---- */

zest_status zest_tokenizer_load_read_settings(const char *folder, zest_tokenizer_load_settings *settings,
                                              zest_error *error);
void zest_tokenizer_load_free_settings(zest_tokenizer_load_settings *settings);
/* Whether this class of transformers (version 4 or 5) uses tokenizer.json without changes. */
int zest_tokenizer_load_generic_class(const char *name);
/* Adds the tokens that the settings, or added_tokens.json in the folder, list. */
zest_status zest_tokenizer_load_listed(zest_tokenizer *tokenizer,
                                       const zest_tokenizer_load_settings *settings, const char *folder,
                                       zest_error *error);
/* Sets the roles from the settings, or else from the usual spellings among the special tokens. */
void zest_tokenizer_load_roles(zest_tokenizer *tokenizer, const zest_tokenizer_load_settings *settings);

#endif
