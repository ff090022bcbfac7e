/* The loss mask of conversations beside that of transformers (tools/make_mask_goldens.py). */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support.h"
#include "task/examples.h"

static zest_error error;

/* The tokenizer of the answers, with its template and one more special token. */
static zest_tokenizer *opened(void) {
    char folder[64], path[128];
    json_t *json = json_load_file("tests/data/families/qwen-3.json", 0, NULL);
    json_t *added = json_object_get(json, "added_tokens");
    assert_true(json_is_array(added));
    size_t id = json_object_size(json_object_get(json_object_get(json, "model"), "vocab"));
    for (size_t i = 0; i < json_array_size(added); i++) {
        size_t taken = (size_t)json_integer_value(json_object_get(json_array_get(added, i), "id"));
        if (taken >= id) id = taken + 1;
    }
    json_array_append_new(
        added, json_pack("{s:I, s:s, s:b}", "id", (json_int_t)id, "content", "<|im_end|>", "special", 1));
    test_folder(folder);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_int_equal(json_dump_file(json, path, JSON_COMPACT), 0);
    json_decref(json);
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    test_copy_file("tests/data/chat/generation.jinja", path);
    zest_tokenizer *tokenizer = zest_tokenizer_open(folder, &error);
    if (!tokenizer) fail_msg("%s", error.message);
    test_remove(folder);
    return tokenizer;
}

static void masks_are_those_of_transformers(void **state) {
    (void)state;
    zest_tokenizer *tokenizer = opened();
    zest_chat_template *chat = zest_chat_template_new(tokenizer, &error);
    FILE *file = fopen("tests/data/chat/masks.jsonl", "r");
    char *row = NULL;
    size_t capacity = 0, lines = 0, learned = 0;
    assert_non_null(chat);
    assert_non_null(file);
    for (ssize_t size; (size = getline(&row, &capacity, file)) > 0; lines++) {
        zest_encoded_chat out = {0};
        json_t *line = json_loadb(row, (size_t)size, 0, NULL);
        const json_t *ids = json_object_get(line, "ids"), *mask = json_object_get(line, "mask");
        if (zest_examples_encode_chat(chat, tokenizer, row, 100000, &out, &error))
            fail_msg("%s", error.message);
        assert_int_equal(out.count, 1);
        assert_int_equal(out.tokens.count, json_array_size(ids));
        for (size_t i = 0; i < out.tokens.count; i++) {
            assert_int_equal(out.tokens.data[i], json_integer_value(json_array_get(ids, i)));
            if (out.learned.data[i] != json_integer_value(json_array_get(mask, i)))
                fail_msg("conversation %zu, token %zu: %d", lines + 1, i, out.learned.data[i]);
            learned += (size_t)out.learned.data[i];
        }
        zest_ids_free(&out.tokens);
        zest_buffer_free(&out.learned);
        free(out.texts);
        json_decref(line);
    }
    assert_int_equal(lines, 120);
    assert_true(learned > 1000);
    free(row);
    fclose(file);
    zest_chat_template_free(chat);
    zest_tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks_are_those_of_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
