/* The components of a tokenizer.json that change, split and join text. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"

static zest_status unknown(const zest_tokenizer *tokenizer, const char *where, const char *type,
                           const char *known, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the %s \"%.60s\" is not known to zest, which has %s",
                          tokenizer->name, where, type, known);
}

zest_status zest_build_pattern(const zest_tokenizer *tokenizer, const json_t *component, const char *where,
                               char **text, size_t *size, zest_regex **regex, zest_error *error) {
    zest_error local = {0}, *say = error ? error : &local;
    const json_t *pattern = json_object_get(component, "pattern"),
                 *expression = json_object_get(pattern, "Regex");
    if (json_is_string(expression)) {
        char place[600];
        snprintf(place, sizeof place, "%.500s: %s", tokenizer->name, where);
        *regex = zest_regex_new(json_string_value(expression), json_string_length(expression), place, say);
        return *regex ? ZEST_OK : say->status;
    }
    zest_status status = zest_build_text(tokenizer, pattern, where, "String", text, size, error);
    return status || *size ? status : zest_build_refuse(tokenizer, where, "the pattern is empty", error);
}

/* ---- Normalizers -------------------------------------------------------------------------------------- */

zest_status zest_build_bert_steps(zest_tokenizer *tokenizer, int clean, int ideographs, int accents,
                                  int lowercase, zest_error *error) {
    zest_error local = {0}, *say = error ? error : &local;
    const struct {
        int wanted;
        zest_normalize_kind kind;
    } steps[] = {{clean, ZEST_NORMALIZE_CLEAN},
                 {ideographs, ZEST_NORMALIZE_IDEOGRAPHS},
                 {accents, ZEST_NORMALIZE_STRIP_ACCENTS},
                 {lowercase, ZEST_NORMALIZE_LOWERCASE}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].wanted && !zest_tokenizer_normalize_step(tokenizer, steps[i].kind, say))
            return say->status;
    return ZEST_OK;
}

/* strip_accents null: as lowercase. */
static zest_status build_bert(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    const char *where = "normalizer BertNormalizer";
    int clean, ideographs, lowercase, accents = 0;
    zest_status status = zest_build_flag(tokenizer, component, where, "clean_text", -1, &clean, error);
    if (!status)
        status = zest_build_flag(tokenizer, component, where, "handle_chinese_chars", -1, &ideographs, error);
    if (!status) status = zest_build_flag(tokenizer, component, where, "lowercase", -1, &lowercase, error);
    if (!status)
        status = zest_build_flag(tokenizer, component, where, "strip_accents", lowercase, &accents, error);
    return status ? status : zest_build_bert_steps(tokenizer, clean, ideographs, accents, lowercase, error);
}

zest_status zest_build_normalizer(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    zest_error local = {0}, *say = error ? error : &local;
    if (!component || json_is_null(component)) return ZEST_OK;
    const char *type = zest_build_type(tokenizer, component, "normalizer", say);
    if (!type) return say->status;
    if (!strcmp(type, "Sequence"))
        return zest_build_sequence(tokenizer, component, "normalizer", "normalizers", zest_build_normalizer,
                                   say);
    if (!strcmp(type, "BertNormalizer")) return build_bert(tokenizer, component, say);
    zest_normalize_kind kind;
    if (!strcmp(type, "Prepend"))
        kind = ZEST_NORMALIZE_PREPEND;
    else if (!strcmp(type, "Replace"))
        kind = ZEST_NORMALIZE_REPLACE;
    else if (!strcmp(type, "NFC"))
        kind = ZEST_NORMALIZE_COMPOSE;
    else if (!strcmp(type, "Lowercase"))
        kind = ZEST_NORMALIZE_LOWERCASE;
    else
        return unknown(tokenizer, "normalizer", type,
                       "Sequence, Prepend, Replace, NFC, Lowercase and BertNormalizer", say);
    zest_normalize_step *step = zest_tokenizer_normalize_step(tokenizer, kind, say);
    if (!step) return say->status;
    if (kind != ZEST_NORMALIZE_PREPEND && kind != ZEST_NORMALIZE_REPLACE) return ZEST_OK;
    const char *key = kind == ZEST_NORMALIZE_PREPEND ? "prepend" : "content";
    zest_status status =
        zest_build_text(tokenizer, component, "normalizer", key, &step->content, &step->content_size, say);
    if (status || kind == ZEST_NORMALIZE_PREPEND) return status;
    return zest_build_pattern(tokenizer, component, "normalizer", &step->pattern, &step->pattern_size,
                              &step->regex, say);
}

/* ---- Pre-tokenizers ----------------------------------------------------------------------------------- */

/* Cut by hand: the pattern must be one that is known to the letter and must leave nothing between its
 * matches. */
static int known_pattern(const json_t *component, zest_presplit_step *step) {
    static const struct {
        const char *pattern;
        zest_presplit_kind kind;
        int digits;
    } known[] = {{ZEST_PRESPLIT_GPT2_PATTERN, ZEST_PRESPLIT_GPT2, 0},
                 {ZEST_PRESPLIT_CL100K_PATTERN(""), ZEST_PRESPLIT_CL100K, 1},
                 {ZEST_PRESPLIT_CL100K_PATTERN("{1,3}"), ZEST_PRESPLIT_CL100K, 3}};
    const char *pattern = json_string_value(json_object_get(json_object_get(component, "pattern"), "Regex"));
    int whole = (step->behaviour == ZEST_PRESPLIT_ISOLATED && !step->invert) ||
                (step->behaviour == ZEST_PRESPLIT_REMOVED && step->invert);
    for (size_t i = 0; pattern && whole && i < sizeof known / sizeof *known; i++) {
        if (strcmp(pattern, known[i].pattern)) continue;
        step->kind = known[i].kind;
        step->count = known[i].digits;
        return 1;
    }
    return 0;
}

static zest_status build_split(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    zest_presplit_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRESPLIT_REGEX, error);
    if (!step) return error->status;
    const char *behaviour = json_string_value(json_object_get(component, "behavior"));
    size_t i = 0;
    while (i < 5 && (!behaviour || strcmp(behaviour, names[i]))) i++;
    if (i == 5)
        return zest_build_refuse(
            tokenizer, "pre_tokenizer Split",
            "\"behavior\" must be Isolated, Removed, MergedWithPrevious, MergedWithNext or "
            "Contiguous",
            error);
    step->behaviour = (zest_presplit_behaviour)i;
    zest_status status =
        zest_build_flag(tokenizer, component, "pre_tokenizer Split", "invert", 0, &step->invert, error);
    if (status || known_pattern(component, step)) return status;
    status = zest_build_pattern(tokenizer, component, "pre_tokenizer Split", &step->mark, &step->mark_size,
                                &step->regex, error);
    if (!status && !step->regex) step->kind = ZEST_PRESPLIT_LITERAL;
    return status;
}

static zest_status build_byte_level(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    int prefix, cut;
    zest_status status = zest_build_flag(tokenizer, component, "pre_tokenizer ByteLevel", "add_prefix_space",
                                         -1, &prefix, error);
    if (!status)
        status =
            zest_build_flag(tokenizer, component, "pre_tokenizer ByteLevel", "use_regex", 1, &cut, error);
    if (status) return status;
    if (prefix && !zest_tokenizer_split_step(tokenizer, ZEST_PRESPLIT_PREFIX, error)) return error->status;
    if (cut && !zest_tokenizer_split_step(tokenizer, ZEST_PRESPLIT_GPT2, error)) return error->status;
    tokenizer->bpe.byte_level = 1;
    return ZEST_OK;
}

/* When a mark is put in front. Old files say it by add_prefix_space, new ones by prepend_scheme. */
static zest_status read_prepend(const zest_tokenizer *tokenizer, const json_t *component, const char *where,
                                zest_presplit_prepend *prepend, zest_error *error) {
    int prefix;
    zest_status status = zest_build_flag(tokenizer, component, where, "add_prefix_space", 1, &prefix, error);
    const json_t *scheme = zest_build_member(component, "prepend_scheme");
    const char *name = scheme ? json_string_value(scheme) : "always";
    if (status) return status;
    *prepend = ZEST_PRESPLIT_NEVER;
    if (name && !strcmp(name, "always"))
        *prepend = prefix ? ZEST_PRESPLIT_ALWAYS : ZEST_PRESPLIT_NEVER;
    else if (name && !strcmp(name, "first"))
        *prepend = prefix ? ZEST_PRESPLIT_FIRST : ZEST_PRESPLIT_NEVER;
    else if (!name || strcmp(name, "never"))
        return zest_build_refuse(tokenizer, where, "\"prepend_scheme\" must be always, first or never",
                                 error);
    return ZEST_OK;
}

static zest_status build_metaspace(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    const char *where = "pre_tokenizer Metaspace";
    zest_presplit_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRESPLIT_METASPACE, error);
    if (!step) return error->status;
    int cut;
    step->behaviour = ZEST_PRESPLIT_NEXT;
    zest_status status =
        zest_build_text(tokenizer, component, where, "replacement", &step->mark, &step->mark_size, error);
    if (!status) status = read_prepend(tokenizer, component, where, &step->prepend, error);
    if (!status) status = zest_build_flag(tokenizer, component, where, "split", 1, &cut, error);
    if (status) return status;
    step->whole = !cut;
    return step->mark_size ? ZEST_OK : zest_build_refuse(tokenizer, where, "\"replacement\" is empty", error);
}

static zest_status build_digits(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    int single;
    zest_status status = zest_build_flag(tokenizer, component, "pre_tokenizer Digits", "individual_digits",
                                         -1, &single, error);
    if (status) return status;
    zest_presplit_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRESPLIT_DIGITS, error);
    if (!step) return error->status;
    step->behaviour = single ? ZEST_PRESPLIT_ISOLATED : ZEST_PRESPLIT_CONTIGUOUS;
    return ZEST_OK;
}

zest_status zest_build_pre_tokenizer(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    zest_error local = {0}, *say = error ? error : &local;
    if (!component || json_is_null(component)) return ZEST_OK;
    const char *type = zest_build_type(tokenizer, component, "pre_tokenizer", say);
    if (!type) return say->status;
    if (!strcmp(type, "Sequence"))
        return zest_build_sequence(tokenizer, component, "pre_tokenizer", "pretokenizers",
                                   zest_build_pre_tokenizer, say);
    if (tokenizer->bpe.byte_level)
        return zest_build_refuse(tokenizer, "pre_tokenizer", "ByteLevel must be the last of a Sequence", say);
    if (!strcmp(type, "ByteLevel")) return build_byte_level(tokenizer, component, say);
    if (!strcmp(type, "Split")) return build_split(tokenizer, component, say);
    if (!strcmp(type, "Digits")) return build_digits(tokenizer, component, say);
    if (!strcmp(type, "Metaspace")) return build_metaspace(tokenizer, component, say);
    if (!strcmp(type, "BertPreTokenizer"))
        return zest_tokenizer_split_step(tokenizer, ZEST_PRESPLIT_BERT, say) ? ZEST_OK : say->status;
    return unknown(tokenizer, "pre_tokenizer", type,
                   "Sequence, ByteLevel, Split, Digits, Metaspace and BertPreTokenizer", say);
}

/* ---- Decoders ----------------------------------------------------------------------------------------- */

static zest_status build_strip(zest_tokenizer *tokenizer, const json_t *component, zest_decode_step *step,
                               zest_error *error) {
    const json_t *start = json_object_get(component, "start"), *stop = json_object_get(component, "stop");
    zest_status status = zest_build_text(tokenizer, component, "decoder Strip", "content", &step->mark,
                                         &step->mark_size, error);
    if (status) return status;
    if (!step->mark_size || !json_is_integer(start) || !json_is_integer(stop) ||
        json_integer_value(start) < 0 || json_integer_value(stop) < 0)
        return zest_build_refuse(tokenizer, "decoder Strip",
                                 "needs a content and the counts \"start\" and \"stop\"", error);
    step->start = (size_t)json_integer_value(start);
    step->stop = (size_t)json_integer_value(stop);
    return ZEST_OK;
}

static zest_status build_replace(zest_tokenizer *tokenizer, const json_t *component, zest_decode_step *step,
                                 zest_error *error) {
    zest_regex *regex = NULL;
    zest_status status = zest_build_text(tokenizer, component, "decoder Replace", "content", &step->content,
                                         &step->content_size, error);
    if (!status)
        status = zest_build_pattern(tokenizer, component, "decoder Replace", &step->mark, &step->mark_size,
                                    &regex, error);
    if (!status && regex)
        status =
            zest_build_refuse(tokenizer, "decoder Replace", "zest takes a String there, not a Regex", error);
    zest_regex_free(regex);
    return status;
}

static zest_status build_joined_marks(zest_tokenizer *tokenizer, const json_t *component,
                                      zest_decode_step *step, zest_error *error) {
    const char *where = "decoder Metaspace";
    zest_presplit_prepend prepend;
    zest_status status =
        zest_build_text(tokenizer, component, where, "replacement", &step->mark, &step->mark_size, error);
    if (!status) status = read_prepend(tokenizer, component, where, &prepend, error);
    if (status) return status;
    step->prepended = prepend != ZEST_PRESPLIT_NEVER;
    return step->mark_size ? ZEST_OK : zest_build_refuse(tokenizer, where, "\"replacement\" is empty", error);
}

static zest_status build_joined_words(zest_tokenizer *tokenizer, const json_t *component,
                                      zest_decode_step *step, zest_error *error) {
    const char *where = "decoder WordPiece";
    zest_status status =
        zest_build_text(tokenizer, component, where, "prefix", &step->mark, &step->mark_size, error);
    return status ? status
                  : zest_build_flag(tokenizer, component, where, "cleanup", -1, &step->cleanup, error);
}

zest_status zest_build_decoder(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    static const struct {
        const char *type;
        zest_decode_kind kind;
        zest_status (*build)(zest_tokenizer *, const json_t *, zest_decode_step *, zest_error *);
    } known[] = {{"ByteLevel", ZEST_DECODE_BYTE_LEVEL, NULL},
                 {"ByteFallback", ZEST_DECODE_BYTE_FALLBACK, NULL},
                 {"Fuse", ZEST_DECODE_FUSE, NULL},
                 {"Strip", ZEST_DECODE_STRIP, build_strip},
                 {"Replace", ZEST_DECODE_REPLACE, build_replace},
                 {"Metaspace", ZEST_DECODE_METASPACE, build_joined_marks},
                 {"WordPiece", ZEST_DECODE_WORDPIECE, build_joined_words}};
    zest_error local = {0}, *say = error ? error : &local;
    if (!component || json_is_null(component)) {
        tokenizer->decode.spaced = 1;
        return ZEST_OK;
    }
    const char *type = zest_build_type(tokenizer, component, "decoder", say);
    if (!type) return say->status;
    if (!strcmp(type, "Sequence"))
        return zest_build_sequence(tokenizer, component, "decoder", "decoders", zest_build_decoder, say);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(type, known[i].type)) continue;
        zest_decode_step *step = zest_tokenizer_decode_step(tokenizer, known[i].kind, say);
        if (!step) return say->status;
        return known[i].build ? known[i].build(tokenizer, component, step, say) : ZEST_OK;
    }
    return unknown(tokenizer, "decoder", type,
                   "Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace and WordPiece", say);
}
