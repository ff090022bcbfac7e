/* The tokenizer: encoding, decoding, lookup of tokens, and the functions by which loaders build one. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"
#include "tokenizer/vocab.h"

/* ---- Encoding ---- */

/* Cache entry: a short pre-token of this call and the position of its tokens in the output. */
typedef struct {
    uint32_t at;
    uint16_t count;
    unsigned char size; /* 0: empty */
    char text[25];
} cache_entry;

typedef struct {
    const zest_tokenizer *tokenizer;
    int literal;
    zest_ids *out;
    zest_error *error;
    zest_normalizer_scratch normalize;
    zest_pre_tokenizer_scratch split;
    zest_bpe_scratch bpe;
    cache_entry *cache; /* NULL: the text is too short for a cache to pay */
    size_t mask;
    size_t made, limit; /* bytes of normalised text, and how many there may be */
} encode_ctx;

static zest_status encode_pre_token(void *user, const char *piece, size_t size) {
    encode_ctx *w = user;
    zest_ids *out = w->out;
    cache_entry *slot = NULL;
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
    else if (w->tokenizer->unigram.score)
        zest_unigram_encode(&w->tokenizer->unigram, &w->tokenizer->bpe, &w->bpe, piece, size, out);
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

/* A pre-token of Llama may be the whole text: encoded word by word it can be cached, and the heap stays
 * small. */
static zest_status encode_words(void *user, const char *piece, size_t size) {
    zest_status status = ZEST_OK;
    for (size_t length; size && !status; piece += length, size -= length) {
        length = zest_bpe_word(piece, size);
        status = encode_pre_token(user, piece, length);
    }
    return status;
}

static zest_status encode_pre_tokens(encode_ctx *w, const char *text, size_t size, int first) {
    const zest_tokenizer *t = w->tokenizer;
    zest_pre_tokenizer_sink sink = t->bpe.words_apart ? encode_words : encode_pre_token;
    return zest_pre_tokenizer_run(&t->split, &w->split, text, size, first, sink, w, w->error);
}

typedef zest_status (*section)(encode_ctx *w, const char *text, size_t size, int first);

/* Passes the text between added tokens to `inner` and appends the added tokens. */
static zest_status split_added(encode_ctx *w, const zest_added *added, const char *text, size_t size,
                               int first, section inner) {
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

static zest_status encode_section(encode_ctx *w, const char *text, size_t size, int first) {
    const zest_tokenizer *t = w->tokenizer;
    w->normalize.later = !first;
    zest_status status =
        zest_normalizer_run(&t->normalize, &w->normalize, text, size, &text, &size, w->error);
    if (!status && (w->made += size) > w->limit) /* many short sections, each of which became long */
        status = zest_error_set(
            w->error, ZEST_ERROR_FORMAT,
            "the normalizer produces more than %zu bytes from a text; the tokenizer.json is damaged "
            "or hostile",
            w->limit);
    return status ? status : split_added(w, &t->late, text, size, first, encode_pre_tokens);
}

/* One slot for every few words, at most the size of a typical L2 cache. */
static void make_cache(encode_ctx *w, size_t size) {
    size_t slots = 8;
    if (size < 128) return;
    while (slots < size / 16 && slots < 8192) slots *= 2;
    w->cache = calloc(slots, sizeof *w->cache);
    w->mask = slots - 1;
}

static zest_status encode_text(encode_ctx *w, const char *text, size_t size) {
    zest_buffer repaired = {0};
    zest_status status = ZEST_OK;
    if (zest_unicode_valid(text, size) < size) {
        zest_unicode_repair(text, size, &repaired);
        if (repaired.failed) status = zest_error_memory(w->error, "a text that is not UTF-8", size);
        text = repaired.data;
        size = repaired.size;
    }
    make_cache(w, size);
    w->limit = w->split.limit = zest_normalizer_limit(size);
    if (!status) status = split_added(w, &w->tokenizer->early, text, size, 1, encode_section);
    free(w->cache);
    zest_buffer_free(&repaired);
    zest_normalizer_scratch_free(&w->normalize);
    zest_pre_tokenizer_scratch_free(&w->split);
    zest_bpe_scratch_free(&w->bpe);
    return status;
}

zest_status zest_tokenizer_encode(const zest_tokenizer *tokenizer, const char *text, size_t size,
                                  unsigned flags, zest_ids *out, zest_error *error) {
    if (size > INT32_MAX / 4)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a text of %zu bytes is too long; encode it in chunks below 512 MiB", size);
    const zest_tokenizer *t = tokenizer;
    size_t before = out->count;
    encode_ctx w = {
        .tokenizer = t, .literal = (flags & ZEST_ENCODE_LITERAL) != 0, .out = out, .error = error};
    if (flags & ZEST_ENCODE_TEMPLATE) zest_ids_add_all(out, t->before.data, t->before.count);
    zest_status status = encode_text(&w, text, size);
    if (flags & ZEST_ENCODE_TEMPLATE) zest_ids_add_all(out, t->after.data, t->after.count);
    if (!status && out->failed) status = zest_error_memory(error, "the tokens of a text", size);
    if (status) out->count = before;
    return status;
}

/* ---- Decoding ---- */

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
    zest_decoder_list list = {0};
    for (size_t i = 0; i < count; i++) {
        size_t size;
        const char *token = spelling_of(tokenizer, ids[i], &size);
        if (token && !(skip_special && zest_tokenizer_is_special(tokenizer, ids[i])))
            zest_decoder_add(&list, token, size);
    }
    zest_status status = zest_decoder_run(&tokenizer->decode, &list, out, error);
    zest_decoder_list_free(&list);
    return status;
}

/* Length of the common prefix, at a character boundary: a prompt may end inside a character. */
static size_t common_prefix(const zest_buffer *a, const zest_buffer *b) {
    size_t i = 0;
    while (i < a->size && i < b->size && a->data[i] == b->data[i]) i++;
    while (i && i < b->size && ((unsigned char)b->data[i] & 0xC0) == 0x80) i--;
    return i;
}

zest_status zest_tokenizer_decode_after(const zest_tokenizer *tokenizer, const int32_t *ids, size_t first,
                                        size_t count, int skip_special, zest_buffer *out, zest_error *error) {
    zest_buffer before = {0}, full = {0};
    zest_status status = zest_tokenizer_decode(tokenizer, ids, first, skip_special, &before, error);
    if (!status) status = zest_tokenizer_decode(tokenizer, ids, count, skip_special, &full, error);
    if (!status) {
        size_t known = common_prefix(&before, &full);
        if (known < full.size) zest_buffer_add(out, full.data + known, full.size - known);
        if (out->failed) status = zest_error_memory(error, "the decoded text", full.size);
    }
    zest_buffer_free(&before);
    zest_buffer_free(&full);
    return status;
}

zest_status zest_tokenizer_token_bytes(const zest_tokenizer *tokenizer, int32_t id, zest_buffer *out,
                                       zest_error *error) {
    size_t size;
    const char *token = zest_vocab_token(&tokenizer->bpe.vocab, id, &size);
    if (!token)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: no token has id %d", tokenizer->name, (int)id);
    int byte = tokenizer->bpe.byte_fallback ? zest_decoder_byte(token, size) : -1;
    char one = (char)byte;
    const zest_wordpiece *wordpiece = &tokenizer->wordpiece;
    if (byte >= 0)
        zest_buffer_add(out, &one, 1);
    else if (wordpiece->prefix && size >= wordpiece->prefix_size &&
             !memcmp(token, wordpiece->prefix, wordpiece->prefix_size))
        zest_buffer_add(out, token + wordpiece->prefix_size, size - wordpiece->prefix_size);
    else if (wordpiece->prefix)
        zest_buffer_format(out, " %s", token);
    else if (tokenizer->bpe.byte_level)
        zest_decoder_byte_level(token, size, out);
    else
        zest_normalizer_replace(token, size, "\xE2\x96\x81", 3, " ", 1, SIZE_MAX, out);
    return out->failed ? zest_error_memory(error, "the bytes of a token", size) : ZEST_OK;
}

/* ---- Lookup ---- */

int32_t zest_tokenizer_id(const zest_tokenizer *tokenizer, const char *token, size_t size) {
    return zest_vocab_find(&tokenizer->bpe.vocab, token, size);
}

const char *zest_tokenizer_token(const zest_tokenizer *tokenizer, int32_t id, size_t *size) {
    return zest_vocab_token(&tokenizer->bpe.vocab, id, size);
}

int32_t zest_tokenizer_size(const zest_tokenizer *tokenizer) { return (int32_t)tokenizer->bpe.vocab.size; }

const char *zest_tokenizer_name(const zest_tokenizer *tokenizer) { return tokenizer->name; }

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
    zest_normalizer_free(&tokenizer->normalize);
    zest_pre_tokenizer_free(&tokenizer->split);
    zest_bpe_free(&tokenizer->bpe);
    zest_wordpiece_free(&tokenizer->wordpiece);
    zest_unigram_free(&tokenizer->unigram);
    zest_decoder_free(&tokenizer->decode);
    zest_ids_free(&tokenizer->before);
    zest_ids_free(&tokenizer->after);
    free(tokenizer->flags);
    free(tokenizer->chat);
    free(tokenizer->name);
    free(tokenizer);
}

/* ---- Construction, used by the loaders ---- */

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
    if (added->size > ZEST_ADDED_MAX_SIZE)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: an added token has %zu bytes, more than the %d allowed", tokenizer->name,
                              added->size, ZEST_ADDED_MAX_SIZE);
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
                              added->lstrip != 0,
                              added->rstrip != 0,
                              added->single_word != 0};
    return zest_added_add(added->normalized ? &tokenizer->late : &tokenizer->early, token, error);
}

/* ---- Merges ---- */

static int32_t find_token(const zest_tokenizer *tokenizer, const char *text, size_t size, size_t rank,
                          zest_error *error) {
    int32_t id = zest_vocab_find(&tokenizer->bpe.vocab, text, size);
    if (id < 0)
        zest_error_set(error, ZEST_ERROR_FORMAT,
                       "%s: merge %zu needs the token \"%.*s\", which is not in the vocabulary; vocabulary "
                       "and merges do not belong together",
                       tokenizer->name, rank + 1, (int)(size < 60 ? size : 60), text);
    return id;
}

zest_status zest_tokenizer_add_merge(zest_tokenizer *tokenizer, const zest_tokenizer_text *left,
                                     const zest_tokenizer_text *right, size_t rank, zest_error *error) {
    char buffer[256],
        *both = left->size + right->size <= sizeof buffer ? buffer : malloc(left->size + right->size);
    if (!both) return zest_error_memory(error, tokenizer->name, left->size + right->size);
    if (left->size) memcpy(both, left->data, left->size);
    if (right->size) memcpy(both + left->size, right->data, right->size);
    zest_error local = {0}, *err = error ? error : &local;
    zest_status status = ZEST_ERROR_FORMAT;
    int32_t a = find_token(tokenizer, left->data, left->size, rank, err), b = -1, merged = -1;
    if (a >= 0) b = find_token(tokenizer, right->data, right->size, rank, err);
    if (b >= 0) merged = find_token(tokenizer, both, left->size + right->size, rank, err);
    if (rank >= UINT32_MAX)
        zest_error_set(err, ZEST_ERROR_FORMAT, "%s: too many merges", tokenizer->name);
    else if (merged >= 0)
        status = zest_bpe_add(&tokenizer->bpe, a, b, (uint32_t)rank, merged, error);
    if (both != buffer) free(both);
    return status;
}

zest_status zest_tokenizer_add_merge_line(zest_tokenizer *tokenizer, const char *line, size_t size,
                                          size_t rank, zest_error *error) {
    const char *space = size ? memchr(line, ' ', size) : NULL;
    if (!space || memchr(space + 1, ' ', (size_t)(line + size - space - 1)))
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: merge %zu, \"%.*s\", is not two tokens with a space between them",
                              tokenizer->name, rank + 1, (int)(size < 60 ? size : 60), line);
    zest_tokenizer_text left = {line, (size_t)(space - line)};
    zest_tokenizer_text right = {space + 1, (size_t)(line + size - space - 1)};
    return zest_tokenizer_add_merge(tokenizer, &left, &right, rank, error);
}

/* ---- Steps ---- */

static int check_steps(const zest_tokenizer *tokenizer, const char *what, size_t count, size_t limit,
                       zest_error *error) {
    if (count < limit) return 1;
    zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the %s has more than %zu steps", tokenizer->name, what,
                   limit);
    return 0;
}

zest_pre_tokenizer_step *zest_tokenizer_split_step(zest_tokenizer *tokenizer, zest_pre_tokenizer_kind kind,
                                                   zest_error *error) {
    zest_pre_tokenizer *chain = &tokenizer->split;
    if (!check_steps(tokenizer, "pre_tokenizer", chain->count, ZEST_PRE_TOKENIZER_STEPS, error)) return NULL;
    chain->step[chain->count] = (zest_pre_tokenizer_step){.kind = kind};
    return &chain->step[chain->count++];
}

zest_normalizer_step *zest_tokenizer_normalize_step(zest_tokenizer *tokenizer, zest_normalizer_kind kind,
                                                    zest_error *error) {
    zest_normalizer *chain = &tokenizer->normalize;
    if (!check_steps(tokenizer, "normalizer", chain->count, ZEST_NORMALIZER_STEPS, error)) return NULL;
    chain->step[chain->count] = (zest_normalizer_step){.kind = kind};
    return &chain->step[chain->count++];
}

zest_decoder_step *zest_tokenizer_decode_step(zest_tokenizer *tokenizer, zest_decoder_kind kind,
                                              zest_error *error) {
    zest_decoder *chain = &tokenizer->decode;
    if (!check_steps(tokenizer, "decoder", chain->count, ZEST_DECODER_STEPS, error)) return NULL;
    chain->step[chain->count] = (zest_decoder_step){.kind = kind};
    return &chain->step[chain->count++];
}

/* Copies the text of a step; sets the error when out of memory. */
static int copy(char **to, size_t *size, const char *text, zest_error *error) {
    *to = strdup(text);
    *size = strlen(text);
    if (!*to) zest_error_memory(error, "a tokenizer", *size);
    return *to != NULL;
}

static int spaces_to_marks(zest_tokenizer *tokenizer, int prefix, zest_error *error) {
    zest_normalizer_step *step;
    if (prefix) {
        step = zest_tokenizer_normalize_step(tokenizer, ZEST_NORMALIZER_PREPEND, error);
        if (!step || !copy(&step->content, &step->content_size, "▁", error)) return 0;
    }
    step = zest_tokenizer_normalize_step(tokenizer, ZEST_NORMALIZER_REPLACE, error);
    return step && copy(&step->pattern, &step->pattern_size, " ", error) &&
           copy(&step->content, &step->content_size, "▁", error);
}

static int marks_to_spaces(zest_tokenizer *tokenizer, int prefix, zest_error *error) {
    zest_decoder_step *step = zest_tokenizer_decode_step(tokenizer, ZEST_DECODER_REPLACE, error);
    if (!step || !copy(&step->mark, &step->mark_size, "▁", error)) return 0;
    if (!copy(&step->content, &step->content_size, " ", error)) return 0;
    if (!zest_tokenizer_decode_step(tokenizer, ZEST_DECODER_BYTE_FALLBACK, error)) return 0;
    if (!zest_tokenizer_decode_step(tokenizer, ZEST_DECODER_FUSE, error)) return 0;
    if (!prefix) return 1;
    step = zest_tokenizer_decode_step(tokenizer, ZEST_DECODER_STRIP, error);
    if (!step || !copy(&step->mark, &step->mark_size, " ", error)) return 0;
    step->start = 1;
    return 1;
}

zest_status zest_tokenizer_llama_decoder(zest_tokenizer *tokenizer, int prefix, zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    return marks_to_spaces(tokenizer, prefix, err) ? ZEST_OK : err->status;
}

zest_status zest_tokenizer_llama_steps(zest_tokenizer *tokenizer, int prefix, zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    int ok = spaces_to_marks(tokenizer, prefix, err) && marks_to_spaces(tokenizer, prefix, err);
    return ok ? ZEST_OK : err->status;
}

/* ---- Completion ---- */

static void mark_special(zest_tokenizer *tokenizer, const zest_added *added) {
    for (size_t i = 0; i < added->count; i++)
        if (added->token[i].special) tokenizer->flags[added->token[i].id] |= ZEST_TOKENIZER_SPECIAL;
}

/* Late tokens are matched in normalized text, so they are normalized themselves. SentencePiece's own are listed as
 * they are in normalized text. */
static zest_status normalize_late(zest_tokenizer *tokenizer, zest_error *error) {
    zest_normalizer_scratch scratch = {0};
    zest_status status = ZEST_OK;
    if (tokenizer->normalize.count && tokenizer->normalize.step[0].kind == ZEST_NORMALIZER_SENTENCEPIECE)
        return ZEST_OK;
    for (size_t i = 0; i < tokenizer->late.count && !status; i++) {
        zest_added_token *token = &tokenizer->late.token[i];
        const char *text;
        size_t size;
        status = zest_normalizer_run(&tokenizer->normalize, &scratch, token->content, token->size, &text,
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
    zest_normalizer_scratch_free(&scratch);
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
    if (tokenizer->unigram.score)
        return zest_unigram_finish(&tokenizer->unigram, &tokenizer->bpe.vocab, tokenizer->name, error);
    zest_bpe_optimize(&tokenizer->bpe);
    return ZEST_OK;
}
