#include "params/params.h"

#include <string.h>
#include <xxhash.h>

uint64_t zest_params_fingerprint(const zest_params *params) {
    uint64_t print = XXH3_64bits(&params->dimension, sizeof params->dimension);
    for (size_t i = 0; i < params->count; i++) {
        const zest_tensor *tensor = &params->tensors[i];
        const char *type = zest_dtype_name(tensor->dtype);
        print = XXH3_64bits_withSeed(tensor->name, strlen(tensor->name), print);
        print = XXH3_64bits_withSeed(type, strlen(type), print);
        print = XXH3_64bits_withSeed(&tensor->count, sizeof tensor->count, print);
        print =
            XXH3_64bits_withSeed(tensor->data, (size_t)tensor->count * zest_dtype_size(tensor->dtype), print);
    }
    return print;
}
