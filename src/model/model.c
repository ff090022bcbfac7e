/* Loading a model: every tensor that the forward pass needs is found, checked and given an offset, then memory is
 * allocated, then tensors are copied. And which tensors are trained. */
#include <fnmatch.h>
#include <math.h>
#include <omp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "base/json.h"
#include "base/memory.h"
#include "model/model_files.h"
#include "base/file.h"
#include "rng/noise.h"

enum { ALIGNMENT = 64, NAME_SIZE = 160, LAYER_TENSORS = 20, OTHER_TENSORS = 16 };

typedef struct {
    zest_model *model;
    const zest_model_source *source;
    const zest_model_options *options;
    const zest_family_names *names;
    zest_weight **weights; /* of each tensor, in order */
    zest_model_found *found;
    size_t capacity;
    zest_error *error;
    zest_status status; /* the first error sticks */
} load_ctx;

/* ---- Names ---- */

static int ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && !strcmp(text + a - b, end);
}

/* The spellings of old files: norms with gamma and beta. */
static int find_spelling(const zest_model_source *source, const char *name, zest_model_found *found) {
    if (zest_model_source_find(source, name, found)) return 1;
    int weight = ends_with(name, "orm.weight"),
        bias = ends_with(name, "orm.bias"); /* LayerNorm, layer_norm */
    if (!weight && !bias) return 0;
    char old[NAME_SIZE];
    size_t stem = strlen(name) - (weight ? 6 : 4);
    if (stem >= sizeof old - 8) return 0;
    memcpy(old, name, stem);
    strcpy(old + stem, weight ? "gamma" : "beta");
    return zest_model_source_find(source, old, found);
}

/* With the family's prefix, or without it as the bare model saves them. */
static int find_tensor(const load_ctx *load, const char *name, zest_model_found *found) {
    if (find_spelling(load->source, name, found)) return 1;
    size_t length = strlen(load->names->prefix);
    return !strncmp(name, load->names->prefix, length) && find_spelling(load->source, name + length, found);
}

/* ---- Plan ---- */

static zest_dtype storage_of(const load_ctx *load, zest_dtype file) {
    switch (load->options->storage) {
    case ZEST_MODEL_F32: return ZEST_DTYPE_F32;
    case ZEST_MODEL_BF16: return ZEST_DTYPE_BF16;
    case ZEST_MODEL_F16: return ZEST_DTYPE_F16;
    case ZEST_MODEL_AS_STORED:
    case ZEST_MODEL_QUANTIZED: break;
    }
    return file;
}

/* The blocks that a matrix stays in; 0: it becomes elements of a dtype. */
static int block_type_of(const load_ctx *load, const zest_model_found *found) {
    int asked = load->options->storage == ZEST_MODEL_QUANTIZED && found->gguf && found->rank == 2;
    return asked && !found->transposed && zest_quantized_takes((int)found->gguf->type)
               ? (int)found->gguf->type
               : 0;
}

static void refuse_shape(load_ctx *load, const char *name, const zest_model_found *found, size_t rank,
                         size_t rows, size_t columns) {
    char wanted[64], got[64];
    if (rank == 2)
        snprintf(wanted, sizeof wanted, "[%zu, %zu]", rows, columns);
    else
        snprintf(wanted, sizeof wanted, "[%zu]", columns);
    if (found->rank == 2)
        snprintf(got, sizeof got, "[%zu, %zu]", found->shape[0], found->shape[1]);
    else if (found->rank == 1)
        snprintf(got, sizeof got, "[%zu]", found->shape[0]);
    else
        snprintf(got, sizeof got, "of %zu dimensions", found->rank);
    load->status =
        zest_error_set(load->error, ZEST_ERROR_FORMAT, "%s: tensor '%s' is %s but config.json makes it %s",
                       load->source->path, name, got, wanted);
}

/* The next tensor in order. rows 0: a vector. */
static void add_tensor(load_ctx *load, zest_weight *weight, const char *name, const zest_model_found *found,
                       size_t rows, size_t columns) {
    zest_model *model = load->model;
    size_t rank = rows ? 2 : 1, n = model->params.count;
    int fits = found->rank == rank && (rank == 1 ? found->shape[0] == columns
                                                 : found->shape[0] == rows && found->shape[1] == columns);
    if (!fits) {
        refuse_shape(load, name, found, rank, rows, columns);
        return;
    }
    if (!zest_dtype_is_real(found->dtype)) {
        load->status =
            zest_error_set(load->error, ZEST_ERROR_FORMAT, "%s: tensor '%s' has unsupported dtype %s",
                           load->source->path, name, zest_dtype_name(found->dtype));
        return;
    }
    char *copy = strdup(name);
    if (!copy || n >= load->capacity) {
        free(copy);
        load->status = zest_error_memory(load->error, "names of tensors", strlen(name));
        return;
    }
    zest_dtype dtype = storage_of(load, found->dtype);
    uint64_t count = (uint64_t)(rows ? rows : 1) * columns;
    int blocks = block_type_of(load, found);
    *weight = (zest_weight){.block_type = blocks,
                            .dtype = dtype,
                            .rows = rows ? rows : 1,
                            .columns = columns,
                            .first = model->params.dimension};
    model->quantized |= blocks != 0;
    model->tensors[n] =
        (zest_tensor){copy, blocks ? ZEST_DTYPE_COUNT : dtype, model->params.dimension, count, NULL, {0}};
    model->shapes[n] = (zest_model_tensor_shape){rank, {rows ? rows : columns, rows ? columns : 0}, 0};
    load->weights[n] = weight;
    load->found[n] = *found;
    model->tensor_count = ++model->params.count;
    model->params.dimension += count;
}

static int belongs_to_head(const load_ctx *load, const char *name) {
    const zest_family_names *names = load->names;
    const char *const stems[] = {names->head_dense, names->head_norm, names->head, names->head_bias,
                                 names->head_bias_alias};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
        if (stems[i] && !strncmp(name, stems[i], strlen(stems[i]))) return 1;
    return 0;
}

static void find_and_add(load_ctx *load, zest_weight *weight, const char *name, const char *alias,
                         size_t rows, size_t columns) {
    zest_model_found found;
    if (load->status) return;
    if (load->source->random)
        add_tensor(load, weight, name,
                   &(zest_model_found){.rank = rows ? 2 : 1,
                                       .shape = {rows ? rows : columns, columns},
                                       .dtype = ZEST_DTYPE_F32},
                   rows, columns);
    else if (find_tensor(load, name, &found) || (alias && find_tensor(load, alias, &found)))
        add_tensor(load, weight, name, &found, rows, columns);
    else if (load->source->folder && belongs_to_head(load, name))
        load->status = zest_model_source_head_missing(load->source, name, load->error);
    else
        load->status = zest_error_set(load->error, ZEST_ERROR_FORMAT, "%s: tensor '%s' is missing",
                                      load->source->path, name);
}

/* Tensor `end` ("weight" or "bias") of a stem; layer < 0: not of a layer. */
static void add_part(load_ctx *load, zest_weight *weight, long layer, const char *stem, const char *end,
                     size_t rows, size_t columns) {
    char name[NAME_SIZE];
    if (layer < 0)
        snprintf(name, sizeof name, "%s.%s", stem, end);
    else
        snprintf(name, sizeof name, "%s%ld.%s.%s", load->names->layer, layer, stem, end);
    find_and_add(load, weight, name, NULL, rows, columns);
}

static void add_linear(load_ctx *load, zest_model_affine *affine, long layer, const char *stem,
                       size_t outputs, size_t inputs, int bias) {
    int flip = layer >= 0 && load->model->config.transposed;
    add_part(load, &affine->weight, layer, stem, "weight", flip ? inputs : outputs, flip ? outputs : inputs);
    if (bias) add_part(load, &affine->bias, layer, stem, "bias", 0, outputs);
}

static void add_norm_of(load_ctx *load, zest_model_affine *norm, long layer, const char *stem, size_t width) {
    add_part(load, &norm->weight, layer, stem, "weight", 0, width);
    if (load->model->config.norm_bias && !load->model->config.rms_norm)
        add_part(load, &norm->bias, layer, stem, "bias", 0, width);
}

static void add_norm(load_ctx *load, zest_model_affine *norm, long layer, const char *stem) {
    add_norm_of(load, norm, layer, stem, load->model->config.hidden_size);
}

static void plan_embeddings(load_ctx *load) {
    zest_model *model = load->model;
    const zest_model_config *config = &model->config;
    const zest_family_names *names = load->names;
    add_part(load, &model->tokens, -1, names->tokens, "weight", config->vocab_size, config->embedding_size);
    if (config->position_rows)
        add_part(load, &model->positions, -1, names->positions, "weight", config->position_rows,
                 config->hidden_size);
    if (config->token_types)
        add_part(load, &model->types, -1, names->types, "weight", config->token_types, config->hidden_size);
    if (config->embedding_norm) add_norm(load, &model->embedding_norm, -1, names->embedding_norm);
    if (config->embedding_size != config->hidden_size)
        add_linear(load, &model->project_in, -1, names->project_in, config->hidden_size,
                   config->embedding_size, 0);
}

static void plan_layer(load_ctx *load, size_t i) {
    const zest_model_config *config = &load->model->config;
    const zest_family_names *names = load->names;
    zest_model_layer *layer = &load->model->layers[i];
    long n = (long)i;
    size_t q = config->heads * config->head_dim, kv = config->kv_heads * config->head_dim;
    if (!config->post_norm && !(config->plain_start && !i)) add_norm(load, &layer->norm1, n, names->norm1);
    if (config->fused_qkv) {
        add_linear(load, &layer->qkv, n, names->qkv, q + 2 * kv, config->hidden_size, config->qkv_bias);
    } else if (config->stacked) { /* split_stacked makes three of it */
        size_t first = load->model->params.count;
        add_linear(load, &layer->q, n, names->qkv, q + 2 * kv, config->hidden_size, config->qkv_bias);
        for (size_t t = first; t < load->model->params.count; t++)
            load->model->shapes[t].by_heads = config->by_heads;
    } else {
        add_linear(load, &layer->q, n, names->q, q, config->hidden_size, config->qkv_bias);
        add_linear(load, &layer->k, n, names->k, kv, config->hidden_size, config->qkv_bias);
        add_linear(load, &layer->v, n, names->v, kv, config->hidden_size, config->qkv_bias);
    }
    if (config->qk_norm) {
        add_norm_of(load, &layer->q_norm, n, names->q_norm, config->head_dim);
        add_norm_of(load, &layer->k_norm, n, names->k_norm, config->head_dim);
    }
    add_linear(load, &layer->out, n, names->out, config->hidden_size, q, config->out_bias);
    if (config->branch_norms) add_norm(load, &layer->out_norm, n, names->out_norm);
    if (config->post_norm) add_norm(load, &layer->norm1, n, names->norm1);
    if (!config->post_norm) add_norm(load, &layer->norm2, n, names->norm2);
    if (config->gated)
        add_linear(load, &layer->gate, n, names->gate, config->ffn_size * (config->stacked ? 2 : 1),
                   config->hidden_size, config->ffn_bias);
    if (!config->stacked || !config->gated)
        add_linear(load, &layer->up, n, names->up, config->ffn_size, config->hidden_size, config->ffn_bias);
    add_linear(load, &layer->down, n, names->down, config->hidden_size, config->ffn_size, config->ffn_bias);
    if (config->branch_norms) add_norm(load, &layer->down_norm, n, names->down_norm);
    if (config->post_norm) add_norm(load, &layer->norm2, n, names->norm2);
}

static void plan_head(load_ctx *load) {
    zest_model *model = load->model;
    const zest_model_config *config = &model->config;
    const zest_family_names *names = load->names;
    if (config->final_norm) add_norm(load, &model->final_norm, -1, names->final_norm);
    if (config->embedding_size != config->hidden_size)
        add_linear(load, &model->project_out, -1, names->project_out, config->embedding_size,
                   config->hidden_size, 0);
    if (config->head_transform) {
        add_linear(load, &model->head_dense, -1, names->head_dense, config->hidden_size, config->hidden_size,
                   config->head_dense_bias);
        add_norm(load, &model->head_norm, -1, names->head_norm);
    }
    if (!config->tied_head) {
        char copy[NAME_SIZE];
        snprintf(copy, sizeof copy, "%s.weight", names->tokens);
        find_and_add(load, &model->head.weight, names->head,
                     load->options->untie_head ? copy : names->head_alias, config->vocab_size,
                     config->embedding_size);
    }
    /* A tied head shares the bias of the module around it; one of its own has its own bias, and the module's,
     * which nothing uses, is saved as a copy of it. */
    int module = config->tied_head || !names->head_bias_alias;
    if (config->head_bias)
        find_and_add(load, &model->head.bias, module ? names->head_bias : names->head_bias_alias,
                     module ? names->head_bias_alias : names->head_bias, 0, config->vocab_size);
    if (config->head_bias && !module) model->head_bias_alias = names->head_bias;
}

/* ---- Stacked matrices ---- */

/* The rest of a matrix, from `rows` on, becomes a weight of its own, which reads the same tensor. */
static void split_rows(zest_weight *weight, size_t rows, zest_weight *rest) {
    size_t count = rows * weight->columns;
    if (!weight->data) return;
    *rest = *weight;
    rest->data = (const char *)weight->data + zest_weight_bytes(weight, count);
    rest->first += count;
    rest->rows -= rows;
    weight->rows = rows;
}

static void split_vector(zest_weight *weight, size_t count, zest_weight *rest) {
    if (!weight->data) return;
    weight->rows = weight->columns, weight->columns = 1;
    split_rows(weight, count, rest);
    rest->columns = rest->rows, weight->columns = weight->rows;
    rest->rows = weight->rows = 1;
}

static void split(zest_model_affine *affine, size_t outputs, zest_model_affine *rest) {
    split_rows(&affine->weight, outputs, &rest->weight);
    split_vector(&affine->bias, outputs, &rest->bias);
}

static void split_stacked(zest_model *model) {
    const zest_model_config *config = &model->config;
    for (size_t i = 0; i < config->layers; i++) {
        zest_model_layer *layer = &model->layers[i];
        split(&layer->q, config->heads * config->head_dim, &layer->k);
        split(&layer->k, config->kv_heads * config->head_dim, &layer->v);
        if (config->gated) split(&layer->gate, config->ffn_size, &layer->up);
    }
}

/* ---- Memory ---- */

static zest_status alloc_tables(load_ctx *load) {
    zest_model *model = load->model;
    load->capacity = model->config.layers * LAYER_TENSORS + OTHER_TENSORS;
    model->layers = calloc(model->config.layers, sizeof *model->layers);
    model->tensors = calloc(load->capacity, sizeof *model->tensors);
    model->shapes = calloc(load->capacity, sizeof *model->shapes);
    load->weights = calloc(load->capacity, sizeof *load->weights);
    load->found = calloc(load->capacity, sizeof *load->found);
    model->params.tensors = model->tensors;
    if (model->layers && model->tensors && model->shapes && load->weights && load->found) return ZEST_OK;
    return zest_error_memory(load->error, load->source->path, load->capacity * sizeof *load->found);
}

/* The offset of a tensor in the arena, from *end on: each starts on a cache line of its own. */
static size_t next_offset(const zest_tensor *tensor, const zest_weight *weight, size_t *end) {
    size_t offset = *end;
    size_t size = zest_weight_bytes(weight, (size_t)tensor->count);
    *end = offset + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
}

static zest_status copy_tensor(load_ctx *load, size_t i, int threads) {
    const zest_tensor *tensor = &load->model->tensors[i];
    const zest_model_found *found = &load->found[i];
    if (load->source->random)
        return zest_model_source_randomize(load->source, tensor, &load->model->shapes[i],
                                           1 - load->model->config.norm_offset, threads);
    if (load->weights[i]->block_type) return zest_model_source_copy_blocks(found, tensor->data, load->error);
    return zest_model_source_copy(found, tensor->dtype, threads, tensor->data, load->error);
}

static zest_status copy_tensors(load_ctx *load) {
    zest_model *model = load->model;
    for (size_t i = 0; i < model->params.count; i++)
        next_offset(&model->tensors[i], load->weights[i], &model->arena_size);
    model->arena = zest_memory_new(model->arena_size);
    if (!model->arena) return zest_error_memory(load->error, load->source->path, model->arena_size);
    int threads = load->options->threads > 0 ? load->options->threads : omp_get_max_threads();
    size_t end = 0;
    for (size_t i = 0; i < model->params.count; i++) {
        zest_tensor *tensor = &model->tensors[i];
        tensor->data = (char *)model->arena + next_offset(tensor, load->weights[i], &end);
        load->weights[i]->data = tensor->data;
        if (load->options->blank) continue;
        zest_status status = copy_tensor(load, i, threads);
        if (!status && model->shapes[i].by_heads && !load->source->random && !load->source->gguf)
            status = zest_model_group_heads(model, i, load->error);
        if (status) return status;
    }
    if (model->config.tied_head) model->head.weight = model->tokens;
    if (model->config.stacked) split_stacked(model);
    return ZEST_OK;
}

static zest_status fill_rotary(zest_model *model, zest_error *error) {
    const zest_model_config *config = &model->config;
    size_t half = zest_model_rotary_dim(config) / 2;
    for (size_t i = 0; i < 2; i++) {
        const zest_rope *rope = i ? &config->local_rope : &config->rope;
        if (config->position_rows || rope->base == 0) continue;
        model->rotary[i] = malloc(half * sizeof *model->rotary[i]);
        if (!model->rotary[i])
            return zest_error_memory(error, "rotary positions", half * sizeof *model->rotary[i]);
        zest_rope_frequencies(rope, zest_model_rotary_dim(config), model->rotary[i]);
    }
    return ZEST_OK;
}

/* ---- Loading ---- */

static const char *storage_name(zest_model_storage storage) {
    if (storage == ZEST_MODEL_F32) return "float32";
    return storage == ZEST_MODEL_BF16 ? "bfloat16" : "float16";
}

/* config.json for the saved model: the file's own bytes, unless what they say no longer holds. */
static zest_status store_config(load_ctx *load, zest_model_source *source) {
    const zest_model_options *options = load->options;
    const char *key = json_object_get(source->config_json, "dtype") ? "dtype" : "torch_dtype";
    const char *stated = json_string_value(json_object_get(source->config_json, key));
    int retyped = options->storage != ZEST_MODEL_AS_STORED && options->storage != ZEST_MODEL_QUANTIZED &&
                  stated && strcmp(stated, storage_name(options->storage));
    if (!retyped && !options->untie_head) {
        load->model->config_json = source->config_text;
        source->config_text = NULL;
        return ZEST_OK;
    }
    int failed =
        retyped && json_object_set_new(source->config_json, key, json_string(storage_name(options->storage)));
    if (options->untie_head)
        failed |= json_object_set_new(source->config_json, "tie_word_embeddings", json_false());
    load->model->config_json = failed ? NULL : zest_json_dump(source->config_json, JSON_INDENT(2));
    return load->model->config_json ? ZEST_OK : zest_error_memory(load->error, source->config_path, 0);
}

static zest_status load_from(load_ctx *load, zest_model_source *source) {
    zest_model *model = load->model;
    zest_status status = zest_family_describe(source->config_json, source->config_path, &model->config,
                                              &load->names, load->error);
    if (status) return status;
    if (load->options->untie_head) model->config.tied_head = 0;
    status = zest_model_source_check_head(source, load->error);
    if (!status) status = alloc_tables(load);
    if (status) return status;
    plan_embeddings(load);
    for (size_t i = 0; i < model->config.layers && !load->status; i++) plan_layer(load, i);
    plan_head(load);
    if (!load->status)
        load->status = zest_model_source_check_unused(source, load->names, model->config.layers, load->found,
                                                      model->params.count, load->error);
    if (!load->status) load->status = copy_tensors(load);
    if (!load->status) load->status = fill_rotary(model, load->error);
    if (!load->status) load->status = store_config(load, source);
    if (!load->status && source->folder && !(model->folder = strdup(source->path)))
        load->status = zest_error_memory(load->error, source->path, strlen(source->path));
    return load->status;
}

/* Loads the model from an opened source, and closes that. */
static zest_status load_and_close(zest_model_source *source, zest_status status,
                                  const zest_model_options *options, zest_model **model, zest_error *error) {
    static const zest_model_options defaults = {0};
    load_ctx load = {.source = source, .options = options ? options : &defaults, .error = error};
    *model = load.model = calloc(1, sizeof **model);
    if (!*model && !status) status = zest_error_memory(error, source->path, sizeof **model);
    if (!status) status = load_from(&load, source);
    zest_model_source_close(source);
    free(load.weights);
    free(load.found);
    if (status) {
        zest_model_free(*model);
        *model = NULL;
    }
    return status;
}

zest_status zest_model_load(const char *path, const zest_model_options *options, zest_model **model,
                            zest_error *error) {
    zest_model_source source = {0};
    zest_status status = zest_model_source_open(path, &source, error);
    return load_and_close(&source, status, options, model, error);
}

zest_status zest_model_random(const char *config_json, uint64_t seed, const zest_model_options *options,
                              zest_model **model, zest_error *error) {
    zest_model_source source = {.path = "random weights", .random = 1, .seed = seed};
    zest_status status =
        zest_json_parse(config_json, strlen(config_json), "the configuration", &source.config_json, error);
    source.config_text = strdup(config_json);
    source.config_path = strdup("the configuration");
    if (!status && (!source.config_text || !source.config_path))
        status = zest_error_memory(error, "the configuration of the model", strlen(config_json));
    return load_and_close(&source, status, options, model, error);
}

zest_status zest_model_refuse_quantized(const zest_model *model, const char *what, zest_error *error) {
    if (!model->quantized) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "these weights are blocks of a GGUF file, which are only read: %s with other "
                          "--weights, such as stored",
                          what);
}

void zest_model_free(zest_model *model) {
    if (!model) return;
    for (size_t i = 0; i < model->tensor_count; i++) free((void *)(uintptr_t)model->tensors[i].name);
    free(model->layers);
    free(model->trained);
    free(model->tensors);
    free(model->shapes);
    for (size_t i = 0; i < 2; i++) free(model->rotary[i]);
    free(model->arena);
    free(model->inputs);
    free(model->config_json);
    free(model->folder);
    free(model);
}

zest_status zest_model_read_config(const char *config_json, zest_model_config *config, zest_error *error) {
    const zest_family_names *names;
    json_t *root;
    zest_status status = zest_json_parse(config_json, strlen(config_json), "the configuration", &root, error);
    if (!status) status = zest_family_describe(root, "the configuration", config, &names, error);
    json_decref(root);
    return status;
}

/* ---- Trained tensors ---- */

/* Whether one of the patterns matches. */
static int matches(const char *patterns, const char *name) {
    char one[256];
    for (const char *at = patterns; *at;) {
        size_t length = strcspn(at, ",");
        if (length && length < sizeof one) {
            memcpy(one, at, length);
            one[length] = '\0';
            if (!fnmatch(one, name, 0)) return 1;
        }
        at += length + (at[length] == ',');
    }
    return 0;
}

static zest_status check_patterns(const zest_model *model, const char *patterns, zest_error *error) {
    char one[256];
    for (const char *at = patterns; *at;) {
        size_t length = strcspn(at, ","), found = 0;
        if (length >= sizeof one)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "a pattern of tensor names is too long: %.40s...", at);
        memcpy(one, at, length);
        one[length] = '\0';
        for (size_t i = 0; i < model->tensor_count; i++) found += !fnmatch(one, model->tensors[i].name, 0);
        if (!found)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "no tensor is called '%s'; names are like '%s' and '%s', and * stands for "
                                  "any characters",
                                  one, model->tensors[0].name, model->tensors[model->tensor_count - 1].name);
        at += length + (at[length] == ',');
    }
    return ZEST_OK;
}

/* Sets the first parameter number, or that it is frozen, of the weights that read this tensor: a tied head is a
 * second one, and a stacked matrix has several. */
typedef struct {
    const zest_tensor *tensor;
    uint64_t first;
    int frozen;
} trainable_args;

static void set_trainable(zest_weight *weight, void *user) {
    const trainable_args *args = user;
    const char *begin = args->tensor->data, *data = weight->data;
    size_t size = zest_dtype_size(args->tensor->dtype);
    if (!data || data < begin || data >= begin + args->tensor->count * size) return;
    weight->first = args->first + (uint64_t)(data - begin) / size;
    weight->frozen = args->frozen;
}

zest_status zest_model_select_trainable(zest_model *model, const char *train_only, const char *freeze,
                                        zest_error *error) {
    if (!*train_only && !*freeze) return ZEST_OK;
    zest_status status = zest_model_refuse_quantized(model, "tensors are frozen", error);
    if (!status) status = check_patterns(model, train_only, error);
    if (!status) status = check_patterns(model, freeze, error);
    if (status) return status;
    zest_tensor *trained = calloc(model->tensor_count, sizeof *trained);
    if (!trained) return zest_error_memory(error, "names of tensors", model->tensor_count * sizeof *trained);
    zest_params params = {.tensors = trained};
    for (size_t i = 0; i < model->tensor_count; i++) {
        zest_tensor *tensor = &model->tensors[i];
        int frozen = (*train_only && !matches(train_only, tensor->name)) || matches(freeze, tensor->name);
        zest_model_each_weight(model, set_trainable, &(trainable_args){tensor, params.dimension, frozen});
        if (frozen) continue;
        tensor->first = params.dimension;
        trained[params.count++] = *tensor;
        params.dimension += tensor->count;
    }
    free(model->trained);
    model->trained = trained;
    model->params = params;
    if (params.count) return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "every tensor is frozen: --train-only '%s' and --freeze '%s' leave nothing to train", train_only,
        freeze);
}

/* ---- Weights ---- */

_Static_assert(sizeof(zest_model_layer) % sizeof(zest_model_affine) == 0, "a layer is an array of affines");

void zest_model_each_weight(zest_model *model, void (*visit)(zest_weight *weight, void *user), void *user) {
    zest_weight *tables[] = {&model->tokens, &model->positions, &model->types};
    zest_model_affine *affines[] = {
        &model->embedding_norm, &model->project_in, &model->final_norm, &model->project_out,
        &model->head_dense,     &model->head_norm,  &model->head};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) visit(tables[i], user);
    for (size_t i = 0; i < sizeof affines / sizeof *affines; i++)
        visit(&affines[i]->weight, user), visit(&affines[i]->bias, user);
    for (size_t i = 0; i < model->config.layers; i++) {
        zest_model_affine *row = (zest_model_affine *)&model->layers[i];
        for (size_t j = 0; j < sizeof model->layers[i] / sizeof *row; j++)
            visit(&row[j].weight, user), visit(&row[j].bias, user);
    }
}
