/* Queries against keys: those of the rows themselves, of their parents too, or of a cache. */
#include <math.h>
#include <string.h>

#include "models/forward_internal.h"

static int attend(zest_model_pass *pass, const zest_model_attending *a) {
    const zest_model_description *is = pass->is;
    zest_attention job = {.q = a->q,
                          .k = a->kv,
                          .v = zest_model_at(pass->runner, a->kv, pass->kv_width),
                          .out = a->out,
                          .q_stride = a->q_stride,
                          .kv_stride = a->kv_stride,
                          .out_stride = pass->q_width,
                          .q_start = a->q_start,
                          .kv_start = a->kv_start,
                          .sequences = a->sequences,
                          .heads = is->heads,
                          .kv_heads = is->kv_heads,
                          .head_size = is->head_size,
                          .causal = is->causal,
                          .scale = 1.0f / sqrtf((float)is->head_size),
                          .compute = pass->runner->compute,
                          .kv_end = a->kv_end,
                          .longest = a->longest,
                          .lanes = a->lanes,
                          .q_lane = a->q_lane,
                          .kv_lane = a->kv_lane,
                          .out_lane = a->out_lane,
                          .rows = a->rows,
                          .kv_rows = a->kv_rows};
    return pass->runner->operations->attention(&job, pass->runner->threads, &pass->runner->scratch);
}

/* Keys and values side by side, as many rows as asked for, out of rows of q, k and v. */
static void copy_keys(const zest_model_pass *pass, const float *qkv, size_t first, size_t count, float *out) {
    size_t width = 2 * pass->kv_width;
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * width, qkv + (first + i) * pass->stride + pass->q_width, width * sizeof *out);
}

/* The same on a device: row source[i] of q, k and v, or row i, to row i or target[i]. */
static int send_keys(const zest_model_pass *pass, const zest_model_attending *a, float *to, size_t count,
                     const uint32_t *source, const uint32_t *target) {
    zest_model_runner *runner = pass->runner;
    zest_copy_rows job = {.from = zest_model_at(runner, a->q, pass->q_width),
                          .to = to,
                          .lanes = a->lanes,
                          .from_lane = a->q_lane,
                          .to_lane = a->kv_lane,
                          .from_stride = pass->stride,
                          .to_stride = 2 * pass->kv_width,
                          .width = 2 * pass->kv_width,
                          .count = count,
                          .source = source,
                          .target = target};
    return runner->operations->device->copy_rows(runner->device, &job);
}

/* The children's keys behind a copy of their parent's. */
static int attend_with_parents(zest_model_pass *pass, zest_model_attending *a) {
    const zest_model_batch *batch = pass->request->batch;
    size_t width = 2 * pass->kv_width;
    float *past = pass->runner->past.data;
    a->kv = past;
    a->kv_stride = width;
    a->kv_lane = pass->runner->past.lane;
    a->kv_rows = pass->key_rows;
    a->kv_start = pass->at.key_starts;
    if (pass->runner->device && send_keys(pass, a, past, pass->key_rows, pass->at.key_sources, NULL))
        return -1;
    for (size_t s = 0; !pass->runner->device && s < batch->sequences; s++) {
        float *here = past + pass->key_starts[s] * width;
        uint32_t parent = batch->parents[s];
        if (parent != ZEST_MODEL_NO_PARENT) {
            size_t count = batch->starts[parent + 1] - batch->starts[parent];
            copy_keys(pass, a->q, batch->starts[parent], count, here);
            here += count * width;
        }
        copy_keys(pass, a->q, batch->starts[s], batch->starts[s + 1] - batch->starts[s], here);
    }
    return attend(pass, a);
}

static int attend_with_cache(zest_model_pass *pass, size_t layer, zest_model_attending *a) {
    const zest_model_batch *batch = pass->request->batch;
    const zest_model_cache *cache = pass->request->cache;
    size_t width = 2 * pass->kv_width;
    float *kept = zest_model_at(pass->runner, cache->data, layer * cache->rows * width);
    a->kv_stride = width;
    if (pass->runner->device) {
        a->kv = kept;
        a->kv_rows = cache->rows;
        a->kv_start = pass->at.key_starts;
        a->kv_end = pass->at.key_ends;
        return send_keys(pass, a, kept, pass->rows, NULL, pass->at.key_targets) || attend(pass, a);
    }
    int failed = 0;
    const zest_model_attending all = *a;
    for (size_t s = 0; s < batch->sequences && !failed; s++) {
        size_t slot = cache->slots[s], length = cache->lengths[slot], first = batch->starts[s];
        size_t count = batch->starts[s + 1] - first;
        float *kv = kept + cache->slot_start[slot] * width;
        copy_keys(pass, all.q, first, count, kv + length * width);
        uint32_t q_start[2] = {0, (uint32_t)count}, kv_start[2] = {0, (uint32_t)(length + count)};
        zest_model_attending one = {.q = all.q + first * pass->stride,
                                    .kv = kv,
                                    .out = all.out + first * pass->q_width,
                                    .q_stride = pass->stride,
                                    .kv_stride = width,
                                    .q_start = q_start,
                                    .kv_start = kv_start,
                                    .sequences = 1};
        failed = attend(pass, &one);
    }
    return failed;
}

zest_status zest_model_attend_lanes(zest_model_pass *pass, size_t layer, const zest_model_pair *lanes,
                                    zest_model_attending a, float *const q[2], float *const kv[2],
                                    float *const out[2]) {
    zest_model_runner *runner = pass->runner;
    size_t count = zest_perturbation_lanes(&lanes->perturbation);
    a.sequences = pass->request->batch->sequences;
    a.lanes = runner->device ? count : 1;
    a.q_lane = zest_model_apart(runner, ZEST_CONST2(q));
    a.kv_lane = zest_model_apart(runner, ZEST_CONST2(kv));
    a.out_lane = zest_model_apart(runner, ZEST_CONST2(out));
    for (size_t l = 0; l < count; l += a.lanes) {
        zest_model_attending here = a;
        here.q = q[l], here.kv = kv[l], here.out = out[l];
        int failed = pass->request->cache            ? attend_with_cache(pass, layer, &here)
                     : pass->request->batch->parents ? attend_with_parents(pass, &here)
                                                     : attend(pass, &here);
        if (failed) return zest_model_no_scratch(runner, pass->error);
    }
    return ZEST_OK;
}
