/* Which rows train, choose and test: as published, by NumPy's generator. */
#ifndef ZEST_DATA_SPLIT_H
#define ZEST_DATA_SPLIT_H

#include "data/task.h"

/* Row numbers in the order of the split, and the labels that the run uses. */
typedef struct {
    uint32_t *rows;
    uint32_t *answers; /* CLASSES: the class of each, after label noise; else NULL */
    size_t count;
} zest_split;

typedef struct {
    size_t shots;                         /* a class for train, and as many for dev; 0: sampled */
    size_t train_size, dev_size, test_size; /* sampled split; 0: 1000, the task's or 500, 1000 */
    uint32_t seed;                        /* of the split: 100, 13, 21, 42, 87 in the publications */
    double label_noise;                   /* fraction of the training labels that is switched */
    uint32_t noise_seed;
    int noisy_dev;
} zest_split_options;

/* K shots: shuffle the training rows with NumPy's seed, group them by label in order of first appearance, the
 * first K of each group train, the next K are dev. Sampled: a permutation of the training rows, the last
 * dev_size of the first train_size + dev_size are dev. A part with a file of its own is taken from it. */
zest_status zest_split_train(const zest_task *task, const zest_rows *train,
                             const zest_split_options *options, zest_split *train_split,
                             zest_split *dev_split, zest_error *error);
/* Test (or a dev part with its own file): all rows when there are at most 1000 (k shots; TSV shuffled with
 * seed 42, CSV by a permutation with seed 42), or the first test_size of a permutation with the seed
 * (sampled). */
zest_status zest_split_test(const zest_task *task, const zest_rows *test, const zest_split_options *options,
                            zest_split *split, zest_error *error);
void zest_split_free(zest_split *split);

/* Switches exactly round(fraction·count) of the answers to another class, each other class alike. Which, and
 * to what, is a function of the seed alone. */
zest_status zest_split_add_noise(zest_split *split, size_t classes, double fraction, uint32_t seed,
                                 zest_error *error);

#endif
