/* Decoders: from tokens back to text. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

static void end_string(zest_decoder_list *list) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        size_t *end = realloc(list->end, capacity * sizeof *end);
        if (!end) {
            list->text.failed = 1;
            return;
        }
        list->end = end;
        list->capacity = capacity;
    }
    list->end[list->count++] = list->text.size;
}

void zest_decoder_add(zest_decoder_list *list, const char *text, size_t size) {
    zest_buffer_add(&list->text, text, size);
    end_string(list);
}

void zest_decoder_list_free(zest_decoder_list *list) {
    zest_buffer_free(&list->text);
    free(list->end);
    *list = (zest_decoder_list){0};
}

static const char *string_at(const zest_decoder_list *list, size_t i, size_t *size) {
    size_t start = i ? list->end[i - 1] : 0;
    *size = list->end[i] - start;
    return list->text.data ? list->text.data + start : "";
}

void zest_decoder_byte_level(const char *token, size_t size, zest_buffer *out) {
    size_t before = out->size;
    for (size_t i = 0; i < size;) {
        uint32_t code;
        i += zest_unicode_read(token + i, &code);
        int byte = zest_bpe_spelt(code);
        if (byte < 0) {
            out->size = before;
            zest_buffer_add(out, token, size);
            return;
        }
        char one = (char)byte;
        zest_buffer_add(out, &one, 1);
    }
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int zest_decoder_byte(const char *token, size_t size) {
    if (size != 6 || memcmp(token, "<0x", 3) || token[5] != '>') return -1;
    int high = hex(token[3]), low = hex(token[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* ---- Steps: each reads one list of tokens and writes another ---- */

static void join_byte_level(const zest_decoder_list *in, zest_decoder_list *out) {
    zest_buffer bytes = {0};
    for (size_t i = 0; i < in->count; i++) {
        size_t size;
        const char *token = string_at(in, i, &size);
        zest_decoder_byte_level(token, size, &bytes);
    }
    zest_unicode_repair(bytes.data, bytes.size, &out->text);
    if (bytes.failed) out->text.failed = 1;
    end_string(out);
    zest_buffer_free(&bytes);
}

/* A sequence of bytes that is not UTF-8 gives one U+FFFD for each byte. */
static void end_bytes(zest_buffer *bytes, zest_decoder_list *out) {
    if (!bytes->size) return;
    if (zest_unicode_valid(bytes->data, bytes->size) == bytes->size)
        zest_decoder_add(out, bytes->data, bytes->size);
    else
        for (size_t i = 0; i < bytes->size; i++) zest_decoder_add(out, "\xEF\xBF\xBD", 3);
    bytes->size = 0;
}

static void join_fallback(const zest_decoder_list *in, zest_decoder_list *out) {
    zest_buffer bytes = {0};
    for (size_t i = 0; i < in->count; i++) {
        size_t size;
        const char *token = string_at(in, i, &size);
        int byte = zest_decoder_byte(token, size);
        if (byte >= 0) {
            char one = (char)byte;
            zest_buffer_add(&bytes, &one, 1);
        } else {
            end_bytes(&bytes, out);
            zest_decoder_add(out, token, size);
        }
    }
    end_bytes(&bytes, out);
    if (bytes.failed) out->text.failed = 1;
    zest_buffer_free(&bytes);
}

static void strip(const zest_decoder_step *step, const char *token, size_t size, zest_decoder_list *out) {
    size_t mark = step->mark_size;
    for (size_t i = 0; i < step->start && size >= mark && !memcmp(token, step->mark, mark); i++)
        token += mark, size -= mark;
    for (size_t i = 0; i < step->stop && size >= mark && !memcmp(token + size - mark, step->mark, mark); i++)
        size -= mark;
    zest_decoder_add(out, token, size);
}

/* English punctuation and contractions, in the order of Hugging Face's clean-up of spaces. */
static void cleanup(zest_buffer *text, zest_buffer *spare) {
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *from = pairs[i][0], *to = pairs[i][1];
        if (!memmem(text->data, text->size, from, strlen(from))) continue;
        spare->size = 0;
        zest_normalizer_replace(text->data, text->size, from, strlen(from), to, strlen(to), SIZE_MAX, spare);
        zest_buffer swap = *text;
        *text = *spare;
        *spare = swap;
    }
}

static void join_wordpieces(const zest_decoder_step *step, const zest_decoder_list *in,
                            zest_decoder_list *out) {
    zest_buffer text = {0}, spare = {0};
    for (size_t i = 0; i < in->count; i++) {
        size_t size, mark = step->mark_size;
        const char *token = string_at(in, i, &size);
        text.size = 0;
        if (i && size >= mark && !memcmp(token, step->mark, mark))
            token += mark, size -= mark;
        else if (i)
            zest_buffer_add(&text, " ", 1);
        zest_buffer_add(&text, token, size);
        if (step->cleanup && !text.failed) cleanup(&text, &spare);
        zest_decoder_add(out, text.data, text.size);
    }
    if (text.failed || spare.failed) out->text.failed = 1;
    zest_buffer_free(&text);
    zest_buffer_free(&spare);
}

static void each_token(const zest_decoder_step *step, const zest_decoder_list *in, size_t limit,
                       zest_decoder_list *out) {
    for (size_t i = 0; i < in->count; i++) {
        size_t size;
        const char *token = string_at(in, i, &size);
        if (step->kind == ZEST_DECODER_STRIP) {
            strip(step, token, size, out);
            continue;
        }
        const char *content = step->kind == ZEST_DECODER_REPLACE ? step->content : " ";
        size_t content_size =
            step->kind == ZEST_DECODER_REPLACE ? step->content_size : !(i == 0 && step->prepended);
        zest_normalizer_replace(token, size, step->mark, step->mark_size, content, content_size, limit,
                                &out->text);
        end_string(out);
    }
}

static void run_step(const zest_decoder_step *step, const zest_decoder_list *in, size_t limit,
                     zest_decoder_list *out) {
    switch (step->kind) {
    case ZEST_DECODER_BYTE_LEVEL: join_byte_level(in, out); break;
    case ZEST_DECODER_BYTE_FALLBACK: join_fallback(in, out); break;
    case ZEST_DECODER_FUSE: zest_decoder_add(out, in->text.data, in->text.size); break;
    case ZEST_DECODER_REPLACE:
    case ZEST_DECODER_STRIP:
    case ZEST_DECODER_METASPACE: each_token(step, in, limit, out); break;
    case ZEST_DECODER_WORDPIECE: join_wordpieces(step, in, out); break;
    }
}

zest_status zest_decoder_run(const zest_decoder *decode, zest_decoder_list *list, zest_buffer *out,
                             zest_error *error) {
    zest_decoder_list other = {0};
    size_t limit = zest_normalizer_limit(list->text.size);
    for (size_t k = 0; k < decode->count && !list->text.failed && list->text.size <= limit; k++) {
        other.text.size = other.count = 0;
        run_step(&decode->step[k], list, limit, &other);
        zest_decoder_list swap = *list;
        *list = other;
        other = swap;
    }
    int failed = list->text.failed || other.text.failed, grown = list->text.size > limit;
    for (size_t i = 0; i < list->count && !failed && !grown; i++) {
        size_t size;
        const char *text = string_at(list, i, &size);
        if (i && decode->spaced) zest_buffer_add(out, " ", 1);
        zest_buffer_add(out, text, size);
    }
    zest_decoder_list_free(&other);
    if (grown && !failed)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "the decoder produces more than %zu bytes from its tokens; the tokenizer.json "
                              "is damaged or hostile",
                              limit);
    return failed || out->failed ? zest_error_memory(error, "the decoded text", list->text.size) : ZEST_OK;
}

void zest_decoder_free(zest_decoder *decode) {
    for (size_t k = 0; k < decode->count; k++) {
        free(decode->step[k].mark);
        free(decode->step[k].content);
    }
    decode->count = 0;
}
