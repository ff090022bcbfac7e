#include "models/family.h"

#include <math.h>
#include <string.h>

enum { LARGEST_SIZE = 1 << 28, LARGEST_LAYERS = 4096 };

static const zest_family *const families[] = {&zest_family_roberta, &zest_family_bert, &zest_family_opt,
                                              &zest_family_gpt2, &zest_family_llama};

static const json_t *find(const zest_family_config *config, const char *key) {
    const json_t *value = json_object_get(config->root, key);
    return json_is_null(value) ? NULL : value;
}

void zest_family_refuse(zest_family_config *config, const char *key, const char *why) {
    if (!config->status)
        config->status =
            zest_error_set(config->error, ZEST_ERROR_FORMAT, "%s: '%s' %s", config->path, key, why);
}

size_t zest_family_size(zest_family_config *config, const char *key, size_t fallback) {
    const json_t *value = find(config, key);
    if (!value) {
        if (fallback == ZEST_FAMILY_REQUIRED) zest_family_refuse(config, key, "is missing");
        return fallback == ZEST_FAMILY_REQUIRED ? 1 : fallback;
    }
    json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number >= 1 && number <= LARGEST_SIZE) return (size_t)number;
    zest_family_refuse(config, key, "must be a whole number from 1 to 2^28");
    return 1;
}

double zest_family_number(zest_family_config *config, const char *key, double fallback) {
    const json_t *value = find(config, key);
    if (!value) return fallback;
    if (json_is_number(value) && isfinite(json_number_value(value))) return json_number_value(value);
    zest_family_refuse(config, key, "must be a number");
    return fallback;
}

int zest_family_flag(zest_family_config *config, const char *key, int fallback) {
    const json_t *value = find(config, key);
    if (!value) return fallback;
    if (json_is_boolean(value)) return json_is_true(value);
    zest_family_refuse(config, key, "must be true or false");
    return fallback;
}

const char *zest_family_text(zest_family_config *config, const char *key, const char *fallback) {
    const json_t *value = find(config, key);
    if (!value) return fallback;
    if (json_is_string(value)) return json_string_value(value);
    zest_family_refuse(config, key, "must be a text");
    return fallback;
}

zest_activation zest_family_activation(zest_family_config *config, const char *key, const char *fallback) {
    static const struct {
        const char *name;
        zest_activation activation;
    } known[] = {
        {"relu", ZEST_ACT_RELU},           {"gelu", ZEST_ACT_GELU},
        {"gelu_python", ZEST_ACT_GELU},    {"gelu_new", ZEST_ACT_GELU_TANH},
        {"gelu_fast", ZEST_ACT_GELU_TANH}, {"gelu_pytorch_tanh", ZEST_ACT_GELU_TANH},
        {"silu", ZEST_ACT_SILU},           {"swish", ZEST_ACT_SILU},
    };
    const char *name = zest_family_text(config, key, fallback);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) return known[i].activation;
    zest_family_refuse(config, key, "names an activation that zest does not have");
    return ZEST_ACT_NONE;
}

void zest_family_only_flag(zest_family_config *config, const char *key, int value) {
    if (zest_family_flag(config, key, value) != value)
        zest_family_refuse(config, key,
                           value ? "is false, which zest does not support"
                                 : "is true, which zest does not support");
}

void zest_family_only_text(zest_family_config *config, const char *key, const char *value) {
    if (strcmp(zest_family_text(config, key, value), value) != 0)
        zest_family_refuse(config, key, "has a value that zest does not support");
}

static const zest_family *find_type(const char *type) {
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t i = 0; i < 4 && families[f]->types[i]; i++)
            if (!strcmp(type, families[f]->types[i])) return families[f];
    return NULL;
}

static void check(zest_family_config *config, zest_model_description *is) {
    if (is->layers > LARGEST_LAYERS) zest_family_refuse(config, "layers", "are too many (4096 at most)");
    if (is->heads % is->kv_heads)
        zest_family_refuse(config, "num_key_value_heads", "does not divide the heads");
    if (is->head_size * is->heads > LARGEST_SIZE) zest_family_refuse(config, "heads", "are too large");
    if (!is->position_rows && is->head_size % 2)
        zest_family_refuse(config, "head_dim", "must be even for rotary positions");
    if (!(is->epsilon >= 0)) zest_family_refuse(config, "epsilon of the norms", "must not be negative");
}

zest_status zest_family_of(const json_t *root, const char *path, const zest_family **family,
                           zest_error *error) {
    zest_family_config config = {.root = root, .path = path, .error = error};
    if (!json_is_object(root))
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: is not a JSON object", path);
    const char *type = zest_family_text(&config, "model_type", NULL);
    if (!type) {
        zest_family_refuse(&config, "model_type", "is missing");
        return config.status;
    }
    *family = find_type(type);
    if (*family) return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_FORMAT,
        "%s: zest has no model_type '%.100s' (it has roberta, bert, opt, gpt2, llama, qwen2 "
        "and mistral)",
        path, type);
}

zest_status zest_family_describe(const json_t *root, const char *path, zest_model_description *out,
                                 const zest_family_names **names, zest_error *error) {
    zest_family_config config = {.root = root, .path = path, .error = error};
    const zest_family *family;
    zest_status status = zest_family_of(root, path, &family, error);
    if (status) return status;
    const char *type = json_string_value(json_object_get(root, "model_type"));
    *out = (zest_model_description){0};
    for (size_t i = 0; i < 4 && family->types[i]; i++)
        if (!strcmp(type, family->types[i])) out->family = family->types[i];
    family->describe(&config, out);
    if (!config.status) check(&config, out);
    *names = family->names;
    return config.status;
}
