/* zest bench: how fast the kernels and whole steps are here. */
#include "cli/bench.h"

#include <omp.h>
#include <string.h>

#include "cli/output.h"
#include "models/shapes.h"

int zest_bench_threads(const zest_options *options) {
    int threads = (int)zest_options_whole(options, ZEST_OPTION_THREADS);
    return threads ? threads : omp_get_max_threads();
}

/* Tokens of SST-2's training prompts ("... It was <mask>."): 64 quantiles of the 67,349 lengths; their mean
 * is 18.3. */
static const unsigned char sst2[64] = {9,  9,  9,  9,  9,  10, 10, 10, 10, 10, 10, 11, 11, 11, 11, 11,
                                       11, 12, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15,
                                       15, 16, 16, 16, 17, 17, 18, 18, 18, 19, 19, 20, 21, 21, 22, 22,
                                       23, 24, 24, 25, 26, 27, 28, 29, 30, 32, 33, 35, 37, 40, 44, 51};

void zest_bench_lengths(const zest_options *options, size_t count, uint32_t *starts) {
    int real = zest_options_whole(options, ZEST_OPTION_LENGTHS) == 1;
    uint32_t tokens = (uint32_t)zest_options_whole(options, ZEST_OPTION_TOKENS);
    starts[0] = 0;
    for (size_t i = 0; i < count;
         i++) /* 37 and 64 have no common factor: all quantiles come by, in mixed order */
        starts[i + 1] = starts[i] + (real ? sst2[37 * i % 64] : tokens);
}

zest_status zest_bench_shape(const zest_options *options, const char **config, zest_error *error) {
    const char *shape = zest_options_text(options, ZEST_OPTION_SHAPE);
    char known[512] = "";
    *config = zest_shapes_config(shape);
    if (*config) return ZEST_OK;
    for (int i = 0; zest_shapes_name(i); i++) {
        strncat(known, i ? ", " : "", sizeof known - strlen(known) - 1);
        strncat(known, zest_shapes_name(i), sizeof known - strlen(known) - 1);
    }
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "no shape is called '%s'; there are %s", shape, known);
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
    return zest_output_failf(ZEST_ERROR_ARGUMENT,
                             "there is no benchmark '%s'; there are noise, update, gemm, attention, step and "
                             "descent",
                             words[0]);
}

const zest_command zest_command_bench = {
    .name = "bench",
    .words = "noise|update|gemm|attention|step|descent",
    .least = 1,
    .most = 1,
    .summary = "measure the speed of kernels and whole steps",
    .description = "noise: nanoseconds a random number for every instruction set that the machine has, on "
                   "one core. update: one sweep x += "
                   "sum c_i v_i over a vector larger than the caches. gemm: the matrix products of a shape, "
                   "as they are and with two lanes of "
                   "noise made on the way. attention: of a shape. step: one whole ZEST step (noise, 2k "
                   "forward lanes, update) of a shape "
                   "with random weights, split into its parts. descent: --steps such steps with --lr on one "
                   "batch, whose loss should fall.\n\n"
                   "gemm, attention and step print the ceiling that was measured in the same run "
                   "(multiply-adds in registers) and the "
                   "fraction of it that they reach.",
    .examples = "zest bench noise --json\tkey ns_per_normal\n"
                "zest bench step --shape roberta-base --batch 64 --tokens 64 --k 5 --compute bf16 "
                "--json\tkeys seconds_per_step, "
                "ceiling_fraction, peak_bytes",
    .options = "seed\trandom seed\n"
               "batch\tsequences per batch\n"
               "steps\tsteps of descent",
    .defaults = "",
    .users = ZEST_FOR_BENCH,
    .run = run,
};
