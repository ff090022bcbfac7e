/* Conversations as examples: layouts of rows, what the loss counts, truncation, batches. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chat/conversation.h"
#include "support.h"
#include "task/batch.h"
#include "task/examples.h"

static zest_error error;

/* A tokenizer with this chat template. */
static zest_tokenizer *tokenizer_with(const char *template) {
    char folder[64], path[128];
    test_folder(folder);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    test_copy_file("tests/data/tokenizers/llama.json", path);
    test_put(folder, "chat_template.jinja", template);
    zest_tokenizer *tokenizer = zest_tokenizer_open(folder, &error);
    if (!tokenizer) fail_msg("%s", error.message);
    test_remove(folder);
    return tokenizer;
}

/* ---- Layouts ---- */

static void reads_as(const char *row, const char *wanted) {
    char problem[200];
    json_t *json = json_loads(row, 0, NULL), *messages = zest_conversation_read(json, problem);
    char *text = messages ? json_dumps(messages, JSON_COMPACT) : NULL;
    if (!text) fail_msg("%s: %s", row, problem);
    assert_string_equal(text, wanted);
    free(text);
    json_decref(messages);
    json_decref(json);
}

static void refuses(const char *row, const char *words) {
    char problem[200];
    json_t *json = json_loads(row, 0, NULL);
    assert_null(zest_conversation_read(json, problem));
    if (!strstr(problem, words)) fail_msg("%s: '%s' does not say '%s'", row, problem, words);
    json_decref(json);
}

static void test_layouts(void **unused) {
    (void)unused;
    static const char both[] =
        "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]";
    reads_as("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
             "\"content\": \"b\"}]}",
             both);
    reads_as("{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": "
             "\"b\"}, "
             "{\"from\": \"human\", \"value\": \"more\"}]}",
             both);
    reads_as("{\"conversations\": [{\"role\": \"user\", \"content\": \"a\"}, {\"from\": \"bot\", \"value\": "
             "\"b\"}]}",
             both);
    reads_as("{\"instruction\": \"a\", \"output\": \"b\"}", both);
    reads_as("{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\"}", both);
    reads_as("{\"instruction\": \"a\", \"input\": \"x\", \"output\": \"b\", \"system\": \"s\"}",
             "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\\n\\nx\"},"
             "{\"role\":\"assistant\",\"content\":\"b\"}]");
    refuses("{\"text\": \"a\"}", "is no conversation");
    refuses("{\"messages\": []}", "nothing to learn");
    refuses("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "nothing to learn");
    refuses("{\"messages\": [{\"content\": \"a\"}]}", "message 1 needs a \"role\"");
    refuses("{\"conversations\": [{\"from\": \"martian\", \"value\": \"a\"}]}", "turn 1");
    refuses("{\"instruction\": \"a\"}", "must be texts");
}

/* ---- Spans ---- */

/* Each text as "text|said|said"; texts are separated by a "#". */
static char *rendered(const char *template, const char *messages) {
    zest_tokenizer *tokenizer = tokenizer_with(template);
    zest_chat_template *chat = zest_chat_template_new(tokenizer, &error);
    json_t *json = json_loads(messages, 0, NULL);
    zest_conversation_texts texts = {0};
    zest_buffer out = {0};
    assert_non_null(chat);
    assert_non_null(json);
    zest_status status = zest_conversation_render(chat, json, NULL, &texts, &error);
    if (status) zest_buffer_format(&out, "error: %s", error.message);
    for (size_t i = 0; i < texts.count && !status; i++) {
        const zest_conversation_text *text = &texts.text[i];
        zest_buffer_format(&out, "%s%s", i ? "#" : "", text->text.data);
        for (size_t s = 0; s < text->spans.count; s++) {
            zest_buffer_text(&out, "|");
            zest_buffer_add(&out, text->text.data + text->spans.data[s].start,
                            text->spans.data[s].end - text->spans.data[s].start);
        }
    }
    zest_conversation_free(&texts);
    zest_chat_template_free(chat);
    zest_tokenizer_free(tokenizer);
    json_decref(json);
    return out.data;
}

static void renders(const char *template, const char *wanted) {
    static const char messages[] =
        "[{\"role\": \"user\", \"content\": \"q1\"}, {\"role\": \"assistant\", \"content\": \"a1\"}, "
        "{\"role\": \"user\", \"content\": \"q2\"}, {\"role\": \"assistant\", \"content\": \"a2\"}]";
    char *got = rendered(template, messages);
    if (strncmp(wanted, "error", 5) ? strcmp(got, wanted) : !strstr(got, wanted + 6)) fail_msg("%s", got);
    free(got);
}

static void test_spans(void **unused) {
    (void)unused;
    /* prefixes of the whole text */
    renders("{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{% if add_generation_prompt "
            "%}a:{% endif %}",
            "u:q1;a:a1;u:q2;a:a2;|a1;|a2;");
    /* an end token behind the last turn alone */
    renders("{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}{% endfor %}{% if add_generation_prompt "
            "%}<a>{% else %}{{ eos_token }}{% endif %}",
            "<u>q1<a>a1<u>q2<a>a2</s>|a1|a2</s>");
    /* earlier turns lose something that the last one has: each has a text of its own */
    renders("{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' and loop.last %}(thought){% "
            "endif %}{{ m.content }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}",
            "u:q1;a:a1;u:q2;a:(thought)a2;|(thought)a2;#u:q1;a:(thought)a1;|(thought)a1;");
    renders("{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}.{% "
            "endgeneration %}{% else %}{{ m.content }}?{% endif %}{% endfor %}",
            "q1?a1.q2?a2.|a1.|a2.");
    /* the prompt of generation is not what the turn begins with */
    renders("{% for m in messages %}{{ m.content }};{% endfor %}{% if add_generation_prompt %}>>{% endif %}",
            "error message 4: the chat template writes this turn");
}

/* ---- Examples and batches ---- */

static const char plain[] =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

static zest_examples examples_of(const zest_tokenizer *tokenizer, const char *rows, size_t limit,
                                 zest_rows *read) {
    zest_task task = {
        .name = "chat", .kind = ZEST_TASK_CHAT, .causal = "{conversation}", .causal_length = limit};
    zest_rows_layout layout = {.format = ZEST_ROWS_CHAT};
    zest_model_config model = {
        .causal = 1, .max_positions = 1000, .vocab_size = (size_t)zest_tokenizer_size(tokenizer)};
    uint32_t order[16];
    zest_split split = {.rows = order};
    zest_examples examples;
    if (zest_rows_parse(rows, strlen(rows), "rows", &layout, read, &error)) fail_msg("%s", error.message);
    split.count = read->count;
    for (uint32_t i = 0; i < split.count; i++) order[i] = i;
    if (zest_examples_make(&task, read, &split, tokenizer, &model, &examples, &error))
        fail_msg("%s", error.message);
    return examples;
}

/* The tokens of a text that the loss counts, decoded. */
static char *said(const zest_tokenizer *tokenizer, const zest_examples *e, size_t text) {
    const zest_example_text *t = &e->texts[text];
    zest_buffer out = {0};
    zest_buffer_add(&out, "", 0);
    for (uint32_t i = 0; i < t->length; i++)
        if (e->learned[t->first + i])
            zest_tokenizer_token_bytes(tokenizer, (int32_t)e->tokens[t->first + i], &out, &error);
    return out.data;
}

static void test_examples(void **unused) {
    (void)unused;
    static const char rows[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"the river\"}, {\"role\": "
                               "\"assistant\", \"content\": \"the mill\"}, "
                               "{\"role\": \"user\", \"content\": \"and\"}, {\"role\": \"assistant\", "
                               "\"content\": \"the ship\"}]}\n\n"
                               "{\"instruction\": \"the river\", \"output\": \"the door\"}\n";
    zest_tokenizer *tokenizer = tokenizer_with(plain);
    zest_rows read;
    zest_examples e = examples_of(tokenizer, rows, 0, &read);
    assert_int_equal(e.count, 2);
    char *first = said(tokenizer, &e, 0), *second = said(tokenizer, &e, 1);
    assert_string_equal(first, " the mill\n the ship\n");
    assert_string_equal(second, " the door\n");
    free(first);
    free(second);
    /* the batch: a sequence for each conversation, a target for each token that the assistant says, at the row before it */
    zest_batch batch = {0};
    static const uint32_t which[] = {1, 0};
    assert_int_equal(zest_batch_make(&batch, &e, which, 2, ZEST_BATCH_TRAIN, &error), ZEST_OK);
    assert_int_equal(batch.batch.sequences, 2);
    assert_null(batch.batch.prefix_of);
    assert_int_equal(batch.objective.kind, ZEST_LOSS_TOKENS);
    assert_int_equal(batch.objective.items, 2);
    size_t targets = 0;
    for (uint32_t s = 0; s < 2; s++) {
        const zest_example_text *t = &e.texts[which[s]];
        assert_int_equal(batch.batch.starts[s + 1] - batch.batch.starts[s], t->length - 1);
        for (uint32_t i = 1; i < t->length; i++) {
            if (!e.learned[t->first + i]) continue;
            assert_int_equal(batch.objective.rows[targets], batch.batch.starts[s] + i - 1);
            assert_int_equal(batch.objective.targets[targets++], e.tokens[t->first + i]);
        }
        assert_int_equal(batch.objective.item_starts[s + 1], targets);
    }
    zest_batch_free(&batch);
    zest_examples_free(&e);
    zest_rows_free(&read);
    zest_tokenizer_free(tokenizer);
}

/* A long conversation keeps its beginning; when that has no turn of the assistant, its end. */
static void test_truncation(void **unused) {
    (void)unused;
    static const char rows[] = "[{\"instruction\": \"no\", \"output\": \"the ship and the mill and the door "
                               "and the river and the rain\"}, "
                               "{\"instruction\": \"the river and the mill and the door and the rain and the "
                               "ship\", \"output\": \"no\"}]";
    zest_tokenizer *tokenizer = tokenizer_with(plain);
    zest_rows read;
    zest_examples e = examples_of(tokenizer, rows, 24, &read);
    assert_int_equal(e.cut, 2);
    assert_int_equal(e.texts[0].length, 24);
    assert_int_equal(e.texts[1].length, 24);
    char *first = said(tokenizer, &e, 0), *second = said(tokenizer, &e, 1);
    assert_memory_equal(first, " the ship", 9);
    assert_string_equal(second, " no\n");
    assert_int_equal(e.learned[e.texts[1].first + 23], 1);
    free(first);
    free(second);
    zest_examples_free(&e);
    zest_rows_free(&read);
    zest_tokenizer_free(tokenizer);
}

/* The time for a conversation is quadratic or cubic in the number of its turns: thousands are refused, not computed. */
static void test_long_conversations(void **unused) {
    (void)unused;
    static const char *const templates[] = {
        plain,
        "{% for m in messages %}{{ m.role[0] }}{% if loop.last %}!{% endif %}{{ m.content }}{% endfor %}{% "
        "if "
        "add_generation_prompt %}a{% endif %}",
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"};
    zest_buffer row = {0};
    clock_t start = clock();
    zest_buffer_text(&row, "{\"messages\": [");
    for (int i = 0; i < 40000; i++)
        zest_buffer_format(&row, "%s{\"role\": \"%s\", \"content\": \"river\"}", i ? ", " : "",
                           i % 2 ? "assistant" : "user");
    zest_buffer_text(&row, "]}");
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        zest_tokenizer *tokenizer = tokenizer_with(templates[i]);
        zest_chat_template *chat = zest_chat_template_new(tokenizer, &error);
        zest_encoded_chat made = {0};
        assert_int_equal(zest_examples_encode_chat(chat, tokenizer, row.data, 100, &made, &error),
                         ZEST_ERROR_FORMAT);
        assert_non_null(strstr(error.message, "is too long"));
        zest_ids_free(&made.tokens);
        zest_buffer_free(&made.learned);
        free(made.texts);
        zest_chat_template_free(chat);
        zest_tokenizer_free(tokenizer);
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("long conversations: %.1f s\n", seconds);
    assert_true(seconds < 10 * TEST_SLOW);
    zest_buffer_free(&row);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts), cmocka_unit_test(test_spans),
                                       cmocka_unit_test(test_examples), cmocka_unit_test(test_truncation),
                                       cmocka_unit_test(test_long_conversations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
