/* Writes a tokenizer as Hugging Face's tokenizer.json and tokenizer_config.json. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_internal.h"

int zest_tokenizer_can_save(const zest_tokenizer *tokenizer) {
    if (!tokenizer->bpe.byte_level || tokenizer->late.count) return 0;
    for (size_t i = 0; i < tokenizer->normalize.count; i++)
        if (tokenizer->normalize.step[i].kind != ZEST_NORMALIZER_COMPOSE) return 0;
    for (size_t i = 0; i < tokenizer->split.count; i++) {
        zest_pre_tokenizer_kind kind = tokenizer->split.step[i].kind;
        if (kind != ZEST_PRE_TOKENIZER_GPT2 && kind != ZEST_PRE_TOKENIZER_CL100K &&
            kind != ZEST_PRE_TOKENIZER_DIGITS)
            return 0;
    }
    return 1;
}

/* ---- Components ---- */

static const char *spelling(const zest_tokenizer *t, int32_t id) { return zest_tokenizer_token(t, id, NULL); }

static json_t *added_tokens(const zest_tokenizer *t) {
    json_t *list = json_array();
    for (size_t i = 0; i < t->early.count; i++) {
        const zest_added_token *token = &t->early.token[i];
        zest_json_append(&list, json_pack("{s:i, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (int)token->id,
                                          "content", token->content, token->size, "single_word",
                                          token->single_word, "lstrip", token->lstrip, "rstrip",
                                          token->rstrip, "normalized", 0, "special", token->special));
    }
    return list;
}

static json_t *byte_level(int cuts) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                     "use_regex", cuts);
}

/* GPT-2's pattern is built into ByteLevel; other patterns need a Split before it. */
static json_t *pre_tokenizer(const zest_tokenizer *t) {
    json_t *list = json_array();
    int cuts = 0;
    for (size_t i = 0; i < t->split.count; i++) {
        const zest_pre_tokenizer_step *step = &t->split.step[i];
        const char *pattern = step->count == 1 ? ZEST_PRE_TOKENIZER_CL100K_PATTERN("")
                                               : ZEST_PRE_TOKENIZER_CL100K_PATTERN("{1,3}");
        if (step->kind == ZEST_PRE_TOKENIZER_DIGITS)
            zest_json_append(&list, json_pack("{s:s, s:b}", "type", "Digits", "individual_digits",
                                              step->behaviour != ZEST_PRE_TOKENIZER_CONTIGUOUS));
        else if (step->kind == ZEST_PRE_TOKENIZER_CL100K)
            zest_json_append(&list, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                              pattern, "behavior", "Isolated", "invert", 0));
        else
            cuts = 1;
    }
    zest_json_append(&list, byte_level(cuts));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

static void add_ids(const zest_tokenizer *t, const zest_ids *ids, json_t **pieces, json_t **special) {
    for (size_t i = 0; i < ids->count; i++) {
        const char *token = spelling(t, ids->data[i]);
        zest_json_append(pieces, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", token, "type_id", 0));
        zest_json_set(
            special, token,
            json_pack("{s:s, s:[i], s:[s]}", "id", token, "ids", (int)ids->data[i], "tokens", token));
    }
}

/* The special tokens around a text; null: none. */
static json_t *post_processor(const zest_tokenizer *t) {
    if (!t->before.count && !t->after.count) return json_null();
    json_t *single = json_array(), *pair = json_array(), *special = json_object();
    add_ids(t, &t->before, &single, &special);
    zest_json_append(&single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    add_ids(t, &t->after, &single, &special);
    zest_json_append(&pair, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    zest_json_append(&pair, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 0));
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
                     "special_tokens", special);
}

/* ---- Model ---- */

static int by_rank(const void *a, const void *b) {
    uint32_t x = ((const zest_bpe_pair *)a)->rank, y = ((const zest_bpe_pair *)b)->rank;
    return (x > y) - (x < y);
}

static json_t *merges(const zest_tokenizer *t) {
    zest_bpe_pair *pairs = malloc((t->bpe.count + 1) * sizeof *pairs);
    json_t *list = pairs ? json_array() : NULL;
    size_t count = 0;
    for (size_t i = 0; list && i < t->bpe.slots; i++)
        if (t->bpe.pairs[i].key != UINT64_MAX) pairs[count++] = t->bpe.pairs[i];
    if (list) qsort(pairs, count, sizeof *pairs, by_rank);
    for (size_t i = 0; list && i < count; i++)
        zest_json_append(&list, json_pack("[s, s]", spelling(t, (int32_t)(pairs[i].key >> 32)),
                                          spelling(t, (int32_t)(pairs[i].key & 0xffffffff))));
    free(pairs);
    return list;
}

static json_t *vocabulary(const zest_tokenizer *t) {
    json_t *object = json_object();
    const zest_vocab *vocab = &t->bpe.vocab;
    for (size_t id = 0; id < vocab->size; id++)
        if (zest_vocab_is_model_token(vocab, (int32_t)id))
            zest_json_set(&object, spelling(t, (int32_t)id), json_integer((json_int_t)id));
    return object;
}

static json_t *model(const zest_tokenizer *t) {
    return json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                     "unk_token",
                     t->bpe.unknown >= 0 ? json_string(spelling(t, t->bpe.unknown)) : json_null(),
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                     "ignore_merges", t->bpe.ignore_merges, "vocab", vocabulary(t), "merges", merges(t));
}

/* ---- Files ---- */

static zest_status write_json(json_t *object, const char *folder, const char *name, zest_error *error) {
    char *text = object ? zest_json_dump(object, JSON_INDENT(1)) : NULL, *path = zest_file_join(folder, name);
    zest_status status =
        text && path ? zest_file_write(path, text, strlen(text), error) : zest_error_memory(error, folder, 0);
    json_decref(object);
    free(text);
    free(path);
    return status;
}

static json_t *config(const zest_tokenizer *t) {
    static const struct {
        zest_token_role role;
        const char *key;
    } roles[] = {{ZEST_TOKEN_BOS, "bos_token"},
                 {ZEST_TOKEN_EOS, "eos_token"},
                 {ZEST_TOKEN_PAD, "pad_token"},
                 {ZEST_TOKEN_UNK, "unk_token"}};
    json_t *object = json_pack("{s:s, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                               "add_prefix_space", 0, "clean_up_tokenization_spaces", 0);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        int32_t id = zest_tokenizer_special(t, roles[i].role);
        if (id >= 0) zest_json_set(&object, roles[i].key, json_string(spelling(t, id)));
    }
    if (t->chat) json_object_set_new(object, "chat_template", json_stringn(t->chat, t->chat_size));
    return object;
}

zest_status zest_tokenizer_save(const zest_tokenizer *t, const char *folder, zest_error *error) {
    if (!zest_tokenizer_can_save(t))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: zest cannot write a tokenizer of this kind",
                              t->name);
    json_t *normalizer = t->normalize.count ? json_pack("{s:s}", "type", "NFC") : json_null();
    json_t *object = json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "version", "1.0",
                               "truncation", "padding", "added_tokens", added_tokens(t), "normalizer",
                               normalizer, "pre_tokenizer", pre_tokenizer(t), "post_processor",
                               post_processor(t), "decoder", byte_level(1), "model", model(t));
    zest_status status = write_json(object, folder, "tokenizer.json", error);
    return status ? status : write_json(config(t), folder, "tokenizer_config.json", error);
}
