/* zest bench gemm and attention: single operations of a model's shape against the ceiling. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ceiling.h"
#include "base/clock.h"
#include "cli/bench.h"
#include "cli/model.h"
#include "cli/output.h"

/* Seconds of a call, best of several within about a second. */
#define BEST_OF(seconds, call)                                                                     \
    do {                                                                                           \
        double until_ = zest_clock_now() + 1;                                                      \
        (seconds) = 1e9;                                                                           \
        for (int round_ = 0; round_ < 3 || (round_ < 50 && zest_clock_now() < until_); round_++) { \
            double began_ = zest_clock_now();                                                      \
            if (call) return -1;                                                                   \
            (seconds) = fmin((seconds), zest_clock_now() - began_);                                \
        }                                                                                          \
    } while (0)

typedef struct {
    zest_cpu cpu;
    const zest_forward *operations;
    zest_scratch scratch;
    int threads;
    zest_compute compute;
    double ceiling;
    size_t rows;
    int json; /* nothing but the result is printed */
    json_t *results;
} setting;

static float *random_floats(size_t count, uint64_t seed, zest_cpu cpu) {
    float *values = malloc(count * sizeof *values);
    if (values) zest_noise_for(cpu)->normal(values, seed, 0, count);
    return values;
}

/* One product, alone and as a pair of lanes with noise. Returns -1 when memory is short. */
static int time_product(setting *s, const float *a, const float *w, float *out, size_t n, size_t k) {
    double alone, pair, work = 2.0 * (double)s->rows * (double)n * (double)k;
    uint16_t *half = malloc(n * k * sizeof *half);
    if (!half) return -1;
    int brain = s->compute == ZEST_COMPUTE_BF16;
    zest_dtype_from_float(ZEST_DTYPE_BF16, w, n * k, half);
    zest_linear job = {.weight = {.data = brain ? (const void *)half : w,
                                  .dtype = brain ? ZEST_DTYPE_BF16 : ZEST_DTYPE_F32,
                                  .rows = n,
                                  .columns = k},
                       .perturbation = {.seed = 1, .lanes = 1},
                       .a = {a, a},
                       .rows = s->rows,
                       .a_stride = k,
                       .out = {out, out + s->rows * n},
                       .out_stride = n,
                       .compute = s->compute};
    s->ceiling =
        fmax(s->ceiling, zest_ceiling_measure(s->cpu, s->compute, s->threads)); /* as the clock is now */
    BEST_OF(alone, s->operations->linear(&job, s->threads, &s->scratch));
    job.perturbation = (zest_perturbation){.seed = 1, .scale = {1e-3f, -1e-3f}, .lanes = 2};
    BEST_OF(pair, s->operations->linear(&job, s->threads, &s->scratch));
    free(half);
    if (!s->json)
        printf("%6zu x %5zu x %5zu   %8.1f GFLOP/s  %5.1f %%      pair with noise %8.1f GFLOP/s  %5.1f %%\n",
               s->rows, n, k, work / alone / 1e9, 100 * work / alone / s->ceiling, 2 * work / pair / 1e9,
               200 * work / pair / s->ceiling);
    zest_output_append(
        &s->results, json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "rows", (json_int_t)s->rows, "outputs",
                               (json_int_t)n, "inputs", (json_int_t)k, "flops_per_second", work / alone,
                               "ceiling_fraction", work / alone / s->ceiling, "pair_flops_per_second",
                               2 * work / pair, "pair_ceiling_fraction", 2 * work / pair / s->ceiling));
    return 0;
}

static zest_status describe(const zest_options *options, zest_model_description *is, zest_error *error) {
    const char *config;
    zest_status status = zest_bench_shape(options, &config, error);
    if (!status && (zest_options_whole(options, ZEST_OPTION_DEVICE) ||
                    zest_options_whole(options, ZEST_OPTION_COMPUTE) == ZEST_COMPUTE_F16))
        status =
            zest_error_set(error, ZEST_ERROR_ARGUMENT,
                           "this benchmark measures the CPU, in f32 or bf16; bench step measures a GPU too");
    return status ? status : zest_model_describe(config, is, error);
}

static setting make_setting(const zest_options *options, zest_cpu cpu) {
    setting s = {.cpu = cpu,
                 .operations = zest_forward_for(cpu),
                 .threads = zest_bench_threads(options),
                 .compute = (zest_compute)zest_options_whole(options, ZEST_OPTION_COMPUTE),
                 .json = (int)zest_options_whole(options, ZEST_OPTION_JSON),
                 .results = json_array()};
    s.ceiling = zest_ceiling_measure(cpu, s.compute, s.threads);
    if (!s.json)
        printf("%s, %s, compute %s, %d threads; ceiling %.1f GFLOP/s\n",
               zest_options_text(options, ZEST_OPTION_SHAPE), zest_cpu_name(cpu),
               zest_options_text(options, ZEST_OPTION_COMPUTE), s.threads, s.ceiling / 1e9);
    return s;
}

static int finish(setting *s, const zest_options *options, const char *name, zest_cpu cpu, double fraction,
                  int failed) {
    free(s->scratch.data);
    if (failed) {
        json_decref(s->results);
        return zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for the benchmark");
    }
    if (s->json)
        return zest_output_json(json_pack(
            "{s:s, s:s, s:s, s:i, s:f, s:f, s:o}", "bench", name, "shape",
            zest_options_text(options, ZEST_OPTION_SHAPE), "cpu", zest_cpu_name(cpu), "threads", s->threads,
            "ceiling_flops_per_second", s->ceiling, "ceiling_fraction", fraction, "results", s->results));
    json_decref(s->results);
    return ZEST_EXIT_OK;
}

int zest_bench_gemm(const zest_options *options, zest_cpu cpu) {
    zest_error error = {0};
    zest_model_description is = {0};
    zest_status status = describe(options, &is, &error);
    if (status) return zest_output_fail(status, error.message);
    setting s = make_setting(options, cpu);
    s.rows = (size_t)(zest_options_whole(options, ZEST_OPTION_BATCH) *
                      zest_options_whole(options, ZEST_OPTION_TOKENS));
    size_t widest = is.inner > is.width ? is.inner : is.width, q = is.heads * is.head_size;
    float *a = random_floats(s.rows * widest, 1, cpu), *w = random_floats(widest * widest, 2, cpu);
    float *out = malloc(2 * s.rows * widest * sizeof *out);
    int failed = !a || !w || !out || time_product(&s, a, w, out, q, is.width) ||
                 time_product(&s, a, w, out, is.inner, is.width) ||
                 time_product(&s, a, w, out, is.width, is.inner);
    double least = 1;
    json_t *one;
    size_t i;
    json_array_foreach(s.results, i, one) least =
        fmin(least, json_real_value(json_object_get(one, "ceiling_fraction")));
    free(a);
    free(w);
    free(out);
    return finish(&s, options, "gemm", cpu, least, failed);
}

static int time_attention(setting *s, zest_attention *job, double work, double *fraction) {
    double seconds;
    BEST_OF(seconds, s->operations->attention(job, s->threads, &s->scratch));
    *fraction = work / seconds / s->ceiling;
    if (!s->json)
        printf("%zu sequences, %zu heads of %zu, %s: %.3f ms, %.1f GFLOP/s, %.1f %% of the ceiling\n",
               job->sequences, job->heads, job->head_size, job->causal ? "causal" : "not causal",
               1e3 * seconds, work / seconds / 1e9, 100 * *fraction);
    zest_output_append(&s->results,
                       json_pack("{s:f, s:f}", "seconds", seconds, "flops_per_second", work / seconds));
    return 0;
}

int zest_bench_attention(const zest_options *options, zest_cpu cpu) {
    zest_error error = {0};
    zest_model_description is = {0};
    zest_status status = describe(options, &is, &error);
    if (status) return zest_output_fail(status, error.message);
    setting s = make_setting(options, cpu);
    size_t batch = (size_t)zest_options_whole(options, ZEST_OPTION_BATCH), q = is.heads * is.head_size,
           kv = is.kv_heads * is.head_size;
    uint32_t *starts = malloc((batch + 1) * sizeof *starts);
    double fraction = 0, work = 0;
    int failed = !starts;
    if (starts) zest_bench_lengths(options, batch, starts);
    size_t rows = starts ? starts[batch] : 0, stride = q + 2 * kv;
    for (size_t i = 0; starts && i < batch; i++) {
        double length = starts[i + 1] - starts[i];
        work += 4.0 * length * length * (double)q * (is.causal ? 0.5 : 1);
    }
    float *qkv = random_floats(rows * stride + 1, 3, cpu), *out = malloc((rows * q + 1) * sizeof *out);
    if (starts && qkv && out) {
        zest_attention job = {.q = qkv,
                              .k = qkv + q,
                              .v = qkv + q + kv,
                              .out = out,
                              .q_stride = stride,
                              .kv_stride = stride,
                              .out_stride = q,
                              .q_start = starts,
                              .kv_start = starts,
                              .sequences = batch,
                              .heads = is.heads,
                              .kv_heads = is.kv_heads,
                              .head_size = is.head_size,
                              .causal = is.causal,
                              .scale = 1 / sqrtf((float)is.head_size),
                              .compute = s.compute};
        failed = time_attention(&s, &job, work, &fraction);
    } else {
        failed = 1;
    }
    free(starts);
    free(qkv);
    free(out);
    return finish(&s, options, "attention", cpu, fraction, failed);
}
