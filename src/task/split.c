/* Splits of the rows into train, dev and test, and label noise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rng/mt19937.h"
#include "rng/philox.h"
#include "task/split.h"

enum { TRAIN_SIZE = 1000, DEV_SIZE = 500, TEST_SIZE = 1000, TEST_SEED = 42 };

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Separate streams for parts with the same noise seed. */
typedef enum { NOISE_TRAIN, NOISE_DEV } noise_part;

/* ---- Construction ---- */

static zest_status start(zest_split *split, size_t capacity, zest_error *error) {
    *split = (zest_split){.rows = malloc((capacity + 1) * sizeof *split->rows)};
    return split->rows ? ZEST_OK : zest_error_memory(error, "a split", (capacity + 1) * sizeof *split->rows);
}

static void add(zest_split *split, const uint32_t *rows, size_t count) {
    if (count) memcpy(split->rows + split->count, rows, count * sizeof *rows);
    split->count += count;
}

void zest_split_free(zest_split *split) {
    if (!split) return;
    free(split->rows);
    free(split->answers);
    *split = (zest_split){0};
}

/* A drawn row has a label that the task does not know: reports the first such row of the file, regardless
 * of the order of the draw. */
static zest_status refuse_first(const zest_task *task, const zest_rows *rows, zest_error *error) {
    zest_status status = ZEST_OK;
    uint32_t ignored;
    for (size_t row = 0; row < rows->count && !status; row++)
        status = zest_task_class_of(task, rows, row, &ignored, error);
    return status;
}

/* The classes of the rows of a split, for tasks with classes. */
static zest_status add_answers(const zest_task *task, const zest_rows *rows, zest_split *split,
                               zest_error *error) {
    if (task->kind != ZEST_TASK_CLASSES) return ZEST_OK;
    split->answers = malloc((split->count + 1) * sizeof *split->answers);
    if (!split->answers) return zest_error_memory(error, "labels", split->count * sizeof *split->answers);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < split->count && !status; i++)
        if (zest_task_class_of(task, rows, split->rows[i], &split->answers[i], NULL))
            status = refuse_first(task, rows, error);
    return status;
}

/* The indices 0 .. count-1 in the order of NumPy's permutation with this seed, or (shuffled 0) in order. */
static zest_status order_of(size_t count, int shuffled, uint32_t seed, uint32_t **order, zest_error *error) {
    *order = malloc((count + 1) * sizeof **order);
    if (!*order) return zest_error_memory(error, "a split", (count + 1) * sizeof **order);
    if (shuffled)
        zest_mt19937_permutation(seed, *order, count);
    else
        for (size_t i = 0; i < count; i++) (*order)[i] = (uint32_t)i;
    return ZEST_OK;
}

/* ---- K shots ---- */

/* Adds K rows of each class, after skipping the first `skip` of it, in the order in which the classes
 * appear. */
static void add_shots(const uint32_t *order, const uint32_t *classes, size_t count, size_t skip, size_t shots,
                      zest_split *split) {
    int seen[ZEST_TASK_MAX_CLASSES] = {0};
    for (size_t first = 0; first < count; first++) {
        uint32_t label = classes[order[first]];
        if (seen[label]++) continue;
        size_t met = 0;
        for (size_t i = first; i < count && met - smaller(met, skip) < shots; i++) {
            if (classes[order[i]] != label) continue;
            if (met++ >= skip) add(split, &order[i], 1);
        }
    }
}

static zest_status draw_shots(const zest_task *task, const zest_rows *rows, const zest_split_options *o,
                              const uint32_t *order, zest_split *train, zest_split *dev, zest_error *error) {
    size_t shots = smaller(o->shots, rows->count);
    if (task->kind != ZEST_TASK_CLASSES)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "%s: has no classes, so %zu examples per class are impossible; set a number of "
                              "training rows instead (--train-size 1000)",
                              task->name, o->shots);
    uint32_t *classes = malloc((rows->count + 1) * sizeof *classes);
    zest_status status =
        classes ? ZEST_OK : zest_error_memory(error, "labels", rows->count * sizeof *classes);
    for (size_t i = 0; i < rows->count && !status; i++)
        status = zest_task_class_of(task, rows, i, &classes[i], error);
    if (!status) {
        add_shots(order, classes, rows->count, 0, shots, train);
        if (!zest_task_has_part(task, ZEST_PART_DEV))
            add_shots(order, classes, rows->count, shots, shots, dev);
    }
    free(classes);
    return status;
}

/* ---- Sampled splits ---- */

static zest_status draw_sample(const zest_task *task, const zest_rows *rows, const zest_split_options *o,
                               const uint32_t *order, zest_split *train, zest_split *dev, zest_error *error) {
    if (zest_task_has_part(task, ZEST_PART_DEV)) {
        add(train, order, o->train_size ? smaller(o->train_size, rows->count) : rows->count);
        return ZEST_OK;
    }
    size_t dev_size = o->dev_size ? o->dev_size : task->dev_size ? task->dev_size : DEV_SIZE;
    size_t train_size = o->train_size ? o->train_size : TRAIN_SIZE;
    if (rows->count <= dev_size)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "%s: has %zu rows, but dev needs %zu of them; use fewer (--dev-size %zu)",
                              rows->path, rows->count, dev_size, rows->count > 4 ? rows->count / 4 : 1);
    train_size = smaller(rows->count - dev_size, train_size);
    add(train, order, train_size);
    add(dev, order + train_size, dev_size);
    return ZEST_OK;
}

/* ---- Label noise ----
 *
 * Exactly round(fraction * count) labels, chosen uniformly without replacement, are replaced
 * by one of the other classes, uniformly. The draws are the words of Philox under the key seed + 2^32 *
 * part (0 train, 1 dev), stream 17, in order: one number below count-i for the i-th chosen label (a
 * Fisher-Yates shuffle from the front, stopped early), then one below classes-1 for the new class. A
 * number below n is the low bits of a word, drawn again while it is n or more. */

enum { STREAM = 17 }; /* disjoint from those in rng/philox.h, and from 16, the order of examples */

typedef struct {
    uint64_t key, drawn;
    zest_philox_block block;
} words;

static uint32_t next_word(words *w) {
    if (w->drawn % 4 == 0) w->block = zest_philox_at(w->key, STREAM, w->drawn / 4);
    return w->block.word[w->drawn++ % 4];
}

static uint32_t draw_below(words *w, uint32_t n) {
    uint32_t mask = n - 1, value;
    if (!mask) return 0;
    for (unsigned shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    do value = next_word(w) & mask;
    while (value >= n);
    return value;
}

static zest_status check(const zest_split *split, size_t classes, double fraction, zest_error *error) {
    if (!(fraction >= 0 && fraction <= 1))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "label noise %g: must be a fraction from 0 to 1, as 0.3", fraction);
    if (!split->answers && split->count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "label noise: the split has no classes");
    if (classes < 2)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "label noise: one class has no other to switch to");
    return ZEST_OK;
}

static zest_status switch_labels(zest_split *split, size_t classes, double fraction, uint32_t seed,
                                 noise_part part, zest_error *error) {
    zest_status status = check(split, classes, fraction, error);
    if (status) return status;
    size_t count = split->count, changed = (size_t)round(fraction * (double)count);
    uint32_t *order = malloc((count + 1) * sizeof *order);
    if (!order) return zest_error_memory(error, "label noise", count * sizeof *order);
    words w = {.key = seed | (uint64_t)part << 32};
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (size_t i = 0; i < changed; i++) {
        size_t chosen = i + draw_below(&w, (uint32_t)(count - i));
        uint32_t *answer = &split->answers[order[chosen]];
        order[chosen] = order[i];
        uint32_t other = draw_below(&w, (uint32_t)(classes - 1));
        *answer = other + (other >= *answer);
    }
    free(order);
    return ZEST_OK;
}

zest_status zest_split_add_noise(zest_split *split, size_t classes, double fraction, uint32_t seed,
                                 zest_error *error) {
    return switch_labels(split, classes, fraction, seed, NOISE_TRAIN, error);
}

/* ---- Public functions ---- */

static zest_status add_noise(const zest_task *task, const zest_split_options *o, zest_split *train,
                             zest_split *dev, zest_error *error) {
    if (o->label_noise == 0) return ZEST_OK;
    if (task->kind != ZEST_TASK_CLASSES)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "%s: has no classes, so there are no labels to switch (--label-noise)",
                              task->name);
    zest_status status = zest_split_add_noise(train, task->class_count, o->label_noise, o->noise_seed, error);
    if (!status && o->noisy_dev && dev->count)
        status = switch_labels(dev, task->class_count, o->label_noise, o->noise_seed, NOISE_DEV, error);
    return status;
}

zest_status zest_split_train(const zest_task *task, const zest_rows *train, const zest_split_options *options,
                             zest_split *train_split, zest_split *dev_split, zest_error *error) {
    uint32_t *order = NULL;
    /* a task file with its own dev file, used completely, keeps the order of the file */
    int whole = !options->shots && !options->train_size && zest_task_has_part(task, ZEST_PART_DEV);
    *train_split = *dev_split = (zest_split){0};
    zest_status status = start(train_split, train->count, error);
    if (!status) status = start(dev_split, train->count, error);
    if (!status) status = order_of(train->count, !whole, options->seed, &order, error);
    if (!status)
        status = (options->shots ? draw_shots : draw_sample)(task, train, options, order, train_split,
                                                             dev_split, error);
    if (!status) status = add_answers(task, train, train_split, error);
    if (!status) status = add_answers(task, train, dev_split, error);
    if (!status) status = add_noise(task, options, train_split, dev_split, error);
    free(order);
    if (status) {
        zest_split_free(train_split);
        zest_split_free(dev_split);
    }
    return status;
}

/* The first `size` rows of an order, with their answers. */
static zest_status select_rows(const zest_task *task, const zest_rows *rows, size_t size, int shuffled,
                               uint32_t seed, zest_split *split, zest_error *error) {
    uint32_t *order = NULL;
    *split = (zest_split){0};
    zest_status status = start(split, rows->count, error);
    if (!status) status = order_of(rows->count, shuffled, seed, &order, error);
    if (!status) {
        add(split, order, smaller(size, rows->count));
        status = add_answers(task, rows, split, error);
    }
    free(order);
    if (status) zest_split_free(split);
    return status;
}

zest_status zest_split_test(const zest_task *task, const zest_rows *test, const zest_split_options *options,
                            zest_split *split, zest_error *error) {
    size_t size = options->test_size ? options->test_size : TEST_SIZE;
    if (task->path && !options->test_size) return select_rows(task, test, test->count, 0, 0, split, error);
    if (options->shots) return select_rows(task, test, size, test->count > size, TEST_SEED, split, error);
    return select_rows(task, test, size, 1, options->seed, split, error);
}

zest_status zest_split_dev(const zest_task *task, const zest_rows *dev, const zest_split_options *options,
                           zest_split *split, zest_error *error) {
    size_t size = options->dev_size ? options->dev_size : dev->count;
    zest_status status = select_rows(task, dev, size, size < dev->count, options->seed, split, error);
    if (!status && options->noisy_dev && options->label_noise != 0) {
        zest_split none = {0};
        status = add_noise(task, options, &none, split, error);
        if (status) zest_split_free(split);
    }
    return status;
}
