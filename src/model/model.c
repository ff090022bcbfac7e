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
#include "model/families.h"
#include "model/model_files.h"
#include "base/file.h"
#include "rng/noise.h"

enum { ALIGNMENT = 64, NAME_ROOM = 160, LAYER_TENSORS = 20, OTHER_TENSORS = 16 };

/* Loading: first every tensor is found, checked and given its place, then memory is taken, then they are
 * copied. */
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
} loading;

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
    char old[NAME_ROOM];
    size_t stem = strlen(name) - (weight ? 6 : 4);
    if (stem >= sizeof old - 8) return 0;
    memcpy(old, name, stem);
    strcpy(old + stem, weight ? "gamma" : "beta");
    return zest_model_source_find(source, old, found);
}

/* With the family's prefix, or without it as the bare model saves them. */
static int find_tensor(const loading *load, const char *name, zest_model_found *found) {
    if (find_spelling(load->source, name, found)) return 1;
    size_t length = strlen(load->names->prefix);
    return !strncmp(name, load->names->prefix, length) && find_spelling(load->source, name + length, found);
}

/* ---- Planning ---- */

static zest_dtype storage_of(const loading *load, zest_dtype file) {
    switch (load->options->storage) {
    case ZEST_MODEL_F32: return ZEST_DTYPE_F32;
    case ZEST_MODEL_BF16: return ZEST_DTYPE_BF16;
    case ZEST_MODEL_F16: return ZEST_DTYPE_F16;
    case ZEST_MODEL_AS_STORED: break;
    }
    return file;
}

static void refuse_shape(loading *load, const char *name, const zest_model_found *found, size_t rank,
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
static void take(loading *load, zest_weight *weight, const char *name, const zest_model_found *found,
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
            zest_error_set(load->error, ZEST_ERROR_FORMAT, "%s: tensor '%s' has type %s, which is no weight",
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
    *weight = (zest_weight){
        .dtype = dtype, .rows = rows ? rows : 1, .columns = columns, .first = model->params.dimension};
    model->tensors[n] = (zest_tensor){copy, dtype, model->params.dimension, count, NULL};
    model->shapes[n] = (zest_model_tensor_shape){rank, {rows ? rows : columns, rows ? columns : 0}};
    load->weights[n] = weight;
    load->found[n] = *found;
    model->tensor_count = ++model->params.count;
    model->params.dimension += count;
}

static int is_of_head(const loading *load, const char *name) {
    const zest_family_names *names = load->names;
    const char *const stems[] = {names->head_dense, names->head_norm, names->head, names->head_bias,
                                 names->head_bias_alias};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
        if (stems[i] && !strncmp(name, stems[i], strlen(stems[i]))) return 1;
    return 0;
}

static void want(loading *load, zest_weight *weight, const char *name, const char *alias, size_t rows,
                 size_t columns) {
    zest_model_found found;
    if (load->status) return;
    if (load->source->random)
        take(load, weight, name,
             &(zest_model_found){
                 .rank = rows ? 2 : 1, .shape = {rows ? rows : columns, columns}, .dtype = ZEST_DTYPE_F32},
             rows, columns);
    else if (find_tensor(load, name, &found) || (alias && find_tensor(load, alias, &found)))
        take(load, weight, name, &found, rows, columns);
    else if (load->source->folder && is_of_head(load, name))
        load->status = zest_model_head_missing(load->source, name, load->error);
    else
        load->status = zest_error_set(load->error, ZEST_ERROR_FORMAT, "%s: tensor '%s' is missing",
                                      load->source->path, name);
}

/* Tensor `end` ("weight" or "bias") of a stem; layer < 0: not of a layer. */
static void want_part(loading *load, zest_weight *weight, long layer, const char *stem, const char *end,
                      size_t rows, size_t columns) {
    char name[NAME_ROOM];
    if (layer < 0)
        snprintf(name, sizeof name, "%s.%s", stem, end);
    else
        snprintf(name, sizeof name, "%s%ld.%s.%s", load->names->layer, layer, stem, end);
    want(load, weight, name, NULL, rows, columns);
}

static void want_linear(loading *load, zest_model_affine *affine, long layer, const char *stem,
                        size_t outputs, size_t inputs, int bias) {
    int flip = layer >= 0 && load->model->config.transposed;
    want_part(load, &affine->weight, layer, stem, "weight", flip ? inputs : outputs, flip ? outputs : inputs);
    if (bias) want_part(load, &affine->bias, layer, stem, "bias", 0, outputs);
}

static void want_norm(loading *load, zest_model_affine *norm, long layer, const char *stem) {
    const zest_model_config *config = &load->model->config;
    want_part(load, &norm->weight, layer, stem, "weight", 0, config->hidden_size);
    if (!config->rms_norm) want_part(load, &norm->bias, layer, stem, "bias", 0, config->hidden_size);
}

static void plan_embeddings(loading *load) {
    zest_model *model = load->model;
    const zest_model_config *config = &model->config;
    const zest_family_names *names = load->names;
    want_part(load, &model->tokens, -1, names->tokens, "weight", config->vocab_size, config->embedding_size);
    if (config->position_rows)
        want_part(load, &model->positions, -1, names->positions, "weight", config->position_rows,
                  config->hidden_size);
    if (config->token_types)
        want_part(load, &model->types, -1, names->types, "weight", config->token_types, config->hidden_size);
    if (config->embedding_norm) want_norm(load, &model->embedding_norm, -1, names->embedding_norm);
    if (config->embedding_size != config->hidden_size)
        want_linear(load, &model->project_in, -1, names->project_in, config->hidden_size,
                    config->embedding_size, 0);
}

static void plan_layer(loading *load, size_t i) {
    const zest_model_config *config = &load->model->config;
    const zest_family_names *names = load->names;
    zest_model_layer *layer = &load->model->layers[i];
    long n = (long)i;
    size_t q = config->heads * config->head_dim, kv = config->kv_heads * config->head_dim;
    if (!config->post_norm) want_norm(load, &layer->norm1, n, names->norm1);
    if (config->fused_qkv) {
        want_linear(load, &layer->qkv, n, names->qkv, q + 2 * kv, config->hidden_size, config->qkv_bias);
    } else {
        want_linear(load, &layer->q, n, names->q, q, config->hidden_size, config->qkv_bias);
        want_linear(load, &layer->k, n, names->k, kv, config->hidden_size, config->qkv_bias);
        want_linear(load, &layer->v, n, names->v, kv, config->hidden_size, config->qkv_bias);
    }
    want_linear(load, &layer->out, n, names->out, config->hidden_size, q, config->out_bias);
    if (config->post_norm) want_norm(load, &layer->norm1, n, names->norm1);
    if (!config->post_norm) want_norm(load, &layer->norm2, n, names->norm2);
    if (config->gated)
        want_linear(load, &layer->gate, n, names->gate, config->ffn_size, config->hidden_size,
                    config->ffn_bias);
    want_linear(load, &layer->up, n, names->up, config->ffn_size, config->hidden_size, config->ffn_bias);
    want_linear(load, &layer->down, n, names->down, config->hidden_size, config->ffn_size, config->ffn_bias);
    if (config->post_norm) want_norm(load, &layer->norm2, n, names->norm2);
}

static void plan_head(loading *load) {
    zest_model *model = load->model;
    const zest_model_config *config = &model->config;
    const zest_family_names *names = load->names;
    if (config->final_norm) want_norm(load, &model->final_norm, -1, names->final_norm);
    if (config->embedding_size != config->hidden_size)
        want_linear(load, &model->project_out, -1, names->project_out, config->embedding_size,
                    config->hidden_size, 0);
    if (config->head_transform) {
        want_linear(load, &model->head_dense, -1, names->head_dense, config->hidden_size, config->hidden_size,
                    1);
        want_norm(load, &model->head_norm, -1, names->head_norm);
    }
    if (!config->tied_head) {
        char copy[NAME_ROOM];
        snprintf(copy, sizeof copy, "%s.weight", names->tokens);
        want(load, &model->head.weight, names->head, load->options->untie_head ? copy : NULL,
             config->vocab_size, config->embedding_size);
    }
    /* A tied head shares the bias of the module around it; one of its own has its own bias, and the module's,
     * which nothing uses, is saved as a copy of it. */
    if (config->head_bias)
        want(load, &model->head.bias, config->tied_head ? names->head_bias : names->head_bias_alias,
             config->tied_head ? names->head_bias_alias : names->head_bias, 0, config->vocab_size);
    if (config->head_bias && !config->tied_head) model->head_bias_twin = names->head_bias;
}

/* ---- Memory ---- */

static zest_status make_tables(loading *load) {
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

/* Every tensor starts on a cache line of its own. */
static size_t place(const zest_tensor *tensor, size_t *end) {
    size_t at = *end;
    size_t size = (size_t)tensor->count * zest_dtype_size(tensor->dtype);
    *end = at + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static zest_status fill(loading *load) {
    zest_model *model = load->model;
    for (size_t i = 0; i < model->params.count; i++) place(&model->tensors[i], &model->arena_size);
    model->arena = zest_memory_new(model->arena_size);
    if (!model->arena) return zest_error_memory(load->error, load->source->path, model->arena_size);
    int threads = load->options->threads > 0 ? load->options->threads : omp_get_max_threads();
    size_t end = 0;
    for (size_t i = 0; i < model->params.count; i++) {
        zest_tensor *tensor = &model->tensors[i];
        tensor->data = (char *)model->arena + place(tensor, &end);
        load->weights[i]->data = tensor->data;
        zest_status status =
            load->source->random
                ? zest_model_source_invent(load->source, tensor, &model->shapes[i], threads)
                : zest_model_source_copy(&load->found[i], tensor->dtype, threads, tensor->data, load->error);
        if (status) return status;
    }
    if (model->config.tied_head) model->head.weight = model->tokens;
    return ZEST_OK;
}

/* Angles per position, in float as the models were trained with them. Llama 3 stretches the slow ones, keeps
 * the fast ones and blends in between. */
static float angle(const zest_model_rope *rope, size_t i, size_t size) {
    float plain = 1.0f / powf((float)rope->base, (float)(2 * i) / (float)size);
    if (rope->kind == ZEST_MODEL_ROPE_LINEAR) return plain / (float)rope->factor;
    if (rope->kind == ZEST_MODEL_ROPE_PLAIN) return plain;
    double wavelength = 2 * 3.14159265358979323846 / (double)plain;
    double turns = rope->trained_positions / wavelength;
    if (turns > rope->high_factor) return plain;
    if (turns < rope->low_factor) return (float)((double)plain / rope->factor);
    double blend = (turns - rope->low_factor) / (rope->high_factor - rope->low_factor);
    return (float)((1 - blend) * (double)plain / rope->factor + blend * (double)plain);
}

static zest_status make_rotary(zest_model *model, zest_error *error) {
    size_t half = model->config.head_dim / 2;
    if (model->config.position_rows) return ZEST_OK;
    model->rotary = malloc(half * sizeof *model->rotary);
    if (!model->rotary) return zest_error_memory(error, "rotary positions", half * sizeof *model->rotary);
    for (size_t i = 0; i < half; i++)
        model->rotary[i] = angle(&model->config.rope, i, model->config.head_dim);
    return ZEST_OK;
}

/* ---- The whole ---- */

static const char *storage_name(zest_model_storage storage) {
    if (storage == ZEST_MODEL_F32) return "float32";
    return storage == ZEST_MODEL_BF16 ? "bfloat16" : "float16";
}

/* config.json for the saved model: the file's own bytes, unless what they say no longer holds. */
static zest_status keep_config(loading *load, zest_model_source *source) {
    const zest_model_options *options = load->options;
    const char *key = json_object_get(source->config_json, "dtype") ? "dtype" : "torch_dtype";
    const char *stated = json_string_value(json_object_get(source->config_json, key));
    int retyped =
        options->storage != ZEST_MODEL_AS_STORED && stated && strcmp(stated, storage_name(options->storage));
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

static zest_status load_from(loading *load, zest_model_source *source) {
    zest_model *model = load->model;
    zest_status status = zest_family_describe(source->config_json, source->config_path, &model->config,
                                              &load->names, load->error);
    if (status) return status;
    if (load->options->untie_head) model->config.tied_head = 0;
    status = zest_model_head_check(source, load->error);
    if (!status) status = make_tables(load);
    if (status) return status;
    plan_embeddings(load);
    for (size_t i = 0; i < model->config.layers && !load->status; i++) plan_layer(load, i);
    plan_head(load);
    if (!load->status) load->status = fill(load);
    if (!load->status) load->status = make_rotary(model, load->error);
    if (!load->status) load->status = keep_config(load, source);
    if (!load->status && source->folder && !(model->folder = strdup(source->path)))
        load->status = zest_error_memory(load->error, source->path, strlen(source->path));
    return load->status;
}

/* Takes the model out of an opened source, and closes it. */
static zest_status make(zest_model_source *source, zest_status status, const zest_model_options *options,
                        zest_model **model, zest_error *error) {
    static const zest_model_options defaults = {0};
    loading load = {.source = source, .options = options ? options : &defaults, .error = error};
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
    return make(&source, status, options, model, error);
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
    return make(&source, status, options, model, error);
}

void zest_model_free(zest_model *model) {
    if (!model) return;
    for (size_t i = 0; i < model->tensor_count; i++) free((void *)(uintptr_t)model->tensors[i].name);
    free(model->layers);
    free(model->trained);
    free(model->tensors);
    free(model->shapes);
    free(model->rotary);
    free(model->arena);
    free(model->config_json);
    free(model->folder);
    free(model);
}

/* A checkpoint without the language-model head: what it is instead, and which one to take. */

static int begins_with(const char *text, const char *start) { return !strncmp(text, start, strlen(start)); }

/* Heads of transformers' other model classes, by the names of their tensors. */
static const struct {
    const char *start, *what;
} others[] = {
    {"classifier.", "a classification head"},
    {"score.", "a classification head"},
    {"qa_outputs.", "a question-answering head"},
};

static int is_language_head(const char *name) {
    return begins_with(name, "lm_head.") || begins_with(name, "cls.predictions.");
}

/* What the file has in place of the language-model head; NULL: it has that, or no head at all. */
static const char *other_head(const zest_safetensors *file, const char **tensor) {
    const char *found = NULL;
    for (size_t i = 0; i < zest_safetensors_count(file); i++) {
        const char *name = zest_safetensors_at(file, i)->name;
        if (is_language_head(name)) return NULL;
        for (size_t k = 0; k < sizeof others / sizeof *others && !found; k++)
            if (begins_with(name, others[k].start)) found = others[k].what, *tensor = name;
    }
    return found;
}

/* A text of config.json that may go into a message. */
static const char *printable(const json_t *text, const char *fallback) {
    const char *value = json_string_value(text);
    return value && *value && zest_map_printable(value, strlen(value)) ? value : fallback;
}

static const char *architecture(const zest_model_source *source) {
    return printable(json_array_get(json_object_get(source->config_json, "architectures"), 0),
                     "no architecture");
}

/* " (config.json names NAME)", where it says what the checkpoint was made from and that is no path; else "".
 */
static void name_base(const zest_model_source *source, char *out, size_t size) {
    const char *base = printable(json_object_get(source->config_json, "_name_or_path"), "");
    *out = '\0';
    if (*base && *base != '/' && *base != '.') snprintf(out, size, " (config.json names %.100s)", base);
}

zest_status zest_model_head_check(const zest_model_source *source, zest_error *error) {
    const char *tensor = "", *what = source->folder ? other_head(source->folder, &tensor) : NULL;
    char base[160];
    if (!what) return ZEST_OK;
    name_base(source, base, sizeof base);
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: config.json names %.80s, and the weights have %s (tensor '%.80s') but no "
                          "language-model head. zest classifies by the language-model head's scores of label "
                          "words: use the pretrained language model that this one was fine-tuned from%s",
                          source->path, architecture(source), what, tensor, base);
}

zest_status zest_model_head_missing(const zest_model_source *source, const char *name, zest_error *error) {
    char base[160];
    name_base(source, base, sizeof base);
    return zest_error_set(
        error, ZEST_ERROR_FORMAT,
        "%s: tensor '%s' is missing: these are the weights of a model without its "
        "language-model head (config.json names %.80s), as sentence-embedding models have them. "
        "zest needs that head: use the pretrained language model with it%s",
        source->path, name, architecture(source), base);
}

/* Shapes without files: random weights, and descriptions alone. */

enum { SLICE = 4096 };

static int is_gain(const zest_tensor *tensor, const zest_model_tensor_shape *shape) {
    size_t length = strlen(tensor->name);
    return shape->rank == 1 && length > 7 && !strcmp(tensor->name + length - 7, ".weight");
}

static void invent_slice(const zest_noise *noise, const zest_model_source *source, const zest_tensor *tensor,
                         int gain, int64_t slice) {
    float values[SLICE];
    uint64_t first = (uint64_t)slice * SLICE, left = tensor->count - first;
    size_t count = left < SLICE ? (size_t)left : SLICE;
    noise->normal(values, source->seed, tensor->first + first, count);
    for (size_t i = 0; i < count; i++) values[i] = gain ? 1.0f : 0.02f * values[i];
    zest_dtype_from_float(tensor->dtype, values, count,
                          (char *)tensor->data + first * zest_dtype_size(tensor->dtype));
}

zest_status zest_model_source_invent(const zest_model_source *source, const zest_tensor *tensor,
                                     const zest_model_tensor_shape *shape, int threads) {
    zest_cpu cpu = ZEST_CPU_PLAIN;
    (void)zest_cpu_detect(&cpu, NULL); /* an unknown ZEST_CPU is reported by what runs the model */
    const zest_noise *noise = zest_noise_for(cpu);
    int gain = is_gain(tensor, shape);
    int64_t slices = (int64_t)((tensor->count + SLICE - 1) / SLICE);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t s = 0; s < slices; s++) invent_slice(noise, source, tensor, gain, s);
    return ZEST_OK;
}

zest_status zest_model_read_config(const char *config_json, zest_model_config *config, zest_error *error) {
    const zest_family_names *names;
    json_t *root;
    zest_status status = zest_json_parse(config_json, strlen(config_json), "the configuration", &root, error);
    if (!status) status = zest_family_describe(root, "the configuration", config, &names, error);
    json_decref(root);
    return status;
}

#define ROBERTA(width, layers, heads, inner)                                                          \
    "{\"model_type\": \"roberta\", \"vocab_size\": 50265, \"hidden_size\": " #width                   \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads                          \
    ", \"intermediate_size\": " #inner ", \"max_position_embeddings\": 514, \"type_vocab_size\": 1, " \
    "\"layer_norm_eps\": 1e-5, \"hidden_act\": \"gelu\", "                                            \
    "\"pad_token_id\": 1}"
#define OPT(width, layers, heads, inner)                                                                   \
    "{\"model_type\": \"opt\", \"vocab_size\": 50272, \"hidden_size\": " #width                            \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads ", \"ffn_dim\": " #inner      \
    ", \"word_embed_proj_dim\": " #width ", \"max_position_embeddings\": 2048, \"do_layer_norm_before\": " \
    "true, \"activation_function\": \"relu\"}"
#define LLAMA(type, vocabulary, width, layers, heads, kv_heads, inner, base, tied)             \
    "{\"model_type\": \"" type "\", \"vocab_size\": " #vocabulary ", \"hidden_size\": " #width \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads                   \
    ", \"num_key_value_heads\": " #kv_heads ", \"intermediate_size\": " #inner                 \
    ", \"max_position_embeddings\": 2048, \"rope_theta\": " #base                              \
    ", \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "                                     \
    "\"tie_word_embeddings\": " #tied "}"

static const struct {
    const char *name, *config_json;
} shapes[] = {
    {"roberta-6x512", ROBERTA(512, 6, 8, 2048)},
    {"roberta-base", ROBERTA(768, 12, 12, 3072)},
    {"roberta-large", ROBERTA(1024, 24, 16, 4096)},
    {"opt-125m", OPT(768, 12, 12, 3072)},
    {"opt-1.3b", OPT(2048, 24, 32, 8192)},
    {"opt-2.7b", OPT(2560, 32, 32, 10240)},
    {"opt-6.7b", OPT(4096, 32, 32, 16384)},
    {"gpt2", "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024, \"n_embd\": 768, "
             "\"n_layer\": 12, "
             "\"n_head\": 12, \"layer_norm_epsilon\": 1e-5, \"activation_function\": \"gelu_new\"}"},
    {"smollm2-135m", LLAMA("llama", 49152, 576, 30, 9, 3, 1536, 100000, true)},
    {"qwen2-0.5b", LLAMA("qwen2", 151936, 896, 24, 14, 2, 4864, 1000000, true)},
    {"tinyllama-1.1b", LLAMA("llama", 32000, 2048, 22, 32, 4, 5632, 10000, false)},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

const char *zest_shapes_config(const char *name) {
    for (int i = 0; i < SHAPES; i++)
        if (!strcmp(shapes[i].name, name)) return shapes[i].config_json;
    return NULL;
}

const char *zest_shapes_name(int i) { return i >= 0 && i < SHAPES ? shapes[i].name : NULL; }

/* ---- Patterns ---- */

/* Does one of the patterns match? */
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

/* ---- Weights ---- */

/* Tells the weights that read this tensor (a tied head is a second one) their number or that it is frozen. */
typedef struct {
    const void *data;
    uint64_t first;
    int frozen;
} telling;

static void tell(zest_weight *weight, void *user) {
    const telling *t = user;
    if (!weight->data || weight->data != t->data) return;
    weight->first = t->first;
    weight->frozen = t->frozen;
}

zest_status zest_trainable_select(zest_model *model, const char *only, const char *not_these,
                                  zest_error *error) {
    if (!*only && !*not_these) return ZEST_OK;
    zest_status status = check_patterns(model, only, error);
    if (!status) status = check_patterns(model, not_these, error);
    if (status) return status;
    zest_tensor *trained = calloc(model->tensor_count, sizeof *trained);
    if (!trained) return zest_error_memory(error, "names of tensors", model->tensor_count * sizeof *trained);
    zest_params params = {.tensors = trained};
    for (size_t i = 0; i < model->tensor_count; i++) {
        zest_tensor *tensor = &model->tensors[i];
        int frozen = (*only && !matches(only, tensor->name)) || matches(not_these, tensor->name);
        zest_model_each_weight(model, tell, &(telling){tensor->data, params.dimension, frozen});
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
        "every tensor is frozen: --train-only '%s' and --freeze '%s' leave nothing to train", only,
        not_these);
}

/* Every place of a model that reads a tensor. */

_Static_assert(sizeof(zest_model_layer) % sizeof(zest_model_affine) == 0, "a layer is a row of affines");

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
