/* Normalizers: changes of the text before it is split. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

void zest_normalizer_replace(const char *text, size_t size, const char *pattern, size_t pattern_size,
                             const char *content, size_t content_size, size_t limit, zest_buffer *out) {
    const char *at = text, *end = text + size, *hit;
    while (at < end && out->size <= limit && (hit = memmem(at, (size_t)(end - at), pattern, pattern_size))) {
        zest_buffer_add(out, at, (size_t)(hit - at));
        zest_buffer_add(out, content, content_size);
        at = hit + pattern_size;
    }
    if (at < end) zest_buffer_add(out, at, (size_t)(end - at));
}

static zest_status replace_matches(const zest_normalizer_step *step, zest_regex_iterator *iterator,
                                   const char *text, size_t size, size_t limit, zest_buffer *out,
                                   zest_error *error) {
    size_t done = 0, start, end;
    int found = 1;
    zest_status status = zest_regex_begin(iterator, step->regex, text, size, error);
    while (!status && (status = zest_regex_next(iterator, &found, &start, &end, error)) == ZEST_OK && found) {
        zest_buffer_add(out, text + done, start - done);
        zest_buffer_add(out, step->content, step->content_size);
        done = end;
        if (out->size > limit) break;
    }
    if (!status) zest_buffer_add(out, text + done, size - done);
    return status;
}

/* ---- The steps of BERT's normalizer ---- */

static void clean(const char *text, size_t size, zest_buffer *out) {
    size_t copied = 0, length; /* text[copied, i) is unchanged */
    for (size_t i = 0; i < size; i += length) {
        uint32_t code;
        length = zest_unicode_read(text + i, &code);
        int dropped = (zest_unicode_bert_class(code) & ZEST_UNICODE_CONTROL) != 0;
        if (code == ' ' || (!dropped && !(zest_unicode_class(code) & ZEST_UNICODE_SPACE))) continue;
        zest_buffer_add(out, text + copied, i - copied);
        if (!dropped) zest_buffer_add(out, " ", 1);
        copied = i + length;
    }
    zest_buffer_add(out, text + copied, size - copied);
}

static void space_ideographs(const char *text, size_t size, zest_buffer *out) {
    size_t copied = 0, length;
    for (size_t i = 0; i < size; i += length) {
        uint32_t code;
        length = zest_unicode_read(text + i, &code);
        if (length < 3 || !(zest_unicode_bert_class(code) & ZEST_UNICODE_IDEOGRAPH)) continue;
        zest_buffer_add(out, text + copied, i - copied);
        zest_buffer_add(out, " ", 1);
        zest_buffer_add(out, text + i, length);
        zest_buffer_add(out, " ", 1);
        copied = i + length;
    }
    zest_buffer_add(out, text + copied, size - copied);
}

static void strip_accents(const char *text, size_t size, zest_buffer *decomposed, zest_buffer *out) {
    decomposed->size = 0;
    zest_unicode_decompose(text, size, decomposed);
    size_t copied = 0, length;
    const char *at = decomposed->data;
    for (size_t i = 0; i < decomposed->size; i += length) {
        uint32_t code;
        length = zest_unicode_read(at + i, &code);
        if (length < 2 || !(zest_unicode_bert_class(code) & ZEST_UNICODE_ACCENT)) continue;
        zest_buffer_add(out, at + copied, i - copied);
        copied = i + length;
    }
    if (copied < decomposed->size) zest_buffer_add(out, at + copied, decomposed->size - copied);
    if (decomposed->failed) out->failed = 1;
}

static void lowercase(const char *text, size_t size, zest_buffer *out) {
    size_t copied = 0, length;
    for (size_t i = 0; i < size; i += length) {
        uint32_t code, lower, more;
        char bytes[8];
        length = zest_unicode_read(text + i, &code);
        lower = zest_unicode_lowercase(code, &more);
        if (lower == code) continue;
        size_t written = zest_unicode_write(lower, bytes);
        if (more) written += zest_unicode_write(more, bytes + written);
        zest_buffer_add(out, text + copied, i - copied);
        zest_buffer_add(out, bytes, written);
        copied = i + length;
    }
    zest_buffer_add(out, text + copied, size - copied);
}

/* ---- Pipeline ---- */

static zest_status run_step(const zest_normalizer_step *step, zest_normalizer_scratch *scratch,
                            const char *text, size_t size, size_t limit, zest_buffer *out,
                            zest_error *error) {
    switch (step->kind) {
    case ZEST_NORMALIZER_PREPEND:
        zest_buffer_add(out, step->content, step->content_size);
        zest_buffer_add(out, text, size);
        break;
    case ZEST_NORMALIZER_REPLACE:
        if (step->regex) return replace_matches(step, &scratch->iterator, text, size, limit, out, error);
        zest_normalizer_replace(text, size, step->pattern, step->pattern_size, step->content,
                                step->content_size, limit, out);
        break;
    case ZEST_NORMALIZER_COMPOSE: zest_unicode_compose(text, size, out); break;
    case ZEST_NORMALIZER_CLEAN: clean(text, size, out); break;
    case ZEST_NORMALIZER_IDEOGRAPHS: space_ideographs(text, size, out); break;
    case ZEST_NORMALIZER_STRIP_ACCENTS: strip_accents(text, size, &scratch->decomposed, out); break;
    case ZEST_NORMALIZER_LOWERCASE: lowercase(text, size, out); break;
    case ZEST_NORMALIZER_PRECOMPILED: zest_charsmap_run(step->map, text, size, limit, out); break;
    case ZEST_NORMALIZER_SENTENCEPIECE:
        zest_sentencepiece_run(step->sentencepiece, text, size, scratch->later, limit, out);
        break;
    }
    return ZEST_OK;
}

zest_status zest_normalizer_run(const zest_normalizer *normalize, zest_normalizer_scratch *scratch,
                                const char *text, size_t size, const char **out, size_t *out_size,
                                zest_error *error) {
    zest_status status = ZEST_OK;
    size_t given = size, limit = zest_normalizer_limit(size);
    for (size_t k = 0; k < normalize->count && size && !status; k++) {
        zest_buffer *output = &scratch->text[k % 2];
        output->size = 0;
        status = run_step(&normalize->step[k], scratch, text, size, limit, output, error);
        if (!status && output->failed) status = zest_error_memory(error, "the normalised text", size);
        if (!status && output->size > limit)
            status = zest_error_set(error, ZEST_ERROR_FORMAT,
                                    "the normalizer produces more than %zu bytes from a text of %zu; the "
                                    "tokenizer.json is damaged or hostile",
                                    limit, given);
        text = output->data;
        size = output->size;
    }
    *out = text;
    *out_size = size;
    return status;
}

void zest_normalizer_scratch_free(zest_normalizer_scratch *scratch) {
    zest_buffer_free(&scratch->text[0]);
    zest_buffer_free(&scratch->text[1]);
    zest_buffer_free(&scratch->decomposed);
    zest_regex_iterator_free(&scratch->iterator);
}

void zest_normalizer_free(zest_normalizer *normalize) {
    for (size_t k = 0; k < normalize->count; k++) {
        free(normalize->step[k].content);
        free(normalize->step[k].pattern);
        zest_regex_free(normalize->step[k].regex);
        zest_charsmap_free(normalize->step[k].map);
        zest_sentencepiece_free(normalize->step[k].sentencepiece);
    }
    normalize->count = 0;
}
