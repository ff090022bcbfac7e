#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/vocab.h"
#include "tokenizer/pipeline.h"
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
