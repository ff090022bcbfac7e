/* Output rows: the bits that they have among all rows, whatever the other output rows are and in whatever order;
 * and which orders spare the last layer the queries of the other rows. */
#include "model/forward_pass.h"
#include "tests/model.h"

enum { ROWS = 19, MOST = 24, LANES = 3, WIDEST = 64 };

static const uint32_t tokens[ROWS] = {5, 9, 33, 12, 7, 61, 4, 90, 3, 17, 12, 8, 70, 71, 72, 6, 91, 33, 2};
static const uint32_t starts[] = {0, 5, 6, 15, 19};
static const zest_model_batch batch = {tokens, starts, 4, NULL, NULL};

typedef struct {
    size_t count;
    uint32_t rows[MOST];
    int causal, other; /* whether they can be the last layer's only queries, in causal and other models */
} row_case;

static const row_case row_cases[] = {
    {4, {4, 5, 14, 18}, 1, 1},
    {1, {0}, 1, 1},
    {3, {7, 8, 9}, 1, 1},
    {5, {2, 3, 16, 17, 18}, 1, 1},
    {19, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, 1, 1},
    {2, {7, 9}, 0, 1},
    {4, {9, 7, 8, 15}, 0, 1},
    {4, {3, 3, 3, 12}, 0, 1},
    {24, {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 14, 13, 12, 11, 10, 9, 8, 7, 6, 6, 18, 18}, 0, 1},
    {2, {16, 2}, 0, 0},
    {3, {2, 16, 3}, 0, 0},
    {4, {18, 14, 5, 4}, 0, 0},
};

typedef struct {
    size_t width;
    float *out; /* LANES × MOST × width */
} copy_ctx;

static zest_status copy_group(zest_model_runner *runner, const zest_group_output *group, void *user,
                              zest_error *error) {
    const copy_ctx *job = user;
    (void)runner;
    (void)error;
    for (int l = 0; l < group->perturbation.lanes; l++)
        memcpy(job->out + (group->first + (size_t)l) * MOST * job->width, group->h[l],
               group->rows * job->width * sizeof *job->out);
    return ZEST_OK;
}

static void check_rows(zest_model_runner *runner, zest_forward_request *request, const row_case *c,
                       const float *all) {
    const zest_model_config *config = &runner->model->config;
    static float got[LANES * MOST * WIDEST];
    copy_ctx job = {config->embedding_size, got};
    zest_forward_pass pass;
    request->out_rows = c->rows, request->out_row_count = c->count, request->user = &job;
    assert_done(zest_forward_prepare(runner, request, &pass, error));
    zest_forward_index_out_rows(&pass);
    assert_int_equal(pass.out_starts != NULL, !config->fused_qkv && (config->causal ? c->causal : c->other));
    assert_done(zest_model_forward(runner, request, error));
    for (size_t l = 0; l < LANES; l++)
        for (size_t r = 0; r < c->count; r++)
            assert_memory_equal(got + (l * MOST + r) * job.width, all + (l * MOST + c->rows[r]) * job.width,
                                job.width * sizeof *got);
}

static void check_model(const zest_model *model, zest_cpu cpu, zest_compute compute) {
    static float all[LANES * MOST * WIDEST];
    assert_true(model->config.embedding_size <= WIDEST);
    copy_ctx job = {model->config.embedding_size, all};
    zest_model_lane lanes[LANES] = {test_lane(model, 7, 0.01), test_lane(model, 7, -0.01),
                                    test_lane(model, 0, 0)};
    zest_forward_request request = {.lanes = lanes,
                                    .lane_count = LANES,
                                    .batch = &batch,
                                    .depth = model->config.layers,
                                    .on_group = copy_group,
                                    .user = &job};
    zest_model_runner *runner = test_runner(model, cpu, compute, 2, 0);
    assert_done(zest_model_forward(runner, &request, error));
    for (size_t i = 0; i < sizeof row_cases / sizeof *row_cases; i++)
        check_rows(runner, &request, &row_cases[i], all);
    zest_model_runner_free(runner);
}

static void test_bits(void **state) {
    (void)state;
    zest_cpu best;
    assert_int_equal(zest_cpu_detect(&best, NULL), ZEST_OK);
    for (size_t i = 0; i < TEST_MODELS; i++) {
        zest_model *model = test_model(test_models[i], ZEST_MODEL_AS_STORED);
        for (zest_compute compute = ZEST_COMPUTE_F32; compute <= ZEST_COMPUTE_BF16; compute++) {
            check_model(model, ZEST_CPU_PLAIN, compute);
            check_model(model, best, compute);
        }
        zest_model_free(model);
    }
}

/* Children's queries see their parent's keys too, which lie elsewhere: all rows are queries there. */
static void test_parents(void **state) {
    (void)state;
    zest_model *model = test_model("llama", ZEST_MODEL_AS_STORED);
    zest_model_runner *runner = test_runner(model, ZEST_CPU_PLAIN, ZEST_COMPUTE_F32, 1, 0);
    zest_model_lane itself = test_lane(model, 0, 0);
    const zest_model_objective *objective = test_two_prompts();
    const uint32_t row = 4;
    zest_forward_request request = {
        .lanes = &itself, .lane_count = 1, .batch = objective->batch, .out_rows = &row, .out_row_count = 1};
    zest_forward_pass pass;
    assert_done(zest_forward_prepare(runner, &request, &pass, error));
    zest_forward_index_out_rows(&pass);
    assert_null(pass.out_starts);
    zest_model_runner_free(runner);
    zest_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
