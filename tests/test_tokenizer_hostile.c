/* Damaged, malicious and unsupported tokenizer files: always an error that names the problem, never a
 * crash. Also run under the sanitizers. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "rng/noise.h"
#include "support.h"
#include "tokenizer/tokenizer.h"

#define DATA "tests/data/tokenizers"

static zest_error error;

static void refused(zest_tokenizer *tokenizer, const char *words) {
    if (tokenizer) fail_msg("accepted, where '%s' was to be said", words);
    if (!strstr(error.message, words)) fail_msg("'%s' does not say '%s'", error.message, words);
    assert_int_not_equal(error.status, ZEST_OK);
}

/* ---- tokenizer.json ----------------------------------------------------------------------------------- */

/* A file with these members and this model; NULL: a tiny model. */
static zest_tokenizer *from_parts(const char *model, const char *rest) {
    zest_buffer text = {0};
    if (!model)
        model = "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3},\"merges\":[\"a b\"]}";
    zest_buffer_format(&text, "{\"model\":%s%s%s}", model, *rest ? "," : "", rest);
    error = (zest_error){0};
    zest_tokenizer *tokenizer = zest_tokenizer_from_json(text.data, text.size, "bad.json", &error);
    zest_buffer_free(&text);
    return tokenizer;
}

static void models_are_checked(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"null", "model: must be an object"},
        {"[]", "model: must be an object"},
        {"{\"type\":\"Foo\",\"vocab\":[]}", "\"Foo\" is not supported"},
        {"{\"type\":\"Unigram\",\"vocab\":[]}", "\"unk_id\""},
        {"{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1}", "an index of it"},
        {"{\"type\":\"Unigram\",\"vocab\":[[\"a\",0],7],\"unk_id\":0}", "token 1 must be"},
        {"{\"type\":\"Unigram\",\"vocab\":[[\"a\",0],[\"a\",1]],\"unk_id\":0}", "\"a\""},
        {"{\"vocab\":{}}", "without a type"},
        {"{\"type\":\"BPE\",\"merges\":[]}", "vocabulary: must be an object"},
        {"{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}", "vocabulary is empty"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0}}", "needs the list \"merges\""},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"},\"merges\":[]}", "needs an integer"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}", "has id -1; ids are 0 to"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":99999999},\"merges\":[]}", "has id 99999999"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":4294967296},\"merges\":[]}", "has id 4294967296"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}", "\"a\" and \"b\" both have id 0"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}", "duplicate"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a z\"]}", "merge 1 needs the token \"z\""},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}", "merge 1 needs the token \"aa\""},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}", "is not two tokens"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]}", "is not two tokens"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}", "merge 1 must be"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[7]}", "merge 1 must be"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"u\"}",
         "\"unk_token\" is not in"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}",
         "dropout makes tokens random"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}",
         "end_of_word_suffix"},
        {"{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"byte_fallback\":1}",
         "\"byte_fallback\" must be true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(from_parts(cases[i][0], ""), cases[i][1]);
}

static void components_are_checked(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"\"normalizer\":{\"type\":\"NFKC\"}", "normalizer \"NFKC\" is not supported"},
        {"\"normalizer\":{\"type\":\"Precompiled\"}", "precompiled_charsmap"},
        {"\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!\"}", "map is damaged"},
        {"\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////wAAAAA=\"}",
         "map is damaged"},
        {"\"normalizer\":{}", "with a \"type\""},
        {"\"normalizer\":7", "with a \"type\""},
        {"\"normalizer\":{\"type\":\"Sequence\"}", "needs the list \"normalizers\""},
        {"\"normalizer\":{\"type\":\"Prepend\"}", "\"prepend\" must be a string"},
        {"\"normalizer\":{\"type\":\"Replace\",\"content\":\"x\",\"pattern\":{\"String\":\"\"}}",
         "pattern is empty"},
        {"\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}", "\"UnicodeScripts\" is not supported"},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\"}", "\"add_prefix_space\" must be true or false"},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}", "\"replacement\" is empty"},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"x\"}",
         "prepend_scheme"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"x\"}", "\"behavior\" must be"},
        {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_"
         "space\":true},"
         "{\"type\":\"Digits\",\"individual_digits\":true}]}",
         "must be the last"},
        {"\"decoder\":{\"type\":\"CTC\"}", "decoder \"CTC\" is not supported"},
        {"\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}", "counts \"start\""},
        {"\"decoder\":{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{\"Regex\":\"a\"}}", "not a Regex"},
        {"\"post_processor\":{\"type\":\"Foo\"}", "post_processor \"Foo\" is not supported"},
        {"\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\",3],\"sep\":[\"x\",9]}",
         "\"sep\" must be"},
        {"\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\",4294967299]}",
         "\"cls\" must be"},
        {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}",
         "must contain the text exactly once"},
        {"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\"}}]"
         "}",
         "\"q\" is not"},
        {"\"added_tokens\":[{\"content\":\"x\"}]", "each needs an \"id\""},
        {"\"added_tokens\":[{\"id\":7}]", "each needs a \"content\""},
        {"\"added_tokens\":[{\"id\":7,\"content\":\"ab\"}]", "has id 7, but id 2 in the vocabulary"},
        {"\"added_tokens\":[{\"id\":2,\"content\":\"x\"}]", "both have id 2"},
        {"\"added_tokens\":[{\"id\":7,\"content\":\"x\",\"special\":3}]",
         "\"special\" must be true or false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(from_parts(NULL, cases[i][0]), cases[i][1]);
}

static zest_tokenizer *with_pattern(const char *pattern) {
    char rest[512];
    snprintf(
        rest, sizeof rest,
        "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"%s\"}}",
        pattern);
    return from_parts(NULL, rest);
}

static void patterns_are_checked(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"(a", "a ( without its )"},
        {"a)", "a ) without its ("},
        {"[a", "a [ without its ]"},
        {"a{2,1}", "m below n"},
        {"*a", "a repetition of nothing"},
        {"\\\\p{Nonsense}", "something else than a general category"},
        {"\\\\p{Han}", "something else than a general category"},
        {"\\\\pL", "\\p without {NAME}"},
        {"a{,3}", "{,m}"},
        {"a{2}?", "{n}?"},
        {"a{1,300}", "more than 255 times"},
        {"((((a{9}){9}){9}){9}){9}", "more steps than 4096"},
        {"[a&&b]", "&&"},
        {"[[:alpha:]]", "[:NAME:]"},
        {"[b-a]", "from high to low"},
        {"[a-\\\\w]", "ends with a class"},
        {"(?m:a.)", "(?m)"},
        {"(?x:a)", "unknown kind of group"},
        {"(?<name>a)", "unknown kind of group"},
        {"(?<=a)b", "a lookbehind"},
        {"(?<!a)b", "a lookbehind"},
        {"(?>ab)", "an atomic group"},
        {"a(?!bc)", "a lookahead of something else"},
        {"(ab)++", "a possessive repetition of a group"},
        {"(a*)*", "the repetition of what may be empty"},
        {"a(?i)b", "not at the start of a group"},
        {"(?i:ss)", "such as ss"},
        {"(?i:é)", "beyond a to z"},
        {"(?i:[é])", "beyond ASCII"},
        {"(?i:\\\\p{Lu})", "\\p{Lu}"},
        {"(a)\\\\1", "references to groups"},
        {"\\\\X", "grapheme clusters"},
        {"\\\\Kb", "\\K"},
        {"\\\\y", "an unknown escape"},
        {"\\\\u12", "four digits"},
        {"\\\\x{110000}", "\\x{...}"},
        {"a*?{1}{1}{1}{1}{1}", "more than four repetitions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(with_pattern(cases[i][0]), cases[i][1]);
    zest_buffer deep = {0};
    for (int i = 0; i < 100; i++) zest_buffer_text(&deep, "(");
    refused(with_pattern(deep.data), "within more than 50 others");
    zest_buffer_free(&deep);
}

static void not_json(void **state) {
    (void)state;
    refused(zest_tokenizer_from_json("", 0, "bad.json", &error), "not valid JSON");
    refused(zest_tokenizer_from_json("[]", 2, "bad.json", &error), "not a JSON object");
    refused(zest_tokenizer_from_json("{\"model\":\"\xFF\"}", 13, "bad.json", &error), "not valid JSON");
    zest_buffer deep = {0};
    for (int i = 0; i < 100000; i++) zest_buffer_text(&deep, "{\"a\":");
    refused(zest_tokenizer_from_json(deep.data, deep.size, "bad.json", &error), "not valid JSON");
    deep.size = 0;
    for (int i = 0; i < 600; i++) zest_buffer_text(&deep, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 600; i++) zest_buffer_text(&deep, "]}");
    zest_buffer rest = {0};
    zest_buffer_format(&rest, "\"normalizer\":%s", deep.data);
    zest_tokenizer_free(from_parts(NULL, rest.data)); /* deep, empty and harmless */
    zest_buffer_free(&deep);
    zest_buffer_free(&rest);
}

/* ---- Damage anywhere ---------------------------------------------------------------------------------- */

/* Accepted or refused with a reason; what is accepted must work. */
static void try_bytes(const char *bytes, size_t size) {
    static const char text[] = "The ships <s> 12\xFF\n  é ▁ <mask>";
    error = (zest_error){0};
    zest_tokenizer *tokenizer = zest_tokenizer_from_json(bytes, size, "bad.json", &error);
    if (!tokenizer) {
        assert_true(error.message[0] && error.status);
        return;
    }
    zest_ids ids = {0};
    zest_buffer back = {0};
    if (!zest_tokenizer_encode(tokenizer, text, sizeof text, ZEST_ENCODE_TEMPLATE, &ids, &error))
        assert_int_equal(zest_tokenizer_decode(tokenizer, ids.data, ids.count, 0, &back, &error), ZEST_OK);
    zest_ids_free(&ids);
    zest_buffer_free(&back);
    zest_tokenizer_free(tokenizer);
}

/* Puts a value into the place that *left counts down to, among the members of a file outside its vocabulary. */
static int put_value(json_t *json, size_t *left, json_t *value) {
    const char *key;
    json_t *member;
    size_t i;
    json_object_foreach(json, key, member) {
        if (!(*left)--) return json_object_set(json, key, value), 1;
        if (strcmp(key, "vocab") && put_value(member, left, value)) return 1;
    }
    json_array_foreach(json, i, member) {
        if (!(*left)--) return json_array_set(json, i, value), 1;
        if (i < 20 && put_value(member, left, value)) return 1;
    }
    return 0;
}

/* Sound JSON with one value of another kind: what a damaged byte seldom gives. */
static void values_of_another_kind(void **state) {
    (void)state;
    static const char *const files[] = {DATA "/bert.json", DATA "/bert-cased.json", DATA "/llama3.json",
                                        DATA "/metaspace.json", DATA "/unigram.json"};
    static const char *const values[] = {"null",
                                         "true",
                                         "-1",
                                         "0",
                                         "4294967296",
                                         "1e30",
                                         "\"\"",
                                         "\"a\"",
                                         "\"BPE\"",
                                         "\"WordPiece\"",
                                         "[]",
                                         "{}",
                                         "[[\"a\",\"b\"]]",
                                         "{\"type\":\"Sequence\"}",
                                         "\"\\u2581\""};
    for (size_t f = 0; f < 5; f++)
        for (size_t place = 0; place < 2000; place++) {
            json_t *json = json_load_file(files[f], 0, NULL);
            assert_non_null(json);
            json_t *value = json_loads(values[(place * 7 + f) % 15], JSON_DECODE_ANY, NULL);
            size_t left = place * TEST_SLOW;
            int there = put_value(json, &left, value);
            char *text = there ? json_dumps(json, JSON_COMPACT) : NULL;
            if (text) try_bytes(text, strlen(text));
            free(text);
            json_decref(value);
            json_decref(json);
            if (!there) {
                assert_true(place > 40 / TEST_SLOW);
                break;
            }
        }
}

static void damaged_files(void **state) {
    (void)state;
    static const char *const files[] = {DATA "/gpt2.json", DATA "/llama.json", DATA "/metaspace.json",
                                        DATA "/qwen2.json", DATA "/unigram.json"};
    uint64_t draws = 0;
    for (size_t f = 0; f < 5; f++) {
        zest_buffer file = {0};
        assert_int_equal(zest_file_read(files[f], 1 << 20, &file, &error), ZEST_OK);
        for (int round = 0; round < 800 / TEST_SLOW; round++) {
            uint64_t place = zest_seed(5, f, draws++) % file.size, what = zest_seed(6, f, draws++);
            char *copy = malloc(file.size); /* of the exact size, so that the sanitizer sees a step beyond */
            assert_non_null(copy);
            memcpy(copy, file.data, file.size);
            /* Most of the structure is before the vocabulary. */
            if (what % 3) place %= 2000;
            if (round % 4 == 0)
                file.size > place ? try_bytes(copy, place) : (void)0;
            else {
                copy[place] = round % 4 == 1 ? (char)(what >> 8) : "0\"{}[],:tfn "[(what >> 8) % 12];
                try_bytes(copy, file.size);
            }
            free(copy);
        }
        zest_buffer_free(&file);
    }
}

/* ---- vocab.json and merges.txt ------------------------------------------------------------------------ */

static int32_t first_id(const char *folder, const char *text, size_t *count) {
    zest_tokenizer *tokenizer = zest_tokenizer_open(folder, &error);
    if (!tokenizer) fail_msg("%s", error.message);
    zest_ids ids = {0};
    assert_int_equal(zest_tokenizer_encode(tokenizer, text, strlen(text), ZEST_ENCODE_TEMPLATE, &ids, &error),
                     ZEST_OK);
    *count = ids.count;
    int32_t first = ids.count ? ids.data[0] : -1;
    zest_ids_free(&ids);
    zest_tokenizer_free(tokenizer);
    return first;
}

static void folders(void **state) {
    (void)state;
    char buffer[64];
    const char *folder = test_folder(buffer);
    size_t count;
    refused(zest_tokenizer_open("/nowhere/at/all", &error), "cannot be opened");
    refused(zest_tokenizer_open(folder, &error), "has no tokenizer");
    test_put(folder, "tokenizer.model", "\n");
    refused(zest_tokenizer_open(folder, &error), "is not a SentencePiece model");
    test_put(folder, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"<|endoftext|>\":3,\"</s>\":4}");
    refused(zest_tokenizer_open(folder, &error), "merges.txt: cannot be opened");
    test_put(folder, "merges.txt", "#version: 0.2\r\na b\r\n\r\n");
    assert_int_equal(first_id(folder, "ab", &count), 2); /* GPT-2: nothing around the text */
    assert_int_equal(count, 1);
    test_put(folder, "merges.txt", "#version: 0.2\na c\n");
    refused(zest_tokenizer_open(folder, &error), "merge 1 needs the token \"c\"");
    test_put(folder, "merges.txt", "#version: 0.2\n\na b\n");
    refused(zest_tokenizer_open(folder, &error), "is not two tokens");
    test_put(folder, "merges.txt", "");
    assert_int_equal(first_id(folder, "ab", &count), 0);
    assert_int_equal(count, 2);
    test_put(folder, "tokenizer_config.json", "{\"tokenizer_class\":\"CLIPTokenizer\"}");
    refused(zest_tokenizer_open(folder, &error), "\"CLIPTokenizer\"");
    test_put(folder, "tokenizer_config.json", "{\"tokenizer_class\":\"RobertaTokenizer\"}");
    refused(zest_tokenizer_open(folder, &error), "are missing");
    test_put(folder, "tokenizer_config.json", /* as OPT has it */
             "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_bos_token\":true,\"bos_token\":{\"content\":\"</"
             "s>\"}}");
    assert_int_equal(first_id(folder, "b", &count), 4);
    test_put(folder, "tokenizer_config.json", /* as transformers writes it */
             "{\"model_max_length\": 1000000000000000019884624838656, \"bos_token\": \"</s>\"}");
    assert_int_equal(first_id(folder, "b", &count), 1);
    test_put(folder, "tokenizer_config.json", "{\"add_prefix_space\":\"no\"}");
    refused(zest_tokenizer_open(folder, &error), "\"add_prefix_space\" must be true or false");
    test_put(folder, "tokenizer_config.json", "{");
    refused(zest_tokenizer_open(folder, &error), "tokenizer_config.json: is not valid JSON");
    test_remove(folder);
}

/* ---- Arrays ------------------------------------------------------------------------------------------- */

static void arrays(void **state) {
    (void)state;
    zest_tokenizer_text tokens[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {"<s>", 3}};
    zest_tokenizer_text merges[] = {{"a b", 3}};
    float scores[] = {0, 0, -1, 0};
    int32_t types[] = {1, 1, 1, 3};
    const zest_tokenizer_arrays good = {"gpt2", NULL, tokens, NULL, types, 4,  merges, 1,  3,
                                        -1,     -1,   -1,     -1,   -1,    -1, -1,     -1, -1};
    zest_tokenizer *tokenizer = zest_tokenizer_from_arrays(&good, "g", &error);
    assert_non_null(tokenizer);
    zest_ids ids = {0};
    assert_int_equal(zest_tokenizer_encode(tokenizer, "ab<s>", 5, ZEST_ENCODE_TEMPLATE, &ids, &error),
                     ZEST_OK);
    assert_true(ids.count == 2 && ids.data[0] == 2 && ids.data[1] == 3);
    zest_ids_free(&ids);
    zest_tokenizer_free(tokenizer);
    zest_tokenizer_arrays a = good;
    a.model = "bert";
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "\"bert\" is not supported");
    a = good, a.model = NULL;
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "is not supported");
    a = good, a.pre = "other";
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "pre-tokenizer \"other\"");
    a = good, a.count = 0;
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "bos token is 3, but there are 0");
    a = good, a.eos = 4;
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "eos token is 4, but there are 4");
    a = good, a.add_eos = 1;
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "names no such token");
    a = good, merges[0] = (zest_tokenizer_text){"a c", 3};
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "merge 1 needs the token \"c\"");
    a = good, a.model = "llama", a.merge_count = 0;
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "neither scores nor merges");
    scores[2] = 0.0f / 0.0f, a.scores = scores;
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "token 2: its score is not a number");
    a = good, tokens[1] = (zest_tokenizer_text){"\xFF", 1};
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "token 1 is not UTF-8");
    tokens[1] = tokens[0];
    refused(zest_tokenizer_from_arrays(&a, "g", &error), "listed twice");
}

/* A GGUF file of version 3 without tensors, put together by hand. */
static void put_text(zest_buffer *out, const char *text) {
    uint64_t size = strlen(text);
    zest_buffer_add(out, &size, 8);
    zest_buffer_add(out, text, size);
}

static void put_key(zest_buffer *out, const char *name, uint32_t type) {
    char key[64];
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    put_text(out, key);
    zest_buffer_add(out, &type, 4);
}

static void put_texts(zest_buffer *out, const char *name, const char *const *texts, uint64_t count) {
    const uint32_t string = 8, array = 9;
    put_key(out, name, array);
    zest_buffer_add(out, &string, 4);
    zest_buffer_add(out, &count, 8);
    for (uint64_t i = 0; i < count; i++) put_text(out, texts[i]);
}

static zest_tokenizer *from_gguf(uint64_t keys, uint64_t merge_count, uint32_t bos) {
    static const char *const tokens[] = {"a", "b", "ab", "<s>"}, *const merges[] = {"a b", "a c"};
    const uint32_t version = 3;
    const uint64_t none = 0;
    const char yes = 1;
    zest_buffer out = {0};
    zest_buffer_add(&out, "GGUF", 4);
    zest_buffer_add(&out, &version, 4);
    zest_buffer_add(&out, &none, 8);
    zest_buffer_add(&out, &keys, 8);
    put_key(&out, "model", 8);
    put_text(&out, "gpt2");
    if (keys > 1) {
        put_texts(&out, "tokens", tokens, 4);
        put_texts(&out, "merges", merges, merge_count);
        put_key(&out, "bos_token_id", 4);
        zest_buffer_add(&out, &bos, 4);
        put_key(&out, "add_bos_token", 7);
        zest_buffer_add(&out, &yes, 1);
    }
    zest_gguf *file;
    if (zest_gguf_open_memory(out.data, out.size, "g", &file, &error)) fail_msg("%s", error.message);
    zest_tokenizer *tokenizer = zest_tokenizer_from_gguf(file, "g", &error);
    zest_gguf_close(file);
    zest_buffer_free(&out);
    return tokenizer;
}

static void gguf_files(void **state) {
    (void)state;
    zest_tokenizer *tokenizer = from_gguf(5, 1, 3);
    if (!tokenizer) fail_msg("%s", error.message);
    zest_ids ids = {0};
    assert_int_equal(zest_tokenizer_encode(tokenizer, "abb", 3, ZEST_ENCODE_TEMPLATE, &ids, &error), ZEST_OK);
    assert_true(ids.count == 3 && ids.data[0] == 3 && ids.data[1] == 2 && ids.data[2] == 1);
    zest_ids_free(&ids);
    zest_tokenizer_free(tokenizer);
    refused(from_gguf(1, 0, 0), "has no tokenizer");
    refused(from_gguf(5, 2, 3), "merge 2 needs the token \"c\"");
    refused(from_gguf(5, 1, 4), "bos token is 4");
    refused(from_gguf(5, 1, UINT32_MAX), "bos token is");
}

static void odd_questions(void **state) {
    (void)state;
    zest_tokenizer *tokenizer = from_parts(NULL, "");
    assert_non_null(tokenizer);
    zest_buffer text = {0};
    const int32_t ids[] = {-1, 0, 4, INT32_MAX, INT32_MIN, 2};
    assert_int_equal(zest_tokenizer_decode(tokenizer, ids, 6, 0, &text, &error), ZEST_OK);
    assert_string_equal(text.data,
                        "a ab"); /* no decoder: joined by spaces; ids without a token give nothing */
    assert_int_equal(zest_tokenizer_token_bytes(tokenizer, 4, &text, &error), ZEST_ERROR_ARGUMENT);
    assert_null(zest_tokenizer_token(tokenizer, -1, NULL));
    assert_int_equal(zest_tokenizer_id(tokenizer, "", 0), -1);
    assert_int_equal(zest_tokenizer_special(tokenizer, (zest_token_role)99), -1);
    assert_false(zest_tokenizer_is_special(tokenizer, 1 << 30));
    zest_ids out = {0};
    assert_int_equal(zest_tokenizer_encode(tokenizer, "", SIZE_MAX / 2, 0, &out, &error),
                     ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_tokenizer_encode(tokenizer, NULL, 0, 0, &out, &error), ZEST_OK);
    assert_int_equal(zest_tokenizer_encode(tokenizer, "zz", 2, 0, &out, NULL),
                     ZEST_OK); /* nothing can spell it */
    assert_int_equal(out.count, 0);
    zest_ids_free(&out);
    zest_buffer_free(&text);
    zest_tokenizer_free(tokenizer);
    zest_tokenizer_free(NULL);
}

/* Half a megabyte of one thing: a pre-token, unordered marks, short words, nothing. What took quadratic time in any part
 * would take minutes. */
static void long_runs(void **state) {
    (void)state;
    static const char *const files[] = {
        DATA "/gpt2.json",   DATA "/qwen2.json",     DATA "/llama.json",
        DATA "/o200k.json",  DATA "/bert.json",      DATA "/unigram.json",
        DATA "/sp-t5.model", DATA "/sp-gemma.model", "tests/data/families/deepseek.json"};
    static const char *const units[] = {"a", " ",  "\n",     "\u0301\u0323", "1", "\xFF",
                                        "é", "a ", "\u1100", "<|a|>",        "<", " \t"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        zest_tokenizer *tokenizer = zest_tokenizer_open(files[f], &error);
        assert_non_null(tokenizer);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            zest_buffer text = {0};
            zest_ids ids = {0};
            while (text.size < (1 << 19) / TEST_SLOW) zest_buffer_text(&text, units[u]);
            if (zest_tokenizer_encode(tokenizer, text.data, text.size, 0, &ids, &error))
                fail_msg("%s", error.message);
            assert_true(ids.count <= 3 * text.size + 2);
            zest_ids_free(&ids);
            zest_buffer_free(&text);
        }
        zest_tokenizer_free(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_checked),
        cmocka_unit_test(components_are_checked),
        cmocka_unit_test(patterns_are_checked),
        cmocka_unit_test(not_json),
        cmocka_unit_test(values_of_another_kind),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(folders),
        cmocka_unit_test(arrays),
        cmocka_unit_test(gguf_files),
        cmocka_unit_test(odd_questions),
        cmocka_unit_test(long_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
