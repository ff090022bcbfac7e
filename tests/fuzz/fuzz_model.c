/* A whole model, as a folder (config.json, weights, tokenizer) or as model.gguf: an error with a sentence, or a model
 * that encodes a text, goes forward over it, generates, and can be saved and loaded again as the same model, also as a GGUF file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "zest_lm.h"

enum { TEXT = 8, NEW = 2 };

static void forward(zest_lm *lm) {
    static const char text[] = "a tea in the sat<mask>";
    zest_lm_info info;
    int32_t ids[64], made[NEW];
    size_t count = 0, known = 0, rows[] = {0};
    if (zest_lm_get_info(lm, &info) || info.vocab_size < 1) __builtin_trap();
    if (zest_lm_encode(lm, text, sizeof text - 1, ZEST_LM_ADD_SPECIAL, ids, 64, &count)) count = 0;
    for (size_t i = 0; i < count && known < TEXT; i++) /* a tokenizer may have more tokens than the model */
        if ((size_t)ids[i] < info.vocab_size) ids[known++] = ids[i];
    if (!known) ids[known++] = 0;
    if (known > info.max_positions) known = info.max_positions;
    rows[0] = known - 1;
    float *logits = malloc(info.vocab_size * sizeof *logits);
    if (logits && zest_lm_logits(lm, ids, known, rows, 1, logits)) __builtin_trap();
    free(logits);
    if (info.causal && known < info.max_positions)
        zest_lm_generate(lm, ids, known, &(zest_lm_generate_options){.max_tokens = NEW}, made, NEW, &count);
}

static void save(zest_ctx *ctx, zest_lm *lm) {
    uint64_t before, after;
    if (zest_lm_save(lm, fuzz_path("saved"))) {
        if (!*zest_ctx_error(ctx)) __builtin_trap();
        return;
    }
    if (zest_lm_fingerprint(lm, &before)) __builtin_trap();
    zest_lm *again = zest_lm_load(ctx, fuzz_path("saved"), "threads=1");
    if (again && (zest_lm_fingerprint(again, &after) || before != after)) __builtin_trap();
    zest_lm_free(again);
}

/* The weights of a model as f32: a GGUF file has norms and biases in this type whatever theirs was. */
static uint64_t print_of(zest_ctx *ctx, const char *path) {
    uint64_t print;
    zest_lm *lm = zest_lm_load(ctx, path, "threads=1 weights=f32");
    if (!lm || zest_lm_fingerprint(lm, &print)) __builtin_trap();
    zest_lm_free(lm);
    return print;
}

/* The same as a GGUF file, where zest writes one of its family and tokenizer. */
static void export(zest_ctx *ctx, zest_lm *lm, const char *path) {
    char gguf[300], from[300];
    snprintf(gguf, sizeof gguf, "%s", fuzz_path("out.gguf"));
    snprintf(from, sizeof from, "%s", path);
    if (!zest_lm_save_gguf(lm, gguf, "stored")) {
        if (print_of(ctx, from) != print_of(ctx, gguf)) __builtin_trap();
    } else if (!*zest_ctx_error(ctx) || !access(gguf, F_OK)) {
        __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bundle_unpack(data, size);
    zest_ctx *ctx = zest_ctx_new();
    char path[300];
    snprintf(path, sizeof path, "%s", fuzz_path("model.gguf"));
    if (access(path, F_OK)) snprintf(path, sizeof path, "%s", fuzz_folder());
    zest_lm *lm = zest_lm_load(ctx, path, "threads=1");
    if (!lm && !*zest_ctx_error(ctx)) __builtin_trap();
    if (lm) forward(lm);
    if (lm) save(ctx, lm);
    if (lm) export(ctx, lm, path);
    zest_lm_free(lm);
    zest_ctx_free(ctx);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_BUNDLE, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    for (size_t i = 0; fuzz_config(i); i++) {
        zest_buffer out = {0};
        fuzz_model_bundle(i, &out);
        add(out.data, out.size, user);
        zest_buffer_free(&out);
    }
    for (int i = 0; i < 2; i++) {
        zest_buffer file = {0}, out = {0};
        fuzz_gguf_model(i ? "llama" : "qwen2", &file);
        fuzz_bundle_add(&out, "model.gguf", file.data, file.size);
        add(out.data, out.size, user);
        zest_buffer_free(&file);
        zest_buffer_free(&out);
    }
}
