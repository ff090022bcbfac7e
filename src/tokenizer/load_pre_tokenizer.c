/* The pre-tokenizer of a tokenizer.json. */
#include <string.h>

#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"

/* Uses a built-in splitter: only for patterns that are equal, character by character, to a known one, and
 * that match every character. */
static int known_pattern(const json_t *component, zest_pre_tokenizer_step *step) {
    static const struct {
        const char *pattern;
        zest_pre_tokenizer_kind kind;
        int digits;
    } known[] = {{ZEST_PRE_TOKENIZER_GPT2_PATTERN, ZEST_PRE_TOKENIZER_GPT2, 0},
                 {ZEST_PRE_TOKENIZER_CL100K_PATTERN(""), ZEST_PRE_TOKENIZER_CL100K, 1},
                 {ZEST_PRE_TOKENIZER_CL100K_PATTERN("{1,3}"), ZEST_PRE_TOKENIZER_CL100K, 3}};
    const char *pattern = json_string_value(json_object_get(json_object_get(component, "pattern"), "Regex"));
    int covers_all = (step->behaviour == ZEST_PRE_TOKENIZER_ISOLATED && !step->invert) ||
                     (step->behaviour == ZEST_PRE_TOKENIZER_REMOVED && step->invert);
    for (size_t i = 0; pattern && covers_all && i < sizeof known / sizeof *known; i++) {
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
    zest_pre_tokenizer_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_REGEX, error);
    if (!step) return error->status;
    const char *behaviour = json_string_value(json_object_get(component, "behavior"));
    size_t i = 0;
    while (i < 5 && (!behaviour || strcmp(behaviour, names[i]))) i++;
    if (i == 5)
        return zest_tokenizer_load_error(
            tokenizer, "pre_tokenizer Split",
            "\"behavior\" must be Isolated, Removed, MergedWithPrevious, MergedWithNext or "
            "Contiguous",
            error);
    step->behaviour = (zest_pre_tokenizer_behaviour)i;
    zest_status status = zest_tokenizer_load_flag(tokenizer, component, "pre_tokenizer Split", "invert", 0,
                                                  &step->invert, error);
    if (status || known_pattern(component, step)) return status;
    status = zest_tokenizer_load_pattern(tokenizer, component, "pre_tokenizer Split", &step->mark,
                                         &step->mark_size, &step->regex, error);
    if (!status && !step->regex) step->kind = ZEST_PRE_TOKENIZER_LITERAL;
    return status;
}

static zest_status build_byte_level(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    int prefix, cut;
    zest_status status = zest_tokenizer_load_flag(tokenizer, component, "pre_tokenizer ByteLevel",
                                                  "add_prefix_space", -1, &prefix, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, component, "pre_tokenizer ByteLevel", "use_regex", 1,
                                          &cut, error);
    if (status) return status;
    if (prefix && !zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_PREFIX, error))
        return error->status;
    if (cut && !zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_GPT2, error)) return error->status;
    tokenizer->bpe.byte_level = 1;
    return ZEST_OK;
}

zest_status zest_tokenizer_load_prepend(const zest_tokenizer *tokenizer, const json_t *component,
                                        const char *where, zest_pre_tokenizer_prepend *prepend,
                                        zest_error *error) {
    int prefix;
    zest_status status =
        zest_tokenizer_load_flag(tokenizer, component, where, "add_prefix_space", 1, &prefix, error);
    const json_t *scheme = zest_tokenizer_load_member(component, "prepend_scheme");
    const char *name = scheme ? json_string_value(scheme) : "always";
    if (status) return status;
    *prepend = ZEST_PRE_TOKENIZER_NEVER;
    if (name && !strcmp(name, "always"))
        *prepend = prefix ? ZEST_PRE_TOKENIZER_ALWAYS : ZEST_PRE_TOKENIZER_NEVER;
    else if (name && !strcmp(name, "first"))
        *prepend = prefix ? ZEST_PRE_TOKENIZER_FIRST : ZEST_PRE_TOKENIZER_NEVER;
    else if (!name || strcmp(name, "never"))
        return zest_tokenizer_load_error(tokenizer, where,
                                         "\"prepend_scheme\" must be always, first or never", error);
    return ZEST_OK;
}

static zest_status build_metaspace(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    const char *where = "pre_tokenizer Metaspace";
    zest_pre_tokenizer_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_METASPACE, error);
    if (!step) return error->status;
    int cut;
    step->behaviour = ZEST_PRE_TOKENIZER_NEXT;
    zest_status status = zest_tokenizer_load_text(tokenizer, component, where, "replacement", &step->mark,
                                                  &step->mark_size, error);
    if (!status) status = zest_tokenizer_load_prepend(tokenizer, component, where, &step->prepend, error);
    if (!status) status = zest_tokenizer_load_flag(tokenizer, component, where, "split", 1, &cut, error);
    if (status) return status;
    step->whole = !cut;
    return step->mark_size ? ZEST_OK
                           : zest_tokenizer_load_error(tokenizer, where, "\"replacement\" is empty", error);
}

static zest_status build_digits(zest_tokenizer *tokenizer, const json_t *component, zest_error *error) {
    int single;
    zest_status status = zest_tokenizer_load_flag(tokenizer, component, "pre_tokenizer Digits",
                                                  "individual_digits", -1, &single, error);
    if (status) return status;
    zest_pre_tokenizer_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_DIGITS, error);
    if (!step) return error->status;
    step->behaviour = single ? ZEST_PRE_TOKENIZER_ISOLATED : ZEST_PRE_TOKENIZER_CONTIGUOUS;
    return ZEST_OK;
}

/* WhitespaceSplit: words without the white space between them. */
static zest_status build_space_split(zest_tokenizer *tokenizer, zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    zest_pre_tokenizer_step *step = zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_REGEX, err);
    if (!step) return err->status;
    step->behaviour = ZEST_PRE_TOKENIZER_REMOVED;
    step->regex = zest_regex_new("\\s+", 3, tokenizer->name, err);
    return step->regex ? ZEST_OK : err->status;
}

zest_status zest_tokenizer_load_pre_tokenizer(zest_tokenizer *tokenizer, const json_t *component,
                                              zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    if (!component || json_is_null(component)) return ZEST_OK;
    const char *type = zest_tokenizer_load_type(tokenizer, component, "pre_tokenizer", err);
    if (!type) return err->status;
    if (!strcmp(type, "Sequence"))
        return zest_tokenizer_load_sequence(tokenizer, component, "pre_tokenizer", "pretokenizers",
                                            zest_tokenizer_load_pre_tokenizer, err);
    if (tokenizer->bpe.byte_level)
        return zest_tokenizer_load_error(tokenizer, "pre_tokenizer",
                                         "ByteLevel must be the last of a Sequence", err);
    if (!strcmp(type, "ByteLevel")) return build_byte_level(tokenizer, component, err);
    if (!strcmp(type, "Split")) return build_split(tokenizer, component, err);
    if (!strcmp(type, "Digits")) return build_digits(tokenizer, component, err);
    if (!strcmp(type, "Metaspace")) return build_metaspace(tokenizer, component, err);
    if (!strcmp(type, "WhitespaceSplit")) return build_space_split(tokenizer, err);
    if (!strcmp(type, "BertPreTokenizer"))
        return zest_tokenizer_split_step(tokenizer, ZEST_PRE_TOKENIZER_BERT, err) ? ZEST_OK : err->status;
    return zest_tokenizer_load_unsupported(
        tokenizer, "pre_tokenizer", type,
        "Sequence, ByteLevel, Split, Digits, Metaspace, WhitespaceSplit and BertPreTokenizer", err);
}
