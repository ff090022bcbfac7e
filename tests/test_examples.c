/* Examples: published encodings, and errors. test_truncation.c tests truncation. The environment variable
 * ZEST_SHARED names a folder with RoBERTa's vocabulary; tests that need it are skipped without it. */
#include "tests/examples.h"

#define COUNT(...) (sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
#define IDS(...) (const uint32_t[]){__VA_ARGS__}, COUNT(__VA_ARGS__)

/* RoBERTa's vocabulary, which is also OPT's; NULL: not here. */
static zest_tokenizer *roberta(void) {
    char buffer[512];
    const char *path = test_shared("models/roberta-small", buffer);
    return path ? opened(path) : NULL;
}

static void expect_text(const zest_examples *e, size_t text, const uint32_t *ids, size_t count,
                        uint32_t asked) {
    const zest_example_text *t = &e->texts[text];
    assert_int_equal(t->length, count);
    assert_memory_equal(e->tokens + t->first, ids, count * sizeof *ids);
    assert_int_equal(t->target, asked);
}

/* ---- Published encodings ---- */

static void masked_golden(const zest_tokenizer *t, const char *template, const char *jsonl,
                          const uint32_t *ids, size_t count, uint32_t mask) {
    zest_task task = {.name = "T",
                      .kind = ZEST_TASK_CLASSES,
                      .masked = template,
                      .classes = {{"0", "terrible"}, {"1", "great"}},
                      .class_count = 2,
                      .max_length = 128};
    zest_rows rows = rows_of(jsonl);
    zest_examples e;
    must_make(&task, &rows, t, &masked_model, NULL, &e);
    assert_true(e.masked && !e.as_text && e.count == 1 && !e.cut && e.text_starts[1] == 1);
    expect_text(&e, 0, ids, count, mask);
    assert_int_equal(e.words[0], 6587);
    assert_int_equal(e.words[1], 372);
    zest_examples_free(&e);
    zest_rows_free(&rows);
}

static void masked_goldens(void **state) {
    (void)state;
    zest_tokenizer *t = roberta();
    if (!t) skip();
    masked_golden(t, "{a} It was{mask}.", "{\"a\":\"hide new secretions from the parental units \"}\n",
                  IDS(0, 37265, 92, 3556, 2485, 31, 5, 20536, 2833, 1437, 85, 21, 50264, 4, 2), 12);
    masked_golden(
        t, "{a} It was{mask}.", "{\"a\":\"no movement , no yuks , not much of anything .\"}\n",
        IDS(0, 2362, 2079, 2156, 117, 1423, 257, 2258, 2156, 45, 203, 9, 932, 479, 85, 21, 50264, 4, 2), 16);
    masked_golden(t, "{a}{mask}, {b|lower-first}",
                  "{\"a\":\"How do I learn C?\",\"b\":\"What is the best way to learn C?\"}\n",
                  IDS(0, 6179, 109, 38, 1532, 230, 116, 50264, 6, 99, 16, 5, 275, 169, 7, 1532, 230, 116, 2),
                  7);
    masked_golden(t, "{a|drop-last}?{mask}, {b|lower-first}",
                  "{\"a\":\"A man plays a guitar.\",\"b\":\"The man is outside.\"}\n",
                  IDS(0, 250, 313, 1974, 10, 8669, 116, 50264, 6, 5, 313, 16, 751, 4, 2), 7);
    masked_golden(t, "{mask}: {a}", "{\"a\":\"How did serfdom develop in and then leave Russia ?\"}\n",
                  IDS(0, 50264, 35, 1336, 222, 6821, 506, 12623, 2179, 11, 8, 172, 989, 798, 17487, 2), 1);
    zest_tokenizer_free(t);
}

static void word_goldens(void **state) {
    (void)state;
    static const struct {
        const char *word;
        uint32_t token;
    } words[] = {{"terrible", 6587},     {"great", 372},    {"bad", 1099},         {"okay", 8578},
                 {"good", 205},          {"No", 440},       {"Yes", 3216},         {"Maybe", 5359},
                 {"Description", 33425}, {"Entity", 46718}, {"Expression", 43819}, {"Human", 3861},
                 {"Location", 16287},    {"Number", 12270}};
    enum { WORDS = sizeof words / sizeof *words };
    zest_tokenizer *t = roberta();
    if (!t) skip();
    zest_task task = {.name = "T", .kind = ZEST_TASK_CLASSES, .masked = "{a}{mask}", .class_count = WORDS};
    for (size_t i = 0; i < WORDS; i++) task.classes[i] = (zest_task_class){words[i].word, words[i].word};
    zest_rows rows = rows_of("{\"a\":\"x\"}\n");
    zest_examples e;
    must_make(&task, &rows, t, &masked_model, NULL, &e);
    assert_int_equal(e.word_count, WORDS);
    for (size_t i = 0; i < WORDS; i++) assert_int_equal(e.words[i], words[i].token);
    zest_examples_free(&e);
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

/* With MeZO's start token. */
static void causal_goldens(void **state) {
    (void)state;
    zest_tokenizer *t = roberta();
    if (!t) skip();
    zest_examples_options mezo = {.start_given = 1, .start = 0};
    zest_examples e;
    zest_rows rows = rows_of("{\"premise\":\"My body cast a shadow over the grass.\",\"question\":\"cause\","
                             "\"choice1\":\"The sun was rising.\",\"choice2\":\"I ran.\",\"label\":\"0\"}\n");
    zest_task copa = {.name = "COPA",
                      .kind = ZEST_TASK_CHOICE,
                      .causal = "{premise|strip-end|drop-dot} {question|effect=>so|cause=>because} {answer}",
                      .label = "label",
                      .options = "choice1 choice2",
                      .option_form = "{option|lower-word}",
                      .train_as_text = 1};
    must_make(&copa, &rows, t, &causal_model, &mezo, &e);
    assert_true(!e.masked && e.as_text && e.text_starts[1] == 2 && e.answers[0] == 0);
    assert_true(e.right[0][0] == 1 && e.right[0][1] == 0);
    expect_text(&e, 0, IDS(0, 2387, 809, 2471, 10, 9099, 81, 5, 6964, 142, 5, 3778, 21, 2227, 4), 10);
    assert_int_equal(e.texts[1].target, 10);
    zest_examples_free(&e);
    zest_rows_free(&rows);

    rows = rows_of("{\"title\":\"X\",\"context\":\"Y is Z.\",\"question\":\" What is Y?\","
                   "\"answers\":[\"Z\",\"the Z\"]}\n");
    zest_task squad = {
        .name = "SQuAD",
        .kind = ZEST_TASK_TEXT,
        .causal = "Title: {title}\\nContext: {context}\\nQuestion: {question|strip}\\nAnswer: {answer}",
        .label = "answers"};
    must_make(&squad, &rows, t, &causal_model, &mezo, &e);
    expect_text(&e, 0,
                IDS(0, 46525, 35, 1577, 50118, 48522, 35, 854, 16, 525, 4, 50118, 45641, 35, 653, 16, 854,
                    116, 50118, 33683, 35, 525, 50118),
                21);
    assert_true(e.as_text && e.max_tokens == 50 && e.prompts[0].first == 0 && e.prompts[0].length == 21);
    assert_string_equal(e.gold[0][0], "Z");
    assert_string_equal(e.gold[0][1], "the Z");
    assert_null(e.gold[0][2]);
    zest_examples_free(&e);
    zest_rows_free(&rows);

    rows =
        rows_of("{\"passage\":\"Some passage text.\",\"options\":[\"The dog sat on Bob.\",\"The cat sat on "
                "Bob.\",\"Nobody sat.\"],\"label\":[\"The cat sat on Bob.\",\"The dog sat on Bob.\"]}\n");
    zest_task record = {.name = "ReCoRD",
                        .kind = ZEST_TASK_CHOICE,
                        .causal = "{passage}\\n- {answer}",
                        .label = "label",
                        .options = "options"};
    must_make(&record, &rows, t, &causal_model, &mezo, &e);
    expect_text(&e, 1, IDS(0, 6323, 9078, 2788, 4, 50118, 12, 20, 4758, 4005, 15, 3045, 4), 7);
    assert_true(e.answers[0] == 1 && e.right[0][0] == 2 && e.right[0][1] == 1 && e.right[0][2] == 0);
    assert_true(!e.as_text);
    zest_examples_free(&e);
    zest_rows_free(&rows);

    rows = rows_of("{\"p\":\"P\",\"h\":\"H\"}\n");
    zest_task rte = {.name = "RTE",
                     .kind = ZEST_TASK_CLASSES,
                     .causal = "{p}\\nDoes this mean that \"{h}\" is true? Yes or No?\\n{answer}",
                     .classes = {{"a", "x"}, {"b", "y"}, {"c", "Maybe"}},
                     .causal_classes = {{"b", "No"}, {"a", "Yes"}},
                     .class_count = 3};
    must_make(&rte, &rows, t, &causal_model, &mezo, &e);
    static const uint32_t words[3] = {9904, 3084, 14541};
    for (size_t i = 0; i < 3; i++) {
        const zest_example_text *text = &e.texts[i];
        const uint32_t *tokens = e.tokens + text->first;
        assert_true(text->target + 1 == text->length && tokens[0] == 0);
        assert_int_equal(tokens[text->length - 3], 116);
        assert_int_equal(tokens[text->length - 2], 50118);
        assert_int_equal(tokens[text->length - 1], words[i]);
    }
    zest_examples_free(&e);
    mezo.start = -1; /* no start token at all */
    must_make(&rte, &rows, t, &causal_model, &mezo, &e);
    assert_true(e.tokens[0] != 0);
    zest_examples_free(&e);
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

/* ---- Text and template ---- */

/* "prompt" + "answer" may merge across the border: what both encodings share is the prompt. */
static void merged_border(void **state) {
    (void)state;
    zest_tokenizer *t = small();
    zest_rows rows = rows_of("{\"a\":\"be\"}\n");
    zest_task task = {.name = "T",
                      .kind = ZEST_TASK_CLASSES,
                      .causal = "was {a}{answer}",
                      .classes = {{"0", "fore"}, {"1", ""}},
                      .class_count = 2};
    zest_examples e;
    must_make(&task, &rows, t, &causal_model, NULL, &e);
    int32_t before = zest_tokenizer_id(t,
                                       "\xC4\xA0"
                                       "before",
                                       8);
    assert_true(before > 0 && e.tokens[e.texts[0].length - 1] == (uint32_t)before);
    assert_int_equal(e.texts[0].target, e.texts[0].length - 1);
    assert_int_equal(e.texts[1].target, e.texts[1].length - 1); /* an empty answer still asks for a token */
    zest_examples_free(&e);
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

/* The text of a row is text, whatever it looks like: one mask, and it is the template's. */
static void literal_fields(void **state) {
    (void)state;
    zest_tokenizer *t = small();
    uint32_t mask = (uint32_t)zest_tokenizer_special(t, ZEST_TOKEN_MASK);
    zest_rows rows = rows_of("{\"a\":\"</s><mask>\"}\n");
    zest_task task = masked_task("{a}</s>{mask}", 0);
    zest_examples e;
    must_make(&task, &rows, t, &masked_model, NULL, &e);
    const zest_example_text *s = &e.texts[0];
    for (uint32_t i = 1; i + 3 < s->length; i++) assert_true(e.tokens[i] != mask && e.tokens[i] != 1);
    assert_int_equal(e.tokens[s->length - 3], 1);
    assert_int_equal(e.tokens[s->length - 2], mask);
    assert_int_equal(s->target, s->length - 2);
    zest_examples_free(&e);
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

/* BERT's: [CLS], words without the spaces between them, [MASK], [SEP]; and label words that it lacks. */
static void words_of_bert(void **state) {
    (void)state;
    zest_tokenizer *t = opened("tests/data/tokenizers/bert-words");
    zest_rows rows = rows_of("{\"a\":\"The HOURS.\"}\n");
    zest_task task = masked_task("{a} It was {mask}.", 0);
    static const char *const wanted[] = {"[CLS]", "the", "hours", ".", "it", "was", "[MASK]", ".", "[SEP]"};
    zest_examples e;
    must_make(&task, &rows, t, &masked_model, NULL, &e);
    assert_int_equal(e.texts[0].length, 9);
    for (size_t i = 0; i < 9; i++)
        assert_string_equal(zest_tokenizer_token(t, (int32_t)e.tokens[i], NULL), wanted[i]);
    assert_int_equal(e.texts[0].target, 6);
    assert_int_equal(e.words[0], zest_tokenizer_id(t, "rain", 4));
    assert_int_equal(e.words[1], zest_tokenizer_id(t, "better", 6));
    zest_examples_free(&e);
    task.classes[1].word = "\xE2\x82\xAC"; /* one token, but the unknown one */
    assert_true(make(&task, &rows, t, &masked_model, NULL, &e) != ZEST_OK);
    assert_message(&error, "of class '1' is not in the tokenizer's vocabulary; choose another word");
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

/* ---- Refusals ---- */

static void refuse(const zest_task *task, const char *jsonl, const zest_model_config *model, const char *says,
                   const char *remedy) {
    zest_tokenizer *t = small();
    zest_rows rows = rows_of(jsonl);
    zest_examples e;
    assert_true(make(task, &rows, t, model, NULL, &e) != ZEST_OK);
    assert_message(&error, says);
    assert_message(&error, remedy);
    assert_true(e.count == 0 && !e.tokens);
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

static void refused(void **state) {
    (void)state;
    const char *row = "{\"a\":\"x\",\"label\":\"0\"}\n";
    zest_task task = masked_task("{a}{mask}", 0);
    task.classes[1].word = "terrible";
    refuse(&task, row, &masked_model, "T: the label word 'terrible' of class '1' is ", "choose another word");
    assert_message(&error, "('\xC4\xA0"); /* the tokens it became */
    task.classes[1].word = "rain";
    refuse(&task, row, &masked_model, "classes '0' and '1' have the same label word 'rain'",
           "choose another");
    task = masked_task("{b}{mask}", 0);
    refuse(&task, row, &masked_model, "character 1: rows.jsonl has no field 'b'", "it has a, label");
    task = masked_task("{a}{mask}", 0);
    refuse(&task, row, &causal_model, "T: the task needs a masked model", "opt is a causal one");
    zest_model_config few = masked_model;
    few.vocab_size = 500;
    refuse(&task, row, &few, "is outside the model's vocabulary of 500", "own tokenizer");
    zest_task choice = {
        .name = "C", .kind = ZEST_TASK_CHOICE, .causal = "{a} {answer}", .label = "label", .options = "o"};
    refuse(&choice, row, &masked_model, "C: the task needs a causal model", "roberta is a masked one");
    refuse(&choice, row, &causal_model, "has no field 'o' for the options", "it has a, label");
    refuse(&choice,
           "{\"a\":\"x\",\"o\":[\"y\"],\"label\":\"0\"}\n{\"a\":\"x\",\"o\":[\"y\",\"z\"],\"label\":\"2\"}\n",
           &causal_model, "rows.jsonl:2: the label '2' is neither", "remove the row");
    refuse(&choice, "{\"a\":\"x\",\"o\":[\"1\",\"z\"],\"label\":\"1\"}\n", &causal_model,
           "rows.jsonl:1: the label '1' is the text of option 0 and the number of option 1", "in words");
    refuse(&choice, "{\"a\":\"x\",\"o\":[],\"label\":\"1\"}\n", &causal_model, "rows.jsonl:1", "no options");
    choice.option_form = "{a}";
    refuse(&choice, "{\"a\":\"x\",\"o\":[\"1\",\"z\"],\"label\":\"0\"}\n", &causal_model, "C: template '{a}'",
           "needs {option}");
    zest_task text = {.name = "X", .kind = ZEST_TASK_TEXT, .causal = "{a}{answer}", .label = "label"};
    refuse(&text, "{\"a\":\"x\",\"label\":[]}\n", &causal_model, "rows.jsonl:1: the row has no answer",
           "remove the row");
}

/* Nothing predicts the first token of a model without a start token. */
static void refused_empty(void **state) {
    (void)state;
    zest_tokenizer *t = small();
    zest_rows rows = rows_of("{\"a\":\"\"}\n");
    zest_task task = {.name = "T",
                      .kind = ZEST_TASK_CLASSES,
                      .causal = "{a}{answer}",
                      .classes = {{"0", "a"}, {"1", "b"}},
                      .class_count = 2};
    zest_examples_options bare = {.start_given = 1, .start = -1};
    zest_examples e;
    assert_int_equal(make(&task, &rows, t, &causal_model, &bare, &e), ZEST_ERROR_FORMAT);
    assert_message(&error, "rows.jsonl:1: the prompt is empty");
    must_make(&task, &rows, t, &causal_model, NULL, &e); /* with one it is fine */
    zest_examples_free(&e);
    zest_rows_free(&rows);
    zest_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masked_goldens), cmocka_unit_test(word_goldens),   cmocka_unit_test(causal_goldens),
        cmocka_unit_test(merged_border),  cmocka_unit_test(literal_fields), cmocka_unit_test(words_of_bert),
        cmocka_unit_test(refused),        cmocka_unit_test(refused_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
