/* WordPiece: greedy longest-match encoding of a word. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"

zest_status zest_wordpiece_finish(zest_wordpiece *wordpiece, const zest_vocab *vocab, const char *source,
                                  zest_error *error) {
    wordpiece->tokens = malloc((vocab->count + 1) * sizeof *wordpiece->tokens);
    if (!wordpiece->tokens) return zest_error_memory(error, source, vocab->count * sizeof *wordpiece->tokens);
    for (size_t id = 0; id < vocab->size; id++) {
        size_t size;
        if (!zest_vocab_is_model_token(vocab, (int32_t)id)) continue;
        const char *token = zest_vocab_token(vocab, (int32_t)id, &size);
        if (size) wordpiece->tokens[wordpiece->count++] = (zest_spelling){token, size, (uint32_t)id};
    }
    zest_spellings_sort(wordpiece->tokens, wordpiece->count);
    size_t i = 0;
    for (unsigned byte = 0; byte < 257; byte++) {
        while (i < wordpiece->count && (unsigned char)wordpiece->tokens[i].text[0] < byte) i++;
        wordpiece->first[byte] = i;
    }
    wordpiece->continuing = zest_spellings_range(wordpiece->tokens, wordpiece->count, wordpiece->prefix,
                                                 wordpiece->prefix_size, &wordpiece->continuing_count);
    return ZEST_OK;
}

void zest_wordpiece_free(zest_wordpiece *wordpiece) {
    free(wordpiece->prefix);
    free(wordpiece->tokens);
    *wordpiece = (zest_wordpiece){0};
}

static size_t characters(const char *word, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++) count += ((unsigned char)word[i] & 0xC0) != 0x80;
    return count;
}

static const zest_spelling *find_first(const zest_wordpiece *w, const char *word, size_t size) {
    size_t first = w->first[(unsigned char)word[0]], end = w->first[(unsigned char)word[0] + 1];
    return zest_spellings_longest_prefix(w->tokens + first, end - first, 0, word, size);
}

void zest_wordpiece_encode(const zest_wordpiece *wordpiece, const char *word, size_t size, zest_ids *out) {
    size_t before = out->count, at = 0;
    if (size <= wordpiece->max_word_chars || characters(word, size) <= wordpiece->max_word_chars) {
        while (at < size) {
            const zest_spelling *token =
                at ? zest_spellings_longest_prefix(wordpiece->tokens + wordpiece->continuing,
                                                   wordpiece->continuing_count, wordpiece->prefix_size,
                                                   word + at, size - at)
                   : find_first(wordpiece, word, size);
            if (!token) break;
            zest_ids_add(out, (int32_t)token->value);
            at += at ? token->size - wordpiece->prefix_size : token->size;
        }
        if (at == size) return;
    }
    out->count = before;
    zest_ids_add(out, wordpiece->unknown);
}
