/* zest bench: the speed of kernels and of training steps on this machine. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "cli/target.h"
#include "kernels/ops.h"
#include "model/model.h"
#include "optim/step.h"

int zest_bench_threads(const zest_options *options) {
    int threads = (int)zest_options_whole(options, ZEST_OPTION_THREADS);
    return threads ? threads : omp_get_max_threads();
}

/* Token counts of SST-2's training prompts ("... It was <mask>."): 64 quantiles of the 67,349 lengths; the
 * mean is 18.3. */
static const unsigned char sst2[64] = {9,  9,  9,  9,  9,  10, 10, 10, 10, 10, 10, 11, 11, 11, 11, 11,
                                       11, 12, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15,
                                       15, 16, 16, 16, 17, 17, 18, 18, 18, 19, 19, 20, 21, 21, 22, 22,
                                       23, 24, 24, 25, 26, 27, 28, 29, 30, 32, 33, 35, 37, 40, 44, 51};

void zest_bench_lengths(const zest_options *options, size_t count, uint32_t *starts) {
    int real = zest_options_whole(options, ZEST_OPTION_LENGTHS) == 1;
    uint32_t tokens = (uint32_t)zest_options_whole(options, ZEST_OPTION_TOKENS);
    starts[0] = 0;
    for (size_t i = 0; i < count; i++) /* 37 and 64 are coprime: all quantiles occur, in mixed order */
        starts[i + 1] = starts[i] + (real ? sst2[37 * i % 64] : tokens);
}

zest_status zest_bench_shape(const zest_options *options, const char **config, zest_error *error) {
    const char *shape = zest_options_text(options, ZEST_OPTION_SHAPE);
    char known[512] = "";
    *config = zest_family_preset_config(shape);
    if (*config) return ZEST_OK;
    for (int i = 0; zest_family_preset_name(i); i++) {
        strncat(known, i ? ", " : "", sizeof known - strlen(known) - 1);
        strncat(known, zest_family_preset_name(i), sizeof known - strlen(known) - 1);
    }
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "unknown shape '%s'; the shapes are %s", shape, known);
}

static const struct {
    const char *name;
    int (*run)(const zest_options *, zest_cpu);
} benches[] = {
    {"noise", zest_bench_noise},         {"update", zest_bench_update}, {"gemm", zest_bench_gemm},
    {"attention", zest_bench_attention}, {"step", zest_bench_step},     {"descent", zest_bench_descent},
};

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_cpu cpu;
    zest_error error = {0};
    if (zest_cpu_detect(&cpu, &error)) return zest_output_fail(error.status, error.message);
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++)
        if (!strcmp(words[0], benches[i].name)) return benches[i].run(options, cpu);
    return zest_output_failf(
        ZEST_ERROR_ARGUMENT,
        "unknown benchmark '%s'; the benchmarks are noise, update, gemm, attention, step and descent",
        words[0]);
}

const zest_command zest_command_bench = {
    .name = "bench",
    .words = "noise|update|gemm|attention|step|descent",
    .min_words = 1,
    .max_words = 1,
    .summary = "measure the speed of kernels and whole steps",
    .description =
        "noise: nanoseconds per random number for every instruction set of the machine, on one core. update: "
        "x += sum c_i v_i over a vector larger than the caches. gemm: the matrix products of a shape, alone "
        "and with two lanes of noise. attention: of a shape. step: one ZEST step (noise, 2k forward lanes, "
        "update) of a shape with random weights, and the time of its parts. descent: --steps such steps with "
        "--lr on one batch, whose loss should fall.\n\n"
        "gemm, attention and step print the peak measured in the same run (multiply-adds in registers) and "
        "the fraction of it that they reach.",
    .examples = "zest bench noise --json\tkey ns_per_normal\n"
                "zest bench step --shape roberta-base --batch 64 --tokens 64 --k 5 --compute bf16 "
                "--json\tkeys seconds_per_step, peak_fraction, peak_bytes",
    .options = "seed\trandom seed\n"
               "batch\tsequences per batch\n"
               "steps\tsteps of descent",
    .defaults = "",
    .users = ZEST_FOR_BENCH,
    .run = run,
};

/* ---- zest bench noise, zest bench update ---- */

enum { BLOCK = 4096, ROUNDS = 40, DIRECTIONS = 5 };

/* Nanoseconds per element, the minimum of many rounds: on a shared machine the least disturbed round shows
 * the speed of the kernel. */
static double time_fill(zest_noise_fill *fill, float *out, uint64_t seed) {
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double began = zest_clock_now();
        for (int block = 0; block < 64; block++)
            fill(out, seed + (uint64_t)round, (uint64_t)block * BLOCK, BLOCK);
        double each = (zest_clock_now() - began) / (64.0 * BLOCK) * 1e9;
        if (each < best) best = each;
    }
    return best;
}

typedef struct {
    const char *cpu;
    double normal, sign;
} speed;

static size_t time_levels(zest_cpu max_level, uint64_t seed, speed *levels) {
    float out[BLOCK];
    size_t count = 0;
    for (int level = (int)max_level; level >= 0; level--) {
        const zest_noise *noise = zest_noise_for((zest_cpu)level);
        if (level && noise == zest_noise_for((zest_cpu)(level - 1))) continue; /* the same kernels */
        levels[count++] = (speed){zest_cpu_name((zest_cpu)level), time_fill(noise->normal, out, seed),
                                  time_fill(noise->sign, out, seed)};
    }
    return count;
}

int zest_bench_noise(const zest_options *options, zest_cpu cpu) {
    speed levels[ZEST_CPU_COUNT];
    size_t count = time_levels(cpu, zest_options_whole(options, ZEST_OPTION_SEED), levels);
    if (!zest_options_whole(options, ZEST_OPTION_JSON)) {
        printf("%-8s %14s %14s   one thread, in the first cache\n", "cpu", "ns a normal", "ns a sign");
        for (size_t i = 0; i < count; i++)
            printf("%-8s %14.3f %14.3f\n", levels[i].cpu, levels[i].normal, levels[i].sign);
        return ZEST_EXIT_OK;
    }
    json_t *all = json_object();
    for (size_t i = 0; i < count; i++)
        zest_output_set(
            &all, levels[i].cpu,
            json_pack("{s:f, s:f}", "ns_per_normal", levels[i].normal, "ns_per_sign", levels[i].sign));
    return zest_output_json(json_pack("{s:s, s:s, s:f, s:f, s:o}", "bench", "noise", "cpu", levels[0].cpu,
                                      "ns_per_normal", levels[0].normal, "ns_per_sign", levels[0].sign,
                                      "levels", all));
}

/* One update with five directions over a vector larger than the caches. */
int zest_bench_update(const zest_options *options, zest_cpu cpu) {
    size_t n = (size_t)1 << 25;
    float *x = calloc(n, sizeof *x);
    if (!x) return zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for the vector (128 MiB)");
    int threads = (int)zest_options_whole(options, ZEST_OPTION_THREADS);
    zest_tensor tensor = {"x", ZEST_DTYPE_F32, 0, n, x, {0}};
    zest_params params = {&tensor, 1, n};
    zest_direction directions[DIRECTIONS];
    double g[DIRECTIONS], best = 1e9;
    for (int i = 0; i < DIRECTIONS; i++) {
        directions[i] = (zest_direction){(uint64_t)i, n, 1, ZEST_GAUSSIAN};
        g[i] = 1e-3;
    }
    zest_update update = {.directions = directions, .g = g, .k = DIRECTIONS, .lr = 1e-3};
    for (int round = 0; round < 4; round++) {
        double began = zest_clock_now();
        zest_update_apply(zest_vector_ops_for(cpu), threads, &params, &update);
        double each = (zest_clock_now() - began) / (double)n * 1e9;
        if (round && each < best) best = each; /* the first round touches the pages */
    }
    free(x);
    if (!zest_options_whole(options, ZEST_OPTION_JSON)) {
        printf(
            "update   %.3f ns an element with k = %d (%.3f ns a normal), %zu floats, threads %d (0: all)\n",
            best, DIRECTIONS, best / DIRECTIONS, n, threads);
        return ZEST_EXIT_OK;
    }
    return zest_output_json(json_pack("{s:s, s:s, s:f, s:i, s:i}", "bench", "update", "cpu",
                                      zest_cpu_name(cpu), "ns_per_element", best, "k", DIRECTIONS, "threads",
                                      threads));
}

/* ---- zest bench gemm, zest bench attention: single operations against the peak ---- */

/* Seconds per call, the minimum of several calls within about a second. */
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
    const zest_ops *operations;
    zest_workspace scratch;
    int threads;
    zest_compute compute;
    double peak_flops;
    size_t rows;
    int json; /* print only the result */
    json_t *results;
} setting;

static float *random_floats(size_t count, uint64_t seed, zest_cpu cpu) {
    float *values = malloc(count * sizeof *values);
    if (values) zest_noise_for(cpu)->normal(values, seed, 0, count);
    return values;
}

/* One product, alone and with two lanes of noise. Returns -1 when out of memory. */
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
    s->peak_flops =
        fmax(s->peak_flops, zest_peak_measure(s->cpu, s->compute, s->threads)); /* at the current clock */
    BEST_OF(alone, s->operations->linear(&job, s->threads, &s->scratch));
    job.perturbation = (zest_perturbation){.seed = 1, .scale = {1e-3f, -1e-3f}, .lanes = 2};
    BEST_OF(pair, s->operations->linear(&job, s->threads, &s->scratch));
    free(half);
    if (!s->json)
        printf("%6zu x %5zu x %5zu   %8.1f GFLOP/s  %5.1f %%      pair with noise %8.1f GFLOP/s  %5.1f %%\n",
               s->rows, n, k, work / alone / 1e9, 100 * work / alone / s->peak_flops, 2 * work / pair / 1e9,
               200 * work / pair / s->peak_flops);
    zest_output_append(
        &s->results, json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "rows", (json_int_t)s->rows, "outputs",
                               (json_int_t)n, "inputs", (json_int_t)k, "flops_per_second", work / alone,
                               "peak_fraction", work / alone / s->peak_flops, "pair_flops_per_second",
                               2 * work / pair, "pair_peak_fraction", 2 * work / pair / s->peak_flops));
    return 0;
}

static zest_status describe(const zest_options *options, zest_model_config *config, zest_error *error) {
    const char *shape;
    zest_status status = zest_bench_shape(options, &shape, error);
    if (!status && (zest_options_whole(options, ZEST_OPTION_DEVICE) ||
                    zest_options_whole(options, ZEST_OPTION_COMPUTE) == ZEST_COMPUTE_F16))
        status =
            zest_error_set(error, ZEST_ERROR_ARGUMENT,
                           "this benchmark measures the CPU, in f32 or bf16; bench step measures a GPU too");
    return status ? status : zest_model_read_config(shape, config, error);
}

static setting make_setting(const zest_options *options, zest_cpu cpu) {
    setting s = {.cpu = cpu,
                 .operations = zest_ops_for(cpu),
                 .threads = zest_bench_threads(options),
                 .compute = (zest_compute)zest_options_whole(options, ZEST_OPTION_COMPUTE),
                 .json = (int)zest_options_whole(options, ZEST_OPTION_JSON),
                 .results = json_array()};
    s.peak_flops = zest_peak_measure(cpu, s.compute, s.threads);
    if (!s.json)
        printf("%s, %s, compute %s, %d threads; peak %.1f GFLOP/s\n",
               zest_options_text(options, ZEST_OPTION_SHAPE), zest_cpu_name(cpu),
               zest_options_text(options, ZEST_OPTION_COMPUTE), s.threads, s.peak_flops / 1e9);
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
        return zest_output_json(json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:o}", "bench", name, "shape",
                                          zest_options_text(options, ZEST_OPTION_SHAPE), "cpu",
                                          zest_cpu_name(cpu), "threads", s->threads, "peak_flops_per_second",
                                          s->peak_flops, "peak_fraction", fraction, "results", s->results));
    json_decref(s->results);
    return ZEST_EXIT_OK;
}

int zest_bench_gemm(const zest_options *options, zest_cpu cpu) {
    zest_error error = {0};
    zest_model_config config = {0};
    zest_status status = describe(options, &config, &error);
    if (status) return zest_output_fail(status, error.message);
    setting s = make_setting(options, cpu);
    s.rows = (size_t)(zest_options_whole(options, ZEST_OPTION_BATCH) *
                      zest_options_whole(options, ZEST_OPTION_TOKENS));
    size_t max_width = config.ffn_size > config.hidden_size ? config.ffn_size : config.hidden_size,
           q = config.heads * config.head_dim;
    float *a = random_floats(s.rows * max_width, 1, cpu), *w = random_floats(max_width * max_width, 2, cpu);
    float *out = malloc(2 * s.rows * max_width * sizeof *out);
    int failed = !a || !w || !out || time_product(&s, a, w, out, q, config.hidden_size) ||
                 time_product(&s, a, w, out, config.ffn_size, config.hidden_size) ||
                 time_product(&s, a, w, out, config.hidden_size, config.ffn_size);
    double min_fraction = 1;
    json_t *one;
    size_t i;
    json_array_foreach(s.results, i, one) min_fraction =
        fmin(min_fraction, json_real_value(json_object_get(one, "peak_fraction")));
    free(a);
    free(w);
    free(out);
    return finish(&s, options, "gemm", cpu, min_fraction, failed);
}

static int time_attention(setting *s, zest_attention *job, double work, double *fraction) {
    double seconds;
    BEST_OF(seconds, s->operations->attention(job, s->threads, &s->scratch));
    *fraction = work / seconds / s->peak_flops;
    if (!s->json)
        printf("%zu sequences, %zu heads of %zu, %s: %.3f ms, %.1f GFLOP/s, %.1f %% of the peak\n",
               job->sequences, job->heads, job->head_dim, job->causal ? "causal" : "not causal",
               1e3 * seconds, work / seconds / 1e9, 100 * *fraction);
    zest_output_append(&s->results,
                       json_pack("{s:f, s:f}", "seconds", seconds, "flops_per_second", work / seconds));
    return 0;
}

int zest_bench_attention(const zest_options *options, zest_cpu cpu) {
    zest_error error = {0};
    zest_model_config config = {0};
    zest_status status = describe(options, &config, &error);
    if (status) return zest_output_fail(status, error.message);
    setting s = make_setting(options, cpu);
    size_t batch = (size_t)zest_options_whole(options, ZEST_OPTION_BATCH), q = config.heads * config.head_dim,
           kv = config.kv_heads * config.head_dim;
    uint32_t *starts = malloc((batch + 1) * sizeof *starts);
    double fraction = 0, work = 0;
    int failed = !starts;
    if (starts) zest_bench_lengths(options, batch, starts);
    size_t rows = starts ? starts[batch] : 0, stride = q + 2 * kv;
    for (size_t i = 0; starts && i < batch; i++) {
        double length = starts[i + 1] - starts[i];
        work += 4.0 * length * length * (double)q * (config.causal ? 0.5 : 1);
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
                              .heads = config.heads,
                              .kv_heads = config.kv_heads,
                              .head_dim = config.head_dim,
                              .causal = config.causal,
                              .scale = 1 / sqrtf((float)config.head_dim),
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
