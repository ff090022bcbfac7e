/* Splits: which rows are train, dev and test, as in the publications, with NumPy's generator. */
#ifndef ZEST_TASK_SPLIT_H
#define ZEST_TASK_SPLIT_H

#include "task/task.h"

/* Row indices in the order of the split, and the labels that the run uses. */
typedef struct {
    uint32_t *rows;
    uint32_t *answers; /* CLASSES: the class of each, after label noise; else NULL */
    size_t count;
} zest_split;

typedef struct {
    size_t shots; /* per class for train, and as many for dev; 0: sampled split */
    /* sampled split; 0: 1000, the task's or 500, 1000; for a part with a file of its own 0 means all rows,
     * in the order of the file */
    size_t train_size, dev_size, test_size;
    uint32_t seed;      /* of the split; the publications use 100, 13, 21, 42, 87 */
    double label_noise; /* fraction of the training labels that is changed */
    uint32_t noise_seed;
    int noisy_dev;
} zest_split_options;

/* K shots: shuffles the training rows with NumPy's seed and groups them by label in order of first
 * appearance; the first K of each group are train, the next K dev; a class with fewer rows contributes
 * fewer. An error for tasks without classes. Sampled: a permutation of the training rows; the last
 * dev_size of the first train_size + dev_size are dev; if there are fewer rows, all are used. If the task
 * has a dev file, *dev_split is empty: see zest_split_dev. Both splits are empty on error. */
zest_status zest_split_train(const zest_task *task, const zest_rows *train, const zest_split_options *options,
                             zest_split *train_split, zest_split *dev_split, zest_error *error);
/* Dev rows from a file of their own: all, or the first dev_size of a permutation with the seed. */
zest_status zest_split_dev(const zest_task *task, const zest_rows *dev, const zest_split_options *options,
                           zest_split *split, zest_error *error);
/* K shots: all rows if there are at most 1000 (or test_size), else as many from a shuffle with seed 42.
 * Sampled: the first test_size of a permutation with the seed. Task files: all rows unless test_size is
 * set. */
zest_status zest_split_test(const zest_task *task, const zest_rows *test, const zest_split_options *options,
                            zest_split *split, zest_error *error);
void zest_split_free(zest_split *split);

/* Changes exactly round(fraction * count) of the answers to another class, uniformly. The result depends
 * only on seed, count and answers; see split.c. */
zest_status zest_split_add_noise(zest_split *split, size_t classes, double fraction, uint32_t seed,
                                 zest_error *error);

#endif
