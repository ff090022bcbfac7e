/* What the tests of models share: the tiny models of tests/data/models with their goldens. */
#ifndef ZEST_TESTS_MODEL_H
#define ZEST_TESTS_MODEL_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/forward_pass.h"
#include "model/generate.h"
#include "model/loss.h"
#include "model/model.h"
#include "io/safetensors.h"
#include "tests/support.h"

static const char *const test_models[] = {
    "roberta", "roberta-untied", "bert",       "opt",         "opt-350m",  "gpt2", "llama",
    "llama3",  "qwen2",          "distilbert", "yarn",        "qwen3",     "phi3", "mistral",
    "gemma2",  "gemma3",         "neox",       "neox-serial", "modernbert"};
enum { TEST_MODELS = sizeof test_models / sizeof *test_models };

static const char *const test_causal[] = {"opt",    "opt-350m", "gpt2",  "llama",      "llama3",
                                          "qwen2",  "yarn",     "qwen3", "phi3",       "mistral",
                                          "gemma2", "gemma3",   "neox",  "neox-serial"};
enum { TEST_CAUSAL = sizeof test_causal / sizeof *test_causal };

/* Two prompts, the first with two options, the second with three. */
static inline const zest_model_objective *test_two_prompts(void) {
    static const uint32_t tokens[] = {4, 9, 33, 12, 7, 61, 8, 5, 6, 90, 91, 3, 17};
    static const uint32_t starts[] = {0, 4, 6, 7, 9, 10, 12, 13};
    static const uint32_t prefix_of[] = {ZEST_MODEL_NO_PREFIX, 0, 0, ZEST_MODEL_NO_PREFIX, 3, 3, 3};
    static const uint32_t rows[] = {3, 4, 3, 8, 8, 10, 8}, targets[] = {7, 61, 8, 90, 91, 3, 17};
    static const uint32_t item_starts[] = {0, 2, 3, 4, 6, 7}, example_starts[] = {0, 2, 5},
                          answers[] = {1, 0};
    static const zest_model_batch batch = {tokens, starts, 7, NULL, prefix_of};
    static const zest_model_objective objective = {.kind = ZEST_LOSS_CHOICES,
                                                   .batch = &batch,
                                                   .items = 5,
                                                   .item_starts = item_starts,
                                                   .rows = rows,
                                                   .targets = targets,
                                                   .examples = 2,
                                                   .example_starts = example_starts,
                                                   .answers = answers};
    return &objective;
}

#define assert_done(call)                                                                      \
    do {                                                                                       \
        zest_error error_ = {0};                                                               \
        zest_error *const error = &error_;                                                     \
        zest_status status_ = (call);                                                          \
        if (status_) fail_msg("%s: %s: %s", #call, zest_status_name(status_), error_.message); \
    } while (0)

static inline const char *test_model_path(const char *name, char buffer[256]) {
    snprintf(buffer, 256, "tests/data/models/%s", name);
    return buffer;
}

static inline zest_model *test_model_load(const char *path, zest_model_storage storage) {
    zest_model *model;
    zest_model_options options = {.storage = storage};
    assert_done(zest_model_load(path, &options, &model, error));
    return model;
}

static inline zest_model *test_model(const char *name, zest_model_storage storage) {
    char buffer[256];
    return test_model_load(test_model_path(name, buffer), storage);
}

static inline zest_model_runner *test_runner(const zest_model *model, zest_cpu cpu, zest_compute compute,
                                             int threads, size_t live) {
    zest_model_runner *runner;
    zest_model_runner_options options = {.compute = compute, .threads = threads, .live_pairs = live};
    assert_done(zest_model_runner_new(model, zest_ops_for(cpu), &options, &runner, error));
    return runner;
}

/* A model's golden.safetensors. */
typedef struct {
    zest_safetensors *file;
    zest_model_batch batch;
    size_t rows;
    const uint32_t *words, *places, *answers, *targets, *generated; /* places: the row within each sequence */
    size_t word_count;
    int causal;
} test_golden;

static inline const void *golden_data(const test_golden *golden, const char *name) {
    const zest_safetensors_tensor *tensor = zest_safetensors_find(golden->file, name);
    if (!tensor) fail_msg("no golden '%s'", name);
    return tensor->data;
}

static inline test_golden test_golden_open(const char *name) {
    char buffer[256], path[300];
    test_golden golden = {0};
    snprintf(path, sizeof path, "%s/golden.safetensors", test_model_path(name, buffer));
    assert_done(zest_safetensors_open(path, &golden.file, error));
    golden.batch.tokens = golden_data(&golden, "tokens");
    golden.batch.starts = golden_data(&golden, "starts");
    golden.batch.types = golden_data(&golden, "types");
    golden.batch.sequences = zest_safetensors_find(golden.file, "starts")->count - 1;
    golden.rows = golden.batch.starts[golden.batch.sequences];
    golden.words = golden_data(&golden, "words");
    golden.word_count = zest_safetensors_find(golden.file, "words")->count;
    golden.places = golden_data(&golden, "rows");
    golden.answers = golden_data(&golden, "answers");
    golden.targets = golden_data(&golden, "targets");
    golden.causal = zest_safetensors_find(golden.file, "generated") != NULL;
    if (golden.causal) golden.generated = golden_data(&golden, "generated");
    if (strcmp(name, "bert") != 0) golden.batch.types = NULL;
    return golden;
}

/* The two objectives of a golden, in static memory. */
typedef struct {
    zest_model_objective words, tokens;
    uint32_t word_rows[8], rows[64], targets[64], item_starts[8];
    size_t token_items[8]; /* the sequence of each item */
} test_objectives;

static inline void test_objectives_make(const test_golden *golden, test_objectives *out) {
    const zest_model_batch *batch = &golden->batch;
    uint32_t count = 0;
    memset(out, 0, sizeof *out);
    for (size_t s = 0; s < batch->sequences; s++) {
        out->word_rows[s] = batch->starts[s] + golden->places[s];
        if (!golden->targets[s]) continue;
        for (uint32_t i = batch->starts[s + 1] - golden->targets[s]; i < batch->starts[s + 1]; i++) {
            out->rows[count] = i - 1;
            out->targets[count++] = batch->tokens[i];
        }
        out->token_items[out->tokens.items] = s;
        out->item_starts[++out->tokens.items] = count;
    }
    out->words = (zest_model_objective){.kind = ZEST_LOSS_LABEL_WORDS,
                                        .batch = batch,
                                        .items = batch->sequences,
                                        .rows = out->word_rows,
                                        .words = golden->words,
                                        .word_count = golden->word_count,
                                        .answers = golden->answers};
    out->tokens.kind = ZEST_LOSS_TOKENS;
    out->tokens.batch = batch;
    out->tokens.item_starts = out->item_starts;
    out->tokens.rows = out->rows;
    out->tokens.targets = out->targets;
}

static inline double test_largest(const float *a, const float *b, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

static inline zest_model_lane test_lane(const zest_model *model, uint64_t seed, double scale) {
    return (zest_model_lane){{seed, model->params.dimension, 1.0, ZEST_GAUSSIAN}, scale};
}

/* ---- Folders made by hand ---- */

enum { TEST_MOST_TENSORS = 64 };

typedef struct {
    zest_safetensors *file;
    zest_safetensors_source sources[TEST_MOST_TENSORS];
    size_t shapes[TEST_MOST_TENSORS][2];
    size_t count;
} test_tensors;

static inline void test_tensors_read(const char *name, test_tensors *out) {
    char buffer[256];
    memset(out, 0, sizeof *out);
    assert_done(zest_safetensors_open_folder(test_model_path(name, buffer), "AutoModel", &out->file, error));
    out->count = zest_safetensors_count(out->file);
    assert_true(out->count <= TEST_MOST_TENSORS);
    for (size_t i = 0; i < out->count; i++) {
        const zest_safetensors_tensor *tensor = zest_safetensors_at(out->file, i);
        for (size_t d = 0; d < tensor->rank && d < 2; d++) out->shapes[i][d] = tensor->shape[d];
        out->sources[i] = (zest_safetensors_source){.name = tensor->name,
                                                    .dtype = tensor->dtype,
                                                    .rank = tensor->rank,
                                                    .shape = out->shapes[i],
                                                    .data = tensor->data};
    }
}

static inline zest_safetensors_source *test_tensors_find(test_tensors *all, const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (!strcmp(all->sources[i].name, name)) return &all->sources[i];
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static inline zest_status test_ramp(void *user, size_t first, size_t count, void *out, zest_error *error) {
    (void)user;
    (void)error;
    for (size_t i = 0; i < count; i++) ((float *)out)[i] = (float)((first + i) * 7919 % 1009) * 1e-3f - 0.5f;
    return ZEST_OK;
}

/* The model "opt" with embeddings for more words, in a folder. */
static inline void test_large_vocabulary(size_t words, const char *folder) {
    char path[256];
    test_tensors all;
    test_tensors_read("opt", &all);
    size_t shape[2] = {words, 32};
    zest_safetensors_source *tokens = test_tensors_find(&all, "model.decoder.embed_tokens.weight");
    tokens->shape = shape, tokens->data = NULL, tokens->fill = test_ramp;
    json_t *config = json_load_file("tests/data/models/opt/config.json", 0, NULL);
    json_object_set_new(config, "vocab_size", json_integer((json_int_t)words));
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
    assert_done(zest_safetensors_write_folder(folder, all.sources, all.count, 0, error));
    zest_safetensors_close(all.file);
}

#endif
