/* Any bytes as the file of --scales, or as its text: an error with a sentence, or a scale within the limits for every
 * tensor. */
#include <stdlib.h>
#include <string.h>

#include "model/scales.h"
#include "optim/directions.h"
#include "tests/fuzz/fuzz.h"

enum { TENSORS = 4 };

static void apply(const char *text) {
    zest_tensor tensors[TENSORS] = {{.name = "model.embed_tokens.weight"},
                                    {.name = "model.layers.0.self_attn.q_proj.weight"},
                                    {.name = "model.layers.0.mlp.up_proj.weight"},
                                    {.name = "model.norm.weight"}};
    zest_model model = {.tensors = tensors, .tensor_count = TENSORS};
    double scales[TENSORS];
    zest_error error = {0};
    if (zest_model_read_scales(&model, text, scales, &error)) {
        if (!error.message[0]) __builtin_trap();
        return;
    }
    for (int i = 0; i < TENSORS; i++)
        if (!(scales[i] >= ZEST_MODEL_SCALE_LEAST && scales[i] <= ZEST_MODEL_SCALE_MOST)) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    zest_options options;
    zest_error error = {0};
    char *text = malloc(size + 1);
    if (!text) return 0;
    if (size) memcpy(text, bytes, size);
    text[size] = '\0';
    apply(text);
    free(text);
    fuzz_put("scales", bytes, size);
    zest_options_init(&options);
    if (zest_options_set_id(&options, ZEST_OPTION_SCALES, fuzz_path("scales"), &error)) __builtin_trap();
    if (!zest_directions_read_scales(&options, &error)) {
        const char *read = zest_options_text(&options, ZEST_OPTION_SCALES);
        if (!strchr(read, '=')) __builtin_trap(); /* as a file's name it would be read again */
        apply(read);
    } else if (!error.message[0]) {
        __builtin_trap();
    }
    zest_options_free(&options);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_TEXT, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const seeds[] = {"*embed* = 0.5 # tied\n\nmodel.layers.[0-3].* = 2\n*=1\n",
                                        "*q_proj*=1.5,*norm*=1e-3;?odel.*=1000",
                                        "# nothing\r\n*.weight = 3.25\r\n"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) add(seeds[i], strlen(seeds[i]), user);
}
