/* Models on disk: saved and loaded again, in shards, untied; damaged or foreign ones refused with the name of
 * what is wrong; and no second copy in memory. */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/model.h"

static void copy_into(const char *name, const char *file, const char *folder) {
    char from[400], to[400];
    snprintf(from, sizeof from, "tests/data/models/%s/%s", name, file);
    snprintf(to, sizeof to, "%s/%s", folder, file);
    test_copy_file(from, to);
}

/* The same tensors with the same bits and numbers. */
static void assert_same(const zest_model *a, const zest_model *b) {
    assert_int_equal(a->params.count, b->params.count);
    assert_int_equal(a->params.dimension, b->params.dimension);
    assert_true(zest_params_fingerprint(&a->params) == zest_params_fingerprint(&b->params));
}

static void test_round_trip(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_MODELS; i++) {
        char folder[64], inner[128];
        snprintf(inner, sizeof inner, "%s/made", test_folder(folder));
        zest_model *model = test_model(test_models[i], ZEST_MODEL_AS_STORED);
        assert_done(zest_model_save(model, inner, error));
        zest_model *again = test_model_load(inner, ZEST_MODEL_AS_STORED);
        assert_same(model, again);
        assert_string_equal(model->config_json, again->config_json);
        assert_done(zest_model_save(again, inner, error)); /* over itself */
        zest_model *third = test_model_load(inner, ZEST_MODEL_AS_STORED);
        assert_same(model, third);
        zest_model_free(model);
        zest_model_free(again);
        zest_model_free(third);
        test_remove(folder);
    }
}

/* q, k and v of GPT-NeoX, whose rows are in another order in memory, have that of the file again. */
static void test_heads_are_saved_in_order(void **state) {
    (void)state;
    char folder[64], inner[128];
    snprintf(inner, sizeof inner, "%s/made", test_folder(folder));
    zest_model *model = test_model("neox", ZEST_MODEL_AS_STORED);
    assert_done(zest_model_save(model, inner, error));
    zest_safetensors *saved, *original;
    assert_done(zest_safetensors_open_folder(inner, "AutoModel", &saved, error));
    assert_done(zest_safetensors_open_folder("tests/data/models/neox", "AutoModel", &original, error));
    for (size_t i = 0; i < zest_safetensors_count(original); i++) {
        const zest_safetensors_tensor *a = zest_safetensors_at(original, i),
                                      *b = zest_safetensors_find(saved, a->name);
        assert_non_null(b);
        assert_int_equal(a->count, b->count);
        assert_memory_equal(a->data, b->data, a->count * zest_dtype_size(a->dtype));
    }
    zest_safetensors_close(saved);
    zest_safetensors_close(original);
    zest_model_free(model);
    test_remove(folder);
}

static void test_tokenizer_goes_along(void **state) {
    (void)state;
    char source[64], target[64], path[128];
    test_folder(source);
    test_folder(target);
    copy_into("opt", "config.json", source);
    copy_into("opt", "model.safetensors", source);
    test_put(source, "merges.txt", "#version: 0.2\n");
    test_put(source, "notes.txt", "not a tokenizer's");
    zest_model *model = test_model_load(source, ZEST_MODEL_AS_STORED);
    assert_done(zest_model_save(model, target, error));
    snprintf(path, sizeof path, "%s/merges.txt", target);
    assert_int_equal(test_file_size(path), 14);
    snprintf(path, sizeof path, "%s/notes.txt", target);
    assert_int_equal(access(path, F_OK), -1);
    zest_model_free(model);
    test_remove(source);
    test_remove(target);
}

/* A GGUF model saved as a folder is the same model. */
static void test_gguf_to_folder(void **state) {
    (void)state;
    char folder[64];
    zest_model *model = test_model_load("tests/data/models/llama.gguf", ZEST_MODEL_AS_STORED);
    zest_model *twin = test_model("llama", ZEST_MODEL_AS_STORED);
    assert_same(model, twin);
    assert_done(zest_model_save(model, test_folder(folder), error));
    zest_model *again = test_model_load(folder, ZEST_MODEL_AS_STORED);
    assert_same(model, again);
    assert_int_equal(again->config.max_positions, twin->config.max_positions);
    assert_true(again->config.epsilon == twin->config.epsilon &&
                again->config.rope.base == twin->config.rope.base);
    zest_model_free(model);
    zest_model_free(twin);
    zest_model_free(again);
    test_remove(folder);
}

/* ---- Folders made by hand ---- */

static void test_shards(void **state) {
    (void)state;
    char folder[64], path[128];
    test_tensors all;
    test_tensors_read("gpt2", &all);
    test_folder(folder);
    copy_into("gpt2", "config.json", folder);
    assert_done(zest_safetensors_write_folder(folder, all.sources, all.count, 20000, error));
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    assert_int_equal(access(path, F_OK), 0);
    zest_model *model = test_model("gpt2", ZEST_MODEL_AS_STORED),
               *sharded = test_model_load(folder, ZEST_MODEL_AS_STORED);
    assert_same(model, sharded);
    zest_model_free(model);
    zest_model_free(sharded);
    zest_safetensors_close(all.file);
    test_remove(folder);
}

/* The bare names, without "model.", load as well; and a tied head that is stored all the same is left out. */
static void test_spellings(void **state) {
    (void)state;
    char folder[64];
    test_tensors all;
    test_tensors_read("opt", &all);
    static char names[TEST_MOST_TENSORS][128];
    for (size_t i = 0; i < all.count; i++) {
        snprintf(names[i], sizeof names[i], "%s", all.sources[i].name + strlen("model."));
        all.sources[i].name = names[i];
    }
    zest_safetensors_source head = *test_tensors_find(&all, "decoder.embed_tokens.weight");
    head.name = "lm_head.weight";
    all.sources[all.count++] = head;
    test_folder(folder);
    copy_into("opt", "config.json", folder);
    assert_done(zest_safetensors_write_folder(folder, all.sources, all.count, 0, error));
    zest_model *model = test_model("opt", ZEST_MODEL_AS_STORED),
               *bare = test_model_load(folder, ZEST_MODEL_AS_STORED);
    assert_same(model, bare);
    zest_model_free(model);
    zest_model_free(bare);
    zest_safetensors_close(all.file);
    test_remove(folder);
}

static void test_untied(void **state) {
    (void)state;
    char folder[64], buffer[256];
    zest_model_options options = {.untie_head = 1};
    zest_model *model, *tied = test_model("roberta", ZEST_MODEL_AS_STORED);
    assert_done(zest_model_load(test_model_path("roberta", buffer), &options, &model, error));
    assert_true(!model->config.tied_head && model->head.weight.data != model->tokens.data);
    assert_int_equal(model->params.dimension, tied->params.dimension + 96 * 32);
    assert_memory_equal(model->head.weight.data, model->tokens.data, 96 * 32 * sizeof(float));
    assert_done(zest_model_save(model, test_folder(folder), error));
    zest_model *again = test_model_load(folder, ZEST_MODEL_AS_STORED);
    assert_same(model, again);
    zest_model_free(model);
    zest_model_free(again);
    zest_model_free(tied);
    test_remove(folder);
}

/* ---- What is refused ---- */

static void refused(const char *folder, const char *words, const char *more) {
    zest_model *model = (zest_model *)1;
    zest_error error = {0};
    assert_int_not_equal(zest_model_load(folder, NULL, &model, &error), ZEST_OK);
    assert_null(model);
    if (!strstr(error.message, words) || !strstr(error.message, more) || !strstr(error.message, folder))
        fail_msg("'%s' does not say '%s', '%s' and '%s'", error.message, folder, words, more);
}

/* config.json of a model with one key changed (value NULL: removed). */
static void refused_config(const char *name, const char *key, const char *value, const char *words) {
    char folder[64], path[256];
    snprintf(path, sizeof path, "tests/data/models/%s/config.json", name);
    json_t *config = json_load_file(path, 0, NULL);
    assert_non_null(config);
    if (value)
        json_object_set_new(config, key, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(config, key);
    char *text = json_dumps(config, 0);
    test_folder(folder);
    copy_into(name, "model.safetensors", folder);
    test_put(folder, "config.json", text);
    refused(folder, words, key[0] == '!' ? "" : words);
    free(text);
    json_decref(config);
    test_remove(folder);
}

static void test_hostile_config(void **state) {
    (void)state;
    static const char *const cases[][4] = {
        {"opt", "model_type", "\"mamba\"", "model_type 'mamba'"},
        {"opt", "model_type", NULL, "'model_type' is missing"},
        {"opt", "model_type", "7", "'model_type'"},
        {"opt", "hidden_size", NULL, "'hidden_size' is missing"},
        {"opt", "hidden_size", "-1", "'hidden_size' must be"},
        {"opt", "hidden_size", "33", "'num_attention_heads' does not divide"},
        {"opt", "hidden_size", "1e300", "'hidden_size' must be"},
        {"opt", "hidden_size", "268435456", "embed_positions.weight' is [34, 32]"},
        {"opt", "num_hidden_layers", "3", "model.decoder.layers.2.self_attn_layer_norm.weight' is missing"},
        {"opt", "num_hidden_layers", "100000", "'layers'"},
        {"opt", "num_attention_heads", "0", "'num_attention_heads' must be"},
        {"opt", "ffn_dim", "64", "layers.0.fc1.weight' is [48, 32]"},
        {"opt", "max_position_embeddings", "64", "embed_positions.weight' is [34, 32]"},
        {"opt", "activation_function", "\"mish\"", "'activation_function'"},
        {"opt", "do_layer_norm_before", "3", "'do_layer_norm_before' must be true or false"},
        {"opt", "tie_word_embeddings", "false", "'lm_head.weight' is missing"},
        {"opt", "word_embed_proj_dim", "16", "embed_tokens.weight' is [96, 32]"},
        {"opt", "layer_norm_elementwise_affine", "false", "'layer_norm_elementwise_affine'"},
        {"gpt2", "scale_attn_by_inverse_layer_idx", "true", "'scale_attn_by_inverse_layer_idx'"},
        {"gpt2", "n_inner", "64", "mlp.c_fc.weight' is [32, 128]"},
        {"roberta", "position_embedding_type", "\"relative_key\"", "'position_embedding_type'"},
        {"roberta", "is_decoder", "true", "'is_decoder'"},
        {"roberta", "pad_token_id", "33", "'pad_token_id'"},
        {"bert", "type_vocab_size", "3", "token_type_embeddings.weight' is [2, 32]"},
        {"llama", "num_key_value_heads", "3", "'num_key_value_heads'"},
        {"llama", "head_dim", "7", "'head_dim' must be even"},
        {"llama", "rope_scaling", "{\"rope_type\": \"dynamic\", \"factor\": 2}",
         "'rope_scaling' names a scaling"},
        {"llama", "rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": 1}",
         "'rope_scaling.beta_fast' must be greater than beta_slow"},
        {"llama", "rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2, \"attention_factor\": 1e9}",
         "'rope_scaling.attention_factor' must be"},
        {"llama", "rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2, \"rope_theta\": 1}",
         "'rope_scaling.rope_theta' must be greater than 1"},
        {"phi3", "rope_scaling", "{\"type\": \"longrope\"}", "'rope_scaling' names a scaling"},
        {"phi3", "attention_bias", "true", "'attention_bias' is true"},
        {"phi3", "sliding_window", "0", "'sliding_window' must be"},
        {"phi3", "intermediate_size", "47",
         "gate_up_proj.weight' is [96, 32] but config.json makes it [94, 32]"},
        {"distilbert", "n_heads", "5", "'n_heads' does not divide dim"},
        {"llama", "rope_scaling", "7", "'rope_scaling' must be an object"},
        {"llama", "rope_theta", "-1", "'rope_theta' must be a number from 1 to 1e+15"},
        {"llama", "rope_theta", "1e300", "'rope_theta' must be"},
        {"llama", "rope_theta", "\"10000\"", "'rope_theta' must be"},
        {"llama", "rms_norm_eps", "0", "'rms_norm_eps' must be a number from 1e-20 to 0.1"},
        {"llama", "rms_norm_eps", "-1e-5", "'rms_norm_eps' must be"},
        {"llama", "rms_norm_eps", "1e-300", "'rms_norm_eps' must be"},
        {"llama", "rms_norm_eps", "1e5", "'rms_norm_eps' must be"},
        {"qwen2", "rms_norm_eps", "1", "'rms_norm_eps' must be"},
        {"bert", "layer_norm_eps", "1e30", "'layer_norm_eps' must be"},
        {"roberta", "layer_norm_eps", "0.5", "'layer_norm_eps' must be"},
        {"gpt2", "layer_norm_epsilon", "-1", "'layer_norm_epsilon' must be"},
        {"llama", "rope_scaling", "{\"rope_type\": \"linear\", \"factor\": 1e-9}",
         "'rope_scaling.factor' must be"},
        {"llama", "rope_parameters", "{\"rope_type\": \"default\", \"rope_theta\": 0}",
         "'rope_parameters.rope_theta' must be"},
        {"llama", "rope_scaling", "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1e300}",
         "'rope_scaling.low_freq_factor' must be"},
        {"llama", "rope_scaling", "{\"rope_type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": 0.5}",
         "'rope_scaling.high_freq_factor' must be greater than low_freq_factor"},
        {"llama", "rope_scaling",
         "{\"rope_type\": \"llama3\", \"factor\": 8, \"original_max_position_embeddings\": 0}",
         "'rope_scaling.original_max_position_embeddings' must be"},
        {"llama", "attention_bias", "true", "q_proj.bias' is missing"},
        {"qwen2", "layer_types", "[\"full_attention\", \"chunked_attention\"]", "'layer_types'"},
        {"qwen2", "layer_types", "[3, 4]", "'layer_types' names"},
        {"qwen2", "layer_types", "[\"full_attention\"]", "'layer_types' must have an entry for each layer"},
        {"mistral", "layer_types", "{\"full_attention\": 2}", "'layer_types' must have"},
        {"mistral", "sliding_window", "-1", "'sliding_window' must be"},
        {"neox", "rotary_pct", "2", "'rotary_pct' must be"},
        {"neox", "rotary_pct", "0.01", "'rotary_pct' rotates nothing"},
        {"neox", "rotary_pct", "0.2", "'head_dim' must be even"},
        {"neox", "num_attention_heads", "5", "'num_attention_heads' does not divide"},
        {"neox", "attention_bias", "false", "attention.dense.bias' is unknown"},
        {"modernbert", "norm_bias", "true", "'model.embeddings.norm.bias' is missing"},
        {"modernbert", "mlp_bias", "true", "mlp.Wi.bias' is missing"},
        {"modernbert", "global_rope_theta", "0", "'global_rope_theta' must be"},
        {"modernbert", "global_attn_every_n_layers", "0", "'global_attn_every_n_layers' must be"},
        {"gemma2", "use_bidirectional_attention", "true", "'use_bidirectional_attention' is true"},
        {"gemma2", "attn_logit_softcapping", "-1", "'attn_logit_softcapping' must be"},
        {"gemma2", "final_logit_softcapping", "\"30\"", "'final_logit_softcapping' must be"},
        {"gemma2", "query_pre_attn_scalar", "0", "'query_pre_attn_scalar' must be"},
        {"gemma2", "hidden_activation", "\"mish\"", "'hidden_activation'"},
        {"gemma3", "rope_local_base_freq", "0.5", "'rope_local_base_freq' must be"},
        {"gemma3", "rope_parameters", "{\"rope_type\": \"default\"}", "an object for full_attention"},
        {"gemma3", "rope_parameters",
         "{\"full_attention\": {\"rope_theta\": 100}, \"sliding_attention\": {\"rope_theta\": 0}}",
         "'rope_parameters.sliding_attention.rope_theta' must be"},
        {"gemma3", "sliding_window_pattern", "0", "'sliding_window_pattern' must be"},
        {"gemma3", "rope_scaling", "7", "'rope_scaling' must be an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused_config(cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
}

/* A GGUF file whose number under this key is another one. */
static void refused_gguf(const char *key, float value, const char *words) {
    char folder[64], path[128];
    zest_buffer file = {0};
    zest_error error = {0};
    assert_int_equal(zest_file_read("tests/data/models/llama.gguf", 1 << 24, &file, &error), ZEST_OK);
    char *found = memmem(file.data, file.size, key, strlen(key));
    assert_non_null(found);
    found += strlen(key);
    assert_memory_equal(found, "\6\0\0\0", 4); /* a float of 32 bits */
    memcpy(found + 4, &value, sizeof value);
    snprintf(path, sizeof path, "%s/m.gguf", test_folder(folder));
    assert_int_equal(zest_file_write(path, file.data, file.size, &error), ZEST_OK);
    refused(path, words, "");
    zest_buffer_free(&file);
    test_remove(folder);
}

/* JSON has no NaN, so the number went missing on its way and its default was used. */
static void test_hostile_gguf_numbers(void **state) {
    (void)state;
    static const char *const keys[] = {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"};
    for (int i = 0; i < 2; i++) {
        char words[96];
        snprintf(words, sizeof words, "key '%s' must be a finite number", keys[i]);
        refused_gguf(keys[i], NAN, words);
        refused_gguf(keys[i], INFINITY, words);
        refused_gguf(keys[i], -INFINITY, words);
        refused_gguf(keys[i], -1, i ? "'rope_theta' must be" : "'rms_norm_eps' must be");
        refused_gguf(keys[i], i ? 1e30f : 10, i ? "'rope_theta' must be" : "'rms_norm_eps' must be");
    }
}

static void test_hostile_files(void **state) {
    (void)state;
    char folder[64];
    refused("/nowhere/at/all", "cannot be opened", "");
    test_folder(folder);
    refused(folder, "config.json", "");
    test_put(folder, "config.json", "{\"model_type\": ");
    refused(folder, "config.json", "line 1");
    test_put(folder, "config.json", "[]");
    copy_into("opt", "model.safetensors", folder);
    refused(folder, "config.json", "is not a JSON object");
    test_remove(folder);
    refused("tests/data/models/opt/config.json", "", "");
    refused("tests/data/gguf/goldens.gguf", "'llama.embedding_length' is missing", "");
}

static void test_hostile_tensors(void **state) {
    (void)state;
    char folder[64];
    test_tensors all;
    test_tensors_read("llama", &all);
    test_folder(folder);
    copy_into("llama", "config.json", folder);
    zest_safetensors_source *q = test_tensors_find(&all, "model.layers.1.self_attn.q_proj.weight"),
                            whole = *q;
    size_t flat[1] = {1024}, deep[3] = {2, 16, 32}, other[2] = {16, 64};
    const struct {
        size_t rank;
        const size_t *shape;
        zest_dtype dtype;
        const char *words;
    } cases[] = {
        {1, flat, ZEST_DTYPE_F32, "is [1024] but config.json makes it [32, 32]"},
        {3, deep, ZEST_DTYPE_F32, "is of 3 dimensions but config.json makes it [32, 32]"},
        {2, other, ZEST_DTYPE_F32, "is [16, 64]"},
        {2, whole.shape, ZEST_DTYPE_I32, "has unsupported dtype I32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        q->rank = cases[i].rank, q->shape = cases[i].shape, q->dtype = cases[i].dtype;
        assert_done(zest_safetensors_write_folder(folder, all.sources, all.count, 0, error));
        refused(folder, "'model.layers.1.self_attn.q_proj.weight'", cases[i].words);
    }
    *q = all.sources[--all.count];
    assert_done(zest_safetensors_write_folder(folder, all.sources, all.count, 0, error));
    refused(folder, "is missing", "");
    zest_safetensors_close(all.file);
    test_remove(folder);
}

/* ---- Tensors that nothing uses ---- */

/* Fewer layers in the configuration than in the weights would be another model without a word; the same for a tensor
 * in a layer that the family does not have. Heads of other tasks, and buffers, are left aside. */
static void test_unused_tensors(void **state) {
    (void)state;
    static const struct {
        const char *name, *why; /* NULL: the model is loaded */
    } cases[] = {
        {"model.layers.0.self_attn.q_proj.bias", "is unknown, and without it"},
        {"layers.1.mlp.gate_proj.weight_scale", "is unknown, and without it"},
        {"model.layers.2.input_layernorm.weight", "is of layer 2, but config.json has only the 2 layers"},
        {"model.layers.99999999999999999999.x", "config.json has only the 2 layers"},
        {"model.layers.0.self_attn.rotary_emb.inv_freq", NULL},
        {"model.layers.x.self_attn.q_proj.bias", NULL},
        {"value_head.weight", NULL},
    };
    char folder[64];
    test_tensors all;
    test_tensors_read("llama", &all);
    test_folder(folder);
    copy_into("llama", "config.json", folder);
    refused_config("llama", "num_hidden_layers", "1", "is of layer 1, but config.json has only the 1 layers");
    zest_safetensors_source *more = malloc((all.count + 1) * sizeof *more);
    assert_non_null(more);
    memcpy(more, all.sources, all.count * sizeof *more);
    static const float values[4] = {1, 2, 3, 4};
    size_t shape[1] = {4};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        more[all.count] = (zest_safetensors_source){
            .name = cases[i].name, .dtype = ZEST_DTYPE_F32, .rank = 1, .shape = shape, .data = values};
        assert_done(zest_safetensors_write_folder(folder, more, all.count + 1, 0, error));
        if (cases[i].why)
            refused(folder, cases[i].why, cases[i].name);
        else
            zest_model_free(test_model_load(folder, ZEST_MODEL_AS_STORED));
    }
    free(more);
    zest_safetensors_close(all.file);
    test_remove(folder);
}

/* ---- Memory ---- */

/* Bytes from a line of /proc/self/status; 0: unknown. */
static size_t status_bytes(const char *key) {
    char line[256];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key))) kilobytes = strtoul(line + strlen(key) + 1, NULL, 10);
    if (file) fclose(file);
    return kilobytes * 1024;
}

/* Sets the high-water mark of memory back to what is in use. */
static int reset_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    int done = file && fputs("5", file) >= 0;
    if (file && fclose(file)) done = 0;
    return done && status_bytes("VmHWM:") > 0;
}

/* 51 MB, most of it embeddings. */
static void test_peak_memory(void **state) {
    (void)state;
    enum { VOCABULARY = 400000 };
    char folder[64];
    zest_cpu best;
    assert_int_equal(zest_cpu_detect(&best, NULL), ZEST_OK);
    if (TEST_SLOW > 1) skip();
    size_t weights = VOCABULARY * 32 * sizeof(float);
    test_large_vocabulary(VOCABULARY, test_folder(folder));
    for (int storage = 0; storage < 2; storage++) {
        if (!reset_peak()) skip();
        size_t before = status_bytes("VmRSS:"), expected = storage ? weights / 2 : weights;
        zest_model *model = test_model_load(folder, storage ? ZEST_MODEL_BF16 : ZEST_MODEL_AS_STORED);
        zest_model_runner *runner = test_runner(model, best, ZEST_COMPUTE_F32, 2, 0);
        uint32_t text[] = {5, 399999, 77}, starts[] = {0, 3}, items[] = {0, 2}, rows[] = {0, 1};
        zest_model_batch batch = {.tokens = text, .starts = starts, .sequences = 1};
        zest_model_objective objective = {.kind = ZEST_LOSS_TOKENS,
                                          .batch = &batch,
                                          .items = 1,
                                          .item_starts = items,
                                          .rows = rows,
                                          .targets = text + 1};
        zest_model_lane lanes[2] = {test_lane(model, 1, 0.01), test_lane(model, 1, -0.01)};
        double losses[2];
        assert_done(zest_model_losses(runner, lanes, 2, &objective, losses, NULL, NULL, error));
        size_t grown = status_bytes("VmHWM:") - before;
        if (getenv("ZEST_VERBOSE")) printf("weights %zu, peak %zu\n", expected, grown);
        size_t cores = (size_t)sysconf(_SC_NPROCESSORS_ONLN); /* each converts in a buffer of its own */
        assert_true(grown < expected + expected / 4 + (4 << 20) + cores * (2 << 20));
        zest_model_runner_free(runner);
        zest_model_free(model);
    }
    test_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peak_memory),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_heads_are_saved_in_order),
        cmocka_unit_test(test_tokenizer_goes_along),
        cmocka_unit_test(test_gguf_to_folder),
        cmocka_unit_test(test_hostile_gguf_numbers),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_untied),
        cmocka_unit_test(test_hostile_config),
        cmocka_unit_test(test_hostile_files),
        cmocka_unit_test(test_hostile_tensors),
        cmocka_unit_test(test_unused_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
