/* Tokens of include/zest_lm.h: text to ids and back, into arrays of the caller's. */
#include <string.h>

#include "lm/lm.h"

zest_status zest_lm_give(const zest_lm *lm, const void *from, size_t needed, size_t size, void *out,
                         size_t capacity, const char *unit) {
    if (!out) return ZEST_OK;
    if (needed > capacity)
        return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
                              "the array has room for %zu %s, and %zu are needed", capacity, unit, needed);
    if (needed) memcpy(out, from, needed * size);
    return ZEST_OK;
}

zest_status zest_lm_encode(zest_lm *lm, const char *text, size_t size, unsigned flags, int32_t *ids,
                           size_t capacity, size_t *count) {
    zest_ids all = {0};
    if (!lm || zest_lm_need(lm->ctx, count, "count")) return ZEST_ERROR_ARGUMENT;
    *count = 0;
    if (!text) return zest_error_set(zest_lm_sink(lm), ZEST_ERROR_ARGUMENT, "there is no text to encode");
    if (size == ZEST_LM_WHOLE) size = strlen(text);
    unsigned how = (flags & ZEST_LM_ADD_SPECIAL ? ZEST_ENCODE_TEMPLATE : 0u) |
                   (flags & ZEST_LM_LITERAL ? ZEST_ENCODE_LITERAL : 0u);
    zest_status status = zest_tokenizer_encode(lm->loaded.tokenizer, text, size, how, &all, zest_lm_sink(lm));
    if (!status) {
        *count = all.count;
        status = zest_lm_give(lm, all.data, all.count, sizeof *ids, ids, capacity, "tokens");
    }
    zest_ids_free(&all);
    return status;
}

zest_status zest_lm_single_token(zest_lm *lm, const char *text, int32_t *id) {
    size_t count;
    if (!lm || zest_lm_need(lm->ctx, id, "id")) return ZEST_ERROR_ARGUMENT;
    zest_status status = zest_lm_encode(lm, text, ZEST_LM_WHOLE, 0, NULL, 0, &count);
    if (status) return status;
    if (count != 1)
        return zest_error_set(
            zest_lm_sink(lm), ZEST_ERROR_ARGUMENT,
            "'%.60s' is %zu tokens, not one; most tokenizers want a blank in front of a word", text, count);
    return zest_lm_encode(lm, text, ZEST_LM_WHOLE, 0, id, 1, &count);
}

zest_status zest_lm_decode(zest_lm *lm, const int32_t *ids, size_t first, size_t count, unsigned flags,
                           char *text, size_t capacity, size_t *size) {
    zest_buffer all = {0};
    if (!lm || zest_lm_need(lm->ctx, size, "size")) return ZEST_ERROR_ARGUMENT;
    zest_error *error = zest_lm_sink(lm);
    int skip = (flags & ZEST_LM_SKIP_SPECIAL) != 0;
    *size = 0;
    if ((!ids && count) || first > count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "there are no tokens %zu to %zu to decode", first,
                              count);
    zest_status status =
        first ? zest_tokenizer_decode_after(lm->loaded.tokenizer, ids, first, count, skip, &all, error)
              : zest_tokenizer_decode(lm->loaded.tokenizer, ids, count, skip, &all, error);
    if (!status && all.failed) status = zest_error_memory(error, "a text", all.size);
    if (!status) {
        *size = all.size;
        status =
            zest_lm_give(lm, all.data ? all.data : "", all.size + 1, 1, text, capacity, "bytes with the NUL");
    }
    zest_buffer_free(&all);
    return status;
}

const char *zest_lm_token(const zest_lm *lm, int32_t id, size_t *size) {
    return lm ? zest_tokenizer_token(lm->loaded.tokenizer, id, size) : NULL;
}

int32_t zest_lm_token_id(const zest_lm *lm, const char *spelling) {
    return lm && spelling ? zest_tokenizer_id(lm->loaded.tokenizer, spelling, strlen(spelling)) : -1;
}

int zest_lm_token_is_special(const zest_lm *lm, int32_t id) {
    return lm && zest_tokenizer_is_special(lm->loaded.tokenizer, id);
}

zest_status zest_lm_token_bytes(zest_lm *lm, int32_t id, char *bytes, size_t capacity, size_t *size) {
    zest_buffer all = {0};
    if (!lm || zest_lm_need(lm->ctx, size, "size")) return ZEST_ERROR_ARGUMENT;
    *size = 0;
    zest_status status = zest_tokenizer_token_bytes(lm->loaded.tokenizer, id, &all, zest_lm_sink(lm));
    if (!status && all.failed) status = zest_error_memory(zest_lm_sink(lm), "a token", all.size);
    if (!status) {
        *size = all.size;
        status = zest_lm_give(lm, all.data, all.size, 1, bytes, capacity, "bytes");
    }
    zest_buffer_free(&all);
    return status;
}

int32_t zest_lm_special_token(const zest_lm *lm, zest_lm_role role) {
    static const zest_token_role roles[] = {
        [ZEST_LM_BOS] = ZEST_TOKEN_BOS, [ZEST_LM_EOS] = ZEST_TOKEN_EOS,   [ZEST_LM_PAD] = ZEST_TOKEN_PAD,
        [ZEST_LM_UNK] = ZEST_TOKEN_UNK, [ZEST_LM_MASK] = ZEST_TOKEN_MASK, [ZEST_LM_CLS] = ZEST_TOKEN_CLS,
        [ZEST_LM_SEP] = ZEST_TOKEN_SEP};
    if (!lm || (unsigned)role >= sizeof roles / sizeof *roles) return -1;
    return zest_tokenizer_special(lm->loaded.tokenizer, roles[role]);
}
