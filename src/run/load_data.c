/* Tasks and examples, from the options. */
#include <stdlib.h>
#include <string.h>

#include "run/load.h"

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
    char *end;
    long id = strcmp(text, "none") ? strtol(text, &end, 10) : -1;
    *form = (zest_examples_options){.start_given = *text != '\0', .start = (int32_t)id};
    if (!*text || !strcmp(text, "none") || (!*end && id >= 0 && id <= INT32_MAX)) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "--start-token takes the number of a token, or none");
}

const char *const zest_load_part_names[3] = {"train", "dev", "test"};

/* Rows as the file has them, if it is the file that a run began with. */
static zest_status read_part(const loading *l, zest_task_part part, zest_rows *rows) {
    zest_loaded_file *file = &l->data->files[part];
    zest_status status = zest_task_read(&l->data->task, zest_options_text(l->options, ZEST_OPTION_DATA),
                                        l->loaded->model->is.causal, part, rows, l->error);
    if (status || !rows->path) return status;
    free(file->path);
    *file = (zest_loaded_file){strdup(rows->path), rows->print};
    if (!file->path) return zest_error_memory(l->error, rows->path, strlen(rows->path));
    return zest_inputs_check_data(l->data->recorded, zest_load_part_names[part], rows->path, rows->print,
                                  l->error);
}

static zest_status encode(const loading *l, zest_task_part part, const zest_rows *rows,
                          const zest_split *split) {
    return zest_examples_make_with(&l->data->task, rows, split, l->loaded->tokenizer, &l->loaded->model->is,
                                   &l->form, &l->data->parts[part], l->error);
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
    zest_split first = {0}, second = {0};
    zest_status status = read_part(l, ZEST_PART_TRAIN, &train);
    if (!status) status = read_part(l, ZEST_PART_DEV, &dev);
    if (!status && !train.count)
        status =
            zest_error_set(l->error, ZEST_ERROR_ARGUMENT, "task %s has no training rows", l->data->task.name);
    if (!status && !dev.count) use_all(l, train.count);
    if (!status) status = zest_split_train(&l->data->task, &train, &l->how, &first, &second, l->error);
    if (!status && parts & ZEST_LOAD_TRAIN) status = encode(l, ZEST_PART_TRAIN, &train, &first);
    if (!status && parts & ZEST_LOAD_DEV)
        status = dev.count ? load_whole(l, ZEST_PART_DEV, &dev) : encode(l, ZEST_PART_DEV, &train, &second);
    zest_split_free(&first);
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
    int causal = loaded->model->is.causal, own = recorded && recorded->task_copy && !recorded->other_task;
    *data = (zest_loaded_data){.recorded = recorded};
    if (!*name)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "say which task: --task NAME --data DIR, or --task FILE for data of your own");
    zest_status status = own ? zest_task_open_copy(recorded->task_copy, name, &data->task, error)
                             : zest_task_open(name, &data->task, error);
    if (!status && !(causal ? data->task.causal : data->task.masked))
        status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                "%s has no template for %s models like this one (%s); it needs a %s one",
                                data->task.name, causal ? "causal" : "masked", loaded->model->is.family,
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

/* Every row, in order. A class that is not known is 0: nobody asks for it. */
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
        status = zest_examples_make_with(&data->task, rows, &split, loaded->tokenizer, &loaded->model->is,
                                         &form, examples, error);
    zest_split_free(&split);
    return status;
}

zest_status zest_load_part_rows(const zest_loaded_data *data, const zest_options *options,
                                const zest_loaded *loaded, zest_task_part part, zest_rows *rows,
                                zest_error *error) {
    if (!zest_task_has_part(&data->task, part)) part = ZEST_PART_TRAIN; /* dev rows are drawn from it */
    return zest_task_read(&data->task, zest_options_text(options, ZEST_OPTION_DATA), loaded->model->is.causal,
                          part, rows, error);
}

void zest_load_free_data(zest_loaded_data *data) {
    for (size_t i = 0; i < 3; i++) {
        zest_examples_free(&data->parts[i]);
        free(data->files[i].path);
        data->files[i] = (zest_loaded_file){0};
    }
    zest_task_free(&data->task);
}
