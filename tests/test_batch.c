/* Batches: packed and with shared prefixes, the loss of an example has the same bits as alone. And the
 * order of examples. */
#include "task/batch.h"
#include "tests/model.h"

enum { EXAMPLES = 7, TEXTS = 17 };

/* Texts as examples have them: tokens, and from where on they are the answer. Example by example:
 * three options of one token; options of several tokens, of which one ends within what all share; one option;
 * two that differ from the first token on; two that are the same; one that is the beginning of the other; and
 * options that share a part of the answer. */
static const struct {
    size_t example, target;
    uint32_t tokens[12];
} texts[TEXTS] = {
    {0, 5, {2, 9, 33, 12, 7, 61}},
    {0, 5, {2, 9, 33, 12, 7, 62}},
    {0, 5, {2, 9, 33, 12, 7, 63}},
    {1, 3, {2, 8, 4, 70, 71, 72}},
    {1, 3, {2, 8, 4, 70}},
    {1, 3, {2, 8, 4, 70, 73}},
    {2, 2, {2, 31, 32, 33}},
    {3, 1, {5, 6, 7}},
    {3, 2, {8, 6, 7, 9}},
    {4, 2, {2, 14, 15}},
    {4, 2, {2, 14, 15}},
    {5, 2, {2, 20, 21, 22, 23, 24}},
    {5, 2, {2, 20, 21}},
    {6, 3, {2, 40, 41, 42, 43, 44}},
    {6, 3, {2, 40, 41, 42, 43, 45}},
    {6, 3, {2, 40, 41, 42, 46, 44}},
    {6, 2, {2, 40, 50, 51, 52}},
};
static const uint32_t right[EXAMPLES] = {2, 0, 0, 1, 1, 0, 3};

typedef struct {
    zest_examples e;
    uint32_t tokens[TEXTS * 12], starts[EXAMPLES + 1], answers[EXAMPLES];
    zest_example_text texts[TEXTS];
} hand_made;

static void make_examples(hand_made *h, zest_task_kind kind, int as_text) {
    *h = (hand_made){0};
    uint32_t used = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        uint32_t length = 0;
        while (length < 12 && texts[i].tokens[length])
            h->tokens[used + length] = texts[i].tokens[length], length++;
        h->texts[i] = (zest_example_text){used, length, (uint32_t)texts[i].target};
        h->starts[texts[i].example + 1] = (uint32_t)i + 1;
        used += length;
    }
    memcpy(h->answers, right, sizeof right);
    h->e = (zest_examples){.kind = kind,
                           .as_text = as_text,
                           .tokens = h->tokens,
                           .token_count = used,
                           .texts = h->texts,
                           .text_starts = h->starts,
                           .answers = h->answers,
                           .count = EXAMPLES};
}

/* One text as a batch of its own, with its last token: the negative log-likelihood of its answer. */
static double alone(zest_model_runner *runner, const zest_model_lane *lane, const hand_made *h, size_t text) {
    const zest_example_text *t = &h->texts[text];
    uint32_t starts[2] = {0, t->length}, items[2] = {0, t->length - t->target}, rows[12];
    for (uint32_t i = 0; i < items[1]; i++) rows[i] = t->target + i - 1;
    zest_model_batch batch = {.tokens = h->tokens + t->first, .starts = starts, .sequences = 1};
    zest_model_objective o = {.kind = ZEST_LOSS_TOKENS,
                              .batch = &batch,
                              .items = 1,
                              .item_starts = items,
                              .rows = rows,
                              .targets = h->tokens + t->first + t->target};
    double loss;
    assert_done(zest_model_losses(runner, lane, 1, &o, &loss, NULL, NULL, error));
    return loss;
}

/* The objective of a batch, and its cost in tokens. */
static void check_form(const zest_batch *b, size_t tokens) {
    const zest_model_batch *m = &b->batch;
    assert_int_equal(m->starts[m->sequences], tokens);
    for (size_t s = 0; s < m->sequences; s++) {
        assert_true(m->starts[s] < m->starts[s + 1]);
        uint32_t parent = m->prefix_of ? m->prefix_of[s] : ZEST_MODEL_NO_PREFIX;
        if (parent == ZEST_MODEL_NO_PREFIX) continue;
        assert_true(parent < s && m->prefix_of[parent] == ZEST_MODEL_NO_PREFIX);
    }
}

static const uint32_t orders[][EXAMPLES] = {{0, 1, 2, 3, 4, 5, 6}, {6, 2, 4, 0, 5, 1, 3}, {3}, {1}, {6}};
static const size_t counts[] = {EXAMPLES, EXAMPLES, 1, 1, 1};
enum { ORDERS = sizeof counts / sizeof *counts };

static void check_options(zest_model_runner *runner, const zest_model_lane *lane, const hand_made *h,
                          zest_batch *b, size_t o) {
    double losses[EXAMPLES], scores[TEXTS];
    size_t tokens = 0, item = 0;
    assert_done(zest_batch_make(b, &h->e, orders[o], counts[o], ZEST_BATCH_SCORE, error));
    assert_int_equal(b->objective.kind, ZEST_LOSS_CHOICES);
    assert_true(b->objective.batch == &b->batch && b->count == counts[o]);
    assert_done(zest_model_losses(runner, lane, 1, &b->objective, losses, NULL, scores, error));
    for (size_t i = 0; i < counts[o]; i++) {
        uint32_t which = orders[o][i], first = h->starts[which], end = h->starts[which + 1];
        double sum = 0;
        tokens += zest_batch_tokens(&h->e, which, ZEST_BATCH_SCORE);
        size_t base = item;
        for (uint32_t t = first; t < end; t++, item++) {
            double wanted = -alone(runner, lane, h, t) / (double)(h->texts[t].length - h->texts[t].target);
            assert_memory_equal(&scores[item], &wanted, sizeof wanted); /* bit for bit */
            sum += exp(wanted);
        }
        assert_close(losses[i], log(sum) - scores[base + right[which]], 1e-12);
    }
    assert_int_equal(item, b->objective.items);
    check_form(b, tokens);
}

static void check_tokens(zest_model_runner *runner, const zest_model_lane *lane, const hand_made *h,
                         zest_batch *b, size_t o) {
    double losses[EXAMPLES], mean, sum = 0, answer = 0;
    size_t tokens = 0;
    assert_done(zest_batch_make(b, &h->e, orders[o], counts[o], ZEST_BATCH_TRAIN, error));
    assert_int_equal(b->objective.kind, ZEST_LOSS_TOKENS);
    assert_null(b->batch.prefix_of);
    assert_done(zest_model_losses(runner, lane, 1, &b->objective, losses, &mean, NULL, error));
    for (size_t i = 0; i < counts[o]; i++) {
        uint32_t which = orders[o][i];
        size_t text = h->starts[which] + right[which];
        double wanted = alone(runner, lane, h, text);
        assert_memory_equal(&losses[i], &wanted, sizeof wanted);
        sum += losses[i];
        answer += (double)(h->texts[text].length - h->texts[text].target);
        tokens += h->texts[text].length - 1;
        assert_int_equal(zest_batch_tokens(&h->e, which, ZEST_BATCH_TRAIN), h->texts[text].length - 1);
    }
    assert_close(mean, sum / answer, 1e-15);
    check_form(b, tokens);
}

static void sharing(void **state) {
    (void)state;
    zest_cpu best;
    assert_int_equal(zest_cpu_detect(&best, NULL), ZEST_OK);
    hand_made choice, as_text;
    make_examples(&choice, ZEST_TASK_CHOICE, 0);
    make_examples(&as_text, ZEST_TASK_CHOICE, 1);
    zest_batch batch = {0}; /* one for all: it is reused */
    for (size_t m = 0; m < TEST_CAUSAL; m++) {
        zest_model *model = test_model(test_causal[m], ZEST_MODEL_AS_STORED);
        zest_model_lane lanes[2] = {test_lane(model, 3, 0), test_lane(model, 3, 0.01)};
        for (int c = 0; c < 2; c++) {
            zest_model_runner *runner = test_runner(model, c ? best : ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
            for (size_t o = 0; o < ORDERS; o++) {
                check_options(runner, &lanes[c], &choice, &batch, o);
                check_options(runner, &lanes[c], &as_text, &batch, o);
                check_tokens(runner, &lanes[c], &as_text, &batch, o);
            }
            zest_model_runner_free(runner);
        }
        zest_model_free(model);
    }
    zest_batch_free(&batch);
}

/* Shared prefixes: tokens and sequences by hand. */
static void cost(void **state) {
    (void)state;
    static const size_t tokens[EXAMPLES] = {5, 6, 3, 5, 2, 5, 13},
                        sequences[EXAMPLES] = {1, 3, 1, 2, 1, 2, 5};
    hand_made h;
    make_examples(&h, ZEST_TASK_CLASSES, 0);
    zest_batch b = {0};
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        assert_done(zest_batch_make(&b, &h.e, &i, 1, ZEST_BATCH_TRAIN, error));
        assert_int_equal(b.objective.kind, ZEST_LOSS_CHOICES);
        assert_int_equal(zest_batch_tokens(&h.e, i, ZEST_BATCH_TRAIN), tokens[i]);
        assert_int_equal(b.batch.starts[b.batch.sequences], tokens[i]);
        assert_int_equal(b.batch.sequences, sequences[i]);
        assert_int_equal(b.which[0], i);
    }
    zest_batch_free(&b);
}

/* Masks of a batch and of examples alone. */
static void masked(void **state) {
    (void)state;
    hand_made h;
    make_examples(&h, ZEST_TASK_CLASSES, 0);
    for (size_t i = 0; i < TEXTS; i++)
        h.starts[i < EXAMPLES ? i + 1 : EXAMPLES] = i < EXAMPLES ? (uint32_t)i + 1 : EXAMPLES;
    h.e.masked = 1;
    h.e.word_count = 4;
    static const uint32_t words[4] = {90, 7, 33, 12};
    memcpy(h.e.words, words, sizeof words);
    for (size_t m = 0; m < 3; m++) {
        zest_model *model = test_model(test_models[m], ZEST_MODEL_AS_STORED);
        zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 2, 0);
        zest_model_lane lane = test_lane(model, 5, 0.02);
        zest_batch b = {0};
        double losses[EXAMPLES], scores[4 * EXAMPLES], loss, score[4];
        for (int purpose = 0; purpose < 2; purpose++) {
            assert_done(zest_batch_make(&b, &h.e, orders[1], EXAMPLES, (zest_batch_purpose)purpose, error));
            assert_int_equal(b.objective.kind, ZEST_LOSS_LABEL_WORDS);
            assert_null(b.batch.prefix_of);
            assert_done(zest_model_losses(runner, &lane, 1, &b.objective, losses, NULL, scores, error));
            for (size_t i = 0; i < EXAMPLES; i++) {
                uint32_t which = orders[1][i], starts[2] = {0, h.texts[which].length};
                float logits[96];
                double sum = 0;
                zest_model_batch one = {
                    .tokens = h.tokens + h.texts[which].first, .starts = starts, .sequences = 1};
                assert_done(zest_model_logits(runner, &lane, &one, &h.texts[which].target, 1, logits, error));
                for (size_t w = 0; w < 4; w++) {
                    assert_true(scores[4 * i + w] == (double)logits[words[w]]);
                    sum += exp((double)logits[words[w]]);
                }
                assert_close(losses[i], log(sum) - scores[4 * i + right[which]], 1e-12);
                assert_int_equal(zest_batch_tokens(&h.e, which, ZEST_BATCH_SCORE), h.texts[which].length);
            }
            for (size_t i = 0; i < EXAMPLES; i++) {
                assert_done(zest_batch_make(&b, &h.e, &orders[1][i], 1, (zest_batch_purpose)purpose, error));
                assert_done(zest_model_losses(runner, &lane, 1, &b.objective, &loss, NULL, score, error));
                assert_memory_equal(&loss, &losses[i], sizeof loss);
                assert_memory_equal(score, scores + 4 * i, sizeof score);
            }
        }
        zest_batch_free(&b);
        zest_model_runner_free(runner);
        zest_model_free(model);
    }
}

/* ---- Order ---- */

static void order_of_an_epoch(void **state) {
    (void)state;
    enum { COUNT_MOST = 100 };
    uint32_t first[COUNT_MOST], again[COUNT_MOST];
    for (size_t count = 0; count <= COUNT_MOST; count++) {
        zest_examples e = {.count = count};
        unsigned char seen[COUNT_MOST] = {0};
        zest_permutation_fill(7, 3, first, e.count);
        zest_permutation_fill(7, 3, again, e.count);
        for (size_t i = 0; i < count; i++) {
            assert_true(first[i] < count && !seen[first[i]]++);
            assert_int_equal(first[i], again[i]);
        }
        if (count < 50) continue;
        zest_permutation_fill(7, 4, again, e.count);
        assert_memory_not_equal(first, again, count * sizeof *first);
        zest_permutation_fill(8, 3, again, e.count);
        assert_memory_not_equal(first, again, count * sizeof *first);
        zest_permutation_fill(7, 3 + (1ull << 32), again, e.count);
        assert_memory_not_equal(first, again, count * sizeof *first);
    }
}

/* The order of a run must never change: runs are repeated from it. */
static void order_golden(void **state) {
    (void)state;
    zest_examples e = {.count = 10};
    uint32_t got[10];
    zest_permutation_fill(42, 0, got, e.count);
    static const uint32_t wanted[10] = {1, 8, 9, 0, 5, 4, 3, 2, 6, 7};
    assert_memory_equal(got, wanted, sizeof got);
}

/* Where each of 7 elements goes, over epochs: 49 cells, 36 degrees of freedom. A fair shuffle exceeds 73.0 in
 * one of 3,000 cases; the seed is fixed. And all 120 orders of 5, 119 degrees: exceeds 179 in one of 3,000. */
static void order_uniform(void **state) {
    (void)state;
    enum { DRAWS = 21000 };
    double cells[7][7] = {{0}}, permutations[120] = {0}, places = 0, all = 0;
    uint32_t got[7];
    for (uint64_t epoch = 0; epoch < DRAWS; epoch++) {
        zest_permutation_fill(1, epoch, got, 7);
        for (size_t i = 0; i < 7; i++) cells[got[i]][i]++;
        zest_permutation_fill(2, epoch, got, 5);
        size_t code = 0;
        for (size_t i = 0; i < 5; i++) {
            size_t less = 0;
            for (size_t j = i + 1; j < 5; j++) less += got[j] < got[i];
            code = code * (5 - i) + less;
        }
        permutations[code]++;
    }
    for (size_t i = 0; i < 49; i++) {
        double d = cells[i / 7][i % 7] - DRAWS / 7.0;
        places += d * d / (DRAWS / 7.0);
    }
    for (size_t i = 0; i < 120; i++) {
        double d = permutations[i] - DRAWS / 120.0;
        all += d * d / (DRAWS / 120.0);
    }
    if (places > 73.0 || all > 179) fail_msg("chi-square %g and %g", places, all);
}

/* ---- Refusals ---- */

static void refused(void **state) {
    (void)state;
    hand_made h;
    make_examples(&h, ZEST_TASK_CLASSES, 0);
    zest_batch b = {0};
    zest_error error = {0};
    uint32_t beyond = EXAMPLES;
    assert_int_equal(zest_batch_make(&b, &h.e, &beyond, 1, ZEST_BATCH_TRAIN, &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "example index 7 out of range"));
    assert_int_equal(zest_batch_make(&b, &h.e, &beyond, 0, ZEST_BATCH_TRAIN, &error), ZEST_ERROR_ARGUMENT);
    zest_batch_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharing),           cmocka_unit_test(cost),         cmocka_unit_test(masked),
        cmocka_unit_test(order_of_an_epoch), cmocka_unit_test(order_golden), cmocka_unit_test(order_uniform),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
