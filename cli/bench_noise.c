/* zest bench noise and update. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/ops.h"
#include "base/clock.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "core/update.h"

enum { BLOCK = 4096, ROUNDS = 40, DIRECTIONS = 5 };

/* Nanoseconds an element, best of many rounds: on a shared machine the least disturbed round is the kernel's
 * speed. */
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

static size_t time_levels(zest_cpu most, uint64_t seed, speed *levels) {
    float out[BLOCK];
    size_t count = 0;
    for (int level = (int)most; level >= 0; level--) {
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

/* One update sweep with five directions over a vector that fits no cache. */
int zest_bench_update(const zest_options *options, zest_cpu cpu) {
    size_t n = (size_t)1 << 25;
    float *x = calloc(n, sizeof *x);
    if (!x) return zest_output_fail(ZEST_ERROR_MEMORY, "not enough memory for the vector (128 MiB)");
    int threads = (int)zest_options_whole(options, ZEST_OPTION_THREADS);
    zest_tensor tensor = {"x", ZEST_DTYPE_F32, 0, n, x};
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
        zest_update_apply(zest_ops_for(cpu), threads, &params, &update);
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
