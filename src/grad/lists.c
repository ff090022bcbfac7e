/* Lists of rows, turned round: who read a row. And tables where the operations look for them. */
#include <stdlib.h>
#include <string.h>

#include "grad/grad_internal.h"

zest_status zest_grad_done(const zest_grad_pass *pass, int failed) {
    return failed ? zest_model_no_scratch(pass->grad->runner, pass->error) : ZEST_OK;
}

const void *zest_grad_stage(zest_grad_pass *pass, const void *table, size_t bytes) {
    zest_model_runner *runner = pass->grad->runner;
    return runner->device && bytes ? runner->operations->device->stage(runner->device, table, bytes) : table;
}

static zest_status grow(zest_grad_pass *pass, uint32_t **list, size_t *had, size_t count) {
    if (count <= *had) return ZEST_OK;
    free(*list);
    *list = malloc(count * sizeof **list);
    *had = *list ? count : 0;
    return *list ? ZEST_OK : zest_error_memory(pass->error, "lists of rows", count * sizeof **list);
}

/* Positions in the list, by the row they read and then in order. Behind it, ends[r] is the end of row r's. */
static void sort_by_row(const uint32_t *list, size_t count, size_t rows, uint32_t *ends, uint32_t *sorted) {
    memset(ends, 0, (rows + 1) * sizeof *ends);
    for (size_t i = 0; i < count; i++) ends[list[i] + 1]++;
    for (size_t r = 0; r < rows; r++) ends[r + 1] += ends[r];
    for (size_t i = 0; i < count; i++) sorted[ends[list[i]]++] = (uint32_t)i;
}

/* Room: the ends of all rows, then targets, starts, runs and sources without gaps, so that they travel as one
 * table. */
zest_status zest_grad_index(zest_grad_pass *pass, zest_grad_list which, const uint32_t *list, size_t count,
                            size_t rows, int all, zest_index *index) {
    zest_grad *grad = pass->grad;
    size_t most = all || rows < count ? rows : count, runs_most = count / ZEST_INDEX_RUN + most + 1;
    zest_status status = grow(pass, &grad->lists[which], &grad->list_counts[which],
                              rows + 1 + 2 * most + 1 + runs_most + count);
    if (status) return status;
    uint32_t *ends = grad->lists[which], *targets = ends + rows + 1, *starts = targets + most;
    uint32_t *runs = starts + most + 1, *sorted = runs + runs_most;
    size_t sums = 0, run = 0;
    *index = (zest_index){0};
    sort_by_row(list, count, rows, ends, sorted);
    for (size_t r = 0; r < rows; r++) {
        uint32_t first = r ? ends[r - 1] : 0, end = ends[r];
        if (first == end && !all) continue;
        targets[sums] = (uint32_t)r;
        starts[sums++] = (uint32_t)run;
        for (uint32_t s = first; s < end; s += ZEST_INDEX_RUN) runs[run++] = s;
        index->divided |= end - first > ZEST_INDEX_RUN;
    }
    starts[sums] = (uint32_t)run;
    runs[run] = (uint32_t)count;
    memmove(targets + sums, starts, (sums + 1) * sizeof *starts);
    memmove(targets + 2 * sums + 1, runs, (run + 1) * sizeof *runs);
    memmove(targets + 2 * sums + run + 2, sorted, count * sizeof *sorted);
    const uint32_t *there = zest_grad_stage(pass, targets, (2 * sums + run + 2 + count) * sizeof *targets);
    if (!there) return zest_grad_done(pass, 1);
    index->targets = all ? NULL : there;
    index->starts = there + sums;
    index->runs = there + 2 * sums + 1;
    index->sources = there + 2 * sums + run + 2;
    index->count = sums;
    index->run_count = run;
    return ZEST_OK;
}

zest_status zest_grad_list_keys(zest_grad_pass *pass) {
    const zest_model_batch *batch = pass->request.batch;
    zest_grad *grad = pass->grad;
    for (size_t s = 0; s < batch->sequences; s++) {
        size_t keys = pass->pass.key_starts[s + 1] - pass->pass.key_starts[s];
        if (keys > pass->longest_keys) pass->longest_keys = keys;
    }
    if (!batch->parents) return ZEST_OK;
    zest_status status = grow(pass, &grad->key_sources, &grad->key_count, pass->pass.key_rows);
    if (status) return status;
    uint32_t *next = grad->key_sources;
    for (size_t s = 0; s < batch->sequences; s++) {
        uint32_t from[2] = {batch->parents[s], (uint32_t)s}; /* the parent's keys, then its own */
        for (int part = 0; part < 2; part++) {
            if (from[part] == ZEST_MODEL_NO_PARENT) continue;
            for (uint32_t row = batch->starts[from[part]]; row < batch->starts[from[part] + 1]; row++)
                *next++ = row;
        }
    }
    pass->key_sources = grad->runner->device ? pass->pass.at.key_sources : grad->key_sources;
    return zest_grad_index(pass, ZEST_GRAD_KEYS, grad->key_sources, pass->pass.key_rows, pass->rows, 1,
                           &pass->by_keys);
}
