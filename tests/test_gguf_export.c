/* Models and tokenizers as GGUF files: written, read, and compared with what they were. */
#include <jansson.h>

#include "model/gguf_export.h"
#include "tests/model.h"
#include "tests/temp_folder.h"
#include "tokenizer/tokenizer.h"

static const char *const exported[] = {"llama", "llama3", "qwen2",  "gpt2",  "phi3",
                                       "qwen3", "yarn",   "gemma2", "gemma3"};
enum { EXPORTED = sizeof exported / sizeof *exported };

/* YaRN as the paper recommends it, the only one that GGUF has; the other models are those of the tests. */
#define YARN                                                                                          \
    "{\"model_type\": \"llama\", \"vocab_size\": 96, \"hidden_size\": 32, \"num_hidden_layers\": 1, " \
    "\"num_attention_heads\": 2, \"intermediate_size\": 48, \"max_position_embeddings\": 128, "       \
    "\"rope_theta\": 500, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, "                \
    "\"original_max_position_embeddings\": 32}}"

/* Gemma with the scale of scores and the local layers that llama.cpp has. */
#define GEMMA                                                                                         \
    "\"vocab_size\": 96, \"hidden_size\": 32, \"num_hidden_layers\": 7, \"num_attention_heads\": 4, " \
    "\"num_key_value_heads\": 2, \"intermediate_size\": 48, \"max_position_embeddings\": 64, "        \
    "\"head_dim\": 12, \"query_pre_attn_scalar\": 12, \"sliding_window\": 5"
static const char *const gemma2 = "{\"model_type\": \"gemma2\", \"attn_logit_softcapping\": 3, " GEMMA "}";
static const char *const gemma3 =
    "{\"model_type\": \"gemma3_text\", \"rope_local_base_freq\": 100, \"rope_scaling\": "
    "{\"rope_type\": \"linear\", \"factor\": 8}, " GEMMA "}";

static zest_model *model_to_export(const char *name) {
    zest_model *model;
    if (!strncmp(name, "gemma", 5)) {
        assert_done(zest_model_random(strcmp(name, "gemma2") ? gemma3 : gemma2, 3, NULL, &model, error));
        return model;
    }
    if (strcmp(name, "yarn")) return test_model(name, ZEST_MODEL_F32);
    assert_done(zest_model_random(YARN, 3, NULL, &model, error));
    return model;
}

static zest_status export_model(const zest_model *model, const char *type, const char *path,
                                zest_error *error) {
    zest_gguf_metadata metadata = {0};
    int found = -9;
    assert_true(zest_model_find_gguf_type(type, &found));
    zest_status status = zest_model_put_gguf(model, found, &metadata, error);
    if (!status) status = zest_model_write_gguf(model, found, &metadata, path, 2, error);
    zest_gguf_metadata_free(&metadata);
    return status;
}

/* In f32 every weight and every frequency comes back with the same bits, under its name and in its place. */
static void test_f32(void **state) {
    (void)state;
    for (size_t m = 0; m < EXPORTED; m++) {
        const char *path = temp_path("model.gguf");
        zest_model *model = model_to_export(exported[m]), *back;
        assert_done(export_model(model, "f32", path, error));
        assert_done(zest_model_load(path, NULL, &back, error));
        assert_int_equal(back->tensor_count, model->tensor_count);
        if (zest_params_fingerprint(&back->params) != zest_params_fingerprint(&model->params))
            fail_msg("%s: other weights come back", exported[m]);
        const zest_model_config *a = &model->config, *b = &back->config;
        assert_string_equal(a->family, b->family);
        assert_true(
            a->vocab_size == b->vocab_size && a->layers == b->layers && a->heads == b->heads &&
            a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->ffn_size == b->ffn_size &&
            b->max_positions == (a->window && !a->branch_norms ? a->window : a->max_positions) &&
            a->epsilon == b->epsilon && a->tied_head == b->tied_head && a->activation == b->activation &&
            a->rope.kind == b->rope.kind && a->score_cap == b->score_cap && a->logit_cap == b->logit_cap &&
            a->attention_scale == b->attention_scale && a->norm_offset == b->norm_offset &&
            (!a->branch_norms || a->window == b->window) && a->local_rope.base == b->local_rope.base &&
            fabs(a->rope.length - b->rope.length) < 1e-12);
        for (size_t i = 0; model->rotary[0] && i < a->head_dim / 2; i++)
            assert_close((double)model->rotary[0][i], (double)back->rotary[0][i],
                         1e-7 * (double)model->rotary[0][i]);
        for (size_t i = 0; a->branch_norms && i < a->layers; i++)
            assert_int_equal(zest_model_is_local(a, i), zest_model_is_local(b, i));
        zest_model_free(model);
        zest_model_free(back);
    }
}

/* Of other types, the weights that are stored are rounded as the type says, vectors not at all. */
static void test_types(void **state) {
    (void)state;
    zest_gguf *file;
    zest_error failure = {0};
    zest_model *model = test_model("llama", ZEST_MODEL_F32), *back;
    assert_done(export_model(model, "bf16", temp_path("b"), error));
    assert_done(zest_model_load(temp_path("b"), NULL, &back, error));
    for (size_t i = 0; i < model->tensor_count; i++) {
        const zest_tensor *t = &back->tensors[i];
        assert_int_equal(t->dtype, model->shapes[i].rank == 2 ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F32);
        for (size_t k = 0; k < t->count; k++) {
            float value = ((const float *)model->tensors[i].data)[k];
            if (t->dtype == ZEST_DTYPE_BF16)
                assert_int_equal(((const uint16_t *)t->data)[k], zest_dtype_to_bf16(value));
            else
                assert_true(((const float *)t->data)[k] == value);
        }
    }
    zest_model_free(back);
    /* rows of 32: no K type fits, and the output matrix is not below six bits */
    assert_done(export_model(model, "q4_k", temp_path("q"), error));
    if (zest_gguf_open(temp_path("q"), &file, &failure)) fail_msg("%s", failure.message);
    size_t hidden = model->config.hidden_size;
    assert_int_equal(zest_gguf_find_tensor(file, "blk.0.attn_k.weight")->type,
                     hidden % 32 ? ZEST_GGUF_TYPE_F16 : ZEST_GGUF_TYPE_Q5_0);
    assert_int_equal(zest_gguf_find_tensor(file, "output.weight")->type,
                     hidden % 32 ? ZEST_GGUF_TYPE_F16 : ZEST_GGUF_TYPE_Q8_0);
    assert_int_equal(zest_gguf_find_tensor(file, "blk.0.attn_norm.weight")->type, ZEST_GGUF_TYPE_F32);
    zest_gguf_close(file);
    zest_model_free(model);
}

/* Gemma's norms: by llama.cpp's names, and whole, where the model has them less one. */
static void test_gemma_norms(void **state) {
    (void)state;
    static const char *const names[] = {"attn_norm",     "post_attention_norm", "ffn_norm",
                                        "post_ffw_norm", "attn_q_norm",         "attn_k_norm"};
    zest_model *model = model_to_export("gemma3");
    zest_gguf *file;
    assert_done(export_model(model, "f32", temp_path("m"), error));
    assert_done(zest_gguf_open(temp_path("m"), &file, error));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        float gain[32];
        snprintf(name, sizeof name, "blk.6.%s.weight", names[i]);
        const zest_gguf_tensor *tensor = zest_gguf_find_tensor(file, name);
        assert_true(tensor && tensor->columns <= 32);
        assert_done(zest_gguf_read(tensor, 0, 1, gain, error));
        for (size_t c = 0; c < tensor->columns; c++) assert_true(gain[c] == 1);
    }
    zest_gguf_close(file);
    zest_model_free(model);
}

static void test_refused(void **state) {
    (void)state;
    zest_error error = {0};
    int type;
    static const char *const refused[] = {"roberta", "bert", "opt"};
    for (size_t i = 0; i < 3; i++) {
        zest_model *model = test_model(refused[i], ZEST_MODEL_F32);
        assert_int_equal(export_model(model, "f32", temp_path("m"), &error), ZEST_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, "cannot be a GGUF file"));
        zest_model_free(model);
    }
    zest_model *model = test_model("yarn", ZEST_MODEL_F32);
    model->config.rope.slow_turns = 2;
    assert_int_equal(export_model(model, "f32", temp_path("m"), &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "YaRN"));
    zest_model_free(model);
    /* Gemma with other layers, scales and caps than llama.cpp has */
    static const char *const other[][2] = {{"gemma2", "query_pre_attn_scalar is not 12"},
                                           {"gemma3", "layer 2 of the model"},
                                           {NULL, "soft caps"}};
    for (size_t i = 0; i < 3; i++) {
        model = other[i][0] ? test_model(other[i][0], ZEST_MODEL_F32) : model_to_export("gemma2");
        if (!other[i][0]) model->config.score_cap = 0;
        assert_int_equal(export_model(model, "f32", temp_path("m"), &error), ZEST_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, other[i][1]));
        zest_model_free(model);
    }
    assert_true(!zest_model_find_gguf_type("iq4_xs", &type) && !zest_model_find_gguf_type("", &type));
    assert_true(zest_model_find_gguf_type("STORED", &type) && type == ZEST_GGUF_TYPE_STORED);
}

/* ---- Tokenizers ---- */

static zest_tokenizer *through_gguf(const zest_tokenizer *tokenizer, size_t vocab_size, zest_error *error) {
    zest_gguf_metadata metadata = {0};
    zest_gguf *file = NULL;
    zest_tokenizer *back = NULL;
    zest_status status = zest_tokenizer_put_gguf(tokenizer, vocab_size, &metadata, error);
    if (!status) status = zest_gguf_write(temp_path("t"), &metadata, NULL, 0, 1, error);
    if (!status) status = zest_gguf_open(temp_path("t"), &file, error);
    if (!status) back = zest_tokenizer_from_gguf(file, "t", error);
    zest_gguf_close(file);
    zest_gguf_metadata_free(&metadata);
    return back;
}

static void same_tokens(const zest_tokenizer *a, const zest_tokenizer *b, const char *text,
                        const char *name) {
    zest_ids x = {0}, y = {0};
    zest_error error = {0};
    for (unsigned flags = 0; flags < 4; flags++) {
        x.count = y.count = 0;
        assert_int_equal(zest_tokenizer_encode(a, text, strlen(text), flags, &x, &error), ZEST_OK);
        assert_int_equal(zest_tokenizer_encode(b, text, strlen(text), flags, &y, &error), ZEST_OK);
        if (x.count != y.count || memcmp(x.data, y.data, x.count * sizeof *x.data))
            fail_msg("%s: other tokens for '%s'", name, text);
    }
    zest_ids_free(&x);
    zest_ids_free(&y);
}

static void test_tokenizers(void **state) {
    (void)state;
    static const char *const names[] = {"digits", "qwen2", "llama3", "llama"};
    static const char *const texts[] = {
        "Hello world, it's 12345 o'clock", "  two  spaces\n\n\ttab",    "naïve 中文 👩‍👩‍👧 ß",
        "<s>a</s> <|endoftext|> <unk>b",   "don't WON'T we'LL 3.14159", "\x01\x7f\xc2\xa0"};
    for (size_t i = 0; i < 4; i++) {
        char path[96];
        zest_error error = {0};
        snprintf(path, sizeof path, "tests/data/tokenizers/%s.json", names[i]);
        zest_tokenizer *tokenizer = zest_tokenizer_open(path, &error);
        if (!tokenizer) fail_msg("%s", error.message);
        size_t size = (size_t)zest_tokenizer_size(tokenizer);
        zest_tokenizer *back = through_gguf(tokenizer, size + 3, &error);
        if (!back) fail_msg("%s: %s", names[i], error.message);
        assert_int_equal(zest_tokenizer_size(back), size + 3);
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            same_tokens(tokenizer, back, texts[t], names[i]);
        for (int role = 0; role < ZEST_TOKEN_ROLES; role++)
            assert_int_equal(zest_tokenizer_special(tokenizer, (zest_token_role)role),
                             zest_tokenizer_special(back, (zest_token_role)role));
        zest_tokenizer_free(back);
        assert_null(through_gguf(tokenizer, size - 1, &error));
        assert_non_null(strstr(error.message, "tokens, and the model only"));
        zest_tokenizer_free(tokenizer);
    }
    zest_error error = {0};
    static const char *const refused[][2] = {
        {"bert", "is WordPiece"}, {"gpt2", "splits texts in a way"}, {"o200k", "splits texts in a way"}};
    for (size_t i = 0; i < 3; i++) {
        char path[96];
        snprintf(path, sizeof path, "tests/data/tokenizers/%s.json", refused[i][0]);
        zest_tokenizer *tokenizer = zest_tokenizer_open(path, &error);
        assert_null(through_gguf(tokenizer, 100000, &error));
        assert_non_null(strstr(error.message, refused[i][1]));
        zest_tokenizer_free(tokenizer);
    }
}

/* From a folder into a GGUF file, and back into a folder. */
static void test_chat_template(void **state) {
    (void)state;
    static const char wanted[] =
        "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}é";
    zest_error error = {0};
    size_t size = 0;
    test_copy_file("tests/data/tokenizers/digits.json", temp_path("tokenizer.json"));
    test_put(test_temp_folder, "chat_template.jinja", wanted);
    zest_tokenizer *tokenizer = zest_tokenizer_open(test_temp_folder, &error);
    if (!tokenizer) fail_msg("%s", error.message);
    zest_tokenizer *back = through_gguf(tokenizer, (size_t)zest_tokenizer_size(tokenizer), &error);
    if (!back) fail_msg("%s", error.message);
    const char *chat = zest_tokenizer_chat_template(back, &size);
    assert_int_equal(size, sizeof wanted - 1);
    assert_memory_equal(chat, wanted, size);
    zest_tokenizer_free(tokenizer);
    zest_tokenizer_free(back);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(test_gemma_norms), IN_TEMP_FOLDER(test_f32),        IN_TEMP_FOLDER(test_types),
        IN_TEMP_FOLDER(test_refused),     IN_TEMP_FOLDER(test_tokenizers), IN_TEMP_FOLDER(test_chat_template),
    };
    return cmocka_run_group_tests_name("gguf_export", tests, NULL, NULL);
}
