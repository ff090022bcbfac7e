/* Metrics: closed forms, cases by hand, and predictions that do not depend on how they were batched. */
#include "task/metric.h"
#include "tests/model.h"

static zest_error error_text;

/* ---- Figures ---- */

static void wilson(void **state) {
    (void)state;
    double low, high;
    zest_metric_wilson(8, 10, &low, &high);
    assert_close(low, 0.4901625, 5e-7);
    assert_close(high, 0.9433178, 5e-7);
    zest_metric_wilson(0, 10, &low, &high);
    assert_true(low == 0);
    assert_close(high, 0.2775328, 5e-7); /* z²/(n + z²) */
    zest_metric_wilson(10, 10, &low, &high);
    assert_true(high == 1);
    assert_close(low, 1 - 0.2775328, 5e-7);
    /* the definition: the ends are where the share is z standard errors of that p away */
    zest_metric_wilson(802, 872, &low, &high);
    assert_true(low < 802.0 / 872 && 802.0 / 872 < high);
    assert_close(802.0 / 872 - low, 1.959963984540054 * sqrt(low * (1 - low) / 872), 1e-14);
    assert_close(high - 802.0 / 872, 1.959963984540054 * sqrt(high * (1 - high) / 872), 1e-14);
    zest_metric_wilson(0, 0, &low, &high);
    assert_true(isnan(low) && isnan(high));
}

static void binary_f1(void **state) {
    (void)state;
    const uint32_t answers[] = {1, 1, 1, 1, 0, 0, 0, 0}, none[8] = {0};
    const uint32_t choice[] = {1, 1, 1, 0, 1, 0, 0, ZEST_METRIC_NO_CHOICE};
    assert_close(zest_metric_f1(choice, answers, 8), 0.75, 1e-15);    /* 3 found, 1 missed, 1 too many */
    assert_close(zest_metric_f1(choice, answers, 5), 6.0 / 8, 1e-15); /* 3, 1, 1 */
    assert_close(zest_metric_f1(choice, answers, 3), 1, 1e-15);
    assert_true(zest_metric_f1(none, answers, 8) == 0); /* none predicted */
    assert_true(zest_metric_f1(choice, none, 8) == 0);  /* none to be found */
    assert_true(zest_metric_f1(none, none, 8) == 0);
    assert_true(isnan(zest_metric_f1(none, none, 0)));
}

/* The bootstrap of a mean of n zeros and ones is a binomial over n: its quantiles are known. */
static void bootstrap(void **state) {
    (void)state;
    enum { N = 400 };
    double values[N], low, high, again[2];
    uint32_t choice[N], answers[N];
    for (size_t i = 0; i < N; i++) {
        values[i] = i % 4 == 0;
        answers[i] = i % 2;
        choice[i] = i % 5 ? answers[i] : 1 - answers[i];
    }
    zest_metric_bootstrap_mean(values, N, &low, &high);
    /* Binomial(400, 1/4): 0.025 and 0.975 quantiles 83/400 and 117/400; 2000 resamples leave about ± 1 */
    assert_close(low, 83.0 / N, 2.5 / N);
    assert_close(high, 117.0 / N, 2.5 / N);
    zest_metric_bootstrap_mean(values, N, &again[0], &again[1]);
    assert_true(low == again[0] && high == again[1]);
    zest_metric_bootstrap_f1(choice, answers, N, &low, &high);
    double f1 = zest_metric_f1(choice, answers, N);
    assert_close(f1, 0.8, 1e-12);
    assert_true(low > 0.74 && low < f1 - 0.02 && high > f1 + 0.02 && high < 0.86);
    zest_metric_bootstrap_f1(answers, answers, N, &low, &high);
    assert_true(low == 1 && high == 1);
    for (size_t i = 0; i < N; i++) values[i] = 0.25;
    zest_metric_bootstrap_mean(values, N, &low, &high);
    assert_true(low == 0.25 && high == 0.25);
    values[3] = NAN;
    zest_metric_bootstrap_mean(values, N, &low, &high);
    assert_true(isnan(low) && isnan(high));
    zest_metric_bootstrap_mean(values, 0, &low, &high);
    assert_true(isnan(low));
}

/* ---- Texts ---- */

static void token_f1(void **state) {
    (void)state;
    static const struct {
        const char *text, *gold[4];
        double f1, em;
    } cases[] = {
        {"The Cat.", {"cat"}, 1, 1},
        {"a cat and the dog", {"An cat, and dog!"}, 1, 1},
        {"theater", {"er"}, 0, 0}, /* an article is a whole word */
        {"cat dog", {"cat bird"}, 0.5, 0},
        {"cat cat dog", {"cat"}, 0.5, 0},                  /* a bag: one of the two counts; P 1/3, R 1 */
        {"cat cat", {"cat cat cat"}, 0.8, 0},              /* P 1, R 2/3 */
        {"cat", {"bird", "black cat", "dog"}, 2.0 / 3, 0}, /* the best of all */
        {"cat", {"bird", "the CAT"}, 1, 1},
        {"", {""}, 0, 1}, /* no common word: 0, though equal */
        {"the", {"a"}, 0, 1},
        {"", {"cat"}, 0, 0},
        {"cat", {""}, 0, 0},
        {"CANNOTANSWER", {"CANNOTANSWER"}, 1, 1},
        {"cannotanswer it", {"CANNOTANSWER"}, 0, 0}, /* exactly, not by words */
        {"No answer!", {"no answer", "cat"}, 1, 1},
        {"cat",
         {"no answer", "cat"},
         0,
         1}, /* only the first right text counts then; em knows no such rule */
        {"cat", {"cat", "no answer"}, 1, 1},
        {"CAF\xC3\x89", {"caf\xC3\xA9"}, 1, 1},
        {"\xC3\xA0 la", {"la"}, 2.0 / 3, 0}, /* à is no article */
        {"a\xE2\x80\x93"
         "b",
         {"\xE2\x80\x93"
          "b"},
         1,
         1},                           /* beside a dash, "a" is a word */
        {"x\xC2\xA0y", {"y x"}, 1, 0}, /* a no-break space parts words */
        {"U.S.", {"US"}, 1, 1},
        {"$1,000_000", {"1000000"}, 1, 1},
        {"\xE2\x80\x9Cquoted\xE2\x80\x9D", {"quoted"}, 0, 0}, /* only ASCII punctuation goes */
        {"  two \n words\t", {"two words"}, 1, 1},
        {"\xFF"
         "cat",
         {"cat"},
         0,
         0}, /* not UTF-8, not a crash */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *gold[5];
        memcpy(gold, cases[i].gold, sizeof cases[i].gold);
        gold[4] = NULL;
        double f1 = zest_metric_token_f1(cases[i].text, gold), em = zest_metric_exact(cases[i].text, gold);
        if (!(fabs(f1 - cases[i].f1) < 1e-15) || em != cases[i].em)
            fail_msg("case %zu '%s': F1 %g, exact %g", i, cases[i].text, f1, em);
    }
}

static void clean_up(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {" Hello , world . Is it ? No !\n", "Hello, world. Is it? No!"},
        {"do n't , I 'm , he 's , we 've , they 're", "don't, I'm, he's, we've, they're"},
        {"the dogs ' tails", "the dogs'tails"},
        {"it ' s", "it's"}, /* " ' " goes first */
        {"a  .b", "a .b"},  /* one space each */
        {"", ""},
        {" \n ", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_buffer text = {0};
        zest_buffer_text(&text, cases[i][0]);
        zest_metric_clean_up(&text);
        assert_string_equal(text.data, cases[i][1]);
        zest_buffer_free(&text);
    }
}

/* ---- Choices ---- */

static void choosing(void **state) {
    (void)state;
    assert_int_equal(zest_metric_choose((double[]){-2, -1, -3}, 3), 1);
    assert_int_equal(zest_metric_choose((double[]){-1, -1, -1}, 3), 0);
    assert_int_equal(zest_metric_choose((double[]){NAN, -5, -1}, 3), 2);
    assert_int_equal(zest_metric_choose((double[]){INFINITY, -5, NAN}, 3), 1);
    assert_int_equal(zest_metric_choose((double[]){NAN, -INFINITY}, 2), ZEST_METRIC_NO_CHOICE);
}

/* Five examples of two classes, by hand; and with several right options. */
static void errors(void **state) {
    (void)state;
    uint32_t answers[5] = {0, 1, 1, 0, 1}, starts[6] = {0, 2, 4, 6, 8, 10}, which[5] = {0, 1, 2, 3, 4};
    zest_examples e = {.kind = ZEST_TASK_CLASSES, .answers = answers, .count = 5};
    zest_batch b = {.examples = &e, .which = which, .count = 5};
    b.objective = (zest_model_objective){
        .kind = ZEST_LOSS_CHOICES, .items = 10, .examples = 5, .example_starts = starts, .answers = answers};
    /* right, right, a tie (class 0, wrong), wrong, no score at all (wrong) */
    const double scores[10] = {-1, -2, -2, -1, -1, -1, -3, -2, NAN, NAN};
    assert_close(zest_metric_error(&b, ZEST_METRIC_ACCURACY, scores), 0.6, 1e-15);
    assert_close(zest_metric_error(&b, ZEST_METRIC_F1, scores), 1 - 2.0 / 5, 1e-15); /* 1 found, 2 said, 3 */
    b.objective.kind = ZEST_LOSS_LABEL_WORDS;
    b.objective.word_count = 2;
    assert_close(zest_metric_error(&b, ZEST_METRIC_ACCURACY, scores), 0.6, 1e-15);
    assert_true(isnan(zest_metric_error(&b, ZEST_METRIC_EM, scores)));
    b.objective.kind = ZEST_LOSS_TOKENS;
    assert_true(isnan(zest_metric_error(&b, ZEST_METRIC_ACCURACY, scores)));
    uint32_t both[] = {2, 0, 1}, one[] = {1, 1}, *right[5] = {one, one, both, both, one};
    e.kind = ZEST_TASK_CHOICE;
    e.right = right;
    b.objective.kind = ZEST_LOSS_CHOICES;
    assert_close(zest_metric_error(&b, ZEST_METRIC_ACCURACY, scores), 0.4, 1e-15);
    which[0] = 2; /* the batch's examples need not be the first */
    assert_close(zest_metric_error(&b, ZEST_METRIC_ACCURACY, scores), 0.2, 1e-15);
}

static void sums(void **state) {
    (void)state;
    uint32_t answers[4] = {0, 1, 1, 0}, choice[4] = {0, 1, 0, 1}, starts[5] = {0, 1, 2, 3, 4};
    zest_example_text texts[4] = {{0, 4, 2}, {0, 5, 2}, {0, 3, 2}, {0, 8, 4}};
    double losses[4] = {1, 2, 3, 4}, f1[4] = {1, 0.5, 0, 0.5}, em[4] = {1, 0, 0, 0};
    zest_task task = {.kind = ZEST_TASK_CLASSES, .class_count = 2, .metric = ZEST_METRIC_ACCURACY};
    zest_examples e = {.kind = ZEST_TASK_CLASSES, .answers = answers, .count = 4};
    zest_predictions p = {.choice = choice, .losses = losses, .count = 4, .bad = 1};
    zest_metrics m;
    double low, high;
    zest_metric_sum(&task, &e, &p, &m);
    assert_true(m.n == 4 && m.loss == 2.5 && m.accuracy == 0.5 && m.f1 == 0.5 && isnan(m.em) && m.bad == 1);
    assert_true(m.value == 0.5);
    zest_metric_wilson(2, 4, &low, &high);
    assert_true(m.low == low && m.high == high);
    task.metric = ZEST_METRIC_F1;
    zest_metric_sum(&task, &e, &p, &m);
    zest_metric_bootstrap_f1(choice, answers, 4, &low, &high);
    assert_true(m.value == 0.5 && m.low == low && m.high == high && low < high);
    task.metric = ZEST_METRIC_LOSS;
    zest_metric_sum(&task, &e, &p, &m);
    assert_true(m.value == 2.5 && isnan(m.low));
    task.class_count = 3;
    zest_metric_sum(&task, &e, &p, &m);
    assert_true(isnan(m.f1));
    /* text: losses are sums over 2, 3, 1 and 4 tokens */
    uint32_t first[4] = {0};
    e = (zest_examples){.kind = ZEST_TASK_TEXT,
                        .as_text = 1,
                        .answers = first,
                        .texts = texts,
                        .text_starts = starts,
                        .count = 4};
    p = (zest_predictions){.losses = losses, .f1 = f1, .em = em, .count = 4};
    task.metric = ZEST_METRIC_EM;
    zest_metric_sum(&task, &e, &p, &m);
    assert_true(m.loss == 1 && m.f1 == 0.5 && m.em == 0.25 && m.value == 0.25 && isnan(m.accuracy));
    zest_metric_wilson(1, 4, &low, &high);
    assert_true(m.low == low && m.high == high);
    zest_metric_sum(&task, &(zest_examples){0}, &(zest_predictions){0}, &m);
    assert_true(m.n == 0 && isnan(m.loss) && isnan(m.value) && isnan(m.low));
}

/* ---- Predictions ---- */

/* A small model for a small tokenizer. */
static zest_model *random_model(int causal, size_t words) {
    char config[600];
    if (causal)
        snprintf(config, sizeof config,
                 "{\"model_type\":\"opt\",\"vocab_size\":%zu,\"hidden_size\":32,\"num_hidden_layers\":2,"
                 "\"num_attention_heads\":4,\"ffn_dim\":48,\"max_position_embeddings\":64,"
                 "\"activation_function\":\"relu\",\"do_layer_norm_before\":true,\"word_embed_proj_dim\":32}",
                 words);
    else
        snprintf(config, sizeof config,
                 "{\"model_type\":\"roberta\",\"vocab_size\":%zu,\"hidden_size\":32,\"num_hidden_layers\":2,"
                 "\"num_attention_heads\":4,\"intermediate_size\":48,\"hidden_act\":\"gelu\","
                 "\"max_position_embeddings\":66,\"layer_norm_eps\":1e-05,\"type_vocab_size\":1,"
                 "\"pad_token_id\":1}",
                 words);
    zest_model *model;
    zest_model_options options = {.storage = ZEST_MODEL_F32};
    assert_done(zest_model_random(config, 11, &options, &model, error));
    return model;
}

typedef struct {
    zest_tokenizer *tokenizer;
    zest_model *model;
    zest_model_runner *runner;
    zest_rows rows;
    zest_split split;
    zest_examples e;
} setting;

static const char rows_text[] =
    "{\"a\":\"the rain had been on for hours\",\"o\":[\"no\",\"better than "
    "before\",\"no\"],\"label\":[1,0]}\n"
    "{\"a\":\"no\",\"o\":[\"all of them\"],\"label\":[0]}\n"
    "{\"a\":\"we had no pain, and that was better than before\",\"o\":[\"rain\",\"pain\"],\"label\":[1]}\n"
    "{\"a\":\"return the values\",\"o\":[\"one\",\"12\",\"pence\",\"metres\"],\"label\":[2,3]}\n"
    "{\"a\":\"\",\"o\":[\"it was the rain, that\",\"it was the pain\"],\"label\":[0]}\n";
enum { ROWS = 5 };

static void set_up(setting *s, const zest_task *task, int causal) {
    static uint32_t numbers[ROWS] = {4, 0, 3, 2, 1}, classes[ROWS] = {0, 1, 1, 0, 1};
    zest_rows_layout layout = {.format = ZEST_ROWS_JSONL};
    memset(s, 0, sizeof *s);
    s->tokenizer = zest_tokenizer_open("tests/data/tokenizers/gpt2.json", &error_text);
    assert_non_null(s->tokenizer);
    s->model = random_model(causal, (size_t)zest_tokenizer_size(s->tokenizer));
    s->runner = test_runner(s->model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
    assert_done(zest_rows_parse(rows_text, sizeof rows_text - 1, "rows.jsonl", &layout, &s->rows, error));
    s->split = (zest_split){.rows = numbers, .answers = classes, .count = ROWS};
    assert_done(zest_examples_make(task, &s->rows, &s->split, s->tokenizer, &s->model->config, &s->e, error));
}

static void tear_down(setting *s) {
    zest_examples_free(&s->e);
    zest_rows_free(&s->rows);
    zest_model_runner_free(s->runner);
    zest_model_free(s->model);
    zest_tokenizer_free(s->tokenizer);
}

/* Batches of any size, the same bits; and what each example gives alone. */
static void check_predictions(setting *s, const zest_model_lane *lane) {
    zest_predictions whole = {0}, parts = {0};
    zest_batch b = {0};
    zest_model_lane itself = test_lane(s->model, 0, 0);
    assert_done(zest_metric_predict(s->runner, lane, &s->e, s->tokenizer, 0, &whole, error));
    assert_true(whole.count == ROWS && whole.bad == 0);
    for (size_t tokens = 1; tokens < 200; tokens += 33) {
        assert_done(zest_metric_predict(s->runner, lane, &s->e, s->tokenizer, tokens, &parts, error));
        assert_memory_equal(whole.choice, parts.choice, ROWS * sizeof *whole.choice);
        assert_memory_equal(whole.losses, parts.losses, ROWS * sizeof *whole.losses);
        assert_memory_equal(whole.starts, parts.starts, (ROWS + 1) * sizeof *whole.starts);
        assert_memory_equal(whole.scores, parts.scores, whole.starts[ROWS] * sizeof *whole.scores);
        for (size_t i = 0; i < ROWS && whole.texts; i++) assert_string_equal(whole.texts[i], parts.texts[i]);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        double loss, scores[8];
        assert_done(zest_batch_make(&b, &s->e, &i, 1, ZEST_BATCH_SCORE, error));
        assert_done(
            zest_model_losses(s->runner, lane ? lane : &itself, 1, &b.objective, &loss, NULL, scores, error));
        size_t count = whole.starts[i + 1] - whole.starts[i];
        assert_memory_equal(scores, whole.scores + whole.starts[i], count * sizeof *scores);
        if (s->e.kind != ZEST_TASK_TEXT) assert_int_equal(whole.choice[i], zest_metric_choose(scores, count));
        assert_done(zest_batch_make(&b, &s->e, &i, 1, ZEST_BATCH_TRAIN, error));
        assert_done(
            zest_model_losses(s->runner, lane ? lane : &itself, 1, &b.objective, &loss, NULL, NULL, error));
        assert_close(whole.losses[i], loss, 1e-12 * (1 + fabs(loss))); /* what training minimises */
    }
    zest_batch_free(&b);
    zest_predictions_free(&whole);
    zest_predictions_free(&parts);
}

static const zest_task masked_task = {.name = "M",
                                      .kind = ZEST_TASK_CLASSES,
                                      .masked = "{a} It was{mask}.",
                                      .causal = "{a} It was {answer}",
                                      .classes = {{"0", "rain"}, {"1", "better"}},
                                      .class_count = 2,
                                      .max_length = 20};
static const zest_task choice_task = {.name = "C",
                                      .kind = ZEST_TASK_CHOICE,
                                      .causal = "{a} so {answer}",
                                      .label = "label",
                                      .options = "o",
                                      .train_as_text = 1};
static const zest_task text_task = {.name = "X",
                                    .kind = ZEST_TASK_TEXT,
                                    .causal = "{a}: {answer}",
                                    .label = "o",
                                    .max_tokens = 9,
                                    .metric = ZEST_METRIC_F1};

static void predictions(void **state) {
    (void)state;
    const struct {
        const zest_task *task;
        int causal;
    } cases[] = {{&masked_task, 0}, {&masked_task, 1}, {&choice_task, 1}, {&text_task, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setting s;
        set_up(&s, cases[i].task, cases[i].causal);
        zest_model_lane lane = test_lane(s.model, 9, 0.05);
        check_predictions(&s, NULL);
        check_predictions(&s, &lane);
        tear_down(&s);
    }
}

/* One right option of several is right. */
static void several_right(void **state) {
    (void)state;
    setting s;
    set_up(&s, &choice_task, 1);
    zest_predictions p = {0};
    zest_metrics m;
    assert_done(zest_metric_predict(s.runner, NULL, &s.e, s.tokenizer, 0, &p, error));
    static const uint32_t choice[ROWS] = {1, 0, 3, 0, 0}; /* rows 4, 0, 3, 2, 1 */
    memcpy(p.choice, choice, sizeof choice);
    zest_metric_sum(&choice_task, &s.e, &p, &m);
    assert_close(m.accuracy, 0.6, 1e-15); /* wrong: rows 4 and 2 */
    zest_predictions_free(&p);
    tear_down(&s);
}

/* The generated text by hand; without a tokenizer there is none. */
static void texts(void **state) {
    (void)state;
    setting s;
    set_up(&s, &text_task, 1);
    zest_predictions p = {0};
    zest_metrics m;
    assert_done(zest_metric_predict(s.runner, NULL, &s.e, s.tokenizer, 0, &p, error));
    for (size_t i = 0; i < ROWS; i++) {
        const zest_example_text *prompt = &s.e.prompts[i];
        uint32_t starts[2] = {0, prompt->length}, tokens[9], stops[2] = {201, 1}; /* newline, </s> */
        int32_t ids[9];
        size_t count;
        zest_buffer text = {0};
        zest_model_batch batch = {.tokens = s.e.tokens + prompt->first, .starts = starts, .sequences = 1};
        zest_generate_options options = {.max_new_tokens = 9, .stops = stops, .stop_count = 2};
        assert_done(zest_generate(s.runner, NULL, &batch, &options, tokens, &count, error));
        for (size_t t = 0; t < count; t++) ids[t] = (int32_t)tokens[t];
        assert_done(zest_tokenizer_decode(s.tokenizer, ids, count, 1, &text, error));
        zest_metric_clean_up(&text);
        assert_string_equal(p.texts[i], text.data);
        assert_true(p.f1[i] == zest_metric_token_f1(text.data, s.e.gold[i]));
        zest_buffer_free(&text);
    }
    zest_metric_sum(&text_task, &s.e, &p, &m);
    assert_true(m.value == m.f1 && !isnan(m.f1) && !isnan(m.em) && isfinite(m.loss));
    double loss = m.loss;
    assert_done(zest_metric_predict(s.runner, NULL, &s.e, NULL, 0, &p, error));
    zest_metric_sum(&text_task, &s.e, &p, &m);
    assert_true(!p.texts && isnan(m.f1) && isnan(m.value) && m.loss == loss);
    zest_predictions_free(&p);
    tear_down(&s);
}

/* A broken model is wrong everywhere, and it is told. */
static void not_finite(void **state) {
    (void)state;
    setting s;
    set_up(&s, &masked_task, 0);
    *(float *)(uintptr_t)s.model->head_norm.bias.data = NAN;
    zest_predictions p = {0};
    zest_metrics m;
    assert_done(zest_metric_predict(s.runner, NULL, &s.e, s.tokenizer, 0, &p, error));
    for (size_t i = 0; i < ROWS; i++) assert_true(p.choice[i] == ZEST_METRIC_NO_CHOICE);
    zest_metric_sum(&masked_task, &s.e, &p, &m);
    assert_true(m.bad == ROWS && m.accuracy == 0 && m.f1 == 0 && isnan(m.loss));
    zest_predictions_free(&p);
    tear_down(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wilson),        cmocka_unit_test(binary_f1), cmocka_unit_test(bootstrap),
        cmocka_unit_test(token_f1),      cmocka_unit_test(clean_up),  cmocka_unit_test(choosing),
        cmocka_unit_test(errors),        cmocka_unit_test(sums),      cmocka_unit_test(predictions),
        cmocka_unit_test(several_right), cmocka_unit_test(texts),     cmocka_unit_test(not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
