/* Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (SC 2011): 128 random bits as a
 * pure function of a 128-bit counter and a 64-bit key. The same text is compiled by cc and by nvcc. */
#ifndef ZEST_RNG_PHILOX_H
#define ZEST_RNG_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define ZEST_DEVICE static __host__ __device__ __forceinline__
#else
#define ZEST_DEVICE static inline
#endif

#define ZEST_PHILOX_MULTIPLIER_0 0xD2511F53u
#define ZEST_PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define ZEST_PHILOX_WEYL_0 0x9E3779B9u
#define ZEST_PHILOX_WEYL_1 0xBB67AE85u
#define ZEST_PHILOX_ROUNDS 10

/* The upper half of a product. nvcc makes one instruction of it and the lower half, but two of a product of
 * 64 bits. */
#ifdef __CUDA_ARCH__
#define ZEST_PHILOX_HIGH(a, b) __umulhi(a, b)
#else
#define ZEST_PHILOX_HIGH(a, b) ((uint32_t)((uint64_t)(a) * (b) >> 32))
#endif

typedef struct {
    uint32_t word[4];
} zest_philox_block;

ZEST_DEVICE zest_philox_block zest_philox(zest_philox_block counter, uint64_t key) {
    uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < ZEST_PHILOX_ROUNDS; round++) {
        uint32_t low0 = ZEST_PHILOX_MULTIPLIER_0 * c0, high0 = ZEST_PHILOX_HIGH(ZEST_PHILOX_MULTIPLIER_0, c0);
        uint32_t low1 = ZEST_PHILOX_MULTIPLIER_1 * c2, high1 = ZEST_PHILOX_HIGH(ZEST_PHILOX_MULTIPLIER_1, c2);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += ZEST_PHILOX_WEYL_0;
        k1 += ZEST_PHILOX_WEYL_1;
    }
    zest_philox_block out = {{c0, c1, c2, c3}};
    return out;
}

/* What a counter is used for: its third word. One seed so feeds several independent streams. */
enum {
    ZEST_STREAM_NORMAL = 0, /* element i: word i%4 of counter i/4 */
    ZEST_STREAM_SIGN = 1,   /* element i: bit i%32 of word (i/32)%4 of counter i/128 */
    ZEST_STREAM_RADIUS = 2, /* the two further normals of the ball */
    ZEST_STREAM_ROUND = 3,  /* element i: half-word i%8 of counter i/8, low half first */
};

ZEST_DEVICE zest_philox_block zest_philox_at(uint64_t key, uint32_t stream, uint64_t position) {
    zest_philox_block counter = {{(uint32_t)position, (uint32_t)(position >> 32), stream, 0}};
    return zest_philox(counter, key);
}

#endif
