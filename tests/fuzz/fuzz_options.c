/* Any text as the options of a training run: parsed, printed and parsed again to the same text. */
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "optim/directions.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    zest_options options, again;
    zest_error error;
    zest_options_init(&options);
    zest_options_init(&again);
    if (!zest_options_set_all(&options, ZEST_FOR_TRAINING, text, "fuzz", &error)) {
        zest_buffer first = {0}, second = {0};
        zest_options_print(&options, ZEST_FOR_TRAINING, &first);
        if (zest_options_set_all(&again, ZEST_FOR_TRAINING, first.data, "again", &error)) abort();
        zest_options_print(&again, ZEST_FOR_TRAINING, &second);
        if (strcmp(first.data, second.data)) abort();
        zest_directions directions;
        if (zest_directions_read(&options, &directions, &error) && !*error.message) abort();
        zest_buffer_free(&first);
        zest_buffer_free(&second);
    }
    zest_options_free(&options);
    zest_options_free(&again);
    free(text);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_TEXT, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char few[] =
        "# a run\nmethod = zest-bc\nlr = 1e-3\nk = 5\nlist = 0,1\nmodel = a b\ntask=x.task\n";
    static const char laws[] =
        "method = zest-n\ndirections = example:2:16\nscales = *embed*=0.5;*norm*=2\nt = auto\n"
        "momentum = 0.9\nstep-length = mezo\nschedule = cosine\nmax-step = 2\n";
    zest_options options;
    zest_buffer all = {0};
    zest_options_init(&options);
    zest_options_print(&options, ZEST_FOR_TRAINING, &all);
    add(all.data, all.size, user);
    add(few, sizeof few - 1, user);
    add(laws, sizeof laws - 1, user);
    zest_buffer_free(&all);
    zest_options_free(&options);
}
