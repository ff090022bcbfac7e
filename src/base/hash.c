/* SHA-1, SHA-256 and fingerprints of files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/hash.h"

static uint32_t rotate_left(uint32_t x, int n) { return x << n | x >> (32 - n); }
static uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t read_word(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* FIPS 180-4, section 6.1.2. */
static void compress_sha1(uint32_t state[8], const unsigned char *block) {
    static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int t = 0; t < 16; t++) w[t] = read_word(block + 4 * t);
    for (int t = 16; t < 80; t++) w[t] = rotate_left(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (int t = 0; t < 80; t++) {
        uint32_t f = t < 20              ? (b & c) | (~b & d)
                     : t >= 40 && t < 60 ? (b & c) | (b & d) | (c & d)
                                         : b ^ c ^ d;
        uint32_t next = rotate_left(a, 5) + f + e + constants[t / 20] + w[t];
        e = d, d = c, c = rotate_left(b, 30), b = a, a = next;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

static const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* One round of SHA-256, which leaves its results in d and h. */
static inline void round_sha256(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                                uint32_t g, uint32_t *h, uint32_t constant_and_word) {
    uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25),
             sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22),
             first = *h + sum1 + ((e & f) ^ (~e & g)) + constant_and_word;
    *d += first;
    *h = first + sum0 + ((a & b) ^ (a & c) ^ (b & c));
}

/* FIPS 180-4, section 6.2.2. The variables rotate their roles instead of their values, which repeats after eight
 * rounds. */
static void compress_sha256(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5],
                    g = state[6], h = state[7];
    for (int t = 0; t < 16; t++) w[t] = read_word(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t low = rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3,
                 high = rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + low + w[t - 7] + high;
    }
    for (int t = 0; t < 64; t += 8) {
        const uint32_t *k = sha256_constants + t, *x = w + t;
        round_sha256(a, b, c, &d, e, f, g, &h, k[0] + x[0]);
        round_sha256(h, a, b, &c, d, e, f, &g, k[1] + x[1]);
        round_sha256(g, h, a, &b, c, d, e, &f, k[2] + x[2]);
        round_sha256(f, g, h, &a, b, c, d, &e, k[3] + x[3]);
        round_sha256(e, f, g, &h, a, b, c, &d, k[4] + x[4]);
        round_sha256(d, e, f, &g, h, a, b, &c, k[5] + x[5]);
        round_sha256(c, d, e, &f, g, h, a, &b, k[6] + x[6]);
        round_sha256(b, c, d, &e, f, g, h, &a, k[7] + x[7]);
    }
    uint32_t out[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) state[i] += out[i];
}

static void compress(zest_sha *sha, const unsigned char *block) {
    if (sha->kind == ZEST_SHA_1)
        compress_sha1(sha->state, block);
    else
        compress_sha256(sha->state, block);
}

void zest_sha_begin(zest_sha *sha, zest_sha_kind kind) {
    static const uint32_t starts[2][8] = {
        {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0},
        {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
    };
    *sha = (zest_sha){.kind = kind};
    memcpy(sha->state, starts[kind], sizeof sha->state);
}

void zest_sha_add(zest_sha *sha, const void *bytes, size_t size) {
    const unsigned char *next = bytes;
    size_t used = sha->length % 64;
    sha->length += size;
    if (used + size < 64) {
        if (size) memcpy(sha->block + used, next, size);
        return;
    }
    if (used) {
        memcpy(sha->block + used, next, 64 - used);
        compress(sha, sha->block);
        next += 64 - used, size -= 64 - used;
    }
    for (; size >= 64; next += 64, size -= 64) compress(sha, next);
    if (size) memcpy(sha->block, next, size);
}

void zest_sha_end(zest_sha *sha, char hex[ZEST_SHA_HEX_SIZE]) {
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = sha->length * 8;
    size_t used = sha->length % 64;
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    zest_sha_add(sha, padding, (used < 56 ? 56 : 120) - used);
    zest_sha_add(sha, length, sizeof length);
    for (int i = 0; i < (sha->kind == ZEST_SHA_1 ? 5 : 8); i++)
        snprintf(hex + 8 * i, 9, "%08x", (unsigned)sha->state[i]);
}

enum { BLOCK = 1 << 16 };

zest_fingerprint zest_fingerprint_of(const void *bytes, size_t size) {
    return (zest_fingerprint){size, XXH3_64bits(bytes ? bytes : "", size)};
}

/* Hashes a file block by block: the same as XXH3 of its bytes at once. */
static zest_status hash_blocks(int descriptor, const char *path, size_t max_bytes, XXH3_state_t *state,
                               zest_error *error) {
    char block[BLOCK];
    for (size_t left = max_bytes; left;) {
        ssize_t got = read(descriptor, block, left < sizeof block ? left : sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", path);
        if (!got) break;
        XXH3_64bits_update(state, block, (size_t)got);
        left -= (size_t)got;
    }
    return ZEST_OK;
}

zest_status zest_fingerprint_file(const char *path, size_t max_bytes, zest_fingerprint *print,
                                  zest_error *error) {
    struct stat info;
    int descriptor;
    zest_status status = zest_file_open(path, &descriptor, error);
    if (status) return status;
    if (fstat(descriptor, &info)) {
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", path);
        close(descriptor);
        return status;
    }
    XXH3_state_t *state = XXH3_createState();
    if (!state) status = zest_error_memory(error, "a fingerprint", sizeof(zest_fingerprint));
    if (!status) {
        XXH3_64bits_reset(state);
        status = hash_blocks(descriptor, path, max_bytes, state, error);
    }
    if (!status) *print = (zest_fingerprint){(uint64_t)info.st_size, XXH3_64bits_digest(state)};
    XXH3_freeState(state);
    close(descriptor);
    return status;
}

int zest_fingerprint_same(zest_fingerprint a, zest_fingerprint b) {
    return a.bytes == b.bytes && a.hash == b.hash;
}
