#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "kernels/peak.h"

/* Two tiles of each operand, four of sums: sixteen rows of sixteen sums from sixteen pairs of bf16 each. */
double zest_ceiling_amx(long loops, const float *data, float *sink) {
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
