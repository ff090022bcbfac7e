/* Building tokenizers from JSON; seen by build_*.c alone. */
#ifndef ZEST_TOKENIZER_LOAD_H
#define ZEST_TOKENIZER_LOAD_H

#include <jansson.h>

#include "tokenizer/pipeline.h"

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
