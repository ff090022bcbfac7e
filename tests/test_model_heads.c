/* Checkpoints as they are published: old names of tensors, extra ones, and heads of other tasks. */
#include <jansson.h>

#include "tests/model.h"

static char names[TEST_MOST_TENSORS][160];

/* config.json of a test model with "architectures" and "_name_or_path" set, where they are given. */
static void put_config(const char *name, const char *folder, const char *architecture, const char *base) {
    char path[256];
    snprintf(path, sizeof path, "tests/data/models/%s/config.json", name);
    json_t *config = json_load_file(path, 0, NULL);
    assert_non_null(config);
    if (architecture) json_object_set_new(config, "architectures", json_pack("[s]", architecture));
    if (base) json_object_set_new(config, "_name_or_path", json_string(base));
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
}

static void replace(char *text, size_t size, const char *end, const char *by) {
    size_t length = strlen(text), tail = strlen(end);
    if (length >= tail && !strcmp(text + length - tail, end))
        snprintf(text + length - tail, size - (length - tail), "%s", by);
}

/* Norms are called gamma and beta, and a pooler and a next-sentence head are there, as in google-bert's
 * files; without "bert." they are named as the bare encoder saves them. */
static void test_bert_of_old(void **state) {
    (void)state;
    for (int bare = 0; bare < 2; bare++) {
        char folder[64];
        test_tensors all;
        test_tensors_read("bert", &all);
        for (size_t i = 0; i < all.count; i++) {
            const char *name = all.sources[i].name;
            snprintf(names[i], sizeof names[i], "%s", name + (bare && !strncmp(name, "bert.", 5) ? 5 : 0));
            replace(names[i], sizeof names[i], "LayerNorm.weight", "LayerNorm.gamma");
            replace(names[i], sizeof names[i], "LayerNorm.bias", "LayerNorm.beta");
            all.sources[i].name = names[i];
        }
        zest_safetensors_source extra = all.sources[0];
        extra.name = "cls.seq_relationship.weight";
        all.sources[all.count++] = extra;
        test_folder(folder);
        put_config("bert", folder, "BertForPreTraining", NULL);
        assert_done(zest_safetensors_write_folder(folder, all.sources, all.count, 0, error));
        zest_model *old = test_model_load(folder, ZEST_MODEL_AS_STORED),
                   *new = test_model("bert", ZEST_MODEL_AS_STORED);
        assert_int_equal(old->params.count, new->params.count);
        assert_true(zest_params_fingerprint(&old->params) == zest_params_fingerprint(&new->params));
        zest_model_free(old);
        zest_model_free(new);
        zest_safetensors_close(all.file);
        test_remove(folder);
    }
}

static void refused(const char *folder, const char *const *words, size_t count) {
    zest_model *model = NULL;
    zest_error why = {0};
    assert_int_not_equal(zest_model_load(folder, NULL, &model, &why), ZEST_OK);
    assert_null(model);
    for (size_t i = 0; i < count; i++)
        if (words[i] && !strstr(why.message, words[i])) fail_msg("'%s' is not in: %s", words[i], why.message);
    for (const char *c = why.message; *c; c++) assert_true((unsigned char)*c >= ' ');
}

/* The model without the tensors that begin with `without`, and with one called `with`. */
static void put_other_head(const char *name, const char *without, const char *with, const char *folder) {
    test_tensors all;
    size_t kept = 0;
    test_tensors_read(name, &all);
    for (size_t i = 0; i < all.count; i++)
        if (!without || strncmp(all.sources[i].name, without, strlen(without)))
            all.sources[kept++] = all.sources[i];
    if (with) {
        all.sources[kept] = all.sources[0];
        all.sources[kept++].name = with;
    }
    assert_done(zest_safetensors_write_folder(folder, all.sources, kept, 0, error));
    zest_safetensors_close(all.file);
}

static void test_heads_of_other_tasks(void **state) {
    (void)state;
    static const struct {
        const char *model, *without, *with, *architecture, *base, *words[3];
    } cases[] = {
        {"roberta",
         "lm_head.",
         "classifier.dense.weight",
         "RobertaForSequenceClassification",
         "roberta-base",
         {"RobertaForSequenceClassification", "'classifier.dense.weight'",
          "(config.json names roberta-base)"}},
        {"bert",
         "cls.",
         "classifier.weight",
         "BertForTokenClassification",
         "/home/someone/bert",
         {"BertForTokenClassification", "a classification head", "fine-tuned from"}},
        {"bert",
         "cls.",
         "qa_outputs.weight",
         "BertForQuestionAnswering",
         NULL,
         {"BertForQuestionAnswering", "a question-answering head", "label words"}},
        /* tied: every tensor that the language model needs is there */
        {"opt",
         "lm_head.",
         "score.weight",
         "OPTForSequenceClassification",
         "facebook/opt-125m",
         {"OPTForSequenceClassification", "'score.weight'", "facebook/opt-125m"}},
        {"gpt2",
         NULL,
         "score.weight",
         "GPT2ForSequenceClassification",
         NULL,
         {"GPT2ForSequenceClassification"}},
        {"bert",
         "cls.",
         NULL,
         "BertModel",
         "nreimers/MiniLM",
         {"'cls.predictions.transform.dense.weight' is missing", "(config.json names BertModel)",
          "nreimers/MiniLM"}},
        {"bert", "cls.", NULL, "\x1b[2J", "\x1b[2J", {"no architecture", "with it"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[64];
        test_folder(folder);
        put_config(cases[i].model, folder, cases[i].architecture, cases[i].base);
        put_other_head(cases[i].model, cases[i].without, cases[i].with, folder);
        refused(folder, cases[i].words, 3);
        test_remove(folder);
    }
}

/* A language model that has another head as well is a language model. */
static void test_two_heads(void **state) {
    (void)state;
    char folder[64];
    test_folder(folder);
    put_config("roberta", folder, "RobertaForMaskedLM", NULL);
    put_other_head("roberta", NULL, "classifier.dense.weight", folder);
    zest_model_free(test_model_load(folder, ZEST_MODEL_AS_STORED));
    test_remove(folder);
}

/* The command that converts PyTorch's file names the class that loads the head. */
static void test_conversion(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"roberta", "AutoModelForMaskedLM"},    {"bert", "AutoModelForMaskedLM"},
        {"opt", "AutoModelForCausalLM"},        {"gpt2", "AutoModelForCausalLM"},
        {"llama", "AutoModelForCausalLM"},      {"qwen2", "AutoModelForCausalLM"},
        {"distilbert", "AutoModelForMaskedLM"}, {"phi3", "AutoModelForCausalLM"},
        {"qwen3", "AutoModelForCausalLM"},      {"mistral", "AutoModelForCausalLM"},
        {"gemma2", "AutoModelForCausalLM"},     {"gemma3", "AutoModelForCausalLM"},
        {"neox", "AutoModelForCausalLM"},       {"modernbert", "AutoModelForMaskedLM"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[64];
        test_folder(folder);
        put_config(cases[i][0], folder, NULL, NULL);
        test_put(folder, "pytorch_model.bin", "PK");
        refused(folder, (const char *[]){cases[i][1], folder}, 2);
        test_remove(folder);
    }
    char folder[64]; /* of a model that zest lacks, nobody should convert anything */
    test_folder(folder);
    test_put(folder, "config.json", "{\"model_type\": \"mamba\"}");
    test_put(folder, "pytorch_model.bin", "PK");
    refused(folder, (const char *[]){"does not support model_type 'mamba'"}, 1);
    test_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bert_of_old),
        cmocka_unit_test(test_heads_of_other_tasks),
        cmocka_unit_test(test_two_heads),
        cmocka_unit_test(test_conversion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
