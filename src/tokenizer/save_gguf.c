/* A tokenizer as the keys tokenizer.ggml.* of a GGUF file: the reverse of load_gguf.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_internal.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

/* Arrays in the making, and the memory that they point into. */
typedef struct {
    const zest_tokenizer *from;
    zest_tokenizer_arrays arrays;
    zest_gguf_text *tokens, *merges;
    int32_t *types;
    float *scores;
    zest_buffer names, pairs; /* text of ids that no token has, and of merges */
    zest_error *error;
} saved;

static zest_status no_memory(const saved *s) {
    return zest_error_memory(s->error, s->from->name, s->arrays.count * sizeof *s->tokens);
}

static zest_status refuse(const saved *s, const char *what) {
    return zest_error_set(s->error, ZEST_ERROR_ARGUMENT, "%s: %s, so a GGUF file cannot have this tokenizer",
                          s->from->name, what);
}

/* ---- Tokens ---- */

static int type_of(const saved *s, int32_t id, const char *token, size_t size) {
    const zest_tokenizer *t = s->from;
    if (!t->bpe.byte_level && id == t->bpe.unknown) return UNKNOWN;
    if (t->bpe.byte_fallback && zest_decoder_byte(token, size) >= 0) return BYTE;
    return zest_tokenizer_is_special(t, id) ? CONTROL : NORMAL;
}

static void mark_added(saved *s, const zest_added *added) {
    for (size_t i = 0; i < added->count; i++) {
        size_t id = (size_t)added->token[i].id;
        if (id < s->arrays.count && s->types[id] == NORMAL) s->types[id] = USER_DEFINED;
    }
}

/* All ids of the model: those without a token get a name and are marked as unused. */
static zest_status list_tokens(saved *s, size_t vocab_size) {
    const zest_tokenizer *t = s->from;
    if (t->bpe.vocab.size > vocab_size)
        return zest_error_set(s->error, ZEST_ERROR_ARGUMENT,
                              "%s: has %zu tokens, and the model only %zu, so a GGUF file cannot have both",
                              t->name, t->bpe.vocab.size, vocab_size);
    s->arrays.count = vocab_size;
    s->tokens = calloc(vocab_size + 1, sizeof *s->tokens);
    s->types = calloc(vocab_size + 1, sizeof *s->types);
    s->scores = calloc(vocab_size + 1, sizeof *s->scores);
    if (!s->tokens || !s->types || !s->scores) return no_memory(s);
    for (size_t id = 0; id < vocab_size; id++) {
        size_t size = 0;
        const char *token = zest_tokenizer_token(t, (int32_t)id, &size);
        s->tokens[id] = (zest_gguf_text){token, size};
        s->types[id] = token ? type_of(s, (int32_t)id, token, size) : UNUSED;
        if (!token) zest_buffer_format(&s->names, "[PAD%zu]", id);
        if (!token) zest_buffer_add(&s->names, "", 1);
    }
    if (s->names.failed) return no_memory(s);
    const char *name = s->names.data;
    for (size_t id = 0; id < vocab_size; id++) {
        if (s->tokens[id].data) continue;
        s->tokens[id] = (zest_gguf_text){name, strlen(name)};
        name += s->tokens[id].size + 1;
    }
    mark_added(s, &t->early);
    mark_added(s, &t->late);
    s->arrays.tokens = s->tokens;
    s->arrays.types = s->types;
    return ZEST_OK;
}

/* ---- Merges, and the scores that stand for them ---- */

static int by_rank(const void *a, const void *b) {
    const zest_bpe_pair *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

static zest_status sorted_pairs(const saved *s, zest_bpe_pair **pairs) {
    const zest_bpe *bpe = &s->from->bpe;
    size_t count = 0;
    *pairs = malloc((bpe->count + 1) * sizeof **pairs);
    if (!*pairs) return no_memory(s);
    for (size_t i = 0; i < bpe->slots && count < bpe->count; i++)
        if (bpe->pairs[i].key != UINT64_MAX) (*pairs)[count++] = bpe->pairs[i];
    qsort(*pairs, count, sizeof **pairs, by_rank);
    return ZEST_OK;
}

static zest_status list_merges(saved *s) {
    zest_bpe_pair *pairs;
    size_t count = s->from->bpe.count, at = 0;
    zest_status status = sorted_pairs(s, &pairs);
    s->merges = status ? NULL : calloc(count + 1, sizeof *s->merges);
    if (!status && !s->merges) status = no_memory(s);
    for (size_t i = 0; i < count && !status; i++) {
        size_t left = 0, right = 0;
        const char *a = zest_tokenizer_token(s->from, (int32_t)(pairs[i].key >> 32), &left),
                   *b = zest_tokenizer_token(s->from, (int32_t)(pairs[i].key & 0xffffffff), &right);
        zest_buffer_add(&s->pairs, a, left);
        zest_buffer_add(&s->pairs, " ", 1);
        zest_buffer_add(&s->pairs, b, right);
        s->merges[i].size = left + 1 + right;
    }
    if (!status && s->pairs.failed) status = no_memory(s);
    for (size_t i = 0; i < count && !status; at += s->merges[i++].size)
        s->merges[i].data = s->pairs.data + at;
    free(pairs);
    s->arrays.merges = s->merges;
    s->arrays.merge_count = count;
    return status;
}

/* SentencePiece merges the pair that makes the token with the highest score: minus the rank of the first merge that
 * makes it. Tokens that no merge makes come last. */
static zest_status list_scores(saved *s) {
    zest_bpe_pair *pairs;
    zest_status status = sorted_pairs(s, &pairs);
    if (status) return status;
    for (size_t id = 0; id < s->arrays.count; id++) s->scores[id] = s->types[id] == NORMAL ? -1e9f : 0;
    for (size_t i = s->from->bpe.count; i-- > 0;) s->scores[pairs[i].merged] = -(float)pairs[i].rank;
    free(pairs);
    s->arrays.scores = s->scores;
    return ZEST_OK;
}

/* ---- The parts around the model ---- */

/* Does the tokenizer put a space before the text? */
static int adds_space(const zest_tokenizer *t) {
    for (size_t i = 0; i < t->normalize.count; i++)
        if (t->normalize.step[i].kind == ZEST_NORMALIZER_PREPEND ||
            (t->normalize.step[i].sentencepiece && t->normalize.step[i].sentencepiece->prefix))
            return 1;
    for (size_t i = 0; i < t->split.count; i++)
        if (t->split.step[i].kind == ZEST_PRE_TOKENIZER_METASPACE &&
            t->split.step[i].prepend != ZEST_PRE_TOKENIZER_NEVER)
            return 1;
    return 0;
}

static zest_status describe_model(saved *s) {
    const zest_tokenizer *t = s->from;
    if (t->wordpiece.prefix) return refuse(s, "is WordPiece");
    if (t->unigram.score) return refuse(s, "is Unigram");
    if (t->bpe.byte_level) {
        s->arrays.model = "gpt2";
        s->arrays.pre = zest_tokenizer_name_pre(t);
        s->arrays.add_space_prefix = 0;
        return s->arrays.pre ? list_merges(s) : refuse(s, "splits texts in a way that has no name there");
    }
    if (!t->bpe.byte_fallback) return refuse(s, "is BPE without bytes");
    s->arrays.model = "llama";
    s->arrays.pre = "default";
    s->arrays.add_space_prefix = adds_space(t);
    return list_scores(s);
}

/* One token at most on each side, and that by its role. */
static zest_status describe_template(saved *s) {
    const zest_tokenizer *t = s->from;
    const zest_ids *sides[] = {&t->before, &t->after};
    int32_t wanted[] = {t->role[ZEST_TOKEN_BOS], t->role[ZEST_TOKEN_EOS]};
    for (int i = 0; i < 2; i++)
        if (sides[i]->count > 1 || (sides[i]->count && sides[i]->data[0] != wanted[i]))
            return refuse(s, "puts other tokens than bos and eos around a text");
    s->arrays.add_bos = t->before.count > 0;
    s->arrays.add_eos = t->after.count > 0;
    s->arrays.bos = t->role[ZEST_TOKEN_BOS], s->arrays.eos = t->role[ZEST_TOKEN_EOS];
    s->arrays.pad = t->role[ZEST_TOKEN_PAD], s->arrays.unk = t->role[ZEST_TOKEN_UNK];
    s->arrays.sep = t->role[ZEST_TOKEN_SEP], s->arrays.cls = t->role[ZEST_TOKEN_CLS];
    s->arrays.mask = t->role[ZEST_TOKEN_MASK];
    if (s->arrays.unk < 0) s->arrays.unk = t->bpe.unknown;
    return ZEST_OK;
}

/* ---- Check: a tokenizer made from the arrays gives the same tokens ---- */

enum { SAMPLED_TOKENS = 4096 };

static void make_probe(const saved *s, zest_buffer *text) {
    static const char *const fixed[] = {
        "Hello, world! It's 3 o'clock, we'll've 12345678 things\t to do.\n\n  ",
        "Two  spaces \r\n\r\n; x=(1+2)*3 CamelCase ÄÖÜ straße naïve e\xcc\x81 ",
        "中文字符 ",
        "ภาษาไทย العربية ",
        "👩‍👩‍👧 🇩🇪 ½ ² ",
        "\xc2\xa0 nbsp \xe2\x80\x8b zero   \n end "};
    size_t count = s->arrays.count, step = count / SAMPLED_TOKENS + 1;
    zest_error ignored;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) zest_buffer_text(text, fixed[i]);
    for (size_t id = 0; id < count; id += step) {
        zest_tokenizer_token_bytes(s->from, (int32_t)id, text, &ignored);
        if (id % 3 == 0) zest_buffer_add(text, " ", 1);
    }
    for (size_t i = 0; i < s->from->early.count; i++) {
        zest_buffer_add(text, s->from->early.token[i].content, s->from->early.token[i].size);
        zest_buffer_add(text, i % 2 ? "and then" : "\n", i % 2 ? 8 : 1);
    }
}

static zest_status check_arrays(const saved *s) {
    zest_buffer probe = {0};
    zest_ids before = {0}, after = {0};
    zest_tokenizer *made = zest_tokenizer_from_arrays(&s->arrays, s->from->name, s->error);
    if (!made) return s->error->status;
    make_probe(s, &probe);
    zest_status status = probe.failed ? no_memory(s) : ZEST_OK;
    if (!status)
        status =
            zest_tokenizer_encode(s->from, probe.data, probe.size, ZEST_ENCODE_TEMPLATE, &before, s->error);
    if (!status)
        status = zest_tokenizer_encode(made, probe.data, probe.size, ZEST_ENCODE_TEMPLATE, &after, s->error);
    if (!status &&
        (before.count != after.count || memcmp(before.data, after.data, before.count * sizeof *before.data)))
        status = refuse(s, "splits some texts otherwise than the tokenizers of GGUF files do");
    zest_ids_free(&before);
    zest_ids_free(&after);
    zest_buffer_free(&probe);
    zest_tokenizer_free(made);
    return status;
}

/* ---- Keys ---- */

static void put_text(zest_gguf_metadata *metadata, const char *key, const char *text) {
    zest_gguf_put_string(metadata, key, text, strlen(text));
}

static void put_arrays(const zest_tokenizer_arrays *a, zest_gguf_metadata *metadata) {
    const struct {
        const char *key;
        int32_t id;
    } roles[] = {{"tokenizer.ggml.bos_token_id", a->bos},       {"tokenizer.ggml.eos_token_id", a->eos},
                 {"tokenizer.ggml.padding_token_id", a->pad},   {"tokenizer.ggml.unknown_token_id", a->unk},
                 {"tokenizer.ggml.seperator_token_id", a->sep}, /* sic */
                 {"tokenizer.ggml.cls_token_id", a->cls},       {"tokenizer.ggml.mask_token_id", a->mask}};
    put_text(metadata, "tokenizer.ggml.model", a->model);
    put_text(metadata, "tokenizer.ggml.pre", a->pre);
    zest_gguf_put_strings(metadata, "tokenizer.ggml.tokens", a->tokens, a->count);
    if (a->scores) zest_gguf_put_f32s(metadata, "tokenizer.ggml.scores", a->scores, a->count);
    zest_gguf_put_i32s(metadata, "tokenizer.ggml.token_type", a->types, a->count);
    if (a->merges) zest_gguf_put_strings(metadata, "tokenizer.ggml.merges", a->merges, a->merge_count);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].id >= 0) zest_gguf_put_u32(metadata, roles[i].key, (uint32_t)roles[i].id);
    zest_gguf_put_bool(metadata, "tokenizer.ggml.add_bos_token", a->add_bos);
    zest_gguf_put_bool(metadata, "tokenizer.ggml.add_eos_token", a->add_eos);
    zest_gguf_put_bool(metadata, "tokenizer.ggml.add_space_prefix", a->add_space_prefix);
}

zest_status zest_tokenizer_put_gguf(const zest_tokenizer *tokenizer, size_t vocab_size,
                                    zest_gguf_metadata *metadata, zest_error *error) {
    saved s = {.from = tokenizer, .error = error};
    zest_status status = list_tokens(&s, vocab_size);
    if (!status) status = describe_model(&s);
    if (!status) status = describe_template(&s);
    if (!status) status = check_arrays(&s);
    if (!status) put_arrays(&s.arrays, metadata);
    size_t chat_size;
    const char *chat = zest_tokenizer_chat_template(tokenizer, &chat_size);
    if (!status && chat) zest_gguf_put_string(metadata, "tokenizer.chat_template", chat, chat_size);
    free(s.tokens);
    free(s.types);
    free(s.scores);
    free(s.merges);
    zest_buffer_free(&s.names);
    zest_buffer_free(&s.pairs);
    return status;
}
