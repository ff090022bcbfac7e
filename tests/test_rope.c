/* Frequencies of rotary positions against their definitions; the models yarn and llama3 of tests/data/models compare
 * whole forward passes with transformers. And what a config makes of windows and of names of a family. */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#include "model/model.h"
#include "model/rope.h"

enum { HEAD = 64, PAIRS = HEAD / 2 };

static zest_model_config config_of(const char *json) {
    zest_model_config config;
    zest_error error = {0};
    if (zest_model_read_config(json, &config, &error)) fail_msg("%s: %s", json, error.message);
    return config;
}

/* A config of the Llama family with more keys. */
static zest_model_config llama_like(const char *type, const char *more) {
    char json[1024];
    snprintf(json, sizeof json,
             "{\"model_type\": \"%s\", \"vocab_size\": 96, \"hidden_size\": 128, \"num_hidden_layers\": 2, "
             "\"num_attention_heads\": 2, \"intermediate_size\": 48, \"max_position_embeddings\": 4096, "
             "\"rope_theta\": 10000.0%s}",
             type, more);
    return config_of(json);
}

static void frequencies(const char *more, double *length, float out[PAIRS]) {
    zest_model_config config = llama_like("llama", more);
    zest_rope_frequencies(&config.rope, HEAD, out);
    *length = config.rope.length;
}

static double plain(size_t i) { return pow(10000, -2.0 * (double)i / HEAD); }

static void assert_close(double a, double b) {
    if (fabs(a - b) > 1e-6 * fabs(b)) fail_msg("%.9g instead of %.9g", a, b);
}

static void test_linear(void **state) {
    (void)state;
    float out[PAIRS];
    double length;
    frequencies("", &length, out);
    for (size_t i = 0; i < PAIRS; i++) assert_close((double)out[i], plain(i));
    assert_true(length == 1);
    frequencies(", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 8}", &length, out);
    for (size_t i = 0; i < PAIRS; i++) assert_close((double)out[i], plain(i) / 8);
    assert_true(length == 1);
}

/* Turns within the trained context decide: more than high_freq_factor, fewer than low_freq_factor, or between. */
static void test_llama3(void **state) {
    (void)state;
    float out[PAIRS];
    double length;
    frequencies(", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
                "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 1024}",
                &length, out);
    size_t kept = 0, divided = 0;
    for (size_t i = 0; i < PAIRS; i++) {
        double turns = 1024 * plain(i) / (2 * 3.14159265358979323846), share = (turns - 1) / 3;
        kept += turns > 4, divided += turns < 1;
        assert_close((double)out[i], turns > 4   ? plain(i)
                                     : turns < 1 ? plain(i) / 8
                                                 : plain(i) * (share + (1 - share) / 8));
    }
    assert_true(kept > 0 && divided > 0 && kept + divided < PAIRS && length == 1);
}

/* The pair i makes L b^(-2i/d) / 2 pi turns in a context of L: 32 turns at the real number `from`, 1 at `to`. */
static void test_yarn(void **state) {
    (void)state;
    float out[PAIRS];
    double length, ln = log(10000), L = 1024, pi = 3.14159265358979323846;
    double from = HEAD * log(L / (32 * 2 * pi)) / (2 * ln), to = HEAD * log(L / (2 * pi)) / (2 * ln);
    for (int whole = 0; whole < 2; whole++) {
        char more[256];
        snprintf(more, sizeof more,
                 ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, "
                 "\"original_max_position_embeddings\": 1024, \"truncate\": %s}",
                 whole ? "true" : "false");
        frequencies(more, &length, out);
        double low = whole ? floor(from) : from, high = whole ? ceil(to) : to;
        assert_true(low > 1 && high < PAIRS - 1);
        for (size_t i = 0; i < PAIRS; i++) {
            double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);
            assert_close((double)out[i], plain(i) * (1 - ramp) + plain(i) / 4 * ramp);
        }
        assert_close(length, 0.1 * log(4) + 1);
    }
    frequencies(", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"attention_factor\": 1.25}",
                &length, out);
    assert_true(length == 1.25);
    frequencies(
        ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"mscale\": 2, \"mscale_all_dim\": 1}",
        &length, out);
    assert_close(length, (0.2 * log(4) + 1) / (0.1 * log(4) + 1));
}

/* Which layers are local, and with which window; the models have two layers. */
static void test_windows(void **state) {
    (void)state;
    static const struct {
        const char *type, *more;
        size_t window;
        uint64_t layers; /* a bit each */
    } cases[] = {
        {"mistral", ", \"sliding_window\": 1000", 1000, 3},
        {"mistral", ", \"sliding_window\": 8192", 0, 0},
        {"mistral", ", \"sliding_window\": null", 0, 0},
        {"mistral", "", 0, 0},
        {"phi3", ", \"sliding_window\": 2047", 2047, 3},
        {"llama", ", \"sliding_window\": 1000", 0, 0},
        {"qwen2", ", \"sliding_window\": 1000", 0, 0},
        {"qwen3", ", \"sliding_window\": 1000", 0, 0},
        {"qwen3", ", \"sliding_window\": 1000, \"use_sliding_window\": true", 0, 0},
        {"qwen3", ", \"sliding_window\": 1000, \"use_sliding_window\": true, \"max_window_layers\": 1", 1000,
         2},
        {"qwen2", ", \"sliding_window\": 1000, \"layer_types\": [\"full_attention\", \"full_attention\"]", 0,
         0},
        {"qwen2", ", \"sliding_window\": 1000, \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         1000, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zest_model_config config = llama_like(cases[i].type, cases[i].more);
        assert_int_equal(config.max_positions, 4096);
        assert_int_equal(config.window, cases[i].window);
        assert_int_equal(config.local_layers[0], cases[i].layers);
        for (size_t w = 1; w < ZEST_MODEL_LAYERS / 64; w++) assert_int_equal(config.local_layers[w], 0);
    }
}

/* Gemma 3's two tables: in the layout of older files, where rope_scaling is that of full layers, and of newer ones; and
 * caps that are null, not absent. */
static void test_gemma(void **state) {
    (void)state;
    static const char *const layouts[] = {
        ", \"num_key_value_heads\": 2, \"rope_local_base_freq\": 500, \"rope_scaling\": {\"rope_type\": "
        "\"linear\", \"factor\": 8}",
        ", \"num_key_value_heads\": 2, \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", "
        "\"factor\": 8}, "
        "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 500}}"};
    for (size_t i = 0; i < 2; i++) {
        zest_model_config config = llama_like("gemma3_text", layouts[i]);
        assert_true(config.rope.base == 10000 && config.rope.kind == ZEST_ROPE_LINEAR &&
                    config.rope.factor == 8);
        assert_true(config.local_rope.base == 500 && config.local_rope.kind == ZEST_ROPE_PLAIN);
        assert_true(config.score_cap == 0 && config.logit_cap == 0 && config.local_layers[0] == 3);
        assert_int_equal(config.window, 0); /* 4096, and sequences are no longer */
        assert_true(zest_model_rope_of(&config, 0) == 1);
    }
    zest_model_config config = llama_like(
        "gemma2", ", \"num_key_value_heads\": 2, \"attn_logit_softcapping\": null, \"sliding_window\": 9");
    assert_true(config.score_cap == 0 && config.logit_cap == 30 && config.window == 9);
    assert_true(config.local_layers[0] == 1 && config.local_rope.base == 0);
}

/* XLM-RoBERTa and CamemBERT are RoBERTa under other names. */
static void test_names(void **state) {
    (void)state;
    static const char *const types[] = {"roberta", "xlm-roberta", "camembert"};
    for (size_t i = 0; i < 3; i++) {
        char json[512];
        snprintf(
            json, sizeof json,
            "{\"model_type\": \"%s\", \"vocab_size\": 96, \"hidden_size\": 32, \"num_hidden_layers\": 2, "
            "\"num_attention_heads\": 4, \"intermediate_size\": 48, \"max_position_embeddings\": 34, "
            "\"type_vocab_size\": 1, \"pad_token_id\": 1}",
            types[i]);
        zest_model_config config = config_of(json);
        assert_string_equal(config.family, types[i]);
        assert_int_equal(config.max_positions, 32);
        assert_true(config.position_offset == 2 && config.head_transform && !config.causal);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),  cmocka_unit_test(test_llama3), cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_windows), cmocka_unit_test(test_gemma),  cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
