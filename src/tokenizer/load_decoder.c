/* The decoder of a tokenizer.json. */
#include <string.h>

#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"

static zest_status build_strip(zest_tokenizer *tokenizer, const json_t *component, zest_decoder_step *step,
                               zest_error *error) {
    const json_t *start = json_object_get(component, "start"), *stop = json_object_get(component, "stop");
    zest_status status = zest_tokenizer_load_text(tokenizer, component, "decoder Strip", "content",
                                                  &step->mark, &step->mark_size, error);
    if (status) return status;
    if (!step->mark_size || !json_is_integer(start) || !json_is_integer(stop) ||
        json_integer_value(start) < 0 || json_integer_value(stop) < 0)
        return zest_tokenizer_load_error(tokenizer, "decoder Strip",
                                         "needs a content and the counts \"start\" and \"stop\"", error);
    step->start = (size_t)json_integer_value(start);
    step->stop = (size_t)json_integer_value(stop);
    return ZEST_OK;
}

static zest_status build_replace(zest_tokenizer *tokenizer, const json_t *component, zest_decoder_step *step,
                                 zest_error *error) {
    zest_regex *regex = NULL;
    zest_status status = zest_tokenizer_load_text(tokenizer, component, "decoder Replace", "content",
                                                  &step->content, &step->content_size, error);
    if (!status)
        status = zest_tokenizer_load_pattern(tokenizer, component, "decoder Replace", &step->mark,
                                             &step->mark_size, &regex, error);
    if (!status && regex)
        status = zest_tokenizer_load_error(tokenizer, "decoder Replace",
                                           "the pattern must be a String, not a Regex", error);
    zest_regex_free(regex);
    return status;
}

static zest_status build_joined_marks(zest_tokenizer *tokenizer, const json_t *component,
                                      zest_decoder_step *step, zest_error *error) {
    const char *where = "decoder Metaspace";
    zest_pre_tokenizer_prepend prepend;
    zest_status status = zest_tokenizer_load_text(tokenizer, component, where, "replacement", &step->mark,
                                                  &step->mark_size, error);
    if (!status) status = zest_tokenizer_load_prepend(tokenizer, component, where, &prepend, error);
    if (status) return status;
    step->prepended = prepend != ZEST_PRE_TOKENIZER_NEVER;
    return step->mark_size ? ZEST_OK
                           : zest_tokenizer_load_error(tokenizer, where, "\"replacement\" is empty", error);
}

static zest_status build_joined_words(zest_tokenizer *tokenizer, const json_t *component,
                                      zest_decoder_step *step, zest_error *error) {
    const char *where = "decoder WordPiece";
    zest_status status =
        zest_tokenizer_load_text(tokenizer, component, where, "prefix", &step->mark, &step->mark_size, error);
    return status
               ? status
               : zest_tokenizer_load_flag(tokenizer, component, where, "cleanup", -1, &step->cleanup, error);
}

zest_status zest_tokenizer_load_decoder(zest_tokenizer *tokenizer, const json_t *component,
                                        zest_error *error) {
    static const struct {
        const char *type;
        zest_decoder_kind kind;
        zest_status (*build)(zest_tokenizer *, const json_t *, zest_decoder_step *, zest_error *);
    } known[] = {{"ByteLevel", ZEST_DECODER_BYTE_LEVEL, NULL},
                 {"ByteFallback", ZEST_DECODER_BYTE_FALLBACK, NULL},
                 {"Fuse", ZEST_DECODER_FUSE, NULL},
                 {"Strip", ZEST_DECODER_STRIP, build_strip},
                 {"Replace", ZEST_DECODER_REPLACE, build_replace},
                 {"Metaspace", ZEST_DECODER_METASPACE, build_joined_marks},
                 {"WordPiece", ZEST_DECODER_WORDPIECE, build_joined_words}};
    zest_error local = {0}, *err = error ? error : &local;
    if (!component || json_is_null(component)) {
        tokenizer->decode.spaced = 1;
        return ZEST_OK;
    }
    const char *type = zest_tokenizer_load_type(tokenizer, component, "decoder", err);
    if (!type) return err->status;
    if (!strcmp(type, "Sequence"))
        return zest_tokenizer_load_sequence(tokenizer, component, "decoder", "decoders",
                                            zest_tokenizer_load_decoder, err);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(type, known[i].type)) continue;
        zest_decoder_step *step = zest_tokenizer_decode_step(tokenizer, known[i].kind, err);
        if (!step) return err->status;
        return known[i].build ? known[i].build(tokenizer, component, step, err) : ZEST_OK;
    }
    return zest_tokenizer_load_unsupported(
        tokenizer, "decoder", type,
        "Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace and WordPiece", err);
}
