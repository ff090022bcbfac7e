#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

/* ---- Encoding ----------------------------------------------------------------------------------------- */

/* A short piece that was seen in this call: its tokens stand in the output already. */
typedef struct {
    uint32_t at;
    uint16_t count;
    unsigned char size; /* 0: free */
    char text[25];
} seen;

typedef struct {
    const zest_tokenizer *tokenizer;
    int literal;
    zest_ids *out;
    zest_error *error;
    zest_normalize_scratch normalize;
    zest_presplit_scratch split;
    zest_bpe_scratch bpe;
    seen *cache; /* NULL: the text is too short for one to pay */
    size_t mask;
} work;

static zest_status encode_piece(void *user, const char *piece, size_t size) {
    work *w = user;
    zest_ids *out = w->out;
    seen *slot = NULL;
    if (w->cache && size <= sizeof slot->text) {
        slot = &w->cache[zest_hash(piece, size) & w->mask];
        if (slot->size == size && !memcmp(slot->text, piece, size)) {
            if (slot->count) zest_ids_add_all(out, out->data + slot->at, slot->count);
            return ZEST_OK;
        }
    }
    size_t at = out->count;
    if (w->tokenizer->wordpiece.prefix)
        zest_wordpiece_encode(&w->tokenizer->wordpiece, piece, size, out);
    else
        zest_bpe_encode(&w->tokenizer->bpe, &w->bpe, piece, size, out);
    if (out->failed) return zest_error_memory(w->error, "the tokens of a text", size * sizeof *out->data);
    if (slot && at <= UINT32_MAX) {
        slot->at = (uint32_t)at;
        slot->count = (uint16_t)(out->count - at);
        slot->size = (unsigned char)size;
        memcpy(slot->text, piece, size);
    }
    return ZEST_OK;
}

/* A Llama piece may be the whole text: word by word it can be remembered, and the heap stays small. */
static zest_status encode_words(void *user, const char *piece, size_t size) {
    zest_status status = ZEST_OK;
    for (size_t length; size && !status; piece += length, size -= length) {
        length = zest_bpe_word(piece, size);
        status = encode_piece(user, piece, length);
    }
    return status;
}

static zest_status encode_pieces(work *w, const char *text, size_t size, int first) {
    const zest_tokenizer *t = w->tokenizer;
    zest_presplit_sink sink = t->bpe.words_apart ? encode_words : encode_piece;
    return zest_presplit_run(&t->split, &w->split, text, size, first, sink, w, w->error);
}

typedef zest_status (*section)(work *w, const char *text, size_t size, int first);

/* Hands what lies between added tokens to `inner` and writes the tokens themselves. */
static zest_status around_added(work *w, const zest_added *added, const char *text, size_t size, int first,
                                section inner) {
    if (!added->count) return inner(w, text, size, first);
    size_t done = 0, from = 0, start, stop;
    const zest_added_token *token;
    while ((token = zest_added_next(added, text, size, w->literal, done, &from, &start, &stop))) {
        zest_status status = done < start ? inner(w, text + done, start - done, first && done == 0) : ZEST_OK;
        if (status) return status;
        zest_ids_add(w->out, token->id);
        done = stop;
    }
    return done < size ? inner(w, text + done, size - done, first && done == 0) : ZEST_OK;
}

static zest_status encode_section(work *w, const char *text, size_t size, int first) {
    const zest_tokenizer *t = w->tokenizer;
    zest_status status = zest_normalize_run(&t->normalize, &w->normalize, text, size, &text, &size, w->error);
    return status ? status : around_added(w, &t->late, text, size, first, encode_pieces);
}

/* One slot for every few words, no more than the second-level cache of a processor holds. */
static void make_cache(work *w, size_t size) {
    size_t slots = 8;
    if (size < 128) return;
    while (slots < size / 16 && slots < 8192) slots *= 2;
    w->cache = calloc(slots, sizeof *w->cache);
    w->mask = slots - 1;
}

static zest_status encode_text(work *w, const char *text, size_t size) {
    zest_buffer repaired = {0};
    zest_status status = ZEST_OK;
    if (zest_unicode_valid(text, size) < size) {
        zest_unicode_repair(text, size, &repaired);
        if (repaired.failed) status = zest_error_memory(w->error, "a text that is not UTF-8", size);
        text = repaired.data;
        size = repaired.size;
    }
    make_cache(w, size);
    if (!status) status = around_added(w, &w->tokenizer->early, text, size, 1, encode_section);
    free(w->cache);
    zest_buffer_free(&repaired);
    zest_normalize_scratch_free(&w->normalize);
    zest_presplit_scratch_free(&w->split);
    zest_bpe_scratch_free(&w->bpe);
    return status;
}

zest_status zest_tokenizer_encode(const zest_tokenizer *tokenizer, const char *text, size_t size,
                                  unsigned flags, zest_ids *out, zest_error *error) {
    if (size > INT32_MAX / 4)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "a text of %zu bytes is too long to be encoded at once; give it in parts below 512 MiB", size);
    const zest_tokenizer *t = tokenizer;
    size_t before = out->count;
    work w = {.tokenizer = t, .literal = (flags & ZEST_ENCODE_LITERAL) != 0, .out = out, .error = error};
    if (flags & ZEST_ENCODE_TEMPLATE) zest_ids_add_all(out, t->before.data, t->before.count);
    zest_status status = encode_text(&w, text, size);
    if (flags & ZEST_ENCODE_TEMPLATE) zest_ids_add_all(out, t->after.data, t->after.count);
    if (!status && out->failed) status = zest_error_memory(error, "the tokens of a text", size);
    if (status) out->count = before;
    return status;
}

/* ---- Decoding ----------------------------------------------------------------------------------------- */

/* The spelling that decoding starts from. */
static const char *spelling_of(const zest_tokenizer *t, int32_t id, size_t *size) {
    const char *token = zest_vocab_token(&t->bpe.vocab, id, size);
    if (!token || !(t->flags[id] & ZEST_TOKENIZER_CHANGED)) return token;
    for (size_t i = 0; i < t->late.count; i++)
        if (t->late.token[i].id == id) return *size = t->late.token[i].size, t->late.token[i].content;
    return token;
}

zest_status zest_tokenizer_decode(const zest_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                  int skip_special, zest_buffer *out, zest_error *error) {
    zest_decode_list list = {0};
    for (size_t i = 0; i < count; i++) {
        size_t size;
        const char *token = spelling_of(tokenizer, ids[i], &size);
        if (token && !(skip_special && zest_tokenizer_is_special(tokenizer, ids[i])))
            zest_decode_add(&list, token, size);
    }
    zest_status status = zest_decode_run(&tokenizer->decode, &list, out, error);
    zest_decode_list_free(&list);
    return status;
}

/* Bytes that both texts begin with, cut at a character: a prompt may end in a part of one. */
static size_t common_prefix(const zest_buffer *a, const zest_buffer *b) {
    size_t i = 0;
    while (i < a->size && i < b->size && a->data[i] == b->data[i]) i++;
    while (i && i < b->size && ((unsigned char)b->data[i] & 0xC0) == 0x80) i--;
    return i;
}

zest_status zest_tokenizer_decode_after(const zest_tokenizer *tokenizer, const int32_t *ids, size_t first,
                                        size_t count, int skip_special, zest_buffer *out, zest_error *error) {
    zest_buffer before = {0}, whole = {0};
    zest_status status = zest_tokenizer_decode(tokenizer, ids, first, skip_special, &before, error);
    if (!status) status = zest_tokenizer_decode(tokenizer, ids, count, skip_special, &whole, error);
    if (!status) {
        size_t known = common_prefix(&before, &whole);
        if (known < whole.size) zest_buffer_add(out, whole.data + known, whole.size - known);
        if (out->failed) status = zest_error_memory(error, "the decoded text", whole.size);
    }
    zest_buffer_free(&before);
    zest_buffer_free(&whole);
    return status;
}

zest_status zest_tokenizer_token_bytes(const zest_tokenizer *tokenizer, int32_t id, zest_buffer *out,
                                       zest_error *error) {
    size_t size;
    const char *token = zest_vocab_token(&tokenizer->bpe.vocab, id, &size);
    if (!token)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: there is no token with id %d", tokenizer->name,
                              (int)id);
    int byte = tokenizer->bpe.byte_fallback ? zest_decode_byte(token, size) : -1;
    char one = (char)byte;
    const zest_wordpiece *pieces = &tokenizer->wordpiece;
    if (byte >= 0)
        zest_buffer_add(out, &one, 1);
    else if (pieces->prefix && size >= pieces->prefix_size &&
             !memcmp(token, pieces->prefix, pieces->prefix_size))
        zest_buffer_add(out, token + pieces->prefix_size, size - pieces->prefix_size);
    else if (pieces->prefix)
        zest_buffer_format(out, " %s", token);
    else if (tokenizer->bpe.byte_level)
        zest_decode_byte_level(token, size, out);
    else
        zest_normalize_replace(token, size, "\xE2\x96\x81", 3, " ", 1, SIZE_MAX, out);
    return out->failed ? zest_error_memory(error, "the bytes of a token", size) : ZEST_OK;
}

/* ---- Questions ---------------------------------------------------------------------------------------- */

int32_t zest_tokenizer_id(const zest_tokenizer *tokenizer, const char *token, size_t size) {
    return zest_vocab_find(&tokenizer->bpe.vocab, token, size);
}

const char *zest_tokenizer_token(const zest_tokenizer *tokenizer, int32_t id, size_t *size) {
    return zest_vocab_token(&tokenizer->bpe.vocab, id, size);
}

int32_t zest_tokenizer_size(const zest_tokenizer *tokenizer) { return (int32_t)tokenizer->bpe.vocab.size; }

int zest_tokenizer_is_special(const zest_tokenizer *tokenizer, int32_t id) {
    return id >= 0 && (size_t)id < tokenizer->bpe.vocab.size && tokenizer->flags[id] & ZEST_TOKENIZER_SPECIAL;
}

int32_t zest_tokenizer_special(const zest_tokenizer *tokenizer, zest_token_role role) {
    return (unsigned)role < ZEST_TOKEN_ROLES ? tokenizer->role[role] : -1;
}

void zest_tokenizer_free(zest_tokenizer *tokenizer) {
    if (!tokenizer) return;
    zest_added_free(&tokenizer->early);
    zest_added_free(&tokenizer->late);
    zest_normalize_free(&tokenizer->normalize);
    zest_presplit_free(&tokenizer->split);
    zest_bpe_free(&tokenizer->bpe);
    zest_wordpiece_free(&tokenizer->wordpiece);
    zest_decode_free(&tokenizer->decode);
    zest_ids_free(&tokenizer->before);
    zest_ids_free(&tokenizer->after);
    free(tokenizer->flags);
    free(tokenizer->name);
    free(tokenizer);
}

/* What all builders of tokenizers share. */

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
