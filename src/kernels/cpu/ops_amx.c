/* bf16 arithmetic with AMX tiles. A tile instruction adds up its sixteen pairs in its own order and takes
 * subnormals for zeros, so results are not the bits of the other instruction sets; tests/linear.h states
 * how close they are. Each output still depends on its own row and the order of the tiles alone.
 *
 * Two by two tiles: a line of packed activations is two tiles, a group's line of packed weights is one. The
 * bottleneck is the traffic from L2 to L1, so activations are walked in runs that stay in L1 while a few
 * groups of weights stream past. */
#if defined(__x86_64__)
#include "kernels/cpu/ops_cpu.h"

#include "kernels/cpu/simd_avx512.h"

#define PAIRS 1
enum {
    TILE_ROWS = 32,
    LINEAR_OUTPUTS = 256,
    LINEAR_CHUNK = 2048,
    TILE = 256,     /* floats in the place of one: 16 rows of 64 bytes */
    RUN_LINES = 12, /* 24 KiB of activations */
    RUN_GROUPS = 8
};
#include "kernels/cpu/pack.h"

/* Per thread. The compiler believes that the configuration is eight bytes long and that tile loads and stores
 * touch no memory: the empty assembler statements tell it otherwise. */
static void tiles_begin(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = {.palette = 1};
    for (int i = 0; i < 8; i++) config.row_bytes[i] = 64, config.rows[i] = 16;
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

/* Prefetches, some cache lines with every line of a tile: the next block of rows to L2, since tile loads alone
 * do not start the hardware prefetcher; and the lines of the results to L1, since their stores would wait for
 * them. */
typedef struct {
    const float *rows;
    size_t rows_each;
    const float *out; /* two cache lines in each of 32 rows */
    size_t out_stride, out_at, out_each;
} prefetch;

static inline void prefetch_next(prefetch *next) {
    for (size_t i = 0; i < next->rows_each; i++)
        _mm_prefetch((const char *)(next->rows + 16 * i), _MM_HINT_T1);
    next->rows += 2 * TILE;
    for (size_t i = 0; i < next->out_each; i++, next->out_at++)
        __builtin_prefetch(next->out + next->out_at / 2 * next->out_stride + next->out_at % 2 * 16, 1, 3);
}

/* 32 rows by two groups over `lines` lines. */
static void tile_pair(const float *a, const float *b, size_t group, size_t lines, int first, float *c,
                      size_t stride, prefetch next) {
    __asm__ volatile("" : : : "memory");
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, c, stride * sizeof *c);
        _tile_loadd(1, c + 16, stride * sizeof *c);
        _tile_loadd(2, c + 16 * stride, stride * sizeof *c);
        _tile_loadd(3, c + 16 * stride + 16, stride * sizeof *c);
    }
    for (; lines; lines--, a += 2 * TILE, b += TILE) {
        _tile_stream_loadd(6, b, 64); /* streaming: it must not push the activations out of L1 */
        _tile_loadd(4, a, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_stream_loadd(7, b + group, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + TILE, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        prefetch_next(&next);
    }
    _tile_stored(0, c, stride * sizeof *c);
    _tile_stored(1, c + 16, stride * sizeof *c);
    _tile_stored(2, c + 16 * stride, stride * sizeof *c);
    _tile_stored(3, c + 16 * stride + 16, stride * sizeof *c);
    __asm__ volatile("" : : : "memory");
}

/* 16 rows by two groups, for the last rows. */
static void tile_half(const float *a, const float *b, size_t group, size_t lines, int first, float *c,
                      size_t stride) {
    __asm__ volatile("" : : : "memory");
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
    } else {
        _tile_loadd(0, c, stride * sizeof *c);
        _tile_loadd(1, c + 16, stride * sizeof *c);
    }
    for (; lines; lines--, a += 2 * TILE, b += TILE) {
        _tile_loadd(4, a, 64);
        _tile_stream_loadd(6, b, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_stream_loadd(7, b + group, 64);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, c, stride * sizeof *c);
    _tile_stored(1, c + 16, stride * sizeof *c);
    __asm__ volatile("" : : : "memory");
}

/* As tile_block in gemm_tile.h. Rows beyond `rows` are whatever the packed block holds there; nothing reads their
 * sums. The next block of rows follows this one; each pair of groups prefetches its share of it. */
static void amx_block(int rows, size_t groups, const float *a, const float *b, size_t group, size_t steps,
                      int first, float *c, size_t c_stride, const float *out, size_t out_stride) {
    size_t lines = (steps + LINE - 1) / LINE, pairs = groups / 2, share = (TILE_ROWS + pairs - 1) / pairs;
    size_t out_each = out ? (2 * TILE_ROWS + lines - 1) / lines : 0;
    for (size_t g0 = 0; g0 < groups; g0 += RUN_GROUPS)
        for (size_t k = 0; k < lines; k += RUN_LINES)
            for (size_t g = g0; g < groups && g < g0 + RUN_GROUPS; g += 2) {
                size_t run = lines - k < RUN_LINES ? lines - k : RUN_LINES;
                const float *rows_at = a + k * 2 * TILE, *weights = b + g * group + k * TILE;
                prefetch next = {.rows = rows_at + lines * 2 * TILE + g / 2 * share * 16,
                                 .rows_each = share,
                                 .out = out ? out + g * WIDTH : NULL,
                                 .out_stride = out_stride,
                                 .out_at = k * out_each,
                                 .out_each = out_each};
                if (rows > 16)
                    tile_pair(rows_at, weights, group, run, first && !k, c + g * WIDTH, c_stride, next);
                else
                    tile_half(rows_at, weights, group, run, first && !k, c + g * WIDTH, c_stride);
            }
}

#define LINEAR_BLOCK_FOR amx_block
#define LINEAR_BEGIN tiles_begin()
#define LINEAR_END _tile_release()
#define LINEAR_QUANTIZED zest_quantized_vnni
#include "kernels/cpu/gemm.h"

static int linear_either(const zest_linear *job, int threads, zest_workspace *scratch) {
    return (job->compute == ZEST_COMPUTE_BF16 || job->weight.block_type ? linear : zest_avx512_linear)(
        job, threads, scratch);
}

const zest_ops zest_ops_amx = ZEST_AVX512_TABLE(ZEST_CPU_AMX, linear_either);

/* ---- Peak ---- */

/* Two tiles of each operand, four of sums: sixteen rows of sixteen sums from sixteen pairs of bf16 each. */
double zest_peak_amx(long loops, const float *data, float *sink) {
    _Alignas(64) unsigned char config[64] = {1};
    _Alignas(64) float out[256];
    _Alignas(64) uint32_t pairs[1024]; /* of bf16: the upper halves of two floats */
    for (int i = 0; i < 1024; i++)
        pairs[i] =
            zest_dtype_float_bits(data[i]) >> 16 | (zest_dtype_float_bits(data[1023 - i]) & 0xffff0000u);
    for (int tile = 0; tile < 8; tile++) {
        config[16 + 2 * tile] = 64; /* bytes a row */
        config[48 + tile] = 16;     /* rows */
    }
    __asm__ volatile("" ::"r"(config), "r"(pairs)
                     : "memory"); /* the intrinsics do not say all that they read */
    _tile_loadconfig(config);
    _tile_loadd(4, pairs, 64);
    _tile_loadd(5, pairs + 256, 64);
    _tile_loadd(6, pairs + 512, 64);
    _tile_loadd(7, pairs + 768, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (long i = 0; i < loops / 8; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    memset(out, 0, sizeof out);
    _tile_stored(0, out, 64);
    __asm__ volatile("" ::"r"(out) : "memory");
    _tile_release();
    *sink +=
        out[0] == out[0] ? 1 : 0; /* pairs of random bits may be infinite; that does not slow the tiles */
    return 4.0 * 16 * 16 * 32 * 2 * (double)(loops / 8);
}
#endif
