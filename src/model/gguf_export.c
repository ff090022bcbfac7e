/* A model as a GGUF file: the reverse of gguf_config.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "model/gguf_export.h"
#include "model/model_files.h"

/* ---- Types ---- */

static const struct {
    zest_gguf_type type, smaller_blocks; /* for rows that are no multiple of its block */
    uint32_t file_type;                  /* general.file_type, by llama.cpp's numbers */
    int below_q6_k;                      /* the output matrix takes Q6_K instead */
} types[] = {
    {ZEST_GGUF_TYPE_F32, ZEST_GGUF_TYPE_F32, 0, 0},    {ZEST_GGUF_TYPE_F16, ZEST_GGUF_TYPE_F16, 1, 0},
    {ZEST_GGUF_TYPE_BF16, ZEST_GGUF_TYPE_BF16, 32, 0}, {ZEST_GGUF_TYPE_Q8_0, ZEST_GGUF_TYPE_F16, 7, 0},
    {ZEST_GGUF_TYPE_Q6_K, ZEST_GGUF_TYPE_Q8_0, 18, 0}, {ZEST_GGUF_TYPE_Q5_K, ZEST_GGUF_TYPE_Q5_1, 16, 1},
    {ZEST_GGUF_TYPE_Q5_1, ZEST_GGUF_TYPE_F16, 9, 1},   {ZEST_GGUF_TYPE_Q5_0, ZEST_GGUF_TYPE_F16, 8, 1},
    {ZEST_GGUF_TYPE_Q4_K, ZEST_GGUF_TYPE_Q5_0, 14, 1}, {ZEST_GGUF_TYPE_Q4_1, ZEST_GGUF_TYPE_F16, 3, 1},
    {ZEST_GGUF_TYPE_Q4_0, ZEST_GGUF_TYPE_F16, 2, 1},   {ZEST_GGUF_TYPE_Q3_K, ZEST_GGUF_TYPE_Q4_0, 11, 1},
    {ZEST_GGUF_TYPE_Q2_K, ZEST_GGUF_TYPE_Q4_0, 10, 1},
};

enum { TYPES = sizeof types / sizeof *types };

static size_t row_of(zest_gguf_type type) {
    size_t i = 0;
    while (i + 1 < TYPES && types[i].type != type) i++;
    return i;
}

int zest_model_find_gguf_type(const char *name, int *type) {
    *type = ZEST_GGUF_TYPE_STORED;
    if (!strcasecmp(name, "stored")) return 1;
    for (size_t i = 0; i < TYPES; i++)
        if (!strcasecmp(name, zest_gguf_type_name(types[i].type))) {
            *type = (int)types[i].type;
            return 1;
        }
    return 0;
}

static zest_gguf_type type_of_dtype(zest_dtype dtype) {
    return dtype == ZEST_DTYPE_F16    ? ZEST_GGUF_TYPE_F16
           : dtype == ZEST_DTYPE_BF16 ? ZEST_GGUF_TYPE_BF16
                                      : ZEST_GGUF_TYPE_F32;
}

/* The type of the model as a whole. */
static zest_gguf_type resolve(const zest_model *model, int type) {
    return type == ZEST_GGUF_TYPE_STORED ? type_of_dtype(model->tensors[0].dtype) : (zest_gguf_type)type;
}

static zest_gguf_type choose(const zest_model *model, const char *name, zest_gguf_type type, size_t columns) {
    size_t elements = 1, bytes;
    int output =
        !strcmp(name, "output.weight") || (model->config.tied_head && !strcmp(name, "token_embd.weight"));
    if (output && types[row_of(type)].below_q6_k) type = ZEST_GGUF_TYPE_Q6_K;
    while (zest_gguf_block_size((uint32_t)type, &elements, &bytes) && columns % elements)
        type = types[row_of(type)].smaller_blocks;
    return type;
}

/* ---- Metadata ---- */

static void put_size(zest_gguf_metadata *metadata, const char *architecture, const char *key, size_t value) {
    char full_key[96];
    snprintf(full_key, sizeof full_key, "%s.%s", architecture, key);
    zest_gguf_put_u32(metadata, full_key, (uint32_t)value);
}

static void put_number(zest_gguf_metadata *metadata, const char *architecture, const char *key,
                       double value) {
    char full_key[96];
    snprintf(full_key, sizeof full_key, "%s.%s", architecture, key);
    zest_gguf_put_f32(metadata, full_key, (float)value);
}

static void put_text(zest_gguf_metadata *metadata, const char *key, const char *text) {
    zest_gguf_put_string(metadata, key, text, strlen(text));
}

static void put_rope(const zest_model_config *config, const char *architecture,
                     zest_gguf_metadata *metadata) {
    const zest_rope *rope = &config->rope;
    int yarn = rope->kind == ZEST_ROPE_YARN;
    char key[96];
    put_size(metadata, architecture, "rope.dimension_count", config->head_dim);
    put_number(metadata, architecture, "rope.freq_base", rope->base);
    if (rope->kind != ZEST_ROPE_LINEAR && !yarn) return; /* Llama 3's scaling is the tensor rope_freqs */
    snprintf(key, sizeof key, "%s.rope.scaling.type", architecture);
    put_text(metadata, key, yarn ? "yarn" : "linear");
    put_number(metadata, architecture, "rope.scaling.factor", rope->factor);
    if (yarn)
        put_size(metadata, architecture, "rope.scaling.original_context_length",
                 (size_t)rope->trained_positions);
}

static void put_sizes(const zest_model_config *config, const char *architecture,
                      zest_gguf_metadata *metadata) {
    int gemma = config->branch_norms; /* llama.cpp has no windows in the other architectures */
    put_size(metadata, architecture, "context_length",
             config->window && !gemma ? config->window : config->max_positions);
    put_size(metadata, architecture, "embedding_length", config->hidden_size);
    put_size(metadata, architecture, "block_count", config->layers);
    put_size(metadata, architecture, "feed_forward_length", config->ffn_size);
    put_size(metadata, architecture, "attention.head_count", config->heads);
    put_size(metadata, architecture, "attention.head_count_kv", config->kv_heads);
    put_size(metadata, architecture, "vocab_size", config->vocab_size);
    put_number(metadata, architecture,
               config->rms_norm ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
               (double)config->epsilon);
    if (config->head_dim * config->heads != config->hidden_size || gemma) {
        put_size(metadata, architecture, "attention.key_length", config->head_dim);
        put_size(metadata, architecture, "attention.value_length", config->head_dim);
    }
}

static void put_gemma(const zest_model_config *config, const char *architecture,
                      zest_gguf_metadata *metadata) {
    put_size(metadata, architecture, "attention.sliding_window",
             config->window ? config->window : config->max_positions);
    if (config->score_cap != 0)
        put_number(metadata, architecture, "attn_logit_softcapping", (double)config->score_cap);
    if (config->logit_cap != 0)
        put_number(metadata, architecture, "final_logit_softcapping", (double)config->logit_cap);
    if (config->local_rope.base != 0)
        put_number(metadata, architecture, "rope.freq_base_swa", config->local_rope.base);
}

/* llama.cpp has YaRN's ramp and length as the paper recommends them. */
static int is_usual_yarn(const zest_rope *rope) {
    double usual = rope->factor > 1 ? 1 + 0.1 * log(rope->factor) : 1;
    return rope->fast_turns == 32 && rope->slow_turns == 1 && rope->whole_bounds &&
           fabs(rope->length - usual) < 1e-6 * usual;
}

/* llama.cpp knows by the architecture which layers are local, and by their number how scores are scaled. */
static zest_status check_gemma(const zest_model_config *config, const zest_gguf_architecture *architecture,
                               zest_error *error) {
    size_t third = config->qk_norm, period = third ? 6 : 2;
    double scalar = (double)zest_gguf_query_scalar(architecture, config->layers, config->hidden_size,
                                                   config->heads, config->head_dim);
    for (size_t i = 0; i < config->layers; i++)
        if (zest_model_is_local(config, i) != ((i + 1) % period != 0))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "a GGUF file of architecture %s has a full layer after %zu local ones, and "
                                  "layer %zu of the model is not so",
                                  architecture->name, period - 1, i);
    if (fabs(1 / sqrt(scalar) - (double)config->attention_scale) > 1e-6)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "the model's query_pre_attn_scalar is not %.0f, the only one that llama.cpp has "
            "for %s with %zu layers",
            scalar, architecture->name, config->layers);
    if ((config->score_cap != 0) == third || (config->logit_cap != 0) == third)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "the model's soft caps are not those of the GGUF architecture %s",
                              architecture->name);
    return ZEST_OK;
}

/* What llama.cpp's graph of the architecture does not have. */
static zest_status check(const zest_model *model, const zest_gguf_architecture *architecture,
                         zest_error *error) {
    const zest_model_config *config = &model->config;
    if (!architecture)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a %s model cannot be a GGUF file: zest exports "
                              "llama, mistral, qwen2, qwen3, phi3, gpt2, gemma2 and gemma3_text",
                              config->family);
    if (config->rope.kind == ZEST_ROPE_YARN && !is_usual_yarn(&config->rope))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "the model's YaRN has other bounds or another length than a GGUF file can say");
    if (config->rope.kind == ZEST_ROPE_LLAMA3 && config->head_dim / 2 > ZEST_GGUF_FREQUENCIES)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "a head of %zu is too large for a GGUF file",
                              config->head_dim);
    if (config->activation != (strcmp(architecture->activation, "silu") ? ZEST_ACT_GELU_TANH : ZEST_ACT_SILU))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "the model's activation is not '%s', the only one that llama.cpp has for %s",
                              architecture->activation, architecture->name);
    return architecture->gemma ? check_gemma(config, architecture, error) : ZEST_OK;
}

zest_status zest_model_put_gguf(const zest_model *model, int type, zest_gguf_metadata *metadata,
                                zest_error *error) {
    const zest_model_config *config = &model->config;
    const zest_gguf_architecture *architecture = zest_gguf_architecture_of(config->family);
    zest_status status = zest_model_refuse_quantized(model, "a model is exported", error);
    if (!status) status = check(model, architecture, error);
    if (status) return status;
    zest_gguf_type whole = resolve(model, type);
    put_text(metadata, "general.architecture", architecture->name);
    put_text(metadata, "general.type", "model");
    zest_gguf_put_u32(metadata, "general.file_type", types[row_of(whole)].file_type);
    zest_gguf_put_u32(metadata, "general.quantization_version", 2);
    put_sizes(config, architecture->name, metadata);
    if (architecture->gemma) put_gemma(config, architecture->name, metadata);
    if (!config->position_rows) put_rope(config, architecture->name, metadata);
    return ZEST_OK;
}

/* ---- Tensors ---- */

/* A tensor of the model, or (data NULL) the factors of the rotary frequencies. */
typedef struct {
    const zest_model *model;
    const char *data;
    zest_dtype dtype;
    size_t rows, columns; /* of the file */
    size_t rotary_heads;
    int transposed;
    float offset;
    char name[128];
} export_tensor;

/* The row of Hugging Face's order that is row `row` of a file whose heads have d rows each. */
static size_t source_row(size_t row, size_t d) {
    size_t within = row % d;
    return row - within + within / 2 + within % 2 * (d / 2);
}

static zest_status fill_factors(const zest_rope *rope, size_t head_dim, float *out) {
    float scaled[ZEST_GGUF_FREQUENCIES];
    zest_rope_frequencies(rope, head_dim, scaled);
    zest_rope_frequencies(&(zest_rope){.base = rope->base}, head_dim, out);
    for (size_t i = 0; i < head_dim / 2; i++) out[i] /= scaled[i];
    return ZEST_OK;
}

/* A vector's elements, or a column, one by one. */
static zest_status gather(const export_tensor *t, size_t row, float *out) {
    size_t size = zest_dtype_size(t->dtype), d = t->rotary_heads ? t->columns / t->rotary_heads : 0;
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < t->columns && !status; i++) {
        size_t at = t->transposed ? i * t->rows + row : source_row(i, d);
        status = zest_dtype_to_float(t->dtype, t->data + at * size, 1, out + i);
    }
    return status;
}

static zest_status fill(void *user, size_t first, size_t rows, float *out, zest_error *error) {
    const export_tensor *t = user;
    size_t size = t->columns * zest_dtype_size(t->dtype);
    int vector = t->rows == 1 && t->rotary_heads;
    zest_status status = ZEST_OK;
    (void)error;
    if (!t->data) return fill_factors(&t->model->config.rope, t->model->config.head_dim, out);
    for (size_t r = 0; r < rows && !status; r++, out += t->columns) {
        size_t row = first + r;
        if (t->transposed || vector) {
            status = gather(t, row, out);
            continue;
        }
        if (t->rotary_heads) row = source_row(row, t->rows / t->rotary_heads);
        status = zest_dtype_to_float(t->dtype, t->data + row * size, t->columns, out);
        for (size_t i = 0; t->offset != 0 && i < t->columns; i++) out[i] += t->offset;
    }
    return status;
}

static zest_status describe(const zest_model *model, size_t i, export_tensor *t, zest_gguf_source *source,
                            int type, zest_error *error) {
    const zest_tensor *tensor = &model->tensors[i];
    const zest_model_tensor_shape *shape = &model->shapes[i];
    const zest_gguf_architecture *architecture = zest_gguf_architecture_of(model->config.family);
    *t = (export_tensor){.model = model, .data = tensor->data, .dtype = tensor->dtype};
    if (!zest_gguf_name_of(architecture, tensor->name, t->name, sizeof t->name))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "tensor '%s' has no place in a GGUF file",
                              tensor->name);
    t->transposed = shape->rank == 2 && model->config.transposed && zest_gguf_is_transposed(tensor->name);
    t->rotary_heads =
        zest_gguf_rotary_heads(architecture, tensor->name, model->config.heads, model->config.kv_heads);
    t->offset = zest_gguf_offset(architecture, tensor->name);
    t->rows = shape->rank == 2 ? shape->shape[t->transposed ? 1 : 0] : 1;
    t->columns = shape->rank == 2 ? shape->shape[t->transposed ? 0 : 1] : shape->shape[0];
    int plain = shape->rank == 1 || !strcmp(t->name, "position_embd.weight");
    zest_gguf_type wanted =
        type == ZEST_GGUF_TYPE_STORED ? type_of_dtype(tensor->dtype) : (zest_gguf_type)type;
    *source =
        (zest_gguf_source){.name = t->name,
                           .type = plain ? ZEST_GGUF_TYPE_F32 : choose(model, t->name, wanted, t->columns),
                           .rank = shape->rank,
                           .fill = fill,
                           .user = t};
    source->shape[0] = shape->rank == 2 ? t->rows : t->columns;
    source->shape[1] = shape->rank == 2 ? t->columns : 0;
    return ZEST_OK;
}

static void describe_factors(const zest_model *model, export_tensor *t, zest_gguf_source *source) {
    *t = (export_tensor){
        .model = model, .rows = 1, .columns = model->config.head_dim / 2, .name = "rope_freqs.weight"};
    *source = (zest_gguf_source){.name = t->name,
                                 .type = ZEST_GGUF_TYPE_F32,
                                 .rank = 1,
                                 .shape = {t->columns},
                                 .fill = fill,
                                 .user = t};
}

zest_status zest_model_write_gguf(const zest_model *model, int type, const zest_gguf_metadata *metadata,
                                  const char *path, int threads, zest_error *error) {
    size_t count = model->tensor_count, extra = model->config.rope.kind == ZEST_ROPE_LLAMA3;
    export_tensor *tensors = calloc(count + 1, sizeof *tensors);
    zest_gguf_source *sources = calloc(count + 1, sizeof *sources);
    zest_status status =
        tensors && sources ? ZEST_OK : zest_error_memory(error, path, (count + 1) * sizeof *tensors);
    for (size_t i = 0; i < count && !status; i++)
        status = describe(model, i, &tensors[i], &sources[i], type, error);
    if (!status && extra) describe_factors(model, &tensors[count], &sources[count]);
    if (!status) status = zest_gguf_write(path, metadata, sources, count + extra, threads, error);
    free(tensors);
    free(sources);
    return status;
}
