/* Any text as a config.json: an error with a sentence, or sizes in range, of which a small model can be made. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "tests/fuzz/fuzz.h"

static const double largest_model = 50000; /* parameters that are made here */

static void check(const zest_model_config *c) {
    if (!c->family || !c->vocab_size || !c->hidden_size || !c->layers || !c->heads || !c->kv_heads ||
        !c->head_dim || !c->max_positions || c->heads % c->kv_heads)
        __builtin_trap();
    if (c->position_rows && c->max_positions + c->position_offset > c->position_rows) __builtin_trap();
    if (!(c->epsilon > 0) || (!c->position_rows && !(c->rope.base >= 1 && isfinite(c->rope.factor))))
        __builtin_trap();
}

static double parameters(const zest_model_config *c) {
    double hidden = (double)c->hidden_size, heads = (double)c->heads * (double)c->head_dim;
    double layer = 4 * hidden * (heads + 4) + (3 * hidden + 8) * (double)c->ffn_size;
    return 3 * (double)c->vocab_size * (double)(c->embedding_size + 1) + (double)c->layers * layer +
           (double)(c->position_rows + c->token_types + hidden + 16) * hidden;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    zest_model_config config;
    zest_error error = {0};
    zest_model *model = NULL;
    if (!text) return 0;
    if (zest_model_read_config(text, &config, &error)) {
        if (!error.message[0]) __builtin_trap();
    } else {
        check(&config);
        zest_model_options options = {.untie_head = size % 2, .threads = 1};
        if (parameters(&config) < largest_model && zest_model_random(text, 1, &options, &model, &error) &&
            !error.message[0])
            __builtin_trap();
    }
    zest_model_free(model);
    free(text);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_JSON, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    for (size_t i = 0; fuzz_config(i); i++) add(fuzz_config(i), strlen(fuzz_config(i)), user);
}
