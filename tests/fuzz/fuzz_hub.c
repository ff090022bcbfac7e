/* Any bytes, given as a Hub's list of files: an error, or names that stay in their folder. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/hub_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

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
