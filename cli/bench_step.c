/* zest bench step and zest bench descent: ZEST steps of a model's shape, and the time of their parts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/target.h"
#include "kernels/ops.h"
#include "model/forward_pass.h"

/* ---- Timers around the operations. Static: operations have no field for them, and a program has one benchmark. ---- */

static const zest_ops *inner;
static double linear_seconds, attention_seconds, operations_done, normals_drawn;

/* Floating-point operations of a linear layer. */
static double work_of(const zest_linear *job) {
    return 2.0 * (double)job->rows * (double)job->weight.rows * (double)job->weight.columns *
           job->perturbation.lanes;
}

static int timed_linear(const zest_linear *job, int threads, zest_workspace *scratch) {
    double began = zest_clock_now();
    int failed = inner->linear(job, threads, scratch);
    linear_seconds += zest_clock_now() - began;
    operations_done += work_of(job);
    if (job->perturbation.scale[0] != 0)
        normals_drawn += (double)job->weight.rows * (double)job->weight.columns;
    return failed;
}

static int timed_attention(const zest_attention *job, int threads, zest_workspace *scratch) {
    double began = zest_clock_now();
    int failed = inner->attention(job, threads, scratch);
    attention_seconds += zest_clock_now() - began;
    for (size_t s = 0; s < job->sequences; s++) {
        double q = job->q_start[s + 1] - job->q_start[s], kv = (double)zest_attention_keys(job, s);
        double pairs = q * (job->causal ? kv - (q - 1) / 2 : kv);
        operations_done += 4.0 * pairs * (double)(job->heads * job->head_dim);
    }
    return failed;
}

/* ---- Batch with one prediction per sequence ---- */

static const uint32_t words[2] = {372, 6587};
enum { ANSWER = 8 }; /* tokens that a causal model predicts in every sequence */

static void free_task(zest_bench_task *t) {
    free(t->tokens);
    free(t->starts);
    free(t->rows);
    free(t->targets);
    free(t->item_starts);
    free(t->answers);
}

static int make_task(zest_bench_task *t, const zest_options *options, const zest_model *model) {
    size_t batch = (size_t)zest_options_whole(options, ZEST_OPTION_BATCH), out_rows = 0;
    *t = (zest_bench_task){.starts = malloc((batch + 1) * sizeof *t->starts),
                           .rows = malloc(batch * ANSWER * sizeof *t->rows)};
    t->targets = malloc(batch * ANSWER * sizeof *t->targets);
    t->item_starts = calloc(batch + 1, sizeof *t->item_starts);
    t->answers = calloc(batch, sizeof *t->answers);
    if (!t->starts || !t->rows || !t->targets || !t->item_starts || !t->answers) return 0;
    zest_bench_lengths(options, batch, t->starts);
    t->count = t->starts[batch];
    t->tokens = malloc(t->count * sizeof *t->tokens);
    if (!t->tokens) return 0;
    for (size_t i = 0; i < t->count; i++)
        t->tokens[i] = (uint32_t)(10 + (i * 2654435761u) % (model->config.vocab_size - 20));
    for (size_t s = 0; s < batch; s++) {
        uint32_t end = t->starts[s + 1], length = end - t->starts[s],
                 several = length - 1 < ANSWER ? length - 1 : ANSWER;
        if (!model->config.causal) several = 1;
        for (uint32_t j = 0; j < several; j++, out_rows++) {
            t->rows[out_rows] = model->config.causal ? end - 1 - several + j : t->starts[s] + length / 2;
            t->targets[out_rows] = t->tokens[t->rows[out_rows] + 1 < t->count ? t->rows[out_rows] + 1 : 0];
        }
        t->item_starts[s + 1] = (uint32_t)out_rows;
        t->answers[s] = s % 2;
    }
    t->batch = (zest_model_batch){.tokens = t->tokens, .starts = t->starts, .sequences = batch};
    t->objective =
        (zest_model_objective){.kind = model->config.causal ? ZEST_LOSS_TOKENS : ZEST_LOSS_LABEL_WORDS,
                               .batch = &t->batch,
                               .items = batch,
                               .item_starts = t->item_starts,
                               .rows = t->rows,
                               .targets = t->targets,
                               .words = words,
                               .word_count = 2,
                               .answers = t->answers};
    return 1;
}

/* ---- Step ---- */

/* The losses of all lanes. */
static zest_status forward(zest_bench_job *b, double *seconds, zest_error *error) {
    size_t k = b->step.tilt.k;
    double rho = b->step.tilt.rho;
    for (size_t i = 0; i < 2 * k; i++)
        b->lanes[i] = (zest_model_lane){b->step.directions[i / 2], i % 2 ? -rho : rho};
    double began = zest_clock_now();
    zest_status status =
        zest_model_losses(b->runner, b->lanes, 2 * k, &b->work.objective, b->losses, b->means, NULL, error);
    *seconds = zest_clock_now() - began;
    return status;
}

zest_status zest_bench_take_step(zest_bench_job *b, uint64_t index, zest_bench_times *t, zest_error *error) {
    zest_tilt_report report;
    double before = linear_seconds, attended = attention_seconds, done = operations_done;
    zest_status status = zest_step_draw_directions(&b->step, index, b->model->params.dimension, 0, error);
    if (!status) status = forward(b, &t->forward, error);
    if (status) return status;
    double began = zest_clock_now();
    zest_update update;
    double lr = b->lr > 0 ? b->lr : 1e-9;
    zest_step_tilt(&b->step, b->means, lr, &report);
    if (zest_step_update(&b->step, lr, &report, &update))
        status = zest_model_apply_update(b->runner, &update, error);
    t->update = zest_clock_now() - began;
    t->total = t->forward + t->update;
    t->linear = linear_seconds - before;
    t->attention = attention_seconds - attended;
    t->operations = operations_done - done;
    return status;
}

/* Seconds per normal number when all threads draw: the cost of noise inside the matrix products. */
static double seconds_per_normal(zest_cpu cpu, int threads) {
    enum { BLOCK = 4096, BLOCKS = 64 };
    double best = 1;
    for (int round = 0; round < 20; round++) {
        double began = zest_clock_now();
#pragma omp parallel num_threads(threads)
        {
            float out[BLOCK];
            for (int i = 0; i < BLOCKS; i++) zest_noise_for(cpu)->normal(out, 1, (uint64_t)i * BLOCK, BLOCK);
        }
        best = fmin(best, (zest_clock_now() - began) / ((double)BLOCK * BLOCKS * threads));
    }
    return best;
}

static zest_status measure(zest_bench_job *b, const zest_options *options, zest_cpu cpu,
                           zest_bench_times *best, zest_error *error) {
    zest_progress progress;
    zest_progress_begin(&progress, "bench", "steps", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    zest_status status = zest_bench_take_step(b, 0, best, error); /* touches all memory */
    double began = zest_clock_now();
    for (uint64_t i = 1; !status && (i < 3 || (zest_clock_now() - began < 10 && i < 30)); i++) {
        zest_bench_times t = {0};
        zest_progress_update(&progress, (double)i, 0, NULL);
        normals_drawn = 0;
        status = zest_bench_take_step(b, i, &t, error);
        if (!status && (i == 1 || t.total < best->total)) *best = t;
    }
    zest_progress_end(&progress);
    best->noise = normals_drawn * seconds_per_normal(cpu, zest_bench_threads(options));
    return status;
}

static size_t peak_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : (size_t)usage.ru_maxrss * 1024;
}

static void print_figures(const zest_options *options, const zest_bench_job *b, const zest_bench_times *t,
                          double peak_flops, zest_cpu cpu) {
    double rest = t->forward - t->linear - t->attention, fraction = t->operations / t->total / peak_flops;
    printf("%s, batch %zu, %zu tokens, k = %zu, compute %s, %s, %d threads\n",
           zest_options_text(options, ZEST_OPTION_SHAPE), b->work.batch.sequences, b->work.count,
           b->step.tilt.k, zest_options_text(options, ZEST_OPTION_COMPUTE), zest_cpu_name(cpu),
           zest_bench_threads(options));
    printf("%.4f s a step: noise %.4f, gemm %.4f, attention %.4f, rest %.4f, update %.4f\n", t->total,
           t->noise, t->linear - t->noise, t->attention, rest, t->update);
    printf("%.1f GFLOP in all, %.1f GFLOP/s; peak %.1f: %.1f %%; peak memory %.1f MiB, weights %.1f MiB\n",
           t->operations / 1e9, t->operations / t->total / 1e9, peak_flops / 1e9, 100 * fraction,
           (double)peak_bytes() / 1048576, (double)b->model->arena_size / 1048576);
}

static int print_json(const zest_options *options, const zest_bench_job *b, const zest_bench_times *t,
                      double peak_flops, zest_cpu cpu) {
    double rest = t->forward - t->linear - t->attention, fraction = t->operations / t->total / peak_flops;
    return zest_output_json(json_pack(
        "{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:{s:f, s:f, s:f, s:f, s:f}}",
        "bench", "step", "shape", zest_options_text(options, ZEST_OPTION_SHAPE), "cpu", zest_cpu_name(cpu),
        "threads", zest_bench_threads(options), "batch", (json_int_t)b->work.batch.sequences, "tokens",
        (json_int_t)b->work.count, "k", (json_int_t)b->step.tilt.k, "seconds_per_step", t->total,
        "flops_per_second", t->operations / t->total, "peak_flops_per_second", peak_flops, "peak_fraction",
        fraction, "peak_bytes", (json_int_t)peak_bytes(), "weight_bytes", (json_int_t)b->model->arena_size,
        "seconds", "noise", t->noise, "gemm", t->linear - t->noise, "attention", t->attention, "rest", rest,
        "update", t->update));
}

zest_status zest_bench_prepare(zest_bench_job *b, const zest_options *options, const zest_ops *operations,
                               zest_cpu cpu, zest_error *error) {
    const char *config;
    zest_model_options load = zest_load_model_options(options);
    zest_model_runner_options run = zest_load_runner_options(options);
    if (load.storage == ZEST_MODEL_AS_STORED)
        load.storage = run.compute == ZEST_COMPUTE_BF16  ? ZEST_MODEL_BF16
                       : run.compute == ZEST_COMPUTE_F16 ? ZEST_MODEL_F16
                                                         : ZEST_MODEL_F32;
    zest_status status = zest_options_check_t(options, error);
    if (!status) status = zest_bench_shape(options, &config, error);
    if (!status)
        status =
            zest_model_random(config, zest_options_whole(options, ZEST_OPTION_SEED), &load, &b->model, error);
    if (!status) status = zest_model_runner_new(b->model, operations, &run, &b->runner, error);
    if (!status) status = zest_step_init(&b->step, zest_vector_ops_for(cpu), options, ZEST_FORMAT, error);
    if (status) return status;
    size_t lanes = 2 * b->step.tilt.k;
    if (!make_task(&b->work, options, b->model)) return zest_error_memory(error, "the batch", 0);
    b->losses = malloc(lanes * b->work.batch.sequences * sizeof *b->losses);
    b->means = malloc(lanes * sizeof *b->means);
    b->lanes = malloc(lanes * sizeof *b->lanes);
    return b->losses && b->means && b->lanes ? ZEST_OK : zest_error_memory(error, "the losses", lanes);
}

void zest_bench_discard(zest_bench_job *b) {
    free_task(&b->work);
    free(b->losses);
    free(b->means);
    free(b->lanes);
    zest_step_free(&b->step);
    zest_model_runner_free(b->runner);
    zest_model_free(b->model);
}

int zest_bench_step(const zest_options *options, zest_cpu cpu) {
    if (zest_options_whole(options, ZEST_OPTION_DEVICE)) return zest_bench_step_device(options, cpu);
    zest_error error = {0};
    zest_bench_job b = {0};
    zest_bench_times best = {0};
    inner = zest_ops_for(cpu);
    zest_ops timed = *inner;
    timed.linear = timed_linear;
    timed.attention = timed_attention;
    zest_compute compute = (zest_compute)zest_options_whole(options, ZEST_OPTION_COMPUTE);
    double peak_flops = compute == ZEST_COMPUTE_F16
                            ? 0 /* an error below */
                            : zest_peak_measure(cpu, compute, zest_bench_threads(options));
    zest_status status = zest_bench_prepare(&b, options, &timed, cpu, &error);
    if (!status) status = measure(&b, options, cpu, &best, &error);
    int code = ZEST_EXIT_OK;
    if (status) {
        code = zest_output_fail(status, error.message);
    } else {
        peak_flops = fmax(peak_flops, zest_peak_measure(cpu, compute, zest_bench_threads(options)));
        if (zest_options_whole(options, ZEST_OPTION_JSON))
            code = print_json(options, &b, &best, peak_flops, cpu);
        else
            print_figures(options, &b, &best, peak_flops, cpu);
    }
    zest_bench_discard(&b);
    return code;
}

/* ---- zest bench descent: many steps on one batch with random weights. The loss falls if lanes, tilt and update work together. ---- */

/* The loss at the unperturbed weights. */
static zest_status loss_now(zest_bench_job *b, double *loss, zest_error *error) {
    zest_model_lane itself = {.direction = {.gain = 1}, .scale = 0};
    return zest_model_losses(b->runner, &itself, 1, &b->work.objective, b->losses, loss, NULL, error);
}

static zest_status descend(const zest_options *options, zest_bench_job *b, double *first, double *last,
                           double *seconds, zest_error *error) {
    uint64_t steps = zest_options_whole(options, ZEST_OPTION_STEPS);
    int json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    zest_bench_times times = {0};
    zest_status status = loss_now(b, first, error);
    *last = *first;
    double began = zest_clock_now();
    for (uint64_t i = 0; i < steps && !status; i++) {
        status = zest_bench_take_step(b, i, &times, error);
        if (status || ((i + 1) % (steps / 10 + 1) && i + 1 < steps)) continue;
        status = loss_now(b, last, error);
        if (!status && !json) printf("step %5llu  loss %.4f\n", (unsigned long long)i + 1, *last);
    }
    *seconds = zest_clock_now() - began;
    return status;
}

int zest_bench_descent(const zest_options *options, zest_cpu cpu) {
    zest_error error = {0};
    zest_bench_job b = {.lr = zest_options_number(options, ZEST_OPTION_LR)};
    double first = NAN, last = NAN, seconds = 0;
    zest_status status = zest_bench_prepare(&b, options, zest_ops_for(cpu), cpu, &error);
    if (!status) status = descend(options, &b, &first, &last, &seconds, &error);
    int code = ZEST_EXIT_OK;
    if (status)
        code = zest_output_fail(status, error.message);
    else if (zest_options_whole(options, ZEST_OPTION_JSON))
        code = zest_output_json(json_pack("{s:s, s:s, s:I, s:o, s:o, s:f}", "bench", "descent", "shape",
                                          zest_options_text(options, ZEST_OPTION_SHAPE), "steps",
                                          (json_int_t)zest_options_whole(options, ZEST_OPTION_STEPS),
                                          "first_loss", zest_output_real(first), "last_loss",
                                          zest_output_real(last), "seconds", seconds));
    else
        printf("loss %.4f at the start, %.4f at the end; %.1f s\n", first, last, seconds);
    zest_bench_discard(&b);
    return code;
}

/* ---- zest bench step --device cuda ---- */

/* Query-key pairs: in a layer with all rows, and in the last one, with the output rows. */
static void count_pairs(const zest_bench_job *b, double *all, double *out_rows) {
    const zest_model_objective *objective = &b->work.objective;
    int causal = b->model->config.causal;
    *all = *out_rows = 0;
    for (size_t s = 0; s < b->work.batch.sequences; s++) {
        double length = b->work.starts[s + 1] - b->work.starts[s];
        *all += length * (causal ? (length + 1) / 2 : length);
        if (!causal) *out_rows += length;
        for (size_t r = objective->item_starts[s]; causal && r < objective->item_starts[s + 1]; r++)
            *out_rows += objective->rows[r] - b->work.starts[s] + 1;
    }
}

/* Floating-point operations of a step: matrix products and attention. */
static double operations_of(const zest_bench_job *b) {
    const zest_model_config *config = &b->model->config;
    const zest_model_objective *objective = &b->work.objective;
    double width = (double)config->hidden_size, q = (double)(config->heads * config->head_dim),
           kv = (double)(config->kv_heads * config->head_dim), rows = (double)b->work.count;
    double out_rows = (double)(config->causal ? objective->item_starts[objective->items] : objective->items);
    double after_attention = q * width + (config->gated ? 3 : 2) * width *
                                             (double)config->ffn_size; /* of a row, after attention */
    double before = (double)config->layers - 1, queries = config->fused_qkv ? rows : out_rows, pairs,
           last_pairs;
    int absorbs = zest_model_absorbs(config, zest_model_runner_device(b->runner)->max_head_dim, b->work.count,
                                     (size_t)out_rows); /* then a last query has the width of the model */
    double keys = absorbs ? out_rows : rows, last_q = absorbs ? (double)config->heads * width : q;
    count_pairs(b, &pairs, &last_pairs);
    if (config->fused_qkv) last_pairs = pairs; /* a fused matrix computes all queries anyway */
    double sum = (before * rows + keys) * width * 2 * kv + (before * rows + queries) * width * q +
                 (before * rows + out_rows) * after_attention +
                 2 * (q * before * pairs + last_q * last_pairs);
    sum += out_rows * (double)config->embedding_size *
           (double)(config->causal ? config->vocab_size : objective->word_count);
    if (config->head_transform) sum += out_rows * width * width;
    return 2 * sum * 2 * (double)b->step.tilt.k;
}

typedef struct {
    double step, timings[ZEST_PROFILE_PARTS], gaps;
    zest_device_peak peaks;
    size_t peak;
    zest_model_budget budget; /* the estimate made before the first step */
} figures;

static zest_status wrong(zest_device *device, zest_error *error) {
    return zest_device_take_error(device, error);
}

/* Consecutive steps, as in training; the minimum of several rounds. */
static zest_status bench_device_measure(zest_bench_job *b, figures *f, zest_error *error) {
    enum { WARM = 3, ROUNDS = 6, STEPS = 4 };
    zest_device *device = zest_model_runner_device(b->runner);
    const zest_device_table *table = device->operations->device;
    zest_bench_times t = {0};
    zest_status status = ZEST_OK;
    double none[ZEST_PROFILE_PARTS];
    uint64_t index = 0;
    f->budget = zest_model_runner_budget(b->runner, b->work.count, b->step.tilt.k);
    for (int i = 0; i < WARM && !status; i++) status = zest_bench_take_step(b, index++, &t, error);
    f->step = INFINITY;
    for (int round = 0; round < (f->step > 0.25 ? ROUNDS / 2 : ROUNDS) && !status; round++) {
        if (table->profile_read(device, none)) return wrong(device, error);
        double began = zest_clock_now();
        for (int i = 0; i < STEPS && !status; i++) status = zest_bench_take_step(b, index++, &t, error);
        if (!status && table->profile_read(device, none))
            return wrong(device, error); /* waits for the last update */
        f->step = fmin(f->step, (zest_clock_now() - began) / STEPS);
    }
    (void)table->bytes_allocated(device, &f->peak);
    if (!status && table->profile(device, 1)) return wrong(device, error);
    if (!status) status = zest_bench_take_step(b, index++, &t, error);
    if (!status && (table->profile_read(device, f->timings) || table->profile(device, 0)))
        return wrong(device, error);
    f->gaps = f->step;
    for (int i = 0; i < ZEST_PROFILE_PARTS; i++) f->gaps -= f->timings[i];
    return status;
}

static void bench_device_print_figures(const zest_options *options, const zest_bench_job *b,
                                       const figures *f) {
    const zest_device *device = zest_model_runner_device(b->runner);
    const double *p = f->timings, work = operations_of(b), fraction = work / f->step / f->peaks.gemm_flops;
    double normals = (double)b->step.tilt.k * (double)b->model->params.dimension;
    printf("%s, batch %zu, %zu tokens, k = %zu, compute %s, %s\n",
           zest_options_text(options, ZEST_OPTION_SHAPE), b->work.batch.sequences, b->work.count,
           b->step.tilt.k, zest_options_text(options, ZEST_OPTION_COMPUTE),
           device->operations->device->name(device));
    printf("%.5f s a step: noise %.5f, gemm %.5f, attention %.5f, norms %.5f, rows %.5f, loss %.5f, update "
           "%.5f, gaps %.5f\n",
           f->step, p[ZEST_PROFILE_PERTURB], p[ZEST_PROFILE_GEMM], p[ZEST_PROFILE_ATTENTION],
           p[ZEST_PROFILE_NORM], p[ZEST_PROFILE_ELEMENTWISE], p[ZEST_PROFILE_LOSS], p[ZEST_PROFILE_UPDATE],
           f->gaps);
    printf("%.2f TFLOP in all, %.1f TFLOP/s; peaks: products %.1f TFLOP/s (%.1f %%), copies %.2f TB/s, "
           "%.0f G normals/s (update %.0f); peak memory %.1f MiB (estimate %.1f), weights %.1f MiB, %zu live "
           "pairs\n",
           work / 1e12, work / f->step / 1e12, f->peaks.gemm_flops / 1e12, 100 * fraction,
           f->peaks.copy_bytes / 1e12, f->peaks.normals / 1e9, normals / p[ZEST_PROFILE_UPDATE] / 1e9,
           (double)f->peak / 1048576, (double)f->budget.bytes / 1048576,
           (double)b->model->arena_size / 1048576, f->budget.live);
}

static int bench_device_print_json(const zest_options *options, const zest_bench_job *b, const figures *f) {
    const zest_device *device = zest_model_runner_device(b->runner);
    const double *p = f->timings, work = operations_of(b), fraction = work / f->step / f->peaks.gemm_flops;
    return zest_output_json(json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:{s:f, "
        "s:f, s:f, s:f, s:f, s:f, s:f, s:f}}",
        "bench", "step", "shape", zest_options_text(options, ZEST_OPTION_SHAPE), "device",
        device->operations->device->name(device), "compute", zest_options_text(options, ZEST_OPTION_COMPUTE),
        "batch", (json_int_t)b->work.batch.sequences, "tokens", (json_int_t)b->work.count, "k",
        (json_int_t)b->step.tilt.k, "seconds_per_step", f->step, "flops_per_second", work / f->step,
        "peak_flops_per_second", f->peaks.gemm_flops, "peak_fraction", fraction, "peak_copy_bytes_per_second",
        f->peaks.copy_bytes, "peak_normals_per_second", f->peaks.normals, "peak_bytes", (json_int_t)f->peak,
        "estimated_bytes", (json_int_t)f->budget.bytes, "live_pairs", (json_int_t)f->budget.live,
        "weight_bytes", (json_int_t)b->model->arena_size, "seconds", "noise", p[ZEST_PROFILE_PERTURB], "gemm",
        p[ZEST_PROFILE_GEMM], "attention", p[ZEST_PROFILE_ATTENTION], "norms", p[ZEST_PROFILE_NORM], "rows",
        p[ZEST_PROFILE_ELEMENTWISE], "loss", p[ZEST_PROFILE_LOSS], "update", p[ZEST_PROFILE_UPDATE], "gaps",
        f->gaps));
}

int zest_bench_step_device(const zest_options *options, zest_cpu cpu) {
    zest_error error = {0};
    zest_bench_job b = {0};
    figures f = {0};
    zest_status status = zest_bench_prepare(&b, options, zest_ops_for(cpu), cpu, &error);
    if (!status) status = bench_device_measure(&b, &f, &error);
    if (!status) {
        zest_device *device = zest_model_runner_device(b.runner);
        if (device->operations->device->peak(device, &f.peaks)) status = wrong(device, &error);
    }
    int code = ZEST_EXIT_OK;
    if (status)
        code = zest_output_fail(status, error.message);
    else if (zest_options_whole(options, ZEST_OPTION_JSON))
        code = bench_device_print_json(options, &b, &f);
    else
        bench_device_print_figures(options, &b, &f);
    zest_bench_discard(&b);
    return code;
}
