/* Any bytes, given as a Hub's list of files: an error, or names that stay in their folder. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/hub_internal.h"
#include "tests/fuzz/fuzz.h"

static int leaves_folder(const char *name) {
    return name[0] == '/' || strchr(name, '\\') || !strcmp(name, "..") || !strncmp(name, "../", 3) ||
           strstr(name, "/../") || (strlen(name) > 2 && !strcmp(name + strlen(name) - 3, "/.."));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    zest_hub_list list;
    zest_hub_selection choice = {0};
    zest_error error = {0};
    zest_status status = zest_hub_list_parse((const char *)bytes, size, "fuzz", &list, &error);
    if (status && !error.message[0]) __builtin_trap();
    if (!status && !zest_hub_name_is_hex(list.commit, ZEST_SHA_1_DIGITS)) __builtin_trap();
    for (size_t i = 0; i < list.count; i++)
        if (leaves_folder(list.files[i].name)) __builtin_trap();
    if (!status) status = zest_hub_selection_make(&choice, &list, "", "org/name", &error);
    for (size_t i = 0; i < choice.count; i++)
        if (!choice.files[i]->hash[0]) __builtin_trap();
    zest_hub_selection_free(&choice);
    zest_hub_list_free(&list);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return fuzz_mutate(FUZZ_JSON, data, size, max, seed);
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char list[] =
        "{\"sha\":\"0123456789abcdef0123456789abcdef01234567\",\"siblings\":[{\"rfilename\":\"config.json\","
        "\"size\":571,"
        "\"blobId\":\"1123456789abcdef0123456789abcdef01234567\"},{\"rfilename\":\"model.safetensors\","
        "\"size\":90,"
        "\"blobId\":\"2123456789abcdef0123456789abcdef01234567\",\"lfs\":{\"sha256\":"
        "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\",\"size\":90,\"pointerSize\":"
        "134}},"
        "{\"rfilename\":\"tokenizer.json\",\"size\":7,\"blobId\":"
        "\"3123456789abcdef0123456789abcdef01234567\"},"
        "{\"rfilename\":\"onnx/"
        "model.onnx\",\"size\":9,\"blobId\":\"4123456789abcdef0123456789abcdef01234567\"}]}";
    add(list, sizeof list - 1, user);
}
