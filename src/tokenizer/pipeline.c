/* What all builders of tokenizers share. */
#include "tokenizer/pipeline.h"

#include <stdlib.h>
#include <string.h>

zest_tokenizer *zest_tokenizer_new(const char *name, zest_error *error) {
    zest_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer) tokenizer->name = strdup(name);
    if (!tokenizer || !tokenizer->name) {
        zest_tokenizer_free(tokenizer);
        zest_error_memory(error, name, sizeof *tokenizer);
        return NULL;
    }
    for (int i = 0; i < ZEST_TOKEN_ROLES; i++) tokenizer->role[i] = -1;
    tokenizer->bpe.unknown = -1;
    return tokenizer;
}

zest_status zest_tokenizer_add(zest_tokenizer *tokenizer, const zest_tokenizer_added *added,
                               zest_error *error) {
    zest_vocab *vocab = &tokenizer->bpe.vocab;
    if (added->size > ZEST_ADDED_LONGEST)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: an added token has %zu bytes, more than the %d allowed", tokenizer->name,
                              added->size, ZEST_ADDED_LONGEST);
    int32_t known = zest_vocab_find(vocab, added->content, added->size);
    int64_t id = added->id < 0 ? known : added->id;
    if (id < 0 || !added->size) return ZEST_OK;
    if (known >= 0 && known != id)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the added token \"%.*s\" has id %lld, but id %d in the vocabulary",
                              tokenizer->name, (int)(added->size < 60 ? added->size : 60), added->content,
                              (long long)id, (int)known);
    if (known < 0) {
        zest_status status = zest_vocab_add(vocab, added->content, added->size, id, tokenizer->name, error);
        if (status) return status;
    }
    char *content = malloc(added->size);
    if (!content) return zest_error_memory(error, tokenizer->name, added->size);
    memcpy(content, added->content, added->size);
    zest_added_token token = {content,
                              added->size,
                              (int32_t)id,
                              added->special != 0,
                              added->eats_left != 0,
                              added->eats_right != 0,
                              added->single_word != 0};
    return zest_added_add(added->normalized ? &tokenizer->late : &tokenizer->early, token, error);
}

/* ---- Merges ------------------------------------------------------------------------------------------- */

static int32_t find_token(const zest_tokenizer *tokenizer, const char *text, size_t size, size_t place,
                          zest_error *error) {
    int32_t id = zest_vocab_find(&tokenizer->bpe.vocab, text, size);
    if (id < 0)
        zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: merge %zu needs the token \"%.*s\", which is not in the vocabulary; the two do not belong "
            "together",
            tokenizer->name, place + 1, (int)(size < 60 ? size : 60), text);
    return id;
}

zest_status zest_tokenizer_add_merge(zest_tokenizer *tokenizer, const zest_tokenizer_text *left,
                                     const zest_tokenizer_text *right, size_t place, zest_error *error) {
    char room[256], *both = left->size + right->size <= sizeof room ? room : malloc(left->size + right->size);
    if (!both) return zest_error_memory(error, tokenizer->name, left->size + right->size);
    if (left->size) memcpy(both, left->data, left->size);
    if (right->size) memcpy(both + left->size, right->data, right->size);
    zest_error local = {0}, *say = error ? error : &local;
    zest_status status = ZEST_ERROR_FORMAT;
    int32_t a = find_token(tokenizer, left->data, left->size, place, say), b = -1, merged = -1;
    if (a >= 0) b = find_token(tokenizer, right->data, right->size, place, say);
    if (b >= 0) merged = find_token(tokenizer, both, left->size + right->size, place, say);
    if (place >= UINT32_MAX)
        zest_error_set(say, ZEST_ERROR_FORMAT, "%s: too many merges", tokenizer->name);
    else if (merged >= 0)
        status = zest_bpe_add(&tokenizer->bpe, a, b, (uint32_t)place, merged, error);
    if (both != room) free(both);
    return status;
}

zest_status zest_tokenizer_add_merge_line(zest_tokenizer *tokenizer, const char *line, size_t size,
                                          size_t place, zest_error *error) {
    const char *space = size ? memchr(line, ' ', size) : NULL;
    if (!space || memchr(space + 1, ' ', (size_t)(line + size - space - 1)))
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: merge %zu, \"%.*s\", is not two tokens with a space between them",
                              tokenizer->name, place + 1, (int)(size < 60 ? size : 60), line);
    zest_tokenizer_text left = {line, (size_t)(space - line)};
    zest_tokenizer_text right = {space + 1, (size_t)(line + size - space - 1)};
    return zest_tokenizer_add_merge(tokenizer, &left, &right, place, error);
}

/* ---- Steps -------------------------------------------------------------------------------------------- */

static int has_room(const zest_tokenizer *tokenizer, const char *what, size_t count, size_t limit,
                    zest_error *error) {
    if (count < limit) return 1;
    zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the %s has more than %zu steps", tokenizer->name, what,
                   limit);
    return 0;
}

zest_presplit_step *zest_tokenizer_split_step(zest_tokenizer *tokenizer, zest_presplit_kind kind,
                                              zest_error *error) {
    zest_presplit *chain = &tokenizer->split;
    if (!has_room(tokenizer, "pre_tokenizer", chain->count, ZEST_PRESPLIT_STEPS, error)) return NULL;
    chain->step[chain->count] = (zest_presplit_step){.kind = kind};
    return &chain->step[chain->count++];
}

zest_normalize_step *zest_tokenizer_normalize_step(zest_tokenizer *tokenizer, zest_normalize_kind kind,
                                                   zest_error *error) {
    zest_normalize *chain = &tokenizer->normalize;
    if (!has_room(tokenizer, "normalizer", chain->count, ZEST_NORMALIZE_STEPS, error)) return NULL;
    chain->step[chain->count] = (zest_normalize_step){.kind = kind};
    return &chain->step[chain->count++];
}

zest_decode_step *zest_tokenizer_decode_step(zest_tokenizer *tokenizer, zest_decode_kind kind,
                                             zest_error *error) {
    zest_decode *chain = &tokenizer->decode;
    if (!has_room(tokenizer, "decoder", chain->count, ZEST_DECODE_STEPS, error)) return NULL;
    chain->step[chain->count] = (zest_decode_step){.kind = kind};
    return &chain->step[chain->count++];
}

/* A step's text, noted as missing memory when the copy fails. */
static int copy(char **to, size_t *size, const char *text, zest_error *error) {
    *to = strdup(text);
    *size = strlen(text);
    if (!*to) zest_error_memory(error, "a tokenizer", *size);
    return *to != NULL;
}

static int spaces_to_marks(zest_tokenizer *tokenizer, int prefix, zest_error *error) {
    zest_normalize_step *step;
    if (prefix) {
        step = zest_tokenizer_normalize_step(tokenizer, ZEST_NORMALIZE_PREPEND, error);
        if (!step || !copy(&step->content, &step->content_size, "▁", error)) return 0;
    }
    step = zest_tokenizer_normalize_step(tokenizer, ZEST_NORMALIZE_REPLACE, error);
    return step && copy(&step->pattern, &step->pattern_size, " ", error) &&
           copy(&step->content, &step->content_size, "▁", error);
}

static int marks_to_spaces(zest_tokenizer *tokenizer, int prefix, zest_error *error) {
    zest_decode_step *step = zest_tokenizer_decode_step(tokenizer, ZEST_DECODE_REPLACE, error);
    if (!step || !copy(&step->mark, &step->mark_size, "▁", error)) return 0;
    if (!copy(&step->content, &step->content_size, " ", error)) return 0;
    if (!zest_tokenizer_decode_step(tokenizer, ZEST_DECODE_BYTE_FALLBACK, error)) return 0;
    if (!zest_tokenizer_decode_step(tokenizer, ZEST_DECODE_FUSE, error)) return 0;
    if (!prefix) return 1;
    step = zest_tokenizer_decode_step(tokenizer, ZEST_DECODE_STRIP, error);
    if (!step || !copy(&step->mark, &step->mark_size, " ", error)) return 0;
    step->start = 1;
    return 1;
}

zest_status zest_tokenizer_llama_steps(zest_tokenizer *tokenizer, int prefix, zest_error *error) {
    zest_error local = {0}, *say = error ? error : &local;
    int ok = spaces_to_marks(tokenizer, prefix, say) && marks_to_spaces(tokenizer, prefix, say);
    return ok ? ZEST_OK : say->status;
}

/* ---- The end ------------------------------------------------------------------------------------------ */

static void mark_special(zest_tokenizer *tokenizer, const zest_added *added) {
    for (size_t i = 0; i < added->count; i++)
        if (added->token[i].special) tokenizer->flags[added->token[i].id] |= ZEST_TOKENIZER_SPECIAL;
}

/* Late tokens are looked for in normalised text, so they are normalised themselves. */
static zest_status normalize_late(zest_tokenizer *tokenizer, zest_error *error) {
    zest_normalize_scratch scratch = {0};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < tokenizer->late.count && !status; i++) {
        zest_added_token *token = &tokenizer->late.token[i];
        const char *text;
        size_t size;
        status = zest_normalize_run(&tokenizer->normalize, &scratch, token->content, token->size, &text,
                                    &size, error);
        if (status || text == token->content) continue;
        char *content = malloc(size ? size : 1);
        if (!content) {
            status = zest_error_memory(error, tokenizer->name, size);
            break;
        }
        if (size) memcpy(content, text, size);
        if (size != token->size || memcmp(content, token->content, size))
            tokenizer->flags[token->id] |= ZEST_TOKENIZER_CHANGED;
        free(token->content);
        token->content = content;
        token->size = size;
        if (!size)
            status =
                zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the added token %d is empty once normalised",
                               tokenizer->name, (int)token->id);
    }
    zest_normalize_scratch_free(&scratch);
    return status;
}

zest_status zest_tokenizer_finish(zest_tokenizer *tokenizer, zest_error *error) {
    if (!tokenizer->bpe.vocab.count)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the vocabulary is empty", tokenizer->name);
    tokenizer->flags = calloc(tokenizer->bpe.vocab.size, 1);
    if (!tokenizer->flags) return zest_error_memory(error, tokenizer->name, tokenizer->bpe.vocab.size);
    mark_special(tokenizer, &tokenizer->early);
    mark_special(tokenizer, &tokenizer->late);
    zest_status status = normalize_late(tokenizer, error);
    if (status) return status;
    status = zest_added_finish(&tokenizer->early, error);
    if (!status) status = zest_added_finish(&tokenizer->late, error);
    if (status) return status;
    if (tokenizer->wordpiece.prefix)
        return zest_wordpiece_finish(&tokenizer->wordpiece, &tokenizer->bpe.vocab, tokenizer->name, error);
    zest_bpe_look(&tokenizer->bpe);
    return ZEST_OK;
}
