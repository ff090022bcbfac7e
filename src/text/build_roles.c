/* Which tokens begin and end a text, pad, mask and so on. */
#include <string.h>

#include "text/build.h"

zest_status zest_build_read_settings(const char *folder, zest_build_settings *settings, zest_error *error) {
    *settings = (zest_build_settings){0};
    zest_status status = zest_build_read(folder, "tokenizer_config.json", 1, &settings->config, error);
    return status ? status : zest_build_read(folder, "special_tokens_map.json", 1, &settings->map, error);
}

void zest_build_free_settings(zest_build_settings *settings) {
    json_decref(settings->config);
    json_decref(settings->map);
    *settings = (zest_build_settings){0};
}

int zest_build_generic_class(const char *name) {
    return !strcmp(name, "PreTrainedTokenizerFast") || !strcmp(name, "TokenizersBackend");
}

const json_t *zest_build_role(const zest_build_settings *settings, zest_token_role role) {
    static const char *const keys[ZEST_TOKEN_ROLES] = {
        [ZEST_TOKEN_BOS] = "bos_token", [ZEST_TOKEN_EOS] = "eos_token",   [ZEST_TOKEN_PAD] = "pad_token",
        [ZEST_TOKEN_UNK] = "unk_token", [ZEST_TOKEN_MASK] = "mask_token", [ZEST_TOKEN_CLS] = "cls_token",
        [ZEST_TOKEN_SEP] = "sep_token",
    };
    const json_t *given = json_object_get(settings->config, keys[role]);
    return given ? given : json_object_get(settings->map, keys[role]);
}

void zest_build_set_role(zest_tokenizer *tokenizer, zest_token_role role, const char *content, size_t size) {
    int32_t id = zest_tokenizer_id(tokenizer, content, size);
    if (id >= 0) tokenizer->role[role] = id;
}

/* What these spellings mean wherever they are special tokens. */
static void guess(zest_tokenizer *tokenizer, zest_token_role role) {
    static const struct {
        zest_token_role role;
        const char *content;
    } usual[] = {
        {ZEST_TOKEN_BOS, "<s>"},           {ZEST_TOKEN_BOS, "<bos>"}, {ZEST_TOKEN_BOS, "<|begin_of_text|>"},
        {ZEST_TOKEN_EOS, "</s>"},          {ZEST_TOKEN_EOS, "<eos>"}, {ZEST_TOKEN_EOS, "<|end_of_text|>"},
        {ZEST_TOKEN_EOS, "<|endoftext|>"}, {ZEST_TOKEN_PAD, "<pad>"}, {ZEST_TOKEN_PAD, "[PAD]"},
        {ZEST_TOKEN_UNK, "<unk>"},         {ZEST_TOKEN_UNK, "[UNK]"}, {ZEST_TOKEN_MASK, "<mask>"},
        {ZEST_TOKEN_MASK, "[MASK]"},       {ZEST_TOKEN_CLS, "[CLS]"}, {ZEST_TOKEN_SEP, "[SEP]"},
    };
    for (size_t i = 0; i < sizeof usual / sizeof *usual && tokenizer->role[role] < 0; i++) {
        int32_t id = zest_tokenizer_id(tokenizer, usual[i].content, strlen(usual[i].content));
        if (usual[i].role == role && zest_tokenizer_is_special(tokenizer, id)) tokenizer->role[role] = id;
    }
}

/* Published folders often leave the roles to the defaults of a class in transformers: tokenizer_config.json
 * of GPT-2 and of BERT has none. A null says that there is no such token. */
void zest_build_roles(zest_tokenizer *tokenizer, const zest_build_settings *settings) {
    for (int i = 0; i < ZEST_TOKEN_ROLES; i++) {
        const json_t *given = zest_build_role(settings, (zest_token_role)i);
        const json_t *content = json_is_object(given) ? json_object_get(given, "content") : given;
        if (json_is_string(content))
            zest_build_set_role(tokenizer, (zest_token_role)i, json_string_value(content),
                                json_string_length(content));
        else if (!given)
            guess(tokenizer, (zest_token_role)i);
    }
}
