/* zest_lm.h against the parts that it is made of, against weights that were really perturbed, and with bad input. */
#include "tests/lm.h"

/* ---- Tokens ---- */

static void test_tokens(void **state) {
    static const char *const texts[] = {"", "A wonderful film.", "<s> it's \xff\xe4\xbd\xa0 </s>", "\n\t  x"};
    (void)state;
    zest_error error;
    zest_tokenizer *tokenizer = zest_tokenizer_open(MASKED, &error);
    zest_lm *whole = load(MASKED, NULL), *alone = zest_lm_load_tokenizer(ctx, MASKED);
    assert_non_null(tokenizer);
    assert_non_null(alone);
    for (size_t t = 0; t < 4; t++)
        for (unsigned flags = 0; flags < 4; flags++) {
            zest_ids expected = {0};
            zest_buffer text = {0};
            int32_t ids[64];
            size_t count, needed, size;
            char back[256];
            zest_lm *lm = flags & 1 ? alone : whole;
            unsigned how = (flags & 1 ? ZEST_ENCODE_TEMPLATE : 0u) | (flags & 2 ? ZEST_ENCODE_LITERAL : 0u);
            assert_int_equal(
                zest_tokenizer_encode(tokenizer, texts[t], strlen(texts[t]), how, &expected, &error),
                ZEST_OK);
            assert_ok(ctx, zest_lm_encode(lm, texts[t], ZEST_LM_WHOLE, flags, ids, 64, &count));
            assert_int_equal(count, expected.count);
            assert_ok(ctx, zest_lm_encode(lm, texts[t], strlen(texts[t]), flags, NULL, 0, &needed));
            assert_int_equal(needed, count);
            if (count) {
                assert_memory_equal(ids, expected.data, count * sizeof *ids);
                /* too small an array: refused, and the number is told */
                assert_int_equal(zest_lm_encode(lm, texts[t], ZEST_LM_WHOLE, flags, ids, count - 1, &needed),
                                 ZEST_ERROR_ARGUMENT);
                assert_int_equal(needed, count);
                assert_says(ctx, "room for");
            }
            for (int skip = 0; skip < 2; skip++) {
                text.size = 0;
                assert_int_equal(zest_tokenizer_decode(tokenizer, ids, count, skip, &text, &error), ZEST_OK);
                assert_ok(ctx, zest_lm_decode(lm, ids, 0, count, skip ? ZEST_LM_SKIP_SPECIAL : 0, back,
                                              sizeof back, &size));
                assert_int_equal(size, text.size);
                assert_memory_equal(back, text.data ? text.data : "", size);
                assert_int_equal(back[size], 0);
                assert_int_equal(
                    zest_lm_decode(lm, ids, 0, count, skip ? ZEST_LM_SKIP_SPECIAL : 0, back, size, &needed),
                    ZEST_ERROR_ARGUMENT);
                assert_int_equal(needed, size);
            }
            zest_buffer_free(&text);
            zest_ids_free(&expected);
        }
    for (int role = 0; role < ZEST_TOKEN_ROLES; role++) {
        int32_t id = zest_lm_special_token(whole, (zest_lm_role)role);
        assert_int_equal(id, zest_tokenizer_special(tokenizer, (zest_token_role)role));
        if (id < 0) continue;
        assert_true(zest_lm_token_is_special(whole, id));
        assert_string_equal(zest_lm_token(whole, id, NULL), zest_tokenizer_token(tokenizer, id, NULL));
        assert_int_equal(zest_lm_token_id(whole, zest_lm_token(whole, id, NULL)), id);
    }
    assert_string_equal(zest_lm_token(whole, zest_lm_special_token(whole, ZEST_LM_MASK), NULL), "<mask>");
    char bytes[16];
    size_t size;
    assert_ok(ctx, zest_lm_token_bytes(whole, zest_lm_token_id(whole, "\xc4\xa0the"), bytes, 16, &size));
    assert_int_equal(size, 4);
    assert_memory_equal(bytes, " the", 4);
    assert_null(zest_lm_token(whole, -1, NULL));
    assert_null(zest_lm_token(whole, 1 << 20, NULL));
    assert_int_equal(zest_lm_token_id(whole, "no such token"), -1);
    zest_lm_free(whole);
    zest_lm_free(alone);
    zest_tokenizer_free(tokenizer);
}

static void test_info(void **state) {
    (void)state;
    zest_lm_info info;
    zest_option option;
    zest_lm *lm = load(MASKED, "weights=bf16 freeze=*embeddings*");
    assert_ok(ctx, zest_lm_get_info(lm, &info));
    assert_string_equal(info.family, "roberta");
    assert_string_equal(info.weights, "BF16");
    assert_string_equal(info.device, "cpu");
    assert_false(info.causal);
    assert_int_equal(info.vocab_size, lm->loaded.model->config.vocab_size);
    assert_int_equal(info.parameters, 1751808);
    assert_true(info.trained < info.parameters && info.trained == lm->loaded.model->params.dimension);
    zest_lm_free(lm);
    lm = load(causal, NULL);
    assert_ok(ctx, zest_lm_get_info(lm, &info));
    assert_true(info.causal && info.has_weights && info.max_positions == 48 && info.kv_heads == 2);
    assert_int_equal(info.trained, info.parameters);
    zest_lm_free(lm);
    lm = zest_lm_load_tokenizer(ctx, MASKED);
    assert_ok(ctx, zest_lm_get_info(lm, &info));
    assert_false(info.has_weights);
    assert_true(info.tokens > 4000);
    zest_lm_free(lm);
    int threads = 0;
    for (size_t i = 0; zest_lm_option(i, &option); i++) threads += !strcmp(option.name, "threads");
    assert_int_equal(threads, 1);
#if UINTPTR_MAX > UINT32_MAX
    /* what a program was compiled with stays as it is: new fields go into new structures */
    assert_int_equal(sizeof(zest_lm_info), 128);
    assert_int_equal(sizeof(zest_lm_generate_options), 56);
    assert_int_equal(sizeof(zest_lm_tensor), 56);
    assert_int_equal(sizeof(zest_lm_metrics), 80);
    assert_int_equal(sizeof(zest_lm_train_summary), 192);
    assert_int_equal(sizeof(zest_lm_train_progress), 200);
    assert_int_equal(sizeof(zest_lm_callbacks), 56);
    assert_int_equal(sizeof(zest_lm_train_result), 376);
    assert_int_equal(sizeof(zest_lm_evaluation), 376);
    assert_int_equal(sizeof(zest_lm_prediction), 80);
    assert_int_equal(sizeof(zest_lm_task_info), 24);
#endif
}

/* ---- Losses ---- */

enum { PAIRS = 3 };

static zest_lm_batch *choices_batch(zest_lm *lm) {
    static const size_t starts[] = {0, 2, 3, 6};
    int32_t prompt[MOST], options[MOST];
    size_t count = encode(lm, "The story is", 0, prompt);
    assert_true(encode(lm, " very good and too long indeed", 0, options) >= 6);
    zest_lm_batch *batch = zest_lm_batch_new(lm);
    for (size_t i = 0; i < 3; i++)
        assert_ok(ctx, zest_lm_batch_add_choices(batch, prompt, count, options, starts, 3, i));
    return batch;
}

static zest_lm_batch *text_batch(zest_lm *lm) {
    int32_t ids[MOST];
    zest_lm_batch *batch = zest_lm_batch_new(lm);
    size_t count = encode(lm, "Once upon a time there was a cat.", 0, ids);
    assert_ok(ctx, zest_lm_batch_add_text(batch, ids, count, 1));
    assert_ok(ctx, zest_lm_batch_add_text(batch, ids, count - 2, 4));
    return batch;
}

/* minus log softmax of the target, from logits of zest_lm_logits */
static double cross_entropy(const float *logits, size_t count, size_t target) {
    double sum = 0, top = -INFINITY;
    for (size_t i = 0; i < count; i++) top = fmax(top, logits[i]);
    for (size_t i = 0; i < count; i++) sum += exp((double)logits[i] - top);
    return top + log(sum) - (double)logits[target];
}

/* The three kinds of losses by their definitions, out of logits. */
static void test_losses(void **state) {
    (void)state;
    zest_lm *lm = load(causal, NULL);
    zest_lm_batch *batch = text_batch(lm);
    int32_t ids[MOST], options[MOST], choices[3];
    float *logits = malloc(MOST * 4096 * sizeof *logits);
    double losses[3], mean, each[MOST], sum = 0;
    size_t count = encode(lm, "Once upon a time there was a cat.", 0, ids), rows[MOST];
    for (size_t i = 0; i < MOST; i++) rows[i] = i;
    assert_ok(ctx, zest_lm_logits(lm, ids, count, rows, count, logits));
    assert_ok(ctx, zest_lm_losses(lm, NULL, batch, losses, &mean));
    for (size_t i = 1; i < count; i++) sum += cross_entropy(logits + (i - 1) * 4096, 4096, (size_t)ids[i]);
    assert_close(losses[0], sum, 1e-5);
    sum = 0;
    for (size_t i = 4; i < count - 2; i++)
        sum += cross_entropy(logits + (i - 1) * 4096, 4096, (size_t)ids[i]);
    assert_close(losses[1], sum, 1e-5);
    assert_close(mean, (losses[0] + losses[1]) / (double)(count - 1 + count - 6), 1e-12);
    assert_ok(ctx, zest_lm_score(lm, ids, count, each));
    assert_true(isnan(each[0]));
    for (size_t i = 1; i < count; i++)
        assert_close(each[i], -cross_entropy(logits + (i - 1) * 4096, 4096, (size_t)ids[i]), 1e-6);
    zest_lm_batch_free(batch);

    batch = choices_batch(lm);
    count = encode(lm, "The story is", 0, ids);
    encode(lm, " very good and too long indeed", 0, options);
    double scores[3] = {0};
    float score[3];
    static const size_t starts[] = {0, 2, 3, 6};
    for (size_t o = 0; o < 3; o++) {
        size_t length = starts[o + 1] - starts[o];
        memcpy(ids + count, options + starts[o], length * sizeof *ids);
        assert_ok(ctx, zest_lm_logits(lm, ids, count + length, rows + count - 1, length, logits));
        for (size_t i = 0; i < length; i++)
            scores[o] -= cross_entropy(logits + i * 4096, 4096, (size_t)ids[count + i]) / (double)length;
        score[o] = (float)scores[o];
    }
    assert_ok(ctx, zest_lm_losses(lm, NULL, batch, losses, &mean));
    for (size_t i = 0; i < 3; i++) assert_close(losses[i], cross_entropy(score, 3, i), 1e-5);
    assert_ok(ctx, zest_lm_choose(lm, NULL, batch, choices));
    for (size_t i = 0; i < 3; i++) /* the same prompt three times: the best of its options is the cheapest */
        assert_true(losses[choices[i]] <= losses[0] && losses[choices[i]] <= losses[1] &&
                    losses[choices[i]] <= losses[2]);
    zest_lm_batch_free(batch);
    zest_lm_free(lm);

    lm = load(MASKED, NULL);
    batch = masked_batch(lm);
    int32_t words[2];
    words[0] = one_token(lm, " great");
    words[1] = one_token(lm, " bad");
    count = encode(lm, "A fine film. It was<mask>.", ZEST_LM_ADD_SPECIAL, ids);
    size_t at = 0;
    while (ids[at] != zest_lm_special_token(lm, ZEST_LM_MASK)) at++;
    assert_ok(ctx, zest_lm_logits(lm, ids, count, &at, 1, logits));
    float two[2] = {logits[words[0]], logits[words[1]]};
    assert_ok(ctx, zest_lm_losses(lm, NULL, batch, losses, &mean));
    assert_close(losses[0], cross_entropy(two, 2, 0), 1e-6);
    assert_close(mean, (losses[0] + losses[1]) / 2, 1e-12);
    assert_ok(ctx, zest_lm_choose(lm, NULL, batch, choices));
    assert_int_equal(choices[0], two[1] > two[0]);
    /* the same from texts */
    double again[2];
    zest_lm_batch_clear(batch);
    assert_ok(ctx, zest_lm_batch_add_masked_text(batch, "A fine film. It was<mask>.", 0));
    assert_ok(ctx, zest_lm_batch_add_masked_text(batch, "dull and slow. It was<mask> indeed.", 1));
    assert_ok(ctx, zest_lm_losses(lm, NULL, batch, again, NULL));
    assert_memory_equal(losses, again, sizeof again);
    int32_t word;
    assert_ok(ctx, zest_lm_single_token(lm, " great", &word));
    assert_int_equal(word, words[0]);
    /* the whole vocabulary at the mask */
    zest_lm_batch_clear(batch);
    assert_int_equal(zest_lm_batch_count(batch), 0);
    assert_ok(ctx, zest_lm_batch_add_mlm(batch, ids, count, &at, words, 1));
    assert_ok(ctx, zest_lm_losses(lm, NULL, batch, losses, NULL));
    assert_close(losses[0], cross_entropy(logits, lm->loaded.model->config.vocab_size, (size_t)words[0]),
                 1e-6);
    zest_lm_batch_free(batch);
    zest_lm_free(lm);
    free(logits);
}

/* Losses of lanes equal those of a second model into which the lane's weights were written. */
static void check_lanes(const char *path, zest_lm_batch *(*make)(zest_lm *)) {
    zest_lm *lm = load(path, "weights=f32"), *other = load(path, "weights=f32");
    zest_lm_batch *batch = make(lm), *same = make(other);
    const zest_params *params = &lm->loaded.model->params, *copy = &other->loaded.model->params;
    size_t n = (size_t)params->dimension, examples = zest_lm_batch_count(batch);
    float *x = malloc(n * sizeof *x), *lane = malloc(n * sizeof *lane);
    for (size_t i = 0; i < params->count; i++)
        memcpy(x + params->tensors[i].first, params->tensors[i].data, params->tensors[i].count * sizeof *x);
    /* the same lanes twice: of the model, and of a vector that can be read */
    zest_tuner *tuner = zest_lm_tuner(lm), *vector = zest_tuner_new_f32(ctx, x, n);
    const zest_lanes *lanes, *readable;
    for (int i = 0; i < 2; i++) {
        zest_tuner *each = i ? vector : tuner;
        assert_ok(ctx, zest_tuner_set(each, "k", "3"));
        assert_ok(ctx, zest_tuner_set(each, "rho", "0.01"));
        assert_ok(ctx, zest_tuner_set(each, "eval-every", "1"));
        assert_ok(ctx, zest_tuner_ask(each, i ? &readable : &lanes));
    }
    assert_int_equal(zest_lanes_count(lanes), 2 * PAIRS + 1);
    double losses[(2 * PAIRS + 1) * 3], means[2 * PAIRS + 1], alone[3], mean;
    assert_ok(ctx, zest_lm_losses(lm, lanes, batch, losses, means));
    for (size_t l = 0; l < 2 * PAIRS + 1; l++) {
        zest_direction a, b;
        double scale, same_scale;
        assert_ok(ctx, zest_lanes_describe(lanes, l, &a, &scale));
        assert_ok(ctx, zest_lanes_describe(readable, l, &b, &same_scale));
        assert_true(a.seed == b.seed && scale == same_scale);
        assert_ok(ctx, zest_lanes_read_f32(readable, l, 0, n, lane));
        for (size_t i = 0; i < copy->count; i++)
            memcpy(copy->tensors[i].data, lane + copy->tensors[i].first,
                   copy->tensors[i].count * sizeof *lane);
        assert_ok(ctx, zest_lm_losses(other, NULL, same, alone, &mean));
        for (size_t e = 0; e < examples; e++) assert_close(losses[l * examples + e], alone[e], 2e-6);
        assert_close(means[l], mean, 2e-6);
    }
    assert_true(fabs(means[0] - means[1]) > 1e-5); /* the lanes differ from each other and from the model */
    assert_true(fabs(means[0] - means[2 * PAIRS]) > 1e-5);
    assert_int_equal(zest_lm_losses(lm, readable, batch, losses, means), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "another tuner");
    zest_tuner_free(tuner);
    zest_tuner_free(vector);
    zest_lm_batch_free(batch);
    zest_lm_batch_free(same);
    zest_lm_free(lm);
    zest_lm_free(other);
    free(x);
    free(lane);
}

static void test_lanes(void **state) {
    (void)state;
    check_lanes(MASKED, masked_batch);
    check_lanes(causal, choices_batch);
    check_lanes(causal, text_batch);
}

/* ---- Generation ---- */

typedef struct {
    int32_t tokens[2][MOST];
    size_t counts[2], most;
} heard;

static int hear(size_t prompt, int32_t token, void *user) {
    heard *h = user;
    h->tokens[prompt][h->counts[prompt]++] = token;
    return h->counts[prompt] == h->most;
}

static void test_generate(void **state) {
    (void)state;
    zest_lm *lm = load(causal, NULL);
    heard h = {.most = MOST};
    int32_t text[64], prompts[2 * MOST], out[MOST], both[2 * MOST];
    float logits[4096];
    size_t count = encode(lm, "Once upon a time", 0, text), made, counts[2];
    zest_lm_generate_options options = {.max_tokens = 12, .ignore_eos = 1, .on_token = hear, .user = &h};
    assert_ok(ctx, zest_lm_generate(lm, text, count, &options, out, MOST, &made));
    assert_int_equal(made, 12);
    assert_int_equal(h.counts[0], 12);
    assert_memory_equal(h.tokens[0], out, 12 * sizeof *out);
    memcpy(prompts, text, count * sizeof *text);
    for (size_t i = 0; i < made; i++) { /* step by step: the largest of all logits */
        size_t row = count + i - 1;
        int32_t best = 0;
        assert_ok(ctx, zest_lm_logits(lm, text, count + i, &row, 1, logits));
        for (int32_t w = 1; w < 4096; w++)
            if (logits[w] > logits[best]) best = w;
        assert_int_equal(out[i], best);
        text[count + i] = best;
    }
    /* two prompts at once; the second is shorter */
    size_t starts[3] = {0, count, 2 * count - 1};
    memcpy(prompts + count, text, (count - 1) * sizeof *text);
    h = (heard){.most = MOST};
    assert_ok(ctx, zest_lm_generate_batch(lm, prompts, starts, 2, &options, both, counts));
    assert_int_equal(counts[0], 12);
    assert_memory_equal(both, out, sizeof(int32_t) * 12);
    assert_memory_equal(h.tokens[1], both + 12, counts[1] * sizeof *both);
    /* stop tokens, a callback that ends it, and an array that is smaller than max_tokens */
    size_t first = 0;
    while (out[first] != out[5]) first++;
    options =
        (zest_lm_generate_options){.max_tokens = 12, .stops = &out[5], .stop_count = 1, .ignore_eos = 1};
    assert_ok(ctx, zest_lm_generate(lm, text, count, &options, both, MOST, &made));
    assert_int_equal(made, first + 1);
    h = (heard){.most = 3};
    options = (zest_lm_generate_options){.ignore_eos = 1, .on_token = hear, .user = &h};
    assert_ok(ctx, zest_lm_generate(lm, text, count, &options, both, MOST, &made));
    assert_int_equal(h.counts[0], 3);
    assert_int_equal(made, 3);
    options = (zest_lm_generate_options){.ignore_eos = 1};
    assert_ok(ctx, zest_lm_generate(lm, text, count, &options, both, 4, &made));
    assert_int_equal(made, 4);
    assert_memory_equal(both, out, sizeof(int32_t) * 4);
    zest_lm_free(lm);
}

/* A draw depends on the seed, the prompt's number and the position alone. */
static void test_sampling(void **state) {
    (void)state;
    int32_t text[64], prompts[2 * MOST], first[2 * MOST], other[2 * MOST], greedy[2 * MOST];
    size_t counts[2];
    zest_lm_generate_options options = {.max_tokens = 12, .ignore_eos = 1};
    for (int threads = 1; threads <= 3; threads++) {
        char how[32];
        snprintf(how, sizeof how, "threads=%d", threads);
        zest_lm *lm = load(causal, how);
        size_t count = encode(lm, "Once upon a time", 0, text), starts[3] = {0, count, 2 * count};
        memcpy(prompts, text, count * sizeof *text);
        memcpy(prompts + count, text, count * sizeof *text);
        assert_ok(ctx, zest_lm_generate_batch(lm, prompts, starts, 2, &options, greedy, counts));
        assert_memory_equal(greedy, greedy + 12, 12 * sizeof *greedy);
        assert_ok(ctx, zest_lm_set_sampling(lm, "temperature=1.5 seed=5"));
        assert_ok(ctx, zest_lm_generate_batch(lm, prompts, starts, 2, &options, other, counts));
        if (threads == 1) memcpy(first, other, sizeof first);
        assert_memory_equal(other, first, 24 * sizeof *first);
        assert_memory_not_equal(other, other + 12, 12 * sizeof *other); /* the same prompt, other numbers */
        assert_ok(ctx, zest_lm_generate_batch(lm, prompts, starts, 1, &options, other, counts));
        assert_memory_equal(other, first, 12 * sizeof *first);
        assert_ok(ctx, zest_lm_set_sampling(lm, "temperature=1.5 seed=6"));
        assert_ok(ctx, zest_lm_generate_batch(lm, prompts, starts, 1, &options, other, counts));
        assert_memory_not_equal(other, first, 12 * sizeof *first);
        /* one candidate, and back to the largest logit */
        assert_ok(ctx, zest_lm_set_sampling(lm, "temperature=1.5 top-k=1"));
        assert_ok(ctx, zest_lm_generate_batch(lm, prompts, starts, 2, &options, other, counts));
        assert_memory_equal(other, greedy, 24 * sizeof *greedy);
        assert_ok(ctx, zest_lm_set_sampling(lm, "repetition-penalty=100"));
        assert_ok(ctx, zest_lm_generate_batch(lm, prompts, starts, 1, &options, other, counts));
        for (int i = 0; i < 12; i++)
            for (int k = 0; k < i; k++) assert_true(other[i] != other[k]);
        assert_ok(ctx, zest_lm_set_sampling(lm, NULL));
        assert_ok(ctx, zest_lm_generate_batch(lm, prompts, starts, 1, &options, other, counts));
        assert_memory_equal(other, greedy, 12 * sizeof *greedy);
        REFUSED(zest_lm_set_sampling(lm, "temperature=-1"), "temperature");
        REFUSED(zest_lm_set_sampling(lm, "top-p=1.5"), "top-p");
        REFUSED(zest_lm_set_sampling(lm, "max-tokens=3"), "max-tokens");
        zest_lm_free(lm);
    }
}

/* Windows by the definition: of each the log-probabilities that zest_lm_score gives, where no earlier one has the token. */
static void test_perplexity(void **state) {
    (void)state;
    static const size_t cases[][2] = {{48, 48}, {48, 24}, {20, 7}, {20, 20}, {2, 1}, {0, 0}};
    zest_lm *lm = load(causal, NULL), *masked = load(MASKED, NULL);
    int32_t ids[300];
    size_t count = 131;
    for (size_t i = 0; i < count; i++) ids[i] = (int32_t)(i * i * 37 % 4000);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t window = cases[c][0] ? cases[c][0] : 48, stride = cases[c][1] ? cases[c][1] : 24, done = 0,
               tokens = 0;
        double sum = 0, each[48];
        zest_lm_perplexity_options options = {.window = cases[c][0], .stride = cases[c][1]};
        zest_lm_perplexity_result result;
        for (size_t begin = 0; done < count; begin += stride) {
            size_t end = begin + window < count ? begin + window : count;
            assert_ok(ctx, zest_lm_score(lm, ids + begin, end - begin, each));
            for (size_t i = begin + 1; i < end; i++)
                if (i >= done) sum += each[i - begin], tokens++;
            done = end;
        }
        assert_ok(ctx, zest_lm_perplexity(lm, ids, count, &options, &result));
        assert_int_equal(result.tokens, tokens);
        assert_close(result.log_probability, sum, 1e-9 * fabs(sum));
        assert_close(result.perplexity, exp(-sum / (double)tokens), 1e-9 * result.perplexity);
    }
    zest_lm_perplexity_result result;
    zest_lm_perplexity_options gaps = {.window = 8, .stride = 9}, wide = {.window = 49};
    REFUSED(zest_lm_perplexity(lm, ids, count, &gaps, &result), "left out");
    REFUSED(zest_lm_perplexity(lm, ids, count, &wide, &result), "2 to 48 tokens");
    REFUSED(zest_lm_perplexity(lm, ids, 1, NULL, &result), "too short");
    REFUSED(zest_lm_perplexity(masked, ids, count, NULL, &result), "causal");
    ids[100] = 4096;
    REFUSED(zest_lm_perplexity(lm, ids, count, NULL, &result), "4096");
    zest_lm_free(lm);
    zest_lm_free(masked);
}

/* The same logits and tokens from the file as from the folder. */
static void test_save_gguf(void **state) {
    (void)state;
    zest_lm *lm = load(causal, NULL), *masked = load(MASKED, NULL);
    static float a[4096], b[4096];
    int32_t text[64], back[64];
    size_t count = encode(lm, "It's 12 o'clock, naïve  café\n\n.", ZEST_LM_ADD_SPECIAL, text),
           row = count - 1;
    assert_ok(ctx, zest_lm_save_gguf(lm, temp_path("m.gguf"), "f32"));
    zest_lm *again = load(temp_path("m.gguf"), NULL);
    assert_int_equal(encode(again, "It's 12 o'clock, naïve  café\n\n.", ZEST_LM_ADD_SPECIAL, back), count);
    assert_memory_equal(text, back, count * sizeof *text);
    assert_ok(ctx, zest_lm_logits(lm, text, count, &row, 1, a));
    assert_ok(ctx, zest_lm_logits(again, text, count, &row, 1, b));
    assert_memory_equal(a, b, sizeof a);
    REFUSED(zest_lm_save_gguf(lm, temp_path("x"), "q9_z"), "'q9_z' is no type");
    REFUSED(zest_lm_save_gguf(lm, "", NULL), "no file was named");
    REFUSED(zest_lm_save_gguf(masked, temp_path("x"), NULL), "cannot be a GGUF file");
    zest_lm_free(again);
    zest_lm_free(lm);
    zest_lm_free(masked);
}

/* ---- Saving ---- */

static void test_save(void **state) {
    (void)state;
    zest_lm *lm = load(MASKED, NULL);
    uint64_t before, after;
    const char *folder = temp_path("model");
    assert_ok(ctx, zest_lm_save(lm, folder));
    zest_lm *again = load(folder, NULL);
    assert_ok(ctx, zest_lm_fingerprint(lm, &before));
    assert_ok(ctx, zest_lm_fingerprint(again, &after));
    assert_true(before == after);
    int32_t a[MOST], b[MOST];
    size_t count = encode(lm, "A fine film.", 0, a);
    assert_int_equal(encode(again, "A fine film.", 0, b), count);
    assert_memory_equal(a, b, count * sizeof *a);
    zest_lm_free(lm);
    zest_lm_free(again);
}

/* ---- Bad input ---- */

static void test_refused_models(void **state) {
    (void)state;
    assert_null(zest_lm_load(NULL, MASKED, NULL));
    assert_null(zest_lm_load(ctx, NULL, NULL));
    assert_says(ctx, "no model was named");
    assert_null(zest_lm_load(ctx, "tests/no-such-model", NULL));
    assert_int_equal(zest_ctx_status(ctx), ZEST_ERROR_FILE);
    assert_null(zest_lm_load(ctx, MASKED, "no-such=1"));
    assert_int_equal(zest_ctx_status(ctx), ZEST_ERROR_ARGUMENT);
    assert_says(ctx, "no-such");
    assert_null(zest_lm_load(ctx, MASKED, "threads=many"));
    assert_null(zest_lm_load(ctx, MASKED, "rho=1")); /* an option of tuners */
    assert_null(zest_lm_open_run(ctx, MASKED, NULL, NULL, NULL, NULL));
    assert_says(ctx, "no run of zest train");
    assert_null(zest_lm_load_tokenizer(ctx, "tests/data/models/opt"));
}

static void test_refused_calls(void **state) {
    (void)state;
    int32_t ids[64] = {0}, outside[] = {0, 4096}, below[] = {0, -1};
    size_t count, position = 9;
    double losses[4];
    float logits[1];
    char text[8];
    uint64_t print;
    zest_lm *tokens = zest_lm_load_tokenizer(ctx, MASKED), *lm = load(causal, NULL),
            *masked = load(MASKED, NULL);
    assert_null(zest_lm_batch_new(tokens));
    assert_says(ctx, "without a model");
    REFUSED(zest_lm_save(tokens, temp_path("x")), "without a model");
    REFUSED(zest_lm_score(tokens, ids, 3, losses), "without a model");
    REFUSED(zest_lm_fingerprint(tokens, &print), "without a model");
    REFUSED(zest_lm_encode(lm, NULL, 0, 0, ids, 4, &count), "no text");
    REFUSED(zest_lm_decode(lm, ids, 3, 2, 0, text, 8, &count), "no tokens 3 to 2");
    REFUSED(zest_lm_logits(lm, outside, 2, &position, 1, logits), "outside the vocabulary of 4096");
    REFUSED(zest_lm_logits(lm, ids, 4, &position, 1, logits), "row 9 is behind the 4 tokens");
    REFUSED(zest_lm_score(lm, ids, 49, losses), "49 tokens, and the model reads at most 48");
    REFUSED(zest_lm_score(lm, ids, 0, losses), "no tokens");
    REFUSED(zest_lm_generate(masked, ids, 3, NULL, ids, 4, &count), "does not continue text");
    REFUSED(zest_lm_generate(lm, below, 2, NULL, ids, 4, &count), "token 1 is -1");
    REFUSED(zest_lm_generate(lm, ids, 49, NULL, ids, 4, &count), "reads at most 48");
    REFUSED(zest_lm_single_token(masked, " great film", &ids[0]), "2 tokens, not one");
    REFUSED(zest_lm_single_token(masked, "", &ids[0]), "0 tokens");
    zest_lm_free(lm);
    zest_lm_free(masked);
    zest_lm_free(tokens);
}

static void test_refused_examples(void **state) {
    (void)state;
    int32_t ids[64] = {0}, outside[] = {0, 4096}, words[] = {5, 6};
    size_t position = 9, starts[] = {0, 1, 1};
    double losses[4];
    zest_lm *lm = load(causal, NULL), *masked = load(MASKED, NULL);
    zest_lm_batch *batch = zest_lm_batch_new(lm), *other = zest_lm_batch_new(masked);
    REFUSED(zest_lm_losses(lm, NULL, batch, losses, NULL), "no examples");
    REFUSED(zest_lm_losses(lm, NULL, other, losses, NULL), "another model");
    REFUSED(zest_lm_batch_add_text(batch, ids, 4, 0), "can be 1 to 3, not 0");
    REFUSED(zest_lm_batch_add_text(batch, ids, 4, 4), "not 4");
    REFUSED(zest_lm_batch_add_text(batch, outside, 2, 1), "outside the vocabulary");
    REFUSED(zest_lm_batch_add_choices(batch, ids, 2, ids, starts, 2, 0), "option 1 has no tokens");
    REFUSED(zest_lm_batch_add_choices(batch, ids, 2, ids, starts, 1, 1), "no option 1 among 1");
    starts[1] = 8;
    REFUSED(zest_lm_batch_add_choices(batch, ids, 44, ids, starts, 1, 0), "52 tokens");
    REFUSED(zest_lm_batch_set_label_words(batch, words, 2), "need a masked model");
    assert_int_equal(zest_lm_batch_count(batch), 0);
    assert_ok(ctx, zest_lm_batch_add_text(batch, ids, 4, 2));
    starts[1] = 1;
    REFUSED(zest_lm_batch_add_choices(batch, ids, 2, ids, starts, 1, 0), "one kind");
    assert_int_equal(zest_lm_batch_count(batch), 1);
    assert_ok(ctx, zest_lm_losses(lm, NULL, batch, losses, NULL));
    REFUSED(zest_lm_choose(lm, NULL, batch, ids), "something to choose");
    REFUSED(zest_lm_batch_add_text(other, ids, 4, 1), "need a causal model");
    REFUSED(zest_lm_batch_add_masked(other, ids, 4, 1, 0), "label words before");
    REFUSED(zest_lm_batch_set_label_words(other, words, 1), "2 to 64");
    assert_ok(ctx, zest_lm_batch_set_label_words(other, words, 2));
    REFUSED(zest_lm_batch_add_masked(other, ids, 4, 4, 0), "position 4");
    REFUSED(zest_lm_batch_add_masked(other, ids, 4, 1, 2), "no label word 2");
    REFUSED(zest_lm_batch_add_masked_text(other, "no mask here", 0), "<mask> once, not 0 times");
    REFUSED(zest_lm_batch_add_masked_text(other, "<mask><mask>", 0), "not 2 times");
    REFUSED(zest_lm_batch_add_masked_text(other, "It was<mask>.", 2), "no label word 2");
    REFUSED(zest_lm_batch_add_masked_text(other, NULL, 0), "no text");
    assert_int_equal(zest_lm_batch_count(other), 0);
    REFUSED(zest_lm_batch_add_mlm(other, ids, 4, &position, words, 1), "position 9");
    zest_lm_batch_free(batch);
    zest_lm_batch_free(other);
    zest_lm_free(lm);
    zest_lm_free(masked);
}

static void test_refused_lanes(void **state) {
    (void)state;
    const int32_t ids[4] = {0};
    double losses[4];
    zest_lm *lm = load(causal, NULL);
    zest_lm_batch *batch = zest_lm_batch_new(lm);
    assert_ok(ctx, zest_lm_batch_add_text(batch, ids, 4, 2));
    float x[10] = {0};
    const zest_lanes *lanes;
    zest_tuner *tuner = zest_tuner_new_f32(ctx, x, 10);
    assert_ok(ctx, zest_tuner_ask(tuner, &lanes));
    REFUSED(zest_lm_losses(lm, lanes, batch, losses, NULL), "another tuner");
    zest_tuner_free(tuner);
    zest_lm_batch_free(batch);
    zest_lm_free(lm);
}

/* Nothing where an object should be. */
static void test_refused_null(void **state) {
    (void)state;
    int32_t ids[64] = {0};
    size_t count;
    double losses[4];
    zest_lm *lm = load(causal, NULL);
    REFUSED(zest_lm_losses(lm, NULL, NULL, losses, NULL), "batch is NULL");
    REFUSED(zest_lm_score(lm, ids, 3, NULL), "log_probabilities is NULL");
    REFUSED(zest_lm_encode(lm, "a", 1, 0, ids, 4, NULL), "count is NULL");
    REFUSED(zest_lm_generate(lm, ids, 3, NULL, NULL, 4, &count), "ids is NULL");
    REFUSED(zest_lm_generate(lm, ids, 3, NULL, ids, 0, &count), "no room");
    REFUSED(zest_lm_train(ctx, NULL, NULL, NULL), "options is NULL");
    REFUSED(zest_lm_resume(ctx, NULL, NULL, NULL, NULL), "folder is NULL");
    zest_lm_free(lm);
    assert_int_equal(zest_lm_losses(NULL, NULL, NULL, NULL, NULL), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_lm_save(NULL, "x"), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_lm_encode(NULL, "a", 1, 0, NULL, 0, &count), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_lm_batch_add_text(NULL, ids, 1, 1), ZEST_ERROR_ARGUMENT);
    assert_null(zest_lm_batch_new(NULL));
    zest_lm_free(NULL);
    zest_lm_batch_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),           cmocka_unit_test(test_info),
        cmocka_unit_test(test_losses),           cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_generate),         IN_TEMP_FOLDER(test_save),
        cmocka_unit_test(test_refused_models),   IN_TEMP_FOLDER(test_refused_calls),
        cmocka_unit_test(test_refused_examples), cmocka_unit_test(test_refused_lanes),
        cmocka_unit_test(test_refused_null),     cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_perplexity),       IN_TEMP_FOLDER(test_save_gguf),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
