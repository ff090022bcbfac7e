/* Unigram models of a tokenizer.json. */
#include <stdlib.h>

#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"

static zest_status add_piece(zest_tokenizer *tokenizer, const json_t *piece, size_t id, zest_error *error) {
    const json_t *token = json_array_get(piece, 0), *score = json_array_get(piece, 1);
    if (!json_is_string(token) || !json_is_number(score))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: model: token %zu must be [text, score]",
                              tokenizer->name, id);
    tokenizer->unigram.score[id] = json_number_value(score);
    return zest_vocab_add(&tokenizer->bpe.vocab, json_string_value(token), json_string_length(token),
                          (int64_t)id, tokenizer->name, error);
}

zest_status zest_tokenizer_load_unigram(zest_tokenizer *tokenizer, const json_t *model, zest_error *error) {
    const json_t *vocab = json_object_get(model, "vocab"), *unknown = json_object_get(model, "unk_id");
    zest_unigram *unigram = &tokenizer->unigram;
    zest_status status = zest_tokenizer_load_flag(tokenizer, model, "model", "byte_fallback", 0,
                                                  &unigram->byte_fallback, error);
    unigram->count = json_array_size(vocab);
    if (!status && (!json_is_integer(unknown) || json_integer_value(unknown) < 0 ||
                    (size_t)json_integer_value(unknown) >= unigram->count))
        status = zest_tokenizer_load_error(
            tokenizer, "model", "Unigram needs the list \"vocab\" and \"unk_id\", an index of it", error);
    if (status) return status;
    unigram->score = calloc(unigram->count, sizeof *unigram->score);
    if (!unigram->score) return zest_error_memory(error, tokenizer->name, unigram->count * sizeof(double));
    for (size_t id = 0; id < unigram->count && !status; id++)
        status = add_piece(tokenizer, json_array_get(vocab, id), id, error);
    unigram->unknown = (int32_t)json_integer_value(unknown);
    tokenizer->role[ZEST_TOKEN_UNK] = unigram->unknown;
    zest_bpe_seal(&tokenizer->bpe);
    return status;
}
