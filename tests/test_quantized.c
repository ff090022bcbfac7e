/* Products with quantised weights: every level against plain C, plain C against fp64 with the bound of quantized.h; and
 * models that keep the blocks of their file. */
#include "io/gguf_write.h"
#include "kernels/cpu/quantized.h"
#include "model/gguf_export.h"
#include "tests/model.h"
#include "tests/ops_support.h"
#include "tests/temp_folder.h"

static const int block_types[] = {ZEST_GGUF_TYPE_Q8_0, ZEST_GGUF_TYPE_Q4_0, ZEST_GGUF_TYPE_Q4_1,
                                  ZEST_GGUF_TYPE_Q5_0, ZEST_GGUF_TYPE_Q5_1, ZEST_GGUF_TYPE_Q4_K,
                                  ZEST_GGUF_TYPE_Q5_K, ZEST_GGUF_TYPE_Q6_K};

typedef struct {
    size_t rows, inputs, outputs, pad;
    int bias, residual;
    zest_activation activation;
} product_case;

static const product_case cases[] = {
    {1, 256, 64, 0, 0, 0, ZEST_ACT_NONE},  {1, 768, 131, 3, 1, 1, ZEST_ACT_GELU},
    {4, 512, 65, 0, 1, 0, ZEST_ACT_SILU},  {7, 256, 20, 5, 0, 1, ZEST_ACT_NONE},
    {1, 1536, 1, 0, 0, 0, ZEST_ACT_NONE},  {1, 96, 70, 0, 1, 0, ZEST_ACT_RELU},
    {5, 288, 129, 1, 0, 1, ZEST_ACT_NONE}, {2, 32, 3, 0, 0, 0, ZEST_ACT_GELU_TANH},
};

/* Blocks of the file format; extreme: every byte is random, but scales are small, so that all codes occur. */
static zest_weight quantized_weight(int type, size_t rows, size_t columns, int extreme) {
    size_t elements, bytes;
    assert_true(zest_gguf_block_size((uint32_t)type, &elements, &bytes));
    size_t row_bytes = columns / elements * bytes;
    float *values = normals(rows * columns, 5, 0.05f);
    uint8_t *data = malloc(rows * row_bytes);
    assert_non_null(data);
    for (size_t r = 0; r < rows; r++)
        assert_true(
            zest_gguf_quantize((zest_gguf_type)type, values + r * columns, columns, data + r * row_bytes));
    uint32_t random = 12345;
    for (size_t i = 0; extreme && i < rows * row_bytes; i++) {
        size_t at = i % bytes;
        int scale = type == ZEST_GGUF_TYPE_Q6_K ? at >= 208 : at < 4;
        random = random * 1664525u + 1013904223u;
        if (!scale || (at >= 2 && (type == ZEST_GGUF_TYPE_Q8_0 || type == ZEST_GGUF_TYPE_Q4_0 ||
                                   type == ZEST_GGUF_TYPE_Q5_0)))
            data[i] = (uint8_t)(random >> 24);
    }
    free(values);
    return (zest_weight){.data = data, .rows = rows, .columns = columns, .block_type = type};
}

typedef struct {
    zest_linear job;
    float *out, *fresh;
    size_t count;
} operands;

static operands make(const product_case *c, int type, int extreme) {
    size_t stride = c->outputs + c->pad;
    operands o = {.count = c->rows * stride};
    o.out = guarded(o.count);
    o.fresh = normals(o.count, 21, 1);
    o.job = (zest_linear){.weight = quantized_weight(type, c->outputs, c->inputs, extreme),
                          .rows = c->rows,
                          .a = {normals(c->rows * (c->inputs + c->pad), 22, 1)},
                          .a_stride = c->inputs + c->pad,
                          .out = {o.out},
                          .out_stride = stride,
                          .residual = {c->residual ? o.out : NULL},
                          .residual_stride = stride,
                          .activation = c->activation,
                          .perturbation = {.lanes = 1}};
    if (c->bias) o.job.bias = weight(ZEST_DTYPE_F32, 1, c->outputs, 23, 0.1f, 0);
    return o;
}

static void run(operands *o, int cpu, int threads, zest_workspace *scratch) {
    memcpy(o->out, o->fresh, o->count * sizeof *o->out);
    assert_int_equal(zest_ops_for((zest_cpu)cpu)->linear(&o->job, threads, scratch), 0);
}

static void discard(operands *o) {
    release(&o->job.weight), release(&o->job.bias);
    free((void *)(uintptr_t)o->job.a[0]);
    free(o->out), free(o->fresh);
}

static int fits(int type, const product_case *c) {
    size_t elements, bytes;
    return zest_gguf_block_size((uint32_t)type, &elements, &bytes) && c->inputs % elements == 0;
}

static void every_level_equals_the_reference(void **state) {
    (void)state;
    zest_workspace scratch = {0};
    for (size_t t = 0; t < COUNT(block_types); t++)
        for (size_t i = 0; i < COUNT(cases); i++)
            for (int extreme = 0; extreme < 2 && fits(block_types[t], &cases[i]); extreme++) {
                operands o = make(&cases[i], block_types[t], extreme);
                float *expected = guarded(o.count);
                run(&o, ZEST_CPU_PLAIN, 1, &scratch);
                memcpy(expected, o.out, o.count * sizeof *expected);
                for (int cpu = 1; cpu < cpu_count(); cpu++)
                    for (int threads = 1; threads <= 3; threads += 2) {
                        run(&o, cpu, threads, &scratch);
                        same(o.out, expected, o.count, 0,
                             zest_gguf_type_name((zest_gguf_type)block_types[t]));
                    }
                free(expected);
                discard(&o);
            }
    free(scratch.data);
}

/* Not further from the product of the dequantised weights than half a step of every activation allows. */
static void the_reference_keeps_its_bound(void **state) {
    (void)state;
    zest_workspace scratch = {0};
    for (size_t t = 0; t < COUNT(block_types); t++)
        for (int extreme = 0; extreme < 2; extreme++) {
            const product_case c = {3, 768, 40, 0, 0, 0, ZEST_ACT_NONE};
            operands o = make(&c, block_types[t], extreme);
            float *w = guarded(c.inputs);
            double largest_error = 0, largest_bound = 0;
            run(&o, ZEST_CPU_PLAIN, 2, &scratch);
            for (size_t n = 0; n < c.outputs; n++) {
                const char *row =
                    (const char *)o.job.weight.data + zest_weight_bytes(&o.job.weight, n * c.inputs);
                zest_gguf_read_blocks(block_types[t], row, c.inputs, w);
                for (size_t m = 0; m < c.rows; m++) {
                    const float *a = (const float *)o.job.a[0] + m * c.inputs;
                    double exact = 0, bound = 0, size = 0;
                    for (size_t g = 0; g < c.inputs; g += 32) {
                        double most = 0;
                        for (size_t k = g; k < g + 32; k++) most = fmax(most, fabs((double)a[k]));
                        for (size_t k = g; k < g + 32; k++) {
                            exact += (double)w[k] * (double)a[k];
                            bound += fabs((double)w[k]) * most / 254;
                            size += fabs((double)w[k]) * most;
                        }
                    }
                    double off = fabs((double)o.out[m * c.outputs + n] - exact);
                    assert_true(off <= bound + 1e-5 * size);
                    largest_error = fmax(largest_error, off);
                    largest_bound = fmax(largest_bound, bound);
                }
            }
            assert_true(largest_error > 0 && largest_bound < 1e4);
            free(w);
            discard(&o);
        }
    free(scratch.data);
}

static void what_is_not_finite_stays(void **state) {
    (void)state;
    zest_workspace scratch = {0};
    const product_case c = {2, 256, 30, 0, 0, 0, ZEST_ACT_NONE};
    const float values[] = {NAN, INFINITY, -INFINITY};
    for (int cpu = 0; cpu < cpu_count(); cpu++)
        for (size_t v = 0; v < COUNT(values); v++) {
            operands o = make(&c, ZEST_GGUF_TYPE_Q4_K, 0);
            ((float *)(uintptr_t)o.job.a[0])[100] = values[v];
            run(&o, cpu, 1, &scratch);
            for (size_t n = 0; n < 30; n++) assert_true(isnan(o.out[n]) && isfinite(o.out[30 + n]));
            discard(&o);
        }
    free(scratch.data);
}

static void rows_of_a_table_are_dequantised(void **state) {
    (void)state;
    const uint32_t ids[] = {3, 0, 3};
    for (int cpu = 0; cpu < cpu_count(); cpu++)
        for (size_t t = 0; t < COUNT(block_types); t++) {
            zest_workspace scratch = {0};
            zest_weight table = quantized_weight(block_types[t], 4, 512, 0);
            zest_perturbation none = {.lanes = 1};
            float *got = guarded(3 * 512), *expected = guarded(4 * 512);
            zest_gguf_read_blocks(block_types[t], table.data, 4 * 512, expected);
            assert_int_equal(zest_ops_gather_rows(zest_ops_for((zest_cpu)cpu), &table, &none, ids, 3,
                                                  (void *const[2]){got, NULL}, 1, &scratch),
                             0);
            for (size_t i = 0; i < 3; i++)
                same(got + i * 512, expected + ids[i] * 512, 512, 0, "a row of a table");
            free(got), free(expected), free(scratch.data);
            release(&table);
        }
}

/* ---- Models ---- */

#define CONFIG                                                                                        \
    "{\"model_type\": \"llama\", \"vocab_size\": 96, \"hidden_size\": 64, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 96, "             \
    "\"max_position_embeddings\": 64}"

static void write_file(const char *path, const char *type) {
    zest_model *model;
    zest_gguf_metadata metadata = {0};
    int found;
    assert_done(zest_model_random(CONFIG, 3, NULL, &model, error));
    for (size_t i = 0; i < model->tensor_count; i++) /* weights that matter */
        for (size_t k = 0; model->shapes[i].rank == 2 && k < model->tensors[i].count; k++)
            ((float *)model->tensors[i].data)[k] *= 6;
    assert_true(zest_model_find_gguf_type(type, &found));
    assert_done(zest_model_put_gguf(model, found, &metadata, error));
    assert_done(zest_model_write_gguf(model, found, &metadata, path, 1, error));
    zest_gguf_metadata_free(&metadata);
    zest_model_free(model);
}

/* The same logits as with dequantised weights, as far as 8-bit activations go, in less memory; generation from the
 * cache equals full passes; and nothing that writes weights is allowed. */
static void a_model_keeps_its_blocks(void **state) {
    (void)state;
    static const uint32_t tokens[] = {5, 17, 80, 3, 44, 9}, starts[] = {0, 6}, rows[] = {5};
    static const zest_model_options keep = {.storage = ZEST_MODEL_QUANTIZED};
    static const char *const types[] = {"q8_0", "q5_1", "q4_0"};
    zest_model_batch batch = {.tokens = tokens, .starts = starts, .sequences = 1};
    zest_cpu best;
    assert_int_equal(zest_cpu_detect(&best, NULL), ZEST_OK);
    for (size_t t = 0; t < COUNT(types); t++) {
        const char *path = temp_path("blocks.gguf");
        zest_model *wide, *model;
        float exact[96], got[96];
        double largest = 0, error_size = 0;
        uint32_t text[20] = {5, 17, 80, 3, 44, 9}, new_tokens[8];
        size_t count;
        write_file(path, types[t]);
        assert_done(zest_model_load(path, NULL, &wide, error));
        assert_done(zest_model_load(path, &keep, &model, error));
        assert_true(model->quantized && !wide->quantized);
        assert_true(model->arena_size * 10 < wide->arena_size * 4);
        zest_model_runner *a = test_runner(wide, best, ZEST_COMPUTE_F32, 1, 0);
        zest_model_runner *b = test_runner(model, best, ZEST_COMPUTE_F32, 2, 0);
        assert_done(zest_model_logits(a, NULL, &batch, rows, 1, exact, error));
        assert_done(zest_model_logits(b, NULL, &batch, rows, 1, got, error));
        for (size_t i = 0; i < 96; i++) {
            largest = fmax(largest, fabs((double)exact[i]));
            error_size = fmax(error_size, fabs((double)exact[i] - (double)got[i]));
        }
        assert_true(error_size > 0 && error_size < 0.02 * largest);
        zest_generate_options how = {.max_new_tokens = 8};
        assert_done(zest_generate(b, NULL, &batch, &how, new_tokens, &count, error));
        for (size_t i = 0; i < 8; i++) { /* every token from all before it, bit for bit */
            uint32_t all[] = {0, (uint32_t)(6 + i)}, row = (uint32_t)(5 + i), top = 0;
            zest_model_batch whole = {.tokens = text, .starts = all, .sequences = 1};
            assert_done(zest_model_logits(b, NULL, &whole, &row, 1, got, error));
            for (uint32_t w = 1; w < 96; w++) top = got[w] > got[top] ? w : top;
            assert_int_equal(new_tokens[i], top);
            text[6 + i] = top;
        }
        zest_error refusal = {0};
        zest_model_lane lane = test_lane(model, 3, 0.01);
        assert_int_equal(zest_model_logits(b, &lane, &batch, rows, 1, got, &refusal), ZEST_ERROR_ARGUMENT);
        assert_non_null(strstr(refusal.message, "--weights"));
        zest_update update = {0};
        assert_int_equal(zest_model_apply_update(b, &update, &refusal), ZEST_ERROR_ARGUMENT);
        assert_int_equal(zest_model_save(model, temp_path("saved"), &refusal), ZEST_ERROR_ARGUMENT);
        assert_int_equal(zest_model_select_trainable(model, "*", "", &refusal), ZEST_ERROR_ARGUMENT);
        zest_model_runner_free(a), zest_model_runner_free(b);
        zest_model_free(wide), zest_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_equals_the_reference), cmocka_unit_test(the_reference_keeps_its_bound),
        cmocka_unit_test(what_is_not_finite_stays),         cmocka_unit_test(rows_of_a_table_are_dequantised),
        IN_TEMP_FOLDER(a_model_keeps_its_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
