/* Tensors that are left out of training: never perturbed, never moved, and not counted. */
#include "model/model.h"
#include "model/forward_pass.h"
#include "tests/model.h"

static const zest_tensor *tensor_named(const zest_model *model, const char *name) {
    for (size_t i = 0; i < model->tensor_count; i++)
        if (!strcmp(model->tensors[i].name, name)) return &model->tensors[i];
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static void trained_are_numbered_without_gaps(void **state) {
    (void)state;
    for (size_t m = 0; m < TEST_MODELS; m++) {
        zest_model *model = test_model(test_models[m], ZEST_MODEL_F32);
        size_t all = model->tensor_count;
        assert_done(zest_model_select_trainable(model, "", "*.0.*", error));
        uint64_t next = 0;
        for (size_t i = 0; i < model->params.count; i++) {
            const zest_tensor *tensor = &model->params.tensors[i];
            assert_null(strstr(tensor->name, ".0."));
            assert_int_equal(tensor->first, next);
            next += tensor->count;
        }
        assert_int_equal(model->params.dimension, next);
        assert_true(model->params.count < all && model->tensor_count == all);
        zest_model_free(model);
    }
}

/* The loss of a lane with frozen tensors is that of a model in which the trained ones alone were perturbed by
 * hand: every family, every kind of tensor. */
static double loss_of(const zest_model *model, const zest_model_lane *lane, const char *name) {
    test_golden golden = test_golden_open(name);
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    uint32_t words[] = {5, 9}, answers[8] = {0};
    zest_model_objective objective = {.kind = ZEST_LOSS_LABEL_WORDS,
                                      .batch = &golden.batch,
                                      .items = golden.batch.sequences,
                                      .rows = golden.places,
                                      .words = words,
                                      .word_count = 2,
                                      .answers = answers};
    double losses[8], mean;
    assert_true(golden.batch.sequences <= 8);
    assert_done(zest_model_losses(runner, lane, 1, &objective, losses, &mean, NULL, error));
    zest_model_runner_free(runner);
    zest_safetensors_close(golden.file);
    return mean;
}

static void only_the_trained_are_perturbed(void **state) {
    (void)state;
    zest_direction direction = {77, 0, 1, ZEST_GAUSSIAN};
    zest_model_lane lane = {direction, 0.01}, itself = {direction, 0};
    for (size_t m = 0; m < TEST_MODELS; m++) {
        zest_model *model = test_model(test_models[m], ZEST_MODEL_F32);
        assert_done(zest_model_select_trainable(model, "*e*.0.*,*.1.*,*.weight", "*.1.*", error));
        double expected = loss_of(model, &lane, test_models[m]),
               before = loss_of(model, &itself, test_models[m]);
        for (size_t i = 0; i < model->params.count; i++) {
            const zest_tensor *tensor = &model->params.tensors[i];
            float *x = tensor->data, *z = malloc(tensor->count * sizeof *z);
            zest_noise_plain.normal(z, 77, tensor->first, tensor->count);
            for (uint64_t j = 0; j < tensor->count; j++) x[j] = fmaf(0.01f, z[j], x[j]);
            free(z);
        }
        double got = loss_of(model, &itself, test_models[m]);
        assert_true(got == expected);
        assert_true(got != before);
        zest_model_free(model);
    }
}

static void frozen_do_not_move(void **state) {
    (void)state;
    zest_model *model = test_model("roberta", ZEST_MODEL_BF16),
               *twin = test_model("roberta", ZEST_MODEL_BF16);
    assert_done(zest_model_select_trainable(model, "", "*embeddings*", error));
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    zest_direction direction = {5, model->params.dimension, 1, ZEST_GAUSSIAN};
    double g = 1;
    zest_update update = {&direction, &g, 1, 0.1, 0, 3, 0};
    assert_done(zest_model_apply_update(runner, &update, error));
    for (size_t i = 0; i < model->tensor_count; i++) {
        const zest_tensor *a = &model->tensors[i], *b = &twin->tensors[i];
        int same = !memcmp(a->data, b->data, 2 * a->count);
        assert_int_equal(same, strstr(a->name, "embeddings") != NULL);
    }
    assert_non_null(tensor_named(model, "lm_head.bias")->data);
    zest_model_runner_free(runner);
    zest_model_free(model);
    zest_model_free(twin);
}

static void mistakes_are_refused(void **state) {
    (void)state;
    zest_model *model = test_model("roberta", ZEST_MODEL_F32);
    zest_error error = {0};
    assert_int_equal(zest_model_select_trainable(model, "nothing.like.this", "", &error),
                     ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "nothing.like.this"));
    assert_non_null(strstr(error.message, "word_embeddings"));
    assert_int_equal(zest_model_select_trainable(model, "", "*bias*,typo*", &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "typo*"));
    assert_int_equal(zest_model_select_trainable(model, "*bias*", "*", &error), ZEST_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "nothing to train"));
    zest_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_are_numbered_without_gaps),
        cmocka_unit_test(only_the_trained_are_perturbed),
        cmocka_unit_test(frozen_do_not_move),
        cmocka_unit_test(mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
