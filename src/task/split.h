/* Which rows train, choose and test: as published, by NumPy's generator. */
#ifndef ZEST_TASK_SPLIT_H
#define ZEST_TASK_SPLIT_H

#include "task/task.h"

/* Row numbers in the order of the split, and the labels that the run uses. */
typedef struct {
    uint32_t *rows;
    uint32_t *answers; /* CLASSES: the class of each, after label noise; else NULL */
    size_t count;
} zest_split;

typedef struct {
    size_t shots;                           /* a class for train, and as many for dev; 0: sampled */
    size_t train_size, dev_size, test_size; /* sampled split; 0: 1000, the task's or 500, 1000; a part with a
                                             * file of its own: 0: all of it, in the file's order */
    uint32_t seed;                          /* of the split: 100, 13, 21, 42, 87 in the publications */
    double label_noise;                     /* fraction of the training labels that is switched */
    uint32_t noise_seed;
    int noisy_dev;
} zest_split_options;

/* K shots: shuffle the training rows with NumPy's seed, group them by label in order of first appearance, the
 * first K of each group train, the next K are dev; a class that has fewer gives fewer. Refused for tasks
 * without classes. Sampled: a permutation of the training rows, the last dev_size of the first train_size +
 * dev_size are dev; of fewer rows, all. When the task has a file for dev, *dev_split is empty: see
 * zest_split_dev. Both splits are empty on error. */
zest_status zest_split_train(const zest_task *task, const zest_rows *train, const zest_split_options *options,
                             zest_split *train_split, zest_split *dev_split, zest_error *error);
/* Dev rows from a file of their own: all, or the first dev_size of a permutation with the seed. */
zest_status zest_split_dev(const zest_task *task, const zest_rows *dev, const zest_split_options *options,
                           zest_split *split, zest_error *error);
/* K shots: all rows when there are at most 1000 (or test_size), else as many from a shuffle with seed 42.
 * Sampled: the first test_size of a permutation with the seed. Of a task file: all rows unless test_size
 * says otherwise. */
zest_status zest_split_test(const zest_task *task, const zest_rows *test, const zest_split_options *options,
                            zest_split *split, zest_error *error);
void zest_split_free(zest_split *split);

/* Switches exactly round(fraction·count) of the answers to another class, each other class alike. Which, and
 * to what, is a function of the seed, the count and the answers alone; see split.c. */
zest_status zest_split_add_noise(zest_split *split, size_t classes, double fraction, uint32_t seed,
                                 zest_error *error);

/* What split*.c share. */

/* Parts with one noise seed are drawn apart. */
typedef enum { ZEST_SPLIT_NOISE_TRAIN, ZEST_SPLIT_NOISE_DEV } zest_split_noise_part;

zest_status zest_split_noise(zest_split *split, size_t classes, double fraction, uint32_t seed,
                             zest_split_noise_part part, zest_error *error);

#endif
