/* The forward kernels on the shapes of RoBERTa-base and OPT-1.3B, against what the machine can do at most.
 *
 *   kernels [seconds per figure] [level]      default: 1 second, all levels of the machine
 *
 * Every figure is the best of as many runs as fit in its time, and the ceiling is measured between them:
 * independent multiply-adds in registers, on numbers that are neither zero nor constant in their bits. Both
 * lanes of a pair are counted. Time for packing, noise, bias is included; the operations counted are those of
 * the multiplication alone. */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/forward.h"
#include "base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static double seconds_per_figure = 1;

/* ---- Ceilings ---- */

typedef double ceiling_run(long rounds); /* operations done by this thread */

/* Twelve sums are enough to hide the latency of any of these instructions. */
#define TWELVE(step) \
    step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11)

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double ceiling_avx2(long rounds) {
    __m256 a = _mm256_set1_ps(0.99731f), b = _mm256_set1_ps(0.37713f);
    __asm__ volatile("" : "+x"(a), "+x"(b));
#define STEP(i) __m256 s##i = _mm256_set1_ps(1.1f + i);
    TWELVE(STEP)
#undef STEP
    for (long r = 0; r < rounds; r++) {
#define STEP(i) s##i = _mm256_fmadd_ps(s##i, a, b);
        TWELVE(STEP)
#undef STEP
#define STEP(i) __asm__ volatile("" : "+x"(s##i));
        TWELVE(STEP)
#undef STEP
    }
    return 12.0 * 16 * (double)rounds;
}

__attribute__((target("avx512f"))) static double ceiling_avx512(long rounds) {
    __m512 a = _mm512_set1_ps(0.99731f), b = _mm512_set1_ps(0.37713f);
    __asm__ volatile("" : "+v"(a), "+v"(b));
#define STEP(i) __m512 s##i = _mm512_set1_ps(1.1f + i);
    TWELVE(STEP)
#undef STEP
    for (long r = 0; r < rounds; r++) {
#define STEP(i) s##i = _mm512_fmadd_ps(s##i, a, b);
        TWELVE(STEP)
#undef STEP
#define STEP(i) __asm__ volatile("" : "+v"(s##i));
        TWELVE(STEP)
#undef STEP
    }
    return 12.0 * 32 * (double)rounds;
}

__attribute__((target("avx512f,avx512bf16"))) static double ceiling_bf16(long rounds) {
    __m512i a = _mm512_set1_epi32(0x3f713e62), b = _mm512_set1_epi32((int)0xbf12bf77);
    __asm__ volatile("" : "+v"(a), "+v"(b));
#define STEP(i) __m512 s##i = _mm512_set1_ps(1.1f + i);
    TWELVE(STEP)
#undef STEP
    for (long r = 0; r < rounds; r++) {
#define STEP(i) s##i = _mm512_dpbf16_ps(s##i, (__m512bh)a, (__m512bh)b);
        TWELVE(STEP)
#undef STEP
#define STEP(i) __asm__ volatile("" : "+v"(s##i));
        TWELVE(STEP)
#undef STEP
    }
    return 12.0 * 64 * (double)rounds;
}

__attribute__((target("amx-tile,amx-bf16"))) static double ceiling_amx(long rounds) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = {.palette = 1};
    uint16_t data[2048];
    uint32_t bits = 12345;
    for (int i = 0; i < 8; i++) config.row_bytes[i] = 64, config.rows[i] = 16;
    for (int i = 0; i < 2048; i++) { /* random mantissas and signs: the clock depends on the data */
        bits = bits * 1664525 + 1013904223;
        data[i] = (uint16_t)(0x3f00 | (bits >> 16 & 0x80ff));
    }
    __asm__ volatile("" : : "r"(&config), "r"(data) : "memory");
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, data, 64);
    _tile_loadd(5, data + 512, 64);
    _tile_loadd(6, data + 1024, 64);
    _tile_loadd(7, data + 1536, 64);
    for (long r = 0; r < rounds / 8; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return 4.0 * 16384 * (double)(rounds / 8);
}
#endif

static double ceiling_plain(long rounds) {
    float s[12];
    for (int i = 0; i < 12; i++) s[i] = 1.1f + (float)i;
    for (long r = 0; r < rounds / 8; r++)
        for (int i = 0; i < 12; i++) s[i] = fmaf(s[i], 0.99731f, 0.37713f);
    __asm__ volatile("" : : "r"(s) : "memory");
    return 12.0 * 2 * (double)(rounds / 8);
}

static ceiling_run *ceiling_of(zest_cpu level, zest_compute compute) {
#if defined(__x86_64__)
    if (level >= ZEST_CPU_AMX && compute == ZEST_COMPUTE_BF16) return ceiling_amx;
    if (level >= ZEST_CPU_AVX512BF16 && compute == ZEST_COMPUTE_BF16) return ceiling_bf16;
    if (level >= ZEST_CPU_AVX512) return ceiling_avx512;
    if (level >= ZEST_CPU_AVX2) return ceiling_avx2;
#endif
    (void)level, (void)compute;
    return ceiling_plain;
}

static double ceiling(ceiling_run *run, int threads) {
    double operations = 0, start = zest_clock_now();
#pragma omp parallel num_threads(threads) reduction(+ : operations)
    operations += run(1000000);
    return operations / (zest_clock_now() - start) * 1e-9;
}

/* ---- One figure ---- */

typedef struct {
    double speed, ceiling; /* GFLOP/s */
} figure;

typedef int operation(const zest_forward *forward, const void *job, int threads, zest_scratch *scratch);

static figure measure(zest_cpu level, operation *run, const void *job, double flops, zest_compute compute,
                      int threads) {
    const zest_forward *forward = zest_forward_for(level);
    zest_scratch scratch = {0};
    figure best = {0, 0};
    double end = zest_clock_now() + seconds_per_figure;
    for (int i = 0; i < 3 || zest_clock_now() < end; i++) {
        double most = ceiling(ceiling_of(level, compute), threads), start = zest_clock_now();
        if (run(forward, job, threads, &scratch)) exit(1);
        double speed = flops / (zest_clock_now() - start) * 1e-9;
        if (speed > best.speed) best.speed = speed;
        if (most > best.ceiling) best.ceiling = most;
    }
    free(scratch.data);
    return best;
}

static float *normals(size_t count, uint64_t seed, float scale) {
    float *x = malloc(count * sizeof *x);
    if (!x) exit(1);
    zest_cpu cpu = ZEST_CPU_PLAIN;
    (void)zest_cpu_detect(&cpu);
    zest_noise_for(cpu)->normal(x, seed, 0, count);
    for (size_t i = 0; i < count; i++) x[i] *= scale;
    return x;
}

/* ---- Linear ---- */

static const struct {
    const char *model;
    size_t rows, outputs, inputs;
} shapes[] = {
    {"RoBERTa-base", 4096, 768, 768}, {"RoBERTa-base", 4096, 3072, 768}, {"RoBERTa-base", 4096, 768, 3072},
    {"OPT-1.3B", 1024, 2048, 2048},   {"OPT-1.3B", 1024, 8192, 2048},    {"OPT-1.3B", 1024, 2048, 8192},
    {"few rows", 64, 768, 768},       {"few rows", 64, 2048, 8192},
};

static int run_linear(const zest_forward *forward, const void *job, int threads, zest_scratch *scratch) {
    return forward->linear(job, threads, scratch);
}

static void bench_linear(zest_cpu level, size_t shape) {
    size_t m = shapes[shape].rows, n = shapes[shape].outputs, k = shapes[shape].inputs;
    float *a[2] = {normals(m * k, 1, 1), normals(m * k, 2, 1)}, *w = normals(n * k, 3, 0.05f),
          *b = normals(n, 4, 0.1f);
    float *out[2] = {normals(m * n, 5, 1), normals(m * n, 6, 1)};
    for (int compute = 0; compute < 2; compute++)
        for (int noise = 0; noise < 2; noise++)
            for (int threads = 1; threads <= 2; threads++) {
                zest_linear job = {.weight = {w, ZEST_DTYPE_F32, n, k, 0, 0},
                                   .bias = {b, ZEST_DTYPE_F32, 1, n, 1u << 30, 0},
                                   .perturbation = {42, 0, {noise ? 1e-3f : 0, noise ? -1e-3f : 0}, 2},
                                   .a = {a[0], a[1]},
                                   .rows = m,
                                   .a_stride = k,
                                   .out = {out[0], out[1]},
                                   .out_stride = n,
                                   .compute = (zest_compute)compute};
                double flops = 4.0 * (double)m * (double)n * (double)k;
                figure f = measure(level, run_linear, &job, flops, job.compute, threads);
                printf("%-11s %-13s %5zu %5zu %5zu  %s  %-8s %d %9.1f %9.1f %5.0f %%\n", zest_cpu_name(level),
                       shapes[shape].model, m, n, k, compute ? "bf16" : "fp32", noise ? "noise" : "no noise",
                       threads, f.speed, f.ceiling, 100 * f.speed / f.ceiling);
                fflush(stdout);
            }
    for (int l = 0; l < 2; l++) free(a[l]), free(out[l]);
    free(w);
    free(b);
}

/* ---- Attention ---- */

static const struct {
    const char *model;
    size_t sequences, length, heads;
    int causal;
} attentions[] = {
    {"RoBERTa-base", 32, 128, 12, 0},
    {"RoBERTa-base", 128, 32, 12, 0},
    {"OPT-1.3B", 4, 256, 32, 1},
    {"OPT-1.3B", 1, 2048, 32, 1},
};

static int run_attention(const zest_forward *forward, const void *job, int threads, zest_scratch *scratch) {
    return forward->attention(job, threads, scratch);
}

static void bench_attention(zest_cpu level, size_t shape) {
    size_t sequences = attentions[shape].sequences, length = attentions[shape].length,
           heads = attentions[shape].heads;
    size_t rows = sequences * length, width = heads * 64;
    float *q = normals(rows * width, 1, 1), *k = normals(rows * width, 2, 1),
          *v = normals(rows * width, 3, 1);
    float *out = normals(rows * width, 4, 1);
    uint32_t *start = malloc((sequences + 1) * sizeof *start);
    if (!start) exit(1);
    for (size_t s = 0; s <= sequences; s++) start[s] = (uint32_t)(s * length);
    zest_attention job = {q,      k,
                          v,      out,
                          width,  width,
                          width,  start,
                          start,  sequences,
                          heads,  heads,
                          64,     attentions[shape].causal,
                          0.125f, ZEST_COMPUTE_F32};
    double seen = attentions[shape].causal ? (double)(length + 1) / 2 : (double)length;
    for (int threads = 1; threads <= 2; threads++) {
        figure f = measure(level, run_attention, &job, 4.0 * (double)rows * seen * (double)width,
                           ZEST_COMPUTE_F32, threads);
        printf("%-11s %-13s %4zu x %4zu, %2zu heads of 64%s  attention %d %9.1f %9.1f %5.0f %%\n",
               zest_cpu_name(level), attentions[shape].model, sequences, length, heads,
               job.causal ? ", causal" : "        ", threads, f.speed, f.ceiling, 100 * f.speed / f.ceiling);
        fflush(stdout);
    }
    free(q), free(k), free(v), free(out), free(start);
}

int main(int argc, char **argv) {
    zest_cpu best;
    if (argc > 1) seconds_per_figure = atof(argv[1]);
    if (!zest_cpu_detect(&best)) {
        fprintf(stderr, "ZEST_CPU names no level\n");
        return 2;
    }
    printf(
        "level       model          rows  outs   ins  type  weights threads GFLOP/s   ceiling  fraction\n");
    for (int level = ZEST_CPU_AVX2; level <= (int)best; level++) {
        if (argc > 2 && strcmp(argv[2], zest_cpu_name((zest_cpu)level))) continue;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) bench_linear((zest_cpu)level, i);
        for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++)
            bench_attention((zest_cpu)level, i);
    }
    return 0;
}
