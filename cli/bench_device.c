/* zest bench step --device cuda: a whole step on a GPU, where its time goes, and the ceilings of the same
 * run. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/bench_step.h"
#include "cli/model.h"
#include "cli/output.h"

/* Queries times the keys that they see: in a layer of all rows, and in the last, of the asked ones. */
static void count_pairs(const zest_bench_job *b, double *all, double *asked) {
    const zest_model_objective *objective = &b->work.objective;
    int causal = b->model->is.causal;
    *all = *asked = 0;
    for (size_t s = 0; s < b->work.batch.sequences; s++) {
        double length = b->work.starts[s + 1] - b->work.starts[s];
        *all += length * (causal ? (length + 1) / 2 : length);
        if (!causal) *asked += length;
        for (size_t r = objective->item_starts[s]; causal && r < objective->item_starts[s + 1]; r++)
            *asked += objective->rows[r] - b->work.starts[s] + 1;
    }
}

/* Multiply-adds of a step, counted as two each: what the matrix products and the attention have to do. */
static double operations_of(const zest_bench_job *b) {
    const zest_model_description *is = &b->model->is;
    const zest_model_objective *objective = &b->work.objective;
    double width = (double)is->width, q = (double)(is->heads * is->head_size),
           kv = (double)(is->kv_heads * is->head_size), rows = (double)b->work.count;
    double asked = (double)(is->causal ? objective->item_starts[objective->items] : objective->items);
    double behind =
        q * width + (is->gated ? 3 : 2) * width * (double)is->inner; /* a row's, behind the attention */
    double before = (double)is->layers - 1, queries = is->fused_qkv ? rows : asked, pairs, last_pairs;
    int absorbs = zest_model_absorbs(is, zest_model_runner_device(b->runner)->widest, b->work.count,
                                     (size_t)asked); /* then a last query is as wide as the model */
    double keys = absorbs ? asked : rows, last_q = absorbs ? (double)is->heads * width : q;
    count_pairs(b, &pairs, &last_pairs);
    if (is->fused_qkv) last_pairs = pairs; /* whose matrix gives all queries anyway */
    double sum = (before * rows + keys) * width * 2 * kv + (before * rows + queries) * width * q +
                 (before * rows + asked) * behind + 2 * (q * before * pairs + last_q * last_pairs);
    sum +=
        asked * (double)is->embedding_width * (double)(is->causal ? is->vocabulary : objective->word_count);
    if (is->head_transform) sum += asked * width * width;
    return 2 * sum * 2 * (double)b->stepper.tilt.k;
}

typedef struct {
    double step, parts[ZEST_TIME_COUNT], gaps;
    zest_device_ceiling ceiling;
    size_t peak;
    zest_model_budget budget; /* the estimate made before the first step */
} figures;

static zest_status wrong(zest_device *device, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_MEMORY, "%s", device->problem);
}

/* Steps in a row, as training takes them; the best of some rounds. */
static zest_status measure(zest_bench_job *b, figures *f, zest_error *error) {
    enum { WARM = 3, ROUNDS = 6, STEPS = 4 };
    zest_device *device = zest_model_runner_device(b->runner);
    const zest_device_table *table = device->operations->device;
    zest_bench_times t = {0};
    zest_status status = ZEST_OK;
    double none[ZEST_TIME_COUNT];
    uint64_t index = 0;
    f->budget = zest_model_runner_budget(b->runner, b->work.count, b->stepper.tilt.k);
    for (int i = 0; i < WARM && !status; i++) status = zest_bench_take_step(b, index++, &t, error);
    f->step = INFINITY;
    for (int round = 0; round < (f->step > 0.25 ? ROUNDS / 2 : ROUNDS) && !status; round++) {
        if (table->times(device, none)) return wrong(device, error);
        double began = zest_clock_now();
        for (int i = 0; i < STEPS && !status; i++) status = zest_bench_take_step(b, index++, &t, error);
        if (!status && table->times(device, none))
            return wrong(device, error); /* waits for the last update */
        f->step = fmin(f->step, (zest_clock_now() - began) / STEPS);
    }
    (void)table->held(device, &f->peak);
    if (!status && table->watch(device, 1)) return wrong(device, error);
    if (!status) status = zest_bench_take_step(b, index++, &t, error);
    if (!status && (table->times(device, f->parts) || table->watch(device, 0))) return wrong(device, error);
    f->gaps = f->step;
    for (int i = 0; i < ZEST_TIME_COUNT; i++) f->gaps -= f->parts[i];
    return status;
}

static void print_figures(const zest_options *options, const zest_bench_job *b, const figures *f) {
    const zest_device *device = zest_model_runner_device(b->runner);
    const double *p = f->parts, work = operations_of(b), fraction = work / f->step / f->ceiling.gemm_flops;
    double normals = (double)b->stepper.tilt.k * (double)b->model->params.dimension;
    printf("%s, batch %zu, %zu tokens, k = %zu, compute %s, %s\n",
           zest_options_text(options, ZEST_OPTION_SHAPE), b->work.batch.sequences, b->work.count,
           b->stepper.tilt.k, zest_options_text(options, ZEST_OPTION_COMPUTE),
           device->operations->device->name(device));
    printf("%.5f s a step: noise %.5f, gemm %.5f, attention %.5f, norms %.5f, rows %.5f, loss %.5f, update "
           "%.5f, "
           "gaps %.5f\n",
           f->step, p[ZEST_TIME_NOISE], p[ZEST_TIME_GEMM], p[ZEST_TIME_ATTENTION], p[ZEST_TIME_NORM],
           p[ZEST_TIME_ROWS], p[ZEST_TIME_LOSS], p[ZEST_TIME_UPDATE], f->gaps);
    printf(
        "%.2f TFLOP in all, %.1f TFLOP/s; ceilings: products %.1f TFLOP/s (%.1f %%), copies %.2f TB/s, "
        "%.0f G "
        "normals/s (update %.0f); peak memory %.1f MiB (estimate %.1f), weights %.1f MiB, %zu live pairs\n",
        work / 1e12, work / f->step / 1e12, f->ceiling.gemm_flops / 1e12, 100 * fraction,
        f->ceiling.copy_bytes / 1e12, f->ceiling.normals / 1e9, normals / p[ZEST_TIME_UPDATE] / 1e9,
        (double)f->peak / 1048576, (double)f->budget.bytes / 1048576, (double)b->model->arena_size / 1048576,
        f->budget.live);
}

static int print_json(const zest_options *options, const zest_bench_job *b, const figures *f) {
    const zest_device *device = zest_model_runner_device(b->runner);
    const double *p = f->parts, work = operations_of(b), fraction = work / f->step / f->ceiling.gemm_flops;
    return zest_output_json(json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:{s:f, s:f, "
        "s:f, s:f, "
        "s:f, s:f, s:f, s:f}}",
        "bench", "step", "shape", zest_options_text(options, ZEST_OPTION_SHAPE), "device",
        device->operations->device->name(device), "compute", zest_options_text(options, ZEST_OPTION_COMPUTE),
        "batch", (json_int_t)b->work.batch.sequences, "tokens", (json_int_t)b->work.count, "k",
        (json_int_t)b->stepper.tilt.k, "seconds_per_step", f->step, "flops_per_second", work / f->step,
        "ceiling_flops_per_second", f->ceiling.gemm_flops, "ceiling_fraction", fraction,
        "ceiling_copy_bytes_per_second", f->ceiling.copy_bytes, "ceiling_normals_per_second",
        f->ceiling.normals, "peak_bytes", (json_int_t)f->peak, "estimated_bytes", (json_int_t)f->budget.bytes,
        "live_pairs", (json_int_t)f->budget.live, "weight_bytes", (json_int_t)b->model->arena_size, "seconds",
        "noise", p[ZEST_TIME_NOISE], "gemm", p[ZEST_TIME_GEMM], "attention", p[ZEST_TIME_ATTENTION], "norms",
        p[ZEST_TIME_NORM], "rows", p[ZEST_TIME_ROWS], "loss", p[ZEST_TIME_LOSS], "update",
        p[ZEST_TIME_UPDATE], "gaps", f->gaps));
}

int zest_bench_step_device(const zest_options *options, zest_cpu cpu) {
    zest_error error = {0};
    zest_bench_job b = {0};
    figures f = {0};
    zest_status status = zest_bench_prepare(&b, options, zest_forward_for(cpu), cpu, &error);
    if (!status) status = measure(&b, &f, &error);
    if (!status) {
        zest_device *device = zest_model_runner_device(b.runner);
        if (device->operations->device->ceiling(device, &f.ceiling)) status = wrong(device, &error);
    }
    int code = ZEST_EXIT_OK;
    if (status)
        code = zest_output_fail(status, error.message);
    else if (zest_options_whole(options, ZEST_OPTION_JSON))
        code = print_json(options, &b, &f);
    else
        print_figures(options, &b, &f);
    zest_bench_discard(&b);
    return code;
}
