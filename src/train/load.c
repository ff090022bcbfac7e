/* Models, tasks and examples from options, and defaults that depend on the model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/load.h"
#include "base/file.h"
#include "base/text.h"
#include "model/gguf_export.h"
#include "model/model.h"
#include "model/scales.h"
#include "optim/directions.h"
#include "tokenizer/tokenizer.h"

enum { CONFIG_LIMIT = 16 << 20 };

/* ---- The model ---- */

static int has_any(const char *folder, const char *const *files, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *file = zest_file_join(folder, files[i]);
        int found = file && access(file, F_OK) == 0;
        free(file);
        if (found) return 1;
    }
    return 0;
}

static int has_tokenizer(const char *path) {
    static const char *const files[] = {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model"};
    return has_any(path, files, sizeof files / sizeof *files);
}

/* A device takes the weights as elements. */
zest_model_options zest_load_model_options(const zest_options *options) {
    zest_model_storage storage = (zest_model_storage)zest_options_whole(options, ZEST_OPTION_WEIGHTS);
    if (storage == ZEST_MODEL_QUANTIZED && zest_options_whole(options, ZEST_OPTION_DEVICE) != ZEST_DEVICE_CPU)
        storage = ZEST_MODEL_AS_STORED;
    return (zest_model_options){.storage = storage,
                                .untie_head = (int)zest_options_whole(options, ZEST_OPTION_UNTIE_HEAD),
                                .threads = (int)zest_options_whole(options, ZEST_OPTION_THREADS)};
}

zest_model_runner_options zest_load_runner_options(const zest_options *options) {
    return (zest_model_runner_options){
        .compute = (zest_compute)zest_options_whole(options, ZEST_OPTION_COMPUTE),
        .threads = (int)zest_options_whole(options, ZEST_OPTION_THREADS),
        .live_pairs = (size_t)zest_options_whole(options, ZEST_OPTION_LIVE),
        .device = (zest_device_kind)zest_options_whole(options, ZEST_OPTION_DEVICE)};
}

/* A model that there is only a config.json of. */
static zest_status make_model(zest_loaded *loaded, const char *folder, const zest_options *options,
                              zest_error *error) {
    zest_model_options how = zest_load_model_options(options);
    zest_buffer config = {0};
    char *path = zest_file_join(folder, "config.json");
    zest_status status = path ? zest_file_read(path, CONFIG_LIMIT, &config, error)
                              : zest_error_memory(error, folder, strlen(folder));
    if (how.storage == ZEST_MODEL_AS_STORED || how.storage == ZEST_MODEL_QUANTIZED)
        how.storage = ZEST_MODEL_F32;
    if (!status)
        status =
            zest_model_random(config.data ? config.data : "", zest_options_whole(options, ZEST_OPTION_SEED),
                              &how, &loaded->model, error);
    if (!status && !(loaded->model->folder = strdup(folder)))
        status = zest_error_memory(error, folder, strlen(folder));
    zest_buffer_free(&config);
    free(path);
    return status;
}

/* Where weights come from. */
typedef enum { STORED, RANDOM, BLANK } weight_source;

static zest_status open_model(zest_loaded *loaded, const char *weights, weight_source from,
                              const zest_options *options, zest_error *error) {
    zest_model_options load = zest_load_model_options(options);
    zest_model_runner_options run = zest_load_runner_options(options);
    load.blank = from == BLANK;
    zest_status status = from == RANDOM ? make_model(loaded, weights, options, error)
                                        : zest_model_load(weights, &load, &loaded->model, error);
    if (!status)
        status =
            zest_model_select_trainable(loaded->model, zest_options_text(options, ZEST_OPTION_TRAIN_ONLY),
                                        zest_options_text(options, ZEST_OPTION_FREEZE), error);
    zest_directions directions = {0};
    if (!status) status = zest_directions_read(options, &directions, error);
    if (!status)
        status = zest_model_shape_noise(loaded->model, directions.rank,
                                        zest_options_text(options, ZEST_OPTION_SCALES), error);
    return status ? status : zest_model_open_runner(loaded->model, &run, &loaded->runner, error);
}

static zest_status load(zest_loaded *loaded, const char *weights, const char *home, weight_source from,
                        const zest_options *options, zest_error *error) {
    *loaded = (zest_loaded){0};
    zest_status status = open_model(loaded, weights, from, options, error);
    if (status) return status;
    int here = !home || !loaded->model->folder || has_tokenizer(weights);
    loaded->home_tokenizer = !here;
    loaded->tokenizer = zest_tokenizer_open(here ? weights : home, error);
    return loaded->tokenizer ? ZEST_OK : error->status;
}

zest_status zest_load_model(zest_loaded *loaded, const char *weights, const char *home,
                            const zest_options *options, zest_error *error) {
    return load(loaded, weights, home, STORED, options, error);
}

zest_status zest_load_checkpoint(zest_loaded *loaded, const char *folder, const zest_options *options,
                                 zest_error *error) {
    zest_options as_stored;
    *loaded = (zest_loaded){0};
    zest_status status = zest_options_copy(&as_stored, options, error);
    if (!status) status = zest_options_set_id(&as_stored, ZEST_OPTION_WEIGHTS, "stored", error);
    if (!status) status = zest_options_set_id(&as_stored, ZEST_OPTION_UNTIE_HEAD, "no", error);
    if (!status)
        status =
            zest_load_model(loaded, folder, zest_options_text(options, ZEST_OPTION_MODEL), &as_stored, error);
    zest_options_free(&as_stored);
    return status;
}

static int has_weights(const char *folder) {
    static const char *const files[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    return has_any(folder, files, sizeof files / sizeof *files);
}

/* Has a model no weights, only a shape, from which zest pretrain makes some? */
static int is_shape(const zest_options *options) {
    const char *model = zest_options_text(options, ZEST_OPTION_MODEL);
    struct stat info;
    int folder = !stat(model, &info) && S_ISDIR(info.st_mode);
    return *zest_options_text(options, ZEST_OPTION_CORPUS) && folder && !has_weights(model);
}

/* What is trained, or sent to other ranks. */
static zest_status refuse_blocks(const zest_options *options, zest_error *error) {
    if (zest_load_model_options(options).storage != ZEST_MODEL_QUANTIZED) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "--weights quantized: blocks of a GGUF file are neither trained nor sent to other "
                          "ranks; take stored, f32 or bf16");
}

zest_status zest_load_start(zest_loaded *loaded, const zest_options *options, zest_error *error) {
    zest_status status = refuse_blocks(options, error);
    return status ? status
                  : load(loaded, zest_options_text(options, ZEST_OPTION_MODEL), NULL,
                         is_shape(options) ? RANDOM : STORED, options, error);
}

zest_status zest_load_blank(zest_loaded *loaded, const char *home, const zest_options *options,
                            zest_error *error) {
    zest_status status = refuse_blocks(options, error);
    return status ? status
                  : load(loaded, zest_options_text(options, ZEST_OPTION_MODEL), home,
                         is_shape(options) ? RANDOM : BLANK, options, error);
}

static zest_status apply_update(void *runner, const zest_update *update, zest_error *error) {
    return zest_model_apply_update(runner, update, error);
}

zest_step_storage zest_load_storage(const zest_loaded *loaded) {
    return (zest_step_storage){&loaded->model->params, apply_update, loaded->runner};
}

void zest_load_free(zest_loaded *loaded) {
    zest_model_runner_free(loaded->runner);
    zest_tokenizer_free(loaded->tokenizer);
    zest_model_free(loaded->model);
    *loaded = (zest_loaded){0};
}

zest_status zest_load_save(const zest_loaded *loaded, const char *folder, zest_error *error) {
    zest_status status = zest_model_save(loaded->model, folder, error);
    int written = loaded->model->folder || !loaded->tokenizer || !zest_tokenizer_can_save(loaded->tokenizer);
    return status || written ? status : zest_tokenizer_save(loaded->tokenizer, folder, error);
}

zest_status zest_load_save_gguf(const zest_loaded *loaded, const char *path, int type, zest_error *error) {
    zest_gguf_metadata metadata = {0};
    zest_status status = zest_model_put_gguf(loaded->model, type, &metadata, error);
    if (!status)
        status =
            zest_tokenizer_put_gguf(loaded->tokenizer, loaded->model->config.vocab_size, &metadata, error);
    if (!status)
        status = zest_model_write_gguf(loaded->model, type, &metadata, path, loaded->runner->threads, error);
    zest_gguf_metadata_free(&metadata);
    return status;
}

/* ---- Options that depend on the model ---- */

typedef struct {
    zest_option_id id;
    const char *masked, *causal;
} setting;

enum { SETTINGS = 5 };

/* The paper's: RoBERTa with 512 shots a class for 700 epochs, which is 5600 steps for two classes; OPT with
 * 1000 rows. With other splits the epochs do not count, and masked models take the 5600 steps. */
static const setting zeroth[SETTINGS] = {
    {ZEST_OPTION_BATCH, "128", "16"},     {ZEST_OPTION_LR, "1e-5", "2e-6"},
    {ZEST_OPTION_STEPS, "5600", "20000"}, {ZEST_OPTION_EVAL_EVERY, "100", "500"},
    {ZEST_OPTION_EPOCHS, "700", "0"},
};
enum { PAPER_SHOTS = 512 };

/* The middle of the paper's grids for SGD; 200 epochs, or 30 of 1000 rows. How often it evaluates it does not
 * say. */
static const setting first[SETTINGS] = {
    {ZEST_OPTION_BATCH, "32", "8"},   {ZEST_OPTION_LR, "1e-3", "1e-5"},
    {ZEST_OPTION_STEPS, "0", "3750"}, {ZEST_OPTION_EVAL_EVERY, "100", "125"},
    {ZEST_OPTION_EPOCHS, "200", "0"},
};

static const setting pretraining[SETTINGS] = {
    {ZEST_OPTION_BATCH, "32", "32"},     {ZEST_OPTION_LR, "1e-3", "1e-3"},
    {ZEST_OPTION_STEPS, "1000", "1000"}, {ZEST_OPTION_EVAL_EVERY, "100", "100"},
    {ZEST_OPTION_EPOCHS, "0", "0"},
};

/* --epochs decides the steps, so --steps would have no effect. */
zest_status zest_load_check_length(const zest_options *given, zest_error *error) {
    static const zest_option_id both[] = {ZEST_OPTION_STEPS, ZEST_OPTION_EPOCHS};
    for (int i = 0; i < 2; i++)
        if (!zest_options_given(given, both[i]) || !zest_options_whole(given, both[i])) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "--steps and --epochs both say how long to train; give one of them, and 0 for the "
                          "other if it comes from a file");
}

zest_status zest_load_resolve_defaults(zest_options *options, int causal, zest_error *error) {
    int text = *zest_options_text(options, ZEST_OPTION_CORPUS) != '\0';
    const setting *settings = text ? pretraining : zest_options_first_order(options) ? first : zeroth;
    int sampled = zest_options_whole(options, ZEST_OPTION_TRAIN_SIZE) > 0,
        own = zest_task_is_file(zest_options_text(options, ZEST_OPTION_TASK));
    zest_status status = zest_load_check_length(options, error);
    if (!status && !causal && !sampled && !own && !text && !zest_options_whole(options, ZEST_OPTION_SHOTS))
        status = zest_options_set_id(options, ZEST_OPTION_SHOTS, "512", error);
    int recipe = !own && zest_options_whole(options, ZEST_OPTION_SHOTS) == PAPER_SHOTS;
    int limited = zest_options_given(options, ZEST_OPTION_STEPS) ||
                  zest_options_given(options, ZEST_OPTION_EPOCHS) || (settings == zeroth && !recipe);
    for (size_t i = 0; i < SETTINGS && !status; i++) {
        const setting *s = &settings[i];
        if (!zest_options_given(options, s->id) && !(s->id == ZEST_OPTION_EPOCHS && limited))
            status = zest_options_set_id(options, s->id, causal ? s->causal : s->masked, error);
    }
    return status;
}

zest_status zest_load_resolve_steps(zest_options *options, size_t examples, zest_error *error) {
    uint64_t epochs = zest_options_whole(options, ZEST_OPTION_EPOCHS),
             batch = zest_options_whole(options, ZEST_OPTION_BATCH);
    if (!epochs) return ZEST_OK;
    uint64_t steps_an_epoch = (examples + batch - 1) / batch; /* the last batch may be smaller */
    if (steps_an_epoch && epochs > UINT32_MAX / steps_an_epoch)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--epochs %llu of %llu steps each are more steps than a run can have, %u",
                              (unsigned long long)epochs, (unsigned long long)steps_an_epoch, UINT32_MAX);
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)(epochs * steps_an_epoch));
    /* the options that are saved have one length, so that they can be given again */
    zest_status status = zest_options_set_id(options, ZEST_OPTION_EPOCHS, "0", error);
    return status ? status : zest_options_set_id(options, ZEST_OPTION_STEPS, text, error);
}

/* ---- Tasks and examples ---- */

static zest_split_options split_options(const zest_options *options) {
    uint64_t seed = zest_options_whole(options, ZEST_OPTION_SEED);
    return (zest_split_options){.shots = (size_t)zest_options_whole(options, ZEST_OPTION_SHOTS),
                                .train_size = (size_t)zest_options_whole(options, ZEST_OPTION_TRAIN_SIZE),
                                .dev_size = (size_t)zest_options_whole(options, ZEST_OPTION_DEV_SIZE),
                                .test_size = (size_t)zest_options_whole(options, ZEST_OPTION_TEST_SIZE),
                                .seed = (uint32_t)seed,
                                .label_noise = zest_options_number(options, ZEST_OPTION_LABEL_NOISE),
                                .noise_seed = (uint32_t)seed,
                                .noisy_dev = (int)zest_options_whole(options, ZEST_OPTION_NOISY_DEV)};
}

typedef struct {
    zest_loaded_data *data;
    const zest_options *options;
    const zest_loaded *loaded;
    zest_split_options how;
    zest_examples_options form;
    zest_error *error;
} loading;

static zest_status read_form(const zest_options *options, zest_examples_options *form, zest_error *error) {
    const char *text = zest_options_text(options, ZEST_OPTION_START_TOKEN);
    int64_t id = -1;
    int good = !*text || !strcmp(text, "none") || zest_integer_parse(text, 0, INT32_MAX, &id);
    *form = (zest_examples_options){.start_given = *text != '\0', .start = (int32_t)id};
    if (good) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--start-token takes the number of a token, or none");
}

const char *const zest_load_part_names[3] = {"train", "dev", "test"};

/* Rows as the file has them, if it is the file that a run began with. */
static zest_status read_part(const loading *l, zest_task_part part, zest_rows *rows) {
    zest_loaded_file *file = &l->data->files[part];
    zest_status status = zest_task_read(&l->data->task, zest_options_text(l->options, ZEST_OPTION_DATA),
                                        l->loaded->model->config.causal, part, rows, l->error);
    if (status || !rows->path) return status;
    free(file->path);
    *file = (zest_loaded_file){strdup(rows->path), rows->print};
    if (!file->path) return zest_error_memory(l->error, rows->path, strlen(rows->path));
    return zest_inputs_check_data(l->data->recorded, zest_load_part_names[part], rows->path, rows->print,
                                  l->error);
}

static zest_status encode(const loading *l, zest_task_part part, const zest_rows *rows,
                          const zest_split *split) {
    return zest_examples_make_with(&l->data->task, rows, split, l->loaded->tokenizer,
                                   &l->loaded->model->config, &l->form, &l->data->parts[part], l->error);
}

/* Data of one's own are all used, unless a size says otherwise: without a dev file a fifth of them is dev. */
static void use_all(loading *l, size_t rows) {
    if (!l->data->task.path || l->how.shots || l->how.train_size) return;
    if (!l->how.dev_size) l->how.dev_size = l->data->task.dev_size;
    if (!l->how.dev_size) l->how.dev_size = rows / 5 ? rows / 5 : 1;
    l->how.train_size = rows > l->how.dev_size ? rows - l->how.dev_size : 0;
}

/* The part has a file of its own. */
static zest_status load_whole(const loading *l, zest_task_part part, const zest_rows *rows) {
    zest_split split = {0};
    zest_status status = (part == ZEST_PART_DEV ? zest_split_dev : zest_split_test)(
        &l->data->task, rows, &l->how, &split, l->error);
    if (!status) status = encode(l, part, rows, &split);
    zest_split_free(&split);
    return status;
}

static zest_status load_training(loading *l, unsigned parts) {
    zest_rows train = {0}, dev = {0};
    zest_split from_train = {0}, second = {0};
    zest_status status = read_part(l, ZEST_PART_TRAIN, &train);
    if (!status) status = read_part(l, ZEST_PART_DEV, &dev);
    if (!status && !train.count)
        status =
            zest_error_set(l->error, ZEST_ERROR_ARGUMENT, "task %s has no training rows", l->data->task.name);
    if (!status && !dev.count) use_all(l, train.count);
    if (!status) status = zest_split_train(&l->data->task, &train, &l->how, &from_train, &second, l->error);
    if (!status && parts & ZEST_LOAD_TRAIN) status = encode(l, ZEST_PART_TRAIN, &train, &from_train);
    if (!status && parts & ZEST_LOAD_DEV)
        status = dev.count ? load_whole(l, ZEST_PART_DEV, &dev) : encode(l, ZEST_PART_DEV, &train, &second);
    zest_split_free(&from_train);
    zest_split_free(&second);
    zest_rows_free(&train);
    zest_rows_free(&dev);
    return status;
}

static zest_status load_test(const loading *l) {
    zest_rows rows = {0};
    zest_status status = read_part(l, ZEST_PART_TEST, &rows);
    if (!status && rows.count) status = load_whole(l, ZEST_PART_TEST, &rows);
    zest_rows_free(&rows);
    return status;
}

static zest_status open_task(zest_loaded_data *data, const zest_options *options, const zest_loaded *loaded,
                             zest_error *error) {
    const char *name = zest_options_text(options, ZEST_OPTION_TASK);
    const zest_inputs *recorded = data->recorded;
    int causal = loaded->model->config.causal, own = recorded && recorded->task_copy && !recorded->other_task;
    *data = (zest_loaded_data){.recorded = recorded, .places = data->places};
    if (!*name)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "say which task: --task NAME --data DIR, or --task FILE for data of your own");
    zest_status status = own ? zest_task_open_copy(recorded->task_copy, name, &data->task, error)
                             : zest_task_open(name, &data->task, error);
    for (int part = 0; part < 3 && !status && data->places; part++)
        data->task.places[part] = data->places[part];
    if (!status && !(causal ? data->task.causal : data->task.masked))
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "%s has no template for %s models like this one (%s); it needs a %s one",
                                data->task.name, causal ? "causal" : "masked", loaded->model->config.family,
                                causal ? "masked" : "causal");
    return status;
}

zest_status zest_load_data(zest_loaded_data *data, const zest_options *options, const zest_loaded *loaded,
                           unsigned parts, zest_error *error) {
    loading l = {data, options, loaded, split_options(options), {0}, error};
    zest_status status = open_task(data, options, loaded, error);
    if (!status) status = read_form(options, &l.form, error);
    if (!status && parts & (ZEST_LOAD_TRAIN | ZEST_LOAD_DEV)) status = load_training(&l, parts);
    if (!status && parts & ZEST_LOAD_TEST) status = load_test(&l);
    return status;
}

zest_status zest_load_task(zest_loaded_data *data, const zest_options *options, const zest_loaded *loaded,
                           zest_error *error) {
    return open_task(data, options, loaded, error);
}

/* Every row, in order. A class that is not known is 0, and not used. */
static zest_status split_all(const zest_task *task, const zest_rows *rows, zest_split *split,
                             zest_error *error) {
    *split = (zest_split){.rows = malloc((rows->count + 1) * sizeof *split->rows),
                          .answers = calloc(rows->count + 1, sizeof *split->answers),
                          .count = rows->count};
    if (!split->rows || !split->answers)
        return zest_error_memory(error, rows->path, rows->count * sizeof *split->rows);
    int labelled = task->kind == ZEST_TASK_CLASSES && task->label && zest_rows_field(rows, task->label) >= 0;
    for (size_t i = 0; i < rows->count; i++) {
        split->rows[i] = (uint32_t)i;
        if (labelled && zest_task_class_of(task, rows, i, &split->answers[i], NULL)) split->answers[i] = 0;
    }
    return ZEST_OK;
}

zest_status zest_load_examples(const zest_loaded_data *data, const zest_options *options,
                               const zest_loaded *loaded, const zest_rows *rows, zest_examples *examples,
                               zest_error *error) {
    zest_split split = {0};
    zest_examples_options form = {0};
    *examples = (zest_examples){0};
    zest_status status = read_form(options, &form, error);
    form.unlabelled = 1;
    if (!status) status = split_all(&data->task, rows, &split, error);
    if (!status)
        status = zest_examples_make_with(&data->task, rows, &split, loaded->tokenizer, &loaded->model->config,
                                         &form, examples, error);
    zest_split_free(&split);
    return status;
}

zest_status zest_load_part_rows(const zest_loaded_data *data, const zest_options *options,
                                const zest_loaded *loaded, zest_task_part part, zest_rows *rows,
                                zest_error *error) {
    if (!zest_task_has_part(&data->task, part)) part = ZEST_PART_TRAIN; /* dev rows are drawn from it */
    return zest_task_read(&data->task, zest_options_text(options, ZEST_OPTION_DATA),
                          loaded->model->config.causal, part, rows, error);
}

void zest_load_free_data(zest_loaded_data *data) {
    for (size_t i = 0; i < 3; i++) {
        zest_examples_free(&data->parts[i]);
        free(data->files[i].path);
        data->files[i] = (zest_loaded_file){0};
    }
    zest_task_free(&data->task);
}
